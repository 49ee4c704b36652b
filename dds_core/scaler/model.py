"""The rows that the scaler keeps of its own work, folded from transitions and decisions and never from objects; and `Pool`, which
its published slices form.

Rows are immutable; instants are microseconds since 1970-01-01 UTC. A cell is (node, model): the unit in which devices are
counted, ordered and detached. As the scheduler does (Kubernetes 1.36, structured allocator), dds uses only the slices of a pool's
highest generation, and takes nothing from an incomplete pool.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from dds_core.model import (
    BLOCKING,
    Allocation,
    Config,
    Device,
    DeviceKey,
    Model,
    Record,
    Requirement,
    Slice,
    is_of,
    model_of_device,
)
from dds_core.scaler.events import ReservedDevice, Swap

Cell = tuple[str, str]
"""(node name, cdi-model-name)."""


COOLING = "-cooling"
"""Suffix of a node label that asks the publisher to close a model's pool in the node's fabric. The pool is closed while any node
has the label, at the longest until the instant that is its value (seconds since 1970-01-01 UTC)."""
NO_PROGRESS, HELD_IN_VAIN = "NoProgress", "HeldInVain"
"""Reason of alerts about what takes too long: a device on its way in or out, or a claim whose order has no visible effect."""
UNDECIDED = "Undecided"
"""Reason of an alert about a claim whose devices took too many steps to find."""
LABEL_FIGHT = "LabelFight"
"""Reason of an alert about a node whose labels of dds another client changes again and again."""
HOLD_REFUSED = "HoldRefused"
"""Reason of an alert about a device that cannot be held, in most cases by a policy for claims."""
ORDER_REFUSED = "OrderRefused"
"""Reason of an alert about a claim, and of its failure: the API server does not take the order, in most cases by a policy."""
ASKS_FOR, WANTS_BOTH = "it asks for", "its pod wants both"
"""So begins what a claim was told that asks for more than the node may ever have, and so ends it of one whose pod asks for two
models that may not share a node: no node can serve them."""
DEVICE_ERROR, DEVICE_TAINTED, DEVICE_TWICE = "DeviceError", "DeviceTainted", "DeviceTwice"
DEVICE_UNLISTED, DEVICE_UNEXPLAINED, DEVICE_LOST = "DeviceUnlisted", "DeviceUnexplained", "DeviceLost"
"""Reasons of alerts about a device."""
MANAGER, MANAGER_ERROR = "manager", "ManagerError"
MODEL_DIFFERS = "ModelDiffers"
"""What an alert about all devices is about, and its reason."""
KUBE_SCHEDULER = ("", "default-scheduler")
"""Names of the default scheduler in pods."""
LOOKS_ANEW = (1, 36)
"""First version with exchanges: older schedulers panic over a cleared claim that is shared (Kubernetes pull request 137371)."""
CONDEMNED, DEPARTED = "condemned", "departed"
"""Kind under which `fired_deadlines` has the UUIDs of devices that were detached while a slice still shows them."""


class ClaimLife(Record, frozen=True):
    """Where a claim is in its lifecycle. `allocation`: the one last seen, None once cleared. `devices`: resources (uids) that it
    has, or that it released last. `began`: start of the attempt; deadlines count from it. `handed`: a device was ready for it in
    this attempt, so its next allocation shows where the hand-over landed. `promises`: the devices reserved for it. `excluded`:
    devices (as `ReservedDevice.identity`) that were handed over in this cycle, stayed free and were not taken; `vain` counts
    these hand-overs. `unsuited`: devices that came for it, in any cycle, and do not satisfy it. `verdict`: what that said of all
    such devices, and the digest of what it depends on. `robbed`: another claim took a device that came for it in this cycle.
    `ordered`: the model of each order for it in this attempt."""

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
    robbed: bool = False
    verdict: tuple[str, str] = ("", "")
    ordered: tuple[str, ...] = ()


class DeviceLife(Record, frozen=True):
    """Where a device is in its lifecycle. `key`: the name under which a claim took it, kept when its slice vanishes, so that a
    gap in the slices does not take a device from its claim. `idle_since`: 0 while in use. `used`: a claim had it before.
    `chosen`: when it was last chosen for a detach. `rounds`: how many holds have ended without a detach since it idles.
    `hardware`: what told its hardware when the driver last listed its UUID, such as its PCI address. `forms`: the names under
    which it was listed as a whole at one time; a driver may hide one while another is in use."""

    state: str
    since: int
    node: str = ""
    model: str = ""
    idle_since: int = 0
    key: DeviceKey | None = None
    used: bool = False
    chosen: int = 0
    rounds: int = 0
    hardware: tuple[str, ...] = ()
    forms: tuple[DeviceKey, ...] = ()


class Spending(Record, frozen=True):
    """Device-time (microseconds) of a model in one state, as a line over time; its slope is the number of devices in it."""

    devices: int = 0
    offset: int = 0

    def until(self, at: int) -> int:
        """The sum up to this instant, which is not before the last change of `devices`."""
        return self.offset + self.devices * at


class Reservation(Record, frozen=True):
    """Devices reserved for a claim before it is signalled. `signalled`: instant of the hand-over, 0 before."""

    claim: str
    node: str
    attempt: int
    promises: tuple[ReservedDevice, ...]
    since: int
    pod: str = ""
    signalled: int = 0


class Order(Record, frozen=True):
    """The size that dds last ordered for the request of a cell, until the request shows it. `more`: how many devices it adds."""

    request: str
    size: int
    since: int
    more: int = 0


class HandOverRow(Record, frozen=True):
    """A hand-over by signal that is under way: where to, how, since when, for which attempt of the claim."""

    pod: str
    node: str
    steering: str
    attempt: int
    since: int
    steered: bool = False


Stage = Literal["guarding", "listing", "listed", "clearing", "cleared", "giving", "given", "left"]


ANY_VERSION = "any"


class Exchange(Record, frozen=True):
    """An exchange under way for one claim. `group`: all claims that are exchanged together. `stage`: the devices are being
    guarded (`guarding`), all claims are being listed (`listing`) or were listed; the allocation is being cleared (`clearing`) or
    was cleared; the devices are being given (`giving`) or were given; or the exchange was abandoned in between (`left`). `since`:
    start of the stage. `version`: resourceVersion after the clear, kept from then on; ANY_VERSION if the process ended before it
    knew it. `wanted`: the list was requested; one counts that begins at `since`, which is then the instant of the settling, or
    later."""

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
    def clear_begun(self) -> bool:
        """Whether dds is clearing the claim's allocation, or has cleared it."""
        return bool(self.version) or self.stage == "clearing"

    @property
    def awaits_guard(self) -> bool:
        """Whether the guard is being written: its outcome names only the first claim, and must not count for another guard."""
        return self.stage == "guarding"

    @property
    def between_writes(self) -> bool:
        """Whether dds clears the claim, or has cleared it, and is going to give it devices."""
        return self.clear_begun and self.stage != "left"


class Guarded(Record, frozen=True):
    """The guard of a device: until the instant `until`, or until the guard is removed, only `claim` may be allocated it.
    `lifting`: the removal is decided, its write not confirmed."""

    claim: str
    until: int
    node: str = ""
    lifting: bool = False


class Failure(Record, frozen=True):
    """A claim that dds failed. The scheduler gets the signal (`signalled`) only after the cool-down was read back, and on the
    first claim of the pod that is not ready (`on`)."""

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
        """Whether the attach took too long, without an error from the fabric."""
        return self.reason == "AttachTimeout"


class Cooling(Record, frozen=True):
    """A model kept from the scheduler on a node until an instant, after the `times`-th failure in a row for this reason. `alone`:
    the fabric is not to blame: the error is the node's, or the fabric has brought a device of the model to a node since.
    `needs`: for how many the node had no room."""

    until: int
    reason: str
    times: int = 1
    alone: bool = False
    needs: int = 0

    @property
    def of_fabric(self) -> bool:
        """Whether the fabric did not bring a device. All other reasons are the node's own."""
        return self.reason in ("AttachFailed", "AttachTimeout") and not self.alone


NO_DEVICE: DeviceKey = ("", "", "")


class Fence(Record, frozen=True):
    """The fence around a victim. `key`: NO_DEVICE if the resource has none. `wanted`: the LIST was requested; one counts that
    begins at `settled` or later. `confirmed`: the instant of the LIST that confirmed the fence, 0 before. `ordered`: the detach
    was ordered. `held`: a hold keeps the device. `passed`: when the operator was seen to go on without it, 0 before."""

    since: int
    key: DeviceKey
    request: str
    wanted: bool = False
    confirmed: int = 0
    ordered: bool = False
    held: bool = False
    settled: int = 0
    passed: int = 0

    @property
    def named(self) -> bool:
        return self.key != NO_DEVICE


def hold_name(resource: str) -> str:
    """Name of the claim that holds the device of this FabricResource."""
    return f"dds-hold-{resource}"


HoldStage = Literal["guarding", "listing", "listed", "holding", "held", "lost", "ending", "ended"]


class Hold(Record, frozen=True):
    """A claim of dds that keeps a device from all pods before its detach; `devices` are all faces. `stage`: the devices are being
    guarded (`guarding`); all claims are being listed (`listing`) or were listed; the claim is being written (`holding`) or is
    seen with all devices (`held`); it must be given up (`lost`), is being deleted (`ending`), or is deleted and still to be seen
    gone (`ended`). `until`: end of the guard; matters only before `held`. `wanted`, `since`: as of an exchange."""

    node: str
    devices: tuple[DeviceKey, ...]
    until: int
    since: int
    reason: str
    stage: HoldStage = "guarding"
    wanted: bool = False


class Timeout(Record, frozen=True):
    """How long a scheduler waited before it gave up: the last wait (until `ended`), and what two that agree have taught."""

    last: int
    learned: int = 0
    ended: int = 0


class Rate(Record, frozen=True):
    """The measured pace of the fabric: seconds of its time for one attach, smoothed, and the number of measurements."""

    service: float = 0.0
    count: int = 0


class Look(Record, frozen=True):
    """What is known of the operator's looks at a resource that is Attaching or Detaching (`dds_core.scaler.operator`). `since`:
    when this state was first seen. `named`: when its device's id was, 0 before. `nudges`: how often dds caused a look, the last
    time at `last`; `missed`: how long after `since` the one before was. `erred`: when its error text last changed. `busy`: for
    how long the operator's worker may have been at work in all until then. `took`: the most that a failed try took."""

    since: int
    named: int = 0
    erred: int = 0
    busy: int = 0
    took: int = 0
    nudges: int = 0
    last: int = 0
    missed: int = 0


class Listing(Record, frozen=True):
    """When a slice of a node's driver last changed (`listed`); the look of the operator that had restarted the plugin for it
    (`restarted`, at the latest `listed`); the longest time that this took lately (`slowest`, 0 if unknown); and the look that has
    restarted the plugin since, while its list is still to come (`starting`, else 0)."""

    listed: int = 0
    restarted: int = 0
    slowest: int = 0
    starting: int = 0


class Pace(Record, frozen=True):
    """How long the fabric takes for an attach or a detach of a model, in microseconds: more than `least`, at most `most`.
    `polled`: how often in a row a look of the operator found it done: only then does the operator not wait for the fabric's
    answer, and may be nudged meanwhile."""

    least: int
    most: int
    polled: int


class Reuse(Record, frozen=True):
    """How soon idle devices of a model on a fabric are wanted again, times in microseconds (`dds_core.scaler.idleness`).
    `credit`: what may still be staked. `keep`: how long the next one is kept. `gaps`: how long the last ones idled until they
    were wanted. `gone`: (idle since, idled) of detached ones that were not wanted yet."""

    credit: int
    keep: int
    gaps: tuple[int, ...] = ()
    gone: tuple[tuple[int, int], ...] = ()


# -- pools -------------------------------------------------------------------------------------------------------------


def release_of(version: str) -> tuple[int, ...]:
    """The numbers of a release such as "1.36" or "1.36.2"; empty if it is not known."""
    parts = version.split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() and part.isascii() for part in parts) else ()


PoolKey = tuple[str, str]
"""(driver, pool)."""

_FABRIC = "-fabric"


class Pool(Record, frozen=True):
    """A published pool, its devices sorted by name; `free` of them have no taint that keeps the scheduler away. `usable` is False
    if the pool is incomplete, names a device or a counter set twice, or has a device that draws on unlisted counters. From such a
    pool the scheduler takes nothing, and a device that it lacks is unknown, not gone. `owner`: that of its slices."""

    generation: int
    usable: bool
    devices: dict[str, Device]
    node: str = ""
    selector: tuple[Requirement, ...] = ()
    all_nodes: bool = False
    owner: str = ""
    free: int = 0


def gather(slices: Iterable[Slice]) -> Pool | None:
    """The pool that these slices, all of one driver and pool name, form; None without slices."""
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
    free = len(devices) - len([device for device in devices.values() if device.taints and is_tainted(device)])
    return Pool(newest, usable, devices, first.node, first.selector, first.all_nodes, first.owner, free)


def _draws(device: Device, counters: dict[str, dict[str, str]]) -> bool:
    """Whether all counters that the device draws on are listed."""
    return all(name in counters and drawn.keys() <= counters[name].keys() for name, drawn in device.consumes.items())


def is_tainted(device: Device) -> bool:
    """Whether a taint in the slice keeps the scheduler from the device."""
    return any(taint.effect in BLOCKING for taint in device.taints)


def model_of_pool(config: Config, driver: str, pool: str) -> Model | None:
    """The model of a publisher's pool, by the pool's name `<k8s-device-name>-fabric<id>`; None for other pools."""
    word, found, fabric = pool.rpartition(_FABRIC)
    if not found or not fabric:
        return None
    return next((m for m in config.models if m.device == word and m.driver == driver), None)


def described_as(config: Config, named: Model, driver: str, pool: Pool) -> Model:
    """The model whose attributes the devices of a pool have; `named`, the one of the pool's name, if they have no other's."""
    first = next(iter(pool.devices.values()), None)
    if first is None or is_of(named, first):
        return named
    return model_of_device(config, driver, first) or named
