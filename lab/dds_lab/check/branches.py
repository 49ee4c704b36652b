"""Parallel runs in copies of this process (`fork`).

`Copies` plays each run in its own copy. `Branches` plays an undisturbed run and forks at each point that is to be disturbed; the
copy goes on with the disturbance. The result is the same as from a new run, without the time up to that point.
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
"""A run, or why it ended early."""
_OneT = TypeVar("_OneT")


class Copies(Generic[_OneT]):
    """Runs at most `jobs` copies at a time. In the parent process, `done` is called with each copy's outcome, or with the reason
    if it ended early. If the parent is interrupted, it ends its copies, and their outcomes are lost."""

    def __init__(self, jobs: int, done: Callable[[_OneT, Any], None]) -> None:
        self._jobs = jobs
        self._done = done
        self._copies: dict[int, tuple[int, _OneT]] = {}  # process and case, by the pipe to the copy
        self._answer: int | None = None  # in a copy: its end of the pipe

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.is_copy:  # a copy must not continue with the parent's code
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
        """Whether this process is a copy."""
        return self._answer is not None

    def play(self, one: _OneT, run: Callable[[], object]) -> None:
        """Call `run` in a copy, which sends its result, or the error, to the parent."""
        if self.begin(one):
            try:
                self.tell(run())
            except Exception as error:
                self.tell(f"{type(error).__name__}: {error}")
            finally:
                os._exit(1)

    def begin(self, one: _OneT) -> bool:
        """Fork as soon as fewer than `jobs` copies run. True in the copy, False in the parent."""
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
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the copy
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for inherited in (hears, *self._copies):
            os.close(inherited)
        self._copies.clear()
        return True

    def tell(self, outcome: object) -> NoReturn:
        """Only in a copy: send the outcome to the parent and end."""
        assert self._answer is not None
        with os.fdopen(self._answer, "wb") as pipe:
            pickle.dump(outcome, pipe)
        os._exit(0)

    def _hear(self) -> None:
        """Wait until at least one copy has sent its outcome."""
        for pipe in select.select(list(self._copies), [], [])[0]:
            copy, one = self._copies[pipe]
            with os.fdopen(pipe, "rb", closefd=False) as answer:
                told = answer.read()
            del self._copies[pipe]
            os.close(pipe)
            code = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
            self._done(one, pickle.loads(told) if told and not code else f"its process ended with {code}")


class Branches:
    """Forks a copy for each wanted perturbation when the run reaches its point; the parent's run stays undisturbed."""

    def __init__(
        self, wanted: Iterable[Perturbation], jobs: int, done: Callable[[Perturbation, Outcome], None]
    ) -> None:
        self._wanted: defaultdict[tuple[int, bool], list[Perturbation]] = defaultdict(list)
        for one in wanted:
            self._wanted[one.point].append(one)
        self._done = done
        self._copies: Copies[Perturbation] = Copies(jobs, done)

    def choose(self, at: int, write: bool) -> Perturbation | None:
        return next(filter(self._copies.begin, self._wanted.pop((at, write), ())), None)

    def play(self, run: Callable[[], Run]) -> None:
        """Play the run and wait for all copies. For a point that was not reached, `done` gets the undisturbed run."""
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
