"""`dds pools`: what a publisher shows the scheduler, now or at an instant."""

from __future__ import annotations

import click

from dds_commands.parameters import format_option, instant, source_arguments
from dds_commands.pool_rows import MachineRow, PoolRow, machine_rows, pool_data, pool_rows
from dds_commands.screen import show_json, show_jsonl, table
from dds_commands.sources import Opened, require
from dds_core.errors import InputError
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.state import PoolPicture
from dds_core.timeline.clock import rfc3339

NO_PUBLISHER = "use dds claims and dds devices on it, or give a publisher's log with --name CLUSTER/publisher"


@click.command("pools", short_help="Show the pools that a publisher keeps.")
@source_arguments
@click.option("--at", metavar="TIME", help="As of this instant: RFC 3339, or a time of the source's day.")
@click.option("--until", type=click.IntRange(min=1), metavar="POSITION", help="As of this position.")
@click.option("--node", metavar="NODE", help="Those that this node reaches only.")
@format_option("table", "json", "jsonl")
def pools(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    at: str | None,
    until: int | None,
    node: str | None,
    form: str,
) -> None:
    """Show the pools of devices that are not attached: how many devices each lists, how many of them claims hold, and what
    the fabric has.

    SOURCE is an export, archives and the rest, or a database; by default the log of the publisher in it.
    """
    with Opened() as opened:
        source = opened.source(sources, url, name, PUBLISHER)
        require(source, PUBLISHER, NO_PUBLISHER)
        moment = instant(at, source.span()) if at is not None else None
        picture: PoolPicture = source.picture(moment, until)
    rows = chosen_pools(picture, node)
    if form == "table":
        show_pools(rows)
    else:
        (show_json if form == "json" else show_jsonl)([pool_data(row) for row in rows])


def chosen_pools(picture: PoolPicture, node: str | None) -> list[PoolRow]:
    """The pools that a node reaches, all without one. Raises InputError for a node that is not there."""
    if node is None:
        return pool_rows(picture)
    if picture.host(node) is None:
        known = ", ".join(sorted(host.name for host in picture.hosts.rows.values())[:5]) or "none"
        raise InputError(f"there is no node {node!r}", fix=f"nodes are {known}")
    return pool_rows(picture, {picture.fabric_of(node)})


def chosen_machines(picture: PoolPicture, node: str | None) -> list[MachineRow]:
    """The machine that a node is, all without one."""
    return machine_rows(picture, node)


def show_pools(rows: list[PoolRow]) -> None:
    """A table of pools."""
    table(
        (
            "pool",
            "driver",
            "owner",
            "generation",
            "slices",
            "devices",
            "held",
            "free",
            "in stock",
            "tainted",
            "decided",
        ),
        [
            (
                row.pool,
                row.driver,
                row.owner or "-",
                str(row.generation),
                str(row.slices),
                str(len(row.names)),
                str(len(row.held_names)),
                str(row.free),
                str(row.stock) if row.stock is not None else "-",
                ", ".join(row.tainted) or "-",
                _decided(row),
            )
            for row in rows
        ],
        "no pools",
    )


def _decided(row: PoolRow) -> str:
    """How many devices were decided, when, and whether they are there. An age would be of no use: a quiet log has no now."""
    if row.wanted is None:
        return "-"
    if row.as_decided is None:
        return f"would be {row.wanted}"
    return f"{row.wanted} at {rfc3339(row.since)[:19]}Z" + ("" if row.as_decided else ", not seen yet")


def show_machines(rows: list[MachineRow]) -> None:
    """A table of machines."""
    table(
        ("machine", "name", "node", "fabric", "limits"),
        [(row.machine, row.name, ", ".join(row.nodes) or "-", row.fabric or "-", row.limits or "-") for row in rows],
        "no machines",
    )
