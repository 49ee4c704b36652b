"""The lifecycle page's tables and states, made from the tables of `dds_core.lifecycle`."""

from __future__ import annotations

from collections.abc import Sequence

from dds_core.lifecycle import CLAIM_TABLE, DEVICE_TABLE, Edge, mermaid
from dds_core.scaler.hold import HOLD
from tests.project.docs.markdown import table

_GUARDS = {"": "", "nothing_ordered": " *(nothing ordered)*", "something_ordered": " *(something ordered)*"}


def claim_chart() -> str:
    return _state(CLAIM_TABLE)


def claim_table() -> str:
    return _edges(CLAIM_TABLE)


def device_chart() -> str:
    return _state(DEVICE_TABLE)


def device_table() -> str:
    return _edges(DEVICE_TABLE)


def hold_chart() -> str:
    return _state(HOLD.table)


def hold_table() -> str:
    return _edges(HOLD.table)


def _state(edges: Sequence[Edge]) -> str:
    return f"```mermaid\n{mermaid(edges)}```"


def _edges(edges: Sequence[Edge]) -> str:
    rows = [
        (f"`{one.trigger}`{_GUARDS[one.guard]}", one.source or "*new*", one.target or "*over*", one.sentence)
        for one in edges
    ]
    return table(("trigger", "from", "to", "in a sentence"), rows)
