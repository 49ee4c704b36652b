"""The metrics page's tables, made from the catalogues that the instruments are made from. What every component counts of its log
stands there once, under the scaler's names."""

from __future__ import annotations

from collections.abc import Iterable

from dds_adapters.runtime.metrics import CATALOGUE, GROUP_CATALOGUE, POOL_CATALOGUE, Named
from tests.project.docs.markdown import table


def metrics_table() -> str:
    """Those of the scaler alone."""
    shared = {one.name for one in _shared()}
    return _table(one for one in CATALOGUE if one.name not in shared)


def shared_metrics_table() -> str:
    """Those of every component: of its log, and of its process."""
    return _table(_shared())


def pool_metrics_table() -> str:
    return _table(_own("publisher", POOL_CATALOGUE))


def group_metrics_table() -> str:
    return _table(_own("autoscaler", GROUP_CATALOGUE))


def _shared() -> list[Named]:
    of_publisher = {one.name for one in POOL_CATALOGUE}
    return [one for one in CATALOGUE if not one.name.startswith("dds_") or _named(one, "publisher") in of_publisher]


def _own(component: str, catalogue: Iterable[Named]) -> list[Named]:
    shared = {_named(one, component) for one in _shared()}
    return [one for one in catalogue if one.name not in shared]


def _named(one: Named, component: str) -> str:
    return one.name.replace("dds_", f"dds_{component}_", 1)


def _table(catalogue: Iterable[Named]) -> str:
    return table(("metric", "kind", "labels", "what it says"), [_row(one) for one in catalogue])


def _row(one: Named) -> tuple[str, str, str, str]:
    return f"`{one.name}`", one.kind, ", ".join(f"`{label}`" for label in one.labels) or "–", one.help
