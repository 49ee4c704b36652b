"""The operator's settings, and the names that it writes into objects."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from dds_lab.latency import Latency, Uniform

FINALIZER = "com.ie.ibm.hpsys/finalizer"
MANAGED_BY = "app.kubernetes.io/managed-by"
LAST_USED = "cohdi.io/last-used-time"
DELETE_DEVICE = "cohdi.io/delete-device"
DETACH_DEVICE = "cohdi.io/ready-to-detach-device-id"
DETACH_RESOURCE = "cohdi.io/ready-to-detach-cdi-device-id"
API_VERSION = "cro.hpsys.ibm.ie.com/v1alpha1"
REQUESTS = "composabilityrequests"
RESOURCES = "composableresources"


class Plugins(Protocol):
    """The vendor's driver, as the operator uses it."""

    def restart_plugin(self, node: str) -> None:
        """Delete the plugin's pod, which starts again."""
        ...

    def plugin_age(self, node: str) -> float:
        """Seconds since the plugin's pod was created."""
        ...

    def drivers(self) -> frozenset[str]:
        """The names of the drivers that are installed on nodes."""
        ...


@dataclass(frozen=True)
class OperatorSettings:
    """Durations are seconds. The defaults are those of the real operator.

    `kind`: `real` behaves as the real operator does, faults included; `ideal` as one may hope: 16 workers that see every change
    at once and order again only after a lost answer. `api`: the manager's interface that the real one uses. `fm`: an order blocks
    the worker until the fabric answers. `cm`: an order gives the wanted number of devices, is accepted at once, and the result is
    looked for at the next poll. `look`: the time to process one object. `poll`: when an object that is not as wanted is processed
    again. `gone`: the same while a removed device is still published (the ideal one polls). `taint_version`: the API version of
    its DeviceTaintRules, "" for none. `sync`: the syncer's period (0: never). `orphan`: how long a device without a resource may
    stay. `deletes_with_node`: requests and resources are deleted with their node.
    """

    kind: Literal["real", "ideal"] = "real"
    api: Literal["fm", "cm"] = "fm"
    look: Latency = field(default=Uniform(0.005, 0.015))
    poll: float = 30.0
    gone: float = 3.0
    taint_version: str = "v1alpha3"
    sync: float = 60.0
    orphan: float = 600.0
    deletes_with_node: bool = True

    @property
    def ideal(self) -> bool:
        return self.kind == "ideal"
