"""Makes a provider of machines from settings, and loads only its libraries."""

from __future__ import annotations

from dds_adapters.fabric.fabric_settings import Outside
from dds_adapters.fabric.registry import require_http
from dds_adapters.machines.inventory import Inventory
from dds_adapters.machines.machine_settings import (
    CdiSettings,
    ClusterApiSettings,
    InventorySettings,
    MachinesSettings,
    plugin_of,
)
from dds_adapters.machines.provider import Machines
from dds_core.errors import InputError


def open_machines(settings: MachinesSettings, outside: Outside | None = None) -> Machines:
    """A provider for these settings. It reads credentials and sends nothing yet.

    `outside` is the way to a CDI manager. Raises InputError for an unusable setting or a missing library.
    """
    if isinstance(settings, CdiSettings):
        require_http(settings.endpoint)
        from dds_adapters.machines.cdi import Cdi

        return Cdi(settings, outside or Outside())
    if isinstance(settings, InventorySettings):
        return Inventory(settings)
    if not isinstance(settings, ClusterApiSettings):
        return _of_plugin(settings, outside or Outside())
    from dds_adapters.kubernetes.cluster import Cluster
    from dds_adapters.machines.clusterapi import ClusterApi

    kubeconfig = None if settings.kubeconfig is None else str(settings.kubeconfig)
    cluster = Cluster(kubeconfig, settings.context)
    return ClusterApi(settings.groups, cluster, cluster.close)


def _of_plugin(settings: MachinesSettings, outside: Outside) -> Machines:
    found = plugin_of(settings.kind)
    if found is None:
        raise InputError(f"there is no kind {settings.kind!r}", where="machines", fix="install the package that has it")
    return found.open(settings, outside)
