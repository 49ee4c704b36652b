"""Nodes and ResourceSlices as the publisher sees them, from one raw object each, or a `Fault` that names the field.

resource.k8s.io v1, v1beta2 and v1beta1 side by side. This module must never raise anything but `Fault` for an object, however
broken, and quotes nothing that it found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dds_adapters.kubernetes import decode
from dds_adapters.kubernetes import objects as raw_
from dds_adapters.kubernetes.reading import Fault, read, well_formed
from dds_core.model import Taint
from dds_core.publishing.describe import digest_of
from dds_core.publishing.model import Host, PoolSlice

UUID = "uuid"
"""The attribute, of the driver's own domain, by which a device on a node says which it is."""


class _HostSpec(raw_.Part, frozen=True):
    provider_id: str = msgspec.field(name="providerID", default="")


class _RawHost(raw_.Object, frozen=True, kw_only=True):
    spec: _HostSpec | None = None


class _Devices(msgspec.Struct):
    devices: list[dict[str, Any]] | None = None


class _Whole(msgspec.Struct):
    """A slice with all that its devices say."""

    spec: _Devices


_host = msgspec.json.Decoder(_RawHost)
_whole = msgspec.json.Decoder(_Whole)


def host(raw: bytes) -> Host:
    """A Node; see `machine_of`. Raises Fault."""
    found = read(_host, raw, "Node", decode.CORE)
    meta = found.metadata
    provider = found.spec.provider_id if found.spec is not None else ""
    return Host(meta.uid, meta.name, machine_of(provider), meta.labels or {})


def machine_of(provider: str) -> str:
    """The machine of a node: the last segment of its spec.providerID (`fsas-cdi://<uuid>`), in small letters as a fabric's
    machines have them; "" without one."""
    return last_segment(provider).lower()


def last_segment(provider: str) -> str:
    """Of a provider ID what names the machine, or what stands for it."""
    return provider.rstrip("/").rpartition("/")[2]


def pool_slice(raw: bytes) -> PoolSlice:
    """A ResourceSlice. Raises Fault."""
    found = read(raw_.slice_, raw, "ResourceSlice", decode.DRA)
    spec = found.spec
    node = spec.node_name or decode.single_node(spec.node_selector)
    selector = decode.requirements("spec.nodeSelector", spec.node_selector) if spec.node_selector is not None else ()
    devices = dict(_bodies(spec.devices or ()))
    return PoolSlice(
        uid=found.metadata.uid,
        name=found.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
        node=node,
        owner=(found.metadata.labels or {}).get(decode.MANAGED_BY, ""),
        selector=() if node else selector,
        devices=tuple(devices),
        ordinary=tuple(name for name, one in devices.items() if not one.binding_conditions),
        taints=_all_taints(devices.values()),
        digest="" if node else digest_of(flat_devices(well_formed(_whole, raw).spec.devices)),
        uuids=_uuids(spec.driver, devices) if node else {},
    )


def flat_devices(devices: list[dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
    """Devices in the form of v1: in v1beta1 all but the name is wrapped in `basic`."""
    for one in devices or ():
        basic = one.get("basic")
        yield {"name": one.get("name"), **basic} if isinstance(basic, dict) else one


def _bodies(devices: tuple[raw_.RawDevice, ...]) -> Iterator[tuple[str, raw_.DeviceBody]]:
    seen: set[str] = set()
    for position, one in enumerate(devices):
        if not one.name or one.name in seen:
            what = "another device of the slice has it" if one.name else "is missing"
            raise Fault(f"spec.devices[{position}].name", what)
        seen.add(one.name)
        yield one.name, one.basic or one


def _all_taints(devices: Any) -> tuple[Taint, ...]:
    """Every taint that any of them has, once."""
    return tuple(dict.fromkeys(taint for one in devices for taint in decode.taints(one.taints)))


def _uuids(driver: str, devices: dict[str, raw_.DeviceBody]) -> dict[str, str]:
    """By name the UUIDs of the devices that say theirs."""
    found: dict[str, str] = {}
    for name, one in devices.items():
        attributes = one.attributes or {}
        said = attributes.get(UUID) or attributes.get(f"{driver}/{UUID}")
        if said is not None and said.string:
            found[name] = said.string
    return found
