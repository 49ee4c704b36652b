"""Whether devices can be guarded: all that an installation brings is there, and lets the one who asks; else one sentence says
what is not so."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from dds_adapters.kubernetes.cluster import Answer
from dds_adapters.kubernetes.write.guarding import AskGuarding, Guarding, ask_guarding
from dds_adapters.kubernetes.write.tasks import Done, Later
from dds_lab.driver import Direct
from dds_lab.setup import install_guard
from tests.support.guarding import BINDINGS, NAMESPACE, POLICIES
from tests.support.written_objects import Object, WrittenObjects


def asked(stage: WrittenObjects, writer: Direct | None = None, namespace: str = NAMESPACE) -> Guarding:
    found: list[Guarding] = []
    assert stage.carry_out(AskGuarding(namespace, found.append), writer) == Done(written=False)
    (one,) = found
    assert bool(one.guards) is not bool(one.unguarded) and "\n" not in one.unguarded
    return one


@pytest.fixture
def stage() -> WrittenObjects:
    stage = WrittenObjects()
    install_guard(stage.admin, "writer")
    return stage


def test_all_is_there(stage: WrittenObjects) -> None:
    before = stage.server.store.revision
    assert asked(stage) == Guarding("1.36.2", NAMESPACE, "")
    assert stage.server.store.revision == before and stage.writer.requests == {"GET": 5, "POST": 1}


Change = Callable[[WrittenObjects], object]


def change(resource: str, patch: Object) -> Change:
    return lambda stage: stage.edit(resource, "dds-guard", patch)


def lets(*expressions: str) -> Change:
    conditions = [{"name": f"c{place}", "expression": each} for place, each in enumerate(expressions)]
    return change(POLICIES, {"spec": {"matchConditions": conditions}})


def allocated(stage: WrittenObjects) -> None:
    result = {"request": "device", "driver": "d", "pool": "p", "device": "x"}
    stage.edit(
        "resourceclaims",
        "dds-probe",
        {"status": {"allocation": {"devices": {"results": [result]}}}},
        NAMESPACE,
        "status",
    )


def gone(resource: str, name: str = "dds-guard", namespace: str = "") -> Change:
    return lambda stage: stage.admin.delete(resource, name, namespace)


CASES: dict[str, tuple[str, Change]] = {
    "no policy": ("validatingadmissionpolicies dds-guard is not there", gone(POLICIES)),
    "no binding": ("validatingadmissionpolicybindings dds-guard is not there", gone(BINDINGS)),
    "no ConfigMap": ("configmaps composable-dra/dds-guards is not there", gone("configmaps", "dds-guards", NAMESPACE)),
    "no probe": ("resourceclaims composable-dra/dds-probe is not there", gone("resourceclaims", "dds-probe", NAMESPACE)),
    "the probe in use": ("resourceclaims composable-dra/dds-probe is allocated", allocated),
    "only a warning": ("does not deny", change(BINDINGS, {"spec": {"validationActions": ["Warn"]}})),
    "another policy": ("does not deny", change(BINDINGS, {"spec": {"policyName": "other"}})),
    "another ConfigMap": ("does not deny", change(BINDINGS, {"spec": {"paramRef": {"name": "other"}}})),
    "another namespace": ("does not deny", change(BINDINGS, {"spec": {"paramRef": {"namespace": "other"}}})),
    "another user": (
        "policy dds-guard lets somebody give guarded devices, and we are writer",
        lets("request.userInfo.username != 'somebody' || request.dryRun"),
    ),
    "two users": (
        "lets writer and somebody give",
        lets("request.userInfo.username != 'writer'", 'request.userInfo.username != "somebody"'),
    ),
    "no user": ("lets nobody give", lets("request.dryRun == true")),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_not_so_is_said(stage: WrittenObjects, case: str) -> None:
    words, make = CASES[case]
    make(stage)
    found = asked(stage)
    assert found.version == "1.36.2" and found.guards == "" and words in found.unguarded


def test_who_may_not_look_is_told(stage: WrittenObjects) -> None:
    found = asked(stage, stage.as_user("nobody"))
    assert found.unguarded == ("validatingadmissionpolicies dds-guard may not be read: give this user the role of dds")
    assert asked(stage, namespace="elsewhere").unguarded.startswith("binding dds-guard does not deny")


@pytest.mark.parametrize("code", [409, 429, 503])
def test_a_server_in_trouble_is_asked_again(stage: WrittenObjects, code: int) -> None:
    """Else devices would be given back unguarded until the next start, since it is asked no more once it has answered."""
    found: list[Guarding] = []
    task = ask_guarding(NAMESPACE, found.append)
    answer = stage.writer.ask

    def ask(method: str, path: str, **more: object) -> Answer:
        return Answer(code, b"") if method == "POST" else answer(method, path, **more)  # type: ignore[arg-type]

    stage.writer.ask = ask  # type: ignore[method-assign]
    assert isinstance(stage.carry_out(task.write), Later)
    assert found == [Guarding("", "", "the API server has not answered yet whether they can", unanswered=True)]
    assert task.needs == "observe" and task.replaces


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ({"major": "1", "minor": "36", "gitVersion": "v1.36.2"}, "1.36.2"),
        ({"major": "1", "minor": "37", "gitVersion": "v1.37.1-gke.100"}, "1.37.1"),
        ({"major": "1", "minor": "36"}, "1.36"),
        ({"major": "1", "minor": "34+"}, "1.34"),
        ({"major": "1", "minor": ""}, ""),
        ({"minor": "36"}, ""),
        ([], ""),
    ],
    ids=str,
)
def test_the_release_as_servers_tell_it(stage: WrittenObjects, told: object, version: str) -> None:
    answer = stage.writer.ask

    def ask(method: str, path: str, **more: object) -> Answer:
        return Answer(200, msgspec.json.encode(told)) if path == "/version" else answer(method, path, **more)  # type: ignore[arg-type]

    stage.writer.ask = ask  # type: ignore[method-assign]
    assert asked(stage) == Guarding(version, NAMESPACE, "")


@pytest.mark.parametrize("answer", [Answer(200, b"[]"), Answer(200, b"{"), Answer(400, b"")], ids=str)
def test_no_answer_is_taken_for_one(stage: WrittenObjects, answer: Answer) -> None:
    stage.writer.ask = lambda method, path, **more: answer  # type: ignore[method-assign]
    assert asked(stage).unguarded.startswith("validatingadmissionpolicies dds-guard ")
