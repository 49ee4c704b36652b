"""The publisher in the chart: in a Deployment of its own or in the scaler's process, with the rights, the ways out and the files
that it needs and no others."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import yaml

from dds_adapters.fabric import FabricSettings
from dds_adapters.kubernetes.rbac import Names
from dds_commands.doctor import FabricManager, doctor
from dds_commands.live import fabric_of
from dds_commands.live_options import OfFabric
from dds_commands.parameters import NAME_VARIABLE
from dds_commands.serve import publish
from dds_commands.settings import Setting
from dds_core.publisher.policy import read_publish_policy
from tests.project.deploy.chart import Values, held_to, manifests, of_kind
from tests.project.deploy.test_chart import (
    CLUSTER,
    FM,
    PUBLISHES,
    TENANT,
    _alone,
    _container,
    _deployment,
    _named,
)
from tests.support.roles import ALL_OF_PUBLISHER, PUBLISHER_POWERS, publisher_role

ALONE = [name for name, values in PUBLISHES.items() if _alone(values)]
NAME = "dds-publisher"


def _publisher(**told: Any) -> Values:
    return {"publisher": {"enabled": True, **told}}


def _variables(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


@pytest.mark.parametrize("name", PUBLISHES)
def test_the_fabric_is_one_that_can_be_asked(name: str) -> None:
    """By the very settings that the pod's environment gives to the commands in it."""
    container = _container(PUBLISHES[name], NAME if _alone(PUBLISHES[name]) else "")
    variables = _variables(container)
    known = {str(one.envvar) for one in doctor.params if isinstance(one, Setting)}
    assert {name for name in variables if name != NAME_VARIABLE} <= known
    told = {
        option: variables.get(f"DDS_{option.upper()}")
        for option in ("fabric", "fabric_endpoint", "tenant_id", "cluster_id", "credentials_folder", "inventory")
    }
    settings = fabric_of(OfFabric(**told), {})
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    for path in (settings.credentials, settings.inventory):
        assert path is None or {str(path), str(path.parent)} & mounts


def test_tenant_and_cluster_are_told() -> None:
    container = _container(PUBLISHES["publisher in the scaler's process"])
    variables = _variables(container)
    assert (variables["DDS_FABRIC"], variables["DDS_TENANT_ID"], variables["DDS_CLUSTER_ID"]) == ("cm", TENANT, CLUSTER)
    assert "--publish" in container["args"]


@pytest.mark.parametrize("name", ALONE)
def test_dds_publish_knows_every_argument_and_variable(name: str) -> None:
    container = _container(PUBLISHES[name], NAME)
    command, *args = container["args"]
    assert command == "publish"
    with publish.make_context("publish", list(args)) as context:
        told = context.params
    assert told["namespace"] == "composable-dra"
    assert told["cluster_name"] == _variables(container)["DDS_CLUSTER_NAME"]
    known = {str(one.envvar) for one in publish.params if isinstance(one, Setting)}
    for_doctor = {NAME_VARIABLE, "DDS_COMPONENT", "DDS_PUBLISH_POLICY"}
    assert {one["name"] for one in container["env"]} - for_doctor <= known


@pytest.mark.parametrize("name", ALONE)
def test_doctor_in_its_pod_looks_at_the_publisher(name: str) -> None:
    container = _container(PUBLISHES[name], NAME)
    variables = _variables(container)
    assert variables["DDS_COMPONENT"] == "publisher"
    assert variables[NAME_VARIABLE] == "default/publisher"
    assert f"--policy={variables['DDS_PUBLISH_POLICY']}" in container["args"]


def test_credentials_are_a_folder_that_is_only_read_and_in_no_variable() -> None:
    pod = _deployment(_publisher(fabric=FM), NAME)["spec"]["template"]["spec"]
    (volume,) = [one for one in pod["volumes"] if one["name"] == "fabric"]
    assert volume["secret"] == {"secretName": "cdi", "defaultMode": 0o440}
    (container,) = pod["containers"]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "fabric"]
    assert mount == {"name": "fabric", "mountPath": "/etc/dds-fabric", "readOnly": True}
    assert not any("valueFrom" in one for one in container["env"])


def test_an_inventory_is_read_as_it_was_written(tmp_path: Any) -> None:
    values = PUBLISHES["publisher with an inventory"]
    text = _named(values, "ConfigMap", f"{NAME}-inventory")["data"]["inventory.yaml"]
    path = tmp_path / "inventory.yaml"
    path.write_text(text, encoding="utf-8")
    with ExitStack() as stack:
        manager = FabricManager(FabricSettings("file", inventory=path), stack)
        assert [one.uuid for one in manager.machines()] == ["node:a"]


@pytest.mark.parametrize("name", PUBLISHES)
def test_its_policy_is_one(name: str) -> None:
    told: dict[str, Any] = dict(PUBLISHES[name]["publisher"])
    policy = read_publish_policy(
        yaml.safe_load(_named(PUBLISHES[name], "ConfigMap", f"{NAME}-policy")["data"]["policy.yaml"])
    )
    assert policy.mode == told.get("mode", "observe")
    assert policy.adopt == told.get("policy", {}).get("adopt", "none")


@pytest.mark.parametrize(
    ("fabric", "port"),
    [
        ({"api": "file"}, None),
        (FM, 8443),
        ({**FM, "endpoint": "https://cdi.example"}, 443),
        ({"api": "nec", "endpoint": "http://cdim.example/"}, 80),
        ({"api": "nec", "endpoint": "http://[fd00::1]:30080"}, 30080),
    ],
)
@pytest.mark.parametrize("in_process", [False, True])
def test_the_way_to_the_manager_is_open_and_no_other(
    fabric: dict[str, Any], port: int | None, in_process: bool
) -> None:
    values = _publisher(fabric=fabric, inProcess=in_process)
    spec = _named(values, "NetworkPolicy", "dds" if in_process else NAME)["spec"]
    usual = _named({}, "NetworkPolicy", "dds")["spec"]["egress"]
    more = [rule for rule in spec["egress"] if rule not in usual]
    assert more == ([{"ports": [{"port": port, "protocol": "TCP"}]}] if port else [])
    if not in_process:
        assert _named(values, "NetworkPolicy", "dds")["spec"]["egress"] == usual


def test_where_the_manager_is_can_be_said() -> None:
    spec = _named(PUBLISHES["publisher on postgres"], "NetworkPolicy", NAME)["spec"]
    assert spec["egress"][-1] == {
        "ports": [{"port": 8443, "protocol": "TCP"}], "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
    }  # fmt: skip


@pytest.mark.parametrize("off", ["", *PUBLISHER_POWERS])
@pytest.mark.parametrize("in_process", [False, True])
def test_roles_are_those_of_the_table(off: str, in_process: bool) -> None:
    values: dict[str, Any] = {"fabric": {"configNamespace": "fabric"}}
    told: dict[str, Any] = {"enabled": True, "inProcess": in_process}
    match off:
        case "":
            pass
        case "leader_election":
            values["leaderElection"] = {"enabled": False}
        case "metrics_reviews":
            values["metrics"] = {"secure": False}
        case "bare_metal_hosts":
            told["machineIds"] = "bmh"
        case _:
            told["powers"] = {{"node_labels": "nodeLabels"}.get(off, off): False}
    found = manifests({**values, "publisher": told})
    powers = ALL_OF_PUBLISHER ^ {off} if off else ALL_OF_PUBLISHER
    names = Names(drivers=(), lease=NAME, config_namespace="fabric", lease_namespace="dds")
    account = "dds" if in_process else NAME
    held_to(found, lambda where: publisher_role(where, powers, names), account, "dds-dds-publisher")


def test_in_the_scalers_process_there_is_no_second_of_anything_that_runs() -> None:
    found = manifests(_publisher(inProcess=True))
    for kind in ("Deployment", "ServiceAccount", "PersistentVolumeClaim", "Service", "NetworkPolicy", "FlowSchema"):
        assert len(of_kind(found, kind)) == 1, kind


def test_on_sqlite_it_has_a_volume_of_its_own_that_stays() -> None:
    volume = _named(_publisher(), "PersistentVolumeClaim", f"{NAME}-log")
    assert volume["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    pod = _deployment(_publisher(), NAME)["spec"]["template"]["spec"]
    assert {"name": "log", "persistentVolumeClaim": {"claimName": f"{NAME}-log"}} in pod["volumes"]
    mine = _deployment(_publisher(existingClaim="mine"), NAME)["spec"]["template"]["spec"]
    assert {"name": "log", "persistentVolumeClaim": {"claimName": "mine"}} in mine["volumes"]
