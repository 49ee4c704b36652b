"""What the scaler remembers of its own, folded from transitions and decisions and never from objects; and what the slices of a
pool amount to.

Each row is frozen; instants are microseconds since 1970-01-01 UTC. A cell is (node, model): the unit in which devices are
counted, ordered and given back. A consumer uses only slices of a pool's highest generation and takes nothing from a pool that
is not complete, as the scheduler's allocator does (Kubernetes 1.36, structured allocator).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from dds_core.model import BLOCKING, Allocation, Config, Device, DeviceKey, Model, Record, Requirement, Slice
from dds_core.scaler.events import ReservedDevice, Swap
from dds_core.scaler.hardware import text_attribute

Cell = tuple[str, str]
"""(node name, cdi-model-name)."""


COOLING = "-cooling"
"""Ends the label of a node that asks the publisher to keep the scheduler from a model's pool in the node's fabric, for as long as
any node has it, and until the instant that is its value, in seconds since 1970-01-01 UTC."""
NO_PROGRESS = "NoProgress"
"""Reason of alerts about what takes long: a device on its way, or a claim whose order shows nothing."""
DEPARTED = "departed"
"""Kind under which `fired_deadlines` remembers the UUIDs of devices that went back while a slice still shows them."""


class ClaimLife(Record, frozen=True):
    """Where a claim is in its life.

    `allocation`: the one last seen, None once cleared. `devices`: the resources (uids) that it has or gave back last.
    `began`: start of the attempt; deadlines count from it. `handed`: a device was ready for it in this attempt, so its next
    allocation says where the hand-over landed. `promises`: the devices reserved for it. `excluded`: devices, named as by
    `ReservedDevice.identity`, that were handed over in this cycle, stayed free and were not taken; `vain` counts these
    hand-overs. `unsuited`: devices that came for it, in any cycle, and that it may not have."""

    state: str
    cycle: int
    attempt: int
    since: int
    began: int
    namespace: str = ""
    name: str = ""
    node: str = ""
    allocation: Allocation | None = None
    reserved: bool = False
    devices: tuple[str, ...] = ()
    promises: tuple[ReservedDevice, ...] = ()
    handed: bool = False
    excluded: tuple[str, ...] = ()
    vain: int = 0
    unsuited: tuple[str, ...] = ()


class DeviceLife(Record, frozen=True):
    """Where a device is in its life. `key` is the name by which it was taken, kept even when its slice vanishes, so that
    a claim never loses its device to a gap in what is published; `idle_since` is 0 while it is in use. `used`: a claim had it
    before; `chosen`: when it was last chosen to go."""

    state: str
    since: int
    node: str = ""
    model: str = ""
    idle_since: int = 0
    key: DeviceKey | None = None
    used: bool = False
    chosen: int = 0


class Spending(Record, frozen=True):
    """Device-time (microseconds) of the devices of a model in a state, as a line over time: it rises with the number of devices
    that are in it, and one that comes or goes bends it."""

    devices: int = 0
    offset: int = 0

    def until(self, at: int) -> int:
        """All of it up to this instant, which is not before the last bend."""
        return self.offset + self.devices * at


class Reservation(Record, frozen=True):
    """Devices promised to a claim before it is signalled. `signalled` is the instant of the hand-over, 0 before."""

    claim: str
    node: str
    attempt: int
    promises: tuple[ReservedDevice, ...]
    since: int
    pod: str = ""
    signalled: int = 0


class Order(Record, frozen=True):
    """Our standing intent for the request of a cell: the size last ordered, when, and how many devices more it asks for."""

    request: str
    size: int
    since: int
    more: int = 0


class HandOverRow(Record, frozen=True):
    """A hand-over under way: to where, how, since when, for which attempt of the claim."""

    pod: str
    node: str
    steering: str
    attempt: int
    since: int
    steered: bool = False


Stage = Literal["guarding", "listing", "listed", "clearing", "cleared", "giving", "given", "left"]


ANY_VERSION = "any"


class Exchange(Record, frozen=True):
    """An exchange under way for one claim, for which attempt, with the other claims of its group. `stage` is how far it is: its
    devices are being guarded, all claims are being listed, were listed; the allocation is being cleared, was cleared, the devices
    are being given, were given; or it was left in between. `since` is when that began. `version` is what clearing left, kept from
    there on; ANY_VERSION where the process ended before it knew. `wanted`: the list was asked for."""

    pod: str
    node: str
    attempt: int
    swap: Swap
    group: tuple[str, ...]
    until: int
    since: int
    stage: Stage = "guarding"
    version: str = ""
    wanted: bool = False

    @property
    def open(self) -> bool:
        """The claim has no allocation for our sake."""
        return bool(self.version) or self.stage == "clearing"


class Guarded(Record, frozen=True):
    """The guard of a device: until the instant `until`, or until the guard is taken off, only `claim` may be allocated it.
    `lifting`: taking it off was decided, and is not known to be written."""

    claim: str
    until: int
    node: str = ""
    lifting: bool = False


class Failure(Record, frozen=True):
    """A claim that we failed: told to the scheduler (`signalled`) only after the cool-down was read back, and then on the
    first claim of its pod that is not ready (`on`)."""

    attempt: int
    reason: str
    message: str
    node: str
    model: str
    since: int
    signalled: bool = False
    on: str = ""

    @property
    def late(self) -> bool:
        """The fabric had not said no."""
        return self.reason == "AttachTimeout"


class Cooling(Record, frozen=True):
    """A model that is kept from the scheduler on a node until an instant, after a failure for this reason, the `times`-th in a
    row."""

    until: int
    reason: str
    times: int = 1

    @property
    def of_fabric(self) -> bool:
        """The fabric did not bring a device. Every other reason is the node's own and says nothing about the fabric."""
        return self.reason in ("AttachFailed", "AttachTimeout")


NO_DEVICE: DeviceKey = ("", "", "")


class Fence(Record, frozen=True):
    """The fence around a victim; NO_DEVICE is the key of one that hangs and has none. `confirmed` is the instant of the LIST
    that confirmed it, 0 before; `ordered` that its detach was ordered; `held` that it rests on a hold."""

    since: int
    key: DeviceKey
    request: str
    wanted: bool = False
    confirmed: int = 0
    ordered: bool = False
    held: bool = False

    @property
    def named(self) -> bool:
        return self.key != NO_DEVICE


def hold_name(resource: str) -> str:
    """The name of the claim that holds a FabricResource of this name."""
    return f"dds-hold-{resource}"


HoldStage = Literal["guarding", "listing", "listed", "holding", "held", "lost", "ending", "ended"]


class Hold(Record, frozen=True):
    """A claim of ours that keeps everybody from a device before it goes back; `devices` are all its faces. `stage` is how far it
    is: the devices are being guarded, all claims are being listed, were listed; the claim is being made, is seen to hold them;
    it is to be given up, is being taken away, was taken away and is still to be seen gone. Before it is seen, `until` is the end
    of the guard. `wanted`: the list was asked for; `reason`: why the device is to go."""

    node: str
    devices: tuple[DeviceKey, ...]
    until: int
    since: int
    reason: str
    stage: HoldStage = "guarding"
    wanted: bool = False


class Timeout(Record, frozen=True):
    """How long a scheduler waited before it gave up: the last observation, and what was learned from two that agree. `ended`:
    the instant of the last one."""

    last: int
    learned: int = 0
    ended: int = 0


class Rate(Record, frozen=True):
    """The measured pace of the fabric: seconds of its time that one attach takes, smoothed over the last attaches."""

    service: float = 0.0
    count: int = 0


class Reuse(Record, frozen=True):
    """What is known of idle devices of a model on a fabric, times in microseconds (`dds_core.scaler.idleness`): how long each of
    the last ones idled until it was wanted again; what may still be staked; from when and for how long those idled that went and
    of which that is not known yet; how long the next one is kept."""

    credit: int
    keep: int
    gaps: tuple[int, ...] = ()
    gone: tuple[tuple[int, int], ...] = ()


# -- pools -------------------------------------------------------------------------------------------------------------

PoolKey = tuple[str, str]
"""(driver, pool)."""

_FABRIC = "-fabric"


class Pool(Record, frozen=True):
    """A pool as published, its devices in the order of their names, `free` of them without a taint that keeps them from the
    scheduler. `usable` is false while it is incomplete, names a device or a counter set twice, or has a device that draws on
    counters that it does not list, as the scheduler sees it: then nothing new is taken from it, and what is missing counts as
    unknown, not as gone. `owner` is that of its slices."""

    generation: int
    usable: bool
    devices: dict[str, Device]
    node: str = ""
    selector: tuple[Requirement, ...] = ()
    all_nodes: bool = False
    owner: str = ""
    free: int = 0


def gather(slices: Iterable[Slice]) -> Pool | None:
    """The pool that these slices, all of one driver and pool name, make up; None without any."""
    seen = list(slices)
    if not seen:
        return None
    newest = max(s.generation for s in seen)
    current = sorted((s for s in seen if s.generation == newest), key=lambda s: s.name)
    devices: dict[str, Device] = {}
    counters: dict[str, dict[str, str]] = {}
    for one in current:
        devices.update(one.devices)
        counters.update(one.counters)
    first = current[0]
    devices = dict(sorted(devices.items()))
    once = sum(len(s.devices) + len(s.counters) for s in current) == len(devices) + len(counters)
    usable = (
        len(current) >= first.slices
        and once
        and all(_draws(each, counters) for each in devices.values() if each.consumes)
    )
    free = sum(not is_tainted(device) for device in devices.values())
    return Pool(newest, usable, devices, first.node, first.selector, first.all_nodes, first.owner, free)


def _draws(device: Device, counters: dict[str, dict[str, str]]) -> bool:
    """Whether all that the device draws on is there."""
    return all(name in counters and drawn.keys() <= counters[name].keys() for name, drawn in device.consumes.items())


def is_tainted(device: Device) -> bool:
    """Whether a taint of the device's slice keeps the scheduler from it."""
    return any(taint.effect in BLOCKING for taint in device.taints)


def model_of_pool(config: Config, driver: str, pool: str) -> Model | None:
    """The model whose devices a pool publisher lists under this name, `<k8s-device-name>-fabric<id>`."""
    word, found, fabric = pool.rpartition(_FABRIC)
    if not found or not fabric:
        return None
    return next((m for m in config.models if m.device == word and m.driver == driver), None)


def model_of_device(config: Config, driver: str, device: Device) -> Model | None:
    """The model whose dra-attributes the device carries; empty ones (a pool's `uuid: ""`) do not count."""
    return next((model for model in config.models if model.driver == driver and _is_of(model, device)), None)


def described_as(config: Config, named: Model, driver: str, pool: Pool) -> Model:
    """The model of a pool that is named after one, and whose devices may be described as those of another."""
    first = next(iter(pool.devices.values()), None)
    if first is None or _is_of(named, first):
        return named
    return model_of_device(config, driver, first) or named


def _is_of(model: Model, device: Device) -> bool:
    wanted = {name: value for name, value in model.attributes.items() if value}
    return bool(wanted) and all(text_attribute(device, model.driver, n) == v for n, v in wanted.items())
