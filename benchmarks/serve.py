"""The live scaler as a process (`dds serve`, its log in SQLite with full syncs) against the lab's API server, over HTTP.

Measured is what people would feel: from a claim's allocation to the ComposabilityRequest, both instants taken where the API
server stores them; the processor that an idle scaler takes; its memory; the time of a start with an empty log; how fast a
storm of changes goes through to facts in the log; and how much one claim's life makes it write.
"""

from __future__ import annotations

import json
import os
import re
import select
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from benchmarks.measure import Row, short
from benchmarks.serve_storm import LAST
from benchmarks.serve_world import Size
from dds_core.scaler.events import DeviceHeld
from tests.support.ours import running, told_to_us

ALLOCATIONS, PACE = 300, 5.0
SMALL, LARGE = Size(50, 100, 1_000, ALLOCATIONS + 1), Size(1_000, 10_000, 100_000, ALLOCATIONS + 1)
REFERENCE = {50: "160 ms at 50 nodes and 100 claims", 1_000: "3800 ms at 500 nodes and 1,000 claims"}
"""Medians of the reference scaler on a real API server."""
BULKS = ((50, 100), (500, 1_000), (1_000, 10_000))
LAST_SECONDS, CLAIM_MS = 5.0, 8
"""To the last of a thousand, and of processor for each."""
SETTLING, IDLE = 30.0, 60.0
COPIES, WATCHES = 20, 6
PAGES = 10
_SERVED = re.compile(r"page served on (\S+)")
MEDIAN_MS, P99_MS, IDLE_SECONDS, START_SECONDS, MEMORY_MIB, EVENTS, WRITES = 30, 150, 1.0, 10.0, 300, 15_000, 12
TOLD = 150.0
"""Seconds after which what was to come does not come any more."""


@dataclass(frozen=True)
class Run:
    """One run against a cluster: milliseconds, seconds, cores, MiB."""

    median: float
    p99: float
    worst: float
    cpu: float
    writes: float
    start: float
    idle: float | None
    memory: float
    peak: float


def measure(rounds: int) -> list[Row]:
    """Some rounds of each size (an idle minute only at the large one, in the first round), then storms and scenarios."""
    rows: list[Row] = []
    for size in (SMALL, LARGE):
        runs, watched = [], []
        for number in range(min(rounds, 3)):
            runs.append(_run(size, idle=size is LARGE and number == 0))
            if size is SMALL:
                watched.append(_run(size, pages=PAGES))
        rows += _latency(size, runs)
        rows += _large(runs) if size is LARGE else [_watched(runs, watched)]
    rows += [_bulk(*size, rounds) for size in BULKS]
    rows += [
        _storm(rounds, "newest", "newest states only, as in production"),
        _storm(rounds, "whole", "every event"),
    ]
    return rows + [_written(name) for name in ("first_attach", "burst")]


def _latency(size: Size, runs: Sequence[Run]) -> list[Row]:
    what = f"{size.nodes} nodes, {size.claims} claims, {size.pods} bound pods: allocation to request"
    median, p99 = (statistics.median(getattr(run, name) for run in runs) for name in ("median", "p99"))
    worst, cpu = max(run.worst for run in runs), statistics.median(run.cpu for run in runs)
    beside = f"{PACE:g} allocations/s, worst {worst:.0f} ms, {cpu:.0%} of a core, {runs[0].writes:.1f} writes each"
    reference = f"reference on a real API server: {REFERENCE[size.nodes]}"
    return [
        Row(f"{what}, median", f"{median:.1f} ms", reference, None, f"≤ {MEDIAN_MS} ms", median <= MEDIAN_MS),
        Row(f"{what}, p99", f"{p99:.1f} ms", beside, None, f"≤ {P99_MS} ms", p99 <= P99_MS),
    ]


def _watched(alone: Sequence[Run], watched: Sequence[Run]) -> Row:
    without, p99 = (statistics.median(run.p99 for run in runs) for runs in (alone, watched))
    each = ", ".join(f"{one.p99:.1f} and {other.p99:.1f}" for one, other in zip(alone, watched, strict=True))
    what = f"the same with {PAGES} pages of its log open (`--ui-bind-address`), p99"
    beside = f"{p99 / without:.2f} times the {without:.1f} ms without (in turns, without and with: {each})"
    return Row(what, f"{p99:.1f} ms", beside, None, "≤ 1.1 times", p99 <= 1.1 * without)


def _large(runs: Sequence[Run]) -> list[Row]:
    start = statistics.median(run.start for run in runs)
    idle = next(run.idle for run in runs if run.idle is not None)
    memory, peak = (max(getattr(run, name) for run in runs) for name in ("memory", "peak"))
    return [
        _at_most("start with an empty log, to the first request", start, f"{start:.1f} s", START_SECONDS, "s"),
        _at_most(
            "processor of an idle minute", idle, f"{idle:.2f} s", IDLE_SECONDS, "s", "reference: 56 s at 500 nodes"
        ),
        _at_most("resident memory", peak, f"{memory:.0f} MiB, peak {peak:.0f} MiB", MEMORY_MIB, "MiB"),
    ]


def _at_most(what: str, found: float, shown: str, most: float, unit: str, beside: str = "") -> Row:
    return Row(f"the same: {what}", shown, beside, None, f"≤ {most:g} {unit}", found <= most)


# -- one cluster ---------------------------------------------------------------------------------------------------------------


def _run(size: Size, *, idle: bool = False, pages: int = 0) -> Run:
    with tempfile.TemporaryDirectory(prefix="dds-serve-") as name:
        folder = Path(name)
        with _cluster(folder, size, 1) as server:
            began = time.monotonic()
            ui = ["--ui-bind-address", "127.0.0.1:0"] if pages else []
            with _scaler(folder, "detach", "newest", *ui) as ours, _pages(folder / "stderr", pages):
                start = _line(server)["requested"] - began
                time.sleep(SETTLING if size is LARGE else 5.0)
                rested = _idle(ours.pid) if idle else None
                before, since = _cpu(ours.pid), time.monotonic()
                told = _told(server, f"{PACE} {ALLOCATIONS}")
                cpu = (_cpu(ours.pid) - before) / (time.monotonic() - since)
                memory = _memory(ours.pid)
    delays = sorted(told["delays"])
    if len(delays) < ALLOCATIONS or told["bound"] < ALLOCATIONS:
        raise RuntimeError(f"{len(delays)} of {ALLOCATIONS} claims got a request, {told['bound']} were bound")
    writes = sum(count for method, count in told["requests"].items() if method != "GET")
    return Run(
        statistics.median(delays),
        delays[int(0.99 * (len(delays) - 1))],
        delays[-1],
        cpu,
        writes / ALLOCATIONS,
        start,
        rested,
        memory["VmRSS"],
        memory["VmHWM"],
    )


@contextmanager
def _cluster(folder: Path, size: Size, waiting: int) -> Iterator[subprocess.Popen[str]]:
    """An API server that answers, in whose cluster so many claims wait from the start."""
    with _process("serve_cluster", *map(str, (*astuple(size), waiting)), str(folder / "kubeconfig")) as server:
        assert _line(server) == "ready"
        yield server


def _bulk(nodes: int, claims: int, rounds: int) -> Row:
    """A start while many claims wait: to the request of the last, with an empty log."""
    found = sorted(_started(nodes, claims) for _ in range(min(rounds, 3)))
    seconds, cpu = found[len(found) // 2]
    each = cpu / claims * 1000
    what = f"{nodes} nodes, {claims} claims that wait: start with an empty log, to the last request"
    beside = f"{each:.1f} ms of a core a claim; reference on a real API server: 9.7 s for 1,000 claims on 500 nodes"
    most = LAST_SECONDS * claims / 1_000
    target = f"≤ {most:g} s and {CLAIM_MS} ms a claim"
    return Row(what, f"{seconds:.1f} s", beside, None, target, seconds <= most and each <= CLAIM_MS)


def _started(nodes: int, claims: int) -> tuple[float, float]:
    """Seconds to the last request, and seconds of processor until then."""
    with tempfile.TemporaryDirectory(prefix="dds-serve-") as name:
        folder = Path(name)
        with _cluster(folder, Size(nodes, 0, 0, claims), claims) as server:
            began = time.monotonic()
            with _scaler(folder, "attach", "newest") as ours:
                return _line(server)["requested"] - began, _cpu(ours.pid)


@contextmanager
def _pages(said: Path, number: int) -> Iterator[None]:
    """Keep so many connections of pages open, and read all that the server sends."""
    with ExitStack() as ends:
        for _ in range(number):
            _until(lambda: _SERVED.search(said.read_text()))
            found = _SERVED.search(said.read_text())
            assert found is not None
            page = ends.enter_context(urlopen(f"{found[1]}/events", timeout=TOLD))
            threading.Thread(target=_read, args=(page,), daemon=True).start()
        yield


def _read(page: Any) -> None:
    with suppress(OSError, ValueError):  # until it is closed
        while page.readline():
            pass


@contextmanager
def _scaler(folder: Path, mode: str, queue: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """`dds serve` with metrics and health on; its log is `log.sqlite3`."""
    options = [
        "--kubeconfig",
        str(folder / "kubeconfig"),
        "--log",
        str(folder / "log.sqlite3"),
        "--migrate",
        "--mode",
        mode,
    ]
    nowhere = ["--health-probe-bind-address", "127.0.0.1:0", "--metrics-bind-address", "127.0.0.1:0", *more]
    with (folder / "stderr").open("w") as said, _process("serve_ours", queue, *options, *nowhere, stderr=said) as ours:
        yield ours
        ours.terminate()
        ours.wait(30)


@contextmanager
def _process(module: str, *arguments: str, stderr: Any = None) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    made = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        yield made
    finally:
        made.kill()
        made.communicate()


def _line(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], TOLD)[0]:
        raise TimeoutError("nothing was told: one of the processes did not get there")
    return json.loads(process.stdout.readline())


def _told(process: subprocess.Popen[str], line: str) -> Any:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return _line(process)


def _idle(pid: int) -> float:
    """Processor seconds of a minute."""
    before = _cpu(pid)
    time.sleep(IDLE)
    return (_cpu(pid) - before) * 60 / IDLE


def _cpu(pid: int) -> float:
    """Processor seconds so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> dict[str, float]:
    """Lines of /proc/PID/status in MiB."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Vm"))
    return {name.rstrip(":"): int(size) / 1024 for name, size, _ in lines}


# -- a storm -------------------------------------------------------------------------------------------------------------------


def _storm(rounds: int, queue: str, how: str) -> Row:
    found = sorted(_blown(queue) for _ in range(min(rounds, 3)))
    events, seconds, facts, cpu = found[len(found) // 2][1:]
    rate = events / seconds
    beside = f"{facts} facts, {short(facts / seconds)} facts/s; {cpu / seconds:.0%} of a core"
    what = f"a recorded burst, {COPIES} times, on {WATCHES} watches, to facts in the log: {how}"
    return Row(what, f"{short(rate)} events/s", beside, None, f"≥ {short(EVENTS)} events/s", rate >= EVENTS)


def _blown(queue: str) -> tuple[float, int, float, int, float]:
    """Seconds an event; events, seconds, facts in the log, processor seconds."""
    with tempfile.TemporaryDirectory(prefix="dds-storm-") as name:
        folder = Path(name)
        with _process("serve_storm", str(COPIES), str(folder / "kubeconfig")) as server:
            events = _line(server)["events"]
            with _scaler(folder, "observe", queue) as ours:
                log = folder / "log.sqlite3"
                _until(lambda: _count(log, "type = 'Synced'") == 1)
                time.sleep(2)
                before, began, cpu = _count(log, "causation_id IS NULL"), time.monotonic(), _cpu(ours.pid)
                assert server.stdin is not None
                server.stdin.write("go\n")
                server.stdin.flush()
                _until(lambda: _count(log, f"version = 1 AND stream >= '{LAST}' AND stream < '{LAST}~'") == WATCHES)
                seconds = time.monotonic() - began
                return (
                    seconds / events,
                    events,
                    seconds,
                    _count(log, "causation_id IS NULL") - before,
                    _cpu(ours.pid) - cpu,
                )


def _until(what: Any) -> None:
    until = time.monotonic() + TOLD
    while not what():
        if time.monotonic() > until:
            raise TimeoutError("the scaler did not get there")
        time.sleep(0.02)


def _count(log: Path, condition: str) -> int:
    """Rows of the log that are committed."""
    if not log.exists():
        return 0
    with closing(sqlite3.connect(f"file:{log}?mode=ro", uri=True)) as connection:
        try:
            found: int = connection.execute(
                f"SELECT COUNT(*) FROM dds_events WHERE log = 'cluster/scaler' AND {condition}"
            ).fetchone()[0]
        except sqlite3.OperationalError:  # its table is still being made
            return 0
        return found


# -- writes --------------------------------------------------------------------------------------------------------------------


def _written(scenario: str) -> Row:
    """All writes of ours over a scenario on virtual time, Events included, by the users' claims that there were."""
    with running(told_to_us(scenario)) as run:
        run.lab.run()
        asked, claims = run.ours.requests.requests, run.tally.claims - len(run.events(DeviceHeld))
    writes = sum(count for method, count in asked.items() if method != "GET")
    beside = f"{claims} claims, {writes} writes, {asked['GET']} reads"
    each = writes / claims
    return Row(
        f"API writes a claim over the scenario `{scenario}`", f"{each:.1f}", beside, None, f"≤ {WRITES}", each <= WRITES
    )
