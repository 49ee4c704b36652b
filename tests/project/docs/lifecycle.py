"""The lifecycle page's tables and states, made from the tables of `dds_core.lifecycle`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from dds_core.lifecycle import CLAIM_TABLE, DEVICE_TABLE, Edge, mermaid
from dds_core.scaler.protocols import PROTOCOLS
from tests.project.docs.markdown import table

_COLUMNS = ("trigger", "from", "to", "in a sentence")
_GUARDS = {"": "", "nothing_ordered": " *(nothing ordered)*", "something_ordered": " *(something ordered)*"}


def claim_chart() -> str:
    return _state(CLAIM_TABLE)


def claim_table() -> str:
    return _edges(CLAIM_TABLE)


def device_chart() -> str:
    return _state(DEVICE_TABLE)


def device_table() -> str:
    return _edges(DEVICE_TABLE)


def protocols() -> dict[str, Callable[[], str]]:
    """The chart and the table of each protocol."""
    parts: dict[str, Callable[[], str]] = {f"{one.name} chart": partial(_state, one.table) for one in PROTOCOLS}
    return parts | {f"{one.name} table": partial(_stages, one.table) for one in PROTOCOLS}


def _state(edges: Sequence[Edge]) -> str:
    return f"```mermaid\n{mermaid(edges)}```"


def _edges(edges: Sequence[Edge]) -> str:
    rows = [
        (f"`{one.trigger}`{_GUARDS[one.guard]}", one.source or "*new*", one.target or "*over*", one.sentence)
        for one in edges
    ]
    return table(_COLUMNS, rows)


def _stages(edges: Sequence[Edge]) -> str:
    """One row for all stages from which a trigger leads to the same one."""
    rows = []
    for (trigger, target, sentence), same in groupby(edges, lambda one: (one.trigger, one.target, one.sentence)):
        sources = ", ".join(one.source or "*new*" for one in same)
        rows.append((f"`{trigger}`", sources, target or "*over*", sentence))
    return table(_COLUMNS, rows)
