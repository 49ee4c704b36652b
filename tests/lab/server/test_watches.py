"""Watches: from where, through which selector, with which marks, and how they end."""

import json

import pytest

from tests.lab.server.rooms import ALL_CLAIMS, CLAIMS, SECOND, START, Room, events


@pytest.fixture
def room() -> Room:
    room = Room()
    room.claim("a", labels={"app": "x"})
    room.claim("b")
    return room


def version(room: Room) -> str:
    return str(room.server.store.revision)


def test_a_write_that_changes_nothing_is_no_event(room: Room) -> None:
    stream = room.stream(resourceVersion=version(room))
    before = room.admin.get("resourceclaims", "a", "default")
    room.label("a", app="x")
    room.admin.update("resourceclaims", before)
    assert events(stream) == []
    assert room.admin.get("resourceclaims", "a", "default") is before


def test_of_one_namespace_and_of_one_name(room: Room) -> None:
    room.admin.create("namespaces", {"metadata": {"name": "other"}})
    then = version(room)
    everywhere = room.stream(ALL_CLAIMS, resourceVersion=then)
    here = room.stream(resourceVersion=then)
    one = room.stream(resourceVersion=then, fieldSelector="metadata.name=b")
    room.claim("b", "other")
    room.label("b", app="x")
    room.label("a", app="z")
    assert events(everywhere) == [("ADDED", "b"), ("MODIFIED", "b"), ("MODIFIED", "a")]
    assert events(here) == [("MODIFIED", "b"), ("MODIFIED", "a")]
    assert events(one) == [("MODIFIED", "b")]


def test_a_bookmark_carries_an_object_that_nobody_filled_in(room: Room) -> None:
    room.with_definitions()
    for path, spec in (
        (CLAIMS, {"devices": {"requests": None}}),
        ("/apis/coordination.k8s.io/v1/leases", {}),
        ("/apis/cro.hpsys.ibm.ie.com/v1alpha1/composableresources", None),
    ):
        options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        marker = json.loads(room.stream(path, **options).take()[-1])["object"]
        assert marker.get("spec") == spec
        assert set(marker["metadata"]) == {"resourceVersion", "annotations"}


def test_without_initial_events_only_what_comes(room: Room) -> None:
    stream = room.stream(sendInitialEvents="false", resourceVersionMatch="NotOlderThan")
    assert events(stream) == []
    room.label("a", app="y")
    assert events(stream) == [("MODIFIED", "a")]


def test_bookmarks_come_every_minute_and_before_the_end(room: Room) -> None:
    stream = room.stream(resourceVersion=version(room), allowWatchBookmarks="true", timeoutSeconds="130")
    seen = []
    while (due := stream.due) is not None:
        room.time.run(due)
        stream.tick()
        seen.append(((room.time.now() - START) // SECOND, [type for type, _ in events(stream)]))
    assert seen == [(60, ["BOOKMARK"]), (120, ["BOOKMARK"]), (128, ["BOOKMARK"]), (129, ["BOOKMARK"]), (130, [])]
    assert stream.closed


def test_no_bookmarks_unless_asked_for_and_an_end_even_when_none_is_named(room: Room) -> None:
    stream = room.stream(resourceVersion=version(room))
    assert stream.due is not None
    seconds = (stream.due - room.time.now()) / SECOND
    assert 1800 <= seconds <= 3600
    stream.tick()
    room.label("a", app="y")
    assert events(stream) == [("MODIFIED", "a")], "not yet"
    room.time.run(stream.due)
    stream.tick()
    assert stream.closed
    room.label("a", app="z")
    assert stream.take() == []


def test_a_version_of_the_future_waits_for_it(room: Room) -> None:
    stream = room.stream(resourceVersion=str(room.server.store.revision + 1))
    room.label("a", app="y")
    room.label("a", app="z")
    assert events(stream) == [("MODIFIED", "a")]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"resourceVersion": "abc"}, 500),
        ({"sendInitialEvents": "true"}, 422),
        ({"sendInitialEvents": "true", "resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"}, 422),
        ({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "999999"}, 504),
        ({"labelSelector": "a in"}, 400),
        ({"fieldSelector": "spec.foo=1"}, 400),
    ],
)
def test_options_that_make_no_sense(room: Room, params: dict[str, str], code: int) -> None:
    assert room.http("GET", CLAIMS, params={"watch": "true", **params})[0] == code


def test_a_restart_ends_all_watches(room: Room) -> None:
    stream = room.stream()
    ended: list[bool] = []
    stream.take()
    stream.on_ready(lambda: ended.append(stream.closed))
    room.server.restart()
    assert ended == [True]
    room.label("a", app="y")
    assert stream.take() == []


def test_ready_is_told_once_until_something_is_taken(room: Room) -> None:
    stream = room.stream(resourceVersion=version(room))
    told: list[int] = []
    stream.on_ready(lambda: told.append(1))
    room.label("a", app="1")
    room.label("a", app="2")
    assert len(told) == 1
    assert len(stream.take()) == 2
    room.label("a", app="3")
    assert len(told) == 2
    stream.close()
    assert len(told) == 3


def test_a_line_is_made_once_for_all_watchers(room: Room) -> None:
    then = version(room)
    one, two = room.stream(resourceVersion=then), room.stream(ALL_CLAIMS, resourceVersion=then)
    room.label("a", app="y")
    assert one.take()[0] is two.take()[0]
