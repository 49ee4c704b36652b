"""`dds log`: import, export, verify, repair, archive, tail, redact and anchor a log."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import click

from dds_adapters.jsonl import JsonlLog, archive, export, is_log_file, redact_file
from dds_adapters.kubernetes import EVALUATOR
from dds_adapters.sql import Database, SqlLog, follow, upgrade
from dds_adapters.sql.urls import as_url, is_url
from dds_commands.parameters import (
    STANDARD,
    Place,
    log_option,
    output_option,
    output_options,
    period,
    period_options,
    place,
    policy_read,
    require_end,
    required_log,
    source_arguments,
    strict_option,
    without_password,
)
from dds_commands.recorded import write_recording
from dds_commands.running import FINE, VERIFICATION
from dds_commands.screen import counted, note, position_bar, show, show_json, show_jsonl, style
from dds_commands.sources import Log, Opened, Recording
from dds_commands.verifying import MOST_JOBS, verified
from dds_core import __version__
from dds_core.component import Component, component_of
from dds_core.engine import EngineOf, checkpoint
from dds_core.errors import DdsError, InputError, NotALogFile, Unfoldable
from dds_core.events import TYPES, Fact, LogRepaired
from dds_core.log import (
    LOG_OPENED,
    Anchor,
    ChainReport,
    Envelope,
    EventSource,
    Head,
    JoinedSource,
    LeanEvent,
)
from dds_core.log.codec import BadLine, decode_anchor, encode_anchor
from dds_core.replay import Span, VerifyReport, event_of, fold_log
from dds_core.scaler.policy import read_policy
from dds_core.timeline.instants import rfc3339
from dds_core.timeline.telling import event_words

_NEWEST = 20


@click.group("log", short_help="Import, export, verify, repair, archive, show and redact a log.")
def log() -> None:
    """Import, export, verify, repair, archive, follow, redact and anchor a log."""


@log.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--anchor", "anchor_file", metavar="FILE", help="File of anchors that the log must match.")
@click.option("--policy", "policy_file", metavar="FILE", help="Policy under which the rules decide on a recording.")
@click.option("--checkpoint", is_flag=True, help="Append a checkpoint to the log of a recording.")
@log_option
def log_import(
    files: tuple[str, ...],
    anchor_file: str | None,
    policy_file: str | None,
    checkpoint: bool,
    url: str | None,
    name: str | None,
) -> None:
    """Import a log from an export, from archives and the rest, or from a recording.

    Give archives oldest first. All of it is imported or nothing. On a recording the rules decide in mode observe; its log takes
    the recording's name or that of --name. A SQLite file that is not there is made.
    """
    where = required_log(url)
    with Opened() as opened:
        paths = [opened.file(one) for one in files]
        source = opened.source(paths, None) if len(paths) == 1 and not is_log_file(paths[0]) else None
        if isinstance(source, Recording):
            if anchor_file is not None:
                raise InputError("a recording has no anchors", where=source.label, fix="leave --anchor out")
            source.policy = policy_read(opened.file(policy_file) if policy_file else None, read_policy) or source.policy
            report = write_recording(source, _database(opened, url), name, checkpoint=checkpoint)
        else:
            if policy_file is not None or checkpoint:
                what = "--policy and --checkpoint are for a recording"
                raise InputError(what, where=files[0], fix="leave them out")
            report = _import(opened, paths, anchor_file, url, name)
    show(f"imported log {report.log}, positions {report.first} to {report.last}, into {without_password(where)}")


def _import(
    opened: Opened, paths: list[str], anchor_file: str | None, url: str | None, name: str | None
) -> ChainReport:
    source = JoinedSource(list(map(_log_file, paths)))
    if name is not None and name != source.name:
        raise InputError(f"it holds log {source.name}, not {name}", where=paths[0], fix="leave --name out")
    first, last = source.span()
    anchors = _anchors(opened, anchor_file)
    with position_bar(last, "importing") as bar:
        return _database(opened, url).import_log(source.read(first - 1), anchors=anchors, progress=bar)


def _database(opened: Opened, url: str | None) -> Database:
    """The database that is written to. A SQLite file that is not there is made."""
    if url and not is_url(url) and not os.path.exists(url):
        upgrade(as_url(url))
    return opened.database(required_log(url))


def _log_file(path: str) -> JsonlLog:
    try:
        return JsonlLog(path)
    except NotALogFile as error:
        raise NotALogFile(error.what, where=path, fix="give an export, an archive, or one recording alone") from None


@log.command("export")
@click.argument("names", metavar="FILE | [SOURCE]...", nargs=-1)
@output_option
@click.option("--until", type=click.IntRange(min=1), metavar="POSITION", help="Last position to export.")
@log_option
def log_export(
    names: tuple[str, ...], output: str | None, until: int | None, url: str | None, name: str | None
) -> None:
    """Export the log to a new file of JSON lines.

    The file is FILE or that of -o, gzipped if its name ends in .gz. With -o, SOURCE names what to export: a database, or
    archives and then the rest.

    Events keep their stored form and hashes; the chain is verified on the way. The file appears complete or not at all; an
    existing file is not replaced.
    """
    if output is None and len(names) != 1:
        raise click.UsageError("name the new file", click.get_current_context())
    sources = names if output is not None else ()
    with Opened() as opened, TemporaryFile() as whole:
        source = _log(opened, sources, url, name).source
        file = names[0] if output is None else output
        with position_bar(source.head().position, "exporting") as bar:
            report = export(source, whole if output == STANDARD else file, until=until, progress=bar)
        said = f"exported log {report.log}, positions {report.first} to {report.last}"
        if output == STANDARD:
            whole.seek(0)
            shutil.copyfileobj(whole, sys.stdout.buffer)
            note(said)
        else:
            show(f"{said}, to {file}")


def _log(opened: Opened, sources: tuple[str, ...], url: str | None, name: str | None) -> Log:
    """The log that the options name. Raises InputError for a recording."""
    source = opened.source(sources, url, name)
    if not isinstance(source, Log):
        fix = "use dds replay on it, or dds log import to make a log of it"
        raise InputError("a recording is no log", where=source.label, fix=fix)
    return source


@log.command("verify")
@source_arguments
@click.option("--anchor", "anchor_file", metavar="FILE", help="File of anchors that the log must match.")
@click.option(
    "--jobs", type=click.IntRange(1, 64), help=f"Parallel processes; by default one per core, at most {MOST_JOBS}."
)
@strict_option
@output_options("table", "json")
def log_verify(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    anchor_file: str | None,
    jobs: int | None,
    strict: bool,
    form: str,
) -> int:
    """Verify that a log is unchanged, and that the rules make every decision in it.

    SOURCE is not a recording. A difference is reported with its position, and the exit code is 2. What another version wrote is
    compared too, but its differences only fail with --strict: to judge such a span, install the version that is named.

    A long log in a database is verified in several processes, each from a checkpoint to another.
    """
    with Opened() as opened:
        log = _log(opened, sources, url, name)
        head = None
        if isinstance(log.source, SqlLog):
            head = log.source.head()
            log.source.check_end()
        report, check = verified(log, head, _anchors(opened, anchor_file), jobs)
        if report.ok:
            check.report()
        if head is not None:
            check.check_head(head)
        return _judge(report, log.label, form, strict=strict)


@log.command("archive")
@click.argument("file", metavar="FILE")
@click.option(
    "--checkpoint",
    type=click.IntRange(min=1),
    metavar="POSITION",
    help="Archive up to the checkpoint at this position; by default the newest.",
)
@log_option
def log_archive(file: str, checkpoint: int | None, url: str | None, name: str | None) -> None:
    """Move the events up to a checkpoint from the log to a new file.

    The file is written, read back and verified before events are removed. After an interruption repeat the same command.
    """
    with Opened() as opened:
        source = opened.log(required_log(url), name)
        last = source.head().checkpoint if checkpoint is None else checkpoint
        with position_bar(last, "archiving") as bar:
            report = archive(source, file, checkpoint=checkpoint, progress=bar)
    show(f"archived log {report.log}, positions {report.first} to {report.last}, to {file}")


@log.command("tail")
@source_arguments
@period_options
@click.option(
    "-n",
    "--events",
    "count",
    type=click.IntRange(min=0),
    help=f"Number of newest events; by default {_NEWEST}, with --since all.",
)
@click.option("-f", "--follow", "following", is_flag=True, help="Also show new events, until Ctrl-C.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only events of this type; repeatable.")
@click.option("--stream", metavar="UID", help="Only events of this stream.")
@output_options("table", "json", "jsonl")
def log_tail(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    since: str | None,
    until: str | None,
    count: int | None,
    following: bool,
    types: tuple[str, ...],
    stream: str | None,
    form: str,
) -> None:
    """Show the newest events of a log in a sentence each, and follow it. JSON has them as they are stored.

    With --follow SOURCE is a database, and JSON is one object per line.
    """
    if following:
        require_end("--follow")
    if following and until:
        raise InputError("what is followed has no end", fix="leave out --follow or --until")
    with Opened() as opened:
        log = _log(opened, sources, url, name)
        source, head = log.source, log.source.head()
        wanted = [_known_type(one) for one in types] or None
        if count is None and since is None:
            count = _NEWEST
        first, last = (place(since, log.span), Place()) if following else period(log.span, since, until)
        if count is not None and first == last == Place():
            after, newest = _before_newest(source, head, count, wanted, stream), head.position
        else:
            told = source.read_lean(log.after, head.position, stream, wanted)
            after, newest = _between(told, first, last, count, head)
        if not following:
            _print_rows(source.read(after, newest, stream, wanted), form, log)
        elif isinstance(source, SqlLog):
            _print_rows(follow(source, after, types=wanted, stream=stream), "jsonl" if form == "json" else form, log)
        else:
            raise InputError("nothing is appended to a file", where=f"log {head.log}", fix="leave --follow out")


def _known_type(text: str) -> str:
    """The type in its exact spelling, whatever the case. Raises InputError: a typing error would look like "nothing happened"."""
    known = {one.lower(): one for one in (*TYPES, LOG_OPENED)}
    if text.lower() not in known:
        near = difflib.get_close_matches(text.lower(), known, n=3, cutoff=0.4)
        every = f"give one of {', '.join(sorted(known.values()))}"
        fix = f"did you mean {' or '.join(known[one] for one in near)}?" if near else every
        raise InputError(f"{text!r} is no type of event", fix=fix)
    return known[text.lower()]


def _before_newest(source: EventSource, head: Head, count: int, types: list[str] | None, stream: str | None) -> int:
    """The position before the newest `count` events of these types and this stream; reads back in growing steps."""
    back = count
    while back > 0:
        after = max(head.archived, head.position - back)
        found = deque((row.position for row in source.read_lean(after, head.position, stream, types)), maxlen=count)
        if len(found) == count:
            return found[0] - 1
        if after == head.archived:
            return after
        back *= 8
    return head.position


def _between(rows: Iterable[LeanEvent], first: Place, last: Place, count: int | None, head: Head) -> tuple[int, int]:
    """Of the newest `count` rows between two places: the position before the first, and that of the last."""
    found = deque(
        (
            row.position
            for row in rows
            if first.begun(row.occurred_at, row.position) and not last.ended(row.occurred_at, row.position)
        ),
        maxlen=count,
    )
    return (found[0] - 1, found[-1]) if found else (head.position, head.position)


_FACTS = [name for name, kind in TYPES.items() if issubclass(kind, Fact)]


class _Sentences:
    """Puts rows into words, one after the other. For names it reads the facts before them, from the newest checkpoint on."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known = log.component.telling.teller(None, None).known
        self._read = -1

    def of(self, row: Envelope) -> str:
        if self._read < 0:
            self._read = self._log.checkpoint(None, row.position) - 1
        if self._read < row.position - 1:
            for one in self._log.source.read_lean(self._read, row.position - 1, types=_FACTS):
                self._words(one)
        self._read = row.position
        return self._words(row)

    def _words(self, row: Envelope | LeanEvent) -> str:
        if row.data is None:
            return "(erased)"
        try:
            event = event_of(row, self._log.component)
            return event_words(event, self._known) if event is not None else ""
        except DdsError:  # of another version, or not from dds: as it is stored
            return row.data.decode(errors="replace")


def _print_rows(rows: Iterable[Envelope], form: str, log: Log) -> None:
    if form == "json":
        show_json(list(map(_row_data, rows)))
        return
    dress, sentences = style(), _Sentences(log)
    for row in rows:
        if form == "jsonl":
            show_jsonl([_row_data(row)])
        else:
            line = f"{row.position:>8}  {rfc3339(row.occurred_at)}  {row.type}"
            show(f"{dress(line, 'name')}  {sentences.of(row)}".rstrip())
        sys.stdout.flush()


def _row_data(row: Envelope) -> dict[str, Any]:
    return {
        "position": row.position,
        "at": rfc3339(row.occurred_at),
        "type": row.type,
        "stream": row.stream,
        "version": row.version,
        "from": row.from_state,
        "to": row.to_state,
        "event_id": row.event_id,
        "cause": row.causation_id,
        "data": row.data.decode() if row.data is not None else None,
    }


@log.command("redact")
@click.option(
    "--position", "positions", type=click.IntRange(min=1), multiple=True, help="Position of an event; repeatable."
)
@click.option("--stream", metavar="UID", help="All events of this stream.")
@click.option("--file", "path", metavar="FILE", help="Redact this export or archive instead of a log.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@log_option
def log_redact(
    positions: tuple[int, ...], stream: str | None, path: str | None, yes: bool, url: str | None, name: str | None
) -> None:
    """Erase the data of events for good. The hash chain stays valid; decisions that used the data can no longer be verified.

    Archives, exports and checkpoints may hold the same data: redact them too.
    """
    if not positions and stream is None:
        raise InputError("nothing was chosen", fix="give --position or --stream")
    where = path if path is not None else without_password(required_log(url))
    if not yes:
        if not sys.stdin.isatty():
            raise InputError("erasing cannot be undone and nobody is there to ask", where=where, fix="give --yes")
        click.confirm(f"Erase data in {where} for good?", abort=True, err=True)
    if path is not None:
        erased = redact_file(path, positions=positions, stream=stream)
    else:
        with Opened() as opened:
            erased = opened.log(required_log(url), name, None).redact(positions=positions, stream=stream)
    if not erased:
        what = "nothing was erased: no event that was chosen is there with its data"
        raise InputError(what, where=where, fix="look up positions and streams with 'dds log tail'")
    show(f"erased the data of {counted(erased, 'event')} in {where}")


@log.command("repair")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@log_option
def log_repair(yes: bool, url: str | None, name: str | None) -> None:
    """Let a log that cannot be folded to its end go on from the last state that can.

    Nothing is removed: a fact says what is passed over, and a checkpoint of that state follows. A running dds is fenced off; the
    next one lists the cluster and goes on. A log that can be folded is left as it is.
    """
    where = without_password(required_log(url))
    with Opened() as opened:
        source = opened.log(required_log(url), name, None)
        component: Component[Any] = component_of(source.name)
        head = source.head()
        begin = max(0, head.checkpoint - 1)
        try:
            fold_log(source.read_lean(begin, head.position), component)
        except Unfoldable as error:
            stop = error
        else:
            show(f"log {source.name} in {where} can be folded to its end, {head.position}: nothing was changed")
            return
        passed = f"positions {stop.position} to {head.position} of log {source.name}"
        if not yes:
            if not sys.stdin.isatty():
                raise InputError(
                    f"{passed} would be passed over and nobody is there to ask", where=where, fix="give --yes"
                )
            click.confirm(f"Pass over {passed} ({stop.reason})?", abort=True, err=True)
        now = time.time_ns() // 1000
        epoch = source.take_epoch(now)
        head = source.head()  # now nothing more comes
        engine: EngineOf[Any] = EngineOf(component, fold_log(source.read_lean(begin, stop.position - 1), component))
        step = engine.feed(LogRepaired(stop.position, head.position, stop.reason), now)
        mended = [step.group(0), checkpoint(component, engine.state, now, __version__).group(1)]
        rows = source.append(mended, epoch=epoch, recorded_at=now)
    show(f"repaired at position {rows[0].position}: {passed} are passed over; start dds, which lists the cluster")


@log.command("anchor")
@source_arguments
@click.option("--position", type=click.IntRange(min=1), help="Position of the event; by default the newest.")
@output_options("json")
def log_anchor(sources: tuple[str, ...], url: str | None, name: str | None, position: int | None, form: str) -> None:
    """Print position and hash of an event. Kept elsewhere, they prove a cut tail or a rewritten chain."""
    with Opened() as opened:
        source = _log(opened, sources, url, name).source
        head = source.head()
        anchor = Anchor(head.log, head.position, head.hash)
        if position is not None and position != head.position:
            found = next(iter(source.read(position - 1, position)), None)
            if found is None:
                raise InputError(f"it ends at position {head.position}", where=f"log {head.log}", fix="give one before")
            anchor = Anchor(head.log, position, found.hash)
    show(encode_anchor(anchor).decode())


def _anchors(opened: Opened, named: str | None) -> list[Anchor]:
    if named is None:
        return []
    path = opened.file(named)
    try:
        lines = Path(path).read_bytes().splitlines()
        return [decode_anchor(line) for line in lines if line.strip()]
    except OSError as error:
        raise InputError(error.strerror or str(error), where=path, fix="check path and permissions") from None
    except BadLine as error:
        raise InputError(f"it holds no anchors ({error})", where=path, fix="give what dds log anchor printed") from None


# -- verification --------------------------------------------------------------------------------------------------------


def _judge(report: VerifyReport, label: str, form: str, *, strict: bool) -> int:
    """Print the result. Returns VERIFICATION if a decision differs from what the rules decide (if `strict`, also one of another
    version), else FINE."""
    wrong = report.differences + (report.told if strict else [])
    _show_report(report, label, form, ok=not wrong)
    if not wrong:
        return FINE
    first, many = wrong[0].position, len(wrong)
    what = f"{many} decisions differ from the rules, the first at position {first}"
    fix = "compare with an export or anchor made before, and with the version of dds that wrote it"
    note(f"{label}: {what if many > 1 else f'position {first}: what was decided differs from the rules'}; {fix}")
    return VERIFICATION


def _show_report(report: VerifyReport, label: str, form: str, *, ok: bool) -> None:
    if form == "json":
        show_json(_report_data(report, label, ok=ok))
        return
    dress = style()
    span = f"positions {report.first} to {report.last}" if report.events else "no events"
    show(f"{label}: {counted(report.events, 'event')} in {counted(report.groups, 'group')}, {span}")
    others = sorted(set(report.evaluators) - {"", EVALUATOR})
    if others:
        note(f"the log was written with {', '.join(others)} for selectors; here it is {EVALUATOR}")
    for first, last in report.unjudged:
        show(f"positions {first} to {last} cannot be judged: data were erased")
    for repair in report.repaired:
        show(f"positions {repair.stops} to {repair.last} were passed over by a repair: {repair.reason}")
    for part in report.spans if any(not part.same for part in report.spans) else ():
        show(_judged(part))
    for difference in report.told[:SHOWN]:
        show(str(difference))
    if len(report.told) > SHOWN:
        show(f"and more of that kind, {len(report.told)} of them with --format json")
    for difference in report.differences:
        show(dress(str(difference), "bad"))
    if ok:
        what = (
            "nothing differs but what other rules decided"
            if report.told
            else "every decision is the one that the rules make"
        )
        show(dress(f"the chain holds, and {what}", "good"))


SHOWN = 5
"""Differences of other code that are shown."""


def _judged(span: Span) -> str:
    """How what one version wrote was judged."""
    writer = f"dds {span.code}" if span.code else "an unknown version"
    other = f"other rules, fingerprint {span.fingerprint[:12] or 'unknown'}"
    rules = "the same rules as this version" if span.same else other
    differ = f"{counted(span.differences, 'difference')} from this version" if span.differences else "no difference"
    install = f"; to judge them, install {writer}" if span.differences and span.code and not span.same else ""
    return f"positions {span.first} to {span.last}, by {writer} ({rules}): {differ}{install}"


def _report_data(report: VerifyReport, label: str, *, ok: bool) -> dict[str, Any]:
    return {
        "source": label,
        "ok": ok,
        "events": report.events,
        "groups": report.groups,
        "first": report.first,
        "last": report.last,
        "spans": [asdict(span) for span in report.spans],
        "evaluators": sorted(set(report.evaluators) - {""}),
        "unjudged": [list(span) for span in report.unjudged],
        "repaired": [[repair.stops, repair.last] for repair in report.repaired],
        "differences": [asdict(one) for one in report.differences],
        "told": [asdict(one) for one in report.told],
    }
