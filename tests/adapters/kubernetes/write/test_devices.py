"""Marks, taint rules, last-used stamps and node labels: written on change only, and only on the object that was seen."""

from __future__ import annotations

import pytest

from dds_adapters.kubernetes.write.devices import (
    LabelNode,
    LiftTaint,
    MarkVictim,
    StampUse,
    UnmarkVictim,
    rfc3339,
    rule_name,
)
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete
from tests.support.stage import GPU, RESOURCE, Stage, uid_of

KEY = (GPU, "node0", "gpu-0")
RULES = "devicetaintrules"


def mark(stage: Stage, uid: str, taint: bool = False, device_id: str = "GPU-a") -> MarkVictim:
    return MarkVictim("a", uid, device_id, KEY, taint, "cohdi.io/detach")


def marks(stage: Stage) -> dict[str, str]:
    return dict(stage.get(RESOURCE, "a")["metadata"].get("annotations") or {})


# --- marks -------------------------------------------------------------------------------------------------------------


def test_a_victim_is_marked_once_and_unmarked_once() -> None:
    stage = Stage()
    uid = uid_of(stage.resource("a"))
    assert stage.carry_out(mark(stage, uid)) == Done()
    assert stage.carry_out(mark(stage, uid)) == Done(written=False)
    assert marks(stage) == {"cohdi.io/delete-device": "true"}
    assert stage.carry_out(UnmarkVictim("a", uid)) == Done()
    assert stage.carry_out(UnmarkVictim("a", uid)) == Done(written=False)
    assert marks(stage) == {} and stage.writes == 2
    assert stage.admin.list(RULES) == []


def test_the_taint_is_there_before_the_mark() -> None:
    stage = Stage()
    uid = uid_of(stage.resource("a"))
    written: list[str] = []
    stage.writer.before = lambda method, path: written.append(f"{method} {path}") if method != "GET" else None
    assert stage.carry_out(mark(stage, uid, taint=True)) == Done()
    assert [line.split()[0] for line in written] == ["POST", "PATCH"]
    (rule,) = stage.admin.list(RULES)
    assert rule["metadata"]["name"] == rule_name("a", KEY)
    assert rule["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "dds"}
    assert rule["spec"]["deviceSelector"] == {"driver": GPU, "pool": "node0", "device": "gpu-0"}
    assert (rule["spec"]["taint"]["key"], rule["spec"]["taint"]["effect"]) == ("cohdi.io/detach", "NoSchedule")
    assert stage.carry_out(mark(stage, uid, taint=True)) == Done(written=False)
    assert stage.writes == 2


def test_the_older_version_of_taint_rules_does_as_well() -> None:
    stage = Stage()
    stage.served[RULES] = "resource.k8s.io/v1alpha3"
    assert stage.carry_out(mark(stage, uid_of(stage.resource("a")), taint=True)) == Done()
    assert len(stage.admin.list(RULES)) == 1


def test_a_mark_whose_taint_is_there_already_is_only_a_mark() -> None:
    stage = Stage()
    uid = uid_of(stage.resource("a"))
    assert stage.carry_out(mark(stage, uid, taint=True)) == Done()
    assert stage.carry_out(UnmarkVictim("a", uid)) == Done()
    assert stage.carry_out(mark(stage, uid, taint=True)) == Done()
    assert len(stage.admin.list(RULES)) == 1 and stage.writes == 4


def test_two_who_make_the_rule_at_once_make_one() -> None:
    stage = Stage()
    uid = uid_of(stage.resource("a"))
    other = stage.as_user("other", "system:masters")
    stage.meanwhile("POST", lambda: mark(stage, uid, taint=True).carry_out(other, stage.versions))
    assert stage.carry_out(mark(stage, uid, taint=True)) == Done(written=False)
    assert len(stage.admin.list(RULES)) == 1


def test_a_rule_of_that_name_for_something_else_is_refused() -> None:
    stage = Stage()
    uid = uid_of(stage.resource("a"))
    assert stage.carry_out(mark(stage, uid, taint=True)) == Done()
    stage.carry_out(UnmarkVictim("a", uid))
    name = rule_name("a", KEY)
    stage.edit(RULES, name, {"metadata": {"labels": None}})
    result = stage.carry_out(mark(stage, uid, taint=True))
    assert isinstance(result, Declined) and result.code == 409
    assert marks(stage) == {}


def test_a_rule_of_ours_for_another_device_is_refused() -> None:
    stage = Stage()
    name = rule_name("a", KEY)
    selector = {"driver": GPU, "pool": "node0", "device": "gpu-9"}
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "dds"}},
        "spec": {"deviceSelector": selector, "taint": {"key": "cohdi.io/detach", "effect": "NoSchedule"}},
    }
    stage.admin.create(RULES, rule)
    result = stage.carry_out(mark(stage, uid_of(stage.resource("a")), taint=True))
    assert isinstance(result, Declined) and result.code == 409


def test_without_rules_in_the_api_a_taint_that_was_decided_on_is_obsolete() -> None:
    stage = Stage()
    uid = uid_of(stage.resource("a"))
    del stage.served[RULES]
    assert isinstance(stage.carry_out(mark(stage, uid, taint=True)), Obsolete)
    assert stage.carry_out(mark(stage, uid)) == Done()
    assert isinstance(stage.carry_out(LiftTaint("r", "u")), Obsolete)


@pytest.mark.parametrize("state", ["Attaching", "Detaching"])
def test_a_device_that_is_on_its_way_is_not_marked(state: str) -> None:
    stage = Stage()
    uid = uid_of(stage.resource("a", state=state))
    assert isinstance(stage.carry_out(mark(stage, uid, taint=True)), Obsolete)
    assert stage.writes == 0


def test_a_device_that_is_leaving_is_not_marked() -> None:
    stage = Stage()
    uid = uid_of(stage.resource("a"))
    stage.leaving(RESOURCE, "a")
    assert isinstance(stage.carry_out(mark(stage, uid, taint=True)), Obsolete)
    assert stage.writes == 0


def test_a_resource_with_another_device_or_made_anew_is_not_marked() -> None:
    stage = Stage()
    uid = uid_of(stage.resource("a"))
    assert isinstance(stage.carry_out(mark(stage, uid, device_id="GPU-b")), Obsolete)
    stage.admin.delete(RESOURCE, "a")
    assert isinstance(stage.carry_out(mark(stage, uid)), Obsolete)
    stage.resource("a")
    assert isinstance(stage.carry_out(mark(stage, uid)), Obsolete)
    assert isinstance(stage.carry_out(UnmarkVictim("a", uid)), Obsolete)
    assert stage.writes == 0


def test_a_victim_that_begins_to_go_under_the_mark_is_seen() -> None:
    stage = Stage()
    uid = uid_of(stage.resource("a"))
    stage.meanwhile(
        "PATCH", lambda: stage.edit(RESOURCE, "a", {"status": {"state": "Detaching"}}, subresource="status")
    )
    assert isinstance(stage.carry_out(mark(stage, uid)), Obsolete)
    assert marks(stage) == {}


# --- taints ------------------------------------------------------------------------------------------------------------


def test_a_taint_is_lifted_once_and_only_the_very_rule() -> None:
    stage = Stage()
    uid, name = uid_of(stage.resource("a")), rule_name("a", KEY)
    assert stage.carry_out(mark(stage, uid, taint=True)) == Done()
    assert stage.carry_out(LiftTaint(name, "another uid")) == Done(written=False)
    lift = LiftTaint(name, uid_of(stage.get(RULES, name)))
    assert stage.carry_out(lift) == Done()
    assert stage.carry_out(lift) == Done(written=False)
    assert stage.admin.list(RULES) == []


def test_a_rule_that_somebody_made_their_own_stays() -> None:
    stage = Stage()
    uid, name = uid_of(stage.resource("a")), rule_name("a", KEY)
    assert stage.carry_out(mark(stage, uid, taint=True)) == Done()
    lift = LiftTaint(name, uid_of(stage.get(RULES, name)))
    stage.edit(RULES, name, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "somebody"}}})
    assert isinstance(stage.carry_out(lift), Obsolete)
    assert len(stage.admin.list(RULES)) == 1


def test_a_rule_that_was_replaced_under_the_delete_stays() -> None:
    stage = Stage()
    uid, name = uid_of(stage.resource("a")), rule_name("a", KEY)
    assert stage.carry_out(mark(stage, uid, taint=True)) == Done()
    lift = LiftTaint(name, uid_of(stage.get(RULES, name)))
    other = stage.as_user("other", "system:masters")

    def replaced() -> None:
        stage.admin.delete(RULES, name)
        assert mark(stage, uid, taint=True).carry_out(other, stage.versions) == Done()

    stage.meanwhile("DELETE", replaced)
    assert stage.carry_out(lift) == Done(written=False)
    assert len(stage.admin.list(RULES)) == 1


def test_a_rule_that_is_being_deleted_is_waited_for() -> None:
    stage = Stage()
    uid, name = uid_of(stage.resource("a")), rule_name("a", KEY)
    assert stage.carry_out(mark(stage, uid, taint=True)) == Done()
    stage.edit(RULES, name, {"metadata": {"finalizers": ["example.com/wait"]}})
    stage.admin.delete(RULES, name)
    assert isinstance(stage.carry_out(mark(stage, uid, taint=True)), Later)


def test_rule_names_are_stable_apart_and_short() -> None:
    long = rule_name("gpu-" + "x" * 300, KEY)
    assert len(long) <= 80 and long == rule_name("gpu-" + "x" * 300, KEY)
    assert rule_name("a", KEY) != rule_name("a", (GPU, "node0", "gpu-1")) != rule_name("b", KEY)


# --- stamps and labels -------------------------------------------------------------------------------------------------


def test_a_use_is_stamped_once_and_never_turned_back() -> None:
    stage = Stage()
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
    stage = Stage()
    uid = uid_of(stage.node("node0", fabric="1", old="true"))
    work = LabelNode("node0", uid, (("cohdi.io/fabric", "1"), ("cohdi.io/new", "true"), ("cohdi.io/old", None)))
    assert stage.carry_out(work) == Done()
    assert stage.carry_out(work) == Done(written=False)
    assert stage.get("nodes", "node0")["metadata"]["labels"] == {"cohdi.io/fabric": "1", "cohdi.io/new": "true"}
    assert stage.writes == 1


def test_a_label_set_by_others_under_the_write_is_kept() -> None:
    stage = Stage()
    uid = uid_of(stage.node("node0"))
    theirs = {"metadata": {"labels": {"theirs": "1"}}}
    stage.meanwhile("PATCH", lambda: stage.edit("nodes", "node0", theirs))
    assert stage.carry_out(LabelNode("node0", uid, (("cohdi.io/new", "true"),))) == Done()
    assert stage.get("nodes", "node0")["metadata"]["labels"] == {"theirs": "1", "cohdi.io/new": "true"}


def test_a_node_that_joined_anew_is_another() -> None:
    stage = Stage()
    uid = uid_of(stage.node("node0"))
    stage.admin.delete("nodes", "node0")
    stage.node("node0")
    assert isinstance(stage.carry_out(LabelNode("node0", uid, (("cohdi.io/new", "true"),))), Obsolete)
