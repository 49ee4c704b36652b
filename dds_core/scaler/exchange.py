"""The exchange: dds gives a claim the attached devices of its node while its pod waits, and the scheduler binds the pod without
scheduling it again.

While a pod waits, the scheduler of Kubernetes 1.36 reads its claims again every five seconds, and goes on once none of their
devices has a condition to wait for. An allocation that is set cannot be changed, so dds clears it and sets another, in two
writes; in between the scheduler finds none and waits on. The scheduler keeps the allocated devices as a set: if two claims had
one device, the end of either would free it for a third. So the devices are guarded first (an admission policy denies them to all
other claims), and then all claims are listed. Whatever makes an exchange unsafe is looked for before it begins, and again before
the first write.

Below: the tables of the exchange's stages and of those of a device's guard, the folds that take them from one to the next, and
the rules that decide the next step. An exchange that is guarded again after its claim was cleared has the stages again_*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.kit.deadlines import Deadline, DeadlineKind
from dds_core.kit.policy import MICROSECONDS
from dds_core.kit.stages import NONE, Stages, each
from dds_core.kit.state import Key
from dds_core.kit.work import Fold
from dds_core.lifecycle import Edge
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
    WriteDone,
)
from dds_core.scaler.keys import RELISTED, UNGUARDED
from dds_core.scaler.model import ANY_VERSION, KUBE_SCHEDULER, LOOKS_ANEW, Exchange, Guarded, release_of
from dds_core.scaler.settling import AFTER_REFUSAL, LAST_MOMENT, list_when_settled, settled_due
from dds_core.scaler.state import State, Work

GUARDING, LISTING, LISTED = "guarding", "listing", "listed"
AGAIN_GUARDING, AGAIN_LISTING, AGAIN_LISTED = "again_guarding", "again_listing", "again_listed"
CLEARING, CLEARED, GIVING, GIVEN, LEFT = "clearing", "cleared", "giving", "given", "left"
_AGAIN = {GUARDING: AGAIN_GUARDING, LISTING: AGAIN_LISTING, LISTED: AGAIN_LISTED}
_CLEARED_NOT_GIVEN = (CLEARED, *_AGAIN.values())
_CLEAR_BEGUN = (CLEARING, *_CLEARED_NOT_GIVEN, GIVING, GIVEN)
_ANY = (GUARDING, LISTING, LISTED, *_CLEAR_BEGUN, LEFT)

EXCHANGE = Stages(
    "exchange",
    (
        Edge("begun", NONE, GUARDING, "All claims of the pod have reserved devices: these are being guarded."),
        *each(
            "begun",
            (LISTING, LISTED),
            GUARDING,
            "Another claim of the pod became ready: the group begins anew, once no guard is being written.",
        ),
        *each(
            "begun",
            _CLEARED_NOT_GIVEN,
            AGAIN_GUARDING,
            "The guard is over, the process restarted, or the group's first claim left: guarded again.",
        ),
        Edge("guarded", GUARDING, LISTING, "The guard is written; all claims are listed once every API server obeys."),
        Edge("guarded", AGAIN_GUARDING, AGAIN_LISTING, "The same, for a cleared claim."),
        Edge("list_wanted", LISTING, LISTING, "The guard has settled, and the list is requested."),
        Edge("list_wanted", AGAIN_LISTING, AGAIN_LISTING, "The same, for a cleared claim."),
        Edge("listed", LISTING, LISTED, "A list that began after the settling has come."),
        Edge("listed", AGAIN_LISTING, AGAIN_LISTED, "The same, for a cleared claim."),
        Edge("clear", LISTED, CLEARING, "Nothing speaks against it: the allocation is being cleared."),
        Edge("cleared", CLEARING, CLEARED, "The first write is done, and the version that it left is kept."),
        *each("give", (CLEARED, AGAIN_LISTED), GIVING, "The watch shows no allocation: the devices are being given."),
        Edge("given", GIVING, GIVEN, "The second write is done; the watch has yet to show it, if it was not faster."),
        *each("done", _ANY, NONE, "The claim has devices, or none is wanted."),
        *each("ended", _ANY, NONE, "Something speaks against it, or the mode."),
        Edge("guard_refused", GUARDING, NONE, "The guard was not written: the scheduler makes the hand-over."),
        Edge("guard_refused", AGAIN_GUARDING, LEFT, "The guard was not written: the scheduler allocates the claim."),
        Edge("clear_refused", CLEARING, NONE, "The claim was not cleared: the scheduler makes the hand-over."),
        Edge("give_refused", GIVING, LEFT, "The devices were not given: the scheduler allocates the claim."),
        *each(
            "went_on",
            _CLEAR_BEGUN,
            CLEARED,
            "A new process finds the claim without an allocation: it will be guarded again.",
        ),
        *each("restarted", _ANY, NONE, "A new process finds the claim gone, or allocated."),
    ),
    decided=("begun", "clear", "give", "ended"),
)

STANDING, LIFTING = "standing", "lifting"

GUARD = Stages(
    "guard",
    (
        *each("begun", (NONE, STANDING, LIFTING), STANDING, "The device is guarded for a claim of an exchange."),
        Edge("lifted", STANDING, LIFTING, "Its claim let go of the device or never got it, or its time is over."),
        Edge("off", LIFTING, NONE, "It is removed."),
        Edge("refused", LIFTING, STANDING, "It was not removed: that is tried again."),
        *each("over", (STANDING, LIFTING), NONE, "It was not removed, but it has ended, or no guard is possible now."),
        Edge("restarted", LIFTING, STANDING, "A new process does not know whether it was removed."),
    ),
    decided=("begun", "lifted"),
)

OF_ONE_CLAIM = (AllocationCleared.__name__, DevicesGiven.__name__)
"""The steps that are a write for each claim of a group."""
QUIET = 30 * MICROSECONDS
"""No exchange begins so soon after a restart of the watch of claims: a scheduler that relists in the gap misses the change."""

# -- folds -------------------------------------------------------------------------------------------------------------


def stage_of(row: Exchange | None) -> str:
    """The stage in the table. A row has `guarding`, `listing` or `listed` also for a cleared claim that is guarded again: this
    function, not `row.stage`, tells the stages again_*."""
    if row is None:
        return NONE
    return _AGAIN.get(row.stage, row.stage) if row.version else row.stage


def _to(state: State, uid: str, trigger: str, begun: Exchange | None = None, **changes: Any) -> None:
    """Take the claim's exchange to the next stage; `begun` is a new one."""

    def at(row: Exchange, stage: str) -> Exchange:
        return replace(row, stage=stage.removeprefix("again_"), **changes)

    EXCHANGE.take(state.hand_over.exchanges, uid, trigger, stage_of, at, begun)


def _begun(state: State, event: ExchangeBegun, at: int) -> None:
    group = event.for_claims()
    for swap in event.swaps:
        life, before = state.lifecycle.lives.get(swap.claim), state.hand_over.exchanges.get(swap.claim)
        attempt = life.attempt if life is not None else 0
        version = before.version if before is not None else ""
        row = Exchange(event.pod, event.node, attempt, swap, group, event.until, at, version=version)
        _to(state, swap.claim, "begun", row)
        for one in swap.results:
            if one.key in event.guarded:
                _guard_to(state, one.key, "begun", Guarded(swap.claim, event.until, event.node))


def _clear_decided(state: State, event: AllocationCleared, at: int) -> None:
    _to(state, event.claim, "clear", since=at, wanted=False)


def _give_decided(state: State, event: DevicesGiven, at: int) -> None:
    _to(state, event.claim, "give", since=at, wanted=False)
    state.lifecycle.counters.put("hand-over/exchange", (state.lifecycle.counters.get("hand-over/exchange") or 0) + 1)


def _ended(state: State, event: ExchangeEnded, at: int) -> None:
    _to(state, event.claim, "ended")


def _guard_stage_of(row: Guarded | None) -> str:
    return NONE if row is None else LIFTING if row.lifting else STANDING


def _guard_to(state: State, key: DeviceKey, trigger: str, begun: Guarded | None = None) -> None:
    GUARD.take(
        state.hand_over.guarded,
        key,
        trigger,
        _guard_stage_of,
        lambda row, stage: replace(row, lifting=stage == LIFTING),
        begun,
    )


def _guard_lifted(state: State, event: GuardLifted, at: int) -> None:
    for key in event.devices:
        _guard_to(state, key, "lifted")
    state.notes.fired_deadlines.drop((DeadlineKind.GUARD, event.claim))


FOLDS: dict[type[Event], Fold] = {
    ExchangeBegun: _begun,
    AllocationCleared: _clear_decided,
    DevicesGiven: _give_decided,
    ExchangeEnded: _ended,
    GuardLifted: _guard_lifted,
}


def done(state: State, claim: str) -> None:
    """The claim has devices, or none is wanted."""
    _to(state, claim, "done")


def list_wanted(state: State, claim: str, settled: int) -> None:
    _to(state, claim, "list_wanted", wanted=True, since=settled)


def listed(state: State, claim: str, started: int, at: int) -> None:
    """A list of all claims has come that began at `started`."""
    row = state.hand_over.exchanges.get(claim)
    if row is not None and row.stage == LISTING and row.wanted and started >= row.since:
        for uid in row.group:
            _to(state, uid, "listed", since=at, wanted=False)


def written(state: State, event: WriteDone, at: int) -> None:
    uid = event.target
    row = state.hand_over.exchanges.get(uid)
    match event.action:
        case GuardLifted.__name__:
            for key in sorted(state.hand_over.guarded_for[uid]):
                _guard_to(state, key, "off")
        case ExchangeBegun.__name__ if row is not None:
            for one in row.group:
                _to(state, one, "guarded", since=at, wanted=False)
        case AllocationCleared.__name__:
            _to(state, uid, "cleared", since=at, wanted=False, version=event.version)
        case DevicesGiven.__name__:
            _to(state, uid, "given", since=at, wanted=False)


def _guard_refused(state: State, claim: str) -> None:
    row = state.hand_over.exchanges.get(claim)
    for uid in row.group if row is not None else ():
        _to(state, uid, "guard_refused")


def _removal_refused(state: State, claim: str) -> None:
    """The removal of the guard is not confirmed: try again, unless the guard has ended by itself or no guard is possible now."""
    for key in sorted(state.hand_over.guarded_for[claim]):
        over = state.hand_over.guarded.rows[key].until <= state.process.now or not (
            state.settings.guards or state.settings.unanswered
        )
        _guard_to(state, key, "over" if over else "refused")


VOIDS: dict[str, Callable[[State, str], None]] = {
    ExchangeBegun.__name__: _guard_refused,
    AllocationCleared.__name__: lambda state, claim: _to(state, claim, "clear_refused"),
    DevicesGiven.__name__: lambda state, claim: _to(state, claim, "give_refused"),
    GuardLifted.__name__: _removal_refused,
}
"""By the type of a decision that will not be carried out: how to forget its intent, given the claim's uid."""


def restarted(state: State, unseen: set[Key], at: int) -> None:
    """After a restart, an exchange that has not cleared its claim begins again. One that has is guarded again and goes on: with
    the version that the clear left, or with any if the process ended before it knew it. It does not matter who cleared the claim:
    without allocation and reservation no pod uses it, and a scheduler that gave up on it finds the devices allocated."""
    for key, guard in [*state.hand_over.guarded.rows.items()]:
        if guard.lifting:  # even if its time is over: its key would stay
            _guard_to(state, key, "restarted")
            unseen.add((GuardLifted.__name__, guard.claim))
    for uid, row in list(state.hand_over.exchanges.rows.items()):
        claim = state.demand.claims.get(uid)
        if claim is None or claim.allocation is not None or not row.clear_begun:
            _to(state, uid, "restarted")
            unseen |= {(ExchangeBegun.__name__, uid), (GuardLifted.__name__, uid)}
        elif row.stage != LEFT:
            _to(state, uid, "went_on", until=0, since=at, version=row.version or ANY_VERSION)
            unseen |= {(ExchangeBegun.__name__, uid), (DevicesGiven.__name__, uid)}


# -- beginning ---------------------------------------------------------------------------------------------------------


def begin(work: Work, pods: list[Pod], claims: list[Claim], node: str) -> str:
    """Begin the exchange for these claims of a group, each with all its devices reserved. Returns why it is impossible, or ""."""
    state = work.state
    why = against(state, pods, claims, node, work.at)
    if why:
        return why
    swaps = tuple(_swap(state, claim) for claim in claims)
    if any(len(swap.results) > MOST_RESULTS for swap in swaps):
        return f"a claim would have more than {MOST_RESULTS} devices"
    life = state.lifecycle.lives.rows[claims[0].uid]
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


def against(state: State, pods: list[Pod], claims: list[Claim], node: str, at: int) -> str:
    """Why an exchange is impossible, "" if it is not."""
    return next(filter(None, _objections(state, pods, claims, node, at)), "")


def impossible(state: State, pods: Iterable[Pod]) -> str:
    """Why no claim of these pods is ever exchanged, as policy and cluster are; "" if it may be."""
    schedulers = sorted({pod.scheduler for pod in pods})
    why = next(filter(None, (_against_scheduler(state, name) for name in schedulers)), "")
    if why or state.settings.guards:
        return why
    return f"devices cannot be guarded: {state.settings.unguarded or 'nothing is known of a guard'}"


def _objections(state: State, pods: list[Pod], claims: list[Claim], node: str, at: int) -> Iterator[str]:
    yield impossible(state, pods)
    refused, relisted = state.notes.fired_deadlines.get(UNGUARDED), state.notes.fired_deadlines.get(RELISTED)
    if refused is not None and at < refused + AFTER_REFUSAL:
        yield "a step of an exchange was refused lately"
    if relisted is not None and at < relisted + QUIET:
        yield "the watch of claims began anew lately"
    place = state.fleet.node(node)
    if place is None or place.deleting:
        yield "the node is going"
    if not pods:
        yield "no pod waits for it"
    for claim in claims:
        yield _against_claim(state, claim, pods, node, at)


def _against_scheduler(state: State, name: str) -> str:
    said = state.policy.hand_over_of(name)
    if said == "clear":
        return "the policy says clear"
    if said is None and name not in KUBE_SCHEDULER:
        return f"it is not known whether the scheduler {name} looks at its claims anew"
    if not looks_anew(state):
        return f"the scheduler is of version {state.settings.version or 'unknown'}"
    return ""


def looks_anew(state: State) -> bool:
    return release_of(state.settings.version) >= LOOKS_ANEW


def _against_claim(state: State, claim: Claim, pods: list[Pod], node: str, at: int) -> str:
    """Why this claim cannot be exchanged. A pod that is not in reservedFor could allocate the claim elsewhere in the gap, and the
    pod that is would be bound without it. One that came to nothing is tried again only for a pod that no scheduler could serve.
    """
    name, allocation = f"{claim.namespace}/{claim.name}", claim.allocation
    if allocation is None or allocation.node != node:
        return f"{name} is allocated on no single node"
    if not claim.protected:
        return f"{name} lacks the finalizer of an allocated claim"
    refused = [state.notes.refusals.get((step.__name__, claim.uid)) for step in (ExchangeBegun, AllocationCleared)]
    placed = any(pod.node for pod in pods)
    if any(row is not None and not (placed and row.until <= at) for row in refused):
        return f"an exchange of {name} came to nothing"
    consumers, its = {one.uid for one in claim.consumers}, state.demand.pods_of(claim)
    waiting = {pod.uid for pod in pods if pod in its}
    over = {pod.uid for pod in its if pod.over}
    if not waiting <= consumers <= waiting | over or any(one.resource != "pods" for one in claim.consumers):
        return f"{name} is not reserved for every pod that refers to it, and for no other"
    has = (state.resource_of(result.key) for result in state.inventory.local_results(allocation) if not result.admin)
    if any(resource is not None and resource.leaving for resource in has):
        return f"a device that {name} has leaves the node"
    going = {result.key for _, result, _ in state.inventory.pool_results(allocation)}
    if not going.issuperset(claim.told):
        return f"somebody else keeps a status of a device of {name}"
    return ""


def _swap(state: State, claim: Claim) -> Swap:
    assert claim.allocation is not None
    promises = {one.result: one for one in state.reserved_devices_of(claim)}
    waiting = {place for place, _, _ in state.inventory.pool_results(claim.allocation)}
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


Served = Callable[[str], set[str]]
"""The claims that the attached devices of a node satisfy whole."""


def next_step(work: Work, uid: str, served: Served) -> None:
    """The next step of the claim's exchange, and the removal of guards that are no longer needed."""
    state = work.state
    row, claim = state.hand_over.exchanges.get(uid), state.demand.claims.get(uid)
    if row is not None and not state.live:
        work.emit_once(ExchangeEnded(claim=uid, mode=state.settings.undoing_mode, reason=f"mode is {state.mode}"))
    elif row is not None and claim is not None:
        _step(work, row, claim, served)
    if state.hand_over.guarded_for[uid]:
        _lift(work, uid)


def _step(work: Work, row: Exchange, claim: Claim, served: Served) -> None:
    match stage_of(row):
        case "guarding" | "listing" | "again_guarding" | "again_listing" if (
            row.group[0] not in work.state.hand_over.exchanges
        ):
            _begin_anew(work, row, claim)
        case "listing" | "again_listing" if row.group[0] == claim.uid and not row.wanted:
            list_when_settled(work, claim.uid, row.since)
        case "listed":
            _clear(work, row, claim, served)
        case "again_listed":
            _give(work, row, claim)
        case "cleared" if claim.allocation is None and work.at < row.until:
            _give(work, row, claim)
        case "cleared" if claim.allocation is None:
            _guard_again(work, row, claim)
        case "left" if claim.allocation is None:
            _tell_left(work, claim, _refused(work.state, claim.uid))
        case _:
            pass


def _begin_anew(work: Work, row: Exchange, claim: Claim) -> None:
    """The first claim of the group has left the exchange. The guard and the list were for all, and their outcomes are reported
    under the first claim, so the others begin again."""
    if not row.clear_begun:
        reason = "the first claim of its group went another way"
        work.emit_once(ExchangeEnded(claim=claim.uid, mode=work.state.mode, reason=reason))
    elif claim.allocation is None:
        _guard_again(work, row, claim)


def _still_waits(state: State, row: Exchange) -> bool:
    """Whether the node is there, and a pod that waits. (The claim controller removes reservations of pods that are gone.)"""
    node = state.fleet.node(row.node)
    pods = (state.demand.pods.get(one.uid) for one in row.swap.consumers)
    return node is not None and not node.deleting and any(pod is not None and _may_run(pod, row.node) for pod in pods)


def _may_run(pod: Pod, node: str) -> bool:
    """Whether the pod may still run on the node: it has none yet, or was put there."""
    return pod.node in ("", node) and not pod.over


def _leave(work: Work, claim: Claim, why: str) -> None:
    """End the exchange of a cleared claim; the scheduler allocates it."""
    _tell_left(work, claim, why)
    work.emit_once(ExchangeEnded(claim=claim.uid, mode=work.state.mode, reason=why))


def _tell_left(work: Work, claim: Claim, why: str) -> None:
    whose = f"the exchange of {claim.namespace}/{claim.name} ended between its two writes ({why})"
    work.alert(claim.uid, "ExchangeLeft", f"{whose}: it has no device until the scheduler allocates it anew")


def _refused(state: State, uid: str) -> str:
    """Which write was refused of a cleared claim, in the API server's words if it has some."""
    given = state.notes.refusals.get((DevicesGiven.__name__, uid))
    words = f": {given.text}" if given is not None and given.text else ""
    if given is not None:
        return f"its devices were not given{words}" if words else "its devices were not given, since it had changed"
    return "its guard was not written"


def _clear(work: Work, row: Exchange, claim: Claim, served: Served) -> None:
    """The first of the two writes, unless something is against it by now. Then the claims that are not cleared yet leave the
    exchange unharmed and are handed over in another way."""
    mode, rows = work.state.mode, work.state.hand_over.exchanges.rows
    whole = [uid for uid in row.group if uid in rows and not rows[uid].clear_begun]
    why = _in_the_way(work, row, whole, served(row.node))
    if why:
        for uid in whole:
            work.emit_once(ExchangeEnded(claim=uid, mode=mode, reason=why))
    else:
        work.emit_once(AllocationCleared(claim=claim.uid, mode=mode, node=row.node, attempt=row.attempt))


def _in_the_way(work: Work, row: Exchange, whole: list[str], served: set[str]) -> str:
    """Why the exchange may not go on for those claims of its group that are not cleared yet (`whole`); "" if it may."""
    state = work.state
    if work.at > row.until - LAST_MOMENT:
        return "its guard is about to end"
    claims = [claim for uid in whole if (claim := state.demand.claims.get(uid)) is not None]
    for claim in claims:
        if claim.deleting:
            return f"{claim.namespace}/{claim.name} is going"
        swap = state.hand_over.exchanges.rows[claim.uid].swap
        rival = next(iter(_rivals(state, swap)), None)
        if rival is not None:
            return f"claim {rival.namespace}/{rival.name} has one of the devices"
        if claim.allocation is None or _swap(state, claim).results != swap.results:
            return "the devices are not promised to it any more"
        if claim.uid not in served:
            return "the devices do not satisfy it any more"
    its = (pod for claim in claims for pod in state.demand.pods_of(claim) if _may_run(pod, row.node))
    pods = list({pod.uid: pod for pod in its}.values())
    return against(state, pods, claims, row.node, work.at)


def _rivals(state: State, swap: Swap) -> Iterable[Claim]:
    """Other claims that have a device of the swap as a whole."""
    whole = [one.key for one in swap.results if one.whole]
    others = {uid for key in whole for uid in state.demand.claims_naming(key)} - {swap.claim}
    return [state.demand.claims.rows[uid] for uid in sorted(others)]


def _give(work: Work, row: Exchange, claim: Claim) -> None:
    life = work.state.lifecycle.lives.get(claim.uid)
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
    pool = state.inventory.pools.get(key[:2])
    return pool is None or (pool.usable and key[2] not in pool.devices)


def _guard_again(work: Work, row: Exchange, claim: Claim) -> None:
    """After a restart, or when it took longer than the guard: other clients may have acted meanwhile, so guard and list again."""
    if not _still_waits(work.state, row):
        _leave(work, claim, "its node went, or nobody waits for it any more")
        return
    found = work.state.hand_over.exchanges
    rows = [found.rows[uid] for uid in row.group if uid in found]
    # Not a guard that is being written, unless nobody will hear of it: its outcome is reported under the first of its group.
    rows = [one for one in rows if not one.awaits_guard or one.group[0] not in found]
    swaps = tuple(one.swap for one in rows if stage_of(one) in _CLEARED_NOT_GIVEN)
    until = work.at + work.state.policy.guard_seconds * MICROSECONDS
    cause = "it goes on where it was left"
    work.emit_once(
        ExchangeBegun(pod=row.pod, node=row.node, swaps=swaps, until=until, mode=work.state.mode, cause=cause)
    )


def _lift(work: Work, uid: str) -> None:
    """Remove a guard when its claim lets go of the device or never got it, at the end of its time, and when dds no longer writes:
    a free device is never kept from all. Not before it is known where guards are (`unanswered`)."""
    state = work.state
    if state.settings.unanswered:
        return
    claim, row = state.demand.claims.get(uid), state.hand_over.exchanges.get(uid)
    if row is not None and row.stage != LEFT:
        return
    held = (
        {one.key for one in claim.allocation.results} if claim is not None and claim.allocation is not None else set()
    )
    keys = sorted(state.hand_over.guarded_for[uid])
    if any(state.hand_over.guarded.rows[key].lifting for key in keys):
        return  # one write at a time, so that each outcome concerns its own keys
    over = [
        key
        for key in keys
        if key not in held or not state.live or work.has_come(state.hand_over.guarded.rows[key].until)
    ]
    if over:
        work.emit_once(GuardLifted(claim=uid, devices=tuple(over), mode=state.settings.undoing_mode))


# -- words -------------------------------------------------------------------------------------------------------------


def exchanged(state: State, claim: Claim) -> str:
    """Which devices were exchanged, in words, if the claim's allocation is what an exchange of dds gave it; else ""."""
    row, life = state.hand_over.exchanges.get(claim.uid), state.lifecycle.lives.get(claim.uid)
    if row is None or claim.allocation is None or claim.allocation.results != row.swap.results:
        return ""
    before = life.allocation.results if life is not None and life.allocation is not None else ()
    gone = [one.device for one in before if one not in row.swap.results]
    given = [one.device for one in row.swap.results if one not in before]
    return f"exchanged {', '.join(gone)} for {', '.join(given)}"


def due(state: State, uid: str) -> Iterator[Deadline]:
    """When something is to be done about the claim's exchange, or the guard of its devices."""
    guards = (state.hand_over.guarded.rows[key] for key in state.hand_over.guarded_for[uid])
    if guarded := [guard.until for guard in guards if not guard.lifting]:
        yield Deadline(min(guarded), DeadlineKind.GUARD, uid)
    row = state.hand_over.exchanges.get(uid)
    if row is not None and row.stage == LISTING and row.group[0] == uid and not row.wanted:
        yield Deadline(settled_due(row.since), DeadlineKind.SETTLE, uid)
