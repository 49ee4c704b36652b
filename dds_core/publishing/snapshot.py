"""The publisher's whole picture as plain data, for checkpoints and comparisons, and back.

The form has a version of its own, `PROJECTION`; a change to it needs a new number and an upcasting step for `Checkpoint`.
Indexes are not part of it: they are built again from the rows.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dds_core.errors import InputError
from dds_core.events import Capabilities
from dds_core.model import Claim, FabricResource, Record
from dds_core.publishing.model import Host, Machine, PoolConfig, PoolSlice, Stock
from dds_core.publishing.picture import PoolPicture
from dds_core.publishing.policy import read_publish_policy
from dds_core.publishing.rows import Absent, PoolRow
from dds_core.rows import Refusal
from dds_core.table import Table

PROJECTION = 1

Pair = tuple[str, str]


class Snapshot(Record, frozen=True):
    """The tables in the order of their keys; a table whose key is no text is a list of (key, row)."""

    now: int = 0
    policy: dict[str, Any] = {}
    capabilities: Capabilities = Capabilities()
    listed_at: int = 0
    synced: bool = False
    synced_at: int = 0
    level_at: int = 0
    stale: tuple[str, ...] = ()
    epoch: int = 0
    restarted: bool = False
    rejections: tuple[tuple[str, str, str], ...] = ()
    configs: dict[str, PoolConfig] = {}
    hosts: dict[str, Host] = {}
    slices: dict[str, PoolSlice] = {}
    claims: dict[str, Claim] = {}
    resources: dict[str, FabricResource] = {}
    machines_by_uuid: dict[str, Machine] = {}
    stocks: tuple[tuple[Pair, Stock], ...] = ()
    uncounted: dict[str, Pair] = {}
    failures: dict[str, str] = {}
    absent: dict[str, Absent] = {}
    pools: tuple[tuple[Pair, PoolRow], ...] = ()
    labelled: tuple[tuple[Pair, str], ...] = ()
    refusals: tuple[tuple[Pair, Refusal], ...] = ()
    shown: tuple[tuple[Pair, str], ...] = ()
    passed: tuple[tuple[Pair, int], ...] = ()


_SCALARS = ("now", "capabilities", "listed_at", "synced", "synced_at", "level_at", "epoch", "restarted")
_BY_TEXT = ("configs", "hosts", "slices", "claims", "resources", "machines_by_uuid", "uncounted", "failures", "absent")
_BY_PAIR = ("stocks", "pools", "labelled", "refusals", "passed")


def dump(picture: PoolPicture) -> dict[str, Any]:
    """The picture as plain data; equal pictures give equal data."""
    fields: dict[str, Any] = {name: getattr(picture, name) for name in _SCALARS}
    for name in _BY_TEXT:
        rows = getattr(picture, name).rows
        fields[name] = {key: rows[key] for key in sorted(rows)}
    for name in _BY_PAIR:
        fields[name] = tuple(sorted(getattr(picture, name).rows.items(), key=lambda pair: pair[0]))
    fields["shown"] = tuple((key, picture.shown.rows[key].decode()) for key in sorted(picture.shown))
    fields["policy"] = picture.policy.model_dump(mode="json")
    fields["stale"] = tuple(sorted(picture.stale))
    fields["rejections"] = tuple(sorted(picture.rejections))
    plain: dict[str, Any] = msgspec.to_builtins(Snapshot(**fields))
    return plain


def load(plain: dict[str, Any]) -> PoolPicture:
    """The picture that `dump` gave.

    Raises InputError when the data is not of that form.
    """
    try:
        snapshot = msgspec.convert(plain, Snapshot)
    except msgspec.ValidationError as error:
        raise InputError(f"the checkpoint does not hold a picture of projection {PROJECTION}: {error}") from None
    picture = PoolPicture()
    picture.policy = read_publish_policy(snapshot.policy)
    for name in _SCALARS:
        setattr(picture, name, getattr(snapshot, name))
    picture.stale = set(snapshot.stale)
    for name in (*_BY_TEXT, *_BY_PAIR):
        table: Table[Any, Any] = getattr(picture, name)
        rows = getattr(snapshot, name)
        for key, row in rows.items() if isinstance(rows, dict) else rows:
            table.put(key, row)
    for told in snapshot.rejections:
        picture.rejections.put(told, True)
    for key, text in snapshot.shown:
        picture.shown.put(key, text.encode())
    picture.dirty.clear()
    return picture
