"""A simulated manager of composable hardware: the REST APIs of real ones, over the lab's own fabric.

What the lab's operator attaches is gone from the counts that are asked for here, and what is attached here is in the machine
that the vendor's driver looks at. `Manager` answers calls; `ManagerTransport` puts it behind httpx without a socket, and
`face` behind real HTTPS. It must never know why somebody asks.
"""

from dds_lab.manager.calls import Call, Reply
from dds_lab.manager.faults import Fault, Faults
from dds_lab.manager.inventory import Limit, Login, ManagerSettings, NodeGroup
from dds_lab.manager.manager import Manager, Seen
from dds_lab.manager.servers import Composed, Servers, Stock

__all__ = [
    "Call",
    "Composed",
    "Fault",
    "Faults",
    "Limit",
    "Login",
    "Manager",
    "ManagerSettings",
    "NodeGroup",
    "Reply",
    "Seen",
    "Servers",
    "Stock",
]
