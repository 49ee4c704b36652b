"""Claims and devices of a picture as rows, for tables and JSON."""

from __future__ import annotations

from typing import NamedTuple

from dds_core.scaler.state import Picture
from dds_core.timeline.clock import rfc3339

RELEASED = "Released"


class ClaimRow(NamedTuple):
    """A claim as it stands: `since` in microseconds, `devices` by UUID or name."""

    claim: str
    uid: str
    state: str
    since: int
    node: str
    cycle: int
    attempt: int
    devices: tuple[str, ...]
    pods: tuple[str, ...]


class DeviceRow(NamedTuple):
    """A device as it stands: `claims` hold it, `idle_since` is 0 while it is in use."""

    device: str
    resource: str
    uid: str
    state: str
    since: int
    node: str
    model: str
    claims: tuple[str, ...]
    idle_since: int


def claim_rows(picture: Picture) -> list[ClaimRow]:
    """Every claim that has a life, by name."""
    rows = []
    for uid, life in picture.lives.rows.items():
        claim = picture.claims.get(uid)
        results = claim.allocation.results if claim is not None and claim.allocation is not None else ()
        devices = [picture.uuid_at.get(result.key) or result.device for result in results]
        pods = picture.pods_of(claim) if claim is not None else []
        rows.append(
            ClaimRow(
                claim=f"{life.namespace}/{life.name}",
                uid=uid,
                state=life.state,
                since=life.since,
                node=life.node if life.state != RELEASED else "",
                cycle=life.cycle,
                attempt=life.attempt,
                devices=tuple(devices),
                pods=tuple(f"{pod.namespace}/{pod.name}" for pod in pods),
            )
        )
    return sorted(rows, key=lambda row: (row.claim, row.uid))


def device_rows(picture: Picture) -> list[DeviceRow]:
    """Every composable device, by node and name."""
    rows = []
    for uid, life in picture.devices.rows.items():
        resource = picture.resources.get(uid)
        keys = set(picture.keys_of[resource.uuid]) if resource is not None and resource.uuid else set()
        if life.key is not None:
            keys.add(life.key)
        holders = {holder for key in keys for holder in picture.holders[key]}
        claims = {f"{c.namespace}/{c.name}" for holder in holders if (c := picture.claims.get(holder)) is not None}
        rows.append(
            DeviceRow(
                device=resource.uuid if resource is not None and resource.uuid else "(not known yet)",
                resource=resource.name if resource is not None else "",
                uid=uid,
                state=life.state,
                since=life.since,
                node=resource.node if resource is not None else "",
                model=life.model,
                claims=tuple(sorted(claims)),
                idle_since=life.idle_since,
            )
        )
    return sorted(rows, key=lambda row: (row.node, row.device, row.uid))


def claim_data(row: ClaimRow) -> dict[str, object]:
    """A claim as plain data."""
    return {**row._asdict(), "since": rfc3339(row.since)}


def device_data(row: DeviceRow) -> dict[str, object]:
    """A device as plain data."""
    return {
        **row._asdict(),
        "since": rfc3339(row.since),
        "idle_since": rfc3339(row.idle_since) if row.idle_since else None,
    }
