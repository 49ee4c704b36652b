"""`dds claims` and `dds devices`: what there is now, or was at an instant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dds_commands.parameters import format_option, instant, source_arguments
from dds_commands.rows import ClaimRow, DeviceRow, claim_data, claim_rows, device_data, device_rows
from dds_commands.screen import show_json, show_jsonl, table
from dds_commands.sources import Opened, require
from dds_core.errors import InputError
from dds_core.lifecycle import CLAIM_STATES, DEVICE_STATES
from dds_core.scaler.component import SCALER
from dds_core.scaler.state import Picture
from dds_core.timeline.clock import duration


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--state", metavar="STATE", help="In this state only."),
        click.option("--node", metavar="NODE", help="On this node only."),
        click.option("--claim", metavar="NS/NAME|UID", help="This claim, or its devices, only."),
        click.option("--until", type=click.IntRange(min=1), metavar="POSITION", help="As of this position."),
        click.option("--at", metavar="TIME", help="As of this instant: RFC 3339, or a time of the source's day."),
    ):
        command = option(command)
    return command


@click.command("claims", short_help="Show the claims and their states.")
@source_arguments
@_filters
@format_option("table", "json", "jsonl")
def claims(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    form: str,
    at: str | None,
    until: int | None,
    **chosen: str,
) -> None:
    """Show the claims: their state, since when, their node and devices.

    SOURCE is a recording, an export, archives and the rest, or a database; by default the log.
    """
    picture, now = _picture(sources, url, name, at, until)
    rows = chosen_claims(picture, **chosen)
    if form == "table":
        show_claims(rows, now)
    else:
        (show_json if form == "json" else show_jsonl)([claim_data(row) for row in rows])


@click.command("devices", short_help="Show the attached devices and their states.")
@source_arguments
@_filters
@format_option("table", "json", "jsonl")
def devices(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    form: str,
    at: str | None,
    until: int | None,
    **chosen: str,
) -> None:
    """Show the devices that were attached: their state, since when, their node and who holds them.

    SOURCE is a recording, an export, archives and the rest, or a database; by default the log.
    """
    picture, now = _picture(sources, url, name, at, until)
    rows = chosen_devices(picture, **chosen)
    if form == "table":
        show_devices(rows, now)
    else:
        (show_json if form == "json" else show_jsonl)([device_data(row) for row in rows])


def _picture(
    sources: tuple[str, ...], url: str | None, name: str | None, at: str | None, until: int | None
) -> tuple[Picture, int]:
    """The picture that is asked for, and the instant that its times count back from."""
    with Opened() as opened:
        source = opened.source(sources, url, name)
        require(source, SCALER, "use dds pools, or dds replay --at, on it; give a scaler's with --name CLUSTER/scaler")
        moment = instant(at, source.span()) if at is not None else None
        picture = source.picture(moment, until)
    return picture, moment if moment is not None else picture.now


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
