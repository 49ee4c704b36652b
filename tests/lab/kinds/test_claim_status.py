"""The status of resource claims: who writes which part of it, what it may hold, whose permission it takes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.kinds.kinds import (
    CONDITION,
    NODE_SELECTOR,
    REMOVED,
    RESULT,
    Object,
    allocated,
    changed,
    claim,
    created,
    refused_update,
    registry,
    strategy,
    updated,
)

RESULTS = "status.allocation.devices.results"
SHARE = "00000000-0000-0000-0000-000000000001"


# -- status: what a write may touch -------------------------------------------------------------------------------


def test_a_new_claim_has_no_status_whatever_its_creator_says() -> None:
    assert created(strategy("resourceclaims"), allocated())["status"] == {}


def test_uid_creation_and_deletion_are_the_servers() -> None:
    made, old = strategy("resourceclaims"), changed(claim(), "metadata.deletionTimestamp", "2026-01-01T00:00:00Z")
    body = {
        **old,
        "metadata": {"name": "c", "namespace": "default", "uid": "u-1", "creationTimestamp": "2020-01-01T00:00:00Z"},
    }
    meta = updated(made, body, old)["metadata"]
    assert meta["creationTimestamp"] == old["metadata"]["creationTimestamp"]
    assert meta["deletionTimestamp"] == "2026-01-01T00:00:00Z"


# -- status: what it may hold ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("status.reservedFor.0.uid", "", [("Required", "status.reservedFor[0].uid")]),
        ("status.reservedFor.0.name", "", [("Required", "status.reservedFor[0].name")]),
        ("status.reservedFor.0.resource", "", [("Required", "status.reservedFor[0].resource")]),
        (
            "status.reservedFor",
            [{"resource": "pods", "name": "p", "uid": "u"}] * 2,
            [("Duplicate", "status.reservedFor[1].uid")],
        ),
        (
            "status.reservedFor",
            [{"resource": "pods", "name": "p", "uid": f"u{n}"} for n in range(257)],
            [("TooMany", "status.reservedFor")],
        ),
        (f"{RESULTS}.0.request", "r1", [("Invalid", f"{RESULTS}[0].request")]),
        (
            f"{RESULTS}.0.driver",
            "Not_A_Driver",
            [("Invalid", f"{RESULTS}[0].driver"), ("Invalid", "status.devices[0]")],
        ),
        (f"{RESULTS}.0.pool", "a//b", [("Invalid", f"{RESULTS}[0].pool"), ("Invalid", "status.devices[0]")]),
        (f"{RESULTS}.0.device", "a.b", [("Invalid", f"{RESULTS}[0].device"), ("Invalid", "status.devices[0]")]),
        (f"{RESULTS}.0.bindingFailureConditions", REMOVED, [("Invalid", f"{RESULTS}[0].bindingFailureConditions")]),
        (f"{RESULTS}.0.bindingConditions", REMOVED, [("Invalid", f"{RESULTS}[0].bindingConditions")]),
        (f"{RESULTS}.0.bindingConditions", ["a", "b", "c", "d", "e"], [("TooMany", f"{RESULTS}[0].bindingConditions")]),
        (f"{RESULTS}.0.bindingConditions", ["a", "a"], [("Duplicate", f"{RESULTS}[0].bindingConditions[1]")]),
        (f"{RESULTS}.0.bindingConditions", ["not valid"], [("Invalid", f"{RESULTS}[0].bindingConditions[0]")]),
        (
            f"{RESULTS}.0.bindingConditions",
            ["FabricDeviceFailed"],
            [("Invalid", f"{RESULTS}[0].bindingFailureConditions[1]")],
        ),
        (f"{RESULTS}.0.shareID", "X", [("Invalid", f"{RESULTS}[0].shareID"), ("Invalid", "status.devices[0]")]),
        (RESULTS, [dict(RESULT)] * 33, [("TooMany", RESULTS)]),
        (
            "status.allocation.devices.config",
            [{"opaque": {"driver": "d.com", "parameters": {}}}],
            [("Required", "status.allocation.devices.config[0].source")],
        ),
        (
            "status.allocation.nodeSelector",
            {"nodeSelectorTerms": []},
            [("Required", "status.allocation.nodeSelector.nodeSelectorTerms")],
        ),
        ("status.devices.0.device", "ghost", [("Invalid", "status.devices[0]")]),
        ("status.devices.0.shareID", SHARE, [("Invalid", "status.devices[0]")]),
        (
            "status.devices.0.conditions",
            [{**CONDITION, "type": f"C{n}"} for n in range(9)],
            [("TooMany", "status.devices[0].conditions")],
        ),
        ("status.devices.0.conditions", [dict(CONDITION)] * 2, [("Duplicate", "status.devices[0].conditions[1].type")]),
        ("status.devices.0.conditions.0.type", "", [("Invalid", "status.devices[0].conditions[0].type")] * 2),
        ("status.devices.0.conditions.0.status", "Maybe", [("NotSupported", "status.devices[0].conditions[0].status")]),
        ("status.devices.0.conditions.0.reason", "", [("Required", "status.devices[0].conditions[0].reason")]),
        ("status.devices.0.conditions.0.reason", "1 x", [("Invalid", "status.devices[0].conditions[0].reason")]),
        ("status.devices.0.conditions.0.reason", "R" * 1025, [("TooLong", "status.devices[0].conditions[0].reason")]),
        (
            "status.devices.0.conditions.0.message",
            "m" * 32769,
            [("TooLong", "status.devices[0].conditions[0].message")],
        ),
        (
            "status.devices.0.conditions.0.lastTransitionTime",
            REMOVED,
            [("Required", "status.devices[0].conditions[0].lastTransitionTime")],
        ),
        ("status.devices.0.data", "text", [("Invalid", "status.devices[0].data")]),
        ("status.devices.0.data", {"x": "y" * 10240}, [("TooLong", "status.devices[0].data")]),
        (
            "status.devices.0.networkData",
            {"interfaceName": "e" * 257},
            [("TooLong", "status.devices[0].networkData.interfaceName")],
        ),
        (
            "status.devices.0.networkData",
            {"hardwareAddress": "e" * 129},
            [("TooLong", "status.devices[0].networkData.hardwareAddress")],
        ),
        ("status.devices.0.networkData", {"ips": ["10.0.0.1"]}, [("Invalid", "status.devices[0].networkData.ips[0]")]),
        (
            "status.devices.0.networkData",
            {"ips": ["10.0.0.1/24"] * 2},
            [("Duplicate", "status.devices[0].networkData.ips[1]")],
        ),
        (
            "status.devices.0.networkData",
            {"ips": ["2001:DB8::1/64"]},
            [("Invalid", "status.devices[0].networkData.ips[0]")],
        ),
        (
            "status.devices.0.networkData",
            {"ips": [f"10.0.0.{n}/24" for n in range(17)]},
            [("TooMany", "status.devices[0].networkData.ips")],
        ),
    ],
)
def test_what_a_status_may_not_hold(path: str, value: Any, expected: list[tuple[str, str]]) -> None:
    assert refused_update(strategy("resourceclaims"), changed(allocated(), path, value), claim(), "status") == expected


def test_what_a_status_may_hold() -> None:
    made = strategy("resourceclaims")
    updated(made, allocated(), claim(), "status")
    full = changed(
        allocated(), "status.devices.0.networkData", {"interfaceName": "eth1", "ips": ["10.0.0.1/24", "2001:db8::1/64"]}
    )
    full = changed(full, "status.devices.0.conditions", [{**CONDITION, "type": f"C{n}"} for n in range(8)])
    updated(made, changed(full, "status.devices.0.data", {"any": 1}), claim(), "status")
    shared = [
        {
            "request": "r0",
            "driver": "d.com",
            "pool": "p/q",
            "device": "nic",
            "shareID": SHARE,
            "consumedCapacity": {"bw": "4Gi"},
        }
    ]
    body = changed(claim(), "status", {"allocation": {"devices": {"results": shared}}})
    assert updated(made, body, claim(), "status")["status"]["allocation"]["devices"]["results"] == shared
    source = [{"source": "FromClass", "requests": ["r0"], "opaque": {"driver": "d.com", "parameters": {"a": 1}}}]
    updated(made, changed(body, "status.allocation.devices.config", source), claim(), "status")


def test_an_added_status_of_a_device_never_allocated_does_not_go_silently() -> None:
    made, old = strategy("resourceclaims"), allocated()
    ghost = {"driver": "d.com", "pool": "p", "device": "ghost"}
    body = changed(
        changed(changed(old, "status.allocation", None), "status.reservedFor", None), "status.devices.1", ghost
    )
    assert refused_update(made, body, old, "status") == [("Invalid", "status.devices[0]")]


def test_each_device_has_one_status() -> None:
    body = changed(
        allocated(), "status.devices.1", {"driver": "gpu.nvidia.com", "pool": "a100-fabric1", "device": "pool-0"}
    )
    assert refused_update(strategy("resourceclaims"), body, claim(), "status") == [("Duplicate", "status.devices[1]")]


# -- who may -------------------------------------------------------------------------------------------------------


def permissions(
    new: Object, old: Object, verb: str = "patch", version: str = "1.36"
) -> list[tuple[str, tuple[str, ...], str, str]]:
    known = registry(version)
    made = known.strategy(known.named("resourceclaims"))
    ready = made.for_update(new, old, "status")
    return [
        (check.resource, check.verbs, check.name, check.namespace)
        for check in made.granular(ready, old, "status", verb)
    ]


BINDING = ("resourceclaims/binding", ("patch",), "", "")
DRIVER = ("resourceclaims/driver", ("associated-node:patch", "arbitrary-node:patch"), "gpu.nvidia.com", "default")


def test_binding_and_drivers_need_permissions_of_their_own() -> None:
    old = allocated()
    assert permissions(old, claim()) == [BINDING, DRIVER]
    assert permissions(changed(old, "status.reservedFor", []), old) == [BINDING]
    assert permissions(changed(old, "status.devices.0.conditions.0.status", "False"), old) == [DRIVER]
    assert permissions(changed(old, "status.devices", []), old, "update") == [
        ("resourceclaims/driver", ("associated-node:update", "arbitrary-node:update"), "gpu.nvidia.com", "default")
    ]
    assert permissions(changed(old, "metadata.labels", {"a": "b"}), old) == []


def test_only_drivers_of_changed_entries_are_asked_for() -> None:
    other = {"request": "r0", "driver": "nic.example.com", "pool": "n1", "device": "nic-0"}
    old = changed(allocated(), f"{RESULTS}.1", other)
    new = changed(old, "status.devices.1", {key: other[key] for key in ("driver", "pool", "device")})
    assert [name for _, _, name, _ in permissions(new, old)] == ["nic.example.com"]
    both = changed(new, "status.devices.0.conditions.0.status", "False")
    assert [name for _, _, name, _ in permissions(both, old)] == ["gpu.nvidia.com", "nic.example.com"]


def test_an_allocation_for_many_nodes_has_no_associated_node() -> None:
    terms = [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]
    wide = changed(allocated(), "status.allocation.nodeSelector", {"nodeSelectorTerms": terms})
    assert permissions(changed(wide, "status.devices", []), wide)[0][1] == ("arbitrary-node:patch",)
    assert changed(allocated(), "status.allocation.nodeSelector", NODE_SELECTOR) == allocated()


def test_older_servers_ask_for_no_more_than_the_path() -> None:
    assert permissions(allocated(), claim(), version="1.35") == []
