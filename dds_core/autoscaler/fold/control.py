"""The folds of facts about the process: start, policy, the whole cluster listed, deadlines."""

from __future__ import annotations

from dds_core.autoscaler import events as e
from dds_core.autoscaler.fold.decisions import void_unseen
from dds_core.autoscaler.policy import AutoscalePolicy
from dds_core.autoscaler.state import Fleet
from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import logged
from dds_core.kit.work import Fold


def _policy(state: Fleet, event: e.PolicyChanged, at: int) -> None:
    kit.forget_rejections(state, e.POLICY)
    state.policy = logged(AutoscalePolicy, event.policy)
    state.dirty.everything = True


def _synced(state: Fleet, event: e.Synced, at: int) -> None:
    kit.synced(state, at, void_unseen)
    state.dirty.everything = True


def _deadline(state: Fleet, event: e.DeadlinePassed, at: int) -> None:
    state.notes.fired_deadlines.put((event.kind, event.of), event.due)
    match event.kind:
        case DeadlineKind.LEVEL:
            state.process.level_at = at
            state.dirty.everything = True
        case DeadlineKind.RETRY:
            state.dirty.everything = True
        case DeadlineKind.COMPOSE:
            state.dirty.orders.add(event.of)


FOLDS: dict[type[Event], Fold] = {
    e.PolicyChanged: _policy,
    e.Capabilities: kit.nothing,
    e.Synced: _synced,
    e.DeadlinePassed: _deadline,
}
