"""A real kubectl runs Deployments, StatefulSets and Jobs with devices in a lab with all its parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import REPOSITORY
from tests.support.joined import QUICK, patient, program
from tests.support.kubectl import NONE, PROGRAMS, Kubectl

pytestmark = pytest.mark.skipif(not PROGRAMS, reason=NONE)

MANIFESTS = str(REPOSITORY / "examples" / "demo" / "workloads.yaml")


@pytest.fixture(scope="module", params=PROGRAMS or [""], ids=range(max(1, len(PROGRAMS))))
def kubectl(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """On a lab with a pool of four devices, each of which goes back after ten idle seconds. If a pod takes another one's device,
    the scheduler chooses anew before the rollout counts as stuck: after a minute, not ten."""
    folder = Path(tmp_path_factory.mktemp("workloads"))
    (folder / "lab.yaml").write_text(
        QUICK.replace("removal: 1h", "removal: 10s")
        + "  scheduler: {profiles: {default-scheduler: {binding_timeout: 1m}}}\n"
    )
    config = folder / "config"
    with program("lab", "up", str(folder / "lab.yaml"), "--speed", "20", "--kubeconfig", str(config)) as up:
        up.until("contexts:")
        yield Kubectl(request.param, str(config), folder)


def devices(kubectl: Kubectl) -> list[str]:
    return kubectl("get", "composableresources", "-o", "name").split()


def held(kubectl: Kubectl) -> list[str]:
    """The claims that have a device."""
    claims: list[Any] = kubectl.json("get", "resourceclaims")["items"]
    return [one["metadata"]["name"] for one in claims if (one.get("status") or {}).get("allocation")]


def test_the_example_is_applied_scaled_rolled_out_and_deleted(kubectl: Kubectl) -> None:
    assert "deployment.apps/infer created" in kubectl("apply", "-f", MANIFESTS)
    assert "deployment.apps/infer unchanged" in kubectl("apply", "-f", MANIFESTS)
    rollout = ("rollout", "status", "deployment/infer", "--timeout=40s")
    assert "successfully rolled out" in kubectl(*rollout)
    kubectl("wait", "--for=condition=complete", "job/train", "--timeout=40s")
    assert kubectl("get", "jobs").splitlines()[1].split()[:3] == ["train", "Complete", "1/1"]
    assert "Completed" in kubectl("get", "pods", "-l", "job-name=train")
    patient(lambda: len(held(kubectl)) == 1 == len(devices(kubectl)))  # the Job's device went back
    kubectl("scale", "deployment/infer", "--replicas=3")
    kubectl("scale", "deployment/infer", "--current-replicas=3", "--replicas=2")
    kubectl(*rollout)
    assert kubectl("get", "deploy,rs").splitlines()[1].split()[:4] == ["deployment.apps/infer", "2/2", "2", "2"]
    kubectl("set", "image", "deployment/infer", "main=other")
    kubectl(*rollout)
    kubectl("rollout", "undo", "deployment/infer")
    kubectl(*rollout)
    assert "3" in kubectl("rollout", "history", "deployment/infer").split()
    pods = kubectl.json("get", "pods", "-l", "app=infer")["items"]
    assert {one["spec"]["containers"][0]["image"].partition("/")[0] for one in pods} == {"registry.k8s.io"}
    assert len(held(kubectl)) == len(pods) == 2
    kubectl("delete", "-f", MANIFESTS, "--cascade=foreground", "--timeout=20s")
    assert kubectl("get", "deploy,rs,jobs,pods", "-o", "name") == ""
    patient(lambda: devices(kubectl) == [] and held(kubectl) == [])


@pytest.mark.smoke
def test_what_kubectl_makes_without_a_file(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "plain", "--image=x", "--replicas=2", "--port=80")
    kubectl("create", "job", "short", "--image=x", "--", "sleep", "5")
    kubectl("rollout", "status", "deployment/plain", "--timeout=20s")
    assert "short" in kubectl("describe", "job", "short") and "NewReplicaSet" in kubectl("describe", "deploy", "plain")
    kubectl("wait", "--for=condition=complete", "job/short", "--timeout=20s")
    kubectl("delete", "deployment/plain", "job/short")
    patient(lambda: kubectl("get", "all", "-o", "name") == "")
