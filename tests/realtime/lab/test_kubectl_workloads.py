"""A real kubectl runs Deployments, StatefulSets and Jobs with devices in a lab with all its parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.joined import QUICK, patient, program
from tests.support.kubectl import NONE, PROGRAMS, Kubectl

pytestmark = pytest.mark.skipif(not PROGRAMS, reason=NONE)

TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: nvidia-a100-40}}]}}}
---
"""
PODS = """
      containers: [{name: c, image: one, resources: {claims: [{name: gpu}]}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
"""
DEPLOYMENT = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:{PODS}"""
JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: train}}
spec:
  template:
    metadata: {{annotations: {{lab.dynamic-device-scaler.io/run-for: "3"}}}}
    spec:
      restartPolicy: OnFailure{PODS}"""


@pytest.fixture(scope="module", params=PROGRAMS or [""], ids=range(max(1, len(PROGRAMS))))
def kubectl(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """On a lab with a pool of four devices, each of which goes back after two idle seconds."""
    folder = Path(tmp_path_factory.mktemp("workloads"))
    (folder / "lab.yaml").write_text(QUICK.replace("removal: 1h", "removal: 2s"))
    config = folder / "config"
    with program("lab", "up", str(folder / "lab.yaml"), "--speed", "4", "--kubeconfig", str(config)) as up:
        up.until("contexts:")
        made = Kubectl(request.param, str(config), folder)
        made("apply", "-f", "-", stdin=TEMPLATE)
        yield made


def devices(kubectl: Kubectl) -> list[str]:
    return kubectl("get", "composableresources", "-o", "name").split()


def held(kubectl: Kubectl) -> list[str]:
    """The claims that have a device."""
    claims: list[Any] = kubectl.json("get", "resourceclaims")["items"]
    return [one["metadata"]["name"] for one in claims if (one.get("status") or {}).get("allocation")]


@pytest.mark.smoke
def test_a_deployment_with_devices_is_scaled_rolled_out_and_deleted(kubectl: Kubectl) -> None:
    assert "deployment.apps/web created" in kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    rollout = ("rollout", "status", "deployment/web", "--timeout=40s")
    assert "successfully rolled out" in kubectl(*rollout)
    kubectl("scale", "deployment/web", "--replicas=2")
    kubectl("scale", "deployment/web", "--current-replicas=2", "--replicas=3")
    kubectl(*rollout)
    assert kubectl("get", "deploy,rs").splitlines()[1].split()[:4] == ["deployment.apps/web", "3/3", "3", "3"]
    assert len(held(kubectl)) == 3 == len(devices(kubectl))
    kubectl("set", "image", "deployment/web", "c=two")
    kubectl(*rollout)
    kubectl("rollout", "undo", "deployment/web")
    kubectl(*rollout)
    assert "3" in kubectl("rollout", "history", "deployment/web").split()
    pods = kubectl.json("get", "pods", "-l", "app=web")["items"]
    assert {one["spec"]["containers"][0]["image"] for one in pods} == {"one"}
    kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=20s")
    assert kubectl("get", "deploy,rs,pods", "-o", "name") == ""
    patient(lambda: devices(kubectl) == [] and held(kubectl) == [])


def test_a_job_completes_with_a_device_and_gives_it_back(kubectl: Kubectl) -> None:
    assert "job.batch/train created" in kubectl("apply", "-f", "-", stdin=JOB)
    kubectl("wait", "--for=condition=complete", "job/train", "--timeout=40s")
    assert kubectl("get", "jobs").splitlines()[1].split()[:3] == ["train", "Complete", "1/1"]
    patient(lambda: devices(kubectl) == [] and held(kubectl) == [])
    assert "Completed" in kubectl("get", "pods", "-l", "job-name=train")
    kubectl("delete", "job", "train")
    patient(lambda: kubectl("get", "pods", "-o", "name") == "")


def test_what_kubectl_makes_without_a_file(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "plain", "--image=x", "--replicas=2", "--port=80")
    kubectl("create", "job", "short", "--image=x", "--", "sleep", "5")
    kubectl("rollout", "status", "deployment/plain", "--timeout=20s")
    assert "short" in kubectl("describe", "job", "short") and "NewReplicaSet" in kubectl("describe", "deploy", "plain")
    kubectl("wait", "--for=condition=complete", "job/short", "--timeout=20s")
    kubectl("delete", "deployment/plain", "job/short")
    patient(lambda: kubectl("get", "all", "-o", "name") == "")
