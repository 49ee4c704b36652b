"""Consumable capacity (KEP-5075): how much a request takes, and who still finds room. The numbers are those of the KEP's
examples and of a recording of the real scheduler."""

from typing import Any

import pytest

from dds_core.matching.allocator import Allocator
from dds_core.matching.from_api import read_device
from dds_core.matching.usage import consumption
from tests.core.matching.given import NODE, allocator, claim, device, devices, exactly, hold, slice_of

STEPS = {"default": "1Mi", "validRange": {"min": "1Mi", "step": "8"}}
VALUES = {"default": "5Gi", "validValues": ["5Gi", "10Gi", "20Gi", "40Gi"]}
NIC = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}


def taken(value: str, policy: dict[str, Any] | None, request: str | None) -> str | None:
    """What a request takes of a capacity; None when it cannot be had at all."""
    capacity: dict[str, Any] = {"value": value}
    if policy is not None:
        capacity["requestPolicy"] = policy
    found = read_device(device("d", capacity={"memory": capacity}))
    amounts = consumption({} if request is None else {"memory": request}, found)
    return None if amounts is None else str(amounts["memory"])


@pytest.mark.parametrize(
    ("value", "policy", "request_", "amount"),
    [
        ("10Gi", STEPS, "5Gi", "5Gi"),  # on the grid from 1Mi in steps of 8 bytes
        ("10Gi", STEPS, None, "1Mi"),
        ("10Gi", STEPS, "1", "1Mi"),
        ("10Gi", STEPS, "1048577", "1048584"),
        ("40Gi", VALUES, "7Gi", "10Gi"),
        ("40Gi", VALUES, "10Gi", "10Gi"),
        ("40Gi", VALUES, "41Gi", None),
        ("40Gi", VALUES, None, "5Gi"),
        ("40Gi", None, None, "40Gi"),  # nothing asked and no policy: all of it
        ("40Gi", None, "7Gi", "7Gi"),  # as it is
        ("40Gi", None, "1024Mi", "1Gi"),
        ("10Gi", NIC, "2500Mi", "3Gi"),
        ("10Gi", NIC, "4Gi", "4Gi"),
        ("10Gi", NIC, None, "1Gi"),
        ("10Gi", {"default": "2", "validRange": {"min": "2", "max": "8"}}, "3", "3"),  # no step: as it is
        ("10Gi", {"default": "2", "validRange": {"min": "2", "max": "8"}}, "1", "2"),
        ("10Gi", {"default": "2", "validRange": {"min": "2", "max": "8"}}, "9", None),
        (
            "10",
            {"default": "1", "validRange": {"min": "1", "max": "7", "step": "2"}},
            "1500m",
            "3",
        ),  # a fraction is one more
        ("10", {"default": "1", "validRange": {"min": "1", "max": "7", "step": "3"}}, "6", "7"),
        (
            "10",
            {"default": "1", "validRange": {"min": "1", "max": "6", "step": "2"}},
            "6",
            None,
        ),  # 7 is over the maximum
    ],
)
def test_the_amount_that_a_request_takes(
    value: str, policy: dict[str, Any] | None, request_: str | None, amount: str | None
) -> None:
    assert taken(value, policy, request_) == amount


def test_a_default_is_always_legal() -> None:
    policy = {"default": "3", "validRange": {"min": "2", "max": "8", "step": "2"}}
    assert taken("10", policy, None) == "3"
    assert taken("10", policy, "3") == "4"


def test_a_capacity_that_the_device_lacks_cannot_be_had() -> None:
    found = read_device(device("d", capacity={"memory": "1Gi"}))
    assert consumption({"bandwidth": "1"}, found) is None


def test_names_are_compared_as_they_are_written() -> None:
    found = read_device(device("d", capacity={"gpu.example.com/memory": "1Gi"}))
    assert consumption({"memory": "1"}, found) is None


# -- sharing a device ----------------------------------------------------------------------------------------


def shared(name: str, policy: dict[str, Any] | None, value: str = "10Gi", **more: Any) -> dict[str, Any]:
    capacity: dict[str, Any] = {"value": value} | ({"requestPolicy": policy} if policy else {})
    return device(name, capacity={"memory": capacity}, allowMultipleAllocations=True, **more)


def serve(chosen: Allocator, *amounts: str | None) -> list[tuple[str, str] | None]:
    """Ask for one share after the other; each time the device and what is consumed, None when there is nothing."""
    found: list[tuple[str, str] | None] = []
    for amount in amounts:
        capacity = None if amount is None else {"memory": amount}
        fit = chosen.allocate(NODE, [claim(exactly(capacity=capacity))])
        hold(chosen, fit)
        found.append((devices(fit)[0], fit.allocations[0].results[0].consumed["memory"]) if fit else None)
    return found


def test_four_times_ten_of_forty_fit() -> None:
    chosen = allocator(slice_of(shared("gpu", VALUES, "40Gi")))
    assert serve(chosen, "7Gi", "10Gi", "6Gi", "9Gi", "1Gi") == [("gpu", "10Gi")] * 4 + [None]


def test_the_recorded_shares() -> None:
    """4Gi, 2500Mi (takes 3Gi) and none (takes 1Gi) go on the first device; 6Gi and 4Gi fill the next; 11Gi never fits."""
    chosen = allocator(slice_of(shared("nic-0", NIC), shared("nic-1", NIC), shared("nic-2", NIC)))
    wanted = ["4Gi", "2500Mi", None, "6Gi", "4Gi", "9Gi", "11Gi"]
    found = serve(chosen, *wanted)
    assert found == [
        ("nic-0", "4Gi"), ("nic-0", "3Gi"), ("nic-0", "1Gi"), ("nic-1", "6Gi"), ("nic-1", "4Gi"), ("nic-2", "9Gi"), None,
    ]  # fmt: skip


def test_every_share_has_an_id_of_its_own_and_all_capacities() -> None:
    both = {
        "memory": {"value": "10Gi", "requestPolicy": NIC},
        "slots": {"value": "4", "requestPolicy": {"default": "0"}},
    }
    chosen = allocator(slice_of(device("gpu", capacity=both, allowMultipleAllocations=True)))
    for number in (1, 2):
        fit = chosen.allocate(NODE, [claim(exactly(capacity={"memory": "2Gi"}))])
        hold(chosen, fit)
        written = fit.allocations[0].to_object()["devices"]["results"][0]
        assert written["shareID"] == f"share-{number}"
        assert written["consumedCapacity"] == {"memory": "2Gi", "slots": "0"}


def test_a_share_that_is_given_back_leaves_room() -> None:
    chosen = allocator(slice_of(shared("gpu", NIC)))
    first = chosen.allocate(NODE, [claim(exactly(capacity={"memory": "10Gi"}))])
    hold(chosen, first)
    assert serve(chosen, "1Gi") == [None]
    chosen.in_use.remove(first.allocations[0].to_object())
    assert serve(chosen, "1Gi") == [("gpu", "1Gi")]


def test_two_requests_of_a_claim_may_share_a_device_but_not_two_of_one_request() -> None:
    chosen = allocator(slice_of(shared("gpu-0", NIC), shared("gpu-1", NIC)))
    apart = claim(exactly("a", capacity={"memory": "1Gi"}), exactly("b", capacity={"memory": "1Gi"}))
    assert devices(chosen.allocate(NODE, [apart])) == ["gpu-0", "gpu-0"]
    assert devices(chosen.allocate(NODE, [claim(exactly(count=2))])) == ["gpu-0", "gpu-1"]
    assert not chosen.allocate(NODE, [claim(exactly(count=3))])


def test_what_one_allocation_takes_counts_at_once() -> None:
    """The claims of one pod are accounted together with those in use."""
    chosen = allocator(slice_of(shared("gpu", NIC)))
    six = claim(exactly(capacity={"memory": "6Gi"}))
    assert serve(chosen, "4Gi") == [("gpu", "4Gi")]
    assert devices(chosen.allocate(NODE, [six])) == ["gpu"]
    assert not chosen.allocate(NODE, [six, claim(exactly(capacity={"memory": "1Gi"}), name="other")])


def test_a_device_that_is_not_shared_is_only_filtered_by_capacity() -> None:
    whole = allocator(
        slice_of(device("small", capacity={"memory": "10Gi"}), device("large", capacity={"memory": "40Gi"}))
    )
    fit = whole.allocate(NODE, [claim(exactly(capacity={"memory": "20Gi"}))])
    assert devices(fit) == ["large"]
    assert fit.allocations[0].to_object()["devices"]["results"] == [
        {"request": "gpu", "driver": "gpu.example.com", "pool": "node0", "device": "large"}
    ]
    hold(whole, fit)
    assert not whole.allocate(NODE, [claim(exactly(capacity={"memory": "1Gi"}, count=2))])


def test_a_device_without_capacities_can_be_shared_without_end() -> None:
    chosen = allocator(slice_of(device("gpu", allowMultipleAllocations=True)))
    for _ in range(3):
        fit = chosen.allocate(NODE, [claim()])
        assert devices(fit) == ["gpu"]
        assert "consumedCapacity" not in fit.allocations[0].to_object()["devices"]["results"][0]
        hold(chosen, fit)
