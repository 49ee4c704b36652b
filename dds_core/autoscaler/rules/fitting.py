"""A simulated scheduling cycle: what would let a waiting pod run. It tries the existing nodes, with the devices of the pools and
those that idle elsewhere and may come, and a fresh server of each group. It checks only what lasts: room, taints, node selectors,
devices. It ignores spreading and affinity to other pods; a pod that waits only for these counts as one that fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from dds_core.autoscaler.policy import ServerGroup
from dds_core.autoscaler.records import Advice, Amounts, Load, Worker
from dds_core.autoscaler.state import Fleet
from dds_core.matching.allocator import (
    MOST_STEPS,
    TIMED_OUT,
    Allocator,
    Gates,
    InUse,
    NodeSelector,
    OutOfSteps,
    Steps,
)
from dds_core.matching.errors import AllocationError
from dds_core.matching.node_selectors import Term, node_matches
from dds_core.matching.quantities import NANO, parse
from dds_core.model import (
    Alternative,
    Claim,
    ClaimRequest,
    Device,
    DeviceKey,
    Model,
    Node,
    Requirement,
    Slice,
    is_of,
    model_of_device,
)

_UNITS = {"cpu": 1000}
"""Factors to whole numbers: millicores, bytes, pods."""


class Cycle:
    """What is free at one instant. Placed pods take their room; devices are counted for each pod alone."""

    def __init__(self, state: Fleet) -> None:
        self._state = state
        self._workers = sorted(
            (one for one in state.cluster.workers.rows.values() if _takes(one)), key=lambda one: one.name
        )
        self._left = {one.name: _left(state, one) for one in self._workers}
        self._slices = [*(one for _, one in sorted(state.cluster.slices.rows.items())), *_returning(state)]
        self._allocator = _allocator(state, self._slices)

    def advise(self, load: Load) -> Advice:
        """The case of the pod; "" if it waits only for the scheduler, or one of its claims does not exist yet. "nothing" also if
        it takes too many steps to find out."""
        try:
            return self._advise(load, Steps(MOST_STEPS))
        except OutOfSteps:
            return Advice("nothing", f"whether there are devices for it was not found in {MOST_STEPS} steps")

    def _advise(self, load: Load, steps: Steps) -> Advice:
        claims = self._state.claims_of(load)
        if claims is None:
            return Advice("", "its claims are not there yet")
        place = next((one.allocation.node for one in claims if one.allocation is not None and one.allocation.node), "")
        if place:
            return Advice("device", f"{place} has, or is about to have, devices for it")
        wanted = tuple(one for one in claims if one.allocation is None and one.known)
        full = ""
        for worker in self._workers:
            if not load.tolerates(worker) or not _matches(load, worker.name, worker.labels):
                continue
            short = _short(self._left[worker.name], load.asks)
            if short:
                full = full or f"{worker.name} has too little {short}"
            elif not wanted:
                _take(self._left[worker.name], load.asks)
                return Advice("", f"it fits on {worker.name}")
            elif self._has_devices(Node("", worker.name, worker.labels), wanted, steps):
                _take(self._left[worker.name], load.asks)
                return Advice("device", f"{worker.name} has room, and a device for it can be attached there")
        return self._server_for(load, wanted, full or "no node takes it", steps)

    def _server_for(self, load: Load, wanted: tuple[Claim, ...], why: str, steps: Steps) -> Advice:
        for group in self._state.own_groups():
            if self.would_take(group, load) and (not wanted or self._brings(group, wanted, steps)):
                return Advice("server", f"{why}; a server of {group.name} would take it")
        what = "nor has the pool a device for it" if wanted else "nor would a server of any group"
        return Advice("nothing", f"{why}, {what}")

    def would_take(self, group: ServerGroup, load: Load) -> bool:
        """Whether a fresh server of the group has room for the pod, and nothing keeps it away."""
        template = group.template.made()
        worker = Worker(uid="", name=group.name, labels=dict(template.labels), taints=template.taints)
        fits = not _short(room_of(template.capacity), load.asks)
        return fits and load.tolerates(worker) and _matches(load, "", worker.labels)

    def _has_devices(
        self, node: Node, wanted: tuple[Claim, ...], steps: Steps, among: list[DeviceKey] | None = None
    ) -> bool:
        try:
            fit = self._allocator.allocate(node, wanted, steps=steps, among=among)
        except AllocationError:
            return False
        if fit.reason == TIMED_OUT:
            raise OutOfSteps
        return bool(fit)

    def _brings(self, group: ServerGroup, wanted: tuple[Claim, ...], steps: Steps) -> bool:
        """Whether a fresh server of the group would get the devices. Devices of a model are alike, so that it sees as many free
        ones of each as it takes."""
        node, room = fresh(group), dict(group.template.devices)
        if not room:
            return self._has_devices(node, wanted, steps)
        seen = list[DeviceKey]()
        for key, device in self._free_for(node):
            model = model_of_device(self._state.config, key[0], device)
            name = model.model if model is not None else ""
            if room.get(name, 1):
                seen.append(key)
                room.update({name: room[name] - 1} if name in room else {})
        return self._has_devices(node, wanted, steps, seen)

    def _free_for(self, node: Node) -> Iterator[tuple[DeviceKey, Device]]:
        """The devices of the pools that reach the node, and those that may return to them; of shared ones also those in use."""
        for one in self._slices:
            if not one.node and (one.all_nodes or node_matches(NodeSelector.of(one.selector), node.name, node.labels)):
                for name, device in one.devices.items():
                    key = (one.driver, one.pool, name)
                    if device.shared or not self._state.cluster.holders[key]:
                        yield key, device


def servers_for(group: ServerGroup, loads: Iterable[Load]) -> int:
    """How many fresh servers these pods need, first fit."""
    room, open = room_of(group.template.capacity), list[Amounts]()
    for load in loads:
        left = next((one for one in open if not _short(one, load.asks)), None)
        if left is None:
            left = dict(room)
            open.append(left)
        _take(left, load.asks)
    return len(open)


def fresh(group: ServerGroup) -> Node:
    return Node("", f"new-{group.name}", group.template.labels)


def room_of(capacity: Mapping[str, str]) -> Amounts:
    """Quantities as whole numbers, rounded down."""
    return {name: parse(text).nanos * _UNITS.get(name, 1) // NANO for name, text in capacity.items()}


# -- room ----------------------------------------------------------------------------------------------------------------


def _takes(worker: Worker) -> bool:
    return worker.ready and not worker.deleting and not worker.unschedulable and not worker.is_condemned


def _left(state: Fleet, worker: Worker) -> Amounts:
    left = dict(worker.room)
    for load in state.loads_at(worker.name):
        _take(left, load.asks)
    return left


def _take(left: Amounts, asks: Amounts) -> None:
    for name, amount in (*asks.items(), ("pods", 1)):
        left[name] = left.get(name, 0) - amount


def _short(left: Amounts, asks: Amounts) -> str:
    """The first resource of which there is too little, "" if there is enough."""
    return next((name for name, amount in (*asks.items(), ("pods", 1)) if amount and left.get(name, 0) < amount), "")


def _matches(load: Load, name: str, labels: Mapping[str, str]) -> bool:
    terms = tuple(Term.of(term) for term in load.terms)
    return not terms or node_matches(NodeSelector(terms), name, labels)


# -- devices -------------------------------------------------------------------------------------------------------------


def extended(state: Fleet, group: ServerGroup) -> dict[str, str]:
    """What a fresh server can be asked for as extended resources, as quantities: as many as it takes of all models whose devices
    the resource's class selects."""
    found = Counter[str]()
    for model in state.config.models:
        most = group.template.devices.get(model.model, 0)
        for name in _resources_of(state, model) if most else ():
            found[name] += most
    return {name: str(count) for name, count in sorted(found.items())}


def _resources_of(state: Fleet, model: Model) -> Iterator[str]:
    """The extended resources of the classes that select the model's devices: one that a pool or a node lists, else what the
    ConfigMap says of them."""
    known = (
        device
        for _, one in sorted(state.cluster.slices.rows.items())
        if one.driver == model.driver
        for _, device in sorted(one.devices.items())
        if is_of(model, device)
    )
    device = Device(attributes=dict(next(known, Device(attributes=dict(model.attributes))).attributes))
    sample = Slice("sample", "sample", model.driver, "sample", 1, 1, all_nodes=True, devices={"sample": device})
    allocator = _allocator(state, [sample])
    for one in state.cluster.classes.rows.values():
        if one.extended_resource:
            request = ClaimRequest("sample", alternatives=(Alternative(one.name),))
            try:
                if allocator.allocate(Node("", "sample"), [Claim("sample", name="sample", requests=(request,))]):
                    yield one.extended_resource
            except AllocationError:
                continue


def _allocator(state: Fleet, slices: Iterable[Slice]) -> Allocator:
    return Allocator(
        slices,
        state.cluster.classes.rows.values(),
        InUse.by(state.cluster.claims.rows.values()),
        Gates(device_taint_rules=True),
        state.cluster.taint_rules.rows.values(),
        share_id=lambda: "shared",
        forgiving=True,
    )


def _returning(state: Fleet) -> Iterator[Slice]:
    """Idle devices as if they were in the pools: the scaler frees the longest-idle one if a claim waits and the pool is empty."""
    config = state.config
    idle = Counter[tuple[str, str]]()
    for one in state.cluster.resources.rows.values():
        worker = state.worker(one.node)
        fabric = worker.labels.get(f"{config.prefix}/fabric", "") if worker is not None else ""
        if fabric and one.state == "Online" and not one.error and not _is_held(state, one.uuid, one.node):
            idle[one.model, fabric] += 1
    for model in config.models:
        for (name, fabric), count in sorted(idle.items()):
            if name == model.model:
                terms = (
                    Requirement(f"{config.prefix}/{model.device}", "In", ("true",)),
                    Requirement(f"{config.prefix}/fabric", "In", (fabric,)),
                )
                devices = {f"returning-{number}": Device(attributes=dict(model.attributes)) for number in range(count)}
                pool = f"returning-{model.device}-{fabric}"
                yield Slice(pool, pool, model.driver, pool, 1, 1, selector=terms, devices=devices)


def _is_held(state: Fleet, uuid: str, node: str) -> bool:
    """Whether a claim has the device, by the name in its node's slices; True if it is not listed."""
    for uid in state.cluster.slices_on[node]:
        one = state.cluster.slices.rows[uid]
        for name, device in one.devices.items():
            if device.attributes.get("uuid") == uuid:
                return bool(state.cluster.holders[one.driver, one.pool, name])
    return True
