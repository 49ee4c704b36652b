"""The devices of the cluster as the scheduler keeps them, in front of `dds_core.matching`.

It remembers for which kind of claims a node had nothing, until something there is given back or changes, so that pods that wait
for devices do not have every node searched again for each of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from dds_adapters.lab.actors.scheduler.nodes import Node
from dds_core.matching.allocator import Allocator, Claim, DeviceClass, Gates, InUse, Slice, TaintRule

Object = dict[str, Any]

NOTHING = "cannot allocate all claims"


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """A claim to allocate, made ready. `kind` is equal for claims that ask for the same."""

    claim: Claim
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """What a node offers: an allocation for each claim in their order, and how early in their lists the alternatives are.
    With a `reason` it offers nothing."""

    allocations: tuple[Callable[[], Object], ...] = ()
    score: int = 0
    reason: str = ""


_NOTHING = Chosen(reason=NOTHING)


class Inventory:
    """Slices, classes and taint rules, and what is in use."""

    def __init__(self, gate: Callable[[str], bool], random: Random) -> None:
        self._in_use = InUse()
        self._holders: dict[str, Object] = {}
        self._allocator = Allocator(
            in_use=self._in_use,
            gates=Gates.read(gate),
            share_id=lambda: str(UUID(int=random.getrandbits(128), version=4)),
        )
        self._classes: set[str] = set()
        self._wanted: dict[str, Wanted] = {}
        self._local_pools: dict[tuple[str, str], str] = {}
        self._changed_everywhere = 0
        self._changed_on: dict[str, int] = {}
        self._barren: dict[tuple[str, ...], dict[str, tuple[int, int, int]]] = {}

    # -- what is there -------------------------------------------------------------------------------------------

    def put_slice(self, obj: Object) -> None:
        found = Slice.from_object(obj)
        if found.node:
            self._local_pools[found.driver, found.pool] = found.node
        self._allocator.put_slice(found)
        self._changed(found.driver, found.pool)

    def drop_slice(self, obj: Object) -> None:
        spec = obj["spec"]
        self._allocator.remove_slice(obj["metadata"]["name"])
        self._changed(spec["driver"], spec["pool"]["name"])

    def put_class(self, obj: Object) -> None:
        self._classes.add(obj["metadata"]["name"])
        self._allocator.put_class(DeviceClass.from_object(obj))
        self._changed_everywhere += 1

    def drop_class(self, name: str) -> None:
        self._classes.discard(name)
        self._allocator.remove_class(name)
        self._changed_everywhere += 1

    def has_class(self, name: str) -> bool:
        return name in self._classes

    def put_rule(self, obj: Object) -> None:
        self._allocator.put_rule(TaintRule.from_object(obj))
        self._changed_everywhere += 1

    def drop_rule(self, name: str) -> None:
        self._allocator.remove_rule(name)
        self._changed_everywhere += 1

    # -- what is in use ------------------------------------------------------------------------------------------

    def use(self, uid: str, allocation: Object) -> None:
        """The claim holds these devices."""
        self._holders[uid] = allocation
        self._in_use.add(allocation)

    def free(self, uid: str) -> None:
        """The claim holds nothing any more."""
        allocation = self._holders.pop(uid)
        self._in_use.remove(allocation)
        for driver, pool in {(one["driver"], one["pool"]) for one in allocation["devices"].get("results") or ()}:
            self._changed(driver, pool)

    # -- the choice ----------------------------------------------------------------------------------------------

    def wanted(self, claim: Object) -> Wanted:
        """The claim, made ready; kept for claims that exist, whose spec cannot change."""
        uid = claim["metadata"].get("uid", "")
        found = self._wanted.get(uid)
        if found is None:
            found = Wanted(Claim.from_object(claim), json.dumps(claim["spec"], sort_keys=True))
            if uid:
                self._wanted[uid] = found
        return found

    def forget(self, uid: str) -> None:
        """The claim is gone."""
        self._wanted.pop(uid, None)

    def choose(self, node: Node, wanted: Sequence[Wanted]) -> Chosen:
        """Devices for the claims on the node; AllocationError when the pod cannot be served as things are."""
        kind = tuple(one.kind for one in wanted)
        state = (node.version, self._changed_on.get(node.name, 0), self._changed_everywhere)
        barren = self._barren.get(kind)
        if barren is not None and barren.get(node.name) == state:
            return _NOTHING
        found = self._allocator.allocate(node.choice, [one.claim for one in wanted])
        if found:
            return Chosen(tuple(one.to_object for one in found.allocations), found.score)
        if found.reason == NOTHING:
            self._barren.setdefault(kind, {})[node.name] = state
        return Chosen(reason=found.reason)

    def _changed(self, driver: str, pool: str) -> None:
        """What had nothing may have something now: the node whose pool it is, or every node."""
        node = self._local_pools.get((driver, pool))
        if node is None:
            self._changed_everywhere += 1
        else:
            self._changed_on[node] = self._changed_on.get(node, 0) + 1
