"""What is published of a device, and the one form by which wanted and live devices are compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dds_core.publisher.describe import (
    as_exclusive,
    device_of,
    devices_of,
    digest_of,
    digest_of_pool,
    in_order,
    name_of,
    name_of_id,
    number_of,
    stem_of,
)
from dds_core.publisher.model import Attribute, Capacity, PoolModel, Range

MODEL = PoolModel(
    0,
    "NVIDIA A100",
    "nvidia-a100",
    "gpu.nvidia.com",
    attributes={
        "type": Attribute(string="gpu"),
        "ecc": Attribute(boolean=False),
        "numa": Attribute(integer=0),
        "driverVersion": Attribute(version="550.1.0"),
    },
    capacity={"memory": Capacity("40Gi", "10Gi", valid_range=Range("5Gi", "40Gi", "5Gi"))},
    shared=True,
)


def test_each_type_has_its_own_field() -> None:
    found = device_of(MODEL, "nvidia-a100-0", "cohdi.io/cooling")
    assert found == {
        "name": "nvidia-a100-0",
        "attributes": {
            "driverVersion": {"version": "550.1.0"},
            "ecc": {"bool": False},
            "numa": {"int": 0},
            "type": {"string": "gpu"},
        },
        "capacity": {
            "memory": {
                "value": "40Gi",
                "requestPolicy": {"default": "10Gi", "validRange": {"min": "5Gi", "max": "40Gi", "step": "5Gi"}},
            }
        },
        "bindsToNode": True,
        "bindingConditions": ["FabricDeviceReady"],
        "bindingFailureConditions": ["FabricDeviceReschedule", "FabricDeviceFailed"],
        "allowMultipleAllocations": True,
        "taints": [{"key": "cohdi.io/cooling", "effect": "NoSchedule"}],
    }


def test_an_exclusive_device_has_no_request_policy() -> None:
    found = device_of(as_exclusive(MODEL), "x")
    assert "allowMultipleAllocations" not in found
    assert found["capacity"] == {"memory": {"value": "40Gi"}}


def test_what_the_server_adds_or_spells_otherwise_does_not_count() -> None:
    mine = devices_of(MODEL, ["a", "b"], "cohdi.io/cooling")
    theirs = [dict(reversed(one.items())) for one in devices_of(MODEL, ["a", "b"], "cohdi.io/cooling")]
    for one in theirs:
        one["taints"] = [{**one["taints"][0], "timeAdded": "2026-01-01T00:00:00Z", "value": ""}]
        one["capacity"] = {"memory": {**one["capacity"]["memory"], "value": "40960Mi"}}
        one["consumesCounters"] = []
    assert digest_of(mine) == digest_of(theirs)


@pytest.mark.parametrize(
    "change",
    [
        {"bindingConditions": []},
        {"bindsToNode": False},
        {"taints": []},
        {"attributes": {"type": {"string": "mig"}}},
        {"capacity": {"memory": {"value": "80Gi"}}},
        {"nodeName": "n1"},
        {"name": "other"},
    ],
)
def test_what_matters_counts(change: dict[str, object]) -> None:
    mine = devices_of(MODEL, ["a"], "t/k")
    assert digest_of(mine) != digest_of([{**mine[0], **change}])


def test_an_attribute_that_is_false_or_zero_counts() -> None:
    mine = devices_of(MODEL, ["a"])
    attributes = {key: value for key, value in mine[0]["attributes"].items() if key not in ("ecc", "numa")}
    assert digest_of(mine) != digest_of([{**mine[0], "attributes": attributes}])


def test_the_order_of_devices_counts() -> None:
    assert digest_of(devices_of(MODEL, ["a", "b"])) != digest_of(devices_of(MODEL, ["b", "a"]))


def test_numbers_and_names() -> None:
    assert number_of("a", name_of("a", 17)) == 17
    assert number_of("a", "a-b-1") is None and number_of("a", "a-x") is None
    assert in_order(["a-10", "a-2", "a-b"]) == ["a-2", "a-10", "a-b"]
    assert stem_of("gpu") == "gpu-pool" and stem_of("h100") == "h100"
    assert stem_of("h100", ["h100-0"]) == "h100-pool" and stem_of("h100", ["h100-0-mig"]) == "h100"


@given(
    one=st.text(min_size=1, max_size=100),
    other=st.text(min_size=1, max_size=100),
    stem=st.from_regex(r"[a-z]([a-z0-9-]{0,48}[a-z0-9])?", fullmatch=True),
)
def test_ids_become_labels_of_their_own(one: str, other: str, stem: str) -> None:
    first, second = name_of_id(stem, one), name_of_id(stem, other)
    assert len(first) <= 63 and first[-1].isalnum() and first.isascii() and first == first.lower()
    assert all(letter.isalnum() or letter == "-" for letter in first)
    assert number_of(stem, first) is None, "a counted device could be called so"
    assert (first == second) == (one == other)


@given(
    names=st.lists(st.from_regex(r"[a-z]{1,8}-[0-9]{1,3}", fullmatch=True), max_size=5),
    taint=st.sampled_from(("", "a/b")),
)
def test_a_pools_digest_is_that_of_its_devices(names: list[str], taint: str) -> None:
    assert digest_of_pool(MODEL, names, taint) == digest_of(devices_of(MODEL, names, taint))
