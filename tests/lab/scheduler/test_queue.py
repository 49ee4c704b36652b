"""The queues: order, back-off, hints, and what is never popped early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dds_lab.actors.scheduler.pods import Pod, read
from dds_lab.actors.scheduler.queue import SchedulingQueue, Waiting
from dds_lab.time import MICROSECONDS, VirtualTime

START = 1_795_219_200_000_000 + 300_000  # three tenths into a second
FIT = frozenset({"NodeResourcesFit"})


@dataclass(frozen=True)
class Change:
    claim: str | None = None
    to: str = ""
    """The name of the one pod that it helps, anybody when empty."""

    def helps(self, pod: Pod, plugin: str) -> bool:
        return plugin in FIT and self.to in ("", pod.name)


class Row:
    """A queue, the time, and whatever became ready."""

    def __init__(self) -> None:
        self.time = VirtualTime(1, START)
        self.closed: set[str] = set()
        self.queue = SchedulingQueue(
            self.time, self.time.now, lambda pod: "closed" * (pod.name in self.closed), lambda: None
        )

    def run(self, seconds: float) -> None:
        self.time.run(self.time.now() + round(seconds * MICROSECONDS))

    def popped(self) -> list[str]:
        """Everything that can be popped now, finished at once."""
        found = []
        while (waiting := self.queue.pop()) is not None:
            found.append(waiting.pod.name)
            self.queue.done(waiting)
        return found

    def try_(self, name: str) -> Waiting:
        waiting = self.queue.pop()
        assert waiting is not None and waiting.pod.name == name
        return waiting


def pod(name: str, priority: int = 0, **spec: Any) -> Pod:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    return read({"metadata": meta, "spec": {"priority": priority, "containers": [], **spec}, "status": {}})


def test_the_more_important_comes_first_then_who_waits_longer() -> None:
    row = Row()
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
        row.queue.add(pod(name, priority))
        row.run(0.001)

    assert row.popped() == ["b", "d", "a", "c"]


def test_after_an_error_a_pod_waits_its_time_out_to_the_next_whole_second() -> None:
    row = Row()
    row.queue.add(pod("a"))
    row.queue.failed(row.try_("a"))  # at .3; the second of its expiry is over at 2.0

    row.run(1.69)
    assert row.popped() == []
    row.run(0.01)
    assert row.popped() == ["a"]


def test_errors_in_a_row_double_the_time_up_to_ten_seconds() -> None:
    row = Row()
    row.queue.add(pod("a"))
    waiting = row.try_("a")
    waits = []
    for _ in range(6):
        row.queue.failed(waiting)
        begun = row.time.now()
        while (tried := row.queue.pop()) is None:
            row.run(0.1)
        waiting = tried
        waits.append((row.time.now() - begun) // MICROSECONDS)

    assert waits == [1, 3, 5, 9, 11, 11]


def test_a_refusal_in_between_starts_the_errors_anew() -> None:
    row = Row()
    row.queue.add(pod("a"))
    for _ in range(3):
        row.queue.failed(row.try_("a"))
        row.run(12)
        row.queue.refused(row.try_("a"), FIT)
        row.run(12)
        row.queue.happened(Change())
    row.queue.failed(row.try_("a"))

    row.run(2.05)
    assert row.popped() == ["a"]


def test_after_a_refusal_a_pod_waits_for_a_change_that_helps_it() -> None:
    row = Row()
    row.queue.add(pod("a"))
    row.queue.add(pod("b"))
    row.queue.refused(row.try_("a"), FIT)
    row.queue.refused(row.try_("b"), FIT)
    row.run(60)
    assert row.popped() == []

    row.queue.happened(Change(to="b"))

    assert row.popped() == ["b"]


def test_an_ordinary_back_off_ends_early_when_nothing_else_is_to_do_and_that_of_an_error_does_not() -> None:
    row = Row()
    for name in ("erred", "refused", "fresh"):
        row.queue.add(pod(name))
    row.queue.failed(row.try_("erred"))
    row.queue.refused(row.try_("refused"), FIT)
    row.queue.happened(Change())

    assert row.popped() == ["fresh", "refused"]


def test_what_happens_during_the_attempt_counts_too() -> None:
    row = Row()
    row.queue.add(pod("a"))
    row.queue.add(pod("b"))
    first = row.try_("a")
    row.queue.happened(Change(to="a"))
    second = row.try_("b")

    row.queue.refused(first, FIT)
    row.queue.refused(second, FIT)

    assert row.popped() == ["a"]


def test_what_happened_before_the_attempt_does_not() -> None:
    row = Row()
    row.queue.add(pod("a"))
    row.queue.add(pod("b"))
    first = row.try_("a")
    row.queue.happened(Change())
    second = row.try_("b")
    row.queue.done(first)

    row.queue.refused(second, FIT)

    assert row.popped() == []


def test_a_change_of_one_claim_concerns_its_pods_only() -> None:
    row = Row()
    for name in ("a", "b"):
        row.queue.add(pod(name, resourceClaims=[{"name": "d", "resourceClaimName": f"claim-{name}"}]))
        row.queue.refused(row.try_(name), FIT)
    row.run(5)

    row.queue.happened(Change(claim="default/claim-b"))

    assert row.popped() == ["b"]


def test_a_closed_pod_is_not_tried_until_its_claim_changes_or_it_does() -> None:
    row = Row()
    row.closed = {"a", "b"}
    row.queue.add(pod("a", resourceClaims=[{"name": "d", "resourceClaimName": "x"}]))
    row.queue.add(pod("b"))
    row.closed = set()
    row.run(600)
    assert row.popped() == []

    row.queue.happened(Change(claim="default/x"))
    assert row.popped() == ["a"]
    row.queue.update(pod("b"), helps=False)
    assert row.popped() == ["b"]


def test_after_five_minutes_every_refused_pod_is_tried_again() -> None:
    row = Row()
    row.queue.add(pod("a"))
    row.queue.refused(row.try_("a"), FIT)

    row.run(299)
    assert row.popped() == []
    row.run(31)
    assert row.popped() == ["a"]


def test_a_removed_pod_is_nowhere() -> None:
    row = Row()
    row.queue.add(pod("active"))
    row.queue.add(pod("trying"))
    row.queue.remove("uid-active")
    waiting = row.try_("trying")
    row.queue.remove("uid-trying")
    row.queue.failed(waiting)
    row.run(30)

    assert row.popped() == []
    assert len(row.queue) == 0


def test_stopping_leaves_no_timer() -> None:
    row = Row()
    row.queue.add(pod("a"))
    row.queue.add(pod("b"))
    row.queue.failed(row.try_("a"))
    row.queue.refused(row.try_("b"), FIT)

    row.queue.stop()

    assert row.time.next_at() is None
