"""`dds replay`: read a recording or a log from its start, and show changes, the state at an instant or differences between two,
or decide anew under another policy.

Each component has a `LogPrinter` that knows how to show its state and changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Protocol

import click
from pydantic import BaseModel

from dds_commands.claims_and_devices import (
    DEVICES,
    READ_STATES,
    Filter,
    chosen_claims,
    chosen_devices,
    filter_of,
    known_state,
    of_kind,
    show_claims,
)
from dds_commands.groups import GROUPS, group_rows, order_rows, waiting_rows
from dds_commands.parameters import (
    LOG_VARIABLE,
    NAME_VARIABLE,
    Place,
    at_option,
    default_log,
    end,
    instant,
    output_options,
    period,
    period_options,
    policy_read,
)
from dds_commands.pools import MACHINES, POOLS, chosen_pools, machine_rows
from dds_commands.rows import readable, show_table
from dds_commands.screen import counted, note, show, show_json, show_jsonl, style, width
from dds_commands.sources import Log, Opened, Recording, Source, cut, folded
from dds_commands.timelines import brief, require_path, show_text
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.state import Fleet
from dds_core.engine import Step
from dds_core.errors import InputError
from dds_core.events import Decision, Event
from dds_core.lifecycle import CLAIM_STATES, DEVICE_STATES
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.events import PoolPublished, PoolWithdrawn
from dds_core.publisher.state import PoolState
from dds_core.replay import OPEN_LOOP, re_decide
from dds_core.replay.logged import of_steps
from dds_core.scaler.component import SCALER
from dds_core.scaler.events import ClaimMoved, DeviceMoved
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import State
from dds_core.timeline import LEGEND, Entry, Moment, Subject, as_data, path_diagram, render_lines
from dds_core.timeline.instants import rfc3339
from dds_core.timeline.phrases import listed, spoken


@click.command("replay")
@click.argument("sources", metavar="[SOURCE]...", nargs=-1)
@at_option
@period_options
@click.option("--claim", metavar="NS/NAME|UID", help="Only this claim.")
@click.option("--node", metavar="NODE", help="Only this node.")
@click.option("--state", metavar="STATE", help="Only changes into this state; with --at only what is in it.")
@click.option("--diff", nargs=2, metavar="A B", help="Show the differences between two instants.")
@click.option("--verify", "verifying", is_flag=True, help="Refused: dds log verify verifies a log.")
@click.option("--policy", "policy_file", metavar="FILE", help="Decide anew under this policy (YAML, TOML or JSON).")
@click.option("--log", "url", metavar="URL", help=f"Log to read, without SOURCE; by default {LOG_VARIABLE}.")
@click.option(
    "--name",
    metavar="CLUSTER/COMPONENT",
    envvar=NAME_VARIABLE,
    help=f"Name of the log, in a database that holds several; by default {NAME_VARIABLE}.",
)
@output_options("table", "json", "jsonl", "mermaid")
def replay(
    sources: tuple[str, ...],
    at: str | None,
    since: str | None,
    until: str | None,
    claim: str | None,
    node: str | None,
    state: str | None,
    diff: tuple[str, str] | None,
    verifying: bool,
    policy_file: str | None,
    url: str | None,
    name: str | None,
    form: str,
) -> None:
    """Show every change and decision of a recording or a log.

    The rules decide on a recording in mode observe; a log is shown as it was written. TIME is RFC 3339, a time of the
    source's day (UTC), such as 02:11 or 02:11:05.761, or a duration before its end, such as 15m.

    The log of a publisher (--name CLUSTER/publisher) shows the fabric's stock and the published pools, with --at pools and
    machines; --claim and --state do not apply.

    --policy decides everything anew. This is an open loop: the recorded events followed from other decisions, and do not
    react to these.
    """
    if verifying:
        raise click.UsageError("a log is verified with dds log verify", click.get_current_context())
    if sources and url:
        raise click.UsageError("a recording is written to a log with dds log import", click.get_current_context())
    _require_together(
        at=at, diff=diff, since=since, until=until, claim=claim, node=node, state=state, policy=policy_file
    )
    with Opened() as opened:
        source = opened.source(sources, url or default_log(), name)
        policy = _policy(source, opened.file(policy_file) if policy_file is not None else None)
        view = _view_of(source)(source, claim, node, state)
        _show(source, policy, view, at, since, until, diff, form)


def _policy(source: Recording | Log, path: str | None) -> BaseModel | None:
    """Read a policy of the source's component. A recording gets it as its policy."""
    policy = policy_read(path, source.component.policy)
    if isinstance(policy, Policy) and isinstance(source, Recording):
        source.policy = policy
    return policy


_FILTERS = frozenset({"claim", "node", "state", "policy"})
_GOES_WITH: dict[str, frozenset[str]] = {
    "": _FILTERS | {"since", "until"},
    "at": _FILTERS,
    "diff": _FILTERS,
}
"""Options that choose what a replay does, each with the options that it can be combined with. Any other option is an error."""


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


# -- output --------------------------------------------------------------------------------------------------------------


class LogPrinter(Protocol):
    """Shows a component's log, restricted to the claim, node or state that the options name."""

    def things(self, state: Any) -> Things:
        """The objects of a state that are shown, for a comparison."""

    def show_state(self, state: Any, at: int, form: str) -> None:
        """Print the state at an instant."""

    def show_changes(self, told: Callable[[], Iterator[Moment]], since: Place, form: str) -> None:
        """Print every change and decision from `since` on, and the totals."""


def _show(
    source: Recording | Log,
    policy: BaseModel | None,
    view: LogPrinter,
    at: str | None,
    since: str | None,
    until: str | None,
    diff: tuple[str, str] | None,
    form: str,
) -> None:
    if diff is not None:
        before, after = (instant(text, source.span()) for text in diff)
        things = [view.things(_state(source, policy, Place(one))) for one in (before, after)]
        show_differences((things[0], things[1]), (before, after), form)
    elif at is not None:
        last = end(source.span, at)
        if form == "mermaid":
            raise InputError("a state is no path that could be drawn", fix="leave --at out, or use --format table")
        then = _state(source, policy, last)
        view.show_state(then, last.at if last.at is not None else then.process.now, form)
    else:
        first, last = period(source.span, since, until)
        view.show_changes(lambda: cut(_told(source, policy), *last), first, form)


def _told(source: Recording | Log, policy: BaseModel | None) -> Iterator[Moment]:
    """The source's moments. With a policy a log is decided anew, open-loop."""
    if policy is None:
        return source.told()
    if isinstance(source, Recording):
        note(f"{source.label}: decided under another policy than the recorded world's; {OPEN_LOOP}")
        return source.told()
    return of_steps(_re_decided(source, policy))


def _state(source: Recording | Log, policy: BaseModel | None, last: Place) -> Any:
    if policy is None or isinstance(source, Recording):
        return source.state(*last)
    return folded(cut(_told(source, policy), *last), source.component)


def _re_decided(source: Log, policy: BaseModel) -> Iterator[Step]:
    said = False
    for step, differs in re_decide(source.source.read(source.after), policy, source.component):
        if differs and not said:
            said = True
            note(f"{source.label}: from {rfc3339(step.at)} on {OPEN_LOOP}")
        yield step


class _Counted(ABC):
    """Iterates over moments and counts what is in them from `since` on."""

    def __init__(self, told: Iterable[Moment], since: Place) -> None:
        self._told = told
        self.since = since
        self.number: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Moment]:
        for moment in self._told:
            counts = self.since.begun(moment.at, moment.position)
            self.number["fact"] += counts
            for event in moment.caused:
                self.number["decision" if isinstance(event, Decision) else "change"] += counts
                self._follow(event)
            yield moment

    def _follow(self, event: Event | None) -> None:
        """Hook for subclasses that count more than facts, decisions and changes."""
        return

    def _numbers(self, kinds: Sequence[str]) -> dict[str, object]:
        return {f"{kind}s": self.number[kind] for kind in kinds}

    def _said(self, kinds: Sequence[str]) -> str:
        return ", ".join(counted(self.number[kind], kind) for kind in kinds)

    @abstractmethod
    def data(self) -> dict[str, object]:
        """The totals as plain data."""

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """The totals as text."""


def _show_entries(told: Iterable[Entry], subject: Subject | None, counts: _Counted, form: str) -> None:
    entries = (entry for entry in told if counts.since.begun(entry.at, entry.position))
    if form == "json":
        whole = [as_data(entry) for entry in entries]
        show_json({"entries": whole, "summary": counts.data()})
    elif form == "jsonl":
        show_jsonl(as_data(entry) for entry in entries)
    elif form == "mermaid":
        _show_path([entry for entry in entries if entry.kind == "claim"])
    elif subject is not None:
        show_text(entries, subject)
    else:
        dress = style()
        show(dress(LEGEND, "fact"))
        for line in chain(render_lines(brief(entries), width=width(), style=dress, names=True), counts.lines()):
            show(line)


def _show_path(path: list[Entry]) -> None:
    names = sorted({entry.name for entry in path})
    if len(names) > 1:
        some = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
        what = f"one picture shows one claim, there are {len(names)}: {some}"
        raise InputError(what, fix="choose one with --claim")
    show(path_diagram(path).rstrip("\n"))


def _show_told(at: int, told: Mapping[str, list[dict[str, Any]]], form: str, **more: object) -> None:
    if form == "json":
        show_json({"at": rfc3339(at), **told, **more})
    else:
        show_jsonl({"kind": kind.removesuffix("s"), **row} for kind, rows in told.items() for row in rows)


# -- scaler --------------------------------------------------------------------------------------------------------------


class _ScalerPrinter:
    """`LogPrinter` of a scaler's log: claims and devices."""

    def __init__(self, source: Source, claim: str | None, node: str | None, state: str | None) -> None:
        self._source = source
        self._claim, self._node, self._state = claim, node, state

    @cached_property
    def _wanted(self) -> Filter:
        return filter_of(self._source, self._claim, self._node, None)

    def things(self, state: State) -> Things:
        claims = {("claim", row["uid"]): readable(row) for row in chosen_claims(state, self._wanted)}
        devices = {("device", row["uid"]): readable(row) for row in chosen_devices(state, self._wanted)}
        wanted = self._state
        return {key: thing for key, thing in {**claims, **devices}.items() if not wanted or thing["state"] == wanted}

    def show_state(self, state: State, at: int, form: str) -> None:
        wanted = known_state(self._state, READ_STATES, DEVICE_STATES) if self._state else None
        claims = [row for row in chosen_claims(state, self._wanted) if wanted in (None, row["state"])]
        devices = [row for row in chosen_devices(state, self._wanted) if wanted in (None, row["state"])]
        if form == "table":
            show_claims(claims, at, "no claims")
            show("")
            show_table(DEVICES, devices, at, "no devices")
        else:
            told = {"claims": readable(claims), "devices": readable(devices)}
            _show_told(at, told, form)

    def show_changes(self, told: Callable[[], Iterator[Moment]], since: Place, form: str) -> None:
        if self._claim and self._node:
            raise InputError("--claim and --node do not go together here", fix="give one of them, or --at as well")
        subject = next(iter(self._wanted.subjects), None)
        counts = _CountedClaims(told(), since)
        entries = self._chosen(SCALER.telling.timeline(counts, subject))
        _show_entries(entries, subject, counts, form)

    def _chosen(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        if self._state is None:
            return entries
        wanted = known_state(self._state, CLAIM_STATES, DEVICE_STATES)
        return (entry for entry in entries if entry.target == wanted and entry.source != wanted)


class _CountedClaims(_Counted):
    """Also counts claims and devices by their last state."""

    _KINDS = ("fact", "change", "decision")

    def __init__(self, told: Iterable[Moment], since: Place) -> None:
        super().__init__(told, since)
        self._ended: dict[str, dict[str, str]] = {"claims": {}, "devices": {}}

    def _follow(self, event: Event | None) -> None:
        if isinstance(event, ClaimMoved | DeviceMoved):
            self._ended["claims" if isinstance(event, ClaimMoved) else "devices"][event.subject] = event.target

    def _states(self) -> dict[str, dict[str, int]]:
        return {kind: dict(sorted(Counter(ended.values()).items())) for kind, ended in self._ended.items()}

    def data(self) -> dict[str, object]:
        return {**self._numbers(self._KINDS), **self._states()}

    def lines(self) -> Iterator[str]:
        yield self._said(self._KINDS)
        for kind, states in self._states().items():
            yield f"{kind}: {', '.join(f'{number} {state}' for state, number in states.items()) or 'none'}"


# -- publisher -----------------------------------------------------------------------------------------------------------


class _PublisherPrinter:
    """`LogPrinter` of a publisher's log: pools, machines and unanswered queries to the fabric."""

    def __init__(self, source: Source, claim: str | None, node: str | None, state: str | None) -> None:
        """Raises InputError for an option that does not apply to a publisher's log."""
        self._source, self._node = source, node
        for name, given in (("claim", claim), ("state", state)):
            if given:
                fix = "use --node, or dds timeline with a pool, node or machine"
                raise InputError(f"--{name} says nothing about the log of a publisher", where=source.label, fix=fix)

    def things(self, state: PoolState) -> Things:
        pools = {("pool", row["uid"]): row for row in map(readable, chosen_pools(state, self._node))}
        machines = {("machine", row["uid"]): row for row in machine_rows(state, self._node)}
        return {**pools, **machines}

    def show_state(self, state: PoolState, at: int, form: str) -> None:
        pools, machines = chosen_pools(state, self._node), machine_rows(state, self._node)
        failing = dict(sorted(state.fabric.failures.rows.items()))
        if form == "table":
            show_table(POOLS, pools, at, "no pools")
            show("")
            show_table(MACHINES, machines, at, "no machines")
            for of, text in failing.items():
                show(style()(f"no good answer about {spoken(of)}: {text}", "bad"))
        else:
            told = {"pools": readable(pools), "machines": machines}
            _show_told(at, told, form, failing=failing)

    def show_changes(self, told: Callable[[], Iterator[Moment]], since: Place, form: str) -> None:
        if form == "mermaid":
            require_path(self._source)
        subject = of_kind(self._source, self._node, "node") if self._node else None
        counts = _CountedPools(told(), since)
        _show_entries(PUBLISHER.telling.timeline(counts, subject), subject, counts, form)


class _CountedPools(_Counted):
    """Also has the number of devices that was last decided for each pool."""

    _KINDS = ("fact", "decision")

    def __init__(self, told: Iterable[Moment], since: Place) -> None:
        super().__init__(told, since)
        self._pools: dict[str, int] = {}

    def _follow(self, event: Event | None) -> None:
        if isinstance(event, PoolPublished):
            self._pools[event.pool] = sum(len(one.devices) for one in event.slices)
        elif isinstance(event, PoolWithdrawn):
            self._pools.pop(event.pool, None)

    def data(self) -> dict[str, object]:
        return {**self._numbers(self._KINDS), "pools": dict(sorted(self._pools.items()))}

    def lines(self) -> Iterator[str]:
        yield self._said(self._KINDS)
        ended = ", ".join(f"{pool} with {counted(number, 'device')}" for pool, number in sorted(self._pools.items()))
        yield f"pools: {ended or 'none'}"


# -- differences between two instants ------------------------------------------------------------------------------------

_NAMES = {
    "claim": "claim",
    "device": "resource",
    "pool": "pool",
    "machine": "machine",
    "group": "group",
    "order": "order",
}
_TELLING = {
    "claim": ("state", "node", "cycle", "attempt", "devices", "pods"),
    "device": ("state", "device", "node", "claims"),
    "pool": ("driver", "owner", "generation", "slices", "devices", "names", "held_names", "tainted", "stock"),
    "machine": ("nodes", "fabric", "limits"),
    "group": ("target", "minimum", "maximum", "members", "servers", "closed"),
    "order": ("group", "state", "why"),
}

Thing = dict[str, Any]
Things = Mapping[tuple[str, str], Thing]
"""Objects of a state by kind and uid."""


def show_differences(things: tuple[Things, Things], span: tuple[int, int], form: str) -> None:
    """Print how the second state differs from the first; `span` has their instants."""
    if form == "mermaid":
        raise InputError("differences are no path that could be drawn", fix="use --format table, json or jsonl")
    found = differences(*things)
    if form == "json":
        show_json({"from": rfc3339(span[0]), "to": rfc3339(span[1]), "differences": found})
    elif form == "jsonl":
        show_jsonl(found)
    else:
        _show_differences(found)


def differences(before: Things, after: Things) -> list[dict[str, Any]]:
    """For each object that differs: kind, name, uid, and the changed fields as [before, after]."""
    found = []
    for kind, uid in sorted(before.keys() | after.keys()):
        old, new = before.get((kind, uid)), after.get((kind, uid))
        changed = {
            field: [old.get(field) if old else None, new.get(field) if new else None]
            for field in _TELLING[kind]
            if ((old or {}).get(field) or None) != ((new or {}).get(field) or None)
        }
        if changed:
            name = (new or old or {}).get(_NAMES[kind]) or (old or {}).get(_NAMES[kind], "")
            found.append({"kind": kind, "name": name, "uid": uid, "changed": changed})
    return found


def _show_differences(found: Sequence[dict[str, Any]]) -> None:
    dress = style()
    if not found:
        show("nothing differs")
    for one in found:
        show(dress(f"{one['kind']} {one['name']}", "name"))
        for field, (old, new) in one["changed"].items():
            if field in ("names", "held_names"):
                old, new = _only(old, new), _only(new, old)
            show(f"  {field.ljust(8)} {_said(old)} → {_said(new)}")


def _only(these: Sequence[str] | None, those: Sequence[str] | None) -> str:
    """Devices that only `these` has. The devices that both have are left out: they may be very many."""
    return listed([name for name in these or () if name not in (those or ())])


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return str(value) if value not in (None, "") else "(none)"


# -- autoscaler ----------------------------------------------------------------------------------------------------------


class _AutoscalerPrinter:
    """`LogPrinter` of an autoscaler's log: groups, servers under way and waiting pods."""

    def __init__(self, source: Source, claim: str | None, node: str | None, state: str | None) -> None:
        """Raises InputError for an option that does not apply to an autoscaler's log."""
        for name, given in (("claim", claim), ("node", node), ("state", state)):
            if given:
                fix = "use dds timeline with a group, node, pod or order"
                raise InputError(f"--{name} says nothing about the log of an autoscaler", where=source.label, fix=fix)

    def things(self, state: Fleet) -> Things:
        groups = {("group", row["group"]): row for row in group_rows(state)}
        orders = {("order", row["order"]): row for row in order_rows(state)}
        return {**groups, **orders}

    def show_state(self, state: Fleet, at: int, form: str) -> None:
        groups, orders, pods = group_rows(state), order_rows(state), waiting_rows(state)
        if form != "table":
            _show_told(at, {"groups": groups, "servers_under_way": orders, "pods_waiting": pods}, form)
            return
        show_table(GROUPS, groups, at, "no groups")
        for row in orders:
            show(f"{row['order']} of {row['group']} {row['state']}{': ' * bool(row['why'])}{row['why']}")
        for row in pods:
            show(f"pod {row['pod']}: {row['helps']}: {row['why']}")

    def show_changes(self, told: Callable[[], Iterator[Moment]], since: Place, form: str) -> None:
        counts = _CountedGroups(told(), since)
        _show_entries(AUTOSCALER.telling.timeline(counts, None), None, counts, form)


class _CountedGroups(_Counted):
    """The totals of an autoscaler's log."""

    _KINDS = ("fact", "decision")

    def data(self) -> dict[str, object]:
        return dict(self._numbers(self._KINDS))

    def lines(self) -> Iterator[str]:
        yield self._said(self._KINDS)


Views = Callable[[Source, str | None, str | None, str | None], LogPrinter]


def _view_of(source: Source) -> Views:
    """Raises InputError for a component of another package: dds does not know its state."""
    found = _VIEWS.get(source.component.name)
    if found is None:
        what = f"what a {source.component.name} knows cannot be shown here"
        raise InputError(what, where=source.label, fix="use dds timeline or dds log verify on it")
    return found


_VIEWS: dict[str, Views] = {
    SCALER.name: _ScalerPrinter,
    PUBLISHER.name: _PublisherPrinter,
    AUTOSCALER.name: _AutoscalerPrinter,
}
