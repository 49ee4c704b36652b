"""What people wait for: commands that read a log of a million events, each a process of its own, and starting on a log of five
million with a checkpoint.

The million comes from the engine itself on a fleet under churn (mode attach), with checkpoints as often as a process writes
them, so that it verifies. Of the five million only
what stands after the checkpoint is read at a start, so the rest is the sample lives.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from benchmarks.appending import CLUSTER, LOG
from benchmarks.fleet import DEVICES_A_NODE, Fact, Fleet
from benchmarks.measure import Row
from benchmarks.samples import EVENTS_A_CLAIM, batches
from dds_adapters.runtime.live_settings import CHECKPOINT_EVENTS
from dds_adapters.runtime.loop import checkpoint_after
from dds_adapters.sql import Database, SqlLog, upgrade
from dds_core.engine import new_event
from dds_core.events import Checkpoint, Started, Synced, decode, encode
from dds_core.log import Group
from dds_core.replay import fold_log
from dds_core.scaler.component import SCALER, Engine
from dds_core.scaler.state import PROJECTION, dump

T = TypeVar("T")

CLAIMS = 10_000
READ = 1_000_000
MEMORY = 300
"""MiB that a command may use, each of its processes."""
TAIL = 45_000
"""Events after the checkpoint that a start finds: as many as a process leaves that is never idle."""

POLICY: dict[str, object] = {"mode": "attach", "scan_interval_seconds": 0}


class Writer:
    """Runs an engine on a fleet and appends what it gives, some five thousand events to a commit."""

    def __init__(self, log: SqlLog) -> None:
        self._log = log
        self._epoch = log.take_epoch(0)
        self._ordinal = 0
        self._waiting: list[Group] = []
        self._events = 0
        self.checkpoint_at = self.checkpoint_bytes = 0
        self.fleet = Fleet(CLAIMS // DEVICES_A_NODE)
        self.engine = Engine()

    def begin(self) -> None:
        self._run(self.fleet.begin(POLICY))

    def churn(self, until: int, *, checkpoints: bool = True) -> None:
        """Take turns until the log ends at position `until` or a little later; `checkpoints`: with those of a process that is
        idle now and then."""
        while (position := self._log.head().position) < until:
            after = checkpoint_after(CHECKPOINT_EVENTS, self.checkpoint_bytes)
            if checkpoints and position - self.checkpoint_at >= after:
                self.checkpoint()
            for _ in range(100):
                self._run(self.fleet.turn())
            self.flush()

    def checkpoint(self) -> None:
        self.flush()
        fact = Checkpoint(PROJECTION, dump(self.engine.state))
        event = new_event(fact, self.engine.state.process.now, None)
        self.checkpoint_bytes = len(event.data)
        self._put(Group(self._ordinal, (event,)))
        self.flush()
        self.checkpoint_at = self._log.head().position

    def fill(self, events: int) -> None:
        """Append sample lives as they are; the engine does not see them."""
        for batch in batches(events // EVENTS_A_CLAIM, 5000):
            for group in batch:
                self._put(Group(self._ordinal, group.events))
            self.flush()

    def flush(self) -> None:
        self._log.append(self._waiting, epoch=self._epoch, recorded_at=self.engine.state.process.now)
        self._waiting, self._events = [], 0

    def _run(self, facts: Iterator[Fact]) -> None:
        for step in self.engine.run(facts):
            self._put(step.group(self._ordinal))
        if self._events >= 5000:
            self.flush()

    def _put(self, group: Group) -> None:
        self._waiting.append(group)
        self._events += len(group.events)
        self._ordinal += 1


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _row(what: str, taken: float, at_most: float | None = None) -> Row:
    target = "" if at_most is None else f"≤ {at_most:g} s"
    return Row(what, f"{taken:.3g} s", target=target, met=None if at_most is None else taken <= at_most)


def _command(at_most: float | None, *arguments: str, events: int) -> Row:
    """Run `dds` as a person does, interpreter and output included; a failure ends the measurement. Beside the time: that of all
    its processes on a core, and the memory of the largest."""
    command = [sys.executable, "-c", "from dds_commands import main; main()", *arguments]
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    taken = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    memory = used.ru_maxrss / 1024
    name = " ".join(
        "NODE" if one.startswith("node") else "CLAIM" if one.startswith("claim-") else one for one in arguments[:-1]
    )
    row = _row(f"`dds {name}`, {events:,} events", taken, at_most)
    met = None if row.met is None else row.met and memory <= MEMORY
    target = f"{row.target}, ≤ {MEMORY} MiB" if row.target else ""
    beside = f"{used.ru_utime + used.ru_stime:.3g} s of a core, {memory:.0f} MiB"
    return replace(row, against=beside, target=target, met=met)


def _start(database: Database) -> None:
    """What a process does before it lists the cluster, and the level pass that follows the list."""
    log = database.log(LOG)
    head = log.head()
    engine = Engine(fold_log(log.read_lean(after=head.checkpoint - 1), SCALER))
    now = engine.state.process.now
    engine.feed(Started("benchmark", "", PROJECTION, log.take_epoch(now), "attach"), now)
    engine.feed(Synced(), now)
    assert len(engine.state.lifecycle.lives) >= CLAIMS


def _checkpoint(claims: int) -> Row:
    """What the deciding thread does for a checkpoint, beside what a reader does with it."""
    engine = Engine()
    for _ in engine.run(Fleet(claims // DEVICES_A_NODE).begin(POLICY)):
        pass
    data: list[bytes] = []
    taken = _seconds(lambda: data.append(encode(Checkpoint(PROJECTION, dump(engine.state)))))
    load = _seconds(lambda: SCALER.load(decode(Checkpoint.__name__, data[0]).picture))  # type: ignore[attr-defined]
    row = _row(f"a checkpoint of {claims:,} claims: dump and encode", taken)
    return replace(row, against=f"{len(data[0]) / 1e6:.3g} MB; decode and load: {load:.2g} s")


def _written(url: str, events: int) -> tuple[str, str]:
    """Make the log; gives a claim and a node of it."""
    upgrade(url)
    with Database(url, synchronous="NORMAL") as database:
        writer = Writer(database.open_log(LOG, cluster=CLUSTER, recorded_at=0))
        writer.begin()
        writer.churn(events)
        return next(iter(writer.engine.state.lifecycle.lives)), writer.fleet.node_names()[0]


def _apart(work: Callable[..., T], *of: object) -> T:
    """Do it in a process of its own: what this one has used counts as used by each command that it begins."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as one:
        return one.submit(work, *of).result()


def _million(url: str, events: int) -> list[Row]:
    claim, node = _apart(_written, url, events)
    asked: tuple[tuple[float | None, tuple[str, ...]], ...] = (
        (1, ("status",)),
        (2, ("claims",)),
        (1, ("timeline", claim)),
        (None, ("timeline", node)),
        (20, ("incident",)),
        (20, ("report",)),
        (35, ("log", "verify")),
    )
    return [_command(at_most, *arguments, url, events=events) for at_most, arguments in asked]


def _five_million(url: str, events: int) -> list[Row]:
    tail = min(TAIL, events // 10)
    upgrade(url)
    with Database(url, synchronous="NORMAL") as database:
        writer = Writer(database.open_log(LOG, cluster=CLUSTER, recorded_at=0))
        writer.fill(events - tail)
        writer.begin()
        writer.checkpoint()
        writer.churn(events, checkpoints=False)
    with Database(url) as database:
        what = f"start: checkpoint of {CLAIMS:,} claims, {tail:,} events after it, level pass; log of {events:,}"
        return [_row(what, _seconds(lambda: _start(database)), 10)]


def measure(folder: Path, rounds: int, events: int = READ) -> list[Row]:
    """Tell seconds, each measured once: the logs take minutes to make and gigabytes to hold. `events`: those of the log that is
    read; a start reads the end of one five times as long."""
    return [
        *(_apart(_checkpoint, claims) for claims in (CLAIMS // 5, CLAIMS)),
        *_million(f"sqlite:///{folder / 'million.sqlite3'}", events),
        *_five_million(f"sqlite:///{folder / 'five-million.sqlite3'}", 5 * events),
    ]
