"""An autoscaler's groups of servers, orders and waiting pods, as plain data and as tables, for `dds status` and `dds replay`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dds_commands.rows import Table, field
from dds_core.autoscaler.records import Order
from dds_core.autoscaler.state import Fleet


def group_rows(state: Fleet) -> list[dict[str, Any]]:
    """Groups as the autoscaler last showed them, with the number of servers by state."""
    servers = Counter((one.group, one.state) for one in state.cluster.servers.rows.values())
    return [
        {
            "group": name,
            "target": one.target,
            "minimum": one.minimum,
            "maximum": one.maximum,
            "members": list(one.members),
            "coming": len(state.coming(name)),
            "servers": {phase: count for (group, phase), count in sorted(servers.items()) if group == name},
            "closed": one.closed,
        }
        for name, one in sorted(state.groups.rows.items())
    ]


def order_rows(state: Fleet) -> list[dict[str, Any]]:
    """Ordered servers whose nodes are not there yet, oldest first, then servers that are being given back."""
    orders = [
        {
            "order": name,
            "group": one.group,
            "state": _state(one),
            "since": one.since,
            "why": f"{one.code}: {one.message}" if one.code else "",
        }
        for name, one in state.orders.rows.items()
    ]
    leaving = [
        {
            "order": row.node or uid,
            "group": row.group,
            "state": "node goes" if row.removing else "goes back",
            "since": row.since,
            "why": "",
        }
        for uid, row in state.leaving.rows.items()
    ]
    return sorted([*orders, *leaving], key=lambda row: (row["since"], row["order"]))


def _state(order: Order) -> str:
    if order.over:
        return "goes back"
    return "failed" if order.code else "comes"


def waiting_rows(state: Fleet) -> list[dict[str, Any]]:
    """Waiting pods, each with what would let it run."""
    pods = ((state.cluster.loads.get(uid), one) for uid, one in state.advice.rows.items())
    rows = [
        {"pod": f"{pod.namespace}/{pod.name}", "helps": one.case, "why": one.words}
        for pod, one in pods
        if pod is not None
    ]
    return sorted(rows, key=lambda row: row["pod"])


GROUPS = Table(
    (
        "group",
        "target",
        ("least", field("minimum")),
        ("most", field("maximum")),
        ("members", lambda row, ages: str(len(row["members"]))),
        "coming",
        (
            "servers",
            lambda row, ages: ", ".join(f"{count} {state}" for state, count in row["servers"].items()) or "-",
        ),
        ("closed", field("closed", "-")),
    )
)
