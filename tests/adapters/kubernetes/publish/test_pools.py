"""Pools on the lab's API server: what is written, what is left alone, and what is read back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from dds_adapters.kubernetes.cluster import Answer
from dds_adapters.kubernetes.publish.decode import pool_slice
from dds_adapters.kubernetes.publish.pools import SLICES, PublishPool, WithdrawPool
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete
from dds_core.publisher.describe import devices_of, digest_of, selector
from dds_core.publisher.model import Attribute, Capacity
from tests.adapters.kubernetes.publish.booth import A100, NAME, OWNER, SHARED, Booth, layouts, pool
from tests.support.written_objects import GPU, POOL, uid_of

SECOND = NAME.replace("-000", "-001")
UNCHANGED = Done(written=False)
PATH = "/apis/resource.k8s.io/v1/resourceslices"


def dropping(*names: str, booth: Booth) -> tuple[tuple[str, str], ...]:
    return tuple((name, uid_of(booth.slice(name))) for name in names)


# -- what is written -----------------------------------------------------------------------------------------------------


def test_a_pool_as_an_operator_expects_it() -> None:
    booth = Booth()
    assert booth.carry_out(pool(2)) == Done()
    (made,) = booth.slices()
    assert made["metadata"]["name"] == NAME
    assert made["metadata"]["labels"] == {OWNER: "dds-publisher"}
    assert made["spec"] == {
        "driver": GPU,
        "pool": {"name": POOL, "generation": 1, "resourceSliceCount": 1},
        "nodeSelector": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "cohdi.io/nvidia-a100-40", "operator": "In", "values": ["true"]},
                        {"key": "cohdi.io/fabric", "operator": "In", "values": ["1"]},
                    ]
                }
            ]
        },
        "devices": [
            {
                "name": name,
                "attributes": {
                    "cudaComputeCapability": {"version": "8.0.0"},
                    "ecc": {"bool": True},
                    "numa": {"int": 0},
                    "productName": {"string": "NVIDIA A100 40GB PCIe"},
                    "type": {"string": "gpu"},
                },
                "capacity": {"memory": {"value": "40Gi"}},
                "bindsToNode": True,
                "bindingConditions": ["FabricDeviceReady"],
                "bindingFailureConditions": ["FabricDeviceReschedule", "FabricDeviceFailed"],
            }
            for name in ("nvidia-a100-40-0", "nvidia-a100-40-1")
        ],
    }


def test_what_is_there_already_is_not_written_again() -> None:
    booth = Booth()
    booth.carry_out(pool(2, 2))
    before, writes = booth.slices(), booth.writes
    assert booth.carry_out(pool(2, 2)) == UNCHANGED
    assert (booth.slices(), booth.writes) == (before, writes)


def test_a_change_of_one_count_is_one_write() -> None:
    booth = Booth()
    booth.carry_out(pool(128, 3))
    for sizes in ((128, 4), (128, 3)):
        writes = booth.writes
        assert booth.carry_out(pool(*sizes)) == Done()
        assert booth.writes - writes == 1
        assert sum(len(one["spec"]["devices"]) for one in booth.slices()) == sum(sizes)


def test_a_pool_without_devices_is_a_slice_without_devices() -> None:
    booth = Booth()
    assert booth.carry_out(pool(1)) == booth.carry_out(pool(0)) == Done()
    assert booth.carry_out(pool(0)) == UNCHANGED
    assert [one["spec"].get("devices") or [] for one in booth.slices()] == [[]]


def test_everything_else_that_changes_is_written_too() -> None:
    booth = Booth()
    booth.carry_out(pool(2))
    other = msgspec.structs.replace(A100, attributes={**A100.attributes, "numa": Attribute(integer=1)})
    larger = msgspec.structs.replace(A100, capacity={"memory": Capacity("80Gi")})
    for write in (
        pool(2, generation=2), pool(2, prefix="example.com"), pool(2, model=other), pool(2, model=larger),
        pool(2, taint="cohdi.io/cooling"), pool(2),
    ):  # fmt: skip
        assert booth.carry_out(write) == Done()
        assert booth.carry_out(write) == UNCHANGED
    assert booth.writer.requests["PUT"] == 6


def test_a_taint_stands_on_every_device_and_goes_again() -> None:
    booth = Booth()
    booth.carry_out(pool(2, taint="cohdi.io/cooling"))
    for device in booth.slice()["spec"]["devices"]:
        (taint,) = device["taints"]
        assert (taint["key"], taint["effect"]) == ("cohdi.io/cooling", "NoSchedule") and taint["timeAdded"]
    booth.carry_out(pool(2))
    assert all("taints" not in device for device in booth.slice()["spec"]["devices"])


def test_a_shared_device_says_how_it_may_be_asked_for() -> None:
    booth = Booth()
    assert booth.carry_out(pool(1, model=SHARED)) == Done()
    ((device,),) = [one["spec"]["devices"] for one in booth.slices()]
    assert device["allowMultipleAllocations"] is True
    policy = {"default": "1Gi", "validValues": ["1Gi", "2Gi"]}
    assert device["capacity"] == {"memory": {"value": "512Gi", "requestPolicy": policy}}
    assert booth.carry_out(pool(1, model=SHARED)) == UNCHANGED


def test_what_was_written_reads_back_as_the_same_digest() -> None:
    booth = Booth()
    booth.carry_out(pool(3, taint="cohdi.io/cooling"))
    (layout,) = layouts(3)
    found = pool_slice(msgspec.json.encode(booth.slice()))
    assert found.digest == digest_of(devices_of(A100, layout.devices, "cohdi.io/cooling"))
    assert (found.devices, found.selector) == (layout.devices, selector("cohdi.io", A100.device, "1"))
    assert (found.owner, found.ordinary, found.node) == ("dds-publisher", (), "")


def test_foreign_labels_and_notes_on_our_slice_stay() -> None:
    booth = Booth()
    booth.carry_out(pool(1))
    meta = {"labels": {"team": "blue"}, "annotations": {"a": "b"}, "finalizers": ["example.com/wait"]}
    booth.edit(SLICES, NAME, {"metadata": meta})
    assert booth.carry_out(pool(1)) == UNCHANGED
    assert booth.carry_out(pool(2)) == Done()
    found = booth.slice()["metadata"]
    assert found["labels"] == {OWNER: "dds-publisher", "team": "blue"}
    assert (found["annotations"], found["finalizers"]) == ({"a": "b"}, ["example.com/wait"])


def test_what_somebody_changed_in_our_slice_is_mended() -> None:
    booth = Booth()
    booth.carry_out(pool(2))
    booth.edit(SLICES, NAME, {"spec": {"devices": []}})
    assert booth.carry_out(pool(2)) == Done()
    assert len(booth.slice()["spec"]["devices"]) == 2


# -- several slices ---------------------------------------------------------------------------------------------------------


def test_what_goes_goes_first_then_what_stays_then_what_is_new() -> None:
    booth = Booth()
    booth.carry_out(pool(2, 2, 2))
    asked: list[str] = []
    booth.writer.before = lambda method, path: asked.append(f"{method} {path.rpartition('-')[2]}")
    kept, _, gone = layouts(2, 2, 2)
    slices = (replace_devices(kept, "nvidia-a100-40-9"), layouts(0, 0, 0, 2)[3])
    write = pool(generation=2, slices=slices, drop=dropping(SECOND, gone.name, booth=booth))
    assert booth.carry_out(write) == Done()
    writes = [one for one in asked if not one.startswith("GET")]
    assert writes == ["DELETE 001", "DELETE 002", "PUT 000", f"POST {PATH}"]
    assert [one["metadata"]["name"][-3:] for one in booth.slices()] == ["000", "003"]


def replace_devices(layout: Any, *names: str) -> Any:
    return msgspec.structs.replace(layout, devices=names)


def test_only_the_slices_that_differ_are_written() -> None:
    booth = Booth()
    booth.carry_out(pool(2, 2, 2))
    before = booth.slices()
    first, second, third = layouts(2, 2, 2)
    assert booth.carry_out(pool(slices=(first, replace_devices(second, "nvidia-a100-40-3"), third))) == Done()
    changed = [now for was, now in zip(before, booth.slices(), strict=True) if was != now]
    assert [one["metadata"]["name"] for one in changed] == [SECOND]


def test_a_pool_of_many_slices_at_the_limits() -> None:
    booth = Booth()
    assert booth.carry_out(pool(128, 128, 1)) == Done()
    assert isinstance(booth.carry_out(pool(128, 128, 1, taint="cohdi.io/cooling")), Declined)
    assert booth.carry_out(pool(64, 64, 64, 64, 1, generation=2, taint="cohdi.io/cooling")) == Done()
    assert len(booth.slices()) == 5


# -- whose it is ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("owner", ["", "other-publisher"])
def test_somebody_elses_slice_of_the_name_is_left_alone_and_so_is_the_rest_of_the_pool(owner: str) -> None:
    booth = Booth()
    booth.foreign(SECOND, owner)
    before = booth.slices()
    result = booth.carry_out(pool(2, 2))
    assert isinstance(result, Declined) and (result.code, result.reason) == (409, "SliceOwnedByOther")
    assert SECOND in result.text and (owner or "nobody named") in result.text
    assert booth.slices() == before and booth.writes == 0


def test_one_that_comes_between_look_and_write_is_left_alone() -> None:
    booth = Booth()
    booth.meanwhile("POST", lambda: booth.foreign(NAME, "other"))
    result = booth.carry_out(pool(2))
    assert isinstance(result, Declined) and result.reason == "SliceOwnedByOther"
    assert booth.slice()["metadata"]["labels"][OWNER] == "other"


def test_a_slice_without_a_mark_is_taken_over_in_place() -> None:
    booth = Booth()
    uid = uid_of(booth.foreign(NAME))
    assert booth.carry_out(pool(1, generation=4, adopt=True)) == Done()
    found = booth.slice()
    assert uid_of(found) == uid and booth.writer.requests.get("DELETE", 0) == 0
    assert found["metadata"]["labels"] == {OWNER: "dds-publisher"}
    assert found["metadata"]["annotations"] == {"example.com/note": "kept"}
    assert "allNodes" not in found["spec"] and found["spec"]["pool"]["generation"] == 4
    assert found["spec"]["devices"][0]["bindingConditions"] == ["FabricDeviceReady"]


def test_a_slice_that_is_taken_over_does_not_go_with_whoever_made_it() -> None:
    booth = Booth()
    booth.foreign(NAME)
    maker = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "driver", "uid": "uid-driver"}
    booth.edit(SLICES, NAME, {"metadata": {"ownerReferences": [maker]}})
    assert booth.slice()["metadata"]["ownerReferences"] == [maker]
    assert booth.carry_out(pool(1, adopt=True)) == Done()
    assert "ownerReferences" not in booth.slice()["metadata"]


def test_a_slice_that_is_right_but_unmarked_gets_our_mark() -> None:
    booth = Booth()
    booth.carry_out(pool(1))
    spec = booth.slice()["spec"]
    booth.edit(SLICES, NAME, {"metadata": {"labels": {OWNER: None}}})
    assert booth.carry_out(pool(1, adopt=True)) == Done()
    assert booth.slice()["metadata"]["labels"] == {OWNER: "dds-publisher"}
    assert booth.slice()["spec"] == spec


def test_a_slice_with_anothers_mark_is_never_taken_over() -> None:
    booth = Booth()
    booth.foreign(NAME, "other")
    assert isinstance(booth.carry_out(pool(1, adopt=True)), Declined)


@pytest.mark.parametrize(
    "place", [{"pool": "other-pool"}, {"allNodes": ..., "nodeName": "node0"}, {"driver": "x.example"}]
)
def test_a_slice_of_another_pool_is_nobodys_to_change(place: dict[str, Any]) -> None:
    booth = Booth()
    booth.foreign(NAME, "dds-publisher", **place)
    result = booth.carry_out(pool(1, adopt=True))
    assert isinstance(result, Declined) and result.reason == "SliceOwnedByOther"
    assert booth.writes == 0


def test_only_the_very_slices_that_were_meant_are_deleted() -> None:
    booth = Booth()
    booth.carry_out(pool(1, 1))
    booth.foreign("mine", "other")
    drop = dropping(SECOND, booth=booth)
    for named in (("mine", uid_of(booth.slice("mine"))),), (*drop, ("mine", uid_of(booth.slice("mine")))):
        assert isinstance(booth.carry_out(WithdrawPool(GPU, POOL, named, adopt=True)), Obsolete)
    assert len(booth.slices()) == 3
    assert booth.carry_out(WithdrawPool(GPU, POOL, ((SECOND, "another-uid"), ("gone", "x")))) == UNCHANGED
    assert booth.carry_out(WithdrawPool(GPU, "another-pool", drop)) == Obsolete(
        f"{SLICES} {SECOND} is not ours any more"
    )
    assert booth.carry_out(WithdrawPool(GPU, POOL, drop)) == Done()
    assert [one["metadata"]["name"] for one in booth.slices()] == ["mine", NAME]


def test_an_unmarked_slice_is_deleted_only_where_the_policy_takes_it_for_ours() -> None:
    booth = Booth()
    booth.foreign(NAME)
    drop = dropping(NAME, booth=booth)
    assert isinstance(booth.carry_out(WithdrawPool(GPU, POOL, drop)), Obsolete)
    assert booth.carry_out(WithdrawPool(GPU, POOL, drop, adopt=True)) == Done()
    assert booth.slices() == []


def test_a_slice_that_changed_after_it_was_read_is_compared_again_before_it_goes() -> None:
    booth = Booth()
    booth.carry_out(pool(1))
    drop = dropping(NAME, booth=booth)
    taken = {"metadata": {"labels": {OWNER: "other"}}}
    booth.meanwhile("DELETE", lambda: booth.edit(SLICES, NAME, taken))
    assert isinstance(booth.carry_out(WithdrawPool(GPU, POOL, drop)), Obsolete)
    assert len(booth.slices()) == 1


def test_a_slice_that_a_smaller_pool_leaves_behind_goes_only_as_it_was_read() -> None:
    booth = Booth()
    booth.carry_out(pool(1, 1))
    drop = dropping(SECOND, booth=booth)
    taken = {"metadata": {"labels": {OWNER: "other"}}}
    booth.meanwhile("DELETE", lambda: booth.edit(SLICES, SECOND, taken))
    assert isinstance(booth.carry_out(pool(1, drop=drop)), Obsolete)
    assert [one["metadata"]["name"] for one in booth.slices()] == [NAME, SECOND]


def test_a_change_between_look_and_write_is_looked_at_again() -> None:
    booth = Booth()
    booth.carry_out(pool(1))
    booth.meanwhile("PUT", lambda: booth.edit(SLICES, NAME, {"metadata": {"labels": {"team": "red"}}}))
    assert booth.carry_out(pool(2)) == Done()
    assert booth.slice()["metadata"]["labels"]["team"] == "red"
    assert len(booth.slice()["spec"]["devices"]) == 2


def test_a_name_that_is_just_going_is_waited_for() -> None:
    booth = Booth()
    booth.carry_out(pool(1))
    booth.leaving(SLICES, NAME)
    assert isinstance(booth.carry_out(pool(2)), Later)


# -- what the API server keeps ---------------------------------------------------------------------------------------------------


def test_devices_that_would_be_handed_out_at_once_are_gone_at_once() -> None:
    booth = Booth(DRADeviceBindingConditions=False)
    result = booth.carry_out(pool(2, 2))
    assert isinstance(result, Declined) and (result.code, result.reason) == (422, "BindingConditionsDropped")
    assert "DRADeviceBindingConditions" in result.text
    assert booth.slices() == []
    assert booth.writer.requests["POST"] == 1


def test_the_same_for_a_slice_that_was_taken_over() -> None:
    booth = Booth("1.34")
    booth.foreign(NAME, driver=GPU)
    result = booth.carry_out(pool(2, adopt=True))
    assert isinstance(result, Declined) and result.reason == "BindingConditionsDropped"
    assert booth.slices() == []


def test_a_slice_that_cannot_be_taken_back_is_tried_again() -> None:
    booth = Booth(DRADeviceBindingConditions=False)
    broken = Refusing(booth, "DELETE", 503)
    assert isinstance(pool(1).carry_out(broken, booth.versions), Later)
    assert len(booth.slices()) == 1
    assert isinstance(booth.carry_out(pool(1)), Declined)
    assert booth.slices() == []


def test_what_else_is_dropped_is_told_by_its_name() -> None:
    booth = Booth(DRADeviceTaints=False)
    result = booth.carry_out(pool(1, taint="cohdi.io/cooling"))
    assert isinstance(result, Declined) and (result.code, result.reason) == (422, "FieldsDropped")
    assert "devices.taints" in result.text and len(booth.slices()) == 1
    shares = Booth(DRAConsumableCapacity=False).carry_out(pool(1, model=SHARED))
    assert isinstance(shares, Declined) and "devices.allowMultipleAllocations, devices.capacity" in shares.text


def test_an_empty_pool_loses_nothing() -> None:
    assert Booth(DRADeviceBindingConditions=False).carry_out(pool(0)) == Done()


class Refusing:
    """A proxy before the booth's writer that answers one method with a code."""

    def __init__(self, booth: Booth, method: str, code: int) -> None:
        self._writer, self._method, self._code = booth.writer, method, code

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        if method == self._method:
            return Answer(self._code, b"{}")
        return self._writer.ask(method, path, **more)


# -- versions, permissions ----------------------------------------------------------------------------------------------


def test_a_version_before_binding_conditions_is_declined_unasked() -> None:
    booth = Booth()
    booth.served[SLICES] = "resource.k8s.io/v1beta1"
    result = booth.carry_out(pool(1))
    assert isinstance(result, Declined) and result.reason == "BindingConditionsDropped" and not booth.writer.requests


def test_slices_that_are_not_served_are_waited_for() -> None:
    booth = Booth()
    del booth.served[SLICES]
    assert isinstance(booth.carry_out(pool(1)), Later)


def test_without_permission_it_is_declined() -> None:
    booth = Booth()
    result = booth.carry_out(pool(1), booth.as_user("nobody"))
    assert isinstance(result, Declined) and result.code == 403


def test_a_work_is_a_value() -> None:
    assert pool(2) == pool(2) != replace(pool(2), taint="x")
    assert isinstance(pool(2), PublishPool)
