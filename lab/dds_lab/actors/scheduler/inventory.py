"""The devices of the cluster as the scheduler keeps them, in front of `dds_core.matching`.

It remembers for which kind of claims a node had nothing, until something there is given back or changes; nodes that have the same
pools left are one case. So pods that wait for devices do not have every node searched again for each of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

from dds_core.matching.allocator import Allocator, Claim, DeviceClass, Gates, InUse, Slice, TaintRule
from dds_core.matching.claims import EXACT_COUNT
from dds_core.matching.pools import Pool
from dds_lab.actors.scheduler.nodes import Node
from dds_lab.client import Object

NOTHING = "cannot allocate all claims"
BARREN_KEPT = 65536


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """A claim to allocate, made ready. `kind` is equal for claims that ask for the same; a `plain` one asks for counted devices
    of its own, so that devices in use are nothing to it."""

    claim: Claim
    kind: str
    plain: bool


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """What a node offers: an allocation for each claim in their order, and how early in their lists the alternatives are.
    With a `reason` it offers nothing."""

    allocations: tuple[Callable[[], Object], ...] = ()
    score: int = 0
    reason: str = ""


_NOTHING = Chosen(reason=NOTHING)


@dataclass(frozen=True, slots=True, eq=False)
class _Room:
    """The pools of a node that have a free device, and, where some are its own, how often it gained."""

    pools: tuple[Pool, ...]
    gained: int


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
        self.gains = 0
        """Counts whatever may let a claim have devices that could not have them before."""
        self._gained_everywhere = 0
        self._gained_on: dict[str, int] = {}
        self._slices_changed = 0
        self._rooms: dict[str, tuple[tuple[int, int, int], _Room]] = {}
        self._barren: dict[tuple[tuple[str, ...], tuple[Pool, ...]], tuple[int, int]] = {}

    # -- what is there

    def put_slice(self, obj: Object) -> None:
        found = Slice.from_object(obj)
        if found.node:
            self._local_pools[found.driver, found.pool] = found.node
        self._allocator.put_slice(found)
        self._slice_changed(found.driver, found.pool)

    def drop_slice(self, obj: Object) -> None:
        spec = obj["spec"]
        self._allocator.remove_slice(obj["metadata"]["name"])
        self._slice_changed(spec["driver"], spec["pool"]["name"])

    def put_class(self, obj: Object) -> None:
        self._classes.add(obj["metadata"]["name"])
        self._allocator.put_class(DeviceClass.from_object(obj))
        self._gained_anywhere()

    def drop_class(self, name: str) -> None:
        self._classes.discard(name)
        self._allocator.remove_class(name)
        self._gained_anywhere()

    def has_class(self, name: str) -> bool:
        return name in self._classes

    def put_rule(self, obj: Object) -> None:
        self._allocator.put_rule(TaintRule.from_object(obj))
        self._gained_anywhere()

    def drop_rule(self, name: str) -> None:
        self._allocator.remove_rule(name)
        self._gained_anywhere()

    # -- what is in use

    def use(self, uid: str, allocation: Object) -> None:
        """The claim holds these devices."""
        self._holders[uid] = allocation
        self._in_use.add(allocation)

    def free(self, uid: str) -> None:
        """The claim holds nothing any more."""
        allocation = self._holders.pop(uid)
        self._in_use.remove(allocation)
        for driver, pool in {(one["driver"], one["pool"]) for one in allocation["devices"].get("results") or ()}:
            self._gained(driver, pool)

    # -- the choice

    def wanted(self, claim: Object) -> Wanted:
        """The claim, made ready; kept for claims that exist, whose spec cannot change."""
        uid = claim["metadata"].get("uid", "")
        found = self._wanted.get(uid)
        if found is None:
            made = Claim.from_object(claim)
            asked = [one for request in made.requests for one in request.alternatives]
            plain = all(one.mode == EXACT_COUNT and not one.admin for one in asked)
            found = Wanted(made, json.dumps(claim["spec"], sort_keys=True), plain)
            if uid:
                self._wanted[uid] = found
        return found

    def forget(self, uid: str) -> None:
        """The claim is gone."""
        self._wanted.pop(uid, None)

    def choose(self, node: Node, wanted: Sequence[Wanted], kind: tuple[str, ...]) -> Chosen:
        """Devices for the claims, which are of this kind, on the node; AllocationError when the pod cannot be served as things
        are."""
        room = self._room(node)
        state = (self._gained_everywhere, room.gained)
        if self._barren.get((kind, room.pools)) == state:
            return _NOTHING
        found = self._allocator.allocate(node.choice, [one.claim for one in wanted])
        if found:
            return Chosen(tuple(one.to_object for one in found.allocations), found.score)
        if found.reason == NOTHING and all(one.plain for one in wanted):
            self._remember(kind, node, state)
        return Chosen(reason=found.reason)

    def _room(self, node: Node) -> _Room:
        """What the node can have anything of, as of its last change for the better."""
        gained = self._gained_on.get(node.name, 0)
        state = (node.version, gained, self._slices_changed)
        known = self._rooms.get(node.name)
        if known is None or known[0] != state:
            known = self._rooms[node.name] = (state, self._looked(node, gained))
        return known[1]

    def _looked(self, node: Node, gained: int) -> _Room:
        takes = self._in_use.takes
        pools = tuple(
            pool
            for pool in self._allocator.reachable(node.choice)
            if any(one.device.shared or not takes(one.key) for one in pool.candidates)
        )
        own = any(pool.key in self._local_pools for pool in pools)
        return _Room(pools, gained if own else 0)

    def _remember(self, kind: tuple[str, ...], node: Node, state: tuple[int, int]) -> None:
        """That this node, and whoever has nothing else left, has nothing for claims of the kind."""
        gained = self._gained_on.get(node.name, 0)
        room = self._looked(node, gained)
        self._rooms[node.name] = ((node.version, gained, self._slices_changed), room)
        if len(self._barren) >= BARREN_KEPT:
            self._barren.clear()
        self._barren[kind, room.pools] = (state[0], room.gained)

    # -- changes for the better

    def _slice_changed(self, driver: str, pool: str) -> None:
        if (driver, pool) not in self._local_pools:
            self._slices_changed += 1
        self._gained(driver, pool)

    def _gained(self, driver: str, pool: str) -> None:
        """What had nothing may have something now: the node whose pool it is, or every node."""
        node = self._local_pools.get((driver, pool))
        if node is None:
            self._gained_anywhere()
        else:
            self.gains += 1
            self._gained_on[node] = self._gained_on.get(node, 0) + 1

    def _gained_anywhere(self) -> None:
        self.gains += 1
        self._gained_everywhere += 1
