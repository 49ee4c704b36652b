"""The threads that carry out the tasks of the outbox. Their results are facts, which the engine's thread fetches:

writer = Writer(cluster, versions, permit=elector.remaining, wake=arrivals.wake)
writer.start()
writer.put(tasks)                  # after the commit of their decisions
facts = writer.outcomes()          # whenever `wake` was called
writer.stop(20)                    # before the lease is given up
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from math import inf
from random import Random, SystemRandom
from threading import Condition, Thread

from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.write.outbox import Outbox
from dds_adapters.kubernetes.write.tasks import (
    MARGIN,
    Done,
    Guard,
    Later,
    NotLeading,
    Permit,
    Result,
    Task,
    Versions,
    carry_out,
    fault,
)
from dds_core.errors import DdsError
from dds_core.events import Event
from dds_core.kit.policy import Mode

THREADS = 8
GLANCE = 0.2
"""Seconds between checks whether this process may write again."""
TOLD_EVERY = 60.0
"""Seconds between two reports that tasks of one resource fail."""


class Writer:
    """Carries tasks out, several at a time. All methods are thread-safe; only `stop` waits for requests."""

    def __init__(
        self,
        api: Asking,
        versions: Versions,
        *,
        permit: Permit,
        wake: Callable[[], None],
        threads: int = THREADS,
        on_error: Callable[[str], None] = lambda line: None,
        random: Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`permit` is called before each request; `wake`, from any thread, when there are outcomes; `on_error` with one line for
        each error of the program, and for a resource whose writes fail again and again, once in `TOLD_EVERY`."""
        self._api = api
        self._versions = versions
        self._permit = permit
        self._wake = wake
        self._on_error = on_error
        self._clock = clock
        self._outbox = Outbox(random or SystemRandom())
        self._changed = Condition()
        self._facts: list[Event] = []
        self._failed: set[str] = set()
        """Resources of which the last try failed for the server's trouble."""
        self._told: dict[str, float] = {}
        """When that was reported, by resource."""
        self._stopping = False
        self.threads = [Thread(target=self._run, name=f"writer-{n}", daemon=True) for n in range(threads)]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self, timeout: float) -> bool:
        """Start no further task, and wait up to `timeout` seconds for the running ones. False if one still runs."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        until = time.monotonic() + timeout
        for thread in self.threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self.threads)

    # -- what the engine's thread calls ----------------------------------------------------------------------------------

    def put(self, tasks: Iterable[Task]) -> None:
        """Add tasks after all earlier ones."""
        self._change(lambda: self._outbox.put(tasks, self._clock()))

    def limit(self, mode: Mode) -> None:
        """Start no task that needs a stronger mode; those that wait are refused."""
        self._change(lambda: self._outbox.limit(mode))

    def outcomes(self) -> list[Event]:
        """The facts since the last call, in order."""
        with self._changed:
            facts, self._facts = self._facts, []
        return facts

    # -- what metrics show -----------------------------------------------------------------------------------------------

    @property
    def counts(self) -> dict[tuple[str, str], int]:
        """Number by (action, outcome); see `Outbox.counts`."""
        with self._changed:
            return dict(self._outbox.counts)

    @property
    def waiting(self) -> int:
        return self._outbox.waiting

    @property
    def running(self) -> int:
        return self._outbox.running

    # -- the threads -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Carry out task after task. An error here comes from a callback, not from a task: report it and go on."""
        while not self._stopping:
            try:
                while (task := self._taken()) is not None:
                    self._carry_out(task)
            except Exception as error:
                with suppress(Exception):
                    self._on_error(fault(error, "writer"))
                time.sleep(GLANCE)

    def _taken(self) -> Task | None:
        """Wait for the next task that may run; None after `stop`."""
        with self._changed:
            while not self._stopping:
                if self._outbox.waiting and self._permit() <= MARGIN:
                    self._changed.wait(GLANCE)
                    continue
                now = self._clock()
                task = self._outbox.next(now)
                if isinstance(task, Task):
                    if self._outbox.waiting:  # another thread can begin another one
                        self._changed.notify()
                    return task
                self._changed.wait(None if task is None else max(0.0, task - now))
        return None

    def _carry_out(self, task: Task) -> None:
        guard = Guard(self._api, self._permit, partial(self._another, task))
        try:
            result = carry_out(task, guard, self._versions, self._on_error)
        except NotLeading:
            self._change(lambda: [self._outbox.returned(task)])
        else:
            self._change(lambda: [self._outbox.finished(task, result, self._clock())])
            self._report(task, result)

    def _report(self, task: Task, result: Result) -> None:
        """One failed try means nothing; from the second one in a row on, a person reads of it."""
        with self._changed:
            if isinstance(result, Done) and result.written:
                self._failed.discard(task.resource)
            if not (isinstance(result, Later) and result.trouble):
                return
            now = self._clock()
            silent = task.resource not in self._failed or now - self._told.get(task.resource, -inf) < TOLD_EVERY
            self._failed.add(task.resource)
            if not silent:
                self._told[task.resource] = now
        if not silent:
            self._on_error(str(DdsError(result.why, fix="dds tries again")))

    def _another(self, task: Task) -> bool:
        with self._changed:
            return self._outbox.request(task, self._clock())

    def _change(self, change: Callable[[], Iterable[Event | None]]) -> None:
        """Change the outbox, wake a waiting thread, and report the facts."""
        with self._changed:
            facts = [fact for fact in change() if fact is not None]
            self._facts += facts
            self._changed.notify()
        if facts:
            self._wake()
