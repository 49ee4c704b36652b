"""Kinds of clusters beyond GPU claims of one pod each, drawn into fleets: what companies run beside dds.

A kind is a function that adds to a drawn fleet: to `maker.written` (the scenario as a file would say it) or by `maker.claim`,
`maker.pod` and `maker.blow`. It draws from a stream of its own. Pods that nobody can serve go to `maker.unservable`.
"""

from __future__ import annotations

from collections.abc import Callable

from dds_lab.check.draw import Draw
from dds_lab.check.field import choosing, clocks, fabrics, sharing
from dds_lab.check.field.ground import Ground

FIELD_FROM = 70_000
"""Seeds from here on draw these kinds, in small clusters with short troubles: lower seeds keep the fleets that they had."""
KINDS: dict[str, tuple[float, Callable[[Ground, Draw], None]]] = {
    "shared network": (0.2, sharing.shared_network),
    "shared later": (0.15, sharing.shared_later),
    "finalizers": (0.15, sharing.finalizers),
    "placed": (0.15, sharing.placed),
    "monitors": (0.25, sharing.monitors),
    "forms": (0.2, sharing.forms),
    "replaced class": (0.2, choosing.replaced_class),
    "taint rule": (0.2, choosing.taint_rule),
    "no driver": (0.3, fabrics.no_driver),
    "clock": (0.15, clocks.clock),
    "empty pools": (0.3, fabrics.empty_pools),
    "wrong description": (0.15, choosing.wrong_description),
    "warnings": (0.2, fabrics.warnings),
    "functions": (0.15, choosing.functions),
}
"""Each kind with the share of fleets that have it."""
