"""The folds of facts about ourselves: start, policy, deadlines, and what became of writes."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.publisher import events as e
from dds_core.publisher.fold.common import DROPPED, FABRIC_, HOUR, SECOND, Fold, nothing, pool_of, shows
from dds_core.publisher.policy import read_publish_policy
from dds_core.publisher.state import PoolPicture, stream_of
from dds_core.scaler.rows import Refusal


def _started(picture: PoolPicture, event: e.Started, at: int) -> None:
    picture.epoch = event.epoch
    picture.synced = False
    picture.restarted = True
    picture.listed_at = 0


def _policy(picture: PoolPicture, event: e.PolicyChanged, at: int) -> None:
    picture.policy = read_publish_policy(event.policy)
    picture.dirty.everything = True


def _capabilities(picture: PoolPicture, event: e.Capabilities, at: int) -> None:
    if event.binding_conditions:
        picture.shown.drop(("Alerted", f"{e.FABRIC}:{DROPPED}"))
    if event != picture.capabilities:
        picture.capabilities = event
        picture.dirty.everything = True


def _synced(picture: PoolPicture, event: e.Synced, at: int) -> None:
    picture.synced = True
    picture.stale.clear()
    picture.synced_at = picture.synced_at or at
    picture.level_at = at
    if picture.restarted:
        picture.restarted = False
        _void_unseen(picture)
    picture.dirty.everything = True


def _void_unseen(picture: PoolPicture) -> None:
    """After a restart a decision whose outcome the cluster does not show is decided again. What names a pool has stays known."""
    for key, row in list(picture.pools.rows.items()):
        seen = shows(picture, key, row)
        picture.pools.put(key, replace(row, settled=seen, void=not seen, done=0))
        if not seen:
            picture.reissue.put(("pool", stream_of(key)), True)
    for node, label in list(picture.labelled):
        picture.labelled.drop((node, label))
        picture.reissue.put(("NodeLabelled", node), True)


def _stale(picture: PoolPicture, event: e.Stale, at: int) -> None:
    picture.stale.add(event.resource)


def _deadline(picture: PoolPicture, event: e.DeadlinePassed, at: int) -> None:
    picture.passed.put((event.kind, event.of), event.due)
    match event.kind:
        case "level":
            picture.level_at = at
            picture.dirty.everything = True
            for label in list(picture.labelled):  # one that somebody took off again at once was perhaps never seen
                picture.labelled.drop(label)
        case "gone":
            _touch_gone(picture, event.of)
        case "retry":
            _touch_target(picture, event.of.partition("/")[2])
        case _:
            _touch_target(picture, event.of)


def _touch_gone(picture: PoolPicture, name: str) -> None:
    """Who is absent counts as gone from now on; one that is not known to be absent stands for all that were never seen."""
    absent = picture.absent.get(name)
    if absent is None:
        picture.dirty.everything = True
    elif name.startswith(FABRIC_):
        picture.touch_fabric(absent.fabric)
    else:
        picture.dirty.hosts |= picture.nodes_of(name)


def _touch_target(picture: PoolPicture, target: str) -> None:
    """What a write was about may be decided again: the stream of a pool, or a node."""
    word, _, rest = target.partition("/")
    driver, _, pool = rest.partition("/")
    if word == "pool" and pool:
        picture.dirty.pools.add((driver, pool))
    else:
        picture.dirty.hosts.add(target)


def _write_done(picture: PoolPicture, event: e.WriteDone, at: int) -> None:
    picture.refusals.drop((event.action, event.target))
    picture.passed.drop(("retry", f"{event.action}/{event.target}"))
    key = pool_of(event.target)
    row = picture.pools.get(key) if key is not None else None
    if row is not None and key is not None:
        picture.pools.put(key, replace(row, done=at))
        picture.dirty.pools.add(key)


def _write_refused(picture: PoolPicture, event: e.WriteRefused, at: int) -> None:
    """The intent is void; the same is not decided again before a pause that doubles from 30 s to 10 minutes."""
    if event.reason == DROPPED and picture.capabilities.binding_conditions:
        picture.capabilities = replace(picture.capabilities, binding_conditions=False)
        picture.dirty.everything = True
    _try_later(picture, event.action, event.target, at, 30 * SECOND)


def _write_obsolete(picture: PoolPicture, event: e.WriteObsolete, at: int) -> None:
    """The intent is void. What was found is observed sooner than the pause is over, which doubles from 2 s to 10 minutes."""
    _try_later(picture, event.action, event.target, at, 2 * SECOND)


def _try_later(picture: PoolPicture, action: str, target: str, at: int, first: int) -> None:
    for key, refusal in list(picture.refusals.rows.items()):
        if refusal.until <= at - HOUR:
            picture.refusals.drop(key)
            picture.passed.drop(("retry", "/".join(key)))
    before = picture.refusals.get((action, target))
    count = before.count + 1 if before is not None else 1
    pause = min(first << min(count - 1, 10), 600 * SECOND)
    picture.refusals.put((action, target), Refusal(count, at + pause))
    pool = pool_of(target)
    row = picture.pools.get(pool) if pool is not None else None
    if row is not None and pool is not None:
        picture.pools.put(pool, replace(row, void=True))
        picture.dirty.pools.add(pool)
    elif action == "NodeLabelled":
        for label in list(picture.labels_of[target]):
            picture.labelled.drop(label)
        picture.dirty.hosts.add(target)


FOLDS: dict[type[Event], Fold] = {
    e.Started: _started,
    e.PolicyChanged: _policy,
    e.Capabilities: _capabilities,
    e.Synced: _synced,
    e.Stale: _stale,
    e.DeadlinePassed: _deadline,
    e.WriteDone: _write_done,
    e.WriteRefused: _write_refused,
    e.WriteObsolete: _write_obsolete,
    e.Superseded: nothing,
    e.Checkpoint: nothing,
}
