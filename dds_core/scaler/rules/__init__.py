"""`decide`: which transitions and decisions follow from a fact that was just folded.

Order of the rules: devices, then claims, then taint rules, then nodes, again until nothing is left to look at. Whatever they
emit is folded at once so that the next rule sees it.
"""

from __future__ import annotations

from dds_core.lifecycle import PENDING, WAITING
from dds_core.scaler.events import Promise
from dds_core.scaler.fold import apply
from dds_core.scaler.fold.lives import move
from dds_core.scaler.invariants import INVARIANTS
from dds_core.scaler.rules import claims, devices, release
from dds_core.scaler.rules.assignment import Cover, cover
from dds_core.scaler.rules.failures import definite_due, end_cool_downs, fail, tell_failures
from dds_core.scaler.rules.handover import hand_over
from dds_core.scaler.rules.labels import label
from dds_core.scaler.rules.orders import order, prewarm, who_waited_for, withdraw
from dds_core.scaler.rules.release import rebalance
from dds_core.scaler.rules.reservations import drop_overdue, promises_of, reserve
from dds_core.scaler.state import Picture, Work


def decide(picture: Picture, at: int, *, keep: bool = False) -> Work:
    """What follows from the fact that was folded last, at the instant `at`: `emitted` of what is given. The picture is left as
    it was, or with `keep` what follows is folded. Before `Synced` nothing follows: the picture is not whole yet.

    Always ends: an object whose rules keep undoing each other is left alone, as one whose rule fails.
    """
    return Work(picture, at, apply, INVARIANTS).decide(_run, keep)


def _run(work: Work) -> None:
    picture = work.picture
    if not picture.synced:
        work.touched.add(picture.dirty.take())
    else:
        work.check_config(picture.config.uid)
    while picture.dirty:
        _round(work)


def _round(work: Work) -> None:
    """Devices until they are quiet, then claims, then each node once: a node is only looked at when all that it rests on
    has settled."""
    picture = work.picture
    dirty, touched = picture.dirty, work.touched
    if dirty.everything:
        picture.touch_everything()
        dirty.everything = False
        touched.everything = True
    if dirty.devices:
        uids, dirty.devices = dirty.devices, set()
        touched.devices |= uids
        for uid in sorted(uids):
            work.guarded("rules.devices.step", devices.step, uid)
            work.guarded("rules.release.check_departures", release.check_departures, uid)
            work.guarded("rules.devices.check_health", devices.check_health, uid)
            work.guarded("rules.devices.check_progress", devices.check_progress, uid)
    elif dirty.claims:
        uids, dirty.claims = dirty.claims, set()
        touched.claims |= uids
        for uid in sorted(uids):
            work.guarded("rules.claims.step", claims.step, uid)
    elif dirty.rules:
        uids, dirty.rules = dirty.rules, set()
        for uid in sorted(uids):
            work.guarded("rules.release.lift", release.lift, uid)
    else:
        if dirty.freed:
            freed, dirty.freed = dirty.freed, set()
            dirty.nodes |= who_waited_for(picture, freed)
        names, dirty.nodes = dirty.nodes, set()
        touched.nodes |= names
        for name in sorted(names):
            for_node(work, name)


def for_node(work: Work, node: str) -> None:
    """Everything that is decided for one node: which waiting claim has its device, what to order, hand over and give back. Each
    is a step of its own: what fails or is refused in one keeps no other from being taken, least of all the one that asks a
    victim back."""
    picture, covers = work.picture, list[Cover]()
    if node:  # a claim that no node was found for can only be failed
        if picture.reservations_at[node]:
            work.guarded("rules.reservations.drop_overdue", drop_overdue, node)
        if picture.somebody_waits(node):
            work.guarded("rules.nodes.cover", _cover, node, covers)
        for covered in covers:
            work.guarded("rules.nodes.advance", _advance, covered.claim.uid, covered, node)
            work.guarded("rules.claims.tell_hidden", claims.tell_hidden, covered.claim.uid, covered, node)
        covers = [
            one for one in covers if picture.lives.rows[one.claim.uid].state in WAITING
        ]  # some may just have failed
        if picture.orders:
            work.guarded("rules.orders.withdraw", withdraw, node, covers)
        if covers:
            work.guarded("rules.orders.order", order, node, covers)
        for covered in covers:
            if covered.complete:
                work.guarded("rules.handover.hand_over", hand_over, covered.claim.uid, node)
        if covers:
            work.guarded("rules.release.rebalance", rebalance, node, covers)
        _give_back(work, node, covers)
        work.guarded("rules.orders.prewarm", prewarm, node, covers)
        if picture.cooling_at[node]:
            work.guarded("rules.failures.end_cool_downs", end_cool_downs, node)
        work.guarded("rules.labels.label", label, node, covers)
    if picture.failed_at[node]:
        work.guarded("rules.failures.tell_failures", tell_failures, node)


def _cover(work: Work, node: str, covers: list[Cover]) -> None:
    covers[:] = cover(work.picture, node)


def _give_back(work: Work, node: str, covers: list[Cover]) -> None:
    """Check holds and fences of the node, go on with those that stand, and choose what has idled long enough."""
    picture = work.picture
    wanted = {uid for one in covers for uid in one.resources}
    work.guarded("rules.release.unmark", release.unmark, node)
    fenced = sorted(uid for uid in picture.resources_at[node] if uid in picture.fences) if picture.fences else ()
    for uid in fenced:
        work.guarded("rules.release.check_fence", release.check_fence, uid, wanted)
    for uid in sorted(picture.holds_at[node]):
        work.guarded("rules.release.check_hold", release.check_hold, uid, wanted)
    work.guarded("rules.release.detach", release.detach, node, covers, wanted)


def _advance(work: Work, uid: str, covered: Cover, node: str) -> None:
    """`device_ready` once every unit has its device (in live modes only with our reservation), `ordered` once every unit
    is asked for, `failed` when the fabric has said no for long enough."""
    life = work.picture.lives.rows[covered.claim.uid]
    if covered.complete:
        if reserve(work, covered, life, node) or not work.picture.live:
            _advanced(work, covered, "device_ready", _ready_cause(covered), promises_of(covered))
        return
    if covered.asked and life.state == PENDING:
        _advanced(work, covered, "ordered", _asked_cause(work, covered, node))
    for model, uid in covered.erring:
        due = definite_due(work.picture, uid)
        if due is not None and work.has_come(due):
            resource = work.picture.resources.rows[uid]
            life = work.picture.lives.rows[covered.claim.uid]
            fail(work, covered.claim, life, "AttachFailed", resource.error, model, observed=True)
            return


def _ready_cause(covered: Cover) -> str:
    names = ", ".join(found.uuid or found.key[2] for _, found in covered.ready)
    there = f"{names} {'is' if len(covered.ready) == 1 else 'are'} there and free"
    allocation = covered.claim.allocation
    before = {result.request for result in allocation.results} if allocation is not None else set()
    now = {promise.request for promise, _ in covered.ready}
    if now <= before:
        return there
    return f"{there}, for {', '.join(sorted(now - before))} instead of {', '.join(sorted(before - now))}"


def _asked_cause(work: Work, covered: Cover, node: str) -> str:
    models = {model.model for _, _, model in work.picture.pool_results(covered.claim.allocation)}
    rows = (work.picture.requests.rows[uid] for uid in sorted(work.picture.requests_at[node]))
    named = [f"request {r.name} asks for {r.size} of {r.model}" for r in rows if r.model in models and not r.deleting]
    return "; ".join(named) or "our order covers it"


def _advanced(work: Work, covered: Cover, trigger: str, cause: str, promises: tuple[Promise, ...] = ()) -> None:
    uid = covered.claim.uid
    step = move(uid, work.picture.lives.rows[uid], trigger, cause, devices=covered.resources, promises=promises)
    if step is not None:
        work.emit(step)
