"""CustomResourceDefinition: checks, and the status that a server gives it."""

import re
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any

from dds_lab.api import names
from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes, values
from dds_lab.api.schema import EMPTY, MISSING, Node
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn

# -- structural schemas: their checks, and their conversion to nodes
#
# A schema is checked (`check`) and converted (`node_of`) once, when its definition is written. CEL rules
# (x-kubernetes-validations) stay in the definition and are not evaluated.

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


SCOPES = ("Cluster", "Namespaced")
APPROVED = "api-approved.kubernetes.io"
"""The annotation that a definition needs in a group of Kubernetes' own domains."""
PROTECTED = ("k8s.io", "kubernetes.io")
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


class Definitions(BuiltIn):
    counted = True

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        spec = obj.get("spec") or {}
        if old is not None and spec is old.get("spec"):
            return obj
        given = spec.get("names") or {}
        kind = given.get("kind") or ""
        filled = {"singular": kind.lower(), "listKind": f"{kind}List"} if kind else {}
        made = {**given, **{key: value for key, value in filled.items() if not given.get(key)}}
        changes: Object = {"names": made}
        if not spec.get("conversion"):
            changes["conversion"] = {"strategy": "None"}
        return {**obj, "spec": {**spec, **changes}}

    def prepared(self, new: Object, old: Object | None, subresource: str) -> Object:
        """The names are accepted and the kind is established at once; a real server's controllers take a moment."""
        return new if subresource else accepted(new, self.second())

    def check(self, obj: Object) -> Iterator[Cause]:
        spec = obj.get("spec") or {}
        given = spec.get("names") or {}
        yield from _check_names(obj, spec, given)
        if spec.get("scope") not in SCOPES:
            yield causes.not_supported("spec.scope", spec.get("scope") or "", SCOPES)
        if spec.get("preserveUnknownFields"):
            why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
            yield causes.invalid("spec.preserveUnknownFields", True, why)
        if (spec.get("conversion") or {}).get("strategy") != "None":
            yield causes.not_supported("spec.conversion.strategy", spec["conversion"].get("strategy") or "", ("None",))
        yield from _check_versions(spec)

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterator[Cause]:
        if subresource == "status":
            return
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        yield from [] if spec is before else self.check(new)
        for key in ("scope", "group"):
            if is_established(old) and spec.get(key) != before.get(key):
                yield causes.immutable(f"spec.{key}", spec.get(key))
        stored = set((old.get("status") or {}).get("storedVersions") or ())
        missing = stored - {version.get("name") for version in spec.get("versions") or ()}
        for name in sorted(missing):
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
            )
            yield causes.invalid("status.storedVersions", [name], why)


def is_established(obj: Object) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def accepted(obj: Object, second: str) -> Object:
    """The definition with the status of a real server's controllers: names accepted, kind established."""
    conditions = [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", second),
        _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", second),
    ]
    spec = obj.get("spec") or {}
    before = (obj.get("status") or {}).get("storedVersions") or []
    stored = [version.get("name") for version in spec.get("versions") or () if version.get("storage")]
    kept = [*before, *(name for name in stored if name not in before)]
    given = (obj.get("status") or {}).get("conditions") or []
    status = {
        "conditions": given if is_established(obj) else conditions,
        "acceptedNames": spec.get("names") or {},
        "storedVersions": kept,
    }
    return obj if status == obj.get("status") else {**obj, "status": status}


def _condition(kind: str, reason: str, message: str, second: str) -> Object:
    return {"type": kind, "status": "True", "lastTransitionTime": second, "reason": reason, "message": message}


def _check_names(obj: Object, spec: Object, given: Object) -> Iterator[Cause]:
    group, plural = spec.get("group") or "", given.get("plural") or ""
    name = obj["metadata"].get("name") or ""
    if name != f"{plural}.{group}":
        yield causes.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield causes.required("spec.group")
    else:
        yield from causes.invalids("spec.group", group, names.dns_subdomain(group))
        if "." not in group:
            yield causes.invalid("spec.group", group, "should be a domain with at least one dot")
    if group.endswith(tuple(f".{domain}" for domain in PROTECTED)) or group in PROTECTED:
        given_approval = (obj["metadata"].get("annotations") or {}).get(APPROVED) or ""
        if not given_approval.startswith(("https://", "http://", "unapproved")):
            why = 'protected groups must have approval annotation "api-approved.kubernetes.io"'
            yield causes.required(f"metadata.annotations[{APPROVED}]", why)
    for key in ("plural", "singular", "kind", "listKind"):
        value = given.get(key) or ""
        if not value:
            yield causes.required(f"spec.names.{key}")
        else:
            yield from causes.invalids(f"spec.names.{key}", value, names.dns_label(value.lower()))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield causes.invalid("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")
    for key in ("shortNames", "categories"):
        for index, value in enumerate(given.get(key) or ()):
            yield from causes.invalids(f"spec.names.{key}[{index}]", value, names.dns_label(value))


def _check_versions(spec: Object) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    if not versions:
        yield causes.required("spec.versions", "must have exactly one version marked as storage version")
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        at, name = f"spec.versions[{index}]", version.get("name") or ""
        yield from causes.invalids(f"{at}.name", name, names.dns_label(name))
        if name in seen:
            yield causes.invalid("spec.versions", versions, "must contain unique version names")
        seen.add(name)
        yield from _check_schema(version, at)
        for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from _check_column(column, f"{at}.additionalPrinterColumns[{number}]")
    if sum(1 for version in versions if version.get("storage")) != 1:
        yield causes.invalid("spec.versions", None, "must have exactly one version marked as storage version")


def _check_schema(version: Object, at: str) -> Iterable[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not schema:
        return [causes.required(f"{at}.schema.openAPIV3Schema", "schemas are required")]
    return check(schema, f"{at}.schema.openAPIV3Schema")


def _check_column(column: Object, at: str) -> Iterator[Cause]:
    yield from (causes.required(f"{at}.{key}") for key in ("name", "jsonPath") if not column.get(key))
    if column.get("type") not in COLUMN_TYPES:
        yield causes.not_supported(f"{at}.type", column.get("type") or "", COLUMN_TYPES)
