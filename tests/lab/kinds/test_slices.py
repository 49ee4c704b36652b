"""Resource slices: places, devices, counters, and the policies of shared capacities."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.kinds.kinds import (
    NODE_SELECTOR,
    REMOVED,
    SECOND,
    Object,
    changed,
    created,
    refused_create,
    refused_update,
    registry,
    resource_slice,
    strategy,
    updated,
)

D0 = "spec.devices[0]"
TAINT = {"key": "k", "effect": "NoSchedule"}
SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a/b", "operator": "In", "values": ["true"]}]}]}
COUNTERS = {"c": {"value": "1"}}


def devices(count: int, **more: Any) -> list[Object]:
    return [{"name": f"g{n}", **more} for n in range(count)]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("spec.driver", "", [("Required", "spec.driver")]),
        ("spec.driver", "Not_A_Driver", [("Invalid", "spec.driver")]),
        ("spec.driver", "d" * 64, [("TooLong", "spec.driver")]),
        ("spec.pool.name", "", [("Required", "spec.pool.name")]),
        ("spec.pool.name", "a/B", [("Invalid", "spec.pool.name")]),
        ("spec.pool.name", "p" * 254, [("TooLong", "spec.pool.name")]),
        ("spec.pool.resourceSliceCount", 0, [("Invalid", "spec.pool.resourceSliceCount")]),
        ("spec.pool.generation", -1, [("Invalid", "spec.pool.generation")]),
        ("spec.nodeName", REMOVED, [("Required", "spec")]),
        ("spec.nodeName", "", [("Invalid", "spec.nodeName")]),
        ("spec.allNodes", True, [("Invalid", "spec")]),
        ("spec.allNodes", False, [("Invalid", "spec.allNodes"), ("Invalid", "spec")]),
        ("spec.sharedCounters", [{"name": "s", "counters": COUNTERS}], [("Invalid", "spec")]),
        ("spec.devices", devices(129), [("TooMany", "spec.devices")]),
        ("spec.devices", devices(65, taints=[TAINT]), [("TooMany", "spec.devices")]),
        (
            "spec.devices",
            [*devices(64), {"name": "x", "consumesCounters": [{"counterSet": "s", "counters": COUNTERS}]}],
            [("TooMany", "spec.devices")],
        ),
        ("spec.devices", devices(1) * 2, [("Duplicate", "spec.devices[1].name")]),
        ("spec.devices.0.name", "a.b", [("Invalid", f"{D0}.name")]),
        ("spec.devices.0.nodeName", "n1", [("Invalid", f"{D0}.nodeName")]),
        ("spec.devices.0.bindingConditions", ["A"], [("Invalid", f"{D0}.bindingFailureConditions")]),
        ("spec.devices.0.bindingFailureConditions", ["A"], [("Invalid", f"{D0}.bindingConditions")]),
        ("spec.devices.0.taints", [{"effect": "NoSchedule"}], [("Required", f"{D0}.taints[0].key")]),
        ("spec.devices.0.taints", [{"key": "k"}], [("Required", f"{D0}.taints[0].effect")]),
        ("spec.devices.0.taints", [{"key": "k", "effect": "Never"}], [("NotSupported", f"{D0}.taints[0].effect")]),
        ("spec.devices.0.taints", [TAINT] * 17, [("TooMany", f"{D0}.taints")]),
        ("spec.devices.0.attributes", {"a-b": {"string": "x"}}, [("Invalid", f"{D0}.attributes[a-b]")]),
        ("spec.devices.0.attributes", {"x" * 33: {"string": "x"}}, [("TooLong", f"{D0}.attributes[{'x' * 33}]")]),
        ("spec.devices.0.attributes", {"/x": {"string": "x"}}, [("Invalid", f"{D0}.attributes[/x]")]),
        ("spec.devices.0.attributes", {"a": {}}, [("Required", f"{D0}.attributes[a]")]),
        ("spec.devices.0.attributes", {"a": {"int": 1, "bool": True}}, [("Invalid", f"{D0}.attributes[a]")]),
        ("spec.devices.0.attributes", {"a": {"string": "x" * 65}}, [("TooLong", f"{D0}.attributes[a].string")]),
        ("spec.devices.0.attributes", {"a": {"version": "1.2"}}, [("Invalid", f"{D0}.attributes[a].version")]),
        ("spec.devices.0.attributes", {f"a{n}": {"int": n} for n in range(33)}, [("Invalid", D0)]),
        (
            "spec.devices.0.consumesCounters",
            [{"counterSet": "s"}],
            [("Required", f"{D0}.consumesCounters[0].counters")],
        ),
        (
            "spec.devices.0.consumesCounters",
            [{"counters": COUNTERS}],
            [("Required", f"{D0}.consumesCounters[0].counterSet")],
        ),
        (
            "spec.devices.0.consumesCounters",
            [{"counterSet": f"s{n}", "counters": COUNTERS} for n in range(3)],
            [("TooMany", f"{D0}.consumesCounters")],
        ),
        (
            "spec.devices.0.consumesCounters",
            [{"counterSet": "s", "counters": COUNTERS}] * 2,
            [("Duplicate", f"{D0}.consumesCounters[1].counterSet")],
        ),
    ],
)
def test_what_a_slice_may_not_hold(path: str, value: Any, expected: list[tuple[str, str]]) -> None:
    assert refused_create(strategy("resourceslices"), changed(resource_slice(), path, value)) == expected


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.devices", devices(128)),
        ("spec.devices", devices(64, taints=[TAINT])),
        ("spec.devices", []),
        ("spec.pool.name", "fabric/a100/1"),
        (
            "spec.devices.0.attributes",
            {"type": {"string": "gpu"}, "d.com/numa": {"int": 0}, "v": {"version": "1.2.3"}, "b": {"bool": False}},
        ),
        (
            "spec.devices.0.taints",
            [{"key": "k", "effect": effect, "value": "v"} for effect in ("None", "NoSchedule", "NoExecute")],
        ),
        (
            "spec.devices.0.consumesCounters",
            [{"counterSet": "s", "counters": {f"c{n}": {"value": "1"} for n in range(32)}}],
        ),
    ],
)
def test_what_a_slice_may_hold(path: str, value: Any) -> None:
    created(strategy("resourceslices"), changed(resource_slice(), path, value))


@pytest.mark.parametrize(
    "place", [{"allNodes": True}, {"nodeSelector": SELECTOR}, {"nodeSelector": NODE_SELECTOR}, {"nodeName": "n2"}]
)
def test_places(place: Object) -> None:
    body = changed(resource_slice(), "spec.nodeName", REMOVED)
    created(strategy("resourceslices"), {**body, "spec": {**body["spec"], **place}})


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ({"key": "a", "operator": "In"}, [("Required", "values")]),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, [("Forbidden", "values")]),
        ({"key": "a", "operator": "Gt", "values": ["1", "2"]}, [("Required", "values")]),
        ({"key": "a", "operator": "Like", "values": ["1"]}, [("Invalid", "operator")]),
        ({"key": "not valid!", "operator": "Exists"}, [("Invalid", "key")]),
        ({"key": "a", "operator": "In", "values": ["not valid!"]}, [("Invalid", "values[0]")]),
    ],
)
def test_node_selectors(requirement: Object, expected: list[tuple[str, str]]) -> None:
    body = changed(
        changed(resource_slice(), "spec.nodeName", REMOVED),
        "spec.nodeSelector",
        {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]},
    )
    at = "spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0]"
    assert refused_create(strategy("resourceslices"), body) == [(reason, f"{at}.{field}") for reason, field in expected]


def test_a_node_selector_of_a_slice_has_one_term() -> None:
    two = {"nodeSelectorTerms": SELECTOR["nodeSelectorTerms"] * 2}
    body = changed(changed(resource_slice(), "spec.nodeName", REMOVED), "spec.nodeSelector", two)
    assert refused_create(strategy("resourceslices"), body) == [("Invalid", "spec.nodeSelector.nodeSelectorTerms")]


def test_each_device_may_have_its_own_place() -> None:
    made = strategy("resourceslices")
    body = changed(changed(resource_slice(), "spec.nodeName", REMOVED), "spec.perDeviceNodeSelection", True)
    assert refused_create(made, body) == [("Required", D0)]
    created(made, changed(body, "spec.devices.0.nodeName", "n1"))
    created(made, changed(body, "spec.devices.0.allNodes", True))
    assert refused_create(
        made, changed(changed(body, "spec.devices.0.nodeName", "n1"), "spec.devices.0.allNodes", True)
    ) == [("Invalid", D0)]


def test_shared_counters() -> None:
    made = strategy("resourceslices")
    body = changed(resource_slice(), "spec.devices", REMOVED)
    created(made, changed(body, "spec.sharedCounters", [{"name": f"s{n}", "counters": COUNTERS} for n in range(8)]))
    at = "spec.sharedCounters"
    for given, expected in (
        ([{"name": f"s{n}", "counters": COUNTERS} for n in range(9)], ("TooMany", at)),
        ([{"name": "s", "counters": COUNTERS}] * 2, ("Duplicate", f"{at}[1].name")),
        ([{"name": "s"}], ("Required", f"{at}[0].counters")),
        ([{"counters": COUNTERS}], ("Required", f"{at}[0].name")),
        ([{"name": "s", "counters": {f"c{n}": {"value": "1"} for n in range(33)}}], ("TooMany", f"{at}[0].counters")),
        ([{"name": "s", "counters": {"Not_A": {"value": "1"}}}], ("Invalid", f"{at}[0].counters")),
    ):
        assert refused_create(made, changed(body, at, given)) == [expected]


def test_1_34_had_counters_and_devices_in_one_slice() -> None:
    known = registry("1.34", DRAPartitionableDevices=True)
    body = changed(resource_slice(), "spec.sharedCounters", [{"name": "s", "counters": COUNTERS}])
    created(known.strategy(known.named("resourceslices")), body)


def test_list_attributes_are_alpha() -> None:
    body = resource_slice(attributes={"a": {"ints": [1, 2]}})
    assert refused_create(strategy("resourceslices"), body) == [("Required", f"{D0}.attributes[a]")]
    made = strategy("resourceslices", None, DRAListTypeAttributes=True)
    created(made, body)
    assert refused_create(made, resource_slice(attributes={"a": {"ints": list(range(49))}})) == [
        ("Invalid", f"{D0}.attributes")
    ]
    assert refused_create(made, resource_slice(attributes={"a": {"versions": ["1.2.3", "x"]}})) == [
        ("Invalid", f"{D0}.attributes[a].versions[1]")
    ]


def test_driver_pool_and_node_never_change_and_the_spec_raises_the_generation() -> None:
    made = strategy("resourceslices")
    old = created(made, resource_slice())
    assert old["metadata"]["generation"] == 1
    for path, field in (
        ("spec.driver", "spec.driver"),
        ("spec.pool.name", "spec.pool.name"),
        ("spec.nodeName", "spec.nodeName"),
    ):
        assert refused_update(made, changed(old, path, "other"), old) == [("Invalid", field)]
    assert updated(made, changed(old, "metadata.labels", {"a": "b"}), old)["metadata"]["generation"] == 1
    assert updated(made, changed(old, "spec.devices.1", {"name": "gpu-1"}), old)["metadata"]["generation"] == 2


def test_changed_devices_are_checked_and_others_are_not_looked_at_again() -> None:
    made = strategy("resourceslices")
    old = resource_slice(attributes={"not valid": {"int": 1}})
    spec = {**old["spec"], "devices": [*old["spec"]["devices"], {"name": "gpu-1", "attributes": {"a": {}}}]}
    assert refused_update(made, {**old, "spec": spec}, old) == [("Required", "spec.devices[1].attributes[a]")]


def test_taints_say_since_when() -> None:
    made = strategy("resourceslices")
    old = created(made, resource_slice(taints=[TAINT]))
    assert old["spec"]["devices"][0]["taints"] == [{**TAINT, "timeAdded": SECOND}]
    assert updated(made, changed(old, "metadata.labels", {"a": "b"}), old)["spec"] == old["spec"]


@pytest.mark.parametrize(("version", "more"), [("1.36", ()), ("1.37", ("spec.pool.name",))])
def test_field_selectors(version: str, more: tuple[str, ...]) -> None:
    known = registry(version)
    made = known.strategy(known.named("resourceslices"))
    assert made.selectable_names == ("spec.nodeName", "spec.driver", *more)
    of_slice = {"spec.nodeName": "n1", "spec.driver": "gpu.nvidia.com", "spec.pool.name": "n1"}
    assert made.selectable(resource_slice()) == of_slice


# -- request policies (KEP-5075) -----------------------------------------------------------------------------------


def shared(policy: Object, value: str = "40Gi") -> Object:
    return resource_slice(allowMultipleAllocations=True, capacity={"memory": {"value": value, "requestPolicy": policy}})


@pytest.mark.parametrize(
    "policy",
    [
        {"default": "5Gi", "validValues": ["5Gi", "10Gi", "20Gi", "40Gi"]},
        {"default": "1Mi", "validRange": {"min": "1Mi", "step": "8"}},
        {"default": "1Gi", "validRange": {"min": "1Gi", "max": "9Gi", "step": "2Gi"}},
        {"default": "1Gi", "validRange": {"min": "1Gi"}},
        {"default": "40Gi"},
        {},
    ],
)
def test_policies_that_are_accepted(policy: Object) -> None:
    created(strategy("resourceslices"), shared(policy))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"default": "5Gi", "validValues": ["5Gi"], "validRange": {"min": "1Gi"}}, ("Forbidden", "")),
        ({"validValues": ["5Gi"]}, ("Required", ".default")),
        ({"validRange": {"min": "5Gi"}}, ("Required", ".default")),
        ({"default": "41Gi"}, ("Invalid", ".default")),
        ({"default": "1Gi", "validValues": ["5Gi"]}, ("Invalid", ".default")),
        ({"default": "5Gi", "validValues": ["5Gi", "41Gi"]}, ("Invalid", ".validValues[1]")),
        ({"default": "5Gi", "validValues": ["10Gi", "5Gi"]}, ("Invalid", ".validValues[1]")),
        ({"default": "5Gi", "validValues": ["5Gi", "5120Mi"]}, ("Duplicate", ".validValues[1]")),
        ({"default": "1", "validValues": [str(n) for n in range(1, 12)]}, ("TooMany", ".validValues")),
        ({"default": "5Gi", "validRange": {"max": "9Gi"}}, ("Required", ".validRange.min")),
        ({"default": "1Gi", "validRange": {"min": "2Gi"}}, ("Invalid", ".default")),
        ({"default": "3Gi", "validRange": {"min": "1Gi", "max": "2Gi"}}, ("Invalid", ".default")),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "max": "41Gi"}}, ("Invalid", ".validRange.max")),
        ({"default": "2Gi", "validRange": {"min": "1Gi", "step": "2Gi"}}, ("Invalid", ".default")),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "2Gi"}}, ("Invalid", ".validRange.max")),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "step": "40Gi"}}, ("Invalid", ".validRange.step")),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "step": "0"}}, ("Invalid", ".validRange.step")),
    ],
)
def test_policies_that_are_refused(policy: Object, expected: tuple[str, str]) -> None:
    at = f"{D0}.capacity[memory].requestPolicy"
    assert refused_create(strategy("resourceslices"), shared(policy)) == [(expected[0], at + expected[1])]


def test_a_policy_needs_a_device_that_is_shared() -> None:
    body = resource_slice(capacity={"memory": {"value": "40Gi", "requestPolicy": {"default": "1Gi"}}})
    assert refused_create(strategy("resourceslices"), body) == [("Forbidden", f"{D0}.capacity[memory].requestPolicy")]
