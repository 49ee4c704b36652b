"""A lab in somebody else's cluster, over HTTP: what it makes, what it leaves alone, and that nothing stays, however it ends."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import ssl
import subprocess
import time
from pathlib import Path

import httpx
import pytest
import yaml

from dds_adapters.kubernetes.recording import read_recording
from dds_lab.actors.operator.names import API_VERSION
from dds_lab.joined.marks import LABEL, LEASES
from tests.support.commands import REPOSITORY, one_line
from tests.support.commands import program as done
from tests.support.http_server import Said, http_server
from tests.support.joined import HOST, QUICK, STEPS, Host, hosted, patient, program


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    """A scenario in which a pod gets a device soon."""
    path = tmp_path / "quick.yaml"
    path.write_text(QUICK + STEPS)
    return str(path)


def joining(host: Host, scenario: str, *more: str) -> tuple[str, ...]:
    return ("lab", "join", scenario, "--kubeconfig", str(host.kubeconfig), *more)


def leaving(host: Host) -> tuple[str, ...]:
    return ("lab", "leave", "--kubeconfig", str(host.kubeconfig))


def runs(host: Host, name: str = "train-1") -> bool:
    found = host.pod(name)
    return found is not None and found["status"].get("phase") == "Running"


@pytest.mark.smoke
@pytest.mark.parametrize("number", [20, pytest.param(1000, marks=pytest.mark.soak)])
def test_a_pod_gets_a_device_and_nothing_else_is_touched(tmp_path: Path, scenario: str, number: int) -> None:
    recording = tmp_path / "rec.jsonl.gz"
    with hosted(tmp_path, number=number) as host:
        before = host.objects(marked=False)
        assert sum("other-" in one for one in before) == 4 * number
        with program(*joining(host, scenario, "--scaler", "--record", str(recording))) as lab:
            lab.until("has joined")
            assert "Node: lab0000, lab0001" in lab.text.partition("has joined")[0]
            patient(lambda: runs(host))
            pod = host.pod("train-1")
            assert pod["spec"]["nodeName"] in ("lab0000", "lab0001")
            assert pod["metadata"]["labels"] == {LABEL: "quick"}
            made = host.objects(marked=True)
            nodes = [one for path, one in made.items() if path.startswith("/api/v1/nodes ")]
            assert {"key": LABEL, "value": "quick", "effect": "NoSchedule"} in nodes[0]["spec"]["taints"]
            assert f"/apis/coordination.k8s.io/v1/leases {LEASES}/lab0000" in made
            assert lab.end() == 0, lab.text
        assert "the judge found nothing" in lab.text
        assert host.objects(marked=True) == {}
        assert host.objects(marked=False) == before
    kinds = {one.resource for one in read_recording(recording)}
    assert {"nodes", "pods", "resourceclaims", "resourceslices"} <= kinds


@pytest.mark.timeout(900)
def test_what_a_killed_lab_has_left_is_removed_by_the_next_call(tmp_path: Path, scenario: str) -> None:
    """Killed while it joins, plays and leaves."""
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    with hosted(tmp_path, number=5) as host:
        before = host.objects(marked=False)
        for number in range(10):
            with program(*joining(host, scenario, "--scaler")) as lab:
                if number % 3 == 0:  # while it makes its first objects
                    lab.until("joins")
                    time.sleep(draw.uniform(0.0, 0.5))
                else:
                    lab.until("has joined")
                    time.sleep(draw.uniform(0.0, 4.0))
                if number % 3 == 2:  # while it leaves
                    lab.process.send_signal(signal.SIGINT)
                    time.sleep(draw.uniform(0.0, 0.5))
                lab.end(signal.SIGKILL)
            if number % 2:
                found = done(*leaving(host))
                assert found.returncode == 0, (seed, number, found.stderr)
            else:
                with program(*joining(host, scenario, "--scaler")) as again:
                    again.until("has joined")
                    assert again.end() == 0, (seed, number, again.text)
            assert host.objects(marked=True) == {}, (seed, number)
            assert host.objects(marked=False) == before, (seed, number)


def test_only_one_lab_joins_a_cluster_and_leave_ends_it(tmp_path: Path, scenario: str) -> None:
    with hosted(tmp_path) as host, program(*joining(host, scenario, "--without", "steps", "--keep")) as lab:
        lab.until("has joined")
        assert f"/{lab.process.pid})" in one_line(done(*joining(host, scenario)), 1)
        found = done(*leaving(host))
        assert found.returncode == 0, found.stderr
        assert "ending the lab" in found.stderr
        lab.process.wait(30)
        lab.until("ended early")
        assert host.objects(marked=True) == {}


def test_objects_are_kept_on_demand_until_the_lab_leaves(tmp_path: Path, scenario: str) -> None:
    with hosted(tmp_path) as host:
        before = host.objects(marked=False)
        with program(*joining(host, scenario, "--scaler", "--keep")) as lab:
            patient(lambda: runs(host))
            assert lab.end() == 0
        assert runs(host)
        kind = f"/apis/{API_VERSION}/composabilityrequests"
        for name in ("lab0000", "elsewhere"):  # a scaler has ordered for a node of the lab, and for another
            wanted = {"resource": {"model": "A100 40G", "size": 1, "type": "gpu", "target_node": name}}
            obj = {
                "apiVersion": API_VERSION,
                "kind": "ComposabilityRequest",
                "metadata": {"name": name},
                "spec": wanted,
            }
            assert host.ask("POST", kind, obj)[0] == 201
        found = done(*leaving(host))
        assert found.returncode == 0
        assert "removed 2 nodes" in found.stdout
        assert [host.ask("GET", f"{kind}/{name}")[0] for name in ("lab0000", "elsewhere")] == [404, 200]
        host.ask("DELETE", f"{kind}/elsewhere")
        assert host.objects(marked=True) == {}
        assert host.objects(marked=False) == before
        assert done(*leaving(host)).stdout == "there is no lab\n"


def test_nodes_that_exist_are_lent_and_given_back_as_they_were(tmp_path: Path, scenario: str) -> None:
    with hosted(tmp_path, number=2) as host:
        _, before = host.ask("GET", "/api/v1/nodes/other-0001")
        with program(*joining(host, scenario, "--nodes", "other-0001", "--scaler")) as lab:
            patient(
                lambda: (host.pod("train-1") or {"spec": {}})["spec"].get("nodeName") == "other-0001",
                words=lambda: lab.text,
            )
            _, lent = host.ask("GET", "/api/v1/nodes/other-0001")
            assert lent["metadata"]["labels"]["cohdi.io/fabric"] == "1"
            assert "taints" not in lent["spec"]
            lab.end(signal.SIGKILL)
        assert done(*leaving(host)).returncode == 0
        _, after = host.ask("GET", "/api/v1/nodes/other-0001")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["metadata"].get("labels", {}) == before["metadata"].get("labels", {})
        assert after["metadata"].get("annotations") == before["metadata"].get("annotations")
        assert host.objects(marked=True) == {}
        assert "there is no node nowhere" in one_line(done(*joining(host, scenario, "--nodes", "nowhere")), 1)


TROUBLES = """
faults:
  wire:
    - {action: status, code: 429, wait: 1s, share: 0.05, verbs: [create, update, patch]}
    - {action: status, code: 503, share: 0.05, verbs: [update, patch]}
    - {action: cut, wait: 3s}
    - {since: 4s, until: 60s, action: expired, share: 0.3}
    - {action: slow, wait: 300ms, share: 0.1}
"""


def test_troubles_of_the_wire_are_met(tmp_path: Path, scenario: str) -> None:
    with hosted(tmp_path, HOST + TROUBLES) as host:
        with program(*joining(host, scenario, "--scaler")) as lab:
            lab.until("has joined")
            patient(lambda: runs(host), 120.0, lambda: lab.text)
            assert lab.end(seconds=120) == 0, lab.text
        patient(lambda: host.objects(marked=True) == {})


def test_nothing_is_made_where_something_is_in_the_way(tmp_path: Path, scenario: str) -> None:
    with hosted(tmp_path) as host:
        spec = {"containers": [{"name": "c", "image": "i"}]}
        pool = {"name": "real", "generation": 1, "resourceSliceCount": 1}
        devices = {"driver": "gpu.nvidia.com", "pool": pool, "allNodes": True, "devices": [{"name": "gpu-0"}]}
        operator = "composable-resource-operator-controller-manager-7d"
        place = {
            "/api/v1/nodes": {"metadata": {"name": "lab0001"}},
            "/api/v1/namespaces/default/pods": {"metadata": {"name": operator}, "spec": spec},
            "/apis/resource.k8s.io/v1/deviceclasses": {"metadata": {"name": "nvidia-a100-40"}, "spec": {}},
            "/apis/resource.k8s.io/v1/resourceslices": {"metadata": {"name": "real"}, "spec": devices},
        }
        for path, obj in place.items():
            assert host.ask("POST", path, obj)[0] == 201
        line = one_line(done(*joining(host, scenario)), 1)
        for words in (
            "nodes lab0001 is there already, and the lab did not make it",
            "deviceclasses.resource.k8s.io nvidia-a100-40 is there already, and it selects other devices",
            "an operator runs here (pod default/composable-resource-operator-controller-manager-7d)",
            "there are devices of gpu.nvidia.com (slice real)",
        ):
            assert words in line
        assert host.objects(marked=True) == {}
        for path in ("/api/v1/nodes/lab0001", "/apis/resource.k8s.io/v1/deviceclasses/nvidia-a100-40"):
            host.ask("DELETE", path)
        told = done(*joining(host, scenario, "--beside", "operator", "--beside", "drivers", "--dry-run"))
        assert told.returncode == 0, told.stderr
        assert host.objects(marked=True) == {}


def test_definitions_are_made_where_none_are_and_half_installed_ones_refused(tmp_path: Path, scenario: str) -> None:
    kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    with hosted(tmp_path) as host:
        host.ask("DELETE", f"{kinds}/composableresources.cro.hpsys.ibm.ie.com")
        line = one_line(done(*joining(host, scenario)), 1)
        assert "half-installed: composableresources.cro.hpsys.ibm.ie.com is missing" in line
        host.ask("DELETE", f"{kinds}/composabilityrequests.cro.hpsys.ibm.ie.com")
        recording = tmp_path / "rec.jsonl"
        with program(*joining(host, scenario, "--scaler", "--record", str(recording))) as lab:
            patient(lambda: runs(host), words=lambda: lab.text)
            assert lab.end() == 0, lab.text
        assert {"composabilityrequests", "composableresources"} <= {one.resource for one in read_recording(recording)}
        assert host.objects(marked=True) == {}
        assert host.ask("GET", kinds)[1]["items"] == []


def test_a_user_needs_the_printed_role_and_no_more(tmp_path: Path, scenario: str) -> None:
    with hosted(tmp_path) as host:
        before = host.objects(marked=False)
        line = one_line(done(*joining(host, scenario, "--context", "guest")), 1)
        assert "this user may not get nodes, list nodes, watch nodes and" in line
        assert host.objects(marked=False) == before
        role = yaml.safe_load(done("lab", "join", "--print-role").stdout)
        group = {"apiGroup": "rbac.authorization.k8s.io"}
        guest = [{**group, "kind": "User", "name": "guest"}]
        reference = {**group, "kind": "ClusterRole", "name": "dds-lab"}
        binding = {"metadata": {"name": "dds-lab"}, "roleRef": reference, "subjects": guest}
        for kind, obj in (("clusterroles", role), ("clusterrolebindings", binding)):
            assert host.ask("POST", f"/apis/rbac.authorization.k8s.io/v1/{kind}", obj)[0] == 201
        with program(*joining(host, scenario, "--context", "guest", "--scaler")) as lab:
            patient(lambda: runs(host), words=lambda: lab.text)
            assert lab.end() == 0, lab.text
        assert "forbidden" not in lab.text
        assert host.objects(marked=True) == {}


def test_a_cluster_that_goes_away_in_the_middle_is_told_in_words(tmp_path: Path, scenario: str) -> None:
    (tmp_path / "host.yaml").write_text(HOST)
    target = tmp_path / "kubeconfig"
    with program("lab", "up", str(tmp_path / "host.yaml"), "--kubeconfig", str(target)) as up:
        up.until("contexts:")
        token = target.read_text().partition("token: ")[2].split()[0]
        with program(*joining(Host(target), scenario)) as lab:
            lab.until("has joined")
            kubeconfig = target.read_text()
            up.end(signal.SIGKILL)
            lab.until("does not answer", 30.0)
            assert lab.end() == 1
            assert "'dds lab leave' removes the rest" in lab.text
            assert "Traceback" not in lab.text
            assert token not in lab.text
        target.write_text(kubeconfig)
        assert "does not answer" in one_line(done("lab", "leave", "--kubeconfig", str(target)), 1)


def test_a_scenario_is_played_and_judged(tmp_path: Path, scenario: str) -> None:
    vain = tmp_path / "vain.yaml"
    vain.write_text(QUICK + "steps: [{at: 1s, attach: {node: lab0000, model: A100 40G}}]\n")
    stuck = tmp_path / "stuck.yaml"
    stuck.write_text(QUICK + "steps: [{wait_for: {object: pods/nobody, has: status, within: 1s}}]\n")
    with hosted(tmp_path) as host:
        cluster = ("--cluster", str(host.kubeconfig), "--no-recording")
        fine = done("lab", "run", scenario, *cluster, "--until", "8s", "--scaler")
        assert fine.returncode == 0, fine.stderr
        assert "the judge found nothing" in fine.stdout
        found = done("lab", "run", str(vain), *cluster, "--until", "6s")
        assert found.returncode == 2
        assert "found: beyond need" in found.stdout
        failed = done("lab", "run", str(stuck), *cluster, "--until", "4s")
        assert failed.returncode == 2
        assert "did not come about" in failed.stderr
        assert host.objects(marked=True) == {}


def test_a_recording_that_cannot_be_written_lets_nothing_begin(tmp_path: Path, scenario: str) -> None:
    there = tmp_path / "there.jsonl"
    there.write_text("mine")
    with hosted(tmp_path) as host:
        line = done(*joining(host, scenario, "--record", str(there))).stderr.splitlines()[-1]
        assert "there already" in line
        assert there.read_text() == "mine"
        assert host.objects(marked=True) == {}


def test_first_contact_takes_three_commands(tmp_path: Path) -> None:
    """From a cluster to a pod with a device that does not exist, as docs/lab-join.md says it."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("needs kubectl")
    with hosted(tmp_path) as host:
        begun = time.monotonic()
        kubeconfig = ("--kubeconfig", str(host.kubeconfig))
        log = ("--log", f"sqlite:///{tmp_path}/scaler.sqlite3")
        with (
            program("lab", "join", *kubeconfig) as lab,
            program("serve", *kubeconfig, "--migrate", "--mode", "detach", *log) as scaler,
        ):
            lab.until("has joined")
            pod = str(REPOSITORY / "examples" / "join" / "pod.yaml")
            apply = ("apply", "--validate=false", "-f", pod)  # a server with new definitions may have no OpenAPI yet
            subprocess.run([kubectl, *kubeconfig, *apply], check=True, capture_output=True, timeout=60)
            patient(lambda: runs(host, "try-dds"), 150.0, lambda: lab.text + scaler.text)
            assert time.monotonic() - begun < 180
            claim = host.ask("GET", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/try-dds")[1]
            result = claim["status"]["allocation"]["devices"]["results"][0]
            assert (result["pool"], result["device"]) == (host.pod("try-dds")["spec"]["nodeName"], "gpu-0")
            assert scaler.end() == 0, scaler.text
            assert lab.end() == 0, lab.text
        assert host.pod("try-dds") is None
        assert host.objects(marked=True) == {}


def test_the_manager_is_there_for_an_operator_of_others(tmp_path: Path, scenario: str) -> None:
    with hosted(tmp_path) as host:
        with program(*joining(host, scenario, "--without", "operator", "--manager", "fm")) as lab:
            lab.until("has joined")
            address = re.search(r"manager \(fm\) is at (https://127\.0\.0\.1:\d+)", lab.text)
            folder = re.search(r"kubectl create secret generic \S+ -n \S+ --from-file=(\S+)", lab.text)
            assert address and folder, lab.text
            secret = {one.name: one.read_text() for one in Path(folder[1]).iterdir()}
            assert not any(secret[name] in lab.text for name in ("password", "client_secret"))
            trusted = ssl.create_default_context(cafile=f"{folder[1]}/certificate")
            assert httpx.get(address[1], verify=trusted).status_code in (401, 404)
            assert lab.end() == 0, lab.text
        assert not Path(folder[1]).exists()


def test_an_older_server_is_told_to_be_one(tmp_path: Path, scenario: str) -> None:
    """What 1.33 says of itself; no server of ours is one."""
    groups = {"name": "resource.k8s.io", "versions": [{"version": "v1beta2"}, {"version": "v1beta1"}]}
    kinds = [{"name": "resourceclaims", "kind": "ResourceClaim", "namespaced": True, "verbs": ["list"]}]
    answers = {
        "/version": {"gitVersion": "v1.33.4"},
        "/apis": {"groups": [{**groups, "preferredVersion": {"version": "v1beta2"}}]},
        **{f"/apis/resource.k8s.io/{one}": {"resources": kinds} for one in ("v1beta1", "v1beta2")},
    }
    with http_server(lambda asked: Said(body=json.dumps(answers.get(asked.path, {})).encode())) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig", token="canary-of-a-token")
        line = one_line(done("lab", "join", scenario, "--kubeconfig", kubeconfig), 1)
        assert "Kubernetes v1.33.4 serves v1beta2, v1beta1 of resource.k8s.io, and not v1" in line
        assert {one.method for one in server.asked} == {"GET"}
        assert "canary" not in line
