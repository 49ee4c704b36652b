"""The history of one claim: its attempts, and its waits cut into stages, each with the component that the time was spent on.

A wait begins with a pod that refers to the claim, or with an allocation if no pod was seen before. It ends when the pod is bound
or no pod waits any more. Within an attempt, the fabric's time is from the operator's resource to the UUID of its device, and the
driver's from the UUID to the ready device; of several devices the last counts. While the attempt goes on, the resources that may
be for the claim are counted; once its devices are known, only these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from dds_core import lifecycle
from dds_core.lifecycle import PENDING, WAITING
from dds_core.model import FINISHED, Pod
from dds_core.scaler.events import ClaimMoved
from dds_core.scaler.model import ClaimLife
from dds_core.scaler.timeline.words import CONDITION, Known
from dds_core.timeline.instants import duration, time_of_day
from dds_core.timeline.telling import UNCHANGED, Moment

POOL = "pool"
SCHEDULER = "scheduler"
RETRY = "retry"
ORDER = "order"
FABRIC = "fabric"
DRIVER = "driver"
EXCHANGE = "exchange"
HAND_OVER = "hand-over"
BOUND = "bound"

WHOSE = {
    POOL: "the scheduler finds no node for the pod; while it waits, dds claims says for what",
    SCHEDULER: "the scheduler: choosing, and binding the pod",
    ORDER: "dds and the operator: until a resource was made for the device",
    FABRIC: "the fabric: attaching the device",
    DRIVER: "the vendor's driver: showing the device on its node",
    EXCHANGE: "dds: giving the device to the claim",
    HAND_OVER: "dds and the scheduler: handing the device over",
    RETRY: "after an attempt that failed, until the scheduler tries again",
}
"""The stages of a wait, and who spends the time of each."""
_ATTACHING = (ORDER, FABRIC, DRIVER)


ENDED = "ended"
OUTCOMES = (BOUND, "waiting", "failed", "withdrawn", "unused", ENDED)
"""What may have become of a claim. `ended`: before the log begins (its beginning is archived), so how is not known."""


class Span(NamedTuple):
    """A stage of a wait, or `BOUND`, from an instant to another, 0 while it goes on (microseconds)."""

    stage: str
    since: int
    until: int
    node: str = ""

    def length(self, now: int) -> int:
        """Microseconds; until `now` while it goes on."""
        return max(0, (self.until or now) - self.since)


@dataclass(slots=True)
class Attempt:
    """One allocation and its outcome: bound, failed, diverted (handed over and allocated elsewhere), moved, withdrawn, ended, or
    "" while it goes on. `reason`: of a failure, such as NodeLimit. `by`: who set the condition that it failed with, or with which
    the scheduler chose another node; "" without one. `devices`: resources that it got."""

    cycle: int
    number: int
    since: int
    node: str
    until: int = 0
    outcome: str = ""
    reason: str = ""
    cause: str = ""
    by: str = ""
    models: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """Its cause, and who set the condition if that is the cause."""
        return f"{self.by} set {self.cause}" if self.by and self.cause.startswith(CONDITION) else self.cause

    @property
    def why(self) -> str:
        """Why it ended as it did: reason and cause."""
        return f"{self.reason}: {self.told}" if self.reason and self.reason not in self.cause else self.told


class Coming(NamedTuple):
    """A resource: when it was made, and when the fabric named its device (0: not yet)."""

    made: int
    named: int


@dataclass(slots=True)
class ClaimHistory:
    """One claim, by uid. `pods`: all that referred to it, in order. `spans`: contiguous within a wait. `gone`: when it was
    deleted, 0 before. `early`: it existed when the log begins; `earlier`: microseconds that it had waited by then, at least."""

    uid: str
    name: str
    first: int
    namespace: str = ""
    state: str = ""
    since: int = 0
    gone: int = 0
    early: bool = False
    earlier: int = 0
    pods: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    failing: tuple[str, str] = ("", "")
    """Reason and message of the decision to fail the present attempt."""
    by: str = ""
    """Who has set a condition of a scaler in the present attempt; "" for nobody."""

    # -- questions -----------------------------------------------------------------------------------------------------

    @property
    def stage(self) -> str:
        """The present stage; "" if no pod waits and it is not in use."""
        return self.spans[-1].stage if self.spans and not self.spans[-1].until else ""

    @property
    def waits(self) -> bool:
        return self.stage not in ("", BOUND)

    @property
    def ended(self) -> int:
        """The instant from which nothing changes any more, 0 before; its devices may go later than the claim itself."""
        return max(self.gone, self.since) if self.gone and not self.stage else 0

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`; unused if no pod ever waited."""
        if self.waits:
            return "waiting"
        last = self.attempts[-1].outcome if self.attempts else ""
        if not last and any(span.stage == BOUND for span in self.spans):
            return BOUND
        if self.spans:
            return "withdrawn" if last in ("", ENDED) else last
        return last or "unused"

    @property
    def cause(self) -> str:
        """Why the last attempt that has ended did not end well; "" if it did."""
        last = next((one for one in reversed(self.attempts) if one.outcome), None)
        if last is None or last.outcome == BOUND or (last.outcome == ENDED and self.spans):
            return ""
        return last.why

    @property
    def node(self) -> str:
        return self.attempts[-1].node if self.attempts else ""

    @property
    def origin(self) -> int:
        """When a pod first waited for it, as far as is known; 0 for never."""
        return self.spans[0].since - self.earlier if self.spans else 0

    @property
    def begun(self) -> str:
        """The stage in which it was when the log begins; "" if the log has its wait from the beginning."""
        return self.spans[0].stage if self.early and self.spans and self.spans[0].since <= self.first else ""

    def waited(self, now: int) -> int:
        """Microseconds in all waits together."""
        return self.earlier + sum(span.length(now) for span in self.spans if span.stage != BOUND)

    def used(self, now: int) -> int:
        """Microseconds in use."""
        return sum(span.length(now) for span in self.spans if span.stage == BOUND)

    def stages(self, now: int) -> dict[str, int]:
        """Microseconds of each stage that took any, in the order of a wait."""
        found = dict.fromkeys(WHOSE, 0)
        for span in self.spans:
            if span.stage != BOUND:
                found[span.stage] += span.length(now)
        return {stage: micros for stage, micros in found.items() if micros}

    def cut(self, before: int) -> None:
        """Forget what ended before an instant, except the last span and attempt."""
        self.spans[:-1] = [one for one in self.spans[:-1] if one.until > before]
        self.attempts[:-1] = [one for one in self.attempts[:-1] if one.until > before]

    # -- changes -------------------------------------------------------------------------------------------------------

    def begin(self, life: ClaimLife, models: tuple[str, ...], failing: tuple[str, str]) -> None:
        """Begin in the middle of a log, when its pods are known: with the present attempt, or the last one."""
        self.since, self.failing = life.since, failing
        self.attempts.append(
            Attempt(life.cycle, life.attempt, life.began, life.node, models=models, devices=life.devices)
        )
        match life.state:
            case lifecycle.BOUND:
                self._waited_until(life.since, BOUND, life.node)
                self._end(BOUND, life.since)
            case lifecycle.ATTACHED:
                self._waited_until(life.since, HAND_OVER if life.handed else SCHEDULER, life.node)
            case lifecycle.PENDING if life.allocation is None:
                self._waited_until(self.first, self.stage or SCHEDULER)
            case lifecycle.PENDING | lifecycle.ATTACHING:
                self._waited_until(self.first, ORDER, life.node)
            case lifecycle.FAILED:
                self._end("failed", life.since, failing[0], failing[1] or "why was told before the log begins")
                if self.waits:
                    self._waited_until(life.since, RETRY)
            case _:
                self._end(ENDED, life.since, "", "it had ended when the log begins")

    def _waited_until(self, at: int, stage: str, node: str = "") -> None:
        """It had waited since the attempt began, and is in this stage now."""
        self.earlier = max(0, at - self._last.since)
        self.enter(stage, at, node)

    def enter(self, stage: str, at: int, node: str = "") -> None:
        """A stage begins; "" for none. Without `node` it is that of the stage before."""
        former = self.spans[-1].node if self.spans and stage not in (POOL, SCHEDULER, RETRY) else ""
        if self.spans and not self.spans[-1].until:
            last = self.spans[-1]
            if last.stage == stage and (not node or last.node == node):
                return
            if last.since >= at:
                self.spans.pop()
            else:
                self.spans[-1] = last._replace(until=at)
        if stage:
            self.spans.append(Span(stage, at, 0, node or former))

    def pod_waits(self, at: int, unschedulable: bool) -> None:
        """A pod that refers to it has no node: it waits, for the pool if the scheduler has found no node."""
        if self.stage in ("", POOL, SCHEDULER):
            self.enter(POOL if unschedulable else SCHEDULER, at)

    def nobody_waits(self, at: int) -> None:
        """The last pod went. A life that waits ends its wait with its release."""
        if self.state not in WAITING and (self.waits or not self.state):
            self._end("withdrawn", at, "", "no pod refers to it any more")
            self.enter("", at)

    def pod_runs(self, at: int, node: str) -> None:
        """A pod of a claim without devices of dds has got its node."""
        if not self.state and self.stage != BOUND:
            self.enter(BOUND, at, node)

    def attaching(self, stage: str, at: int) -> None:
        """How far the devices are that may be for it."""
        if self.stage in _ATTACHING:
            self.enter(stage, at)

    def moved(self, move: ClaimMoved, at: int, node: str, models: tuple[str, ...], coming: Iterable[Coming]) -> None:
        """A step of its life; `coming`: the resources of the devices that it got."""
        self.state, self.since = move.target, at
        match move.trigger:
            case "allocated_pool" | "allocated_local":
                self._allocated(move, at, node, models)
            case "device_ready" | "signalled":
                self._exactly(at, coming)
                self._last.devices = move.devices or self._last.devices
                self.enter(HAND_OVER, at, self._last.node)
            case "failed":
                reason, words = self.failing
                self._end("failed", at, reason, words or move.cause, self.by)
                self.enter(RETRY, at)
            case "cleared":
                if move.target == PENDING:
                    self.enter(SCHEDULER, at)
            case "pod_bound":
                self._exactly(at, coming)
                self._end(BOUND, at)
                self._last.devices = move.devices or self._last.devices
                self.enter(BOUND, at, self._last.node)
            case "released":
                self._end("withdrawn", at, "", move.cause)
                self.enter("", at)

    def exchanging(self, at: int) -> None:
        """An exchange by dds has begun."""
        if self.stage == HAND_OVER:
            self.enter(EXCHANGE, at)

    def deleted(self, at: int) -> None:
        self.gone = at
        if self.waits:
            self._end("withdrawn", at, "", "the claim was deleted")
        self.enter("", at)

    @property
    def _last(self) -> Attempt:
        if not self.attempts:
            self.attempts.append(Attempt(0, 0, self.first, ""))
        return self.attempts[-1]

    def _allocated(self, move: ClaimMoved, at: int, node: str, models: tuple[str, ...]) -> None:
        here = move.landed == "here" or (move.trigger == "allocated_local" and move.source in WAITING)
        by = self.by
        if here and self.attempts and not self.attempts[-1].outcome:
            self._last.by = by if self._last.node != node else self._last.by
            self._last.node = node
            self._last.devices = move.devices or self._last.devices
        else:
            self._end("diverted", at, "", move.cause, by) if move.landed else self._end("moved", at, "", move.cause)
            since = move.began or at
            if not self.spans or self.spans[-1].until:
                self.enter(SCHEDULER, since)
            self.attempts.append(Attempt(move.cycle, move.attempt, at, node, models=models, devices=move.devices))
        self.failing, self.by = ("", ""), ""
        self.enter(ORDER if move.trigger == "allocated_pool" else SCHEDULER, at, node)

    def _end(self, outcome: str, at: int, reason: str = "", cause: str = "", by: str = "") -> None:
        """End the present attempt."""
        if self.attempts and not self.attempts[-1].outcome:
            last = self.attempts[-1]
            last.outcome, last.until, last.reason, last.cause = outcome, at, reason, cause
            last.by = by or last.by

    def _exactly(self, at: int, coming: Iterable[Coming]) -> None:
        """Cut the time since the allocation again, by the devices that it got."""
        found = list(coming)
        if self.stage not in _ATTACHING or not found:
            return
        begun = max(self.attempts[-1].since, self.first)
        node = self.spans[-1].node
        while self.spans and self.spans[-1].since >= begun:
            self.spans.pop()
        made = min(max(begun, *(one.made for one in found)), at)
        named = min(max(made, *(one.named or at for one in found)), at)
        cuts = ((ORDER, begun, made), (FABRIC, made, named), (DRIVER, named, at))
        self.spans += [Span(stage, since, until, node) for stage, since, until in cuts if until > since]


# -- pods -------------------------------------------------------------------------------------------------------------


class PodHistory:
    """A pod by namespace/name; `known` is updated by `take`. `first`: when it was seen first; `bound`: when it got its node;
    `gone`: when it ended; 0 for not yet. `early`: it existed when the log begins."""

    def __init__(self, name: str, known: Known) -> None:
        self._name, self._known = name, known
        self._begun, self._uid = False, ""
        self._last = Pod(uid="")
        self.first = self.bound = self.gone = 0
        self.early = False

    def take(self, moment: Moment) -> None:
        if moment.fact is None:
            return
        pair = self._known.learn(moment.fact)
        begins, self._begun = not self._begun and pair == UNCHANGED, True  # from a checkpoint
        for before, now in [(None, row) for row in self._known.objects.values()] if begins else [pair]:
            row = now if now is not None else before
            if isinstance(row, Pod) and self._known.name_of(row) == self._name:
                self._seen(row, moment.at, early=begins, gone=now is None)

    def _seen(self, pod: Pod, at: int, *, early: bool, gone: bool) -> None:
        if pod.uid != self._uid:
            self._uid, self.first, self.bound, self.early = pod.uid, at, 0, early
        self._last, self.bound, self.gone = pod, self.bound or (at if pod.node else 0), at if gone else 0

    def words(self, now: int) -> str:
        """One sentence; "" for a pod that was never seen."""
        took = duration((self.bound or self.gone or now) - self.first) + " or more" * self.early
        if not self.first:
            return ""
        if self.bound:
            when = "before the log begins" if self.early and self.bound == self.first else f"after {took}"
            told = [f"bound to {self._last.node} {when}", self._last.phase if self._last.phase in FINISHED else ""]
            told.append(f"deleted at {time_of_day(self.gone)[:8]}" if self.gone else "")
            return f"pod {self._name}: {', '.join(filter(None, told))}"
        if self.gone:
            return f"pod {self._name}: deleted after {took}, before it had a node"
        return f"pod {self._name}: waiting for {took} so far" + (
            f", {self._last.waiting}" if self._last.waiting else ""
        )
