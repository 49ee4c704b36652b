"""The facts of a recording with their instants, as lines of JSON: what a test of purity gives to the core alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from dds_adapters.kubernetes.recording import replay_recording
from dds_core.engine import Step
from dds_core.events import DeadlinePassed, Event, decode, encode
from dds_core.scaler.policy import Policy

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"


class Line(msgspec.Struct):
    """One fact: its type, its instant and its JSON form."""

    type: str
    at: int
    data: msgspec.Raw


def facts_of(recording: str, policy: Policy) -> bytes:
    """What the recording tells under a policy; deadlines are left out, the core finds them itself."""
    steps = replay_recording(RECORDINGS / f"{recording}.jsonl.gz", policy)
    return lines(steps)


def lines(steps: Iterable[Step]) -> bytes:
    """The facts of steps that were taken, without deadlines."""
    told = [(step.fact, step.at) for step in steps if not isinstance(step.fact, DeadlinePassed)]
    return b"\n".join(msgspec.json.encode(Line(type(f).__name__, at, msgspec.Raw(encode(f)))) for f, at in told)


def read(told: bytes) -> list[tuple[int, Event]]:
    found = [msgspec.json.decode(line, type=Line) for line in told.splitlines()]
    return [(line.at, decode(line.type, bytes(line.data))) for line in found]
