"""The folds of facts about the process: start, policy, what the API keeps, the whole cluster listed, deadlines."""

from __future__ import annotations

from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import logged
from dds_core.kit.work import Fold
from dds_core.publisher import events as e
from dds_core.publisher.fold.decisions import void_unseen
from dds_core.publisher.model import FABRIC_
from dds_core.publisher.policy import PublishPolicy
from dds_core.publisher.state import PoolState


def _started(state: PoolState, event: e.Started, at: int) -> None:
    kit.started(state, event, at)
    state.fabric.listed_at = 0


def _policy(state: PoolState, event: e.PolicyChanged, at: int) -> None:
    kit.forget_rejections(state, e.POLICY)
    state.policy = logged(PublishPolicy, event.policy)
    state.dirty.everything = True


def _capabilities(state: PoolState, event: e.Capabilities, at: int) -> None:
    if event.binding_conditions:
        state.notes.clear_alert(e.FABRIC, e.DROPPED)
    if event != state.cluster.capabilities:
        state.cluster.capabilities = event
        state.dirty.everything = True


def _synced(state: PoolState, event: e.Synced, at: int) -> None:
    kit.synced(state, at, void_unseen)
    state.dirty.everything = True


def _deadline(state: PoolState, event: e.DeadlinePassed, at: int) -> None:
    state.notes.fired_deadlines.put((event.kind, event.of), event.due)
    match event.kind:
        case DeadlineKind.LEVEL:
            state.process.level_at = at
            state.dirty.everything = True
            state.notes.labelled.drop_where(lambda label: True)  # a label removed at once may never have been observed
        case DeadlineKind.GONE:
            _touch_gone(state, event.of)
        case DeadlineKind.COOLING:
            state.touch_node(event.of)
        case DeadlineKind.RETRY:
            _touch_target(state, event.of.partition("/")[2])
        case _:
            _touch_target(state, event.of)


def _touch_gone(state: PoolState, name: str) -> None:
    """An absent machine or fabric counts as gone from now on; an unknown name stands for all that were never seen."""
    absent = state.fabric.absent.get(name)
    if absent is None:
        state.dirty.everything = True
    elif name.startswith(FABRIC_):
        state.touch_fabric(absent.fabric)
    else:
        state.dirty.hosts |= state.nodes_of(name)


def _touch_target(state: PoolState, target: str) -> None:
    """The target of a write (a pool's stream, or a node) may be decided again."""
    pool = e.pool_of(target)
    if pool is not None:
        state.dirty.pools.add(pool)
    else:
        state.dirty.hosts.add(target)


FOLDS: dict[type[Event], Fold] = {
    e.Started: _started,
    e.PolicyChanged: _policy,
    e.Capabilities: _capabilities,
    e.Synced: _synced,
    e.DeadlinePassed: _deadline,
}
