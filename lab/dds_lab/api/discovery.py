"""What clients learn of the server before they ask for anything: groups, versions, resources, the release, its health.

Made from the registry alone, in a real server's words and order.
"""

import base64
import hashlib
from collections.abc import Iterable
from typing import Any

from dds_lab.api.gates import Gates
from dds_lab.api.kinds import Object, Resource
from dds_lab.api.registry import Registry

AGGREGATED = "apidiscovery.k8s.io"
AGGREGATED_LIST = "APIGroupDiscoveryList"

GROUP_ORDER = (
    "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling",
    "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io",
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io",
    "discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io",
)  # fmt: skip
"""Order in which a real server lists its own groups; custom ones follow."""

RELEASES = {
    "1.34": ("v1.34.2", "1", "33"),
    "1.35": ("v1.35.1", "1", "34"),
    "1.36": ("v1.36.2", "1", "35"),
}
"""By version: what /version tells of it and the release that it stays compatible with."""

SUBRESOURCE_VERBS = {"binding": ["create"], "eviction": ["create"], "finalize": ["update"]}
SUBRESOURCE_KINDS = {"binding": ("", "", "Binding"), "eviction": ("policy", "v1", "Eviction")}
"""Group, version and kind of bodies that are not of the resource's own kind; empty ones are the resource's."""


class Discovery:
    """Answers about what is served."""

    def __init__(self, registry: Registry, gates: Gates) -> None:
        self._registry = registry
        self._gates = gates

    def version(self) -> Object:
        """/version."""
        release, minimum_major, minimum_minor = RELEASES[self._gates.version]
        major, minor = self._gates.version.split(".")
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
        """/apis/NAME; None where there is no such group."""
        if name not in self._group_names() or not name:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)}

    def resources(self, group: str, version: str) -> Object | None:
        """/apis/GROUP/VERSION; None where there is no such version."""
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
        """Everything at once: of /api with `core`, else of /apis. `version` of apidiscovery.k8s.io."""
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
        """Whether anything is served there."""
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
        """All that is served, the core group first."""
        return [(name, version) for name in self._group_names() for version in self._versions(name)]

    # -- pieces

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
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.kept:
        entry["storageVersionHash"] = _storage_hash(resource)
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


def _subresource_verbs(subresource: str) -> list[str]:
    return SUBRESOURCE_VERBS.get(subresource, ["get", "patch", "update"])


def _storage_hash(resource: Resource) -> str:
    stored = f"{resource.group}/{resource.storage_version or resource.version}/{resource.kind}"
    if resource.storage == "events":
        stored = f"/v1/{resource.kind}"
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()


def _aggregated(resource: Resource) -> Object:
    own = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    shown: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": own,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        shown["shortNames"] = list(resource.short_names)
    if resource.categories:
        shown["categories"] = list(resource.categories)
    parts = []
    for subresource in sorted(resource.subresources):
        group, version, kind = SUBRESOURCE_KINDS.get(subresource, ("", "", resource.kind))
        response = {"group": group or resource.group, "version": version or resource.version, "kind": kind}
        parts.append({"subresource": subresource, "responseKind": response, "verbs": _subresource_verbs(subresource)})
    if parts:
        shown["subresources"] = parts
    return shown
