"""A claim's history in sentences: how it ended, how long that took, who spent the time, and what would have helped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from dds_core.scaler.blame import DRIVER, FABRIC, NODE, OPERATOR, POOL, TAKEN, WHOSE
from dds_core.scaler.history.claims import BOUND, ENDED, Attempt, ClaimHistory, Span
from dds_core.scaler.history.devices import DeviceHistory, DeviceSpan
from dds_core.scaler.history.fold import History
from dds_core.scaler.model import ASKS_FOR, WANTS_BOTH
from dds_core.scaler.spending import IDLE, STATES
from dds_core.timeline.instants import duration, time_of_day
from dds_core.timeline.phrases import MANY, listed
from dds_core.timeline.telling import FOLDED, Entry

MICROSECONDS = 1_000_000
_RECENTLY = 300 * MICROSECONDS
"""A device detached so shortly before a wait would have been there with a longer idle time."""
_MUCH = 5
"""Advice is given for a stage that took at least 1/_MUCH of the wait."""

TOO_LARGE, BOTH, DELETED = "claim larger than the limit", "pod with both models", "node deleted"
_ADVICE = {
    "NodeLimit": "a higher limit of devices per node, or pods that spread over more nodes",
    TOO_LARGE: "a claim that asks for no more than a node may have, or a higher limit of devices per node",
    BOTH: "a pod that asks for one of the two models",
    "Coexistence": "nodes kept for one of the two models, by labels or taints that the pods ask for",
    "RequestOwnedByOther": "a request that dds may size: the one on the node belongs to somebody else",
    "AttachFailed": "nothing on this side: the fabric refused; its manager has the cause",
    "AttachTimeout": "a faster fabric, or a longer attach budget: it had not said no",
    OPERATOR: "an operator that asks the fabric at once, or a longer attach budget: the fabric was not slow",
    DRIVER: "a driver that lists a device soon, or a longer attach budget: the device was there",
    DELETED: "a node that stays: it was deleted while its device came",
    "HandOverInVain": "a claim that asks for what the nodes list: the scheduler left devices that were free for it",
    "DeviceUnsuitable": "a claim that the fabric's devices can satisfy: what came does not match its selectors",
    "NodeUnschedulable": "a node that stays open until the pod is bound",
}
"""By what `remedy` gives."""


def remedy(claim: ClaimHistory, one: Attempt) -> str:
    """What helps depends on it: the reason of the failure; more exactly if no other node would have served the claim either, and
    if no device came in time: then the stage that took the time, unless that was the fabric's."""
    if one.reason == "AttachTimeout":
        stage = claim.mostly(one)
        return DELETED if stage == NODE else one.reason if stage in ("", FABRIC) else stage
    if one.reason == "NodeLimit" and one.cause.startswith(ASKS_FOR):
        return TOO_LARGE
    return BOTH if one.reason == "Coexistence" and one.cause.endswith(WANTS_BOTH) else one.reason


class Run(NamedTuple):
    """Successive attempts that ended alike."""

    attempts: list[Attempt]

    @property
    def since(self) -> int:
        return self.attempts[0].since

    @property
    def until(self) -> int:
        last = self.attempts[-1]
        return last.until or last.since

    @property
    def label(self) -> str:
        """The reason of a failure, else the outcome."""
        one = self.attempts[0]
        return one.reason or one.outcome or "under way"

    @property
    def words(self) -> str:
        """Such as `12 × NodeLimit on node0000, node0001`."""
        nodes = listed(sorted({one.node for one in self.attempts if one.node}), "nodes")
        times = f"{len(self.attempts)} × " if len(self.attempts) > 1 else ""
        return f"{times}{self.label}" + (f" on {nodes}" if nodes else "")


def runs(claim: ClaimHistory) -> list[Run]:
    """The attempts of a claim; successive ones that ended alike together."""
    return [Run(list(alike)) for _, alike in groupby(claim.attempts, key=lambda one: (one.outcome, one.reason))]


def folded(entries: Iterable[Entry], claims: Mapping[str, ClaimHistory], subject: str = "") -> Iterator[Entry]:
    """The same entries, but only one for each run of attempts that ended alike. Entries that are no claim's count to the claim
    `subject` (uid), if there is one."""
    known: dict[str, list[Run]] = {}
    told: set[tuple[str, int]] = set()
    for entry in entries:
        uid = entry.uid if entry.kind == "claim" else subject
        if uid not in known:
            claim = claims.get(uid)
            known[uid] = [run for run in runs(claim) if len(run.attempts) > 1] if claim is not None else []
        run = next((one for one in known[uid] if one.since <= entry.at <= one.until), None)
        if run is not None and entry.at == run.until > run.since and entry.trigger.startswith("allocated"):
            run = None  # the next attempt
        if run is None:
            yield entry
        elif (uid, run.since) not in told:
            told.add((uid, run.since))
            whose = "" if uid == subject else f"{entry.name}: "
            why = run.attempts[-1].told
            cause = f"{whose}{run.words}, until {time_of_day(run.until)[:8]}" + (f": {why}" if why else "")
            yield Entry(entry.at, entry.position, FOLDED, cause=cause)


def devices_summary(devices: Sequence[DeviceHistory], history: History) -> list[str]:
    """How these devices spent their time, and for which claims; empty without devices."""
    if not devices:
        return []
    spent = {state: sum(one.spent(history.now)[state] for one in devices) for state in STATES}
    told = ", ".join(f"{state} {duration(micros)}" for state, micros in spent.items() if micros)
    nodes = listed(sorted({one.node for one in devices}), "nodes")
    what = f"{devices[0].model} on {nodes}" if len(devices) == 1 else f"{len(devices)} devices on {nodes}"
    claims = dict.fromkeys(uid for one in devices for span in one.spans for uid in span.claims)
    names = [history.claims[uid].name if uid in history.claims else uid for uid in claims]
    who = f"{len(names)} claims" if len(names) > MANY else ", ".join(names)
    return [f"{what}: {told or 'never attached'}", *([f"used by {who}"] if names else [])]


def summary(claim: ClaimHistory, history: History) -> list[str]:
    """The lines above a claim's timeline; empty for a claim that no pod ever waited for."""
    if not claim.spans:
        return [claim.cause] if claim.outcome == ENDED else []
    lines = [_outcome(claim, history.now)]
    if claim.begun:
        what = "in use" if claim.begun == BOUND else "waiting"
        lines.append(f"when the log begins it was {what} already: the archive tells what was before")
    if len(claim.attempts) > 1:
        told = "; ".join(_of_run(run) for run in runs(claim))
        lines.append(f"{len(claim.attempts)} attempts: {told}")
    lines += _stages(claim, history.now)
    return [*lines, *(f"would have helped: {text}" for text in advice(claim, history))]


def waited(claim: ClaimHistory, now: int) -> str:
    """How long it waited in all; "or more" if it waited or was in use when the log begins."""
    return duration(claim.waited(now)) + " or more" * bool(claim.begun)


def _outcome(claim: ClaimHistory, now: int) -> str:
    after = f"after {waited(claim, now)}"
    match claim.outcome:
        case "waiting":
            where = f" on {claim.spans[-1].node}" if claim.spans[-1].node else ""
            return f"waiting for {waited(claim, now)} so far{where}; at present: {_now(claim)}"
        case "bound":
            if claim.begun == BOUND and not claim.stages(now):
                after = "before the log begins" + (f", {after}" if claim.earlier else "")
            use = f"in use for {duration(claim.used(now))}" + (" so far" if claim.stage == BOUND else "")
            return f"bound to {claim.node or 'its node'} {after}, {use}"
        case "failed":
            return f"not bound, given up {after}; the last attempt failed: {claim.cause}"
        case _:
            return f"not bound, given up {after}: {claim.cause or 'no pod refers to it any more'}"


def _now(claim: ClaimHistory) -> str:
    """Whose time it is now."""
    by = claim.spans[-1].by
    return WHOSE[claim.stage].replace("another claim has", f"{by} has", 1) if by else WHOSE[claim.stage]


def _of_run(run: Run) -> str:
    last = run.attempts[-1]
    when = (
        f", {time_of_day(run.since)[:8]} to {time_of_day(last.until or last.since)[:8]}"
        if len(run.attempts) > 1
        else ""
    )
    why = f" ({last.told})" if last.outcome == "failed" and last.cause else ""
    return run.words + when + why


def _stages(claim: ClaimHistory, now: int) -> Iterator[str]:
    stages = sorted(claim.stages(now).items(), key=lambda item: -item[1])
    total = sum(micros for _, micros in stages)
    if total:
        shares = ((stage, micros, round(100 * micros / total)) for stage, micros in stages)
        by = ", ".join(dict.fromkeys(span.by for span in claim.spans if span.by))
        named = {TAKEN: f"taken by {by}"}
        told = ", ".join(
            f"{named.get(stage, stage)} {duration(micros)} ({share} %)" for stage, micros, share in shares if share
        )
        yield f"where it went: {told}"
        yield f"most of it: {WHOSE[stages[0][0]]}"


def advice(claim: ClaimHistory, history: History, since: int = 0) -> Iterator[str]:
    """What would have helped from the instant `since` on, as far as the log shows."""
    attempts = claim.attempts_since(since)
    failed = ((remedy(claim, one), one.reason) for one in attempts if one.outcome == "failed")
    for helps, reason in dict.fromkeys(failed):
        if helps in _ADVICE:
            yield f"{_ADVICE[helps]} ({reason})"
    diverted = sum(one.outcome == "diverted" for one in attempts)
    if diverted and history.hands_over:
        times = "once" if diverted == 1 else f"{diverted} times"
        yield f"the device given by dds itself (hand_over: exchange): after a hand-over it was allocated elsewhere {times}"
    stages = claim.stages(history.now, since)
    much = max(1, sum(stages.values()) // _MUCH)
    models = {model for one in claim.attempts for model in one.models}
    if stages.get(POOL, 0) >= much:
        yield from _for_the_pool(claim, history, models, since)
    if sum(stages.get(one, 0) for one in (FABRIC, DRIVER, OPERATOR)) >= much:
        yield from _for_the_fabric(claim, history, models, since)


def _for_the_pool(claim: ClaimHistory, history: History, models: set[str], since: int) -> Iterator[str]:
    """Devices that idled while no node was found, and that the claim did not get in the end."""
    got = {uid for attempt in claim.attempts for uid in attempt.devices}
    spans = [span for span in claim.spans if span.stage == POOL and span.length(history.now, since)]
    there = [one for one in history.devices.values() if one.model in models and one.uid not in got]
    idled = [one for one in there if any(_idled(part, span, history.now) for part in one.spans for span in spans)]
    if idled:
        nodes = listed(sorted({one.node for one in idled}), "nodes")
        yield f"a shorter idle time: {_devices(len(idled))} idled meanwhile on {nodes}"


def _idled(part: DeviceSpan, span: Span, now: int) -> bool:
    """Whether the device idled for a second or more of the span; only an idle time that begins or ends within the span counts."""
    first, last = max(part.since, span.since), min(part.until or now, span.until or now)
    bends = span.since <= part.since <= (span.until or now) or span.since <= part.until <= (span.until or now)
    return part.state == IDLE and bends and last - first >= MICROSECONDS


def _for_the_fabric(claim: ClaimHistory, history: History, models: set[str], since: int) -> Iterator[str]:
    """Devices that had left the node shortly before the claim waited for one there."""
    for span in claim.spans:
        if span.stage != FABRIC or not span.length(history.now, since):
            continue
        gone = [one for one in history.devices.values() if one.came and one.model in models and one.node == span.node]
        gone = [one for one in gone if one.gone and span.since - _RECENTLY <= one.gone <= span.since]
        if gone:
            ago = duration(span.since - max(one.gone for one in gone))
            yield f"a longer idle time: {_devices(len(gone))} had left {span.node}, the last {ago} before"
            return


def _devices(number: int) -> str:
    return "1 device" if number == 1 else f"{number} devices"
