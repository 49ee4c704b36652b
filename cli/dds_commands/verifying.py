"""Verification for `dds log verify`: in one process, or of a long log in several. Each process verifies parts of the log, from a
checkpoint to another, and reads them itself; `dds_core.replay.parts` joins what they find."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from dds_adapters.plugins import component_of
from dds_adapters.sql import Database, SqlLog
from dds_commands.running import calm_collector
from dds_commands.screen import position_bar, progress
from dds_commands.sources import Log
from dds_core.events.base import SCALER
from dds_core.events.shared import Started
from dds_core.log import BATCH, CHECKPOINT, Anchor, ChainCheck, Envelope, Head, checked
from dds_core.replay import Part, PartReport, VerifyReport, divided, joined, verify, verify_part

LONG = 50_000
"""Events from which on a log is verified in several processes: to start one takes as long as some thousands of events."""
MOST_JOBS = 4
"""Processes by default, at most: each holds two states of the component for a moment, 300 MiB with 10,000 claims."""
_PARTS = 2
"""Parts for each process, so that none waits long for the others. More of them would load more checkpoints twice."""


def verified(
    log: Log, head: Head | None, anchors: Sequence[Anchor], jobs: int | None
) -> tuple[VerifyReport, ChainCheck]:
    """Verify the chain and the decisions of a log up to `head`, if it has one. Raises as `verify` and `ChainCheck.feed` do."""
    jobs = jobs if jobs is not None else min(_cores(), MOST_JOBS)
    some = _parts(log, head, jobs) if head is not None and jobs > 1 else []
    if head is not None and len(some) > 1:
        whole = joined(_in_processes(log, some, head, anchors, jobs))
        if whole is not None:
            return whole
    check = ChainCheck(anchors)
    rows = log.source.read(log.after, head.position if head is not None else None)
    return verify(progress(checked(rows, check), log.length, "verifying"), component=log.component), check


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _parts(log: Log, head: Head, jobs: int) -> list[Part]:
    first, source = log.after + 1, log.source
    if not isinstance(source, SqlLog) or not log.url or head.position - first < LONG:
        return []
    begin = source.read_lean(first - 1, first, types=[CHECKPOINT])
    starts = [*begin, *source.read_lean(stream=SCALER, types=[Started.__name__])]
    cuts = [position for position, _ in source.places(CHECKPOINT, SCALER)]
    return list(divided(first, head.position, cuts, starts, _PARTS * jobs, log.component.fingerprint))


def _in_processes(
    log: Log, some: Sequence[Part], head: Head, anchors: Sequence[Anchor], jobs: int
) -> list[PartReport | None]:
    """The report on each part. None for the parts of a log in which something was found that ends a verification, since only the
    whole log in its order says what comes first; and where a process died."""
    found: list[PartReport | None] = [None] * len(some)
    waiting = list(enumerate(some))
    with (
        _processes(min(jobs, len(some)), (log.url, log.log_name, head, tuple(anchors))) as workers,
        position_bar(log.length, "verifying") as bar,
        suppress(EOFError, ConnectionError),
    ):
        at: dict[Connection, int] = {}
        done = 0
        while waiting or at:
            for worker in workers:
                if waiting and worker not in at:
                    at[worker], part = waiting.pop(0)
                    worker.send(part)
            for ready in wait(list(at)):
                assert isinstance(ready, Connection)
                told = ready.recv()
                if told is None:
                    return found
                if isinstance(told, int):
                    done += told
                    bar(min(done, log.length))
                else:
                    found[at.pop(ready)] = told
    return found


@contextmanager
def _processes(number: int, log: tuple[str, str, Head, tuple[Anchor, ...]]) -> Iterator[list[Connection]]:
    """Connections to processes that verify parts of a log, ended with the block. Ctrl-C reaches this process alone."""
    context = get_context("spawn")
    started = []
    ends = []
    try:
        with _no_interrupt():
            for _ in range(number):
                mine, other = context.Pipe()
                process = context.Process(target=_work, args=(other, *log), daemon=True)
                process.start()
                other.close()  # so that the end of the process is the end of the connection
                started.append(process)
                ends.append(mine)
        yield ends
    finally:
        for process in started:
            process.terminate()  # they only read
            process.join()


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Processes that are started in the block ignore Ctrl-C, from their first instant on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _work(connection: Connection, url: str, name: str, head: Head, anchors: tuple[Anchor, ...]) -> None:
    """Verify the parts that come by the connection; give the numbers of events read meanwhile, then the report. Ends with the
    process at the other end, and after an error: the verification in one piece then says what is wrong."""
    calm_collector()
    with suppress(Exception), Database(url) as database:
        log = database.log(name)
        while True:
            connection.send(_report(log, connection.recv(), head, ChainCheck(anchors), connection))
            gc.collect()  # the state of the last part is in cycles, and as large as that of the next


def _report(log: SqlLog, part: Part, head: Head, check: ChainCheck, connection: Connection) -> PartReport | None:
    first = part.first or log.span()[0]
    last = part.last + 1 if part.last else head.position
    component: Any = component_of(log.name)
    return verify_part(_told(log.read(first - 1, last), connection), component, part, check)


def _told(rows: Iterator[Envelope], connection: Connection) -> Iterator[Envelope]:
    """The same rows. Gives the number of each batch to the connection."""
    for number, row in enumerate(rows, 1):
        if not number % BATCH:
            connection.send(BATCH)
        yield row
