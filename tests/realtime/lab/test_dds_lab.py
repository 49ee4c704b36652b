"""`dds lab` as a program: what it prints, what it leaves behind, how it ends."""

from __future__ import annotations

import json
import re
import signal
import ssl
import subprocess
import time
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest

from dds_lab import shipped
from tests.support.commands import PROGRAM, environment, fine, one_line, program
from tests.support.joined import Running
from tests.support.joined import program as running

k8s: Any = import_module("kubernetes")  # typed in part only


def started(*args: str, folder: Path) -> AbstractContextManager[Running]:
    return running(*args, env={"XDG_STATE_HOME": str(folder)})


def announced(process: Running) -> tuple[str, Path]:
    """The address and the kubeconfig that `dds lab up` tells, once it serves."""
    process.until("contexts:")
    address = re.search(r"served at (\S+?),", process.text)
    kubeconfig = re.search(r"KUBECONFIG=(\S+)", process.text)
    assert address and kubeconfig, process.text
    return address[1], Path(kubeconfig[1])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_up_serves_until_it_is_told_to_end_and_leaves_nothing_behind(how: int, tmp_path: Path) -> None:
    with started("lab", "up", "--speed", "20", folder=tmp_path) as process:
        address, kubeconfig = announced(process)
        assert address.startswith("https://127.0.0.1:")
        assert kubeconfig.stat().st_mode & 0o077 == 0
        api = k8s.config.new_client_from_config(str(kubeconfig))
        core, claims = k8s.client.CoreV1Api(api), k8s.client.CustomObjectsApi(api)
        assert [one.metadata.name for one in core.list_node().items] == ["node0000", "node0001"]
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "nvidia-a100-40"}}]}},
        }
        claims.create_namespaced_custom_object("resource.k8s.io", "v1", "default", "resourceclaims", claim)
        container = {"name": "c", "image": "pause", "resources": {"claims": [{"name": "d"}]}}
        spec = {"containers": [container], "resourceClaims": [{"name": "d", "resourceClaimName": "c"}]}
        core.create_namespaced_pod("default", {"metadata": {"name": "p"}, "spec": spec})
        assert _becomes(lambda: core.read_namespaced_pod("p", "default").status.phase, "Running")
        watch = core.list_node(watch=True, _preload_content=False)  # an open watch does not hold it up
        begun = time.monotonic()
        code = process.end(how)
        seconds = time.monotonic() - begun
        watch.close()
        api.close()
    assert code == 0
    assert seconds < 20, "an open watch lasts for minutes"
    assert not kubeconfig.exists()


def test_up_serves_a_scenario_with_its_users_at_the_port_and_file_that_were_asked_for(tmp_path: Path) -> None:
    scenario = tmp_path / "mine.yaml"
    scenario.write_text("cluster: {nodes: [{count: 3, fabric: null}], users: [{name: guest}]}\n")
    target = tmp_path / "config"
    options = ("--kubeconfig", str(target), "--no-tls")
    with started("lab", "up", str(scenario), *options, folder=tmp_path) as process:
        address, kubeconfig = announced(process)
        assert address.startswith("http://127.0.0.1:")
        assert kubeconfig == target
        admin = k8s.config.new_client_from_config(str(target), "admin")
        guest = k8s.config.new_client_from_config(str(target), "guest")
        assert len(k8s.client.CoreV1Api(admin).list_node().items) == 3
        with pytest.raises(k8s.client.exceptions.ApiException) as refused:
            k8s.client.CoreV1Api(guest).list_node()
        assert refused.value.status == 403
        again = program("lab", "up", "--port", address.rpartition(":")[2], env={"XDG_STATE_HOME": str(tmp_path)})
        assert "cannot listen" in one_line(again, 1)
        taken = program("lab", "up", "--kubeconfig", str(target))
        assert "there already" in one_line(taken, 1)
        admin.close()
        guest.close()
        assert process.end() == 0
    assert not target.exists()


@pytest.mark.smoke
def test_up_serves_a_manager_of_the_hardware_and_writes_what_its_clients_need(tmp_path: Path) -> None:
    scenario, target = tmp_path / "mine.yaml", tmp_path / "config"
    scenario.write_text("cluster: {nodes: [{count: 3, fabric: null}]}\nparts: {manager: {api: cm}}\n")
    with started("lab", "up", str(scenario), "--kubeconfig", str(target), folder=tmp_path) as process:
        process.until("contexts:")
        text = process.text
        found = re.search(r"manager \(cm\) is at (\S+)\n  credentials: (\S+)\n  tenant (\S+), cluster (\S+)\n", text)
        assert found, text
        secret = Path(found[2])
        assert secret == tmp_path / "config.cdi"
        given = {path.name: path.read_text() for path in secret.iterdir()}
        assert secret.stat().st_mode & 0o077 == 0
        assert given["password"] not in text
        form = {name: value for name, value in given.items() if name not in ("realm", "certificate")}
        context = ssl.create_default_context(cadata=given["certificate"])
        with httpx.Client(base_url=found[1], verify=context, trust_env=False) as client:
            path = f"/id_manager/realms/{given['realm']}/protocol/openid-connect/token"
            token = client.post(path, data={**form, "scope": "openid", "grant_type": "password"}).json()["access_token"]
            headers, query = {"Authorization": f"Bearer {token}"}, {"tenant_uuid": found[3]}
            machines = client.get("/fabric_manager/api/v1/machines", params=query, headers=headers).json()
        assert len(machines["data"]["machines"]) == 3
        assert process.end(signal.SIGTERM) == 0
    assert not secret.exists()


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("--listen", "0.0.0.0", "--no-tls"), "TLS"),
        (("nosuch",), "neither a file nor a scenario"),
        (("--listen", "203.0.113.1"), "cannot listen"),
        (("--speed", "0"), "speed"),
    ],
)
def test_up_that_cannot_be_says_so_in_one_line(args: tuple[str, ...], word: str, tmp_path: Path) -> None:
    done = program("lab", "up", *args, env={"XDG_STATE_HOME": str(tmp_path)})
    assert word in one_line(done, 1)
    assert not list(tmp_path.rglob("*.kubeconfig"))


def test_run_writes_a_recording_that_every_command_takes(tmp_path: Path) -> None:
    path, log = str(tmp_path / "r.jsonl.gz"), str(tmp_path / "log.sqlite3")
    told = fine("lab", "run", "first_attach", "-o", path)
    assert "first_attach: 1 min 00 s of the lab's time" in told
    assert re.search(r"^claims +1, allocated \d times", told, re.MULTILINE)
    assert f"dds replay {path}" in told
    assert "claim default/train-1" in fine("timeline", "default/train-1", path)
    fine("db", "upgrade", log)
    fine("log", "import", path, "--log", log)
    assert "every decision is the one that the rules make" in fine("log", "verify", log)


def test_run_is_the_same_each_time_and_does_not_write_over_a_file(tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    fine("lab", "run", "coexistence", "-o", str(one))
    fine("lab", "run", "coexistence", "-o", str(other))
    assert one.read_bytes() == other.read_bytes()
    assert "there already" in one_line(program("lab", "run", "coexistence", "-o", str(one)), 1)
    fine("lab", "run", "coexistence", "-o", str(one), "--replace", "--seed", "9", "--until", "20s")
    assert one.read_bytes() != other.read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_run_without_a_recording_writes_none(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(PROGRAM), "lab", "run", "withdrawn", "--no-recording"],
        capture_output=True, text=True, env=environment(), cwd=tmp_path, timeout=60, check=True,
    )  # fmt: skip
    assert "recording" not in done.stdout
    assert list(tmp_path.iterdir()) == []
    refused = program("lab", "run", "withdrawn", "--no-recording", "-o", "x")
    assert "--no-recording" in one_line(refused, 1)


def test_run_tells_of_a_scheduler_that_exited(tmp_path: Path) -> None:
    scenario = tmp_path / "feared.yaml"
    scenario.write_text(
        "duration: 30s\n"
        "cluster:\n"
        '  version: "1.36"\n'  # its scheduler ends so, that of 1.37 does not
        "  taint_rules: resource.k8s.io/v1beta2\n"
        "  gates: {scheduler: {DRADeviceTaintRules: true}}\n"
        "  models: [{model: A100 40G, device: a100, product: A100}]\n"
        "  fabrics: [{id: 1, devices: {A100 40G: 1}}]\n"
        "  nodes: [{}]\n"
        "parts: {operator: false, scaler: false}\n"
        "steps:\n"
        "  - at: 5s\n"
        "    apply:\n"
        "      apiVersion: resource.k8s.io/v1beta2\n"
        "      kind: DeviceTaintRule\n"
        "      metadata: {name: rule}\n"
        "      spec: {deviceSelector: {device: nobody}, taint: {key: drain, effect: NoSchedule}}\n"
        "  - {at: 10s, attach: {node: node0000, model: A100 40G}}\n"
    )
    told = fine("lab", "run", str(scenario), "--no-recording")
    (line,) = [one for one in told.splitlines() if one.startswith("exit ")]
    assert "kube-scheduler exited, restarted after 10 s" in line


def test_a_scenario_whose_story_does_not_come_about_ends_with_2(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text("duration: 1m\nsteps:\n  - wait_for: {object: pods/never, has: spec, within: 5s}\n")
    done = program("lab", "run", str(scenario), "--no-recording")
    assert done.returncode == 2
    assert done.stderr == "dds: steps[0] (wait_for): pods/never has spec did not come about within 5 s\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "cluster: {nodes: [{cuont: 2}]}\n",
            "s.yaml:1:20: cluster.nodes[0].cuont: is no field here: did you mean count?",
        ),
        (
            "cluster: {objects: [{kind: Nope, apiVersion: v1}]}\n",
            "cluster.objects[0] (Nope ): Nope of v1 is not served",
        ),
        ("a: [", "s.yaml:"),
    ],
)
def test_a_scenario_that_is_wrong_is_refused_in_one_line(text: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(text)
    for command in ("run", "up"):
        done = program("lab", command, str(tmp_path / "s.yaml"), env={"XDG_STATE_HOME": str(tmp_path)})
        assert line in one_line(done, 1)


def test_record_follows_a_served_lab_until_it_is_told_to_end(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    with started("lab", "up", "first_attach", "--speed", "10", folder=tmp_path) as up:
        _, kubeconfig = announced(up)
        options = ("--kubeconfig", str(kubeconfig), "-o", str(path))
        with started("lab", "record", *options, folder=tmp_path) as recording:
            recording.until("Ctrl-C ends it")
            time.sleep(3)
            assert recording.end() == 0
        assert f"dds replay {path}" in recording.text
        assert "first one" not in fine("replay", str(path))
        raw = program("lab", "record", *options[:2], "-o", str(tmp_path / "raw.jsonl"), "--raw", "--duration", "1s")
        assert raw.returncode == 0
        assert "whole objects are written" in raw.stderr
        few = str(tmp_path / "few.jsonl")
        fine("lab", "record", *options[:2], "-o", few, "--resources", "nodes,pods", "--duration", "500ms")
        assert {json.loads(line)["resource"] for line in Path(few).read_text().splitlines()} <= {"nodes", "pods"}
        assert up.end() == 0
    unknown = program("lab", "record", *options[:2], "-o", few, "--resources", "secrets")
    assert "secrets cannot be recorded" in one_line(unknown, 1)


def test_the_list_of_scenarios_has_each_with_a_sentence() -> None:
    listed = json.loads(fine("lab", "scenarios", "--format", "json"))
    assert [one["scenario"] for one in listed] == shipped.names()
    assert all(one["about"] and one["seconds"] > 0 for one in listed)
    assert "first_attach" in fine("lab", "scenarios")


def _becomes(ask: Any, wanted: Any, seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if ask() == wanted:
            return True
        time.sleep(0.2)
    return False
