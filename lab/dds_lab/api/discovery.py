"""Discovery: groups, versions, resources and the release; and OpenAPI documents, as far as kubectl reads them.

All of it is made from the registry, in a real server's words and order. OpenAPI v3 is generated from the nodes that decoding
uses; v2 is only the outline that old clients require.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from dds_lab.api.forms import accepted, encode
from dds_lab.api.gates import Gates
from dds_lab.api.kinds import Object, Resource
from dds_lab.api.paths import PATCH_TYPES
from dds_lab.api.registry import Registry
from dds_lab.api.requests import Response
from dds_lab.api.schema import MISSING, Node

AGGREGATED = "apidiscovery.k8s.io"
AGGREGATED_LIST = "APIGroupDiscoveryList"

GROUP_ORDER = (
    "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling",
    "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io",
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io",
    "discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io",
)  # fmt: skip
"""The order in which a real server lists its own groups. Custom groups follow."""

RELEASES = {
    "1.34": ("v1.34.2", "1", "33"),
    "1.35": ("v1.35.1", "1", "34"),
    "1.36": ("v1.36.2", "1", "35"),
    "1.36.3": ("v1.36.3", "1", "35"),
    "1.37": ("v1.37.0", "1", "36"),
    "1.37.1": ("v1.37.1", "1", "36"),
}
"""By version: gitVersion, and major and minor of the oldest compatible release, as in /version."""

SUBRESOURCE_VERBS = {"binding": ["create"], "eviction": ["create"], "finalize": ["update"]}
SUBRESOURCE_KINDS = {
    "binding": ("", "", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
}
"""Group, version and kind of subresources whose body is of another kind. Empty ones are the resource's own."""


class Discovery:
    """The discovery documents, by path."""

    def __init__(self, registry: Registry, gates: Gates) -> None:
        self._registry = registry
        self._gates = gates

    def version(self) -> Object:
        """/version."""
        release, minimum_major, minimum_minor = RELEASES[self._gates.version]
        major, minor = self._gates.version.split(".")[:2]
        return {
            "major": major,
            "minor": minor,
            "emulationMajor": major,
            "emulationMinor": minor,
            "minCompatibilityMajor": minimum_major,
            "minCompatibilityMinor": minimum_minor,
            "gitVersion": release,
            "gitCommit": "abcdef",
            "gitTreeState": "clean",
            "buildDate": "2026-08-01T00:00:00Z",
            "goVersion": "go1.26.6",
            "compiler": "gc",
            "platform": "linux/amd64",
        }

    def core(self) -> Object:
        """/api."""
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}

    def groups(self) -> Object:
        """/apis."""
        names = [name for name in self._group_names() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [self._group(name) for name in names]}

    def group(self, name: str) -> Object | None:
        """/apis/NAME; None if there is no such group."""
        if name not in self._group_names() or not name:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)}

    def resources(self, group: str, version: str) -> Object | None:
        """/apis/GROUP/VERSION; None if there is no such version."""
        found = [each for each in self._registry.resources() if each.group == group and each.version == version]
        if not found:
            return None
        listed = [entry for each in found for entry in _entries(each)]
        return {
            "kind": "APIResourceList",
            **({} if not group else {"apiVersion": "v1"}),
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": sorted(listed, key=lambda entry: str(entry["name"])),
        }

    def aggregated(self, core: bool, version: str) -> Object:
        """The aggregated document of /api (with `core`) or /apis, in a version of apidiscovery.k8s.io."""
        names = [""] if core else [name for name in self._group_names() if name]
        items = [
            {
                "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
                "versions": [self._aggregated_version(name, each) for each in self._versions(name)],
            }
            for name in names
        ]
        return {"kind": AGGREGATED_LIST, "apiVersion": f"{AGGREGATED}/{version}", "metadata": {}, "items": items}

    def serves(self, group: str, version: str) -> bool:
        return version in self._versions(group)

    def paths(self) -> Object:
        """/."""
        found = ["/api", "/api/v1", "/apis", "/apis/"]
        for name in self._group_names():
            if name:
                found.append(f"/apis/{name}")
                found += [f"/apis/{name}/{version}" for version in self._versions(name)]
        found += ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/readyz", "/version"]
        return {"paths": found}

    def group_versions(self) -> list[tuple[str, str]]:
        """Every served group and version, the core group first."""
        return [(name, version) for name in self._group_names() for version in self._versions(name)]

    def _group_names(self) -> list[str]:
        names = dict.fromkeys(resource.group for resource in self._registry.resources())
        place = {name: at for at, name in enumerate(GROUP_ORDER)}
        return sorted(names, key=lambda name: (name != "", place.get(name, len(place)), name))

    def _versions(self, group: str) -> list[str]:
        """Versions of a group, the preferred one first."""
        found = dict.fromkeys(each.version for each in self._registry.resources() if each.group == group)
        return sorted(found, key=_version_rank)

    def _group(self, name: str) -> Object:
        versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in self._versions(name)]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _aggregated_version(self, group: str, version: str) -> Object:
        found = [each for each in self._registry.resources() if each.group == group and each.version == version]
        resources = [_aggregated(each) for each in sorted(found, key=lambda each: each.plural)]
        return {"version": version, "resources": resources, "freshness": "Current"}


def _version_rank(version: str) -> tuple[int, int, int]:
    """Stable versions before betas before alphas, newer ones first."""
    for rank, word in ((1, "beta"), (2, "alpha")):
        major, found, minor = version.lstrip("v").partition(word)
        if found:
            return rank, -int(major or 0), -int(minor or 0)
    return (0, -int(version.lstrip("v")), 0) if version.lstrip("v").isdigit() else (3, 0, 0)


def _entries(resource: Resource) -> Iterable[Object]:
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    entry |= _other_names(resource)
    if resource.kept:
        stored = f"{resource.group}/{resource.storage_version or resource.version}/{resource.kind}"
        if resource.storage == "events":
            stored = f"/v1/{resource.kind}"
        entry["storageVersionHash"] = base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()
    yield entry
    for subresource in sorted(resource.subresources):
        group, version, kind = SUBRESOURCE_KINDS.get(subresource, ("", "", resource.kind))
        part: Object = {
            "name": f"{resource.plural}/{subresource}",
            "singularName": "",
            "namespaced": resource.namespaced,
        }
        if group:
            part |= {"group": group, "version": version}
        yield {**part, "kind": kind, "verbs": _subresource_verbs(subresource)}


def _other_names(resource: Resource) -> Object:
    found = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {key: names for key, names in found.items() if names}


def _subresource_verbs(subresource: str) -> list[str]:
    return SUBRESOURCE_VERBS.get(subresource, ["get", "patch", "update"])


def _aggregated(resource: Resource) -> Object:
    own = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    shown: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": own,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    shown |= _other_names(resource)
    parts = []
    for subresource in sorted(resource.subresources):
        group, version, kind = SUBRESOURCE_KINDS.get(subresource, ("", "", resource.kind))
        response = {"group": group or resource.group, "version": version or resource.version, "kind": kind}
        parts.append({"subresource": subresource, "responseKind": response, "verbs": _subresource_verbs(subresource)})
    if parts:
        shown["subresources"] = parts
    return shown


# -- OpenAPI documents

PROTO = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
PROTO_SENT = PROTO.replace("@", ".")
"""The answer's media type, as a real server writes it: Go rejects a media type with "@"."""
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


def openapi_v2(discovery: Discovery, accept: str) -> Response:
    """/openapi/v2: an outline without definitions, in JSON or in the protobuf that old kubectl requests."""
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


def openapi_v3(discovery: Discovery, registry: Registry, parts: list[str]) -> Object | None:
    """/openapi/v3 and the paths below it; None for an unknown one."""
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
    """The prefix of the names of a group's schemas."""
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
    """The schemas of one document. Named definitions are written once and referenced, since some contain themselves."""

    def __init__(self, package: str) -> None:
        self.found: dict[str, Object] = {}
        self._package = package
        self._names: dict[int, str] = {}
        self._kept: list[Node] = []

    def add(self, name: str, node: Node, gvk: Object) -> None:
        self._names[id(node.fields)] = name
        self._kept.append(node)  # keeps its id() from being used again
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
