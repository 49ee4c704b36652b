"""Where servers come from: providers of machines, from which dds orders a server and to which it returns one.

Nothing here decides. Start at `open_machines`; docs/machines.md says what each provider needs and does.
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
