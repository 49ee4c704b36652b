"""The table of what wakes what, made from `dds_core.scaler.wakes`."""

from __future__ import annotations

from dds_core.scaler.wakes import WAKES, Select
from tests.project.docs.markdown import table


def wakes_table() -> str:
    rows = [
        (
            f"`{one.table}`",
            one.why,
            _words(one.claims),
            _words(one.devices),
            _words(one.nodes) + ", those of the claims" * one.their_nodes,
            _words(one.freed),
        )
        for one in WAKES
    ]
    return table(("change of", "why", "claims", "devices", "nodes", "cells"), rows)


def _words(select: Select | None) -> str:
    """A selector's name, in words."""
    return select.__name__.replace("_", " ") if select is not None else ""
