"""Which resources of a cluster each component follows, in which API versions, and which of their objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from dds_adapters.kubernetes.cluster import EVERYTHING, Scope
from dds_adapters.kubernetes.decode import config

DRA = "resource.k8s.io"
OPERATOR = "cro.hpsys.ibm.ie.com"

VERSIONS: dict[str, tuple[str, ...]] = {
    "configmaps": ("v1",),
    "deviceclasses": (f"{DRA}/v1", f"{DRA}/v1beta2", f"{DRA}/v1beta1"),
    "nodes": ("v1",),
    "devicetaintrules": (f"{DRA}/v1", f"{DRA}/v1beta2", f"{DRA}/v1alpha3"),
    "resourceslices": (f"{DRA}/v1", f"{DRA}/v1beta2", f"{DRA}/v1beta1"),
    "composabilityrequests": (f"{OPERATOR}/v1alpha1",),
    "composableresources": (f"{OPERATOR}/v1alpha1",),
    "resourceclaims": (f"{DRA}/v1", f"{DRA}/v1beta2", f"{DRA}/v1beta1"),
    "pods": ("v1",),
}
"""The API versions that dds understands, the best first, by resource. A cluster is listed in this order: an object that others
refer to comes before them."""

OPTIONAL = frozenset({"devicetaintrules"})
"""Resources that a cluster need not serve."""

PUBLISHER = ("configmaps", "nodes", "resourceslices", "composableresources", "resourceclaims")
"""The resources that the publisher follows, in the order of listing: claims, which hold devices, come last."""

PUBLISHER_OPTIONAL = frozenset({"composableresources"})
"""Without the operator, only the nodes' own slices show which devices are attached."""

PENDING = Scope(fields="spec.nodeName=")
"""Pods without a node: the only ones that the scaler follows, and few even among a hundred thousand pods."""


@dataclass(frozen=True)
class WatchSpec:
    """A resource and which of its objects are followed.

    `optional`: a cluster need not serve it. `matters` is for a scope that an object can leave without being deleted (a pod gets
    a node). If `matters` is true for the object's last JSON, dds gets the object to see its new state. None: an object that
    leaves is deleted.
    """

    resource: str
    versions: tuple[str, ...]
    scope: Scope = EVERYTHING
    matters: Callable[[bytes], bool] | None = None
    optional: bool = False


BARE_METAL_HOSTS = WatchSpec("baremetalhosts", ("metal3.io/v1alpha1",))
"""Followed only by the publisher, and only if the settings say that the cluster has them."""


def scope_of_config(namespace: str = config.NAMESPACE) -> Scope:
    """The fabric's ConfigMap, `composable-dra-dds`."""
    return Scope(namespace, f"metadata.name={config.NAME}")


def watched(config_namespace: str = config.NAMESPACE) -> tuple[WatchSpec, ...]:
    """All that the scaler follows."""
    special = {
        "configmaps": WatchSpec("configmaps", VERSIONS["configmaps"], scope_of_config(config_namespace)),
        "pods": WatchSpec("pods", VERSIONS["pods"], PENDING, refers_to_claims),
    }
    return tuple(
        special.get(name) or WatchSpec(name, versions, optional=name in OPTIONAL) for name, versions in VERSIONS.items()
    )


def watched_by_publisher(
    config_namespace: str = config.NAMESPACE, *, bare_metal_hosts: bool = False
) -> tuple[WatchSpec, ...]:
    """All that the publisher follows. `bare_metal_hosts`: BareMetalHosts say which machine a node is."""
    ours = scope_of_config(config_namespace)
    found = tuple(
        WatchSpec(
            name,
            VERSIONS[name],
            ours if name == "configmaps" else EVERYTHING,
            optional=name in PUBLISHER_OPTIONAL,
        )
        for name in PUBLISHER
    )
    return (BARE_METAL_HOSTS, *found) if bare_metal_hosts else found


def watched_by_autoscaler(config_namespace: str = config.NAMESPACE) -> tuple[WatchSpec, ...]:
    """All that the autoscaler follows: what the scaler follows, but all pods, because each pod uses resources of its node."""
    every = WatchSpec("pods", VERSIONS["pods"])
    return tuple(every if one.resource == "pods" else one for one in watched(config_namespace))


class _PodSpec(msgspec.Struct, rename="camel"):
    resource_claims: list[msgspec.Raw] | None = None


class _PodStatus(msgspec.Struct, rename="camel"):
    extended_resource_claim_status: msgspec.Raw | None = None


class _Pod(msgspec.Struct):
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


_pod = msgspec.json.Decoder(_Pod)


def refers_to_claims(raw: bytes) -> bool:
    """Whether a pod uses claims; also true for a pod that cannot be read."""
    try:
        pod = _pod.decode(raw)
    except ValueError:
        return True
    extended = pod.status.extended_resource_claim_status if pod.status is not None else None
    return bool(pod.spec is not None and pod.spec.resource_claims) or (extended is not None and extended != b"null")
