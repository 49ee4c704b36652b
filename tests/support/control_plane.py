"""A real Kubernetes control plane on loopback, from a folder of binaries (docs/testing.md says how to get them).

with running(assets, folder) as plane:
    plane.install("base")                                  # what deploy/kustomize/base installs, without the Deployment
    plane.kubeconfig_of("composable-dra", "dds")           # with a token of that ServiceAccount
    plane.kill("kube-apiserver"); plane.start("kube-apiserver")
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from dds_adapters.kubernetes.cluster import Unreachable, path_of
from tests.support.certificates import Authority
from tests.support.commands import REPOSITORY
from tests.support.joined import Host, patient

VARIABLES = ("KUBE_ASSETS", "KUBEBUILDER_ASSETS")
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""In the order in which they start."""
USERS = {
    "admin": "system:masters",
    "guest": "",
    "system:kube-scheduler": "",
    "system:kube-controller-manager": "",
}
"""Users with a static token, and their groups. The API server gives the last two the roles of a cluster."""


def assets() -> Path | str:
    """The folder of binaries, or what is missing."""
    needs = f"a folder with {', '.join(PARTS)}, named by {' or '.join(VARIABLES)} (docs/testing.md)"
    folder = next((os.environ[name] for name in VARIABLES if os.environ.get(name)), "")
    if not folder:
        return f"make e2e needs {needs}"
    missing = [one for one in PARTS if shutil.which(one, path=folder) is None]
    return f"{folder} has no {', '.join(missing)}; make e2e needs {needs}" if missing else Path(folder)


class ControlPlane:
    """`host` is the cluster as its administrator sees it."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.folder = folder
        self._binaries = binaries
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = dict(zip(("peer", *PARTS), _free_ports(1 + len(PARTS)), strict=True))
        self._authority = Authority.made("a control plane")
        certificate, key = self._authority.issued()
        signing = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        form = serialization.PrivateFormat.PKCS8
        files = {
            "ca.crt": self._authority.pem.encode(),
            "server.crt": certificate,
            "server.key": key,
            "accounts.key": signing.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()),
            "tokens.csv": "".join(f'{self._token(one)},{one},{one},"{USERS[one]}"\n' for one in USERS).encode(),
        }
        for name, content in files.items():
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o600)
        for user in ("system:kube-scheduler", "system:kube-controller-manager"):
            self._write_kubeconfig(user.removeprefix("system:"), {user: self._token(user)})
        self.kubeconfig = self._write_kubeconfig("admin", {one: self._token(one) for one in ("admin", "guest")})
        (folder / "scheduler.yaml").write_text(yaml.safe_dump(self._scheduler()))
        self.host = Host(self.kubeconfig)

    def _token(self, user: str) -> str:
        return f"token-of-{user.rpartition(':')[2]}"

    def _write_kubeconfig(self, name: str, tokens: dict[str, str]) -> Path:
        """The first user is the current one; each has a context of the user's name."""
        cluster = {"server": f"https://127.0.0.1:{self._ports['kube-apiserver']}"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": next(iter(tokens)),
            "clusters": [{"name": "c", "cluster": cluster | {"certificate-authority": str(self.folder / "ca.crt")}}],
            "users": [{"name": user, "user": {"token": token}} for user, token in tokens.items()],
            "contexts": [{"name": user, "context": {"cluster": "c", "user": user}} for user in tokens],
        }
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def _scheduler(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.folder / "kube-scheduler.kubeconfig")},
            "leaderElection": {"leaderElect": False},
        }

    def _options(self, part: str) -> dict[str, object]:
        folder, etcd = self.folder, f"http://127.0.0.1:{self._ports['etcd']}"
        served = {"bind-address": "127.0.0.1", "secure-port": self._ports[part]}
        served |= {"tls-cert-file": folder / "server.crt", "tls-private-key-file": folder / "server.key"}
        match part:
            case "etcd":
                peer = f"http://127.0.0.1:{self._ports['peer']}"
                urls = {"listen-client-urls": etcd, "advertise-client-urls": etcd, "listen-peer-urls": peer}
                return {"data-dir": folder / "etcd", **urls}
            case "kube-apiserver":
                return served | {
                    "advertise-address": "127.0.0.1",
                    "etcd-servers": etcd,
                    "cert-dir": folder,
                    "client-ca-file": folder / "ca.crt",
                    "token-auth-file": folder / "tokens.csv",
                    "authorization-mode": "Node,RBAC",
                    "service-cluster-ip-range": "10.96.0.0/24",
                    "service-account-issuer": "https://kubernetes.default.svc",
                    "service-account-key-file": folder / "accounts.key",
                    "service-account-signing-key-file": folder / "accounts.key",
                }
            case "kube-controller-manager":
                return served | {
                    "kubeconfig": folder / "kube-controller-manager.kubeconfig",
                    "leader-elect": "false",
                    "use-service-account-credentials": "true",
                    "service-account-private-key-file": folder / "accounts.key",
                    "root-ca-file": folder / "ca.crt",
                }
            case _:
                return served | {"config": folder / "scheduler.yaml"}

    # -- processes

    def start(self, part: str, **more: str) -> None:
        """Start a part, with `more` options; comes back when it is ready."""
        told = {**self._options(part), **{name.replace("_", "-"): value for name, value in more.items()}}
        options = [f"--{name}={value}" for name, value in told.items()]
        with (self.folder / f"{part}.log").open("ab") as log:
            program = str(self._binaries / part)
            process = subprocess.Popen([program, *options], stdout=log, stderr=log, start_new_session=True)
        self._processes[part] = process
        patient(lambda: self._ready(part) or process.poll() is not None, 120.0, lambda: f"{part}: {self.said(part)}")
        assert process.poll() is None, f"{part} ended: {self.said(part)}"

    def _ready(self, part: str) -> bool:
        if part == "etcd":
            return _answers(f"http://127.0.0.1:{self._ports[part]}/health")
        if part == "kube-apiserver":
            with suppress(Unreachable):
                return self.host.cluster.ask("GET", "/readyz", timeout=5.0).code == 200
            return False
        return _answers(f"https://127.0.0.1:{self._ports[part]}/healthz")

    def kill(self, part: str) -> None:
        """As `kill -9` does."""
        process = self._processes.pop(part)
        process.kill()
        process.wait()

    def program(self, name: str) -> str | None:
        """The path of a binary that not everybody has."""
        return shutil.which(name, path=self._binaries)

    def said(self, part: str) -> str:
        """The end of a part's log."""
        return (self.folder / f"{part}.log").read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        for part in reversed(list(self._processes)):
            self.kill(part)
        self.host.cluster.close()

    # -- objects

    def apply(self, obj: dict[str, Any]) -> None:
        """Server-side apply."""
        plural = re.sub("y$", "ie", obj["kind"].lower()) + "s"
        metadata = obj["metadata"]
        path = path_of(plural, obj["apiVersion"], metadata.get("namespace", ""), metadata["name"])
        answer = self.host.cluster.ask(
            "PATCH", path, query={"fieldManager": "e2e", "force": "true"}, body=json.dumps(obj).encode(),
            content_type="application/apply-patch+yaml",
        )  # fmt: skip
        assert answer.code in (200, 201), (path, answer)

    def install(self, name: str) -> None:
        """What deploy/kustomize/NAME installs, but for the Deployment: roles, admission policies, the guard, priority."""
        folder = REPOSITORY / "deploy" / "kustomize" / name
        for file in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
            for obj in yaml.safe_load_all((folder / file).read_text()):
                if obj["kind"] not in ("Deployment", "ServiceMonitor"):
                    self.apply(obj)

    def kubeconfig_of(self, namespace: str, account: str) -> Path:
        """A kubeconfig of a ServiceAccount, with a token for two hours."""
        asked = {"spec": {"expirationSeconds": 7200}}
        code, answer = self.host.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", asked)
        assert code == 201, answer
        return self._write_kubeconfig(account, {account: answer["status"]["token"]})

    def version(self) -> str:
        """The server's gitVersion."""
        return str(self.host.ask("GET", "/version")[1]["gitVersion"])


@contextmanager
def running(binaries: Path, folder: Path) -> Iterator[ControlPlane]:
    """A control plane whose default ServiceAccounts are there; everything ends with the block."""
    plane = ControlPlane(binaries, folder)
    try:
        for part in PARTS:
            plane.start(part)
        plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "composable-dra"}})
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        patient(lambda: plane.host.ask("GET", account)[0] == 200)
        yield plane
    finally:
        plane.stop()


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _answers(url: str) -> bool:
    context = ssl._create_unverified_context()
    with suppress(OSError), urllib.request.urlopen(url, timeout=5, context=context) as answer:
        return bool(answer.status == 200)
    return False
