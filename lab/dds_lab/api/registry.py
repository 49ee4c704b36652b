"""What the server serves, and what it asks about each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from dds_lab.api import custom
from dds_lab.api.gates import Gates
from dds_lab.api.kinds import BUILT_IN, Column, Object, Resource
from dds_lab.api.requests import GranularCheck
from dds_lab.api.rules import claims, classes, core, definitions, events, nodes, pods, rbac, slices
from dds_lab.api.schema import Node
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn


class Strategy(Protocol):
    """What the server asks about a kind. Objects go in and come out unchanged; what changes is copied.

    A write is: `decode`, `to_storage`, `for_create` or `for_update`, `check_create` or `check_update`; an answer is
    `from_storage`. `for_…` and `check_…` see the stored shape.
    """

    @property
    def resource(self) -> Resource: ...
    @property
    def schema(self) -> Node: ...
    @property
    def empty(self) -> Object:
        """An object of this version that nobody filled in, as bookmarks carry it."""
        ...

    @property
    def selectable_names(self) -> tuple[str, ...]: ...
    @property
    def columns(self) -> tuple[Column, ...]: ...

    def decode(self, body: Object, live: Object | None = None) -> tuple[Object, list[str]]:
        """The body as this version knows it, and the paths of fields that it does not know (removed). Parts that are the
        same object in `live` (the stored object in the shape of this version) are taken as they are. Wrong JSON types raise
        ApiError 400."""
        ...

    def to_storage(self, obj: Object) -> Object:
        """From the shape of this version to the one that is kept; for most kinds only apiVersion may differ."""
        ...

    def from_storage(self, obj: Object) -> Object:
        """The way back."""
        ...

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        """The decoded object (storage shape) with the defaults that its writer then owns; parts that are the same object in
        `old` have theirs already."""
        ...

    def for_create(self, obj: Object) -> Object:
        """A decoded new object, with defaults; status reset, generation set, gated fields dropped."""
        ...

    def for_update(self, new: Object, old: Object, subresource: str) -> Object:
        """The decoded new object with everything that this write may not change taken from the stored `old`."""
        ...

    def admitted(self, obj: Object) -> Object:
        """What `for_create` gave, with what a real server's admission adds to a new object; no manager owns that."""
        ...

    def check_create(self, obj: Object) -> list[Cause]:
        """What is wrong with an object that `for_create` gave."""
        ...

    def check_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """What is wrong with an object that `for_update` gave."""
        ...

    def granular(self, new: Object, old: Object, subresource: str, verb: str) -> list[GranularCheck]:
        """Permissions that this write needs beyond the one on its path; `verb` is "update" or "patch"."""
        ...

    def selectable(self, obj: Object) -> dict[str, str]:
        """Values of field selectors beyond metadata.name and metadata.namespace."""
        ...


Making = Callable[[Resource, Gates, Callable[[], str]], Strategy]

RULES: Mapping[str, Making] = {
    "clusterrolebindings.rbac.authorization.k8s.io": rbac.Bindings,
    "clusterroles.rbac.authorization.k8s.io": rbac.Roles,
    "configmaps": core.ConfigMaps,
    "customresourcedefinitions.apiextensions.k8s.io": definitions.Definitions,
    "deviceclasses.resource.k8s.io": classes.DeviceClasses,
    "devicetaintrules.resource.k8s.io": classes.DeviceTaintRules,
    "events": events.Events,
    "events.events.k8s.io": events.NewEvents,
    "leases.coordination.k8s.io": core.Leases,
    "namespaces": core.Namespaces,
    "nodes": nodes.Nodes,
    "pods": pods.Pods,
    "resourceclaims.resource.k8s.io": claims.ResourceClaims,
    "resourceclaimtemplates.resource.k8s.io": claims.ResourceClaimTemplates,
    "resourceslices.resource.k8s.io": slices.ResourceSlices,
    "rolebindings.rbac.authorization.k8s.io": rbac.Bindings,
    "roles.rbac.authorization.k8s.io": rbac.Roles,
    "secrets": core.Secrets,
}
"""By name of the resource: the strategy of a kind that has rules of its own."""


OWN_NAMES = frozenset(resource.name for resource in BUILT_IN)


class Registry:
    """The resources that are served now: built-in ones by the gates, custom ones as they are installed."""

    def __init__(self, gates: Gates, second: Callable[[], str] = str) -> None:
        """`second` tells the present second as text (for taints, which say since when); nothing where there is no time."""
        self.gates = gates
        self._second = second
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._strategies: dict[Resource, Strategy] = {}
        for resource in BUILT_IN:
            if gates.serves(resource.group, resource.version, resource.plural):
                self._resources[resource.group, resource.version, resource.plural] = resource

    def resources(self) -> list[Resource]:
        """Everything that is served, built-in first, then in the order of installation."""
        return list(self._resources.values())

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def by_key(self, key: str) -> Resource:
        """The preferred version of what is stored under this key. Raises KeyError when nothing is served there."""
        served = [resource for resource in self._resources.values() if resource.key == key]
        if not served:
            raise KeyError(key)
        return served[0]

    def named(self, plural: str, group: str | None = None) -> Resource:
        """The preferred version of a plural, of any group unless told. Raises KeyError when nothing of that name is served."""
        for resource in self._resources.values():
            if resource.plural == plural and group in (None, resource.group):
                return resource
        raise KeyError(plural)

    def install(self, crd: Object) -> None:
        """Serves the versions of a CustomResourceDefinition (that its strategy found nothing wrong with) from now on, or serves
        it anew after a change. What the server has itself cannot be defined otherwise."""
        self.uninstall(crd["metadata"]["name"])
        for resource, version in custom.resources_of(crd):
            if resource.name in OWN_NAMES:
                continue
            self._resources[resource.group, resource.version, resource.plural] = resource
            self._strategies[resource] = custom.Custom(resource, version)

    def uninstall(self, name: str) -> None:
        """Serves the custom resource of this name (`plural.group`) no longer."""
        for place, resource in list(self._resources.items()):
            if resource.custom and resource.name == name:
                del self._resources[place]
                self._strategies.pop(resource, None)

    def strategy(self, resource: Resource) -> Strategy:
        """What to ask about objects of this resource (of a custom one as it is defined now)."""
        found = self._strategies.get(resource)
        if found is None and resource.custom:
            return self._strategies[self._resources[resource.group, resource.version, resource.plural]]
        if found is None:
            found = self._strategies[resource] = RULES.get(resource.name, BuiltIn)(resource, self.gates, self._second)
        return found
