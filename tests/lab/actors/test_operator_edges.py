"""Rules of the operator that seldom matter: deletions in the middle, built-in devices, whole cores, spread requests."""

from __future__ import annotations

from typing import Literal

import pytest

from dds_lab.actors.objects import Formed, has_resource
from dds_lab.actors.operator import Operator
from dds_lab.actors.operator.placement import NoNode, place
from dds_lab.api.requests import Call
from dds_lab.client import ApiError, Object
from dds_lab.scenario.parts import OperatorPart, VendorPart
from dds_lab.scenario.values import fixed
from tests.lab.actors.rooms import A100, GPU, Hall, Room

SLOW_PLUGIN = VendorPart(start=fixed(20.0), first_start=fixed(0.0))


def attaching() -> Hall:
    """A hall with a resource that names its device, which the plugin does not list yet."""
    hall = Hall(vendor=SLOW_PLUGIN)
    hall.request()
    hall.run(5)
    assert [one["status"]["state"] for one in hall.resources() if one["status"]["device_id"]] == ["Attaching"]
    return hall


def deleted_before_its_device_shows(*, error: str = "") -> list[str]:
    """The states that a resource goes through, from its deletion on."""
    hall = attaching()
    name = hall.resources()[0]["metadata"]["name"]
    if error:
        hall.user.patch("composableresources", name, {"status": {"error": error}}, subresource="status")
    story = hall.story("composableresources", "status", "state")
    hall.user.delete("composabilityrequests", "wanted")
    hall.run(120)
    assert hall.fabric.free("1", A100) == 4
    return [state for _, state in story if state != "Attaching"]


def test_a_resource_whose_device_has_come_is_brought_online_before_it_goes() -> None:
    assert deleted_before_its_device_shows() == ["Online", "Detaching", "Deleting", "gone"]


def test_one_that_has_an_error_goes_at_once() -> None:
    assert deleted_before_its_device_shows(error="it does not come up") == ["Detaching", "Deleting", "gone"]


def finalize(hall: Hall, *finalizers: str) -> str:
    """Replace the finalizers of the only resource. The result is its name."""
    (resource,) = hall.resources()
    name: str = resource["metadata"]["name"]
    hall.user.patch("composableresources", name, {"metadata": {"finalizers": list(finalizers)}})
    return name


def test_the_ideal_operator_sees_at_once_that_a_node_is_gone() -> None:
    hall = attaching()
    hall.user.delete("nodes", "node0")
    hall.run(0.1)
    assert hall.resources() == []


def test_the_ideal_operator_sees_at_once_that_a_resource_is_gone() -> None:
    hall = attaching()
    hall.user.delete("composabilityrequests", "wanted")
    finalize(hall, "com.ie.ibm.hpsys/finalizer", "example.com/another")
    hall.run(60)
    assert hall.states() == ["Deleting"]
    finalize(hall)
    hall.run(0.1)
    assert hall.user.find("composabilityrequests", "wanted") is None


def test_a_resource_that_is_created_again_gets_a_device_of_its_own() -> None:
    """It has the name of the one before, which somebody removed by force."""
    hall = attaching()
    (before,) = hall.fabric.attached("node0")
    name = finalize(hall)
    hall.run(0.1)
    hall.user.delete("composableresources", name)
    hall.run(40)
    (resource,) = hall.resources()
    assert (resource["metadata"]["name"], resource["status"]["state"]) == (name, "Online")
    assert resource["status"]["device_id"] != before.device.serial


def test_the_syncer_leaves_built_in_devices_alone() -> None:
    hall = Hall()
    hall.fabric.connect("node2", "1", fixed=[A100])
    hall.node("node2")
    hall.fabric.attach("node2", A100, lambda answer: None)
    hall.run(1200)
    assert [one.fixed for one in hall.fabric.attached("node2")] == [True]
    assert hall.resources() == []


def test_a_device_that_comes_to_its_node_again_before_a_slice_showed_that_it_was_gone() -> None:
    """Whoever watches slices waits for none that will not come, and does not take the device off once more."""
    hall = Hall(count=1, vendor=VendorPart(start=fixed(10.0), first_start=fixed(0.0)))
    hall.request()
    hall.run(60)
    hall.user.delete("composabilityrequests", "wanted")
    hall.run(2)
    assert not hall.fabric.attached("node0")
    hall.request("again")
    hall.run(120)
    assert hall.states() == ["Online"]
    assert hall.fabric.ledger.count("detach", "done") == 1


def test_what_came_to_another_node_is_waited_for_until_its_old_node_shows_it_no_more() -> None:
    vendor = VendorPart(start=fixed(2.0), first_start=fixed(0.0))
    settings = OperatorPart(kind="ideal", look=fixed(0.01))
    hall = Hall(count=1, vendor=vendor, operator=settings)
    hall.request()
    hall.run(100)
    hall.vendor.restart_plugin("node0")
    hall.run(3)
    hall.user.delete("composabilityrequests", "wanted")
    hall.run(2)
    assert not hall.fabric.attached("node0")
    hall.request("again", "node1")
    hall.run(200)
    assert hall.states() == ["Online"]
    listed = [one["spec"] for one in hall.user.list("resourceslices")]
    assert [one.get("devices") or [] for one in listed if (one["nodeName"], one["driver"]) == ("node0", GPU)] == [[]]


def test_an_answer_to_an_order_made_of_something_old_does_not_take_the_place_of_what_is_named() -> None:
    """The second device is nobody's until the syncer finds it."""
    hall = Hall()
    hall.request()
    hall.run(1)
    (resource,) = hall.resources()
    named = {"status": {"device_id": "GPU-first", "cdi_device_id": "first"}}
    hall.user.patch("composableresources", resource["metadata"]["name"], named, subresource="status")
    hall.run(5)
    assert len(hall.fabric.attached("node0")) == 1
    assert [one["status"]["device_id"] for one in hall.resources()] == ["GPU-first"]


@pytest.mark.parametrize(("kind", "orders"), [("real", 4), ("ideal", 1)])
def test_an_operator_that_has_no_news_orders_again_only_if_it_goes_by_what_it_has_read(
    kind: Literal["real", "ideal"], orders: int
) -> None:
    hall = Hall(operator=None)
    client = hall.client("operator")
    settings = OperatorPart(kind=kind, look=fixed(0.01))
    hall.start(Operator(client, hall.time, settings, hall.fabric, hall.vendor))
    hall.request()
    hall.run(1)
    (resource,) = hall.resources()
    hall.user.patch("composableresources", resource["metadata"]["name"], {"metadata": {"labels": {"a": "b"}}})
    hall.run(0.5)
    client.cut(5)
    hall.run(80)
    assert hall.states() == ["Online"]
    assert hall.fabric.ledger.count("attach", "done") == orders


@pytest.mark.parametrize("seed", range(5))
def test_while_it_lives_the_ideal_operator_attaches_one_device_for_one_resource(seed: int) -> None:
    """Although a third of its calls fail, and the objects change while their devices are attached."""
    hall = Hall(seed=seed, operator=None)
    client, random = hall.client("operator"), hall.time.random("trouble")

    def fail(call: Call) -> None:
        if call.verb != "watch" and random.random() < 0.3:
            raise ApiError(500, "InternalError", "an error on the server")

    client.before = fail
    hall.start(Operator(client, hall.time, OperatorPart(kind="ideal", look=fixed(0.01)), hall.fabric, hall.vendor))
    hall.request(size=2)
    for number in range(20):
        hall.run(0.5)
        for one in hall.resources():
            label = {"metadata": {"labels": {"use": str(number)}}}
            hall.user.patch("composableresources", one["metadata"]["name"], label)
    hall.run(60)
    named = sorted(one["status"]["device_id"] for one in hall.resources())
    assert hall.states() == ["Online"] * 2
    assert named == sorted(one.device.serial for one in hall.fabric.attached("node0"))
    assert hall.fabric.ledger.count("attach", "done") == 2


@pytest.mark.parametrize(("cpu", "enough"), [("4", True), ("3999m", False), ("3500m", False)])
def test_cpu_counts_in_whole_cores_of_the_nodes_capacity(cpu: str, enough: bool) -> None:
    node: Object = {"status": {"capacity": {"cpu": cpu}}}
    asked = {"type": "gpu", "model": A100, "size": 1, "target_node": "node0", "other_spec": {"milli_cpu": 3200}}
    request: Object = {"spec": {"resource": asked}}
    if enough:
        assert place(request, (), {"node0": node}, lambda: ()).nodes == ("node0",)
        return
    with pytest.raises(NoNode):
        place(request, (), {"node0": node}, lambda: ())


def test_there_is_one_spread_request_of_a_kind_wherever_its_devices_are() -> None:
    hall = Hall()
    hall.request("first", node="", allocation_policy="differentnode")
    hall.run(10)
    assert hall.states() == ["Online"]
    new = hall.request("second", node="", size=0, allocation_policy="differentnode")
    assert hall.operator is not None
    assert "already exists" in hall.operator.refusal(new)


# -- objects that nobody can act on are not there for an actor


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
