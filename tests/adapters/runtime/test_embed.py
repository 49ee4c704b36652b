"""What `run_scaler` passes to the embedding program, and what it does when that program's callback fails."""

from __future__ import annotations

import msgspec

from dds_adapters import embed
from dds_adapters.kubernetes.watch.delta_queue import ADDED, SYNCED, Arrival
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS
from dds_adapters.runtime.loop import Committed
from dds_adapters.runtime.scaler import ScalerController
from dds_core.errors import DdsError
from dds_core.log import MemoryLog
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import State

START = 1_800_000_000_000_000


def test_a_callback_that_fails_is_reported_as_the_callers_and_misses_no_other_group() -> None:
    seen: list[int] = []
    reported: list[tuple[str, DdsError]] = []

    def on_commit(committed: Committed, state: State) -> None:
        seen.append(committed.envelopes[0].position)
        if committed.envelopes[0].type == "NodeObserved":
            raise ValueError("no such node\npassword=hunter2")

    decisions: list[DdsError] = []
    log = MemoryLog("test/scaler", cluster="c", recorded_at=START)
    listener = embed.Callbacks(on_commit, lambda part, error: reported.append((part, error)))
    scaler = ScalerController(log, Policy(mode="attach"), code="t", listeners=[listener], on_error=decisions.append)
    scaler.open(START)
    nodes = [
        msgspec.json.encode({"metadata": {"uid": f"u{i}", "name": f"n{i}", "resourceVersion": "1"}}) for i in range(2)
    ]
    arrivals = [Arrival("nodes", ADDED, raw, START) for raw in nodes]
    scaler.turn([*arrivals, *(Arrival(one, SYNCED, b"", START) for one in VERSIONS)], (), START)
    facts = [row.position for row in log.read() if row.causation_id is None and row.position > 1]
    assert seen == facts and len(facts) >= 5
    assert not decisions
    assert [part for part, _ in reported] == ["on_commit", "on_commit"]
    position = next(row.position for row in log.read() if row.type == "NodeObserved")
    assert str(reported[0][1]) == (
        f"position {position}: the caller's function failed with ValueError: no such node password=[removed]; "
        "mend it; the scaler goes on"
    )
