"""Assignment: which devices on a node are for which waiting claim, and what is missing. A pure function of the state, per node.

Claims are served in this order: those that already have their devices first, then those that lost one to another pod, then by
the priority of their pods, by age and by name; the claims of one pod together. Each unit (one pool device of the claim's
allocation) is covered by the best that there is: a free device on the node that the allocator chooses for it, one that is being
attached, one that is ordered, one whose attach reports an error, or nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from msgspec.structs import replace

from dds_core.lifecycle import ATTACHED, DEVICE_DETACHING, USED, WAITING
from dds_core.matching.allocator import (
    MOST_STEPS,
    TIMED_OUT,
    AllocationError,
    Allocator,
    Fit,
    InUse,
    OutOfSteps,
    Steps,
)
from dds_core.matching.search import MOST_RESULTS
from dds_core.model import (
    BEING_ATTACHED,
    Claim,
    ClaimRequest,
    Device,
    DeviceKey,
    FabricResource,
    Model,
    Node,
    Result,
    model_of_device,
)
from dds_core.scaler.events import ReservedDevice
from dds_core.scaler.hardware import Face
from dds_core.scaler.model import DEPARTED
from dds_core.scaler.operator import LEAVES, verdict
from dds_core.scaler.rooms import Answer
from dds_core.scaler.rules.devices import is_given_up, is_marked
from dds_core.scaler.state import State

Way = Literal["attaching", "ordered", "erring", "missing", "sharing"]


@dataclass(slots=True)
class Assignment:
    """How the units of one claim are covered. `ready`: what to reserve, with its device. The other lists have a model for each
    unit, `attaching` and `erring` also the resource's uid. `sharing`: units that share a pool device with a `missing` unit, and
    so need no order of their own. `undecided`: which free devices it gets could not be decided (`MOST_STEPS`); then it keeps what
    is on its way and waits. `looks`: it has requests with admin access; `unseen`: those for which the node has too few devices.
    """

    claim: Claim
    ready: list[tuple[ReservedDevice, Found]] = field(default_factory=list)
    attaching: list[tuple[str, str]] = field(default_factory=list)
    ordered: list[str] = field(default_factory=list)
    erring: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    sharing: list[str] = field(default_factory=list)
    undecided: bool = False
    looks: bool = False
    unseen: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every unit has a device on the node."""
        return bool(self.ready or self.looks) and self.asked and not (self.attaching or self.ordered or self.erring)

    @property
    def asked(self) -> bool:
        """Whether every unit is at least ordered, and is not one to look at that is not there."""
        return not (self.missing or self.sharing or self.undecided or self.unseen)

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources (uids) concerned, those on the node first; without those that it only looks at."""
        used = (found.resource for promise, found in self.ready if not promise.admin)
        there = [resource.uid for resource in used if resource is not None]
        return tuple(dict.fromkeys([*there, *(uid for _, uid in self.attaching), *(uid for _, uid in self.erring)]))


def undecided_because(assignment: Assignment, node: str) -> str:
    """Why the claim waits although there may be devices for it."""
    claim = assignment.claim
    whose = (
        f"which free devices on {node} satisfy claim {claim.namespace}/{claim.name} and the others of its pod together"
    )
    return f"{whose} was not found in {MOST_STEPS} steps; it waits until devices or claims change there"


def unseen_because(assignment: Assignment, node: str) -> str:
    """Why a claim with admin access waits."""
    asked = ", ".join(assignment.unseen)
    return (
        f"{node} has too few devices for its requests with adminAccess ({asked}); none is attached only to be looked at"
    )


class Supply:
    """The devices of one model that are on their way to a node, and in no use yet, given out unit by unit."""

    def __init__(self, state: State, node: str, model: Model) -> None:
        rows, lives = state.fleet.resources.rows, state.lifecycle.devices
        unused = (
            rows[uid]
            for uid in state.fleet.resources_at[node]
            if rows[uid].model == model.model and not ((life := lives.get(uid)) and life.state == USED)
        )
        under_way = sorted(unused, key=lambda r: (r.created, r.name))
        coming = [r for r in under_way if _coming(state, r)]
        unlisted = [r for r in under_way if _unlisted(state, r)]
        self.unlisted = {r.uuid: r.uid for r in unlisted if r.uuid and state.promised(r.uuid)}
        self.attaching = [r.uid for r in unlisted if r.uuid not in self.unlisted]
        self.attaching += [r.uid for r in coming if r.uuid or not r.error]
        self.erring = [r.uid for r in coming if r.error and not r.uuid]
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
    stock = FreeOnNode(state, node, free) if free else None
    supplies: dict[str, Supply] = {}
    assignments: dict[str, Assignment] = {}
    for group in _groups(state, waiting):
        using = [claim for claim in group if state.inventory.wanted_models(claim.allocation)] if stock else []
        chosen = stock.choose(using) if stock is not None and using else NOTHING
        for claim in group:
            current = assignments[claim.uid] = Assignment(claim, chosen.given.get(claim.uid, []))
            if not chosen.whole:
                _assign_the_rest(state, node, supplies, current)
            if chosen.undecided:
                current.undecided = True
                current.missing.clear()
            _look(state, node, current)
    return [assignments[claim.uid] for claim in waiting]


def _groups(state: State, waiting: list[Claim]) -> Iterator[list[Claim]]:
    """Claims that wait together because a pod has them; groups in the order of their first claim."""
    left = {claim.uid: claim for claim in waiting}
    for claim in waiting:
        if claim.uid not in left:
            continue
        group = [left.pop(claim.uid)]
        for one in group:
            for pod in state.demand.pods_of(one) if left else ():
                if len(pod.claims) + bool(pod.extended_claim) > 1:
                    group += [left.pop(more.uid) for more in state.demand.claims_of(pod) if more.uid in left]
        yield group


def _look(state: State, node: str, current: Assignment) -> None:
    """Requests with admin access get the node's own devices, in use or not, each once; a request for all of them as many as there
    are. Nothing is ordered for them, and nothing kept from others."""
    allocation = current.claim.allocation
    if allocation is None or not any(one.admin for one in allocation.results):
        return
    waiting = {one.request for _, one, _ in state.inventory.pool_results(allocation) if one.admin}
    if not waiting:
        return
    current.looks, current.unseen = True, sorted(waiting)
    wish = wish_of(state, current.claim, looks=True)
    if wish is None:
        return
    has = {one.key: one.request for one in state.inventory.local_results(current.claim.allocation)}
    using = has.keys() | {found.key for _, found in current.ready}
    there = FreeOnNode(state, node, [found for found in _seen(state, node) if found.key not in using])
    try:
        given = there.look(wish, 1 + max((promise.result for promise, _ in current.ready), default=0))
    except OutOfSteps:
        current.undecided = True
        return
    current.ready = [*current.ready, *given]
    found = Counter(promise.request for promise, _ in given)
    for request, wanted in zip(wish.requests, wish.now, strict=True):
        every = request.alternatives[0].all
        if (found[request.name] or request.name in has.values()) if every else found[request.name] == _count(wanted):
            current.unseen.remove(request.name)


def _count(request: ClaimRequest) -> int:
    return request.alternatives[0].count


def _assign_the_rest(state: State, node: str, supplies: dict[str, Supply], current: Assignment) -> None:
    there = {promise.result for promise, _ in current.ready}
    promises = {promise.result: promise.identity for promise in state.reserved_devices_of(current.claim)}
    seen: set[DeviceKey] = set()
    for place, result, model in state.inventory.pool_results(current.claim.allocation):
        supply = supplies.get(model.model)
        if supply is None:
            supply = supplies[model.model] = Supply(state, node, model)
        key = result.key
        twice = key in seen and not result.share
        seen.add(key)
        if place not in there and not twice and not result.admin:
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
    """The claims whose current attempt waits for pool devices on `node`, in the order in which they are served. Not those that
    are being deleted: no scheduler places their pods any more."""
    found = []
    for uid in {*state.lifecycle.waiting_at[node], *state.demand.claims_on.get("", ())}:
        claim, life = state.demand.claims.get(uid), state.lifecycle.lives.get(uid)
        if claim is None or life is None or life.state not in WAITING or life.allocation is None:
            continue
        if claim.deleting or claim.allocation != life.allocation or uid in state.failing.failures:
            continue
        if state.demand.node_of(claim) != node:
            continue
        if state.inventory.waits_for_devices(claim):  # else the scheduler binds, and dds has nothing to do
            priority = (
                max((pod.priority for pod in state.demand.pods_of(claim)), default=0) if state.demand.prioritized else 0
            )
            order = (
                life.state != ATTACHED,
                not life.robbed,
                -priority,
                claim.created,
                claim.namespace,
                claim.name,
                uid,
            )
            found.append((order, claim))
    found.sort(key=lambda row: row[0])
    return [claim for _, claim in found]


def _coming(state: State, resource: FabricResource) -> bool:
    """Whether the device is still being attached. An error after its id is the node's, and may pass by itself."""
    on_its_way = resource.state in BEING_ATTACHED and not resource.leaving
    return on_its_way and not state.is_arrived(resource) and not (resource.uuid and state.is_sick(resource))


def _unlisted(state: State, resource: FabricResource) -> bool:
    """Whether the device has arrived but is not in the node's slices: the slice is observed later, or the driver is publishing
    again; or it has an error that may pass, or a name that the operator keeps from pods; or its detach was ordered and may still
    be called off; or it was attached again before its old resource is gone. It counts as on its way to a claim, so that no other
    is ordered."""
    life = state.lifecycle.devices.get(resource.uid)
    if life is not None and life.state == DEVICE_DETACHING:
        return False
    if not state.is_arrived(resource) or state.is_sick(resource) or resource.leaving or state.is_lost(resource.uid):
        return False
    fence = state.give_back.fences.get(resource.uid)
    if fence is not None or state.fleet.is_taken_off(resource):
        return fence is None or (fence.ordered and not is_given_up(state, resource))
    return not state.is_listed(resource) or not state.may_serve(resource) or _has_a_name_that_leaves(state, resource)


def _has_a_name_that_leaves(state: State, resource: FabricResource) -> bool:
    """Whether the operator's taint rule for another device, which leaves the node, has the name that the driver has given to this
    one. Its value is the UUID of that device."""
    names = state.names_of(resource)
    rules = (
        rule for rule in state.inventory.taint_rules.rows.values() if (rule.driver, rule.pool, rule.device) in names
    )
    return any(rule.taint.key == LEAVES and rule.taint.value != resource.uuid for rule in rules)


def ordered_not_made(state: State, node: str, model: Model) -> int:
    """Units that requests, and dds's standing order, ask for and for which the operator has made no resource yet."""
    total = 0
    kind = state.settings.request_type(model)
    for uid in state.fleet.requests_at[node]:
        request = state.fleet.requests.rows[uid]
        if request.model != model.model or request.type != kind or request.deleting:
            continue
        cell, staying = (node, model.model, request.name), state.fleet.staying
        made = len(staying.get((*cell, True), ())) + len(staying.get((*cell, False), ()))
        total += max(0, size_wanted(state, node, model.model, request.name, request.size) - made)
    order = state.fleet.orders.get((node, model.model))
    if order is not None and state.fleet.request(order.request) is None:
        total += order.size
    return total


def size_wanted(state: State, node: str, model: str, request: str, size: int) -> int:
    """The size of a request once dds's standing order is carried out."""
    order = state.fleet.orders.get((node, model))
    return order.size if order is not None and order.request == request else size


# -- which free devices -----------------------------------------------------------------------------------------------

# All claims of a pod are asked for at once, with their alternatives, selectors, constraints, tolerations and capacities, as the
# scheduler would ask (`dds_core.matching`); there is no other test of whether a device satisfies a claim. A claim whose requests
# are not known gets nothing.


@dataclass(slots=True)
class Found:
    """A device on the node: its name, UUID, resource (None: fixed), and what it is a face of."""

    key: DeviceKey
    uuid: str
    device: Device
    resource: FabricResource | None
    face: Face

    @property
    def identity(self) -> str:
        """As `ReservedDevice.identity`."""
        return self.uuid or "/".join(self.key)

    @property
    def others(self) -> Iterator[DeviceKey]:
        """The other faces of its hardware."""
        return ((*self.key[:2], name) for name in self.face.others)


@dataclass(slots=True)
class Wish:
    """What is asked for a claim. `requests`: those that wait for devices, without alternatives worse than the allocated one.
    `now`: the same, only the allocated alternative and count. `places`: by request name the places of its results. `kept`: what
    the claim keeps, with the request that it is for."""

    claim: Claim
    requests: list[ClaimRequest] = field(default_factory=list)
    now: list[ClaimRequest] = field(default_factory=list)
    places: dict[str, list[int]] = field(default_factory=dict)
    kept: list[tuple[str, DeviceKey]] = field(default_factory=list)


@dataclass(slots=True)
class Choice:
    """What a group of claims gets: by claim the devices, each with what to reserve. `whole`: it is all that they wait for.
    `undecided`: nothing, since that was not decided in `MOST_STEPS`."""

    whole: bool = False
    undecided: bool = False
    given: dict[str, list[tuple[ReservedDevice, Found]]] = field(default_factory=dict)


NOTHING = Choice()


class FreeOnNode:
    """The free devices of a node, given out group by group; `free` as `free_devices` gives it."""

    def __init__(self, state: State, node: str, free: list[Found]) -> None:
        self._state = state
        self._node = node
        self.free = {found.key: found for found in free}
        self._apart = {found.key: tuple(found.others) for found in free if found.face.others}
        self._in_use = InUse()
        self._promised = list(_pledges(state, node))
        self._shares = [(owner, promise) for owner, promise in self._promised if promise.share]
        self._counted = False

    def choose(self, claims: Sequence[Claim]) -> Choice:
        """Devices for all these claims, taken from the stock: those reserved for them if these suffice; else any; else for as
        many of their requests as can be had together, in order."""
        group = {claim.uid for claim in claims} | {f"pod:{claim.owner}" for claim in claims if claim.owner}
        among, promised = self._open_to(claims, group)
        self._take_back(group)
        wishes = [wish for claim in claims if (wish := wish_of(self._state, claim)) is not None] if among else []
        if not wishes:
            return NOTHING
        answer = self._answer(wishes, among, promised, whole=len(wishes) == len(claims))
        if answer is None:
            return Choice(undecided=True)
        fit, whole = answer
        chosen = Choice(whole)
        for wish, allocation in zip(wishes, fit.allocations if fit is not None else (), strict=False):
            places = {name: iter(known) for name, known in wish.places.items()}
            last = len(wish.claim.allocation.results) if wish.claim.allocation is not None else 0
            given = chosen.given.setdefault(wish.claim.uid, [])
            for result in allocation.results:
                place = next(places[result.request.partition("/")[0]], None)
                if place is None:
                    place, last = last, last + 1
                given.append(self._take(wish.claim, place, result))
        return chosen

    def look(self, wish: Wish, place: int) -> list[tuple[ReservedDevice, Found]]:
        """Devices for requests with admin access, as many as there are for each; nothing is taken from the stock. What comes
        beside the claim's results gets places from `place` on. Raises OutOfSteps."""
        fit = self._in_part([wish], list(self.free), Steps(MOST_STEPS)) if self.free else None
        if fit is None:
            return []
        places = {name: iter(known) for name, known in wish.places.items()}
        more = count(max(place, len(wish.claim.allocation.results) if wish.claim.allocation is not None else 0))
        given = []
        for result in fit.allocations[0].results:
            at, found = next(places[result.request], None), self.free[result.key]
            promise = ReservedDevice(
                next(more) if at is None else at, found.uuid, *found.key, result.request, admin=True
            )
            given.append((promise, found))
        return given

    def _take(self, claim: Claim, place: int, result: Result) -> tuple[ReservedDevice, Found]:
        key, found = result.key, self.free[result.key]
        self._in_use.count(key, result.consumed if result.share else None)
        for other in found.others:
            self.free.pop(other, None)
        if not result.share:
            del self.free[key]
            return ReservedDevice(place, found.uuid, *key, result.request), found
        share = _share_id(claim.uid, place)
        return ReservedDevice(place, found.uuid, *key, result.request, share, result.consumed), found

    def _open_to(self, claims: Sequence[Claim], group: Collection[str]) -> tuple[list[DeviceKey], list[DeviceKey]]:
        """The devices that the group may have, those reserved for it first; and the reserved ones alone. Without devices on which
        a hand-over to one of these claims has ended in vain."""
        state = self._state
        lives = [life for claim in claims if (life := state.lifecycle.lives.get(claim.uid)) is not None]
        vain = {identity for life in lives for identity in life.excluded}
        promised = {(promise.key, promise.uuid) for owner, promise in self._promised if owner in group}
        mine: list[DeviceKey] = []
        known: list[DeviceKey] = []
        others: list[DeviceKey] = []
        for found in self.free.values():
            owners = _promised_to(state, found)
            if found.identity in vain or not (found.device.shared or owners.issubset(group)):
                continue
            if found.device.shared and self._is_meant_otherwise(found, group):
                continue
            if not promised.isdisjoint(((found.key, found.uuid), (found.key, ""))):
                mine.append(found.key)
            else:
                (others if owners.isdisjoint(group) else known).append(found.key)
        return mine + known + others, mine

    def _is_meant_otherwise(self, found: Found, group: Collection[str]) -> bool:
        """Whether its hardware is reserved for another claim, other than as shares of this device."""
        theirs = [promise for owner, promise in self._promised if owner not in group]
        faces = {found.identity, *_identities(found)}
        return any(one.key != found.key or not one.share for one in theirs if one.identity in faces)

    def _count_holders(self) -> None:
        """Count what claims have of the node's devices, and the reserved shares; only if the allocator is asked at all."""
        self._counted, state = True, self._state
        for pool in state.inventory.pools_at[self._node]:
            for uid in state.demand.claims_in_pool[pool]:
                allocation = state.demand.claims.rows[uid].allocation
                for result in allocation.results if allocation is not None else ():
                    if (result.driver, result.pool) == pool and not result.admin:
                        self._in_use.count(result.key, result.consumed if result.share else None)
        for _, promise in self._shares:
            self._in_use.count(promise.key, promise.consumed)

    def _take_back(self, group: Collection[str]) -> None:
        """The shares that are reserved for the group itself are free for it to choose again."""
        for owner, promise in self._shares:
            if owner in group and self._counted:
                self._in_use.count(promise.key, promise.consumed, -1)
        self._shares = [(owner, promise) for owner, promise in self._shares if owner not in group]

    def _answer(
        self, wishes: list[Wish], among: Sequence[DeviceKey], promised: Sequence[DeviceKey], *, whole: bool
    ) -> Answer:
        """What fits the wishes best, and whether that is all; None if undecided. An answer that took a search is cached with all
        that it depends on: most changes do not concern it. The allocator goes, with its answers, when devices or classes change.
        """
        of = tuple(wish.claim.uid for wish in wishes)
        known = self._state.inventory.answers(self._node)
        if of in known and known[of][0] == self._question(wishes, among, promised, whole):
            return known[of][1]
        steps = Steps(MOST_STEPS)
        try:
            answer = self._searched(wishes, among, promised, steps, whole=whole)
        except OutOfSteps:
            answer = None
        known.pop(of, None)
        if steps.left < MOST_STEPS or answer is None:
            known[of] = (self._question(wishes, among, promised, whole), answer)
        return answer

    def _question(
        self, wishes: list[Wish], among: Sequence[DeviceKey], promised: Sequence[DeviceKey], whole: bool
    ) -> Any:
        """All that an answer depends on, beside the allocator."""
        if not self._counted:
            self._count_holders()
        asked = [(one.requests, one.now, one.kept) for one in wishes]
        in_use = self._in_use.copy()
        return asked, among, promised, whole, self._apart, in_use.devices, in_use.shares, in_use.consumed

    def _searched(
        self,
        wishes: list[Wish],
        among: Sequence[DeviceKey],
        promised: Sequence[DeviceKey],
        steps: Steps,
        *,
        whole: bool,
    ) -> tuple[Fit | None, bool]:
        everything = [(wish, wish.requests) for wish in wishes]
        if whole:
            fit = (self._fits(everything, promised) if promised else None) or self._ask(everything, among, steps)
            if fit is not None:
                return fit, True
        return self._in_part(wishes, among, steps), False

    def _fits(self, wishes: list[tuple[Wish, list[ClaimRequest]]], promised: Sequence[DeviceKey]) -> Fit | None:
        """Whether the reserved devices satisfy the claims. The answer is cached: it is needed at each change of the node, and
        most changes do not concern it. It has steps of its own, so that nothing depends on what is cached."""
        steps = Steps(MOST_STEPS)
        devices = [self.free[key].device for key in promised]
        if any(device.shared or device.consumes for device in devices):  # other claims may have used it up
            return self._ask(wishes, promised, steps)
        of = tuple(wish.claim.uid for wish, _ in wishes)
        asked = ([wish.claim.allocation for wish, _ in wishes], promised)
        known = self._state.inventory.fits(self._node)
        if of not in known or known[of][:2] != asked:
            known[of] = (*asked, self._ask(wishes, promised, steps))
        return known[of][2]

    def _ask(
        self, wishes: list[tuple[Wish, list[ClaimRequest]]], among: Sequence[DeviceKey], steps: Steps
    ) -> Fit | None:
        """The allocator's answer; None if nothing fits. Raises OutOfSteps."""
        allocator = self._state.inventory.allocator(self._node)
        if not self._counted:
            self._count_holders()
        allocator.in_use = self._in_use
        claims = [replace(wish.claim, requests=tuple(requests)) for wish, requests in wishes]
        kept = [wish.kept if requests else [] for wish, requests in wishes]
        given = [(index, name, key) for index, each in enumerate(kept) for name, key in each]
        try:
            fit = allocator.allocate(
                Node("", self._node), claims, among=among, given=given, apart=self._apart, steps=steps
            )
        except AllocationError:
            return None
        if fit.reason == TIMED_OUT:
            raise OutOfSteps
        return fit or None

    def _in_part(self, wishes: list[Wish], among: Sequence[DeviceKey], steps: Steps) -> Fit | None:
        """As many devices as can be had together, request by request, of the allocated alternatives."""
        best: Fit | None = None
        kept: list[tuple[Wish, list[ClaimRequest]]] = []
        for wish in wishes:
            kept.append((wish, []))
            for request in wish.now:
                (wanted,) = request.alternatives
                least, most = 0, min(wanted.count, len(among))
                while least < most:  # of devices that fit together, fewer fit too
                    count = (least + most + 1) // 2
                    fewer = replace(request, alternatives=(replace(wanted, count=count),))
                    attempt = [*kept[:-1], (wish, [*kept[-1][1], fewer])]
                    fit = self._ask(attempt, among, steps)
                    if fit is None:
                        most = count - 1
                    else:
                        least, best, fitting = count, fit, attempt
                if least:
                    kept = fitting
        return best


def _share_id(claim: str, place: int) -> str:
    """A UUID (RFC 4122, version 8) that no other share has; always the same for a claim and place."""
    digest = hashlib.sha256(f"{claim}/{place}".encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def wish_of(state: State, claim: Claim, *, looks: bool = False) -> Wish | None:
    """What the claim asks for to use it, or (`looks`, with admin access) only to look at it. None if that is nothing, or is not
    known."""
    allocation = claim.allocation
    if not claim.known or allocation is None:
        return None
    wish = Wish(claim)
    pool = {place: result for place, result, _ in state.inventory.pool_results(allocation)}
    waiting = {place: result for place, result in pool.items() if result.admin == looks}
    for request in claim.requests:
        mine = [place for place, one in enumerate(allocation.results) if one.request.partition("/")[0] == request.name]
        wanted = [place for place in mine if place in waiting]
        if not wanted:
            continue
        wish.places[request.name] = wanted
        name = waiting.pop(wanted[0]).request.partition("/")[2]
        names = [one.name for one in request.alternatives]
        if name not in names:
            return None
        row = request.alternatives[names.index(name)]
        for place in wanted[1:]:
            del waiting[place]
        better = request.alternatives[: names.index(name) + 1]  # the scheduler would take no worse one
        request = replace(request, alternatives=better)
        count = MOST_RESULTS if looks and row.all else len(wanted)
        now = replace(request, alternatives=(replace(row, count=count, all=False),))
        wish.now.append(now)
        wish.requests.append(now if not looks and (row.all or len(wanted) < len(mine)) else request)
    if claim.constraints:
        others = (one for place, one in enumerate(allocation.results) if place not in pool)
        staying = (one for one in others if any(each.concerns(one.request) for each in claim.constraints))
        wish.kept = [(one.request, one.key) for one in staying]
    return wish if wish.requests and not waiting else None


# -- what is free ------------------------------------------------------------------------------------------------------


def free_devices(state: State, node: str) -> list[Found]:
    """Devices that a claim could have now: fixed ones first, then those not marked to go, those with a warning last."""
    free = [found for found in _listed(state, node) if _is_free(state, found) and _is_there(state, node, found)]
    free.sort(key=lambda found: (found.resource is not None, _is_marked(state, found), _has_warning(found), found.key))
    return free


def _seen(state: State, node: str) -> Iterator[Found]:
    """Devices that a claim with admin access could have now, in use or not: those that stay on the node."""
    for found in _listed(state, node, used=True):
        fence = state.give_back.fences.get(found.resource.uid) if found.resource is not None else None
        if found.resource is None or not (found.resource.leaving or (fence is not None and fence.ordered)):
            yield found


def _listed(state: State, node: str, *, used: bool = False) -> Iterator[Found]:
    """Devices of dds's drivers in the node's own slices, without those that a claim has as a whole (unless `used`): most, so they
    are left out first. An incomplete pool has none; a part is never given for a whole; a device with binding conditions is not
    there yet."""
    for key in state.inventory.pools_at[node]:
        pool = state.inventory.pools[key]
        if key[0] not in state.settings.drivers or not pool.usable:
            continue
        for name, device in pool.devices.items():
            full = (*key, name)
            if device.binding or (not used and not device.shared and state.demand.having[full]):
                continue
            face = state.inventory.face(full)
            if face.part:
                continue
            resource = state.resource_of(full)
            if resource is None or resource.node == node:
                yield Found(full, resource.uuid if resource is not None else face.uuid, device, resource, face)


def _is_free(state: State, found: Found) -> bool:
    """Whether no claim has it under an older name, or as another face of its hardware."""
    if any(state.demand.having[key] for key in found.others):
        return False
    if found.device.shared:
        return True
    life = state.lifecycle.devices.get(found.resource.uid) if found.resource is not None else None
    return life is None or life.key is None or not state.demand.having[life.key]


def _is_there(state: State, node: str, found: Found) -> bool:
    """Whether it has arrived and is not sick. A device without a resource is fixed only if no resource still waits for its UUID,
    and if it did not come after an order on the node: then the operator may take it off at any time."""
    resource = found.resource
    if resource is None:
        going = (DEPARTED, found.uuid) in state.notes.fired_deadlines or found.uuid in state.health.unexplained
        return not going and not _may_be_coming(state, node, found)
    life, fence = state.lifecycle.devices.get(resource.uid), state.give_back.fences.get(resource.uid)
    if fence is not None and fence.ordered:
        return False  # the operator may be detaching it now; it is free again once the size is raised back
    there = state.is_arrived(resource) and state.may_serve(resource) and not resource.leaving
    there = there and not state.fleet.is_taken_off(resource)
    return there and (life is None or life.state != DEVICE_DETACHING)


def _may_be_coming(state: State, node: str, found: Found) -> bool:
    model = model_of_device(state.settings.config, found.key[0], found.device)
    here = (state.fleet.resources.rows[uid] for uid in state.fleet.resources_at[node])
    coming = [one for one in here if not one.uuid and one.state in BEING_ATTACHED and not one.deleting]
    named = [state.settings.model(one.model) for one in coming]
    return any(one == model or (model is None and one.driver == found.key[0]) for one in named if one is not None)


def _is_marked(state: State, found: Found) -> bool:
    resource = found.resource
    return resource is not None and (resource.uid in state.give_back.holds or is_marked(state, resource.uid, resource))


def _has_warning(found: Found) -> bool:
    return found.resource is not None and verdict(found.resource.error) == "warning"


def _promised_to(state: State, found: Found) -> set[str]:
    """For whom the device, or another face of its hardware, is reserved: maybe since before its UUID was published."""
    return set(state.promised(found.identity)).union(*map(state.promised, _identities(found)))


def _identities(found: Found) -> Iterator[str]:
    """All identities under which its hardware may be reserved."""
    yield from found.face.uuids
    yield from ("/".join(key) for key in (found.key, *found.others))


def _pledges(state: State, node: str) -> Iterator[tuple[str, ReservedDevice]]:
    """What is reserved on the node, and for whom."""
    if state.live:
        for key in state.hand_over.reservations_at[node]:
            yield from ((key, promise) for promise in state.hand_over.reservations.rows[key].promises)
    else:
        for uid in state.lifecycle.waiting_at[node]:
            yield from ((uid, promise) for promise in state.lifecycle.lives.rows[uid].promises)


def models_for(state: State, claim: Claim, request: ClaimRequest) -> set[str]:
    """The models whose pools show a device that satisfies the request, or that cannot be judged."""
    asked, found = replace(claim, requests=(request,)), set[str]()
    for model in state.settings.config.models:
        slices = (
            state.inventory.slices.rows[uid]
            for key in state.inventory.pools_of_model[model.model]
            for uid in state.inventory.slices_of[key]
        )
        shown = min((one for one in slices if one.devices), key=lambda one: one.uid, default=None)
        if shown is not None:
            allocator = Allocator([shown], state.inventory.classes.rows.values(), forgiving=True)
            if allocator.selects(asked, (shown.driver, shown.pool, min(shown.devices))):
                found.add(model.model)
    return found
