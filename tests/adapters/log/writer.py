"""Writes recordings' replays into logs, in a process of its own, and takes each log on its journeys.

    python -m tests.adapters.log.writer '[{"recording": "first_attach", "mode": "observe", ...}, ...]'

Prints what is to be verified, for each job a JSON object of sources by journey; a source is a list of parts, each a file or
the URL of a database, oldest first. Half way a checkpoint is written, so that a log can be archived there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dds_adapters import jsonl, sql
from dds_adapters.jsonl import JsonlLog
from dds_core.engine import new_event
from dds_core.events import Checkpoint
from dds_core.log import EventLog, EventSource, Group, JoinedSource, MemoryLog
from dds_core.scaler.component import Engine
from dds_core.scaler.state import PROJECTION, dump
from tests.core.golden.replays import CLUSTER, LOG_NAME, RECORDED_AT, SALTS, policy_of, replayed

Source = list[str]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What to write and where. `backend` is memory, sqlite or postgres; `batch` the groups in a transaction; `journeys`
    are stay, moved (exported and imported), round-trip (through PostgreSQL and back to a file), archived (archive and log
    read as one), and restored (archive and rest imported)."""

    recording: str
    mode: str
    backend: str
    batch: int
    journeys: tuple[str, ...]
    folder: str
    databases: tuple[str, ...] = ()


def groups(job: Job) -> Iterator[Group]:
    """The groups of the replay, with a checkpoint in the middle."""
    policy = policy_of(job.recording).model_copy(update={"mode": job.mode})
    middle = sum(1 for _ in replayed(job.recording, policy=policy)) // 2
    engine = Engine()
    ordinal = 0
    for count, step in enumerate(replayed(job.recording, policy=policy, engine=engine)):
        yield step.group(ordinal)
        ordinal += 1
        if count == middle:
            checkpoint = Checkpoint(projection=PROJECTION, picture=dump(engine.state))
            yield Group(ordinal, (new_event(checkpoint, step.at, None),))
            ordinal += 1


_CUTS = ("stay", "moved", "round-trip", "archived", "restored").index
"""The order of journeys: those that cut the log come last."""


class Journeys:
    """Takes a log to other places; each method gives what is to be verified."""

    def __init__(self, job: Job) -> None:
        self._folder = Path(job.folder)
        self._databases = iter(job.databases)

    def run(self, job: Job) -> dict[str, Source]:
        log, place = self._written(job)
        return {name: getattr(self, name.replace("-", "_"))(log, place) for name in sorted(job.journeys, key=_CUTS)}

    def _written(self, job: Job) -> tuple[EventLog, str]:
        if job.backend == "memory":
            log: EventLog = MemoryLog(LOG_NAME, cluster=CLUSTER, recorded_at=RECORDED_AT, salts=SALTS)
            place = ""
        else:
            place = next(self._databases) if job.backend == "postgres" else self._sqlite("written")
            sql.upgrade(place)
            database = sql.Database(place)
            log = database.open_log(LOG_NAME, cluster=CLUSTER, recorded_at=RECORDED_AT, salts=SALTS)
        epoch = log.take_epoch(RECORDED_AT)
        waiting = list(groups(job))
        for start in range(0, len(waiting), job.batch):
            log.append(waiting[start : start + job.batch], epoch=epoch, recorded_at=RECORDED_AT)
        return log, place

    def _sqlite(self, name: str) -> str:
        return f"sqlite:///{self._folder / name}.sqlite3"

    def _file(self, log: EventLog, name: str) -> str:
        path = str(self._folder / f"{name}.jsonl.gz")
        jsonl.export(log, path)
        return path

    def _imported(self, source: EventSource, url: str) -> sql.SqlLog:
        sql.upgrade(url)
        database = sql.Database(url)
        database.import_log(source.read())
        return database.log(LOG_NAME)

    def stay(self, log: EventLog, place: str) -> Source:
        return [place or self._file(log, "stayed")]

    def moved(self, log: EventLog, place: str) -> Source:
        url = self._sqlite("moved")
        self._imported(JsonlLog(self._file(log, "moving")), url)
        return [url]

    def round_trip(self, log: EventLog, place: str) -> Source:
        before = self._file(log, "out")
        there = self._imported(JsonlLog(before), next(self._databases))
        after = self._file(there, "back")
        if Path(before).read_bytes() != Path(after).read_bytes():
            raise SystemExit("the round trip through PostgreSQL has changed the log")
        return [after]

    def archived(self, log: EventLog, place: str) -> Source:
        return [self._archive(log), place or self._file(log, "rest")]

    def restored(self, log: EventLog, place: str) -> Source:
        archive = self._archive(log)
        url = self._sqlite("restored")
        self._imported(JoinedSource([JsonlLog(archive), JsonlLog(self._file(log, "tail"))]), url)
        return [url]

    def _archive(self, log: EventLog) -> str:
        """The archive of the log up to its checkpoint; the log is cut the first time."""
        path = str(self._folder / "archive.jsonl.gz")
        if not log.head().archived:
            jsonl.archive(log, path)
        return path


if __name__ == "__main__":
    jobs = msgspec.json.decode(sys.argv[1], type=list[Job])
    sys.stdout.write(json.dumps([Journeys(job).run(job) for job in jobs]))
