"""The chart, rendered by Helm: what its values lead to, which of them it refuses, and that every manifest is one that a cluster
takes and `dds serve` understands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import helm_python
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from dds_adapters.kubernetes import guard
from dds_adapters.kubernetes.rbac import Names
from dds_commands.doctor import doctor
from dds_commands.parameters import NAME_VARIABLE
from dds_commands.serve import autoscale, publish, serve
from dds_commands.settings import Setting
from dds_core import read_policy
from dds_core.scaler.component import SCALER
from tests.project.deploy.chart import AUTOSCALES, CHART, Values, held_to, manifests, of_kind, rendered
from tests.support.roles import EVERYTHING, NOTHING, POWERS, role

POSTGRES: Values = {"log": {"kind": "postgres", "postgres": {"secretName": "dds-log"}}, "replicas": 3}
TENANT, CLUSTER = "3f1a9d52-6f0b-4b52-9a7e-0d6c1b8f2a10", "9b0e4c7a-52d1-4f38-8c26-7e5d3a1f6b24"
FM: dict[str, Any] = {
    "api": "fm",
    "endpoint": "https://cdi.example:8443/",
    "tenantId": TENANT,
    "credentialsSecret": "cdi",
}
PUBLISHES: dict[str, Values] = {
    "publisher with an inventory": {
        "publisher": {
            "enabled": True,
            "fabric": {
                "api": "file",
                "inventory": {"machines": [{"node": "a", "fabric": "0"}], "fabrics": {"0": {"A100": 4}}},
            },
        }
    },
    "publisher in the scaler's process": {
        "publisher": {
            "enabled": True,
            "inProcess": True,
            "mode": "publish",
            "fabric": {**FM, "api": "cm", "clusterId": CLUSTER},
        }
    },
    "publisher on postgres": {
        **POSTGRES,
        "publisher": {
            "enabled": True,
            "mode": "publish",
            "replicas": 2,
            "policy": {"adopt": "reference", "gone_seconds": 120},
            "fabric": FM,
        },
        "metrics": {"certSecretName": "cert", "serviceMonitor": {"enabled": True}},
        "networkPolicy": {"fabricTo": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
        "nodeSelector": {"a": "b"},
    },
    "publisher beside CDIM, and nothing else": {
        "publisher": {"enabled": True, "fabric": {"api": "nec", "endpoint": "http://cdim.example"}},
        "metrics": {"enabled": False},
        "leaderElection": {"enabled": False, "leaseName": "dds-scaler"},
        "admissionPolicies": {"enabled": False},
    },
}
AUTOSCALERS: dict[str, Values] = {
    "autoscaler": AUTOSCALES,
    "autoscaler on postgres": {
        **POSTGRES,
        "autoscaler": {
            **AUTOSCALES["autoscaler"],
            "mode": "autoscale",
            "replicas": 2,
            "policy": {"compose_seconds": 600},
            "machines": {"kind": "inventory", "servers": "/srv/servers.yaml", "requests": "/srv/requests.yaml"},
        },
        "metrics": {"certSecretName": "cert", "serviceMonitor": {"enabled": True}},
        "networkPolicy": {"grpcFrom": []},
    },
    "autoscaler beside a CDI manager": {
        "autoscaler": {
            **AUTOSCALES["autoscaler"],
            "machines": {
                "kind": "cdi",
                "endpoint": "https://cdi.example:8443/",
                "tenant": TENANT,
                "cluster": CLUSTER,
                "credentials": "/etc/cdi",
                "groups": {"big": "workers-big"},
            },
        }
    },
    "autoscaler beside a publisher, and nothing else": {
        **AUTOSCALES,
        "publisher": {"enabled": True},
        "metrics": {"enabled": False},
        "leaderElection": {"enabled": False, "leaseName": "dds-scaler"},
        "admissionPolicies": {"enabled": False},
        "networkPolicy": {"enabled": False},
    },
}
VARIANTS: dict[str, Values] = {
    **PUBLISHES,
    **AUTOSCALERS,
    "default": {},
    "postgres": POSTGRES,
    "observe with no power": {
        "powers": dict.fromkeys(("attach", "signal", "steer", "labels", "nudge", "stamp", "detach"), False)
    },
    "nothing beside": {
        "leaderElection": {"enabled": False, "leaseName": "dds-scaler"},
        "metrics": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "admissionPolicies": {"enabled": False},
        "flowControl": {"enabled": False},
        "guard": {"enabled": False},
        "rbac": {"create": False},
    },
    "everything": {
        **POSTGRES,
        "nameOverride": "scaler",
        "mode": "detach",
        "policy": {"hand_over": "clear", "limits": {"A100": {"max": 4}}},
        "metrics": {
            "certSecretName": "cert",
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "rules": {
                "enabled": True,
                "labels": {"release": "prometheus"},
                "runbookBaseUrl": "https://docs.example/dds/",
            },
            "dashboard": {"enabled": True},
        },
        "networkPolicy": {"metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
        "imagePullSecrets": [{"name": "pull"}],
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}],
        "commonLabels": {"team": "fabric"},
        "ui": {"enabled": True},
        "proxy": {"url": "http://proxy.example:3128"},
        "caBundle": {"configMap": "company"},
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "serviceAccount": {"annotations": {"a": "b"}},
    },
}
POLICY = "ValidatingAdmissionPolicy"
FABRIC = {
    "DDS_FABRIC", "DDS_FABRIC_ENDPOINT", "DDS_TENANT_ID", "DDS_CLUSTER_ID", "DDS_CREDENTIALS_FOLDER", "DDS_INVENTORY",
}  # fmt: skip
VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


def _named(values: Values, kind: str, name: str) -> dict[str, Any]:
    (found,) = [one for one in of_kind(manifests(values), kind) if one["metadata"]["name"] == name]
    return found


def _deployment(values: Values, name: str = "") -> dict[str, Any]:
    return _named(values, "Deployment", name or str(values.get("nameOverride", "dds")))


def _container(values: Values, name: str = "") -> dict[str, Any]:
    (found,) = _deployment(values, name)["spec"]["template"]["spec"]["containers"]
    return dict(found)


def _autoscaler(**told: Any) -> Values:
    return {"autoscaler": {**AUTOSCALES["autoscaler"], **told}}


def _alone(values: Values) -> bool:
    told = values.get("publisher", {})
    return bool(told.get("enabled") and not told.get("inProcess"))


@pytest.mark.parametrize("name", VARIANTS)
def test_helm_has_nothing_to_say_against_it(name: str) -> None:
    found = helm_python.lint(CHART, dict(VARIANTS[name]), strict=True, namespace="dds")
    assert found["errors"] == []
    assert all(one["severity"] <= 1 for one in found["messages"]), found["messages"]


@pytest.mark.parametrize("version", ["1.36", "1.37"])
@pytest.mark.parametrize("name", VARIANTS)
def test_every_manifest_is_what_kubernetes_expects(name: str, version: str) -> None:
    for one in (*manifests(VARIANTS[name]), *manifests(VARIANTS[name], tests=True)):
        if one["kind"] in ("ServiceMonitor", "PrometheusRule"):
            continue  # no kind of Kubernetes itself
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_object_has_its_own_name_and_place(name: str) -> None:
    found = manifests(VARIANTS[name])
    keys = [(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in found]
    assert len(set(keys)) == len(keys)
    names = {one["metadata"]["labels"]["app.kubernetes.io/name"] for one in found}
    assert names == {"dds", *(f"dds-{one}" for one in ("publisher", "autoscaler") if one in VARIANTS[name])}


BESIDE = {"publisher": PUBLISHES["publisher on postgres"], "autoscaler": AUTOSCALERS["autoscaler on postgres"]}


@pytest.mark.parametrize("component", BESIDE)
def test_a_component_beside_the_scaler_is_there_if_it_is_wanted_and_nothing_of_the_others_selects_its_pods(
    component: str,
) -> None:
    assert not any(component in one["metadata"]["name"] for one in manifests())
    found = manifests(BESIDE[component])
    made = of_kind(found, "Deployment")
    pods = {one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"] for one in made}
    assert pods.keys() == {"dds", f"dds-{component}"}
    for kind in ("Service", "NetworkPolicy", "PodDisruptionBudget", "Deployment", "ServiceMonitor"):
        for one in of_kind(found, kind):
            chosen = one["spec"].get("podSelector") or one["spec"]["selector"]
            chosen = chosen.get("matchLabels", chosen)
            hit = [name for name, labels in pods.items() if chosen.items() <= labels.items()]
            assert hit == [f"dds-{component}" if component in one["metadata"]["name"] else "dds"], one["metadata"][
                "name"
            ]


def _paths(values: Any, schema: Any, place: str = "") -> Iterator[str]:
    for name, value in values.items():
        here = f"{place}.{name}".lstrip(".")
        if name not in schema.get("properties", {}):
            yield here
        elif isinstance(value, dict) and "properties" in schema["properties"][name]:
            yield from _paths(value, schema["properties"][name], here)


def test_every_value_is_in_the_schema_and_every_part_of_the_schema_in_the_values() -> None:
    assert list(_paths(VALUES, SCHEMA)) == []
    assert set(SCHEMA["properties"]) - set(VALUES) == {"global"}


@pytest.mark.parametrize(
    "values",
    [
        {"replicas": 2},
        {"log": {"kind": "sqlite"}, "replicas": 2},
        {"log": {"kind": "postgres"}},
        {"log": {"kind": "mysql"}},
        {**POSTGRES, "leaderElection": {"enabled": False}},
        {"mode": "attack"},
        {"policy": {"mode": "detach"}},
        {"policy": {"no_removal_second": 5}},
        {"policy": {"no_removal_seconds": "5"}},
        {"policy": {"limits": {"A100 40G": {"max": -1}}}},
        {"policy": {"schedulers": {"own": {"binding_timeout": 5}}}},
        {"publisher": {**PUBLISHES["publisher on postgres"]["publisher"], "policy": {"adopt": "some"}}},
        {"autoscaler": {**AUTOSCALES["autoscaler"], "policy": {"groups": [{"name": "big", "maximum": "4"}]}}},
        {"fabric": {"drivers": []}},
        {"fabric": {"labelPrefix": "it's"}},
        {"powers": {"signal": False}},
        {"powers": {"fly": True}},
        {"guard": {"enabled": "yes"}},
        {"guard": {"expiry": 60}},
        {"replica": 1},
        {"metrics": {"port": 0}},
        {"metrics": {"rules": {"enabled": True, "runbookBaseUrl": "docs.example"}}},
        {"metrics": {"rules": {"enabled": True, "runbookBaseUrl": "https://docs.example/a: b"}}},
        {"extraArgs": [8]},
        {"extraEnv": [{"value": "nameless"}]},
        {"extraVolumes": {"name": "no list"}},
        {"publisher": {"enabled": True, "extraVolumeMounts": [{"name": "nowhere"}]}},
        {"log": {**POSTGRES["log"], "archive": {"enabled": True}}},
        {"log": {"kind": "sqlite", "archive": {"enabled": True}, "checkpointEvents": 0}},
        {"publisher": {"enabled": True, "mode": "attach"}},
        {"publisher": {"enabled": True, "replicas": 2}},
        {"publisher": {"enabled": True, "policy": {"mode": "publish"}}},
        {"publisher": {"enabled": True, "fabric": {"api": "fm"}}},
        {"publisher": {"enabled": True, "fabric": {**FM, "endpoint": "http://cdi.example"}}},
        {"publisher": {"enabled": True, "fabric": {**FM, "endpoint": "https://user:secret@cdi.example"}}},
        {"publisher": {"enabled": True, "fabric": {**FM, "tenantId": "mine"}}},
        {"publisher": {"enabled": True, "fabric": {**FM, "api": "cm"}}},
        {"publisher": {"enabled": True, "fabric": {"api": "nec"}}},
        {"publisher": {"enabled": True, "scanInterval": 0}},
        {"autoscaler": {"enabled": True}},
        _autoscaler(machines={}),
        _autoscaler(machines={"kind": "rack"}),
        _autoscaler(grpc={}),
        _autoscaler(mode="attach"),
        _autoscaler(replicas=2),
        _autoscaler(policy={"mode": "autoscale"}),
        {**POSTGRES, **_autoscaler(replicas=2), "leaderElection": {"enabled": False}},
    ],
    ids=str,
)
def test_values_that_do_not_go_together_are_refused(values: Values) -> None:
    with pytest.raises(helm_python.HelmError):
        rendered(values)


def test_sqlite_has_one_pod_at_a_time_and_a_volume_that_stays() -> None:
    spec = _deployment({})["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    (volume,) = of_kind(manifests(), "PersistentVolumeClaim")
    assert volume["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    claims = [
        one["persistentVolumeClaim"]["claimName"]
        for one in spec["template"]["spec"]["volumes"]
        if "persistentVolumeClaim" in one
    ]
    assert claims == [volume["metadata"]["name"]]
    assert (
        of_kind(manifests({"log": {"kind": "sqlite", "sqlite": {"existingClaim": "mine"}}}), "PersistentVolumeClaim")
        == []
    )
    assert of_kind(manifests(), "PodDisruptionBudget") == []


def test_archives_are_kept_beside_the_log() -> None:
    container = _container({"log": {"kind": "sqlite", "archive": {"enabled": True}}})
    (folder,) = [arg.partition("=")[2] for arg in container["args"] if arg.startswith("--archive-folder=")]
    (mount,) = [one["mountPath"] for one in container["volumeMounts"] if one["name"] == "log"]
    assert folder.startswith(f"{mount}/")
    assert not any("archive" in arg for arg in _container({})["args"])


def test_postgres_has_several_that_elect_and_no_volume() -> None:
    spec = _deployment(POSTGRES)["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (3, "RollingUpdate")
    container = _container(POSTGRES)
    assert {"name": "DDS_LOG", "valueFrom": {"secretKeyRef": {"name": "dds-log", "key": "url"}}} in container["env"]
    assert "--leader-elect" in container["args"]
    assert not any(arg.startswith("--log=") for arg in container["args"])
    assert of_kind(manifests(POSTGRES), "PersistentVolumeClaim") == []
    (budget,) = of_kind(manifests(POSTGRES), "PodDisruptionBudget")
    assert budget["spec"]["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    (network,) = of_kind(manifests(POSTGRES), "NetworkPolicy")
    assert {"port": 5432, "protocol": "TCP"} in [port for rule in network["spec"]["egress"] for port in rule["ports"]]


@pytest.mark.parametrize("name", VARIANTS)
def test_a_pod_is_restricted(name: str) -> None:
    for one in of_kind(manifests(VARIANTS[name]), "Deployment"):
        _is_restricted(one["spec"]["template"]["spec"])
    (test,) = of_kind(manifests(VARIANTS[name], tests=True), "Pod")
    _is_restricted(test["spec"])


def _is_restricted(pod: dict[str, Any]) -> None:
    """The restricted profile of the pod security standards, and a root file system that is only read."""
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}  # what a quota asks for
        assert container["resources"]["limits"]["memory"]
    allowed = {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}
    assert all((volume.keys() - {"name"}) <= allowed for volume in pod["volumes"])
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}


@pytest.mark.parametrize("name", VARIANTS)
def test_dds_serve_knows_every_argument_and_variable(name: str) -> None:
    settings = [one for one in serve.params if isinstance(one, Setting)]
    container = _container(VARIANTS[name])
    command, *args = container["args"]
    assert command == "serve"
    with serve.make_context("serve", list(args), resilient_parsing=False) as context:
        told = context.params
    assert told["namespace"] == "composable-dra"
    variables = {one["name"] for one in container["env"]} - {NAME_VARIABLE, "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE"}
    assert variables <= {str(one.envvar) for one in settings}


@pytest.mark.parametrize("name", VARIANTS)
def test_commands_that_are_run_in_the_pod_are_told_what_dds_serve_is(name: str) -> None:
    """`kubectl exec deploy/dds -- dds doctor` examines this cluster's policy and log."""
    container = _container(VARIANTS[name])
    variables = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    assert variables.pop(NAME_VARIABLE) == f"{variables['DDS_CLUSTER_NAME']}/{SCALER.name}"
    published = {
        name: variables.pop(name) for name in list(variables) if name in FABRIC or name == "DDS_PUBLISH_POLICY"
    }
    outside = {variables.pop(name, "") for name in ("HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE")}
    assert (outside == {""}) is (name != "everything")
    log = variables.pop("DDS_LOG", "")
    assert log == ("" if "log" in VARIANTS[name] else "sqlite:////var/lib/dds/scaler.sqlite3")
    assert variables.keys() == {"DDS_CLUSTER_NAME", "DDS_NAMESPACE", "DDS_POLICY"}
    assert bool(published) == bool(VARIANTS[name].get("publisher", {}).get("inProcess"))
    known = {str(one.envvar) for one in doctor.params if isinstance(one, Setting)}
    assert variables.keys() <= known
    with serve.make_context("serve", container["args"][1:]) as context:
        told = context.params
    assert {variable: told[variable.removeprefix("DDS_").lower()] for variable in variables} == variables


@pytest.mark.parametrize("name", VARIANTS)
def test_the_policy_is_one(name: str) -> None:
    values = VARIANTS[name]
    found = _named(values, "ConfigMap", f"{values.get('nameOverride', 'dds')}-policy")
    policy = read_policy(yaml.safe_load(found["data"]["policy.yaml"]))
    assert policy.mode == values.get("mode", "observe")
    assert policy.hand_over == values.get("policy", {}).get("hand_over", "exchange")


@pytest.mark.parametrize("off", ["", *POWERS])
def test_roles_are_those_of_the_table(off: str) -> None:
    values: dict[str, Any] = {}
    powers = EVERYTHING - {off, "steer" if off == "signal" else off} | NOTHING
    match off:
        case "":
            pass
        case "leader_election":
            values["leaderElection"] = {"enabled": False}
        case "exchange":
            values["guard"] = {"enabled": False}
        case "metrics_reviews":
            values["metrics"] = {"secure": False}
        case "signal":
            values["powers"] = {"signal": False, "steer": False}
        case _:
            values["powers"] = {off: False}
    found = manifests({**values, "fabric": {"drivers": ["a.example", "b.example"], "configNamespace": "fabric"}})
    names = Names(
        drivers=("a.example", "b.example"), config_namespace="fabric", lease_namespace="dds", guard_namespace="dds"
    )
    held_to(found, lambda where: role(where, powers, names), "dds")


def test_the_guard_is_of_this_release_and_can_be_left_out() -> None:
    """What holds us then lets us allocate nothing."""
    named = [{**one, "metadata": {**one["metadata"], "labels": {}}} for one in _of_guard(manifests())]
    account = "system:serviceaccount:dds:dds"
    expected = (guard.policy(account), guard.binding("dds"), guard.config_map("dds"), guard.probe("dds"))
    assert named == [{**one, "metadata": {**one["metadata"], "labels": {}}} for one in expected]
    without = manifests({"guard": {"enabled": False}})
    assert _of_guard(without) == []
    (claims,) = [one for one in without if one["kind"] == POLICY and one["metadata"]["name"] == "dds-dds-claims"]
    assert "dds may not allocate" in [one["message"] for one in claims["spec"]["validations"]]


def _of_guard(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {(POLICY, guard.NAME), (f"{POLICY}Binding", guard.NAME)}
    names |= {("ConfigMap", guard.CONFIG_MAP), ("ResourceClaim", guard.PROBE)}
    return [one for one in found if (one["kind"], one["metadata"]["name"]) in names]


def test_an_upgrade_takes_no_guard_off() -> None:
    """Helm and kubectl leave the keys alone that they have never written."""
    assert "data" not in _named({}, "ConfigMap", guard.CONFIG_MAP)


def test_the_api_server_serves_the_scaler_before_other_accounts() -> None:
    (schema,) = of_kind(manifests(), "FlowSchema")
    (level,) = of_kind(manifests(), "PriorityLevelConfiguration")
    assert schema["spec"]["priorityLevelConfiguration"]["name"] == level["metadata"]["name"]
    assert 900 < schema["spec"]["matchingPrecedence"] < 9000  # behind the control plane, before `service-accounts`
    (account,) = of_kind(manifests(), "ServiceAccount")
    (subject,) = schema["spec"]["rules"][0]["subjects"]
    assert subject["serviceAccount"] == {"name": account["metadata"]["name"], "namespace": "dds"}


def test_metrics_that_are_off_open_no_port_and_need_no_reviews() -> None:
    found = manifests({"metrics": {"enabled": False}})
    assert of_kind(found, "Service") == of_kind(found, "ServiceMonitor") == []
    assert "--metrics-bind-address=0" in _container({"metrics": {"enabled": False}})["args"]
    (role,) = of_kind(found, "ClusterRole")
    resources = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert not {"tokenreviews", "subjectaccessreviews"} & resources


# -- what somebody adds ---------------------------------------------------------------------------------------------------

EXTRA: dict[str, list[Any]] = {
    "extraArgs": ["--writers=3"],
    "extraEnv": [{"name": "PGSSLMODE", "value": "verify-full"}],
    "extraVolumes": [{"name": "authority", "configMap": {"name": "authority"}}],
    "extraVolumeMounts": [{"name": "authority", "mountPath": "/etc/authority", "readOnly": True}],
}


@pytest.mark.parametrize("component", ["serve", "publisher", "autoscaler"])
def test_what_is_added_reaches_its_pod_and_no_other(component: str) -> None:
    values: dict[str, Any] = {"publisher": {"enabled": True}, **AUTOSCALES}
    values |= EXTRA if component == "serve" else {component: {**values[component], **EXTRA}}
    assert helm_python.lint(CHART, values, strict=True, namespace="dds")["errors"] == []
    for one in of_kind(manifests(values), "Deployment"):
        kubernetes_validate.validate(one, "1.36", strict=True)
        pod = one["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        mine = one["metadata"]["name"] == {"serve": "dds"}.get(component, f"dds-{component}")
        for added, there in (
            (EXTRA["extraEnv"], container["env"]),
            (EXTRA["extraVolumes"], pod["volumes"]),
            (EXTRA["extraVolumeMounts"], container["volumeMounts"]),
        ):
            assert (added[0] in there) is mine
        assert (container["args"][-1:] == EXTRA["extraArgs"]) is mine
        name, *arguments = container["args"]
        with {"serve": serve, "publish": publish, "autoscale": autoscale}[name].make_context(
            name, arguments
        ) as context:
            assert (context.params["writers"] == 3) is mine
