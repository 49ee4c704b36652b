"""The lifecycle page's tables and states, made from the tables of `dds_core.lifecycle`."""

from __future__ import annotations

from collections.abc import Sequence

from dds_core.lifecycle import CLAIM_TABLE, DEVICE_TABLE, Edge, mermaid
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


def _state(edges: Sequence[Edge]) -> str:
    return f"```mermaid\n{mermaid(edges)}```"


def _edges(edges: Sequence[Edge]) -> str:
    rows = [
        (f"`{edge.trigger}`{_GUARDS[edge.guard]}", edge.source or "*new*", edge.target, edge.sentence) for edge in edges
    ]
    return table(("trigger", "from", "to", "in a sentence"), rows)
