"""The marks by which everything of a lab in a foreign cluster is found again, and the rights that it needs there. Data only."""

from __future__ import annotations

from typing import Any, Final

from dds_adapters.kubernetes.watch.watch_spec import OPERATOR as GROUP
from dds_lab.actors.operator.names import FINALIZER
from dds_lab.api.kinds import EXTENSIONS, RESOURCE, Object
from dds_lab.lab_settings import SCHEME

LABEL: Final = "lab.dynamic-device-scaler.io/joined"
"""On every object that the lab makes, and on every node that it uses; the value is the scenario's name. Also the key of the taint
of its nodes."""
LENT: Final = "lab.dynamic-device-scaler.io/lent"
"""Annotation of a node that existed before: the labels that the lab has added to it, separated by commas."""
LEASES: Final = "kube-node-lease"
LEASE: Final = "dds-lab"
"""The Lease, in the namespace of the nodes' leases, by which a lab says that it has joined. Made first, removed last."""
USER_AGENT: Final = "dds-lab"

KINDS: tuple[str, ...] = (
    "pods",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    f"composabilityrequests.{GROUP}",
    f"composableresources.{GROUP}",
    "devicetaintrules.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "nodes",
    "leases.coordination.k8s.io",
    "deviceclasses.resource.k8s.io",
    "configmaps",
    "events",
    f"customresourcedefinitions.{EXTENSIONS}",
    "namespaces",
)
"""All that a lab may make, in the order in which it goes: what is used after what uses it."""

FINALIZERS = (FINALIZER,)
"""Finalizers of the simulated operator, which nobody else takes off once it has gone."""

OPERATOR_POD = "composable-resource-operator"
"""Part of the name of a real operator's pod."""


def is_marked(obj: Object) -> bool:
    return LABEL in (obj["metadata"].get("labels") or {})


def is_made(node: Object) -> bool:
    """Whether the lab made the node: its providerID, which nobody can change, says so too."""
    return is_marked(node) and str(node["spec"].get("providerID", "")).startswith(SCHEME)


def target_of(obj: Object) -> str:
    """The node that a request or resource of the operator is for, "" for none."""
    spec = obj.get("spec") or {}
    return str((spec.get("resource") or spec).get("target_node", ""))


def taint(name: str) -> Object:
    """The taint of nodes that do not exist."""
    return {"key": LABEL, "value": name, "effect": "NoSchedule"}


TOLERATION: Object = {"key": LABEL, "operator": "Exists"}

_KEPT = ("get", "list", "create", "patch", "delete")
_FOLLOWED = ("get", "list", "watch", "create", "update", "patch", "delete")

RIGHTS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("", ("nodes", "pods"), ("get", "list", "watch", "create", "patch", "delete")),
    ("", ("nodes/status", "pods/status"), ("patch",)),
    ("", ("pods/eviction",), ("create",)),
    ("", ("configmaps", "namespaces", "events"), _KEPT),
    ("coordination.k8s.io", ("leases",), _KEPT),
    (EXTENSIONS, ("customresourcedefinitions",), ("get", "list", "create", "delete")),
    (RESOURCE, ("resourceslices", "resourceclaims"), _FOLLOWED),
    (RESOURCE, ("resourceclaims/status",), ("update", "patch")),
    (RESOURCE, ("resourceclaims/driver",), ("arbitrary-node:update", "arbitrary-node:patch")),
    (RESOURCE, ("resourceclaimtemplates", "deviceclasses"), _KEPT),
    (RESOURCE, ("devicetaintrules",), ("get", "list", "watch", "create", "delete")),
    (GROUP, ("composabilityrequests", "composableresources"), _FOLLOWED),
    (GROUP, ("composabilityrequests/status", "composableresources/status"), ("update",)),
)
"""Group, resources, verbs."""


def role(name: str = "dds-lab") -> dict[str, Any]:
    """The ClusterRole that a lab needs."""
    rules = [
        {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)} for group, resources, verbs in RIGHTS
    ]
    meta = {"name": name}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules}
