"""The metrics page's tables, made from the catalogues that the instruments are made from."""

from __future__ import annotations

from dds_adapters.runtime.metrics import CATALOGUE, POOL_CATALOGUE, Named
from tests.project.docs.markdown import table


def metrics_table() -> str:
    return table(("metric", "kind", "labels", "what it says"), [_row(one) for one in CATALOGUE])


def pool_metrics_table() -> str:
    return table(("metric", "kind", "labels", "what it says"), [_row(one) for one in POOL_CATALOGUE])


def _row(one: Named) -> tuple[str, str, str, str]:
    return f"`{one.name}`", one.kind, ", ".join(f"`{label}`" for label in one.labels) or "–", one.help
