"""A real kubectl works against the lab: claims, the operator's kinds, nodes and pods, as an administrator uses them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubectl import NONE, PROGRAMS, Kubectl
from tests.support.served import served

EXPLAINS_FROM = 27
"""kubectl reads OpenAPI v3 from this minor version on; before, it wants the whole of v2 in protobuf."""
pytestmark = pytest.mark.skipif(not PROGRAMS, reason=NONE)


@pytest.fixture(scope="module", params=PROGRAMS or [""], ids=range(max(1, len(PROGRAMS))))
def kubectl(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = Path(tmp_path_factory.mktemp("kubectl"))
    with served(tls=True) as server:
        yield Kubectl(request.param, server.kubeconfig(folder / "config"), folder, server)


def claim(name: str, **labels: str) -> dict[str, Any]:
    """With every field that has a default: kubectl compares lists of kinds that it does not know as they are."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"devices": {"requests": [{"name": "r0", "exactly": exactly}]}},
    }


def request(name: str, size: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
        "kind": "ComposabilityRequest",
        "metadata": {"name": name},
        "spec": {"resource": {"type": "gpu", "model": "A100 40G", "size": size, "target_node": "n1"}},
    }


def resource(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
        "kind": "ComposableResource",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "r"}},
        "spec": {"type": "gpu", "model": "A100 40G", "target_node": "n1"},
    }


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


# -- what there is -----------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_versions_and_resources(kubectl: Kubectl) -> None:
    assert kubectl.json("version")["serverVersion"]["gitVersion"] == "v1.36.2"
    assert "resource.k8s.io/v1\n" in kubectl("api-versions")
    listed = kubectl("api-resources", "-o", "name").split()
    wanted = (
        "resourceclaims.resource.k8s.io composabilityrequests.cro.hpsys.ibm.ie.com leases.coordination.k8s.io nodes"
    )
    assert set(wanted.split()) <= set(listed)


@pytest.mark.parametrize(
    ("manifest", "plural", "short"),
    [
        (claim("listed"), "resourceclaims", "resourceclaim"),
        (request("listed"), "composabilityrequests", "composabilityrequest"),
        (resource("listed"), "composableresources", "composableresource"),
    ],
)
def test_objects_are_listed_shown_and_described(
    kubectl: Kubectl, manifest: dict[str, Any], plural: str, short: str
) -> None:
    kubectl.make(manifest)
    table = kubectl("get", plural).splitlines()
    assert table[0].startswith("NAME") and table[0].endswith("AGE")
    assert any(line.startswith("listed ") for line in table[1:])
    assert kubectl("get", plural, "-o", "wide").splitlines()[0].startswith("NAME")
    assert kubectl("get", plural, "listed", "-o", "name").startswith(f"{short}.")
    assert "name: listed" in kubectl("get", plural, "listed", "-o", "yaml")
    assert kubectl.json("get", plural, "listed")["kind"] == manifest["kind"]
    described = kubectl("describe", plural, "listed")
    assert "Name:         listed" in described and f"Kind:         {manifest['kind']}" in described
    listed = kubectl("get", plural, "--chunk-size=1", "-o", "jsonpath={.items[*].metadata.name}")
    assert "listed" in listed.split()


def test_selectors(kubectl: Kubectl) -> None:
    for name, parity in (("s0", "even"), ("s1", "odd"), ("s2", "even")):
        kubectl.make(claim(name, parity=parity))
    assert kubectl("get", "resourceclaims", "-l", "parity=even", "-o", "name").split() == [
        "resourceclaim.resource.k8s.io/s0",
        "resourceclaim.resource.k8s.io/s2",
    ]
    assert kubectl("get", "resourceclaims", "-l", "parity in (odd)", "-o", "name").split() == [
        "resourceclaim.resource.k8s.io/s1"
    ]
    found = kubectl("get", "resourceclaims", "-A", "--field-selector", "metadata.name=s2", "-o", "name")
    assert found.split() == ["resourceclaim.resource.k8s.io/s2"]


# -- changes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [claim("applied", a="1"), request("applied")], ids=["claim", "request"])
def test_apply_makes_keeps_and_changes(kubectl: Kubectl, made: dict[str, Any]) -> None:
    assert "created" in kubectl("apply", "-f", "-", stdin=json.dumps(made))
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=json.dumps(made))
    changed = {**made, "metadata": {**made["metadata"], "labels": {"b": "2"}}}
    assert "configured" in kubectl("apply", "-f", "-", stdin=json.dumps(changed))
    assert kubectl.json("get", made["kind"], "applied")["metadata"]["labels"] == {"b": "2"}


def test_server_side_apply_names_the_owner_of_a_conflict(kubectl: Kubectl) -> None:
    first, second = json.dumps(request("owned", 1)), json.dumps(request("owned", 2))
    apply = ("apply", "--server-side", "-f", "-")
    assert "serverside-applied" in kubectl(*apply, "--field-manager=one", stdin=first)
    said = kubectl.refused(*apply, "--field-manager=two", stdin=second)
    assert 'conflict with "one"' in said and ".spec.resource.size" in said
    assert "serverside-applied" in kubectl(*apply, "--field-manager=two", "--force-conflicts", stdin=second)
    shown = ("get", "composabilityrequests", "owned", "-o", "json")
    found = json.loads(kubectl(*shown, *(("--show-managed-fields",) if kubectl.minor > 20 else ())))
    assert found["spec"]["resource"]["size"] == 2
    assert {each["manager"] for each in found["metadata"]["managedFields"]} == {"one", "two"}


def test_labels_and_annotations(kubectl: Kubectl) -> None:
    kubectl.make(request("labelled"))
    kubectl("label", "composabilityrequests", "labelled", "x=y")
    kubectl("annotate", "composabilityrequests", "labelled", "k=v")
    assert "already has a value" in kubectl.refused("label", "composabilityrequests", "labelled", "x=z")
    kubectl("label", "composabilityrequests", "labelled", "--overwrite", "x=z")
    meta = kubectl.json("get", "composabilityrequests", "labelled")["metadata"]
    assert meta["labels"] == {"x": "z"} and meta["annotations"]["k"] == "v"


def test_objects_go(kubectl: Kubectl) -> None:
    for name in ("g0", "g1"):
        kubectl.make(claim(name, goes="yes"))
    kubectl("delete", "resourceclaims", "g0")
    assert "NotFound" in kubectl.refused("get", "resourceclaims", "g0")
    kubectl("delete", "resourceclaims", "-l", "goes=yes")
    assert kubectl("get", "resourceclaims", "-l", "goes=yes", "-o", "name") == ""


# -- watching ----------------------------------------------------------------------------------------------------


def test_a_watch_shows_changes_as_they_come(kubectl: Kubectl) -> None:
    kubectl.make(claim("watched", step="0"))
    columns = "custom-columns=NAME:.metadata.name,STEP:.metadata.labels.step"
    watching = kubectl.popen("get", "resourceclaims", "-w", "--field-selector=metadata.name=watched", "-o", columns)
    try:
        assert watching.stdout is not None
        seen = [watching.stdout.readline().split(), watching.stdout.readline().split()]
        for step in ("1", "2"):
            kubectl("label", "--overwrite", "resourceclaims", "watched", f"step={step}")
            seen.append(watching.stdout.readline().split())
        assert seen == [["NAME", "STEP"], ["watched", "0"], ["watched", "1"], ["watched", "2"]]
    finally:
        watching.kill()
        watching.communicate()


def test_waiting_for_a_condition_and_for_an_end(kubectl: Kubectl) -> None:
    kubectl.make(node("waited"))
    waiting = kubectl.popen("wait", "--for=condition=Ready", "node/waited", "--timeout=20s")
    time.sleep(0.3)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert kubectl.served is not None
    client = kubectl.served.server

    def set_ready() -> None:
        from tests.support.served import client_of

        client_of(client).patch("nodes", "waited", ready, subresource="status")

    kubectl.served.run(set_ready)
    out, _ = waiting.communicate(timeout=20)
    assert waiting.returncode == 0 and "condition met" in out
    waiting = kubectl.popen("wait", "--for=delete", "node/waited", "--timeout=20s")
    time.sleep(0.3)
    kubectl("delete", "node", "waited")
    out, _ = waiting.communicate(timeout=20)
    assert waiting.returncode == 0, out


# -- nodes and pods ----------------------------------------------------------------------------------------------


def test_a_node_is_cordoned_tainted_and_drained(kubectl: Kubectl) -> None:
    kubectl.make(node("worn"))
    kubectl("cordon", "worn")
    assert "SchedulingDisabled" in kubectl("get", "nodes", "worn")
    kubectl("uncordon", "worn")
    assert "SchedulingDisabled" not in kubectl("get", "nodes", "worn")
    kubectl("taint", "nodes", "worn", "dedicated=gpu:NoSchedule")
    taints = kubectl.json("get", "nodes", "worn")["spec"]["taints"]
    assert {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"} in taints
    kubectl("taint", "nodes", "worn", "dedicated-")
    assert "dedicated" not in kubectl("get", "nodes", "worn", "-o", "yaml")
    kubectl("label", "node", "worn", "cohdi.io/a100=true")
    assert "Name:               worn" in kubectl("describe", "node", "worn")
    kubectl("drain", "worn", "--ignore-daemonsets", "--force")
    assert kubectl.json("get", "nodes", "worn")["spec"]["unschedulable"] is True


def test_a_pod_is_made_shown_and_deleted(kubectl: Kubectl) -> None:
    kubectl.make(pod("shown"))
    assert kubectl("get", "pods", "shown").splitlines()[1].split()[:4] == ["shown", "0/1", "Pending", "0"]
    assert "shown" in kubectl("get", "pods", "--field-selector", "spec.nodeName=,status.phase=Pending")
    assert "Status:       Pending" in kubectl("describe", "pod", "shown")
    assert "pod/ran created" in kubectl("run", "ran", "--image=x")
    kubectl("delete", "pods", "shown", "ran")
    assert kubectl("get", "pods", "-o", "name") == ""


def test_events_are_listed(kubectl: Kubectl) -> None:
    kubectl.make(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e1", "namespace": "default"},
            "involvedObject": {"kind": "ResourceClaim", "namespace": "default", "name": "c1"},
            "reason": "AttachOrdered",
            "message": "one device ordered",
            "type": "Normal",
        }
    )
    assert "one device ordered" in kubectl("get", "events")
    assert "one device ordered" in kubectl("get", "events.events.k8s.io", "-o", "yaml")


# -- namespaces, data, rights ------------------------------------------------------------------------------------


def test_what_create_makes_without_a_file(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "team")
    kubectl("create", "configmap", "settings", "--from-literal=a=b", "-n", "team")
    kubectl("create", "secret", "generic", "hidden", "--from-literal=a=b", "-n", "team")
    kubectl("create", "serviceaccount", "robot", "-n", "team")
    assert kubectl.json("get", "configmaps", "settings", "-n", "team")["data"] == {"a": "b"}
    assert kubectl.json("get", "secrets", "hidden", "-n", "team")["data"] == {"a": "Yg=="}
    kubectl("delete", "namespace", "team")
    assert "NotFound" in kubectl.refused("get", "namespace", "team")


def test_rights_are_told_and_kept(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    asking = kubectl.run("--context", "dds", "auth", "can-i", "list", "secrets")
    assert asking.returncode == 1 and asking.stdout.strip() == "no"
    said = kubectl.refused("--context", "dds", "get", "secrets")
    assert 'User "ddsuser" cannot list resource "secrets"' in said
    kubectl("create", "clusterrole", "reader", "--verb=get,list", "--resource=secrets")
    kubectl("create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=ddsuser")
    assert kubectl("--context", "dds", "auth", "can-i", "list", "secrets").strip() == "yes"
    assert "Resources" in kubectl("--context", "dds", "auth", "can-i", "--list")
    kubectl("--context", "dds", "get", "secrets")
    assert "Forbidden" in kubectl.refused("--context", "dds", "delete", "node", "any")


# -- schemas -----------------------------------------------------------------------------------------------------


def test_fields_are_explained(kubectl: Kubectl) -> None:
    if kubectl.minor < EXPLAINS_FROM:
        pytest.skip(
            f"kubectl 1.{kubectl.minor} explains from OpenAPI v2 in protobuf, of which only an outline is served"
        )
    assert "exactly" in kubectl("explain", "resourceclaims.spec.devices.requests")
    assert "target_node" in kubectl("explain", "composabilityrequests.spec.resource")
