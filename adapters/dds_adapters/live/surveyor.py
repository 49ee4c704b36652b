"""The threads that ask the fabric, round after round. What they hear they put where the thread that decides takes it (`answers`);
they decide nothing and tell nobody: that a question fails is a fact, and told as one.

A round never overlaps another. One that is late makes the next one late, and a change of the models begins the next one at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from dds_adapters.fabric.provider import Provider
from dds_adapters.fabric.survey import Answer, MachinesAnswer, Question, survey, together
from dds_adapters.live.answers import Answers
from dds_adapters.live.asker import Asker
from dds_adapters.live.settings import CONNECTIONS, SCAN_SECONDS
from dds_core.errors import DdsError
from dds_core.publishing.model import Machine, PoolModel

GLANCE = 0.2
"""Seconds between looks whether questions that run have come to their end, or this is to end."""


class Surveyor(Asker):
    """Asks round after round from `start` to `stop`, once it was told (`look_for`) which models there are."""

    def __init__(
        self,
        provider: Provider,
        answers: Answers,
        *,
        interval: float = SCAN_SECONDS,
        connections: int = CONNECTIONS,
        told: Callable[[DdsError], None] = lambda error: None,
    ) -> None:
        """A round begins `interval` seconds after the one before began. `connections` questions run side by side. `told` is told
        of faults of the program."""
        super().__init__("fabric")
        self._provider = provider
        self._answers = answers
        self._interval = interval
        self._connections = connections
        self._told = told
        self._models: tuple[PoolModel, ...] | None = None
        self._machines: tuple[Machine, ...] = ()
        self.rounds = 0
        """How many have ended."""
        self.seconds = 0.0
        """How long the last one took."""

    def look_for(self, models: tuple[PoolModel, ...], machines: Iterable[Machine]) -> None:
        """The models to ask about, and the machines that are known; others than before begin a new round at once."""
        if models is self._models:
            return
        with self._changed:
            if models != self._models:
                self._models, self._machines = models, tuple(machines)
                self._changed.notify_all()

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (models := self._wanted()) is not None:
            began = time.monotonic()
            try:
                survey(
                    self._provider,
                    models,
                    self.rounds,
                    self._report,
                    self.stopping,
                    known=self._machines,
                    run=self._side_by_side,
                    instant=self._answers.instant,
                    counted=partial(self._ended, models),
                )
            except Exception as error:  # a fault of ours must not end the asking
                what = f"a round of questions ended with {type(error).__name__}"
                self._told(DdsError(what, where="the fabric", fix="please report it; the next round goes on"))
            self.rounds += 1
            self.seconds = time.monotonic() - began
            self._ended(models)
            self._rest(began + self._interval, models)

    def _ended(self, models: tuple[PoolModel, ...]) -> None:
        """All stock was asked for, which is what publishing waits for; limits may take their time."""
        if not self._stopping:
            self._answers.ended(models)

    def _wanted(self) -> tuple[PoolModel, ...] | None:
        """The models, once there are some to ask for; None when all is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._models is not None)
            return None if self._stopping else self._models

    def _rest(self, until: float, models: tuple[PoolModel, ...]) -> None:
        with self._changed:
            wait = until - time.monotonic()
            self._changed.wait_for(lambda: self._stopping or self._models != models, max(0.0, wait))

    def _report(self, answer: Answer) -> None:
        if isinstance(answer, MachinesAnswer):
            self._machines = answer.machines if answer.whole else together(self._machines, answer.machines)
        self._answers.put(answer)

    def _side_by_side(self, questions: Iterable[Question]) -> None:
        """All of them, some at a time. A question that hangs when all is to end is left behind: its thread holds nothing."""
        left, lock = iter(questions), threading.Lock()
        names = range(self._connections)
        threads = [threading.Thread(target=_ask, args=(left, lock), name=f"fabric-{n}", daemon=True) for n in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not self._stopping:
                thread.join(GLANCE)


def _ask(left: Iterator[Question], lock: threading.Lock) -> None:
    while True:
        with lock:
            question = next(left, None)
        if question is None:
            return
        question()
