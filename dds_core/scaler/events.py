"""What the scaler's log holds beside what all logs do: facts about its objects, its decisions, and the steps of the two lives of
`dds_core.lifecycle`. Each decision carries all that its writer needs, and the mode it was decided in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from dds_core.events import *  # noqa: F403 - one module holds all that a component speaks of
from dds_core.events import objects, shared
from dds_core.events.base import SCALER, Decision, Level, Names, Transition, observed, register
from dds_core.events.objects import *  # noqa: F403
from dds_core.events.shared import OfScaler
from dds_core.model import Consumer, DeviceKey, Node, Pod, Record, Result
from dds_core.timeline.clock import time_of_day

# -- objects -----------------------------------------------------------------------------------------------------------

NodeObserved, NodeGone = observed(
    Node,
    "A node appeared or changed: its labels, its taints, whether it is cordoned.",
    "A node was deleted; nothing can be attached to it or go back from it any more.",
)
PodObserved, PodGone = observed(
    Pod,
    "A pod that refers to claims appeared or changed: where it is, where it is nominated, why it waits.",
    "A pod was deleted, or matters no more after it left a filtered watch: it has finished, or has a node and no claim.",
)


class ClaimsListed(OfScaler, frozen=True):
    """A consistent LIST of all claims, begun at `started`, was folded. `resource` is what it was for: the device of a fence, once
    that had settled, or the device of a hold or the claim of an exchange, once its devices were guarded."""

    level: ClassVar[Level] = "debug"

    resource: str
    started: int

    def words(self, names: Names) -> str:
        return f"all claims were listed for {names.name(self.resource)}"


class ClaimsRelisted(OfScaler, frozen=True):
    """The watch of claims had to begin anew, with a list: the server's history was gone, or the server. A scheduler that does the
    same in the middle of an exchange would not take it in (Kubernetes 1.36.2)."""

    def words(self, names: Names) -> str:
        return "the watch of claims began anew"


# -- decisions ---------------------------------------------------------------------------------------------------------


class Promise(Record, frozen=True):
    """One result of a claim's allocation and the device attached for it. `device` is the device's name on its node. `request` is
    the request that the device is for ("" in older logs: that of the result), one of its alternatives as `request/alternative`;
    `share` the shareID and `consumed` the amounts where it is given as a share."""

    result: int
    uuid: str
    driver: str
    pool: str
    device: str
    request: str = ""
    share: str = ""
    consumed: dict[str, str] = {}

    @property
    def identity(self) -> str:
        """What the device is told apart by: its UUID, or its name where none is published."""
        return self.uuid or f"{self.driver}/{self.pool}/{self.device}"

    @property
    def key(self) -> DeviceKey:
        return (self.driver, self.pool, self.device)


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

    def seen_by(self) -> Iterator[tuple[str, str, str]]:
        yield from ((self.claim, "condition", entry.condition) for entry in self.entries)


def _set(entries: Iterator[Entry]) -> str:
    return "set " + ", ".join(f"{entry.condition} on {entry.device}" for entry in entries)


def _named(uids: tuple[str, ...], names: Names) -> str:
    return ", ".join(names.name(uid) for uid in uids)


class OfClaim(Decision, frozen=True):
    gone_with: ClassVar[str] = "claim"
    written: ClassVar[bool] = False

    claim: str
    mode: str

    @property
    def subject(self) -> str:
        return self.claim

    def for_claims(self) -> tuple[str, ...]:
        return (self.claim,)

    def about(self, names: Names) -> dict[str, Any]:
        return {**super().about(names), **names.claim_fields(self.claim)}


class OfCell(Decision, frozen=True):
    """About one model on one node."""

    gone_with: ClassVar[str] = "cell"

    node: str
    model: str
    mode: str

    @property
    def subject(self) -> str:
        return SCALER

    @property
    def key(self) -> tuple[str, str]:
        return (type(self).__name__, f"{self.node}/{self.model}")

    def about(self, names: Names) -> dict[str, Any]:
        of = {"node": self.node, "model": self.model, "request": getattr(self, "request", "")}
        return {**super().about(names), **of}


WITHDRAWN = "nobody waits for more"
"""Reason of an order that takes the place of a larger one, before that was written."""


class AttachOrdered(OfCell, frozen=True):
    """Create a ComposabilityRequest (`previous` None) or raise its size; or take such an order back before it is written: then
    the size is less than ordered, and `previous` or 0 when nothing is left to ask for. `claims` are those it is for."""

    request: str
    type: str
    size: int
    reason: str
    previous: int | None = None
    uid: str = ""
    claims: tuple[str, ...] = ()
    force_detach: bool = False
    """Of a request that is made; one that is there keeps its own."""

    def words(self, names: Names) -> str:
        whom = f" for {_named(self.claims, names)}" if self.claims else ""
        why = f" ({self.reason})" if self.reason != "demand" else ""
        wanted = f"{self.size} of {self.model} for {self.node}{whom}{why}"
        if self.reason == WITHDRAWN:
            return f"ask for no more than {self.size} of {self.model} for {self.node} in request {self.request}: {self.reason}"
        if self.previous is None:
            return f"make request {self.request}: {wanted}"
        return f"raise request {self.request} from {self.previous} to {wanted}"

    def seen_by(self) -> Iterator[tuple[str, str, str]]:
        yield self.request, "size", str(self.size)


class Reserved(OfClaim, frozen=True):
    """These devices are for this attempt of the claim; in the log before any signal.

    `pod` names the holder when the claim itself is deleted and made anew (extended resources).
    """

    node: str
    cycle: int
    attempt: int
    promises: tuple[Promise, ...]
    pod: str = ""

    def for_devices(self) -> tuple[str, ...]:
        return tuple(promise.uuid for promise in self.promises)

    def words(self, names: Names) -> str:
        return f"promise {', '.join(p.uuid or p.device for p in self.promises)} to {names.name(self.claim)}"


class ReservationDropped(OfClaim, frozen=True):
    """The devices promised to the claim are free for others again; `reason` says why."""

    reason: str

    def words(self, names: Names) -> str:
        return f"take back what was promised to {names.name(self.claim)}: {self.reason}"


class HandOver(Decision, frozen=True):
    """Tell the scheduler to schedule the pod again: every pool claim of the group in one batch. `why`: what stands against an
    exchange."""

    gone_with: ClassVar[str] = "claim"

    pod: str
    node: str
    steering: str
    signals: tuple[Signal, ...]
    mode: str
    cause: str = ""
    why: str = ""

    @property
    def subject(self) -> str:
        return self.signals[0].claim

    def for_claims(self) -> tuple[str, ...]:
        return tuple(signal.claim for signal in self.signals)

    def words(self, names: Names) -> str:
        told = _set(entry for signal in self.signals for entry in signal.entries)
        pod = f", so that pod {names.name(self.pod)} is scheduled again" if self.pod else ""
        whose = _named(self.for_claims(), names)
        why = f", not exchanged: {self.why}" if self.why else ""
        return f"{told} of {whose}{pod} (hand-over to {self.node}, {self.steering}{why})"

    def about(self, names: Names) -> dict[str, Any]:
        whom = {"claim": names.name(self.subject), "pod": names.name(self.pod), "node": self.node}
        return {**super().about(names), **whom, "steering": self.steering}

    def seen_by(self) -> Iterator[tuple[str, str, str]]:
        for signal in self.signals:
            yield from signal.seen_by()


class Steered(Decision, frozen=True):
    """Nominate the node for the pod, then clear the allocations of the signalled claims (hand-over mode `clear`)."""

    gone_with: ClassVar[str] = "pod"

    pod: str
    node: str
    claims: tuple[str, ...]
    mode: str
    cause: str = ""

    @property
    def subject(self) -> str:
        return self.pod

    def words(self, names: Names) -> str:
        pod, claims = names.name(self.pod), _named(self.claims, names)
        return f"nominate {self.node} for pod {pod} and clear the allocation of {claims}"

    def about(self, names: Names) -> dict[str, Any]:
        return {**super().about(names), "pod": names.name(self.pod), "node": self.node}


class Swap(Record, frozen=True):
    """What one claim of an exchange is to have: all results of its new allocation, those that stay included; for whom it is
    reserved; and the digest of the configuration that goes with it, "" without any."""

    claim: str
    results: tuple[Result, ...]
    consumers: tuple[Consumer, ...]
    timestamp: int | None = None
    config: str = ""


class ExchangeBegun(Decision, frozen=True):
    """Guard the devices until the instant `until`, so that nobody else is given them while the claims of a pod get them: the
    first step of an exchange. `swaps` says what each claim is to have."""

    gone_with: ClassVar[str] = "claim"

    pod: str
    node: str
    swaps: tuple[Swap, ...]
    until: int
    mode: str
    cause: str = ""

    @property
    def subject(self) -> str:
        return self.swaps[0].claim

    def for_claims(self) -> tuple[str, ...]:
        return tuple(swap.claim for swap in self.swaps)

    def words(self, names: Names) -> str:
        devices = ", ".join(key[2] for key in self.guarded)
        until = f" until {time_of_day(self.until)}" if self.until else ""
        return f"guard {devices} on {self.node}{until}, to give to {_named(self.for_claims(), names)}"

    def about(self, names: Names) -> dict[str, Any]:
        whom = {"claim": names.name(self.subject), "pod": names.name(self.pod), "node": self.node}
        return {**super().about(names), **whom}

    @property
    def guarded(self) -> tuple[DeviceKey, ...]:
        """The devices that nobody else may be given meanwhile: shares and what an administrator looks at are none."""
        found = (one.key for swap in self.swaps for one in swap.results if one.whole and not one.binding)
        return tuple(dict.fromkeys(found))


class AllocationCleared(OfClaim, frozen=True):
    """Take the claim's allocation and reservations away, the second step of an exchange: one that is set cannot be changed."""

    written: ClassVar[bool] = True

    node: str
    attempt: int

    def words(self, names: Names) -> str:
        return f"clear the allocation of {names.name(self.claim)}, to set it to the devices of {self.node} at once"


class DevicesGiven(OfClaim, frozen=True):
    """Allocate the devices of the node to the claim, the last step of an exchange. `version` is the resourceVersion that the step
    before left, "any" where the process ended before it was told; `instead` names the pool devices that go."""

    written: ClassVar[bool] = True

    node: str
    attempt: int
    swap: Swap
    version: str
    instead: tuple[str, ...] = ()

    def words(self, names: Names) -> str:
        given = ", ".join(one.device for one in self.swap.results if one.pool == self.node or not one.binding)
        return f"exchange {', '.join(self.instead)} for {given} in {names.name(self.claim)}"


class ExchangeEnded(OfClaim, frozen=True):
    """The exchange ends here; `reason` says why. What was not given yet is handed over in another way."""

    reason: str

    def words(self, names: Names) -> str:
        return f"end the exchange of {names.name(self.claim)}: {self.reason}"


class GuardLifted(Decision, frozen=True):
    """Let everybody be given these devices again."""

    gone_with: ClassVar[str] = "claim"

    claim: str
    devices: tuple[DeviceKey, ...]
    mode: str

    @property
    def subject(self) -> str:
        return self.claim

    def for_claims(self) -> tuple[str, ...]:
        return (self.claim,)

    def words(self, names: Names) -> str:
        return f"take the guard off {', '.join(key[2] for key in self.devices)}"


class ClaimFailed(OfClaim, frozen=True):
    """This attempt will not succeed. What cools down is `model` on `node`; `device` is the UUID of one that came and is none that
    the claim may have."""

    level: ClassVar[Level] = "warning"

    cycle: int
    attempt: int
    reason: str
    message: str
    node: str
    model: str = ""
    device: str = ""

    def words(self, names: Names) -> str:
        return f"give up this attempt of {names.name(self.claim)}: {self.reason}: {self.message}"


class FailureSignalled(OfClaim, frozen=True):
    """Set FabricDeviceFailed on the first not-ready own result."""

    written: ClassVar[bool] = True

    attempt: int
    signal: Signal

    def words(self, names: Names) -> str:
        told = _set(iter(self.signal.entries))
        return f"{told} of {names.name(self.claim)}, so that the scheduler looks elsewhere"

    def seen_by(self) -> Iterator[tuple[str, str, str]]:
        return self.signal.seen_by()


class CoolDown(OfCell, frozen=True):
    """Keep the scheduler from choosing this model on this node until the instant `until`; the longer, the more `times` in a row
    it failed there for this reason."""

    written: ClassVar[bool] = False
    around: ClassVar[bool] = True

    until: int
    reason: str
    times: int = 1

    def words(self, names: Names) -> str:
        until = time_of_day(self.until)
        again = f", {self.times} times in a row" if self.times > 1 else ""
        return f"keep the scheduler from {self.model} on {self.node} until {until}: {self.reason}{again}"


class CoolDownOver(OfCell, frozen=True):
    """The model may be chosen from the pool on this node again."""

    written: ClassVar[bool] = False
    around: ClassVar[bool] = True

    def words(self, names: Names) -> str:
        return f"let the scheduler choose {self.model} on {self.node} again"


class OfDevice(Decision, frozen=True):
    """About one FabricResource, by its uid."""

    gone_with: ClassVar[str] = "device"

    resource: str
    mode: str

    @property
    def subject(self) -> str:
        return self.resource

    def for_devices(self) -> tuple[str, ...]:
        return (self.resource,)

    def about(self, names: Names) -> dict[str, Any]:
        return {**super().about(names), **names.device_fields(self.resource)}


class VictimMarked(OfDevice, frozen=True):
    """Annotate the resource as the next to go. Starts the fence, which rests on a hold where devices can be guarded; one that
    hangs has no `device` yet. `taint`: in older logs, that a DeviceTaintRule was made for it."""

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

    def words(self, names: Names) -> str:
        if not self.device:
            return f"mark {self.name} on {self.node}, to take back what was asked for: {self.reason}"
        return f"mark {self.uuid or self.name} on {self.node} to go back to the pool: {self.reason}"

    def seen_by(self) -> Iterator[tuple[str, str, str]]:
        yield self.resource, "mark", str(True)


class VictimUnmarked(OfDevice, frozen=True):
    """Take the mark off a device that may not go after all."""

    name: str
    reason: str

    def words(self, names: Names) -> str:
        return f"take the mark off {self.name}: {self.reason}"

    def seen_by(self) -> Iterator[tuple[str, str, str]]:
        yield self.resource, "mark", str(False)


class HoldBegun(OfDevice, frozen=True):
    """Guard a device that is to go back until the instant `until`, so that a hold can be put on it. `devices` are all its faces,
    as claims name them."""

    name: str
    node: str
    model: str
    uuid: str
    devices: tuple[DeviceKey, ...]
    until: int
    reason: str

    def words(self, names: Names) -> str:
        what = f"guard {', '.join(key[2] for key in self.devices)} on {self.node} until {time_of_day(self.until)}"
        return f"{what}, to hold {self.uuid or self.name}: {self.reason}"


class DeviceHeld(OfDevice, frozen=True):
    """Allocate all faces of the device to a claim of ours, named `hold`, so that the scheduler goes elsewhere. They stay guarded
    meanwhile: what it had decided before may be written late."""

    hold: str
    name: str
    node: str
    devices: tuple[DeviceKey, ...]

    def words(self, names: Names) -> str:
        return f"hold {', '.join(key[2] for key in self.devices)} on {self.node} with claim {self.hold}"


class HoldEnded(OfDevice, frozen=True):
    """Clear the claim `hold` of ours, then delete it: a deletion alone wakes no pod that waits. A guard goes too. The device
    idles from here on, so that others have time to take it, and nobody who takes holds away makes it go round."""

    hold: str
    node: str
    devices: tuple[DeviceKey, ...]
    reason: str

    def words(self, names: Names) -> str:
        return f"hold {', '.join(key[2] for key in self.devices)} on {self.node} no more: {self.reason}"


class TaintLifted(Decision, frozen=True):
    """Delete the DeviceTaintRule `rule` (its uid) of an older dds: devices are held instead."""

    gone_with: ClassVar[str] = "rule"

    rule: str
    name: str
    mode: str

    @property
    def subject(self) -> str:
        return self.rule

    def words(self, names: Names) -> str:
        return f"delete taint rule {self.name}, so that the scheduler may choose its device again"


class ClaimsListWanted(OfDevice, frozen=True):
    """The fence of a device has settled, or the devices of a hold or of a claim's exchange are guarded: confirm with a consistent
    LIST of claims that nobody holds them."""

    written: ClassVar[bool] = False

    fenced: int

    def words(self, names: Names) -> str:
        return f"list all claims for {names.name(self.resource)}, to be sure that nobody else has its devices"


class DetachOrdered(OfCell, frozen=True):
    """Lower the size of the request by exactly the victims: marked devices, or (`unattached`) resources for which the fabric has
    no device and that nobody needs any more. Without victims: to the number of those that are there, when the operator makes no
    more and nobody waits."""

    request: str
    uid: str
    size: int
    previous: int
    victims: tuple[str, ...]
    unattached: bool = False

    def for_devices(self) -> tuple[str, ...]:
        return self.victims

    def words(self, names: Names) -> str:
        lower = f"lower request {self.request} from {self.previous} to {self.size}"
        who = _named(self.victims, names)
        if not who:
            return f"{lower}: the operator has made no more, and nobody waits for it"
        if self.unattached:
            return f"{lower}: the fabric has nothing for {who}, and nobody waits any more"
        return f"{lower}, so that {who} goes back to the pool"

    def seen_by(self) -> Iterator[tuple[str, str, str]]:
        yield self.request, "size", str(self.size)


class UsedStamped(OfDevice, frozen=True):
    """Write the last-used annotation: the device was released at `at`."""

    name: str
    at: int

    def words(self, names: Names) -> str:
        return f"note on {self.name} when it was last used"


# -- transitions -------------------------------------------------------------------------------------------------------


class ClaimMoved(Transition, frozen=True):
    """A step of a claim's life.

    `cause` says in words what made it true; `devices` are the FabricResources concerned (uids); `began` is the start of
    the attempt where it is not the instant of the event; `promises` what stands ready for it; `landed` tells where a
    hand-over ended: here (on the node's own devices), pool (on the node, from the pool again) or elsewhere; `excluded` are the
    devices, as `Promise.identity` names them, that were promised, are free, and were not taken.
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
    excluded: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        return self.claim

    def about(self, names: Names) -> dict[str, Any]:
        step = {"trigger": self.trigger, "from": self.source, "to": self.target, "landed": self.landed}
        return {**super().about(names), **names.claim_fields(self.claim), **step}


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

    def about(self, names: Names) -> dict[str, Any]:
        step = {"trigger": self.trigger, "from": self.source, "to": self.target}
        return {**super().about(names), **names.device_fields(self.resource), **step}


EVENTS = (
    *shared.EVENTS,
    *objects.EVENTS,
    NodeObserved,
    NodeGone,
    PodObserved,
    PodGone,
    *register(
        ClaimsListed, AttachOrdered, Reserved, ReservationDropped, HandOver, Steered, ClaimFailed, FailureSignalled
    ),
    *register(ClaimsRelisted, ExchangeBegun, AllocationCleared, DevicesGiven, ExchangeEnded, GuardLifted),
    *register(CoolDown, CoolDownOver, HoldBegun, DeviceHeld, HoldEnded, VictimMarked, VictimUnmarked, TaintLifted),
    *register(ClaimsListWanted, DetachOrdered),
    *register(UsedStamped, ClaimMoved, DeviceMoved),
)
"""What the scaler's log may hold."""
