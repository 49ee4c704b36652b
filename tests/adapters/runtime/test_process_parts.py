"""The loop of a live scaler, without threads and sockets: what it allows the writer, and in which order it does things."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from dds_adapters.kubernetes.lease.elector import LeaseLost
from dds_adapters.kubernetes.watch.delta_queue import ADDED, SYNCED, Arrival
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS
from dds_adapters.kubernetes.write.tasks import Task
from dds_adapters.runtime import loop as loop_module
from dds_adapters.runtime import process as module
from dds_adapters.runtime import scaler
from dds_adapters.runtime.live_settings import LiveSettings
from dds_adapters.runtime.process import Process
from dds_adapters.runtime.scaler import make_scaler
from dds_core.events import PolicyChanged
from dds_core.scaler.policy import Policy
from tests.adapters.runtime.test_scaler import SECOND, Run, node
from tests.support.live_lab import Troubles

ATTACH, OBSERVE = Policy(mode="attach", scan_interval_seconds=10), Policy(mode="observe", scan_interval_seconds=10)


class Cluster:
    """Nobody is asked."""

    where = "nowhere"
    sparing = False


class Writer:
    """Keeps what it was told, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def limit(self, mode: str) -> None:
        self.told.append(f"limit {mode}")

    def put(self, tasks: Iterable[Task]) -> None:
        self.told.append("put")

    def outcomes(self) -> list[Any]:
        return []


class Elector:
    """Holds the lease for so long."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def remaining(self) -> float:
        return self.seconds

    def check(self) -> None:
        if self.seconds <= 0:
            raise LeaseLost("is held by another")


def made(run: Run) -> Any:
    """A process on the log of the run. Parts of it are replaced, which its types do not allow."""
    cluster: Any = Cluster()
    settings = LiveSettings(identity="one", health=None, metrics=None)
    make = make_scaler("t")
    return Process(settings, cluster, lambda uid: run.log, lambda: ATTACH, make, observer=Troubles())


class Loop:
    """A process whose arrivals are given, one list for each time that it comes round; then it ends."""

    def __init__(self, *given: Callable[[], list[Arrival]]) -> None:
        self.run = Run(ATTACH)
        self.run.sync()
        self.process = made(self.run)
        self.process.controller = self.run.scaler
        self.process.writer = self.writer = Writer()
        self.process.clock.now = lambda: self.run.now
        self._given = list(given)
        self.process.arrivals.take = self._take

    def _take(self, timeout: float, limit: int) -> list[Arrival]:
        if not self._given:
            self.process._stopping.set()
            return []
        return self._given.pop(0)()

    def decide(self) -> None:
        self.process._decide(self.run.scaler)


def test_nothing_may_be_written_while_the_log_is_away_or_at_the_end_or_before_all_is_open() -> None:
    loop = Loop()
    process = loop.process
    assert process._permit() == float("inf")
    process.elector = Elector(12.5)
    assert process._permit() == 12.5
    process.elector = Elector(0.5)
    assert process._permit() == 10.0, "a webhook may take so long; what comes late fails on its preconditions"
    process.elector = Elector(0.0)
    assert process._permit() == 0.0
    process.elector = Elector(7.5)
    loop.run.scaler._log_writer.away = True
    assert process._permit() == 0.0
    loop.run.scaler._log_writer.away = False
    process.controller = None
    assert process._permit() == 0.0
    process.controller = loop.run.scaler
    process.stop()
    assert process._permit() == 0.0


def test_the_writer_is_limited_before_it_is_given_more() -> None:
    """What was decided just before the kill switch is not carried out after it."""
    loop = Loop(list)
    loop.run.scaler.change_policy(OBSERVE)
    loop.decide()
    assert loop.writer.told[:2] == ["limit observe", "put"]


def test_without_the_lease_nothing_is_decided_any_more() -> None:
    """It may have been lost while something was waited for."""
    loop = Loop()
    elector = Elector(5.0)
    loop.process.elector = elector

    def lost() -> list[Arrival]:
        elector.seconds = 0.0
        return [loop.run.see("nodes", ADDED, **node("n0"))]

    loop._given.append(lost)
    before = loop.run.log.head().position
    with pytest.raises(LeaseLost):
        loop.decide()
    assert loop.run.log.head().position == before and loop.writer.told == []


def test_no_deadline_passes_before_what_waits_longer_than_one_helping(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (module, loop_module):
        monkeypatch.setattr(one, "BATCH", 2)
    loop = Loop()
    run = loop.run
    seen = [run.see("nodes", ADDED, **node(f"n{n}")) for n in range(3)]
    run.now += 30 * SECOND
    loop._given += [lambda: seen[:2], lambda: seen[2:]]
    loop.decide()
    types = run.types()
    last = max(n for n, name in enumerate(types) if name == "NodeObserved")
    assert types.count("NodeObserved") == 3 and types.index("DeadlinePassed") > last


def test_a_changed_policy_is_taken_in_at_the_next_turn() -> None:
    loop = Loop(list, list)
    policies = iter([OBSERVE, OBSERVE, OBSERVE])
    loop.process._read_policy = lambda: next(policies)
    loop.decide()
    assert loop.run.types().count(PolicyChanged.__name__) == 2 and loop.run.scaler.state.mode == "observe"
    assert loop.writer.told == ["limit attach", "put", "limit observe", "put"]


def test_requests_of_ours_are_stamped_once_and_before_anything_else_is_sent_to_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not before all is known, and not in observe."""
    stamp = Task(None, ("composabilityrequests/a",), lasting=True)  # type: ignore[arg-type]
    monkeypatch.setattr(scaler, "stamps", lambda state: (stamp,))
    for policy, sent in ((ATTACH, [[], [stamp], []]), (OBSERVE, [[], [], []])):
        run = Run(policy)
        listed = [Arrival(resource, SYNCED, b"", run.now) for resource in VERSIONS]
        turns: list[list[Arrival]] = [listed[:-1], listed[-1:], []]
        assert [run.scaler.turn(arrivals, (), run.now) for arrivals in turns] == sent
