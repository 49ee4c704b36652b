"""`dds status`: what scaler and publisher are doing now, folded from their logs; they themselves are never asked."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click
import msgspec

from dds_adapters.sql.urls import as_url
from dds_commands.parameters import LOG_VARIABLE, NAME_VARIABLE
from dds_commands.places import default_path
from dds_commands.screen import note, progress, show, show_json, style, width
from dds_commands.sources import Opened
from dds_commands.status_data import readable, status_data
from dds_commands.status_pools import pools_status, show_pools_status
from dds_commands.status_text import show_status
from dds_commands.timelines import brief
from dds_core.component import Component, component_of
from dds_core.errors import LogUnavailable
from dds_core.events import TYPES, Fact
from dds_core.log import EventLog, Head, LeanEvent
from dds_core.publishing.component import PUBLISHER
from dds_core.replay import fold_log
from dds_core.timeline import Entry, as_data, moments, render_lines, telling_of

REFRESH = 2.0
"""Seconds between looks at the log."""
_NEWS = 300
"""Events at the end of the log in which news are looked for."""
_CLEAR = "\x1b[H\x1b[J"


@click.command("status", short_help="Tell what scaler and publisher are doing now.")
@click.argument("log", metavar="[LOG]", required=False, envvar=LOG_VARIABLE)
@click.option(
    "--name",
    metavar="CLUSTER/COMPONENT",
    envvar=NAME_VARIABLE,
    help=f"Name of the log, where a database holds several. Also by {NAME_VARIABLE}.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text; with --watch one object a line.")
@click.option("--watch", is_flag=True, help="Show it again every two seconds, until Ctrl-C.")
@click.option("--most", type=click.IntRange(min=0), default=20, show_default=True, help="Rows of each table, at most.")
@click.option("--news", type=click.IntRange(min=0), default=5, show_default=True, help="Last changes and decisions.")
def status(log: str | None, name: str | None, as_json: bool, watch: bool, most: int, news: int) -> None:
    """Tell what a scaler is doing now: its mode, what waits and why, what is under way, and what is wrong. Where the
    database holds the log of the cluster's publisher too, its pools, and what its fabric does not answer, follow.

    LOG is a database URL or the path of a SQLite file; by default DDS_LOG, else the file that `dds serve` writes. Only the
    log is read; whether the process runs, its /livez tells.
    """
    with Opened() as opened:
        views = _views(opened, as_url(log or default_path()), name)
        while True:
            try:
                for view in views:
                    view.refresh()
            except LogUnavailable as error:
                if not watch:
                    raise
                note(str(error))
            else:
                _show(views, most, news, as_json=as_json, again=watch)
            if not watch:
                return
            time.sleep(REFRESH)


def _views(opened: Opened, url: str, name: str | None) -> list[LogView]:
    """The log that is meant; behind a scaler's that of the publisher of the same cluster, where the database has it."""
    chosen = opened.log(url, name)
    beside = publisher_beside(chosen.name)
    heads = opened.database(url).heads() if beside else []
    return [LogView(chosen), *(LogView(opened.log(url, head.log)) for head in heads if head.log == beside)]


def publisher_beside(log: str) -> str:
    """The name of the log of the publisher beside a scaler's, "" for a publisher's own."""
    cluster, _, _ = log.rpartition("/")
    return f"{cluster}/{PUBLISHER.name}" if component_of(log) is not PUBLISHER else ""


class LogView:
    """A log's picture that is kept up to date: only what is new is read. `news` are the last entries, newest last."""

    news: list[Entry]

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._position = 0
        self.component: Component[Any] = component_of(log.name)
        self.head: Head = log.head()
        self.picture = self.component.picture()
        self._begin_news()

    def refresh(self) -> None:
        """Read on to the end. Raises LogUnavailable; the next call then begins anew."""
        head = self._log.head()
        if head.archived > self._position:
            self._position = 0
        try:
            if head.position > self._position:
                self._read_on(head)
        except LogUnavailable:
            self._position = 0  # part of a group may have been folded
            raise
        self.head, self._position = head, head.position

    def _read_on(self, head: Head) -> None:
        begun = self.picture if self._position else None
        after = self._position or max(head.checkpoint, 1) - 1
        rows = progress(self._log.read_lean(after, head.position), head.position - after, "folding")
        first = after + (begun is None)  # it may be a checkpoint, which is no news
        last: list[LeanEvent] = []
        self.picture = fold_log(_until(rows, max(first, head.position - _NEWS), last), begun, component=self.component)
        if begun is None:
            self._begin_news()
        entries = [entry for moment in moments(last, self.component) for entry in self._teller.tell(moment)]
        self.news = [*self.news, *brief(entries)][-_NEWS:]
        self.picture = fold_log(last, self.picture, component=self.component)

    def _begin_news(self) -> None:
        """What is told from here on speaks in the names that the picture knows."""
        self._teller = telling_of(self.component).teller(None, self.picture)
        self.news = []


def _until(rows: Iterable[LeanEvent], position: int, rest: list[LeanEvent]) -> Iterator[LeanEvent]:
    """The rows up to a position, and on to the end of the group that is there; what follows goes into `rest`."""
    for row in rows:
        if rest or (row.position > position and issubclass(TYPES.get(row.type, Fact), Fact)):
            rest.append(row)
        else:
            yield row


def _data(view: LogView, most: int) -> dict[str, Any]:
    if view.component is PUBLISHER:
        return pools_status(view.head, view.picture)
    return status_data(view.head, view.picture, most)


def _show(views: Sequence[LogView], most: int, news: int, *, as_json: bool, again: bool) -> None:
    entries = views[0].news[-news:] if news else []
    told = [_data(view, most) for view in views]
    if as_json:
        whole = {**readable(told[0]), "news": [as_data(entry) for entry in entries]}
        if len(told) > 1:
            whole["publisher"] = readable(told[1])
        show(msgspec.json.encode(whole).decode()) if again else show_json(whole)
        return
    if again:
        click.echo(_CLEAR, nl=False)  # dropped where the output is no terminal
    now = time.time_ns() // 1000
    for place, data in enumerate(told):
        if place:
            show("")
        (show_pools_status if data["component"] == PUBLISHER.name else show_status)(data, now, most)
    if entries:
        show("")
        show(style()("last changes and decisions", "name"))
        for line in render_lines(entries, width=width(), style=style(), names=True):
            show(line)
