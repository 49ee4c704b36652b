"""Clocks step back: that of a recorder, or that of a program's host. The log is then as whole as any other."""

from __future__ import annotations

import msgspec
import pytest

from dds_adapters.kubernetes.recording import replay_events
from dds_core.replay import verify
from dds_core.scaler.component import SCALER
from tests.core.golden.replays import CODE, log_of, policy_of, recorded

POLICY = {"mode": "detach", "hand_over": "clear", "no_removal_seconds": 1}
SECOND = 1_000_000


@pytest.mark.parametrize(("name", "place"), [("many_devices", 73), ("two_requests", 49)])
@pytest.mark.parametrize("seconds", [15, 120])
def test_a_recording_whose_clock_steps_back_gives_a_log_that_verifies(name: str, place: int, seconds: int) -> None:
    """The event at `place` gives back a device whose idle time is over at once: it counts from the instant that its resource
    notes. The next event has an earlier instant. Time in a log never goes back, so it counts as no earlier, and a deadline
    passes before any later fact (`dds_core.replay.verify`)."""
    moved = (
        one if number < place else msgspec.structs.replace(one, at=one.at - seconds * SECOND)
        for number, one in enumerate(recorded(name))
    )
    steps = list(replay_events(moved, policy_of(name).model_copy(update=POLICY), code=CODE))
    assert [step.at for step in steps] == sorted(step.at for step in steps)
    assert verify(log_of(steps).read(), SCALER).differences == []
