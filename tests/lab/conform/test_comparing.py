"""What counts as a difference between two answers, and what does not."""

from __future__ import annotations

from typing import Any

from dds_lab.conform.asking import Report
from dds_lab.conform.comparing import Difference, Side, differences, timing, wording
from dds_lab.conform.questions import (
    KNOWN,
    REWORDED,
    known,
    questions,
    questions_after_restart,
    questions_of_exchange,
    table,
)
from dds_lab.conform.transport import Answer

UID = "691c6ce6-8af3-4f60-8441-fa0878159098"
OTHER = "7dc1af19-efcd-4c6e-8bf5-51fad5a06e9a"


def claim(uid: str = UID, version: str = "5", **more: Any) -> dict[str, Any]:
    meta = {"name": "c", "uid": uid, "resourceVersion": version, "creationTimestamp": "2026-11-21T02:25:52Z"}
    return {"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "metadata": meta, **more}


def differ(recorded: Answer, found: Answer) -> list[str]:
    return [each.path for each in differences("q", Side().plain(recorded), Side().plain(found))]


def test_what_each_server_makes_up_is_no_difference() -> None:
    found = claim(OTHER, "977")
    found["metadata"]["creationTimestamp"] = "2031-01-01T00:00:00Z"
    assert differ(Answer(200, claim()), Answer(200, found)) == []


def test_that_it_is_there_is_compared() -> None:
    found = claim()
    del found["metadata"]["resourceVersion"]
    assert differ(Answer(200, claim()), Answer(200, found)) == ["body.metadata.resourceVersion"]


def test_codes_fields_and_types_are_compared() -> None:
    assert differ(Answer(200, claim()), Answer(201, claim())) == ["code"]
    assert differ(Answer(200, claim(status={})), Answer(200, claim())) == ["body.status"]
    assert differ(Answer(200, claim(spec={"n": 1})), Answer(200, claim(spec={"n": True}))) == ["body.spec.n"]
    assert differ(Answer(200, claim(spec={"a": [1, 2]})), Answer(200, claim(spec={"a": [1]}))) == ["body.spec.a[1]"]
    assert differ(Answer(404, "404 page not found\n"), Answer(404, "gone")) == ["body"]


def test_a_write_that_changes_nothing_shows_by_its_version() -> None:
    recorded, found = Side(), Side()
    for side in (recorded, found):
        side.plain(Answer(200, claim()))
    same, new = recorded.plain(Answer(200, claim())), found.plain(Answer(200, claim(version="6")))
    assert [each.path for each in differences("q", same, new)] == ["body.metadata.resourceVersion"]


def test_words_are_kept_apart() -> None:
    def status(message: str, field: str = "spec") -> Answer:
        causes = [{"reason": "FieldValueInvalid", "message": message, "field": field}]
        return Answer(422, {"kind": "Status", "message": message, "details": {"causes": causes}, "code": 422})

    assert differ(status("so"), status("or so")) == []
    assert differ(status("so"), status("or so", "status")) == ["body.details.causes[0].field"]
    assert [each.path for each in wording("q", status("so"), status("or so"))] == ["body.message"]
    assert wording("q", status("so"), status("so")) == []
    assert wording("q", status(f"uid {UID} at 7"), status(f"uid {OTHER} at 88")) == []


def test_a_warning_is_told_or_not() -> None:
    assert differ(Answer(200, {}, "299 - x"), Answer(200, {})) == ["warning"]
    assert differ(Answer(200, {}, "299 - x"), Answer(200, {}, "299 - y")) == []


def test_generation_counts_for_custom_kinds_alone() -> None:
    def of(api_version: str, generation: int) -> Answer:
        return Answer(200, {"apiVersion": api_version, "metadata": {"generation": generation}})

    assert differ(of("v1", 1), of("v1", 2)) == []
    assert differ(of("cro.hpsys.ibm.ie.com/v1alpha1", 1), of("cro.hpsys.ibm.ie.com/v1alpha1", 2)) == [
        "body.metadata.generation"
    ]


def test_owners_of_fields_are_compared_without_time_and_order() -> None:
    def owned(*entries: tuple[str, str]) -> Answer:
        return Answer(200, {"metadata": {"managedFields": [{"manager": m, "time": t} for m, t in entries]}})

    assert differ(owned(("a", "1"), ("b", "2")), owned(("b", "7"), ("a", "9"))) == []
    assert differ(owned(("a", "1")), owned(("b", "1"))) == ["body.metadata.managedFields[0].manager"]


def test_what_is_missing_in_a_list_of_named_ones_moves_nothing_else() -> None:
    def groups(*names: str) -> Answer:
        return Answer(200, {"groups": [{"name": name} for name in names]})

    assert differ(groups("a", "b", "c"), groups("a", "c")) == ["body.groups[b]"]
    assert differ(groups("a", "b"), groups("b", "a")) == ["body.groups (order)"]


def test_events_are_compared_in_their_order() -> None:
    def events(*types: str) -> Answer:
        return Answer(200, events=[{"type": each, "object": claim()} for each in types], closed_after_s=1.0)

    assert differ(events("ADDED", "DELETED"), events("ADDED", "MODIFIED")) == ["events[1].type"]
    assert differ(events("ADDED"), events("ADDED", "BOOKMARK")) == ["events[1]"]


def test_a_watch_must_end_about_when_it_did() -> None:
    early, late = Answer(200, events=[], closed_after_s=0.1), Answer(200, events=[], closed_after_s=3.0)
    assert [each.path for each in timing("q", early, late)] == ["closed_after_s"]
    assert timing("q", late, Answer(200, events=[], closed_after_s=3.4)) == []


def test_known_differences_name_questions_that_there_are() -> None:
    asked = {each.id for each in (*questions(), *questions_after_restart(), *questions_of_exchange())}
    assert {entry.question for entry in KNOWN} | set(REWORDED) <= asked
    for entry in KNOWN:
        assert all(known(Difference(entry.question, place, 1, 2)) is entry for place in entry.places)
        assert entry.reason in table()
    assert known(Difference("api-groups", "body.groups[resource.k8s.io]", 1, 2)) is None


def test_an_exception_that_shows_no_longer_is_told() -> None:
    report = Report(asked=["api-groups"])
    assert "api-groups: body.groups[policy]" in report.outlived


def test_questions_can_move_to_another_namespace() -> None:
    moved = questions("elsewhere")
    assert len(moved) == 124
    assert not any("namespaces/conf" in each.ask.path for each in moved)
    made = next(each for each in moved if each.id == "ns")
    assert made.ask.body == {"metadata": {"name": "elsewhere"}}
    assert made.creates == ("/api/v1/namespaces/elsewhere",)
    assert made.answer.body["metadata"]["labels"] == {"kubernetes.io/metadata.name": "elsewhere"}
