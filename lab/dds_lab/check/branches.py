"""Many runs side by side, each in a copy of this process (`fork`); and those that are one up to the point at which each is
disturbed: there the process that plays it is copied, and the copy goes on.

A run from its beginning comes to the same; the copy saves what comes before the point.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Generic, NoReturn, Self, TypeVar

from dds_lab.check.perturb import Perturbation
from dds_lab.check.running import Run

Outcome = Run | str
"""A run, or why it broke off."""
_OneT = TypeVar("_OneT")


class Copies(Generic[_OneT]):
    """At most `jobs` copies at a time. `done` is called with what each tells, or how it broke off, in the process that began; one
    that is interrupted ends its copies, and what they would have told is lost."""

    def __init__(self, jobs: int, done: Callable[[_OneT, Any], None]) -> None:
        self._jobs = jobs
        self._done = done
        self._copies: dict[int, tuple[int, _OneT]] = {}  # by the pipe that it answers with
        self._answer: int | None = None  # in a copy, its end of that pipe

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.is_copy:  # nothing of the process that was copied is this one's to go on with
            os._exit(1)
        try:
            while self._copies and kind is None:
                self._hear()
        finally:
            for pipe, (copy, _one) in self._copies.items():
                os.kill(copy, signal.SIGKILL)
                os.waitpid(copy, 0)
                os.close(pipe)

    @property
    def is_copy(self) -> bool:
        """Whether this process is one of them."""
        return self._answer is not None

    def play(self, one: _OneT, run: Callable[[], object]) -> None:
        """Have a copy tell what comes of it."""
        if self.begin(one):
            try:
                self.tell(run())
            except Exception as error:
                self.tell(f"{type(error).__name__}: {error}")
            finally:
                os._exit(1)

    def begin(self, one: _OneT) -> bool:
        """Copy this process, as soon as there is room. True in the copy."""
        while len(self._copies) >= self._jobs:
            self._hear()
        hears, tells = os.pipe()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            copy = os.fork()
            if copy:
                os.close(tells)
                self._copies[hears] = copy, one
                return False
            self._answer = tells
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that began ends it
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for inherited in (hears, *self._copies):
            os.close(inherited)
        self._copies.clear()
        return True

    def tell(self, outcome: object) -> NoReturn:
        """Only in a copy, which ends with it."""
        assert self._answer is not None
        with os.fdopen(self._answer, "wb") as pipe:
            pickle.dump(outcome, pipe)
        os._exit(0)

    def _hear(self) -> None:
        """Wait for one copy at least."""
        for pipe in select.select(list(self._copies), [], [])[0]:
            copy, one = self._copies[pipe]
            with os.fdopen(pipe, "rb", closefd=False) as answer:
                told = answer.read()
            del self._copies[pipe]
            os.close(pipe)
            code = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
            self._done(one, pickle.loads(told) if told and not code else f"its process ended with {code}")


class Branches:
    """`choose` is what disturbs the run that branches leave: nothing; of each wanted perturbation a copy is disturbed."""

    def __init__(
        self, wanted: Iterable[Perturbation], jobs: int, done: Callable[[Perturbation, Outcome], None]
    ) -> None:
        self._wanted: defaultdict[tuple[int, bool], list[Perturbation]] = defaultdict(list)
        for one in wanted:
            self._wanted[one.point].append(one)
        self._done = done
        self._copies: Copies[Perturbation] = Copies(jobs, done)

    def choose(self, at: int, write: bool) -> Perturbation | None:
        """As `perturb.Choose`."""
        return next(filter(self._copies.begin, self._wanted.pop((at, write), ())), None)

    def play(self, run: Callable[[], Run]) -> None:
        """Play the run that they leave, and wait for all of them. What was not reached by then is an outcome too."""
        with self._copies:
            try:
                outcome: Outcome = run()
            except Exception as error:
                if not self._copies.is_copy:
                    raise
                outcome = f"{type(error).__name__}: {error}"
            if self._copies.is_copy:
                self._copies.tell(outcome)
        for one in (one for left in self._wanted.values() for one in left):
            self._done(one, outcome)
