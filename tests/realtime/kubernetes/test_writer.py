"""Writes over real HTTP: in order, once, whatever goes wrong on the wire; nothing is begun without leave; no thread ever ends."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from dds_adapters.kubernetes.cluster import Answer, Asking, Cluster, path_of
from dds_adapters.kubernetes.lease.elector import Elector
from dds_adapters.kubernetes.write.tasks import (
    INTERNAL_ERROR,
    MARGIN,
    REQUEST_SECONDS,
    Declined,
    Done,
    Later,
    Result,
    Task,
    Versions,
)
from dds_adapters.kubernetes.write.writer import THREADS, Writer
from dds_core.events import Event, WriteDone, WriteRefused
from dds_lab.faults.wire import Action, Lost, Refuse, Rule, Slow, WireFaults
from dds_lab.http_frontend import Served, serving
from dds_lab.latency import Fixed
from tests.support.contenders import QUICK, Arena, arena
from tests.support.served import client_of, new_server, users, wall

NAMESPACE = "default"


@dataclass(frozen=True)
class Appended:
    """Appends a number to what a ConfigMap has, unless it is there."""

    name: str
    number: int

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        path = path_of("configmaps", versions("configmaps"), NAMESPACE, self.name)
        answer = api.ask("GET", path)
        if answer.code != 200:
            return _judged(answer)
        live = msgspec.json.decode(answer.body)
        numbers = live.get("data", {}).get("numbers", "").split()
        if str(self.number) in numbers:
            return Done(written=False)
        meta = {"uid": live["metadata"]["uid"], "resourceVersion": live["metadata"]["resourceVersion"]}
        body = {"metadata": meta, "data": {"numbers": " ".join([*numbers, str(self.number)])}}
        encoded = msgspec.json.encode(body)
        return _judged(api.ask("PATCH", path, body=encoded, content_type="application/merge-patch+json"))


def _judged(answer: Answer) -> Result:
    if answer.code < 300:
        return Done()
    if answer.code in (409, 429) or answer.code >= 500:
        return Later(str(answer.code), answer.wait)
    return Declined(answer.code, "")


def appended(name: str, number: int, **more: Any) -> Task:
    return Task(Appended(name, number), (f"configmaps/{name}",), f"{name}-{number}", "Appended", name, **more)


@dataclass
class Noted:
    """A way to the server that keeps when what was asked, and how long an answer was to be waited for."""

    api: Asking
    asked: list[tuple[float, str, float]] = field(default_factory=list)
    before: Callable[[str], None] = lambda method: None

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        self.before(method)
        self.asked.append((time.monotonic(), method, more.get("timeout", 60.0)))
        return self.api.ask(method, path, **more)


class Desk:
    """A lab, a writer, and the facts that it gave. `left` is what `permit` says."""

    def __init__(self, served: Served, cluster: Cluster, faults: WireFaults) -> None:
        self.served = served
        self.left = float("inf")
        self.facts: list[Event] = []
        self.told: list[str] = []
        self.noted = Noted(cluster)
        self._faults = faults
        self._wake = threading.Event()
        self.writer = Writer(
            self.noted, lambda resource: "v1", permit=lambda: self.left, wake=self._wake.set,
            on_error=self.told.append, random=Random(1),
        )  # fmt: skip

    def until(self, enough: Callable[[], bool], seconds: float = 60.0) -> None:
        """Fetch outcomes whenever there are some, until it is enough."""
        deadline = time.monotonic() + seconds
        while True:
            self._wake.clear()
            self.facts += self.writer.outcomes()
            if enough():
                return
            assert time.monotonic() < deadline, "it did not come"
            self._wake.wait(0.05)

    def strike(self, *rules: Rule) -> None:
        """From now on these faults and no others."""

        def change() -> None:
            self._faults.rules, self._faults.struck = rules, [0] * len(rules)

        self.served.run(change)

    def make(self, *names: str) -> None:
        for name in names:
            body = {"metadata": {"name": name}, "data": {"numbers": ""}}
            self.served.run(lambda body=body: client_of(self.served.server).create("configmaps", body, NAMESPACE))  # type: ignore[misc]

    def numbers(self, name: str) -> list[int]:
        found = self.served.run(lambda: client_of(self.served.server).get("configmaps", name, NAMESPACE))
        return [int(number) for number in found["data"]["numbers"].split()]


@contextmanager
def desk(folder: Path) -> Iterator[Desk]:
    """A writer that was started, at a lab on whose wire faults can be had."""
    faults = WireFaults((), wall, Random(1))
    with serving(new_server(), users(), tls=False, faults=faults) as served:
        cluster = Cluster(served.kubeconfig(folder / "kubeconfig"), "admin")
        place = Desk(served, cluster, faults)
        place.writer.start()
        try:
            yield place
        finally:
            stopped = place.writer.stop(20)
            cluster.close()
    assert stopped, "a thread hangs"


NAMES = tuple(f"map-{n}" for n in range(6))


def all_written(place: Desk, each: int) -> None:
    """Wait for the outcomes of so many writes to each object."""
    place.until(lambda: len(place.facts) >= each * len(NAMES))
    assert {name: place.numbers(name) for name in NAMES} == {name: list(range(each)) for name in NAMES}
    assert {type(fact) for fact in place.facts} == {WriteDone}
    assert Counter(fact.decision for fact in place.facts if isinstance(fact, WriteDone)).most_common(1)[0][1] == 1
    assert [line for line in place.told if not line.endswith("; dds tries again")] == [], "no error of the program"


@pytest.mark.smoke
def test_writes_are_made_in_order_each_once_and_told(tmp_path: Path) -> None:
    with desk(tmp_path) as place:
        place.make(*NAMES)
        place.writer.put([appended(name, number) for number in range(20) for name in NAMES])
        all_written(place, each=20)
        assert place.writer.counts == {("Appended", "done"): 20 * len(NAMES)}
        assert place.told == []
        assert (place.writer.waiting, place.writer.running) == (0, 0)


def desks(stack: ExitStack, folder: Path, count: int) -> list[Desk]:
    """So many writers, each with a server of its own, beside each other."""
    folders = [folder / str(n) for n in range(count)]
    for each in folders:
        each.mkdir()
    places = [stack.enter_context(desk(each)) for each in folders]
    for place in places:
        place.make(*NAMES)
    return places


def test_what_strikes_every_fifth_request_costs_time_and_nothing_else(tmp_path: Path) -> None:
    """Each fault alone."""
    faults: tuple[Action, ...] = (Refuse(409), Refuse(429, 0), Refuse(500), Refuse(503), Lost(), Slow(Fixed(0.05)))
    with ExitStack() as stack:
        places = desks(stack, tmp_path, len(faults))
        for place, fault in zip(places, faults, strict=True):
            place.strike(Rule(fault, share=0.2, limit=10))
            place.writer.put([appended(name, number) for number in range(4) for name in NAMES])
        for place in places:
            all_written(place, each=4)


def test_without_leave_nothing_is_sent_and_everything_waits(tmp_path: Path) -> None:
    with desk(tmp_path) as place:
        place.make("map")
        place.left = MARGIN
        place.writer.put([appended("map", n) for n in range(3)])
        time.sleep(0.7)
        assert place.noted.asked == []
        assert (place.writer.waiting, place.facts) == (3, [])
        place.left = 5.0
        place.until(lambda: len(place.facts) == 3)
        assert place.numbers("map") == [0, 1, 2]
        assert {timeout for _, _, timeout in place.noted.asked} == {5.0}


def test_no_answer_is_waited_for_longer_than_the_lease_and_never_very_long(tmp_path: Path) -> None:
    with desk(tmp_path) as place:
        place.make("map")
        place.writer.put([appended("map", 1)])
        place.until(lambda: len(place.facts) == 1)
        assert {timeout for _, _, timeout in place.noted.asked} == {REQUEST_SECONDS}
        place.strike(Rule(Slow(Fixed(60)), limit=1))
        place.left = 0.5
        before = time.monotonic()
        place.writer.put([appended("map", 2)])
        place.until(lambda: len(place.facts) == 2)
        assert time.monotonic() - before < 10


# -- faults of the program ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Broken:
    """A write with an error in it."""

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        raise KeyError("a token that nobody may see")


def test_an_error_of_the_program_costs_one_task_and_no_thread(tmp_path: Path) -> None:
    with desk(tmp_path) as place:
        place.make("map")
        broken = [Task(Broken(), (f"pods/{n}",), f"d{n}", "Steered", f"pod {n}") for n in range(3 * THREADS)]
        place.writer.put([*broken, appended("map", 1)])
        place.until(lambda: len(place.facts) == len(broken) + 1)
        refused = [fact for fact in place.facts if isinstance(fact, WriteRefused)]
        assert {(fact.code, fact.reason) for fact in refused} == {(0, INTERNAL_ERROR)}
        assert len(place.told) == len(refused) == len(broken)
        assert any(line.startswith("Steered pod 0: KeyError at test_writer.py:") for line in place.told)
        assert not any("token" in line for line in [*place.told, *(fact.text for fact in refused)])
        assert place.numbers("map") == [1]


class Counting:
    """Works that only count how many run at once."""

    def __init__(self) -> None:
        self.most = self.now = 0
        self._lock = threading.Lock()

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.05)
        with self._lock:
            self.now -= 1
        return Done()


class Nowhere:
    """A server that is never to be asked."""

    def ask(self, method: str, path: str, **more: Any) -> Answer:
        raise AssertionError("nothing is to be sent")


def test_all_threads_work_and_a_wake_that_fails_ends_none() -> None:
    told: list[str] = []

    def fails() -> None:
        raise RuntimeError("nobody is there")

    writer = Writer(Nowhere(), lambda resource: "v1", permit=lambda: 60.0, wake=fails, on_error=told.append)
    writer.start()
    write = Counting()
    writer.put([])
    tasks = [Task(write, (f"pods/{n}",), f"d{n}", "Steered", f"{n}") for n in range(40)]
    writer.put(tasks)
    deadline = time.monotonic() + 30
    while len(writer.outcomes()) + writer.counts.get(("Steered", "done"), 0) < 40:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert write.most == THREADS
    assert told[0].startswith("writer: RuntimeError at test_writer.py:")
    assert writer.stop(10)


def test_a_stop_lets_what_runs_end_and_begins_nothing_more(tmp_path: Path) -> None:
    with desk(tmp_path) as place:
        place.make(*NAMES)
        place.strike(Rule(Slow(Fixed(0.5))))
        place.writer.put([appended(name, number) for number in range(5) for name in NAMES])
        place.until(lambda: place.writer.running == len(NAMES))
        assert not place.writer.stop(0.0), "they are on their way"
        assert place.writer.stop(20)
        assert place.writer.running == 0
        begun = [place.numbers(name) for name in NAMES]
        assert begun == [[0]] * len(NAMES)
        assert len(place.writer.outcomes()) == len(NAMES)
        assert place.writer.waiting == 4 * len(NAMES)


def test_a_writer_that_was_never_started_is_stopped_at_once() -> None:
    writer = Writer(Nowhere(), lambda resource: "v1", permit=lambda: 60.0, wake=lambda: None)
    assert writer.stop(0.0)


# -- A writer that has a lease, and stands still at the worst moment: another leads and writes before it goes on


class Leading:
    """A contender with a writer that writes while it leads."""

    def __init__(self, place: Arena, name: str) -> None:
        self.elector: Elector = place.contender(name, QUICK)
        self.cluster = Cluster(place.config, name)
        self.noted = Noted(self.cluster)
        self.writer = Writer(self.noted, lambda resource: "v1", permit=self.elector.remaining, wake=lambda: None)
        self.writer.start()


@contextmanager
def leading(place: Arena, name: str) -> Iterator[Leading]:
    one = Leading(place, name)
    try:
        yield one
    finally:
        assert one.writer.stop(20)
        one.cluster.close()


def numbers(place: Arena) -> list[int]:
    found = place.served.run(lambda: client_of(place.served.server).get("configmaps", "map", NAMESPACE))
    return [int(number) for number in found["data"]["numbers"].split()]


@pytest.mark.smoke
@pytest.mark.parametrize("at", ["GET", "PATCH"], ids=["before it looks", "between looking and writing"])
def test_a_write_that_comes_after_the_lease_changes_nothing(tmp_path: Path, at: str) -> None:
    held, go_on = threading.Event(), threading.Event()

    def stand_still(method: str) -> None:
        if method == at and not held.is_set():
            held.set()
            assert go_on.wait(60)

    with arena(tmp_path) as place:
        body = {"metadata": {"name": "map"}, "data": {"numbers": ""}}
        place.served.run(lambda: client_of(place.served.server).create("configmaps", body, NAMESPACE))
        with leading(place, "a") as first:
            assert first.elector.lead(20)
            first.noted.before = stand_still
            first.writer.put([appended("map", 1)])
            assert held.wait(20), "it passed the check, and has not sent"
            first.elector.stop(0)  # it would never give the lease up like this; another leads the sooner
            with leading(place, "b") as second:
                assert second.elector.lead(20)
                second.writer.put([appended("map", 7)])
                place.until(lambda: numbers(place) == [7])
                go_on.set()
                place.until(lambda: first.writer.running == 0)
                time.sleep(0.5)
                assert numbers(place) == [7], "the late write is refused, and not made again"
                assert len(first.noted.asked) == (1 if at == "GET" else 2), "nothing was begun after the lease's end"
                assert first.writer.outcomes() == []
                assert first.writer.waiting == 1
                assert second.writer.outcomes() == [WriteDone("map-7", "Appended", "map")]
