"""What a scaler is doing, as plain data: read off the picture and the head of its log. No clock, nothing is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from dds_commands.rows import claim_rows, device_rows
from dds_commands.waiting import waiting_rows
from dds_core.component import component_of
from dds_core.events import Alerted
from dds_core.lifecycle import CLAIM_STATES, DEVICE_STATES
from dds_core.log import Head
from dds_core.model import Observed
from dds_core.picture import Picture
from dds_core.rows import Fence
from dds_core.rules.orders import in_flight_cap
from dds_core.timeline.clock import rfc3339

_alert = msgspec.json.Decoder(Alerted)


INSTANTS = frozenset({"recorded_at", "at", "epoch_at", "synced_at", "since", "until", "again_at", "listed_at"})
"""Keys whose values are microseconds since 1970-01-01 UTC, 0 for never."""


def status_data(head: Head, picture: Picture, most: int) -> dict[str, Any]:
    """The whole status; of the claims that wait the first `most`, those that wait longest, and how many there are."""
    waiting = waiting_rows(picture)
    return {
        **log_data(head, picture.now),
        "mode": {"effective": picture.mode, "policy": picture.policy.mode, "config": picture.config.mode or None},
        "hand_over": picture.policy.hand_over,
        "config_seen": bool(picture.config.uid),
        "models": [model.model for model in picture.config.models],
        "synced": picture.synced,
        "synced_at": picture.synced_at,
        "stale": sorted(picture.stale),
        "claims": _counted(CLAIM_STATES, [row.state for row in claim_rows(picture)]),
        "waiting_count": len(waiting),
        "waiting": [row._asdict() for row in waiting[:most]],
        "attaches_under_way": len(picture.under_way) + picture.units_ordered,
        "attaches_at_most": in_flight_cap(picture),
        "orders": _orders(picture),
        "hand_overs": _hand_overs(picture),
        "devices": _devices(picture),
        "fences": _fences(picture),
        "cool_downs": _cool_downs(picture),
        "refused": _refused(picture),
        "alerts": _alerts(picture),
        "rejected": _rejected(picture),
    }


def log_data(head: Head, at: int) -> dict[str, Any]:
    """Whose log it is, how far it goes, and who writes it; `at` is the newest fact's instant."""
    return {
        "log": head.log,
        "component": component_of(head.log).name,
        "cluster": head.cluster,
        "position": head.position,
        "recorded_at": head.recorded_at,
        "at": at,
        "epoch": head.epoch,
        "epoch_at": head.epoch_at,
    }


def readable(data: Any) -> Any:
    """The same data with instants as RFC 3339, null for never."""
    if isinstance(data, dict):
        return {
            key: (rfc3339(value) if value else None) if key in INSTANTS else readable(value)
            for key, value in data.items()
        }
    return [readable(one) for one in data] if isinstance(data, list) else data


def name_of(picture: Picture, uid: str) -> str:
    """The name of any object, its namespace before it; the uid where it is not known."""
    tables = (picture.claims, picture.pods, picture.nodes, picture.resources, picture.requests, picture.rules)
    for table in (*tables, picture.slices, picture.classes):
        row: Observed | None = table.get(uid)
        if row is not None:
            namespace = getattr(row, "namespace", "")
            return f"{namespace}/{getattr(row, 'name', uid)}" if namespace else getattr(row, "name", uid)
    life = picture.lives.get(uid)
    if life is not None:
        return f"{life.namespace}/{life.name}"
    return "the ConfigMap" if uid in picture.configs else uid


def _counted(states: tuple[str, ...], found: list[str]) -> dict[str, int]:
    """In the order of the table; states that nothing is in are left out."""
    number = Counter(found)
    return {state: number[state] for state in states if number[state]}


def _orders(picture: Picture) -> list[dict[str, Any]]:
    """What was ordered, and the requests do not show yet."""
    return [
        {"node": node, "model": model, "request": row.request, "size": row.size, "since": row.since}
        for (node, model), row in sorted(picture.orders.rows.items(), key=lambda item: (item[1].since, item[0]))
    ]


def _hand_overs(picture: Picture) -> list[dict[str, Any]]:
    return [
        {
            "claim": name_of(picture, uid),
            "uid": uid,
            "pod": name_of(picture, row.pod) if row.pod else None,
            "node": row.node,
            "steering": row.steering,
            "steered": row.steered,
            "since": row.since,
        }
        for uid, row in sorted(picture.hand_overs.rows.items(), key=lambda item: (item[1].since, item[0]))
    ]


def _devices(picture: Picture) -> list[dict[str, Any]]:
    """By model: how many are in which state, and how many the pools list as free."""
    rows = device_rows(picture)
    names = sorted({*picture.models, *(row.model for row in rows)})
    return [
        {
            "model": name,
            "states": _counted(DEVICE_STATES, [row.state for row in rows if row.model == name]),
            "free": sum(picture.pools[key].free for key in picture.pools_of_model[name]),
        }
        for name in names
    ]


def _fences(picture: Picture) -> list[dict[str, Any]]:
    found = []
    for uid, fence in sorted(picture.fences.rows.items(), key=lambda item: (item[1].since, item[0])):
        resource = picture.resources.get(uid)
        found.append(
            {
                "device": (resource.uuid or resource.name) if resource is not None else uid,
                "node": resource.node if resource is not None else "",
                "model": resource.model if resource is not None else "",
                "stage": _stage(fence),
                "since": fence.since,
            }
        )
    return found


def _stage(fence: Fence) -> str:
    if fence.ordered:
        return "detach ordered"
    if fence.confirmed:
        return "confirmed"
    return "waits for the list of claims" if fence.wanted else "settles"


def _cool_downs(picture: Picture) -> list[dict[str, Any]]:
    return [
        {"node": node, "model": model, "until": row.until, "reason": row.reason}
        for (node, model), row in sorted(picture.cooling.rows.items())
    ]


def _refused(picture: Picture) -> list[dict[str, Any]]:
    return [
        {"action": action, "of": name_of(picture, target), "count": row.count, "again_at": row.until}
        for (action, target), row in sorted(picture.refusals.rows.items(), key=lambda item: (item[1].until, item[0]))
    ]


def alerts_of(shown: Mapping[tuple[str, str], bytes]) -> list[Alerted]:
    """What a person was told, of what a picture has shown."""
    return [_alert.decode(data) for (kind, _), data in sorted(shown.items()) if kind == Alerted.__name__]


def _alerts(picture: Picture) -> list[dict[str, Any]]:
    told = alerts_of(picture.shown.rows)
    return [{"of": name_of(picture, one.of), "reason": one.reason, "text": one.text} for one in told]


def _rejected(picture: Picture) -> list[dict[str, Any]]:
    return [
        {"of": name_of(picture, uid), "field": field, "reason": reason}
        for uid, field, reason in sorted(picture.rejections.rows)
    ]
