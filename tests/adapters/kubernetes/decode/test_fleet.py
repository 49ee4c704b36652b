"""What the autoscaler reads of nodes and pods: what there is, what is asked for, and where a pod may run."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dds_adapters.kubernetes.decode.decoding import Fault
from dds_adapters.kubernetes.decode.fleet import load, worker
from dds_core.autoscaler.events import difference
from dds_core.autoscaler.records import STARTING
from dds_core.events import decode, encode
from dds_core.model import Requirement, Taint
from tests.adapters.kubernetes.decode.test_garbage import json_values
from tests.support.drawn import examples

GI = 1 << 30


def node(**parts: Any) -> bytes:
    return json.dumps({"metadata": {"name": "n1", "uid": "u1", "labels": {"a": "b"}}, **parts}).encode()


def pod(status: dict[str, Any] | None = None, **spec: Any) -> bytes:
    meta = {"name": "p1", "namespace": "default", "uid": "u1"}
    return json.dumps({"metadata": meta, "spec": spec, "status": status or {}}).encode()


def asking(**requests: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests}}


def test_a_node_with_what_it_has_to_give() -> None:
    found = worker(
        node(
            spec={
                "providerID": "metal://7",
                "unschedulable": True,
                "taints": [{"key": STARTING.key, "effect": "NoSchedule"}],
            },
            status={
                "capacity": {"cpu": "64"},
                "allocatable": {"cpu": "63500m", "memory": "10Gi", "pods": "110", "nvidia.com/gpu": "8"},
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "False"}],
            },
        )
    )
    assert (found.provider_id, found.ready, found.unschedulable, found.labels) == ("metal://7", True, True, {"a": "b"})
    assert found.room == {"cpu": 63_500, "memory": 10 * GI, "pods": 110}
    assert found.taints == (Taint(STARTING.key, "", "NoSchedule"),)


@pytest.mark.parametrize("conditions", [None, [], [{"type": "Ready", "status": "Unknown"}]])
def test_a_node_that_does_not_say_that_it_is_ready_is_not(conditions: Any) -> None:
    assert not worker(node(status={"conditions": conditions})).ready
    assert worker(node()).room == {}


@pytest.mark.parametrize(
    ("spec", "asks"),
    [
        ({}, {}),
        ({"containers": [asking(cpu="100m", memory="1Gi"), asking(cpu=2)]}, {"cpu": 2100, "memory": GI}),
        ({"containers": [asking(cpu="1.0001")]}, {"cpu": 1001}),
        ({"containers": [asking(cpu="1")], "initContainers": [asking(cpu="3"), asking(cpu="2")]}, {"cpu": 3000}),
        (
            {
                "containers": [asking(cpu="1")],
                "initContainers": [asking(cpu="3"), asking(cpu="2") | {"restartPolicy": "Always"}],
            },
            {"cpu": 3000},
        ),
        (
            {
                "containers": [asking(cpu="1")],
                "initContainers": [asking(cpu="2") | {"restartPolicy": "Always"}, asking(cpu="3")],
            },
            {"cpu": 5000},
        ),
        ({"containers": [asking(cpu="1")], "overhead": {"cpu": "250m", "memory": "1Gi"}}, {"cpu": 1250, "memory": GI}),
        (
            {"containers": [asking(cpu="1", memory="1Gi")], "resources": {"requests": {"cpu": "4"}}},
            {"cpu": 4000, "memory": GI},
        ),
        ({"containers": [{"name": "c"}, asking(**{"nvidia.com/gpu": "1"})]}, {}),
    ],
)
def test_a_pod_asks_for_what_the_scheduler_counts(spec: dict[str, Any], asks: dict[str, int]) -> None:
    assert load(pod(**spec)).asks == asks


def granted(name: str, allocated: str, actual: str) -> dict[str, Any]:
    resources = {"requests": {"memory": actual}}
    return {"name": name, "allocatedResources": {"memory": allocated}, "resources": resources}


@pytest.mark.parametrize(
    ("asked", "allocated", "actual", "reason", "counted"),
    [
        ("60Gi", "60Gi", "60Gi", "", 60),
        ("20Gi", "20Gi", "60Gi", "", 60),
        ("20Gi", "60Gi", "60Gi", "Deferred", 60),
        ("90Gi", "90Gi", "60Gi", "", 90),
        ("90Gi", "60Gi", "60Gi", "Deferred", 90),
        ("900Gi", "60Gi", "60Gi", "Infeasible", 60),
        ("900Gi", "60Gi", "70Gi", "Infeasible", 70),
    ],
)
@pytest.mark.parametrize("what", ["container", "sidecar", "pod"])
def test_a_pod_in_mid_resize_counts_as_for_the_scheduler(
    what: str, asked: str, allocated: str, actual: str, reason: str, counted: int
) -> None:
    """Kubernetes, component-helpers/resource: PodRequests with UseStatusResources, and for the whole pod
    InPlacePodLevelResourcesVerticalScaling, whose status has the overhead in it."""
    one, plain = asking(memory=asked) | {"name": "c"}, asking() | {"name": "plain"}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    status: dict[str, Any] = {"conditions": conditions}
    spec: dict[str, Any] = {"overhead": {"memory": "1Gi"}, "containers": [plain]}
    match what:
        case "container":
            spec["containers"] = [plain, one]
            status["containerStatuses"] = [granted("plain", "0", "0"), granted("c", allocated, actual)]
        case "sidecar":
            spec["initContainers"] = [one | {"restartPolicy": "Always"}]
            status["initContainerStatuses"] = [granted("c", allocated, actual)]
        case _:
            spec["resources"] = one["resources"]
            with_overhead = [f"{int(text[:-2]) + 1}Gi" for text in (allocated, actual)]
            status |= granted("", *with_overhead)
    assert load(pod(status, **spec)).asks == {"memory": (counted + 1) * GI}


def test_an_init_container_is_not_resized() -> None:
    """Its status counts for nothing: only sidecars and containers can be resized (KEP-1287)."""
    status = {"initContainerStatuses": [granted("c", "60Gi", "60Gi")]}
    assert load(pod(status, initContainers=[asking(memory="20Gi") | {"name": "c"}])).asks == {"memory": 20 * GI}


def test_a_pod_may_run_where_selector_and_affinity_both_say_so() -> None:
    required = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]},
        ]
    }
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    disk = Requirement("disk", "In", ("ssd",))
    assert load(pod(nodeSelector={"disk": "ssd"})).terms == ((disk,),)
    assert load(pod(nodeSelector={"disk": "ssd"}, affinity=affinity)).terms == (
        (disk, Requirement("zone", "In", ("a", "b"))),
        (disk, Requirement("metadata.name", "In", ("n7",))),
    )
    assert load(pod()).terms == ()


def test_what_else_is_kept_of_a_pod() -> None:
    raw = json.loads(
        pod(
            {
                "phase": "Pending",
                "nominatedNodeName": "n2",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
                "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p1-gpu-x"}],
            },
            resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}],
            tolerations=[{"key": "k", "operator": "Exists"}],
        )
    )
    raw["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "uid": "d"}]
    found = load(json.dumps(raw).encode())
    assert (found.waiting, found.nominated, found.claims, found.daemon) == ("Unschedulable", "n2", ("p1-gpu-x",), True)
    assert found.tolerations[0].key == "k"


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (node(status={"allocatable": {"cpu": "many"}}), "status.allocatable.cpu"),
        (node(status={"allocatable": 7}), "status.allocatable"),
    ],
)
def test_a_node_that_cannot_be_read_names_the_field(raw: bytes, field: str) -> None:
    with pytest.raises(Fault) as fault:
        worker(raw)
    assert fault.value.field == field and "many" not in str(fault.value)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (pod(containers=[asking(cpu="secret")]), "spec.containers[0].resources.requests.cpu"),
        (pod(initContainers=[asking(cpu="1"), asking(memory="x")]), "spec.initContainers[1].resources.requests.memory"),
        (pod(overhead={"cpu": "x"}), "spec.overhead.cpu"),
        (pod(containers="none"), "spec.containers"),
    ],
)
def test_a_pod_that_cannot_be_read_names_the_field(raw: bytes, field: str) -> None:
    with pytest.raises(Fault) as fault:
        load(raw)
    assert fault.value.field == field and "secret" not in str(fault.value)


@examples(60, 500)
@given(st.data())
def test_garbage_in_any_part_is_a_fact_or_a_fault(data: st.DataObject) -> None:
    values: st.SearchStrategy[Any] = st.sampled_from(["1", "1e30", "9E", "-5", "1e-9", 7, 1.5]) | json_values
    spec: dict[str, Any] = {
        name: data.draw(values | st.lists(st.fixed_dictionaries({"resources": values, "restartPolicy": values})))
        for name in ("containers", "initContainers", "overhead", "resources", "nodeSelector", "affinity")
    }
    raw = pod(data.draw(values | st.just({})), **spec) if data.draw(st.booleans()) else pod(**spec)
    allocatable = data.draw(values | st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), values))
    for read, text in ((load, raw), (worker, node(spec=data.draw(values), status={"allocatable": allocatable}))):
        with suppress(Fault):
            fact = difference(None, read(text))
            assert fact is not None
            assert decode(type(fact).__name__, encode(fact)) == fact
