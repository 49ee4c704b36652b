"""The names that the operator writes into objects, and what it uses of the vendor's driver."""

from typing import Protocol

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
