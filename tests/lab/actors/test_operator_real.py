"""The real operator, row by row: order of its writes, its polls, forms, texts and faults."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from dds_lab.api.status import Cause
from dds_lab.client import Call, Object
from dds_lab.scenario.parts import OperatorPart, VendorPart
from dds_lab.scenario.trouble import FabricFault
from dds_lab.scenario.values import fixed
from tests.lab.actors.rooms import A100, Hall, at

REAL = OperatorPart(look=fixed(0.01))
CM = OperatorPart(look=fixed(0.01), api="cm")
SERVED = ("resource.k8s.io/v1alpha3",)
LAST_USED = "cohdi.io/last-used-time"
SLICE = "node0-gpu-nvidia-com"


class Real(Hall):
    """A hall in which the plugins are older than ten seconds."""

    def __init__(self, operator: OperatorPart = REAL, **more: Any) -> None:
        super().__init__(**{"served": SERVED, "operator": operator, **more})
        self.run(20)
        self.began = self.time.now()

    def forms(self) -> list[tuple[float, Object | str]]:
        """From now on: when the only resource got which status, and when it was gone."""
        told: list[tuple[float, Object | str]] = []

        def note(old: Object | None, new: Object | None) -> None:
            status = "gone" if new is None else dict(new.get("status") or {})
            if not told or told[-1][1] != status:
                told.append((round((self.time.now() - self.began) / 1_000_000, 1), status))

        self.user.mirror("composableresources").on_change(note)
        return told

    def status(self) -> Object:
        (one,) = self.resources()
        found: Object = one["status"]
        return found

    def annotate(self, **annotations: str) -> None:
        (one,) = self.resources()
        patch = {"metadata": {"annotations": {f"cohdi.io/{key}": value for key, value in annotations.items()}}}
        self.user.patch("composableresources", one["metadata"]["name"], patch)

    def orders(self) -> int:
        return self.fabric.ledger.count("attach", "ordered")


def online(operator: OperatorPart = REAL, **more: Any) -> Real:
    hall = Real(operator, **more)
    hall.request()
    hall.run(80)
    assert hall.states() == ["Online"]
    hall.began = hall.time.now()
    return hall


# -- attach


def test_a_device_is_online_at_the_poll_after_its_ids_and_empty_fields_are_absent() -> None:
    hall = Real()
    told = hall.forms()
    hall.request()
    hall.run(40)
    (device,) = [one.device for one in hall.fabric.attached("node0")]
    ids = {"device_id": device.serial, "cdi_device_id": device.resource}
    assert [form for _, form in told] == [
        {},
        {"state": "Attaching"},
        {"state": "Attaching", **ids},
        {"state": "Online", **ids},
    ]
    assert [at for at, _ in told] == [0.0, 0.0, 2.0, 32.1]
    (one,) = hall.resources()
    assert one["spec"] == {"type": "gpu", "model": A100, "target_node": "node0"}
    assert hall.devices(SLICE) == ["gpu-0"]
    assert hall.vendor.restarts["node0"] == 2, "each look restarts a plugin that is older than ten seconds"


def test_an_annotation_is_a_look_and_restarts_no_young_plugin() -> None:
    hall = Real()
    hall.request()
    hall.run(4)
    assert hall.states() == ["Attaching"] and hall.devices(SLICE) == ["gpu-0"]
    hall.annotate(nudge="1")
    hall.run(0.1)
    assert hall.states() == ["Online"]
    assert hall.vendor.restarts["node0"] == 1


def test_a_second_device_within_ten_seconds_of_a_restart_waits_for_a_poll() -> None:
    """The first one is Online before: the write of its ids is a change, and so another look when the worker is free."""
    hall = Real()
    hall.request(size=2)
    hall.run(10)
    assert len(hall.fabric.attached("node0")) == 2 and hall.devices(SLICE) == ["gpu-0"]
    assert sorted(hall.states()) == ["Attaching", "Online"]
    hall.run(23)
    assert hall.devices(SLICE) == ["gpu-0"]
    hall.run(3)
    assert hall.devices(SLICE) == ["gpu-0", "gpu-1"]
    hall.run(30)
    assert hall.states() == ["Online"] * 2


def test_a_plugin_that_takes_longer_than_ten_seconds_is_restarted_while_it_starts() -> None:
    hall = Real(vendor=VendorPart(start=fixed(20.0), first_start=fixed(0.0)))
    hall.request()
    hall.run(14)
    hall.annotate(nudge="1")
    hall.run(1)
    assert hall.vendor.restarts["node0"] == 2


@pytest.mark.parametrize(("api", "attached"), [("fm", 2), ("cm", 1)])
def test_a_change_while_a_device_is_attached_loses_its_ids(api: Any, attached: int) -> None:
    """With FM it is ordered again; with CM the device that came is found and taken."""
    hall = Real(OperatorPart(look=fixed(0.01), api=api))
    hall.request()
    hall.run(1)
    hall.annotate(use="1")
    hall.run(100)
    assert hall.states() == ["Online"]
    assert len(hall.fabric.attached("node0")) == attached


def test_a_resource_that_is_deleted_while_its_device_is_attached_goes_without_it() -> None:
    hall = Real()
    told = hall.forms()
    hall.request()
    hall.run(1)
    hall.user.delete("composabilityrequests", "wanted")
    hall.run(40)
    assert [form if form == "gone" else at({"it": form}, "it", "state") for _, form in told][-3:] == [
        "Attaching",
        "Deleting",
        "gone",
    ]
    assert len(hall.fabric.attached("node0")) == 1


def test_a_lowered_request_loses_a_device_that_comes_after_errors() -> None:
    """The text of the error stays while it orders again."""
    hall = Real()
    fault = FabricFault(kind="refuse")
    hall.fabric.faults.add(fault)
    hall.request()
    hall.run(3)
    hall.fabric.faults.lift(fault)
    hall.run(3)
    assert "failed to process FM scaleup request" in hall.status()["error"]
    hall.resize("wanted", 0)
    hall.run(5)
    assert hall.resources() == [] and len(hall.fabric.attached("node0")) == 1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            FabricFault(kind="refuse", words="the pool is empty"),
            "failed to process FM scaleup request. FM returned code: 'E02XXXX', error message: 'the pool is empty'",
        ),
        (
            FabricFault(kind="lose_answer"),
            'Patch "https://cdi.example.com/fabric_manager/api/v1/machines/MACHINE/update": EOF',
        ),
        (
            FabricFault(kind="hang"),
            'Patch "https://cdi.example.com/fabric_manager/api/v1/machines/MACHINE/update": '
            "context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
        ),
        (FabricFault(kind="critical"), "the FM attached device called by NAME is in Critical state in FM"),
    ],
)
def test_texts_of_failed_orders(fault: FabricFault, words: str) -> None:
    hall = Real()
    hall.fabric.faults.add(fault)
    hall.request()
    hall.run(185 if fault.kind == "hang" else 7)
    machine = hall.fabric.machine("node0")
    (one,) = hall.resources()
    assert machine is not None
    assert hall.status()["error"] == words.replace("MACHINE", machine.uuid).replace("NAME", one["metadata"]["name"])


def test_equal_errors_are_tried_with_a_back_off_and_differing_ones_at_once() -> None:
    tries = []
    for words in ("the same", "order {order}"):
        hall = Real()
        hall.fabric.faults.add(FabricFault(kind="refuse", words=words))
        hall.request()
        hall.run(10)
        tries.append(hall.orders())
    assert 8 <= tries[0] <= 12
    assert tries[1] > 400


def test_critical_devices_stay_in_the_machine_until_the_pool_is_empty() -> None:
    hall = Real()
    hall.fabric.faults.add(FabricFault(kind="critical"))
    hall.request()
    hall.run(30)
    assert len(hall.fabric.plugged("node0")) == 4 and hall.fabric.free("1", A100) == 0


def test_nvidia_smi_that_fails_leaves_an_error_beside_the_ids_until_the_poll() -> None:
    hall = Real()
    hall.fabric.faults.add(FabricFault(kind="refuse", operation="smi", times=1))
    hall.request()
    hall.run(20)
    status = hall.status()
    assert status["error"].startswith("get gpu info command failed") and status["device_id"]
    assert status["state"] == "Attaching" and hall.orders() == 1
    hall.run(15)
    assert (hall.states(), hall.status().get("error")) == (["Online"], None)


# -- online


def test_the_manager_is_asked_at_once_when_a_device_is_online() -> None:
    hall = Real()
    fault = FabricFault(kind="refuse", operation="check")
    hall.fabric.faults.add(fault)
    hall.request()
    hall.run(33)
    hall.fabric.faults.lift(fault)
    hall.run(20)
    assert hall.status()["state"] == "Online"
    assert hall.status()["error"].startswith('Get "https://') and hall.status()["error"].endswith('": EOF')
    hall.run(30)
    assert "error" not in hall.status()


def test_a_warning_is_accepted_at_the_attach_and_an_error_once_online() -> None:
    hall = Real()
    hall.fabric.faults.add(FabricFault(kind="warning"))
    hall.request()
    hall.run(33)
    status = hall.status()
    assert status["error"] == f"the target gpu '{status['device_id']}' is showing a Warning status in FM"
    assert hall.devices(SLICE) == ["gpu-0"]


@pytest.mark.parametrize(
    ("operator", "words"), [(REAL, "showing a Critical status in FM"), (CM, "showing a Critical status in CM")]
)
def test_a_broken_device_and_one_that_is_gone(operator: OperatorPart, words: str) -> None:
    hall = online(operator)
    (there,) = hall.fabric.attached("node0")
    serial = there.device.serial
    hall.fabric.drop(serial)
    hall.run(31)
    assert hall.status()["error"] == f"the target gpu '{serial}' is {words}"
    hall.fabric.restore(serial)
    hall.run(31)
    assert "error" not in hall.status()
    hall.fabric.detach("node0", there.device.resource, lambda answer: None)
    hall.run(31)
    assert hall.status()["error"] == f"the target device '{serial}' cannot be found in CDI system"


# -- detach


def test_ids_are_cleared_in_a_write_of_their_own_before_deleting() -> None:
    hall = online()
    told = hall.forms()
    rules = hall.story("devicetaintrules.v1alpha3.resource.k8s.io", "spec", "taint", "effect")
    hall.resize("wanted", 0)
    hall.run(10)
    states = [form if isinstance(form, str) else {**form, "device_id": bool(form.get("device_id"))} for _, form in told]
    assert [{key: one[key] for key in ("state", "device_id")} for one in states if isinstance(one, dict)] == [
        {"state": "Online", "device_id": True},
        {"state": "Detaching", "device_id": True},
        {"state": "Detaching", "device_id": False},
        {"state": "Deleting", "device_id": False},
    ]
    assert told[-2][1] == {"state": "Deleting"} and told[-1][1] == "gone"
    assert 4 <= told[-1][0] <= 4.3, "1 s for the fabric, then a poll after 3 s"
    assert [value for _, value in rules] == ["NoSchedule", "gone"]


def test_a_busy_device_is_told_with_its_processes() -> None:
    hall = online()
    (there,) = hall.fabric.attached("node0")
    serial = there.device.serial
    hall.fabric.occupy(serial, "train")
    hall.resize("wanted", 0)
    hall.run(10)
    words = f"found gpu load on gpu '{serial}': [GPUUUID: '{serial}', ProcessName: 'train']"
    assert hall.status() == {**hall.status(), "state": "Detaching", "error": words}
    hall.fabric.vacate("train")
    hall.run(20)
    assert hall.resources() == []


def test_where_its_rules_are_not_served_a_detach_hangs_and_so_does_what_a_lost_node_leaves() -> None:
    words = 'no matches for kind "DeviceTaintRule" in version "resource.k8s.io/v1alpha3"'
    hall = online(served=())
    hall.resize("wanted", 0)
    hall.run(300)
    assert hall.status()["error"] == words and hall.status()["state"] == "Detaching"
    hall.user.delete("nodes", "node0")
    hall.run(300)
    name = hall.resources()[0]["metadata"]["name"]
    assert hall.status()["error"] == f"failed to get DeviceTaintRule {name}-taint: {words}"


def test_a_device_that_came_again_is_detached_again() -> None:
    """The resource still waits for a slice without the device."""
    hall = online(count=1, vendor=VendorPart(start=fixed(8.0), first_start=fixed(0.0)))
    hall.user.delete("composabilityrequests", "wanted")
    hall.run(2)
    assert not hall.fabric.attached("node0")
    hall.fabric.attach("node0", A100, lambda answer: None)
    hall.run(40)
    assert hall.fabric.ledger.count("detach", "done") == 2


def test_a_deleted_request_waits_for_its_resources_and_at_most_a_poll_longer() -> None:
    hall = online()
    requests = hall.story("composabilityrequests", "status", "state")
    hall.user.delete("composabilityrequests", "wanted")
    hall.run(3)
    assert hall.state("composabilityrequests", "wanted")["state"] == "Cleaning" and hall.states() == ["Detaching"]
    hall.run(32)
    assert [value for _, value in requests] == ["Running", "Cleaning", "Deleting", "gone"]


# -- nodes, requests, syncer


def test_what_was_for_a_lost_node_is_marked_then_deleted() -> None:
    hall = online()
    ids = {key: value for key, value in hall.status().items() if key.endswith("_id")}
    told = hall.forms()
    hall.user.delete("nodes", "node0")
    hall.run(61)
    assert [form for _, form in told[1:]] == [
        {"state": "Deleting", "error": "target node node0 not found", **ids},
        "gone",
    ]
    assert hall.user.find("composabilityrequests", "wanted") is None
    assert len(hall.fabric.attached("node0")) == 1


def test_a_request_has_only_fields_with_values_and_copies_of_its_resources() -> None:
    hall = Real()
    hall.request(size=0, force_detach=False)
    hall.run(1)
    wanted = {"type": "gpu", "model": A100, "size": 0, "allocation_policy": "samenode", "target_node": "node0"}
    assert hall.state("composabilityrequests", "wanted") == {"state": "Running", "scalarResource": wanted}
    hall.resize("wanted", 1)
    hall.run(1)
    (one,) = hall.resources()
    entry = {"state": "Attaching", "node_name": "node0"}
    assert hall.state("composabilityrequests", "wanted")["resources"] == {one["metadata"]["name"]: entry}
    hall.run(40)
    status = hall.state("composabilityrequests", "wanted")
    assert status["state"] == "Running"
    assert status["resources"] == {one["metadata"]["name"]: {**hall.status(), "node_name": "node0"}}


@pytest.mark.parametrize(("kind", "devices"), [("real", 3), ("ideal", 2)])
def test_a_size_that_changes_before_its_resources_are_made_makes_too_many(kind: Any, devices: int) -> None:
    """Entries of the first size stay: the second choice counts only resources that exist. Nothing takes the surplus away before
    the size changes again. The ideal operator chooses without such entries."""
    hall = Real(OperatorPart(kind=kind, look=fixed(0.01)))
    hall.request(size=0)
    hall.run(1)
    states: list[str] = []

    def grow(old: Object | None, new: Object | None) -> None:
        status = (new or {}).get("status") or {}
        states.append(status.get("state", ""))
        if states.count("Updating") == 1 and states[-1] == "Updating" and new is not None:
            hall.time.after(0.001, lambda: hall.resize("wanted", 2))

    hall.user.mirror("composabilityrequests").on_change(grow)
    hall.resize("wanted", 1)
    hall.run(100)
    status = hall.state("composabilityrequests", "wanted")
    assert (status["state"], status["scalarResource"]["size"]) == ("Running", 2)
    assert hall.states() == ["Online"] * devices
    hall.resize("wanted", 1)
    hall.run(60)
    assert hall.states() == ["Online"]


def test_a_resting_real_operator_changes_nothing() -> None:
    hall = online()
    version = hall.user.get("composabilityrequests", "wanted")["metadata"]["resourceVersion"]
    story = hall.story("composableresources", "metadata", "resourceVersion")
    hall.run(600)
    assert hall.user.get("composabilityrequests", "wanted")["metadata"]["resourceVersion"] == version
    assert story == []


@pytest.mark.parametrize("kind", ["composabilityrequests", "composableresources"])
def test_a_poll_at_rest_writes_and_when_it_is_refused_the_status_says_so_until_the_next(kind: str) -> None:
    hall = online()
    hall.run(120)
    polls: list[float] = []

    def judge(call: Call, old: Object | None, new: Object | None) -> list[Cause] | None:
        if (call.resource.plural, call.subresource, call.user.name) != (kind, "status", "operator"):
            return None
        polls.append(hall.time.now() / 1_000_000)
        return [Cause("Forbidden", "not now", "")] if len(polls) == 3 else None

    hall.server.admission.append(judge)
    (obj,) = hall.user.list(kind)
    errors = hall.story(kind, "status", "error")
    hall.run(200)
    assert [round(later - earlier) for earlier, later in pairwise(polls)][:2] == [30, 30]
    assert [words for _, words in errors] == ["admission webhook denied the request: not now", None]
    assert hall.user.list(kind)[0]["status"] == obj["status"] and len(polls) > 5


def test_a_warning_of_the_manager_is_told_at_the_poll_of_a_device_at_rest_and_goes_with_it() -> None:
    hall = online()
    hall.run(120)
    (one,) = [one for one in hall.fabric.plugged("node0") if not one.fixed]
    hall.fabric.drop(one.device.serial)
    hall.run(31)
    assert "Critical" in hall.status()["error"]
    hall.fabric.restore(one.device.serial)
    hall.run(31)
    assert "error" not in hall.status()


def test_an_operator_that_ends_while_a_device_is_attached_orders_a_second_one() -> None:
    """The syncer gives the first a resource with a name of its own, and takes it away, even from a pod."""
    hall = Real()
    hall.request()
    hall.run(1)
    assert hall.operator is not None
    hall.operator.stop()
    hall.run(5)
    hall.start_operator(REAL)
    hall.run(60)
    assert hall.states() == ["Online"] and len(hall.fabric.attached("node0")) == 2
    created = hall.story("composableresources", "metadata", "labels", "cohdi.io/ready-to-detach-device-id")
    hall.run(780)
    (name,) = {name for name, value in created if value and value != "gone"}
    kind, _, rest = name.partition("-")
    assert (kind, len(rest)) == ("gpu", 36 + 5)
    assert len(hall.fabric.attached("node0")) == 1 and hall.states() == ["Online"]


def test_one_worker_waits_for_the_fabric() -> None:
    hall = Real()
    hall.request("first", node="node0")
    hall.request("second", node="node1")
    hall.run(2)
    assert hall.orders() == 1
    hall.run(1)
    assert hall.orders() == 2


# -- CM


def test_with_cm_an_order_is_looked_after_at_the_next_poll() -> None:
    hall = Real(CM)
    told = hall.forms()
    hall.request()
    hall.run(70)
    assert [at for at, form in told if form != "gone" and "device_id" in form] == [30.1, 60.1]
    assert hall.states() == ["Online"] and hall.orders() == 1


def test_with_cm_two_resources_order_the_same_number() -> None:
    """One device comes. The second is ordered by the look that does not find one."""
    hall = Real(CM)
    hall.request(size=2)
    hall.run(25)
    assert hall.orders() == 1 and len(hall.fabric.attached("node0")) == 1
    hall.run(10)
    assert hall.orders() == 2
    hall.run(90)
    assert hall.states() == ["Online"] * 2 and hall.orders() == 2


def test_with_cm_the_worker_is_free_while_the_fabric_works() -> None:
    hall = Real(CM)
    hall.request("first", node="node0")
    hall.request("second", node="node1")
    hall.run(1)
    assert hall.orders() == 2


def test_with_cm_a_detach_is_looked_after_at_the_next_poll_and_a_refused_one_is_told() -> None:
    hall = online(CM)
    hall.fabric.faults.add(FabricFault(kind="refuse", operation="detach", times=1, words="it is in use"))
    hall.resize("wanted", 0)
    hall.run(32)
    assert hall.status()["error"] == "it is in use"
    hall.run(40)
    assert hall.resources() == [] and hall.fabric.free("1", A100) == 4


# -- the webhook


def test_the_webhook_draws_the_node_of_a_request_without_target() -> None:
    hall = Real()
    hall.request("spread", node="", size=2, allocation_policy="differentnode")
    hall.run(1)
    new = hall.request("other", node="node0", size=0)
    assert hall.operator is not None
    texts = {hall.operator.refusal(new) for _ in range(50)}
    assert texts == {"", f"composabilityRequest resource spread with type gpu and model {A100} already exists"}
