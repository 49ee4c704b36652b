"""`dds incident`: one screen on what waited and why, what failed, what it cost, and what to do first."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap

import click

from dds_commands.costs import cost_of, price_option, priced, read_rates
from dds_commands.parameters import Place, output_options, period, period_of_time_options, source_arguments
from dds_commands.screen import show, show_json, style, width
from dds_commands.sources import Log, Opened, Source, go_on, history_of
from dds_core.errors import InputError
from dds_core.scaler.blame import POOL
from dds_core.scaler.history import BOUND
from dds_core.scaler.history.incident import Incident
from dds_core.scaler.unallocated import unallocated
from dds_core.scaler.waiting import waiting_rows

_LINES = 2
"""A sentence is cut after so many lines, so that all of it fits on a screen."""


@click.command("incident", short_help="Show on one screen what waited, failed, cost, and what to do first.")
@source_arguments
@period_of_time_options
@output_options("table", "json", "markdown")
@price_option
def incident(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    since: str | None,
    until: str | None,
    price_file: str | None,
    form: str,
) -> None:
    """Show an incident on one screen: what waited longest and why, what failed and who did it, which devices were ordered in
    vain, what it cost, alerts, and what to do first.

    \b
    dds incident
    dds incident incident.jsonl.gz --since 02:10 --until 02:40

    With --since only what happened since then counts: of a wait that began earlier the part that lies in the period ("40 s of
    3 min"), of devices those that were ordered in it. A log is read from its last checkpoint before that instant.
    """
    rates = read_rates(price_file, None)
    with Opened() as opened:
        source = opened.source(sources, url, name)
        first, last = period(source.span, since, until)
        if first.position is not None:
            raise InputError("--since wants an instant here, not a position", fix="give one, or a duration such as 2h")
        history = history_of(_begun(source, first), last)
        if not history.first:
            raise InputError("nothing happened in it yet", where=source.label, fix="give a log that holds events")
        go_on(history, source, last)
        found = Incident(history, first.at or 0)
        found.whys = _whys(source, last, found)
    cost = cost_of(found.by_model, rates)
    title = source.log_name + ", where dds only observes" * history.observes
    if form == "json":
        money = {"cost": cost, "currency": rates.currency or None}
        show_json({"log": source.log_name, "observes": history.observes, **found.data(), **money})
        return
    sections = found.sections(priced(cost, rates) if rates.prices else "")
    _show_markdown(title, found.head(), sections) if form == "markdown" else _show(title, found.head(), sections)


def _begun(source: Source, first: Place) -> Source:
    """The source, read from the last checkpoint before the period."""
    if not isinstance(source, Log) or first.at is None:
        return source
    return source.begun_at(source.checkpoint(first.at, None))


def _whys(source: Source, last: Place, found: Incident) -> dict[str, str]:
    """What claims wait for, by uid: those that wait at the end, and the one that waited longest, in the middle of its wait for
    the pool if that took most of it."""
    whys: dict[str, str] = {}
    worst = found.waiting[0] if found.waiting else None
    if worst is not None and not worst.waits:
        waits = (span for span in worst.spans if span.stage != BOUND)
        longest = max(waits, key=lambda span: span.length(found.now, found.since))
        if longest.stage == POOL:
            state = source.state((max(longest.since, found.since) + longest.until) // 2, None)
            whys = {one.uid: one.why for one in unallocated(state) if one.uid == worst.uid}
    if any(one.waits for one in found.waiting):
        state = source.state(*last)
        whys |= {one.uid: one.why for one in waiting_rows(state)}
        whys |= {one.uid: one.why for one in unallocated(state)}
    return whys


def _show(title: str, head: list[str], sections: Mapping[str, list[str]]) -> None:
    dress, margin = style(), max(map(len, sections)) + 2
    show(dress(title, "name"))
    for line in head:
        show(_fitting(line, 0))
    for name, lines in sections.items():
        for place, line in enumerate(lines):
            show(dress((name if not place else "").ljust(margin), "name") + _fitting(line, margin))


def _fitting(line: str, margin: int) -> str:
    """The sentence in `_LINES` lines at most, behind a margin."""
    room = width() - margin
    pieces = wrap(line, room, subsequent_indent="  ", break_on_hyphens=False, max_lines=_LINES, placeholder=" …")
    return f"\n{' ' * margin}".join(pieces)


def _show_markdown(title: str, head: list[str], sections: Mapping[str, list[str]]) -> None:
    show(f"# {title}\n\n" + "\n".join(head))
    for name, lines in sections.items():
        show(f"\n## {name.capitalize()}\n\n" + "\n".join(f"- {line}" for line in lines))
