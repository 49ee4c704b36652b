"""Marks, last-used stamps and node labels: written on change only, and only on the object that was seen; and the end of taint
rules."""

from __future__ import annotations

import pytest

from dds_adapters.kubernetes.watch.watch_spec import VERSIONS
from dds_adapters.kubernetes.write.devices import (
    LabelNode,
    LiftTaint,
    MarkVictim,
    StampUse,
    UnmarkVictim,
    rfc3339,
)
from dds_adapters.kubernetes.write.tasks import Done, Obsolete
from tests.support.written_objects import RESOURCE, WrittenObjects, uid_of

RULES = "devicetaintrules"


def mark(uid: str, device_id: str = "GPU-a") -> MarkVictim:
    return MarkVictim("a", uid, device_id)


def marks(stage: WrittenObjects) -> dict[str, str]:
    return dict(stage.get(RESOURCE, "a")["metadata"].get("annotations") or {})


# --- marks -------------------------------------------------------------------------------------------------------------


def test_what_hangs_is_marked_as_long_as_it_has_no_device() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.resource("a", state="Attaching"))
    assert stage.carry_out(mark(uid, "")) == Done()
    assert marks(stage) == {"cohdi.io/delete-device": "true"}
    assert isinstance(stage.carry_out(mark(uid)), Obsolete)


def test_nor_is_one_whose_device_came() -> None:
    stage = WrittenObjects()
    assert isinstance(stage.carry_out(mark(uid_of(stage.resource("a")), "")), Obsolete)


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


# --- taint rules of an older dds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS[RULES])
def test_a_rule_is_deleted_once_and_only_the_very_one(version: str) -> None:
    stage = WrittenObjects()
    stage.served[RULES] = version
    lift = LiftTaint("r", uid_of(stage.rule("r")))
    assert stage.carry_out(LiftTaint("r", "another uid")) == Done(written=False)
    assert stage.carry_out(lift) == Done()
    assert stage.carry_out(lift) == Done(written=False)
    assert stage.admin.list(RULES) == [] and stage.writes == 1


def test_a_rule_that_is_not_served_any_more_needs_no_deletion() -> None:
    stage = WrittenObjects()
    lift = LiftTaint("r", uid_of(stage.rule("r")))
    del stage.served[RULES]
    assert isinstance(stage.carry_out(lift), Obsolete)
    assert stage.writer.requests == {}


def test_a_rule_that_somebody_made_their_own_stays() -> None:
    stage = WrittenObjects()
    lift = LiftTaint("r", uid_of(stage.rule("r")))
    stage.edit(RULES, "r", {"metadata": {"labels": {"app.kubernetes.io/managed-by": "somebody"}}})
    assert isinstance(stage.carry_out(lift), Obsolete)
    assert len(stage.admin.list(RULES)) == 1


def test_a_rule_that_was_replaced_under_the_delete_stays() -> None:
    stage = WrittenObjects()
    lift = LiftTaint("r", uid_of(stage.rule("r")))

    def replaced() -> None:
        stage.admin.delete(RULES, "r")
        stage.rule("r")

    stage.meanwhile("DELETE", replaced)
    assert stage.carry_out(lift) == Done(written=False)
    assert len(stage.admin.list(RULES)) == 1


def test_a_rule_that_is_being_deleted_is_not_deleted_again() -> None:
    stage = WrittenObjects()
    lift = LiftTaint("r", uid_of(stage.rule("r")))
    stage.leaving(RULES, "r")
    assert stage.carry_out(lift) == Done(written=False)
    assert stage.writes == 0


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
    work = LabelNode("node0", uid, (("cohdi.io/fabric", "1"), ("cohdi.io/new", "true"), ("cohdi.io/old", None)))
    assert stage.carry_out(work) == Done()
    assert stage.carry_out(work) == Done(written=False)
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
