"""The resources that the server serves, and the strategy of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dds_lab.api import custom
from dds_lab.api.gates import Gates
from dds_lab.api.kinds import BUILT_IN, Object, Resource
from dds_lab.api.rules import admission, apps, claims, core, definitions, devices, events, jobs, pods, slices
from dds_lab.api.strategies import BuiltIn, Strategy

Making = Callable[[Resource, Gates, Callable[[], str]], Strategy]

RULES: Mapping[str, Making] = {
    "clusterrolebindings.rbac.authorization.k8s.io": core.Bindings,
    "clusterroles.rbac.authorization.k8s.io": core.Roles,
    "configmaps": core.ConfigMaps,
    "controllerrevisions.apps": apps.ControllerRevisions,
    "customresourcedefinitions.apiextensions.k8s.io": definitions.Definitions,
    "deployments.apps": apps.Deployments,
    "deviceclasses.resource.k8s.io": devices.DeviceClasses,
    "devicetaintrules.resource.k8s.io": devices.DeviceTaintRules,
    "events": events.Events,
    "events.events.k8s.io": events.NewEvents,
    "jobs.batch": jobs.Jobs,
    "leases.coordination.k8s.io": core.Leases,
    "namespaces": core.Namespaces,
    "nodes": core.Nodes,
    "pods": pods.Pods,
    "replicasets.apps": apps.ReplicaSets,
    "resourceclaims.resource.k8s.io": claims.ResourceClaims,
    "resourceclaimtemplates.resource.k8s.io": claims.ResourceClaimTemplates,
    "resourceslices.resource.k8s.io": slices.ResourceSlices,
    "rolebindings.rbac.authorization.k8s.io": core.Bindings,
    "roles.rbac.authorization.k8s.io": core.Roles,
    "secrets": core.Secrets,
    "statefulsets.apps": apps.StatefulSets,
    "validatingadmissionpolicies.admissionregistration.k8s.io": admission.Policies,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": admission.PolicyBindings,
}
"""By resource name: the strategy of each kind that has rules of its own."""


OWN_NAMES = frozenset(resource.name for resource in BUILT_IN)


class Registry:
    """The resources that are served now: built-in ones by the gates, custom ones as they are installed."""

    def __init__(self, gates: Gates, second: Callable[[], str] = str) -> None:
        """`second` returns the present second as text (for the timeAdded of taints), "" if there is no time."""
        self.gates = gates
        self._second = second
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._strategies: dict[tuple[str, str, str], Strategy] = {}
        for resource in BUILT_IN:
            known = not resource.since or gates.since(resource.since)
            if known and gates.serves(resource.group, resource.version, resource.plural):
                self._resources[resource.place] = resource

    def resources(self) -> list[Resource]:
        """Everything that is served: built-in resources, then custom ones in the order of installation."""
        return list(self._resources.values())

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def by_key(self, key: str) -> Resource:
        """The preferred version of what is stored under this key. KeyError if nothing is served there."""
        served = [resource for resource in self._resources.values() if resource.key == key]
        if not served:
            raise KeyError(key)
        return served[0]

    def named(self, plural: str, group: str | None = None) -> Resource:
        """The preferred version of a plural, in any group if `group` is None. KeyError if none is served."""
        for resource in self._resources.values():
            if resource.plural == plural and group in (None, resource.group):
                return resource
        raise KeyError(plural)

    def install(self, crd: Object) -> None:
        """Serve the versions of a checked CustomResourceDefinition; also after a change. It cannot replace a built-in
        resource."""
        self.uninstall(crd["metadata"]["name"])
        for resource, version in custom.resources_of(crd):
            if resource.name in OWN_NAMES:
                continue
            self._resources[resource.place] = resource
            self._strategies[resource.place] = custom.Custom(resource, version)

    def uninstall(self, name: str) -> None:
        """Stop serving the custom resource of this name (`plural.group`)."""
        for place, resource in list(self._resources.items()):
            if resource.custom and resource.name == name:
                del self._resources[place]
                self._strategies.pop(place, None)

    def strategy(self, resource: Resource) -> Strategy:
        """The strategy of a resource; of a custom one by its present definition."""
        found = self._strategies.get(resource.place)
        if found is None and resource.custom:
            raise KeyError(resource.name)
        if found is None:
            made = RULES.get(resource.name, BuiltIn)(resource, self.gates, self._second)
            found = self._strategies[resource.place] = made
        return found
