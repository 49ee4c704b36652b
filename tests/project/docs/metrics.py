"""The metrics page's tables, made from the catalogues that the instruments are made from."""

from __future__ import annotations

from collections.abc import Iterable

from dds_adapters.runtime.metrics import CATALOGUE, GROUP_CATALOGUE, POOL_CATALOGUE, Named
from tests.project.docs.markdown import table


def metrics_table() -> str:
    return _table(CATALOGUE)


def pool_metrics_table() -> str:
    return _table(POOL_CATALOGUE)


def group_metrics_table() -> str:
    return _table(GROUP_CATALOGUE)


def _table(catalogue: Iterable[Named]) -> str:
    return table(("metric", "kind", "labels", "what it says"), [_row(one) for one in catalogue])


def _row(one: Named) -> tuple[str, str, str, str]:
    return f"`{one.name}`", one.kind, ", ".join(f"`{label}`" for label in one.labels) or "–", one.help
