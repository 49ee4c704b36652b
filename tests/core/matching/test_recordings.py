"""What the real scheduler chose, chosen again: every allocation of every recording, from what there was at that moment.

The node is taken from the recording (nodes that are equal are drawn at random); devices, shares' amounts, conditions and node
selectors must be the same. A scheduler writes several allocations at a time, and the writes may overtake each other: what was
chosen just before and written just after was in use already.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes import read_recording
from dds_core.matching.allocator import Allocator
from dds_core.matching.from_api import read_claim, read_class, read_node, read_slice
from dds_core.matching.quantities import parse
from dds_core.model import Claim, Node

Object = dict[str, Any]
RECORDINGS = sorted((Path(__file__).parents[2] / "data" / "recordings").glob("*.jsonl.gz"))
OVERTAKEN = 100_000
"""Microseconds within which one write may have overtaken another."""

ALLOCATIONS = {
    "attach_failure": 2, "binding_timeout": 3, "burst": 58, "coexistence": 4, "cordoned": 3, "extended_resource": 2,
    "first_attach": 3, "first_available": 2, "many_devices": 4, "node_limit": 25, "node_lost": 3, "pool_exhausted": 3,
    "preempted": 2, "ready_mode": 1, "scheduler_restart": 1, "shares": 6, "two_claims": 5, "two_requests": 2, "withdrawn": 1,
}  # fmt: skip
"""How many allocations each recording holds: none may be left out."""


def name_of(path: Path) -> str:
    return path.name.split(".")[0]


class World:
    """What the scheduler has seen so far."""

    def __init__(self) -> None:
        self.allocator = Allocator(share_id=lambda: "share")
        self.nodes: dict[str, Node] = {}
        self.classes: dict[str, Object] = {}
        self.allocations: dict[str, Object] = {}

    def see(self, resource: str, kind: str, thing: Object) -> Object | None:
        """Take an event in; what a claim was given, if it was given something now."""
        name, gone = thing["metadata"]["name"], kind == "DELETED"
        if resource == "resourceslices" and gone:
            self.allocator.remove_slice(name)
        elif resource == "resourceslices":
            self.allocator.put_slice(read_slice(thing))
        elif resource == "deviceclasses":
            self.classes[name] = thing
            self.allocator.put_class(read_class(thing))
        elif resource == "nodes":
            self.nodes[name] = read_node(thing)
        elif resource == "resourceclaims":
            return self._see_claim(thing, gone)
        return None

    def _see_claim(self, claim: Object, gone: bool) -> Object | None:
        uid = claim["metadata"]["uid"]
        old = self.allocations.pop(uid, None)
        new = None if gone else (claim.get("status") or {}).get("allocation")
        if old:
            self.allocator.in_use.remove(old)
        if new:
            self.allocations[uid] = new
            self.allocator.in_use.add(new)
        return new if new and not old else None

    def choose_again(self, claim: Object, allocation: Object, overtaken: list[Object]) -> Object:
        """What the claim gets now, from what there was before it got anything."""
        in_use = self.allocator.in_use
        in_use.remove(allocation)
        for each in overtaken:
            in_use.add(each)
        fit = self.allocator.allocate(self.nodes[node_of(allocation)], [read_claim(claim)])
        for each in overtaken:
            in_use.remove(each)
        in_use.add(allocation)
        assert fit, fit.reason
        return compared(fit.allocations[0].to_object(claim, self.classes))


def node_of(allocation: Object) -> str:
    """All that was recorded is bound to one node."""
    (term,) = allocation["nodeSelector"]["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    (node,) = field["values"]
    return str(node)


def compared(allocation: Object) -> Object:
    """An allocation without its time and the identifiers of shares."""
    found: Object = json.loads(json.dumps(allocation))
    found.pop("allocationTimestamp", None)
    for result in found["devices"]["results"]:
        if "shareID" in result:
            result["shareID"] = "share"
    return found


def steps(path: Path) -> Iterator[tuple[World, Object, Object, list[Object]]]:
    """Every allocation: the world, the claim, what it was given, and what others were given right after."""
    events = [(event.at, event.resource, event.type, json.loads(event.raw)) for event in read_recording(path)]
    given: list[tuple[int, Object]] = []
    dry = World()
    for at, resource, kind, thing in events:
        allocation = dry.see(resource, kind, thing) if kind != "BOOKMARK" else None
        if allocation:
            given.append((at, allocation))
    world = World()
    for at, resource, kind, thing in events:
        allocation = world.see(resource, kind, thing) if kind != "BOOKMARK" else None
        if allocation:
            later = [other for when, other in given if at < when <= at + OVERTAKEN]
            yield world, thing, allocation, later


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_the_same_devices_are_chosen(path: Path) -> None:
    found = 0
    for world, claim, allocation, later in steps(path):
        recorded = compared(allocation)
        chosen = world.choose_again(claim, allocation, [])
        if chosen != recorded:
            chosen = world.choose_again(claim, allocation, later)
        assert chosen == recorded
        found += 1
    assert found == ALLOCATIONS[name_of(path)]


def test_one_choice_of_all_was_overtaken() -> None:
    """burst: the write of burst-016 (gpu-0) came 4 ms after that of burst-031, which was chosen later (gpu-1)."""
    overtaken = [
        claim["metadata"]["name"]
        for path in RECORDINGS
        for world, claim, allocation, _ in steps(path)
        if world.choose_again(claim, allocation, []) != compared(allocation)
    ]
    assert overtaken == ["burst-031"]


def test_the_recorded_share_that_never_fits() -> None:
    """shares: 11Gi of a NIC of 10Gi, on no node at any moment."""
    world = World()
    never: list[Claim] = []
    for event in read_recording(next(path for path in RECORDINGS if name_of(path) == "shares")):
        if event.type == "BOOKMARK":
            continue
        thing = json.loads(event.raw)
        world.see(event.resource, event.type, thing)
        if event.resource == "resourceclaims" and event.type == "ADDED":
            never += [each for each in [read_claim(thing)] if _amount(each) == parse("11Gi").nanos]
        for claim in never:
            assert not any(world.allocator.allocate(node, [claim]) for node in world.nodes.values())
    assert len(never) == 1


def _amount(claim: Claim) -> int:
    amounts = [amount for request in claim.requests for amount in request.alternatives[0].capacity.values()]
    return max((parse(amount).nanos for amount in amounts), default=0)
