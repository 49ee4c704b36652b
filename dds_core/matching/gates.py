"""The scheduler's feature gates, as far as the choice of devices depends on them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class Gates(Struct, frozen=True):
    """The scheduler's feature gates, with the defaults of 1.36. The text of each says what happens when it is off."""

    admin_access: bool = True
    """DRAAdminAccess. Off: a request with admin access fails the pod."""
    prioritized_list: bool = True
    """DRAPrioritizedList. Off: a request with firstAvailable fails the pod."""
    partitionable_devices: bool = True
    """DRAPartitionableDevices. Off: slices with shared counters or node selection by device are ignored, and devices that
    consume counters are not allocated."""
    device_taints: bool = True
    """DRADeviceTaints. Off: taints have no effect."""
    device_taint_rules: bool = False
    """DRADeviceTaintRules. Off (the default, even where the API is served): taint rules have no effect."""
    binding_conditions: bool = True
    """DRADeviceBindingConditions. Off: devices with binding conditions are skipped."""
    consumable_capacity: bool = True
    """DRAConsumableCapacity. Off: a request for capacity fails the pod, and a shared device is allocated as a whole."""
    taint_without_selector: bool = True
    """Not a gate: a rule without a selector covers every device, as up to 1.37.0; later ones obey the API's "none" (kubernetes
    pull 141648)."""
    faults: bool = False
    """Not a gate: repeat the faults of 1.36.2, to predict that scheduler instead of finding what satisfies a claim. See
    `counters.AsIn1362`, and in `search` `_DistinctByRequest` and `_take`."""

    @classmethod
    def read(cls, on: Callable[[str], bool], *, faults: bool = False) -> Gates:
        """The gates, by `on("DRA…")`, which is called with the names of Kubernetes."""
        return cls(
            admin_access=on("DRAAdminAccess"),
            prioritized_list=on("DRAPrioritizedList"),
            partitionable_devices=on("DRAPartitionableDevices"),
            device_taints=on("DRADeviceTaints"),
            device_taint_rules=on("DRADeviceTaints") and on("DRADeviceTaintRules"),
            binding_conditions=on("DRADeviceBindingConditions"),
            consumable_capacity=on("DRAConsumableCapacity"),
            faults=faults,
        )
