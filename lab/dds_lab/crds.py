"""The custom kinds of the composable resource operator, as CustomResourceDefinitions (group cro.hpsys.ibm.ie.com/v1alpha1).

Restated from the operator's published types; printer columns are ours. Data only.
"""

from typing import Any

GROUP = "cro.hpsys.ibm.ie.com"
VERSION = "v1alpha1"

_STRING: dict[str, Any] = {"type": "string"}
_TYPE: dict[str, Any] = {"type": "string", "enum": ["gpu", "cxlmemory"]}
_MODEL: dict[str, Any] = {"type": "string", "minLength": 1}
_AMOUNT: dict[str, Any] = {"type": "integer", "format": "int64", "minimum": 0}

_OTHER_SPEC: dict[str, Any] = {
    "type": "object",
    "properties": dict.fromkeys(("allowed_pod_number", "ephemeral_storage", "memory", "milli_cpu"), _AMOUNT),
}

_SCALAR_RESOURCE: dict[str, Any] = {
    "type": "object",
    "required": ["model", "size", "type"],
    "properties": {
        "type": _TYPE,
        "model": _MODEL,
        "size": _AMOUNT,
        "force_detach": {"type": "boolean"},
        "allocation_policy": {"type": "string", "enum": ["samenode", "differentnode"], "default": "samenode"},
        "target_node": _STRING,
        "other_spec": _OTHER_SPEC,
    },
}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", **({"required": list(required)} if required else {}), "properties": properties}


def _kind(spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    head = {"apiVersion": _STRING, "kind": _STRING, "metadata": {"type": "object"}}
    return _object({**head, "spec": spec, "status": _object(status)})


_OF_REQUEST = _object(dict.fromkeys(("cdi_device_id", "device_id", "error", "node_name", "state"), _STRING), "state")
_REQUEST = _kind(
    _object({"resource": _SCALAR_RESOURCE}, "resource"),
    {
        "state": _STRING,
        "error": _STRING,
        "resources": {"type": "object", "additionalProperties": _OF_REQUEST},
        "scalarResource": _SCALAR_RESOURCE,
    },
)
_RESOURCE = _kind(
    _object(
        {"type": _TYPE, "model": _MODEL, "target_node": _STRING, "force_detach": {"type": "boolean"}},
        "model", "target_node", "type",
    ),
    dict.fromkeys(("cdi_device_id", "device_id", "error", "state"), _STRING),
)  # fmt: skip


def _column(name: str, path: str, kind: str = "string", priority: int = 0) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    return {**column, "priority": priority} if priority else column


def _definition(kind: str, plural: str, schema: dict[str, Any], columns: list[dict[str, Any]]) -> dict[str, Any]:
    singular = kind.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": singular},
            "scope": "Cluster",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }


_AGE = _column("Age", ".metadata.creationTimestamp", "date")

COMPOSABILITY_REQUESTS = _definition(
    "ComposabilityRequest",
    "composabilityrequests",
    _REQUEST,
    [
        _column("Model", ".spec.resource.model"),
        _column("Size", ".spec.resource.size", "integer"),
        _column("Node", ".spec.resource.target_node"),
        _column("State", ".status.state"),
        _column("Error", ".status.error", priority=1),
        _AGE,
    ],
)
"""So many devices of a model for a node."""

COMPOSABLE_RESOURCES = _definition(
    "ComposableResource",
    "composableresources",
    _RESOURCE,
    [
        _column("Model", ".spec.model"),
        _column("Node", ".spec.target_node"),
        _column("State", ".status.state"),
        _column("Device", ".status.device_id"),
        _column("Error", ".status.error", priority=1),
        _AGE,
    ],
)
"""One device of one request."""

DEFINITIONS = (COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES)
