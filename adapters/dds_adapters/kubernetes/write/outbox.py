"""The outbox: which tasks still wait, and which may begin now.

Tasks that share an object run one after the other, in the order in which they were put. A newer task with the same `replaces`
supersedes an unfinished older one. A failed task is tried again after growing pauses, and a failing server gets few requests.
Pure: the caller gives instants (seconds of a monotonic clock) and the source of randomness, carries tasks out and reports each
result; the outbox returns the fact of it.

| task | begins | may be dropped (`droppable`) |
|---|---|---|
| of a decision, or `lasting` (epoch stamp, query about guards) | first | no |
| query without decision (`needs="observe"`) | `after_decisions`, `AFTER_DECISIONS_AT_ONCE` at a time | no |
| write without decision (Kubernetes Event) | likewise | yes: `MOST_DROPPABLE` wait, `DROPPABLE_TRIES` tries |
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf, nextafter
from random import Random

from dds_adapters.kubernetes.limiter import Backoff, Limiter
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete, Overdue, Result, Task
from dds_core.events import Event, Superseded, WriteDone, WriteObsolete, WriteRefused
from dds_core.kit.policy import MODES, Mode

MOST_DROPPABLE = 10_000
"""Most droppable tasks that may wait; further ones are dropped."""
AFTER_DECISIONS_AT_ONCE = 2
"""Ten thousand queries after a start must not keep all threads, and the server, from the orders."""
DROPPABLE_TRIES = 3
"""A droppable task is dropped after so many failed tries."""
LOOK_AND_WRITE = 2
"""Requests that a task usually needs: it begins only if the limiter allows that many, and sends that many without asking
again."""
MODE_LOWERED = "ModeLowered"

Ending = Done | Obsolete | Declined
"""A final result."""


@dataclass(eq=False, slots=True)
class _Item:
    """A task and its status. `until`: the instant after which it is too late. `ahead`: for how many of its objects another task
    comes first."""

    task: Task
    number: int
    until: float
    ahead: int = 0
    due: float = float("-inf")
    tries: int = 0
    requests: int = 0
    """Requests sent in this try."""
    backoff: Backoff | None = None
    gone: bool = False
    """The task has ended; heaps that still contain it skip it."""

    @property
    def droppable(self) -> bool:
        return _droppable(self.task)

    @property
    def after_decisions(self) -> bool:
        """Begins only when no task of a decision is ready: after a start there may be thousands of queries, while claims wait."""
        return not (self.task.decision or self.task.lasting)


class Outbox:
    """The waiting and the running tasks. Not thread-safe.

    Call `put`; call `next` until it gives no task; report each task that it gave with `finished` or `returned`. Each task of a
    decision gets one fact, returned by `put`, `limit` or `finished`: `WriteDone`, `WriteObsolete`, `WriteRefused` or
    `Superseded`.
    """

    def __init__(self, random: Random, mode: Mode = "detach") -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        """Number by (action, outcome); outcomes: done, unchanged, obsolete, declined, later, superseded, lowered, dropped."""
        self._random = random
        self._mode: Mode = mode
        self._number = 0
        self._waiting: dict[int, _Item] = {}
        self._running: dict[int, _Item] = {}
        self._queues: dict[str, OrderedDict[int, _Item]] = {}
        self._newest: dict[str, _Item] = {}
        """The waiting task by its `replaces`."""
        self._ready: dict[tuple[bool, str], list[tuple[int, _Item]]] = {}
        """Heaps of tasks that may begin (due, and first for all their objects), by (after_decisions, resource)."""
        self._later: list[tuple[float, int, _Item]] = []
        self._limiters: dict[str, Limiter] = {}
        """By resource. A failed task counts with all its requests. Only a completed write counts as a good answer, because
        answered reads do not show that writes work."""
        self._droppables = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    @property
    def waiting(self) -> int:
        """Number of tasks that have not begun, or wait for another try."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Number of tasks that run."""
        return len(self._running)

    # -- what comes in, what is taken out ------------------------------------------------------------------------------

    def put(self, tasks: Iterable[Task], now: float) -> list[Event]:
        """Add tasks after all earlier ones. Gives the facts of those that will not run."""
        facts: list[Event | None] = []
        for task in tasks:
            if not self._allowed(task):
                facts.append(self._outcome(task, "lowered"))
            elif _droppable(task) and self._droppables >= MOST_DROPPABLE:
                self._outcome(task, "dropped")
            else:
                facts.append(self._put(task, now))
        return [fact for fact in facts if fact is not None]

    def limit(self, mode: Mode) -> list[Event]:
        """Start no task that needs a stronger mode than `mode`; in "observe" only tasks that write nothing start. Gives the facts
        of the waiting tasks that this excludes: `WriteRefused` undoes their decisions in the state."""
        if mode == self._mode:
            return []
        self._mode = mode
        out = [item for item in self._waiting.values() if not self._allowed(item.task)]
        facts = [self._taken_out(item, "lowered") for item in out]
        return [fact for fact in facts if fact is not None]

    # -- what is to be done ----------------------------------------------------------------------------------------------

    def next(self, now: float) -> Task | float | None:
        """A task to run now; or the instant at which to ask again unless something is put or finished before; None if nothing
        waits. Tasks of decisions come first."""
        while self._later and self._later[0][0] <= now:
            _, _, item = heappop(self._later)
            if not item.gone:
                self._make_ready(item)
        chosen: tuple[bool, int] | None = None
        heap: list[tuple[int, _Item]] | None = None
        instant = self._next_due()
        full = sum(item.after_decisions for item in self._running.values()) >= AFTER_DECISIONS_AT_ONCE
        for (after_decisions, resource), items in self._ready.items():
            while items and items[0][1].gone:
                heappop(items)
            if not items or (after_decisions and full):
                continue
            wait = self._limiter(resource).wait(now, LOOK_AND_WRITE)
            if wait > 0:
                instant = min(instant, now + wait)
            elif chosen is None or (after_decisions, items[0][0]) < chosen:
                chosen, heap = (after_decisions, items[0][0]), items
        if heap is None:
            return instant if instant < float("inf") else None
        item = heappop(heap)[1]
        if now > item.until:
            item.task = replace(item.task, write=Overdue(item.task.too_late))
        return self._begin(item)

    def request(self, task: Task, now: float) -> bool:
        """Called before each request of a running task but its first, which `next` has counted. False: the server is failing and
        has its share of requests; send nothing."""
        item = self._running[id(task)]
        limiter = self._limiter(item.task.resource)
        if item.requests >= LOOK_AND_WRITE:
            if limiter.wait(now) > 0:
                return False
            limiter.running += 1
        item.requests += 1
        return True

    def finished(self, task: Task, result: Result, now: float) -> Event | None:
        """Report the result of a running task. Gives its fact; None if it will be tried again, or has no decision."""
        item, limiter = self._back(task)
        match result:
            case Done():
                if result.written:
                    limiter.succeeded()
                fact = self._ended(item, "done" if result.written else "unchanged", result)
                self.put(item.task.then, now)
                return fact
            case Obsolete():
                return self._ended(item, "obsolete", result)
            case Declined():
                return self._ended(item, "declined", result)
            case Later(wait=wait, trouble=trouble):
                if trouble:
                    limiter.failed([now] * item.requests)
                item.tries += 1
                item.backoff = item.backoff or Backoff(self._random)
                too_late = nextafter(item.until, inf)  # it ends, with its fact, right after its last moment
                item.due = min(now + item.backoff.failed(now, wait), too_late)
                self.counts[_action(task), "later"] += 1
                return self._again(item)

    def returned(self, task: Task) -> Event | None:
        """Report that this process could not run the task; it waits again as if it had not begun."""
        item, _ = self._back(task)
        return self._again(item)

    # -- one task ----------------------------------------------------------------------------------------------------------

    def _put(self, task: Task, now: float) -> Event | None:
        self._number += 1
        item = _Item(task, self._number, now + task.within)
        older = self._newest.get(task.replaces) if task.replaces else None
        fact = None
        if older is not None:
            _inherit(item, older)
            fact = self._taken_out(older, "superseded")
        for name in dict.fromkeys(task.objects):
            queue = self._queues.setdefault(name, OrderedDict())
            item.ahead += bool(queue)
            queue[item.number] = item
        self._wait(item)
        return fact

    def _wait(self, item: _Item) -> None:
        self._waiting[item.number] = item
        self._droppables += item.droppable
        if item.task.replaces:
            self._newest[item.task.replaces] = item
        if not item.ahead:
            self._due(item)

    def _due(self, item: _Item) -> None:
        """No earlier task for any of its objects is queued: it is ready, or becomes so when its back-off ends."""
        if item.due == float("-inf"):
            self._make_ready(item)
        else:
            heappush(self._later, (item.due, item.number, item))

    def _make_ready(self, item: _Item) -> None:
        heappush(self._ready.setdefault((item.after_decisions, item.task.resource), []), (item.number, item))

    def _next_due(self) -> float:
        while self._later and self._later[0][2].gone:
            heappop(self._later)
        return self._later[0][0] if self._later else float("inf")

    def _begin(self, item: _Item) -> Task:
        self._no_longer_waits(item)
        self._running[id(item.task)] = item
        self._limiter(item.task.resource).running += LOOK_AND_WRITE
        item.requests = 1
        return item.task

    def _back(self, task: Task) -> tuple[_Item, Limiter]:
        """Remove a task from the running ones; gives the limiter of its resource too."""
        item = self._running.pop(id(task))
        limiter = self._limiter(item.task.resource)
        limiter.running -= max(LOOK_AND_WRITE, item.requests)
        return item, limiter

    def _no_longer_waits(self, item: _Item) -> None:
        del self._waiting[item.number]
        self._droppables -= item.droppable
        if self._newest.get(item.task.replaces) is item:
            del self._newest[item.task.replaces]

    def _again(self, item: _Item) -> Event | None:
        """Let a task wait for another try, unless the mode, a newer task or the number of tries excludes that."""
        newer = self._newest.get(item.task.replaces) if item.task.replaces else None
        if not self._allowed(item.task):
            return self._ended(item, "lowered")
        if newer is not None:
            _inherit(newer, item)
            return self._ended(item, "superseded")
        if item.droppable and item.tries >= DROPPABLE_TRIES:
            return self._ended(item, "dropped")
        self._wait(item)
        return None

    def _taken_out(self, item: _Item, outcome: str) -> Event | None:
        self._no_longer_waits(item)
        return self._ended(item, outcome)

    def _ended(self, item: _Item, outcome: str, why: Ending | None = None) -> Event | None:
        """Remove the task from its objects' queues; the next task of each may begin."""
        item.gone = True
        for name in dict.fromkeys(item.task.objects):
            queue = self._queues[name]
            first = next(iter(queue)) == item.number
            del queue[item.number]
            if not queue:
                del self._queues[name]
            elif first:
                follower = next(iter(queue.values()))
                follower.ahead -= 1
                if not follower.ahead:
                    self._due(follower)
        return self._outcome(item.task, outcome, why)

    def _outcome(self, task: Task, outcome: str, why: Ending | None = None) -> Event | None:
        self.counts[_action(task), outcome] += 1
        if not task.decision:
            return None
        names = (task.decision, task.action, task.target)
        if isinstance(why, Done):
            return WriteDone(*names, why.version, why.rivals)
        if outcome == "superseded":
            return Superseded(*names)
        if isinstance(why, Obsolete):
            return WriteObsolete(*names, why.why)
        if why is None:
            return WriteRefused(*names, 0, MODE_LOWERED, f"the mode is {self._mode} by now")
        return WriteRefused(*names, why.code, why.reason, why.text)

    def _allowed(self, task: Task) -> bool:
        return MODES.index(task.needs) <= MODES.index(self._mode)

    def _limiter(self, resource: str) -> Limiter:
        return self._limiters.setdefault(resource, Limiter())


def _droppable(task: Task) -> bool:
    """True for a task that may be dropped: without decision, not `lasting`, and a write. A query (it needs no mode) is kept,
    because nothing would repeat it."""
    return not (task.decision or task.lasting or task.needs == "observe")


def _inherit(newer: _Item, older: _Item) -> None:
    """Keep the back-off of the superseded task: a newer decision does not make a failing server answer. One of the same kind does
    what the older should have done, too, and has that told."""
    newer.due, newer.backoff = older.due, older.backoff
    if older.task.then and newer.task.action == older.task.action:
        newer.task = replace(newer.task, then=(*older.task.then, *newer.task.then))


def _action(task: Task) -> str:
    return task.action or type(task.write).__name__
