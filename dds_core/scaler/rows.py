"""What the engine itself remembers: folded from transitions and decisions, never from objects.

Each row is frozen; instants are microseconds since 1970-01-01 UTC. A cell is (node, model): the unit in which devices are
counted, ordered and given back.
"""

from __future__ import annotations

from dds_core.model import Allocation, DeviceKey, Record
from dds_core.scaler.events import Promise

Cell = tuple[str, str]
"""(node name, cdi-model-name)."""


class ClaimLife(Record, frozen=True):
    """Where a claim is in its life. `allocation` is the one last seen, None once cleared; `devices` are the resources
    (uids) that it has or gave back last; `began` the start of the attempt, which deadlines count from; `handed` that a device
    was ready for it in this attempt, so that its next allocation tells where the hand-over landed; `promises` which."""

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
    promises: tuple[Promise, ...] = ()
    handed: bool = False


class DeviceLife(Record, frozen=True):
    """Where a device is in its life. `key` is the name by which it was taken, kept even when its slice vanishes, so that
    a claim never loses its device to a gap in what is published; `idle_since` is 0 while it is in use."""

    state: str
    since: int
    node: str = ""
    model: str = ""
    idle_since: int = 0
    key: DeviceKey | None = None


class Reservation(Record, frozen=True):
    """Devices promised to a claim before it is signalled. `signalled` is the instant of the hand-over, 0 before."""

    claim: str
    node: str
    attempt: int
    promises: tuple[Promise, ...]
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


class Cooling(Record, frozen=True):
    """A model that is kept from the scheduler on a node until an instant, after a failure for this reason."""

    until: int
    reason: str

    @property
    def of_fabric(self) -> bool:
        """The fabric did not bring a device. Every other reason is the node's own and says nothing about the fabric."""
        return self.reason in ("AttachFailed", "AttachTimeout")


class Fence(Record, frozen=True):
    """The fence around a victim. `confirmed` is the instant of the LIST that confirmed it, 0 before; `ordered` that its
    detach was ordered."""

    since: int
    key: DeviceKey
    request: str
    wanted: bool = False
    confirmed: int = 0
    ordered: bool = False


class Refusal(Record, frozen=True):
    """A write that was refused for good: not decided again before `until`. `node` is where an order was for."""

    count: int
    until: int
    node: str = ""


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
