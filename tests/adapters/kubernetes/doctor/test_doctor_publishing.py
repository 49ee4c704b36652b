"""What the doctor says of the publisher's side of a cluster: its rights, what is kept and published, and whose the pools are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import yaml

from dds_adapters.kubernetes import rbac
from dds_adapters.kubernetes.cluster import Answer
from dds_adapters.kubernetes.doctor import configuration, fleet, permissions, publishing
from dds_core.publisher.model import MANAGED_BY
from dds_core.publisher.policy import PublishPolicy
from tests.support.doctor_lab import DoctorLab, levels, worst
from tests.support.roles import ALL_OF_PUBLISHER

CONFIG, SPACE = "composable-dra-dds", "composable-dra"
A100 = "nvidia-a100-40"
LIVE = PublishPolicy(mode="publish")
LABEL = "app.kubernetes.io/managed-by"
Entry = dict[str, Any]


@pytest.fixture(scope="module")
def sound() -> DoctorLab:
    return DoctorLab()


def described(change: Callable[[Entry], None]) -> DoctorLab:
    """A cluster in which the first entry of device-info is another."""
    clinic = DoctorLab()
    found = clinic.admin.get("configmaps", CONFIG, SPACE)
    models = yaml.safe_load(found["data"]["device-info"])
    change(models[0])
    data = {**found["data"], "device-info": yaml.safe_dump(models)}
    clinic.admin.update("configmaps", {**found, "data": data})
    return clinic


def marked(owner: str) -> DoctorLab:
    """A cluster in which somebody has put this mark on the pools' slices."""
    clinic = DoctorLab(parts={"publisher": None}, seconds=0)
    ready = DoctorLab()
    for one in ready.admin.list("resourceslices"):
        if "nodeName" in one["spec"]:
            continue
        labels = {LABEL: owner} if owner else {}
        clinic.admin.create(
            "resourceslices", {"metadata": {"name": one["metadata"]["name"], "labels": labels}, "spec": one["spec"]}
        )
    return clinic


# -- rights ------------------------------------------------------------------------------------------------------------


def test_exactly_the_publishers_role_is_enough() -> None:
    clinic = DoctorLab()
    user = clinic.with_publisher_role(ALL_OF_PUBLISHER | {rbac.MACHINES.power})
    found = clinic.look(permissions.publisher_permissions, publishing=LIVE, bare_metal_hosts=True, **user)
    assert set(levels(found)) == {"ok"}
    assert {one.what.partition(":")[0] for one in found} == {rule.feature for rule in rbac.PUBLISHER_RULES}


def test_a_missing_right_is_named_with_what_stops() -> None:
    clinic = DoctorLab()
    user = clinic.with_publisher_role(without=["resourceslices"])
    wrong = worst(clinic.look(permissions.publisher_permissions, publishing=LIVE, **user), "error")
    assert any(what.startswith("publish is not possible without: create resourceslices") for what in wrong), wrong
    assert any("list resourceslices" in what for what in wrong)


def test_in_mode_observe_nobody_needs_to_write() -> None:
    clinic = DoctorLab()
    user = clinic.with_publisher_role(rbac.needed(PublishPolicy(), rbac.PUBLISHER_RULES))
    found = clinic.look(permissions.publisher_permissions, publishing=PublishPolicy(), **user)
    assert set(levels(found)) == {"ok", "note"}


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_everything_is_kept(sound: DoctorLab) -> None:
    assert levels(sound.look(publishing.kept_fields, publishing=LIVE)) == ["ok", "ok"]


def test_a_server_that_drops_taints_and_shares() -> None:
    clinic = DoctorLab(version="1.35", taint_rules="none")
    found = clinic.look(publishing.kept_fields, publishing=LIVE)
    assert levels(found) == ["note", "note"]
    assert "DRADeviceTaints" in found[0].mend
    assert "DRAConsumableCapacity" in found[1].mend


def test_a_shared_model_where_shares_are_dropped() -> None:
    clinic = described(lambda entry: entry.update({"allow-multiple-allocations": True}))
    old = DoctorLab(version="1.35", taint_rules="none")
    context = old.context(publishing=LIVE)
    context.once("pool config", clinic.context().pool_configuration)
    assert [one.level for one in publishing.kept_fields(context)] == ["note", "warning"]


# -- device-info -------------------------------------------------------------------------------------------------------


def test_what_is_published_of_each_model(sound: DoctorLab) -> None:
    found = sound.look(publishing.device_info)
    assert levels(found) == ["ok", "ok"]
    assert "A100 40G: " in found[0].what


def test_a_fault_that_only_the_publisher_minds() -> None:
    clinic = described(lambda entry: entry.update(capacity={"memory": "many"}))
    (what,) = worst(clinic.look(publishing.device_info), "warning")
    assert what.startswith("data.device-info[0].capacity.memory: ") or "capacity.memory" in what
    assert "many" not in what


def test_a_fault_that_the_scaler_minds_too_is_told_once() -> None:
    clinic = described(lambda entry: entry.update(index="first"))
    assert worst(clinic.look(publishing.device_info), "warning") == []


@pytest.mark.parametrize(
    ("key", "meant"), [("capacities", "capacity"), ("allowMultipleAllocations", "allow-multiple-allocations")]
)
def test_a_key_that_nobody_reads_and_that_looks_like_one(key: str, meant: str) -> None:
    found = described(lambda entry: entry.update({key: {}, "colour": "green"})).look(publishing.device_info)
    (wrong,) = [one for one in found if one.level == "warning"]
    assert wrong.what == f"data.device-info[A100 40G]: nobody reads the key {key}"
    assert wrong.mend == f"write {meant}, if that is meant; else take it out"


def test_without_a_config_map_it_is_silent() -> None:
    assert DoctorLab(seconds=0, config=False).look(publishing.device_info) == []


# -- classes -----------------------------------------------------------------------------------------------------------


def _class(clinic: DoctorLab, name: str, expression: str) -> None:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    clinic.admin.create("deviceclasses", {"metadata": {"name": name}, "spec": spec})


def test_classes_that_fit(sound: DoctorLab) -> None:
    found = sound.look(fleet.classes)
    assert levels(found) == ["ok", "ok"]
    assert found[0].what == f"A100 40G: its devices are chosen by {A100}"


MEMORY = (
    "device.driver == 'gpu.nvidia.com' && device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0"
)


def test_d13_a_class_that_asks_for_what_no_pool_device_says() -> None:
    clinic = DoctorLab()
    _class(clinic, "big", MEMORY)
    wrong = [one for one in clinic.look(fleet.classes) if one.level == "error"]
    assert len(wrong) == 2
    assert "DeviceClass big asks a device of A100 40G for what it does not say (no such key: memory)" in wrong[0].what
    assert "capacity" in wrong[0].mend


def test_d13_a_model_that_says_it_is_chosen() -> None:
    clinic = described(lambda entry: entry.update(capacity={"memory": "40Gi"}))
    _class(clinic, "big", MEMORY)
    found = clinic.look(fleet.classes)
    assert found[0].what == f"A100 40G: its devices are chosen by big, {A100}"
    assert len(worst(found, "error")) == 1


def test_a_class_without_its_driver_that_fails_on_others_devices() -> None:
    clinic = DoctorLab()
    _class(clinic, "nic", "device.attributes['nic.example.com'].speed > 10")
    assert len(worst(clinic.look(fleet.classes), "warning")) == 2


def test_a_model_that_no_class_chooses() -> None:
    clinic = DoctorLab()
    clinic.admin.delete("deviceclasses", A100)
    assert "no DeviceClass chooses its devices" in worst(clinic.look(fleet.classes), "note")[0]


# -- claims ------------------------------------------------------------------------------------------------------------


def _claim(clinic: DoctorLab, name: str, device_class: str, expression: str) -> None:
    exactly = {"deviceClassName": device_class, "selectors": [{"cel": {"expression": expression}}]}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    clinic.admin.create("resourceclaims", {"metadata": {"name": name, "namespace": "default"}, "spec": spec}, "default")


def test_d13_claims_that_ask_for_what_no_pool_device_says() -> None:
    clinic = DoctorLab()
    _claim(clinic, "big", A100, MEMORY)
    _claim(clinic, "bigger", A100, MEMORY)
    _claim(clinic, "others", "nvidia-h100-80", "device.attributes['gpu.nvidia.com'].productName == 'x'")
    (found,) = clinic.look(fleet.claims)
    assert found.level == "warning"
    assert (
        "A100 40G is asked for what it does not say (no such key: memory) by default/big, default/bigger" in found.what
    )


def test_claims_that_ask_for_what_is_said() -> None:
    clinic = described(lambda entry: entry.update(capacity={"memory": "40Gi"}))
    _claim(clinic, "big", A100, MEMORY)
    assert [(one.level, one.what.partition(":")[0]) for one in clinic.look(fleet.claims)] == [
        ("ok", "1 claim looked at")
    ]


# -- whose the pools are -----------------------------------------------------------------------------------------------


def test_pools_of_nobody_named(sound: DoctorLab) -> None:
    wrong = worst(sound.look(publishing.owners, publishing=LIVE), "error")
    assert len(wrong) == 2
    assert "nobody named (the reference driver leaves such)" in wrong[0]


def test_pools_of_nobody_named_are_taken_over(sound: DoctorLab) -> None:
    found = sound.look(publishing.owners, publishing=PublishPolicy(mode="publish", adopt="reference"))
    assert levels(found) == ["note", "note"]


def test_pools_that_are_ours() -> None:
    found = marked(MANAGED_BY).look(publishing.owners, publishing=LIVE)
    assert levels(found) == ["ok", "ok"]


def test_pools_of_somebody_else() -> None:
    wrong = worst(marked("others").look(publishing.owners, publishing=LIVE), "error")
    assert len(wrong) == 2
    assert "has slices of others" in wrong[0]


def test_no_pools_yet() -> None:
    assert levels(DoctorLab(parts={"publisher": None}).look(publishing.owners, publishing=LIVE)) == ["note"]


@pytest.mark.parametrize(
    ("replicas", "settings", "level"),
    [(1, LIVE, "error"), (1, PublishPolicy(), "note"), (0, LIVE, "ok"), (1, None, "note")],
)
def test_the_reference_driver(replicas: int, settings: PublishPolicy | None, level: str) -> None:
    clinic = marked(MANAGED_BY)
    deployment = {"metadata": {"name": publishing.REFERENCE, "namespace": SPACE}, "spec": {"replicas": replicas}}
    context = clinic.context(publishing=settings)
    real, path = context.api.ask, f"/apis/apps/v1/namespaces/{SPACE}/deployments/{publishing.REFERENCE}"
    found = _answering(context, path, deployment, real)
    assert [one.level for one in publishing.owners(found)][-1] == level


def _answering(context: Any, path: str, body: Any, real: Callable[..., Any]) -> Any:
    """The same patient; a path that the lab does not serve has this answer."""

    class Beside:
        def ask(self, method: str, asked: str, **more: Any) -> Any:
            return Answer(200, msgspec.json.encode(body)) if asked == path else real(method, asked, **more)

    context.api = Beside()
    return context


def test_slices_that_were_taken_over_have_one_publisher() -> None:
    """Their managedFields still name who made them."""
    clinic = DoctorLab()
    taking = clinic.lab.client("dds")
    for one in clinic.admin.list("resourceslices"):
        if "nodeName" not in one["spec"]:
            taking.patch("resourceslices", one["metadata"]["name"], {"metadata": {"labels": {LABEL: MANAGED_BY}}})
    (found,) = clinic.look(fleet.publishers)
    assert (found.level, found.what) == ("ok", f"{MANAGED_BY} alone publishes the pools of gpu.nvidia.com")


# -- nodes and policy --------------------------------------------------------------------------------------------------


def test_labels_that_the_publisher_will_write_are_no_error() -> None:
    clinic = DoctorLab(seconds=0, prefix="other.example")
    context = clinic.context(publishing=LIVE)
    for node in clinic.admin.list("nodes"):
        labels = {key: None for key in node["metadata"]["labels"] if key.endswith("/fabric")}
        clinic.admin.patch("nodes", node["metadata"]["name"], {"metadata": {"labels": labels}})
    assert next(one.level for one in fleet.nodes(context)) == "note"
    assert levels(clinic.look(fleet.nodes))[0] == "error"


def test_the_policy_in_short() -> None:
    assert [one.level for one in configuration.of_publisher(PublishPolicy())] == ["ok"]
    (found,) = configuration.of_publisher(LIVE)
    assert found.what == "valid: mode publish, adopts none, labels nodes"


ROOT = "resource.kubernetes.io/pcieRoot"


@pytest.mark.parametrize("kind", ["matchAttribute", "distinctAttribute"])
def test_claims_that_compare_what_pool_devices_do_not_say(kind: str) -> None:
    """Where a device will sit is known only when it is attached: the scheduler takes none without the attribute for such a
    claim."""
    clinic = DoctorLab()
    exactly = {"deviceClassName": A100}
    requests = [{"name": "gpu", "exactly": exactly}, {"name": "nic", "exactly": {"deviceClassName": "nic"}}]
    for name, concerned in (("aligned", []), ("apart", ["nic"])):
        devices = {"requests": requests, "constraints": [{kind: ROOT, "requests": concerned}]}
        made = {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}
        clinic.admin.create("resourceclaims", made, "default")
    (found,) = clinic.look(fleet.claims)
    assert found.level == "warning"
    assert found.what.startswith(f"default/aligned compares {ROOT} of a device of A100 40G with others (constraints)")


# -- promises ----------------------------------------------------------------------------------------------------------


def test_what_pools_promise_is_compared_with_what_drivers_list_of_the_product() -> None:
    """An H100 80GB lists 81559Mi of memory (nvidia-smi), less than 80Gi."""
    clinic = _promising("80Gi")
    assert levels(clinic.look(fleet.promises)) == ["note"]
    _listed(clinic, "81559Mi")
    (found,) = clinic.look(fleet.promises)
    assert found.level == "warning"
    assert "promise memory 80Gi, the driver lists 81559Mi (gpu-0 on node0000)" in found.what


def test_an_amount_may_be_written_otherwise() -> None:
    clinic = _promising("80Gi")
    _listed(clinic, "81920Mi")
    assert levels(clinic.look(fleet.promises)) == ["ok"]


def _promising(memory: str) -> DoctorLab:
    """A cluster whose pools say how much memory their devices have."""
    clinic = DoctorLab(parts={"publisher": None})
    for one in DoctorLab().admin.list("resourceslices"):
        if "nodeName" not in one["spec"]:
            devices = [{**each, "capacity": {"memory": {"value": memory}}} for each in one["spec"]["devices"]]
            made = {"metadata": {"name": one["metadata"]["name"]}, "spec": {**one["spec"], "devices": devices}}
            clinic.admin.create("resourceslices", made)
    return clinic


def _listed(clinic: DoctorLab, memory: str) -> None:
    """A driver lists a device of the first model's product on a node."""
    model = clinic.context().config_or_usual().models[0]
    device = {
        "name": "gpu-0",
        "attributes": {name: {"string": value} for name, value in model.attributes.items() if value},
        "capacity": {"memory": {"value": memory}},
    }
    pool = {"name": "listed", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": model.driver, "nodeName": "node0000", "pool": pool, "devices": [device]}
    clinic.admin.create("resourceslices", {"metadata": {"name": "listed"}, "spec": spec})
