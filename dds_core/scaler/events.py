"""Transitions: the steps of the two lives of `dds_core.lifecycle`."""

from __future__ import annotations

from dds_core.events import *  # noqa: F403 - one module holds all that a component speaks of
from dds_core.events.base import SCALER, Decision, Transition
from dds_core.events.registry import register
from dds_core.model import DeviceKey, Record

# -- decisions ---------------------------------------------------------------------------------------------------------

# Decisions: what is wanted. Each carries all that its writer needs, and the mode it was decided in.


class Promise(Record, frozen=True):
    """One result of a claim's allocation and the device attached for it. `device` is the device's name on its node."""

    result: int
    uuid: str
    driver: str
    pool: str
    device: str

    @property
    def identity(self) -> str:
        """What the device is told apart by: its UUID, or its name where none is published."""
        return self.uuid or f"{self.driver}/{self.pool}/{self.device}"


class Entry(Record, frozen=True):
    """One status.devices entry that we own: the allocated device and the condition set on it."""

    driver: str
    pool: str
    device: str
    condition: str
    reason: str
    message: str
    share: str = ""


class Signal(Record, frozen=True):
    """The full set of our entries on one claim."""

    claim: str
    entries: tuple[Entry, ...]


class OfClaim(Decision, frozen=True):
    claim: str
    mode: str

    @property
    def subject(self) -> str:
        return self.claim


class OfCell(Decision, frozen=True):
    """About one model on one node."""

    node: str
    model: str
    mode: str

    @property
    def subject(self) -> str:
        return SCALER


class AttachOrdered(OfCell, frozen=True):
    """Create a ComposabilityRequest (`previous` None) or raise its size. `claims` are those it is for."""

    request: str
    type: str
    size: int
    reason: str
    previous: int | None = None
    uid: str = ""
    claims: tuple[str, ...] = ()


class Reserved(OfClaim, frozen=True):
    """These devices are for this attempt of the claim; in the log before any signal.

    `pod` names the holder when the claim itself is deleted and made anew (extended resources).
    """

    node: str
    cycle: int
    attempt: int
    promises: tuple[Promise, ...]
    pod: str = ""


class ReservationDropped(OfClaim, frozen=True):
    """The devices promised to the claim are free for others again; `reason` says why."""

    reason: str


class HandOver(Decision, frozen=True):
    """Tell the scheduler to schedule the pod again: every pool claim of the group in one batch."""

    pod: str
    node: str
    steering: str
    signals: tuple[Signal, ...]
    mode: str
    cause: str = ""

    @property
    def subject(self) -> str:
        return self.signals[0].claim


class Steered(Decision, frozen=True):
    """Nominate the node for the pod, then clear the allocations of the signalled claims (hand-over mode `clear`)."""

    pod: str
    node: str
    claims: tuple[str, ...]
    mode: str
    cause: str = ""

    @property
    def subject(self) -> str:
        return self.pod


class ClaimFailed(OfClaim, frozen=True):
    """This attempt will not succeed. What cools down is `model` on `node`."""

    cycle: int
    attempt: int
    reason: str
    message: str
    node: str
    model: str = ""


class FailureSignalled(OfClaim, frozen=True):
    """Set FabricDeviceFailed on the first not-ready own result."""

    attempt: int
    signal: Signal


class CoolDown(OfCell, frozen=True):
    """Keep the scheduler from choosing this model on this node until the instant `until`."""

    until: int
    reason: str


class CoolDownOver(OfCell, frozen=True):
    """The model may be chosen from the pool on this node again."""


class OfDevice(Decision, frozen=True):
    """About one FabricResource, by its uid."""

    resource: str
    mode: str

    @property
    def subject(self) -> str:
        return self.resource


class VictimMarked(OfDevice, frozen=True):
    """Annotate the resource as the next to go and taint its device where rules are obeyed. Starts the fence."""

    name: str
    node: str
    model: str
    uuid: str
    driver: str
    pool: str
    device: str
    reason: str
    idle_since: int = 0
    taint: bool = False


class VictimUnmarked(OfDevice, frozen=True):
    """Take the mark off a device that may not go after all."""

    name: str
    reason: str


class TaintLifted(Decision, frozen=True):
    """Delete our DeviceTaintRule `rule` (its uid): the device that it names is no victim, or no more. Names recur, so a rule
    left behind would keep the scheduler from another device."""

    rule: str
    name: str
    mode: str

    @property
    def subject(self) -> str:
        return self.rule


class ClaimsListWanted(OfDevice, frozen=True):
    """The fence has settled: confirm it with a consistent LIST of claims."""

    fenced: int


class DetachOrdered(OfCell, frozen=True):
    """Lower the size of the request by exactly the victims: marked devices, or (`unattached`) resources for which the fabric has
    no device and that nobody needs any more."""

    request: str
    uid: str
    size: int
    previous: int
    victims: tuple[str, ...]
    unattached: bool = False


class UsedStamped(OfDevice, frozen=True):
    """Write the last-used annotation: the device was released at `at`."""

    name: str
    at: int


# -- transitions -------------------------------------------------------------------------------------------------------


class ClaimMoved(Transition, frozen=True):
    """A step of a claim's life.

    `cause` says in words what made it true; `devices` are the FabricResources concerned (uids); `began` is the start of
    the attempt where it is not the instant of the event; `promises` what stands ready for it; `landed` tells where a
    hand-over ended: here (on the node's own devices), pool (on the node, from the pool again) or elsewhere.
    """

    claim: str
    trigger: str
    source: str
    target: str
    cycle: int
    attempt: int
    cause: str = ""
    devices: tuple[str, ...] = ()
    began: int = 0
    promises: tuple[Promise, ...] = ()
    landed: str = ""

    @property
    def subject(self) -> str:
        return self.claim


class DeviceMoved(Transition, frozen=True):
    """A step of a device's life. `cause` says in words what made it true; `key` is the name under which a claim took it."""

    resource: str
    trigger: str
    source: str
    target: str
    cause: str = ""
    key: DeviceKey | None = None

    @property
    def subject(self) -> str:
        return self.resource


EVENTS = register(
    AttachOrdered,
    Reserved,
    ReservationDropped,
    HandOver,
    Steered,
    ClaimFailed,
    FailureSignalled,
    CoolDown,
    CoolDownOver,
    VictimMarked,
    VictimUnmarked,
    TaintLifted,
    ClaimsListWanted,
    DetachOrdered,
    UsedStamped,
    ClaimMoved,
    DeviceMoved,
)
