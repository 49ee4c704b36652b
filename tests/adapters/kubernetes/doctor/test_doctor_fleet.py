"""What the doctor says of ConfigMap, models, drivers, nodes, pools, publishers and of whoever else is at work."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from dds_adapters.kubernetes.cluster import Answer
from dds_adapters.kubernetes.doctor import configuration, fleet
from dds_adapters.kubernetes.doctor.context import ExaminationContext
from dds_core.scaler.policy import Policy
from dds_lab.driver import Direct
from tests.support.doctor_lab import WHERE, DoctorLab, levels, worst

CONFIG = "composable-dra-dds"
SPACE = "composable-dra"
A100 = "nvidia-a100-40"
POOL = f"{A100}-fabric1"
Change = Callable[[dict[str, str]], None]


@pytest.fixture(scope="module")
def sound() -> DoctorLab:
    return DoctorLab()


def rewritten(change: Change) -> DoctorLab:
    """A cluster whose ConfigMap somebody has edited; no publisher reads it."""
    clinic = DoctorLab()
    found = clinic.admin.get("configmaps", CONFIG, SPACE)
    data = dict(found["data"])
    change(data)
    clinic.admin.update("configmaps", {**found, "data": data})
    return clinic


def entries(change: Callable[[list[dict[str, Any]]], None]) -> Change:
    def rewrite(data: dict[str, str]) -> None:
        models = yaml.safe_load(data["device-info"])
        change(models)
        data["device-info"] = yaml.safe_dump(models)

    return rewrite


# -- the ConfigMap -----------------------------------------------------------------------------------------------------


def test_a_config_map_that_is_right(sound: DoctorLab) -> None:
    (found,) = sound.look(configuration.config_map)
    assert (found.level, "A100 40G, H100 80G" in found.what) == ("ok", True)


def test_no_config_map() -> None:
    (found,) = DoctorLab(seconds=0, config=False).look(configuration.config_map)
    assert found.level == "error"
    assert f"there is no ConfigMap {SPACE}/{CONFIG}" in found.what and "--namespace" in found.mend


def test_a_config_map_elsewhere(sound: DoctorLab) -> None:
    assert levels(sound.look(configuration.config_map, namespace="default")) == ["error"]


def test_a_bad_entry_is_named_and_the_others_stand() -> None:
    clinic = rewritten(entries(lambda models: models[0].update({"driver-name": "Not A Driver"})))
    bad, good = clinic.look(configuration.config_map)
    assert bad.level == "warning"
    assert "data.device-info[A100 40G].driver-name" in bad.what and "Not A Driver" not in bad.what
    assert (good.level, "models H100 80G;" in good.what) == ("ok", True)


@pytest.mark.parametrize(
    ("part", "text", "expected"),
    [
        ("device-info", "- [", ["error", "error"]),
        ("label-prefix", "Not A Prefix", ["error", "ok"]),
        ("fabric-id-range", "[one]", ["error", "ok"]),
        ("mode", "full speed", ["warning", "ok", "note"]),
        ("mode", "attach", ["ok", "note"]),
    ],
)
def test_a_part_that_cannot_be_read(part: str, text: str, expected: list[str]) -> None:
    clinic = rewritten(lambda data: data.update({part: text}))
    found = clinic.look(configuration.config_map)
    assert levels(found) == expected
    if expected[0] != "ok":
        assert f"data.{part}" in found[0].what and found[0].mend.startswith(f"correct data.{part}")


# -- models, pools and drivers -----------------------------------------------------------------------------------------


def test_models_and_pools_that_fit(sound: DoctorLab) -> None:
    assert levels(sound.look(configuration.models)) == ["ok", "ok"]
    assert levels(sound.look(configuration.drivers)) == ["ok"]
    assert levels(sound.look(fleet.pools)) == ["ok", "ok"]


def test_a_pool_without_a_model_and_a_model_without_a_pool() -> None:
    clinic = rewritten(entries(lambda models: models[0].update({"k8s-device-name": "nvidia-a100-80"})))
    warned = worst(clinic.look(configuration.models), "warning")
    assert len(warned) == 2
    assert "no pool nvidia-a100-80-fabric<id>" in warned[0]
    assert warned[1].startswith(f"pool {POOL} belongs to no model")


def test_a_type_that_the_operator_can_hardly_serve() -> None:
    clinic = rewritten(entries(lambda models: models[0].update({"request-type": "cxlmemory"})))
    (warned,) = worst(clinic.look(configuration.models), "warning")
    assert "without them leaves a device of request-type cxlmemory in Attaching" in warned


def test_a_pool_whose_model_may_be_in_force_still_is_not_to_be_withdrawn() -> None:
    """The scaler attaches its devices as before, until the entry can be read again."""
    clinic = rewritten(entries(lambda models: models[0].update({"driver-name": "Not A Driver"})))
    (warned,) = [one for one in clinic.look(configuration.models) if one.level == "warning"]
    assert POOL in warned.what and "nobody attaches" not in warned.what
    assert "correct data.device-info" in warned.mend and "withdraw" not in warned.mend


def test_a_pool_of_another_driver_is_no_pool_of_the_model() -> None:
    clinic = rewritten(entries(lambda models: models[0].update({"driver-name": "other.example.com"})))
    assert len(worst(clinic.look(configuration.models), "warning")) == 2
    (missing,) = worst(clinic.look(configuration.drivers), "warning")
    assert missing.startswith("other.example.com publishes slices of no node")


def edited(change: Callable[[dict[str, Any]], None]) -> DoctorLab:
    """A cluster whose pool of A100 somebody has published otherwise."""
    clinic = DoctorLab()
    (found,) = [one for one in clinic.admin.list("resourceslices") if one["spec"]["pool"]["name"] == POOL]
    copy: dict[str, Any] = yaml.safe_load(yaml.safe_dump(found))
    change(copy)
    clinic.admin.update("resourceslices", copy)
    return clinic


def without(condition: str) -> Callable[[dict[str, Any]], None]:
    def change(found: dict[str, Any]) -> None:
        for device in found["spec"]["devices"]:
            device["bindingFailureConditions"] = [
                one for one in device["bindingFailureConditions"] if one != condition
            ] or ["Other"]

    return change


def bare(found: dict[str, Any]) -> None:
    for device in found["spec"]["devices"]:
        del device["bindingConditions"], device["bindingFailureConditions"]


@pytest.mark.parametrize(
    ("change", "level", "words"),
    [
        (lambda found: found["spec"]["pool"].update(resourceSliceCount=2), "error", "is incomplete"),
        (bare, "error", "4 devices have no binding conditions"),
        (without("FabricDeviceReschedule"), "error", "do not list FabricDeviceReschedule: no pod can be handed over"),
        (without("FabricDeviceFailed"), "warning", "do not list FabricDeviceFailed"),
    ],
)
def test_a_pool_that_cannot_be_used(change: Callable[[dict[str, Any]], None], level: str, words: str) -> None:
    found = edited(change).look(fleet.pools)
    assert sorted(levels(found)) == sorted([level, "ok"])
    assert words in worst(found, level)[0]


def test_two_publishers_of_one_driver(sound: DoctorLab) -> None:
    assert levels(sound.look(fleet.publishers)) == ["ok"]
    clinic = DoctorLab()
    spec = {
        "driver": "gpu.nvidia.com",
        "pool": {"name": "another", "generation": 1, "resourceSliceCount": 1},
        "allNodes": True,
        "devices": [{"name": "one"}],
    }
    second = clinic.lab.client("another-publisher")
    second.create(
        "resourceslices",
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "a"}, "spec": spec},
    )
    (found,) = clinic.look(fleet.publishers)
    assert found.level == "warning"
    assert "another-publisher, composable-dra-driver" in found.what


def test_who_labels_a_slice_publishes_nothing() -> None:
    clinic = DoctorLab()
    for found in clinic.admin.list("resourceslices"):
        name = found["metadata"]["name"]
        clinic.lab.client("labeller").patch("resourceslices", name, {"metadata": {"labels": {"a": "b"}}})
    assert levels(clinic.look(fleet.publishers)) == ["ok"]


# -- nodes -------------------------------------------------------------------------------------------------------------


def labelled(**labels: str | None) -> DoctorLab:
    clinic = DoctorLab(parts={"publisher": None})
    written = {f"cohdi.io/{name.replace('_', '-')}": value for name, value in labels.items()}
    clinic.admin.patch("nodes", "node0000", {"metadata": {"labels": written}})
    return clinic


def test_nodes_that_are_right(sound: DoctorLab) -> None:
    assert levels(sound.look(fleet.nodes)) == ["ok"]
    assert levels(labelled(nvidia_a100_40_size_max="4", nvidia_a100_40_size_min="1").look(fleet.nodes)) == ["ok"]


@pytest.mark.parametrize(
    ("labels", "level", "words"),
    [
        ({"fabric": "one"}, "warning", "cohdi.io/fabric is no number"),
        ({"fabric": "77"}, "warning", "none of the fabrics in fabric-id-range"),
        ({"nvidia_a100_40_size_max": "many"}, "warning", "is no whole number and counts as absent"),
        ({"nvidia_b200_size_max": "1"}, "note", "names no device of the ConfigMap"),
        ({"nvidia_a100_40_size_max": "1", "nvidia_a100_40_size_min": "2"}, "warning", "a minimum of 2 above"),
    ],
)
def test_labels_that_say_nothing(labels: dict[str, str], level: str, words: str) -> None:
    found = labelled(**labels).look(fleet.nodes)
    assert levels(found) == ["ok", level]
    assert "node node0000" in found[1].what and words in found[1].what


def test_no_node_is_on_a_fabric() -> None:
    clinic = labelled(fabric=None)
    clinic.admin.patch("nodes", "node0001", {"metadata": {"labels": {"cohdi.io/fabric": None}}})
    (found,) = clinic.look(fleet.nodes)
    assert (found.level, "nothing can be attached anywhere" in found.what) == ("error", True)


# -- others ------------------------------------------------------------------------------------------------------------


def test_nobody_else(sound: DoctorLab) -> None:
    assert levels(sound.look(fleet.beside)) == ["ok"]


def reference(clinic: DoctorLab, renewed: str | None = None) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": fleet.REFERENCE_LEASE, "namespace": SPACE},
        "spec": {"holderIdentity": "pod-1_abc", "leaseDurationSeconds": 15, "renewTime": renewed},
    }
    clinic.admin.create("leases", lease, SPACE)


@pytest.mark.parametrize(("mode", "level"), [("observe", "note"), ("attach", "warning")])
def test_the_reference_scaler_beside_us(mode: str, level: str) -> None:
    clinic = DoctorLab(seconds=0)
    reference(clinic)
    (found,) = clinic.look(fleet.beside, policy=Policy.model_validate({"mode": mode}))
    assert found.level == level
    assert "held by pod-1_abc" in found.what and "observe" in found.mend


def test_a_lease_that_was_left_behind_is_nobody() -> None:
    clinic = DoctorLab(seconds=0)
    reference(clinic, renewed="2026-11-20T08:00:00.000000Z")
    assert levels(clinic.look(fleet.beside)) == ["ok"]


class WithDeployment(Direct):
    """The lab's API server has no Deployments; this one has the reference's."""

    replicas = 1

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        if path.endswith(f"/namespaces/{SPACE}/deployments/{fleet.DEPLOYMENT}"):
            return Answer(200, json.dumps({"spec": {"replicas": self.replicas}}).encode())
        return super().ask(method, path, **more)


@pytest.mark.parametrize(("replicas", "level"), [(1, "note"), (0, "ok")])
def test_the_deployment_of_the_reference(replicas: int, level: str) -> None:
    clinic = DoctorLab(seconds=0)
    api = WithDeployment(clinic.lab.server, "admin")
    api.replicas = replicas
    assert levels(fleet.beside(ExaminationContext(api, WHERE, clinic.lab.time.now))) == [level]


def test_who_may_not_look_says_so() -> None:
    clinic = DoctorLab(seconds=0)
    assert levels(clinic.look(fleet.beside, **clinic.with_role())) == ["unknown"]


@pytest.mark.parametrize(
    ("mode", "hours", "level", "what", "mend"),
    [
        ("attach", 0, "warning", "a second scaler is at work: dds-controller wrote requests", "stop the other"),
        ("observe", 0, "note", "a second scaler is at work: dds-controller wrote requests", "stop the other"),
        ("attach", 2, "note", "requests for devices were made by others too: dds-controller", "adoption"),
    ],
)
def test_who_else_makes_requests_is_named(mode: str, hours: int, level: str, what: str, mend: str) -> None:
    """Two scalers that act on the same claims undo each other's work; what one left behind is only to be adopted."""
    clinic = DoctorLab(seconds=0)
    resource = {"type": "gpu", "model": "A100 40G", "size": 0, "target_node": "node0000"}
    for user, labels in (("dds-controller", {}), ("dds", {"app.kubernetes.io/managed-by": "dds"})):
        clinic.lab.client(user).create(
            "composabilityrequests",
            {
                "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
                "kind": "ComposabilityRequest",
                "metadata": {"name": user, "labels": labels},
                "spec": {"resource": resource},
            },
        )
    clinic.lab.run(hours * 3600.0)
    (found,) = clinic.look(fleet.beside, policy=Policy.model_validate({"mode": mode}))
    assert found.level == level and found.what.startswith(what) and mend in found.mend
