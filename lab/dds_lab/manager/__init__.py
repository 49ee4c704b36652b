"""A simulated manager of composable hardware: the REST APIs of real managers over the lab's own fabric.

It shares the fabric with the lab's other parts: devices that the operator attaches are not free here, and devices that are
attached here are in the machine that the vendor's driver sees. `Manager` answers calls; `ManagerTransport` puts it behind httpx
without a socket, `frontend` behind real HTTPS. The manager must not depend on its clients.
"""

from dds_lab.manager.calls import Call, Reply
from dds_lab.manager.inventory import Limit, Login, ManagerSettings, NodeGroup
from dds_lab.manager.manager import Manager, Seen
from dds_lab.manager.servers import Composed, Servers, Stock

__all__ = [
    "Call",
    "Composed",
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
