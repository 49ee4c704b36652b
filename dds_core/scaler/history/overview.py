"""A whole log at a glance: numbers, the stages of which all waiting was made, and why and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dds_core.scaler.history.claims import BOUND, ENDED, WHOSE, ClaimHistory
from dds_core.scaler.history.devices import DeviceHistory
from dds_core.scaler.history.fold import History
from dds_core.scaler.history.words import advice, summary
from dds_core.scaler.spending import USED
from dds_core.timeline.instants import duration

_ADVISED = 20
"""Advice is looked for in the claims that waited longest, so many of them."""
_TOLD = 2
CAUSES = 3
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
_LOST = {"diverted": "went elsewhere", "moved": "allocated anew"}


class Tile(NamedTuple):
    """A number (`value`, with its unit) and what it counts; `note`: what it is made of. `bad`: something is to be looked at.
    `claim`: the uid of the one that it is about, "" for none."""

    name: str
    value: str
    note: str = ""
    bad: bool = False
    claim: str = ""


class Cause(NamedTuple):
    """A stage, its percentage of all waiting, how long all claims were in it together, how many, and the longest of them (name
    and uid)."""

    stage: str
    share: int
    waited: str
    words: str
    claims: int
    longest: str
    uid: str


class Overview(NamedTuple):
    """Numbers, the stages that took most of the waiting (up to `CAUSES`), and sentences: what became of the claim that waited
    longest and was not served, what failed, what would have helped."""

    tiles: list[Tile]
    causes: list[Cause]
    notes: list[str]

    @property
    def data(self) -> dict[str, Any]:
        """As plain data."""
        tiles, causes = [one._asdict() for one in self.tiles], [one._asdict() for one in self.causes]
        return {"tiles": tiles, "causes": causes, "notes": self.notes}


def ranked(history: History, since: int = 0) -> list[ClaimHistory]:
    """The claims that existed at an instant or later, those that waited longest first."""
    found = [one for one in history.claims.values() if _ended(one, history.now) >= since]
    return sorted(found, key=lambda one: (-one.waited(history.now), one.name, one.uid))


def devices_since(history: History, since: int = 0) -> list[DeviceHistory]:
    """The devices that existed at an instant or later, by node, model and name."""
    found = [one for one in history.devices.values() if (one.gone or history.now) >= since]
    return sorted(found, key=lambda one: (one.node, one.model, one.name, one.first, one.uid))


def overview(history: History, since: int = 0) -> Overview:
    """Of what existed at an instant or later."""
    claims, devices = ranked(history, since), devices_since(history, since)
    waiting = [one for one in claims if one.spans]
    alerts = Counter(one.reason for one in history.alerts if one.at >= since)
    return Overview(
        [
            _counted(claims),
            *_waits(waiting, history.now),
            *_attempts(waiting),
            *_devices(devices, history.now),
            Tile("alerts", str(sum(alerts.values())), _times(alerts), bad=bool(alerts)),
        ],
        _causes(waiting, history.now),
        [*_unserved(waiting, history), *_failures(waiting), *_helpful(waiting, history)],
    )


def _ended(claim: ClaimHistory, now: int) -> int:
    last = claim.spans[-1].until or now if claim.spans else 0
    return max(last, claim.gone or now)


def _counted(claims: Sequence[ClaimHistory]) -> Tile:
    found = Counter(_OUTCOMES.get(one.outcome, _OTHER) for one in claims)
    told = ", ".join(f"{found[words]} {words}" for words in (*_OUTCOMES.values(), _OTHER) if found[words])
    return Tile("claims", str(len(claims)), told or "none was seen", bad=any(one.outcome == "failed" for one in claims))


def _waits(claims: Sequence[ClaimHistory], now: int) -> Iterator[Tile]:
    times = sorted(one.waited(now) for one in claims)
    if len(times) > 1:
        half, most = (duration(times[-(-len(times) * percent // 100) - 1]) for percent in (50, 95))
        yield Tile("median wait", half, f"95 % waited {most} or less")
    if times:
        yield Tile("longest wait", duration(times[-1]), claims[0].name, claim=claims[0].uid)


def _attempts(claims: Sequence[ClaimHistory]) -> Iterator[Tile]:
    found = [one.outcome for claim in claims for one in claim.attempts]
    if found:
        lost = Counter(_LOST[one] for one in found if one in _LOST)
        failed = found.count("failed")
        told = ", ".join(f"{number} {how}" for how, number in lost.most_common())
        yield Tile("failed attempts", f"{failed} of {len(found)}", told, bad=bool(failed))


def _devices(devices: Sequence[DeviceHistory], now: int) -> Iterator[Tile]:
    spent: Counter[str] = Counter()
    for one in devices:
        spent.update(one.spent(now))
    nodes = len({one.node for one in devices})
    yield Tile(
        "devices", str(len(devices)), f"on {nodes} node{'' if nodes == 1 else 's'}" if devices else "none attached"
    )
    if whole := sum(spent.values()):
        rest = ((state, round(100 * micros / whole)) for state, micros in spent.most_common() if state != USED)
        told = ", ".join(f"{state} {share} %" for state, share in rest if share)
        yield Tile("time in use", f"{round(100 * spent[USED] / whole)} %", told)


def _causes(claims: Sequence[ClaimHistory], now: int) -> list[Cause]:
    total: Counter[str] = Counter()
    many: Counter[str] = Counter()
    longest: dict[str, tuple[int, ClaimHistory]] = {}
    for one in claims:
        for stage, micros in one.stages(now).items():
            total[stage] += micros
            many[stage] += 1
            if micros > longest.get(stage, (0, one))[0]:
                longest[stage] = micros, one
    whole = sum(total.values())
    return [
        Cause(stage, share, duration(micros), WHOSE[stage], many[stage], one.name, one.uid)
        for stage, micros in total.most_common(CAUSES)
        if (share := round(100 * micros / whole))
        for _, one in [longest[stage]]
    ]


def _unserved(claims: Sequence[ClaimHistory], history: History) -> Iterator[str]:
    """What became of the claim that waited longest of those that were not served."""
    found = [one for one in claims if one.outcome not in (BOUND, "unused", ENDED)]
    yield from (f"{one.name}: {summary(one, history)[0]}" for one in found[:1])


def _failures(claims: Sequence[ClaimHistory]) -> Iterator[str]:
    """Why attempts failed, and how often, each reason with its most frequent message."""
    failures = [one for claim in claims for one in claim.attempts if one.outcome == "failed"]
    causes = Counter((one.reason, one.cause) for one in failures)
    often = dict(reversed([pair for pair, _ in causes.most_common()]))
    times = Counter(one.reason for one in failures)
    if times:
        words = {reason: f"{reason} ({why})" if reason and why else reason or why for reason, why in often.items()}
        told = (f"{n} × {words[reason]}" for reason, n in times.most_common())
        yield f"failed: {', '.join(told)}"


def _helpful(claims: Sequence[ClaimHistory], history: History) -> Iterator[str]:
    """The advice that is common to most of the claims that waited longest."""
    found = Counter(_without_times(text) for one in claims[:_ADVISED] for text in dict.fromkeys(advice(one, history)))
    yield from (f"would have helped: {text}" for text, _ in found.most_common(_TOLD))


def _without_times(text: str) -> str:
    """Without the details of one claim, so that the same advice counts as the same."""
    return text.rpartition(": ")[0] if text.startswith(_OF_ONE) else text


def _times(found: Counter[str]) -> str:
    """Such as `12 × NodeLimit`, the most frequent first."""
    return ", ".join(f"{n} × {what}" for what, n in found.most_common())
