"""Which pools a node reaches, and their devices in the order of choice.

The caller adds and removes single slices; results for unchanged slices, pools and nodes are cached. The rules are those of
Kubernetes 1.36 (structured allocator, GatherPools). Only the highest generation of a pool is used. A pool with missing slices
gives no devices. A pool is invalid when it names a device or counter set twice or consumes a counter that it lacks. Order:
pools without binding conditions first, then by driver and pool name; in a pool slices by name; in a slice devices as listed.
Slices with counters are checked for every node, so a fault in them matters even on nodes that reach none of their devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dds_core.matching.cel import DeviceView
from dds_core.matching.devices import view_of
from dds_core.matching.gates import Gates
from dds_core.matching.node_selectors import NodeSelector, node_matches, only
from dds_core.matching.quantities import parse
from dds_core.model import Device, DeviceKey, Node, Slice

PoolKey = tuple[str, str]
"""(driver, pool)."""

Counters = dict[str, dict[str, int]]
"""Counter set → counter → amount in 10⁻⁹."""

Reach = NodeSelector | bool
"""The nodes that reach something: those of a selector, all (True) or none (False)."""


class Candidate:
    """A device of a slice. `consumes`: what it draws on counters. `matches` caches whether selectors select it, by the number of
    a set of selectors. `before`: the device of this name and driver in the slice's version before, from which an unchanged one
    takes both."""

    __slots__ = ("consumes", "device", "key", "matches", "slice")

    def __init__(self, name: str, device: Device, slice_: Slice, before: Candidate | None = None) -> None:
        same = before is not None and before.device is device
        self.device: Device = device
        self.slice = slice_
        self.key: DeviceKey = (slice_.driver, slice_.pool, name)
        self.consumes: Counters = before.consumes if before is not None and same else _amounts(device.consumes)
        self.matches: dict[int, bool] = before.matches if before is not None and same else {}

    def view(self) -> DeviceView:
        """The device as selectors see it. Not cached, since each selector reads it only once."""
        return view_of(self.device, self.slice.driver)


class Pool:
    """A pool as one or more nodes see it. `consumers` are all its devices that consume counters, also those that the node does
    not reach."""

    __slots__ = ("binding", "candidates", "consumers", "counters", "incomplete", "invalid", "key")

    def __init__(self, key: PoolKey) -> None:
        self.key = key
        self.incomplete = False
        self.invalid = ""
        self.binding = False
        self.candidates: list[Candidate] = []
        self.counters: Counters = {}
        self.consumers: list[Candidate] = []

    def __str__(self) -> str:
        return "/".join(self.key)


class NodePools:
    """The pools of a node in the order of choice, and the candidates of the complete and valid ones."""

    __slots__ = ("any_invalid", "candidates", "pool_of", "pools")

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.pools = pools
        usable = [pool for pool in pools if not pool.incomplete and not pool.invalid]
        self.candidates = [candidate for pool in usable for candidate in pool.candidates]
        self.pool_of: Mapping[PoolKey, Pool] = {pool.key: pool for pool in usable}
        self.any_invalid = any(pool.invalid for pool in pools)


class _Shape(NamedTuple):
    """What of a slice decides which nodes see it."""

    name: str
    node: str
    partitionable: bool
    counters: bool
    reaches: tuple[Reach, ...]

    @classmethod
    def of(cls, name: str, slice_: Slice) -> _Shape:
        counters = bool(slice_.counters)
        return cls(name, slice_.node, slice_.per_device or counters, counters, _reaches(slice_))


class _Slices:
    """All slices of one pool, and the `Pool`s built from them, by the names of the slices that a node sees. `shapes`: what of
    the slices decides which nodes see them; the same object until that changes."""

    __slots__ = ("built", "candidates", "shapes", "slices")

    def __init__(self) -> None:
        self.slices: dict[str, Slice] = {}
        self.candidates: dict[str, list[Candidate]] = {}
        self.shapes: list[_Shape] = []
        self.built: dict[tuple[str, ...], Pool | None] = {}

    def put(self, name: str, slice_: Slice) -> None:
        """Add a slice, or replace the one of this name, which then comes last."""
        self.slices.pop(name, None)
        known = {each.key[2]: each for each in self.candidates.pop(name, ())}
        self.slices[name] = slice_
        self.candidates[name] = [
            Candidate(each, device, slice_, known.get(each)) for each, device in slice_.devices.items()
        ]
        self._changed()

    def remove(self, name: str) -> None:
        del self.slices[name], self.candidates[name]
        self._changed()

    def _changed(self) -> None:
        self.built = {}
        shapes = [_Shape.of(name, self.slices[name]) for name in sorted(self.slices)]
        if shapes != self.shapes:
            self.shapes = shapes


class _View:
    """The cache for a node: which selectors select it, which slices of a pool of these shapes it sees, and its pools as of
    change number `seen`, except the outdated ones in `stale`."""

    __slots__ = ("by_key", "means", "names", "node", "pools", "seen", "stale")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.means: dict[NodeSelector, bool] = {}
        self.names: dict[PoolKey, tuple[list[_Shape], tuple[str, ...]]] = {}
        self.by_key: dict[PoolKey, Pool] = {}
        self.pools = NodePools(())
        self.seen = 0
        self.stale: set[PoolKey] = set()

    def reaches(self, reaches: Iterable[Reach]) -> bool:
        return any(each if isinstance(each, bool) else self._means(each) for each in reaches)

    def _means(self, selector: NodeSelector) -> bool:
        found = self.means.get(selector)
        if found is None:
            found = self.means[selector] = node_matches(selector, self.node.name, self.node.labels)
        return found


class Inventory:
    """All slices; gives the pools of a node."""

    def __init__(self, slices: Iterable[Slice], gates: Gates) -> None:
        self._gates = gates
        self._pools: dict[PoolKey, _Slices] = {}
        self._where: dict[str, Slice] = {}
        self._local: dict[str, dict[PoolKey, int]] = {}
        self._shared: dict[PoolKey, int] = {}
        self._changes = 0
        self._changed: dict[PoolKey, int] = {}  # the newest change last
        self._views: dict[str, _View] = {}
        for each in slices:
            self.put(each)

    def put(self, slice_: Slice) -> None:
        """Add a slice, or replace the slice of this name."""
        name, key = slice_.name or slice_.uid, (slice_.driver, slice_.pool)
        old = self._where.get(name)
        if old is not None and ((old.driver, old.pool), _node(old)) == (key, _node(slice_)):
            self._where[name] = slice_
            self._pools[key].put(name, slice_)
        else:
            self.remove(name)
            self._where[name] = slice_
            self._pools.setdefault(key, _Slices()).put(name, slice_)
            self._count(slice_, key, 1)
        self._touch(key)

    def remove(self, name: str) -> None:
        """Remove a slice. An unknown name is no error."""
        slice_ = self._where.pop(name, None)
        if slice_ is None:
            return
        key = (slice_.driver, slice_.pool)
        self._touch(key)
        self._pools[key].remove(name)
        if not self._pools[key].slices:
            del self._pools[key]
        self._count(slice_, key, -1)

    def candidates(self) -> Iterable[Candidate]:
        for pool in self._pools.values():
            for candidates in pool.candidates.values():
                yield from candidates

    def named(self, key: DeviceKey) -> list[Candidate]:
        """The devices with this key: one for each generation that still has slices."""
        pool = self._pools.get(key[:2])
        found = [] if pool is None else pool.candidates.values()
        return [each for candidates in found for each in candidates if each.key == key]

    def pools(self, node: Node) -> NodePools:
        """The pools that the node reaches, including incomplete and invalid ones."""
        view = self._views.get(node.name)
        if view is None or view.node.labels != node.labels:
            view = self._views[node.name] = _View(node)
            view.stale.update(self._local.get(node.name, ()), self._shared)
        elif view.seen != self._changes:
            for key, change in reversed(self._changed.items()):
                if change <= view.seen:
                    break
                view.stale.add(key)
        view.seen = self._changes
        if view.stale:
            self._look_again(view)
        return view.pools

    def _count(self, slice_: Slice, key: PoolKey, by: int) -> None:
        """Count for each pool the slices that only one node sees, by node, and the slices that all nodes check."""
        node = _node(slice_)
        counts = self._local.setdefault(node, {}) if node else self._shared
        counts[key] = counts.get(key, 0) + by
        if not counts[key]:
            del counts[key]
        if node and not counts:
            del self._local[node]

    def _touch(self, key: PoolKey) -> None:
        """Mark the pool as outdated for the nodes of its slices, or for all nodes if all nodes check one of them."""
        nodes = {_node(each) for each in self._pools[key].slices.values()}
        if "" in nodes:
            self._changes += 1
            self._changed.pop(key, None)
            self._changed[key] = self._changes
            return
        for node in nodes:
            if node in self._views:
                self._views[node].stale.add(key)

    def _look_again(self, view: _View) -> None:
        """Update the node's outdated pools. Sort only if one of them is a different object."""
        other = False
        for key in view.stale:
            pool = self._pool(key, view)
            if pool is view.by_key.get(key):
                continue
            other = True
            if pool is None:
                del view.by_key[key]
            else:
                view.by_key[key] = pool
        view.stale.clear()
        if other:
            view.pools = NodePools(sorted(view.by_key.values(), key=lambda pool: (pool.binding, pool.key)))

    def _pool(self, key: PoolKey, view: _View) -> Pool | None:
        slices = self._pools.get(key)
        if slices is None:
            view.names.pop(key, None)
            return None
        shapes, names = view.names.get(key, (None, ()))
        if shapes is not slices.shapes:
            names = tuple(each.name for each in slices.shapes if self._relevant(each, view))
            view.names[key] = slices.shapes, names
        if not names:
            return None
        if names not in slices.built:
            slices.built[names] = _built(key, slices, names, self._gates)
        pool = slices.built[names]
        return pool if pool is not None and (pool.candidates or pool.incomplete or pool.invalid) else None

    def _relevant(self, of: _Shape, view: _View) -> bool:
        if of.partitionable and not self._gates.partitionable_devices:
            return False
        if of.counters:
            return True
        return of.node == view.node.name if of.node else view.reaches(of.reaches)


def _node(slice_: Slice) -> str:
    """The only node that checks the slice; "" when several do. All nodes check slices with counters."""
    return "" if slice_.counters else slice_.node


def _reaches(slice_: Slice) -> tuple[Reach, ...]:
    """The nodes that reach at least one device of a slice that names no node."""
    if slice_.all_nodes:
        return (True,)
    if slice_.selector:
        return (NodeSelector.of(slice_.selector),)
    return tuple(dict.fromkeys(map(device_reach, slice_.devices.values()))) if slice_.per_device else ()


def device_reach(device: Device) -> Reach:
    """The nodes that reach a device whose slice selects nodes by device."""
    if device.node:
        return only(device.node)
    return NodeSelector.of(device.selector) if device.selector and not device.all_nodes else device.all_nodes


def _built(key: PoolKey, slices: _Slices, names: tuple[str, ...], gates: Gates) -> Pool | None:
    """The pool of the slices that a node checks; without devices when it is incomplete or invalid. None when slices are missing
    and a newer generation exists that the node does not see."""
    generation = max(slices.slices[name].generation for name in names)
    current = {name: one for name in names if (one := slices.slices[name]).generation == generation}
    pool, wanted = Pool(key), next(iter(current.values())).slices
    everything = current
    if len(current) != wanted:
        if any(each.generation > generation for each in slices.slices.values()):
            return None
        everything = {name: each for name, each in slices.slices.items() if each.generation == generation}
        if len(everything) != wanted:
            pool.incomplete = True
            return pool
    pool.invalid = _fault(current.values(), everything.values(), gates)
    if pool.invalid:
        return pool
    pool.candidates = [each for name in current for each in slices.candidates[name]]
    if gates.partitionable_devices:
        pool.counters = {name: each for one in current.values() for name, each in _amounts(one.counters).items()}
        pool.consumers = [each for name in everything for each in slices.candidates[name] if each.consumes]
    pool.binding = any(candidate.device.binding for candidate in pool.candidates)
    return pool


def _amounts(counters: Mapping[str, Mapping[str, str]]) -> Counters:
    return {set_: {name: parse(text).nanos for name, text in each.items()} for set_, each in counters.items()}


def _fault(current: Iterable[Slice], everything: Iterable[Slice], gates: Gates) -> str:
    """Why the pool is invalid; "" when it is valid."""
    if name := next((each.repeated for each in current if each.repeated), ""):
        return f"duplicate name {name} in a slice"
    if name := named_twice(name for slice_ in current for name in slice_.devices):
        return f"duplicate device name {name}"
    if not gates.partitionable_devices:
        return ""
    if name := named_twice(name for slice_ in current for name in slice_.counters):
        return f"duplicate counter set name {name}"
    counters = {name: each for slice_ in current for name, each in slice_.counters.items()}
    for device in (device for slice_ in everything for device in slice_.devices.values()):
        for name, consumed in device.consumes.items():
            if name not in counters:
                return f"counter set {name} not found"
            for counter in consumed:
                if counter not in counters[name]:
                    return f"counter {counter} not found in counter set {name}"
    return ""


def named_twice(names: Iterable[str]) -> str:
    """The first name that comes more than once, or ""."""
    return next((name for name, times in Counter(names).items() if times > 1), "")
