"""From settings to a provider of machines. What asks an API server is loaded only where one is asked."""

from __future__ import annotations

from dds_adapters.machines.inventory import Inventory
from dds_adapters.machines.provider import Machines
from dds_adapters.machines.settings import InventorySettings, MachinesSettings


def open_machines(settings: MachinesSettings) -> Machines:
    """A provider for these settings. Nothing is sent or read yet, but credentials.

    Raises InputError for a kubeconfig that cannot be used, or a library that is missing.
    """
    if isinstance(settings, InventorySettings):
        return Inventory(settings)
    from dds_adapters.kubernetes.cluster import Cluster
    from dds_adapters.machines.clusterapi import ClusterApi

    kubeconfig = None if settings.kubeconfig is None else str(settings.kubeconfig)
    cluster = Cluster(kubeconfig, settings.context)
    return ClusterApi(settings.groups, cluster, cluster.close)
