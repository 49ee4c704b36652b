"""Where servers come from: the providers of machines behind one small interface, by which a server is ordered and given back.

Nothing here decides. `open_machines` is where to begin; docs/machines.md says what each provider needs and does.
"""

from dds_adapters.machines.machine_settings import (
    CdiSettings,
    ClusterApiSettings,
    File,
    InventorySettings,
    MachinesPlugin,
    MachinesSettings,
    Scalable,
    read_settings,
)
from dds_adapters.machines.provider import Machines, ServersPartly
from dds_adapters.machines.registry import open_machines

__all__ = [
    "CdiSettings",
    "ClusterApiSettings",
    "File",
    "InventorySettings",
    "Machines",
    "MachinesPlugin",
    "MachinesSettings",
    "Scalable",
    "ServersPartly",
    "open_machines",
    "read_settings",
]
