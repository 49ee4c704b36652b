"""What a cluster's objects become for the publisher."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import structs

from dds_adapters.kubernetes import config, decode
from dds_adapters.kubernetes.publishing.decode import host, pool_slice
from dds_adapters.kubernetes.publishing.device_info import read_pool_config
from dds_adapters.kubernetes.publishing.machines import BARE_METAL_HOSTS, KIND, BareMetalHosts
from dds_adapters.kubernetes.reading import Fault
from dds_adapters.kubernetes.translate import Resource, Translator, View, who_is
from dds_core.events import Event, difference
from dds_core.model import Claim, FabricResource
from dds_core.publishing.model import Host, PoolConfig, PoolSlice

PUBLISHED: dict[str, Resource] = {
    "configmaps": Resource("ConfigMap", PoolConfig, configured=read_pool_config),
    "nodes": Resource("Node", Host, host),
    "resourceslices": Resource("ResourceSlice", PoolSlice, pool_slice),
    "composableresources": Resource("ComposableResource", FabricResource, decode.fabric_resource),
    "resourceclaims": Resource("ResourceClaim", Claim, decode.claim),
}
"""Every resource that is translated for the publisher, by its plural name."""


class PublisherTranslator(Translator):
    """Translates for the publisher's view. With `hosts` BareMetalHosts are translated too: the machine of a node is what its own
    says, and until one was seen what the view has."""

    def __init__(
        self, view: View, config_namespace: str = config.NAMESPACE, hosts: BareMetalHosts | None = None
    ) -> None:
        self._hosts = hosts if hosts is not None else BareMetalHosts()
        more = {"nodes": Resource("Node", Host, self._host), BARE_METAL_HOSTS: Resource(KIND, Host)}
        super().__init__(view, config_namespace, {**PUBLISHED, **(more if hosts is not None else {})})

    def _host(self, raw: bytes) -> Host:
        new = self._hosts.host(raw)
        old = None if self._hosts.knows(new.uid) else self._view.object(Host, new.uid)
        return new if old is None else structs.replace(new, machine=old.machine)

    def _seen(self, resource: Resource, raw: bytes) -> tuple[Event, ...]:
        if resource.name != KIND:
            return super()._seen(resource, raw)
        try:
            return tuple(self._moved(self._hosts.is_there(raw)))
        except Fault as fault:
            return self._rejected(resource, who_is(raw), (fault,))

    def _gone(self, resource: Resource, raw: bytes) -> tuple[Event, ...]:
        if resource.name != KIND:
            return super()._gone(resource, raw)
        try:
            return tuple(self._moved(self._hosts.is_gone(who_is(raw).uid)))
        except Fault as fault:
            return self._rejected(resource, who_is(raw), (fault,))

    def _moved(self, machines: Iterable[tuple[str, str]]) -> Iterator[Event]:
        """Nodes, by uid, are these machines now."""
        for uid, machine in machines:
            old = self._view.object(Host, uid)
            fact = difference(old, structs.replace(old, machine=machine)) if old is not None else None
            if fact is not None:
                yield fact
