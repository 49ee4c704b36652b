"""Decodes a Node or ResourceSlice for the publisher, or raises a `Fault` that names the field.

resource.k8s.io v1, v1beta2 and v1beta1 side by side. For any object, however broken, `Fault` is the only error; it quotes no
value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import structs

from dds_adapters.kubernetes.decode import config, decoding
from dds_adapters.kubernetes.decode import raw_objects as raw_
from dds_adapters.kubernetes.decode.decoding import Fault, read, well_formed
from dds_adapters.kubernetes.decode.translate import KnownObjects, Resource, Translator, who_is
from dds_adapters.kubernetes.publish.device_info import read_pool_config
from dds_core.events import Event, difference
from dds_core.model import Claim, FabricResource
from dds_core.publisher.describe import digest_of
from dds_core.publisher.model import Host, PoolConfig, PoolSlice

UUIDS = ("parentUUID", "uuid")
"""Attributes, in the driver's own domain, that contain the UUID of an attached device."""


class _HostSpec(raw_.Part, frozen=True):
    provider_id: str = msgspec.field(name="providerID", default="")


class _RawHost(raw_.Object, frozen=True, kw_only=True):
    spec: _HostSpec | None = None


class _Devices(msgspec.Struct):
    devices: list[dict[str, Any]] | None = None


class _Whole(msgspec.Struct):
    """A slice with all fields of its devices."""

    spec: _Devices


_host = msgspec.json.Decoder(_RawHost)
_whole = msgspec.json.Decoder(_Whole)


def host(raw: bytes) -> Host:
    """A Node. Its machine is the last segment of its spec.providerID (`fsas-cdi://<uuid>`), in lower case like the machines of a
    fabric; "" without one. Raises Fault."""
    found, machine = _named(raw)
    return structs.replace(found, machine=machine.lower())


def _named(raw: bytes) -> tuple[Host, str]:
    """A Node without its machine, and the last segment of its provider ID."""
    found = read(_host, raw, "Node", decoding.CORE)
    meta, provider = found.metadata, found.spec.provider_id if found.spec is not None else ""
    return Host(meta.uid, meta.name, "", meta.labels or {}), provider.rstrip("/").rpartition("/")[2]


def pool_slice(raw: bytes) -> PoolSlice:
    """A ResourceSlice. Raises Fault."""
    found = read(raw_.slice_, raw, "ResourceSlice", decoding.DRA)
    spec = found.spec
    node = spec.node_name or decoding.single_node(spec.node_selector)
    selector = decoding.requirements("spec.nodeSelector", spec.node_selector) if spec.node_selector is not None else ()
    devices = {name: body for name, _, body in decoding.bodies(spec.devices)}
    return PoolSlice(
        uid=found.metadata.uid,
        name=found.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
        node=node,
        owner=(found.metadata.labels or {}).get(decoding.MANAGED_BY, ""),
        selector=() if node else selector,
        devices=tuple(devices),
        ordinary=tuple(name for name, one in devices.items() if not one.binding_conditions),
        taints=tuple(dict.fromkeys(taint for one in devices.values() for taint in decoding.taints(one.taints))),
        digest="" if node else digest_of(flat_devices(well_formed(_whole, raw).spec.devices)),
        uuids=_uuids(spec.driver, devices) if node else {},
    )


def flat_devices(devices: list[dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
    """Devices in the form of v1; v1beta1 wraps all but the name in `basic`."""
    for one in devices or ():
        basic = one.get("basic")
        yield {"name": one.get("name"), **basic} if isinstance(basic, dict) else one


def _uuids(driver: str, devices: dict[str, raw_.DeviceBody]) -> dict[str, str]:
    """UUIDs by device name, where devices have one; for a partition that of its device."""
    found: dict[str, str] = {}
    for name, one in devices.items():
        attributes = one.attributes or {}
        said = (attributes.get(key) for wanted in UUIDS for key in (wanted, f"{driver}/{wanted}"))
        if uuid := next((each.string for each in said if each is not None and each.string), ""):
            found[name] = uuid
    return found


# -- BareMetalHosts ------------------------------------------------------------------------------------------------------

BARE_METAL_HOSTS = "baremetalhosts"
KIND = "BareMetalHost"


class _Annotations(msgspec.Struct):
    machine: str = msgspec.field(name="cluster-manager.cdi.io/machine", default="")


class _Metadata(msgspec.Struct):
    uid: str = ""
    annotations: _Annotations | None = None


class _BareMetalHost(msgspec.Struct):
    metadata: _Metadata


_bare_metal_host = msgspec.json.Decoder(_BareMetalHost)


class BareMetalHosts:
    """The machines of nodes where BareMetalHosts give them (metal3.io, OpenShift on bare metal): there the provider ID of a node
    ends in the uid of its BareMetalHost, and an annotation of the BareMetalHost names the machine in the fabric. The two objects
    may come in any order. An instance outlives the translator that uses it.

    Only uid and that annotation are read, because a BareMetalHost also contains the access to the server's management
    controller."""

    def __init__(self) -> None:
        self._machines: dict[str, str] = {}  # by the BareMetalHost's uid; "" without annotation, or deleted
        self._hosts: dict[str, str] = {}  # the node's uid → its BareMetalHost's uid

    def is_there(self, raw: bytes) -> Iterator[tuple[str, str]]:
        """Take in a BareMetalHost; gives its nodes by uid, with their machines. Raises Fault."""
        meta = well_formed(_bare_metal_host, raw).metadata
        return self._says(meta.uid, meta.annotations.machine if meta.annotations is not None else "")

    def is_gone(self, uid: str) -> Iterator[tuple[str, str]]:
        """Take in a deletion; gives the same."""
        return self._says(uid, "")

    def host(self, raw: bytes) -> Host:
        """A Node, with the machine of its BareMetalHost; "" if that is not known yet. Raises Fault."""
        found, of = _named(raw)
        self._hosts[found.uid] = of
        return structs.replace(found, machine=self._machines.get(of, ""))

    def knows(self, node: str) -> bool:
        """Whether the BareMetalHost of a node (by uid) was ever seen."""
        return self._hosts.get(node, "") in self._machines

    def _says(self, uid: str, machine: str) -> Iterator[tuple[str, str]]:
        if not uid:
            raise Fault("metadata.uid", "is missing")
        machine = machine.lower()  # as a fabric's machines have it
        self._machines[uid] = machine
        return ((node, machine) for node, of in self._hosts.items() if of == uid)


# -- facts ---------------------------------------------------------------------------------------------------------------

PUBLISHED: dict[str, Resource] = {
    "configmaps": Resource("ConfigMap", PoolConfig, configured=read_pool_config),
    "nodes": Resource("Node", Host, host),
    "resourceslices": Resource("ResourceSlice", PoolSlice, pool_slice),
    "composableresources": Resource("ComposableResource", FabricResource, decoding.fabric_resource),
    "resourceclaims": Resource("ResourceClaim", Claim, decoding.claim),
}
"""Every resource that is translated for the publisher, by its plural name."""


class PublisherTranslator(Translator):
    """Translates for the publisher. With `hosts` BareMetalHosts are translated too: a node's machine comes from its
    BareMetalHost, and from the view until that was seen."""

    def __init__(
        self, view: KnownObjects, config_namespace: str = config.NAMESPACE, hosts: BareMetalHosts | None = None
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
        """Facts for changed machines; the nodes are given by uid."""
        for uid, machine in machines:
            old = self._view.object(Host, uid)
            fact = difference(old, structs.replace(old, machine=machine)) if old is not None else None
            if fact is not None:
                yield fact
