"""`dds timeline`: what happened to a claim, device or node, and why. `dds diagram`: the lifecycles of claim and device, and
the stages of what dds writes in several steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from textwrap import fill
from types import MappingProxyType
from typing import Any

import click

from dds_commands.parameters import output_options, period, period_options, source_arguments
from dds_commands.screen import progress, show, show_data, show_json, show_jsonl, style, width
from dds_commands.sources import Log, Opened, Source, cut, go_on
from dds_core.component import Component
from dds_core.errors import InputError
from dds_core.lifecycle import CLAIM_TABLE, DEVICE_TABLE, mermaid
from dds_core.scaler.component import SCALER
from dds_core.scaler.history import History
from dds_core.scaler.history.claims import PodHistory
from dds_core.scaler.history.data import claim_data, device_data
from dds_core.scaler.history.words import devices_summary, folded, summary
from dds_core.scaler.protocols import PROTOCOLS
from dds_core.scaler.unallocated import Unallocated, unallocated
from dds_core.scaler.waiting import is_going
from dds_core.timeline import (
    LEGEND,
    AmbiguousSubject,
    Entry,
    Moment,
    NoSuchSubject,
    Subject,
    as_data,
    path_diagram,
    render_lines,
)
from dds_core.timeline.instants import rfc3339
from dds_core.timeline.telling import ACT, DECISION, ERASED, REST


@click.command("timeline", short_help="Show what happened to a claim, device or node, and why.")
@click.argument("subject", metavar="SUBJECT")
@source_arguments
@period_options
@output_options("table", "json", "jsonl", "mermaid")
@click.option("--full", is_flag=True, help="Also show every fact, and each of several attempts that ended alike.")
def timeline(
    subject: str,
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    since: str | None,
    until: str | None,
    form: str,
    full: bool,
) -> None:
    """Show what happened to a claim, device or node: when, how long it took, and why.

    SUBJECT is a claim or pod (NAMESPACE/NAME or uid), a device (UUID, resource or uid), a node, a request, a model or a
    fabric. The beginning of a name is enough; pod/NAME, node/NAME and so on choose the kind. In the log of a publisher
    (--name CLUSTER/publisher) it is a pool, a node, or a machine by UUID or name.

    Of a claim the outcome comes first: its wait, attempts, where the time went, who caused it, and what would have helped.
    Then each change with its instant, the time in the state before, the time since the pod came, and its cause; below it
    what dds decided, or would have decided in mode observe, and what others did in its place.
    """
    with Opened() as opened:
        source = opened.source(sources, url, name)
        found = find(source, subject)
        if form == "mermaid":
            require_path(source)
        first, last = period(source.span, since, until)
        account = Account(source.component, cut(source.about(found), *last), found)
        if account.history is not None:
            account.live = go_on(account.history, source, last)
            pod_waits = account.pod is not None and account.pod.waits
            if pod_waits or any(one.waits for one in account.claims):
                state = source.state(*last)
                account.lacking = {one.uid: one for one in unallocated(state)}
                account.going = {one.uid for one in account.claims if is_going(state, one.uid)}
        account.entries = [one for one in account.entries if first.begun(one.at, one.position)]
        show_timeline(account, form, full=full)


class Account:
    """The entries of a subject's timeline and, in a scaler's log, the histories of its claims and devices. `live` is set if
    unfinished times count to the current time, `lacking` to what claims without an allocation wait for, by uid, `going` to
    those that are being deleted."""

    live = False
    lacking: Mapping[str, Unallocated] = MappingProxyType({})
    going: Set[str] = frozenset()

    def __init__(self, component: Component[Any], told: Iterable[Moment], subject: Subject) -> None:
        self.subject = subject
        teller = component.telling.teller(subject, None)
        self.history = History(teller.known) if component is SCALER else None
        named = self.history is not None and subject.kind == "pod"
        self.pod = PodHistory(subject.name, teller.known) if named else None
        self.entries = list(component.telling.timeline(self._followed(told), subject, teller))
        known = self.history if self.history is not None else History()
        self.claims = [known.claims[uid] for uid in sorted(subject.uids) if uid in known.claims]
        self.claims.sort(key=lambda one: one.first)
        self.devices = [
            one
            for one in known.devices.values()
            if one.uid in subject.uids or (subject.kind == "node" and one.node == subject.name)
        ]

    def _followed(self, told: Iterable[Moment]) -> Iterator[Moment]:
        for moment in told:
            if self.history is not None:
                self.history.take(moment)
            if self.pod is not None:
                self.pod.take(moment)
            yield moment

    def head(self) -> Iterator[str]:
        """A summary in a few lines, of the newest object with this name."""
        if self.history is not None:
            pod = self.pod.words(self.history.now) if self.pod is not None else ""
            waits = bool(pod) and self.pod is not None and not self.pod.gone
            goes_on = waits or any(one.stage for one in self.claims) or any(one.state for one in self.devices)
            if goes_on and not self.live:
                yield f"as of {rfc3339(self.history.now)}"
            if pod:
                yield pod
            waiting = [one.uid for one in self.claims] + ([self.pod.uid] if self.pod is not None else [])
            for lacks in filter(None, map(self.lacking.get, waiting)):
                yield f"{lacks.claim} waits for {lacks.models_asked}: {lacks.why}"
            yield from (f"{one.name} is being deleted" for one in self.claims if one.uid in self.going)
            several = self.claims if self.subject.kind == "pod" and len(self.claims) > 1 else []
            for claim in several:
                yield f"{claim.name}: {(summary(claim, self.history) or ['nobody waited for it'])[0]}"
            for claim in self.claims[-1:] if not several else ():
                many = len(claim.pods) if self.subject.kind == "pod" else 1
                whose = f"its claim {claim.name} of {many} pods: " if many > 1 else ""
                lines = summary(claim, self.history)
                yield from (whose * (not place) + line for place, line in enumerate(lines))
            yield from devices_summary(self.devices, self.history)

    def in_short(self) -> list[Entry]:
        """The important entries; attempts that ended in the same way are joined to one."""
        if self.history is None:
            return self.entries
        only = self.claims[0].uid if len(self.claims) == 1 else ""
        return list(essence(list(folded(self.entries, self.history.claims, only))))

    def data(self) -> dict[str, Any]:
        """The histories as plain data; empty unless the log is a scaler's."""
        if self.history is None:
            return {}
        now = self.history.now
        return {
            "claims": [claim_data(one, now) for one in self.claims],
            "devices": [device_data(one, self.history) for one in self.devices],
        }


def find(source: Source, text: str) -> Subject:
    """The subject of this name in a source. Raises NoSuchSubject or AmbiguousSubject, which name the source."""
    quickly = source.find(text)
    if quickly is not None:
        return quickly
    directory = source.component.telling.directory().read(progress(source.named(), None, "looking"))
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
    """Whether the text looks like the name of a pool, which a scaler's log does not have."""
    return source.component is SCALER and "-fabric" in text


def require_path(source: Source) -> None:
    """Raises InputError unless the source is a scaler's: only these have paths through states that can be drawn."""
    if source.component is not SCALER:
        raise InputError(
            "a publisher's log holds no path that could be drawn",
            where=source.label,
            fix="use --format table, json or jsonl",
        )


def brief(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Every change and decision, with actions and decisions as notes, without observations."""
    for entry in entries:
        if entry.kind != REST:
            yield entry._replace(notes=tuple(note for note in entry.notes if note.kind in (ACT, DECISION)))


def essence(entries: Sequence[Entry]) -> Iterator[Entry]:
    """The changes. If dds acts in the log, its decisions and what others did instead are kept as notes. If it only observes,
    decisions are left out: others did everything."""
    acts = any(_was_decided(note.text) for entry in entries for note in entry.notes if note.kind == DECISION)
    acts = acts or any(_was_decided(entry.cause) for entry in entries if entry.kind == DECISION)
    for entry in entries:
        kinds = (ACT, DECISION, ERASED) if acts else (ERASED,)
        told = entry._replace(notes=tuple(note for note in entry.notes if note.kind in kinds))
        stays = entry.source and entry.source == entry.target and not entry.trigger.startswith("allocated")
        nothing = entry.kind == REST or stays or (entry.kind == DECISION and not acts)
        if told.notes or not nothing:
            yield told


def _was_decided(text: str) -> bool:
    return text.startswith("dds decided")


def show_timeline(account: Account, form: str, *, full: bool) -> None:
    subject, entries = account.subject, account.entries
    match form:
        case "json":
            show_json(
                {
                    "kind": subject.kind,
                    "name": subject.name,
                    "uids": sorted(subject.uids),
                    "summary": list(account.head()),
                    **account.data(),
                    "entries": [as_data(entry) for entry in entries],
                }
            )
        case "jsonl":
            show_jsonl(as_data(entry) for entry in entries)
        case "mermaid":
            show(path_diagram(entries).rstrip("\n"))
        case _:
            origin = account.claims[0].origin if len(account.claims) == 1 else 0
            told = entries if full else account.in_short()
            early = bool(origin) and bool(account.claims[0].begun)
            show_text(told, subject, account.head(), origin, early=early)
            if told != entries:
                show("--full tells every fact, and each attempt")


def show_text(
    entries: Iterable[Entry], subject: Subject, head: Iterable[str] = (), origin: int = 0, *, early: bool = False
) -> None:
    """Print a subject's timeline below the lines of `head`. `origin` goes to `render_lines`; `early` means that `origin` is the
    start of the attempt, because the pod was created before the log begins."""
    dress = style()
    uids = f"  ({', '.join(sorted(subject.uids))})" if subject.kind == "claim" else ""
    show(dress(f"{subject.kind} {subject.name}{uids}", "name"))
    known = list(head)
    for line in known:
        show(fill(line, width(), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
    told = list(entries)
    marked = any(entry.notes or entry.kind == DECISION for entry in told)
    legend = [LEGEND] * marked + [
        f"+ since the change before, then since {'its attempt began' if early else 'its pod came'}"
    ] * bool(origin)
    for line in legend:
        show(dress(line, "fact"))
    count = 0
    named = subject.kind not in ("claim", "device") or len(subject.uids) > 1
    for line in render_lines(told, width=width(), style=dress, names=named, origin=origin):
        count += 1
        show(line)
    if not count:
        show("nothing has changed since" if known else "nothing happened to it")


_TABLES = {"claim": CLAIM_TABLE, "device": DEVICE_TABLE, **{one.name: one.table for one in PROTOCOLS}}


@click.command("diagram", short_help="Print the states of a claim, a device or a protocol as a diagram.")
@click.argument("life", type=click.Choice([*_TABLES]), default="claim")
@output_options("mermaid", "json", "jsonl")
def diagram(life: str, form: str) -> None:
    """Print the states of a claim (the default) or a device, or the stages of a protocol, as a mermaid diagram, or their
    transitions as JSON."""
    table = _TABLES[life]
    if form == "mermaid":
        show(mermaid(table).rstrip("\n"))
    else:
        show_data((edge._asdict() for edge in table), form)
