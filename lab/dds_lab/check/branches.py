"""Many runs that are one up to the point at which each is disturbed: there the process is copied (`fork`), and the copy goes on.

A run from its beginning comes to the same; the copy saves what comes before the point.
"""

from __future__ import annotations

import os
import pickle
import select
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NoReturn

from dds_lab.check.perturb import Perturbation
from dds_lab.check.running import Run

Outcome = Run | str
"""A run, or why it broke off."""


class Branches:
    """`choose` is what disturbs the run that branches leave: nothing; of each wanted perturbation a copy is disturbed.

    At most `jobs` copies live at a time. `done` is called with each outcome in the process that began.
    """

    def __init__(
        self, wanted: Iterable[Perturbation], jobs: int, done: Callable[[Perturbation, Outcome], None]
    ) -> None:
        self._wanted: defaultdict[tuple[int, bool], list[Perturbation]] = defaultdict(list)
        for one in wanted:
            self._wanted[one.point].append(one)
        self._jobs = jobs
        self._done = done
        self._copies: dict[int, tuple[int, Perturbation]] = {}  # by the pipe that it answers with
        self._answer: int | None = None  # in a copy, its end of that pipe

    def choose(self, at: int, write: bool) -> Perturbation | None:
        """As `perturb.Choose`."""
        for one in self._wanted.pop((at, write), ()):
            while len(self._copies) >= self._jobs:
                self._hear()
            if self._is_copy(one):
                return one
        return None

    def play(self, run: Callable[[], Run]) -> None:
        """Play the run that they leave, and wait for all of them. What was not reached by then is an outcome too."""
        try:
            outcome: Outcome = run()
        except Exception as error:
            if self._answer is None:
                raise
            outcome = f"{type(error).__name__}: {error}"
        finally:
            if self._answer is None:
                while self._copies:
                    self._hear()
            elif sys.exc_info()[0] is not None:  # nothing of the process that was copied is this one's to go on with
                os._exit(1)
        if self._answer is not None:
            self._tell(self._answer, outcome)
        for one in (one for left in self._wanted.values() for one in left):
            self._done(one, outcome)

    def _is_copy(self, one: Perturbation) -> bool:
        hears, tells = os.pipe()
        copy = os.fork()
        if copy:
            os.close(tells)
            self._copies[hears] = copy, one
            return False
        for inherited in (hears, *self._copies):
            os.close(inherited)
        self._copies.clear()
        self._answer = tells
        return True

    def _tell(self, answer: int, outcome: Outcome) -> NoReturn:
        with os.fdopen(answer, "wb") as pipe:
            pickle.dump(outcome, pipe)
        os._exit(0)

    def _hear(self) -> None:
        """Wait for one copy at least."""
        for pipe in select.select(list(self._copies), [], [])[0]:
            copy, one = self._copies.pop(pipe)
            with os.fdopen(pipe, "rb") as answer:
                told = answer.read()
            os.waitpid(copy, 0)
            self._done(one, pickle.loads(told) if told else "its process ended without a word")
