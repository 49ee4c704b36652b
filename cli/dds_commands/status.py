"""`dds status`: what scaler, publisher and autoscaler are doing now, folded from their logs; no process is asked."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from dds_adapters.plugins import component_of
from dds_adapters.sql import SqlLog
from dds_commands.groups import GROUPS, group_rows, order_rows
from dds_commands.groups import waiting_rows as pods_waiting
from dds_commands.parameters import output_options, require_end, source_arguments
from dds_commands.pools import COUNTS, OWNER, pool_rows
from dds_commands.rows import Ages, Row, Table, field, readable, show_table, show_tables, since, titled, until
from dds_commands.running import FINE, VERIFICATION
from dds_commands.screen import counted, note, progress, show, show_json, show_jsonl, style, width
from dds_commands.sources import Log, Opened, Recording, beat, is_live, is_recorded
from dds_commands.status_data import alerts_of, name_of, part_data, status_data, trouble_data
from dds_commands.timelines import brief
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.state import Fleet
from dds_core.component import Component
from dds_core.errors import InputError, LogUnavailable, Unfoldable
from dds_core.events.base import TYPES, Fact
from dds_core.events.shared import Alerted
from dds_core.kit.policy import MICROSECONDS
from dds_core.log import EventSource, Head, LeanEvent, MemoryLog
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.events import NOT_AS_WRITTEN, pool_of
from dds_core.publisher.state import PoolState
from dds_core.replay import fold_log, moments
from dds_core.scaler import blame
from dds_core.scaler.component import SCALER
from dds_core.scaler.unallocated import models_asked
from dds_core.timeline import Entry, as_data, render_lines
from dds_core.timeline.instants import rfc3339
from dds_core.timeline.phrases import spoken
from dds_core.timeline.telling import NODE

# -- a scaler ------------------------------------------------------------------------------------------------------------


def show_status(data: Row, now: int, most: int) -> None:
    """Print a scaler's status; times count back from `now` (microseconds). Empty tables are left out; a table has `most` rows at
    most, since people read this in a hurry."""
    for line in head_lines(data, Ages(now)):
        show(line)
    show("")
    for queue in data["unallocated"]:
        for line in queue_lines(queue, Ages(now)):
            show(line)
    show(f"claims: {_numbers(data['claims'])}")
    for row in data["devices"]:
        strange = f"; {row['unexplained']} that no ComposableResource names" if row["unexplained"] else ""
        show(f"devices {row['model']}: {_numbers(row['states'])}; {row['free']} in the pool{strange}")
    show(f"attaches under way: {data['attaches_under_way']}, at most {data['attaches_at_most']} without a pool")
    if data["waiting_count"]:
        rest = data["waiting_count"] - len(data["waiting"])
        more = f", the {len(data['waiting'])} that wait longest" if rest else ""
        titled(f"{counted(data['waiting_count'], 'claim')} waiting{more}")
        show_table(_WAITING, data["waiting"], now)
    show_tables(data, now, most, _TABLES)


def head_lines(data: Row, ages: Ages) -> list[str]:
    """Whether a process writes the log, the log, the mode, and what stops all decisions."""
    dress = style()
    place = f"position {data['position']}"
    lines = []
    if data.get("beat"):
        lines.append(dress(data["beat"], "bad") if data["silent"] else data["beat"])
    elif not data.get("live", True):
        made = "written from a recording" if is_recorded(data["cluster"]) else "read from a file"
        lines.append(f"as of {rfc3339(data['at'])}: {made}")
        place += f", newest event {ages.since(data['recorded_at'])} ago"
    lines.append(f"{dress('log ' + data['log'], 'name')}  {place}")
    if data["epoch"] and data["epoch_at"]:
        lines.append(f"epoch {data['epoch']} since {rfc3339(data['epoch_at'])} ({ages.since(data['epoch_at'])})")
    mode = data["mode"]
    config = f", the ConfigMap says {mode['config']}" if mode["config"] else ""
    hand_over = f", hand-over {data['hand_over']}" if "hand_over" in data else ""
    lines.append(f"mode {dress(mode['effective'], 'state')} (policy {mode['policy']}{config}){hand_over}")
    if data["policy_fault"]:
        lines.append(dress(f"policy not valid, the last valid one stays in force: {data['policy_fault']}", "bad"))
    if not data["synced"]:
        lines.append(
            dress("not synced: nothing is decided yet; /readyz of the process names what was not listed", "bad")
        )
    else:
        lines.append(f"synced, for the first time {ages.since(data['synced_at'])} ago")
        if not data["models"]:
            config = "names no model that can be used" if data["config_seen"] else "is not there"
            lines.append(dress(f"the ConfigMap of the fabric {config}: no device is known as ours", "bad"))
    if data["stale"]:
        lines.append(dress(f"stale: {', '.join(data['stale'])}", "bad"))
    return lines


def queue_lines(queue: Row, ages: Ages) -> list[str]:
    """Who waits for a device of some models, what there is of them, and why none is for who waits."""
    many = queue["claims"]
    verb = "waits" if many == 1 else "wait"
    held = _first(queue["held_by"], "claim", queue["held_by_count"]) or "no claim"
    idle = _first(queue["idle_on"], "node", queue["idle_on_count"]) or "no node"
    models = models_asked(queue["models"], [(one["resource"], one["class"]) for one in queue["resources"]])
    there = f"{models}, asked {queue['asked']}, free {queue['free']}; held by {held}, idle on {idle}"
    if not queue["models"]:
        there = f"of no known class, asked {queue['asked']}"
    lines = [style()(f"{counted(many, 'claim')} {verb} for a device: {there}", "bad")]
    several = queue["whys_count"] > 1
    for one in queue["whys"]:
        lines.append(f"  {one['why']}" + (f" ({counted(one['claims'], 'claim')})" if several else ""))
    if queue["whys_count"] > len(queue["whys"]):
        lines.append(f"  and {queue['whys_count'] - len(queue['whys'])} more reasons: dds claims --state Unallocated")
    rest = f" and {many - len(queue['longest'])} more" if many > len(queue["longest"]) else ""
    names = ", ".join(queue["longest"])
    lines.append(f"  {'waiting longest' if many > 1 else 'waiting'}, {ages.since(queue['since'])}: {names}{rest}")
    return lines


def _first(some: Sequence[Row], name: str, number: int) -> str:
    told = ", ".join(one[name] + (f" ({one['devices']})" if one["devices"] > 1 else "") for one in some)
    return f"{told} and {number - len(some)} more" if number > len(some) else told


def _numbers(states: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {state}" for state, number in states.items()) or "none"


_WAITING = Table(
    (
        "claim",
        "state",
        since(),
        "node",
        ("model", field("models", "-")),
        ("whose", lambda row, ages: blame.OWNER[row["stage"]]),
        "why",
    )
)

COMMON = (
    Table(
        (("write", field("action")), "of", ("times", field("count")), until("again", "again_at"), "why"),
        "refused writes",
        "refused",
    ),
    Table(("of", "reason", "text"), "alerts", "alerts"),
    Table(
        ("of", "field", "reason"),
        "objects that were not as expected, each told once; some may be mended by now",
        "rejected",
    ),
)
"""Tables of problems that every component can have."""

_TABLES = (
    Table(("node", "model", "request", "size", since()), "orders that the requests do not show yet", "orders"),
    Table(
        (
            "claim",
            "pod",
            "node",
            ("how", lambda row, ages: row["steering"] + (", steered" if row["steered"] else "")),
            since(),
        ),
        "hand-overs under way",
        "hand_overs",
    ),
    Table(("device", "node", "model", "stage", since()), "devices on their way back to the pool", "fences"),
    Table(("node", "model", until("ends", "until"), ("after", field("reason"))), "cool-downs", "cool_downs"),
    *COMMON,
)


# -- a publisher ---------------------------------------------------------------------------------------------------------

_KEPT = {
    "binding conditions": "binding_conditions",
    "taints of devices": "device_taints",
    "allowMultipleAllocations": "shared_devices",
}


def pools_status(head: Head, state: PoolState) -> dict[str, Any]:
    """A publisher's status as plain data, from its state and its log's head. Pools that differ from their decision come first."""
    rows = sorted(pool_rows(state), key=lambda row: row["as_decided"] is not False)
    alerts = [one for one in alerts_of(state.notes.last_emitted.rows) if not _is_over(state, one)]
    return {
        **part_data(head, state, state.config),
        "models": [model.model for model in state.models],
        "machines": len(state.fabric.machines_by_uuid),
        "fabrics": sorted(state.fabrics()),
        "listed_at": state.fabric.listed_at,
        "failing": [{"of": of, "text": text} for of, text in sorted(state.fabric.failures.rows.items())],
        "dropped": [name for name, kept in _KEPT.items() if not getattr(state.cluster.capabilities, kept)],
        "stocks": [
            {"fabric": one.fabric, "model": one.model, "free": one.free}
            for _, one in sorted(state.fabric.stocks.rows.items())
        ],
        "pools": [_pool(row) for row in rows],
        **trouble_data(state, alerts, lambda of: spoken(name_of(state, of, _POOLS))),
    }


def _is_over(state: PoolState, alert: Alerted) -> bool:
    """Whether an alert NOT_AS_WRITTEN is over, because the pool is as written again. The rules keep the alert until the next
    write of the pool, so that two writers that fight over a pool cause one alert."""
    key = pool_of(alert.of) if alert.reason == NOT_AS_WRITTEN else None
    row = state.pools.get(key) if key is not None else None
    return key is not None and (row is None or state.shows(key, row))


def _pool(row: Row) -> dict[str, Any]:
    """A pool without the names of its devices: there may be thousands."""
    return {key: value for key, value in row.items() if key not in ("names", "held_names")}


_POOLS = ("slices", "hosts", "claims", "resources")
_FLEET = ("workers", "loads", "claims", "slices", "resources")


def show_pools_status(data: Row, now: int, most: int) -> None:
    """Print a publisher's status; times count back from `now` (microseconds). Empty tables are left out."""
    for line in (*head_lines(data, Ages(now)), *_fabric_lines(data)):
        show(line)
    show_tables(data, now, most, _POOL_TABLES)


def _fabric_lines(data: Row) -> list[str]:
    dress = style()
    lines = [f"fabric: {counted(data['machines'], 'machine')} in {counted(len(data['fabrics']), 'fabric')}"]
    if not data["listed_at"]:
        lines.append(dress("the list of machines was not answered since the start", "bad"))
    lines += [dress(f"no good answer about {spoken(one['of'])}: {one['text']}", "bad") for one in data["failing"]]
    if data["dropped"]:
        lines.append(dress(f"the API server drops {', '.join(data['dropped'])} of slices", "bad"))
    published = {(pool["fabric"], pool["model"]) for pool in data["pools"]}
    unpublished = [one for one in data["stocks"] if (one["fabric"], one["model"]) not in published]
    lines += [f"{one['model']} in fabric {one['fabric']}: {one['free']} free, no pool" for one in unpublished]
    return lines


def _decided(row: Row, ages: Ages) -> str:
    wanted = "-" if row["wanted"] is None else str(row["wanted"])
    return f"{wanted} for {ages.since(row['since'])}, not seen yet" if row["as_decided"] is False else wanted


_POOL_TABLES = (
    Table(("pool", OWNER, *COUNTS, ("decided", _decided)), "pools", "pools"),
    *COMMON,
)


# -- an autoscaler -------------------------------------------------------------------------------------------------------


def groups_status(head: Head, state: Fleet) -> dict[str, Any]:
    """An autoscaler's status as plain data, from its state and its log's head."""
    config = state.config if state.config.uid else None
    return {
        **part_data(head, state, config),
        "servers": len(state.cluster.servers),
        "groups": group_rows(state),
        "servers_under_way": order_rows(state),
        "pods_waiting": pods_waiting(state),
        **trouble_data(state, alerts_of(state.notes.last_emitted.rows), lambda uid: name_of(state, uid, _FLEET)),
    }


def show_groups_status(data: Row, now: int, most: int) -> None:
    """Print an autoscaler's status; times count back from `now` (microseconds). Empty tables are left out."""
    servers = f"{counted(data['servers'], 'server')} in {counted(len(data['groups']), 'group')}"
    for line in (*head_lines(data, Ages(now)), servers):
        show(line)
    show_tables(data, now, most, _GROUP_TABLES)


_GROUP_TABLES = (
    Table(GROUPS.columns, "groups, as Cluster Autoscaler sees them", "groups"),
    Table(
        (("order or node", field("order")), "group", "state", since(), ("why", field("why", "-"))),
        "servers that come and go",
        "servers_under_way",
    ),
    Table(("pod", ("what helps", field("helps")), "why"), "pods that wait", "pods_waiting"),
    *COMMON,
)


# -- the command ---------------------------------------------------------------------------------------------------------

REFRESH = 2.0
"""Seconds between two reads of the log with --watch."""
_NEWS = 300
"""Number of events at the end of the log that are searched for news."""
_CLEAR = "\x1b[H\x1b[J"


@click.command("status", short_help="Show what scaler, publisher and autoscaler are doing.")
@source_arguments
@click.option("--check", "checking", is_flag=True, help="End with 2 when no process seems to write the log.")
@click.option("--watch", is_flag=True, help="Refresh every two seconds until Ctrl-C; JSON is one object per line.")
@click.option("--most", type=click.IntRange(min=0), default=20, show_default=True, help="Maximum rows of each table.")
@click.option(
    "--news", type=click.IntRange(min=0), default=5, show_default=True, help="Number of last changes and decisions."
)
@output_options("table", "json", "jsonl")
def status(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    checking: bool,
    watch: bool,
    most: int,
    news: int,
    form: str,
) -> int:
    """Show what the scaler is doing: its mode, who waits for a device, what waits and why, what is under way, and what is
    wrong. Where the database also holds the cluster's other logs, the publisher's pools and unanswered fabric queries
    follow, then the autoscaler's groups, servers under way and waiting pods.

    It only reads SOURCE, of a recording the end. The first line says how long ago the newest event is, and within which time
    a running process writes the next one; past that time it is red.
    """
    if checking and watch:
        raise InputError("--check and --watch do not go together", fix="leave one of them out")
    if watch:
        require_end("--watch")
    with Opened() as opened:
        views = _views(opened, opened.source(sources, url, name))
        while True:
            try:
                for view in views:
                    view.refresh()
            except LogUnavailable as error:
                if not watch:
                    raise
                note(str(error))
            else:
                silent = _show(views, most, news, "jsonl" if watch and form == "json" else form, again=watch)
            if not watch:
                return VERIFICATION if checking and silent else FINE
            time.sleep(REFRESH)


def _views(opened: Opened, source: Recording | Log) -> list[LogView]:
    """The source's log; after a scaler's the logs of the cluster's publisher and autoscaler, if the database has them."""
    if isinstance(source, Recording):
        return [LogView(written(source))]
    beside = logs_beside(source.source.name) if source.url else []
    there = {head.log for head in opened.database(source.url).heads()} if beside else set()
    others = [LogView(opened.log(source.url, name)) for name in beside if name in there]
    return [LogView(source.source), *others]


def written(recording: Recording) -> MemoryLog:
    """Replay a recording into a log in memory."""
    log = MemoryLog(recording.log_name, cluster=recording.identity(), recorded_at=0)
    epoch = log.take_epoch(0)
    for number, step in enumerate(recording.steps()):
        log.append([step.group(number)], epoch=epoch, recorded_at=step.at)
    return log


def logs_beside(log: str) -> list[str]:
    """Names of the publisher's and the autoscaler's logs of the same cluster; none unless `log` is a scaler's."""
    cluster, _, _ = log.rpartition("/")
    return [f"{cluster}/{one.name}" for one in (PUBLISHER, AUTOSCALER)] if component_of(log) is SCALER else []


class LogView:
    """A log's state, kept up to date: each refresh reads only new events. `news` are the last entries, newest last."""

    news: list[Entry]

    def __init__(self, log: EventSource) -> None:
        self._log = log
        self._position = self._stopped = 0
        self.component: Component[Any] = component_of(log.name)
        if self.component not in (SCALER, PUBLISHER, AUTOSCALER):
            what = f"the status of a {self.component.name} cannot be shown here"
            raise InputError(what, where=log.name, fix="use dds timeline or dds log verify on it")
        self.head: Head = log.head()
        self.live = isinstance(log, SqlLog) and is_live(self.head)
        self.state = self.component.state()
        self._begin_news()

    def refresh(self) -> None:
        """Read to the log's end. Raises LogUnavailable; the next call then starts from a checkpoint again."""
        head = self._log.head()
        if head.archived > self._position or head.checkpoint > self._stopped > 0:
            self._position = self._stopped = 0
        try:
            if head.position > self._position and not self._stopped:
                self._read_on(head, head.position)
        except LogUnavailable:
            self._position = 0  # the state may hold part of a group
            raise
        except Unfoldable as error:
            note(f"{self._log.name}: {error}; shown is the state before it")
            self._position, self._stopped = 0, error.position
            self._read_on(head, error.position - 1)
        self.head, self._position = head, head.position

    def _read_on(self, head: Head, until: int) -> None:
        begun = self.state if self._position else None
        after = self._position or max(head.checkpoint, 1) - 1
        rows = progress(self._log.read_lean(after, until), until - after, "folding")
        first = after + (begun is None)  # it may be a checkpoint, which is no news
        last: list[LeanEvent] = []
        self.state = fold_log(_until(rows, max(first, until - _NEWS), last), self.component, begun)
        if begun is None:
            self._begin_news()
        entries = [entry for moment in moments(last, self.component) for entry in self._teller.tell(moment)]
        self.news = [*self.news, *brief(entries)][-_NEWS:]
        self.state = fold_log(last, self.component, self.state)

    def _begin_news(self) -> None:
        """Start a new list of news; its names come from the state."""
        self._teller = self.component.telling.teller(None, self.state)
        self.news = []


def _until(rows: Iterable[LeanEvent], position: int, rest: list[LeanEvent]) -> Iterator[LeanEvent]:
    """Yield the rows up to the end of the group at a position; append all later rows to `rest`."""
    for row in rows:
        if rest or (row.position > position and issubclass(TYPES.get(row.type, Fact), Fact)):
            rest.append(row)
        else:
            yield row


def _data(view: LogView, most: int, now: int) -> dict[str, Any]:
    if view.component is PUBLISHER:
        told = pools_status(view.head, view.state)
    elif view.component is AUTOSCALER:
        told = groups_status(view.head, view.state)
    else:
        told = status_data(view.head, view.state, most)
    if not view.live:
        return {"live": False, "silent": None, "writes_every": None, "beat": None, **told}
    process = view.state.process
    shown = beat(view.head, view.state.policy, process.synced, process.stale)
    silent, every = shown.silent(now) // MICROSECONDS, shown.every // MICROSECONDS
    return {"live": True, "silent": silent or None, "writes_every": every or None, "beat": shown.words(now), **told}


def _newest(entries: Sequence[Entry], most: int) -> list[Entry]:
    """The last `most` entries, after as many earlier deletions of nodes at most: one is followed by an entry for all that it took
    along, which would push it out."""
    if not most:
        return []
    return [*[one for one in entries[:-most] if one.kind == NODE][-most:], *entries[-most:]]


def _show(views: Sequence[LogView], most: int, news: int, form: str, *, again: bool) -> bool:
    """Print the status; returns whether one of the logs is silent."""
    now = time.time_ns() // 1000
    entries = _newest(views[0].news, news)
    told = [_data(view, most, now) for view in views]
    silent = any(data["silent"] for data in told)
    if form != "table":
        whole = {**readable(told[0]), "news": [as_data(entry) for entry in entries]}
        whole |= {data["component"]: readable(data) for data in told[1:]}
        show_json(whole) if form == "json" else show_jsonl([whole])
        return silent
    if again:
        click.echo(_CLEAR, nl=False)  # click removes it if the output is no terminal
    for place, data in enumerate(told):
        if place:
            show("")
        shown = {PUBLISHER.name: show_pools_status, AUTOSCALER.name: show_groups_status}
        shown.get(data["component"], show_status)(data, now if data["live"] else data["at"], most)
    if entries:
        show("")
        show(style()("last changes and decisions", "name"))
        for line in render_lines(entries, width=width(), style=style(), names=True):
            show(line)
    return silent
