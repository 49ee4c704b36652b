"""Marks, last-used stamps and node labels: written on change only, and only on the object that was seen; looks that the operator
is asked for; and the end of taint rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dds_adapters.kubernetes.cluster import Answer, Unreachable
from dds_adapters.kubernetes.write.devices import (
    LabelNode,
    MarkVictim,
    NudgeOperator,
    StampUse,
    UnmarkVictim,
    rfc3339,
)
from dds_adapters.kubernetes.write.live_object import MERGE
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete
from dds_lab.api.requests import Call
from dds_lab.api.status import ApiError, Cause
from tests.support.written_objects import RESOURCE, WrittenObjects, uid_of

RULES = "devicetaintrules"


def mark(uid: str, device_id: str = "GPU-a") -> MarkVictim:
    return MarkVictim("a", uid, device_id)


def marks(stage: WrittenObjects) -> dict[str, str]:
    return dict(stage.get(RESOURCE, "a")["metadata"].get("annotations") or {})


# --- marks -------------------------------------------------------------------------------------------------------------


def test_what_hangs_without_a_device_is_not_marked() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.resource("a", state="Attaching"))
    assert isinstance(stage.carry_out(mark(uid)), Obsolete)
    assert marks(stage) == {}


def test_a_victim_is_marked_once_and_unmarked_once() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.resource("a"))
    assert stage.carry_out(mark(uid)) == Done()
    assert stage.carry_out(mark(uid)) == Done(written=False)
    assert marks(stage) == {"cohdi.io/delete-device": "true"}
    assert stage.carry_out(UnmarkVictim("a", uid)) == Done()
    assert stage.carry_out(UnmarkVictim("a", uid)) == Done(written=False)
    assert marks(stage) == {} and stage.writes == 2


@pytest.mark.parametrize("state", ["Attaching", "Detaching"])
def test_a_device_that_is_on_its_way_is_not_marked(state: str) -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.resource("a", state=state))
    assert isinstance(stage.carry_out(mark(uid)), Obsolete)
    assert stage.writes == 0


def test_a_device_that_is_leaving_is_not_marked() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.resource("a"))
    stage.leaving(RESOURCE, "a")
    assert isinstance(stage.carry_out(mark(uid)), Obsolete)
    assert stage.writes == 0


def test_a_resource_with_another_device_or_made_anew_is_not_marked() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.resource("a"))
    assert isinstance(stage.carry_out(mark(uid, "GPU-b")), Obsolete)
    stage.admin.delete(RESOURCE, "a")
    assert isinstance(stage.carry_out(mark(uid)), Obsolete)
    stage.resource("a")
    assert isinstance(stage.carry_out(mark(uid)), Obsolete)
    assert isinstance(stage.carry_out(UnmarkVictim("a", uid)), Obsolete)
    assert stage.writes == 0


def test_a_victim_that_begins_to_go_under_the_mark_is_seen() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.resource("a"))
    stage.meanwhile(
        "PATCH", lambda: stage.edit(RESOURCE, "a", {"status": {"state": "Detaching"}}, subresource="status")
    )
    assert isinstance(stage.carry_out(mark(uid)), Obsolete)
    assert marks(stage) == {}


# --- the operator's looks ----------------------------------------------------------------------------------------------

LOOK = "dds.cohdi.io/look"
WHEN = "2026-11-21T02:11:04Z"


def look(uid: str, state: str = "Attaching", *, named: bool = False, when: str = WHEN) -> NudgeOperator:
    return NudgeOperator("a", uid, when, state, named)


def attaching(stage: WrittenObjects, **status: str) -> str:
    """A device on its way, with `device_id` if it has come."""
    uid = uid_of(stage.resource("a", state="Attaching"))
    if status:
        stage.edit(RESOURCE, "a", {"status": status}, subresource="status")
    return uid


def without_look(stage: WrittenObjects) -> dict[str, Any]:
    """The resource as it is beside the annotation, and what the server counts and notes itself."""
    found = stage.get(RESOURCE, "a")
    meta = {key: value for key, value in found["metadata"].items() if key not in ("resourceVersion", "managedFields")}
    rest = {key: value for key, value in (meta.pop("annotations", None) or {}).items() if key != LOOK}
    return {**found, "metadata": {**meta, "annotations": rest}}


def test_a_look_writes_its_annotation_and_nothing_else() -> None:
    stage, sent = WrittenObjects(), []
    uid = attaching(stage)
    stage.edit(RESOURCE, "a", {"metadata": {"annotations": {"theirs": "1"}, "labels": {"theirs": "2"}}})
    before, version = without_look(stage), stage.get(RESOURCE, "a")["metadata"]["resourceVersion"]
    send = stage.writer.ask

    def ask(method: str, path: str, **more: Any) -> Answer:
        if method != "GET":
            sent.append((method, path.rpartition("/")[2], more["content_type"], json.loads(more["body"])))
        return send(method, path, **more)

    stage.writer.ask = ask  # type: ignore[method-assign]
    assert stage.carry_out(look(uid)) == Done()
    meta = {"annotations": {LOOK: WHEN}, "uid": uid, "resourceVersion": version}
    assert sent == [("PATCH", "a", MERGE, {"metadata": meta})]
    assert without_look(stage) == before and marks(stage) == {"theirs": "1", LOOK: WHEN}


def test_each_look_changes_the_object_and_one_that_is_sent_twice_changes_it_once() -> None:
    """Only a change makes the operator look."""
    stage = WrittenObjects()
    uid = attaching(stage)
    versions = [stage.get(RESOURCE, "a")["metadata"]["resourceVersion"]]
    for when in (WHEN, WHEN, "2026-11-21T02:11:06Z"):
        assert isinstance(stage.carry_out(look(uid, when=when)), Done)
        versions.append(stage.get(RESOURCE, "a")["metadata"]["resourceVersion"])
    first, second, again, third = versions
    assert first != second == again != third
    assert marks(stage) == {LOOK: "2026-11-21T02:11:06Z"}


@pytest.mark.parametrize(
    ("named", "status"),
    [
        (False, {"state": "Online", "device_id": "GPU-a"}),
        (False, {"device_id": "GPU-a"}),
        (False, {"error": "no free resource"}),
        (False, {"state": "Detaching"}),
        (False, {"state": ""}),
        (True, {"state": "Online", "device_id": "GPU-a"}),
        (True, {"state": "Detaching", "device_id": "GPU-a"}),
        (True, {"device_id": ""}),
    ],
)
@pytest.mark.parametrize("late", [False, True], ids=["before it is read", "between reading and writing"])
def test_what_has_moved_on_needs_no_look(named: bool, status: dict[str, str], late: bool) -> None:
    stage = WrittenObjects()
    uid = attaching(stage, device_id="GPU-a" if named else "")

    def moves_on() -> None:
        stage.edit(RESOURCE, "a", {"status": status}, subresource="status")

    if late:
        stage.meanwhile("PATCH", moves_on)
    else:
        moves_on()
    assert stage.carry_out(look(uid, named=named)) == Done(written=False)
    assert marks(stage) == {} and stage.writes == late


@pytest.mark.parametrize(("status", "done"), [({}, True), ({"device_id": ""}, False), ({"state": "Deleting"}, False)])
def test_one_that_leaves_is_looked_at_while_it_has_its_device(status: dict[str, str], done: bool) -> None:
    stage = WrittenObjects()
    uid = attaching(stage, state="Detaching", device_id="GPU-a")
    stage.leaving(RESOURCE, "a")
    stage.edit(RESOURCE, "a", {"status": status}, subresource="status")
    assert stage.carry_out(look(uid, "Detaching", named=True)) == Done(written=done)
    assert marks(stage) == ({LOOK: WHEN} if done else {})


def test_one_that_is_gone_or_made_anew_is_not_looked_at() -> None:
    stage = WrittenObjects()
    uid = attaching(stage)
    stage.admin.delete(RESOURCE, "a")
    assert isinstance(stage.carry_out(look(uid)), Obsolete)
    attaching(stage)
    assert isinstance(stage.carry_out(look(uid)), Obsolete)
    assert marks(stage) == {} and stage.writes == 0


def test_one_that_is_made_anew_under_the_write_is_not_looked_at() -> None:
    stage = WrittenObjects()
    uid = attaching(stage)

    def replaced() -> None:
        stage.admin.delete(RESOURCE, "a")
        attaching(stage)

    stage.meanwhile("PATCH", replaced)
    assert stage.carry_out(look(uid)) == Done(written=False)
    assert marks(stage) == {}


def test_one_that_others_change_meanwhile_is_looked_at_for_that() -> None:
    stage = WrittenObjects()
    uid = attaching(stage)
    theirs = {"metadata": {"annotations": {"theirs": "1"}}}
    stage.meanwhile("PATCH", lambda: stage.edit(RESOURCE, "a", theirs))
    assert stage.carry_out(look(uid)) == Done(written=False)
    assert stage.writer.requests == {"GET": 1, "PATCH": 1}
    assert marks(stage) == {"theirs": "1"}


def test_a_look_without_the_right_to_write_is_declined() -> None:
    stage = WrittenObjects()
    uid = attaching(stage)
    rules = [{"apiGroups": ["cro.hpsys.ibm.ie.com"], "resources": [RESOURCE], "verbs": ["get"]}]
    reader = stage.grant("reader", {"metadata": {"name": "reader"}, "rules": rules})
    result = stage.carry_out(look(uid), reader)
    assert isinstance(result, Declined) and (result.code, result.reason) == (403, "Forbidden")
    assert "patch" in result.text and RESOURCE in result.text
    assert reader.requests == {"GET": 1, "PATCH": 1} and marks(stage) == {}


def test_the_refusal_of_a_look_comes_back_in_its_words_without_secrets() -> None:
    stage = WrittenObjects()
    uid = attaching(stage)

    def judge(call: Call, old: Any, new: Any) -> list[Cause] | None:
        return [Cause("Forbidden", "no annotations here; token=s3cr3t-t0ken", "")] if old else None

    stage.server.admission.append(judge)
    result = stage.carry_out(look(uid))
    assert isinstance(result, Declined) and result.code in (403, 422)
    assert "no annotations here" in result.text and "s3cr3t" not in result.text
    assert marks(stage) == {}


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_look_that_the_server_cannot_write_now_is_left_for_later(code: int) -> None:
    stage = WrittenObjects()
    uid = attaching(stage)

    def overloaded(call: Call, old: Any, new: Any) -> None:
        raise ApiError(code, "Trouble", "no")

    stage.server.admission.append(overloaded)
    assert isinstance(stage.carry_out(look(uid)), Later)


def test_a_look_whose_answer_is_lost_is_one() -> None:
    stage = WrittenObjects()
    uid = attaching(stage)

    def lost(method: str, path: str) -> None:
        if method == "PATCH":
            raise Unreachable("the connection broke", where=path)

    stage.writer.after = lost
    assert isinstance(stage.carry_out(look(uid)), Later)
    version, stage.writer.after = stage.get(RESOURCE, "a")["metadata"]["resourceVersion"], None
    assert isinstance(stage.carry_out(look(uid)), Done)
    assert marks(stage) == {LOOK: WHEN} and stage.get(RESOURCE, "a")["metadata"]["resourceVersion"] == version


# --- stamps and labels -------------------------------------------------------------------------------------------------


def test_a_use_is_stamped_once_and_never_turned_back() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.resource("a"))
    assert stage.carry_out(StampUse("a", uid, "2026-01-02T03:04:05Z")) == Done()
    assert stage.carry_out(StampUse("a", uid, "2026-01-02T03:04:05Z")) == Done(written=False)
    assert stage.carry_out(StampUse("a", uid, "2026-01-02T03:00:00Z")) == Done(written=False)
    assert marks(stage) == {"cohdi.io/last-used-time": "2026-01-02T03:04:05Z"}
    stage.edit(RESOURCE, "a", {"metadata": {"annotations": {"cohdi.io/last-used-time": "2026-01-02T04:04:05+02:00"}}})
    assert stage.carry_out(StampUse("a", uid, "2026-01-02T03:04:05Z")) == Done()
    stage.edit(RESOURCE, "a", {"metadata": {"annotations": {"cohdi.io/last-used-time": "yesterday"}}})
    assert stage.carry_out(StampUse("a", uid, "2026-01-02T03:04:05Z")) == Done()


def test_instants_are_written_as_the_api_wants_them() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00Z"
    assert rfc3339(1_500_000, precise=True) == "1970-01-01T00:00:01.500000Z"


def test_only_labels_that_differ_are_written() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.node("node0", fabric="1", old="true"))
    write = LabelNode("node0", uid, (("cohdi.io/fabric", "1"), ("cohdi.io/new", "true"), ("cohdi.io/old", None)))
    assert stage.carry_out(write) == Done()
    assert stage.carry_out(write) == Done(written=False)
    assert stage.get("nodes", "node0")["metadata"]["labels"] == {"cohdi.io/fabric": "1", "cohdi.io/new": "true"}
    assert stage.writes == 1


def test_a_label_set_by_others_under_the_write_is_kept() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.node("node0"))
    theirs = {"metadata": {"labels": {"theirs": "1"}}}
    stage.meanwhile("PATCH", lambda: stage.edit("nodes", "node0", theirs))
    assert stage.carry_out(LabelNode("node0", uid, (("cohdi.io/new", "true"),))) == Done()
    assert stage.get("nodes", "node0")["metadata"]["labels"] == {"theirs": "1", "cohdi.io/new": "true"}


def test_a_node_that_joined_anew_is_another() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.node("node0"))
    stage.admin.delete("nodes", "node0")
    stage.node("node0")
    assert isinstance(stage.carry_out(LabelNode("node0", uid, (("cohdi.io/new", "true"),))), Obsolete)
