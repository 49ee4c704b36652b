"""What Kubernetes' own allocator answered, answered again: 650 random instances (nodes, slices, classes, claims, what is in use),
made for this project and put to the structured allocator of 1.36.2, variant "incubating".

With the faults of that release everything is the same. Without them the answers differ where a fault decided, each one by name.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dds_core.matching.allocator import AllocationError, Allocator, Gates, InUse, Tables
from dds_core.matching.from_api import read_claim, read_class, read_node, read_slice
from dds_core.matching.quantities import parsed

Object = dict[str, Any]
INSTANCES = Path(__file__).parents[2] / "data" / "allocator" / "instances.jsonl.gz"
GATES = {
    "DRAAdminAccess": "AdminAccess",
    "DRAPrioritizedList": "PrioritizedList",
    "DRAPartitionableDevices": "PartitionableDevices",
    "DRADeviceTaints": "DeviceTaints",
    "DRADeviceBindingConditions": "DeviceBindingAndStatus",
    "DRAConsumableCapacity": "ConsumableCapacity",
}
INVALID = "invalid resource pools were encountered"
ENDS = (
    "asks for all devices",
    "constraint would not be satisfied",
    "selector",
    "subrequests",
    "capacity requests",
    "admin access",
)
"""Why a pod is given up on every node; words that both have."""

OTHERWISE = {
    "a-426": "slices of one generation disagree how many they are; the real one believes the first that its cache gives it",
}
DECIDED_BY_FAULTS = {
    "a distinctAttribute remembers one value a request": {"c-2122", "c-2432"},
    "counters are kept by the name of a pool, without its driver (issue 140434)": {"c-3000", "c-3730"},
    "what a refused or returned device was charged, or joined, stays (issue 140436)": {
        "c-1555", "c-2014", "c-2703", "c-3590", "c-3859", "c-551", "c-566", "c-613",
    },
}  # fmt: skip


def answers(*, faults: bool) -> Iterator[tuple[str, Object, Object]]:
    """By node of every instance: its name, the answer of Kubernetes, ours."""
    with gzip.open(INSTANCES, "rt") as lines:
        for row in map(json.loads, lines):
            yield from (
                (row["instance"]["name"], real(theirs), found)
                for theirs, found in zip(row["answers"], ours(row["instance"], faults=faults), strict=True)
            )


def ours(instance: Object, *, faults: bool) -> Iterator[Object]:
    allocator = Allocator(
        map(read_slice, instance["slices"]),
        map(read_class, instance["classes"]),
        in_use(instance["state"]),
        Gates.read(lambda gate: gate in GATES and instance["features"][GATES[gate]], faults=faults),
        share_id=lambda: "share",
    )
    claims = [read_claim(claim) for claim in instance["claims"]]
    classes = {one["metadata"]["name"]: one for one in instance["classes"]}
    tables: Tables = {}
    for node in map(read_node, instance["nodes"]):
        try:
            fit = allocator.allocate(node, claims, tables)
        except AllocationError as error:
            yield {"error": why(str(error))}
            continue
        pairs = zip(fit.allocations, instance["claims"], strict=False)
        results = [comparable(each.to_object(claim, classes)) for each, claim in pairs]
        yield {"error": fit.reason == INVALID, "results": results}


def in_use(state: Object) -> InUse:
    """What is written as driver/pool/device[/share]."""
    used = InUse()
    used.devices = {key_of(text): 1 for text in state["devices"]}
    for text in state["shares"]:
        used.shares[key_of(text)] = used.shares.get(key_of(text), 0) + 1
    used.consumed = {
        key_of(text): {name: parsed(amount).nanos for name, amount in amounts.items()}
        for text, amounts in state["consumed"].items()
    }
    return used


def key_of(text: str) -> tuple[str, str, str]:
    driver, pool, device = text.split("/")[:3]
    return driver, pool, device


def real(answer: Object) -> Object:
    """An error on one node counts as one only there: the pod may go elsewhere."""
    if "error" in answer and not answer.get("onNode"):
        return {"error": why(answer["error"])}
    return {"error": "error" in answer, "results": [comparable(each) for each in answer["results"] or ()]}


def why(text: str) -> str:
    return next((words for words in ENDS if words in text), text)


def comparable(allocation: Object) -> Object:
    """With amounts as numbers, without the names of shares and what is written as nothing."""
    for result in allocation["devices"]["results"]:
        result["tolerations"] = [
            {key: text for key, text in each.items() if text} for each in result.get("tolerations", ())
        ]
        result["shareID"] = "shareID" in result
        result["consumedCapacity"] = {
            name: parsed(amount).nanos for name, amount in result.get("consumedCapacity", {}).items()
        }
    return allocation


@pytest.mark.parametrize("faults", [pytest.param(True, marks=pytest.mark.full), False])
def test_it_answers_as_kubernetes_1_36_2_does(faults: bool) -> None:
    decided = set() if faults else set().union(*DECIDED_BY_FAULTS.values())
    found = list(answers(faults=faults))
    assert len(found) == 969
    assert sum(bool(theirs.get("results")) for _, theirs, _ in found) == 276
    assert {name for name, theirs, own in found if theirs != own} == OTHERWISE.keys() | decided
