"""`dds lab conform` asks any server, leaves nothing behind, and says by its exit code what came of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dds_commands.running import Commands
from dds_lab.actors.claim_controller import ClaimController
from dds_lab.api.kinds import Object
from dds_lab.api.requests import Call
from dds_lab.api.status import Cause
from dds_lab.client import Client
from dds_lab.conform import transport
from dds_lab.conform.questions import questions
from dds_lab.latency import NONE
from dds_lab_commands import lab_conform
from dds_lab_commands.lab_conform import conform
from tests.support.served import client_of, new_server, served

FEW = 40
"""Questions that are asked here; all of them are in tests/lab/conform/test_lab_conformance.py."""


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_conform, "questions", lambda namespace: questions(namespace)[:FEW])


def run(*args: str) -> Result:
    root = Commands("dds", context_settings={"help_option_names": ["-h", "--help"]})
    root.add_command(conform)
    return CliRunner().invoke(root, ["conform", *args])


@pytest.mark.parametrize("extra", [(), ("--namespace", "elsewhere"), ("--as-user", "ddsuser")], ids=str)
def test_a_server_that_answers_as_recorded(tmp_path: Path, extra: tuple[str, ...]) -> None:
    server = new_server()
    client = client_of(server)
    for definition in client.list("customresourcedefinitions"):
        client.delete("customresourcedefinitions", definition["metadata"]["name"])
    before = list(server.store.records())
    with served(server=server, tls=True) as lab:

        def start() -> ClaimController:
            made = ClaimController(Client(server, lab.face.time, "claims"), lab.face.time, NONE)
            made.start()
            return made

        controller = lab.run(start)
        result = run("--kubeconfig", lab.kubeconfig(tmp_path / "config"), *extra)
        lab.run(controller.stop)
        left = lab.run(lambda: [(key, path) for key, path, _ in server.store.records()])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "installed the custom resource definition composabilityrequests.cro.hpsys.ibm.ie.com"
    assert lines[2] == f"{FEW} questions, {FEW - 1} answered as recorded"
    assert any(line.startswith("known: api-groups: body.groups[") and "[autoscaling]" in line for line in lines)
    assert left == [(key, path) for key, path, _ in before]


def test_the_questions_about_the_exchange(tmp_path: Path) -> None:
    with served(tls=True) as lab:
        result = run("--kubeconfig", lab.kubeconfig(tmp_path / "config"), "--exchange")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "54 questions, 54 answered as recorded"


def test_a_server_that_answers_otherwise(tmp_path: Path) -> None:
    server = new_server()
    server.admission.append(_no_claims)
    with served(server=server, tls=True) as lab:
        result = run("--kubeconfig", lab.kubeconfig(tmp_path / "config"))
    assert result.exit_code == 2
    assert "differs: claim-create: code: recorded 201, found 403" in result.stdout


def _no_claims(call: Call, one: Object | None, other: Object | None) -> list[Cause] | None:
    refused = call.verb == "create" and call.resource.plural == "resourceclaims"
    return [Cause("FieldValueForbidden", "Forbidden: none", "spec")] if refused else None


def test_what_is_there_already_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = new_server()
    client_of(server).create("nodes", {"metadata": {"name": "n1"}})
    monkeypatch.setattr(lab_conform, "questions", questions)
    with served(server=server, tls=True) as lab:
        result = run("--kubeconfig", lab.kubeconfig(tmp_path / "config"))
        assert lab.run(lambda: client_of(server).find("nodes", "n1")) is not None
    assert result.exit_code == 1
    assert result.stderr.startswith("dds: /api/v1/nodes/n1: exists already, and the questions would change it; ")


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with served(tls=True) as lab:
        path = lab.kubeconfig(tmp_path / "config")
    result = run("--kubeconfig", path)
    assert result.exit_code == 1 and len(result.stderr.splitlines()) == 1
    assert "no answer" in result.stderr


def test_a_user_without_rights_cannot_ask(tmp_path: Path) -> None:
    with served(tls=True) as lab:
        result = run("--kubeconfig", lab.kubeconfig(tmp_path / "config"), "--context", "dds")
    assert result.exit_code == 1
    assert "may not be read" in result.stderr


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "apiVersion: v1\nkind: Config\n"], ids=["empty", "list", "no yaml", "bare"]
)
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    for name in (str(path), str(tmp_path / "missing")):
        result = run("--kubeconfig", name)
        assert result.exit_code == 1, result.output
        assert len(result.stderr.splitlines()) == 1 and "not a usable kubeconfig" in result.stderr


def test_the_client_says_who_it_is() -> None:
    assert transport.USER_AGENT.startswith("python-httpx/"), "the recorded owner of fields"
