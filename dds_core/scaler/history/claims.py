"""The history of one claim: its attempts, and its waits cut into the stages of `dds_core.scaler.blame`.

A wait begins with a pod that refers to the claim, or with an allocation if no pod was seen before. It ends when the pod is bound
or no pod waits any more. While an attempt goes on, the resources that may be for the claim are counted; once its devices are
known, only these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from dds_core import lifecycle
from dds_core.lifecycle import WAITING
from dds_core.model import FINISHED, Pod
from dds_core.scaler.blame import (
    BARRED,
    OBSERVE,
    ORDER,
    POOL,
    RETRY,
    SCHEDULER,
    STAGES,
    TAKEN,
    Coming,
    at_instant,
    stage_of_coming,
)
from dds_core.scaler.events import ClaimMoved
from dds_core.scaler.model import ClaimLife
from dds_core.scaler.timeline.words import CONDITION, Known
from dds_core.timeline.instants import duration, time_of_day
from dds_core.timeline.telling import UNCHANGED, Moment

BOUND = "bound"

ENDED = "ended"
OUTCOMES = (BOUND, "waiting", "failed", "withdrawn", "unused", ENDED)
"""What may have become of a claim. `ended`: before the log begins (its beginning is archived), so how is not known."""


class Span(NamedTuple):
    """A stage of a wait, or `BOUND`, from an instant to another, 0 while it goes on (microseconds). `by`: the claim that has
    taken its device."""

    stage: str
    since: int
    until: int
    node: str = ""
    by: str = ""

    def length(self, now: int, since: int = 0) -> int:
        """Microseconds from the instant `since` on; until `now` while it goes on."""
        return max(0, (self.until or now) - max(self.since, since))


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


@dataclass(slots=True)
class ClaimHistory:
    """One claim, by uid. `pods`: all that referred to it, in order. `spans`: contiguous within a wait. `gone`: when it was
    deleted, 0 before. `early`: it existed when the log begins; `earlier`: microseconds that it had waited by then, at least.
    `exchanging`: dds exchanges it. `taken`: the claim that took a device that came for it, and when, until another is ready."""

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
    """The client that set a condition of a scaler in the present attempt, "" while none is set."""
    exchanging: bool = False
    taken: tuple[str, int] = ("", 0)

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
        """Why the last attempt did not end well; "" if it did, or goes on."""
        last = self.attempts[-1] if self.attempts else None
        if last is None or last.outcome in ("", BOUND) or (last.outcome == ENDED and self.spans):
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
        return self.earlier + self.waited_since(0, now)

    def waited_since(self, since: int, now: int) -> int:
        """Microseconds of the waits from an instant on, as far as the log has them."""
        return sum(self.stages(now, since).values())

    def used(self, now: int) -> int:
        """Microseconds in use."""
        return sum(span.length(now) for span in self.spans if span.stage == BOUND)

    def stages(self, now: int, since: int = 0) -> dict[str, int]:
        """Microseconds of each stage that took any from the instant `since` on, in the order of a wait."""
        found = dict.fromkeys(STAGES, 0)
        for span in self.spans:
            if span.stage != BOUND:
                found[span.stage] += span.length(now, since)
        return {stage: micros for stage, micros in found.items() if micros}

    def attempts_since(self, since: int) -> list[Attempt]:
        """The attempts that ended at an instant or later, or go on."""
        return [one for one in self.attempts if not 0 < one.until < since]

    def mostly(self, attempt: Attempt) -> str:
        """The stage in which most of an attempt's time went, "" if none took any."""
        found: Counter[str] = Counter()
        for span in self.spans:
            until = min(span.until or attempt.until, attempt.until)
            found[span.stage] += max(0, until - max(span.since, attempt.since))
        return max(+found, key=lambda stage: found[stage], default="")

    def cut(self, before: int) -> None:
        """Forget what ended before an instant, except the last span and attempt."""
        self.spans[:-1] = [one for one in self.spans[:-1] if one.until > before]
        self.attempts[:-1] = [one for one in self.attempts[:-1] if one.until > before]

    # -- changes -------------------------------------------------------------------------------------------------------

    def begin(self, life: ClaimLife, models: tuple[str, ...], failing: tuple[str, str], stage: str) -> None:
        """Begin in the middle of a log, when its pods are known: with the present attempt, or the last one. `stage`: the present
        one of a claim that waits."""
        self.since, self.failing = life.since, failing
        self.attempts.append(
            Attempt(life.cycle, life.attempt, life.began, life.node, models=models, devices=life.devices)
        )
        match life.state:
            case lifecycle.BOUND:
                self._waited_until(life.since, BOUND, life.node)
                self._end(BOUND, life.since)
            case lifecycle.PENDING | lifecycle.ATTACHING | lifecycle.ATTACHED:
                self._waited_until(self.first, stage, life.node if life.allocation is not None else "")
            case lifecycle.FAILED:
                self._end("failed", life.since, failing[0], failing[1] or "why was told before the log begins")
                if self.waits:
                    self._waited_until(self.first, stage)
            case _:
                self._end(ENDED, life.since, "", "it had ended when the log begins")

    def _waited_until(self, at: int, stage: str, node: str = "") -> None:
        """It had waited since the attempt began, in stages that are not known, and is in this one now."""
        self.earlier = max(0, at - self._last.since)
        self.enter(stage, at, node)

    def enter(self, stage: str, at: int, node: str = "") -> None:
        """A stage begins; "" for none."""
        by = self.taken[0] if stage == TAKEN else ""
        if self.spans and not self.spans[-1].until:
            last = self.spans[-1]
            if (last.stage, last.node, last.by) == (stage, node, by):
                return
            if last.since >= at:
                self.spans.pop()
            else:
                self.spans[-1] = last._replace(until=at)
        if stage:
            self._add(Span(stage, at, 0, node, by))

    def _add(self, span: Span) -> None:
        """Add a span; one span with the last if that is alike and ends where it begins."""
        last = self.spans[-1] if self.spans else None
        if last is not None and (last.stage, last.until, last.node, last.by) == (span.stage, span.since, *span[3:]):
            self.spans[-1] = last._replace(until=span.until)
        else:
            self.spans.append(span)

    def pod_waits(self, at: int) -> None:
        """A pod that refers to it has no node: it waits."""
        if not self.stage:
            self.enter(SCHEDULER, at)

    def was_awaited(self, since: int) -> None:
        """Its pod waited for the pool, before the scheduler made it."""
        if self.spans and since < self.spans[0].since:
            self.spans.insert(0, Span(POOL, since, self.spans[0].since))

    def nobody_waits(self, at: int) -> None:
        """The last pod went. A life that waits ends its wait with its release."""
        if self.state not in WAITING and (self.waits or not self.state):
            self._end("withdrawn", at, "", "no pod refers to it any more")
            self.enter("", at)

    def pod_runs(self, at: int, node: str) -> None:
        """A pod of a claim without devices of dds has got its node; if that was seen before the allocation, it ran from then."""
        if not self.state and self.stage == BARRED:
            self.spans[-1] = self.spans[-1]._replace(stage=BOUND, node=node)
        elif not self.state and self.stage != BOUND:
            self.enter(BOUND, at, node)

    def moved(self, move: ClaimMoved, at: int, node: str, models: tuple[str, ...], coming: Iterable[Coming]) -> None:
        """A step of its life; `coming`: the resources of the devices that it got."""
        self.state, self.since = move.target, at
        match move.trigger:
            case "allocated_pool" | "allocated_local":
                self._allocated(move, at, node, models)
            case "device_ready" | "signalled":
                self._exactly(at, coming)
                self._last.devices, self.taken = move.devices or self._last.devices, ("", 0)
            case "failed":
                reason, words = self.failing
                self._end("failed", at, reason, words or move.cause, self.by)
                self.enter(RETRY, at)
            case "pod_bound":
                self._exactly(at, coming)
                self._end(BOUND, at)
                self._last.devices = move.devices or self._last.devices
                self.enter(BOUND, at, self._last.node)
            case "released":
                self._end("withdrawn", at, "", move.cause)
                self.enter("", at)

    def exchange_begins(self, at: int, coming: Iterable[Coming]) -> None:
        """An exchange by dds begins, with these devices."""
        if self.taken[0]:
            self._exactly(at, coming)
        self.exchanging, self.taken = True, ("", 0)

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
            self._end("diverted" if move.landed else "moved", at, "", move.cause, by)
            self.taken = ("", 0)
            since = move.began or at
            if not self.spans or self.spans[-1].until:
                self.enter(SCHEDULER, since)
            self.attempts.append(Attempt(move.cycle, move.attempt, at, node, models=models, devices=move.devices))
        self.failing, self.by = ("", ""), ""

    def _end(self, outcome: str, at: int, reason: str = "", cause: str = "", by: str = "") -> None:
        """End the present attempt."""
        if self.attempts and not self.attempts[-1].outcome:
            last = self.attempts[-1]
            last.outcome, last.until, last.reason, last.cause = outcome, at, reason, cause
            last.by = by or last.by

    def _exactly(self, at: int, coming: Iterable[Coming]) -> None:
        """Cut the time since the allocation, or since a device was taken from it, again by the devices that it got and that were
        not ready by then: while it was under way, devices for others may have counted. Before one was made, they had to."""
        begun = max(self._last.since, self.first, self.taken[1])
        found = [one for one in coming if not 0 < one.ready <= begun]
        told = list[Span]()
        while found and self.spans and (self.spans[-1].until or at) > begun:
            told.append(self.spans.pop())
        instants = sorted({begun, *(instant for one in found for instant in one if begun < instant < at)})
        for span in reversed(told):
            last, since = span.until or at, span.since
            for until in [*(one for one in instants if since < one < last), *([last] if since < last else [])]:
                then = [at_instant(one, since) for one in found]
                stage = stage_of_coming(then)
                early = not all(one.made for one in then)
                early = early or (span.stage in _NOT_UNDER_WAY and not all(one.called for one in then))
                stands = since < begun or not stage or early
                self._add(span._replace(since=since, until=until) if stands else Span(stage, since, until, span.node))
                since = until


_NOT_UNDER_WAY = (ORDER, OBSERVE)
"""While the fabric was not asked for one of its devices, these say more than that the operator had not done so."""


# -- pods -------------------------------------------------------------------------------------------------------------


class PodHistory:
    """A pod by namespace/name; `known` is updated by `take`. `uid`: of the last one of the name; `first`: when it was seen first;
    `bound`: when it got its node; `gone`: when it ended; 0 for not yet. `early`: it existed when the log begins."""

    def __init__(self, name: str, known: Known) -> None:
        self._name, self._known = name, known
        self._begun, self.uid = False, ""
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
        if pod.uid != self.uid:
            self.uid, self.first, self.bound, self.early = pod.uid, at, 0, early
        self._last, self.bound, self.gone = pod, self.bound or (at if pod.node else 0), at if gone else 0

    @property
    def waits(self) -> bool:
        """Whether it was seen, has no node and has not ended."""
        return bool(self.first) and not self.bound and not self.gone

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
