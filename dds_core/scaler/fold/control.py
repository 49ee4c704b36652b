"""The folds of facts about the process: capabilities, policy, the whole cluster listed, lists of claims, deadlines."""

from __future__ import annotations

from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import logged
from dds_core.kit.work import Fold
from dds_core.scaler import events as e
from dds_core.scaler import exchange, fence, hold
from dds_core.scaler.fold import reuse
from dds_core.scaler.fold.decisions import void_unseen
from dds_core.scaler.fold.objects import fix_by_policy, note_fixed
from dds_core.scaler.keys import FIXED, RELISTED, UNANSWERED
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import State


def _policy(state: State, event: e.PolicyChanged, at: int) -> None:
    kit.forget_rejections(state, e.POLICY)
    before, state.policy = state.policy, logged(Policy, event.policy)
    for name in list(state.lifecycle.timeouts):  # the scheduler's own setting may be new too
        said, says = (one.scheduler_of(name).binding_timeout_seconds for one in (before, state.policy))
        if said != says:
            state.lifecycle.timeouts.drop(name)
    if not state.policy.learns_idle or before.longest_idle != state.policy.longest_idle:
        reuse.forget(state)
    state.rebuild()
    fix_by_policy(state)


def _capabilities(state: State, event: e.Capabilities, at: int) -> None:
    changed = (state.settings.guards, state.settings.unanswered) != (event.guards, event.unanswered)
    state.dirty.everything = changed or state.dirty.everything
    state.release_is(event.version)
    state.settings.guards, state.settings.unguarded, state.settings.unanswered = (
        event.guards,
        event.unguarded,
        event.unanswered,
    )


def _synced(state: State, event: e.Synced, at: int) -> None:
    if FIXED not in state.notes.fired_deadlines:
        note_fixed(state, at)
    state.lifecycle.counters.drop(UNANSWERED)
    kit.synced(state, at, void_unseen)
    state.dirty.everything = True


def _claims_listed(state: State, event: e.ClaimsListed, at: int) -> None:
    for protocol in (exchange, hold, fence):
        protocol.listed(state, event.resource, event.started, at)


def _claims_relisted(state: State, event: e.ClaimsRelisted, at: int) -> None:
    state.notes.fired_deadlines.put(RELISTED, at)


def _deadline(state: State, event: e.DeadlinePassed, at: int) -> None:
    state.notes.fired_deadlines.put((event.kind, event.of), event.due)
    match event.kind:
        case DeadlineKind.LEVEL:
            state.process.level_at = at
            state.dirty.everything = True
        case (
            DeadlineKind.IDLE
            | DeadlineKind.FENCE
            | DeadlineKind.STUCK
            | DeadlineKind.GRACE
            | DeadlineKind.HOLD
            | DeadlineKind.UNLISTED
            | DeadlineKind.PROGRESS
            | DeadlineKind.SICK
            | DeadlineKind.NUDGE
            | DeadlineKind.CALL_OFF
        ):
            state.touch_device(event.of)
        case DeadlineKind.SETTLE if event.of in state.give_back.holds:
            state.touch_device(event.of)
        case DeadlineKind.COOLING:
            state.dirty.nodes.add(event.of.partition("/")[0])
        case DeadlineKind.RETRY:
            action, _, target = event.of.partition("/")
            refusal = state.notes.refusals.get((action, target))
            if refusal is not None and refusal.node:
                state.dirty.nodes.add(refusal.node)
            elif not state.touch_target(target):
                state.dirty.everything = True
        case DeadlineKind.DETACHES | DeadlineKind.PREWARM:
            state.dirty.everything = True
        case DeadlineKind.PUBLISHER:
            failure = state.failing.failures.get(event.of)
            if failure is not None:
                state.dirty.nodes.add(failure.node)
        case DeadlineKind.RESERVATION:
            state.dirty.claims.add(event.of)
            state.dirty.nodes |= {
                state.hand_over.reservations.rows[key].node for key in state.hand_over.reservations_for[event.of]
            }
        case _:
            state.dirty.claims.add(event.of)
            life = state.lifecycle.lives.get(event.of)
            if life is not None and life.node:
                state.dirty.nodes.add(life.node)


FOLDS: dict[type[Event], Fold] = {
    e.PolicyChanged: _policy,
    e.Capabilities: _capabilities,
    e.Synced: _synced,
    e.ClaimsListed: _claims_listed,
    e.ClaimsRelisted: _claims_relisted,
    e.DeadlinePassed: _deadline,
}
