"""The operator: both state machines, who is given up first, what the webhook refuses, and what goes wrong in between."""

from __future__ import annotations

from typing import Literal

import pytest

from dds_lab.actors.operator.placement import NoNode, place
from dds_lab.client import Object
from dds_lab.scenario.parts import OperatorPart
from dds_lab.scenario.trouble import REFUSED, FabricFault
from dds_lab.scenario.values import fixed
from tests.lab.actors.rooms import A100, H100, Hall, at, requested

SLICE = "node0-gpu-nvidia-com"
SLOW = OperatorPart(look=fixed(0.01))
V1ALPHA3 = ("resource.k8s.io/v1alpha3",)


def values(story: list[tuple[str, object]]) -> list[object]:
    return [value for _, value in story]


# -- a request's life


def test_a_smaller_size_takes_devices_away_and_a_larger_one_adds_some() -> None:
    hall = requested(size=2)
    hall.resize("wanted", 1)
    hall.run(10)
    assert len(hall.resources()) == 1
    assert len(hall.fabric.attached("node0")) == 1
    hall.resize("wanted", 3)
    hall.run(10)
    assert hall.states() == ["Online"] * 3
    assert hall.fabric.free("1", A100) == 1


def test_a_detach_goes_through_its_states_and_the_request_stays() -> None:
    hall = requested()
    resources = hall.story("composableresources", "status", "state")
    slices = hall.story("resourceslices", "spec", "devices")
    hall.resize("wanted", 0)
    hall.run(10)
    assert values(resources) == ["Online", "Detaching", "Deleting", "gone"]
    assert values(slices) == [None]
    assert hall.state("composabilityrequests", "wanted")["state"] == "Running"
    assert hall.fabric.free("1", A100) == 4


def test_a_deleted_request_takes_everything_with_it() -> None:
    hall = requested(size=2)
    requests = hall.story("composabilityrequests", "status", "state")
    hall.user.delete("composabilityrequests", "wanted")
    hall.run(5)
    assert values(requests) == ["Running", "Cleaning", "Deleting", "gone"]
    assert hall.resources() == []
    assert hall.fabric.free("1", A100) == 4


def test_a_request_that_is_deleted_while_attaching_waits_for_the_device_and_returns_it() -> None:
    hall = Hall(operator=OperatorPart(kind="ideal", look=fixed(0.01)))
    hall.request()
    hall.run(1)
    hall.user.delete("composabilityrequests", "wanted")
    hall.run(60)
    assert hall.resources() == []
    assert hall.fabric.ledger.count("attach", "done") == 1
    assert hall.fabric.ledger.count("detach", "done") == 1


def test_ids_that_cannot_be_written_are_lost_and_the_syncer_finds_the_device() -> None:
    """The real one writes with the version that it read before the order."""
    hall = Hall(operator=SLOW, served=V1ALPHA3)
    hall.request()
    hall.run(1)
    hall.user.delete("composabilityrequests", "wanted")
    hall.run(60)
    assert hall.resources() == []
    assert len(hall.fabric.attached("node0")) == 1
    hall.run(760)
    assert hall.fabric.attached("node0") == ()
    assert hall.fabric.free("1", A100) == 4


# -- nodes


def test_without_a_target_the_first_node_that_nobody_occupies_is_taken() -> None:
    hall = Hall()
    hall.request("first", node="", model=A100)
    hall.run(10)
    hall.request("second", node="", model=H100)
    hall.run(10)
    nodes = {
        one["metadata"]["labels"]["app.kubernetes.io/managed-by"]: one["spec"]["target_node"]
        for one in hall.resources()
    }
    assert nodes == {"first": "node0", "second": "node1"}


def test_differentnode_spreads_and_says_when_there_are_too_few_nodes() -> None:
    hall = Hall()
    hall.request("spread", node="", size=2, allocation_policy="differentnode")
    hall.run(10)
    assert sorted(one["spec"]["target_node"] for one in hall.resources()) == ["node0", "node1"]
    hall.resize("spread", 3)
    hall.run(10)
    assert hall.state("composabilityrequests", "spread")["error"] == "insufficient number of available nodes"
    assert len(hall.resources()) == 2


def test_a_request_for_a_node_that_is_not_there_is_deleted() -> None:
    hall = requested(40, node="nowhere")
    assert hall.user.find("composabilityrequests", "wanted") is None


def test_what_is_for_a_node_goes_with_it_and_the_device_stays_where_it_is() -> None:
    hall = requested()
    hall.user.delete("nodes", "node0")
    hall.run(1)
    assert hall.resources() == []
    hall.run(60)
    assert hall.user.find("composabilityrequests", "wanted") is None
    assert len(hall.fabric.attached("node0")) == 1
    assert hall.fabric.free("1", A100) == 3


def test_an_operator_may_leave_behind_what_was_for_a_node() -> None:
    settings = OperatorPart(kind="ideal", look=fixed(0.01), deletes_with_node=False)
    hall = Hall(operator=settings)
    hall.request()
    hall.run(10)
    hall.user.delete("nodes", "node0")
    hall.run(100)
    assert hall.states() == ["Online"]


def test_a_node_is_too_small_for_other_spec() -> None:
    hall = requested(other_spec={"milli_cpu": 65_000})
    assert "TargetNode does not meet spec's requirements" in hall.state("composabilityrequests", "wanted")["error"]
    assert hall.resources() == []


# -- who is given up first


def resource(name: str, state: str = "Online", *, used: str = "", device: str = "GPU-1", mark: bool = False) -> Object:
    annotations = {
        **({"cohdi.io/last-used-time": used} if used else {}),
        **({"cohdi.io/delete-device": "true"} if mark else {}),
    }
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-11-21T00:00:00Z", "annotations": annotations},
        "spec": {"type": "gpu", "model": A100, "target_node": "node0"},
        "status": {"state": state, "device_id": device},
    }


def kept(size: int, *owned: Object) -> list[str]:
    request = {"spec": {"resource": {"type": "gpu", "model": A100, "size": size, "target_node": "node0"}}}
    found = place(request, owned, {"node0": {}}, lambda: ())
    return [one["metadata"]["name"] for one in found.kept]


def test_marked_devices_go_before_others_and_attaching_ones_before_them() -> None:
    owned = (
        resource("online", used="2026-11-20T00:00:00Z"),
        resource("marked", mark=True, used="2026-11-21T09:00:00Z"),
        resource("coming", "Attaching"),
        resource("ordered", "Attaching", device=""),
        resource("fresh", "", device=""),
    )
    assert kept(4, *owned) == ["online", "marked", "coming", "fresh"]
    assert kept(3, *owned) == ["online", "coming", "fresh"]
    assert kept(2, *owned) == ["online", "fresh"]
    assert kept(1, *owned) == ["fresh"]  # what was just made is given up last: a fault of the real one


def test_among_equals_the_longest_unused_goes_first_and_one_never_used_counts_from_its_creation() -> None:
    owned = (
        resource("recent", used="2026-11-21T10:00:00Z"),
        resource("old", used="2026-11-20T10:00:00Z"),
        resource("never"),
    )
    assert kept(2, *owned) == ["recent", "never"]
    assert kept(1, *owned) == ["recent"]


def test_what_is_going_already_counts_for_nothing() -> None:
    assert kept(1, resource("going", "Detaching"), resource("there")) == ["there"]


def test_too_few_nodes_is_an_error() -> None:
    wanted = {"type": "gpu", "model": A100, "size": 1, "allocation_policy": "samenode"}
    with pytest.raises(NoNode):
        place({"spec": {"resource": wanted}}, (), {"node0": {}}, lambda: ("node0",))


# -- what goes wrong


def test_the_fabrics_words_stand_in_the_status_until_it_works() -> None:
    hall = Hall()
    fault = FabricFault(kind="refuse")
    hall.fabric.faults.add(fault)
    hall.request()
    hall.run(10)
    (found,) = hall.resources()
    words = found["status"]["error"]
    assert found["status"]["state"] == "Attaching" and REFUSED in words
    assert hall.state("composabilityrequests", "wanted")["resources"][found["metadata"]["name"]]["error"] == words
    tries = hall.fabric.ledger.count("attach", "failed")
    assert 5 < tries < 20  # each time twice as late
    hall.fabric.faults.lift(fault)
    hall.run(30)
    (found,) = hall.resources()
    assert found["status"]["state"] == "Online" and "error" not in found["status"]


def test_after_a_lost_answer_a_second_device_is_attached_and_the_first_found_after_ten_minutes() -> None:
    hall = Hall()
    hall.fabric.faults.add(FabricFault(kind="lose_answer", times=1))
    hall.request()
    hall.run(60)
    assert hall.states() == ["Online"]
    assert len(hall.fabric.attached("node0")) == 2
    created = hall.story("composableresources", "metadata", "labels", "cohdi.io/ready-to-detach-device-id")
    hall.run(720)
    assert len(hall.fabric.attached("node0")) == 1
    assert any(value and value != "gone" for _, value in created)
    assert hall.states() == ["Online"]


def test_a_device_attached_by_hand_is_taken_away_unless_the_syncer_is_off() -> None:
    for sync, left in ((60.0, 0), (0.0, 1)):
        hall = Hall(operator=OperatorPart(kind="ideal", look=fixed(0.01), sync=sync))
        hall.fabric.attach("node0", A100, lambda answer: None)
        hall.run(2)
        hall.vendor.restart_plugin("node0")
        hall.run(540)
        assert len(hall.fabric.attached("node0")) == 1
        hall.run(240)
        assert len(hall.fabric.attached("node0")) == left


def test_a_device_that_comes_by_hand_a_second_time_is_left_alone_for_as_long_as_the_first() -> None:
    hall = Hall()
    for _ in range(2):
        hall.fabric.attach("node0", A100, lambda answer: None)
        hall.run(400)
        (one,) = hall.fabric.attached("node0")
        hall.fabric.resize("1", A100, -hall.fabric.free("1", A100))  # so that it is the same device again
        hall.fabric.detach("node0", one.device.resource, lambda answer: None)
        hall.run(2)
        hall.run(118)
    hall.fabric.attach("node0", A100, lambda answer: None)
    hall.run(540)
    assert len(hall.fabric.attached("node0")) == 1
    assert hall.resources() == []


def test_one_worker_lets_a_hanging_order_block_all_others() -> None:
    hall = Hall(operator=SLOW)
    hall.fabric.faults.add(FabricFault(kind="hang", times=1))
    hall.request("hangs", node="node0")
    hall.run(1)
    hall.request("waits", node="node1")
    hall.run(100)
    assert len(hall.fabric.attached("node1")) == 0
    hall.run(120)
    assert len(hall.fabric.attached("node1")) == 1


@pytest.mark.parametrize("api", ["fm", "cm"])
def test_more_workers_do_not_wait_for_each_other(api: Literal["fm", "cm"]) -> None:
    """Whatever the manager's interface."""
    hall = Hall(operator=OperatorPart(kind="ideal", api=api, look=fixed(0.01)))
    hall.request(size=3)
    hall.run(3)
    assert len(hall.fabric.attached("node0")) == 3


def test_a_device_on_which_somebody_computes_is_not_taken_away_unless_forced() -> None:
    for force in (False, True):
        hall = requested(force_detach=force)
        (there,) = hall.fabric.attached("node0")
        hall.fabric.occupy(there.device.serial, "default/train")
        hall.resize("wanted", 0)
        hall.run(10)
        assert len(hall.fabric.attached("node0")) == (0 if force else 1)
        if not force:
            (found,) = hall.resources()
            assert found["status"]["state"] == "Detaching"
            assert "found gpu load" in found["status"]["error"]
            hall.fabric.vacate("default/train")
            hall.run(30)
            assert hall.resources() == []


def test_a_broken_device_is_told_and_told_well_again() -> None:
    hall = requested()
    (there,) = hall.fabric.attached("node0")
    hall.fabric.drop(there.device.serial)
    hall.run(1)
    assert "Critical" in hall.resources()[0]["status"]["error"]
    hall.fabric.restore(there.device.serial)
    hall.run(1)
    assert "error" not in hall.resources()[0]["status"]


def test_the_real_one_looks_for_the_device_at_its_next_poll_only() -> None:
    hall = Hall(operator=SLOW)
    hall.run(20)
    hall.request()
    hall.run(20)
    assert hall.devices(SLICE) == ["gpu-0"]
    assert hall.states() == ["Attaching"]
    hall.run(20)
    assert hall.states() == ["Online"]


def test_a_plugin_that_has_just_started_is_not_restarted() -> None:
    hall = Hall(operator=SLOW)
    hall.run(1)
    hall.request()
    hall.run(8)
    assert hall.devices(SLICE) == []
    hall.run(40)
    assert hall.devices(SLICE) == ["gpu-0"]


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta2"])
def test_while_it_detaches_a_taint_rule_keeps_pods_away_where_rules_are_served(version: str) -> None:
    settings = OperatorPart(kind="ideal", look=fixed(0.01))
    served = (f"resource.k8s.io/{version}",)
    hall = Hall(operator=settings, taint_version=version, served=served)
    hall.request()
    hall.run(10)
    (there,) = hall.fabric.attached("node0")
    rules = hall.story("devicetaintrules", "spec")
    hall.resize("wanted", 0)
    hall.run(10)
    (made, gone) = values(rules)
    assert gone == "gone"
    assert at({"spec": made}, "spec", "taint", "value") == there.device.serial
    assert at({"spec": made}, "spec", "taint", "effect") == "NoSchedule"
    assert at({"spec": made}, "spec", "deviceSelector") == {
        "driver": "gpu.nvidia.com",
        "pool": "node0",
        "device": "gpu-0",
    }


def test_where_rules_are_not_served_it_detaches_without() -> None:
    hall = requested()
    hall.resize("wanted", 0)
    hall.run(10)
    assert hall.resources() == []


def test_a_restart_in_the_middle_loses_the_answer_and_orders_again() -> None:
    hall = requested(1)
    assert hall.operator is not None
    hall.operator.stop()
    hall.run(5)
    hall.start_operator(OperatorPart(kind="ideal", look=fixed(0.01)))
    hall.run(10)
    assert hall.states() == ["Online"]
    assert hall.fabric.ledger.count("attach", "done") == 2


def test_an_operator_that_was_restarted_gives_new_resources_new_names() -> None:
    hall = requested()
    assert hall.operator is not None
    hall.operator.stop()
    hall.start_operator(OperatorPart(kind="ideal", look=fixed(0.01)))
    hall.resize("wanted", 2)
    hall.run(10)
    assert hall.states() == ["Online"] * 2


def test_what_is_left_on_a_node_that_was_away_is_found_when_it_is_there_again() -> None:
    hall = requested()
    hall.user.delete("nodes", "node0")
    hall.run(300)
    assert hall.resources() == [] and len(hall.fabric.attached("node0")) == 1
    hall.node("node0")
    hall.run(900)
    assert hall.fabric.attached("node0") == ()


# -- the webhook


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        ({"node": "node0"}, {"node": "node0"}, True),
        ({"node": "node0"}, {"node": "node1"}, False),
        ({"node": "node0"}, {"node": "node0", "model": H100}, False),
        ({"node": ""}, {"node": ""}, True),
        (
            {"node": "", "allocation_policy": "differentnode"},
            {"node": "", "allocation_policy": "differentnode"},
            True,
        ),
        ({"node": "node0"}, {"node": "", "allocation_policy": "differentnode"}, False),
    ],
)
def test_the_webhook_allows_one_request_of_a_kind(first: Object, second: Object, refused: bool) -> None:
    hall = Hall()
    hall.request("first", size=0, **first)
    hall.run(1)
    new = hall.request("second", size=0, **second)
    assert hall.operator is not None
    assert bool(hall.operator.refusal(new)) is refused


def test_the_webhook_refuses_a_target_with_differentnode() -> None:
    hall = Hall()
    new = hall.request(allocation_policy="differentnode")
    assert hall.operator is not None
    assert "cannot be specified" in hall.operator.refusal(new)


def test_a_request_without_target_counts_for_the_node_of_its_first_resource() -> None:
    hall = Hall()
    hall.request("first", node="")
    hall.run(10)
    new = hall.request("second", node="node0", size=0)
    assert hall.operator is not None
    assert "already exists" in hall.operator.refusal(new)
