"""Custom resources and their definitions: structural schemas, pruning, defaults, checks."""

from __future__ import annotations

from typing import Any

import pytest

from dds_lab import crds
from dds_lab.api.custom import Custom
from dds_lab.api.gates import Gates
from dds_lab.api.registry import Registry
from tests.lab.kinds.kinds import (
    REMOVED,
    SECOND,
    Object,
    changed,
    created,
    refused_create,
    refused_update,
    registry,
    request,
    strategy,
    updated,
)

R = "spec.resource"
DEFINITION = crds.COMPOSABILITY_REQUESTS
V0 = "spec.versions.0"
AT = "spec.versions[0]"
SCHEMA = f"{V0}.schema.openAPIV3Schema"


def with_schema(spec: Object, **version: Any) -> Object:
    """A definition of `things.a.com` whose objects have this schema as their spec."""
    root = {"type": "object", "properties": {"spec": spec}}
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}, **version}
    names = {"kind": "Thing", "plural": "things"}
    return {
        "metadata": {"name": "things.a.com"},
        "spec": {"group": "a.com", "names": names, "scope": "Cluster", "versions": [served]},
    }


def things(spec: Object, **version: Any) -> Any:
    """The strategy of such a kind."""
    known = Registry(Gates.for_version(), lambda: SECOND)
    definitions = known.strategy(known.named("customresourcedefinitions"))
    known.install(created(definitions, with_schema(spec, **version)))
    return known.strategy(known.named("things"))


def thing(spec: Any) -> Object:
    return {"apiVersion": "a.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}


# -- the operator's kinds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (f"{R}.type", "fpga", [("NotSupported", f"{R}.type")]),
        (f"{R}.size", -1, [("Invalid", f"{R}.size")]),
        (f"{R}.size", "1", [("TypeInvalid", f"{R}.size")]),
        (f"{R}.size", 1.5, [("TypeInvalid", f"{R}.size")]),
        (f"{R}.model", "", [("Invalid", f"{R}.model")]),
        (f"{R}.allocation_policy", "roundrobin", [("NotSupported", f"{R}.allocation_policy")]),
        (f"{R}.other_spec", {"memory": -1}, [("Invalid", f"{R}.other_spec.memory")]),
        (R, {"type": "gpu"}, [("Required", f"{R}.model"), ("Required", f"{R}.size")]),
        (R, None, [("TypeInvalid", R)]),
        (R, [], [("TypeInvalid", R)]),
        ("spec", {}, [("Required", R)]),
    ],
)
def test_what_a_request_may_not_hold(path: str, value: Any, expected: list[tuple[str, str]]) -> None:
    assert refused_create(strategy("composabilityrequests"), changed(request(), path, value)) == expected


def test_unknown_fields_are_pruned_and_defaults_set() -> None:
    body = changed(changed(request(), f"{R}.bogus", 1), "strange", {})
    decoded, unknown = strategy("composabilityrequests").decode(body)
    assert sorted(unknown) == ["spec.resource.bogus", "strange"]
    assert decoded["spec"]["resource"] == {**request()["spec"]["resource"], "allocation_policy": "samenode"}
    assert "strange" not in decoded and "bogus" in body["spec"]["resource"]


def test_parts_that_are_the_same_object_are_not_checked_again() -> None:
    made = strategy("composabilityrequests")
    old = changed(request(), f"{R}.size", -1)
    assert refused_update(made, {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}, old) == []
    assert refused_update(made, changed(old, f"{R}.model", "B"), old) == [("Invalid", f"{R}.size")]


def test_printer_columns() -> None:
    made = strategy("composabilityrequests")
    assert [column.name for column in made.columns] == ["Name", "Model", "Size", "Node", "State", "Error", "Age"]
    assert [column.name for column in things({"type": "object"}).columns] == ["Name", "Age"]


# -- schemas ------------------------------------------------------------------------------------------------------

NUMBER = {"type": "integer", "minimum": 1, "maximum": 8, "exclusiveMaximum": True, "multipleOf": 2}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (NUMBER, 4, []),
        (NUMBER, 8, [("Invalid", "spec.x")]),
        (NUMBER, 3, [("Invalid", "spec.x")]),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, 0, [("Invalid", "spec.x")]),
        ({"type": "number"}, 1, []),
        ({"type": "integer", "format": "int32"}, 2**31, [("Invalid", "spec.x")]),
        ({"type": "boolean"}, 1, [("TypeInvalid", "spec.x")]),
        ({"type": "integer"}, True, [("TypeInvalid", "spec.x")]),
        ({"type": "integer"}, 2.0, []),
        ({"type": "string", "maxLength": 2}, "abc", [("TooLong", "spec.x")]),
        ({"type": "string", "pattern": "^a+$"}, "ab", [("Invalid", "spec.x")]),
        ({"type": "string", "pattern": "b"}, "abc", []),
        ({"type": "string", "format": "date-time"}, "yesterday", [("TypeInvalid", "spec.x")]),
        ({"type": "string", "format": "date-time"}, SECOND, []),
        ({"type": "string", "format": "date"}, "2026-1-1", [("TypeInvalid", "spec.x")]),
        ({"type": "string", "format": "ipv4"}, "1.2.3", [("TypeInvalid", "spec.x")]),
        ({"type": "string", "format": "ipv6"}, "::1", []),
        ({"type": "string", "format": "cidr"}, "10.0.0.0", [("TypeInvalid", "spec.x")]),
        ({"type": "string", "format": "byte"}, "!", [("TypeInvalid", "spec.x")]),
        ({"type": "string", "format": "duration"}, "1h30m", []),
        ({"type": "string", "format": "duration"}, "soon", [("TypeInvalid", "spec.x")]),
        ({"type": "string", "format": "uuid"}, "x", [("TypeInvalid", "spec.x")]),
        ({"type": "string", "format": "hostname"}, "a_b", [("TypeInvalid", "spec.x")]),
        ({"type": "string", "format": "uri"}, "no uri", [("TypeInvalid", "spec.x")]),
        ({"type": "string", "format": "whatever"}, "any", []),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1}, [], [("Invalid", "spec.x")]),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, ["a", "b"], [("TooMany", "spec.x")]),
        ({"type": "array", "items": {"type": "string"}}, ["a", 1], [("TypeInvalid", "spec.x[1]")]),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            ["a", "a"],
            [("Duplicate", "spec.x[1]")],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
            {"a": 1, "b": 2},
            [("TooMany", "spec.x")],
        ),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": "b"}, [("TypeInvalid", "spec.x.a")]),
        ({"x-kubernetes-int-or-string": True}, 1, []),
        ({"x-kubernetes-int-or-string": True}, "1", []),
        ({"x-kubernetes-int-or-string": True}, 1.5, [("TypeInvalid", "spec.x")]),
        ({"type": "string"}, None, [("TypeInvalid", "spec.x")]),
        ({"type": "string", "nullable": True}, None, []),
        ({"type": "string", "enum": ["a"]}, "b", [("NotSupported", "spec.x")]),
        ({"type": "integer", "enum": [1]}, 1, []),
        ({"type": "string", "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]}, "c", [("Invalid", "spec.x")]),
        ({"type": "string", "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]}, "b", []),
        ({"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}]}, "ab", [("Invalid", "spec.x")]),
        ({"type": "string", "allOf": [{"minLength": 2}]}, "a", [("Invalid", "spec.x")]),
        ({"type": "string", "not": {"enum": ["a"]}}, "a", [("Invalid", "spec.x")]),
    ],
)
def test_values(schema: Object, value: Any, expected: list[tuple[str, str]]) -> None:
    assert refused_create(things({"type": "object", "properties": {"x": schema}}), thing({"x": value})) == expected


def test_list_maps_have_one_entry_for_a_key() -> None:
    item = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}
    listed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    made = things({"type": "object", "properties": {"x": listed}})
    assert refused_create(made, thing({"x": [{"k": "a"}, {"k": "a", "v": "b"}]})) == [("Duplicate", "spec.x[1]")]
    node = made.schema.fields["spec"].fields["x"]
    assert (node.list_type, node.list_keys) == ("map", ("k",))


def test_unknown_fields_can_be_preserved_and_embedded_objects_keep_their_own() -> None:
    free = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"known": {"type": "integer"}},
    }
    decoded, unknown = things(free).decode(thing({"other": [1], "known": 1}))
    assert (decoded["spec"], unknown) == ({"other": [1], "known": 1}, [])
    assert refused_create(things(free), thing({"other": 1, "known": "x"})) == [("TypeInvalid", "spec.known")]
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"gone": 1}}
    decoded, unknown = things(embedded).decode(thing(body))
    assert (decoded["spec"], unknown) == ({**body, "spec": {}}, ["spec.spec.gone"])
    assert things({"x-kubernetes-preserve-unknown-fields": True}).decode(thing([{"any": 1}]))[1] == []


def test_paths_of_pruned_fields_go_through_lists_and_maps() -> None:
    item = {"type": "object", "properties": {"k": {"type": "string"}}}
    spec = {
        "type": "object",
        "properties": {"l": {"type": "array", "items": item}, "m": {"type": "object", "additionalProperties": item}},
    }
    decoded, unknown = things(spec).decode(thing({"l": [{"k": "a"}, {"z": 1}], "m": {"one": {"z": 1}}}))
    assert unknown == ["spec.l[1].z", "spec.m.one.z"]
    assert decoded["spec"] == {"l": [{"k": "a"}, {}], "m": {"one": {}}}


def test_defaults_are_set_wherever_something_is() -> None:
    item = {"type": "object", "properties": {"k": {"type": "string", "default": "d"}}}
    spec = {
        "type": "object",
        "default": {},
        "properties": {
            "n": {"type": "integer", "default": 3},
            "o": {**item, "default": {}},
            "l": {"type": "array", "items": item},
            "m": {"type": "object", "additionalProperties": item},
            "none": {"type": "string", "nullable": True, "default": "x"},
        },
    }
    made = things(spec)
    assert created(made, {"metadata": {"name": "t"}})["spec"] == {"n": 3, "o": {"k": "d"}, "none": "x"}
    found = created(made, thing({"n": None, "l": [{}, {"k": "own"}], "m": {"a": {}}, "none": None}))["spec"]
    assert found == {"n": 3, "o": {"k": "d"}, "l": [{"k": "d"}, {"k": "own"}], "m": {"a": {"k": "d"}}, "none": None}


def test_selectable_fields() -> None:
    made = things(
        {"type": "object", "properties": {"x": {"type": "integer"}, "b": {"type": "boolean"}}},
        selectableFields=[{"jsonPath": ".spec.x"}, {"jsonPath": ".spec.b"}],
    )
    assert made.selectable_names == ("spec.x", "spec.b")
    assert made.selectable(thing({"x": 3, "b": True})) == {"spec.x": "3", "spec.b": "true"}


# -- definitions ----------------------------------------------------------------------------------------------------


def test_a_definition_is_established_with_its_names() -> None:
    stored = created(strategy("customresourcedefinitions"), with_schema({"type": "object"}))
    names = {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"}
    assert (stored["spec"]["names"], stored["status"]["acceptedNames"]) == (names, names)
    assert stored["spec"]["conversion"] == {"strategy": "None"}
    assert stored["status"]["storedVersions"] == ["v1"]
    conditions = {one["type"]: (one["status"], one["lastTransitionTime"]) for one in stored["status"]["conditions"]}
    assert conditions == {"NamesAccepted": ("True", SECOND), "Established": ("True", SECOND)}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("metadata.name", "other.a.com", [("Invalid", "metadata.name")]),
        ("spec.group", "nodots", [("Invalid", "metadata.name"), ("Invalid", "spec.group")]),
        ("spec.names.kind", "", [("Required", "spec.names.kind")]),
        ("spec.names.listKind", "ComposabilityRequest", [("Invalid", "spec.names.listKind")]),
        ("spec.names.shortNames", ["Not_One"], [("Invalid", "spec.names.shortNames[0]")]),
        ("spec.scope", "World", [("NotSupported", "spec.scope")]),
        ("spec.preserveUnknownFields", True, [("Invalid", "spec.preserveUnknownFields")]),
        ("spec.conversion", {"strategy": "Webhook"}, [("NotSupported", "spec.conversion.strategy")]),
        ("spec.versions", [], [("Required", "spec.versions")]),
        (f"{V0}.storage", False, [("Invalid", "spec.versions")]),
        (f"{V0}.name", "Not", [("Invalid", f"{AT}.name")]),
        (f"{V0}.schema", REMOVED, [("Required", f"{AT}.schema.openAPIV3Schema")]),
        (f"{SCHEMA}.type", "string", [("Invalid", f"{AT}.schema.openAPIV3Schema.type")]),
        (f"{SCHEMA}.type", "", [("Required", f"{AT}.schema.openAPIV3Schema.type")]),
        (f"{SCHEMA}.properties.x", {}, [("Required", f"{AT}.schema.openAPIV3Schema.properties[x].type")]),
        (
            f"{SCHEMA}.properties.x",
            {"type": "thing"},
            [("NotSupported", f"{AT}.schema.openAPIV3Schema.properties[x].type")],
        ),
        (
            f"{SCHEMA}.properties.x",
            {"type": "array"},
            [("Required", f"{AT}.schema.openAPIV3Schema.properties[x].items")],
        ),
        (
            f"{SCHEMA}.properties.x",
            {"type": "string", "pattern": "("},
            [("Invalid", f"{AT}.schema.openAPIV3Schema.properties[x].pattern")],
        ),
        (
            f"{SCHEMA}.properties.x",
            {"type": "integer", "default": "a"},
            [("TypeInvalid", f"{AT}.schema.openAPIV3Schema.properties[x].default")],
        ),
        (
            f"{SCHEMA}.properties.x",
            {"type": "object", "additionalProperties": False},
            [("Forbidden", f"{AT}.schema.openAPIV3Schema.properties[x].additionalProperties")],
        ),
        (
            f"{SCHEMA}.properties.x",
            {"type": "object", "additionalProperties": {"type": "string"}, "properties": {"a": {"type": "string"}}},
            [("Forbidden", f"{AT}.schema.openAPIV3Schema.properties[x].additionalProperties")],
        ),
        (
            f"{SCHEMA}.properties.x",
            {"type": "string", "x-kubernetes-list-type": "set"},
            [("Invalid", f"{AT}.schema.openAPIV3Schema.properties[x].type")],
        ),
        (
            f"{SCHEMA}.properties.x",
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
            [("Required", f"{AT}.schema.openAPIV3Schema.properties[x].x-kubernetes-list-map-keys")],
        ),
        (
            f"{SCHEMA}.properties.x",
            {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
            [("Forbidden", f"{AT}.schema.openAPIV3Schema.properties[x].uniqueItems")],
        ),
        (
            f"{SCHEMA}.properties.x",
            {"type": "string", "anyOf": [{"type": "string"}]},
            [("Forbidden", f"{AT}.schema.openAPIV3Schema.properties[x].anyOf[0].type")],
        ),
        (
            f"{V0}.additionalPrinterColumns.0.type",
            "state",
            [("NotSupported", f"{AT}.additionalPrinterColumns[0].type")],
        ),
        (f"{V0}.additionalPrinterColumns.0.jsonPath", "", [("Required", f"{AT}.additionalPrinterColumns[0].jsonPath")]),
    ],
)
def test_bad_definitions_are_refused(path: str, value: Any, expected: list[tuple[str, str]]) -> None:
    assert refused_create(strategy("customresourcedefinitions"), changed(DEFINITION, path, value)) == expected


def test_what_of_an_established_definition_never_changes() -> None:
    made = strategy("customresourcedefinitions")
    old = created(made, DEFINITION)
    assert refused_update(made, changed(old, "spec.scope", "Namespaced"), old) == [("Invalid", "spec.scope")]
    assert ("Invalid", "status.storedVersions") in refused_update(made, changed(old, f"{V0}.name", "v2"), old)
    more = {**old["spec"]["versions"][0], "name": "v2", "storage": False}
    new = updated(made, changed(old, "spec.versions.1", more), old)
    assert new["metadata"]["generation"] == 2
    assert new["status"]["conditions"] == old["status"]["conditions"]


def test_several_versions_share_their_objects() -> None:
    known = registry()
    definitions = known.strategy(known.named("customresourcedefinitions"))
    body = with_schema({"type": "object", "properties": {"x": {"type": "string"}}})
    second = {**body["spec"]["versions"][0], "name": "v2", "storage": False}
    known.install(created(definitions, changed(body, "spec.versions.1", second)))
    first, later = (known.find("a.com", version, "things") for version in ("v1", "v2"))
    assert first is not None and later is not None and first.key == later.key
    stored = created(known.strategy(later), {**thing({"x": "a"}), "apiVersion": "a.com/v2"})
    assert stored["apiVersion"] == "a.com/v1"
    assert known.strategy(later).from_storage(stored)["apiVersion"] == "a.com/v2"


def test_definitions_can_be_installed_anew_and_taken_away() -> None:
    known = registry()
    known.install(with_schema({"type": "object"}))
    assert isinstance(known.strategy(known.named("things")), Custom)
    known.install(changed(with_schema({"type": "object"}), "spec.names.shortNames", ["th"]))
    assert [resource.short_names for resource in known.resources() if resource.plural == "things"] == [("th",)]
    known.uninstall("things.a.com")
    assert known.find("a.com", "v1", "things") is None
    assert known.named("composabilityrequests").custom
