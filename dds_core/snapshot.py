"""The whole picture as plain data, for checkpoints and comparisons, and back.

The form has a version of its own, `PROJECTION`; a change to it needs a new number and an upcasting step for `Checkpoint`.
Indexes are not part of it: they are built again from the rows.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dds_core.model import (
    AttachRequest,
    Claim,
    Config,
    DeviceClass,
    FabricResource,
    Node,
    Pod,
    Record,
    Slice,
    TaintRule,
)
from dds_core.picture import Picture
from dds_core.plain import Form
from dds_core.policy import read_policy
from dds_core.rows import (
    Cell,
    ClaimLife,
    Cooling,
    DeviceLife,
    Failure,
    Fence,
    HandOverRow,
    Order,
    Rate,
    Refusal,
    Reservation,
    Timeout,
)

PROJECTION = 1

Pair = tuple[str, str]


class Snapshot(Record, frozen=True):
    """The tables in the order of their keys; a table whose key is no text is a list of (key, row)."""

    now: int = 0
    policy: dict[str, Any] = {}
    taint_rules: str = ""
    synced: bool = False
    synced_at: int = 0
    level_at: int = 0
    stale: tuple[str, ...] = ()
    epoch: int = 0
    restarted: bool = False
    skew: int | None = None
    rejections: tuple[tuple[str, str, str], ...] = ()
    configs: dict[str, Config] = {}
    slices: dict[str, Slice] = {}
    classes: dict[str, DeviceClass] = {}
    rules: dict[str, TaintRule] = {}
    nodes: dict[str, Node] = {}
    requests: dict[str, AttachRequest] = {}
    resources: dict[str, FabricResource] = {}
    claims: dict[str, Claim] = {}
    pods: dict[str, Pod] = {}
    lives: dict[str, ClaimLife] = {}
    devices: dict[str, DeviceLife] = {}
    reservations: dict[str, Reservation] = {}
    orders: tuple[tuple[Cell, Order], ...] = ()
    hand_overs: dict[str, HandOverRow] = {}
    failures: dict[str, Failure] = {}
    cooling: tuple[tuple[Cell, Cooling], ...] = ()
    fences: dict[str, Fence] = {}
    refusals: tuple[tuple[Pair, Refusal], ...] = ()
    timeouts: dict[str, Timeout] = {}
    labelled: tuple[tuple[Pair, str], ...] = ()
    unmarked: dict[str, int] = {}
    lifted: dict[str, int] = {}
    marks: dict[str, int] = {}
    erring: dict[str, int] = {}
    shown: tuple[tuple[Pair, str], ...] = ()
    passed: tuple[tuple[Pair, int], ...] = ()
    counters: dict[str, int] = {}
    rates: dict[str, Rate] = {}


_SCALARS = ("now", "taint_rules", "synced", "synced_at", "level_at", "epoch", "restarted", "skew")
_SPECIAL = ("policy", "stale", "rejections", "shown")
_BY_TEXT = tuple(
    f.name for f in msgspec.structs.fields(Snapshot) if str(f.type).startswith("dict") and f.name != "policy"
)
_BY_PAIR = tuple(name for name in Snapshot.__struct_fields__ if name not in (*_SCALARS, *_SPECIAL, *_BY_TEXT))


_FORM = Form(Snapshot, PROJECTION, _SCALARS, _BY_TEXT, _BY_PAIR, Picture, read_policy)


def dump(picture: Picture) -> dict[str, Any]:
    """The picture as plain data."""
    return _FORM.dump(picture)


def same(one: Picture, other: Picture) -> bool:
    """Whether two pictures hold the same."""
    return _FORM.same(one, other)


def load(plain: dict[str, Any]) -> Picture:
    """The picture that `dump` gave.

    Raises InputError when the data is not of that form.
    """
    picture: Picture = _FORM.load(plain)
    picture.rebuild()
    picture.dirty.clear()
    return picture
