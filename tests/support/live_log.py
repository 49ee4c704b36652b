"""Logs of processes that run over HTTP: opened when the process asks, out of reach when the test says so."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.sql import Database, upgrade
from dds_core.component import COMPONENTS
from dds_core.errors import LogUnreachable
from dds_core.log import Envelope, EventLog, Group
from dds_core.replay import verify


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    url = f"sqlite:///{tmp_path}/log.sqlite3"
    upgrade(url)
    with Database(url) as database:
        yield database


class Cut:
    """A log that is out of reach for as long as `away` is set."""

    def __init__(self) -> None:
        self.away = threading.Event()
        self.log: EventLog

    def append(
        self, groups: Sequence[Group], *, epoch: int, recorded_at: int, expected: Mapping[str, int] | None = None
    ) -> list[Envelope]:
        if self.away.is_set():
            raise LogUnreachable("does not answer", where="the test's log")
        return self.log.append(groups, epoch=epoch, recorded_at=recorded_at, expected=expected)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)


class Opened:
    """Opens the log when the process asks for it; the test may read it at any time."""

    def __init__(self, database: Database, cut: Cut | None = None, *, component: str = "scaler") -> None:
        self.database = database
        self.cut = cut
        self.times = 0
        """How often it was opened."""
        self._component = component
        self._name = f"lab/{component}"

    def __call__(self, uid: str) -> EventLog:
        self.times += 1
        log = self.database.open_log(self._name, cluster=uid, recorded_at=time.time_ns() // 1000)
        if self.cut is None:
            return log
        self.cut.log = log
        return self.cut

    @property
    def log(self) -> EventLog:
        return self.database.log(self._name)

    def types(self) -> Counter[str]:
        """How many events of each type there are."""
        return Counter(row.type for row in self.rows())

    def rows(self) -> list[Envelope]:
        """What was written until now, which may be nothing."""
        heads = {head.log for head in self.database.heads()}
        return list(self.log.read()) if self._name in heads else []

    def sound(self) -> bool:
        return verify(self.log.read(), COMPONENTS[self._component]).ok
