"""The folds of decisions: intents, until the cluster shows what was decided."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.publisher import events as e
from dds_core.publisher.describe import digest_of_pool
from dds_core.publisher.fold.common import NOT_AS_WRITTEN, RECENT, Fold, pause_after, shown_key, shows, unheld
from dds_core.publisher.model import PoolModel
from dds_core.publisher.rows import PoolRow
from dds_core.publisher.state import PoolPicture


def _published(picture: PoolPicture, event: e.PoolPublished, at: int) -> None:
    key = (event.driver, event.pool)
    digests = tuple(
        digest_of_pool(event.model, one.devices, event.taint, one.closed, event.prefix) for one in event.slices
    )
    old = picture.pools.get(key)
    new = PoolRow(
        event.fabric, event.prefix, event.model, event.generation, event.slices, digests, event.taint, since=at
    )
    if old is not None and at - old.since <= RECENT + pause_after(old.misses):
        again = old.came_about and (old.slices, old.digests, old.prefix) == (new.slices, new.digests, new.prefix)
        new = replace(new, misses=old.misses + again)
    new = replace(new, settled=shows(picture, key, new), open=unheld(picture, key, new))
    picture.pools.put(key, new)
    picture.passed.drop(("readback", event.subject))
    picture.shown.drop(("Alerted", f"{event.subject}:PoolOwnedByOther"))  # nobody's slice stops us any more
    if not new.misses:  # when it begins again, it is told again
        picture.shown.drop(("Alerted", f"{event.subject}:{NOT_AS_WRITTEN}"))


def _withdrawn(picture: PoolPicture, event: e.PoolWithdrawn, at: int) -> None:
    """What is left is the wish that nothing is there; it is forgotten once that is so."""
    key = (event.driver, event.pool)
    old = picture.pools.get(key) or PoolRow("", "", PoolModel(0, "", "", event.driver), 0, (), ())
    misses = old.misses + (not old.slices and old.came_about and at - old.since <= RECENT + pause_after(old.misses))
    new = replace(old, slices=(), digests=(), since=at, done=0, settled=False, void=False, misses=misses)
    picture.pools.put(key, new)
    picture.passed.drop(("readback", event.subject))
    if shows(picture, key, new):
        picture.pools.drop(key)


def _labelled(picture: PoolPicture, event: e.NodeLabelled, at: int) -> None:
    for key, value in event.labels.items():
        picture.labelled.put((event.node, key), value or "")


def _alerted(picture: PoolPicture, event: e.Alerted, at: int) -> None:
    picture.shown.put(shown_key(event), e.encode(event))


FOLDS: dict[type[Event], Fold] = {
    e.PoolPublished: _published,
    e.PoolWithdrawn: _withdrawn,
    e.NodeLabelled: _labelled,
    e.Alerted: _alerted,
}
