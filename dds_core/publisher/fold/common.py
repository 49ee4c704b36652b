"""What several folds of the publisher share: when a pool is shown as it was decided, what is forgotten with what is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dds_core.events import Event
from dds_core.model import Requirement
from dds_core.publisher import events as e
from dds_core.publisher.describe import selector
from dds_core.publisher.model import MANAGED_BY, PoolSlice
from dds_core.publisher.rows import PoolKey, PoolRow
from dds_core.publisher.state import PoolPicture

SECOND = 1_000_000
HOUR = 3_600 * SECOND
RECENT = 900 * SECOND
"""Misses of a pool that lie further apart than this and the pause between them have nothing to do with each other."""
_PAUSE, _LONGEST_PAUSE = 30 * SECOND, HOUR
FABRIC_ = "fabric/"
"""Before a fabric's id in the table of what is absent; a machine's UUID stands there as it is."""
BEYOND_BELIEF = "StockBeyondBelief"
"""Reason of an alert: the fabric says that more is free than the policy believes."""
NOT_AS_WRITTEN = "ReadBackDiffers"
"""Reason of an alert: a pool is not seen as it was written, again and again."""
DROPPED = "BindingConditionsDropped"
"""Reason of a refusal: the API does not keep what makes a device wait for its attach."""

Fold = Callable[[PoolPicture, Any, int], None]


def shown_key(decision: e.Decision) -> tuple[str, str]:
    """What a later decision must have in common with this one to take its place."""
    if isinstance(decision, e.Alerted):
        return ("Alerted", f"{decision.of}:{decision.reason}")
    if isinstance(decision, e.OfPool):
        return ("pool", decision.subject)
    return (type(decision).__name__, decision.subject)


def pause_after(misses: int) -> int:
    """Microseconds until a pool that was missed so often may be written again: none at first, then 30 s doubling to an hour."""
    return min(_PAUSE << min(misses - 1, 10), _LONGEST_PAUSE) if misses else 0


def shows(picture: PoolPicture, key: PoolKey, row: PoolRow) -> bool:
    """Whether the cluster shows a pool as it was decided."""
    live = {one.name: one for one in picture.own_slices(key)}
    if live.keys() != {one.name for one in row.slices}:
        return False
    wanted = selector(row.prefix, row.model.device, row.fabric)
    return all(is_so(live[one.name], row, place, wanted) for place, one in enumerate(row.slices))


def is_so(found: PoolSlice, row: PoolRow, place: int, wanted: tuple[Requirement, ...]) -> bool:
    """Whether a slice is as the one at this place was decided. `wanted` is the pool's selector."""
    return (
        found.digest == row.digests[place]
        and found.devices == row.slices[place].devices
        and (found.generation, found.slices) == (row.generation, len(row.slices))
        and found.selector == wanted
        and found.owner == MANAGED_BY
    )


def unheld(picture: PoolPicture, key: PoolKey, row: PoolRow) -> int:
    held = {device[2] for device in picture.held_in[key]}
    return sum(name not in held for name in row.names)


def forget_rejections(picture: PoolPicture, uid: str) -> None:
    for key in [key for key in picture.rejections if key[0] == uid]:
        picture.rejections.drop(key)


def pool_of(target: str) -> PoolKey | None:
    """The pool whose stream that is."""
    word, _, rest = target.partition("/")
    driver, _, pool = rest.partition("/")
    return (driver, pool) if word == "pool" and pool else None


def nothing(picture: PoolPicture, event: Event, at: int) -> None:
    """Told for people; nothing rests on it."""


def forget_answers(picture: PoolPicture, which: Callable[[str, str], bool]) -> None:
    """What was answered of these fabrics and models was true long ago when they are asked about again, and so was why not."""
    for fabric, model in list(picture.stocks):
        if which(fabric, model):
            picture.stocks.drop((fabric, model))
    for of in list(picture.failures):
        kind, _, rest = of.partition("/")
        fabric, _, model = rest.partition("/")
        if kind == "stock" and which(fabric, model):
            picture.failures.drop(of)


def is_back(picture: PoolPicture, name: str) -> None:
    picture.absent.drop(name)
    picture.passed.drop(("gone", name))
