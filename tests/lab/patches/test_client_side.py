"""From kubectl's older apply, which keeps an annotation, to server-side apply."""

import json
from typing import Any

import pytest

from dds_lab.api.ownership.managers import LAST_APPLIED
from dds_lab.client import ApiError, Client, Object
from tests.lab.server.rooms import Room


def config_map(**data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}


def annotated(text: str, **data: str) -> Object:
    body = config_map(**data)
    return {**body, "metadata": {"name": "m", "annotations": {LAST_APPLIED: text}}}


@pytest.fixture
def room() -> Room:
    """Somewhere kubectl applied `a: 1, b: 2` in its older way; then somebody set b to 3."""
    room = Room()
    older = Client(room.server, room.time, "x", manager="kubectl-client-side-apply")
    older.create("configmaps", annotated(json.dumps(config_map(a="1", b="2")), a="1", b="2"), "default")
    other = Client(room.server, room.time, "y", manager="somebody")
    other.patch("configmaps", "m", {"data": {"b": "3"}}, "default")
    return room


def apply(room: Room, body: Object, manager: str = "kubectl", force: bool = False) -> Any:
    client = Client(room.server, room.time, "z", manager=manager)
    return client.patch("configmaps", "m", body, "default", "apply", force=force)


def test_what_it_set_and_nobody_changed_is_taken_over(room: Room) -> None:
    made = apply(room, config_map(a="9"))
    assert made["data"] == {"a": "9", "b": "3"}


def test_what_others_changed_is_not(room: Room) -> None:
    with pytest.raises(ApiError) as refused:
        apply(room, config_map(a="9", b="9"))
    assert [(cause["field"], "somebody" in cause["message"]) for cause in refused.value.causes] == [(".data.b", True)]


def test_other_managers_get_nothing_of_it(room: Room) -> None:
    before = room.admin.get("configmaps", "m", "default")["metadata"]["annotations"]
    with pytest.raises(ApiError) as refused:
        apply(room, config_map(a="9"), "dds")
    assert [cause["field"] for cause in refused.value.causes] == [".data.a"]
    assert apply(room, config_map(a="9"), "dds", force=True)["metadata"]["annotations"] == before


def test_the_annotation_follows_where_there_is_one(room: Room) -> None:
    made = apply(room, annotated("whatever", a="1", c="4"), force=True)
    assert json.loads(made["metadata"]["annotations"][LAST_APPLIED]) == config_map(a="1", c="4")
    version = made["metadata"]["resourceVersion"]
    again = apply(room, annotated("whatever", a="1", c="4"), force=True)
    assert again["metadata"]["resourceVersion"] == version
    room.admin.delete("configmaps", "m", "default")
    assert "annotations" not in apply(room, config_map(a="1"))["metadata"]


def test_an_annotation_that_gets_too_large_is_given_up(room: Room) -> None:
    made = apply(room, config_map(a="1", c="x" * 256 * 1024))
    assert LAST_APPLIED not in made["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    "text",
    [
        "rubbish", "[]", "{}", "1", json.dumps({**config_map(a="1"), "apiVersion": "v2"}),
        json.dumps({**config_map(), "data": 5}), '{"apiVersion":"v1","data":' + '{"a":' * 500 + "1" + "}" * 501,
    ],
)  # fmt: skip
def test_an_annotation_that_says_nothing_excuses_nothing(room: Room, text: str) -> None:
    room.admin.patch("configmaps", "m", {"metadata": {"annotations": {LAST_APPLIED: text}}}, "default")
    with pytest.raises(ApiError) as refused:
        apply(room, config_map(a="9"))
    assert refused.value.code == 409
