"""Raw objects that are not as they should be: each field that is refused is named."""

from __future__ import annotations

from typing import Any

import pytest

from dds_adapters.kubernetes import Fault
from tests.adapters.kubernetes.samples import DECODE, put, raw_of, sample

UNPRINTABLE = "is too long, or has a character such as NUL that does not print"
"""PostgreSQL's text takes no NUL, and a UID names a stream of the log; a name has at most 253 printable characters."""

REFUSED = [
    ("resourceclaims", "kind", "Pod", "kind", "is not ResourceClaim"),
    (
        "resourceclaims",
        "apiVersion",
        "resource.k8s.io/v2",
        "apiVersion",
        "is not resource.k8s.io/v1 or resource.k8s.io/v1beta2 or resource.k8s.io/v1beta1",
    ),
    ("nodes", "apiVersion", "v2", "apiVersion", "is not v1"),
    ("nodes", "metadata/uid", ..., "metadata.uid", "is missing"),
    ("nodes", "metadata/name", ..., "metadata.name", "is missing"),
    ("nodes", "metadata/uid", "u-1\0", "metadata.uid", UNPRINTABLE),
    ("pods", "metadata/uid", "u" * 254, "metadata.uid", UNPRINTABLE),
    ("nodes", "metadata", ..., "metadata", "is missing"),
    ("pods", "metadata/namespace", ..., "metadata.namespace", "is missing"),
    ("nodes", "metadata/labels", {"a": 1}, "metadata.labels[...]", "expected str, got int"),
    ("nodes", "spec/unschedulable", "yes", "spec.unschedulable", "expected bool, got str"),
    ("nodes", "metadata/deletionTimestamp", "soon", "metadata.deletionTimestamp", "invalid RFC3339 encoded datetime"),
    (
        "nodes",
        "metadata/creationTimestamp",
        "2026-11-21T02:11:04",
        "metadata.creationTimestamp",
        "expected datetime with a timezone component",
    ),
    ("resourceclaims", "spec/devices/requests/0/name", ..., "spec.devices.requests[0].name", "is missing"),
    (
        "resourceclaims",
        "spec/devices/requests/0/exactly",
        ...,
        "spec.devices.requests[0]",
        "is of a kind that is not known (neither exactly nor firstAvailable)",
    ),
    (
        "resourceclaims",
        "spec/devices/requests/0/exactly/deviceClassName",
        "",
        "spec.devices.requests[0].deviceClassName",
        "is missing",
    ),
    (
        "resourceclaims",
        "spec/devices/requests/0/exactly/allocationMode",
        "Some",
        "spec.devices.requests[0].allocationMode",
        "is not ExactCount or All",
    ),
    (
        "resourceclaims",
        "status/allocation/devices/results/0/pool",
        ...,
        "status.allocation.devices.results[0].pool",
        "is missing",
    ),
    (
        "resourceclaims",
        "status/devices/0/conditions/0/status",
        True,
        "status.devices[0].conditions[0].status",
        "expected str, got bool",
    ),
    ("resourceslices", "spec/pool/generation", "5", "spec.pool.generation", "expected int, got str"),
    ("resourceslices", "spec/pool/generation", -1, "spec.pool.generation", "expected int >= 0"),
    ("resourceslices", "spec/pool/generation", 1 << 63, "spec.pool.generation", "expected int <= 9223372036854775807"),
    ("resourceslices", "spec/devices/0/name", ..., "spec.devices[0].name", "is missing"),
    (
        "resourceslices",
        "spec/devices",
        [{"name": "a"}, {"name": "a"}],
        "spec.devices[1].name",
        "another device of the slice has it",
    ),
    (
        "resourceslices",
        "spec/devices/0/attributes/uuid",
        {"string": "a", "int": 1},
        "spec.devices[0].attributes",
        "one of them has more than one type",
    ),
    (
        "resourceslices",
        "spec/devices/0/attributes/uuid",
        {"string": 1},
        "spec.devices[0].attributes[...].string",
        "expected str | null, got int",
    ),
    (
        "resourceslices",
        "spec/devices/0/capacity/memory",
        "40Gi",
        "spec.devices[0].capacity[...]",
        "expected object, got str",
    ),
    ("resourceslices", "spec/nodeSelector", {}, "spec.nodeSelector.nodeSelectorTerms", "must be exactly one term"),
    (
        "deviceclasses",
        "spec/selectors/0",
        {"other": {}},
        "spec.selectors[0]",
        "is of a kind that is not known (cel is missing)",
    ),
    (
        "devicetaintrules",
        "spec/deviceSelector/deviceClassName",
        "gpu",
        "spec.deviceSelector",
        "selects by class or CEL, which is not understood",
    ),
    ("devicetaintrules", "spec/taint", ..., "spec.taint", "is missing"),
    ("composabilityrequests", "spec/resource/size", -1, "spec.resource.size", "expected int >= 0"),
    ("composabilityrequests", "spec/resource/model", ..., "spec.resource.model", "is missing"),
    ("composabilityrequests", "status/resources", ["gpu-1"], "status.resources", "expected object | null, got array"),
    ("composableresources", "spec/target_node", 5, "spec.target_node", "expected str, got int"),
    ("composableresources", "status/error", {"a": 1}, "status.error", "expected str, got object"),
]


@pytest.mark.parametrize(("resource", "path", "value", "field", "reason"), REFUSED)
def test_what_is_not_as_expected_is_named(resource: str, path: str, value: Any, field: str, reason: str) -> None:
    with pytest.raises(Fault) as e:
        DECODE[resource](raw_of(put(sample(resource), path, value)))
    assert (e.value.field, e.value.reason) == (field, reason)
    assert str(e.value) == f"{field}: {reason}"


@pytest.mark.parametrize("resource", DECODE)
@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "is not well-formed JSON"),
        (b"nope", "is not well-formed JSON"),
        (b'{"metadata":{"uid":"\xff"}}', "is not well-formed JSON"),
        (b'{"metadata":{"uid":"\\ud800"}}', "is not well-formed JSON"),
        (b'{"other":' + b"[" * 100_000, "is nested too deeply"),
        (b"[]", "expected object, got array"),
    ],
)
def test_what_is_no_object_at_all(resource: str, raw: bytes, reason: str) -> None:
    with pytest.raises(Fault) as e:
        DECODE[resource](raw)
    assert (e.value.field, e.value.reason) == ("object", reason)
