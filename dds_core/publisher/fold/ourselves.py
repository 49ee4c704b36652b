"""The folds of facts about ourselves: start, policy, what the API keeps, the whole cluster seen, deadlines."""

from __future__ import annotations

from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.kit.work import Fold
from dds_core.publisher import events as e
from dds_core.publisher.fold.decisions import void_unseen
from dds_core.publisher.model import FABRIC_
from dds_core.publisher.policy import read_publish_policy
from dds_core.publisher.state import PoolPicture


def _started(picture: PoolPicture, event: e.Started, at: int) -> None:
    kit.started(picture, event, at)
    picture.listed_at = 0


def _policy(picture: PoolPicture, event: e.PolicyChanged, at: int) -> None:
    picture.policy = read_publish_policy(event.policy)
    picture.dirty.everything = True


def _capabilities(picture: PoolPicture, event: e.Capabilities, at: int) -> None:
    if event.binding_conditions:
        picture.tell_again(e.FABRIC, e.DROPPED)
    if event != picture.capabilities:
        picture.capabilities = event
        picture.dirty.everything = True


def _synced(picture: PoolPicture, event: e.Synced, at: int) -> None:
    kit.synced(picture, at, void_unseen)
    picture.dirty.everything = True


def _deadline(picture: PoolPicture, event: e.DeadlinePassed, at: int) -> None:
    picture.passed.put((event.kind, event.of), event.due)
    match event.kind:
        case "level":
            picture.level_at = at
            picture.dirty.everything = True
            picture.labelled.drop_where(
                lambda label: True
            )  # one that was taken off again at once was perhaps never seen
        case "gone":
            _touch_gone(picture, event.of)
        case "cooling":
            picture.touch_node(event.of)
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
    pool = e.pool_of(target)
    if pool is not None:
        picture.dirty.pools.add(pool)
    else:
        picture.dirty.hosts.add(target)


FOLDS: dict[type[Event], Fold] = {
    e.Started: _started,
    e.PolicyChanged: _policy,
    e.Capabilities: _capabilities,
    e.Synced: _synced,
    e.DeadlinePassed: _deadline,
}
