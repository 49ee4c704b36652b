"""`dds timeline`: why a claim, a device or a node went through what it did; `dds diagram`: the two lives as pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from dds_commands.parameters import end_options, output_options, period, since_option, source_arguments
from dds_commands.screen import progress, show, show_data, show_json, show_jsonl, style, width
from dds_commands.sources import Log, Opened, Source, cut
from dds_core.errors import InputError
from dds_core.lifecycle import CLAIM_TABLE, DEVICE_TABLE, mermaid
from dds_core.scaler.component import SCALER
from dds_core.timeline import (
    LEGEND,
    AmbiguousSubject,
    Entry,
    NoSuchSubject,
    Subject,
    as_data,
    path_diagram,
    render_lines,
)
from dds_core.timeline.telling import ACT, DECISION, REST


@click.command("timeline", short_help="Tell what happened to something, and why.")
@click.argument("subject", metavar="CLAIM|DEVICE|NODE|POOL")
@source_arguments
@since_option
@end_options
@output_options("table", "json", "jsonl", "mermaid")
def timeline(
    subject: str,
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    since: str | None,
    at: str | None,
    until: str | None,
    form: str,
) -> None:
    """Tell what happened to a claim, a device or a node, when, how long it took, and why.

    Name a claim by NAMESPACE/NAME or uid, a device by UUID, resource or uid, a node by its name; the beginning of a uid
    or UUID will do. SOURCE is a recording, an export, archives and the rest, or a database; by default the log.

    Each change comes with its instant, the time spent in the state before, and its cause; under it stand the facts that
    led to it and what dds decided, or would have decided in mode observe.

    The log of a publisher (--name CLUSTER/publisher) tells of pools, nodes, and machines of the fabric by UUID or name.
    """
    with Opened() as opened:
        source = opened.source(sources, url, name)
        found = find(source, subject)
        if form == "mermaid":
            require_path(source)
        first, last = period(source.span, since, at, until)
        entries = source.component.told.timeline(cut(source.told(), *last), found)
        show_timeline((one for one in entries if first.begun(one.at, one.position)), found, form)


def find(source: Source, text: str) -> Subject:
    """What is meant, such as a claim or a pool. Raises NoSuchSubject or AmbiguousSubject, with the source's name."""
    directory = source.component.told.directory().read(progress(source.named(), None, "looking"))
    try:
        return directory.find(text)
    except NoSuchSubject as error:
        first = source.source.span()[0] if isinstance(source, Log) else 1
        archived = f"; positions before {first} were archived, give the archive as well" if first > 1 else ""
        pools = "; pools are in the publisher's log, --name CLUSTER/publisher" if _may_be_pool(source, text) else ""
        raise NoSuchSubject(error.what, where=source.label, fix=f"{error.fix}{archived}{pools}") from None
    except AmbiguousSubject as error:
        raise AmbiguousSubject(error.what, where=source.label, fix=error.fix) from None


def _may_be_pool(source: Source, text: str) -> bool:
    """Whether a pool was looked for where none is told of."""
    return source.component is SCALER and "-fabric" in text


def require_path(source: Source) -> None:
    """Raises InputError for a source that tells of no path through states, so that none can be drawn."""
    if source.component is not SCALER:
        raise InputError(
            "a publisher's log holds no path that could be drawn",
            where=source.label,
            fix="use --format table, json or jsonl",
        )


def brief(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Every change and decision, with what was done and not what was seen."""
    for entry in entries:
        if entry.kind != REST:
            yield entry._replace(notes=tuple(note for note in entry.notes if note.kind in (ACT, DECISION)))


def show_timeline(entries: Iterator[Entry], subject: Subject, form: str) -> None:
    """The entries in one of the forms."""
    match form:
        case "json":
            show_json(
                {
                    "kind": subject.kind,
                    "name": subject.name,
                    "uids": sorted(subject.uids),
                    "entries": [as_data(entry) for entry in entries],
                }
            )
        case "jsonl":
            show_jsonl(as_data(entry) for entry in entries)
        case "mermaid":
            show(path_diagram(entries).rstrip("\n"))
        case _:
            show_text(entries, subject)


def show_text(entries: Iterable[Entry], subject: Subject) -> None:
    """The whole timeline of a subject, for people."""
    dress = style()
    uids = f"  ({', '.join(sorted(subject.uids))})" if subject.kind == "claim" else ""
    show(dress(f"{subject.kind} {subject.name}{uids}", "name"))
    show(dress(LEGEND, "fact"))
    count = 0
    named = subject.kind not in ("claim", "device") or len(subject.uids) > 1
    for line in render_lines(entries, width=width(), style=dress, names=named):
        count += 1
        show(line)
    if not count:
        show("nothing happened to it")


@click.command("diagram", short_help="Print a life as a state diagram.")
@click.argument("life", type=click.Choice(["claim", "device"]), default="claim")
@output_options("mermaid", "json", "jsonl")
def diagram(life: str, form: str) -> None:
    """Print the life of a claim (the default) or of a device as a mermaid state diagram, or its table as JSON.

    It is made from the table that the engine itself uses.
    """
    table = CLAIM_TABLE if life == "claim" else DEVICE_TABLE
    if form == "mermaid":
        show(mermaid(table).rstrip("\n"))
    else:
        show_data((edge._asdict() for edge in table), form)
