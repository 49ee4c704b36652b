"""Schema nodes of built-in kinds, from the packed facts of Kubernetes 1.36 (`data/kinds-1.36.json.gz`).

Nodes are built on first use, and shared. This module adds what OpenAPI does not say: which optional fields a real server always
writes, and which it leaves out if they are zero (Go's omitempty on values and on pointers).
"""

import gzip
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

import msgspec

from dds_lab.api.schema import EMPTY, Node

SYSTEM_INFO = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
    "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip

ZEROS: Mapping[str, Mapping[str, Any]] = {
    "core.v1.ConfigMap": {"metadata": {}},
    "core.v1.Container": {"resources": {}},
    "core.v1.ContainerStatus": {
        "state": {}, "lastState": {}, "ready": False, "restartCount": 0, "image": "", "imageID": "",
    },
    "core.v1.Event": {
        "metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": None, "lastTimestamp": None,
        "eventTime": None, "reportingComponent": "", "reportingInstance": "",
    },
    "core.v1.Namespace": {"metadata": {}, "spec": {}, "status": {}},
    "core.v1.Node": {"metadata": {}, "spec": {}, "status": {}},
    "core.v1.NodeCondition": {"lastHeartbeatTime": None, "lastTransitionTime": None},
    "core.v1.NodeDaemonEndpoints": {"kubeletEndpoint": {}},
    "core.v1.DaemonEndpoint": {"Port": 0},
    "core.v1.NodeStatus": {"daemonEndpoints": {}, "nodeInfo": {}},
    "core.v1.NodeSystemInfo": dict.fromkeys(SYSTEM_INFO, ""),
    "core.v1.Pod": {"metadata": {}, "spec": {}, "status": {}},
    "core.v1.PodSpec": {"containers": None},
    "core.v1.PodCondition": {"lastProbeTime": None, "lastTransitionTime": None},
    "core.v1.Secret": {"metadata": {}},
    "core.v1.ServiceAccount": {"metadata": {}},
    "admissionregistration.v1.ValidatingAdmissionPolicy": {"metadata": {}, "spec": {}, "status": {}},
    "admissionregistration.v1.ValidatingAdmissionPolicyBinding": {"metadata": {}, "spec": {}},
    "coordination.v1.Lease": {"metadata": {}, "spec": {}},
    "events.v1.Event": {
        "metadata": {}, "eventTime": None, "regarding": {}, "deprecatedSource": {}, "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    },
    "meta.v1.Condition": {"lastTransitionTime": None, "message": ""},
    "rbac.v1.ClusterRole": {"metadata": {}, "rules": None},
    "rbac.v1.ClusterRoleBinding": {"metadata": {}, "roleRef": {}},
    "rbac.v1.RoleBinding": {"metadata": {}, "roleRef": {}},
    "rbac.v1.RoleRef": {"apiGroup": "", "kind": "", "name": ""},
    "rbac.v1.Subject": {"kind": "", "name": ""},
    "rbac.v1.PolicyRule": {"verbs": None},
    "rbac.v1.Role": {"metadata": {}, "rules": None},
    "resource.v1.DeviceClass": {"metadata": {}, "spec": {}},
    "resource.v1.ResourceClaim": {"metadata": {}, "spec": {}, "status": {}},
    "resource.v1.ResourceClaimSpec": {"devices": {}},
    "resource.v1.AllocatedDeviceStatus": {"conditions": None},
    "resource.v1.AllocationResult": {"devices": {}},
    "resource.v1.ResourceClaimTemplate": {"metadata": {}, "spec": {}},
    "resource.v1.ResourceClaimTemplateSpec": {"metadata": {}, "spec": {}},
    "resource.v1.DeviceClaim": {"requests": None},
    "resource.v1.ResourcePool": {"name": "", "generation": 0, "resourceSliceCount": 0},
    "resource.v1.ResourceSlice": {"metadata": {}, "spec": {}},
    "resource.v1.ResourceSliceSpec": {"driver": "", "pool": {}},
    "resource.v1beta2.DeviceTaintRule": {"metadata": {}, "spec": {}, "status": {}},
    "resource.v1alpha3.DeviceTaintRule": {"metadata": {}, "spec": {}, "status": {}},
    "apiextensions.v1.CustomResourceDefinition": {"metadata": {}, "spec": {}, "status": {}},
    "apiextensions.v1.CustomResourceDefinitionCondition": {"lastTransitionTime": None},
    "apiextensions.v1.CustomResourceDefinitionStatus": {
        "conditions": None, "acceptedNames": {}, "storedVersions": None,
    },
    "apiextensions.v1.CustomResourceDefinitionNames": {"plural": "", "kind": ""},
    "authentication.v1.SelfSubjectReview": {"metadata": {}, "status": {}},
    "authentication.v1.SelfSubjectReviewStatus": {"userInfo": {}},
    "authentication.v1.TokenReview": {"metadata": {}, "spec": {}, "status": {}},
    "authentication.v1.TokenReviewStatus": {"user": {}},
    "authorization.v1.LocalSubjectAccessReview": {"metadata": {}, "spec": {}, "status": {}},
    "authorization.v1.SelfSubjectAccessReview": {"metadata": {}, "spec": {}, "status": {}},
    "authorization.v1.SelfSubjectRulesReview": {"metadata": {}, "spec": {}, "status": {}},
    "authorization.v1.SubjectAccessReview": {"metadata": {}, "spec": {}, "status": {}},
    "authorization.v1.SubjectAccessReviewStatus": {"allowed": False},
}  # fmt: skip
"""By definition: fields that are always written, even if not set, since their Go type is no pointer."""

POINTERS = frozenset({
    "resource.v1.DeviceAttribute", "resource.v1.ResourceSliceSpec", "resource.v1.Device", "resource.v1.DeviceConstraint",
    "resource.v1.DeviceClassSpec", "resource.v1.DeviceRequestAllocationResult", "resource.v1.AllocatedDeviceStatus",
    "resource.v1beta2.DeviceTaintSelector", "resource.v1alpha3.DeviceTaintSelector", "core.v1.PodResourceClaim",
    "core.v1.PodResourceClaimStatus", "coordination.v1.LeaseSpec", "apiextensions.v1.ValidationRule",
    "core.v1.SecurityContext", "core.v1.EnvVar", "apiextensions.v1.CustomResourceConversion",
})  # fmt: skip
"""Definitions whose optional strings are pointers in Go: an empty string is a value, and kept."""

ZERO_VALUES: Mapping[str, frozenset[str]] = {
    "core.v1.NodeSpec": frozenset({"unschedulable"}),
    "core.v1.PodSpec": frozenset({"hostNetwork", "hostPID", "hostIPC"}),
    "core.v1.PodStatus": frozenset({"observedGeneration"}),
    "core.v1.PodCondition": frozenset({"observedGeneration"}),
    "core.v1.Event": frozenset({"count"}),
    "events.v1.Event": frozenset({"deprecatedCount"}),
    "core.v1.Container": frozenset({"stdin", "stdinOnce", "tty"}),
    "core.v1.VolumeMount": frozenset({"readOnly"}),
    "core.v1.ContainerPort": frozenset({"hostPort"}),
    "meta.v1.ObjectMeta": frozenset({"generation"}),
    "meta.v1.Condition": frozenset({"observedGeneration"}),
    "resource.v1.ExactDeviceRequest": frozenset({"count"}),
    "resource.v1.DeviceSubRequest": frozenset({"count"}),
    "authentication.v1.TokenReviewStatus": frozenset({"authenticated"}),
    "authorization.v1.SubjectAccessReviewStatus": frozenset({"denied"}),
}
"""Numbers and booleans that are no pointers in Go, and left out if zero. Others are pointers, or never zero."""


SCHEMA_OR_OTHER = ("JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray")
"""Definitions of a schema or something else. A schema is decoded as one."""


def kind_node(group: str, version: str, kind: str) -> Node:
    """The root node of a built-in kind, or of a body (Binding, Eviction of group policy, DeleteOptions)."""
    return _named(_data()["kinds"][f"{group}/{version}/{kind}"])


def definition(name: str) -> Node:
    """The node of the definition whose name ends so, such as `meta.v1.ObjectMeta`."""
    return _named(next(full for full in _data()["definitions"] if full.endswith("." + name)))


@cache
def _data() -> dict[str, Any]:
    packed = resources.files(__package__) / "data" / "kinds-1.36.json.gz"
    data: dict[str, Any] = msgspec.json.decode(gzip.decompress(packed.read_bytes()))
    return data


_built: dict[str, Node] = {}


def _named(full: str) -> Node:
    """A definition's node. Several threads may ask at once: each gets a node with all its fields."""
    if full not in _built:
        new: dict[str, Node] = {}
        _build(full, new)
        for name, node in new.items():
            _built.setdefault(name, node)
    return _built[full]


def _build(full: str, new: dict[str, Node]) -> Node:
    """The node. New nodes that it needs go to `new`."""
    found = _built.get(full) or new.get(full)
    if found is not None:
        return found
    if full.endswith(SCHEMA_OR_OTHER):
        found = new[full] = _with(_build(full[: full.index("Or")], new), type="any")
        return found
    facts = _data()["definitions"][full]
    short = ".".join(full.split(".")[-3:])
    # A definition may contain itself (JSON schemas do), so its node is registered before its fields are filled in.
    fields: dict[str, Node] = {}
    named = {"name": full.rsplit(".", 1)[-1], "zeros": ZEROS.get(short, EMPTY)}
    node = _node(facts, new, fields=MappingProxyType(fields), **named)
    node = _with(node, falsy=_falsy(short, facts))
    new[full] = node
    fields.update({key: _child(part, new) for key, part in facts.get("fields", {}).items()})
    return node


def _child(facts: dict[str, Any], new: dict[str, Node]) -> Node:
    if "ref" not in facts:
        return _node(facts, new)
    own = {key: _tupled(value) for key, value in facts.items() if key != "ref"}
    node = _build(facts["ref"], new)
    return _with(node, **own) if own else node


def _node(facts: dict[str, Any], new: dict[str, Node], **more: Any) -> Node:
    items = _child(facts["items"], new) if "items" in facts else None
    plain = {key: _tupled(value) for key, value in facts.items() if key not in ("items", "fields")}
    return Node(**plain, items=items, **more)


def _falsy(short: str, facts: dict[str, Any]) -> frozenset[str]:
    required = set(facts.get("required", ())) | set(ZEROS.get(short, ()))
    strings = {key for key, part in facts.get("fields", {}).items() if part.get("type") == "string"} - required
    return ZERO_VALUES.get(short, frozenset()) | (frozenset() if short in POINTERS else strings)


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _with(node: Node, **changes: Any) -> Node:
    return Node(**{**{name: getattr(node, name) for name in Node.__slots__}, **changes})
