"""Logs of processes that run over HTTP: opened when the process asks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dds_adapters.sql import Database, upgrade
from dds_core.component import COMPONENTS
from dds_core.log import Envelope, EventLog
from dds_core.replay import verify


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    url = f"sqlite:///{tmp_path}/log.sqlite3"
    upgrade(url)
    with Database(url) as database:
        yield database


class Opened:
    """Opens the log when the process asks for it; the test may read it at any time."""

    def __init__(self, database: Database, *, component: str = "scaler") -> None:
        self.database = database
        self._component = component
        self._name = f"lab/{component}"

    def __call__(self, uid: str) -> EventLog:
        return self.database.open_log(self._name, cluster=uid, recorded_at=time.time_ns() // 1000)

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
