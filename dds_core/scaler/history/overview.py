"""A whole log in sentences: what became of its claims, how long they waited and for whom, what failed how often, what would have
helped, how devices were used, and which alerts there were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dds_core.scaler.blame import WHOSE
from dds_core.scaler.history.claims import ClaimHistory
from dds_core.scaler.history.devices import DeviceHistory
from dds_core.scaler.history.fold import History
from dds_core.scaler.history.words import advice, summary
from dds_core.timeline.instants import duration, rfc3339, time_of_day

_ADVISED = 20
"""Advice is looked for in the claims that waited longest, so many of them."""
_TOLD = 3
_OUTCOMES = {
    "bound": "bound",
    "waiting": "still waiting",
    "failed": "given up after a failure",
    "withdrawn": "given up",
    "unused": "never waited for",
    "ended": "ended before the log begins",
}
_OF_ONE = ("a shorter idle time", "a longer idle time", "the device given by dds itself")
"""Advice that ends, after its last colon, with details of one claim."""
_OTHER = "moved on"
_LOST = {"diverted": "went elsewhere after a hand-over", "moved": "were allocated anew"}
_WHAT = {"used": "in use", "error": "in error"}


def ranked(history: History, since: int = 0) -> list[ClaimHistory]:
    """The claims that existed at an instant or later, those that waited longest first."""
    found = [one for one in history.claims.values() if _ended(one, history.now) >= since]
    return sorted(found, key=lambda one: (-one.waited(history.now), one.name, one.uid))


def devices_since(history: History, since: int = 0) -> list[DeviceHistory]:
    """The devices that existed at an instant or later, by node, model and name."""
    found = [one for one in history.devices.values() if (one.gone or history.now) >= since]
    return sorted(found, key=lambda one: (one.node, one.model, one.name, one.first, one.uid))


def overview(history: History, since: int = 0) -> list[str]:
    """The sentences, the most important first, on what existed at an instant or later."""
    claims = ranked(history, since)
    lines = [_counted(claims, max(history.first, since), history.now)]
    waiting = [one for one in claims if one.spans]
    if waiting:
        lines += _waits(waiting, history)
        lines += _attempts(waiting)
        lines += _helpful(waiting, history)
    lines += _devices(devices_since(history, since), history.now)
    return [*lines, _alerts(Counter(one.reason for one in history.alerts if one.at >= since))]


def _ended(claim: ClaimHistory, now: int) -> int:
    last = claim.spans[-1].until or now if claim.spans else 0
    return max(last, claim.gone or now)


def _counted(claims: Sequence[ClaimHistory], first: int, now: int) -> str:
    when = f"{rfc3339(first)[:10]} {time_of_day(first)[:8]} to {time_of_day(now)[:8]} UTC ({duration(now - first)})"
    if not claims:
        return f"no claim was seen, {when}"
    found = Counter(_OUTCOMES.get(one.outcome, _OTHER) for one in claims)
    told = ", ".join(f"{found[words]} {words}" for words in (*_OUTCOMES.values(), _OTHER) if found[words])
    return f"{_many(len(claims), 'claim')}, {when}: {told}"


def _waits(claims: Sequence[ClaimHistory], history: History) -> Iterator[str]:
    times = sorted(one.waited(history.now) for one in claims)
    if len(times) > 1:
        half, most = (duration(times[-(-len(times) * percent // 100) - 1]) for percent in (50, 95))
        yield f"half of them waited {half} or less, 95 % {most} or less, the longest {duration(times[-1])}"
    total: Counter[str] = Counter()
    for one in claims:
        total.update(one.stages(history.now))
    if len(times) > 1 and total:
        whole = sum(total.values())
        parts = ((stage, round(100 * micros / whole)) for stage, micros in total.most_common())
        shares = ", ".join(f"{stage} {share} %" for stage, share in parts if share)
        yield f"of all waiting, {duration(whole)} together: {shares}"
        yield f"most of it: {WHOSE[total.most_common(1)[0][0]]}"
    lines = summary(claims[0], history)
    yield f"{claims[0].name} waited longest: {lines[0]}" if len(times) > 1 else f"{claims[0].name}: {lines[0]}"
    kinds = ("where it went",) if len(times) > 1 else ("where it went", "most of it")
    yield from (line for line in lines[1:] if line.startswith(kinds))


def _attempts(claims: Sequence[ClaimHistory]) -> Iterator[str]:
    """Why attempts failed, and how often."""
    attempts = [one for claim in claims for one in claim.attempts]
    failures = [one for one in attempts if one.outcome == "failed"]
    failed = Counter(one.reason or "failed" for one in failures)
    lost = Counter(_LOST[one.outcome] for one in attempts if one.outcome in _LOST)
    if failed:
        causes = Counter((one.reason or "failed", one.cause) for one in failures)
        often = dict(reversed([pair for pair, _ in causes.most_common()]))  # each reason's most frequent message
        yield f"{len(failures)} of {_many(len(attempts), 'attempt')} failed: {_times(failed, often)}"
    if lost:
        told = ", ".join(f"{number} {how}" for how, number in lost.most_common())
        yield f"of {_many(len(attempts), 'attempt')}, {told}"


def _helpful(claims: Sequence[ClaimHistory], history: History) -> Iterator[str]:
    """The advice that is common to most of the claims that waited longest."""
    found = Counter(_without_times(text) for one in claims[:_ADVISED] for text in dict.fromkeys(advice(one, history)))
    yield from (f"would have helped: {text}" for text, _ in found.most_common(_TOLD))


def _without_times(text: str) -> str:
    """Without the details of one claim, so that the same advice counts as the same."""
    return text.rpartition(": ")[0] if text.startswith(_OF_ONE) else text


def _devices(devices: Sequence[DeviceHistory], now: int) -> Iterator[str]:
    if not devices:
        yield "no device was attached"
        return
    spent: Counter[str] = Counter()
    for one in devices:
        spent.update(one.spent(now))
    whole = sum(spent.values())
    shares = ((state, round(100 * micros / whole)) for state, micros in spent.most_common() if micros)
    told = (
        ", ".join(f"{_WHAT.get(state, state)} {share} %" for state, share in shares if share)
        if whole
        else "never attached"
    )
    nodes = _many(len({one.node for one in devices}), "node")
    yield f"{_many(len(devices), 'device')} on {nodes}, {duration(whole)} together: {told}"


def _alerts(found: Mapping[str, int]) -> str:
    return f"{_many(sum(found.values()), 'alert')}: {_times(Counter(found))}" if found else "no alert"


def _times(found: Counter[str], words: Mapping[str, str] | None = None) -> str:
    """Such as `12 × NodeLimit (node0000 may have 1)`, the most frequent first."""
    told = words or {}
    return ", ".join(
        f"{n} × {what}" + (f" ({told[what]})" if told.get(what) else "") for what, n in found.most_common()
    )


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
