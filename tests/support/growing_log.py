"""A log of a cluster in SQLite that a test appends to, as a scaler does it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dds_adapters.kubernetes.recording import replay_recording
from dds_adapters.sql import Database, SqlLog, upgrade
from dds_core.engine import Step
from dds_core.events import Checkpoint
from dds_core.log import Group
from dds_core.replay import fold_log
from dds_core.scaler.component import SCALER
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import PROJECTION, dump
from tests.support.commands import RECORDINGS

NAME = "lab/scaler"


class Writer:
    """Appends the steps of a recording to a log of a cluster, as a process does it."""

    def __init__(self, log: SqlLog, name: str = "burst") -> None:
        self.log = log
        self.steps = list(replay_recording(RECORDINGS / f"{name}.jsonl.gz", Policy()))
        self.epoch = log.take_epoch(now())
        self._done = self._ordinal = 0

    def write(self, steps: int) -> None:
        chosen = self.steps[self._done : self._done + steps]
        self._append([step.group(self._ordinal + n) for n, step in enumerate(chosen)])
        self._done += steps

    def checkpoint(self) -> None:
        state = fold_log(self.log.read_lean(), SCALER)
        fact = Checkpoint(PROJECTION, dump(state))
        self._append([Step(state.process.now, fact, []).group(self._ordinal)])

    def _append(self, groups: Sequence[Group]) -> None:
        self.log.append(groups, epoch=self.epoch, recorded_at=now())
        self._ordinal += len(groups)


def now() -> int:
    return time.time_ns() // 1000


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path / 'log.sqlite3'}"
    upgrade(found)
    return found


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Database(url) as database:
        log = database.open_log(NAME, cluster="a-cluster", recorded_at=now())
        assert isinstance(log, SqlLog)
        yield Writer(log)
