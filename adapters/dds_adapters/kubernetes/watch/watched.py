"""What of a cluster is followed: resources, their versions that are understood, and which of their objects.

Nothing here asks anything.
"""

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
    "devicetaintrules": (f"{DRA}/v1beta2", f"{DRA}/v1alpha3"),
    "resourceslices": (f"{DRA}/v1", f"{DRA}/v1beta2", f"{DRA}/v1beta1"),
    "composabilityrequests": (f"{OPERATOR}/v1alpha1",),
    "composableresources": (f"{OPERATOR}/v1alpha1",),
    "resourceclaims": (f"{DRA}/v1", f"{DRA}/v1beta2", f"{DRA}/v1beta1"),
    "pods": ("v1",),
}
"""By resource the versions that are understood, the best first. The order is that in which a cluster is listed: what others
refer to comes first."""

OPTIONAL = frozenset({"devicetaintrules"})
"""Resources without which everything else goes on."""

PUBLISHER = ("configmaps", "nodes", "resourceslices", "composableresources", "resourceclaims")
"""What the publisher follows of them, in the same sense of order: who holds a device is asked last."""

PUBLISHER_OPTIONAL = frozenset({"composableresources"})
"""A cluster without the operator has nothing that says what is attached; its nodes' own slices do."""

PENDING = Scope(fields="spec.nodeName=")
"""Pods that have no node: the only ones that the scaler has to hear of, and few among a hundred thousand."""


@dataclass(frozen=True)
class WatchSpec:
    """A resource and which of its objects are followed.

    `matters` is for a scope that objects leave while they live (a pod that gets a node): when it says yes to the last JSON of
    one that has left, the object itself is asked what became of it. None: who leaves is gone.
    """

    resource: str
    versions: tuple[str, ...]
    scope: Scope = EVERYTHING
    matters: Callable[[bytes], bool] | None = None


BARE_METAL_HOSTS = WatchSpec("baremetalhosts", ("metal3.io/v1alpha1",))
"""Nobody else's business than the publisher's, and only where a cluster is told to have them."""


def scope_of_config(namespace: str = config.NAMESPACE) -> Scope:
    """The one ConfigMap that is ours."""
    return Scope(namespace, f"metadata.name={config.NAME}")


def watched(config_namespace: str = config.NAMESPACE) -> tuple[WatchSpec, ...]:
    """All that the scaler follows."""
    special = {
        "configmaps": WatchSpec("configmaps", VERSIONS["configmaps"], scope_of_config(config_namespace)),
        "pods": WatchSpec("pods", VERSIONS["pods"], PENDING, refers_to_claims),
    }
    return tuple(special.get(name) or WatchSpec(name, versions) for name, versions in VERSIONS.items())


def watched_by_publisher(
    config_namespace: str = config.NAMESPACE, *, bare_metal_hosts: bool = False
) -> tuple[WatchSpec, ...]:
    """All that the publisher follows: of nodes, slices and claims every one; BareMetalHosts where they say which machine a node
    is."""
    ours = scope_of_config(config_namespace)
    found = tuple(WatchSpec(name, VERSIONS[name], ours if name == "configmaps" else EVERYTHING) for name in PUBLISHER)
    return (BARE_METAL_HOSTS, *found) if bare_metal_hosts else found


def watched_by_autoscaler(config_namespace: str = config.NAMESPACE) -> tuple[WatchSpec, ...]:
    """All that the autoscaler follows: what the scaler does, and every pod, since all of them take room."""
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
    """Whether a pod has anything to do with claims; yes too for what cannot be read."""
    try:
        pod = _pod.decode(raw)
    except ValueError:
        return True
    extended = pod.status.extended_resource_claim_status if pod.status is not None else None
    return bool(pod.spec is not None and pod.spec.resource_claims) or (extended is not None and extended != b"null")
