"""A cluster that a lab joins: our own server in a process of its own, with scheduler, controllers and foreign objects."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from dds_adapters.kubernetes.cluster import Cluster, path_of
from dds_lab.joined.marks import LABEL
from dds_lab.joined.remote import RemoteServer
from tests.support.commands import PROGRAM, environment

RENEWED = (("kube-system", "leases"), ("composable-dra", "leases"))
"""Namespaces and kinds of what processes renew."""

HOST = """
cluster: {config: false, users: [{name: guest}]}
parts: {operator: false, vendor: false, publisher: false, kubelet: false, scaler: false}
"""

QUICK = """
about: One pod gets a device within seconds
seed: 5
duration: 60s
cluster:
  models: [{model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}]
  fabrics: [{id: 1, devices: {A100 40G: 4}}]
  nodes: [{count: 2, fabric: 1, name: lab}]
parts:
  operator: {kind: ideal}
  fabric: {attach: 300ms, detach: 300ms}
  vendor: {start: 10ms}
  publisher: {interval: 0s}
  scaler: {interval: 1s, removal: 1h}
"""
STEPS = "steps: [{at: 500ms, run: {name: train-1, devices: {nvidia-a100-40: 1}}}]\n"


class Host:
    """The cluster, as somebody sees it who has its kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.cluster = Cluster(str(kubeconfig), "admin")

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        sent = None if body is None else json.dumps(body).encode()
        answer = self.cluster.ask(method, path, body=sent, content_type=kind)
        with suppress(ValueError):  # a server whose definitions are new may answer with plain text
            return answer.code, json.loads(answer.body)
        return answer.code, answer.body

    def objects(self, *, marked: bool) -> dict[str, Any]:
        """Every object that there is, with the lab's label or without it, by its path. Events come and go by themselves, and so
        do what the API server and dds renew, and what each namespace and each Service is given."""
        found = {}
        server = RemoteServer(self.cluster, lambda call: None, print)
        for one in server.registry.resources():
            if "list" not in one.verbs or one.plural in ("events", "endpoints", "endpointslices"):
                continue
            path = path_of(one.plural, one.api_version)
            code, answer = self.ask("GET", path)
            if code in (404, 429):  # its definition comes or goes
                continue
            assert code == 200, (path, answer)
            for obj in answer["items"]:
                metadata = obj["metadata"]
                if (metadata.get("namespace"), one.plural) in RENEWED or metadata["name"] == "kube-root-ca.crt":
                    continue
                if (LABEL in (metadata.get("labels") or {})) == marked:
                    found[f"{path} {metadata.get('namespace', '')}/{metadata['name']}"] = obj
        return found

    def pod(self, name: str) -> Any:
        code, found = self.ask("GET", f"/api/v1/namespaces/default/pods/{name}")
        return found if code == 200 else None


def others(host: Host, number: int) -> None:
    """Nodes, pods that run on them, claims and slices of somebody else."""
    for at in range(number):
        name = f"other-{at:04}"
        status = {"capacity": {"cpu": "8", "pods": "9"}, "allocatable": {"cpu": "8", "pods": "9"}}
        ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
        node = {"metadata": {"name": name}, "status": {**status, "conditions": ready}}
        inside = {"containers": [{"name": "c", "image": "i"}], "tolerations": [{"operator": "Exists"}]}
        pod = {"metadata": {"name": name}, "spec": {"nodeName": name, **inside}}
        requests = [{"name": "r", "exactly": {"deviceClassName": "nic"}}]
        claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "nic.example.com", "pool": pool, "nodeName": name, "devices": [{"name": "nic-0"}]}
        for path, obj in (
            ("/api/v1/nodes", node),
            ("/api/v1/namespaces/default/pods", pod),
            ("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", claim),
            ("/apis/resource.k8s.io/v1/resourceslices", {"metadata": {"name": name}, "spec": spec}),
        ):
            code, answer = host.ask("POST", path, obj)
            assert code == 201, answer


@contextmanager
def hosted(folder: Path, scenario: str = HOST, number: int = 0) -> Iterator[Host]:
    """The cluster in a process of its own, with `number` foreign objects of each kind, until the block ends."""
    (folder / "host.yaml").write_text(scenario)
    target = folder / "host.kubeconfig"
    with program("lab", "up", str(folder / "host.yaml"), "--kubeconfig", str(target)) as up:
        up.until("contexts:")
        host = Host(target)
        with closing(host.cluster):
            others(host, number)
            patient(lambda: all(not one["spec"].get("taints") for one in host.ask("GET", "/api/v1/nodes")[1]["items"]))
            yield host


class Running:
    """A program, and what it has said so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = [
            threading.Thread(target=self._read, args=(pipe,), daemon=True) for pipe in (process.stdout, process.stderr)
        ]
        for one in self._reading:
            one.start()

    def _read(self, pipe: Any) -> None:
        self.lines += iter(pipe.readline, "")

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def until(self, words: str, seconds: float = 60.0) -> None:
        """Wait until it says so."""
        patient(lambda: words in self.text or self.process.poll() is not None, seconds, lambda: self.text)
        assert words in self.text, self.text

    def end(self, how: int = signal.SIGINT, seconds: float = 60.0) -> int:
        """Its exit code after a signal."""
        self.process.send_signal(how)
        self.process.wait(seconds)
        for one in self._reading:
            one.join(5)
        return self.process.returncode


@contextmanager
def program(*args: str, env: Mapping[str, str] | None = None) -> Iterator[Running]:
    """`dds` as a process, killed at the end if it still runs."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([str(PROGRAM), *args], stdout=pipe, stderr=pipe, text=True, env=environment(env))
    running = Running(process)
    try:
        yield running
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(20)
        for file in (process.stdout, process.stderr):
            if file is not None:
                file.close()


def patient(what: Callable[[], object], seconds: float = 60.0, words: Callable[[], object] = str) -> None:
    """Wait until a call gives something true."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, f"not within {seconds:g} s: {words()}"
        time.sleep(0.05)
