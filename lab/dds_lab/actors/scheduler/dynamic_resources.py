"""The scheduler's DynamicResources plugin: which claims a pod needs, whether and how well a node can serve them, and the
inventory of the cluster's devices. `dds_core.matching` chooses the devices.

The inventory remembers which kinds of claims a node could not serve, until a device is freed or the node or a slice changes.
Nodes with the same remaining pools share one entry. So the allocator does not search every node again for each waiting pod. This
module never writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from uuid import UUID

from dds_core.matching.allocator import Allocator, Gates, InUse, Tables
from dds_core.matching.from_api import read_claim, read_class, read_device, read_rule, slice_with
from dds_core.matching.pools import Pool
from dds_core.model import Claim, Device, Slice
from dds_lab.actors.objects import allocation_of, reservations
from dds_lab.actors.scheduler.claim_cache import (
    FAILED,
    MOST_RESERVATIONS,
    TIMED_OUT,
    ClaimCache,
    ExtendedResources,
    is_reserved_for,
    is_special,
    readiness,
    special_claim,
)
from dds_lab.actors.scheduler.feasibility import Refusal, node_selects
from dds_lab.actors.scheduler.node_cache import Node
from dds_lab.actors.scheduler.pods import Object, Pod

PLUGIN = "DynamicResources"
NOT_AVAILABLE = Refusal(PLUGIN, ("resourceclaim not available on the node",))
CANNOT_ALLOCATE = Refusal(PLUGIN, ("cannot allocate all claims",))
NOTHING = "cannot allocate all claims"
BARREN_KEPT = 65536


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """A claim to allocate, as it is written and parsed. `kind`: equal for claims that ask for the same. `plain`: it asks only for
    counts of devices without admin access, so a device in use cannot serve it."""

    written: Object
    claim: Claim
    kind: str
    plain: bool


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """What a node offers: an allocation for each claim, in order, and a score (the earlier the alternatives are in their lists,
    the higher). With a `reason` it offers nothing."""

    allocations: tuple[Callable[[], Object], ...] = ()
    score: int = 0
    reason: str = ""


_NOTHING = Chosen(reason=NOTHING)
_NO_DEVICE: tuple[Object, Device] = ({}, Device())


@dataclass(frozen=True, slots=True, eq=False)
class _Room:
    """The pools that the node reaches and that have a free device. `gained`: the node's gains so far, 0 if no pool is its
    own."""

    pools: tuple[Pool, ...]
    gained: int


class Inventory:
    """Slices, classes and taint rules, and the devices in use."""

    def __init__(self, gates: Gates, random: Random) -> None:
        self._in_use = InUse()
        self._allocator = Allocator(
            in_use=self._in_use,
            gates=gates,
            share_id=lambda: str(UUID(int=random.getrandbits(128), version=4)),
        )
        self._classes: dict[str, Object] = {}
        self._devices: dict[str, dict[str, tuple[Object, Device]]] = {}  # slice → device → written, parsed
        self._wanted: dict[str, Wanted] = {}
        self._local_pools: dict[tuple[str, str], str] = {}
        self.gains = 0  # counts changes that may let a claim get devices
        self._gained_everywhere = 0
        self._gained_on: dict[str, int] = {}
        self._slices_changed = 0
        self._rooms: dict[str, tuple[tuple[int, int, int], _Room]] = {}
        self._barren: dict[tuple[tuple[str, ...], tuple[Pool, ...]], tuple[int, int]] = {}

    def put_slice(self, obj: Object) -> None:
        found = self._read(obj)
        if found.node:
            self._local_pools[found.driver, found.pool] = found.node
        self._allocator.put_slice(found)
        self._slice_changed(found.driver, found.pool)

    def _read(self, obj: Object) -> Slice:
        """Parse a slice. A device that is the same object as in the version before is not parsed again."""
        name, spec = obj["metadata"]["name"], obj["spec"]
        known = self._devices.get(name, {})
        devices = {}
        for each in spec.get("devices") or ():
            written, read = known.get(each["name"], _NO_DEVICE)
            devices[each["name"]] = (each, read if written is each else read_device(each))
        self._devices[name] = devices
        return slice_with(obj, {device: read for device, (_, read) in devices.items()})

    def drop_slice(self, obj: Object) -> None:
        spec = obj["spec"]
        self._devices.pop(obj["metadata"]["name"], None)
        self._allocator.remove_slice(obj["metadata"]["name"])
        self._slice_changed(spec["driver"], spec["pool"]["name"])

    def put_class(self, obj: Object) -> None:
        self._classes[obj["metadata"]["name"]] = obj
        self._allocator.put_class(read_class(obj))
        self._gained_anywhere()

    def drop_class(self, name: str) -> None:
        self._classes.pop(name, None)
        self._allocator.remove_class(name)
        self._gained_anywhere()

    def has_class(self, name: str) -> bool:
        return name in self._classes

    def put_rule(self, obj: Object) -> None:
        self._allocator.put_rule(read_rule(obj))
        self._gained_anywhere()

    def drop_rule(self, name: str) -> None:
        self._allocator.remove_rule(name)
        self._gained_anywhere()

    def use(self, result: Object) -> None:
        self._in_use.add({"devices": {"results": [result]}})

    def free(self, result: Object) -> None:
        self._in_use.remove({"devices": {"results": [result]}})
        self._gained(result["driver"], result["pool"])

    def wanted(self, claim: Object) -> Wanted:
        """The parsed claim. It is cached if the claim exists, whose spec cannot change."""
        uid = claim["metadata"].get("uid", "")
        found = self._wanted.get(uid)
        if found is None:
            made = read_claim(claim)
            asked = [one for request in made.requests for one in request.alternatives]
            plain = not any(one.all or one.admin for one in asked)
            found = Wanted(claim, made, json.dumps(claim["spec"], sort_keys=True), plain)
            if uid:
                self._wanted[uid] = found
        return found

    def forget(self, uid: str) -> None:
        """Forget a deleted claim."""
        self._wanted.pop(uid, None)

    def choose(self, node: Node, wanted: Sequence[Wanted], kind: tuple[str, ...], tables: Tables) -> Chosen:
        """Choose devices on the node for the claims, whose kinds are `kind`. Raises AllocationError when the pod cannot be
        served at present. `tables`: those of the attempt (`Allocator.allocate`)."""
        room = self._room(node)
        state = (self._gained_everywhere, room.gained)
        if self._barren.get((kind, room.pools)) == state:
            return _NOTHING
        found = self._allocator.allocate(node.choice, [one.claim for one in wanted], tables)
        if found:
            pairs = zip(found.allocations, wanted, strict=True)
            return Chosen(tuple(partial(one.to_object, of.written, self._classes) for one, of in pairs), found.score)
        if found.reason == NOTHING and all(one.plain for one in wanted):
            self._remember(kind, node, state)
        return Chosen(reason=found.reason)

    def _room(self, node: Node) -> _Room:
        """The pools from which the node can still get devices, cached until the node, its gains or a shared slice change."""
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
        """Remember that this node, and each node with the same remaining pools, has nothing for claims of the kind."""
        gained = self._gained_on.get(node.name, 0)
        room = self._looked(node, gained)
        self._rooms[node.name] = ((node.version, gained, self._slices_changed), room)
        if len(self._barren) >= BARREN_KEPT:
            self._barren.clear()
        self._barren[kind, room.pools] = (state[0], room.gained)

    def _slice_changed(self, driver: str, pool: str) -> None:
        if (driver, pool) not in self._local_pools:
            self._slices_changed += 1
        self._gained(driver, pool)

    def _gained(self, driver: str, pool: str) -> None:
        """Claims that got nothing may get devices now: on the node that owns the pool, or on every node."""
        node = self._local_pools.get((driver, pool))
        if node is None:
            self._gained_anywhere()
        else:
            self.gains += 1
            self._gained_on[node] = self._gained_on.get(node, 0) + 1

    def _gained_anywhere(self) -> None:
        self.gains += 1
        self._gained_everywhere += 1


def refusal(reason: str) -> Refusal:
    """A refusal by this plugin. Removing pods does not cure it."""
    return Refusal(PLUGIN, (reason,))


def missing_claim(pod: Pod, claims: ClaimCache) -> str:
    """Why the pod is not tried: a claim is missing or is being deleted. "" if all exist."""
    for name, claim in pod.claims:
        if claim is None:
            return f"pod {pod.key}: the claim for {name} is not generated yet"
        found = claims.get(f"{pod.namespace}/{claim}")
        if found is None:
            return f'resourceclaim "{claim}" not found'
        if "deletionTimestamp" in found["metadata"]:
            return f'resourceclaim "{claim}" is being deleted'
    return ""


@dataclass(slots=True, eq=False)
class PodDevices:
    """One scheduling attempt of one pod, as far as devices are concerned."""

    pod: Pod
    claims: list[Object]  # in the pod's order; last, if it exists already, the special claim
    available: Availability
    inventory: Inventory
    extended: ExtendedResources
    by_claim: tuple[str, ...] = ()  # extended resources that devices may serve
    unavailable: dict[int, None] = field(default_factory=dict)  # indexes of claims that some node could not use
    chosen: dict[str, Chosen] = field(default_factory=dict)
    specials: dict[str, tuple[Object, list[Object]]] = field(default_factory=dict)  # node → special claim, its mappings
    _tables: Tables = field(default_factory=dict)
    _wanted: list[Wanted] = field(default_factory=list)
    _kind: tuple[str, ...] = ()
    _allocated: list[tuple[int, Object]] = field(default_factory=list)
    _special_claims: dict[tuple[str, ...], tuple[Object, list[Object], Wanted]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._wanted = [self.inventory.wanted(claim) for claim in self.unallocated()]
        self._kind = tuple(one.kind for one in self._wanted)
        self._allocated = [
            (place, claim) for place, claim in enumerate(self.claims) if allocation_of(claim) is not None
        ]

    @property
    def kind(self) -> tuple[str, ...] | None:
        """Equal for pods that ask for the same devices; None if the result depends on more than the free devices."""
        return None if self._allocated or self.by_claim else self._kind

    @property
    def idle(self) -> bool:
        """Whether the pod needs no devices."""
        return not self.claims and not self.by_claim

    @property
    def hopeless(self) -> bool:
        """Whether an allocated claim is usable on no node."""
        return not all(self.available.anywhere(claim) for _, claim in self._allocated)

    @property
    def alike(self) -> bool:
        """Whether all nodes give a hopeless pod the same refusal: it has only one claim."""
        return len(self.claims) == 1 and not self.by_claim

    @property
    def ranked(self) -> bool:
        """Whether nodes can differ in the alternatives that they offer."""
        return any(
            "firstAvailable" in one for claim in self.unallocated() for one in claim["spec"]["devices"]["requests"]
        )

    def unallocated(self) -> list[Object]:
        """The claims that this attempt allocates, in the pod's order."""
        return [claim for claim in self.claims if allocation_of(claim) is None]

    def check(self, node: Node) -> Refusal | None:
        """Filter: whether every claim is available on the node, or can be allocated there."""
        missing = [place for place, claim in self._allocated if not self.available.on(claim, node)]
        special = self._special(node) if self.by_claim else None
        wanted, kind = self._wanted, self._kind
        if special is not None:
            wanted, kind = [*wanted, special[2]], (*kind, special[2].kind)
        chosen = self.inventory.choose(node, wanted, kind, self._tables) if wanted else None
        if chosen is not None and chosen.reason:
            return CANNOT_ALLOCATE if chosen.reason == NOTHING else refusal(chosen.reason)
        if missing:
            self.unavailable.update(dict.fromkeys(missing))
            return NOT_AVAILABLE
        if chosen is not None:
            self.chosen[node.name] = chosen
        if special is not None:
            self.specials[node.name] = special[:2]
        return None

    def score(self, node: Node) -> int:
        """The node's score: the earlier its alternatives are in their lists, the higher."""
        chosen = self.chosen.get(node.name)
        return chosen.score if chosen is not None else 0

    def _special(self, node: Node) -> tuple[Object, list[Object], Wanted] | None:
        """The special claim that the pod needs on this node, None if it needs none or has one already."""
        resources = tuple(name for name in self.by_claim if name not in node.allocatable)
        if not resources or any(is_special(claim, self.pod) for claim in self.claims):
            return None
        if resources not in self._special_claims:
            claim, mappings = special_claim(self.pod, resources, self.extended)
            self._special_claims[resources] = (claim, mappings, self.inventory.wanted(claim))
        return self._special_claims[resources]


class Availability:
    """Whether a claim is usable: on a node according to its node selector, and anywhere only if no device failed or timed out.
    One object serves one attempt, so a claim's status is checked once instead of once per node."""

    def __init__(self, binding_conditions: bool, now: int, timeout: float) -> None:
        self._binding_conditions = binding_conditions
        self._now = now
        self._timeout = timeout
        self._known: dict[str, bool] = {}

    def anywhere(self, claim: Object) -> bool:
        """Whether the claim may be usable on some node."""
        uid = claim["metadata"]["uid"]
        if uid not in self._known:
            self._known[uid] = allocation_of(claim) is None or not self._lost(claim)
        return self._known[uid]

    def on(self, claim: Object, node: Node) -> bool:
        """Whether the claim is usable on the node. True if it is not allocated yet."""
        allocation = allocation_of(claim)
        if allocation is None:
            return True
        return self.anywhere(claim) and node_selects(allocation.get("nodeSelector"), node.name, node.labels)

    def _lost(self, claim: Object) -> bool:
        return self._binding_conditions and readiness(claim, self._now, self._timeout).state in (FAILED, TIMED_OUT)


def before_nodes(pod: Pod, found: list[Object], claims: ClaimCache, inventory: Inventory) -> Refusal | None:
    """PreFilter: a reason to refuse the pod before any node is checked."""
    for claim in found:
        meta = claim["metadata"]
        if allocation_of(claim) is not None:
            if len(reservations(claim)) >= MOST_RESERVATIONS and not is_reserved_for(claim, pod):
                return refusal("resourceclaim in use")
            continue
        if claims.in_flight(meta["uid"]):
            return refusal(f"resource claim {meta['namespace']}/{meta['name']} is in the process of being allocated")
        for request in claim["spec"]["devices"]["requests"]:
            for name, wanted in _classes(request):
                if not inventory.has_class(wanted):
                    return refusal(f"request {name}: device class {wanted} does not exist")
    return None


def _classes(request: Object) -> list[tuple[str, str]]:
    name = request["name"]
    if "firstAvailable" in request:
        return [(f"{name}/{one['name']}", one["deviceClassName"]) for one in request["firstAvailable"]]
    return [(name, request["exactly"]["deviceClassName"])]
