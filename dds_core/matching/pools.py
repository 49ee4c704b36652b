"""Which pools a node reaches, and their devices in the order of choice.

Slices go in and out one at a time; what was found out about an unchanged slice, pool or node is kept. The rules are those of
Kubernetes 1.36 (structured allocator, GatherPools): only the highest generation counts; a pool of which slices are missing gives
nothing; one with a device or counter set named twice, or counters that it lacks, is invalid. Pools without binding conditions
come first, each group by driver and pool name; in a pool slices by name, in a slice devices as listed. Slices with counters are
looked at for every node, so that a fault of theirs counts where none of their devices can be had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dds_core.matching.cel import DeviceView
from dds_core.matching.nodes import Node, NodeSelector, node_matches, only
from dds_core.matching.objects import Counters, Device, Gates, Slice
from dds_core.model import DeviceKey

PoolKey = tuple[str, str]
"""(driver, pool)."""

Reach = NodeSelector | bool
"""Nodes that a selector means, or all of them, or none."""


class Candidate:
    """A device of a slice, and what was found out about it: `matches` says by number of a set of selectors whether they
    select it."""

    __slots__ = ("device", "key", "matches", "slice")

    def __init__(self, device: Device, slice_: Slice) -> None:
        self.device = device
        self.slice = slice_
        self.key: DeviceKey = (slice_.driver, slice_.pool, device.name)
        self.matches: dict[int, bool] = {}

    def view(self) -> DeviceView:
        """The device as selectors see it; made anew, since each looks but once."""
        capacity = {name: each.value for name, each in self.device.capacity.items()}
        return DeviceView(self.slice.driver, self.device.attributes, capacity, self.device.shared)


class Pool:
    """A pool as one or more nodes see it. `consumers` are all devices of the pool that draw on its counters, also those
    that the node does not reach."""

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
    """The pools of a node in the order of choice, and the candidates of those that can give any."""

    __slots__ = ("any_invalid", "candidates", "pool_of", "pools")

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.pools = pools
        usable = [pool for pool in pools if not pool.incomplete and not pool.invalid]
        self.candidates = [candidate for pool in usable for candidate in pool.candidates]
        self.pool_of: Mapping[PoolKey, Pool] = {pool.key: pool for pool in usable}
        self.any_invalid = any(pool.invalid for pool in pools)


class _Slices:
    """All slices of one pool, and the pools that were built from some of them."""

    __slots__ = ("built", "candidates", "reaches", "slices")

    def __init__(self) -> None:
        self.slices: dict[str, Slice] = {}
        self.candidates: dict[str, list[Candidate]] = {}
        self.reaches: list[tuple[str, tuple[Reach, ...]]] = []
        self.built: dict[tuple[str, ...], Pool | None] = {}

    def put(self, slice_: Slice) -> None:
        self.slices[slice_.name] = slice_
        self.candidates[slice_.name] = [Candidate(device, slice_) for device in slice_.devices]
        self._changed()

    def remove(self, name: str) -> None:
        del self.slices[name], self.candidates[name]
        self._changed()

    def _changed(self) -> None:
        """Slices of other nodes are not among those a node looks at; the others by name, with who reaches them."""
        self.built = {}
        self.reaches = [(name, _reaches(self.slices[name])) for name in sorted(self.slices)]


class _View:
    """What is kept of a node: which selectors mean it, and its pools as of change number `seen`, those in `stale` excepted."""

    __slots__ = ("by_key", "means", "node", "pools", "seen", "stale")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.means: dict[NodeSelector, bool] = {}
        self.by_key: dict[PoolKey, Pool] = {}
        self.pools = NodePools(())
        self.seen = 0
        self.stale: set[PoolKey] = set()

    def reaches(self, reaches: Iterable[Reach]) -> bool:
        return any(each if isinstance(each, bool) else self._means(each) for each in reaches)

    def _means(self, selector: NodeSelector) -> bool:
        found = self.means.get(selector)
        if found is None:
            found = self.means[selector] = node_matches(selector, self.node)
        return found


class Inventory:
    """All slices, and from them the pools of a node."""

    def __init__(self, slices: Iterable[Slice], gates: Gates) -> None:
        self._gates = gates
        self._pools: dict[PoolKey, _Slices] = {}
        self._where: dict[str, Slice] = {}
        self._local: dict[str, dict[PoolKey, int]] = {}
        self._shared: dict[PoolKey, int] = {}
        self._changes = 0
        self._changed: dict[PoolKey, int] = {}
        self._views: dict[str, _View] = {}
        for each in slices:
            self.put(each)

    def put(self, slice_: Slice) -> None:
        """Add a slice, or put it in the place of the one of this name."""
        self.remove(slice_.name)
        key = (slice_.driver, slice_.pool)
        self._where[slice_.name] = slice_
        self._pools.setdefault(key, _Slices()).put(slice_)
        self._count(slice_, key, 1)
        self._touch(key)

    def remove(self, name: str) -> None:
        """Forget a slice; one that is not there is no error."""
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
        """The devices of this name: one, or one of each generation that is still around."""
        pool = self._pools.get(key[:2])
        found = [] if pool is None else pool.candidates.values()
        return [each for candidates in found for each in candidates if each.key == key]

    def pools(self, node: Node) -> NodePools:
        """The pools that the node reaches, incomplete and invalid ones included."""
        view = self._views.get(node.name)
        if view is None or view.node.labels != node.labels:
            view = self._views[node.name] = _View(node)
            view.stale.update(self._local.get(node.name, ()), self._shared)
        elif view.seen != self._changes:
            view.stale.update(key for key, change in self._changed.items() if change > view.seen)
        view.seen = self._changes
        if view.stale:
            self._look_again(view)
        return view.pools

    def _count(self, slice_: Slice, key: PoolKey, by: int) -> None:
        """Keep which pools have slices of a node, and which have slices that every node looks at."""
        node = _node(slice_)
        counts = self._local.setdefault(node, {}) if node else self._shared
        counts[key] = counts.get(key, 0) + by
        if not counts[key]:
            del counts[key]
        if node and not counts:
            del self._local[node]

    def _touch(self, key: PoolKey) -> None:
        """Nodes that have a slice in the pool must look again; all must, when a slice of it is for all to see."""
        nodes = {_node(each) for each in self._pools[key].slices.values()}
        if "" in nodes:
            self._changes += 1
            self._changed[key] = self._changes
            return
        for node in nodes:
            if node in self._views:
                self._views[node].stale.add(key)

    def _look_again(self, view: _View) -> None:
        """Bring the node's pools up to date; the order is made anew only if one of them is another."""
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
            return None
        names = tuple(name for name, reaches in slices.reaches if self._relevant(slices.slices[name], reaches, view))
        if not names:
            return None
        if names not in slices.built:
            slices.built[names] = _built(key, slices, names, self._gates)
        pool = slices.built[names]
        return pool if pool is not None and (pool.candidates or pool.incomplete or pool.invalid) else None

    def _relevant(self, slice_: Slice, reaches: tuple[Reach, ...], view: _View) -> bool:
        if not self._gates.partitionable_devices and (slice_.per_device or slice_.counters):
            return False
        if slice_.counters:
            return True
        return slice_.node == view.node.name if slice_.node else view.reaches(reaches)


def _node(slice_: Slice) -> str:
    """Whose own a slice is, "" when others look at it too: at counters everyone does, wherever their devices are."""
    return "" if slice_.counters else slice_.node


def _reaches(slice_: Slice) -> tuple[Reach, ...]:
    """Who reaches at least one device of a slice that is no node's own."""
    if slice_.all_nodes:
        return (True,)
    if slice_.selector is not None:
        return (slice_.selector,)
    if not slice_.per_device:
        return ()
    found: dict[Reach, None] = {}
    for device in slice_.devices:
        found.setdefault(device_reach(device))
    return tuple(found)


def device_reach(device: Device) -> Reach:
    """Who reaches a device whose slice selects nodes by device."""
    if device.node:
        return only(device.node)
    return device.selector if device.selector is not None and not device.all_nodes else device.all_nodes


def _built(key: PoolKey, slices: _Slices, names: tuple[str, ...], gates: Gates) -> Pool | None:
    """The pool of the slices that a node looks at, without devices when it can give none; None when a newer generation is around
    that the node does not see."""
    relevant = [slices.slices[name] for name in names]
    generation = max(each.generation for each in relevant)
    current = [each for each in relevant if each.generation == generation]
    pool = Pool(key)
    everything = current
    if len(current) != current[0].slices:
        if any(each.generation > generation for each in slices.slices.values()):
            return None
        everything = [each for each in slices.slices.values() if each.generation == generation]
        if len(everything) != current[0].slices:
            pool.incomplete = True
            return pool
    pool.invalid = _fault(current, everything, gates)
    if pool.invalid:
        return pool
    for slice_ in current:
        pool.candidates += slices.candidates[slice_.name]
    if gates.partitionable_devices:
        pool.counters = {name: counters for slice_ in current for name, counters in slice_.counters}
        pool.consumers = [each for one in everything for each in slices.candidates[one.name] if each.device.consumes]
    pool.binding = any(candidate.device.conditions for candidate in pool.candidates)
    return pool


def _fault(current: list[Slice], everything: list[Slice], gates: Gates) -> str:
    """Why the pool is invalid; "" when it is not."""
    if name := _named_twice(device.name for slice_ in current for device in slice_.devices):
        return f"duplicate device name {name}"
    if not gates.partitionable_devices:
        return ""
    if name := _named_twice(name for slice_ in current for name, _ in slice_.counters):
        return f"duplicate counter set name {name}"
    counters = {name: each for slice_ in current for name, each in slice_.counters}
    for device in (device for slice_ in everything for device in slice_.devices):
        for name, consumed in device.consumes.items():
            if name not in counters:
                return f"counter set {name} not found"
            for counter in consumed:
                if counter not in counters[name]:
                    return f"counter {counter} not found in counter set {name}"
    return ""


def _named_twice(names: Iterable[str]) -> str:
    return next((name for name, times in Counter(names).items() if times > 1), "")
