"""Consumable capacity (KEP-5075): who still finds room. The numbers are those of the KEP's examples and of a recording of the
real scheduler. How much a request takes, and from what, is held to Kubernetes' own answers in test_against_kubernetes.py."""

from typing import Any

from dds_core.matching.allocator import Allocator
from tests.core.matching.given import NODE, allocator, claim, device, devices, exactly, hold, slice_of

VALUES = {"default": "5Gi", "validValues": ["5Gi", "10Gi", "20Gi", "40Gi"]}
NIC = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}


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
