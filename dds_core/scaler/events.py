"""What the scaler's log holds beside what all logs do: facts about its objects, its decisions, and the steps of the two lives of
`dds_core.lifecycle`. Each decision carries all that its writer needs, and the mode it was decided in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Protocol, Self

from dds_core.events import *  # noqa: F403 - one module holds all that a component speaks of
from dds_core.events import objects, shared
from dds_core.events.base import SCALER, Decision, Level, Names, Transition, observed, register
from dds_core.events.objects import *  # noqa: F403
from dds_core.events.shared import OfScaler
from dds_core.lifecycle import claim_target
from dds_core.model import Consumer, DeviceKey, Node, Pod, Record, Result
from dds_core.timeline.instants import time_of_day

# -- objects -----------------------------------------------------------------------------------------------------------

NodeObserved, NodeGone = observed(
    Node,
    "A node appeared or changed.",
    "A node was deleted; no device can be attached to it or detached from it.",
)
PodObserved, PodGone = observed(
    Pod,
    "A pod with claims appeared or changed.",
    "A pod was deleted, or left a filtered watch: it has finished, or has a node and no claim.",
)


class ClaimsListed(OfScaler, frozen=True):
    """A consistent LIST of all claims, begun at `started`, was folded, for `resource`: a device that is fenced or to be
    held, or a claim in an exchange."""

    level: ClassVar[Level] = "debug"

    resource: str
    started: int

    def words(self, names: Names) -> str:
        return f"all claims were listed for {names.name(self.resource)}"


class ClaimsRelisted(OfScaler, frozen=True):
    """The watch of claims started again with a list, because the API server or its history was gone. A scheduler that
    relists during an exchange misses it (Kubernetes 1.36.2)."""

    def words(self, names: Names) -> str:
        return "the watch of claims began anew"


# -- decisions ---------------------------------------------------------------------------------------------------------


class ReservedDevice(Record, frozen=True):
    """One result of a claim's allocation and the device reserved for it; `promises` in logs. `device`: its name on the node.
    `request`: the request that it is for, or `request/alternative`. `share`, `consumed`: shareID and amounts of a share. `admin`:
    the claim has admin access, so other claims may have the device too."""

    result: int
    uuid: str
    driver: str
    pool: str
    device: str
    request: str = ""
    share: str = ""
    consumed: dict[str, str] = {}
    admin: bool = False

    @property
    def identity(self) -> str:
        """What the device is told apart by: its UUID, or its name where none is published."""
        return self.uuid or f"{self.driver}/{self.pool}/{self.device}"

    @property
    def key(self) -> DeviceKey:
        return (self.driver, self.pool, self.device)


class Entry(Record, frozen=True):
    """A status.devices entry of dds: the allocated device and the condition set on it."""

    driver: str
    pool: str
    device: str
    condition: str
    reason: str
    message: str
    share: str = ""


class Signal(Record, frozen=True):
    """All entries of dds on one claim."""

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
SURPLUS = "the operator has made more"
"""Reason of an order that only fits the size to the existing resources."""


class AttachOrdered(OfCell, frozen=True):
    """Create a ComposabilityRequest (`previous` null) or raise its size, for `claims`. Or withdraw an order before it
    is written: `size` is then lower; with nothing left to request it is `previous`, or 0."""

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
    """Reserve these devices for this attempt of the claim; logged before any signal. `pod`: the holder, if the claim
    itself is recreated (extended resources)."""

    node: str
    cycle: int
    attempt: int
    promises: tuple[ReservedDevice, ...]
    pod: str = ""

    def for_devices(self) -> tuple[str, ...]:
        return tuple(promise.uuid for promise in self.promises)

    def words(self, names: Names) -> str:
        devices = ", ".join(p.uuid or p.device for p in self.promises)
        looks = "" if devices else ", which only looks at what is there"
        return f"promise {devices or 'no device'} to {names.name(self.claim)}{looks}"


class ReservationDropped(OfClaim, frozen=True):
    """The devices reserved for the claim are free for others; `reason` says why."""

    reason: str

    def words(self, names: Names) -> str:
        return f"take back what was promised to {names.name(self.claim)}: {self.reason}"


class HandOver(Decision, frozen=True):
    """Tell the scheduler to schedule the pod again: all pool claims of the group at once. `why`: what prevents an
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
    """What a claim gets in an exchange: all results of its new allocation, its consumers, and the digest of its
    configuration."""

    claim: str
    results: tuple[Result, ...]
    consumers: tuple[Consumer, ...]
    timestamp: int | None = None
    config: str = ""


class ExchangeBegun(Decision, frozen=True):
    """First step of an exchange: guard the devices until `until`, so that only this pod's claims get them. `swaps`:
    what each claim gets."""

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
    """Second step: clear the claim's allocation and reservations, since a set allocation cannot be changed."""

    written: ClassVar[bool] = True

    node: str
    attempt: int

    def words(self, names: Names) -> str:
        return f"clear the allocation of {names.name(self.claim)}, to set it to the devices of {self.node} at once"


class DevicesGiven(OfClaim, frozen=True):
    """Last step: allocate devices of the node to the claim. `version`: the resourceVersion after the step before, "any"
    if not known. `instead`: the pool devices that are replaced."""

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
    """End the exchange; `reason` says why. What is not given yet is handed over in another way."""

    reason: str

    def words(self, names: Names) -> str:
        return f"end the exchange of {names.name(self.claim)}: {self.reason}"


class GuardLifted(Decision, frozen=True):
    """Let every claim get these devices again."""

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
    """This attempt fails; `model` cools down on `node`. `device`: UUID of a device that came and that the claim may not
    have. `basis`: digest of what that depends on; while it stays, no device of the model is ordered for the claim."""

    level: ClassVar[Level] = "warning"

    cycle: int
    attempt: int
    reason: str
    message: str
    node: str
    model: str = ""
    device: str = ""
    basis: str = ""

    def words(self, names: Names) -> str:
        return f"give up this attempt of {names.name(self.claim)}: {self.reason}: {self.message}"


class FailureSignalled(OfClaim, frozen=True):
    """Set FabricDeviceFailed on the claim's first result from a pool that is not ready."""

    written: ClassVar[bool] = True

    attempt: int
    signal: Signal

    def words(self, names: Names) -> str:
        told = _set(iter(self.signal.entries))
        return f"{told} of {names.name(self.claim)}, so that the scheduler looks elsewhere"

    def seen_by(self) -> Iterator[tuple[str, str, str]]:
        return self.signal.seen_by()


class CoolDown(OfCell, frozen=True):
    """Keep the scheduler from this model on this node until `until`; longer, the more `times` in a row it failed for
    this reason. `alone`: by its words the failure is the node's, and says nothing of the fabric. `needs`: it ends sooner where
    the node has room for so many."""

    written: ClassVar[bool] = False
    around: ClassVar[bool] = True

    until: int
    reason: str
    times: int = 1
    alone: bool = False
    needs: int = 0

    def words(self, names: Names) -> str:
        until = time_of_day(self.until)
        again = f", {self.times} times in a row" if self.times > 1 else ""
        return f"keep the scheduler from {self.model} on {self.node} until {until}: {self.reason}{again}"


class CoolDownOver(OfCell, frozen=True):
    """Let the scheduler choose the model from the pool on this node again."""

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
    """Annotate the resource as the next to detach, which starts its fence. A device that hangs has no `device` yet."""

    name: str
    node: str
    model: str
    uuid: str
    driver: str
    pool: str
    device: str
    reason: str
    idle_since: int = 0

    def words(self, names: Names) -> str:
        if not self.device:
            return f"mark {self.name} on {self.node}, to take back what was asked for: {self.reason}"
        return f"mark {self.uuid or self.name} on {self.node} to go back to the pool: {self.reason}"

    def seen_by(self) -> Iterator[tuple[str, str, str]]:
        yield self.resource, "mark", str(True)


class VictimUnmarked(OfDevice, frozen=True):
    """Remove the mark from a device that may not be detached after all."""

    name: str
    reason: str

    def words(self, names: Names) -> str:
        return f"take the mark off {self.name}: {self.reason}"

    def seen_by(self) -> Iterator[tuple[str, str, str]]:
        yield self.resource, "mark", str(False)


class HoldBegun(OfDevice, frozen=True):
    """Guard a device that is to go back until `until`, before a hold is put on it. `devices`: all its names in slices."""

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
    """Allocate all names of the device to the claim `hold` of dds, so that the scheduler goes elsewhere. The guard
    stays."""

    hold: str
    name: str
    node: str
    devices: tuple[DeviceKey, ...]

    def words(self, names: Names) -> str:
        return f"hold {', '.join(key[2] for key in self.devices)} on {self.node} with claim {self.hold}"


class HoldEnded(OfDevice, frozen=True):
    """Clear the claim `hold`, delete it, and lift the guard. The device's idle time starts anew."""

    hold: str
    node: str
    devices: tuple[DeviceKey, ...]
    reason: str

    def words(self, names: Names) -> str:
        return f"hold {', '.join(key[2] for key in self.devices)} on {self.node} no more: {self.reason}"


class ClaimsListWanted(OfDevice, frozen=True):
    """Confirm with a consistent LIST that no claim holds the devices of a settled fence, a hold or an exchange."""

    written: ClassVar[bool] = False

    fenced: int

    def words(self, names: Names) -> str:
        return f"list all claims for {names.name(self.resource)}, to be sure that nobody else has its devices"


class DetachOrdered(OfCell, frozen=True):
    """Lower the request's size by the number of victims: marked devices or, with `unattached`, resources without a
    device that no claim needs. Without victims: to the number of existing resources, when the operator makes no more
    and no claim waits."""

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


class OperatorNudged(OfDevice, frozen=True):
    """Write an annotation of dds on the resource, which makes the operator look at it now. `why`: to have the node's plugin
    restarted and the device listed (`list`), to have a listed device called Online (`settle`), or because the fabric should
    be done (`attach`, `detach`)."""

    name: str
    node: str
    why: str

    def words(self, names: Names) -> str:
        return f"make the operator look at {self.name} on {self.node}: {_LOOKS[self.why]}"


_LOOKS = {
    "list": "its device has come, and the node's driver does not list it yet",
    "settle": "the node's driver lists its device",
    "attach": "its device should have come by now",
    "detach": "its device should be off by now",
}

# -- transitions -------------------------------------------------------------------------------------------------------


class _Life(Protocol):
    """Where a claim is (`dds_core.scaler.model.ClaimLife`)."""

    @property
    def state(self) -> str: ...
    @property
    def cycle(self) -> int: ...
    @property
    def attempt(self) -> int: ...


class ClaimMoved(Transition, frozen=True):
    """A step of a claim's life. `cause`: why, in words. `devices`: uids of its FabricResources. `began`: start of the
    attempt, if not this event. `promises`: devices ready for it. `landed`: where a hand-over ended: here (devices of
    the node), pool (on the node, from the pool again) or elsewhere. `excluded`: free devices promised and not taken, by
    UUID, or by name without one."""

    claim: str
    trigger: str
    source: str
    target: str
    cycle: int
    attempt: int
    cause: str = ""
    devices: tuple[str, ...] = ()
    began: int = 0
    promises: tuple[ReservedDevice, ...] = ()
    landed: str = ""
    excluded: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        claim: str,
        life: _Life,
        trigger: str,
        cause: str,
        *,
        devices: tuple[str, ...] = (),
        promises: tuple[ReservedDevice, ...] = (),
        ordered: bool = True,
    ) -> Self | None:
        """The step that `trigger` makes within the attempt; None if the state does not name it. `ordered`: see `claim_target`."""
        target = claim_target(trigger, life.state, ordered=ordered)
        if target is None:
            return None
        return cls(
            claim, trigger, life.state, target, life.cycle, life.attempt, cause, devices=devices, promises=promises
        )

    @property
    def subject(self) -> str:
        return self.claim

    def about(self, names: Names) -> dict[str, Any]:
        step = {"trigger": self.trigger, "from": self.source, "to": self.target, "landed": self.landed}
        return {**super().about(names), **names.claim_fields(self.claim), **step}


class DeviceMoved(Transition, frozen=True):
    """A step of a device's life. `cause`: why, in words. `key`: the name under which a claim took it."""

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
    *register(CoolDown, CoolDownOver, HoldBegun, DeviceHeld, HoldEnded, VictimMarked, VictimUnmarked),
    *register(ClaimsListWanted, DetachOrdered),
    *register(UsedStamped, OperatorNudged, ClaimMoved, DeviceMoved),
)
"""What the scaler's log may hold."""
