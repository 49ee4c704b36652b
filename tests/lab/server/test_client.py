"""The client and the mirrors of actors."""

import pytest

from dds_lab.api.kinds import Object
from dds_lab.api.requests import Call
from dds_lab.api.status import ApiError, too_many_requests
from dds_lab.client import Client, Mirror
from dds_lab.crds import COMPOSABILITY_REQUESTS
from dds_lab.latency import Fixed, Uniform
from tests.lab.server.rooms import SECOND, Room, claim, request


@pytest.fixture
def room() -> Room:
    room = Room()
    room.claim("a", labels={"app": "x"})
    return room


def told(mirror: Mirror) -> list[tuple[str | None, str | None]]:
    """What a mirror tells from now on: versions of the old and the new object."""
    heard: list[tuple[str | None, str | None]] = []

    def shown(obj: Object | None) -> str | None:
        return None if obj is None else f"{obj['metadata']['name']}@{obj['metadata'].get('labels', {}).get('v', '')}"

    mirror.on_change(lambda old, new: heard.append((shown(old), shown(new))))
    return heard


def pass_by(room: Room, seconds: float) -> None:
    room.time.run(room.time.now() + round(seconds * SECOND))


def test_verbs(room: Room) -> None:
    user = Client(room.server, room.time, "me", manager="mine")
    made = user.create("resourceclaims", claim("b"), "default")
    assert made["metadata"]["managedFields"][0]["manager"] == "mine"
    changed = user.update("resourceclaims", {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}})
    with pytest.raises(ApiError) as error:
        user.update("resourceclaims", {**made, "metadata": {**made["metadata"], "labels": {"a": "c"}}})
    assert error.value.code == 409
    assert user.get("resourceclaims", "b", "default") == changed
    assert user.find("resourceclaims", "nope", "default") is None
    assert [each["metadata"]["name"] for each in user.list("resourceclaims", labels="a=b")] == ["b"]
    with pytest.raises(ApiError) as error:
        user.delete("resourceclaims", "b", "default", resource_version="1")
    assert error.value.code == 409
    user.delete("resourceclaims", "b", "default", uid=made["metadata"]["uid"])
    with pytest.raises(ApiError) as error:
        user.list("nothings")
    assert error.value.code == 404


def test_a_call_may_be_made_to_fail(room: Room) -> None:
    seen: list[str] = []

    def before(call: Call) -> None:
        seen.append(call.verb)
        if call.verb == "delete":
            raise too_many_requests()

    room.admin.before = before
    room.label("a", v="1")
    with pytest.raises(ApiError) as error:
        room.admin.delete("resourceclaims", "a", "default")
    assert (error.value.code, error.value.headers) == (429, {"retry-after": "1"})
    assert seen == ["patch", "delete"]


def test_a_mirror_begins_with_what_is_there_and_hears_later(room: Room) -> None:
    mirror = room.admin.mirror("resourceclaims", Fixed(0.5))
    heard = told(mirror)
    assert len(mirror) == 1
    room.label("a", v="1")
    room.claim("b")
    pass_by(room, 0.4)
    assert heard == []
    assert mirror.get("b", "default") is None
    pass_by(room, 0.2)
    assert heard == [("a@", "a@1"), (None, "b@")]
    assert [each["metadata"]["name"] for each in mirror.values()] == ["a", "b"]
    room.admin.delete("resourceclaims", "a", "default")
    pass_by(room, 1)
    assert heard[2:] == [("a@1", None)]
    assert len(mirror) == 1


def test_order_is_kept_whatever_the_latency(room: Room) -> None:
    mirror = room.admin.mirror("resourceclaims", Uniform(0.0, 2.0))
    heard = told(mirror)
    for at in range(50):
        room.label("a", v=str(at))
        pass_by(room, 0.05)
    pass_by(room, 3)
    assert [new for _, new in heard] == [f"a@{at}" for at in range(50)]


def test_a_mirror_of_some(room: Room) -> None:
    room.claim("b")
    mirror = room.admin.mirror("resourceclaims", labels="app=x")
    one = room.admin.mirror("resourceclaims", fields="metadata.name=b")
    heard = told(mirror)
    assert ([len(mirror), len(one)]) == [1, 1]
    room.label("b", app="x", v="1")
    room.label("a", app="y")
    pass_by(room, 0)
    assert heard == [(None, "b@1"), ("a@", None)]
    room.admin.create("namespaces", {"metadata": {"name": "n"}})
    of_n = room.admin.mirror("resourceclaims", namespace="n")
    room.claim("c", "n")
    room.claim("d")
    pass_by(room, 0)
    assert [each["metadata"]["name"] for each in of_n.values()] == ["c"]


def test_another_object_of_the_same_name_is_told_as_one_gone_and_one_come(room: Room) -> None:
    mirror = room.admin.mirror("resourceclaims")
    room.claim("b")
    room.claim("c")
    pass_by(room, 0)
    heard = told(mirror)
    mirror.cut(5)
    mirror.cut(1)
    room.admin.delete("resourceclaims", "a", "default")
    room.claim("a", labels={"v": "2"})
    room.admin.delete("resourceclaims", "b", "default")
    room.label("c", v="1")
    pass_by(room, 4)
    assert heard == []
    pass_by(room, 2)
    assert heard == [("b@", None), ("a@", None), (None, "a@2"), ("c@", "c@1")]


def test_a_mirror_that_is_cut_off_may_be_closed(room: Room) -> None:
    mirror = room.admin.mirror("resourceclaims")
    heard = told(mirror)
    mirror.cut(5)
    mirror.close()
    room.label("a", v="1")
    pass_by(room, 9)
    assert heard == []


def test_a_closed_mirror_is_silent(room: Room) -> None:
    mirror = room.admin.mirror("resourceclaims", Fixed(1))
    heard = told(mirror)
    room.label("a", v="1")
    mirror.close()
    room.label("a", v="2")
    room.server.restart()
    pass_by(room, 5)
    assert heard == []


def test_who_hears_may_write(room: Room) -> None:
    mirror = room.admin.mirror("resourceclaims")

    def answer(old: Object | None, new: Object | None) -> None:
        if new is not None and "seen" not in new["metadata"].get("labels", {}):
            room.label(new["metadata"]["name"], seen="1")

    mirror.on_change(answer)
    room.claim("b")
    room.label("a", v="1")
    pass_by(room, 1)
    assert all(each["metadata"]["labels"]["seen"] == "1" for each in mirror.values())


def test_a_mirror_that_closes_while_it_tells(room: Room) -> None:
    mirror = room.admin.mirror("resourceclaims")
    heard = told(mirror)
    mirror.on_change(lambda old, new: mirror.close())
    room.label("a", v="1")
    room.label("a", v="2")
    pass_by(room, 1)
    assert heard == [("a@", "a@1")]


def test_definitions_come_change_and_go_under_a_client(room: Room) -> None:
    room.with_definitions()
    name = "composabilityrequests.cro.hpsys.ibm.ie.com"
    room.admin.create("composabilityrequests", request("r"))
    mirror = room.admin.mirror("composabilityrequests")
    more = {"spec": {"names": {"shortNames": ["creq"]}}}
    room.admin.patch("customresourcedefinitions", name, more)
    assert room.admin.get("composabilityrequests", "r")
    mirror.cut()
    room.admin.create("composabilityrequests", request("s"))
    pass_by(room, 1)
    assert len(mirror) == 2
    room.admin.delete("customresourcedefinitions", name)
    mirror.cut()
    with pytest.raises(ApiError) as error:
        room.admin.list("composabilityrequests")
    assert error.value.code == 404
    pass_by(room, 10)
    room.admin.create("customresourcedefinitions", COMPOSABILITY_REQUESTS)
    room.admin.create("composabilityrequests", request("t"))
    pass_by(room, 2)
    assert [each["metadata"]["name"] for each in mirror.values()] == ["t"]
