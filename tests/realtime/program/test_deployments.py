"""The programs with the very arguments of their Deployments, as the Deployments' accounts, beside a lab over HTTPS: they start,
answer the probes, show their metrics to whom they should, and end in time when they are told to."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dds_adapters.autoscaler.server import TlsFiles
from dds_adapters.kubernetes import rbac
from dds_lab.api.requests import User
from dds_lab.scenario.cluster import User as Named
from tests.adapters.autoscaler.served import write
from tests.project.deploy.admission import ACCOUNT, AUTOSCALER_ACCOUNT, PUBLISHER_ACCOUNT
from tests.project.deploy.chart import manifests, of_kind
from tests.project.deploy.permitted import GROUPS, Uses, make, objects, objects_of
from tests.support.certificates import Authority
from tests.support.commands import PROGRAM, environment
from tests.support.live_lab import LiveLab, eventually, without_scaler
from tests.support.ours import told_to_us

SCRAPER = "the-scrapers-token"
SHORT_LEASE = ("--lease-duration=3", "--lease-renew-deadline=2", "--lease-retry-period=0.5")
UNCHECKED = ssl._create_unverified_context()


GRACE = 40
MACHINES = "machines: {kind: inventory, servers: servers.yaml, requests: requests.yaml}"
PORTS = {
    "--health-probe-bind-address=:8081": "--health-probe-bind-address=127.0.0.1:0",
    "--metrics-bind-address=:8080": "--metrics-bind-address=127.0.0.1:0",
}


def _container(file: str, folder: str) -> dict[str, Any]:
    (found,) = objects(file, folder=folder)
    pod = found["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == GRACE
    (container,) = pod["containers"]
    return dict(container)


def _changed(arguments: list[str], here: dict[str, str]) -> list[str]:
    """The container's arguments, with its folders and ports as they are on this machine."""
    changed = list(arguments)
    for place, mine in here.items():
        (index,) = [number for number, arg in enumerate(changed) if arg.startswith(place)]
        changed[index] = mine + changed[index].removeprefix(place)
    return changed


@contextmanager
def _lab(folder: Path, uses: Uses, account: str, made: list[dict[str, Any]]) -> Iterator[LiveLab]:
    scenario = without_scaler(told_to_us("first_attach"))
    users = (*scenario.cluster.users, Named(name=account, groups=GROUPS))
    scenario = scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update={"users": users})})
    with LiveLab(scenario, folder, tls=True) as lab:
        lab.call(lambda lab: make(lab.client("admin"), made))
        lab.call(lambda lab: lab.server.access.register(SCRAPER, User("prometheus", ("system:masters",))))
        lab.call(lambda lab: uses.follow(lab.server))
        yield lab


def _status(url: str, token: str = "") -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=10, context=UNCHECKED) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


class Program:
    """`dds` with these arguments; what it says goes to a file."""

    def __init__(self, folder: Path, arguments: list[str], environment: dict[str, str]) -> None:
        self._said = folder / "stderr"
        with self._said.open("wb") as errors:
            self.process = subprocess.Popen([str(PROGRAM), *arguments], env=environment, stderr=errors)

    def lines(self) -> list[dict[str, Any]]:
        """What it said so far; the last line may be half written."""
        whole = self._said.read_text(encoding="utf-8").rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def served(self, what: str) -> str:
        """Where health or metrics are to be had."""

        def found() -> str:
            assert self.process.poll() is None, self.lines()
            words = f"{what} served on "
            return next((line["msg"].removeprefix(words) for line in self.lines() if line["msg"].startswith(words)), "")

        return eventually(found)

    def end(self) -> int:
        """As a pod is ended; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(GRACE)


@contextmanager
def _program(folder: Path, arguments: list[str], environment: dict[str, str]) -> Iterator[Program]:
    program = Program(folder, arguments, environment)
    try:
        yield program
    finally:
        program.process.kill()
        program.process.wait()


def _lives(
    folder: Path,
    account: str,
    made: list[dict[str, Any]],
    arguments: list[str],
    variables: dict[str, str],
    *,
    followed: set[str],
    once_ready: Callable[[str, dict[str, str]], None] = lambda health, environment: None,
) -> Uses:
    """A life of the program, from its start until it has watched these resources, and to its end; what it asked for. Before
    that `once_ready` is called with where health is to be had and the environment: what it asks for does not count."""
    uses = Uses(account)
    with _lab(folder, uses, account, made) as lab:
        told = {"KUBECONFIG": str(lab.kubeconfig), "DDS_CONTEXT": account, "HOME": str(folder), **variables}
        with _program(folder, [*arguments, *SHORT_LEASE], environment(told)) as program:
            health, metrics = program.served("health"), program.served("metrics")
            assert _status(f"{health}/livez")[0] == 200
            eventually(lambda: any(line.get("type") == "Synced" for line in program.lines()))
            eventually(lambda: _status(f"{health}/readyz")[0] == 200)
            eventually(lambda: followed <= {resource for _, resource, verb in uses.used if verb == "watch"})
            assert _status(f"{metrics}/metrics")[0] == 401
            code, text = _status(f"{metrics}/metrics", SCRAPER)
            assert (code, "dds_" in text) == (200, True)
            lacked, used = list(uses.lacked), set(uses.used)
            once_ready(health, environment(told))
            assert program.end() == 0
            warned = [line for line in program.lines() if line["level"] in ("warning", "error")]
            assert warned == [], "a line that needs nobody is no warning"
    assert lacked == []
    assert ("coordination.k8s.io", "leases", "create") in used
    written = {use for use in used if use[2] not in ("get", "list", "watch")}
    assert {resource for _, resource, _ in written} <= {
        "leases",
        "tokenreviews",
        "subjectaccessreviews",
        "selfsubjectreviews",
        "resourceslices",
    }  # mode observe; slices as dry runs
    return uses


def _followed(rules: Iterable[rbac.Rule]) -> set[str]:
    return {rule.resource for rule in rules if "watch" in rule.verbs}


def _policy(folder: Path, file: str, of: str) -> None:
    policy, *_ = objects(file, folder=of)
    (folder / "policy.yaml").write_text(policy["data"]["policy.yaml"], encoding="utf-8")


def test_the_deployed_scaler_starts_answers_and_ends(tmp_path: Path) -> None:
    _policy(tmp_path, "policy.yaml", "base")
    container = _container("deployment.yaml", "base")
    given = {one["name"]: str(one["value"]) for one in container["env"]}
    assert given["DDS_LOG"].startswith("sqlite:////var/lib/dds/")
    given |= {"DDS_LOG": f"sqlite:///{tmp_path}/log.sqlite3"}
    followed = _followed(rbac.RULES) - {"devicetaintrules"}  # not served there

    def helm_test(health: str, environment: dict[str, str]) -> None:
        """What the pod of `helm test` runs: it is content, and not if nobody is ready or the doctor finds an error."""
        (pod,) = of_kind(manifests(namespace="composable-dra", tests=True), "Pod")
        ready, doctor = pod["spec"]["containers"]
        *script, page = ready["command"]
        asked = [sys.executable, *script[1:-1], script[-1].replace("range(30)", "range(1)")]
        for path, code in (("readyz?verbose", 0), ("readyz/nothing", 1)):
            url = f"{health}/{path}"
            done = subprocess.run([*asked, url], capture_output=True, text=True, timeout=30, check=False)
            assert (done.returncode, "404" in done.stdout) == (code, bool(code)), done
        assert page == "http://dds-test.composable-dra.svc:8081/readyz?verbose"
        *args, policy = doctor["args"]
        for names, code in (({}, 0), ({"DDS_NAMESPACE": "elsewhere"}, 1)):
            command = [str(PROGRAM), *args, policy.replace("/etc/dds", str(tmp_path))]
            done = subprocess.run(
                command, env=environment | names, capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == code, done

    arguments = _changed(container["args"], {"--policy=/etc/dds/": f"--policy={tmp_path}/", **PORTS})
    uses = _lives(tmp_path, ACCOUNT, objects_of(), arguments, given, followed=followed, once_ready=helm_test)
    assert "resourceslices" not in {resource for _, resource, verb in uses.used if verb == "create"}


def test_the_deployed_publisher_starts_answers_and_ends(tmp_path: Path) -> None:
    _policy(tmp_path, "publisher.yaml", "publisher")
    inventory = objects("publisher.yaml", folder="publisher")[1]["data"]["inventory.yaml"]
    (tmp_path / "inventory.yaml").write_text(inventory, encoding="utf-8")
    container = _container("publisher-deployment.yaml", "publisher")
    arguments = _changed(container["args"], {"--policy=/etc/dds-publish/": f"--policy={tmp_path}/", **PORTS})
    given = {one["name"]: str(one["value"]) for one in container["env"]}
    here = {"DDS_LOG": f"sqlite:///{tmp_path}/log.sqlite3", "DDS_INVENTORY": f"{tmp_path}/inventory.yaml"}
    assert here.keys() <= given.keys()
    made, followed = objects_of("publisher"), _followed(rbac.PUBLISHER_RULES) - {"baremetalhosts"}
    uses = _lives(tmp_path, PUBLISHER_ACCOUNT, made, arguments, given | here, followed=followed)
    assert {resource for _, resource, verb in uses.used if verb == "watch"} == followed
    assert ("", "namespaces", "get") in uses.used
    assert {verb for _, resource, verb in uses.used if resource == "leases"} == {"create", "get", "update"}


def test_the_deployed_autoscaler_starts_answers_and_ends(tmp_path: Path) -> None:
    """With an inventory in place of cluster-api, which is not there."""
    _policy(tmp_path, "autoscaler.yaml", "autoscaler")
    for name, text in (("machines", MACHINES), ("servers", "servers: []"), ("requests", "{}")):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    ca = Authority.made()
    write(TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt"), ca.issued(), ca)
    container = _container("autoscaler-deployment.yaml", "autoscaler")
    files = {
        f"--grpc-{one}-file=/etc/dds-grpc/": f"--grpc-{one}-file={tmp_path}/" for one in ("cert", "key", "client-ca")
    }
    address = {"--grpc-bind-address=:8086": "--grpc-bind-address=127.0.0.1:0"}
    policy = {"--policy=/etc/dds-autoscale/": f"--policy={tmp_path}/"}
    arguments = _changed(container["args"], files | address | policy | PORTS)
    given = {one["name"]: str(one["value"]) for one in container["env"]}
    here = {"DDS_LOG": f"sqlite:///{tmp_path}/log.sqlite3", "DDS_MACHINES": f"{tmp_path}/machines.yaml"}
    assert here.keys() <= given.keys()
    made, followed = objects_of("autoscaler"), _followed(rbac.AUTOSCALER_RULES) - {"devicetaintrules"}
    _lives(tmp_path, AUTOSCALER_ACCOUNT, made, arguments, given | here, followed=followed)


def test_both_in_one_deployed_process_start_answer_and_end(tmp_path: Path) -> None:
    told = {"publisher": {"enabled": True, "inProcess": True, "fabric": {"api": "file"}}}
    made = manifests(told, namespace="composable-dra")
    files = {
        key: text
        for one in of_kind(made, "ConfigMap")
        for key, text in one.get("data", {}).items()
        if key != "policy.yaml"
    }
    (tmp_path / "policy.yaml").write_text("mode: observe\n", encoding="utf-8")
    (tmp_path / "inventory.yaml").write_text(files["inventory.yaml"], encoding="utf-8")
    (deployment,) = of_kind(made, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    places = {"--policy=/etc/dds/": f"--policy={tmp_path}/"}
    given = {one["name"]: str(one["value"]) for one in container["env"]}
    here = {"DDS_PUBLISH_POLICY": f"{tmp_path}/policy.yaml", "DDS_INVENTORY": f"{tmp_path}/inventory.yaml"}
    here |= {"DDS_LOG": f"sqlite:///{tmp_path}/log.sqlite3"}
    assert here.keys() <= given.keys()
    kept = {name: given[name] for name in ("DDS_FABRIC",)}
    followed = _followed((*rbac.RULES, *rbac.PUBLISHER_RULES)) - {"devicetaintrules", "baremetalhosts"}
    _lives(tmp_path, ACCOUNT, made, _changed(container["args"], places | PORTS), kept | here, followed=followed)
