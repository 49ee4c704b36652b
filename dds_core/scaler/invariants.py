"""The scaler's invariants (`dds_core.kit.invariants`). Written against rows and indexes, not with the functions of the rules, so
that a fault there does not hide itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from dds_core.kit.invariants import Invariants, OfDecision, OfState
from dds_core.lifecycle import ATTACHED, IDLE, RELEASED, WAITING
from dds_core.model import FabricResource
from dds_core.scaler import events as e
from dds_core.scaler.state import Picture

# -- of decisions ------------------------------------------------------------------------------------------------------


def _promised_free(picture: Picture, event: e.Reserved) -> str:
    """What is promised to a claim that has not got it yet is neither on its way back nor had by another one."""
    for one in event.promises:
        resource = picture.resource_with(one.uuid, event.node) if one.uuid else None
        if resource is not None and resource.leaving:
            return f"{one.identity}, which leaves its node, is promised to {event.claim}"
        others = picture.having[one.key]
        if others and event.claim not in others and not _is_shared(picture, one):
            return f"{one.identity}, which {_any(others)} has, is promised to {event.claim}"
    return ""


def _given_unheld(picture: Picture, event: e.HandOver | e.ExchangeBegun) -> str:
    """A claim is let to a device that it has not got yet only when no hold of ours keeps everybody from it, and no guard that
    stays keeps it for another claim."""
    for uid in event.for_claims():
        for key in picture.reservations_for[uid]:
            for one in picture.reservations.rows[key].promises:
                guard = picture.guarded.get(one.key)
                if uid in picture.having[one.key]:
                    continue
                if picture.is_held(one.key):
                    return f"{uid} is let to {one.identity}, which is held"
                if guard is not None and guard.claim != uid and not guard.lifting:
                    return f"{uid} is let to {one.identity}, which is guarded for {guard.claim}"
    return ""


def _ready_when_told(picture: Picture, event: e.HandOver) -> str:
    """A claim is told to give way only when all it needs stands ready, in live modes in the log."""
    for signal in event.signals:
        life = picture.lives.get(signal.claim)
        if life is None or life.state != ATTACHED:
            return f"{signal.claim} is told to give way and is {life.state if life is not None else 'unknown'}"
        if event.mode != "observe" and not picture.reservations_for[signal.claim]:
            return f"{signal.claim} is told to give way and nothing is promised to it"
    return ""


def _had_by_nobody_else(picture: Picture, event: e.DeviceHeld | e.DevicesGiven) -> str:
    """What we allocate is allocated to nobody else."""
    if isinstance(event, e.DeviceHeld):
        keys, own = list(event.devices), ""
    else:
        keys, own = [one.key for one in event.swap.results if one.whole], event.claim
    for key in keys:
        others = (picture.holders[key] | picture.held_by[key]) - {own}
        if others:
            return f"{key[2]} of {key[1]} is given away and {_any(others)} has it"
    return ""


def _chosen_is_free(picture: Picture, event: e.VictimMarked | e.HoldBegun) -> str:
    """What is chosen to go back is had by nobody and promised to nobody."""
    resource = picture.resources.get(event.resource)
    return _not_free(picture, resource) if resource is not None else f"{event.resource} is chosen to go and unknown"


def _victims_are_free(picture: Picture, event: e.DetachOrdered) -> str:
    """What is given back is had by nobody, promised to nobody, of that node and model; and the size falls by just those. With no
    victim it is the number of those that are there."""
    fits = (
        len(picture.resources_of_request[event.request]) if not event.victims else event.previous - len(event.victims)
    )
    if event.size != fits or event.size < 0:
        return f"{event.request} is lowered from {event.previous} to {event.size} for {len(event.victims)}"
    for uid in event.victims:
        resource = picture.resources.get(uid)
        if resource is None or (resource.node, resource.model) != (event.node, event.model):
            return f"{uid} is to leave and is no {event.model} on {event.node}"
        why = _not_free(picture, resource)
        if why:
            return why
    return ""


def _not_free(picture: Picture, resource: FabricResource) -> str:
    had = {uid for key in picture.names_of(resource) for uid in picture.holders[key]}
    promised = picture.promised(resource.uuid) if resource.uuid else ()
    if had or promised:
        how = f"{_any(had)} has" if had else f"is promised to {_any(promised)}"
        return f"{resource.uid} is to leave and {how} {resource.uuid}"
    return ""


def limits(picture: Picture, node: str, model: str) -> tuple[int, int]:
    """(min, max) devices of the model on the node, as policy and labels say."""
    policy, found = picture.policy, picture.node(node)
    limit = policy.limits.get(f"{node}/{model}") or policy.limits.get(model) or policy.limit
    device = next((one.device for one in picture.config.models if one.model == model), "")
    labels = found.labels if found is not None else {}
    low, high = (labels.get(f"{picture.config.prefix}/{device}-size-{end}", "") for end in ("min", "max"))
    top = int(high) if _is_number(high) else limit.max
    return min(int(low) if _is_number(low) else limit.min, top), top


def _is_number(label: str) -> bool:
    return label.isascii() and label.isdigit() and len(label) <= 9


def _within_maximum(picture: Picture, event: e.AttachOrdered) -> str:
    """No more is asked for than the node may have, and more than before. A size that is asked back is an exception: the device is
    in use, and a lower maximum is no reason to take it away. An order that takes back a lower size which was not written yet may
    leave the request as it is; one that takes back an order goes not below the request."""
    standing = picture.orders.get((event.node, event.model))
    if event.reason == e.WITHDRAWN:
        fits = standing is not None and (event.previous or 0) <= event.size < standing.size
        return "" if fits else f"{event.request} is to have {event.size}, and nothing more is ordered"
    if event.reason.startswith("victim"):
        return ""
    top = limits(picture, event.node, event.model)[1]
    if event.size > top:
        return f"{event.request} is raised to {event.size} and {event.node} may have {top} of {event.model}"
    least = event.previous if standing is None or event.previous is None else min(event.previous, standing.size)
    if least is not None and event.size <= least:
        return f"{event.request} is raised from {least} to {event.size}"
    return ""


def _within_minimum(picture: Picture, event: e.DetachOrdered) -> str:
    """The node keeps its minimum, counted with what other requests ask for and with what no request asks for any more. What its
    driver has not listed for long is of no use to it."""
    requests = [picture.requests.rows[uid] for uid in picture.requests_at[event.node]]
    there = [picture.resources.rows[uid] for uid in picture.resources_at[event.node]]
    known = {one.name for one in requests}
    others = sum(one.size for one in requests if one.model == event.model and one.name != event.request)
    others += sum(one.model == event.model and one.request not in known for one in there)
    useless = sum(picture.is_missed(uid) for uid in event.victims)
    if event.size + others + useless < (low := limits(picture, event.node, event.model)[0]):
        return f"{event.request} is lowered to {event.size} and {event.node} keeps {low} of {event.model}"
    return ""


# -- of rows -----------------------------------------------------------------------------------------------------------


def _promised_once(picture: Picture, identity: str) -> str:
    """No device is promised to two, in live modes by reservations and in observe by what stands ready."""
    holders = picture.promised(identity)
    if len(holders) < 2:
        return ""
    rows = (picture.reservations.get(key) if picture.live else picture.lives.get(key) for key in holders)
    promises = [one for row in rows if row is not None for one in row.promises if one.identity == identity]
    if len(promises) < 2 or any(_is_shared(picture, one) for one in promises):
        return ""
    return f"{identity} is promised to {' and '.join(sorted(holders))}"


def _life_agrees(picture: Picture, uid: str) -> str:
    """A claim that waits is found among those that wait on its node; one that has given all back has nothing promised or under
    way."""
    life = picture.lives.get(uid)
    if life is None:
        return ""
    state = life.state
    if (uid in picture.waiting_at[life.node]) is not (state in WAITING):
        return f"{uid} is {state}, which the index of those that wait on {life.node} does not say"
    if state == RELEASED:
        kept = [one for one in ("reservations", "exchanges", "hand_overs") if uid in getattr(picture, one)]
        return f"{uid} has given all back and is left among {', '.join(kept)}" if kept else ""
    return ""


def _device_agrees(picture: Picture, uid: str) -> str:
    """A device that idles is had by nobody and its clock runs; it is found among the idle ones of its node; what is known of a
    device is known of a resource that is there."""
    life, resource = picture.devices.get(uid), picture.resources.get(uid)
    if life is None or resource is None:
        left = "its life" if life is not None else "its fence" if uid in picture.fences else ""
        return f"{uid} is gone and {left} is left" if left else ""
    idle = life.state == IDLE
    if (uid in picture.idle_at[life.node]) is not idle or uid not in picture.resources_at[resource.node]:
        return f"{uid} is {life.state} on {life.node}, which an index of that node does not say"
    if not idle:
        return ""
    had = [claim for key in picture.names_of(resource) if key in picture.holders for claim in picture.holders[key]]
    if had or not life.idle_since:
        return f"{uid} idles and {f'{_any(had)} has it' if had else 'its clock stands'}"
    return ""


def _exchange_is_whose(picture: Picture, uid: str) -> str:
    """An exchange is that of a claim that lives."""
    return f"{uid} is exchanged and unknown" if uid in picture.exchanges and uid not in picture.lives else ""


def _is_shared(picture: Picture, promise: e.Promise) -> bool:
    device = picture.device(promise.key)
    return bool(promise.share) or (device is not None and device.shared)


def _any(uids: Iterable[str]) -> str:
    return min(uids)


INVARIANTS: Invariants[Picture] = Invariants(
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
            lambda picture: [*(picture.reserved_for if picture.live else picture.ready_for)],
        ),
        OfState(
            "life-agrees", {e.ClaimMoved: lambda event: (event.claim,)}, _life_agrees, lambda picture: [*picture.lives]
        ),
        OfState(
            "device-agrees",
            {e.DeviceMoved: lambda event: (event.resource,)},
            _device_agrees,
            lambda picture: {*picture.devices, *picture.fences},
        ),
        OfState(
            "exchange-is-whose",
            {e.ExchangeBegun: lambda event: event.for_claims()},
            _exchange_is_whose,
            lambda picture: [*picture.exchanges],
        ),
    ),
)
