"""What whoever installs may set beside what dds does: names, labels, accounts, images, pods, the page, and what companies have.
And that the values of the chart before are still understood."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from dds_commands.serve import serve
from tests.project.deploy.chart import AUTOSCALES, CHART, RELEASE, Values, manifests, of_kind, rendered
from tests.project.deploy.test_chart import FM, POSTGRES, _container, _deployment, _is_restricted, _named
from tests.support.roles import RBAC

ALL: Values = {"publisher": {"enabled": True}, **AUTOSCALES}
BEFORE = yaml.safe_load((Path(__file__).parents[2] / "data" / "chart-0.1.0.yaml").read_text(encoding="utf-8"))
DIGEST = "sha256:" + "0123456789abcdef" * 4


def _pods(values: Values) -> list[dict[str, Any]]:
    """The pods of all Deployments and of `helm test`: metadata and spec."""
    deployed = [one["spec"]["template"] for one in of_kind(manifests(values), "Deployment")]
    return [*deployed, *of_kind(manifests(values, tests=True), "Pod")]


@pytest.mark.parametrize("name", ["fullnameOverride", "nameOverride"])
def test_everything_is_called_as_is_told(name: str) -> None:
    found = manifests({**ALL, name: "scaler", "guard": {"enabled": False}})
    names = {one["metadata"]["name"] for one in found}
    assert all(re.match(r"(dds-)?scaler\b", one) for one in names), names


def test_the_full_name_counts_more() -> None:
    assert _deployment({"fullnameOverride": "full", "nameOverride": "other"}, "full")


def test_common_labels_are_on_everything_and_select_nothing() -> None:
    values = {**ALL, "commonLabels": {"team": "fabric"}}
    for one in (*manifests(values), *_pods(values)):
        assert one["metadata"]["labels"]["team"] == "fabric", one["metadata"]["name"]
        assert "team" not in str(one["spec"].get("selector", {})) if "spec" in one else True


def test_an_image_by_digest() -> None:
    for pod in _pods({**ALL, "image": {"repository": "registry.example/dds", "tag": "9", "digest": DIGEST}}):
        assert {one["image"] for one in pod["spec"]["containers"]} == {f"registry.example/dds@{DIGEST}"}
    assert _container({})["image"] == "dds:0.1.0"


def test_extra_objects_as_maps_and_texts_with_templates() -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "one", "namespace": "{{ .Release.Namespace }}"},
    }
    text = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ include "dds.name" . }}-two\n'
    found = manifests({"extraObjects": [claim, text]})
    assert [one["metadata"]["namespace"] for one in found if one["metadata"]["name"] == "one"] == ["dds"]
    assert [one for one in found if one["metadata"]["name"] == "dds-two"]


def test_probes_are_what_is_told() -> None:
    values = {"probes": {"startup": {"failureThreshold": 900}, "liveness": {"timeoutSeconds": 9}}}
    container = _container(values)
    assert container["startupProbe"] == {
        "httpGet": {"path": "/livez", "port": "health"}, "periodSeconds": 2, "failureThreshold": 900,
    }  # fmt: skip
    assert container["livenessProbe"]["timeoutSeconds"] == 9
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_pods_are_spread_as_is_told_each_deployments_among_themselves() -> None:
    zone = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    mine = {**zone, "labelSelector": {"matchLabels": {"team": "fabric"}}}
    for one in of_kind(manifests({**ALL, "topologySpreadConstraints": [zone, mine]}), "Deployment"):
        spread = one["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert spread == [{**zone, "labelSelector": one["spec"]["selector"]}, mine]
    assert "topologySpreadConstraints" not in _deployment({})["spec"]["template"]["spec"]
    (usual,) = _deployment(POSTGRES)["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert usual["topologyKey"] == "kubernetes.io/hostname"


def _account(name: str) -> dict[str, Any]:
    return {"create": False, "name": name}


def test_accounts_that_are_there_already_have_the_rights_and_their_bounds() -> None:
    values = {
        "serviceAccount": _account("one"),
        "publisher": {"enabled": True, "serviceAccount": _account("two")},
        "autoscaler": {**AUTOSCALES["autoscaler"], "serviceAccount": _account("three")},
    }
    found = manifests(values)
    assert of_kind(found, "ServiceAccount") == []
    by_name = {one["metadata"]["name"]: one for one in of_kind(found, "Deployment")}
    for name, account in {"dds": "one", "dds-publisher": "two", "dds-autoscaler": "three"}.items():
        assert by_name[name]["spec"]["template"]["spec"]["serviceAccountName"] == account
        assert f"system:serviceaccount:dds:{account}" in str(of_kind(found, "ValidatingAdmissionPolicy"))
        assert f"'name': '{account}', 'namespace': 'dds'" in str(of_kind(found, "FlowSchema"))
    bound = {one["subjects"][0]["name"] for one in found if one["kind"].endswith("Binding") and "roleRef" in one}
    assert bound == {"one", "two", "three"}
    assert not re.search(r"serviceaccount:dds:dds\b", str(found))
    for pod in of_kind(manifests(values, tests=True), "Pod"):
        assert pod["spec"]["serviceAccountName"] == "one"


def test_annotations_of_accounts_add_up() -> None:
    own = {"publisher": {"enabled": True, "serviceAccount": {"annotations": {"b": "2"}}}}
    values = {**own, "serviceAccount": {"annotations": {"a": "1", "b": "0"}}}
    assert _named(values, "ServiceAccount", "dds")["metadata"]["annotations"] == {"a": "1", "b": "0"}
    assert _named(values, "ServiceAccount", "dds-publisher")["metadata"]["annotations"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize("metrics", [True, False])
def test_the_page_is_a_service_over_tls_for_those_who_may(metrics: bool) -> None:
    peer: dict[str, Any] = {"podSelector": {}}
    values = {
        "ui": {"enabled": True, "port": 8443},
        "metrics": {"enabled": metrics, "certSecretName": "cert"},
        "networkPolicy": {"uiFrom": [peer]},
    }
    container = _container(values)
    with serve.make_context("serve", container["args"][1:]) as context:
        told = context.params
    assert (told["ui_bind_address"], told["metrics_cert_file"]) == (":8443", "/etc/dds-metrics/tls.crt")
    assert "/etc/dds-metrics" in [one["mountPath"] for one in container["volumeMounts"]]
    service = _named(values, "Service", "dds-ui")["spec"]
    assert service["selector"].items() <= _deployment(values)["spec"]["template"]["metadata"]["labels"].items()
    assert {"name": service["ports"][0]["targetPort"], "containerPort": 8443} in container["ports"]
    assert {"ports": [{"port": "ui"}], "from": [peer]} in _named(values, "NetworkPolicy", "dds")["spec"]["ingress"]
    assert _named(values, "ClusterRole", "dds-dds-ui-reader")["rules"] == [
        {"nonResourceURLs": ["/ui"], "verbs": ["get"]}
    ]
    reviewed = {
        resource for rule in _named(values, "ClusterRole", "dds-dds")["rules"] for resource in rule["resources"]
    }
    assert {"tokenreviews", "subjectaccessreviews"} <= reviewed
    assert not [one for one in manifests() if one["metadata"]["name"].startswith("dds-ui")]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"replicas": 2}, "replicas: 2 needs log.kind postgres"),
        ({"publisher": {"enabled": True, "replicas": 3}}, "publisher.replicas: 3 needs log.kind postgres"),
        ({"image": {"digest": "latest"}}, "image.digest"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name"),
        ({"probes": {"liveness": {"path": "/"}}}, "probes.liveness"),
        ({"proxy": {"url": "http://user:secret@proxy.example"}}, "proxy.url"),
        ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "topologySpreadConstraints"),
        ({"commonLabels": {"a": 1}}, "commonLabels.a"),
    ],
    ids=str,
)
def test_what_cannot_be_is_said_in_words(values: Values, words: str) -> None:
    with pytest.raises(helm_python.HelmError) as told:
        rendered(values)
    assert words in str(told.value).replace("/", ".").replace("'", "")


# -- what companies have -----------------------------------------------------------------------------------------------------


def test_openshift_chooses_the_user_of_a_restricted_pod() -> None:
    """Under its SCC restricted-v2 a pod that names a user or group of its own is refused."""
    own = dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"))
    for pod in _pods({**ALL, "podSecurityContext": own}):
        assert not own.keys() & pod["spec"]["securityContext"].keys()
        _is_restricted(pod["spec"])


def test_a_proxy_and_authorities_reach_every_part_and_no_password_is_told() -> None:
    values = {
        **POSTGRES,
        "publisher": {"enabled": True, "fabric": FM},
        **AUTOSCALES,
        "proxy": {"url": "http://proxy.example:3128", "noProxy": ["10.0.0.0/8", ".svc"]},
        "caBundle": {"configMap": "company", "key": "bundle.pem"},
        "networkPolicy": {"proxyTo": [{"ipBlock": {"cidr": "10.9.0.1/32"}}]},
    }
    for name in ("dds", "dds-publisher", "dds-autoscaler"):
        container = _container(values, name)
        variables = {one["name"]: one.get("value") for one in container["env"]}
        assert variables["HTTPS_PROXY"] == "http://proxy.example:3128"
        assert variables["NO_PROXY"] == "$(KUBERNETES_SERVICE_HOST),10.0.0.0/8,.svc"
        folder, _, file = variables["SSL_CERT_FILE"].rpartition("/")
        assert (file, folder in [one["mountPath"] for one in container["volumeMounts"]]) == ("bundle.pem", True)
        way = {"ports": [{"port": 3128, "protocol": "TCP"}], "to": [{"ipBlock": {"cidr": "10.9.0.1/32"}}]}
        assert way in _named(values, "NetworkPolicy", name)["spec"]["egress"]


def test_network_policies_let_through_what_is_told_and_nothing_else() -> None:
    """With every peer told, only names and the API server, which is no pod, are reached anywhere on their ports."""
    peer = [{"ipBlock": {"cidr": "192.0.2.1/32"}}]
    names = ("metricsFrom", "uiFrom", "grpcFrom", "postgresTo", "proxyTo", "fabricTo")
    values = {
        **POSTGRES,
        "publisher": {"enabled": True, "fabric": FM},
        **AUTOSCALES,
        "ui": {"enabled": True},
        "proxy": {"url": "http://proxy.example"},
        "networkPolicy": dict.fromkeys(names, peer),
    }
    for one in of_kind(manifests(values), "NetworkPolicy"):
        assert one["spec"]["policyTypes"] == ["Ingress", "Egress"]
        free = [rule for rule in one["spec"]["egress"] if "to" not in rule]
        assert [[port["port"] for port in rule["ports"]] for rule in free] == [[53, 53], [443, 6443]]
        assert [rule["ports"] for rule in one["spec"]["ingress"] if "from" not in rule] == [[{"port": "health"}]]
        assert all(rule["ports"] for rule in (*one["spec"]["egress"], *one["spec"]["ingress"]))


def test_a_quota_on_cpu_limits_can_be_met() -> None:
    """Of every container, that of `helm test` too."""
    limits = {"resources": {"limits": {"cpu": "1"}}}
    values = {**limits, "publisher": {"enabled": True, **limits}, "autoscaler": {**AUTOSCALES["autoscaler"], **limits}}
    for pod in _pods(values):
        for container in pod["spec"]["containers"]:
            assert container["resources"]["limits"].keys() == {"cpu", "memory"}


# -- upgrades ----------------------------------------------------------------------------------------------------------------


def test_the_values_of_the_chart_before_make_the_same_objects() -> None:
    """What an upgrade cannot change has not changed."""
    values = BEFORE["values"]
    for part, told in ALL.items():
        values = {**values, part: {**values[part], **told}}
    found: dict[str, list[Any]] = {}
    for one in manifests(values):
        spec, meta = one.get("spec", {}), one["metadata"]
        fixed = (
            spec.get("selector") if one["kind"] in ("Deployment", "Service") else None,
            spec.get("accessModes"),
            one.get("roleRef"),
        )
        found[f"{one['kind']} {meta.get('namespace', '')} {meta['name']}"] = [part for part in fixed if part]
    assert found == BEFORE["objects"]


def test_values_that_lack_the_new_ones_are_refused_in_words(tmp_path: Path) -> None:
    """`helm upgrade --reuse-values` puts the old values in place of the new chart's."""
    old = tmp_path / "dds"
    shutil.copytree(CHART, old)
    (old / "values.yaml").write_text(yaml.safe_dump(BEFORE["values"]), encoding="utf-8")
    with helm_python.Chart.load(old) as chart:
        chart.validate_schema({})
        with pytest.raises(helm_python.HelmError, match="helm upgrade with --reset-then-reuse-values"):
            chart.render({}, name=RELEASE, namespace="dds")


def test_roles_are_of_the_group_that_is_bound() -> None:
    assert {one["apiVersion"] for one in of_kind(manifests({"ui": {"enabled": True}}), "ClusterRole")} == {RBAC}
