"""Assignment: which devices on a node are for which waiting claim, and what is missing. A pure function of the state, per node.

Claims are served in this order: those that already have their devices first, then by the priority of their pods, by age and by
name; the claims of one pod together. Each unit (one pool device of the claim's allocation) is covered by the best that there is:
a free device on the node that the allocator chooses for it, one that is being attached, one that is ordered, one whose attach
reports an error, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from dds_core.lifecycle import ATTACHED, DEVICE_DETACHING, USED, WAITING
from dds_core.model import Claim, DeviceKey, FabricResource, Model, Result
from dds_core.scaler.events import ReservedDevice
from dds_core.scaler.rules.choice import NOTHING, Found, Stock, free_devices
from dds_core.scaler.rules.devices import BEING_ATTACHED, is_given_up
from dds_core.scaler.state import State

Way = Literal["attaching", "ordered", "erring", "missing", "sharing"]


@dataclass(slots=True)
class Assignment:
    """How the units of one claim are covered. `ready`: what to reserve, with its device. The other lists have a model for each
    unit, `attaching` and `erring` also the resource's uid. `sharing`: units that share a pool device with a `missing` unit, and
    so need no order of their own."""

    claim: Claim
    ready: list[tuple[ReservedDevice, Found]] = field(default_factory=list)
    attaching: list[tuple[str, str]] = field(default_factory=list)
    ordered: list[str] = field(default_factory=list)
    erring: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    sharing: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every unit has a device on the node."""
        return bool(self.ready) and self.asked and not (self.attaching or self.ordered or self.erring)

    @property
    def asked(self) -> bool:
        """Whether every unit is at least ordered."""
        return not (self.missing or self.sharing)

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources (uids) concerned, those on the node first."""
        there = [found.resource.uid for _, found in self.ready if found.resource is not None]
        return tuple(dict.fromkeys([*there, *(uid for _, uid in self.attaching), *(uid for _, uid in self.erring)]))


class Supply:
    """The devices of one model that are on their way to a node, given out unit by unit."""

    def __init__(self, state: State, node: str, model: Model) -> None:
        here = (state.resources.rows[uid] for uid in state.resources_at[node])
        under_way = sorted((r for r in here if r.model == model.model), key=lambda r: (r.created, r.name))
        coming = [r for r in under_way if _coming(state, r)]
        unlisted = [r for r in under_way if _unlisted(state, r)]
        self.unlisted = {r.uuid: r.uid for r in unlisted if r.uuid and state.promised(r.uuid)}
        self.attaching = [r.uid for r in unlisted if r.uuid not in self.unlisted]
        self.attaching += [r.uid for r in coming if not r.error]
        self.erring = [r.uid for r in coming if r.error]
        self.ordered = ordered_not_made(state, node, model)
        self._shared_ways: dict[DeviceKey, tuple[Way, str]] = {}

    def way_for(self, result: Result, promised: str) -> tuple[Way, str]:
        """How a unit without a device gets one, and the resource that brings it. A reserved device that is only unlisted now
        stays with its unit. All shares of one pool device come with one device."""
        if promised in self.unlisted:
            return "attaching", self.unlisted.pop(promised)
        if not result.share:
            return self._next_way()
        if result.key not in self._shared_ways:
            way = self._next_way()
            self._shared_ways[result.key] = ("sharing", "") if way[0] == "missing" else way
            return way
        return self._shared_ways[result.key]

    def _next_way(self) -> tuple[Way, str]:
        if self.attaching:
            return "attaching", self.attaching.pop(0)
        if self.ordered:
            self.ordered -= 1
            return "ordered", ""
        if self.erring:
            return "erring", self.erring.pop(0)
        return "missing", ""


def assign(state: State, node: str) -> list[Assignment]:
    """The assignments of all claims that wait on the node, in the order in which they are served."""
    waiting = waiting_claims(state, node)
    if not waiting:
        return []
    free = free_devices(state, node)
    stock = Stock(state, node, free) if free else None
    supplies: dict[str, Supply] = {}
    assignments: dict[str, Assignment] = {}
    for group in _groups(state, waiting):
        chosen = stock.choose(group) if stock is not None else NOTHING
        for claim in group:
            current = assignments[claim.uid] = Assignment(claim, chosen.given.get(claim.uid, []))
            if not chosen.whole:
                _assign_the_rest(state, node, supplies, current)
    return [assignments[claim.uid] for claim in waiting]


def _groups(state: State, waiting: list[Claim]) -> Iterator[list[Claim]]:
    """Claims that wait together because a pod has them; groups in the order of their first claim."""
    left = {claim.uid: claim for claim in waiting}
    for claim in waiting:
        if claim.uid not in left:
            continue
        group = [left.pop(claim.uid)]
        for one in group:
            for pod in state.pods_of(one) if left else ():
                if len(pod.claims) + bool(pod.extended_claim) > 1:
                    group += [left.pop(more.uid) for more in state.claims_of(pod) if more.uid in left]
        yield group


def _assign_the_rest(state: State, node: str, supplies: dict[str, Supply], current: Assignment) -> None:
    there = {promise.result for promise, _ in current.ready}
    promises = {promise.result: promise.identity for promise in state.reserved_devices_of(current.claim)}
    seen: set[DeviceKey] = set()
    for place, result, model in state.pool_results(current.claim.allocation):
        supply = supplies.get(model.model)
        if supply is None:
            supply = supplies[model.model] = Supply(state, node, model)
        twice = result.key in seen and not result.share
        seen.add(result.key)
        if place not in there and not twice:
            _assign_unit(current, supply, model.model, result, promises.get(place, ""))


def _assign_unit(current: Assignment, supply: Supply, model: str, result: Result, promised: str) -> None:
    way, uid = supply.way_for(result, promised)
    match way:
        case "attaching":
            current.attaching.append((model, uid))
        case "erring":
            current.erring.append((model, uid))
        case "ordered":
            current.ordered.append(model)
        case "sharing":
            current.sharing.append(model)
        case "missing":
            current.missing.append(model)


def waiting_claims(state: State, node: str) -> list[Claim]:
    """The claims whose current attempt waits for pool devices on `node`, in the order in which they are served."""
    found = []
    for uid in {*state.waiting_at[node], *state.claims_on[""]}:
        claim, life = state.claims.get(uid), state.lives.get(uid)
        if claim is None or life is None or life.state not in WAITING or life.allocation is None:
            continue
        if claim.allocation != life.allocation or uid in state.failures or state.node_of(claim) != node:
            continue
        if not all(_is_ready(claim, result) for _, result, _ in state.pool_results(claim.allocation)):
            priority = max((pod.priority for pod in state.pods_of(claim)), default=0) if state.prioritized else 0
            found.append((life.state != ATTACHED, -priority, claim.created, claim.namespace, claim.name, uid, claim))
    found.sort(key=lambda row: row[:6])
    return [row[6] for row in found]


def _is_ready(claim: Claim, result: Result) -> bool:
    """Whether conditions say that the device is there: then the scheduler binds, and dds has nothing to do."""
    true = {c.type for c in claim.conditions if c.status == "True" and (c.driver, c.pool, c.device) == result.key}
    return true.issuperset(result.binding)


def _coming(state: State, resource: FabricResource) -> bool:
    return resource.state in BEING_ATTACHED and not resource.deleting


def _unlisted(state: State, resource: FabricResource) -> bool:
    """Whether the device is Online but not in the node's slices: the slice is observed later, or the driver is publishing again;
    or its detach was ordered and may still be called off; or it was attached again before its old resource is gone. It counts as
    on its way to a claim, so that no other is ordered."""
    life = state.devices.get(resource.uid)
    if life is not None and life.state in (USED, DEVICE_DETACHING):
        return False
    if resource.state != "Online" or resource.error or resource.deleting or state.is_lost(resource.uid):
        return False
    fence = state.fences.get(resource.uid)
    if fence is not None or state.is_taken_off(resource):
        return fence is None or (fence.ordered and not is_given_up(state, resource))
    faces = state.keys_of[resource.uuid] if resource.uuid else frozenset()
    shown = (state.pools[key[:2]] for key in faces)
    return not any(pool.usable and pool.node == resource.node for pool in shown)


def ordered_not_made(state: State, node: str, model: Model) -> int:
    """Units that requests, and dds's standing order, ask for and for which the operator has made no resource yet."""
    total = 0
    kind = state.request_type(model)
    for uid in state.requests_at[node]:
        request = state.requests.rows[uid]
        if request.model != model.model or request.type != kind or request.deleting:
            continue
        owned = (state.resources.rows[uid] for uid in state.resources_of_request[request.name])
        made = sum(one.node == node and one.model == model.model and not one.leaving for one in owned)
        total += max(0, size_wanted(state, node, model.model, request.name, request.size) - made)
    order = state.orders.get((node, model.model))
    if order is not None and order.request not in state.request_named:
        total += order.size
    return total


def size_wanted(state: State, node: str, model: str, request: str, size: int) -> int:
    """The size of a request once dds's standing order is carried out."""
    order = state.orders.get((node, model))
    return order.size if order is not None and order.request == request else size
