"""Raw objects to the core's structs: real recorded ones, whole ones, old versions of the API. What is refused stands in
`test_decode_refused.py`."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dds_adapters.kubernetes.decode import decoding
from dds_core.model import (
    Allocation,
    Alternative,
    AttachRequest,
    CapacityPolicy,
    Claim,
    ClaimRequest,
    Condition,
    Constraint,
    Consumer,
    Device,
    DeviceClass,
    FabricResource,
    Node,
    Pod,
    Requirement,
    Result,
    Slice,
    Taint,
    TaintRule,
    Toleration,
)
from tests.adapters.kubernetes.samples import DECODE, ONE_NODE, put, raw_of, recorded, sample

CREATED = 1_795_227_064_000_000  # 2026-11-21T02:11:04Z
SHARE = "3f1b2c54-0000-4000-8000-000000000001"
TAINT = Taint("gpu.nvidia.com/xid", "79", "NoSchedule")

WHOLE: dict[str, Any] = {
    "resourceclaims": Claim(
        uid="u-1",
        namespace="default",
        name="c1",
        created=CREATED,
        owner="p-1",
        requests=(ClaimRequest("r0", alternatives=(Alternative("gpu", selectors=("true",), count=2),)),),
        allocation=Allocation(
            results=(
                Result(
                    "r0",
                    "gpu.nvidia.com",
                    "nvidia-a100-40-fabric1",
                    "nvidia-a100-40-0",
                    binding=("FabricDeviceReady",),
                    failure=("FabricDeviceReschedule", "FabricDeviceFailed"),
                    share=SHARE,
                    consumed={"bandwidth": "3Gi"},
                ),
            ),
            node="n1",
            timestamp=CREATED + 1_000_000,
        ),
        consumers=(Consumer("p-1", "p1"),),
        conditions=(
            Condition(
                "gpu.nvidia.com",
                "nvidia-a100-40-fabric1",
                "nvidia-a100-40-0",
                "FabricDeviceReady",
                "True",
                share=SHARE,
                reason="Attached",
            ),
        ),
        config="4110002864bec0d0",
        told=(("gpu.nvidia.com", "nvidia-a100-40-fabric1", "nvidia-a100-40-0"),),
        protected=True,
    ),
    "resourceslices": Slice(
        uid="u-1",
        name="s1",
        driver="gpu.nvidia.com",
        pool="nvidia-a100-40-fabric1",
        generation=5,
        selector=(Requirement("cohdi.io/fabric", "In", ("1",)),),
        devices={
            "gpu-0": Device(
                attributes={"uuid": "GPU-1", "driverVersion": "1.2.3", "numa": 1, "ready": True},
                capacity={"memory": "40Gi"},
                binding=("FabricDeviceReady",),
                failure=("FabricDeviceFailed",),
                shared=True,
                taints=(TAINT,),
                consumes={"s": {"m": "1"}},
                versions=("driverVersion",),
                policies={"memory": CapacityPolicy("1Gi")},
            )
        },
    ),
    "deviceclasses": DeviceClass("u-1", "gpu", ("device.driver == 'gpu.nvidia.com'",), "example.com/gpu", CREATED),
    "devicetaintrules": TaintRule("u-1", "t1", "gpu.nvidia.com", "n1", "gpu-0", TAINT),
    "nodes": Node("u-1", "n1", {"team": "blue"}, (TAINT,), unschedulable=True),
    "pods": Pod(
        uid="u-1",
        namespace="default",
        name="p1",
        node="n1",
        nominated="n2",
        phase="Pending",
        scheduler="default-scheduler",
        claims=("c1", "c2"),
        extended_claim="c3",
        waiting="SchedulerError",
        tolerations=(Toleration("k", "Exists", "v", "NoExecute"),),
    ),
    "composabilityrequests": AttachRequest(
        uid="u-1",
        name="composability-bggr9",
        generate_name="composability-",
        labels={"team": "blue"},
        created=CREATED,
        type="gpu",
        model="A100 40G",
        size=2,
        node="n1",
        force=True,
        state="Running",
        error="attach refused",
        acted_size=1,
        planned=("gpu-1",),
    ),
    "composableresources": FabricResource(
        uid="u-1",
        name="gpu-60abf7f4",
        request="composability-bggr9",
        created=CREATED,
        type="gpu",
        model="A100 40G",
        node="n1",
        state="Online",
        error="attach refused",
        uuid="GPU-1",
        fabric_id="1027c4d1",
        marked=True,
        detach_only=True,
    ),
}


@pytest.mark.parametrize("resource", WHOLE)
def test_every_field_that_is_read(resource: str) -> None:
    assert DECODE[resource](raw_of(sample(resource))) == WHOLE[resource]


@pytest.mark.parametrize("resource", WHOLE)
def test_an_object_being_deleted(resource: str) -> None:
    found = DECODE[resource](raw_of(put(sample(resource), "metadata/deletionTimestamp", "2026-11-21T02:11:04Z")))
    assert getattr(found, "deleting", True)


@pytest.mark.parametrize("resource", WHOLE)
def test_items_of_a_list_carry_no_kind(resource: str) -> None:
    obj = sample(resource)
    del obj["kind"], obj["apiVersion"]
    assert DECODE[resource](raw_of(obj)) == WHOLE[resource]


# -- real ones -------------------------------------------------------------------------------------


def test_a_recorded_claim_through_its_life() -> None:
    claims = [decoding.claim(event.raw) for event in recorded("first_attach", "resourceclaims")]
    first = claims[0]
    assert (first.namespace, first.name, first.requests) == (
        "default",
        "train-1",
        (ClaimRequest("r0", alternatives=(Alternative("nvidia-a100-40"),)),),
    )
    assert first.allocation is None and first.created == CREATED
    waiting = next(one for one in claims if one.allocation is not None)
    assert waiting.allocation == Allocation(
        results=(
            Result(
                "r0",
                "gpu.nvidia.com",
                "nvidia-a100-40-fabric1",
                "nvidia-a100-40-0",
                binding=("FabricDeviceReady",),
                failure=("FabricDeviceReschedule", "FabricDeviceFailed"),
            ),
        ),
        node="node0000",
        timestamp=CREATED,
    )
    signalled = next(one for one in claims if one.conditions)
    assert [(c.type, c.status, c.reason) for c in signalled.conditions] == [
        ("FabricDeviceReschedule", "True", "DeviceConditionUpdated")
    ]
    last = next(one for one in reversed(claims) if one.allocation is not None)
    assert last.allocation is not None and last.allocation.results[0].binding == ()


def test_recorded_pool_and_node_slices() -> None:
    slices = [decoding.resource_slice(event.raw) for event in recorded("first_attach", "resourceslices")]
    pool = next(one for one in slices if not one.node)
    assert (pool.pool, pool.generation, pool.slices) == ("nvidia-a100-40-fabric1", 1, 1)
    assert pool.selector == (
        Requirement("cohdi.io/nvidia-a100-40", "In", ("true",)),
        Requirement("cohdi.io/fabric", "In", ("1",)),
    )
    assert list(pool.devices) == [f"nvidia-a100-40-{i}" for i in range(4)]
    assert all(one.binding == ("FabricDeviceReady",) for one in pool.devices.values())
    local = next(one for one in slices if one.node and one.devices)
    device = next(iter(local.devices.values()))
    assert local.pool == local.node and device.binding == ()
    assert str(device.attributes["uuid"]).startswith("GPU-") and device.capacity == {"memory": "40Gi"}


def test_recorded_shares_of_a_device() -> None:
    claims = [decoding.claim(event.raw) for event in recorded("shares", "resourceclaims")]
    results = [one.allocation.results[0] for one in claims if one.allocation is not None]
    assert {one.consumed.get("bandwidth") for one in results} >= {"4Gi", "3Gi", "1Gi", "6Gi"}
    assert all(one.share for one in results)
    slices = [decoding.resource_slice(event.raw) for event in recorded("shares", "resourceslices")]
    nics = [device for one in slices for device in one.devices.values() if device.shared]
    assert nics and all(device.attributes == {"speed": 10} for device in nics)


def test_a_recorded_extended_resource() -> None:
    claims = [decoding.claim(event.raw) for event in recorded("extended_resource", "resourceclaims")]
    pods = [decoding.pod(event.raw) for event in recorded("extended_resource", "pods")]
    assert all(one.extended for one in claims)
    assert {one.owner for one in claims} == {pods[0].uid}
    assert not decoding.refers_to_claims(pods[0])
    named = next(one for one in pods if one.extended_claim)
    assert decoding.refers_to_claims(named) and named.extended_claim in {one.name for one in claims}
    assert "SchedulerError" in {one.waiting for one in pods}
    classes = [decoding.device_class(event.raw) for event in recorded("extended_resource", "deviceclasses")]
    assert [one.extended_resource for one in classes] == ["", "example.com/gpu"]


def test_a_recorded_first_available() -> None:
    claims = [decoding.claim(event.raw) for event in recorded("first_available", "resourceclaims")]
    assert [one.name for one in claims[0].requests[0].alternatives] == ["big", "small"]
    assert {one.allocation.results[0].request for one in claims if one.allocation is not None} == {"gpu/small"}


def test_a_recorded_cordon_and_node() -> None:
    nodes = [decoding.node(event.raw) for event in recorded("cordoned", "nodes")]
    assert any(one.unschedulable for one in nodes) and not nodes[0].unschedulable
    assert nodes[0].labels["cohdi.io/fabric"] == "1"


def test_a_recorded_request_and_its_resource() -> None:
    requests = [decoding.attach_request(event.raw) for event in recorded("first_attach", "composabilityrequests")]
    first, then = requests[0], requests[1]
    assert (first.generate_name, first.type, first.model, first.size, first.node, first.policy) == (
        "composability-",
        "gpu",
        "A100 40G",
        1,
        "node0000",
        "samenode",
    )
    assert first.acted_size is None and (then.state, then.acted_size) == ("Updating", 1)
    resources = [decoding.fabric_resource(event.raw) for event in recorded("first_attach", "composableresources")]
    assert {one.planned for one in requests} == {None}, "the operator that was recorded named none"
    assert resources[0].request == first.name and resources[0].state == "" and resources[0].uuid == ""
    online = next(one for one in resources if one.state == "Online")
    assert online.uuid == f"GPU-{online.fabric_id}" and not online.marked and not online.detach_only


@pytest.mark.parametrize(
    ("status", "planned"),
    [
        (None, None),
        ({}, None),
        ({"state": "Running"}, None),
        ({"scalarResource": {"size": 2}}, None),
        ({"scalarResource": {"size": 2}, "resources": None}, None),
        ({"scalarResource": {"size": 2}, "resources": {}}, None),
        ({"resources": {}}, None),
        ({"scalarResource": {"size": 0}}, ()),
        ({"scalarResource": {"size": 0}, "resources": None}, ()),
        ({"scalarResource": {"size": 0}, "resources": {}}, ()),
        ({"scalarResource": {"size": 2}, "resources": {"gpu-b": {"state": ""}, "gpu-a": {}}}, ("gpu-a", "gpu-b")),
        ({"scalarResource": {"size": 1}, "resources": {"gpu-a": None}}, ("gpu-a",)),
        ({"scalarResource": {"size": 0}, "resources": {"gpu-a": {}}}, ("gpu-a",)),
        ({"resources": {"gpu-a": {}}}, ("gpu-a",)),
    ],
    ids=str,
)
def test_what_a_request_keeps_is_known_by_name_or_not_at_all(status: Any, planned: tuple[str, ...] | None) -> None:
    """The operator leaves an empty map out: that it keeps none is only said by the size 0 that it has acted on."""
    request = sample("composabilityrequests")
    request["status"] = status
    assert decoding.attach_request(raw_of(request)).planned == planned
    del request["status"]
    assert decoding.attach_request(raw_of(request)).planned is None


def test_a_recorded_failure_keeps_the_fabrics_words() -> None:
    resources = [decoding.fabric_resource(event.raw) for event in recorded("attach_failure", "composableresources")]
    assert "CDI manager: machine update failed, E02XXXX" in {one.error for one in resources}


# -- other versions of the API ---------------------------------------------------------------------


def test_v1beta1_has_its_requests_inline_and_its_devices_wrapped() -> None:
    claim = sample("resourceclaims")
    claim["apiVersion"] = "resource.k8s.io/v1beta1"
    request = claim["spec"]["devices"]["requests"][0]
    claim["spec"]["devices"]["requests"] = [{"name": "r0", **request["exactly"]}]
    assert decoding.claim(raw_of(claim)) == WHOLE["resourceclaims"]
    slice_ = sample("resourceslices")
    slice_["apiVersion"] = "resource.k8s.io/v1beta1"
    device = slice_["spec"]["devices"][0]
    slice_["spec"]["devices"] = [{"name": device.pop("name"), "basic": device}]
    assert decoding.resource_slice(raw_of(slice_)) == WHOLE["resourceslices"]


@pytest.mark.parametrize(
    ("resource", "version"),
    [
        ("resourceclaims", "resource.k8s.io/v1beta2"),
        ("resourceslices", "resource.k8s.io/v1beta2"),
        ("deviceclasses", "resource.k8s.io/v1beta1"),
        ("devicetaintrules", "resource.k8s.io/v1"),
        ("devicetaintrules", "resource.k8s.io/v1alpha3"),
    ],
)
def test_versions_that_are_alike(resource: str, version: str) -> None:
    assert DECODE[resource](raw_of({**sample(resource), "apiVersion": version})) == WHOLE[resource]


# -- what varies -----------------------------------------------------------------------------------


def test_all_that_a_claim_asks_for() -> None:
    claim = sample("resourceclaims")
    claim["spec"]["devices"]["requests"] = [
        {
            "name": "r0",
            "firstAvailable": [
                {"name": "r0", "deviceClassName": "big", "allocationMode": "All"},
                {
                    "name": "b",
                    "deviceClassName": "small",
                    "count": 4,
                    "selectors": [{"cel": {"expression": "true"}}],
                    "tolerations": [{"operator": "Exists"}, {"key": "k", "value": "v"}],
                    "capacity": {"requests": {"memory": "1Gi"}},
                },
            ],
        },
        {"name": "r1", "exactly": {"deviceClassName": "big", "adminAccess": True}},
    ]
    claim["spec"]["devices"]["constraints"] = [
        {"requests": ["r0"], "matchAttribute": "a.b/c"},
        {"distinctAttribute": "a.b/d"},
    ]
    found = decoding.claim(raw_of(claim))
    several = (
        Alternative("big", "r0", all=True),
        Alternative(
            "small",
            "b",
            ("true",),
            4,
            tolerations=(Toleration("", "Exists"), Toleration("k", "Equal", "v")),
            capacity={"memory": "1Gi"},
        ),
    )
    assert found.requests == (
        ClaimRequest("r0", alternatives=several),
        ClaimRequest("r1", alternatives=(Alternative("big", admin=True),)),
    )
    assert found.constraints == (Constraint(("r0",), "a.b/c"), Constraint((), "", "a.b/d"))
    assert found.known


def test_the_counters_of_a_slice_and_how_a_capacity_is_shared_out() -> None:
    slice_ = sample("resourceslices")
    slice_["spec"]["sharedCounters"] = [{"name": "s", "counters": {"m": {"value": "7"}}}]
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}, "validValues": ["2Gi"]}
    slice_["spec"]["devices"][0]["capacity"]["memory"]["requestPolicy"] = policy
    found = decoding.resource_slice(raw_of(slice_))
    assert found.counters == {"s": {"m": "7"}}
    assert found.devices["gpu-0"].policies == {"memory": CapacityPolicy("1Gi", ("2Gi",), True, "1Gi", "", "1Gi")}
    policy["default"] = "much"
    with pytest.raises(decoding.Fault, match="is no quantity"):
        decoding.resource_slice(raw_of(slice_))


@pytest.mark.parametrize(
    ("selector", "node"),
    [
        (ONE_NODE, "n1"),
        ({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}, ""),
        ({"nodeSelectorTerms": [*ONE_NODE["nodeSelectorTerms"], *ONE_NODE["nodeSelectorTerms"]]}, ""),
        (
            {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}
                ]
            },
            "",
        ),
        (
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}]},
            "",
        ),
    ],
)
def test_the_node_of_an_allocation(selector: Any, node: str) -> None:
    claim = put(sample("resourceclaims"), "status/allocation/nodeSelector", selector)
    allocation = decoding.claim(raw_of(claim)).allocation
    assert allocation is not None and allocation.node == node
    assert (json.loads(allocation.selector) if allocation.selector else selector) == selector
    assert bool(allocation.selector) is not bool(node)


def test_the_selector_is_canonical() -> None:
    one = '{"operator":"In","key":"a","values":["b"]}'
    other = '{"key": "a", "values": ["b"], "operator": "In", "later": 1}'
    found = set()
    for text in (one, other):
        claim = sample("resourceclaims")
        claim["status"]["allocation"]["nodeSelector"] = {
            "nodeSelectorTerms": [{"matchExpressions": [json.loads(text)]}]
        }
        allocation = decoding.claim(raw_of(claim)).allocation
        assert allocation is not None
        found.add(allocation.selector)
    assert found == {'{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}]}'}


def test_an_allocation_without_selector_or_timestamp() -> None:
    claim = sample("resourceclaims")
    del claim["status"]["allocation"]["nodeSelector"], claim["status"]["allocation"]["allocationTimestamp"]
    allocation = decoding.claim(raw_of(claim)).allocation
    assert allocation is not None and (allocation.node, allocation.selector, allocation.timestamp) == ("", "", None)


def test_the_owner_is_a_pod_and_nothing_else() -> None:
    claim = sample("resourceclaims")
    claim["metadata"]["ownerReferences"].insert(0, {"kind": "Workload", "name": "w", "uid": "w-1"})
    assert decoding.claim(raw_of(claim)).owner == "p-1"
    claim["metadata"]["ownerReferences"].pop()
    assert decoding.claim(raw_of(claim)).owner == ""


CONFIG = "status/allocation/devices/config"


def digest(config: Any) -> str:
    return decoding.claim(raw_of(put(sample("resourceclaims"), CONFIG, config))).config


MANAGED = {"app.kubernetes.io/managed-by": "dds"}
RESERVED = {"apiGroup": "cro.hpsys.ibm.ie.com", "resource": "composableresources", "name": "a", "uid": "r-1"}
BY_POD = {"resource": "pods", "name": "p1", "uid": "p-1"}


@pytest.mark.parametrize(
    ("labels", "owner", "reserved", "hold"),
    [
        (MANAGED, "ComposableResource", [RESERVED], "r-1"),
        (MANAGED, "ComposableResource", None, "r-1"),
        (MANAGED | {"more": "x"}, "ComposableResource", [], "r-1"),
        (None, "ComposableResource", [RESERVED], ""),
        ({"app.kubernetes.io/managed-by": "helm"}, "ComposableResource", [RESERVED], ""),
        (MANAGED, "Pod", [RESERVED], ""),
        (MANAGED, "", [RESERVED], ""),
        (MANAGED, "ComposableResource", [BY_POD], ""),
        (MANAGED, "ComposableResource", [RESERVED, BY_POD], ""),
    ],
)
def test_a_hold_has_our_label_and_a_resource_as_owner_and_is_no_pods(
    labels: Any, owner: str, reserved: Any, hold: str
) -> None:
    claim = put(put(sample("resourceclaims"), "metadata/labels", labels), "status/reservedFor", reserved)
    owners = [{"apiVersion": "v1", "kind": owner, "name": "a", "uid": "r-1"}] if owner else None
    assert decoding.claim(raw_of(put(claim, "metadata/ownerReferences", owners))).hold == hold


def test_a_hold_belongs_to_the_resource_among_its_owners() -> None:
    owners = [{"kind": "Pod", "name": "p", "uid": "p-1"}, {"kind": "ComposableResource", "name": "a", "uid": "r-1"}]
    claim = put(put(sample("resourceclaims"), "metadata/labels", MANAGED), "status/reservedFor", None)
    assert decoding.claim(raw_of(put(claim, "metadata/ownerReferences", owners))).hold == "r-1"


def test_the_configuration_is_known_by_a_digest_of_what_it_says() -> None:
    one: dict[str, Any] = {
        "source": "FromClass",
        "opaque": {"driver": "d", "parameters": {"b": [1, None], "a": 10**30}},
    }
    other = json.loads(json.dumps(one, sort_keys=True, indent=1))
    assert digest([one]) == digest([other]) and len(digest([one])) == 16
    assert digest([one]) == decoding.config_digest([one])
    assert len({digest(config) for config in ([one], [one, one], [{**one, "source": "FromClaim"}], [])}) == 4
    assert digest([]) == digest(None) == digest(...) == ""


def test_a_configuration_that_only_its_driver_understands_is_no_fault() -> None:
    text = raw_of(put(sample("resourceclaims"), CONFIG, ["KEY"]))
    found = {decoding.claim(text.replace(b'"KEY"', odd)).config for odd in (b"1e999", b"[1e999]", b'"\xff"')}
    assert len(found) == 3 and all(len(one) == 16 for one in found)
    with pytest.raises(decoding.Fault, match="config: expected array"):
        digest({"secret": 1})


def test_who_has_an_entry_is_known_by_device_and_once() -> None:
    entries = [{"driver": "d", "pool": "p", "device": one} for one in ("b", "a", "b")]
    claim = decoding.claim(raw_of(put(sample("resourceclaims"), "status/devices", entries)))
    assert claim.told == (("d", "p", "a"), ("d", "p", "b")) and claim.conditions == ()


@pytest.mark.parametrize("finalizers", [..., None, [], ["example.com/wait"]])
def test_a_claim_without_the_finalizer_is_not_protected(finalizers: Any) -> None:
    assert not decoding.claim(raw_of(put(sample("resourceclaims"), "metadata/finalizers", finalizers))).protected


def test_lists_that_go_writes_as_null() -> None:
    claim = sample("resourceclaims")
    claim["spec"] = {"devices": {"requests": None}}
    claim["status"] = {"allocation": {"devices": {"results": None}}, "reservedFor": None, "devices": None}
    found = decoding.claim(raw_of(claim))
    assert (found.requests, found.consumers, found.conditions, found.allocation) == ((), (), (), Allocation())


@pytest.mark.parametrize(
    "resource", ["resourceclaims", "nodes", "pods", "composabilityrequests", "composableresources"]
)
def test_no_status_yet(resource: str) -> None:
    obj = sample(resource)
    del obj["status"]
    found = DECODE[resource](raw_of(obj))
    assert getattr(found, "state", "") == "" and getattr(found, "allocation", None) is None


def test_a_slice_of_one_node_by_name_or_by_selector() -> None:
    for spec in ({"nodeName": "n1", "nodeSelector": None}, {"nodeSelector": ONE_NODE}):
        obj = sample("resourceslices")
        obj["spec"].update(spec)
        found = decoding.resource_slice(raw_of(obj))
        assert (found.node, found.selector) == ("n1", ())


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        (None, ""),
        ({}, ""),
        ({"app.kubernetes.io/managed-by": "dds-publisher"}, "dds-publisher"),
        ({"app.kubernetes.io/managed-by": "somebody"}, ""),
        ({"managed-by": "dds-publisher"}, ""),
    ],
)
def test_the_slices_of_our_publisher_and_nobody_elses(labels: Any, owner: str) -> None:
    found = decoding.resource_slice(raw_of(put(sample("resourceslices"), "metadata/labels", labels)))
    assert found.owner == owner


def test_a_slice_of_all_nodes_and_one_whose_devices_have_their_own() -> None:
    obj = sample("resourceslices")
    obj["spec"].update(nodeSelector=None, allNodes=True)
    assert decoding.resource_slice(raw_of(obj)).all_nodes
    obj["spec"].update(allNodes=None, perDeviceNodeSelection=True)
    obj["spec"]["devices"] = [{"name": "a", "nodeName": "n1"}, {"name": "b", "nodeSelector": ONE_NODE}, {"name": "c"}]
    found = decoding.resource_slice(raw_of(obj))
    assert not found.all_nodes and {name: one.node for name, one in found.devices.items()} == {
        "a": "n1",
        "b": "n1",
        "c": "",
    }


def test_a_slice_of_counters_only() -> None:
    obj = sample("resourceslices")
    obj["spec"]["devices"] = None
    obj["spec"]["sharedCounters"] = [{"name": "s", "counters": {"m": {"value": "1"}}}]
    assert decoding.resource_slice(raw_of(obj)).devices == {}


def test_a_pod_whose_claims_are_not_made_yet() -> None:
    obj = sample("pods")
    obj["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True", "reason": "x"}]}
    found = decoding.pod(raw_of(obj))
    assert (found.claims, found.extended_claim, found.waiting) == (("c1", ""), "", "")


def test_how_many_of_an_extended_resource_a_pod_asks_for() -> None:
    """All containers and sidecars together, or an init container and the sidecars before it, if that is more."""

    def container(gpus: str, **fields: str) -> dict[str, Any]:
        return {"name": "c", "resources": {"requests": {"example.com/gpu": gpus, "cpu": "1"}}, **fields}

    found = sample("pods")
    del found["spec"]["nodeName"]
    found["status"] |= {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}],
    }
    implicit = {"name": "d", "resources": {"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}}}
    found["spec"]["containers"] = [container("1"), container("2"), implicit, {"name": "none"}]
    asked = {"deviceclass.resource.kubernetes.io/gpu": 1, "example.com/gpu": 3}
    assert DECODE["pods"](raw_of(found)).extended_resources == asked
    found["spec"]["initContainers"] = [container("1", restartPolicy="Always"), container("3")]
    assert DECODE["pods"](raw_of(found)).extended_resources == asked | {"example.com/gpu": 4}
    found["spec"]["initContainers"] = [container("7"), container("1", restartPolicy="Always")]
    assert DECODE["pods"](raw_of(found)).extended_resources == asked | {"example.com/gpu": 7}


def test_a_toleration_without_operator_means_equal() -> None:
    obj = put(sample("pods"), "spec/tolerations", [{"key": "a", "value": "b"}])
    assert decoding.pod(raw_of(obj)).tolerations == (Toleration("a", "Equal", "b"),)


def test_a_taint_rule_with_an_empty_selector_matches_any() -> None:
    rule = decoding.taint_rule(raw_of(put(sample("devicetaintrules"), "spec/deviceSelector", {})))
    assert (rule.driver, rule.pool, rule.device, rule.selects) == ("", "", "", True)


def test_a_taint_rule_without_a_selector_says_so() -> None:
    """What it does depends on the server's release (Kubernetes issue 141620)."""
    obj = sample("devicetaintrules")
    del obj["spec"]["deviceSelector"]
    rule = decoding.taint_rule(raw_of(obj))
    assert (rule.driver, rule.pool, rule.device, rule.selects) == ("", "", "", False)


@pytest.mark.parametrize("value", ["false", "True", ""])
def test_only_true_marks_a_resource(value: str) -> None:
    obj = sample("composableresources")
    obj["metadata"]["annotations"] = {"cohdi.io/delete-device": value}
    assert not decoding.fabric_resource(raw_of(obj)).marked


def test_a_foreign_reason_is_scrubbed() -> None:
    obj = put(sample("resourceclaims"), "status/devices/0/conditions/0/reason", "password=hunter2")
    assert decoding.claim(raw_of(obj)).conditions[0].reason == "password=[removed]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.000001Z", 1_000_001),
        ("2026-11-21T03:11:04+01:00", CREATED),
        ("1969-12-31T23:59:59Z", -1_000_000),
        ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
        ("0001-01-01T00:00:00+23:59", -62_135_683_140_000_000),
    ],
)
def test_instants_are_exact_microseconds(text: str, expected: int) -> None:
    obj = put(sample("resourceclaims"), "metadata/creationTimestamp", text)
    assert decoding.claim(raw_of(obj)).created == expected


def test_no_struct_can_hold_what_must_stay_out() -> None:
    """The raw structs name no container and no Secret, which the parser skips; of opaque configuration a digest is kept."""
    decoded = [DECODE[resource](raw_of(sample(resource))) for resource in DECODE]
    text = msgspec.json.encode(decoded).decode()
    for hidden in ("hunter2", "secretKeyRef", "licence", "opaque", "last-applied", "providerID", "vendor", "free text"):
        assert hidden not in text
