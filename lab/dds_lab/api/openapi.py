"""OpenAPI documents, as far as kubectl reads them: which kinds there are, what their fields are, that writes are validated.

Version 3 is generated from the same nodes that decoding uses. Version 2 is only the outline that old clients insist on.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from dds_lab.api.discovery import Discovery
from dds_lab.api.forms import accepted, encode
from dds_lab.api.kinds import Object, Resource
from dds_lab.api.paths import PATCH_TYPES
from dds_lab.api.registry import Registry
from dds_lab.api.requests import Response
from dds_lab.api.schema import MISSING, Node

PROTO = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PROTO_SENT = PROTO.replace("@", ".")
"""How the answer names it, as a real server does: the "@" is no part of a valid media type, and Go refuses it."""
TITLE = "Kubernetes"

_FORMATS: Mapping[str, Object] = {
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
    "quantity": {"type": "string"},
    "int-or-string": {"x-kubernetes-int-or-string": True},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
}
_EXTENSIONS = "x-kubernetes-"


def second(discovery: Discovery, accept: str) -> Response:
    """/openapi/v2: an outline without definitions, in JSON or in the protobuf that old kubectl asks for."""
    release = str(discovery.version()["gitVersion"])
    if any(media.type == PROTO for media in accepted(accept)):
        info = _field(1, TITLE.encode()) + _field(2, release.encode())
        document = _field(1, b"2.0") + _field(2, info) + _field(8, b"")
        return Response(200, document, {"Content-Type": PROTO_SENT})
    outline = {"swagger": "2.0", "info": {"title": TITLE, "version": release}, "paths": {}, "definitions": {}}
    return Response(200, encode(outline), {"Content-Type": "application/json"})


def _field(number: int, value: bytes) -> bytes:
    """One length-delimited protobuf field of less than 128 bytes."""
    return bytes((number << 3 | 2, len(value))) + value


def third(discovery: Discovery, registry: Registry, parts: list[str]) -> Object | None:
    """/openapi/v3 and what is below it; None where there is nothing."""
    versions = discovery.group_versions()
    if not parts:
        return {"paths": {_path(*each): {"serverRelativeURL": _url(registry, *each)} for each in versions}}
    for group, version in versions:
        if "/".join(parts) == _path(group, version):
            return _document(registry, group, version, str(discovery.version()["gitVersion"]))
    return None


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _url(registry: Registry, group: str, version: str) -> str:
    found = [repr(each) for each in registry.resources() if each.group == group and each.version == version]
    digest = hashlib.sha256("\n".join(found).encode()).hexdigest().upper()
    return f"/openapi/v3/{_path(group, version)}?hash={digest}"


def _document(registry: Registry, group: str, version: str, release: str) -> Object:
    schemas = _Schemas(f"{_package(group)}.{version}")
    routes: dict[str, Object] = {}
    for resource in registry.resources():
        if resource.group == group and resource.version == version:
            name = _schema_name(resource)
            gvk = {"group": group, "version": version, "kind": resource.kind}
            schemas.add(name, registry.strategy(resource).schema, gvk)
            routes |= _routes(resource, name, gvk)
    return {
        "openapi": "3.0.0",
        "info": {"title": TITLE, "version": release},
        "paths": routes,
        "components": {"schemas": schemas.found},
    }


def _package(group: str) -> str:
    """The beginning of the names of a group's schemas."""
    return f"io.k8s.api.{group.removesuffix('.k8s.io').split('.')[0] or 'core'}"


def _schema_name(resource: Resource) -> str:
    if resource.custom:
        return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])
    return f"{_package(resource.group)}.{resource.version}.{resource.kind}"


def _routes(resource: Resource, schema: str, gvk: Object) -> dict[str, Object]:
    prefix = f"/{_path(resource.group, resource.version)}"
    base = (
        f"{prefix}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{prefix}/{resource.plural}"
    )
    body = {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}}
    answer = {"200": {"description": "OK", **body}}

    def operation(action: str, *, writes: bool) -> Object:
        shown: Object = {"responses": answer, "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk}
        if writes:
            names = ("dryRun", "fieldManager", "fieldValidation")
            shown["parameters"] = [
                {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for name in names
            ]
        return shown

    collection: Object = {}
    if "list" in resource.verbs:
        collection["get"] = operation("list", writes=False)
    if "create" in resource.verbs:
        collection["post"] = {**operation("post", writes=True), "requestBody": body}
    found = {base: collection}
    if "patch" in resource.verbs:
        types = [each for each, how in PATCH_TYPES.items() if not (resource.custom and how == "strategic")]
        patches = {"content": {each: {"schema": {"type": "object"}} for each in types}}
        found[f"{base}/{{name}}"] = {
            "get": operation("get", writes=False),
            "put": {**operation("put", writes=True), "requestBody": body},
            "patch": {**operation("patch", writes=True), "requestBody": patches},
            "delete": operation("delete", writes=False),
        }
    return found


class _Schemas:
    """Schemas of one document. Named definitions are written once and referred to: some hold themselves."""

    def __init__(self, package: str) -> None:
        self.found: dict[str, Object] = {}
        self._package = package
        self._names: dict[int, str] = {}
        self._kept: list[Node] = []

    def add(self, name: str, node: Node, gvk: Object) -> None:
        """The schema of a kind."""
        self._names[id(node.fields)] = name
        self._kept.append(node)  # what is known by its identity must live as long
        self.found[name] = {}
        self.found[name] = {**self._written(node), "x-kubernetes-group-version-kind": [gvk]}

    def _schema(self, node: Node) -> Object:
        if not (node.name and node.fields):
            return self._written(node)
        name = self._names.get(id(node.fields))
        if name is None:
            name = self._names[id(node.fields)] = self._new_name(node)
            self._kept.append(node)
            self.found[name] = {}
            self.found[name] = self._written(node)
        marks = _marks(node)
        described = {"description": node.description} if node.description else {}
        return {"allOf": [{"$ref": f"#/components/schemas/{name}"}], **described, **marks}

    def _new_name(self, node: Node) -> str:
        name = f"{self._package}.{node.name}"
        while name in self.found:
            name += "_"
        return name

    def _written(self, node: Node) -> Object:
        shown: Object = dict(_FORMATS.get(node.type, {"type": node.type}))
        if node.description:
            shown["description"] = node.description
        if node.type in ("object", "map"):
            shown["type"] = "object"
            if node.items is not None:
                shown["additionalProperties"] = self._schema(node.items)
            if node.fields:
                shown["properties"] = {name: self._schema(each) for name, each in node.fields.items()}
            if node.required:
                shown["required"] = list(node.required)
            if node.atomic:
                shown[_EXTENSIONS + "map-type"] = "atomic"
        elif node.type == "list":
            shown["type"] = "array"
            if node.items is not None:
                shown["items"] = self._schema(node.items)
            shown[_EXTENSIONS + "list-type"] = node.list_type
            if node.list_keys:
                shown[_EXTENSIONS + "list-map-keys"] = list(node.list_keys)
        return shown | _marks(node)


def _marks(node: Node) -> dict[str, Any]:
    marks: dict[str, Any] = dict(node.checks)
    if node.default is not MISSING:
        marks["default"] = node.default
    if node.nullable:
        marks["nullable"] = True
    if node.patch_key:
        marks[_EXTENSIONS + "patch-merge-key"] = node.patch_key
    if node.patch_strategy:
        marks[_EXTENSIONS + "patch-strategy"] = node.patch_strategy
    if node.preserve_unknown:
        marks[_EXTENSIONS + "preserve-unknown-fields"] = True
    return marks
