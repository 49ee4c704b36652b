"""`decide`: which transitions and decisions follow from the fact that was folded last.

The rules look at devices, then claims, then nodes, and again until nothing is dirty. Every event that they emit
is folded at once, so that the next rule sees it.
"""

from __future__ import annotations

from dds_core.kit import work as kit
from dds_core.kit.work import Keep
from dds_core.lifecycle import ATTACHED, DEVICE_DETACHING, PENDING, WAITING
from dds_core.scaler.events import ClaimMoved, ReservedDevice
from dds_core.scaler.folds import apply
from dds_core.scaler.invariants import INVARIANTS
from dds_core.scaler.model import UNDECIDED
from dds_core.scaler.rules import claims, detach, devices
from dds_core.scaler.rules.assignment import Assignment, assign, size_wanted, undecided_because
from dds_core.scaler.rules.failures import definite_due, fail, tell_failures
from dds_core.scaler.rules.handover import hand_over
from dds_core.scaler.rules.labels import label
from dds_core.scaler.rules.nudges import nudge
from dds_core.scaler.rules.orders import (
    end_cool_downs,
    fit_surplus,
    order,
    prewarm,
    prewarms,
    tell_refused,
    who_waited_for,
    withdraw,
)
from dds_core.scaler.rules.reservations import drop_overdue, ready_devices_of, reserve
from dds_core.scaler.rules.suiting import unjudged
from dds_core.scaler.rules.victims import rebalance
from dds_core.scaler.state import State, Work


def decide(state: State, at: int, *, keep: Keep[State] = False) -> Work:
    """Run the rules at the instant `at`; `emitted` of the result is what follows from the last fact. The state is afterwards as
    it was, unless `keep`. Before `Synced` nothing follows, because the state is incomplete. A run always ends: an object whose
    rules keep undoing each other is left alone, like one whose rule fails."""
    return kit.Work(state, at, apply, INVARIANTS).decide(_run, keep)


def _run(work: Work) -> None:
    state = work.state
    if not state.process.synced:
        work.touched.add(state.dirty.take())
    else:
        work.check_config(state.settings.config.uid)
    while state.dirty:
        _round(work)


def _round(work: Work) -> None:
    """All devices until they are quiet, then all claims, then each node once: when all that a node depends on has settled."""
    state = work.state
    dirty, touched = state.dirty, work.touched
    if dirty.everything:
        state.touch_everything()
        dirty.everything = False
        touched.everything = True
    if dirty.devices:
        uids, dirty.devices = dirty.devices, set()
        touched.devices |= uids
        for uid in sorted(uids):
            work.isolated("rules.devices.step", devices.step, uid)
            if (life := state.lifecycle.devices.get(uid)) is not None and life.state == DEVICE_DETACHING:
                work.isolated("rules.detach.check_departures", detach.check_departures, uid)
            work.isolated("rules.devices.check_health", devices.check_health, uid)
            work.isolated("rules.devices.check_progress", devices.check_progress, uid)
            if uid in state.health.looks:
                work.isolated("rules.nudges.nudge", nudge, uid)
    elif dirty.claims:
        uids, dirty.claims = dirty.claims, set()
        touched.claims |= uids
        for uid in sorted(uids):
            work.isolated("rules.claims.step", claims.step, uid)
    else:
        if dirty.freed:
            freed, dirty.freed = dirty.freed, set()
            dirty.nodes |= who_waited_for(state, freed)
        names, dirty.nodes = dirty.nodes, set()
        touched.nodes |= names
        for name in sorted(names):
            for_node(work, name)


def for_node(work: Work, node: str) -> None:
    """All decisions for one node: the devices of waiting claims, orders, hand-overs, detaches. Each is a step of its own: an
    error in one stops no other, least of all the one that unmarks a victim. What a step emits is folded at once, so the order of
    the steps counts."""
    state = work.state
    assignments: list[Assignment] = []
    if node:  # a claim without a node can only fail
        # Overdue reservations are dropped first, so that their devices can be assigned to other claims.
        if node in state.hand_over.reservations_at:
            work.isolated("rules.reservations.drop_overdue", drop_overdue, node)
        # Which device for which claim: all steps below go by this one answer.
        if state.somebody_waits(node):
            work.isolated("rules.assignment.assign", _assign, node, assignments)
        # The claims' own steps: only one that is Attached, with a reservation, may be handed over below.
        for assignment in assignments:
            work.isolated("rules.advance", _advance, assignment.claim.uid, assignment, node)
            if claims.is_slow(work, assignment.claim.uid):
                work.isolated("rules.claims.tell_hidden", claims.tell_hidden, assignment.claim.uid, assignment, node)
        # A claim that has just failed wants no device here.
        assignments = [one for one in assignments if state.lifecycle.lives.rows[one.claim.uid].state in WAITING]
        # Sizes are corrected before new orders: raised to what the operator has made, lowered by orders that no claim waits for.
        requests = [state.fleet.requests.rows[uid] for uid in state.fleet.requests_at[node]]
        if [one for one in requests if one.planned and one.size < len(one.planned)]:
            work.isolated("rules.orders.fit_surplus", fit_surplus, node)
        if state.fleet.orders:
            work.isolated("rules.orders.withdraw", withdraw, node, assignments)
        # Then an order for what no device on the node, and none on its way, covers.
        missing = any(one.missing for one in assignments)
        if missing:
            work.isolated("rules.orders.order", order, node, assignments)
        if state.notes.refusals:
            for assignment in assignments:
                work.isolated("rules.orders.tell_refused", tell_refused, assignment.claim.uid, assignment, node)
        # A pod's claims are handed over together, which needs the steps of all of them above.
        for assignment in assignments:
            if assignment.complete:
                work.isolated("rules.handover.hand_over", hand_over, assignment.claim.uid, node)
        # Where the pool is empty, an idle device of another node is taken back for who still waits.
        if missing and state.policy.rebalance and state.mode != "attach":
            work.isolated("rules.victims.rebalance", rebalance, node, assignments)
        # All claims of the node have their devices assigned by now: idle devices that none of them wants may be detached.
        if state.something_may_go(node):
            _give_back(work, node, assignments)
        # Ahead of demand last: claims that wait now come first.
        if prewarms(state):
            work.isolated("rules.orders.prewarm", prewarm, node, assignments)
        # The labels tell schedulers the outcome of all that.
        if node in state.failing.cooling_at:
            work.isolated("rules.orders.end_cool_downs", end_cool_downs, node)
        work.isolated("rules.labels.label", label, node, assignments)
    if state.health.unexplained:
        work.isolated("rules.devices.tell_unexplained", devices.tell_unexplained, node)
    # After the labels: a failure is signalled once the node's cool-down was read back.
    if node in state.failing.failed_at:
        work.isolated("rules.failures.tell_failures", tell_failures, node)


def _assign(work: Work, node: str, assignments: list[Assignment]) -> None:
    assignments[:] = assign(work.state, node)


def _give_back(work: Work, node: str, assignments: list[Assignment]) -> None:
    """Check the holds and fences of the node, and choose devices that have idled long enough."""
    state = work.state
    wanted = {uid for one in assignments for uid in one.resources}
    for one in assignments:
        for name in dict.fromkeys(one.missing):
            wanted |= unjudged(state, node, one.claim, state.settings.models[name]).keys()
    if not state.fleet.marked.isdisjoint(state.fleet.resources_at[node]):
        work.isolated("rules.detach.unmark", detach.unmark, node)
    for uid in sorted(state.give_back.fences.keys() & state.fleet.resources_at[node]):
        work.isolated("rules.detach.check_fence", detach.check_fence, uid, wanted)
    for uid in sorted(state.give_back.holds_at.get(node, ())):
        work.isolated("rules.detach.check_hold", detach.check_hold, uid, wanted)
    if state.mode != "attach":
        work.isolated("rules.detach.detach", detach.detach, node, assignments, wanted)


def _advance(work: Work, uid: str, assignment: Assignment, node: str) -> None:
    """`device_ready` when every unit has its device (in live modes only with a reservation), `ordered` when every unit is
    ordered, `failed` when an attach error is definite."""
    life = work.state.lifecycle.lives.rows[assignment.claim.uid]
    if assignment.complete:
        reserved = reserve(work, assignment, life, node) or not work.state.live
        if reserved and life.state != ATTACHED:
            _advanced(work, assignment, "device_ready", _ready_cause(assignment), ready_devices_of(assignment))
        return
    if assignment.undecided:
        work.alert(uid, UNDECIDED, undecided_because(assignment, node))
    if assignment.asked and life.state == PENDING:
        _advanced(work, assignment, "ordered", _asked_cause(work, assignment, node))
    for model, uid in assignment.erring:
        due = definite_due(work.state, uid)
        if due is not None and work.has_come(due):
            resource = work.state.fleet.resources.rows[uid]
            life = work.state.lifecycle.lives.rows[assignment.claim.uid]
            fail(work, assignment.claim, life, "AttachFailed", resource.error, model, observed=True)
            return


def _ready_cause(assignment: Assignment) -> str:
    if assignment.looks and not assignment.resources:
        return "it looks at what is there"
    names = ", ".join(found.uuid or found.key[2] for _, found in assignment.ready)
    there = f"{names} {'is' if len(assignment.ready) == 1 else 'are'} there and free"
    allocation = assignment.claim.allocation
    before = {result.request for result in allocation.results} if allocation is not None else set()
    now = {promise.request for promise, _ in assignment.ready}
    if now <= before:
        return there
    return f"{there}, for {', '.join(sorted(now - before))} instead of {', '.join(sorted(before - now))}"


def _asked_cause(work: Work, assignment: Assignment, node: str) -> str:
    state = work.state
    models = {model.model for model in state.inventory.wanted_models(assignment.claim.allocation)}
    rows = (state.fleet.requests.rows[uid] for uid in sorted(state.fleet.requests_at[node]))
    sizes = [(r, size_wanted(state, node, r.model, r.name, r.size)) for r in rows if r.model in models]
    named = [f"request {r.name} asks for {size} of {r.model}" for r, size in sizes if size and not r.deleting]
    return "; ".join(named) or "our order covers it"


def _advanced(
    work: Work, assignment: Assignment, trigger: str, cause: str, promises: tuple[ReservedDevice, ...] = ()
) -> None:
    uid = assignment.claim.uid
    step = ClaimMoved.of(
        uid, work.state.lifecycle.lives.rows[uid], trigger, cause, devices=assignment.resources, promises=promises
    )
    if step is not None:
        work.emit(step)
