"""The vendor's DRA driver on every node, NVIDIA-like: it publishes the devices that its plugin found in the machine at its
start.

The plugin reads the hardware only when it starts, so after a hot plug another component must restart it. Device names come from
minor numbers, which later devices take over (NVIDIA/k8s-dra-driver-gpu, issues 427 and 1008). The plugin prepares devices by
name alone and never reads claims.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from random import Random
from uuid import NAMESPACE_OID, uuid5

from dds_core.errors import InputError
from dds_lab.actors import partitions
from dds_lab.actors.fabric import Attached, Fabric
from dds_lab.actors.objects import node_owner
from dds_lab.actors.slices import SETS, SlicePool, SliceWriter
from dds_lab.client import Client, Object
from dds_lab.latency import Fixed, Latency
from dds_lab.scenario.cluster import Model, NodeDriver
from dds_lab.scenario.parts import VendorPart
from dds_lab.time import Time, Timer, Timers

DRIVER_VERSION, CUDA_VERSION = "570.86.15", "12.8.0"
FIRST_START = Fixed(0.02)
_REBINDS = 0.5
"""Seconds until the slice shows which form of a device is used: its kernel driver is changed."""


class NotPrepared(InputError):
    """The driver does not know a device of that name."""


class VendorDriver:
    """The plugins, on all nodes, of the driver that these models have. Every change of a slice is a new generation."""

    def __init__(
        self, client: Client, time: Time, settings: VendorPart, models: Sequence[Model], fabric: Fabric
    ) -> None:
        self.name = models[0].driver
        self._client = client
        self._time = time
        self._settings = settings
        self._starts, self._first_start = settings.start.latency(), settings.first_start.latency()
        self._fabric = fabric
        self._random: Random = time.random(f"vendor/{self.name}")
        self._facts = {one.model: one for one in models}
        self._devices: dict[str, dict[str, str]] = {}  # node → device name → serial
        self._made: dict[str, tuple[str, ...]] = {}  # serial → profiles of the partitions that an administrator made
        self._forms: dict[str, str] = {}  # serial → the name of the form that a pod uses
        self._owners: dict[str, Object] = {}
        self._starting = Timers(time)  # by node
        self._created: dict[str, int] = {}  # node → when the plugin's pod was created
        self.restarts: Counter[str] = Counter()  # by node
        self._slices = SliceWriter(client, time, self.name, _of_a_node, always_next=True)
        self._ends: list[Callable[[], None]] = []

    def start(self) -> None:
        self._slices.start()
        self._nodes = self._client.mirror("nodes")
        self._nodes.follow(self._node_changed)
        if self._settings.hot_plug:
            self._ends.append(self._fabric.on_machine(self._plugged))
        if any(one.passthrough for one in self._facts.values()):
            self._ends.append(self._fabric.on_vacant(self._unprepared))

    def stop(self) -> None:
        self._slices.stop()
        self._nodes.close()
        for end in self._ends:
            end()
        self._starting.clear()

    def restart_plugin(self, node: str) -> None:
        """Delete the plugin's pod, which starts again; until then its old slice stays. No effect on a node without a plugin."""
        if node in self._owners:
            self.restarts[node] += 1
            self._start(node, self._starts)

    def partition(self, node: str, serial: str, profiles: tuple[str, ...]) -> None:
        """Partition a device as an administrator does (no profiles: one whole device), and restart the plugin."""
        self._made[serial] = profiles
        self.restart_plugin(node)

    def plugin_age(self, node: str) -> float:
        """Seconds since the plugin's pod on the node was created; 0 without one."""
        return (self._time.now() - self._created.get(node, self._time.now())) / 1_000_000

    def is_starting(self, node: str) -> bool:
        """Whether the plugin on the node has still to read which devices are there."""
        return node in self._starting

    def drivers(self) -> frozenset[str]:
        return frozenset([self.name])

    def prepare(self, node: str, device: str, *, looks: bool = False) -> str:
        """Prepare the device of this name for a pod. Returns its serial. Raises NotPrepared. Who only `looks` changes no form."""
        serial = self._devices.get(node, {}).get(device, "")
        if not serial:
            raise NotPrepared(f"allocatable not found: {device}", where=f"{self.name} on {node}")
        if not looks and f"gpu-vfio-{device.rpartition('-')[2]}" in self._devices.get(node, {}):
            self._forms[serial] = device
            if device.startswith("gpu-vfio-"):
                self._fabric.passed_through.add(serial)
            self._time.after(_REBINDS, lambda: self._list_again(node))
        return serial

    def _unprepared(self, serial: str) -> None:
        self._fabric.passed_through.discard(serial)
        if self._forms.pop(serial, ""):
            self._time.after(_REBINDS, lambda: self._list_again(self._fabric.where(serial)))

    def _list_again(self, node: str) -> None:
        if node in self._devices and node not in self._starting:
            self._enumerate(node)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and old is None and new["metadata"]["name"] not in self._owners:
            name = new["metadata"]["name"]
            self._owners[name] = node_owner(name, new["metadata"]["uid"])
            self._start(name, self._first_start)
        elif new is None and old is not None:
            self._forget(old["metadata"]["name"])

    def _forget(self, node: str) -> None:
        for known in (self._owners, self._devices, self._created):
            known.pop(node, None)
        self._starting.cancel(node)
        self._slices.withdraw(node)

    def _plugged(self, node: str) -> None:
        if node in self._owners and node not in self._starting:
            self._start(node, self._starts)

    def _start(self, node: str, latency: Latency) -> None:
        self._created[node] = self._time.now()
        self._starting.after(node, latency.draw(self._random), lambda: self._enumerate(node))

    def _enumerate(self, node: str) -> None:
        found = [one for one in self._fabric.attached(node) if one.device.model in self._facts and self._bound(one)]
        entries = [self._entries(self._number(place, one), one) for place, one in enumerate(found)]
        self._devices[node] = {
            each["name"]: one.device.serial for one, devices in zip(found, entries, strict=True) for each in devices
        }
        self._slices.publish(self._pool(node, entries))

    def _pool(self, node: str, entries: list[list[Object]]) -> SlicePool:
        """Devices that consume counters have one slice per GPU; the counter sets have slices of their own."""
        plain = [each for devices in entries for each in devices if "consumesCounters" not in each]
        counted = [devices for devices in entries if devices and "consumesCounters" in devices[0]]
        name = f"{node}-{self.name.replace('.', '-')}"
        owners = [self._owners[node]]
        if not counted:
            return SlicePool(node, {"nodeName": node}, (name,), (plain,), owners)
        sets = [
            partitions.counter_set(one["counterSet"], devices[0]["capacity"]["memory"]["value"])
            for devices in counted
            for one in devices[0]["consumesCounters"]
        ]
        slices = {
            **{f"{name}-counters{f'-{more}' if more else ''}": [] for more in range(-(-len(sets) // SETS))},
            **({name: plain} if plain else {}),
            **{f"{name}-{devices[0]['name']}": devices for devices in counted},
        }
        return SlicePool(node, {"nodeName": node}, tuple(slices), tuple(slices.values()), owners, sets)

    def _number(self, position: int, one: Attached) -> int:
        return position if self._settings.names == "position" else one.minor

    def _bound(self, one: Attached) -> bool:
        return self._time.now() - one.since >= self._settings.binding * 1_000_000

    def _entries(self, number: int, one: Attached) -> list[Object]:
        """All entries of one GPU in slices."""
        facts, serial, name = self._facts[one.device.model], one.device.serial, f"gpu-{number}"
        gpu = self._described(name, one, facts)
        if facts.passthrough:
            vfio = {**gpu, "name": f"gpu-vfio-{number}", "attributes": {**gpu["attributes"], **_passed_through(serial)}}
            used = self._forms.get(serial)
            return [form for form in (gpu, vfio) if used in (None, form["name"])]
        parts = facts.partitions
        before = self._made.get(serial, () if parts is None or parts.on_demand else parts.profiles)
        if before:
            return [partitions.described(each, each.name(number), gpu, serial) for each in partitions.made(before)]
        if parts is None or not parts.on_demand or serial in self._made:
            return [gpu]
        counters = f"{name}-counter-set"
        found = partitions.possible(parts.profiles)
        listed = [partitions.described(each, each.name(number), gpu, serial, counters) for each in found]
        return [partitions.whole(gpu, counters), *listed]

    def _described(self, name: str, one: Attached, facts: Model) -> Object:
        place = f"{one.minor // 14:04x}:{0x10 + one.minor % 14 * 0x10:02x}"
        return {
            "name": name,
            "attributes": {
                "architecture": {"string": facts.architecture},
                "brand": {"string": facts.brand},
                "cudaComputeCapability": {"version": facts.compute},
                "cudaDriverVersion": {"version": CUDA_VERSION},
                "driverVersion": {"version": DRIVER_VERSION},
                "productName": {"string": facts.product},
                "resource.kubernetes.io/pciBusID": {"string": f"{place}:00.0"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci{place}"},
                "type": {"string": "gpu"},
                "uuid": {"string": one.device.serial},
            },
            "capacity": {"memory": {"value": facts.memory}},
        }


def _passed_through(serial: str) -> Object:
    return {"type": {"string": "vfio"}, "uuid": {"string": str(uuid5(NAMESPACE_OID, serial))}}


def _of_a_node(obj: Object) -> bool:
    """A kubelet plugin touches only slices of nodes."""
    return "nodeName" in obj["spec"]


class NodeDevices:
    """The plugins, on all nodes, of a driver whose devices never move."""

    def __init__(self, client: Client, time: Time, settings: NodeDriver) -> None:
        self._client = client
        self._time = time
        self._settings = settings
        self._random: Random = time.random(f"driver/{settings.name}")
        self._slices = SliceWriter(client, time, settings.name, _of_a_node)
        self._timers: dict[str, Timer] = {}

    def start(self) -> None:
        self._slices.start()
        self._nodes = self._client.mirror("nodes")
        self._nodes.follow(self._node_changed)

    def stop(self) -> None:
        self._slices.stop()
        self._nodes.close()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def prepare(self, node: str, device: str, *, looks: bool = False) -> str:
        """The devices have no serial, so this returns an empty one. A device of a pool for many nodes (network-attached) is
        prepared on any node of the driver. Raises NotPrepared for a name that is not published."""
        if node not in self._slices.pools() or all(
            one["name"] != device for one in chain(self._settings.devices, self._spread())
        ):
            raise NotPrepared(f"allocatable not found: {device}", where=f"{self._settings.name} on {node}")
        return ""

    def _spread(self) -> Iterator[Object]:
        """The devices of the driver's pools for many nodes."""
        for one in self._client.list("resourceslices"):
            if one["spec"]["driver"] == self._settings.name and not _of_a_node(one):
                yield from one["spec"].get("devices") or ()

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            timer = self._timers.pop(old["metadata"]["name"], None)
            if timer is not None:
                timer.cancel()
            self._slices.withdraw(old["metadata"]["name"])
        elif new is not None and new["metadata"]["name"] not in self._timers:
            name = new["metadata"]["name"]
            if not self._settings.nodes or name in self._settings.nodes:
                wait = FIRST_START.draw(self._random)
                self._timers[name] = self._time.after(wait, lambda: self._publish(name, new["metadata"]["uid"]))

    def _publish(self, node: str, uid: str) -> None:
        name, devices = f"{node}-{self._settings.suffix}", list(self._settings.devices)
        self._slices.publish(SlicePool(node, {"nodeName": node}, (name,), (devices,), [node_owner(node, uid)]))
