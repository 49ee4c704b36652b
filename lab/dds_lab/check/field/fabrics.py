"""Clusters of several fabrics, each with pools of its own."""

from __future__ import annotations

from dds_lab.check.draw import Draw
from dds_lab.check.field.ground import Ground, whole_model


def empty_pools(maker: Ground, draw: Draw) -> None:
    """Devices of one fabric idle while pods of another wait, whose pool has one device: the second pod may be allocated what the
    publisher has not withdrawn yet."""
    if len(maker.fabrics) < 2:
        return
    model = whole_model(maker, draw)
    first, second = maker.fabrics[:2]
    for pool, count in zip(maker.written["cluster"]["fabrics"], (3, 1), strict=False):
        pool["devices"][model["model"]] = count
    begin = draw.between(5, maker.trouble / 3)
    idles = [(f"idles-{number}", begin + draw.between(0, 5), draw.between(20, 40), first) for number in range(3)]
    wants = [(f"wants-{number}", begin + 50 + number * draw.between(1, 10), 90.0, second) for number in range(3)]
    for name, at, lasts, fabric in (*idles, *wants):
        maker.claim(at, name, [{"name": "r0", "exactly": {"deviceClassName": model["device"]}}])
        maker.pod(at, name, "default-scheduler", lasts, [name], fabric=fabric)


def no_driver(maker: Ground, draw: Draw) -> None:
    """Two nodes have no driver pod for a while: the operator reports an error of each attach there. The others are well."""
    if len(maker.nodes) < 4:
        return
    since = draw.between(0, maker.trouble / 3)
    fault = {
        "kind": "refuse",
        "nodes": draw.some(maker.nodes, 2),
        "words": "no running nvidia driver pod was found on the node",
        "since": since,
        "until": min(since + draw.between(60, 400), maker.trouble),
    }
    maker.written["faults"]["fabric"].append(fault)


def warnings(maker: Ground, draw: Draw) -> None:
    """For a while the devices of a model, or some of them, come in a state of warning, in which they can be used."""
    model, since = whole_model(maker, draw), draw.between(0, maker.trouble / 3)
    until = min(since + draw.between(60, 400), maker.trouble)
    fault = {
        "kind": "warning",
        "models": [model["model"]],
        "since": since,
        "until": until,
        "share": draw.one((0.5, 1.0)),
    }
    maker.written["faults"]["fabric"].append(fault)
    for number in range(draw.whole(1, 4)):
        name, at = f"warned-{number}", draw.between(max(1.0, since), until)
        maker.claim(at, name, [{"name": "r0", "exactly": {"deviceClassName": model["device"]}}])
        maker.pod(at, name, "default-scheduler", draw.between(30, 200), [name])
