"""What `dds replay` shows of a publisher's log: its changes, its state at an instant, and what differs between two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dds_commands.differences import Things, show_differences
from dds_commands.parameters import instant
from dds_commands.pool_rows import machine_data, pool_data
from dds_commands.pools import chosen_machines, chosen_pools, show_machines, show_pools
from dds_commands.screen import counted, show, show_json, show_jsonl, style, width
from dds_commands.sources import Source
from dds_commands.timelines import brief, find, require_path, show_text
from dds_core.errors import InputError
from dds_core.events import Decision, PoolPublished, PoolWithdrawn
from dds_core.publishing.picture import PoolPicture
from dds_core.timeline import LEGEND, Entry, Moment, Subject, as_data, render_lines, telling_of
from dds_core.timeline.clock import rfc3339
from dds_core.timeline.phrases import spoken

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
    counts = _Counted(told)
    entries = telling_of(source.component).timeline(counts, subject)
    if form == "json":
        show_json({"entries": [as_data(entry) for entry in entries], "summary": counts.data()})
    elif form == "jsonl":
        show_jsonl(as_data(entry) for entry in entries)
    elif subject is not None:
        show_text(entries, subject)
    else:
        _show_table(entries, counts)


def _node(source: Source, node: str | None) -> Subject | None:
    if node is None:
        return None
    subject = find(source, node)
    if subject.kind != "node":
        raise InputError(f"{node} is a {subject.kind}, no node", fix="use dds timeline for it")
    return subject


class _Counted:
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


def _show_table(entries: Iterable[Entry], counts: _Counted) -> None:
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
