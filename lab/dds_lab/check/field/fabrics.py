"""Clusters of several fabrics, each with pools of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dds_lab.check.draw import Draw

if TYPE_CHECKING:
    from dds_lab.check.fleets import Maker


def empty_pools(maker: Maker, draw: Draw) -> None:
    """The pools are empty, since pods had all devices; those of one fabric idle while pods of another wait."""
    if len(maker.fabrics) < 2:
        return
    model = draw.one([one for one in maker.models if one is not maker.partitioned] or maker.models)
    for pool in maker.written["cluster"]["fabrics"]:
        pool["devices"][model["model"]] = draw.whole(1, 2)
    begin = draw.between(5, maker.trouble / 3)
    first, second = maker.fabrics[:2]
    for number in range(3):
        at, lasts = begin + draw.between(0, 5), draw.between(20, 60)
        maker.claim(at, f"idles-{number}", [{"name": "r0", "exactly": {"deviceClassName": model["device"]}}])
        maker.pod(at, f"idles-{number}", "default-scheduler", lasts, [f"idles-{number}"], fabric=first)
    for number in range(4):
        at = begin + draw.between(30, 120)
        maker.claim(at, f"wants-{number}", [{"name": "r0", "exactly": {"deviceClassName": model["device"]}}])
        maker.pod(at, f"wants-{number}", "default-scheduler", draw.between(30, 90), [f"wants-{number}"], fabric=second)
