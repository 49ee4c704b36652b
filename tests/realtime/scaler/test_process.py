"""The live scaler as a process: over HTTP, on a real log, with what befalls it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dds_adapters.kubernetes.watch.delta_queue import Arrival
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS
from dds_adapters.runtime import process as module
from dds_adapters.sql import Database
from dds_lab.shipped import find
from tests.support.live_lab import LiveLab, OurProcess, eventually, without_scaler
from tests.support.live_log import Opened
from tests.support.live_log import database as database

SPEED = 4.0


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LiveLab]:
    with LiveLab(without_scaler(find("first_attach")), tmp_path, speed=SPEED) as lab:
        yield lab


def test_after_a_standstill_no_deadline_passes_before_all_was_listed_anew(
    lab: LiveLab, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STANDSTILL", 2.0)
    opened = Opened(database)
    with OurProcess(lab.cluster(), opened) as ours:
        eventually(lambda: "Synced" in opened.types())
        arrivals = ours.process.arrivals
        take, stood = arrivals.take, threading.Event()

        def stand_still(timeout: float | None = None, limit: int | None = None) -> list[Arrival]:
            if not stood.is_set():
                stood.set()
                time.sleep(7.0)  # a level pass is due each 5 s
            return take(timeout, limit)

        monkeypatch.setattr(arrivals, "take", stand_still)
        assert stood.wait(10)
        eventually(lambda: opened.types()["Synced"] == 2)
    rows = [row for row in opened.log.read() if row.type in ("Stale", "Synced", "DeadlinePassed")]
    types = [row.type for row in rows]
    stale = types.index("Stale")
    assert types.count("Stale") == len(VERSIONS) - 1
    assert set(types[stale : types.index("Synced", stale)]) == {"Stale"}
    assert stale == 1 or rows[stale].occurred_at - rows[stale - 1].occurred_at < 6_000_000, "as it was before"
    assert opened.sound()
    assert any("stood still" in line for line in ours.troubles.lines)
