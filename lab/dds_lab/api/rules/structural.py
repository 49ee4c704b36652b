"""Structural schemas of CustomResourceDefinitions: their checks, and their conversion to nodes.

A schema is checked (`check`) and converted (`node_of`) once, when its definition is written. CEL rules
(x-kubernetes-validations) stay in the definition and are not evaluated.
"""

import re
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any

from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes, values
from dds_lab.api.schema import EMPTY, MISSING, Node
from dds_lab.api.status import Cause

TYPES = ("array", "boolean", "integer", "number", "object", "string")
VALUE_CHECKS = (
    "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
    "format", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
)  # fmt: skip
JUNCTORS = ("allOf", "anyOf", "oneOf")
LIST_TYPES = ("atomic", "set", "map")
META = "metadata"


def node_of(schema: Object, root: bool = False) -> Node:
    """The node of a schema in which `check` found nothing wrong."""
    kind = schema.get("type", "")
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    extra = schema.get("additionalProperties")
    fields: dict[str, Node] = {name: node_of(part) for name, part in (schema.get("properties") or {}).items()}
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if root or embedded:
        fields = {**fields, "apiVersion": Node("string"), "kind": Node("string"), META: fields.get(META, Node("any"))}
    items = None
    if kind == "array":
        node_type, items = "list", node_of(schema.get("items") or {})
    elif schema.get("x-kubernetes-int-or-string"):
        node_type = "int-or-string"
    elif kind == "object" and (isinstance(extra, dict) or extra is True):
        node_type, items = (
            "map",
            node_of(extra if isinstance(extra, dict) else {"x-kubernetes-preserve-unknown-fields": True}),
        )
    else:
        node_type = kind or "any"
    return Node(
        node_type,
        fields=MappingProxyType(fields),
        items=items,
        list_type=schema.get("x-kubernetes-list-type", "atomic"),
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        required=tuple(schema.get("required") or ()),
        default=schema.get("default", MISSING),
        nullable=bool(schema.get("nullable")),
        preserve_unknown=preserve,
        embedded=embedded,
        description=schema.get("description", ""),
        checks=_checks(schema),
    )


def _checks(schema: Object) -> Any:
    found = {key: schema[key] for key in VALUE_CHECKS if schema.get(key) is not None}
    if "pattern" in found:
        found["matches"] = re.compile(_python_pattern(found["pattern"]))
    for key in JUNCTORS:
        if schema.get(key):
            found[key] = tuple(node_of(part) for part in schema[key])
    if schema.get("not"):
        found["not"] = node_of(schema["not"])
    return MappingProxyType(found) if found else EMPTY


def _python_pattern(pattern: str) -> str:
    r"""A Go regular expression in Python's syntax. What differs in practice are \z and the POSIX classes."""
    text = pattern.replace(r"\z", r"\Z").replace("[:alnum:]", "a-zA-Z0-9").replace("[:alpha:]", "a-zA-Z")
    return (
        text.replace("[:digit:]", "0-9")
        .replace("[:space:]", r"\s")
        .replace("[:lower:]", "a-z")
        .replace("[:upper:]", "A-Z")
    )


def check(schema: Object, at: str) -> Iterable[Cause]:
    """Causes that keep a version's schema from being structural. The root must be an object."""
    kind = schema.get("type")
    if not kind:
        return [causes.required(f"{at}.type", "must not be empty at the root")]
    if kind != "object":
        return [causes.invalid(f"{at}.type", kind, "must be object at the root")]
    return _check(schema, at)


def _check(schema: Object, at: str) -> Iterator[Cause]:
    yield from _check_type(schema, at)
    yield from _check_list(schema, at)
    yield from _check_values(schema, at)
    extra, properties = schema.get("additionalProperties"), schema.get("properties")
    if extra is not None and properties:
        yield causes.forbidden(f"{at}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if extra is False:
        why = "additionalProperties cannot be set to false"
        yield causes.forbidden(f"{at}.additionalProperties", why)
    for key in ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id"):
        if schema.get(key):
            yield causes.forbidden(f"{at}.{key}", f"{key} is not supported")
    if schema.get("uniqueItems"):
        yield causes.forbidden(f"{at}.uniqueItems", "uniqueItems cannot be set to true")
    for name, part in (properties or {}).items():
        yield from _check(part, f"{at}.properties[{name}]")
    for key in ("additionalProperties", "items"):
        yield from _check_free_part(schema.get(key), f"{at}.{key}")


def _check_free_part(part: Any, at: str) -> Iterable[Cause]:
    """A schema, in a field that could hold something else: a boolean, a list of schemas."""
    if part is None or (isinstance(part, bool) and at.endswith("additionalProperties")):
        return []
    return _check(part, at) if isinstance(part, dict) else [causes.invalid(at, part, "must be a schema")]


def _check_type(schema: Object, at: str) -> Iterable[Cause]:
    kind = schema.get("type")
    if kind in TYPES:
        if kind == "array" and not schema.get("items"):
            return [causes.required(f"{at}.items", "must be specified")]
        return []
    if kind:
        return [causes.not_supported(f"{at}.type", kind, TYPES)]
    if schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields"):
        return []
    return [causes.required(f"{at}.type", "must not be empty for specified object fields")]


def _check_list(schema: Object, at: str) -> Iterator[Cause]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if list_type is not None and schema.get("type") != "array":
        yield causes.invalid(
            f"{at}.type", schema.get("type", ""), "must be array if x-kubernetes-list-type is specified"
        )
    if list_type is not None and list_type not in LIST_TYPES:
        yield causes.not_supported(f"{at}.x-kubernetes-list-type", list_type, LIST_TYPES)
    if list_type == "map" and not keys:
        why = "must not be empty if x-kubernetes-list-type is map"
        yield causes.required(f"{at}.x-kubernetes-list-map-keys", why)
    item: Object = schema["items"] if isinstance(schema.get("items"), dict) else {}
    for index, key in enumerate(keys or ()):
        if key not in (item.get("properties") or {}):
            why = "entries must all be names of item properties"
            yield causes.invalid(f"{at}.x-kubernetes-list-map-keys[{index}]", key, why)
        elif key not in (item.get("required") or ()) and "default" not in item["properties"][key]:
            why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield causes.required(f"{at}.items.properties[{key}].default", why)


def _check_values(schema: Object, at: str) -> Iterator[Cause]:
    if schema.get("pattern"):
        try:
            re.compile(_python_pattern(schema["pattern"]))
        except re.error as problem:
            why = f"must be a valid regular expression, but isn't: {problem}"
            yield causes.invalid(f"{at}.pattern", schema["pattern"], why)
    for junctor in JUNCTORS:
        for index, part in enumerate(schema.get(junctor) or ()):
            for key in ("type", "default", "nullable", "additionalProperties", "description"):
                if part.get(key) and not (key == "type" and schema.get("x-kubernetes-int-or-string")):
                    yield causes.forbidden(f"{at}.{junctor}[{index}].{key}", "must be empty to be structural")
    if "default" in schema:
        yield from values.check(node_of(schema), schema["default"], f"{at}.default", f"{at}.default")
