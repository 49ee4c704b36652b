"""Feature gates of the scheduler: what is off is refused, skipped or not obeyed."""

import pytest

from dds_core.matching.allocator import AllocationError, Gates
from tests.core.matching.given import NODE, allocator, asked, claim, device, devices, exactly, first_of, slice_of


@pytest.mark.parametrize(
    ("gates", "request_", "said"),
    [
        (Gates(prioritized_list=False), first_of("gpu", one=asked()), "has subrequests, but DRAPrioritizedList is off"),
        (
            Gates(consumable_capacity=False),
            exactly(capacity={"m": "1"}),
            "has capacity requests, but DRAConsumableCapacity is off",
        ),
        (
            Gates(consumable_capacity=False),
            first_of("gpu", one=asked(), two=asked(capacity={})),
            "request gpu/two: has capacity requests",
        ),
        (Gates(admin_access=False), exactly(adminAccess=True), "admin access is requested, but DRAAdminAccess is off"),
        (Gates(admin_access=False), exactly(adminAccess=False), "admin access is requested"),
    ],
)
def test_a_request_that_needs_a_gate_is_refused_without_it(
    gates: Gates, request_: dict[str, object], said: str
) -> None:
    assert allocator(slice_of(device("d", capacity={"m": "1"}))).allocate(NODE, [claim(request_)])
    with pytest.raises(AllocationError, match=said):
        allocator(slice_of("d"), gates=gates).allocate(NODE, [claim(request_)])


def test_without_taints_nothing_is_kept_away() -> None:
    bad = slice_of(device("bad", taints=[{"key": "k", "effect": "NoExecute"}]))
    assert devices(allocator(bad, gates=Gates(device_taints=False)).allocate(NODE, [claim()])) == ["bad"]


def test_gates_are_read_by_the_names_of_kubernetes() -> None:
    asked_for: list[str] = []

    def on(name: str) -> bool:
        asked_for.append(name)
        return name != "DRADeviceTaintRules"

    assert Gates.read(on) == Gates()
    assert all(name.startswith("DRA") for name in asked_for)
    assert Gates.read(lambda name: name != "DRADeviceTaints") == Gates(device_taints=False, device_taint_rules=False)
