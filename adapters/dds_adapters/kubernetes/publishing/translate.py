"""What a cluster's objects become for the publisher: the table for its translator, and no more."""

from __future__ import annotations

from dds_adapters.kubernetes import config, decode
from dds_adapters.kubernetes.publishing.decode import host, pool_slice
from dds_adapters.kubernetes.publishing.device_info import read_pool_config
from dds_adapters.kubernetes.translate import Resource, Translator, View
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
    """Translates for the publisher's view."""

    def __init__(self, view: View, config_namespace: str = config.NAMESPACE) -> None:
        super().__init__(view, config_namespace, PUBLISHED)
