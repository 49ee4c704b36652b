"""`dds claims` and `dds devices`: what there is now, or was at an instant."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import click

from dds_commands.parameters import Place, end, end_options, order_options, output_options, source_arguments
from dds_commands.screen import arranged, note, show, show_data, show_left_out, table
from dds_commands.sources import Log, Opened, require, silence, silence_words
from dds_core.errors import InputError
from dds_core.lifecycle import CLAIM_STATES, DEVICE_STATES, RELEASED
from dds_core.scaler.component import SCALER
from dds_core.scaler.state import Picture
from dds_core.timeline.clock import duration, rfc3339


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        output_options("table", "json", "jsonl"),
        click.option("--state", metavar="STATE", help="In this state only."),
        click.option("--node", metavar="NODE", help="On this node only."),
        click.option("--claim", metavar="NS/NAME|UID", help="This claim, or its devices, only."),
        end_options,
        source_arguments,
    ):
        command = option(command)
    return command


CLAIM_ORDERS: Mapping[str, Callable[[ClaimRow], Any]] = {
    "name": lambda row: row.claim,
    "state": lambda row: CLAIM_STATES.index(row.state),
    "since": lambda row: row.since,
    "node": lambda row: row.node,
    "attempt": lambda row: (row.cycle, row.attempt),
}
DEVICE_ORDERS: Mapping[str, Callable[[DeviceRow], Any]] = {
    "name": lambda row: row.device,
    "state": lambda row: DEVICE_STATES.index(row.state),
    "since": lambda row: row.since,
    "node": lambda row: row.node,
    "model": lambda row: row.model,
    "claims": lambda row: row.claims,
}


@click.command("claims", short_help="Show the claims and their states.")
@_filters
@order_options(CLAIM_ORDERS)
def claims(
    form: str, claim: str | None, node: str | None, state: str | None, sort: str | None, limit: int, **of: Any
) -> None:
    """Show the claims: their state, since when, their node and devices.

    SOURCE is a recording, an export, archives and the rest, or a database; by default the log.
    """
    picture, now = _picture(form, **of)
    chosen = chosen_claims(picture, claim, node, state)
    rows, left = arranged(chosen, CLAIM_ORDERS[sort] if sort else None, limit)
    if form == "table":
        show_claims(rows, now)
    else:
        show_data(map(claim_data, rows), form)
    show_left_out(left, form)


@click.command("devices", short_help="Show the attached devices and their states.")
@_filters
@order_options(DEVICE_ORDERS)
def devices(
    form: str, claim: str | None, node: str | None, state: str | None, sort: str | None, limit: int, **of: Any
) -> None:
    """Show the devices that were attached: their state, since when, their node and who holds them.

    SOURCE is a recording, an export, archives and the rest, or a database; by default the log.
    """
    picture, now = _picture(form, **of)
    chosen = chosen_devices(picture, claim, node, state)
    rows, left = arranged(chosen, DEVICE_ORDERS[sort] if sort else None, limit)
    if form == "table":
        show_devices(rows, now)
    else:
        show_data(map(device_data, rows), form)
    show_left_out(left, form)


def _picture(
    form: str, sources: tuple[str, ...], url: str | None, name: str | None, at: str | None, until: str | None
) -> tuple[Picture, int]:
    """The picture that is asked for, and the instant that its times count back from: now for the whole of a log that may be
    written just now, else one that a table begins with."""
    with Opened() as opened:
        source = opened.source(sources, url, name)
        require(source, SCALER, "use dds pools, or dds replay --at, on it; give a scaler's with --name CLUSTER/scaler")
        last = end(source.span, at, until)
        picture = source.picture(*last)
        head = source.live_head() if last == Place() and isinstance(source, Log) else None
    if head is None:
        now = last.at if last.at is not None else picture.now
        if form == "table":
            show(f"as of {rfc3339(now)}")
    else:
        now = time.time_ns() // 1000
        silent = silence(head, picture, now)
        if silent:
            note(silence_words(silent, SCALER.name))
    return picture, now


def chosen_claims(
    picture: Picture, claim: str | None = None, node: str | None = None, state: str | None = None
) -> list[ClaimRow]:
    """The claims that pass the filters. Raises InputError for a state that does not exist."""
    wanted = known_state(state, CLAIM_STATES) if state else None
    return [
        row
        for row in claim_rows(picture)
        if (not claim or claim in (row.claim, row.uid))
        and (not node or row.node == node)
        and (wanted is None or row.state == wanted)
    ]


def chosen_devices(
    picture: Picture, claim: str | None = None, node: str | None = None, state: str | None = None
) -> list[DeviceRow]:
    """The devices that pass the filters. Raises InputError for a state that does not exist."""
    wanted = known_state(state, DEVICE_STATES) if state else None
    names = {row.claim for row in claim_rows(picture) if claim in (row.claim, row.uid)} if claim else set()
    return [
        row
        for row in device_rows(picture)
        if (not claim or names.intersection(row.claims))
        and (not node or row.node == node)
        and (wanted is None or row.state == wanted)
    ]


def known_state(text: str, *tables: tuple[str, ...]) -> str:
    """The state as its table writes it, whatever the case. Raises InputError."""
    states = dict.fromkeys(state for table in tables for state in table)
    found = next((state for state in states if state.lower() == text.lower()), None)
    if found is None:
        raise InputError(f"{text!r} is no state", fix=f"give one of {', '.join(states)}")
    return found


def show_claims(rows: list[ClaimRow], now: int) -> None:
    """A table of claims; times count back from `now`."""
    table(
        ("claim", "state", "for", "node", "attempt", "devices"),
        [
            (r.claim, r.state, duration(now - r.since), r.node, f"{r.cycle}.{r.attempt}", ", ".join(r.devices))
            for r in rows
        ],
        "no claims",
    )


def show_devices(rows: list[DeviceRow], now: int) -> None:
    """A table of devices; times count back from `now`."""
    table(
        ("device", "state", "for", "node", "model", "claims"),
        [(r.device, r.state, duration(now - r.since), r.node, r.model, ", ".join(r.claims)) for r in rows],
        "no devices",
    )


# -- rows ----------------------------------------------------------------------------------------------------------------


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
        devices = [picture.face(result.key).uuid or result.device for result in results]
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
