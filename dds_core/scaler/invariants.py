"""The scaler's invariants (`dds_core.kit.work`). They read rows and indexes and call no rules: a bug there cannot hide."""

from __future__ import annotations

from collections.abc import Iterable

from dds_core.kit.work import Invariants, OfDecision, OfState
from dds_core.lifecycle import ATTACHED, IDLE, RELEASED, WAITING
from dds_core.model import FabricResource
from dds_core.scaler import events as e
from dds_core.scaler.state import State

# -- of decisions ------------------------------------------------------------------------------------------------------


def _promised_free(state: State, event: e.Reserved) -> str:
    """What is reserved for a claim that has not got it yet is neither leaving nor another claim's."""
    for one in [promise for promise in event.promises if not promise.admin]:
        resource = state.fleet.resource_with(one.uuid, event.node) if one.uuid else None
        if resource is not None and resource.leaving:
            return f"{one.identity}, which leaves its node, is promised to {event.claim}"
        others = state.demand.having[one.key]
        if others and event.claim not in others and not _is_shared(state, one):
            return f"{one.identity}, which {_any(others)} has, is promised to {event.claim}"
    return ""


def _given_unheld(state: State, event: e.HandOver | e.ExchangeBegun) -> str:
    """A claim is let to a device that it has not got yet only if no hold, and no lasting guard of another claim, keeps it."""
    for uid in event.for_claims():
        for key in state.hand_over.reservations_for[uid]:
            for one in state.hand_over.reservations.rows[key].promises:
                guard = state.hand_over.guarded.get(one.key)
                if one.admin or uid in state.demand.having[one.key]:
                    continue
                if state.is_held(one.key):
                    return f"{uid} is let to {one.identity}, which is held"
                if guard is not None and guard.claim != uid and not guard.lifting:
                    return f"{uid} is let to {one.identity}, which is guarded for {guard.claim}"
    return ""


def _ready_when_told(state: State, event: e.HandOver) -> str:
    """A claim is signalled only if it is attached and, in live modes, has a reservation."""
    for signal in event.signals:
        life = state.lifecycle.lives.get(signal.claim)
        if life is None or life.state != ATTACHED:
            return f"{signal.claim} is told to give way and is {life.state if life is not None else 'unknown'}"
        if event.mode != "observe" and not state.hand_over.reservations_for[signal.claim]:
            return f"{signal.claim} is told to give way and nothing is promised to it"
    return ""


def _had_by_nobody_else(state: State, event: e.DeviceHeld | e.DevicesGiven) -> str:
    """What dds allocates is allocated to no other claim."""
    if isinstance(event, e.DeviceHeld):
        keys, own = list(event.devices), ""
    else:
        keys, own = [one.key for one in event.swap.results if one.whole], event.claim
    for key in keys:
        others = (state.demand.having[key] | state.demand.held_by[key]) - {own}
        if others:
            return f"{key[2]} of {key[1]} is given away and {_any(others)} has it"
    return ""


def _chosen_is_free(state: State, event: e.VictimMarked | e.HoldBegun) -> str:
    """A device that is chosen to go is had by no claim and reserved for none."""
    resource = state.fleet.resources.get(event.resource)
    return _not_free(state, resource) if resource is not None else f"{event.resource} is chosen to go and unknown"


def _victims_are_free(state: State, event: e.DetachOrdered) -> str:
    """Victims are had by no claim and reserved for none, and are of that node and model; the size falls by their number. Without
    victims the size becomes the number of the request's resources."""
    fits = (
        len(state.fleet.resources_of_request[event.request])
        if not event.victims
        else event.previous - len(event.victims)
    )
    if event.size != fits or event.size < 0:
        return f"{event.request} is lowered from {event.previous} to {event.size} for {len(event.victims)}"
    for uid in event.victims:
        resource = state.fleet.resources.get(uid)
        if resource is None or (resource.node, resource.model) != (event.node, event.model):
            return f"{uid} is to leave and is no {event.model} on {event.node}"
        why = _not_free(state, resource)
        if why:
            return why
    return ""


def _not_free(state: State, resource: FabricResource) -> str:
    had = {uid for key in state.names_of(resource) for uid in state.demand.having[key]}
    promised = state.promised(resource.uuid) if resource.uuid else ()
    if had or promised:
        how = f"{_any(had)} has" if had else f"is promised to {_any(promised)}"
        return f"{resource.uid} is to leave and {how} {resource.uuid}"
    return ""


def limits(state: State, node: str, model: str) -> tuple[int, int]:
    """(min, max) devices of the model on the node, as policy and labels say."""
    policy, found = state.policy, state.fleet.node(node)
    limit = policy.limits.get(f"{node}/{model}") or policy.limits.get(model) or policy.limit
    device = next((one.device for one in state.settings.config.models if one.model == model), "")
    labels = found.labels if found is not None else {}
    low, high = (labels.get(f"{state.settings.config.prefix}/{device}-size-{end}", "") for end in ("min", "max"))
    top = int(high) if _is_number(high) else limit.max
    return min(int(low) if _is_number(low) else limit.min, top), top


def _is_number(label: str) -> bool:
    return label.isascii() and label.isdigit() and len(label) <= 9


def _within_maximum(state: State, event: e.AttachOrdered) -> str:
    """An order raises the size, and not beyond the node's maximum. Exception: a size that is raised again to keep a victim in
    use, or to what the operator has made; a lower maximum is no reason to take that away. An order that replaces a lower size not
    written yet may leave the request as it is; one that withdraws an order does not go below the request."""
    standing = state.fleet.orders.get((event.node, event.model))
    if event.reason == e.WITHDRAWN:
        fits = standing is not None and (event.previous or 0) <= event.size < standing.size
        return "" if fits else f"{event.request} is to have {event.size}, and nothing more is ordered"
    if event.reason.startswith("victim") or event.reason == e.SURPLUS:
        return ""
    top = limits(state, event.node, event.model)[1]
    if event.size > top:
        return f"{event.request} is raised to {event.size} and {event.node} may have {top} of {event.model}"
    least = event.previous if standing is None or event.previous is None else min(event.previous, standing.size)
    if least is not None and event.size <= least:
        return f"{event.request} is raised from {least} to {event.size}"
    return ""


def _within_minimum(state: State, event: e.DetachOrdered) -> str:
    """The node keeps its minimum, counted with devices of other requests, and of none. What its driver has not listed for long,
    or the manager cannot find, is of no use to the node and does not count."""
    requests = [state.fleet.requests.rows[uid] for uid in state.fleet.requests_at[event.node]]
    there = [state.fleet.resources.rows[uid] for uid in state.fleet.resources_at[event.node]]
    known = {one.name for one in requests}
    others = sum(one.size for one in requests if one.model == event.model and one.name != event.request)
    others += sum(one.model == event.model and one.request not in known for one in there)
    useless = sum(state.is_useless(uid) for uid in event.victims)
    if event.size + others + useless < (low := limits(state, event.node, event.model)[0]):
        return f"{event.request} is lowered to {event.size} and {event.node} keeps {low} of {event.model}"
    return ""


# -- of rows -----------------------------------------------------------------------------------------------------------


def _promised_once(state: State, identity: str) -> str:
    """No device is reserved for two claims (in observe: stands ready for two)."""
    holders = state.promised(identity)
    if len(holders) < 2:
        return ""
    rows = (state.hand_over.reservations.get(key) if state.live else state.lifecycle.lives.get(key) for key in holders)
    promises = [one for row in rows if row is not None for one in row.promises if one.identity == identity]
    if len(promises) < 2 or any(_is_shared(state, one) for one in promises):
        return ""
    return f"{identity} is promised to {' and '.join(sorted(holders))}"


def _life_agrees(state: State, uid: str) -> str:
    """A waiting claim is in the index of its node; a released one has no reservation, exchange or hand-over."""
    life = state.lifecycle.lives.get(uid)
    if life is None:
        return ""
    standing = life.state
    if (uid in state.lifecycle.waiting_at[life.node]) is not (standing in WAITING):
        return f"{uid} is {standing}, which the index of those that wait on {life.node} does not say"
    if standing == RELEASED:
        kept = [one for one in ("reservations", "exchanges", "hand_overs") if uid in state.tables[one]]
        return f"{uid} has given all back and is left among {', '.join(kept)}" if kept else ""
    return ""


def _device_agrees(state: State, uid: str) -> str:
    """An idle device is had by no claim, its clock runs, and its node's index has it; every life or fence has a resource."""
    life, resource = state.lifecycle.devices.get(uid), state.fleet.resources.get(uid)
    if life is None or resource is None:
        left = "its life" if life is not None else "its fence" if uid in state.give_back.fences else ""
        return f"{uid} is gone and {left} is left" if left else ""
    idle = life.state == IDLE
    if (uid in state.lifecycle.idle_at[life.node]) is not idle or uid not in state.fleet.resources_at[resource.node]:
        return f"{uid} is {life.state} on {life.node}, which an index of that node does not say"
    if not idle:
        return ""
    had = [
        claim for key in state.names_of(resource) if key in state.demand.having for claim in state.demand.having[key]
    ]
    if had or not life.idle_since:
        return f"{uid} idles and {f'{_any(had)} has it' if had else 'its clock stands'}"
    return ""


def _exchange_is_whose(state: State, uid: str) -> str:
    return (
        f"{uid} is exchanged and unknown"
        if uid in state.hand_over.exchanges and uid not in state.lifecycle.lives
        else ""
    )


def _is_shared(state: State, promise: e.ReservedDevice) -> bool:
    device = state.inventory.device(promise.key)
    return bool(promise.share) or (device is not None and device.shared)


def _any(uids: Iterable[str]) -> str:
    return min(uids)


INVARIANTS: Invariants[State] = Invariants(
    decisions=(
        OfDecision("promised-free", (e.Reserved,), _promised_free),
        OfDecision("given-unheld", (e.HandOver, e.ExchangeBegun), _given_unheld),
        OfDecision("ready-when-told", (e.HandOver,), _ready_when_told),
        OfDecision("had-by-nobody-else", (e.DeviceHeld, e.DevicesGiven), _had_by_nobody_else),
        OfDecision("chosen-is-free", (e.VictimMarked, e.HoldBegun), _chosen_is_free),
        OfDecision("victims-are-free", (e.DetachOrdered,), _victims_are_free),
        OfDecision("within-maximum", (e.AttachOrdered,), _within_maximum),
        OfDecision("within-minimum", (e.DetachOrdered,), _within_minimum),
    ),
    states=(
        OfState(
            "promised-once",
            {
                e.Reserved: lambda event: [one.identity for one in event.promises],
                e.ClaimMoved: lambda event: event.promises and [one.identity for one in event.promises],
            },
            _promised_once,
            lambda state: [*(state.hand_over.reserved_for if state.live else state.lifecycle.ready_for)],
        ),
        OfState(
            "life-agrees",
            {e.ClaimMoved: lambda event: (event.claim,)},
            _life_agrees,
            lambda state: [*state.lifecycle.lives],
        ),
        OfState(
            "device-agrees",
            {e.DeviceMoved: lambda event: (event.resource,)},
            _device_agrees,
            lambda state: {*state.lifecycle.devices, *state.give_back.fences},
        ),
        OfState(
            "exchange-is-whose",
            {e.ExchangeBegun: lambda event: event.for_claims()},
            _exchange_is_whose,
            lambda state: [*state.hand_over.exchanges],
        ),
    ),
)
