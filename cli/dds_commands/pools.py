"""`dds pools`: the pools that a publisher shows the scheduler, and the fabric's machines, now or at an instant."""

from __future__ import annotations

import click
import msgspec

from dds_commands.parameters import at_option, end, order_options, output_options, source_arguments
from dds_commands.rows import Ages, Row, Table, field, readable, show_table
from dds_commands.screen import arranged, show_data, show_left_out
from dds_commands.sources import Opened, require
from dds_core.errors import InputError
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.describe import in_order
from dds_core.publisher.events import limits_words, pool_stream
from dds_core.publisher.model import MANAGED_BY, PoolKey, PoolModel, SliceLayout
from dds_core.publisher.state import PoolState
from dds_core.timeline.instants import rfc3339

OURS = "dds"
NO_PUBLISHER = "use dds claims and dds devices on it, or give a publisher's log with --name CLUSTER/publisher"


_SORTS = {"name": "pool", "model": "model", "fabric": "fabric", "free": "free", "held": "held", "since": "since"}
"""The field of a row by the value of --sort."""


@click.command("pools", short_help="Show the publisher's pools.")
@source_arguments
@at_option
@click.option("--node", metavar="NODE", help="Only pools that this node reaches.")
@click.option("--model", metavar="MODEL", help="Only pools of this model.")
@click.option("--fabric", metavar="FABRIC", help="Only pools of this fabric.")
@order_options(*_SORTS)
@output_options("table", "json", "jsonl")
def pools(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    at: str | None,
    node: str | None,
    model: str | None,
    fabric: str | None,
    sort: str | None,
    reverse: bool,
    limit: int,
    form: str,
) -> None:
    """Show the pools of free devices: how many devices each lists, how many of them claims hold, and the fabric's stock.

    SOURCE is not a recording; by default the publisher's log.
    """
    with Opened() as opened:
        source = opened.source(sources, url, name, PUBLISHER)
        require(source, PUBLISHER, NO_PUBLISHER)
        state: PoolState = source.state(*end(source.span, at))
    asked = (("model", model), ("fabric", fabric))
    chosen = [row for row in chosen_pools(state, node) if all(text in (None, row[key]) for key, text in asked)]
    rows, left = arranged(chosen, (lambda row: row[_SORTS[sort]]) if sort is not None else None, limit, reverse=reverse)
    if form == "table":
        show_table(POOLS, rows, state.process.now, "no pools")
    else:
        show_data(map(readable, rows), form)
    show_left_out(left, form)


def chosen_pools(state: PoolState, node: str | None) -> list[Row]:
    """The pools that a node reaches; all pools without a node. Raises InputError for an unknown node."""
    if node is None:
        return pool_rows(state)
    if state.host(node) is None:
        known = ", ".join(sorted(host.name for host in state.cluster.hosts.rows.values())[:5]) or "none"
        raise InputError(f"there is no node {node!r}", fix=f"nodes are {known}")
    return pool_rows(state, {state.fabric_of(node)})


def _decided(row: Row, ages: Ages) -> str:
    """How many devices were decided, when, and whether the cluster shows them. No age: a log that is not live has no "now"."""
    if row["wanted"] is None:
        return "-"
    if row["as_decided"] is None:
        return f"would be {row['wanted']}"
    return f"{row['wanted']} at {rfc3339(row['since'])[:19]}Z" + ("" if row["as_decided"] else ", not seen yet")


OWNER = ("owner", field("owner", "-"))
COUNTS = ("slices", "devices", "held", "free", ("in stock", field("stock")), ("tainted", field("tainted", "-")))
"""Columns of a status, too."""
POOLS = Table(("pool", "driver", OWNER, "generation", *COUNTS, ("decided", _decided)))
MACHINES = Table(
    (
        "machine",
        "name",
        ("node", field("nodes", "-")),
        ("fabric", field("fabric", "-")),
        ("limits", field("limits", "-")),
    )
)


# -- rows ----------------------------------------------------------------------------------------------------------------


def pool_rows(state: PoolState, fabrics: set[str] | None = None) -> list[Row]:
    """Every pool that several nodes reach, sorted by fabric and name; with `fabrics` only theirs.

    A pool is as its slices show it; if there are no slices yet, as the publisher decided it. `owner` is dds, another publisher's
    name, or "" for a publisher without a name. `names` are the devices, `held_names` those that claims hold, `tainted` the keys
    of taints. `stock`: free devices of the model in the fabric, None if the fabric never reported. `wanted`: devices in the last
    decision, also in mode observe; None without one. Outside mode observe, `since` is the instant of that decision, and
    `as_decided` says whether the cluster shows it; in mode observe it is None. `free`: devices that no claim holds."""
    shown = _shown(state)
    keys = state.pools.rows.keys() | shown.keys() | {key for key in state.cluster.slices_of if key[1]}
    rows = [_row(state, key, shown.get(key)) for key in sorted(keys)]
    chosen = (row for row in rows if fabrics is None or row["fabric"] in fabrics)
    return sorted(chosen, key=lambda row: (row["fabric"], row["pool"]))


def _shown(state: PoolState) -> dict[PoolKey, int]:
    """Number of devices by pool as decided in mode observe, where decisions are not carried out."""
    found = {}
    for (kind, subject), data in state.notes.last_emitted.rows.items():
        driver, _, pool = subject.removeprefix("pool/").partition("/")
        if kind == "pool" and not state.live:
            found[driver, pool] = sum(len(one.devices) for one in _published.decode(data).slices)
    return found


class _Decided(msgspec.Struct):
    """The part of `PoolPublished` or `PoolWithdrawn` that gives the number of devices."""

    slices: tuple[SliceLayout, ...] = ()


_published = msgspec.json.Decoder(_Decided)


def _row(state: PoolState, key: PoolKey, shown: int | None) -> Row:
    decided, live = state.pools.get(key), state.slices_in(key)
    model = _model(state, key)
    fabric = decided.fabric if decided is not None and decided.fabric else key[1].rpartition("-fabric")[2]
    stock = state.stock(fabric, model.model) if model is not None else None
    names = tuple(in_order(name for one in live for name in one.devices))
    held = tuple(in_order(state.held(key)))
    return {
        "pool": key[1],
        "driver": key[0],
        "fabric": fabric,
        "model": model.model if model is not None else "",
        "owner": ", ".join(sorted({OURS if one.owner == MANAGED_BY else one.owner for one in live})),
        "generation": max((one.generation for one in live), default=0),
        "slices": len(live),
        "names": names,
        "held_names": held,
        "tainted": tuple(sorted({taint.key for one in live for taint in one.taints})),
        "stock": stock.free if stock is not None else None,
        "wanted": len(decided.names) if decided is not None else shown,
        "as_decided": state.shows(key, decided) if decided is not None else None,
        "since": decided.since if decided is not None else 0,
        "uid": pool_stream(*key),
        "devices": len(names),
        "held": len(held),
        "free": len(set(names).difference(held)),
    }


def _model(state: PoolState, key: PoolKey) -> PoolModel | None:
    """The pool's model as decided, else as configured."""
    decided = state.pools.get(key)
    return decided.model if decided is not None and decided.slices else state.model_of_pool(key)


def machine_rows(state: PoolState, node: str | None = None) -> list[Row]:
    """Every machine as the fabric reports it, with its nodes, sorted by fabric and name; with `node` only that node's machine."""
    rows = []
    for uuid, machine in state.fabric.machines_by_uuid.rows.items():
        named = (state.cluster.hosts.rows[uid] for uid in state.cluster.hosts_of[uuid])
        hosts = sorted(host.name for host in named if state.machine_of(host) is machine)
        if node is None or node in hosts:
            rows.append(
                {
                    "machine": uuid,
                    "name": machine.name,
                    "nodes": hosts,
                    "fabric": machine.fabric,
                    "limits": limits_words(machine.limits),
                    "uid": uuid,
                }
            )
    return sorted(rows, key=lambda row: (row["fabric"], row["name"], row["machine"]))
