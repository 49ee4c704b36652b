"""What of device choice a scheduler has switched on. This module must know no default but that of Kubernetes 1.36."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class Gates(Struct, frozen=True):
    """The scheduler's feature gates; each is named in its line. The defaults are those of 1.36."""

    admin_access: bool = True
    """DRAAdminAccess: off, a request for it fails the pod."""
    prioritized_list: bool = True
    """DRAPrioritizedList: off, a request with firstAvailable fails the pod."""
    partitionable_devices: bool = True
    """DRAPartitionableDevices: off, slices with shared counters or node selection by device are not seen, and devices that
    consume counters are not taken."""
    device_taints: bool = True
    """DRADeviceTaints: off, no taint keeps anybody away."""
    device_taint_rules: bool = False
    """DRADeviceTaintRules: off, the rules are there but not obeyed (the default even where their API is served)."""
    binding_conditions: bool = True
    """DRADeviceBindingConditions: off, devices with binding conditions are skipped."""
    consumable_capacity: bool = True
    """DRAConsumableCapacity: off, a request for capacity fails the pod, and a device that may be shared is taken whole."""
    distinct_pairwise: bool = False
    """No gate but a mend: 1.36 remembers one value a request for distinctAttribute, so that within one request some equal
    devices pass; later releases compare every pair. True does as they do."""

    @classmethod
    def read(cls, on: Callable[[str], bool]) -> Gates:
        """The gates as `on("DRA…")` tells them, by the names of Kubernetes."""
        return cls(
            admin_access=on("DRAAdminAccess"),
            prioritized_list=on("DRAPrioritizedList"),
            partitionable_devices=on("DRAPartitionableDevices"),
            device_taints=on("DRADeviceTaints"),
            device_taint_rules=on("DRADeviceTaints") and on("DRADeviceTaintRules"),
            binding_conditions=on("DRADeviceBindingConditions"),
            consumable_capacity=on("DRAConsumableCapacity"),
        )
