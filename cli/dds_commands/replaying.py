"""`dds replay`: a recording or a log gone through again: as changes, as of an instant, compared, verified, or decided anew."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import click
from pydantic import BaseModel

from dds_adapters.sql import Database, random_salt
from dds_adapters.sql.urls import as_url
from dds_commands.differences import Things, show_differences, things_of
from dds_commands.parameters import (
    NAME_VARIABLE,
    default_log,
    format_option,
    instant,
    policy_from,
    publish_policy_from,
    without_password,
)
from dds_commands.pool_rows import machine_data, pool_data
from dds_commands.pools import chosen_machines, chosen_pools, show_machines, show_pools
from dds_commands.rows import claim_data, device_data
from dds_commands.screen import counted, note, position_bar, show, show_json, show_jsonl, style, width
from dds_commands.sources import Log, Opened, Recording, Source, cut, folded
from dds_commands.state import chosen_claims, chosen_devices, known_state, show_claims, show_devices
from dds_commands.timelines import brief, find, require_path, show_text
from dds_commands.verifying import verify_rows
from dds_core.component import component_of
from dds_core.engine import Step
from dds_core.errors import InputError
from dds_core.events import Checkpoint, Decision
from dds_core.lifecycle import CLAIM_STATES, DEVICE_STATES
from dds_core.log import ChainReport, Envelope, Group, fixed_salts
from dds_core.log.chain import SaltSource, advanced, check_cluster, seal
from dds_core.log.envelope import opening, unopened
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.events import PoolPublished, PoolWithdrawn
from dds_core.publisher.state import PoolPicture
from dds_core.replay import OPEN_LOOP, of_steps, re_decide
from dds_core.scaler.component import SCALER
from dds_core.scaler.events import ClaimMoved, DeviceMoved
from dds_core.scaler.fold import apply
from dds_core.scaler.state import PROJECTION, Picture, dump
from dds_core.scaler.timeline import timeline
from dds_core.timeline import LEGEND, Entry, Moment, Subject, as_data, path_diagram, render_lines
from dds_core.timeline.clock import rfc3339
from dds_core.timeline.phrases import spoken

# -- writing -----------------------------------------------------------------------------------------------------------

# A replay as a log: sealed as it would have been written, and taken into a database all at once or not at all.


EPOCH = 1
"""Of the one writer that a replay is."""


def write_recording(recording: Recording, database: Database, name: str | None, *, checkpoint: bool) -> ChainReport:
    """Replay the recording into a new log of the database; the recording's fingerprint stands for its cluster.

    Raises ForeignLog when a log of this name belongs to another recording or cluster, LogExists when it is this one.
    """
    log = name if name is not None else log_name(recording.path)
    cluster = recording.identity()
    for head in database.heads():
        if head.log == log:
            check_cluster(head, cluster)
    steps = recording.steps()
    groups = with_checkpoint(steps) if checkpoint else (step.group(n) for n, step in enumerate(steps))
    now = time.time_ns() // 1000
    with position_bar(0, "writing") as progress:
        return database.import_log(sealed(log, cluster, groups, now, random_salt), progress=progress)


def log_name(path: str) -> str:
    """The name of the log of a recording: <the file's name>/scaler."""
    stem = Path(path).name.lower().removesuffix(".gz").removesuffix(".jsonl")
    return f"{re.sub(r'[^a-z0-9._-]+', '-', stem).strip('-._')[:100] or 'recording'}/scaler"


def with_checkpoint(steps: Iterable[Step]) -> Iterator[Group]:
    """The groups of the steps, and a checkpoint of the whole picture at the end, so that they can be archived."""
    picture, ordinal = Picture(), 0
    for ordinal, step in enumerate(steps, start=1):
        for event in (step.fact, *(event for event, _ in step.caused)):
            apply(picture, event, step.at)
        picture.dirty.clear()
        yield step.group(ordinal - 1)
    fact = Checkpoint(projection=PROJECTION, picture=dump(picture))
    yield Step(picture.now, fact, []).group(ordinal)


def sealed(name: str, cluster: str, groups: Iterable[Group], recorded_at: int, salts: SaltSource) -> Iterator[Envelope]:
    """A whole log of these groups, envelope by envelope, as one writer would have appended them."""
    head, versions = unopened(name, cluster), defaultdict[str, int](int)
    opened = ((0, opening(name, cluster, recorded_at)),)
    for epoch, group in chain(opened, ((EPOCH, group) for group in groups)):
        fresh = seal(head, epoch, [group], versions, recorded_at, salts)
        head = advanced(head, fresh)
        yield from fresh


# -- replaying pools ---------------------------------------------------------------------------------------------------

# What `dds replay` shows of a publisher's log: its changes, its state at an instant, and what differs between two.


NOT_HERE = ("claim", "state")
"""Options of `dds replay` that say nothing about a publisher's log."""

PictureAt = Callable[[int], PoolPicture]


def require_meaning(source: Source, given: Mapping[str, object]) -> None:
    """Raises InputError for an option that says nothing on the log of a publisher."""
    for name in NOT_HERE:
        if given.get(name):
            fix = "use --node, or dds timeline with a pool, node or machine"
            raise InputError(f"--{name} says nothing about the log of a publisher", where=source.label, fix=fix)


# -- changes ------------------------------------------------------------------------------------------------------------


def show_changes(source: Source, told: Iterable[Moment], node: str | None, form: str) -> None:
    """Every change of what the fabric has, every decision, and how the pools ended; of a node its timeline."""
    if form == "mermaid":
        require_path(source)
    subject = _node(source, node)
    counts = _CountedPools(told)
    entries = source.component.told.timeline(counts, subject)
    if form == "json":
        show_json({"entries": [as_data(entry) for entry in entries], "summary": counts.data()})
    elif form == "jsonl":
        show_jsonl(as_data(entry) for entry in entries)
    elif subject is not None:
        show_text(entries, subject)
    else:
        _show_pool_table(entries, counts)


def _node(source: Source, node: str | None) -> Subject | None:
    if node is None:
        return None
    subject = find(source, node)
    if subject.kind != "node":
        raise InputError(f"{node} is a {subject.kind}, no node", fix="use dds timeline for it")
    return subject


class _CountedPools:
    """The same moments, with what they were counted."""

    def __init__(self, told: Iterable[Moment]) -> None:
        self._told = told
        self.facts = self.decisions = 0
        self.pools: dict[str, int] = {}

    def __iter__(self) -> Iterator[Moment]:
        for moment in self._told:
            self.facts += 1
            for event in moment.caused:
                self.decisions += isinstance(event, Decision)
                if isinstance(event, PoolPublished):
                    self.pools[event.pool] = sum(len(one.devices) for one in event.slices)
                elif isinstance(event, PoolWithdrawn):
                    self.pools.pop(event.pool, None)
            yield moment

    def data(self) -> dict[str, object]:
        """The numbers as plain data; of each pool the devices that were decided last."""
        return {"facts": self.facts, "decisions": self.decisions, "pools": dict(sorted(self.pools.items()))}


def _show_pool_table(entries: Iterable[Entry], counts: _CountedPools) -> None:
    dress = style()
    show(dress(LEGEND, "fact"))
    for line in render_lines(brief(entries), width=width(), style=dress, names=True):
        show(line)
    show(f"{counted(counts.facts, 'fact')}, {counted(counts.decisions, 'decision')}")
    ended = ", ".join(f"{pool} with {counted(number, 'device')}" for pool, number in sorted(counts.pools.items()))
    show(f"pools: {ended or 'none'}")


# -- states -------------------------------------------------------------------------------------------------------------


def show_state(picture: PoolPicture, at: int, node: str | None, form: str) -> None:
    """The pools, the machines, and the questions that the fabric did not answer."""
    if form == "mermaid":
        raise InputError("a state is no path that could be drawn", fix="leave --at out, or use --format table")
    pools, machines = chosen_pools(picture, node), chosen_machines(picture, node)
    failing = dict(sorted(picture.failures.rows.items()))
    if form == "table":
        show_pools(pools)
        show("")
        show_machines(machines)
        for of, text in failing.items():
            show(style()(f"no good answer about {spoken(of)}: {text}", "bad"))
        return
    told = {"pools": [pool_data(row) for row in pools], "machines": [machine_data(row) for row in machines]}
    if form == "json":
        show_json({"at": rfc3339(at), **told, "failing": failing})
    else:
        show_jsonl({"kind": kind.removesuffix("s"), **row} for kind, rows in told.items() for row in rows)


def show_difference(source: Source, texts: tuple[str, str], node: str | None, form: str, picture: PictureAt) -> None:
    """What differs between two instants, as people wrote them."""
    span = source.span()
    before, after = (instant(text, span) for text in texts)
    things = (_things(picture(before), node), _things(picture(after), node))
    show_differences(things, (before, after), form)


def _things(picture: PoolPicture, node: str | None) -> Things:
    pools = {("pool", row["uid"]): row for row in map(pool_data, chosen_pools(picture, node))}
    machines: dict[tuple[str, str], dict[str, Any]] = {
        ("machine", row["uid"]): row for row in map(machine_data, chosen_machines(picture, node))
    }
    return {**pools, **machines}


# -- replaying ---------------------------------------------------------------------------------------------------------


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
            require_meaning(source, {"claim": claim, "state": state})
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
        show_difference(source, diff, node, form, lambda at: _picture(source, policy, at, None))
    elif at is not None:
        moment = instant(at, source.span())
        show_state(_picture(source, policy, moment, until), moment, node, form)
    else:
        show_changes(source, cut(_told(source, policy), None, until), node, form)


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
