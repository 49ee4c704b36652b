"""The page's summary of an incident: numbers, the stages of which all waiting was made, and sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from dds_core.scaler.blame import WHOSE
from dds_core.scaler.history.fold import History
from dds_core.scaler.history.incident import LOST, TOLD, Incident
from dds_core.scaler.spending import USED
from dds_core.timeline.instants import duration


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
    """Numbers, the stages that took most of the waiting (up to `incident.TOLD`), and sentences: what failed most, what to do
    first. `dds incident` has all of them."""

    tiles: list[Tile]
    causes: list[Cause]
    notes: list[str]

    @property
    def data(self) -> dict[str, Any]:
        """As plain data."""
        tiles, causes = [one._asdict() for one in self.tiles], [one._asdict() for one in self.causes]
        return {"tiles": tiles, "causes": causes, "notes": self.notes}


def overview(history: History, since: int = 0) -> Overview:
    """Of what existed at an instant or later."""
    found = Incident(history, since)
    alerts = Counter(one.reason for one in found.alerts)
    failed, todo = next(found.failure_lines(), ""), found.todo()
    first = todo[0].words if todo else found.sections()["first"][0]
    return Overview(
        [
            _counted(found),
            *_waits(found),
            *_attempts(found),
            *_devices(found),
            Tile("alerts", str(sum(alerts.values())), _times(alerts), bad=bool(alerts)),
        ],
        [
            Cause(one.stage, one.share, duration(one.micros), WHOSE[one.stage], one.claims, one.longest, one.uid)
            for one in found.waits[:TOLD]
            if one.share
        ],
        [*([f"failed: {failed}"] if failed else []), f"first: {first}"],
    )


def _counted(found: Incident) -> Tile:
    bad = any(one.outcome == "failed" for one in found.claims)
    return Tile("claims", str(len(found.claims)), found.outcomes() or "none was seen", bad=bad)


def _waits(found: Incident) -> Iterator[Tile]:
    times = found.times()
    if len(times) > 1:
        half, most = found.half_and_most()
        yield Tile("median wait", half, f"95 % waited {most} or less")
    if times:
        longest = found.waiting[0]
        yield Tile("longest wait", duration(times[-1]), longest.name, claim=longest.uid)


def _attempts(found: Incident) -> Iterator[Tile]:
    outcomes = [one.outcome for one, _ in found.attempts]
    if outcomes:
        failed = outcomes.count("failed")
        lost = Counter(LOST[one] for one in outcomes if one in LOST)
        told = ", ".join(f"{number} {how}" for how, number in lost.most_common())
        yield Tile("failed attempts", f"{failed} of {len(outcomes)}", told, bad=bool(failed))


def _devices(found: Incident) -> Iterator[Tile]:
    nodes = len({one.node for one in found.devices})
    told = f"on {nodes} node{'' if nodes == 1 else 's'}" if found.devices else "none attached"
    yield Tile("devices", str(len(found.devices)), told)
    if whole := sum(found.spent.values()):
        rest = ((state, round(100 * micros / whole)) for state, micros in found.spent.most_common() if state != USED)
        shares = ", ".join(f"{state} {share} %" for state, share in rest if share)
        yield Tile("time in use", f"{round(100 * found.spent[USED] / whole)} %", shares)


def _times(found: Counter[str]) -> str:
    """Such as `12 × NodeLimit`, the most frequent first."""
    return ", ".join(f"{n} × {what}" for what, n in found.most_common())
