"""`dds status`: what a scaler is doing now, folded from its log; the scaler itself is never asked."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import click
import msgspec

from dds_adapters.sql.urls import as_url
from dds_commands.parameters import LOG_VARIABLE, NAME_VARIABLE
from dds_commands.places import default_path
from dds_commands.screen import note, progress, show, show_json, style, width
from dds_commands.sources import Opened
from dds_commands.status_data import readable, status_data
from dds_commands.status_text import show_status
from dds_commands.timelines import brief
from dds_core.errors import LogUnavailable
from dds_core.events import TYPES, Fact
from dds_core.log import EventLog, Head, LeanEvent
from dds_core.picture import Picture
from dds_core.replay import fold_log
from dds_core.timeline import Entry, as_data, moments, render_lines
from dds_core.timeline.entries import Teller
from dds_core.timeline.known import Known
from dds_core.timeline.scope import Everything

REFRESH = 2.0
"""Seconds between looks at the log."""
_NEWS = 300
"""Events at the end of the log in which news are looked for."""
_CLEAR = "\x1b[H\x1b[J"


@click.command("status", short_help="Tell what a scaler is doing now.")
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
    """Tell what a scaler is doing now: its mode, what waits and why, what is under way, and what is wrong.

    LOG is a database URL or the path of a SQLite file; by default DDS_LOG, else the file that `dds serve` writes. Only the
    log is read; whether the process runs, its /livez tells.
    """
    with Opened() as opened:
        view = LogView(opened.log(as_url(log or default_path()), name))
        while True:
            try:
                view.refresh()
            except LogUnavailable as error:
                if not watch:
                    raise
                note(str(error))
            else:
                _show(view, most, news, as_json=as_json, again=watch)
            if not watch:
                return
            time.sleep(REFRESH)


class LogView:
    """A log's picture that is kept up to date: only what is new is read. `news` are the last entries, newest last."""

    news: list[Entry]

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._position = 0
        self.head: Head = log.head()
        self.picture = Picture()
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
        self.picture = fold_log(_until(rows, max(first, head.position - _NEWS), last), begun)
        if begun is None:
            self._begin_news()
        entries = [entry for moment in moments(last) for entry in self._teller.tell(moment)]
        self.news = [*self.news, *brief(entries)][-_NEWS:]
        self.picture = fold_log(last, self.picture)

    def _begin_news(self) -> None:
        """What is told from here on speaks in the names that the picture knows."""
        known = Known()
        known.begin(self.picture)
        self._teller = Teller(known, Everything())
        self.news = []


def _until(rows: Iterable[LeanEvent], position: int, rest: list[LeanEvent]) -> Iterator[LeanEvent]:
    """The rows up to a position, and on to the end of the group that is there; what follows goes into `rest`."""
    for row in rows:
        if rest or (row.position > position and issubclass(TYPES.get(row.type, Fact), Fact)):
            rest.append(row)
        else:
            yield row


def _show(view: LogView, most: int, news: int, *, as_json: bool, again: bool) -> None:
    data: dict[str, Any] = status_data(view.head, view.picture, most)
    entries = view.news[-news:] if news else []
    if as_json:
        told = {**readable(data), "news": [as_data(entry) for entry in entries]}
        show(msgspec.json.encode(told).decode()) if again else show_json(told)
        return
    if again:
        click.echo(_CLEAR, nl=False)  # dropped where the output is no terminal
    show_status(data, time.time_ns() // 1000, most)
    if entries:
        show("")
        show(style()("last changes and decisions", "name"))
        for line in render_lines(entries, width=width(), style=style(), names=True):
            show(line)
