"""Contenders that are processes: killed, ended, stopped and continued for real.

Each writes down, in a file that all share, the instants at which it was certain to lead.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from dds_adapters.kubernetes.lease.elector import steady
from dds_adapters.kubernetes.lease.state import LeaseSettings
from tests.support.contenders import Arena, arena

ROOT = Path(__file__).parents[3]
SETTINGS = LeaseSettings(duration=4, renew_deadline=3, retry_period=0.4)
PATIENCE_S = 60.0


class Processes:
    """Three of them, and what they wrote down."""

    def __init__(self, place: Arena, folder: Path) -> None:
        self.place = place
        self._file = folder / "certain"
        self._file.touch()
        self._running: dict[str, subprocess.Popen[str]] = {}

    def begin(self, name: str) -> None:
        durations = (SETTINGS.duration, SETTINGS.renew_deadline, SETTINGS.retry_period)
        command = [
            sys.executable, "-m", "tests.realtime.kubernetes.contender",
            self.place.config, name, name, str(self._file), *map(str, durations),
        ]  # fmt: skip
        self._running[name] = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)

    def send(self, name: str, number: signal.Signals) -> None:
        self._running[name].send_signal(number)

    def ended(self, name: str) -> tuple[int, str]:
        """Wait for its end; gives its code and what it said."""
        process = self._running.pop(name)
        _, said = process.communicate(timeout=PATIENCE_S)
        return process.returncode, said

    def certain(self) -> list[tuple[float, str]]:
        """Instants and names, in the order of instants."""
        whole = self._file.read_text().rpartition("\n")[0]
        return sorted((float(at), name) for at, name in (line.split() for line in whole.splitlines()))

    def leader_since(self, instant: float, but: str = "") -> str:
        """Whoever was the first to be certain after that."""
        return next((name for at, name in self.certain() if at > instant and name != but), "")

    def until(self, found: Callable[[], str]) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while not (name := found()):
            assert time.monotonic() < deadline, "nobody leads"
            time.sleep(0.02)
        return name

    def reigns(self) -> list[tuple[str, float, float]]:
        """Who was certain, from when to when. A name that comes twice has had somebody else in between."""
        grouped = groupby(self.certain(), key=lambda one: one[1])
        return [(name, (times := [at for at, _ in ones])[0], times[-1]) for name, ones in grouped]

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
            process.communicate()


@contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    with arena(folder) as place:
        three = Processes(place, folder)
        try:
            for name in "abc":
                three.begin(name)
            yield three
        finally:
            three.close()


def test_a_killed_leader_is_followed_after_the_duration_and_not_before(tmp_path: Path) -> None:
    with processes(tmp_path) as three:
        first = three.until(lambda: three.leader_since(0))
        three.send(first, signal.SIGKILL)
        three.ended(first)
        killed = steady()
        renewed = three.place.spec()["renewTime"]
        second = three.until(lambda: three.leader_since(killed))
        assert [name for name, _, _ in three.reigns()] == [first, second]
        taken = datetime.fromisoformat(three.place.spec()["acquireTime"])
        assert (taken - datetime.fromisoformat(renewed)).total_seconds() >= SETTINGS.duration
        assert three.place.spec()["leaseTransitions"] == 2


TERM, KILL, STOP = signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP
ENDS = {TERM: 0, KILL: -KILL, STOP: 3}


def dethrone(three: Processes, numbers: list[signal.Signals]) -> None:
    """One leader after the other is sent a signal, followed by another, and begun anew."""
    leader = three.until(lambda: three.leader_since(0))
    for number in numbers:
        was, since = leader, steady()
        three.send(was, number)
        leader = three.until(lambda was=was, since=since: three.leader_since(since, but=was))  # type: ignore[misc]
        if number == STOP:
            three.send(was, signal.SIGCONT)
        assert three.ended(was)[0] == ENDS[number]
        three.begin(was)
    reigns = three.reigns()
    assert len(reigns) == len(numbers) + 1, "each reign is of one piece: nobody was certain while somebody else was"
    assert all(one[2] < other[1] for one, other in pairwise(reigns))
    assert three.place.spec()["leaseTransitions"] == len(numbers) + 1


def test_leaders_in_a_row_are_ended_killed_and_stopped_and_never_two_at_once(tmp_path: Path) -> None:
    with processes(tmp_path) as three:
        dethrone(three, [TERM, KILL, TERM, STOP])


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_hundred_leaders_in_a_row(tmp_path: Path) -> None:
    with processes(tmp_path) as three:
        dethrone(three, [TERM, KILL, KILL, STOP, TERM] * 40)
