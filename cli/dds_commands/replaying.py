"""`dds replay`: a recording or a log gone through again: as changes, as of an instant, compared, verified, or decided anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import click
from pydantic import BaseModel

from dds_adapters.sql.urls import as_url
from dds_commands import replaying_pools as pools
from dds_commands.differences import show_differences, things_of
from dds_commands.parameters import (
    NAME_VARIABLE,
    default_log,
    format_option,
    instant,
    policy_from,
    publish_policy_from,
    without_password,
)
from dds_commands.rows import claim_data, device_data
from dds_commands.screen import counted, note, show, show_json, show_jsonl, style, width
from dds_commands.sources import Log, Opened, Recording, Source, cut, folded
from dds_commands.state import chosen_claims, chosen_devices, known_state, show_claims, show_devices
from dds_commands.timelines import brief, find, show_text
from dds_commands.verifying import verify_rows
from dds_commands.writing import log_name, sealed, write_recording
from dds_core.component import SCALER, component_of
from dds_core.engine import Step
from dds_core.errors import InputError
from dds_core.events import ClaimMoved, Decision, DeviceMoved
from dds_core.lifecycle import CLAIM_STATES, DEVICE_STATES
from dds_core.log import fixed_salts
from dds_core.picture import Picture
from dds_core.publishing.component import PUBLISHER
from dds_core.replay import OPEN_LOOP, re_decide
from dds_core.timeline import (
    LEGEND,
    Entry,
    Moment,
    Subject,
    as_data,
    of_steps,
    path_diagram,
    render_lines,
    timeline,
)
from dds_core.timeline.clock import rfc3339


class View(NamedTuple):
    """What of a replay is wanted: instants in microseconds."""

    at: int | None
    until: int | None
    claim: str | None
    node: str | None
    state: str | None
    form: str


@click.command("replay")
@click.argument("sources", metavar="[SOURCE]...", nargs=-1)
@click.option("--at", metavar="TIME", help="Show claims and devices, or pools and machines, as of this instant.")
@click.option("--until", type=click.IntRange(min=1), metavar="POSITION", help="Go no further than this position.")
@click.option("--claim", metavar="NS/NAME|UID", help="Tell of this claim only.")
@click.option("--node", metavar="NODE", help="Tell of this node only.")
@click.option("--state", metavar="STATE", help="Only changes into this state, or what is in it.")
@click.option("--diff", nargs=2, metavar="A B", help="Show what differs between two instants.")
@click.option("--verify", "verifying", is_flag=True, help="Check the chain and every decision.")
@click.option("--policy", "policy_file", metavar="FILE", help="Decide under this policy (YAML, TOML or JSON).")
@click.option("--log", "target", metavar="URL", help="Write the replayed recording into a new log of this database.")
@click.option("--checkpoint", is_flag=True, help="With --log: end the log with a checkpoint.")
@click.option(
    "--name",
    metavar="CLUSTER/COMPONENT",
    envvar=NAME_VARIABLE,
    help=f"Name of the log that is read or written. Also by {NAME_VARIABLE}.",
)
@format_option("table", "json", "jsonl", "mermaid")
def replay(
    sources: tuple[str, ...],
    at: str | None,
    until: int | None,
    claim: str | None,
    node: str | None,
    state: str | None,
    diff: tuple[str, str] | None,
    verifying: bool,
    policy_file: str | None,
    target: str | None,
    checkpoint: bool,
    name: str | None,
    form: str,
) -> None:
    """Go through a recording or a log again.

    A recording is put to the rules in mode observe, a log is told as it was written. Without further options every
    change of a claim or device is shown, and every decision. SOURCE is a recording, an export, archives and the rest, or
    a database; by default the log that DDS_LOG names, else the one of dds serve.

    TIME is RFC 3339 or a time of the source's day, such as 02:11:05.761. Times are UTC.

    The log of a publisher (--name CLUSTER/publisher) is told as what its fabric has and what was published; --at shows
    pools and machines, --claim and --state say nothing there.

    With --policy everything is decided anew. That is an open loop: what happened in the recorded world followed from
    other decisions, and does not follow from these.
    """
    _require_together(
        at=at,
        diff=diff,
        verify=verifying,
        log=target,
        until=until,
        claim=claim,
        node=node,
        state=state,
        policy=policy_file,
        checkpoint=checkpoint,
    )
    with Opened() as opened:
        source = opened.source(sources, default_log(), None if target else name)
        policy = _policy(source, policy_file)
        if target is not None:
            _write(opened, source, target, name, checkpoint=checkpoint)
        elif verifying:
            _verify(source, policy, form)
        elif source.component is PUBLISHER:
            pools.require_meaning(source, {"claim": claim, "state": state})
            _publisher(source, policy, at, until, node, diff, form)
        elif diff is not None:
            span = source.span()
            before, after = (instant(text, span) for text in diff)
            chosen = {"claim": claim, "node": node, "state": state}
            things = [things_of(_picture(source, policy, one, None), chosen) for one in (before, after)]
            show_differences((things[0], things[1]), (before, after), form)
        else:
            view = View(instant(at, source.span()) if at else None, until, claim, node, state, form)
            _show(source, policy, view)


def _policy(source: Recording | Log, path: str | None) -> BaseModel | None:
    """The policy of a file, which is one of the source's component; a recording is decided under it."""
    if source.component is PUBLISHER:
        return publish_policy_from(path)
    policy = policy_from(path)
    if policy is not None and isinstance(source, Recording):
        source.policy = policy
    return policy


def _publisher(
    source: Recording | Log,
    policy: BaseModel | None,
    at: str | None,
    until: int | None,
    node: str | None,
    diff: tuple[str, str] | None,
    form: str,
) -> None:
    """A publisher's log: the same views of pools and machines."""
    if diff is not None:
        pools.show_difference(source, diff, node, form, lambda at: _picture(source, policy, at, None))
    elif at is not None:
        moment = instant(at, source.span())
        pools.show_state(_picture(source, policy, moment, until), moment, node, form)
    else:
        pools.show_changes(source, cut(_told(source, policy), None, until), node, form)


_FILTERS = frozenset({"claim", "node", "state", "policy"})
_GOES_WITH: dict[str, frozenset[str]] = {
    "": _FILTERS | {"until"},
    "at": _FILTERS | {"until"},
    "diff": _FILTERS,
    "verify": frozenset({"policy"}),
    "log": frozenset({"policy", "checkpoint"}),
}
"""What a replay is for, and which other options say something there: none is ever left aside in silence."""


def _require_together(**given: object) -> None:
    named = [name for name, value in given.items() if value]
    purposes = [name for name in named if name in _GOES_WITH] or [""]
    others = [name for name in named if name not in _GOES_WITH]
    odd = [*purposes[1:], *(name for name in others if name not in _GOES_WITH[purposes[0]])]
    if odd:
        first, second = (purposes[0], odd[0]) if purposes[0] else (odd[0], "")
        if not second:
            raise InputError(f"--{first} does nothing here", fix="see dds replay --help")
        raise InputError(f"--{first} and --{second} do not go together", fix="leave one of them out")


# --- writing and verifying ---------------------------------------------------------------------------------------------


def _write(opened: Opened, source: Recording | Log, target: str, name: str | None, *, checkpoint: bool) -> None:
    if not isinstance(source, Recording):
        raise InputError(
            "only a recording is written with --log", where=source.label, fix="use dds log import for a log"
        )
    if name is not None and component_of(name) is not SCALER:
        what = f"a recording is put to the rules of the scaler, and {name} would be a publisher's log"
        raise InputError(what, where=source.label, fix="give --name CLUSTER/scaler")
    report = write_recording(source, opened.database(as_url(target)), name, checkpoint=checkpoint)
    show(f"wrote log {report.log}, positions {report.first} to {report.last}, to {without_password(as_url(target))}")


def _verify(source: Recording | Log, policy: BaseModel | None, form: str) -> None:
    if isinstance(source, Log):
        if policy is not None:
            raise InputError("a log is verified under its own policy", where=source.label, fix="leave --policy out")
        rows = source.source.read(source.after)
        verify_rows(rows, source.length, source.label, form, component=source.component)
        return
    groups = (step.group(number) for number, step in enumerate(source.steps()))
    whole = sealed(log_name(source.path), source.identity(), groups, 0, fixed_salts(b"replay"))
    verify_rows(whole, None, source.label, form)


# --- showing -----------------------------------------------------------------------------------------------------------


def _show(source: Recording | Log, policy: BaseModel | None, view: View) -> None:
    if view.at is not None:
        if view.form == "mermaid":
            raise InputError("a state is no path that could be drawn", fix="leave --at out, or use --format table")
        _show_state(_picture(source, policy, view.at, view.until), view)
        return
    if view.claim and view.node:
        raise InputError("--claim and --node do not go together here", fix="give one of them, or --at as well")
    subject = _subject(source, view)
    told = cut(_told(source, policy), None, view.until)
    counts = _Counted(told)
    entries = _chosen(timeline(counts, subject), view.state)
    _SHOWN[view.form](entries, subject, counts)


def _told(source: Recording | Log, policy: BaseModel | None) -> Iterator[Moment]:
    """The source's moments; a log's under another policy, if there is one, and then open-loop."""
    if policy is None:
        return source.told()
    if isinstance(source, Recording):
        note(f"{source.label}: decided under another policy than the recorded world's; {OPEN_LOOP}")
        return source.told()
    return of_steps(_re_decided(source, policy))


def _picture(source: Recording | Log, policy: BaseModel | None, at: int | None, until: int | None) -> Any:
    if policy is None or isinstance(source, Recording):
        return source.picture(at, until)
    return folded(cut(_told(source, policy), at, until), source.component)


def _re_decided(source: Log, policy: BaseModel) -> Iterator[Step]:
    said = False
    for step, differs in re_decide(source.source.read(source.after), policy, source.component):
        if differs and not said:
            said = True
            note(f"{source.label}: from {rfc3339(step.at)} on {OPEN_LOOP}")
        yield step


def _subject(source: Source, view: View) -> Subject | None:
    text = view.claim or view.node
    if text is None:
        return None
    subject = find(source, text)
    wanted = "claim" if view.claim else "node"
    if subject.kind != wanted:
        raise InputError(f"{text} is a {subject.kind}, no {wanted}", fix="use dds timeline for it")
    return subject


def _chosen(entries: Iterator[Entry], state: str | None) -> Iterator[Entry]:
    if state is None:
        return entries
    wanted = known_state(state, CLAIM_STATES, DEVICE_STATES)
    return (entry for entry in entries if entry.target == wanted and entry.source != wanted)


class _Counted:
    """The same moments, with what they were counted."""

    def __init__(self, told: Iterable[Moment]) -> None:
        self._told = told
        self.number: Counter[str] = Counter()
        self._states: dict[tuple[str, str], str] = {}

    def __iter__(self) -> Iterator[Moment]:
        for moment in self._told:
            self.number["fact"] += 1
            for event in moment.caused:
                self.number["decision" if isinstance(event, Decision) else "change"] += 1
                if isinstance(event, ClaimMoved | DeviceMoved):
                    kind = "claims" if isinstance(event, ClaimMoved) else "devices"
                    self._states[kind, event.subject] = event.target
            yield moment

    def states(self, kind: str) -> dict[str, int]:
        """How many claims or devices ended in which state."""
        ended = Counter(state for (of, _), state in self._states.items() if of == kind)
        return dict(sorted(ended.items()))

    def data(self) -> dict[str, object]:
        """The numbers as plain data."""
        numbers = {f"{kind}s": self.number[kind] for kind in ("fact", "change", "decision")}
        return {**numbers, "claims": self.states("claims"), "devices": self.states("devices")}


def _show_table(entries: Iterator[Entry], subject: Subject | None, counts: _Counted) -> None:
    if subject is not None:
        show_text(entries, subject)
        return
    dress = style()
    show(dress(LEGEND, "fact"))
    for line in render_lines(brief(entries), width=width(), style=dress, names=True):
        show(line)
    show(", ".join(counted(counts.number[kind], kind) for kind in ("fact", "change", "decision")))
    for kind in ("claims", "devices"):
        ended = ", ".join(f"{number} {state}" for state, number in counts.states(kind).items())
        show(f"{kind}: {ended or 'none'}")


def _show_json(entries: Iterator[Entry], subject: Subject | None, counts: _Counted) -> None:
    told = [as_data(entry) for entry in entries]
    show_json({"entries": told, "summary": counts.data()})


def _show_jsonl(entries: Iterator[Entry], subject: Subject | None, counts: _Counted) -> None:
    show_jsonl(as_data(entry) for entry in entries)


def _show_mermaid(entries: Iterator[Entry], subject: Subject | None, counts: _Counted) -> None:
    path = [entry for entry in entries if entry.kind == "claim"]
    names = sorted({entry.name for entry in path})
    if len(names) > 1:
        listed = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
        raise InputError(
            f"one picture shows one claim, there are {len(names)}: {listed}", fix="choose one with --claim"
        )
    show(path_diagram(path).rstrip("\n"))


_SHOWN = {"table": _show_table, "json": _show_json, "jsonl": _show_jsonl, "mermaid": _show_mermaid}


def _show_state(picture: Picture, view: View) -> None:
    state = known_state(view.state, CLAIM_STATES, DEVICE_STATES) if view.state else None
    claims = chosen_claims(picture, view.claim, view.node)
    devices = chosen_devices(picture, view.claim, view.node)
    claims = [row for row in claims if state is None or row.state == state]
    devices = [row for row in devices if state is None or row.state == state]
    if view.form == "table":
        show_claims(claims, view.at or picture.now)
        show("")
        show_devices(devices, view.at or picture.now)
        return
    told = {"claims": [claim_data(row) for row in claims], "devices": [device_data(row) for row in devices]}
    if view.form == "json":
        show_json({"at": rfc3339(view.at or picture.now), **told})
    else:
        show_jsonl({"kind": kind.removesuffix("s"), **row} for kind, rows in told.items() for row in rows)
