"""The vendor's driver: what it publishes, when it looks, how names move, what it prepares."""

import pytest

from dds_lab.actors.fabric import Answer
from dds_lab.actors.vendor import NodeDevices, NotPrepared, VendorDriver
from dds_lab.scenario.cluster import NodeDriver, Partitions
from dds_lab.scenario.parts import VendorPart
from dds_lab.scenario.values import fixed
from tests.lab.actors.rooms import A100, GPU, H100, PRODUCTS, Hall

SLICE = "node0-gpu-nvidia-com"


def attach(hall: Hall, model: str = A100) -> None:
    hall.fabric.attach("node0", model, lambda answer: None)
    hall.run(2)


def plugged(*, binding: float = 0.0, hot_plug: bool = False, names: str = "minor") -> Hall:
    settings = VendorPart(
        start=fixed(0.5),
        first_start=fixed(0.0),
        binding=binding,
        hot_plug=hot_plug,
        names=names,  # type: ignore[arg-type]
    )
    return Hall(operator=None, vendor=settings)


def test_a_device_tells_what_nvidias_tell() -> None:
    hall = plugged(hot_plug=True)
    attach(hall, H100)
    hall.run(1)
    (device,) = hall.user.get("resourceslices", SLICE)["spec"]["devices"]
    attributes = device["attributes"]
    (there,) = hall.fabric.attached("node0")
    assert attributes["uuid"] == {"string": there.device.serial}
    assert attributes["type"] == {"string": "gpu"}
    assert attributes["productName"] == {"string": "NVIDIA H100 80GB"}
    assert set(attributes) >= {"brand", "architecture", "cudaComputeCapability", "driverVersion", "cudaDriverVersion"}
    assert attributes["resource.kubernetes.io/pciBusID"]["string"].startswith("0000:")
    assert device["capacity"] == {"memory": {"value": "40Gi"}}


def test_names_come_from_minor_numbers_and_go_to_other_devices() -> None:
    hall = plugged(hot_plug=True)
    for _ in range(3):
        attach(hall)
    hall.run(1)
    before = {name: hall.vendor.prepare("node0", name) for name in hall.devices(SLICE)}
    middle = hall.fabric.attached("node0")[1]
    hall.fabric.detach("node0", middle.device.resource, lambda answer: None)
    hall.run(2)
    assert hall.devices(SLICE) == ["gpu-0", "gpu-2"]
    attach(hall)
    hall.run(1)
    after = {name: hall.vendor.prepare("node0", name) for name in hall.devices(SLICE)}
    assert list(after) == ["gpu-0", "gpu-1", "gpu-2"]
    assert after["gpu-0"] == before["gpu-0"]
    assert after["gpu-1"] != before["gpu-1"]


def test_names_by_position_move_up() -> None:
    hall = plugged(hot_plug=True, names="position")
    for _ in range(3):
        attach(hall)
    hall.run(1)
    first = hall.fabric.attached("node0")[0]
    hall.fabric.detach("node0", first.device.resource, lambda answer: None)
    hall.run(2)
    assert hall.devices(SLICE) == ["gpu-0", "gpu-1"]


def test_a_start_while_the_device_is_being_bound_misses_it() -> None:
    hall = plugged(binding=3.0)
    attach(hall)
    hall.vendor.restart_plugin("node0")
    hall.run(1)
    assert hall.devices(SLICE) == []
    hall.run(3)
    hall.vendor.restart_plugin("node0")
    hall.run(1)
    assert hall.devices(SLICE) == ["gpu-0"]


def test_what_dropped_out_is_missed_at_the_next_start() -> None:
    hall = plugged()
    attach(hall)
    hall.vendor.restart_plugin("node0")
    hall.run(1)
    hall.fabric.drop(hall.fabric.attached("node0")[0].device.serial)
    hall.run(10)
    assert hall.devices(SLICE) == ["gpu-0"]
    hall.vendor.restart_plugin("node0")
    hall.run(1)
    assert hall.devices(SLICE) == []


def test_an_unknown_name_is_not_prepared() -> None:
    hall = plugged()
    hall.run(1)
    with pytest.raises(NotPrepared, match="allocatable not found: nvidia-a100-40-0"):
        hall.vendor.prepare("node0", "nvidia-a100-40-0")


def test_a_new_process_publishes_what_is_there_now() -> None:
    hall = plugged()
    hall.run(1)
    hall.vendor.stop()
    attach(hall)
    again = hall.start(VendorDriver(hall.client("vendor"), hall.time, VendorPart(), PRODUCTS, hall.fabric))
    hall.run(1)
    assert hall.devices(SLICE) == ["gpu-0"]
    assert again.prepare("node0", "gpu-0") == hall.fabric.attached("node0")[0].device.serial


def test_the_age_of_a_plugin_counts_from_its_start() -> None:
    hall = plugged()
    hall.run(10)
    assert 9 < hall.vendor.plugin_age("node0") <= 10
    hall.vendor.restart_plugin("node0")
    assert hall.vendor.plugin_age("node0") == 0.0
    assert hall.vendor.plugin_age("nowhere") == 0.0


def test_devices_that_never_move_are_published_on_their_nodes() -> None:
    hall = Hall(operator=None)
    shared = {
        "name": "nic-0",
        "attributes": {"speed": {"int": 10}},
        "capacity": {
            "bandwidth": {
                "value": "10Gi",
                "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}},
            }
        },
        "allowMultipleAllocations": True,
    }
    settings = NodeDriver(name="nic.example.com", suffix="nic", devices=(shared,), nodes=("node1",))
    driver = hall.start(NodeDevices(hall.client("nic"), hall.time, settings))
    hall.run(1)
    found = hall.user.get("resourceslices", "node1-nic")
    assert found["spec"]["devices"] == [shared]
    assert hall.user.find("resourceslices", "node0-nic") is None
    assert driver.prepare("node1", "nic-0") == ""
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "nic.example.com", "pool": pool, "allNodes": True, "devices": [{"name": "channel-0"}]}
    hall.user.create("resourceslices", {"metadata": {"name": "net"}, "spec": spec})
    assert driver.prepare("node1", "channel-0") == "", "attached by network: every node of the driver prepares it"
    with pytest.raises(NotPrepared):
        driver.prepare("node0", "nic-0")


def test_answers_are_not_needed_for_a_device_to_be_there() -> None:
    hall = plugged(hot_plug=True)
    heard: list[Answer] = []
    hall.fabric.attach("node0", A100, heard.append)
    hall.run(3)
    assert len(heard) == 1
    assert hall.user.get("resourceslices", SLICE)["spec"]["driver"] == GPU
    assert hall.devices(SLICE) == ["gpu-0"]


# -- partitions


def cut(*profiles: str, on_demand: bool = True) -> Hall:
    model = PRODUCTS[0].model_copy(update={"partitions": Partitions(profiles=profiles, on_demand=on_demand)})
    settings = VendorPart(start=fixed(0.5), first_start=fixed(0.0), hot_plug=True)
    hall = Hall(operator=None, vendor=settings, models=(model, *PRODUCTS[1:]))
    attach(hall)
    hall.run(1)
    return hall


def test_where_partitions_are_made_on_demand_all_are_listed_beside_the_whole_with_counters() -> None:
    hall = cut("1g.5gb", "3g.20gb")
    spec = hall.user.get("resourceslices", f"{SLICE}-gpu-0")["spec"]
    assert [one["name"] for one in spec["devices"]] == [
        "gpu-0",
        *(f"gpu-0-mig-1g5gb-19-{place}" for place in range(7)),
        *(f"gpu-0-mig-3g20gb-9-{place}" for place in (0, 4)),
    ]
    (there,) = hall.fabric.attached("node0")
    part = spec["devices"][-1]
    assert part["attributes"]["parentUUID"] == {"string": there.device.serial} and "uuid" not in part["attributes"]
    assert hall.vendor.prepare("node0", part["name"]) == there.device.serial

    counters = hall.user.get("resourceslices", f"{SLICE}-counters")["spec"]
    assert "devices" not in counters and counters["pool"] == spec["pool"] and spec["pool"]["resourceSliceCount"] == 2
    (all_there_is,) = counters["sharedCounters"]
    (whole,) = spec["devices"][0]["consumesCounters"]
    assert whole == {"counterSet": all_there_is["name"], "counters": all_there_is["counters"]}
    (taken,) = part["consumesCounters"]
    assert taken["counters"].keys() == {"multiprocessors", "memory", *(f"memory-slice-{one}" for one in range(4, 8))}


def test_of_more_than_eight_in_parts_the_counters_stand_in_several_slices() -> None:
    hall = cut("7g.40gb")
    hall.fabric.resize("1", A100, 9)
    for _ in range(8):
        attach(hall)
    hall.run(3)
    found = [hall.user.get("resourceslices", f"{SLICE}-counters{more}")["spec"] for more in ("", "-1")]
    assert [len(one["sharedCounters"]) for one in found] == [8, 1]
    assert found[0]["pool"]["resourceSliceCount"] == 2 + 9


def test_partitions_that_were_made_before_are_listed_alone_and_have_an_identity() -> None:
    hall = cut("3g.20gb", "3g.20gb", on_demand=False)
    listed = hall.user.get("resourceslices", SLICE)["spec"]["devices"]
    assert [one["name"] for one in listed] == ["gpu-0-mig-3g20gb-9-0", "gpu-0-mig-3g20gb-9-4"]
    assert all(one["attributes"]["uuid"]["string"].startswith("MIG-") for one in listed)
    assert not any("consumesCounters" in one for one in listed)


def test_beside_those_in_parts_others_are_listed_as_ever_and_all_goes_with_the_last() -> None:
    hall = cut("7g.40gb")
    attach(hall, H100)
    hall.run(1)
    names = [f"{SLICE}", f"{SLICE}-counters", f"{SLICE}-gpu-0"]
    assert slices_of_node0(hall) == names
    assert hall.devices(SLICE) == ["gpu-1"]
    for one in hall.fabric.attached("node0"):
        hall.fabric.detach("node0", one.device.resource, lambda answer: None)
        hall.run(2)
    assert slices_of_node0(hall) == [SLICE]
    assert hall.devices(SLICE) == []


def slices_of_node0(hall: Hall) -> list[str]:
    found = [one["metadata"]["name"] for one in hall.user.list("resourceslices")]
    return sorted(name for name in found if name.startswith("node0-"))
