"""Whatever is put and whatever becomes of it: order at each object, never two at once there, one outcome for each decision."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.limiter import LONGEST, WINDOW
from dds_adapters.kubernetes.write.outbox import Outbox
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete, Result, Task, Versions
from dds_core.events import Event, Superseded, WriteDone, WriteObsolete, WriteRefused
from dds_core.kit.policy import MODES, Mode
from tests.support.drawn import examples

OBJECTS = ("claims/a", "claims/b", "pods/c", "nodes/d")
RESULTS: tuple[Result, ...] = (
    Done(),
    Done(written=False),
    Obsolete("moved on"),
    Declined(422, "Invalid"),
    Later("conflict"),
    Later("asked to", wait=3.0),
    Later("no answer", trouble=True),
)


class Unseen:
    """A work that is never looked at."""

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        raise AssertionError("an outbox carries nothing out")


class Model(RuleBasedStateMachine):
    """An outbox, and what was put into it and came out, kept in the simplest way."""

    def __init__(self) -> None:
        super().__init__()
        self.outbox = Outbox(Random(1))
        self.now = 0.0
        self.mode: Mode = "detach"
        self.put: dict[str, int] = {}
        self.tasks: dict[str, Task] = {}
        self.running: list[Task] = []
        self.extras = 0
        self.outcomes: Counter[str] = Counter()

    def heard(self, facts: list[Event]) -> None:
        for fact in facts:
            assert isinstance(fact, WriteDone | WriteObsolete | WriteRefused | Superseded)
            self.outcomes[fact.decision] += 1

    @rule(
        objects=st.lists(st.sampled_from(OBJECTS), min_size=1, max_size=3),
        replaces=st.sampled_from(["", "", "x", "y"]),
        needs=st.sampled_from(MODES[1:]),
        decided=st.booleans(),
    )
    def puts(self, objects: list[str], replaces: str, needs: Mode, decided: bool) -> None:
        name = str(len(self.tasks))
        task = Task(Unseen(), tuple(objects), name if decided else "", "Act", name, replaces, needs)
        self.tasks[name] = task
        self.heard(self.outbox.put([task], self.now))
        self.extras += not decided

    @rule()
    def begins(self) -> None:
        given = self.outbox.next(self.now)
        if isinstance(given, float):
            assert given > self.now
        if isinstance(given, Task):
            assert MODES.index(given.needs) <= MODES.index(self.mode)
            taken = {name for task in self.running for name in task.objects}
            assert not taken & set(given.objects)
            number = int(given.target)
            for other in self.tasks.values():
                older = int(other.target) < number and other.decision and not self.outcomes[other.decision]
                assert not (older and set(other.objects) & set(given.objects)), "it overtakes"
            self.running.append(given)

    @precondition(lambda self: self.running)
    @rule(result=st.sampled_from(RESULTS), data=st.data())
    def ends(self, result: Result, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(self.running))
        self.running.remove(task)
        fact = self.outbox.finished(task, result, self.now)
        self.heard([fact] if fact else [])

    @precondition(lambda self: self.running)
    @rule()
    def is_returned(self) -> None:
        fact = self.outbox.returned(self.running.pop())
        self.heard([fact] if fact else [])

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0]))
    def waits(self, seconds: float) -> None:
        self.now += seconds

    @rule(mode=st.sampled_from(MODES))
    def limits(self, mode: Mode) -> None:
        self.mode = mode
        self.heard(self.outbox.limit(mode))

    @invariant()
    def nothing_is_told_twice(self) -> None:
        assert all(count == 1 for count in self.outcomes.values())
        assert self.outbox.running == len(self.running)
        assert len(self.outbox) == self.outbox.running + self.outbox.waiting

    def teardown(self) -> None:
        """In the end everything gets through, and each decision has its outcome."""
        for task in self.running:
            fact = self.outbox.finished(task, Done(), self.now)
            self.heard([fact] if fact else [])
        begun = self.now
        while (given := self.outbox.next(self.now)) is not None:
            assert self.now - begun <= LONGEST + 3.0 + WINDOW * (1 + len(self.tasks) / 9), "it waits for nothing"
            if isinstance(given, float):
                assert given > self.now, "it comes too early"
                self.now = given
            else:
                fact = self.outbox.finished(given, Done(), self.now)
                self.heard([fact] if fact else [])
        assert len(self.outbox) == 0
        assert self.outcomes == Counter(task.decision for task in self.tasks.values() if task.decision)


TestOutbox = Model.TestCase
TestOutbox.settings = settings(examples(40, 150), stateful_step_count=40)
