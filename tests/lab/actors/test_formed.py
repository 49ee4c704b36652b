"""Objects that nobody can act on are not there for an actor."""

from __future__ import annotations

from dds_lab.actors.objects import Formed, has_resource
from dds_lab.client import Object
from tests.lab.actors.rooms import Hall, Room

BARE = {
    "apiVersion": "cro.hpsys.ibm.ie.com/v1alpha1",
    "kind": "ComposabilityRequest",
    "metadata": {"name": "bare"},
}


def test_an_object_comes_and_goes_with_its_spec() -> None:
    room = Room()
    room.user.create("composabilityrequests", BARE)
    told: list[tuple[bool, bool]] = []
    formed = Formed(room.user.mirror("composabilityrequests"), has_resource)
    formed.follow(lambda old, new: told.append((old is not None, new is not None)))
    assert list(formed.values()) == []
    assert formed.get("bare") is None
    room.user.patch("composabilityrequests", "bare", {"metadata": {"labels": {"a": "b"}}})
    room.run(1)
    assert told == []
    wanted: Object = {"type": "gpu", "model": "m", "size": 1}
    room.user.patch("composabilityrequests", "bare", {"spec": {"resource": wanted}})
    room.run(1)
    assert told == [(False, True)]
    assert formed.get("bare") is not None
    room.user.patch("composabilityrequests", "bare", {"spec": None})
    room.run(1)
    assert told[1:] == [(True, False)]
    formed.close()


def test_the_operator_goes_on_beside_objects_without_a_spec() -> None:
    hall = Hall()
    hall.user.create("composabilityrequests", BARE)
    bare = {**BARE, "kind": "ComposableResource"}
    hall.user.create("composableresources", bare)
    hall.request()
    hall.run(10)
    assert hall.state("composabilityrequests", "wanted")["state"] == "Running"
    assert hall.operator is not None
    assert hall.operator.refusal(BARE) == ""
