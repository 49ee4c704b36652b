"""The fold that makes the histories, one moment of the log after the other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from dds_core.events import Decision, Event
from dds_core.lifecycle import ATTACHED, ATTACHING, GONE, IDLE, PENDING, REQUESTED, WAITING
from dds_core.model import (
    NO_NODE_FITS,
    ONLINE,
    Allocation,
    AttachRequest,
    Claim,
    Config,
    DeviceClass,
    DeviceKey,
    FabricResource,
    Node,
    Pod,
    Result,
    Slice,
)
from dds_core.scaler import events as e
from dds_core.scaler.blame import BY_US, Coming, Wait, is_placed, stage_of
from dds_core.scaler.exchange import OF_ONE_CLAIM
from dds_core.scaler.history.claims import Attempt, ClaimHistory
from dds_core.scaler.history.devices import DeviceHistory
from dds_core.scaler.history.looks import Called, Looks
from dds_core.scaler.history.stock import Stock
from dds_core.scaler.model import Cell, ClaimLife, DeviceLife, PoolKey, model_of_pool
from dds_core.scaler.operator import verdict as operator_verdict
from dds_core.scaler.policy import Policy
from dds_core.scaler.rules.failures import PLACED, placed_in_vain
from dds_core.scaler.rules.handover import NO_WAY, no_way
from dds_core.scaler.state import State, load
from dds_core.scaler.timeline import set_anew
from dds_core.scaler.timeline.words import DDS, OTHERS, Known
from dds_core.timeline.telling import Moment

_TOLD = (e.ClaimFailed, e.ExchangeBegun, e.ExchangeEnded, e.OperatorNudged, e.Alerted, e.Reserved)
IGNORED = frozenset(
    kind.__name__
    for kind in e.EVENTS
    if (issubclass(kind, Decision) and kind not in _TOLD and kind.seen_by is Decision.seen_by)
    or kind in (e.Checkpoint, e.WriteDone, e.Superseded, e.DeadlinePassed, e.ClaimsListed)
)
"""Types of events of which a history needs only that time goes on; of a checkpoint, if it is not the log's first event."""
_NAMES = 4
"""For each ended claim that is kept, the names of so many gone objects are kept: pods and devices have names, too."""


class Alert(NamedTuple):
    """An alert of dds: when, about what, and why."""

    at: int
    of: str
    reason: str
    text: str


class Refused(NamedTuple):
    """A write that the API server refused: when, which kind, and why."""

    at: int
    write: str
    text: str


class History:
    """The claims and devices of a log by uid, ended ones included, its alerts and its pools. Begins empty, or at the log's first
    checkpoint. `first`, `now`: instants of the first and the newest moment; use is counted from `first`, which may be set.
    `synced`: the process has listed everything since its start; `stale`: the resources that it cannot watch now. `refused`: the
    writes that were refused. `away`: (from, to, how many claims waited) for each time in which no event was written before a new
    process started: it may have been dead for so long."""

    def __init__(self, known: Known | None = None) -> None:
        """`known`: that of a teller that is given the same moments."""
        self.claims: dict[str, ClaimHistory] = {}
        self.devices: dict[str, DeviceHistory] = {}
        self.alerts: list[Alert] = []
        self.stock = Stock()
        self.refused: list[Refused] = []
        self._ordered: dict[str, list[tuple[str, int]]] = {}
        self._unasked: Counter[str] = Counter()
        self.first = self.now = self._before = 0
        self.away: list[tuple[int, int, int]] = []
        self.synced, self.stale = False, set[str]()
        self._known = known if known is not None else Known()
        self._uid_of: dict[tuple[str, str], str] = {}
        self._pods_of: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        self._asking: dict[str, int] = {}
        """By pod: since when the scheduler has refused its extended resources without a claim; 0 once it has allocated one."""
        self._waiting_at: dict[str, set[str]] = defaultdict(set)
        self._resources_at: dict[str, set[str]] = defaultdict(set)
        self._holders: dict[DeviceKey, set[str]] = defaultdict(set)
        self._device_of: dict[DeviceKey, str] = {}
        self._keys_of: dict[str, set[DeviceKey]] = defaultdict(set)
        self._with_uuid: dict[str, str] = {}
        self._requests_at: dict[str, set[str]] = defaultdict(set)
        self._orders: dict[Cell, tuple[str, int]] = {}
        """By node and model: the request, and the size of it that dds has ordered and that was not seen yet."""
        self._lacking: set[str] = set()
        """The claims that wait for devices that nobody has ordered yet."""
        self._uncounted: dict[Cell, None] = {}
        """Nodes and models whose orders have changed since the last count, which is needed while a claim is lacking."""
        self._ready_for: dict[str, str] = {}
        self._expected: dict[str, tuple[str, ...]] = {}
        """By claim that waits: the resources that dds gives it, those on the node included, as of its last step."""
        self._thefts: dict[tuple[str, str], tuple[str, int]] = {}
        self._awaited: dict[str, tuple[Allocation, list[Result], Counter[str]]] = {}
        """By claim: its allocation, with the results on devices from a pool and how many devices of which model they are."""
        self._shared_out: dict[str, dict[str, list[DeviceHistory]]] = {}
        self._looks = Looks(self.devices, self._resources_at, self._with_uuid, self._known)
        self._called = Called(self.devices)
        self._classes: dict[str, str] = {}
        """The names of the device classes, by uid."""
        self._exchanged: dict[str, tuple[str, ...]] = {}
        """By claim: all claims of its exchange, which are guarded at once."""
        self._placed: set[str] = set()
        """The claims (uids) of which dds has told that a pod was put on its node past the scheduler, in vain."""
        self._no_way: set[str] = set()
        """The claims (uids) of which dds has told that there is no way to hand over."""
        self._touched: dict[str, None] = {}

    def read(self, told: Iterable[Moment]) -> History:
        """Take in these moments; returns itself."""
        for moment in told:
            self.take(moment)
        return self

    def take(self, moment: Moment) -> None:
        self._before, at = self.now, max(self.now, moment.at)
        self.now = at
        fact = moment.fact
        if isinstance(fact, e.Checkpoint):
            if not self.first:
                self._begin(load(fact.picture), at)
            fact = None
        self.first = self.first or at
        if fact is not None:
            self._fact(fact, at)
        for event in moment.caused:
            self._event(event, at)
        self._shared_out.clear()
        for uid in self._touched:
            self._stage(uid, at)
        self._touched.clear()

    @property
    def hands_over(self) -> bool:
        """Whether devices were handed over in another way than by an exchange of dds: by policy, or because dds only observed."""
        return self.observes or self.policy.hand_over != "exchange"

    @property
    def observes(self) -> bool:
        """Whether dds only observes, by policy."""
        return self.policy.mode == "observe"

    @property
    def policy(self) -> Policy:
        """The scaler's policy, as of the newest moment."""
        return self._known.policy

    def fabric_of(self, node: str) -> str:
        """The fabric that a node's label names, "" for none."""
        return self._known.fabric_of(node)

    @property
    def knows_pools(self) -> bool:
        """Whether the ConfigMap is known, which says whose pools are dds's."""
        return bool(self._known.config.models)

    def pool_name(self, pool: PoolKey) -> str:
        """Model and fabric of a publisher's pool; "" for a pool of others, and while the ConfigMap is unknown."""
        model = model_of_pool(self._known.config, *pool)
        return f"{model.model}, fabric {pool[1].rpartition('-fabric')[2]}" if model is not None else ""

    def forget(self, claims: Iterable[str], devices: Iterable[str], most: int, before: int) -> None:
        """Drop these ended claims and devices (uids), all alerts and refused writes but the newest `most`, and of all others the
        spans and attempts that ended before an instant, except the last of each."""
        for claim in self.claims.values():
            claim.cut(before)
        for device in self.devices.values():
            device.cut(before)
        for uid in claims:
            self._placed.discard(uid)
            self._no_way.discard(uid)
            self._exchanged.pop(uid, None)
            for attempt in self.claims.pop(uid).attempts:
                self._waiting_at[attempt.node].discard(uid)
        for uid in devices:
            gone = self.devices.pop(uid)
            for key in self._keys_of.pop(uid, ()):
                if self._device_of.get(key) == uid:
                    del self._device_of[key]
            if self._with_uuid.get(gone.uuid) == uid:
                del self._with_uuid[gone.uuid]
        del self.alerts[:-most], self.refused[:-most], self.away[:-most]
        self.stock.cut(before)
        self._known.forget(most * _NAMES)

    # -- objects -------------------------------------------------------------------------------------------------------

    def _fact(self, fact: Event, at: int) -> None:
        policy = self.policy
        before, now = self._known.learn(fact)
        if self.policy is not policy:
            self._progress_everywhere()
            for uid in self._touched if policy.mode == "observe" != self.policy.mode else ():
                self.claims[uid].failing = ("", "")  # dds would have failed it, and has not
        if before is None and now is None:
            return self._of_no_object(fact, at)
        match now if now is not None else before:
            case Claim() as claim:
                self._claim(before, claim if now is not None else None, at)
            case Pod() as pod:
                self._pod(before, pod, at, gone=now is None)
            case FabricResource() as resource:
                self._resource(resource, at)
            case Slice() as listed:
                self.stock.listed(before, now, at)
                if listed.node:
                    self._looks.listed(listed, at, gone=now is None, started=self.synced)
                    self._progress(listed.node)
                else:
                    self._touched |= dict.fromkeys(self._lacking)
            case AttachRequest() as request:
                self._request(before, request, gone=now is None)
                here = self._requests_at[request.node]
                (here.add if now is not None else here.discard)(request.uid)
                self._order_seen(before, request, gone=now is None)
                self._count_ordered(request.node, request.model)
                self._progress(request.node)
            case Node() as node:
                if now is None:
                    self._orders = {cell: order for cell, order in self._orders.items() if cell[0] != node.name}
                self._count_ordered_at(node.name)
                self._progress(node.name)
            case DeviceClass() as named:
                self._class(named, gone=now is None)
            case Config():
                self._awaited.clear()
                for node_name in self._requests_at:
                    self._count_ordered_at(node_name)
                self._progress_everywhere()

    def _class(self, named: DeviceClass, *, gone: bool) -> None:
        """A class comes, or goes, which may keep claims from being served."""
        if gone or self._classes.get(named.uid) != named.name:
            self._classes.pop(named.uid, None)
            self._classes |= {} if gone else {named.uid: named.name}
            self._touched |= {uid: None for uid, one in self.claims.items() if one.waits}

    def _of_no_object(self, fact: Event, at: int) -> None:
        match fact:
            case e.Started() | e.LogRepaired():
                self.synced = False
                waiting = sum(one.waits for one in self.claims.values())
                if isinstance(fact, e.Started) and self.first < at and waiting:
                    self.away.append((self._before, at, waiting))
            case e.Stale():
                self.stale.add(fact.resource)
            case e.WriteRefused():
                self.refused.append(Refused(at, fact.action, f"{fact.code} {fact.reason} {fact.text}".rstrip()))
                self._not_written(fact)
            case e.WriteObsolete():
                self._not_written(fact)
            case e.Synced():
                if not self.synced:  # a new process goes on with an exchange only if the claim was cleared for it
                    self._leave(uid for uid, one in self.claims.items() if one.exchanging and self._is_allocated(uid))
                self.synced, self._looks.since = True, self._looks.since or at
                self.stale.clear()
                self._progress_everywhere()

    def _not_written(self, fact: e.WriteRefused | e.WriteObsolete) -> None:
        """A write of an exchange came to nothing, which ends it."""
        if fact.action == e.ExchangeBegun.__name__:
            self._leave(self._exchanged.get(fact.target, ()))
        elif fact.action in OF_ONE_CLAIM:
            self._leave((fact.target,))

    def _leave(self, claims: Iterable[str]) -> None:
        for uid in [one for one in claims if one in self.claims]:
            self.claims[uid].exchanging = False
            self._touched[uid] = None

    def _is_allocated(self, uid: str) -> bool:
        claim = self._known.claim(uid)
        return claim is None or claim.allocation is not None

    def _claim(self, before: Claim | None, claim: Claim | None, at: int) -> None:
        seen = claim if claim is not None else before
        assert seen is not None
        if seen.ours:
            return
        name = (seen.namespace, seen.name)
        history = self.claims.get(seen.uid)
        if history is None:
            history = ClaimHistory(seen.uid, "/".join(name), at, seen.namespace)
            self.claims[seen.uid] = history
        if claim is None:
            history.deleted(at)
            self._awaited.pop(seen.uid, None)
            if self._uid_of.get(name) == seen.uid:
                del self._uid_of[name]
        elif self._uid_of.get(name) != seen.uid:
            self._uid_of[name] = seen.uid
            for pod, came in self._pods_of.get(name, {}).items():
                self._refers(history, self._known.objects.get(pod), came)
        elif before is not None and before.allocation is None and claim.allocation is not None:
            for one in self._pods(history):
                self._refers(history, one, at)
        if claim is not None and claim.conditions and set_anew(before, claim):
            history.by = history.by or OTHERS
            self._touched |= {one.uid: None for pod in self._pods(history) for one in self._claims_of(pod)}
        self._touched[seen.uid] = None
        self._held(seen.uid, before, claim, at)

    def _held(self, uid: str, before: Claim | None, claim: Claim | None, at: int) -> None:
        """Update who holds the devices of its allocation."""
        if before is not None and claim is not None and before.allocation is claim.allocation:
            return
        old, new = _keys(before), _keys(claim)
        for key in old - new:
            self._holders[key].discard(uid)
            if not self._holders[key]:
                del self._holders[key]
                self.stock.held(key, taken=False, at=at)
        for key in new - old:
            if key not in self._holders:
                self.stock.held(key, taken=True, at=at)
            self._holders[key].add(uid)
        for key in old ^ new:
            device = self._device_of.get(key) or self._with_uuid.get(self._known.uuid_at.get(key, ""))
            if device is not None:
                self._faces(device, key)
                self._look(device, at)

    def _faces(self, device: str, key: DeviceKey) -> None:
        """The device has this name on its node from now on."""
        former = self._device_of.get(key)
        if former is not None:
            self._keys_of[former].discard(key)
        self._device_of[key] = device
        self._keys_of[device].add(key)

    def _pod(self, before: Pod | None, pod: Pod, at: int, gone: bool) -> None:
        if gone:
            self._asking.pop(pod.uid, None)
        elif pod.extended_resources and pod.waiting == NO_NODE_FITS:
            made = (pod.namespace, pod.extended_claim) in self._uid_of
            self._asking.setdefault(pod.uid, 0 if made else at)
        for name in filter(None, {*pod.claims, pod.extended_claim}):
            pods = self._pods_of[pod.namespace, name]
            came = pods.setdefault(pod.uid, at)
            uid = self._uid_of.get((pod.namespace, name))
            history = self.claims.get(uid) if uid is not None else None
            if gone:
                self._touched |= {uid: None} if uid is not None else {}
                del pods[pod.uid]
                if not pods:
                    del self._pods_of[pod.namespace, name]
                if (
                    history is not None
                    and not any(self._waits(o, history) for o in pods)
                    and (history.state or not pods)
                ):
                    history.nobody_waits(at)
            elif history is not None:
                self._refers(history, pod, at if f"{pod.namespace}/{pod.name}" in history.pods else came)
                self._touched[history.uid] = None

    def _waits(self, uid: str, history: ClaimHistory) -> bool:
        pod = self._known.objects.get(uid)
        return isinstance(pod, Pod) and (pod.pending or self._is_misplaced(history, pod))

    def _is_misplaced(self, history: ClaimHistory, pod: Pod) -> bool:
        """Whether the pod has its node and the claim never had an allocation, which it will get from nobody."""
        claim = self._known.claim(history.uid)
        return not history.state and claim is not None and claim.allocation is None and is_placed(pod, claim)

    def _refers(self, history: ClaimHistory, pod: object, at: int) -> None:
        if isinstance(pod, Pod):
            name = f"{pod.namespace}/{pod.name}"
            if name not in history.pods:
                history.pods.append(name)
            if pod.pending or self._is_misplaced(history, pod):
                history.pod_waits(at)
            elif pod.node:
                history.pod_runs(at, pod.node)

    def _resource(self, resource: FabricResource, at: int) -> None:
        device = self.devices.get(resource.uid)
        if device is None:
            device = self.devices[resource.uid] = DeviceHistory(resource.uid, at)
            device.request = resource.request
            device.meant = self._meant(resource)
        device.resource, device.node, device.model = resource.name, resource.node, resource.model
        device.fabric = self._known.fabric_of(resource.node) or device.fabric
        if resource.uuid:
            device.uuid = resource.uuid
            self._with_uuid[resource.uuid] = resource.uid
            if not device.named:
                self._looks.named(device, at)
        self._resources_at[resource.node].add(resource.uid)
        for node in self._called.seen(resource, device, at):
            self._progress(node)
        device.error = resource.error
        if resource.state == ONLINE:
            self._looks.online(device, at)
            device.ready = device.ready or (at if device.life == IDLE else 0)
        device.changed(at)
        self._count_ordered(resource.node, resource.model)
        self._progress(resource.node)

    def _is_online(self, device: DeviceHistory) -> bool:
        resource = self._known.resource(device.uid)
        return resource is not None and resource.state == ONLINE

    def _meant(self, resource: FabricResource) -> tuple[str, int]:
        """The attempt that the resource was ordered for. It may be seen before its request has grown."""
        if not resource.request:
            return ("", 0)
        ordered = self._ordered.get(resource.request)
        if ordered:
            first = ordered.pop(0)
            if not ordered:
                del self._ordered[resource.request]
            return first
        self._unasked[resource.request] += 1
        return next(self._wanting(resource.node, resource.model), ("", 0))

    def _request(self, before: Any, request: AttachRequest, *, gone: bool) -> None:
        """Note for whom a request grows: for the attempts that wait on its node and that no device is ordered for yet, the
        oldest first. An order without one is ahead of demand. What is not made yet of a request that shrinks is not made."""
        ordered = self._ordered.pop(request.name, [])
        growth = request.size - (before.size if before is not None else 0)
        if gone:
            del self._unasked[request.name]
            return
        if growth < 0:
            del ordered[growth:]
        elif growth:
            growth -= min(growth, self._unasked.pop(request.name, 0))
            wanting = list(islice(self._wanting(request.node, request.model), growth))
            ordered += [*wanting, *[("", 0)] * (growth - len(wanting))]
        if ordered:
            self._ordered[request.name] = ordered

    def _order_seen(self, before: Any, request: AttachRequest, *, gone: bool) -> None:
        """The request shows what dds has ordered, or another client has overtaken that."""
        cell, was = (request.node, request.model), before.size if before is not None else 0
        name, size = self._orders.get(cell, ("", 0))
        overtaken = request.size > max(size, was) or request.size < size <= was
        if cell in self._orders and name == request.name and (gone or request.size == size or overtaken):
            del self._orders[cell]

    def _count_ordered_at(self, node: str) -> None:
        for model in self._known.config.models:
            self._count_ordered(node, model.model)

    def _count_ordered(self, node: str, model: str) -> None:
        """The orders of the model for the node have changed."""
        self._uncounted[node, model] = None
        if self._lacking:
            self._count()

    def _count(self) -> None:
        """How many devices of each model are requested or ordered for each node and have not come."""
        for node, model in self._uncounted:
            requests = (self._known.objects.get(uid) for uid in self._requests_at.get(node, ()))
            sizes = {
                one.name: one.size
                for one in requests
                if isinstance(one, AttachRequest) and one.model == model and not one.deleting
            }
            sizes.update([self._orders[node, model]] if (node, model) in self._orders else ())
            resources = (self._known.resource(uid) for uid in self._resources_at.get(node, ()))
            came = sum(
                one is not None and bool(one.uuid) and not one.leaving and one.request in sizes and one.model == model
                for one in resources
            )
            pool = self._pool_of(node, model)
            if pool is not None and self.stock.ordered((node, model), pool, max(0, sum(sizes.values()) - came)):
                self._touched |= dict.fromkeys(self._lacking)
        self._uncounted.clear()

    def _pool_of(self, node: str, model: str) -> PoolKey | None:
        """The publisher's pool of the model in the node's fabric."""
        named = next((one for one in self._known.config.models if one.model == model), None)
        return (named.driver, f"{named.device}-fabric{self.fabric_of(node)}") if named is not None else None

    def _wanting(self, node: str, model: str) -> Iterator[tuple[str, int]]:
        """The attempts on the node, each as often as it lacks a device of the model that is its own or on its way to it."""
        found = [(self.claims[uid].attempts[-1], uid) for uid in self._waiting_at.get(node, ())]
        devices = (self.devices[uid] for uid in self._resources_at[node])
        meant = Counter(one.meant for one in devices if not one.claims or one.meant[0] in one.claims)
        meant.update(one for ordered in self._ordered.values() for one in ordered)
        for attempt, uid in sorted(found, key=lambda one: (one[0].since, one[1])):
            lacking = attempt.models.count(model) - meant[uid, attempt.since]
            yield from [(uid, attempt.since)] * lacking

    def _progress(self, node: str) -> None:
        """What happens on the node may concern the claims that wait there."""
        if waiting := self._waiting_at.get(node):
            self._touched |= dict.fromkeys(waiting)

    def _progress_everywhere(self) -> None:
        """What was learned may concern every claim that waits on a node."""
        self._touched |= dict.fromkeys(uid for uids in self._waiting_at.values() for uid in uids)

    # -- stages --------------------------------------------------------------------------------------------------------

    def _stage(self, uid: str, at: int) -> None:
        """Begin the claim's present stage, if it waits and that is another one."""
        history = self.claims.get(uid)
        self._lacking.discard(uid)
        if history is not None and (history.waits or history.state in WAITING):
            wait, stage = self._stage_now(history)
            on_node = wait.allocated and history.attempts and history.state in WAITING
            history.enter(stage, at, history.attempts[-1].node if on_node else "")

    def _stage_now(self, history: ClaimHistory) -> tuple[Wait, str]:
        wait = self._wait(history)
        stage = stage_of(wait)
        if stage in BY_US and self._is_barred(history):
            stage = stage_of(wait._replace(barred=True))
        return wait, stage

    def _is_barred(self, history: ClaimHistory) -> bool:
        """Whether something keeps dds and the scheduler from serving the claim that neither can change."""
        claim = self._known.claim(history.uid)
        if claim is None:
            return False
        waiting = self._awaited_by(claim, claim.allocation)[0] if claim.allocation is not None else ()
        if claim.unknown_class(self._classes.values(), waiting):
            return True
        if history.state == ATTACHED and history.uid in self._no_way:
            return True
        told = history.uid in self._placed
        return any(is_placed(one, claim) or (told and one.node and not one.over) for one in self._pods(history))

    def _wait(self, history: ClaimHistory) -> Wait:
        claim, state = self._known.claim(history.uid), history.state
        observes = "observe" in (self.policy.mode, self._known.config.mode)
        failing = bool(history.failing[0]) and state in WAITING and not observes
        if claim is None or claim.allocation is None:
            unschedulable = any(pod.pending and pod.waiting == NO_NODE_FITS for pod in self._pods(history))
            going = claim is not None and claim.deleting
            return Wait(state, unschedulable=unschedulable, failing=failing, exchanging=history.exchanging, going=going)
        results, needed = self._awaited_by(claim, claim.allocation)
        wait = Wait(
            state,
            allocated=True,
            pooled=claim.waits_for(results),
            failing=failing,
            told=not history.failing[0] or self._is_told(history, claim),
            observes=observes,
            exchanging=history.exchanging,
            going=claim.deleting,
            lost=bool(history.node and self._looks.since) and self._known.node(history.node) is None,
            taken=bool(history.taken[0]),
        )
        if not history.attempts or not wait.pooled or wait.exchanging:
            return wait
        if state == ATTACHED:
            true = {one[:3] for one in claim.true_conditions}
            signalled = any(one.key in true for one in results)
            wait = wait._replace(
                signalled=signalled, turn=any(self._lacks(history, pod) for pod in self._pods(history))
            )
            wait = wait._replace(short=self._is_short(history))
            if not (wait.taken or wait.short):
                return wait
        node, mine = history.attempts[-1].node, self._coming(history)
        coming = [one for model in needed for one in mine if one.model == model][: needed.total()]
        lacking = needed - Counter(one.model for one in coming)
        if lacking:
            wait = wait._replace(taken=wait.taken or self._robbed(history, needed))
        ordered = (state == ATTACHING and not observes) or all(self._is_making(node, model) for model in lacking)
        if lacking and not ordered:
            self._count()
            self._lacking.add(history.uid)
        pools = ((self._pool_of(node, model), number) for model, number in lacking.items())
        empty = not ordered and any(pool is not None and self.stock.lacks(pool, number) for pool, number in pools)
        return wait._replace(ordered=ordered, empty=empty, needs=needed.total(), coming=[one.coming for one in coming])

    def _robbed(self, history: ClaimHistory, needed: Counter[str]) -> bool:
        """Whether a claim that did not wait on its node has taken a device there, so that the last in turn lacks one."""
        last = history.attempts[-1]
        thefts = [
            theft for model in needed if (theft := self._thefts.get((last.node, model))) and theft[1] > last.since
        ]
        if thefts:
            history.taken = max(thefts, key=lambda one: one[1])[0], 0
        return bool(thefts)

    def _pods(self, history: ClaimHistory) -> Iterator[Pod]:
        """The pods that refer to the claim."""
        namespace, _, name = history.name.rpartition("/")
        for uid in self._pods_of.get((namespace, name), ()):
            pod = self._known.objects.get(uid)
            if isinstance(pod, Pod):
                yield pod

    def _lacks(self, history: ClaimHistory, pod: Pod) -> bool:
        """Whether another claim of the pod waits for its devices."""
        return any(one is not history and one.state in (PENDING, ATTACHING) for one in self._claims_of(pod))

    def _claims_of(self, pod: Pod) -> Iterator[ClaimHistory]:
        uids = (self._uid_of.get((pod.namespace, name), "") for name in pod.claims)
        return (self.claims[uid] for uid in uids if uid in self.claims)

    def _is_told(self, history: ClaimHistory, claim: Claim) -> bool:
        """Whether a failure is shown on the claim, or on another one of its pod, where the scheduler looks first."""
        mates = (self._known.claim(one.uid) for pod in self._pods(history) for one in self._claims_of(pod))
        return any(one.fails for one in (claim, *filter(None, mates)))

    def _is_making(self, node: str, model: str) -> bool:
        """Whether a request asks for more than the operator has made resources for, or is to, as dds has ordered."""
        if (node, model) in self._orders:
            return True
        for uid in self._requests_at.get(node, ()):
            request = self._known.objects.get(uid)
            if isinstance(request, AttachRequest) and request.model == model and not request.deleting:
                here = (self._known.resource(one) for one in self._resources_at[node])
                if request.size > sum(one is not None and one.request == request.name for one in here):
                    return True
        return False

    def _coming(self, history: ClaimHistory) -> list[DeviceHistory]:
        """What came for the claim, or is still to come. Who has waited longest on the node gets what was made first. A device
        that idled before the allocation is for another claim, or unfit."""
        node = history.attempts[-1].node
        if node not in self._shared_out:
            self._shared_out[node] = self._share_out(node)
        return self._shared_out[node].get(history.uid, [])

    def _share_out(self, node: str) -> dict[str, list[DeviceHistory]]:
        devices = (self.devices[one] for one in self._resources_at[node])
        usable = (one for one in devices if one.life in (REQUESTED, IDLE) and not _is_lost(one))
        free = sorted(usable, key=self._made)
        found: dict[str, list[DeviceHistory]] = {}
        for uid in sorted(filter(self._is_served, self._waiting_at.get(node, ())), key=self._served):
            attempt = self.claims[uid].attempts[-1]
            lacking, expected = Counter(attempt.models), self._expected.get(uid, ())
            mine = found[uid] = []
            for one in sorted(free, key=lambda one: self._ready_for.get(one.uid) != uid):
                came = one.life == REQUESTED or one.first >= attempt.since or one.named >= attempt.since
                came = came or one.uid in expected
                if came and lacking[one.model] > 0 and self._ready_for.get(one.uid, uid) == uid:
                    lacking[one.model] -= 1
                    mine.append(one)
            free = [one for one in free if one not in mine]
        return found

    def _made(self, device: DeviceHistory) -> tuple[int, str]:
        """Order in which devices are given to claims (`rules.assignment`)."""
        resource = self._known.resource(device.uid)
        return (resource.created if resource is not None else 0), device.resource

    def _is_served(self, uid: str) -> bool:
        """Whether it waits for devices, and not for the scheduler alone."""
        claim = self._known.claim(uid)
        if claim is None or claim.allocation is None:
            return claim is None
        return claim.waits_for(self._awaited_by(claim, claim.allocation)[0])

    def _served(self, uid: str) -> tuple[object, ...]:
        """Order in which claims that wait on a node are served (`rules.assignment`)."""
        claim, history = self._known.claim(uid), self.claims[uid]
        priority = max((pod.priority for pod in self._pods(history)), default=0)
        robbed = bool(history.taken[0])
        return history.state != ATTACHED, not robbed, -priority, claim.created if claim else 0, history.name, uid

    # -- decisions and lives -------------------------------------------------------------------------------------------

    def _event(self, event: Event, at: int) -> None:
        if isinstance(event, e.ClaimMoved):
            return self._claim_moved(event, at)
        if isinstance(event, e.DeviceMoved):
            return self._device_moved(event, at)
        if isinstance(event, Decision) and getattr(event, "mode", "") != "observe":
            for of, what, value in event.seen_by():
                if what == "size" and isinstance(event, e.OfCell):
                    self._orders[event.node, event.model] = of, int(value)
                    self._count_ordered(event.node, event.model)
                if what == "condition" and of in self.claims:
                    self.claims[of].by = DDS
                    self._no_way.discard(of)
        match event:
            case e.ClaimFailed():
                history = self.claims.get(event.claim)
                if history is not None:
                    history.failing = (event.reason, event.message)
            case e.ExchangeBegun() if event.mode != "observe":
                for swap in event.swaps:
                    self._exchanged[swap.claim] = event.for_claims()
                    self._no_way.discard(swap.claim)
                    if swap.claim in self.claims:
                        keys = (one.key for one in swap.results)
                        uids = [uid for key in keys if (uid := self._device_of.get(key)) is not None]
                        self.claims[swap.claim].exchange_begins(at, self._got(self.claims[swap.claim], uids))
                        self._touched[swap.claim] = None
            case e.Reserved() if event.mode != "observe" and event.claim in self.claims:
                self._reserved(self.claims[event.claim], event)
            case e.ExchangeEnded() if event.claim in self.claims:
                self.claims[event.claim].exchanging = False
                self._touched[event.claim] = None
            case e.OperatorNudged() if event.mode != "observe":
                self._looks.looked(event.resource, at)
                self._progress(event.node)
            case e.Alerted() if not event.reissued:
                if event.reason in (PLACED, NO_WAY) and event.of in self.claims:
                    (self._placed if event.reason == PLACED else self._no_way).add(event.of)
                    self._touched[event.of] = None
                self.alerts.append(Alert(at, self._known.called(event.of), event.reason, event.text))

    def _reserved(self, history: ClaimHistory, event: e.Reserved) -> None:
        """Other devices than before are for the claim, whose attempt goes on."""
        devices = tuple(dict.fromkeys(uid for one in event.promises if (uid := self._with_uuid.get(one.uuid))))
        if history.state == ATTACHED and history.attempts and devices:
            history.attempts[-1].devices = devices
            self._ready_for = {of: uid for of, uid in self._ready_for.items() if uid != history.uid}
            self._ready_for |= dict.fromkeys(devices, history.uid)
            self._touched[history.uid] = None

    def _is_short(self, history: ClaimHistory) -> bool:
        """Whether a device that came for the claim is not there any more."""
        got = (self.devices.get(uid) for uid in history.attempts[-1].devices)
        return any(one is None or one.hidden or one.gone or _is_lost(one) for one in got)

    def _got(self, history: ClaimHistory, devices: Iterable[str]) -> list[Coming]:
        """Of devices that the claim gets, those that were on their way to it: another claim has not held them meanwhile."""
        found = [device for uid in devices if (device := self.devices.get(uid)) is not None]
        since = history.attempts[-1].since if history.attempts else 0
        return [one.coming for one in found if not one.is_from(history.uid, since)]

    def _claim_moved(self, move: e.ClaimMoved, at: int) -> None:
        history = self.claims.get(move.claim)
        if history is None:
            return
        claim = self._known.claim(move.claim)
        allocation = claim.allocation if claim is not None else None
        coming = self._got(history, move.devices)
        node = allocation.node if allocation is not None else ""
        if history.attempts:
            self._waiting_at[history.attempts[-1].node].discard(move.claim)
        if move.trigger in _ENDS_EXCHANGE:
            history.exchanging = False
            for uid in history.attempts[-1].devices if history.attempts else ():
                if self._ready_for.get(uid) == move.claim:
                    del self._ready_for[uid]
        history.moved(move, at, node, self._models(allocation), coming)
        if claim is not None and claim.extended and allocation is not None and self._asking.get(claim.owner):
            history.was_awaited(self._asking[claim.owner])
            self._asking[claim.owner] = 0
        if move.target == ATTACHED:
            self._ready_for |= dict.fromkeys(move.devices, move.claim)
        self._expected.pop(move.claim, None)
        if move.target in WAITING:
            self._expected[move.claim] = move.devices
        if history.attempts and move.target in WAITING:
            self._waiting_at[history.attempts[-1].node].add(move.claim)
        if history.attempts:
            self._progress(history.attempts[-1].node)
        self._touched[move.claim] = None

    def _device_moved(self, move: e.DeviceMoved, at: int) -> None:
        device = self.devices.get(move.resource)
        if device is None:
            return
        if move.key is not None:
            self._faces(move.resource, move.key)
        if move.trigger == "taken":
            self._taken(device, at)
        device.moved(move.target, at)
        if move.trigger in ("online", "taken"):
            device.ready = device.ready or at
        elif move.trigger == "freed" and self.policy.device_ready == "online" and not self._is_online(device):
            device.ready = 0
        if move.target == GONE:
            device.gone = at
            self._resources_at[device.node].discard(move.resource)
            for node in self._called.gone(device, at):
                self._progress(node)
            self._ready_for.pop(move.resource, None)
        self._look(move.resource, at)
        self._progress(device.node)

    def _taken(self, device: DeviceHistory, at: int) -> None:
        """A claim has the device: another one, for which it came, has lost it."""
        takers = {claim for key in self._keys_of[device.uid] for claim in self._holders.get(key, ())}
        taker = next((self.claims[uid].name for uid in sorted(takers) if uid in self.claims), "")
        waiting = self._waiting_at.get(device.node, set())
        if taker and not waiting & takers:
            self._thefts[device.node, device.model] = taker, at
        loser = self.claims.get(self._ready_for.get(device.uid, ""))
        if taker and loser is not None and loser.uid not in takers and loser.state == ATTACHED:
            loser.taken = (taker, at)

    def _look(self, uid: str, at: int) -> None:
        """Update which claims hold the device."""
        device = self.devices.get(uid)
        if device is not None:
            device.claims = tuple(sorted({claim for key in self._keys_of[uid] for claim in self._holders.get(key, ())}))
            device.changed(at)

    # -- a log that begins with a checkpoint ---------------------------------------------------------------------------

    def _begin(self, state: State, at: int) -> None:
        """Begin with the present attempt or use, as the state has it. What devices were before counts with the earlier log."""
        self._known.begin(state)
        self.synced, self.stale = state.process.synced, set(state.process.stale)
        self._looks.since = state.process.synced_at
        for uid, device in state.lifecycle.devices.rows.items():
            resource = state.fleet.resources.get(uid)
            if resource is not None:
                self._resource_there(resource, device, state, at)
        for request in state.fleet.requests.rows.values():
            self._requests_at[request.node].add(request.uid)
        self._orders = {cell: (order.request, order.size) for cell, order in state.fleet.orders.rows.items()}
        for node in {*self._requests_at, *(node for node, _ in self._orders)}:
            self._count_ordered_at(node)
        for row in state.inventory.slices.rows.values():
            self.stock.listed(None, row, at)
            if row.node:
                self._looks.begin(row)
        self._classes = {one.uid: one.name for one in state.inventory.classes.rows.values()}
        for claim in state.demand.claims.rows.values():
            self._claim(None, claim, at)
            if placed_in_vain(state, claim):
                self._placed.add(claim.uid)
            if no_way(state, claim):
                self._no_way.add(claim.uid)
        for uid, history in self.claims.items():
            life = state.lifecycle.lives.get(uid)
            history.early, history.state = True, life.state if life is not None else ""
        for pod in state.demand.pods.rows.values():
            self._pod(None, pod, at, gone=False)
        for uid, history in self.claims.items():
            life = state.lifecycle.lives.get(uid)
            if life is not None:
                self._goes_on(history, life, state)

    def _resource_there(self, resource: FabricResource, life: DeviceLife, state: State, at: int) -> None:
        uid, look = resource.uid, state.health.looks.get(resource.uid)
        device = self.devices[uid] = DeviceHistory(uid, life.since, life=life.state, since=life.since, early=True)
        device.called = life.since if resource.state else 0
        device.named = (look.named if look is not None else 0) or (life.since if life.state != REQUESTED else 0)
        device.look = max(device.named, look.last if look is not None else 0)
        device.sought = device.listed = at if state.is_listed(resource) else 0
        device.ready = life.since if life.state != REQUESTED else 0
        self._resource(resource, at)
        listing = state.health.listings.get(state.place_listed(resource))
        if listing is not None:
            self._looks.goes_on(device, listing)
        if life.key is not None:
            self._faces(uid, life.key)

    def _goes_on(self, history: ClaimHistory, life: ClaimLife, state: State) -> None:
        failure = state.failing.failures.get(history.uid)
        failing = (failure.reason, failure.message) if failure is not None else ("", "")
        history.exchanging = history.uid in state.hand_over.exchanges
        history.taken = ("another claim" if life.robbed else "", 0)
        history.failing = failing
        if life.state == ATTACHED:
            self._ready_for |= dict.fromkeys(life.devices, history.uid)
        models = self._models(life.allocation)
        history.attempts.append(Attempt(life.cycle, life.attempt, life.began, life.node, models=models))
        stage = self._stage_now(history)[1]
        history.attempts.clear()
        history.begin(life, models, failing, stage)
        if life.state in WAITING:
            self._waiting_at[life.node].add(history.uid)

    def _awaited_by(self, claim: Claim, allocation: Allocation) -> tuple[list[Result], Counter[str]]:
        """Of the claim's allocation the results on devices from a pool, and how many devices of which model they are."""
        known = self._awaited.get(claim.uid)
        if known is None or known[0] is not allocation:
            found = self._pool_results(allocation)
            needed = Counter({one.key: model for one, model in found if not one.admin}.values())
            known = self._awaited[claim.uid] = allocation, [one for one, _ in found], needed
        return known[1:]

    def _models(self, allocation: Allocation | None) -> tuple[str, ...]:
        """The models of an allocation's devices from a pool."""
        return tuple(model for _, model in self._pool_results(allocation))

    def _pool_results(self, allocation: Allocation | None) -> list[tuple[Result, str]]:
        """The results on devices from a pool, each with its model."""
        results = allocation.results if allocation is not None else ()
        return [(one, model) for one in results if one.binding and (model := self._known.model_of(one))]


_ENDS_EXCHANGE = ("allocated_pool", "allocated_local", "pod_bound", "released", "failed")


def _is_lost(device: DeviceHistory) -> bool:
    """Whether the manager says that the device is not to be used: it is for no claim."""
    return device.came and operator_verdict(device.error) in ("gone", "critical")


def _keys(claim: Claim | None) -> set[DeviceKey]:
    """The claim's devices, without admin access."""
    allocation = claim.allocation if claim is not None else None
    return {one.key for one in allocation.results if not one.admin} if allocation is not None else set()
