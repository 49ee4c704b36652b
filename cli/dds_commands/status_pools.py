"""What a publisher is doing: as plain data, read off its picture and the head of its log, and as text for people. No clock,
nothing is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dds_commands.pool_rows import pool_data, pool_rows
from dds_commands.screen import counted, show, style
from dds_commands.status_data import alerts_of, log_data
from dds_commands.status_text import COMMON, Ages, Data, Table, head_lines, show_tables
from dds_core.events import Alerted
from dds_core.log import Head
from dds_core.publishing.fold import NOT_AS_WRITTEN, pool_of, shows
from dds_core.publishing.picture import PoolPicture
from dds_core.timeline.phrases import spoken

_KEPT = {
    "binding conditions": "binding_conditions",
    "taints of devices": "device_taints",
    "allowMultipleAllocations": "shared_devices",
}


def pools_status(head: Head, picture: PoolPicture) -> dict[str, Any]:
    """The whole status. Pools that are not as they were decided come first."""
    config = picture.config
    rows = sorted(pool_rows(picture), key=lambda row: row.as_decided is not False)
    return {
        **log_data(head, picture.now),
        "mode": {
            "effective": picture.mode,
            "policy": picture.policy.mode,
            "config": (config.mode or None) if config is not None else None,
        },
        "config_seen": config is not None,
        "models": [model.model for model in picture.models],
        "synced": picture.synced,
        "synced_at": picture.synced_at,
        "stale": sorted(picture.stale),
        "machines": len(picture.machines_by_uuid),
        "fabrics": sorted(picture.fabrics()),
        "listed_at": picture.listed_at,
        "failing": [{"of": of, "text": text} for of, text in sorted(picture.failures.rows.items())],
        "dropped": [name for name, kept in _KEPT.items() if not getattr(picture.capabilities, kept)],
        "stocks": [
            {"fabric": one.fabric, "model": one.model, "free": one.free}
            for _, one in sorted(picture.stocks.rows.items())
        ],
        "pools": [_pool(pool_data(row), row.since) for row in rows],
        "refused": [
            {"action": action, "of": spoken(target), "count": row.count, "again_at": row.until}
            for (action, target), row in sorted(
                picture.refusals.rows.items(), key=lambda item: (item[1].until, item[0])
            )
        ],
        "alerts": [
            {"of": spoken(one.of), "reason": one.reason, "text": one.text}
            for one in alerts_of(picture.shown.rows)
            if not _is_over(picture, one)
        ],
        "rejected": [
            {"of": _name(picture, uid), "field": field, "reason": reason}
            for uid, field, reason in sorted(picture.rejections.rows)
        ],
    }


def _is_over(picture: PoolPicture, alert: Alerted) -> bool:
    """Whether a pool is seen as it was written again. The rules keep such an alert until the pool is next written, so that it is
    told once of two who fight over it."""
    key = pool_of(alert.of) if alert.reason == NOT_AS_WRITTEN else None
    row = picture.pools.get(key) if key is not None else None
    return key is not None and (row is None or shows(picture, key, row))


def _pool(data: Mapping[str, Any], since: int) -> dict[str, Any]:
    """A pool without the names of its devices, of which there may be thousands."""
    return {**{key: value for key, value in data.items() if key not in ("names", "held_names")}, "since": since}


def _name(picture: PoolPicture, uid: str) -> str:
    for table in (picture.slices, picture.hosts, picture.claims, picture.resources):
        row = table.get(uid)
        if row is not None:
            return f"{row.namespace}/{row.name}" if hasattr(row, "namespace") else row.name
    return "the ConfigMap" if uid in picture.configs else uid


def show_pools_status(data: Data, now: int, most: int) -> None:
    """Everything; times count back from `now`, microseconds. What there is none of is left out."""
    ages = Ages(now)
    for line in (*head_lines(data, ages), *_fabric_lines(data)):
        show(line)
    show_tables(data, ages, most, _TABLES)


def _fabric_lines(data: Data) -> list[str]:
    dress = style()
    lines = [f"fabric: {counted(data['machines'], 'machine')} in {counted(len(data['fabrics']), 'fabric')}"]
    if not data["listed_at"]:
        lines.append(dress("the list of machines was not answered since the start", "bad"))
    lines += [dress(f"no good answer about {spoken(one['of'])}: {one['text']}", "bad") for one in data["failing"]]
    if data["dropped"]:
        lines.append(dress(f"the API server drops {', '.join(data['dropped'])} of slices", "bad"))
    unpublished = [one for one in data["stocks"] if not any(_is_of(pool, one) for pool in data["pools"])]
    lines += [f"{one['model']} in fabric {one['fabric']}: {one['free']} free, no pool" for one in unpublished]
    return lines


def _is_of(pool: Data, stock: Data) -> bool:
    return (pool["fabric"], pool["model"]) == (stock["fabric"], stock["model"])


def _cells(row: Data, ages: Ages) -> tuple[str, ...]:
    wanted = "-" if row["wanted"] is None else str(row["wanted"])
    if row["as_decided"] is False:
        wanted = f"{wanted} for {ages.since(row['since'])}, not seen yet"
    return (
        row["pool"],
        row["owner"] or "-",
        str(row["slices"]),
        str(row["devices"]),
        str(row["held"]),
        str(row["free"]),
        str(row["stock"]) if row["stock"] is not None else "-",
        ", ".join(row["tainted"]) or "-",
        wanted,
    )


_TABLES: tuple[Table, ...] = (
    (
        "pools",
        "pools",
        ("pool", "owner", "slices", "devices", "held", "free", "in stock", "tainted", "decided"),
        _cells,
    ),
    *COMMON,
)
