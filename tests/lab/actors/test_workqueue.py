"""The work queue of a controller: once at a time, again afterwards, later and later after failures."""

from random import Random

from dds_lab.actors.workqueue import Finish, WorkQueue
from dds_lab.latency import Fixed
from dds_lab.time import VirtualTime


class Desk:
    """A queue whose workers note what they look at; those in `slow` take a second, the others no time."""

    def __init__(self, workers: int = 1, slow: tuple[str, ...] = ()) -> None:
        self.time = VirtualTime(1, 0)
        self.seen: list[tuple[float, str]] = []
        self.slow = slow
        self.queue = WorkQueue(self.time, self.look, Fixed(0.0), Random(1), workers)

    def look(self, key: str, finish: Finish) -> None:
        self.seen.append((self.time.now() / 1_000_000, key))
        if key in self.slow:
            self.time.after(1.0, finish)
        else:
            finish()

    def run(self, seconds: float) -> None:
        self.time.run(round(seconds * 1_000_000))


def test_a_key_that_is_asked_for_twice_is_looked_at_once() -> None:
    desk = Desk(slow=("a",))
    for key in "abb":
        desk.queue.add(key)
    desk.run(5)
    assert [key for _, key in desk.seen] == ["a", "b"]


def test_a_key_that_is_asked_for_while_it_is_looked_at_is_looked_at_again_afterwards() -> None:
    desk = Desk(workers=2, slow=("a",))
    desk.queue.add("a")
    desk.run(0.5)
    desk.queue.add("a")
    desk.run(5)
    assert desk.seen == [(0.0, "a"), (1.0, "a")]


def test_one_worker_makes_all_others_wait() -> None:
    desk = Desk(slow=("a", "b"))
    for key in "abc":
        desk.queue.add(key)
    desk.run(5)
    assert desk.seen == [(0.0, "a"), (1.0, "b"), (2.0, "c")]


def test_of_several_instants_the_earliest_counts() -> None:
    desk = Desk()
    desk.queue.add_after("a", 30.0)
    desk.queue.add_after("a", 3.0)
    desk.queue.add_after("a", 60.0)
    desk.run(100)
    assert desk.seen == [(3.0, "a")]


def test_failures_are_tried_again_twice_as_late_each_time_up_to_a_bound() -> None:
    desk = Desk()
    waits = [desk.queue.retry("a") for _ in range(20)]
    assert waits[:3] == [0.005, 0.01, 0.02]
    assert waits[-1] == 1000.0
    assert desk.queue.failures("a") == 20
    desk.queue.forget("a")
    assert desk.queue.retry("a") == 0.005


def test_a_stopped_queue_looks_at_nothing() -> None:
    desk = Desk(slow=("a",))
    desk.queue.add("a")
    desk.queue.add("b")
    desk.queue.add_after("c", 5.0)
    desk.run(0.5)
    desk.queue.stop()
    desk.queue.add("d")
    desk.run(10)
    assert desk.seen == [(0.0, "a")]
