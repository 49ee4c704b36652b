"""Gates have the defaults of their release; what a gate that is off guards is dropped without a word, unless it is in use."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from dds_core.errors import InputError
from dds_lab.api.gates import OPTIONAL_VERSIONS, VERSIONS, Gates, known_as
from dds_lab.api.registry import Registry
from tests.lab.kinds.kinds import (
    RESULT,
    allocated,
    changed,
    claim,
    created,
    pod,
    registry,
    resource_slice,
    strategy,
    updated,
)


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        ("DRADeviceBindingConditions", [False, False, True, True]),
        ("DRAConsumableCapacity", [False, False, True, True]),
        ("DRADeviceTaints", [False, False, True, True]),
        ("DRADeviceTaintRules", [False, False, False, True]),
        ("DRAOptionalNodeOperations", [False, False, False, False]),
        ("DRAPrioritizedList", [True, True, True, True]),
        ("DRAResourceClaimDeviceStatus", [True, True, True, True]),
        ("DRAResourceClaimGranularStatusAuthorization", [False, False, True, True]),
        ("NominatedNodeNameForExpectation", [False, True, True, True]),
    ],
)
def test_defaults_by_release(gate: str, expected: list[bool]) -> None:
    assert [Gates.for_version(version).on(gate) for version in VERSIONS] == expected


def test_a_later_patch_release_has_the_gates_of_its_release() -> None:
    runtime = ["resource.k8s.io/v1beta2"]
    patched, first = (
        Gates.for_version(version, {"DRADeviceTaintRules": True}, runtime) for version in ("1.36.3", "1.36")
    )

    assert (patched.enabled, patched.served) == (first.enabled, first.served)


@pytest.mark.parametrize(
    ("version", "overrides", "runtime", "words"),
    [
        ("1.20", {}, [], "1.34, 1.35, 1.36, 1.37"),
        ("1.36", {"DRANothing": True}, [], "DRADeviceTaints"),
        ("1.34", {"DRADeviceTaintRules": True}, [], "1.34 has no gate"),
        ("1.36", {"DRAAdminAccess": False}, [], "locked"),
        ("1.36", {"DRAOptionalNodeOperations": True}, [], "1.36 has no gate"),
        ("1.37", {"DRAResourceClaimDeviceStatus": False}, [], "locked"),
        ("1.37", {"DRADeviceTaints": False}, [], "DRADeviceTaintRules is on"),
        ("1.36", {"DRAResourceClaimDeviceStatus": False}, [], "DRADeviceBindingConditions is on"),
        ("1.36", {}, ["resource.k8s.io/v9"], "resource.k8s.io/v1beta2"),
        ("1.36", {}, ["resource.k8s.io/v1beta2/pods"], "resource.k8s.io/v1beta2"),
    ],
)
def test_what_is_not_known_is_named_with_what_is(
    version: str, overrides: dict[str, bool], runtime: Collection[str], words: str
) -> None:
    with pytest.raises(InputError, match=words.replace(".", r"\.")):
        Gates.for_version(version, overrides, runtime)


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("1.36", "1.36"), ("1.36.2", "1.36"), ("1.36.3", "1.36.3"), ("1.36.12", "1.36.3"), ("1.37.0", "1.37"),
        ("1.37.1", "1.37.1"), ("1.35.7", "1.35"), ("1.33.1", "1.37"), ("1.36.x", "1.36"), ("", "1.37"), ("x", "1.37"),
    ],
)  # fmt: skip
def test_a_servers_version_is_that_of_a_known_release(version: str, known: str) -> None:
    assert known_as(version) == known
    assert Gates.for_version(known).version == known


def test_asking_for_an_unknown_gate_is_an_error() -> None:
    with pytest.raises(InputError, match="no gate 'DRANothing'"):
        Gates.for_version().on("DRANothing")


@pytest.mark.parametrize(
    ("version", "runtime", "served"),
    [
        ("1.36", [], []),
        ("1.36", ["resource.k8s.io/v1beta2"], ["v1beta2"]),
        ("1.36", ["resource.k8s.io/v1alpha3"], ["v1alpha3"]),
        ("1.36", ["resource.k8s.io/v1beta2/devicetaintrules"], ["v1beta2"]),
        ("1.36", OPTIONAL_VERSIONS, ["v1beta2", "v1alpha3"]),
        ("1.35", OPTIONAL_VERSIONS, ["v1alpha3"]),
        ("1.37", [], ["v1"]),
        ("1.37", ["resource.k8s.io/v1alpha3/devicetaintrules"], ["v1", "v1alpha3"]),
        ("1.37.1", OPTIONAL_VERSIONS, ["v1", "v1beta2", "v1alpha3"]),
    ],
)
def test_taint_rules_are_served_from_1_37_or_when_asked_for(
    version: str, runtime: Collection[str], served: list[str]
) -> None:
    known = Registry(Gates.for_version(version, {}, runtime))
    assert [resource.version for resource in known.resources() if resource.plural == "devicetaintrules"] == served


def test_versions_of_taint_rules_share_their_objects() -> None:
    known = registry()
    beta, alpha = (
        known.find("resource.k8s.io", "v1beta2", "devicetaintrules"),
        known.find("resource.k8s.io", "v1alpha3", "devicetaintrules"),
    )
    assert beta is not None and alpha is not None and beta.key == alpha.key
    body = {"metadata": {"name": "t"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}
    stored = created(known.strategy(alpha), body)
    assert stored["apiVersion"] == "resource.k8s.io/v1beta2"
    assert known.strategy(alpha).from_storage(stored)["apiVersion"] == "resource.k8s.io/v1alpha3"
    assert known.by_key(alpha.key) is beta


TAINTED = resource_slice(taints=[{"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}])
BOUND = resource_slice(bindsToNode=True, bindingConditions=["A"], bindingFailureConditions=["B"])
SHARED = resource_slice(
    allowMultipleAllocations=True,
    capacity={"bw": {"value": "10Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}},
)
FIRST = changed(
    claim(),
    "spec.devices.requests.0",
    {
        "name": "r0",
        "firstAvailable": [{"name": "a", "deviceClassName": "g", "allocationMode": "ExactCount", "count": 1}],
    },
)


@pytest.mark.parametrize(
    ("gate", "plural", "body", "gone"),
    [
        ("DRADeviceTaints", "resourceslices", TAINTED, "taints"),
        ("DRADeviceBindingConditions", "resourceslices", BOUND, "bindingConditions"),
        ("DRAConsumableCapacity", "resourceslices", SHARED, "requestPolicy"),
        (
            "DRAPartitionableDevices",
            "resourceslices",
            resource_slice(consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "1"}}}]),
            "consumesCounters",
        ),
        (
            "DRAExtendedResource",
            "deviceclasses",
            {"metadata": {"name": "c"}, "spec": {"extendedResourceName": "a.com/gpu"}},
            "extendedResourceName",
        ),
        (
            "DRAConsumableCapacity",
            "resourceclaims",
            changed(claim(), "spec.devices.requests.0.exactly.capacity", {"requests": {"bw": "1Gi"}}),
            "capacity",
        ),
        (
            "DRADeviceTaints",
            "resourceclaims",
            changed(claim(), "spec.devices.requests.0.exactly.tolerations", [{"operator": "Exists"}]),
            "tolerations",
        ),
    ],
)
def test_a_gate_that_is_off_drops_its_fields(gate: str, plural: str, body: dict[str, Any], gone: str) -> None:
    off = {gate: False}
    if gate == "DRADeviceTaints":
        off["DRADeviceTaintRules"] = False
    assert gone not in str(created(strategy(plural, None, **off), body))
    assert gone in str(created(strategy(plural), body))


NEWER = changed(
    changed(
        resource_slice(
            consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": ["g"]}],
            nodeAllocatableResources={"cpu": {"mapping": {"deviceMultiplier": "1"}}},
        ),
        "spec.skipNodeOperations",
        ["*"],
    ),
    "spec.partitionTypeAttribute",
    "example.com/type",
)
OF_1_37 = {
    "DRADeviceCompatibilityGroups": "compatibilityGroups",
    "DRANodeAllocatableResources": "nodeAllocatableResources",
    "DRAOptionalNodeOperations": "skipNodeOperations",
    "DRAPartitionableDevicesType": "partitionTypeAttribute",
}


@pytest.mark.parametrize("gate", OF_1_37)
def test_fields_of_1_37_are_known_there_and_kept_with_their_gate(gate: str) -> None:
    kept = []
    for on in ({}, {gate: True}):
        known = registry("1.37", **on)
        made = known.strategy(known.named("resourceslices"))
        decoded, unknown = made.decode(NEWER)
        assert unknown == []
        kept.append({field for field in OF_1_37.values() if field in str(made.for_create(decoded))})
    assert kept == [set(), {OF_1_37[gate]}]


def test_1_36_does_not_know_the_fields_of_1_37_nor_1_37_one_of_1_36() -> None:
    def unknown(version: str, body: dict[str, Any]) -> list[str]:
        known = registry(version)
        return known.strategy(known.named("resourceslices")).decode(body)[1]

    assert {one.rpartition(".")[2] for one in unknown("1.36", NEWER)} == set(OF_1_37.values())
    gone = resource_slice(nodeAllocatableResourceMappings={"cpu": {"allocationMultiplier": "1"}})
    assert unknown("1.36", gone) == []
    assert unknown("1.37", gone) == ["spec.devices[0].nodeAllocatableResourceMappings"]


def test_results_of_1_37_are_gated_too() -> None:
    body = changed(allocated(), "status.allocation.devices.results.0.skipNodeOperations", ["*"])
    for on in (True, False):
        known = registry("1.37", DRAOptionalNodeOperations=on)
        made = known.strategy(known.named("resourceclaims"))
        assert ("skipNodeOperations" in str(updated(made, body, claim(), "status"))) is on


def test_a_slice_with_binding_conditions_becomes_an_ordinary_one_on_older_servers() -> None:
    for version in ("1.34", "1.35"):
        known = registry(version)
        stored = created(known.strategy(known.named("resourceslices")), BOUND)
        assert stored["spec"]["devices"] == [{"name": "gpu-0"}]


def test_a_field_in_use_stays_when_the_gate_goes_off() -> None:
    old = created(strategy("resourceslices"), BOUND)
    off = strategy("resourceslices", DRADeviceBindingConditions=False)
    assert updated(off, changed(old, "metadata.labels", {"a": "b"}), old)["spec"] == old["spec"]
    plain = created(off, resource_slice())
    assert "bindingConditions" not in str(
        updated(off, changed(plain, "spec.devices.0", BOUND["spec"]["devices"][0]), plain)
    )


def test_prioritized_lists_can_be_switched_off() -> None:
    known = registry("1.34", DRAPrioritizedList=False)
    made = known.strategy(known.named("resourceclaims"))
    decoded, _ = made.decode(FIRST)
    assert made.for_create(decoded)["spec"]["devices"]["requests"] == [{"name": "r0"}]


def test_status_fields_are_gated_too() -> None:
    made = strategy("resourceclaims", DRADeviceBindingConditions=False)
    stored = updated(made, allocated(), claim(), "status")
    assert stored["status"]["allocation"]["devices"]["results"] == [
        {key: RESULT[key] for key in ("request", "driver", "pool", "device")}
    ]
    assert "allocationTimestamp" not in stored["status"]["allocation"]
    off = strategy("resourceclaims", DRADeviceBindingConditions=False, DRAResourceClaimDeviceStatus=False)
    assert "devices" not in updated(off, allocated(), claim(), "status")["status"]


def test_a_pods_extended_claim_is_gated() -> None:
    body = {
        **pod(),
        "status": {
            "extendedResourceClaimStatus": {
                "resourceClaimName": "c",
                "requestMappings": [{"containerName": "c", "resourceName": "a.com/g", "requestName": "r"}],
            }
        },
    }
    for on in (True, False):
        made = strategy("pods", DRAExtendedResource=on)
        old = created(made, pod())
        assert (
            "extendedResourceClaimStatus" in updated(made, {**old, "status": body["status"]}, old, "status")["status"]
        ) is on
