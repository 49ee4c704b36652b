"""`dds report`: write a log, or a part of it, as one HTML file. `dds ui` and `dds whatif` make their pages from the same data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Set
from io import TextIOWrapper
from typing import Any

import click

from dds_adapters.web.page import document
from dds_commands.parameters import Place, output_options, period, period_options, source_arguments
from dds_commands.screen import progress, show, show_json
from dds_commands.sources import Log, Opened, Recording, cut, require
from dds_core import __version__
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.overview import overview as servers
from dds_core.errors import InputError
from dds_core.scaler.component import SCALER
from dds_core.scaler.history import History
from dds_core.scaler.history import page as data
from dds_core.scaler.history.overview import overview
from dds_core.scaler.timeline import timelines
from dds_core.scaler.timeline.around import Around
from dds_core.timeline import Moment


@click.command("report", short_help="Write a report as one HTML file.")
@source_arguments
@period_options
@click.option("--beside", metavar="OTHER", help="Also draw the curves of this source, aligned at its beginning.")
@output_options("html", "json")
def report(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    since: str | None,
    until: str | None,
    beside: str | None,
    form: str,
) -> None:
    """Write a report: who waited, how long and for whom, what failed, how devices were used.

    \b
    dds report -o incident.html
    dds report incident.jsonl.gz --since 02:10 --until 02:40 -o incident.html

    The report is one HTML file that makes no network request. It shows claims and devices over time, the state at any
    instant, and timelines: of a large log only those of the longest waits and of what was not served, and it says so. Its
    address keeps the view.
    """
    if form == "html" and sys.stdout.isatty():
        raise InputError("a page is no text for a terminal", fix="name its file: -o incident.html")
    with Opened() as opened:
        source = opened.source(sources, url, name)
        require(source, SCALER, "give a scaler's with --name CLUSTER/scaler")
        first, last = period(source.span, since, until)
        made = report_of(passes(source), source.label, source.log_name, first, last)
        made["summary"]["notes"] += _of_servers(opened, source, first, last)
        if beside is not None:
            other = opened.source((beside,), None, None)
            require(other, SCALER, "give a scaler's")
            whole = period(other.span, None, None)
            there = report_of(passes(other), other.label, other.log_name, *whole)
            made["beside"] = beside_of(there, other.label)
        if form == "json":
            show_json(made)
        else:
            _show_page(document(f"{made['log']}: report", made))


def _of_servers(opened: Opened, source: Recording | Log, first: Place, last: Place) -> list[str]:
    """Sentences on what the cluster's autoscaler did in that time, if the database has its log."""
    if not isinstance(source, Log) or not source.url:
        return []
    name = f"{source.log_name.rpartition('/')[0]}/{AUTOSCALER.name}"
    if name not in {head.log for head in opened.database(source.url).heads()}:
        return []
    beside = Log(opened.log(source.url, name), source.label, source.url)
    end = last._replace(position=None)
    return servers(cut(beside.told(), *end), first.at or 0)


Passes = Callable[[Set[str] | None], Iterable[Moment]]
"""Gives the moments of a source: with None those that a history needs, else those that may concern other streams than these."""


def passes(source: Recording | Log) -> Passes:
    """Those of a recording are kept: its replay takes longest."""
    if isinstance(source, Log):
        return lambda elsewhere: (
            progress(source.happened(), None, "reading")
            if elsewhere is None
            else progress(source.near(elsewhere), None, "telling")
        )
    kept = list(progress(source.told(), None, "replaying"))
    return lambda _: kept


def report_of(told: Passes, where: str, log: str, first: Place, last: Place, origin: int = 0) -> dict[str, Any]:
    """The page's data, in two passes: the second makes timelines only for what the page has room for. `origin` goes to
    `page.report`. Raises InputError for an empty source."""
    history, around, since, read = History(), Around(), 0, 0
    for moment in cut(told(None), *last):
        history.take(moment)
        around.take(moment)
        read = moment.position
        if not since and first.begun(moment.at, moment.position):
            since = moment.at
    if not history.first:
        raise InputError("nothing happened in it yet", where=where, fix="give a log that holds events")
    since = since or history.now + 1
    about = data.subjects(history, since)
    # End where the first pass ended: the log may have grown.
    elsewhere = around.elsewhere(about)
    del around  # of a large log it takes as much memory as the page
    entries = timelines(cut(told(elsewhere), last.at, read), about, data.lives(history, about))
    meta = {"dds": __version__, "log": log, "summary": overview(history, since).data}
    return data.report(history, about, entries, meta, since, origin)


def beside_of(other: dict[str, Any], called: str) -> dict[str, Any]:
    """The part of a page's data that its curves need."""
    return {**other, "alerts": [], "accounts": [], "summary": {}, "log": called}


def _show_page(page: str) -> None:
    """Print the page in UTF-8, as its header declares; the hashes in its content security policy hold for exactly these bytes."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    show(page.rstrip("\n"))
