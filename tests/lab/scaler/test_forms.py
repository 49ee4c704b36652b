"""A GPU that is passed through to a virtual machine: its driver lists it under another name and UUID, and hides the first."""

from __future__ import annotations

import pytest

from dds_core.scaler import events as e
from dds_lab.driver import OurScaler
from dds_lab.scenario import parse
from tests.support.ours import new_log, policy_for, running

PASSED_THROUGH = """
about: A virtual machine gets the device that a pod has just released
duration: 40m
cluster:
  models:
    - {model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe, passthrough: true, pool_attributes: {type: gpu}}
  classes:
    - {name: gpu, selectors: ['device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"']}
    - {name: vfio, selectors: ['device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "vfio"']}
  fabrics: [{id: 1, devices: {A100 40G: 2}}]
  nodes: [{count: 1, fabric: 1}]
parts: {scaler: false}
steps:
  - {at: 20s, run: {name: first, devices: {gpu: 1}, delete_after: 20s}}
  - {at: 50s, run: {name: machine, devices: {vfio: 1}, delete_after: 30m}}
"""


def test_the_machines_device_stays_and_goes_back_when_the_machine_ends() -> None:
    scenario = parse(PASSED_THROUGH, "it")
    with running(scenario, policy_for("first_attach")) as run:
        run.lab.run(25 * 60)
        assert run.lab.fabric.passed_through and len(run.attached()) == 1
        assert not run.events(e.Alerted) and not run.events(e.VictimMarked)
        run.lab.run(15 * 60)
    run.sound()
    assert set(run.outcomes.ran) == {"first", "machine"}
    assert run.attached() == {} and run.judge.findings == []


@pytest.mark.parametrize("begins", [60.0, 300.0])
def test_a_scaler_that_begins_on_an_empty_log_meanwhile_takes_nothing_from_the_machine(begins: float) -> None:
    """It never saw the device's own entry."""
    scenario = parse(PASSED_THROUGH, "it")
    with running(scenario, policy_for("first_attach")) as run:
        run.lab.run(begins)
        assert run.lab.fabric.passed_through
        run.ours.kill()
        fresh = OurScaler(run.lab, new_log(scenario), run.policy)
        fresh.start()
        run.lab.run(25 * 60 - begins)
        assert run.lab.fabric.passed_through and len(run.attached()) == 1
        fresh.kill()
    assert run.judge.of("detached in use") == []


MONITOR = """
  - at: 51s
    apply: {apiVersion: v1, kind: Namespace, metadata: {name: watch, labels: {resource.kubernetes.io/admin-access: "true"}}}
  - at: 52s
    apply:
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: all, namespace: watch}
      spec: {devices: {requests: [{name: all, exactly: {deviceClassName: any, adminAccess: true, allocationMode: All}}]}}
  - at: 52s
    apply:
      apiVersion: v1
      kind: Pod
      metadata: {name: monitor, namespace: watch}
      spec:
        containers: [{name: c, image: pause, resources: {claims: [{name: all}]}}]
        resourceClaims: [{name: all, resourceClaimName: all}]
"""


def test_who_only_looks_at_both_forms_changes_none() -> None:
    """In the lab a monitor had hidden the device, for ever where it came to another node."""
    written = PASSED_THROUGH.replace(
        "  classes:", "  classes:\n    - {name: any, selectors: ['device.driver == \"gpu.nvidia.com\"']}"
    )
    scenario = parse(written[: written.index("  - {at: 50s")] + MONITOR, "it")
    with running(scenario, policy_for("first_attach")) as run:
        run.lab.run(65)
        assert "monitor" in run.outcomes.ran
        names = {
            one["name"]
            for each in run.lab.client("admin").list("resourceslices")
            if each["spec"].get("nodeName")
            for one in each["spec"]["devices"]
        }
        assert names == {"gpu-0", "gpu-vfio-0"} and not run.lab.fabric.passed_through
