"""What the doctor finds out about fields, gates and the operator's kinds."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dds_adapters.kubernetes.decode import raw_objects
from dds_adapters.kubernetes.doctor import api_server
from dds_lab.crds import COMPOSABILITY_REQUESTS, DEFINITIONS
from dds_lab.scenario.cluster import Gates
from tests.support.doctor_lab import DoctorLab, levels, worst


@pytest.fixture(scope="module")
def clinic() -> DoctorLab:
    return DoctorLab()


# -- binding conditions ------------------------------------------------------------------------------------------------


def test_a_server_that_keeps_binding_conditions(clinic: DoctorLab) -> None:
    before = len(clinic.admin.list("resourceslices"))
    (found,) = clinic.look(api_server.binding_conditions)
    assert (found.level, found.what) == ("ok", "the API server keeps binding conditions of a slice (tried by dry-run)")
    assert len(clinic.admin.list("resourceslices")) == before


@pytest.mark.parametrize("version", ["1.34", "1.35"])
def test_a_server_that_drops_them_is_found_out(version: str) -> None:
    (found,) = DoctorLab(seconds=0, version=version).look(api_server.binding_conditions)
    assert found.level == "error"
    assert "drops bindingConditions and bindingFailureConditions" in found.what
    assert "DRADeviceBindingConditions" in found.mend


def test_with_the_gate_on_an_older_server_keeps_them() -> None:
    gates = Gates(api={"DRADeviceBindingConditions": True})
    assert levels(DoctorLab(seconds=0, version="1.35", gates=gates).look(api_server.binding_conditions)) == ["ok"]


def test_who_may_not_try_reads_what_was_published() -> None:
    clinic = DoctorLab()
    (found,) = clinic.look(api_server.binding_conditions, **clinic.with_role())
    assert found.level == "ok"
    assert "published slice" in found.what and "403" in found.what


def test_what_was_published_without_them_is_an_error() -> None:
    clinic = DoctorLab(version="1.35")
    (found,) = clinic.look(api_server.binding_conditions, **clinic.with_role())
    assert found.level == "error"
    assert "has no binding conditions" in found.what


def test_nothing_published_and_nothing_tried_is_unknown() -> None:
    clinic = DoctorLab(parts={"publisher": None})
    (found,) = clinic.look(api_server.binding_conditions, **clinic.with_role())
    assert found.level == "unknown"


# -- the scheduler -----------------------------------------------------------------------------------------------------


def claim(clinic: DoctorLab, *, conditions: bool) -> None:
    """A claim that the scheduler gave a device of the pool."""
    made = clinic.admin.create(
        "resourceclaims",
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "mine", "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "nvidia-a100-40"}}]}},
        },
    )
    result: dict[str, Any] = {
        "request": "r",
        "driver": "gpu.nvidia.com",
        "pool": "nvidia-a100-40-fabric1",
        "device": "d",
    }
    if conditions:
        result |= {"bindingConditions": ["FabricDeviceReady"], "bindingFailureConditions": ["FabricDeviceFailed"]}
    status = {"allocation": {"devices": {"results": [result]}}}
    clinic.admin.update("resourceclaims", {**made, "status": status}, subresource="status")


def test_gates_of_the_scheduler_are_unknown_at_first(clinic: DoctorLab) -> None:
    (found,) = clinic.look(api_server.scheduler_gates)
    assert (found.level, found.what) == ("unknown", "unknown until the first allocation of a pool device shows them")


@pytest.mark.parametrize(("conditions", "level"), [(True, "ok"), (False, "error")])
def test_the_first_allocation_shows_them(conditions: bool, level: str) -> None:
    clinic = DoctorLab()
    claim(clinic, conditions=conditions)
    (found,) = clinic.look(api_server.scheduler_gates)
    assert found.level == level
    assert "default/mine" in found.what


# -- the operator's kinds ----------------------------------------------------------------------------------------------


def test_the_operators_kinds_have_all_fields(clinic: DoctorLab) -> None:
    assert levels(clinic.look(api_server.custom_kinds)) == ["ok", "ok"]


def test_a_definition_that_is_missing() -> None:
    clinic = DoctorLab(seconds=0)
    clinic.admin.delete("customresourcedefinitions", "composableresources.cro.hpsys.ibm.ie.com")
    clinic.lab.run(5)
    found = clinic.look(api_server.custom_kinds)
    assert levels(found) == ["ok", "error"]
    assert "composableresources.cro.hpsys.ibm.ie.com are not served" in found[1].what
    assert found[1].mend.startswith("install the composable resource operator")


def older() -> dict[str, Any]:
    """A definition of a release that did not know everything yet."""
    definition = copy.deepcopy(COMPOSABILITY_REQUESTS)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["resource"]["properties"]["target_node"]
    del schema["properties"]["status"]["properties"]["error"]
    definition.pop("status", None)
    return definition


def test_fields_that_a_definition_lacks_are_named() -> None:
    clinic = DoctorLab(seconds=0)
    there = clinic.admin.get("customresourcedefinitions", "composabilityrequests.cro.hpsys.ibm.ie.com")
    clinic.admin.update("customresourcedefinitions", {**there, "spec": older()["spec"]})
    found = clinic.look(api_server.custom_kinds)
    assert levels(found) == ["error", "ok"]
    assert "spec.resource.target_node" in found[0].what and "status.error" in found[0].what


def test_the_fields_are_those_that_the_decoder_reads() -> None:
    paths = {".".join(path) for path in api_server.fields_of(raw_objects.RawComposabilityRequest)}
    assert {"spec.resource.size", "spec.resource.force_detach", "status.scalarResource.size", "status.error"} <= paths
    assert not any(path.startswith("metadata") for path in paths)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: str(one["spec"]["names"]["plural"]))
def test_by_the_definition_alone_the_answer_is_the_same(definition: dict[str, Any]) -> None:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    form = api_server.TYPES[definition["spec"]["names"]["plural"]][1]
    assert all(api_server.has(schema, path) for path in api_server.fields_of(form))


def test_a_schema_that_keeps_unknown_fields_has_them_all() -> None:
    loose = {"properties": {"spec": {"x-kubernetes-preserve-unknown-fields": True}}}
    assert api_server.has(loose, ("spec", "resource", "size"))
    assert not api_server.has(loose, ("status", "state"))


def test_nothing_is_unknown_in_a_sound_cluster(clinic: DoctorLab) -> None:
    assert worst(clinic.look(api_server.custom_kinds), "unknown") == []
