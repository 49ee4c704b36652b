"""Logs to test with: one place for each implementation, and events that tell where they came from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from dds_adapters import sql
from dds_core.log import EventLog, Group, MemoryLog, NewEvent, SaltSource, fixed_salts

SALTS = fixed_salts(b"tests")
CLUSTER = "0b5c8a52-kube-system"
NAME = "prod-eu/scaler"
NOON = 1_790_000_000_000_000


class Place(Protocol):
    """Where logs are kept; the same log can be opened again."""

    def open(self, name: str = NAME, cluster: str = CLUSTER, salts: SaltSource = SALTS) -> EventLog: ...

    def close(self) -> None: ...


class MemoryPlace:
    def __init__(self) -> None:
        self._logs: dict[str, MemoryLog] = {}

    def open(self, name: str = NAME, cluster: str = CLUSTER, salts: SaltSource = SALTS) -> EventLog:
        if name not in self._logs:
            self._logs[name] = MemoryLog(name, cluster=cluster, recorded_at=NOON, salts=salts)
        self._logs[name].open_as(cluster)
        return self._logs[name]

    def close(self) -> None:
        self._logs.clear()


class SqlPlace:
    def __init__(self, url: str) -> None:
        sql.upgrade(url)
        self.url = url
        self.database = sql.Database(url)

    def open(self, name: str = NAME, cluster: str = CLUSTER, salts: SaltSource = SALTS) -> EventLog:
        return self.database.open_log(name, cluster=cluster, recorded_at=NOON, salts=salts)

    def close(self) -> None:
        self.database.close()


def sqlite_url(folder: Path, name: str = "log.sqlite3") -> str:
    return f"sqlite:///{folder / name}"


def fact(
    stream: str = "claim-1",
    type: str = "ClaimSeen",
    data: bytes = b'{"a":1}',
    *,
    cause: int | None = None,
    at: int = NOON,
) -> NewEvent:
    return NewEvent(stream, type, 1, at, data, cause=cause)


def group(ordinal: int, *events: NewEvent) -> Group:
    return Group(ordinal, events or (fact(data=b'{"ordinal":%d}' % ordinal),))


def groups(count: int, first: int = 0, streams: int = 5) -> list[Group]:
    """Groups of one to three events in several streams; the content follows from the ordinal alone."""
    return [told_group(ordinal, streams) for ordinal in range(first, first + count)]


def told_group(ordinal: int, streams: int = 5) -> Group:
    name = f"claim-{ordinal % streams}"
    data = b'{"ordinal":%d}' % ordinal
    events = [
        NewEvent(name, "ClaimSeen", 1, NOON + ordinal, data),
        NewEvent(name, "ClaimMoved", 1, NOON + ordinal, data, "Pending", "Attaching"),
        NewEvent("scaler", "AttachOrdered", 2, NOON + ordinal, data, cause=1),
    ]
    return Group(ordinal, tuple(events[: 1 + ordinal % 3]))


def checkpoint(ordinal: int, data: bytes = b'{"picture":{}}') -> Group:
    return Group(ordinal, (NewEvent("scaler", "Checkpoint", 1, NOON + ordinal, data),))


def opened(place: Place, wanted: Sequence[Group] = (), batch: int = 100) -> tuple[EventLog, int]:
    """A log with these groups, and the epoch that its writer took."""
    log = place.open()
    epoch = log.take_epoch(NOON)
    for start in range(0, len(wanted), batch):
        log.append(wanted[start : start + batch], epoch=epoch, recorded_at=NOON)
    return log, epoch
