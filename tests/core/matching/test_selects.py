"""Whether a claim could ever want a device: a careful answer, for who thinks of taking it away."""

import pytest

from dds_core.model import DeviceKey
from tests.core.matching.given import (
    GPU,
    allocator,
    asked,
    claim,
    class_of,
    device,
    exactly,
    first_of,
    holding,
    slice_of,
)

BIG = f"device.attributes['{GPU}'].model == 'big'"
SMALL = f"device.attributes['{GPU}'].model == 'small'"
KEY = (GPU, "node0", "d0")
BARE = (GPU, "node0", "bare")


@pytest.mark.parametrize(
    ("request_", "key", "could"),
    [
        (exactly(), KEY, True),
        (exactly("gpu", BIG), KEY, True),
        (exactly("gpu", SMALL), KEY, False),
        (exactly(device_class="small"), KEY, False),
        (exactly(count=99), KEY, True),
        (first_of("gpu", small=asked(SMALL), big=asked(BIG)), KEY, True),
        (first_of("gpu", small=asked(SMALL), no=asked("false")), KEY, False),
        (exactly(device_class="unknown"), KEY, True),
        (exactly("gpu", SMALL), BARE, True),  # the selector fails on it
        (exactly("gpu", "not cel"), KEY, True),
        (exactly("gpu", "false"), (GPU, "node0", "unknown"), True),
        (exactly("gpu", "false"), (GPU, "unknown", "d0"), True),
    ],
)
def test_what_could_be_wanted(request_: dict[str, object], key: DeviceKey, could: bool) -> None:
    slices = slice_of(device("d0", {"model": "big"}), "bare")
    chosen = allocator(slices, classes=[class_of("small", SMALL)], in_use=holding(KEY))
    assert chosen.selects(claim(request_), key) is could


def test_one_request_that_could_is_enough() -> None:
    chosen = allocator(slice_of(device("d0", {"model": "big"})))
    assert chosen.selects(claim(exactly("a", SMALL), exactly("b", BIG)), KEY)
    assert not chosen.selects(claim(exactly("a", SMALL), exactly("b", SMALL)), KEY)
