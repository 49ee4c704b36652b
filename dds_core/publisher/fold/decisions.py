"""What becomes of decisions: intents, until the cluster shows what was decided, a write of it comes to nothing, or a restart
finds that it is not there."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.kit.policy import MICROSECONDS
from dds_core.kit.state import Key
from dds_core.kit.work import Fold
from dds_core.publisher import events as e
from dds_core.publisher.describe import digest_of_pool
from dds_core.publisher.model import PoolModel, PoolRow
from dds_core.publisher.state import PoolPicture, stream_of

RECENT = 900 * MICROSECONDS
"""Misses of a pool that lie further apart than this and the pause between them have nothing to do with each other."""


def _published(picture: PoolPicture, event: e.PoolPublished, at: int) -> None:
    key = (event.driver, event.pool)
    digests = tuple(
        digest_of_pool(event.model, one.devices, event.taint, one.closed, event.prefix) for one in event.slices
    )
    old = picture.pools.get(key)
    new = PoolRow(
        event.fabric, event.prefix, event.model, event.generation, event.slices, digests, event.taint, since=at
    )
    if old is not None and at - old.since <= RECENT + old.pause:
        again = old.came_about and (old.slices, old.digests, old.prefix) == (new.slices, new.digests, new.prefix)
        new = replace(new, misses=old.misses + again)
    new = replace(new, settled=picture.shows(key, new), open=picture.unheld(key, new))
    picture.pools.put(key, new)
    picture.passed.drop(("readback", event.subject))
    picture.tell_again(event.subject, "PoolOwnedByOther")  # nobody's slice stops us any more
    if not new.misses:  # when it begins again, it is told again
        picture.tell_again(event.subject, e.NOT_AS_WRITTEN)


def _withdrawn(picture: PoolPicture, event: e.PoolWithdrawn, at: int) -> None:
    """What is left is the wish that nothing is there; it is forgotten once that is so."""
    key = (event.driver, event.pool)
    old = picture.pools.get(key) or PoolRow("", "", PoolModel(0, "", "", event.driver), 0, (), ())
    misses = old.misses + (not old.slices and old.came_about and at - old.since <= RECENT + old.pause)
    new = replace(old, slices=(), digests=(), since=at, done=0, settled=False, void=False, misses=misses)
    picture.pools.put(key, new)
    picture.passed.drop(("readback", event.subject))
    if picture.shows(key, new):
        picture.pools.drop(key)


def _labelled(picture: PoolPicture, event: e.NodeLabelled, at: int) -> None:
    for key, value in event.labels.items():
        picture.labelled.put((event.node, key), value or "")


def void_unseen(picture: PoolPicture, at: int) -> set[Key]:
    """After a restart a decision whose outcome the cluster does not show is decided again. What names a pool has stays known."""
    unseen: set[Key] = set()
    for key, row in list(picture.pools.rows.items()):
        seen = picture.shows(key, row)
        picture.pools.put(key, replace(row, settled=seen, void=not seen, done=0))
        if not seen:
            unseen.add(("pool", stream_of(key)))
    for node, label in list(picture.labelled):
        picture.labelled.drop((node, label))
        unseen.add((e.NodeLabelled.__name__, node))
    return unseen


def _write_done(picture: PoolPicture, event: e.WriteDone, at: int) -> None:
    kit.write_done(picture, event)
    key = e.pool_of(event.target)
    row = picture.pools.get(key) if key is not None else None
    if row is not None and key is not None:
        picture.pools.put(key, replace(row, done=at))
        picture.dirty.pools.add(key)


def _write_refused(picture: PoolPicture, event: e.WriteRefused, at: int) -> None:
    if event.reason == e.DROPPED and picture.capabilities.binding_conditions:
        picture.capabilities = replace(picture.capabilities, binding_conditions=False)
        picture.dirty.everything = True
    _write_failed(picture, event, at)


def _write_failed(picture: PoolPicture, event: e.WriteRefused | e.WriteObsolete, at: int) -> None:
    """The intent is void, and the same is not decided again before the pause is over."""
    kit.forget_old_refusals(picture, at)  # also this very one: it begins with the shortest pause again
    kit.try_later(picture, event, at)
    pool = e.pool_of(event.target)
    row = picture.pools.get(pool) if pool is not None else None
    if row is not None and pool is not None:
        picture.pools.put(pool, replace(row, void=True))
        picture.dirty.pools.add(pool)
    elif event.action == e.NodeLabelled.__name__:
        for label in list(picture.labels_of[event.target]):
            picture.labelled.drop(label)
        picture.dirty.hosts.add(event.target)


FOLDS: dict[type[Event], Fold] = {
    e.PoolPublished: _published,
    e.PoolWithdrawn: _withdrawn,
    e.NodeLabelled: _labelled,
    e.WriteDone: _write_done,
    e.WriteRefused: _write_refused,
    e.WriteObsolete: _write_failed,
}
