"""Decisions in words, as what dds does or, in mode observe, would do. Nothing here is folded or carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dds_core.events import Decision
from dds_core.scaler import events as e
from dds_core.timeline.clock import time_of_day
from dds_core.timeline.known import Known


def decision_words(decision: Decision, known: Known) -> str:
    """One sentence, "dds would …" when it was decided in mode observe, "again" when it was issued again after a start."""
    phrase = PHRASES[type(decision)](decision, known)
    if getattr(decision, "mode", "") == "observe":
        return f"dds would {phrase}"
    return f"dds decided {'again ' if getattr(decision, 'reissued', False) else ''}to {phrase}"


def _names(uids: tuple[str, ...], known: Known) -> str:
    return ", ".join(known.name(uid) for uid in uids)


def _order(d: e.AttachOrdered, known: Known) -> str:
    whom = f" for {_names(d.claims, known)}" if d.claims else ""
    why = f" ({d.reason})" if d.reason != "demand" else ""
    if d.previous is None:
        return f"make request {d.request}: {d.size} of {d.model} for {d.node}{whom}{why}"
    return f"raise request {d.request} from {d.previous} to {d.size} of {d.model} for {d.node}{whom}{why}"


def _reserve(d: e.Reserved, known: Known) -> str:
    devices = ", ".join(p.uuid or p.device for p in d.promises)
    return f"promise {devices} to {known.name(d.claim)}"


def _hand_over(d: e.HandOver, known: Known) -> str:
    entries = [entry for signal in d.signals for entry in signal.entries]
    told = ", ".join(f"{entry.condition} on {entry.device}" for entry in entries)
    claims = ", ".join(known.name(signal.claim) for signal in d.signals)
    pod = f", so that pod {known.name(d.pod)} is scheduled again" if d.pod else ""
    return f"set {told} of {claims}{pod} (hand-over to {d.node}, {d.steering})"


def _failure(d: e.FailureSignalled, known: Known) -> str:
    told = ", ".join(f"{entry.condition} on {entry.device}" for entry in d.signal.entries)
    return f"set {told} of {known.name(d.claim)}, so that the scheduler looks elsewhere"


def _labels(d: e.NodeLabelled, known: Known) -> str:
    put = ", ".join(f"{key}={value}" for key, value in sorted(d.labels.items()) if value is not None)
    taken = ", ".join(key for key, value in sorted(d.labels.items()) if value is None)
    parts = [*([f"label {d.node} with {put}"] if put else []), *([f"take {taken} off {d.node}"] if taken else [])]
    return " and ".join(parts) + (f": {d.reason}" if d.reason else "")


def _mark(d: e.VictimMarked, known: Known) -> str:
    return f"mark {d.uuid or d.name} on {d.node} to go back to the pool: {d.reason}"


def _lower(d: e.DetachOrdered, known: Known) -> str:
    who = _names(d.victims, known)
    if d.unattached:
        why = f"the fabric has nothing for {who}, and nobody waits any more"
        return f"lower request {d.request} from {d.previous} to {d.size}: {why}"
    return f"lower request {d.request} from {d.previous} to {d.size}, so that {who} goes back to the pool"


PHRASES: dict[type[Decision], Callable[[Any, Known], str]] = {
    e.AttachOrdered: _order,
    e.Reserved: _reserve,
    e.ReservationDropped: lambda d, known: f"take back what was promised to {known.name(d.claim)}: {d.reason}",
    e.HandOver: _hand_over,
    e.Steered: lambda d, known: (
        f"nominate {d.node} for pod {known.name(d.pod)} and clear the allocation of {_names(d.claims, known)}"
    ),
    e.ClaimFailed: lambda d, known: f"give up this attempt of {known.name(d.claim)}: {d.reason}: {d.message}",
    e.FailureSignalled: _failure,
    e.CoolDown: lambda d, known: (
        f"keep the scheduler from {d.model} on {d.node} until {time_of_day(d.until)}: {d.reason}"
    ),
    e.CoolDownOver: lambda d, known: f"let the scheduler choose {d.model} on {d.node} again",
    e.NodeLabelled: _labels,
    e.VictimMarked: _mark,
    e.VictimUnmarked: lambda d, known: f"take the mark off {d.name}: {d.reason}",
    e.TaintLifted: lambda d, known: f"delete taint rule {d.name}, so that the scheduler may choose its device again",
    e.ClaimsListWanted: lambda d, known: f"list all claims, to be sure that nobody holds {known.name(d.resource)}",
    e.DetachOrdered: _lower,
    e.UsedStamped: lambda d, known: f"note on {d.name} when it was last used",
    e.Alerted: lambda d, known: f"call a person: {d.reason}: {d.text}",
}
"""How the decisions of each type are told; a component adds its own."""
