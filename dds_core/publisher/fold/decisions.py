"""The folds of decisions: intents, until the cluster shows them, a write fails, or a restart finds them missing."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import MICROSECONDS
from dds_core.kit.state import Key
from dds_core.kit.work import Fold
from dds_core.publisher import events as e
from dds_core.publisher.describe import digest_of_pool
from dds_core.publisher.model import PoolModel, PoolRow
from dds_core.publisher.state import PoolState, stream_of

RECENT = 900 * MICROSECONDS
"""Misses of a pool that are further apart than this, and the pause between them, are unrelated."""


def _published(state: PoolState, event: e.PoolPublished, at: int) -> None:
    key = (event.driver, event.pool)
    digests = tuple(
        digest_of_pool(event.model, one.devices, event.taint, one.closed, event.prefix) for one in event.slices
    )
    old = state.pools.get(key)
    new = PoolRow(
        event.fabric, event.prefix, event.model, event.generation, event.slices, digests, event.taint, since=at
    )
    if old is not None and at - old.since <= RECENT + old.pause:
        again = old.came_about and (old.slices, old.digests, old.prefix) == (new.slices, new.digests, new.prefix)
        new = replace(new, misses=old.misses + again)
    new = replace(new, settled=state.shows(key, new), open=state.unheld(key, new))
    state.pools.put(key, new)
    state.notes.fired_deadlines.drop((DeadlineKind.READBACK, event.subject))
    state.notes.clear_alert(event.subject, "PoolOwnedByOther")  # no other publisher's slice is in the way
    if not new.misses:  # if it begins again, alert again
        state.notes.clear_alert(event.subject, e.NOT_AS_WRITTEN)


def _withdrawn(state: PoolState, event: e.PoolWithdrawn, at: int) -> None:
    """The row then stands for "no slice is there"; it is dropped once that is so."""
    key = (event.driver, event.pool)
    old = state.pools.get(key) or PoolRow("", "", PoolModel(0, "", "", event.driver), 0, (), ())
    misses = old.misses + (not old.slices and old.came_about and at - old.since <= RECENT + old.pause)
    new = replace(old, slices=(), digests=(), since=at, done=0, settled=False, void=False, misses=misses)
    state.pools.put(key, new)
    state.notes.fired_deadlines.drop((DeadlineKind.READBACK, event.subject))
    if state.shows(key, new):
        state.pools.drop(key)


def _labelled(state: PoolState, event: e.NodeLabelled, at: int) -> None:
    for key, value in event.labels.items():
        state.notes.labelled.put((event.node, key), value or "")


def void_unseen(state: PoolState, at: int) -> set[Key]:
    """After a restart, a decision whose outcome the cluster does not show is made again. The names of a pool stay known."""
    unseen: set[Key] = set()
    for key, row in list(state.pools.rows.items()):
        seen = state.shows(key, row)
        state.pools.put(key, replace(row, settled=seen, void=not seen, done=0))
        if not seen:
            unseen.add(("pool", stream_of(key)))
    for node, label in list(state.notes.labelled):
        state.notes.labelled.drop((node, label))
        unseen.add((e.NodeLabelled.__name__, node))
    return unseen


def _write_done(state: PoolState, event: e.WriteDone, at: int) -> None:
    kit.write_done(state, event)
    key = e.pool_of(event.target)
    row = state.pools.get(key) if key is not None else None
    if row is not None and key is not None:
        state.pools.put(key, replace(row, done=at))
        state.dirty.pools.add(key)


def _write_refused(state: PoolState, event: e.WriteRefused, at: int) -> None:
    if event.reason == e.DROPPED and state.cluster.capabilities.binding_conditions:
        state.cluster.capabilities = replace(state.cluster.capabilities, binding_conditions=False)
        state.dirty.everything = True
    _write_failed(state, event, at)


def _write_failed(state: PoolState, event: e.WriteRefused | e.WriteObsolete, at: int) -> None:
    """The intent is void, and the same is not decided again before the pause is over."""
    kit.forget_old_refusals(state, at)  # also this one: it begins with the shortest pause again
    kit.try_later(state, event, at)
    pool = e.pool_of(event.target)
    row = state.pools.get(pool) if pool is not None else None
    if row is not None and pool is not None:
        state.pools.put(pool, replace(row, void=True))
        state.dirty.pools.add(pool)
    elif event.action == e.NodeLabelled.__name__:
        for label in list(state.labels_of[event.target]):
            state.notes.labelled.drop(label)
        state.dirty.hosts.add(event.target)


FOLDS: dict[type[Event], Fold] = {
    e.PoolPublished: _published,
    e.PoolWithdrawn: _withdrawn,
    e.NodeLabelled: _labelled,
    e.WriteDone: _write_done,
    e.WriteRefused: _write_refused,
    e.WriteObsolete: _write_failed,
}
