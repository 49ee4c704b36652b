"""Rounds of questions to a fabric on virtual time: each question takes its while, several are under way at once, and what is
waited within one (tries, a slow manager) passes with it.

The questions are those of `fabric.survey`; in a process of ours threads ask them. Nothing here judges an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from dds_adapters.fabric.provider import Provider
from dds_adapters.fabric.settings import Outside
from dds_adapters.fabric.survey import Answer, Question, survey
from dds_adapters.lab.latency import Latency, LogNormal
from dds_adapters.lab.time import MICROSECONDS, Time, Timer
from dds_core.publishing.model import Machine, PoolModel

Models = tuple[PoolModel, ...]
_ANSWER = LogNormal(0.02, 0.5, 0.5)


@dataclass(frozen=True)
class Pace:
    """Seconds between the beginnings of two rounds, seconds that an answer takes on its way, and questions at once."""

    interval: float = 5.0
    answer: Latency = _ANSWER
    connections: int = 4


PACE = Pace()


class Rounds:
    """One round after the other, never two at once; at once a new one when the models are others than those of the last."""

    def __init__(
        self,
        time: Time,
        reach: Callable[[Outside], Provider],
        pace: Pace,
        answered: Callable[[Answer], None],
        ended: Callable[[Models], None],
        instant: Callable[[], int] = int,
    ) -> None:
        self._time = time
        self._random = time.random("rounds")
        self._pace = pace
        self._answered = answered
        self._ended = ended
        self._instant = instant
        self._spent = 0.0
        outside = Outside(clock=self._clock, wall=self._clock, sleep=self._spend, random=time.random("rounds/client"))
        self._provider = reach(outside)
        self._known: Sequence[Machine] = ()
        self._wanted: Models | None = None
        self._round: _Round | None = None
        self._next: Timer | None = None
        self.begun = 0
        """How many rounds have begun."""

    def about(self, models: Models, known: Sequence[Machine]) -> None:
        """What to ask from now on; `known` are the machines that are known."""
        self._known = known
        if models != self._wanted:
            self._wanted = models
            if self._round is None:
                self._begin()

    def stop(self) -> None:
        """Ask nothing more; what is on its way does not come."""
        if self._next is not None:
            self._next.cancel()
        if self._round is not None:
            self._round.stopped = True

    # -- one round -----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        assert self._wanted is not None
        if self._next is not None:
            self._next.cancel()
        self._next = self._time.after(self._pace.interval, self._due)
        number, self.begun = self.begun, self.begun + 1
        round = self._round = _Round(self._wanted)
        self._ask(
            round,
            lambda: survey(
                self._provider, round.models, number, round.answers.append, lambda: round.stopped,
                known=self._known, run=round.left.extend, instant=self._instant,
            ),
        )  # fmt: skip

    def _due(self) -> None:
        self._next = None
        if self._round is None:
            self._begin()

    def _ask(self, round: _Round, question: Question) -> None:
        """Ask; the answers are there once all that it took has passed."""
        round.under_way += 1
        self._spent = 0.0
        question()
        took, self._spent = self._spent + self._pace.answer.draw(self._random), 0.0
        answers, round.answers[:] = list(round.answers), []
        self._time.after(took, partial(self._deliver, round, answers))

    def _deliver(self, round: _Round, answers: list[Answer]) -> None:
        round.under_way -= 1
        if round.stopped:
            return
        for answer in answers:
            self._answered(answer)
        while round.left and round.under_way < self._pace.connections:
            self._ask(round, round.left.popleft())
        if not round.under_way:
            self._round = None
            self._ended(round.models)
            if self._next is None or round.models != self._wanted:
                self._begin()

    # -- the client's time ---------------------------------------------------------------------------------------

    def _clock(self) -> float:
        return self._time.now() / MICROSECONDS + self._spent

    def _spend(self, seconds: float) -> None:
        self._spent += seconds


@dataclass
class _Round:
    """A round under way: questions that are left, and how many are asked and not answered yet."""

    models: Models
    left: deque[Question] = field(default_factory=deque)
    answers: list[Answer] = field(default_factory=list)
    under_way: int = 0
    stopped: bool = False
