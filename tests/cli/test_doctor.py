"""`dds doctor` against the lab over HTTP: what is wrong is said in words, with its mend, and in the exit code."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from dds_adapters.kubernetes import rbac
from dds_adapters.sql import upgrade
from dds_lab.actors.fabric import Fabric
from dds_lab.api.requests import MASTERS, User
from dds_lab.http_frontend import Credentials, Served, serving
from dds_lab.manager import Manager, ManagerSettings
from dds_lab.manager.frontend import serving_manager
from dds_lab.time import Time
from tests.support.commands import dds, one_line, program, refused
from tests.support.doctor_lab import DoctorLab
from tests.support.served import wall

ACCOUNT = "system:serviceaccount:composable-dra:dds"
USERS = {"admin": User("admin", (MASTERS,)), "dds": User(ACCOUNT), "nobody": User("nobody")}
Found = dict[str, str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Served]:
    """A composable cluster on real time, in which the account has exactly its roles."""
    clinic = DoctorLab(taint_rules="resource.k8s.io/v1alpha3")
    clinic.with_role()
    clinic.lab.server.clock.now = wall
    with serving(clinic.lab.server, Credentials(USERS), tls=False) as served:
        yield served


@pytest.fixture
def kubeconfig(cluster: Served, tmp_path: Path) -> str:
    return cluster.kubeconfig(tmp_path / "kubeconfig")


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A database that is ready for a first start."""
    path = str(tmp_path / "log.sqlite3")
    upgrade(f"sqlite:///{path}")
    return path


def examined(*args: str, code: int = 0, env: Mapping[str, str] | None = None) -> list[Found]:
    """What `dds doctor --json` finds."""
    done = dds("doctor", "--json", *args, env=env or {})
    assert done.exit_code == code, done.output
    assert done.stderr == ""
    found: list[Found] = json.loads(done.stdout)
    assert all(set(one) == {"check", "level", "what", "mend"} for one in found)
    assert (code == 1) == any(one["level"] == "error" for one in found)
    assert all(one["mend"] for one in found if one["level"] in ("error", "warning"))
    return found


def errors(found: list[Found]) -> list[tuple[str, str]]:
    return [(one["check"], one["what"]) for one in found if one["level"] == "error"]


def test_a_sound_cluster_under_the_accounts_own_role(kubeconfig: str, log: str, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("mode: detach\n")
    found = examined(
        "--kubeconfig", kubeconfig, "--context", "dds", "--log", log, "--policy", str(tmp_path / "policy.yaml")
    )
    assert errors(found) == []
    assert [one["what"] for one in found if one["check"] == "authentication"] == [f"as {ACCOUNT}"]
    granted = [one["level"] for one in found if one["check"] == "permissions"]
    assert granted == ["ok"] * len({rule.feature for rule in rbac.RULES})
    assert {one["check"] for one in found if one["level"] == "unknown"} == {
        "scheduler gates", "operator deployment", "beside",
    }  # fmt: skip


def test_the_table_for_people(kubeconfig: str, log: str) -> None:
    done = dds("doctor", "--kubeconfig", kubeconfig, "--log", log)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split()[:2] == ["ok", "server"]
    assert "has no log cluster/scaler yet → the first start of dds serve makes it" in " ".join(done.stdout.split())
    assert lines[-1].endswith("unknown") and " ok, " in lines[-1]
    assert max(len(line) for line in lines if log not in line) <= 100


def test_settings_come_from_the_environment_too(kubeconfig: str, log: str) -> None:
    env = {"DDS_KUBECONFIG": kubeconfig, "DDS_LOG": log, "DDS_NAMESPACE": "default", "DDS_MODE": "attach"}
    found = examined(env=env, code=1)
    assert errors(found)[0][1].startswith("there is no ConfigMap default/")
    assert any(one["what"].startswith("valid: mode attach") for one in found)


def test_nothing_is_changed(cluster: Served, kubeconfig: str, log: str) -> None:
    def counted() -> int:
        return cluster.server.store.revision

    before = cluster.run(counted)
    written = Path(log).read_bytes()
    examined("--kubeconfig", kubeconfig, "--log", log)
    assert cluster.run(counted) == before
    assert Path(log).read_bytes() == written


# -- the fabric --------------------------------------------------------------------------------------------------------

POOLS = {("1", "A100 40G"): 4, ("1", "H100 80G"): 2}
SECRETS = ManagerSettings().login


@contextmanager
def manager(folder: Path) -> Iterator[tuple[str, ...]]:
    """A manager of the cluster's two machines over HTTPS; the settings with which it is asked."""

    def made(time: Time) -> Manager:
        hardware = Fabric(time, POOLS)
        for name in ("node0000", "node0001"):
            hardware.connect(name, "1")
        return Manager(time, hardware, ManagerSettings())

    with serving_manager(made) as served:
        served.credentials(folder)
        yield (
            "--fabric=fm", f"--fabric-endpoint={served.url}", f"--tenant-id={ManagerSettings().tenant}",
            f"--credentials-folder={folder}",
        )  # fmt: skip


def test_the_publishers_side_and_its_manager(kubeconfig: str, log: str, tmp_path: Path) -> None:
    with manager(tmp_path / "secret") as told:
        found = examined("--kubeconfig", kubeconfig, "--log", log, "--component=publisher", *told, code=1)
    assert [check for check, _ in errors(found)] == ["pool owners", "pool owners"]  # they are the lab's own publisher's
    said = [one["what"] for one in found]
    assert "2 machines in 1 fabric (1)" in said
    assert "2 of 2 nodes are machines of the fabric" in said
    assert "A100 40G: 4 free in fabric 1" in said
    assert any("trusted by the certificate that was given" in what for what in said)
    assert any("has no log cluster/publisher yet" in what for what in said)
    assert not {"permissions", "operator", "beside", "binding timeout"} & {one["check"] for one in found}


def test_both_sides_are_looked_at_where_a_fabric_is_named(kubeconfig: str, log: str, tmp_path: Path) -> None:
    (tmp_path / "publish.yaml").write_text("adopt: reference\n", encoding="utf-8")
    with manager(tmp_path / "secret") as told:
        policy = f"--publish-policy={tmp_path / 'publish.yaml'}"
        found = examined("--kubeconfig", kubeconfig, "--log", log, policy, *told)
    assert {"permissions", "publisher rights", "policy", "publish policy"} <= {one["check"] for one in found}
    assert [one["what"] for one in found if one["check"] == "log"][-1].endswith("has no log cluster/publisher yet")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (("--fabric=fm", "--fabric-endpoint=http://cdi.example"), "http"),
        (("--fabric=fm", "--fabric-endpoint=https://user:canary@cdi.example"), "more than host, port and path"),
        (("--fabric=cm", "--fabric-endpoint=https://cdi.example", "--tenant-id=mine"), "not a UUID"),
        (("--component=publisher",), "nothing says what the fabric has free"),
    ],
    ids=str,
)
def test_settings_of_a_fabric_that_cannot_be_used(told: tuple[str, ...], words: str, kubeconfig: str, log: str) -> None:
    found = examined("--kubeconfig", kubeconfig, "--log", log, *told, code=1)
    assert words in dict(errors(found))["fabric"]
    assert "canary" not in json.dumps(found)


# -- the autoscaler ----------------------------------------------------------------------------------------------------

GROUP = "{name: big, maximum: 2, template: {capacity: {cpu: 8, memory: 32Gi, pods: 110}}}"


def autoscaling(folder: Path, servers: str = "servers: [{id: a, group: big, state: stopped}]") -> tuple[str, str]:
    """An inventory with one server, and a policy; the settings with which they are named."""
    group = GROUP.replace("8", '"8"').replace("110", '"110"')
    for name, text in (
        ("policy", f"mode: autoscale\ngroups: [{group}]"),
        ("machines", "machines: {kind: inventory, servers: servers.yaml, requests: requests.yaml}"),
        ("servers", servers),
        ("requests", "{}"),
    ):
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return f"--autoscale-policy={folder / 'policy.yaml'}", f"--machines={folder / 'machines.yaml'}"


def test_the_autoscalers_side_is_looked_at_where_machines_are_named(kubeconfig: str, log: str, tmp_path: Path) -> None:
    found = examined("--kubeconfig", kubeconfig, "--log", log, *autoscaling(tmp_path))
    said = {one["check"]: one["what"] for one in found}
    assert said["machines"] == "inventory: big"
    assert "groups.big.template.labels lacks cohdi.io/fabric" in said["server templates"]
    assert said["cluster autoscaler"].startswith("no Pod runs Cluster Autoscaler")
    assert {"permissions", "autoscaler rights"} <= said.keys()
    assert [one["what"] for one in found if one["check"] == "log"][-1].endswith("has no log cluster/autoscaler yet")
    alone = examined("--kubeconfig", kubeconfig, "--log", log, "--component=autoscaler", *autoscaling(tmp_path))
    assert "permissions" not in {one["check"] for one in alone}


@pytest.mark.parametrize(
    ("servers", "words"),
    [("servers: []", "the policy's group big has no servers"), ("servers: 1", "servers"), ("{", "servers.yaml")],
)
def test_machines_that_do_not_fit_or_cannot_be_read(
    servers: str, words: str, kubeconfig: str, log: str, tmp_path: Path
) -> None:
    told = autoscaling(tmp_path, servers)
    found = examined("--kubeconfig", kubeconfig, "--log", log, "--component=autoscaler", *told, code=1)
    ((check, what),) = errors(found)
    assert (check, words in what) == ("machines", True)


def test_an_autoscaler_without_machines(kubeconfig: str, log: str) -> None:
    found = examined("--kubeconfig", kubeconfig, "--log", log, "--component=autoscaler", code=1)
    assert errors(found) == [("machines", "--machines: it is needed")]


# -- who asks ----------------------------------------------------------------------------------------------------------


def test_nobody_answers(tmp_path: Path, log: str, kubeconfig: str) -> None:
    shape: Any = yaml.safe_load(Path(kubeconfig).read_text())
    shape["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    Path(kubeconfig).write_text(yaml.safe_dump(shape))
    found = examined("--kubeconfig", kubeconfig, "--log", log, code=1)
    ((check, what),) = errors(found)
    assert (check, "does not answer" in what) == ("server", True)


def test_a_kubeconfig_that_is_not_there(tmp_path: Path, log: str) -> None:
    found = examined("--kubeconfig", str(tmp_path / "none"), "--log", log, code=1)
    assert [check for check, _ in errors(found)] == ["server"]
    assert any(one["check"] == "log" for one in found)


# -- other clusters ----------------------------------------------------------------------------------------------------


# -- log and policy ----------------------------------------------------------------------------------------------------


def test_a_log_that_was_not_migrated(kubeconfig: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite3"
    sqlite3.connect(path).close()
    path.touch()
    ((check, what),) = errors(examined("--kubeconfig", kubeconfig, "--log", str(path), code=1))
    assert (check, "holds no event log yet" in what) == ("log", True)


def test_a_policy_that_is_not_valid(kubeconfig: str, log: str, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("mode: destroy\n")
    found = examined("--kubeconfig", kubeconfig, "--log", log, "--policy", str(tmp_path / "policy.yaml"), code=1)
    ((check, what),) = errors(found)
    assert (check, "mode" in what) == ("policy", True)


def test_no_password_is_shown(kubeconfig: str) -> None:
    url = "postgresql://dds:hunter2@127.0.0.1:1/dds"
    found = examined("--kubeconfig", kubeconfig, "--log", url, code=1)
    assert [check for check, _ in errors(found)] == ["log"]
    assert "hunter2" not in json.dumps(found)


# -- usage -------------------------------------------------------------------------------------------------------------


def test_wrong_usage_is_one_line() -> None:
    assert "--mode" in refused("doctor", "--mode", "destroy")
    assert "No such option" in refused("doctor", "--nonsense")


def test_as_a_program(kubeconfig: str, log: str) -> None:
    done = program("doctor", "--kubeconfig", kubeconfig, "--log", log)
    assert (done.returncode, done.stderr) == (0, "")
    one_line(program("doctor", "--mode", "destroy"), 1)
