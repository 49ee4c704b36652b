"""What `dds serve` is given and cannot use, and what goes missing while it runs: one line that says what, where and what to do;
it goes on with what can go on, says by its readiness what it lacks, and picks up what comes back."""

from __future__ import annotations

import copy
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes.decode.config import NAME as CONFIG
from dds_adapters.kubernetes.decode.config import NAMESPACE
from dds_adapters.kubernetes.watch.watch_spec import OPERATOR
from dds_adapters.sql import Database
from dds_core.scaler.policy import Policy
from dds_lab.api.requests import MASTERS, User
from dds_lab.http_frontend.credentials import write_kubeconfig
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario
from dds_lab.scenario.parts import Profile, SchedulerPart
from dds_lab.shipped import find
from tests.support.live_lab import QUICK, LiveLab, eventually, without_scaler
from tests.support.serve_program import Program

SPEED = 4.0
OBSERVE = Policy()
KINDS = (f"composabilityrequests.{OPERATOR}", f"composableresources.{OPERATOR}")
Object = dict[str, Any]


def patient(lab: str = "first_attach") -> Scenario:
    """With a scheduler that waits for a device as long as it takes."""
    found = without_scaler(find(lab))
    scheduler = SchedulerPart(profiles={"default-scheduler": Profile(binding_timeout=3_000.0)})
    return found.model_copy(update={"parts": found.parts.model_copy(update={"scheduler": scheduler})})


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LiveLab]:
    with LiveLab(patient(), tmp_path, speed=SPEED) as lab:
        yield lab


def started(lab: LiveLab, folder: Path, *options: str, policy: Policy = QUICK) -> Any:
    return Program(lab, str(folder / "log.sqlite3"), folder, policy, "--migrate", *options)


def requests(lab: LiveLab) -> list[Object]:
    return lab.call(lambda lab: lab.client("test").list("composabilityrequests"))


def ended_with(ours: Program, code: int = 1) -> str:
    """The line that a program says which ends by itself."""
    assert ours.process.wait(30) == code
    last = ours.lines()[-1]
    assert last["level"] == "error"
    line: str = last["msg"]
    assert "\n" not in line and "Traceback" not in ours.said.read_text()
    return line


def warned(ours: Program, *words: str) -> str:
    """The warning that has all these words, once it is said."""

    def found() -> str:
        lines = (line["msg"] for line in ours.lines() if line["level"] == "warning")
        return next((line for line in lines if all(word in line for word in words)), "")

    return eventually(found)


# -- who asks


def kubeconfig(lab: LiveLab, path: Path, token: str) -> Path:
    """A kubeconfig with this token for everybody."""
    write_kubeconfig(path, lab.face.url, {"admin": token}, None)
    return path


def test_a_token_that_nobody_knows(lab: LiveLab, tmp_path: Path) -> None:
    path = kubeconfig(lab, tmp_path / "wrong.kubeconfig", "hunter2-secret")
    with started(lab, tmp_path, "--kubeconfig", str(path)) as ours:
        line = ended_with(ours)
        assert "401" in line and lab.face.url in line and "renew the credentials of the kubeconfig" in line
        assert "hunter2" not in ours.said.read_text()


def test_a_token_that_expires_and_is_renewed(lab: LiveLab, tmp_path: Path) -> None:
    def known(token: str) -> None:
        lab.call(lambda lab: lab.server.access.register(token, User("dds", (MASTERS,))))

    path = kubeconfig(lab, tmp_path / "ours.kubeconfig", "the-first-token")
    known("the-first-token")
    with started(lab, tmp_path, "--kubeconfig", str(path), policy=OBSERVE) as ours:
        eventually(ours.seen_all)
        lab.call(lambda lab: lab.server.access.revoke("the-first-token"))
        lab.call(_cut_watches(lab))
        line = warned(ours, "401", "renew the credentials")
        assert lab.face.url in line
        assert ours.alive
        known("the-second-token")
        kubeconfig(lab, path, "the-second-token")
        # nobody else says it: a node that comes now is seen by the watches that were opened with the new token
        lab.call(lambda lab: lab.client("test").create("nodes", {"metadata": {"name": "a-new-one"}}))
        eventually(lambda: _seen(tmp_path, "a-new-one"), 60)
        assert "-token" not in ours.said.read_text()
        assert ours.end() == 0


def _cut_watches(lab: LiveLab) -> Any:
    def cut(_: Lab) -> None:
        for connection in list(lab.face.connections):
            connection.cut()

    return cut


def _seen(folder: Path, node: str) -> bool:
    """Whether the log knows of a node."""
    with Database(f"sqlite:///{folder / 'log.sqlite3'}") as database:
        return any(f'"{node}"' in str(row.data) for row in database.log("lab/scaler").read(types={"NodeObserved"}))


# -- what is missing in the cluster


def taken_away(lab: Lab, name: str) -> Object:
    client = lab.client("test")
    crd: Object = copy.deepcopy(client.get("customresourcedefinitions", name))
    client.delete("customresourcedefinitions", name)
    return {"metadata": {"name": name}, **{key: crd[key] for key in ("apiVersion", "kind", "spec")}}


@pytest.mark.parametrize("names", [KINDS[:1], KINDS[1:], KINDS], ids=["requests", "resources", "both"])
def test_custom_kinds_that_are_installed_later(names: tuple[str, ...], lab: LiveLab, tmp_path: Path) -> None:
    crds = [lab.call(lambda lab, name=name: taken_away(lab, name)) for name in names]  # type: ignore[misc]
    with started(lab, tmp_path) as ours:
        for name in names:
            plural = name.partition(".")[0]
            line = warned(ours, plural, "is not served in any version that is understood")
            assert lab.face.url in line and f"{OPERATOR}/v1alpha1" in line
            assert "install what serves it (nothing is decided before)" in line
            why = "not served, or this user may not list and watch it"
            eventually(lambda plural=plural, why=why: why in _failing(ours, plural))  # type: ignore[misc]
        assert ours.probe("livez").code == 200
        for crd in crds:
            lab.call(lambda lab, crd=crd: lab.client("test").create("customresourcedefinitions", crd))  # type: ignore[misc]
        eventually(lambda: ours.probe("readyz").code == 200, 60)
        assert ours.end() == 0


def _failing(ours: Program, check: str) -> str:
    """The line of the readiness that says this check fails."""
    lines = ours.probe().text.splitlines()
    return next((line for line in lines if line.startswith(f"[-]{check} failed")), "")


def test_a_configmap_that_comes_later(lab: LiveLab, tmp_path: Path) -> None:
    before: Object = lab.call(lambda lab: lab.client("test").get("configmaps", CONFIG, NAMESPACE))
    lab.call(lambda lab: lab.client("test").delete("configmaps", CONFIG, NAMESPACE))
    with started(lab, tmp_path) as ours:
        line = warned(ours, f"{lab.face.url} ConfigMap {NAMESPACE}/{CONFIG}")
        assert "is not there" in line and "; create it with device-info" in line
        eventually(ours.seen_all)
        assert requests(lab) == []
        made = {"metadata": {"name": CONFIG}, "data": before["data"]}
        lab.call(lambda lab: lab.client("test").create("configmaps", made, NAMESPACE))
        eventually(lambda: requests(lab), 60)
        assert ours.end() == 0


# -- another API server than the one it was made for


@pytest.mark.parametrize("version", ["1.34", "1.35"])
def test_an_api_server_that_drops_binding_conditions(version: str, tmp_path: Path) -> None:
    scenario = without_scaler(find("first_attach"))
    older = scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update={"version": version})})
    with LiveLab(older, tmp_path, speed=SPEED) as lab, started(lab, tmp_path) as ours:
        eventually(ours.seen_all)
        line = warned(ours, "bindingConditions")
        assert "DRADeviceBindingConditions" in line
        assert ours.end() == 0


# -- what this process is given


def test_a_log_that_cannot_be_reached_is_waited_for(lab: LiveLab, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"postgresql://dds:hunter2@127.0.0.1:{port}/dds"
    with Program(lab, url, tmp_path, QUICK) as ours:
        line = warned(ours, f"127.0.0.1:{port}")
        assert ";" in line
        probe = eventually(lambda: _failing(ours, "log"))
        assert f"127.0.0.1:{port}" in probe
        assert ours.probe("livez").code == 200
        assert requests(lab) == []
        assert ours.end() == 0
        assert "hunter2" not in ours.said.read_text() + probe


def test_a_log_that_can_be_none(lab: LiveLab, tmp_path: Path) -> None:
    """What cannot even be a URL is refused with the settings; this one shows when it is opened."""
    with Program(lab, "sqlite:////nowhere/at/all.sqlite3", tmp_path, QUICK, "--migrate") as ours:
        assert "; " in ended_with(ours)
    assert requests(lab) == []
