"""The autoscaler's admission policy: examples for test_admission.py."""

from __future__ import annotations

from typing import Any

from dds_core.autoscaler.records import DELETED_BY_CA, STARTING
from tests.project.deploy.admission import AUTOSCALER_ACCOUNT, Asked, Object
from tests.project.deploy.test_admission_publisher import changed

OURS = {"key": STARTING.key, "effect": STARTING.effect}
ANOTHERS = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-11-21T10:00:00Z"}
CONDEMNED = {"key": DELETED_BY_CA, "value": "1", "effect": "NoSchedule"}
NODE: Object = {
    "metadata": {"name": "node1", "labels": {"zone": "a"}},
    "spec": {"providerID": "metal://node1", "podCIDR": "10.0.0.0/24", "taints": [OURS, ANOTHERS]},
    "status": {"capacity": {"cpu": "4"}},
}


def node(now: Object | None, was: Object = NODE, resource: str = "nodes") -> Asked:
    return Asked(resource, now, was, "", AUTOSCALER_ACCOUNT)


def taints(*left: dict[str, Any]) -> Asked:
    return node(changed(NODE, "spec", "taints", to=list(left) or None))


UNKNOWN = changed(NODE, "spec", "providerID", to=None)
ALLOWED: dict[str, Asked] = {
    "the start-up taint": taints(ANOTHERS),
    "the start-up taint, the only one": node(
        changed(NODE, "spec", "taints", to=None), changed(NODE, "spec", "taints", to=[OURS])
    ),
    "the Node of a server": node(None),
    "the Node of a server that Cluster Autoscaler gave back": node(
        None, changed(NODE, "spec", "taints", to=[CONDEMNED])
    ),
}
DENIED: dict[str, tuple[Asked, str]] = {
    "another's taint": (taints(OURS), "no taint of a node off"),
    "all taints": (taints(), "no taint of a node off"),
    "the start-up taint of another effect": (
        node(
            changed(NODE, "spec", "taints", to=[]),
            changed(NODE, "spec", "taints", to=[{**OURS, "effect": "NoExecute"}]),
        ),
        "no taint of a node off",
    ),
    "a taint more": (taints(OURS, ANOTHERS, CONDEMNED), "put none on"),
    "a taint anew": (taints({**ANOTHERS, "timeAdded": "2026-11-21T11:00:00Z"}), "put none on"),
    "cordon a node": (node(changed(NODE, "spec", "unschedulable", to=True)), "nothing of a node but its taints"),
    "another server's node": (
        node(changed(NODE, "spec", "providerID", to="metal://b")),
        "nothing of a node but its taints",
    ),
    "a label of a node": (
        node(changed(NODE, "metadata", "labels", "zone", to="b")),
        "nothing of a node but its taints",
    ),
    "annotate a node": (
        node(changed(NODE, "metadata", "annotations", to={"a": "b"})),
        "nothing of a node but its taints",
    ),
    "the capacity of a node": (
        node(changed(NODE, "status", "capacity", "cpu", to="8"), resource="nodes/status"),
        "nothing of a node but its taints",
    ),
    "a Node that is no server's": (node(None, UNKNOWN), "only Nodes of servers"),
}
