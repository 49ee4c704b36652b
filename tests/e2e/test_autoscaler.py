"""The four cases of docs/autoscaler.md with a real Cluster Autoscaler, which asks `dds autoscale` for servers of an inventory.

Who looks after the inventory is this test: it powers servers on, as their Nodes, and off.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from dds_core.autoscaler.policy import AutoscalePolicy, read_autoscale_policy
from dds_core.autoscaler.records import STARTING
from dds_lab.scenario import Scenario
from dds_lab.scenario.reading import parse
from tests.e2e.playing import Play
from tests.e2e.test_scenarios import tell
from tests.support.control_plane import ControlPlane
from tests.support.expected_ends import end
from tests.support.joined import patient
from tests.support.serve_program import Program

NAME = "cluster-autoscaler"
CAPACITY = {"cpu": "16", "memory": "64Gi", "pods": "110"}
FRESH = "fresh-0"
PODS = "/api/v1/namespaces/default/pods"
RESOURCES = "/apis/cro.hpsys.ibm.ie.com/v1alpha1/composableresources"
SOON = (
    "--scan-interval=2s", "--scale-down-unneeded-time=30s", "--scale-down-delay-after-add=1s", "--node-info-cache-expire-time=1s",
    "--leader-elect=false", "--write-status-configmap=false", "--address=127.0.0.1:0",
)  # fmt: skip
SCENARIO = """
about: Two pods, each with a device and a node for itself
cluster:
  models: [{{model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}}]
  fabrics: [{{id: 1, devices: {{A100 40G: 4}}}}]
  nodes: [{{count: 2, fabric: 1, cpu: 8}}]
parts:
  fabric: {{attach: 1s, detach: 500ms}}
  vendor: {{start: 10ms}}
  scaler: {{interval: 5s, removal: 15s, allocation: 5s}}
steps:
{steps}
"""


def scenario(pods: int) -> Scenario:
    """`pods` that come after 15 s and run for 20 s."""
    run = "{{name: p{at}, cpu: 5, devices: {{nvidia-a100-40: 1}}, lasts: 20s}}"
    steps = "\n".join(f"  - {{at: 15s, run: {run.format(at=at)}}}" for at in range(pods))
    return parse(SCENARIO.format(steps=steps), "servers")


class Site(Play):
    """The lab joined with its steps, the scaler, and the provider of servers; the lab's nodes are servers of the group."""

    def command(self, path: Path) -> tuple[str, ...]:
        where = ("--kubeconfig", str(self.plane.kubeconfig), "--record", str(self._recording))
        return ("lab", "join", str(path), *where)

    def begin(self, **labels: str) -> Program:
        """`labels`: those of a fresh server; a node without them is not of the group."""
        self.servers = {
            name: {"id": name, "group": "big", "providerID": one["spec"]["providerID"], "state": "running"}
            for name, one in self.nodes().items()
        }
        self.is_now(FRESH, "stopped")
        (self.folder / "machines.yaml").write_text(
            "machines: {kind: inventory, servers: servers.yaml, requests: requests.yaml}"
        )
        (self.folder / "requests.yaml").write_text("{}")
        template = {"capacity": CAPACITY, "labels": labels}
        group = {"name": "big", "maximum": 3, "template": template}
        policy: AutoscalePolicy = read_autoscale_policy({"mode": "autoscale", "groups": [group]})
        self.serve(self.log(""))
        options = ("--machines", str(self.folder / "machines.yaml"), "--machines-interval", "1")
        return self.serve(
            self.log("", "lab/autoscaler"), *options, "--grpc-bind-address", "127.0.0.1:0", policy=policy, command="autoscale"
        )  # fmt: skip

    def nodes(self) -> dict[str, Any]:
        return {one["metadata"]["name"]: one for one in self.plane.host.ask("GET", "/api/v1/nodes")[1]["items"]}

    def asked(self) -> dict[str, str]:
        """What the inventory's person is asked for: a server's id, and the state that it should have."""
        found = yaml.safe_load((self.folder / "requests.yaml").read_text())
        return dict(found.get("servers") or {})

    def is_now(self, name: str, state: str) -> None:
        known = self.servers.get(name, {"id": name, "group": "big", "providerID": f"metal://{name}"})
        self.servers[name] = known | {"state": state}
        fresh = self.folder / "servers.new"
        fresh.write_text(yaml.safe_dump({"servers": list(self.servers.values())}))
        fresh.rename(self.folder / "servers.yaml")

    def power_on(self, name: str) -> None:
        taint = {"key": STARTING.key, "effect": STARTING.effect}
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        node = {
            "metadata": {"name": name, "labels": {"pool": "yes"}},
            "spec": {"providerID": f"metal://{name}", "taints": [taint]},
            "status": {"capacity": CAPACITY, "allocatable": CAPACITY, "conditions": [ready]},
        }
        code, answer = self.plane.host.ask("POST", "/api/v1/nodes", node)
        assert code == 201, answer
        self.is_now(name, "running")

    def pod(self, name: str, annotations: dict[str, str], **spec: Any) -> None:
        """A pod of nobody."""
        box = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "4"}}}
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": [box], **spec}}
        code, answer = self.plane.host.ask("POST", PODS, body)
        assert code == 201, answer

    def node_of(self, pod: str) -> str:
        return str((self.plane.host.pod(pod) or {}).get("spec", {}).get("nodeName", ""))

    def devices(self) -> set[str]:
        """Nodes with attached devices."""
        return {one["spec"]["target_node"] for one in self.plane.host.ask("GET", RESOURCES)[1]["items"]}


@pytest.fixture(autouse=True)
def binary(plane: ControlPlane) -> None:
    if plane.program(NAME) is None:
        pytest.skip(f"the folder of binaries has no {NAME}")
    plane.install("autoscaler")


@contextmanager
def cluster_autoscaler(plane: ControlPlane, folder: Path, provider: Program) -> Iterator[None]:
    config = folder / "provider.yaml"
    config.write_text(f"address: {provider.address('gRPC').partition(',')[0]}\n")
    options = (f"--kubeconfig={plane.kubeconfig}", "--cloud-provider=externalgrpc", f"--cloud-config={config}", *SOON)
    with (folder / f"{NAME}.log").open("wb") as log:
        process = subprocess.Popen([str(plane.program(NAME)), *options], stdout=log, stderr=log)
        try:
            yield
            assert process.poll() is None, (folder / f"{NAME}.log").read_text()[-2000:]
        finally:
            process.kill()
            process.wait()


def test_a_device_where_one_will_do_and_a_server_where_one_is_needed(
    plane: ControlPlane, tmp_path: Path, record_property: Any
) -> None:
    """The first two cases: for a pod that gets a device no server is asked, and for one that no node has room for one is."""
    with Site(plane, scenario(1), tmp_path) as it, cluster_autoscaler(plane, tmp_path, it.begin(pool="yes")):
        patient(lambda: it.node_of("p0"), 120.0)
        assert it.asked() == {}
        it.pod("large", {}, nodeSelector={"pool": "yes"})
        patient(lambda: it.asked() == {FRESH: "running"}, 120.0, lambda: it.asked())
        it.power_on(FRESH)
        patient(lambda: it.node_of("large") == FRESH, 120.0, lambda: it.plane.host.pod("large"))
        for path in (f"{PODS}/large?gracePeriodSeconds=0", f"/api/v1/nodes/{FRESH}"):
            it.plane.host.ask("DELETE", path)
        it.to_the_end(signal.SIGINT)
    it.held(end("p0", attaches=(1, 1)))
    tell(it.seen, record_property)


def test_devices_leave_before_their_server_and_also_one_that_stays(
    plane: ControlPlane, tmp_path: Path, record_property: Any
) -> None:
    """The last two cases: a node goes once its idle device has gone. Of another, which Cluster Autoscaler may not remove, the
    device goes all the same."""
    with Site(plane, scenario(2), tmp_path) as it, cluster_autoscaler(plane, tmp_path, it.begin()):
        patient(lambda: it.node_of("p0") and it.node_of("p1"), 120.0)
        goes, stays = it.node_of("p0"), it.node_of("p1")
        it.pod(
            "blocker", {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
            nodeName=stays, tolerations=[{"operator": "Exists"}],
        )  # fmt: skip
        patient(lambda: goes in it.asked(), 240.0, lambda: (it.asked(), it.devices()))
        assert it.asked()[goes] == "stopped" and goes not in it.devices()
        it.is_now(goes, "stopped")
        patient(lambda: goes not in it.nodes(), 60.0)
        patient(lambda: not it.devices(), 60.0)
        assert stays in it.nodes() and stays not in it.asked()
        it.plane.host.ask("DELETE", f"{PODS}/blocker?gracePeriodSeconds=0")
        it.to_the_end(signal.SIGINT)
    it.held(end("p0", "p1", attaches=(2, 2)))
    tell(it.seen, record_property)
