"""Makes tasks of a committed decision of the scaler, with all the data that the write needs.

Runs on the engine's thread; sends nothing and decides nothing. If the state no longer matches the decision, the task ends at once
as obsolete, so that each decision has an outcome.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dds_adapters.kubernetes import guard
from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.write.conditions import CLAIMS, Signalled, SteerPod, TellClaims, Telling
from dds_adapters.kubernetes.write.devices import (
    LabelNode,
    MarkVictim,
    NudgeOperator,
    StampUse,
    UnmarkVictim,
    rfc3339,
)
from dds_adapters.kubernetes.write.events import announce
from dds_adapters.kubernetes.write.exchange import (
    MAPS,
    ClearAllocation,
    GiveDevices,
    GuardDevices,
    LiftGuards,
    not_guarded,
)
from dds_adapters.kubernetes.write.holds import EndHold, HoldDevice
from dds_adapters.kubernetes.write.live_object import Ref
from dds_adapters.kubernetes.write.requests import RESOURCES, LowerRequest, RaiseRequest, StampEpoch
from dds_adapters.kubernetes.write.tasks import Obsolete, Result, Task, TaskTable, Versions, Write, tasks_by
from dds_core.events import Decision, Event
from dds_core.kit.policy import MICROSECONDS
from dds_core.model import (
    OWNER,
    OWNER_LABEL,
    RESOURCE_ATTACHING,
    RESOURCE_DETACHING,
    Claim,
    DeviceKey,
    Node,
    request_name,
)
from dds_core.publisher.model import Host
from dds_core.scaler import events as e
from dds_core.scaler.events import Signal
from dds_core.scaler.ordering import pause_end, stranded_of
from dds_core.scaler.settling import LAST_MOMENT
from dds_core.scaler.state import State


@dataclass(frozen=True, slots=True)
class Overtaken:
    """The state changed after the decision and before anything was sent."""

    why: str

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        return Obsolete(self.why)


def tasks_of(decision: Decision, event_id: str, at: int, state: State) -> tuple[Task, ...]:
    """The tasks of a decision of the scaler, each with the Kubernetes Events to write once it is done; see `tasks.tasks_by`."""
    return tuple(
        [replace(task, then=announce(decision, at, state)) for task in tasks_by(_TABLE, decision, event_id, at, state)]
    )


def writes(event: Event) -> bool:
    """Whether the event is a decision that becomes tasks, which tell of it."""
    return type(event) in _TABLE


def stamps(state: State) -> tuple[Task, ...]:
    """Tasks that write a new leader's epoch to each of dds's requests, so that a late write of the previous leader fails on the
    version. They are never dropped, and later writes to the request wait behind them."""
    ours = (
        request
        for request in state.fleet.requests.rows.values()
        if _is_ours(state, request.uid) and not request.deleting
    )
    key = epoch_key(state)
    return tuple(
        Task(
            StampEpoch(request.name, request.uid, key, state.process.epoch),
            (request_object(request.name),),
            lasting=True,
        )
        for request in sorted(ours, key=lambda one: one.name)
    )


def epoch_key(state: State) -> str:
    return f"{state.settings.config.prefix}/epoch"


def request_object(name: str) -> str:
    return f"composabilityrequests/{name}"


def _resource_object(uid: str) -> str:
    return f"{RESOURCES}/{uid}"


def _is_ours(state: State, uid: str) -> bool:
    """By label or name. A request that dds only adopted gets no stamp."""
    one = state.fleet.requests.rows[uid]
    return one.labels.get(OWNER_LABEL) == OWNER or one.name == request_name(one.node, one.type, one.model)


# --- requests ----------------------------------------------------------------------------------------------------------


def _attach(decision: e.AttachOrdered, at: int, state: State) -> Task:
    write = RaiseRequest(
        name=decision.request,
        uid=decision.uid,
        type=decision.type,
        model=decision.model,
        node=decision.node,
        size=decision.size,
        previous=decision.previous,
        epoch_key=epoch_key(state),
        epoch=state.process.epoch,
        force_detach=decision.force_detach,
    )
    thing = request_object(decision.request)
    return Task(write, (thing,), target=decision.request, replaces=thing)


def _detach(decision: e.DetachOrdered, at: int, state: State) -> Task:
    write = LowerRequest(
        name=decision.request,
        uid=decision.uid,
        size=decision.size,
        previous=decision.previous,
        victims=frozenset(decision.victims),
        unattached=decision.unattached,
        stranded=stranded_of(state, decision.request, at),
    )
    thing = request_object(decision.request)
    objects = (thing, *map(_resource_object, decision.victims))
    task = Task(write, objects, target=decision.request, replaces=thing, needs="detach")
    if not decision.unattached:
        return task
    # later the operator may order again for one of them
    until = min((pause_end(state, victim, at) for victim in decision.victims), default=math.inf)
    return replace(task, within=max(0.0, until - at) / MICROSECONDS)


# --- claims ------------------------------------------------------------------------------------------------------------


def _hand_over(decision: e.HandOver, at: int, state: State) -> Task:
    target = decision.signals[0].claim
    stands = all(_hand_over_stands(state, signal.claim, decision.node) for signal in decision.signals)
    task = _tell(decision.signals, at, state, target, stands)
    promised = max(1.0, state.policy.no_allocation_seconds)
    return replace(task, within=promised)  # after that the devices are free for other claims


def _hand_over_stands(state: State, uid: str, node: str) -> bool:
    """Whether the hand-over is still for the claim's current attempt and node."""
    row, life = state.hand_over.hand_overs.get(uid), state.lifecycle.lives.get(uid)
    return row is not None and life is not None and (row.attempt, row.node) == (life.attempt, node)


def _failure(decision: e.FailureSignalled, at: int, state: State) -> Task:
    failure, told = state.failing.failures.get(decision.claim), state.lifecycle.lives.get(decision.signal.claim)
    stands = failure is not None and failure.attempt == decision.attempt
    if failure is not None and told is not None:  # the signal may be on another claim of the pod
        stands = stands and told.node == failure.node
    return _tell((decision.signal,), at, state, decision.claim, stands)


def _tell(signals: tuple[Signal, ...], at: int, state: State, target: str, stands: bool) -> Task:
    tellings = tuple(
        Telling(_claim_ref(claim), claim.allocation, signal.entries)
        for signal in signals
        if (claim := state.demand.claims.get(signal.claim)) is not None and _is_on(claim, signal)
    )
    objects = tuple(_claim_object(signal.claim) for signal in signals)
    write: Write = TellClaims(tellings, rfc3339(at))
    if not stands or len(tellings) != len(signals):
        write = Overtaken("the claim is not allocated as it was")
    return Task(write, objects, target=target)


def _is_on(claim: Claim, signal: Signal) -> bool:
    """Whether the signal's devices are all in the claim's allocation."""
    allocated = {result.key for result in claim.allocation.results} if claim.allocation is not None else set()
    return {(entry.driver, entry.pool, entry.device) for entry in signal.entries} <= allocated


def _steer(decision: e.Steered, at: int, state: State) -> Task:
    pod = state.demand.pods.get(decision.pod)
    claims = tuple(_signalled(state, decision.claims, decision.node))
    objects = (f"pods/{decision.pod}", *(_claim_object(uid) for uid in decision.claims))
    write: Write = Overtaken("the pod or one of its claims has moved on")
    if pod is not None and len(claims) == len(decision.claims):
        write = SteerPod(Ref("pods", pod.name, pod.namespace, pod.uid), decision.node, claims)
    return Task(write, objects, target=decision.pod)


def _signalled(state: State, uids: Iterable[str], node: str) -> Iterable[Signalled]:
    for uid in uids:
        claim = state.demand.claims.get(uid)
        if claim is not None and claim.allocation is not None and _hand_over_stands(state, uid, node):
            devices = frozenset(result.key for _, result, _ in state.inventory.pool_results(claim.allocation))
            yield Signalled(_claim_ref(claim), claim.allocation, devices)


def _claim_ref(claim: Claim) -> Ref:
    return Ref(CLAIMS, claim.name, claim.namespace, claim.uid)


def _claim_object(uid: str) -> str:
    return f"{CLAIMS}/{uid}"


# --- guards, exchanges and holds ---------------------------------------------------------------------------------------

GUARDED_SECONDS = 2.0
"""Seconds for a guard to take effect; after that its claims are handed over in another way."""
NO_PLACE = "it is not known any more where devices are guarded"
NO_EXCHANGE = "the exchange of this claim is over"


def _begin(decision: e.ExchangeBegun, at: int, state: State) -> Task:
    task = _guard(decision, decision.guarded, decision.until, decision.node, state)
    return replace(task, objects=(*task.objects, *(_claim_object(uid) for uid in decision.for_claims())))


def _guard(decision: Decision, devices: tuple[DeviceKey, ...], until: int, node: str, state: State) -> Task:
    # The admission policy compares a guard's end with allocationTimestamp, which comes from the scheduler's clock.
    ahead = max(0, -(state.settings.skew or 0))
    write: Write = GuardDevices(state.settings.guards, devices, until + ahead, node)
    if not state.settings.guards:
        write = Overtaken(NO_PLACE)
    late = not_guarded(GUARDED_SECONDS)
    return Task(write, _guard_objects(devices), target=decision.subject, within=GUARDED_SECONDS, too_late=late)


def _clear(decision: e.AllocationCleared, at: int, state: State) -> Task:
    claim, row = state.demand.claims.get(decision.claim), state.hand_over.exchanges.get(decision.claim)
    objects = (_claim_object(decision.claim),)
    if row is None or (row.node, row.attempt) != (decision.node, decision.attempt):
        return Task(Overtaken(NO_EXCHANGE), objects, target=decision.claim)
    write: Write = Overtaken("the claim is not allocated any more")
    if claim is not None and claim.allocation is not None:
        write = ClearAllocation(_claim_ref(claim), claim.allocation, claim.consumers, row.swap)
    return Task(write, objects, target=decision.claim, within=(row.until - at) / MICROSECONDS)


def _give(decision: e.DevicesGiven, at: int, state: State) -> Task:
    claim, row = state.demand.claims.get(decision.claim), state.hand_over.exchanges.get(decision.claim)
    objects = (_claim_object(decision.claim),)
    if claim is None or row is None or (row.node, row.attempt) != (decision.node, decision.attempt):
        return Task(Overtaken(NO_EXCHANGE), objects, target=decision.claim)
    write = GiveDevices(_claim_ref(claim), decision.swap, decision.node, decision.version)
    return Task(write, objects, target=decision.claim, within=(row.until - at) / MICROSECONDS)


def _lift_guards(decision: e.GuardLifted, at: int, state: State) -> Task:
    write: Write = LiftGuards(state.settings.guards, decision.devices) if state.settings.guards else Overtaken(NO_PLACE)
    objects = (
        *_guard_objects(decision.devices),
        _claim_object(decision.claim),
    )  # the claim, too: the guard ends after the writes that it protects
    return Task(write, objects, target=decision.claim, needs="observe")


def _begin_hold(decision: e.HoldBegun, at: int, state: State) -> Task:
    task = _guard(decision, decision.devices, decision.until, decision.node, state)
    return replace(task, objects=(*task.objects, _resource_object(decision.resource)), needs="detach")


def _hold(decision: e.DeviceHeld, at: int, state: State) -> Task:
    row = state.give_back.holds.get(decision.resource)
    objects = (*_guard_objects(decision.devices), _resource_object(decision.resource))
    if not state.settings.guards or row is None or row.stage not in ("holding", "held"):
        return Task(Overtaken("the device is not to be held any more"), objects, target=decision.resource)
    owner = Ref(RESOURCES, decision.name, uid=decision.resource)
    write = HoldDevice(Ref(CLAIMS, decision.hold, state.settings.guards), owner, decision.devices, decision.node)
    within = max(0, row.until - LAST_MOMENT - at) / MICROSECONDS
    return Task(write, objects, target=decision.resource, needs="detach", within=within)


def _end_hold(decision: e.HoldEnded, at: int, state: State) -> Task:
    objects = (*_guard_objects(decision.devices), _resource_object(decision.resource))
    claims = (state.demand.claims.rows[uid] for uid in sorted(state.demand.claims_holding[decision.resource]))
    namespace = next((claim.namespace for claim in claims), state.settings.guards)
    row = state.give_back.holds.get(decision.resource)
    young = row is not None and at < row.until
    write: Write = EndHold(Ref(CLAIMS, decision.hold, namespace), decision.resource, decision.devices, young)
    if not namespace and state.settings.unanswered:  # a guard may exist: dds decides again once it knows the namespace
        write = Overtaken(NO_PLACE)
    return Task(write, objects, target=decision.resource, needs="observe")


def _guard_objects(devices: tuple[DeviceKey, ...]) -> tuple[str, ...]:
    """One object for each key, not one for the whole ConfigMap, so that no guard waits for another to take effect."""
    return tuple(f"{MAPS}/{guard.CONFIG_MAP}/{guard.key(*device)}" for device in devices)


# --- nodes and devices -------------------------------------------------------------------------------------------------


def _label(decision: e.NodeLabelled, at: int, state: State) -> Task:
    return label(decision, state.fleet.node(decision.node))


def label(decision: e.NodeLabelled, node: Node | Host | None) -> Task:
    """The task that labels a node, for the scaler and the publisher."""
    labels = tuple(sorted(decision.labels.items()))
    write = (
        LabelNode(node.name, node.uid, labels, decision.again) if node is not None else Overtaken("the node is gone")
    )
    thing = f"nodes/{decision.node}"
    return Task(write, (thing,), target=decision.node, replaces=f"{thing}: {','.join(sorted(decision.labels))}")


def _mark(decision: e.VictimMarked, at: int, state: State) -> Task:
    thing = _resource_object(decision.resource)
    write = MarkVictim(decision.name, decision.resource, decision.uuid)
    return Task(write, (thing,), target=decision.resource, replaces=f"{thing}: mark", needs="detach")


def _unmark(decision: e.VictimUnmarked, at: int, state: State) -> Task:
    thing = _resource_object(decision.resource)
    write = UnmarkVictim(decision.name, decision.resource)
    return Task(write, (thing,), target=decision.resource, replaces=f"{thing}: mark")


def _stamp(decision: e.UsedStamped, at: int, state: State) -> Task:
    thing = _resource_object(decision.resource)
    write = StampUse(decision.name, decision.resource, rfc3339(decision.at))
    return Task(write, (thing,), target=decision.resource, replaces=f"{thing}: used")


LOOK_SECONDS = 2.0
"""Later a look could do harm, and another is decided."""


def _nudge(decision: e.OperatorNudged, at: int, state: State) -> Task:
    thing, detach = _resource_object(decision.resource), decision.why == "detach"
    write = NudgeOperator(
        decision.name,
        decision.resource,
        rfc3339(at),
        RESOURCE_DETACHING if detach else RESOURCE_ATTACHING,
        detach or decision.why != "attach",
    )
    return Task(write, (thing,), target=decision.resource, replaces=f"{thing}: look", within=LOOK_SECONDS)


_TABLE: TaskTable[State] = {
    e.AttachOrdered: _attach,
    e.DetachOrdered: _detach,
    e.HandOver: _hand_over,
    e.FailureSignalled: _failure,
    e.Steered: _steer,
    e.ExchangeBegun: _begin,
    e.AllocationCleared: _clear,
    e.DevicesGiven: _give,
    e.GuardLifted: _lift_guards,
    e.NodeLabelled: _label,
    e.HoldBegun: _begin_hold,
    e.DeviceHeld: _hold,
    e.HoldEnded: _end_hold,
    e.VictimMarked: _mark,
    e.VictimUnmarked: _unmark,
    e.UsedStamped: _stamp,
    e.OperatorNudged: _nudge,
}
