"""The exchange: dds gives a claim the attached devices of its node while its pod waits, and the scheduler binds the pod without
scheduling it again.

While a pod waits, the scheduler of Kubernetes 1.36 reads its claims again every five seconds, and goes on once none of their
devices has a condition to wait for. An allocation that is set cannot be changed, so dds clears it and sets another, in two
writes; in between the scheduler finds none and waits on. The scheduler keeps the allocated devices as a set: if two claims had
one device, the end of either would free it for a third. So the devices are guarded first (an admission policy denies them to all
other claims), and then all claims are listed. Whatever makes an exchange unsafe is looked for before it begins, and again before
the first write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dds_core.kit.policy import MICROSECONDS
from dds_core.matching.search import MOST_RESULTS
from dds_core.model import Claim, DeviceKey, Pod, Result
from dds_core.scaler.events import (
    AllocationCleared,
    DevicesGiven,
    ExchangeBegun,
    ExchangeEnded,
    GuardLifted,
    ReservedDevice,
    Swap,
)
from dds_core.scaler.keys import RELISTED, UNGUARDED
from dds_core.scaler.model import KUBE_SCHEDULER, LOOKS_ANEW, Exchange, release_of
from dds_core.scaler.rules.assignment import assign
from dds_core.scaler.settling import AFTER_REFUSAL, LAST_MOMENT, list_when_settled
from dds_core.scaler.state import State, Work

QUIET = 30 * MICROSECONDS
"""No exchange begins so soon after a restart of the watch of claims: a scheduler that relists in the gap misses the change."""


def begin(work: Work, pods: list[Pod], claims: list[Claim], node: str) -> str:
    """Begin the exchange for these claims of a group, each with all its devices reserved. Returns why it is impossible, or ""."""
    state = work.state
    why = _against(state, pods, claims, node, work.at)
    if why:
        return why
    swaps = tuple(_swap(state, claim) for claim in claims)
    if any(len(swap.results) > MOST_RESULTS for swap in swaps):
        return f"a claim would have more than {MOST_RESULTS} devices"
    life = state.lives.rows[claims[0].uid]
    work.emit_once(
        ExchangeBegun(
            pod=pods[0].uid,
            node=node,
            swaps=swaps,
            until=work.at + state.policy.guard_seconds * MICROSECONDS if state.live else 0,
            mode=state.mode,
            cause=f"attempt {life.cycle}.{life.attempt}",
        )
    )
    return ""


def _against(state: State, pods: list[Pod], claims: list[Claim], node: str, at: int) -> str:
    """Why an exchange is impossible, "" if it is not."""
    return next(filter(None, _objections(state, pods, claims, node, at)), "")


def _objections(state: State, pods: list[Pod], claims: list[Claim], node: str, at: int) -> Iterator[str]:
    for name in sorted({pod.scheduler for pod in pods}):
        yield _against_scheduler(state, name)
    if not state.guards:
        yield f"devices cannot be guarded: {state.unguarded or 'nothing is known of a guard'}"
    refused, relisted = state.fired_deadlines.get(UNGUARDED), state.fired_deadlines.get(RELISTED)
    if refused is not None and at < refused + AFTER_REFUSAL:
        yield "a step of an exchange was refused lately"
    if relisted is not None and at < relisted + QUIET:
        yield "the watch of claims began anew lately"
    place = state.node(node)
    if place is None or place.deleting:
        yield "the node is going"
    if not pods:
        yield "no pod waits for it"
    for claim in claims:
        yield _against_claim(state, claim, pods, node)


def _against_scheduler(state: State, name: str) -> str:
    said = state.policy.hand_over_of(name)
    if said == "clear":
        return "the policy says clear"
    if said is None and name not in KUBE_SCHEDULER:
        return f"it is not known whether the scheduler {name} looks at its claims anew"
    if not looks_anew(state):
        return f"the scheduler is of version {state.version or 'unknown'}"
    return ""


def looks_anew(state: State) -> bool:
    return release_of(state.version) >= LOOKS_ANEW


def _against_claim(state: State, claim: Claim, pods: list[Pod], node: str) -> str:
    """Why this claim cannot be exchanged. A pod that is not in reservedFor could allocate the claim elsewhere in the gap, and the
    pod that is would be bound without it."""
    name, allocation = f"{claim.namespace}/{claim.name}", claim.allocation
    if allocation is None or allocation.node != node:
        return f"{name} is allocated on no single node"
    if claim.deleting or not claim.protected:
        return f"{name} is going" if claim.deleting else f"{name} lacks the finalizer of an allocated claim"
    if any((step.__name__, claim.uid) in state.refusals for step in (ExchangeBegun, AllocationCleared)):
        return f"an exchange of {name} came to nothing"
    consumers, its = {one.uid for one in claim.consumers}, state.pods_of(claim)
    waiting = {pod.uid for pod in pods if pod in its}
    over = {pod.uid for pod in its if pod.over}
    if not waiting <= consumers <= waiting | over or any(one.resource != "pods" for one in claim.consumers):
        return f"{name} is not reserved for every pod that refers to it, and for no other"
    has = (state.resource_of(result.key) for result in state.local_results(allocation) if not result.admin)
    if any(resource is not None and resource.leaving for resource in has):
        return f"a device that {name} has leaves the node"
    going = {result.key for _, result, _ in state.pool_results(allocation)}
    if not going.issuperset(claim.told):
        return f"somebody else keeps a status of a device of {name}"
    return ""


def _swap(state: State, claim: Claim) -> Swap:
    assert claim.allocation is not None
    promises = {one.result: one for one in state.reserved_devices_of(claim)}
    waiting = {place for place, _, _ in state.pool_results(claim.allocation)}
    results: list[Result] = []
    for place, result in enumerate(claim.allocation.results):
        promise = promises.pop(place, None)
        if promise is not None:
            results.append(_given(promise))
        elif place not in waiting:
            results.append(result)
    results += [_given(promise) for _, promise in sorted(promises.items())]
    same = {one.request for one in results} == {one.request for one in claim.allocation.results}
    config = claim.config if same else ""
    return Swap(claim.uid, tuple(results), claim.consumers, claim.allocation.timestamp, config)


def _given(promise: ReservedDevice) -> Result:
    return Result(promise.request, *promise.key, share=promise.share, consumed=promise.consumed, admin=promise.admin)


# -- steps -------------------------------------------------------------------------------------------------------------


def next_step(work: Work, uid: str) -> None:
    """The next step of the claim's exchange, and the removal of guards that are no longer needed."""
    state = work.state
    row, claim = state.exchanges.get(uid), state.claims.get(uid)
    if row is not None and not state.live:
        work.emit_once(ExchangeEnded(claim=uid, mode=state.undoing_mode, reason=f"mode is {state.mode}"))
    elif row is not None and claim is not None:
        _step(work, row, claim)
    if state.guarded_for[uid]:
        _lift(work, uid)


def _step(work: Work, row: Exchange, claim: Claim) -> None:
    match row.stage:
        case "guarding" | "listing" if row.group[0] not in work.state.exchanges:
            _begin_anew(work, row, claim)
        case "listing" if row.group[0] == claim.uid and not row.wanted:
            list_when_settled(work, claim.uid, row.since)
        case "listed" if row.version:
            _give(work, row, claim)
        case "listed":
            _clear(work, row, claim)
        case "cleared" if claim.allocation is None and work.at < row.until:
            _give(work, row, claim)
        case "cleared" if claim.allocation is None:
            _guard_again(work, row, claim)
        case "left" if claim.allocation is None:
            _tell_left(work, claim)
        case _:
            pass


def _begin_anew(work: Work, row: Exchange, claim: Claim) -> None:
    """The first claim of the group has left the exchange. The guard and the list were for all, and their outcomes are reported
    under the first claim, so the others begin again."""
    if not row.open:
        reason = "the first claim of its group went another way"
        work.emit_once(ExchangeEnded(claim=claim.uid, mode=work.state.mode, reason=reason))
    elif claim.allocation is None:
        _guard_again(work, row, claim)


def _still_waits(state: State, row: Exchange) -> bool:
    """Whether the node is there, and a pod that waits. (The claim controller removes reservations of pods that are gone.)"""
    node = state.node(row.node)
    pods = (state.pods.get(one.uid) for one in row.swap.consumers)
    return node is not None and not node.deleting and any(pod is not None and _may_run(pod, row.node) for pod in pods)


def _may_run(pod: Pod, node: str) -> bool:
    """Whether the pod may still run on the node: it has none yet, or was put there."""
    return pod.node in ("", node) and not pod.over


def _leave(work: Work, claim: Claim, why: str) -> None:
    """End the exchange of a cleared claim; the scheduler allocates it."""
    _tell_left(work, claim)
    work.emit_once(ExchangeEnded(claim=claim.uid, mode=work.state.mode, reason=why))


def _tell_left(work: Work, claim: Claim) -> None:
    whose = f"the exchange of {claim.namespace}/{claim.name} ended between its two writes"
    work.alert(claim.uid, "ExchangeLeft", f"{whose}: it has no device until the scheduler allocates it anew")


def _clear(work: Work, row: Exchange, claim: Claim) -> None:
    """The first of the two writes, unless something is against it by now. Then the claims that are not cleared yet leave the
    exchange unharmed and are handed over in another way."""
    mode, rows = work.state.mode, work.state.exchanges.rows
    whole = [uid for uid in row.group if uid in rows and not rows[uid].open]
    why = _in_the_way(work, row, whole)
    if why:
        for uid in whole:
            work.emit_once(ExchangeEnded(claim=uid, mode=mode, reason=why))
    else:
        work.emit_once(AllocationCleared(claim=claim.uid, mode=mode, node=row.node, attempt=row.attempt))


def _in_the_way(work: Work, row: Exchange, whole: list[str]) -> str:
    """Why the exchange may not go on for those claims of its group that are not cleared yet (`whole`); "" if it may."""
    state = work.state
    if work.at > row.until - LAST_MOMENT:
        return "its guard is about to end"
    claims = [claim for uid in whole if (claim := state.claims.get(uid)) is not None]
    served = {one.claim.uid for one in assign(state, row.node) if one.complete}
    for claim in claims:
        swap = state.exchanges.rows[claim.uid].swap
        rival = next(iter(_rivals(state, swap)), None)
        if rival is not None:
            return f"claim {rival.namespace}/{rival.name} has one of the devices"
        if claim.allocation is None or _swap(state, claim).results != swap.results:
            return "the devices are not promised to it any more"
        if claim.uid not in served:
            return "the devices do not satisfy it any more"
    its = (pod for claim in claims for pod in state.pods_of(claim) if _may_run(pod, row.node))
    pods = list({pod.uid: pod for pod in its}.values())
    return _against(state, pods, claims, row.node, work.at)


def _rivals(state: State, swap: Swap) -> Iterable[Claim]:
    """Other claims that have a device of the swap as a whole."""
    whole = [one.key for one in swap.results if one.whole]
    others = {uid for key in whole for uid in state.claims_naming(key)} - {swap.claim}
    return [state.claims.rows[uid] for uid in sorted(others)]


def _give(work: Work, row: Exchange, claim: Claim) -> None:
    life = work.state.lives.get(claim.uid)
    before = life.allocation.results if life is not None and life.allocation is not None else ()
    why = _lost(work.state, row.swap, {one.key for one in before})
    if why:
        _leave(work, claim, why)
        return
    stays = {one.key for one in row.swap.results}
    work.emit_once(
        DevicesGiven(
            claim=claim.uid,
            mode=work.state.mode,
            node=row.node,
            attempt=row.attempt,
            swap=row.swap,
            version=row.version,
            instead=tuple(one.device for one in before if one.key not in stays),
        )
    )


def _lost(state: State, swap: Swap, had: set[DeviceKey]) -> str:
    """Why a device can no longer be given, after the claim was cleared; "" if all can."""
    rival = next(iter(_rivals(state, swap)), None)
    if rival is not None:
        return f"claim {rival.namespace}/{rival.name} took one of the devices in between"
    gone = (one.device for one in swap.results if one.key not in had and _is_gone(state, one.key))
    return next((f"{device} went in between" for device in gone), "")


def _is_gone(state: State, key: DeviceKey) -> bool:
    """Whether the driver no longer lists the device. An incomplete pool, of which slices are still to come, does not say so."""
    pool = state.pools.get(key[:2])
    return pool is None or (pool.usable and key[2] not in pool.devices)


def _guard_again(work: Work, row: Exchange, claim: Claim) -> None:
    """After a restart, or when it took longer than the guard: other clients may have acted meanwhile, so guard and list again."""
    if not _still_waits(work.state, row):
        _leave(work, claim, "its node went, or nobody waits for it any more")
        return
    rows = [work.state.exchanges.rows[uid] for uid in row.group if uid in work.state.exchanges]
    swaps = tuple(one.swap for one in rows if one.version)
    until = work.at + work.state.policy.guard_seconds * MICROSECONDS
    cause = "it goes on where it was left"
    work.emit_once(
        ExchangeBegun(pod=row.pod, node=row.node, swaps=swaps, until=until, mode=work.state.mode, cause=cause)
    )


def _lift(work: Work, uid: str) -> None:
    """Remove a guard when its claim lets go of the device or never got it, at the end of its time, and when dds no longer writes:
    a free device is never kept from all. Not before it is known where guards are (`unanswered`)."""
    state = work.state
    if state.unanswered:
        return
    claim, row = state.claims.get(uid), state.exchanges.get(uid)
    if row is not None and row.stage != "left":
        return
    held = (
        {one.key for one in claim.allocation.results} if claim is not None and claim.allocation is not None else set()
    )
    keys = sorted(state.guarded_for[uid])
    if any(state.guarded.rows[key].lifting for key in keys):
        return  # one write at a time, so that each outcome concerns its own keys
    over = [key for key in keys if key not in held or not state.live or work.has_come(state.guarded.rows[key].until)]
    if over:
        work.emit_once(GuardLifted(claim=uid, devices=tuple(over), mode=state.undoing_mode))


# -- words -------------------------------------------------------------------------------------------------------------


def exchanged(state: State, claim: Claim) -> str:
    """Which devices were exchanged, in words, if the claim's allocation is what an exchange of dds gave it; else ""."""
    row, life = state.exchanges.get(claim.uid), state.lives.get(claim.uid)
    if row is None or claim.allocation is None or claim.allocation.results != row.swap.results:
        return ""
    before = life.allocation.results if life is not None and life.allocation is not None else ()
    gone = [one.device for one in before if one not in row.swap.results]
    given = [one.device for one in row.swap.results if one not in before]
    return f"exchanged {', '.join(gone)} for {', '.join(given)}"
