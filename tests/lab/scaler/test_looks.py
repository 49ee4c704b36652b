"""Monitors with adminAccess beside pods that use devices: they look at what their node has, and nobody gives way to them."""

from __future__ import annotations

import pytest

from dds_core.scaler import events as e
from dds_lab.scenario import parse
from tests.support.ours import policy_for, running

CLUSTER = """
about: A monitor, which looks at the devices of its node
duration: 15m
cluster:
  models: [{{model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}}]
  classes: [{{name: any, selectors: ['device.driver == "gpu.nvidia.com"']}}]
  fabrics: [{{id: 1, devices: {{A100 40G: {free}}}}}]
  nodes: [{{count: 1, fabric: 1, fixed: {{A100 40G: {fixed}}}}}, {{count: 1, first: 1, fabric: 1}}]
  objects:
    - {{apiVersion: v1, kind: Namespace, metadata: {{name: monitoring, labels: {{resource.kubernetes.io/admin-access: "true"}}}}}}
parts: {{scaler: false, scheduler: {{profiles: {{default-scheduler: {{binding_timeout: 2m}}}}}}}}
steps:
  - at: 40s
    apply:
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {{name: watcher, namespace: monitoring}}
      spec: {{devices: {{requests: [{{name: all, exactly: {{deviceClassName: any, adminAccess: true{many}}}}}]}}}}
  - apply:
      apiVersion: v1
      kind: Pod
      metadata: {{name: watcher, namespace: monitoring}}
      spec:
        nodeSelector: {{kubernetes.io/hostname: node0000}}
        containers: [{{name: c, image: pause, resources: {{claims: [{{name: d0}}]}}}}]
        resourceClaims: [{{name: d0, resourceClaimName: watcher}}]
"""
TRAIN = """\
  - at: {at}
    run: {{name: {name}, devices: {{any: 1}}, delete_after: {after}, node_selector: {{kubernetes.io/hostname: {node}}}}}
"""
MANY = ", allocationMode: All"


@pytest.mark.parametrize("many", [MANY, ""])
def test_it_gets_the_devices_of_its_node_and_none_is_attached_for_it(many: str) -> None:
    with running(parse(CLUSTER.format(free=4, fixed=1, many=many), "it"), policy_for("first_attach")) as run:
        run.lab.run(200)
        claim = run.lab.client("looking").get("resourceclaims", "watcher", "monitoring")
    run.sound()
    results = claim["status"]["allocation"]["devices"]["results"]
    assert [(one["pool"], one["device"], one["adminAccess"]) for one in results] == [("node0000", "gpu-0", True)]
    assert "watcher" in run.outcomes.ran and not run.events(e.AttachOrdered)


def test_others_are_served_while_it_waits_where_nothing_is() -> None:
    text = CLUSTER.format(free=4, fixed=0, many=MANY) + TRAIN.format(
        at="60s", name="train", after="10m", node="node0001"
    )
    with running(parse(text, "it"), policy_for("first_attach")) as run:
        run.lab.run(400)
        told = [one["reason"] for one in run.lab.client("looking").list("events") if "watcher" in str(one)]
    run.sound()
    assert set(run.outcomes.ran) == {"train"} and run.lab.ledger.count("attach", "done") == 1
    assert "LooksOnly" in told
    assert run.judge.findings == []


def test_it_keeps_no_device_on_its_node() -> None:
    """The only device goes from a pod of the monitor's node to one of another node."""
    text = CLUSTER.format(free=1, fixed=0, many="")
    first = TRAIN.format(at="20s", name="first", after="60s", node="node0000")
    head, steps = text.split("steps:\n")
    text = f"{head}steps:\n{first}{steps}" + TRAIN.format(at="3m", name="second", after="60s", node="node0001")
    with running(parse(text, "it"), policy_for("first_attach")) as run:
        run.lab.run(600)
    run.sound()
    assert set(run.outcomes.ran) == {"watcher", "first", "second"}
    assert run.judge.findings == []
