"""The parts of ResourceSlices, DeviceClasses and DeviceTaintRules that the choice of devices reads (resource.k8s.io/v1 of 1.36).

The objects are made from the API's JSON by `from_object`. They are immutable and compared by identity: a changed slice is a new
object, so results cached for an object stay valid. Amounts are in 10⁻⁹. `Gates` are the scheduler's feature gates. This module
only holds data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from dds_core.matching.nodes import NodeSelector, Object
from dds_core.matching.quantities import Quantity, parsed
from dds_core.matching.versions import Version
from dds_core.model import DeviceKey, Taint

Attribute = str | int | bool | Version
Counters = dict[str, dict[str, int]]
"""Counter set → counter → amount."""


class RequestPolicy(Struct, frozen=True, eq=False):
    """The amounts of a capacity that a share can have: one of `values`, or (`ranged`) `minimum` to `maximum` in steps.
    `default` is used when the request names no amount."""

    default: Quantity | None = None
    values: tuple[Quantity, ...] = ()
    ranged: bool = False
    minimum: Quantity | None = None
    maximum: Quantity | None = None
    step: Quantity | None = None


class Capacity(Struct, frozen=True, eq=False):
    """The full amount that a device has, and the policy by which it is shared."""

    value: Quantity
    policy: RequestPolicy | None = None


class Device(Struct, frozen=True, eq=False):
    """One device. `node`, `selector` and `all_nodes` are used only when its slice selects nodes by device (`per_device`)."""

    name: str
    attributes: Mapping[str, Attribute] = {}
    capacity: dict[str, Capacity] = {}
    taints: tuple[Taint, ...] = ()
    consumes: Counters = {}
    shared: bool = False
    """allowMultipleAllocations: allocations get shares of it, never the whole device."""
    binds_to_node: bool = False
    conditions: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    node: str = ""
    selector: NodeSelector | None = None
    all_nodes: bool = False

    @classmethod
    def from_object(cls, device: Object) -> Device:
        attributes = device.get("attributes") or {}
        return cls(
            name=device["name"],
            attributes={name: value for name, each in attributes.items() if (value := _attribute(each)) is not None},
            capacity={name: _capacity(each) for name, each in (device.get("capacity") or {}).items()},
            taints=tuple(_taint(each) for each in device.get("taints") or ()),
            consumes={each["counterSet"]: _counters(each) for each in device.get("consumesCounters") or ()},
            shared=bool(device.get("allowMultipleAllocations")),
            binds_to_node=bool(device.get("bindsToNode")),
            conditions=tuple(device.get("bindingConditions") or ()),
            failures=tuple(device.get("bindingFailureConditions") or ()),
            node=device.get("nodeName") or "",
            selector=_selector(device),
            all_nodes=bool(device.get("allNodes")),
        )

    def lookup(self, name: str, driver: str) -> Attribute | None:
        """The attribute with this fully qualified name. An attribute published without a domain has the driver's domain."""
        found = self.attributes.get(name)
        if found is not None:
            return found
        domain, _, plain = name.partition("/")
        return self.attributes.get(plain) if domain == driver else None


class Slice(Struct, frozen=True, eq=False):
    """A ResourceSlice. `slices` is the number of slices of its pool in this generation."""

    name: str
    driver: str
    pool: str
    generation: int
    slices: int
    node: str = ""
    selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device: bool = False
    devices: tuple[Device, ...] = ()
    counters: tuple[tuple[str, dict[str, int]], ...] = ()

    @classmethod
    def from_object(cls, slice_: Object) -> Slice:
        spec = slice_["spec"]
        pool = spec["pool"]
        return cls(
            name=slice_["metadata"]["name"],
            driver=spec["driver"],
            pool=pool["name"],
            generation=pool.get("generation") or 0,
            slices=pool.get("resourceSliceCount") or 0,
            node=spec.get("nodeName") or "",
            selector=_selector(spec),
            all_nodes=bool(spec.get("allNodes")),
            per_device=bool(spec.get("perDeviceNodeSelection")),
            devices=tuple(Device.from_object(each) for each in spec.get("devices") or ()),
            counters=tuple((each["name"], _counters(each)) for each in spec.get("sharedCounters") or ()),
        )


class DeviceClass(Struct, frozen=True, eq=False):
    """A DeviceClass. `config` has the entries of its spec unchanged."""

    name: str
    selectors: tuple[str, ...] = ()
    config: tuple[Object, ...] = ()
    extended_resource: str = ""

    @classmethod
    def from_object(cls, device_class: Object) -> DeviceClass:
        spec = device_class.get("spec") or {}
        return cls(
            device_class["metadata"]["name"],
            expressions(spec.get("selectors")),
            tuple(spec.get("config") or ()),
            spec.get("extendedResourceName") or "",
        )


class TaintRule(Struct, frozen=True, eq=False):
    """A DeviceTaintRule: a taint on every device that its selector selects. Without a selector (`selects` false) it depends on
    the scheduler's release: `Gates.taint_without_selector`."""

    name: str
    taint: Taint
    driver: str = ""
    pool: str = ""
    device: str = ""
    selects: bool = True

    @classmethod
    def from_object(cls, rule: Object) -> TaintRule:
        spec = rule["spec"]
        selector = spec.get("deviceSelector")
        parts = {part: (selector or {}).get(part) or "" for part in ("driver", "pool", "device")}
        return cls(rule["metadata"]["name"], _taint(spec["taint"]), **parts, selects=selector is not None)

    def covers(self, key: DeviceKey) -> bool:
        """Whether the rule puts its taint on this device."""
        return all(
            not want or want == have for want, have in zip((self.driver, self.pool, self.device), key, strict=True)
        )


def expressions(selectors: Iterable[Object] | None) -> tuple[str, ...]:
    """The CEL expressions of a list of selectors; "" for a selector of another kind, which is not supported."""
    return tuple((each.get("cel") or {}).get("expression", "") for each in selectors or ())


def _attribute(value: Mapping[str, Any]) -> Attribute | None:
    """The value of an attribute. None for kinds that 1.36 does not serve by default (lists)."""
    if "string" in value:
        return str(value["string"])
    if "int" in value:
        return int(value["int"])
    if "bool" in value:
        return bool(value["bool"])
    return Version(value["version"]) if "version" in value else None


def _capacity(capacity: Object) -> Capacity:
    policy = capacity.get("requestPolicy")
    return Capacity(parsed(capacity["value"]), None if policy is None else _policy(policy))


def _policy(policy: Object) -> RequestPolicy:
    bounds = policy.get("validRange")
    limits = {name: parsed(value) for name, value in (bounds or {}).items() if value is not None}
    return RequestPolicy(
        default=parsed(policy["default"]) if policy.get("default") is not None else None,
        values=tuple(parsed(value) for value in policy.get("validValues") or ()),
        ranged=bounds is not None,
        minimum=limits.get("min"),
        maximum=limits.get("max"),
        step=limits.get("step"),
    )


def _counters(holder: Object) -> dict[str, int]:
    return {name: parsed(counter["value"]).nanos for name, counter in (holder.get("counters") or {}).items()}


def _taint(taint: Object) -> Taint:
    return Taint(taint["key"], taint.get("value") or "", taint.get("effect") or "")


def _selector(holder: Object) -> NodeSelector | None:
    selector = holder.get("nodeSelector")
    return None if selector is None else NodeSelector.from_object(selector)


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
