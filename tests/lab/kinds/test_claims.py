"""The spec of resource claims and templates: defaults, what it may hold, and that it never changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.kinds.kinds import (
    REMOVED,
    Object,
    changed,
    claim,
    created,
    refused_create,
    refused_update,
    strategy,
)

R0 = "spec.devices.requests.0"
AT = "spec.devices.requests[0]"


def sub(name: str = "a", **more: Any) -> Object:
    return {"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **more}


def many(count: int, **more: Any) -> list[Object]:
    return [{**claim()["spec"]["devices"]["requests"][0], "name": f"r{n}", **more} for n in range(count)]


# -- the spec ---------------------------------------------------------------------------------------------------


def test_defaults() -> None:
    body = changed(claim(), f"{R0}.exactly", {"deviceClassName": "gpu", "tolerations": [{"key": "k"}]})
    exactly = created(strategy("resourceclaims"), body)["spec"]["devices"]["requests"][0]["exactly"]
    assert (exactly["allocationMode"], exactly["count"]) == ("ExactCount", 1)
    assert exactly["tolerations"] == [{"key": "k", "operator": "Equal"}]
    first = changed(claim(), R0, {"name": "r0", "firstAvailable": [{"name": "a", "deviceClassName": "g"}]})
    made = created(strategy("resourceclaims"), first)["spec"]["devices"]["requests"][0]["firstAvailable"]
    assert made == [{"name": "a", "deviceClassName": "g", "allocationMode": "ExactCount", "count": 1}]
    every = changed(claim(), f"{R0}.exactly", {"deviceClassName": "gpu", "allocationMode": "All"})
    assert "count" not in created(strategy("resourceclaims"), every)["spec"]["devices"]["requests"][0]["exactly"]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("metadata.name", "Not_A_Name", [("Invalid", "metadata.name")]),
        (f"{R0}.name", "", [("Required", f"{AT}.name")]),
        (f"{R0}.name", "Not", [("Invalid", f"{AT}.name")]),
        (f"{R0}.exactly", REMOVED, [("Required", AT)]),
        (f"{R0}.firstAvailable", [sub()], [("Invalid", AT)]),
        (f"{R0}.exactly", {}, [("Required", f"{AT}.exactly.deviceClassName")]),
        (f"{R0}.exactly.deviceClassName", "Not_A_Class", [("Invalid", f"{AT}.exactly.deviceClassName")]),
        (f"{R0}.exactly.allocationMode", "Some", [("NotSupported", f"{AT}.exactly.allocationMode")]),
        (f"{R0}.exactly.allocationMode", "All", [("Invalid", f"{AT}.exactly.count")]),
        (f"{R0}.exactly.count", -1, [("Invalid", f"{AT}.exactly.count")]),
        (f"{R0}.exactly.selectors", [{}], [("Required", f"{AT}.exactly.selectors[0].cel")]),
        (
            f"{R0}.exactly.selectors",
            [{"cel": {"expression": ""}}],
            [("Required", f"{AT}.exactly.selectors[0].cel.expression")],
        ),
        (
            f"{R0}.exactly.selectors",
            [{"cel": {"expression": "device.driver =="}}],
            [("Invalid", f"{AT}.exactly.selectors[0].cel.expression")],
        ),
        (
            f"{R0}.exactly.selectors",
            [{"cel": {"expression": "device.driver"}}],
            [("Invalid", f"{AT}.exactly.selectors[0].cel.expression")],
        ),
        (
            f"{R0}.exactly.selectors",
            [{"cel": {"expression": "true" + " " * 10240}}],
            [("TooLong", f"{AT}.exactly.selectors[0].cel.expression")],
        ),
        (f"{R0}.exactly.selectors", [{"cel": {"expression": "true"}}] * 33, [("TooMany", f"{AT}.exactly.selectors")]),
        (f"{R0}.exactly.tolerations", [{"operator": "Equal"}], [("Invalid", f"{AT}.exactly.tolerations[0].operator")]),
        (
            f"{R0}.exactly.tolerations",
            [{"key": "k", "operator": "Near"}],
            [("NotSupported", f"{AT}.exactly.tolerations[0].operator")],
        ),
        (
            f"{R0}.exactly.tolerations",
            [{"key": "k", "operator": "Exists", "value": "v"}],
            [("Invalid", f"{AT}.exactly.tolerations[0].value")],
        ),
        (
            f"{R0}.exactly.tolerations",
            [{"operator": "Exists", "effect": "PreferNoSchedule"}],
            [("NotSupported", f"{AT}.exactly.tolerations[0].effect")],
        ),
        (f"{R0}.exactly.tolerations", [{"operator": "Exists"}] * 17, [("TooMany", f"{AT}.exactly.tolerations")]),
        (f"{R0}.exactly.capacity", {"requests": {"1x": "1"}}, [("Invalid", f"{AT}.exactly.capacity.requests[1x]")]),
        ("spec.devices.requests", many(33), [("TooMany", "spec.devices.requests")]),
        ("spec.devices.requests", many(1) * 2, [("Duplicate", "spec.devices.requests[1].name")]),
        ("spec.devices.constraints", [{"requests": ["r0"]}], [("Required", "spec.devices.constraints[0]")]),
        (
            "spec.devices.constraints",
            [{"matchAttribute": "a.com/x", "distinctAttribute": "a.com/x"}],
            [("Invalid", "spec.devices.constraints[0]")],
        ),
        (
            "spec.devices.constraints",
            [{"matchAttribute": "x"}],
            [("Invalid", "spec.devices.constraints[0].matchAttribute")],
        ),
        (
            "spec.devices.constraints",
            [{"matchAttribute": "a.com/"}],
            [("Invalid", "spec.devices.constraints[0].matchAttribute")],
        ),
        (
            "spec.devices.constraints",
            [{"requests": ["r9"], "matchAttribute": "a.com/x"}],
            [("Invalid", "spec.devices.constraints[0].requests[0]")],
        ),
        (
            "spec.devices.constraints",
            [{"requests": ["r0", "r0"], "matchAttribute": "a.com/x"}],
            [("Duplicate", "spec.devices.constraints[0].requests[1]")],
        ),
        ("spec.devices.constraints", [{"matchAttribute": "a.com/x"}] * 33, [("TooMany", "spec.devices.constraints")]),
        ("spec.devices.config", [{"requests": ["r0"]}], [("Required", "spec.devices.config[0]")]),
        (
            "spec.devices.config",
            [{"opaque": {"driver": "", "parameters": {}}}],
            [("Required", "spec.devices.config[0].opaque.driver")],
        ),
        (
            "spec.devices.config",
            [{"opaque": {"driver": "d.com"}}],
            [("Required", "spec.devices.config[0].opaque.parameters")],
        ),
        (
            "spec.devices.config",
            [{"opaque": {"driver": "d.com", "parameters": [1]}}],
            [("Invalid", "spec.devices.config[0].opaque.parameters")],
        ),
        (
            "spec.devices.config",
            [{"opaque": {"driver": "d.com", "parameters": {"x": "y" * 10240}}}],
            [("TooLong", "spec.devices.config[0].opaque.parameters")],
        ),
        (
            "spec.devices.config",
            [{"opaque": {"driver": "d" * 64, "parameters": {}}}],
            [("TooLong", "spec.devices.config[0].opaque.driver")],
        ),
    ],
)
def test_what_a_spec_may_not_hold(path: str, value: Any, expected: list[tuple[str, str]]) -> None:
    assert refused_create(strategy("resourceclaims"), changed(claim(), path, value)) == expected


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.devices.requests", many(32)),
        (f"{R0}.exactly.tolerations", [{"operator": "Exists"}] * 16),
        (f"{R0}.exactly.capacity", {"requests": {"bandwidth": "4Gi", "d.com/memory": "1"}}),
        (f"{R0}.exactly.selectors", [{"cel": {"expression": 'device.attributes["d.com"].type == "gpu"'}}]),
        ("spec.devices.constraints", [{"requests": ["r0"], "matchAttribute": "d.com/numa"}]),
        ("spec.devices.config", [{"opaque": {"driver": "d.com", "parameters": {"any": [1, {"x": None}]}}}]),
    ],
)
def test_what_a_spec_may_hold(path: str, value: Any) -> None:
    created(strategy("resourceclaims"), changed(claim(), path, value))


def test_subrequests_have_rules_of_their_own_and_can_be_referred_to() -> None:
    def body(parts: list[Object], reference: str = "r0/a") -> Object:
        made = changed(claim(), R0, {"name": "r0", "firstAvailable": parts})
        return changed(made, "spec.devices.constraints", [{"requests": [reference], "matchAttribute": "d.com/x"}])

    made = strategy("resourceclaims")
    created(made, body([sub("a"), sub("b")]))
    created(made, body([sub("a")], "r0"))
    assert refused_create(made, body([sub("a"), sub("a")])) == [("Duplicate", f"{AT}.firstAvailable[1].name")]
    assert refused_create(made, body([sub("a")], "r0/c")) == [("Invalid", "spec.devices.constraints[0].requests[0]")]
    assert refused_create(made, body([sub(chr(97 + n)) for n in range(9)])) == [("TooMany", f"{AT}.firstAvailable")]
    assert refused_create(made, body([sub("a", count=0, allocationMode="None")])) == [
        ("NotSupported", f"{AT}.firstAvailable[0].allocationMode")
    ]


def test_templates() -> None:
    made = strategy("resourceclaimtemplates")
    body = {"metadata": {"name": "t", "namespace": "default"}, "spec": {"spec": claim()["spec"]}}
    old = created(made, changed(body, "spec.spec.devices.requests.0.exactly", {"deviceClassName": "gpu"}))
    assert old["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert old["spec"]["metadata"] == {}
    assert refused_update(made, changed(old, "spec.spec.devices.requests.0.exactly.count", 2), old) == [
        ("Invalid", "spec")
    ]
    assert refused_create(made, changed(body, "spec.metadata", {"labels": {"a": "not valid!"}})) == [
        ("Invalid", "spec.metadata.labels")
    ]
    bad = changed(body, "spec.spec.devices.requests.0.exactly.deviceClassName", "")
    assert refused_create(made, bad) == [("Required", "spec.spec.devices.requests[0].exactly.deviceClassName")]
