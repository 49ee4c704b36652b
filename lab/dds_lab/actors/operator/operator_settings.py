"""What can be set of the operator, and the words that it writes into objects."""

from dataclasses import dataclass, field
from typing import Protocol

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
    """What the operator does to the vendor's driver on a node."""

    def restart_plugin(self, node: str) -> None:
        """Delete the plugin's pod, which comes back."""
        ...

    def plugin_age(self, node: str) -> float:
        """Seconds since that pod came up; 0 while it is coming."""
        ...

    def drivers(self) -> frozenset[str]:
        """The names of the drivers that nodes have."""
        ...


@dataclass(frozen=True)
class OperatorSettings:
    """Durations are seconds. The defaults are those of the real one.

    `workers`: orders to the fabric that each controller has under way at once. `look`: what one look at an object
    takes. `poll`: how soon it looks again while something is not as it should be. `gone`: the same while a removed
    device is still published. `watch_slices`: look as soon as a slice changes instead. `plugin_rest`: a plugin younger
    than this is not restarted. `taint_version`: the version in which it writes DeviceTaintRules, "" for none. `sync`
    and `orphan`: how often it asks the fabric what is attached (0: never), and how long something unknown may be.
    `stale_writes`: the ids of a new device are written with the version read before the order, so that a change of the
    object meanwhile loses them and the order is made again; so does who looks before it has read what it wrote.
    `deletes_with_node`: what is for a node goes with it."""

    workers: int = 1
    look: Latency = field(default=Uniform(0.005, 0.015))
    poll: float = 30.0
    gone: float = 3.0
    watch_slices: bool = False
    plugin_rest: float = 10.0
    taint_version: str = "v1alpha3"
    sync: float = 60.0
    orphan: float = 600.0
    stale_writes: bool = True
    deletes_with_node: bool = True
