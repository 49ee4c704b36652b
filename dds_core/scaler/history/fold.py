"""The fold that makes the histories, one moment of the log after the other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from dds_core.events import Decision, Event
from dds_core.lifecycle import GONE, IDLE, REQUESTED, WAITING
from dds_core.model import NO_NODE_FITS, Allocation, AttachRequest, Claim, DeviceKey, FabricResource, Pod, Slice
from dds_core.scaler import events as e
from dds_core.scaler.history.claims import DRIVER, FABRIC, ORDER, ClaimHistory, Coming
from dds_core.scaler.history.devices import DeviceHistory
from dds_core.scaler.history.stock import Stock
from dds_core.scaler.model import ClaimLife, PoolKey, model_of_pool
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import State, load
from dds_core.scaler.timeline import set_anew
from dds_core.scaler.timeline.words import DDS, OTHERS, Known
from dds_core.timeline.telling import Moment

_TOLD = (e.ClaimFailed, e.ExchangeBegun, e.Alerted)
IGNORED = frozenset(
    kind.__name__
    for kind in e.EVENTS
    if (issubclass(kind, Decision) and kind not in _TOLD and kind.seen_by is Decision.seen_by)
    or kind in (e.Checkpoint, e.WriteDone, e.WriteObsolete, e.Superseded, e.DeadlinePassed, e.ClaimsListed)
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


class History:
    """The claims and devices of a log by uid, ended ones included, its alerts and its pools. Begins empty, or at the log's first
    checkpoint. `first`, `now`: instants of the first and the newest moment; use is counted from `first`, which may be set.
    `synced`: the process has listed everything since its start; `stale`: the resources that it cannot watch now. `refused`: how
    often which write was refused, and in which words."""

    def __init__(self, known: Known | None = None) -> None:
        """`known`: that of a teller that is given the same moments."""
        self.claims: dict[str, ClaimHistory] = {}
        self.devices: dict[str, DeviceHistory] = {}
        self.alerts: list[Alert] = []
        self.stock = Stock()
        self.refused: Counter[tuple[str, str]] = Counter()
        self._ordered: dict[str, list[tuple[str, int]]] = {}
        self._unasked: Counter[str] = Counter()
        self.first = self.now = 0
        self.synced, self.stale = False, set[str]()
        self._known = known if known is not None else Known()
        self._uid_of: dict[tuple[str, str], str] = {}
        self._pods_of: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        self._waiting_at: dict[str, set[str]] = defaultdict(set)
        self._resources_at: dict[str, set[str]] = defaultdict(set)
        self._holders: dict[DeviceKey, set[str]] = defaultdict(set)
        self._device_of: dict[DeviceKey, str] = {}
        self._keys_of: dict[str, set[DeviceKey]] = defaultdict(set)
        self._with_uuid: dict[str, str] = {}

    def read(self, told: Iterable[Moment]) -> History:
        """Take in these moments; returns itself."""
        for moment in told:
            self.take(moment)
        return self

    def take(self, moment: Moment) -> None:
        at = self.now = max(self.now, moment.at)
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
        """Drop these ended claims and devices (uids), all alerts but the newest `most`, and of all others the spans and attempts
        that ended before an instant, except the last of each."""
        for claim in self.claims.values():
            claim.cut(before)
        for device in self.devices.values():
            device.cut(before)
        for uid in claims:
            history = self.claims.pop(uid)
            for attempt in history.attempts:
                self._waiting_at[attempt.node].discard(uid)
        for uid in devices:
            gone = self.devices.pop(uid)
            for key in self._keys_of.pop(uid, ()):
                if self._device_of.get(key) == uid:
                    del self._device_of[key]
            if self._with_uuid.get(gone.uuid) == uid:
                del self._with_uuid[gone.uuid]
        del self.alerts[:-most]
        self.stock.cut(before)
        self._known.forget(most * _NAMES)

    # -- objects -------------------------------------------------------------------------------------------------------

    def _fact(self, fact: Event, at: int) -> None:
        before, now = self._known.learn(fact)
        match fact:
            case e.Started() | e.LogRepaired():
                self.synced = False
            case e.Stale():
                self.stale.add(fact.resource)
            case e.WriteRefused():
                self.refused[fact.action, f"{fact.code} {fact.reason} {fact.text}".rstrip()] += 1
            case e.Synced():
                self.synced = True
                self.stale.clear()
        match now if now is not None else before:
            case Claim() as claim:
                self._claim(before, claim if now is not None else None, at)
            case Pod() as pod:
                self._pod(before, pod, at, gone=now is None)
            case FabricResource() as resource:
                self._resource(resource, at)
            case Slice():
                self.stock.listed(before, now, at)
            case AttachRequest() as request:
                self._request(before, request, gone=now is None)

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
            if self._uid_of.get(name) == seen.uid:
                del self._uid_of[name]
        elif self._uid_of.get(name) != seen.uid:
            self._uid_of[name] = seen.uid
            for pod, came in self._pods_of.get(name, {}).items():
                self._refers(history, self._known.objects.get(pod), came)
        if claim is not None and claim.conditions and not history.by and set_anew(before, claim):
            history.by = OTHERS
        self._held(seen.uid, before, claim, at)

    def _held(self, uid: str, before: Claim | None, claim: Claim | None, at: int) -> None:
        """The allocation has changed: update who holds its devices."""
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
        for name in filter(None, {*pod.claims, pod.extended_claim}):
            pods = self._pods_of[pod.namespace, name]
            came = pods.setdefault(pod.uid, at)
            uid = self._uid_of.get((pod.namespace, name))
            history = self.claims.get(uid) if uid is not None else None
            if gone:
                del pods[pod.uid]
                if not pods:
                    del self._pods_of[pod.namespace, name]
                if history is not None and not any(self._waits(o) for o in pods) and (history.state or not pods):
                    history.nobody_waits(at)
            elif history is not None:
                self._refers(history, pod, at if f"{pod.namespace}/{pod.name}" in history.pods else came)

    def _waits(self, uid: str) -> bool:
        pod = self._known.objects.get(uid)
        return isinstance(pod, Pod) and pod.pending

    @staticmethod
    def _refers(history: ClaimHistory, pod: object, at: int) -> None:
        if isinstance(pod, Pod):
            name = f"{pod.namespace}/{pod.name}"
            if name not in history.pods:
                history.pods.append(name)
            if pod.pending:
                history.pod_waits(at, pod.waiting == NO_NODE_FITS)
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
            device.uuid, device.named = resource.uuid, device.named or at
            self._with_uuid[resource.uuid] = resource.uid
        self._resources_at[resource.node].add(resource.uid)
        device.error = resource.error
        device.changed(at)
        self._progress(resource.node, at)

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

    def _wanting(self, node: str, model: str) -> Iterator[tuple[str, int]]:
        """The attempts on the node, each as often as it lacks a device of the model that is its own or on its way to it."""
        found = [(self.claims[uid].attempts[-1], uid) for uid in self._waiting_at.get(node, ())]
        devices = (self.devices[uid] for uid in self._resources_at[node])
        meant = Counter(one.meant for one in devices if not one.claims or one.meant[0] in one.claims)
        meant.update(one for ordered in self._ordered.values() for one in ordered)
        for attempt, uid in sorted(found, key=lambda one: (one[0].since, one[1])):
            lacking = attempt.models.count(model) - meant[uid, attempt.since]
            yield from [(uid, attempt.since)] * lacking

    def _progress(self, node: str, at: int) -> None:
        """Update how far the devices are for which claims wait on the node."""
        for uid in self._waiting_at.get(node, ()):
            history = self.claims[uid]
            models = history.attempts[-1].models if history.attempts else ()
            if models:
                history.attaching(self._stage(node, models, history.attempts[-1].since), at)

    def _stage(self, node: str, models: tuple[str, ...], since: int) -> str:
        """By what came, or was still to come, since the allocation: a device that idled before is for another claim, or unfit."""
        found = [self.devices[uid] for uid in self._resources_at[node]]
        coming = [one for one in found if one.model in models and one.life in (REQUESTED, IDLE)]
        coming = [one for one in coming if one.first >= since or not one.named or one.named >= since]
        coming.sort(key=lambda one: (one.first, one.uid))
        if len(coming) < len(models):
            return ORDER
        return DRIVER if all(one.named for one in coming[: len(models)]) else FABRIC

    # -- decisions and lives -------------------------------------------------------------------------------------------

    def _event(self, event: Event, at: int) -> None:
        if isinstance(event, Decision) and getattr(event, "mode", "") != "observe":
            for of, what, _ in event.seen_by():
                if what == "condition" and of in self.claims:
                    self.claims[of].by = DDS
        match event:
            case e.ClaimMoved():
                self._claim_moved(event, at)
            case e.DeviceMoved():
                self._device_moved(event, at)
            case e.ClaimFailed():
                history = self.claims.get(event.claim)
                if history is not None:
                    history.failing = (event.reason, event.message)
            case e.ExchangeBegun():
                for uid in event.for_claims():
                    if event.mode != "observe" and uid in self.claims:
                        self.claims[uid].exchanging(at)
            case e.Alerted() if not event.reissued:
                self.alerts.append(Alert(at, self._known.called(event.of), event.reason, event.text))

    def _claim_moved(self, move: e.ClaimMoved, at: int) -> None:
        history = self.claims.get(move.claim)
        if history is None:
            return
        claim = self._known.claim(move.claim)
        allocation = claim.allocation if claim is not None else None
        coming = [Coming(d.first, d.named) for uid in move.devices if (d := self.devices.get(uid)) is not None]
        node = allocation.node if allocation is not None else ""
        if history.attempts:
            self._waiting_at[history.attempts[-1].node].discard(move.claim)
        history.moved(move, at, node, self._models(allocation), coming)
        if history.attempts and move.target in WAITING:
            self._waiting_at[history.attempts[-1].node].add(move.claim)
            self._progress(history.attempts[-1].node, at)

    def _device_moved(self, move: e.DeviceMoved, at: int) -> None:
        device = self.devices.get(move.resource)
        if device is None:
            return
        device.life = move.target
        if move.key is not None:
            self._faces(move.resource, move.key)
        if move.target == GONE:
            device.gone = at
            self._resources_at[device.node].discard(move.resource)
        self._look(move.resource, at)
        self._progress(device.node, at)

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
        for uid, device in state.lifecycle.devices.rows.items():
            resource = state.fleet.resources.get(uid)
            if resource is not None:
                named = device.since if device.state != REQUESTED else 0
                self.devices[uid] = DeviceHistory(uid, device.since, named=named, life=device.state, early=True)
                self._resource(resource, at)
                if device.key is not None:
                    self._faces(uid, device.key)
        for row in state.inventory.slices.rows.values():
            self.stock.listed(None, row, at)
        for claim in state.demand.claims.rows.values():
            self._claim(None, claim, at)
        for uid, history in self.claims.items():
            life = state.lifecycle.lives.get(uid)
            history.early, history.state = True, life.state if life is not None else ""
        for pod in state.demand.pods.rows.values():
            self._pod(None, pod, at, gone=False)
        for uid, history in self.claims.items():
            life = state.lifecycle.lives.get(uid)
            if life is not None:
                self._goes_on(history, life, state)

    def _goes_on(self, history: ClaimHistory, life: ClaimLife, state: State) -> None:
        failure = state.failing.failures.get(history.uid)
        failing = (failure.reason, failure.message) if failure is not None else ("", "")
        history.begin(life, self._models(life.allocation), failing)
        exchange = state.hand_over.exchanges.get(history.uid)
        if exchange is not None:
            history.exchanging(max(exchange.since, life.since))
        if life.state in WAITING:
            self._waiting_at[life.node].add(history.uid)
            self._progress(life.node, history.first)

    def _models(self, allocation: Allocation | None) -> tuple[str, ...]:
        """The models of an allocation's devices from a pool."""
        results = allocation.results if allocation is not None else ()
        return tuple(m for result in results if result.binding and (m := self._known.model_of(result)))


def _keys(claim: Claim | None) -> set[DeviceKey]:
    """The claim's devices, without admin access."""
    allocation = claim.allocation if claim is not None else None
    return {one.key for one in allocation.results if not one.admin} if allocation is not None else set()
