"""The publisher's whole picture as plain data, for checkpoints and comparisons, and back.

The form has a version of its own, `PROJECTION`; a change to it needs a new number and an upcasting step for `Checkpoint`.
Indexes are not part of it: they are built again from the rows.
"""

from __future__ import annotations

from typing import Any

from dds_core.events import Capabilities
from dds_core.model import Claim, FabricResource, Record
from dds_core.plain import Form
from dds_core.publishing.model import Host, Machine, PoolConfig, PoolSlice, Stock
from dds_core.publishing.picture import PoolPicture
from dds_core.publishing.policy import read_publish_policy
from dds_core.publishing.rows import Absent, PoolRow
from dds_core.rows import Refusal

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


_FORM = Form(Snapshot, PROJECTION, _SCALARS, _BY_TEXT, _BY_PAIR, PoolPicture, read_publish_policy)


def dump(picture: PoolPicture) -> dict[str, Any]:
    """The picture as plain data."""
    return _FORM.dump(picture)


def same(one: PoolPicture, other: PoolPicture) -> bool:
    """Whether two pictures hold the same."""
    return _FORM.same(one, other)


def load(plain: dict[str, Any]) -> PoolPicture:
    """The picture that `dump` gave.

    Raises InputError when the data is not of that form.
    """
    picture: PoolPicture = _FORM.load(plain)
    return picture
