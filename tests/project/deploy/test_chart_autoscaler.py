"""The autoscaler in the chart: a Deployment of its own that Cluster Autoscaler reaches and few others, with the rights and the
files that it needs and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dds_adapters.kubernetes.rbac import Names
from dds_adapters.machines.machine_settings import ClusterApiSettings, read_settings
from dds_commands.doctor import doctor
from dds_commands.parameters import NAME_VARIABLE
from dds_commands.serve import autoscale
from dds_commands.settings import Setting
from dds_core.autoscaler.policy import read_autoscale_policy
from dds_core.autoscaler.records import STARTING
from tests.project.deploy.chart import AUTOSCALES, held_to, manifests, of_kind
from tests.project.deploy.test_chart import AUTOSCALERS, _autoscaler, _container, _deployment, _named
from tests.support.roles import ALL_OF_AUTOSCALER, AUTOSCALER_POWERS, NOTHING, autoscaler_role

NAME = "dds-autoscaler"


@pytest.mark.parametrize("name", AUTOSCALERS)
def test_dds_autoscale_knows_every_argument_and_variable(name: str) -> None:
    container = _container(AUTOSCALERS[name], NAME)
    command, *args = container["args"]
    assert command == "autoscale"
    with autoscale.make_context("autoscale", list(args)) as context:
        told = context.params
    variables = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    assert told["namespace"] == variables["DDS_NAMESPACE"] == "composable-dra"
    assert told["policy"] == variables["DDS_AUTOSCALE_POLICY"]
    assert (variables["DDS_COMPONENT"], variables[NAME_VARIABLE]) == ("autoscaler", "default/autoscaler")
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    files = ("policy", "grpc_cert_file", "grpc_key_file", "grpc_client_ca_file")
    assert {str(Path(told[one]).parent) for one in files} | {str(Path(variables["DDS_MACHINES"]).parent)} <= mounts
    known = {str(one.envvar) for command in (autoscale, doctor) for one in command.params if isinstance(one, Setting)}
    assert variables.keys() - {NAME_VARIABLE} <= known


@pytest.mark.parametrize("name", AUTOSCALERS)
def test_its_policy_and_its_machines_are_read_as_they_were_written(name: str, tmp_path: Path) -> None:
    told: dict[str, Any] = dict(AUTOSCALERS[name]["autoscaler"])
    text = _named(AUTOSCALERS[name], "ConfigMap", f"{NAME}-policy")["data"]["policy.yaml"]
    policy = read_autoscale_policy(yaml.safe_load(text))
    assert policy.mode == told.get("mode", "observe")
    assert policy.compose_seconds == told.get("policy", {}).get("compose_seconds", 900)
    path = tmp_path / "machines.yaml"
    path.write_text(
        _named(AUTOSCALERS[name], "ConfigMap", f"{NAME}-machines")["data"]["machines.yaml"], encoding="utf-8"
    )
    settings = read_settings(path)
    assert settings.kind == told["machines"]["kind"]
    if isinstance(settings, ClusterApiSettings):
        assert str(settings.groups["workers"]) == "MachineDeployment default/workers"


def test_cluster_autoscaler_finds_the_one_that_leads_and_others_are_kept_out() -> None:
    """A Service with an address of its own would lead to a pod that stands by, which does not listen."""
    service = _named(AUTOSCALES, "Service", NAME)["spec"]
    assert service["clusterIP"] == "None"
    (port,) = service["ports"]
    assert f"--grpc-bind-address=:{port['targetPort']}" in _container(AUTOSCALES, NAME)["args"]
    rules = _named(AUTOSCALES, "NetworkPolicy", NAME)["spec"]["ingress"]
    (rule,) = [one for one in rules if {"port": port["port"], "protocol": "TCP"} in one["ports"]]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}]
    assert rules[:-1] == _named({}, "NetworkPolicy", "dds")["spec"]["ingress"]
    chosen = [{"podSelector": {"matchLabels": {"app": "cluster-autoscaler"}}}]
    rules = _named({**AUTOSCALES, "networkPolicy": {"grpcFrom": chosen}}, "NetworkPolicy", NAME)["spec"]["ingress"]
    assert rules[-1]["from"] == chosen


def test_the_way_to_a_cdi_manager_is_open_and_no_other() -> None:
    usual = _named({}, "NetworkPolicy", "dds")["spec"]["egress"]
    assert _named(AUTOSCALES, "NetworkPolicy", NAME)["spec"]["egress"] == usual
    egress = _named(AUTOSCALERS["autoscaler beside a CDI manager"], "NetworkPolicy", NAME)["spec"]["egress"]
    assert egress == [*usual, {"ports": [{"port": 8443, "protocol": "TCP"}]}]


def test_its_key_is_a_file_that_is_only_read_and_in_no_variable() -> None:
    pod = _deployment(AUTOSCALES, NAME)["spec"]["template"]["spec"]
    (volume,) = [one for one in pod["volumes"] if one["name"] == "grpc"]
    assert volume["secret"] == {"secretName": "dds-autoscaler-tls", "defaultMode": 0o440}
    (container,) = pod["containers"]
    assert not any("valueFrom" in one for one in container["env"])


@pytest.mark.parametrize("off", ["", *AUTOSCALER_POWERS])
def test_roles_are_those_of_the_table(off: str) -> None:
    values: dict[str, Any] = {"fabric": {"configNamespace": "fabric"}}
    told: dict[str, Any] = {}
    match off:
        case "":
            pass
        case "leader_election":
            values["leaderElection"] = {"enabled": False}
        case "metrics_reviews":
            values["metrics"] = {"secure": False}
        case "cluster_api":
            told["machines"] = {**AUTOSCALES["autoscaler"]["machines"], "kubeconfig": "management.yaml"}
        case _:
            told["powers"] = {off: False}
    found = manifests({**values, **_autoscaler(**told)})
    names = Names(drivers=(), lease=NAME, config_namespace="fabric", lease_namespace="dds")
    held_to(
        found,
        lambda where: autoscaler_role(where, (ALL_OF_AUTOSCALER - {off}) | NOTHING, names),
        NAME,
        "dds-dds-autoscaler",
    )


def test_servers_that_are_no_machines_of_this_cluster_need_no_rights_on_those() -> None:
    (role,) = [
        one
        for one in of_kind(manifests(AUTOSCALERS["autoscaler on postgres"]), "ClusterRole")
        if one["metadata"]["name"] == "dds-dds-autoscaler"
    ]
    assert not any("cluster.x-k8s.io" in rule["apiGroups"] for rule in role["rules"])


def test_the_admission_policy_is_about_the_taint_of_the_code() -> None:
    policy = _named(AUTOSCALES, "ValidatingAdmissionPolicy", "dds-dds-autoscaler-nodes")
    assert f"t.key == '{STARTING.key}' && t.effect == '{STARTING.effect}'" in str(policy)
