"""What can be set of the stand-in scaler, and the names that it uses."""

from dataclasses import dataclass, field

from dds_lab.latency import Latency, Uniform

READY = "FabricDeviceReady"
RESCHEDULE = "FabricDeviceReschedule"
FAILED = "FabricDeviceFailed"
UUID_ATTRIBUTES = {"gpu.nvidia.com": "uuid"}
TYPES = {"gpu.nvidia.com": "gpu"}
MOST, LEAST = 50, 0


@dataclass(frozen=True)
class ScalerSettings:
    """Durations are seconds. `interval`: SCAN_INTERVAL. `removal`: DEVICE_NO_REMOVAL_DURATION. `allocation`:
    DEVICE_NO_ALLOCATION_DURATION. `reaction`: from a change of a claim or slice to the scan that it brings. `ready`:
    tell the scheduler that the device is ready (the pod keeps the pool's device) instead of sending the pod back to it.
    `refresh`: write the time of last use at every scan while a device is used; otherwise when its use begins and
    ends."""

    interval: float = 5.0
    removal: float = 15.0
    allocation: float = 5.0
    reaction: Latency = field(default=Uniform(0.01, 0.2))
    ready: bool = False
    refresh: bool = True
