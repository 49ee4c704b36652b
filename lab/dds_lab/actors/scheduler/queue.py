"""The pods that wait to be scheduled, in the queues of kube-scheduler 1.36.

Active: by priority, then by waiting time. Back-off: 1 s doubling to 10 s. Expired pods leave at whole seconds of the scheduler's
clock, so all that expire within a second leave together at its end. There are two back-off queues: after an error (a failed
PreBind) a pod waits its full time; after an ordinary refusal it is taken early when the active queue is empty. Unschedulable:
until a change of the cluster may help, or five minutes. Gated: a claim is missing, so the pod is not even tried.

Source: pkg/scheduler/backend/queue. The hints decide whether a change helps, not this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from dds_lab.actors.scheduler.pods import Pod
from dds_lab.time import MICROSECONDS, Time, Timer

INITIAL_BACKOFF = 1 * MICROSECONDS
MAX_BACKOFF = 10 * MICROSECONDS
WINDOW = MICROSECONDS
LEFTOVER_AFTER = 300 * MICROSECONDS
LEFTOVER_EVERY = 30 * MICROSECONDS

NOWHERE, ACTIVE, BACKOFF, ERROR_BACKOFF, UNSCHEDULABLE, GATED = range(6)


class Change(Protocol):
    """A change of the cluster, with its queueing hint."""

    @property
    def claim(self) -> str | None:
        """The claim (namespace/name) that changed: only pods that use it are asked. None: all pods are."""
        ...

    def helps(self, pod: Pod, plugin: str) -> bool:
        """Whether a pod that this plugin refused is worth another attempt."""
        ...


@dataclass(slots=True, eq=False)
class Waiting:
    """A pod in the queue, and the results of its attempts."""

    pod: Pod
    since: int
    place: int = NOWHERE
    rejectors: frozenset[str] = frozenset()
    refusals: int = 0
    errors: int = 0
    ticket: int = 0  # heap entries with another ticket are void
    expiry: int = 0
    seen: int = 0  # number of changes before its running attempt began


@dataclass(slots=True)
class _Heap:
    """A heap of pods. Entries become void when their pod moves on."""

    rows: list[tuple[tuple[int, ...], int, Waiting]] = field(default_factory=list)

    def push(self, order: tuple[int, ...], waiting: Waiting) -> None:
        heappush(self.rows, (order, waiting.ticket, waiting))

    def peek(self) -> Waiting | None:
        while self.rows:
            _, ticket, waiting = self.rows[0]
            if waiting.ticket == ticket:
                return waiting
            heappop(self.rows)
        return None

    def pop(self) -> Waiting | None:
        found = self.peek()
        if found is not None:
            heappop(self.rows)
        return found


class SchedulingQueue:
    """`gate`: why a pod may not be tried yet ("" if it may). `ready`: called whenever there may be a pod to pop."""

    def __init__(
        self, time: Time, clock: Callable[[], int], gate: Callable[[Pod], str], ready: Callable[[], None]
    ) -> None:
        self._time = time
        self._clock = clock
        self._gate = gate
        self._ready = ready
        self._pods: dict[str, Waiting] = {}
        self._active = _Heap()
        self._backoff = _Heap()
        self._errors = _Heap()
        self._unschedulable: dict[str, Waiting] = {}
        self._gated: dict[str, Waiting] = {}
        self._users: dict[str, dict[str, Waiting]] = {}
        self._in_flight: dict[str, Waiting] = {}
        self._changes: list[Change] = []
        self._forgotten = 0
        self._tickets = 0
        self._tick: Timer | None = None
        self._leftovers: Timer | None = None

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> Waiting | None:
        """The pod in whichever queue it is, also during its attempt."""
        return self._pods.get(uid)

    def add(self, pod: Pod) -> None:
        """Add a new pod that has no node."""
        waiting = Waiting(pod, since=self._clock())
        self._pods[pod.uid] = waiting
        self._enter_active(waiting)

    def update(self, pod: Pod, helps: bool) -> None:
        """A new version of a waiting pod. `helps`: the change may make it schedulable."""
        waiting = self._pods[pod.uid]
        self._unlist(waiting)
        waiting.pod = pod
        if waiting.place == GATED:
            self._enter_active(waiting)
        elif waiting.place == UNSCHEDULABLE:
            self._list(waiting)
            if helps:
                self._retry(waiting)

    def remove(self, uid: str) -> None:
        """Remove a pod that is gone or bound."""
        waiting = self._pods.pop(uid, None)
        if waiting is not None:
            self._leave(waiting)
            self.done(waiting)

    def pop(self) -> Waiting | None:
        """The next pod to try: from the active queue, else from the back-off of ordinary refusals. It is in flight until
        `done`, `refused` or `failed`."""
        waiting = self._active.pop() or self._backoff.pop()
        if waiting is None:
            return None
        self._leave(waiting)
        waiting.seen = self._forgotten + len(self._changes)
        self._in_flight[waiting.pod.uid] = waiting
        return waiting

    def done(self, waiting: Waiting) -> None:
        """The attempt found a node, or the pod is gone: changes are no longer collected for it."""
        self._in_flight.pop(waiting.pod.uid, None)
        if not self._in_flight:
            self._forgotten += len(self._changes)
            self._changes.clear()

    def refused(self, waiting: Waiting, rejectors: frozenset[str]) -> None:
        """No node fits: the pod waits for a change that helps. If one came during the attempt, it only backs off."""
        if self._pods.get(waiting.pod.uid) is not waiting:
            return
        waiting.rejectors = rejectors
        waiting.since = self._clock()
        waiting.refusals += 1
        waiting.errors = 0
        missed = self._changes[max(0, waiting.seen - self._forgotten) :] if waiting.pod.uid in self._in_flight else []
        self.done(waiting)
        if any(_helps(change, waiting) for change in missed):
            self._retry(waiting)
        else:
            self._enter_unschedulable(waiting)

    def failed(self, waiting: Waiting) -> None:
        """The attempt ended in an error: the pod is tried again after its back-off, whatever changes."""
        if self._pods.get(waiting.pod.uid) is not waiting:
            return
        waiting.rejectors = frozenset()
        waiting.since = self._clock()
        waiting.errors += 1
        self.done(waiting)
        self._enter_backoff(waiting)

    def happened(self, change: Change) -> None:
        """The cluster changed: retry the pods that this may help."""
        if self._in_flight:
            self._changes.append(change)
        for waiting in self._asked(change):
            if waiting.place == GATED:
                self._enter_active(waiting)
            elif _helps(change, waiting):
                self._retry(waiting)

    def stop(self) -> None:
        for timer in (self._tick, self._leftovers):
            if timer is not None:
                timer.cancel()

    def _asked(self, change: Change) -> list[Waiting]:
        if change.claim is not None:
            return list(self._users.get(change.claim, {}).values())
        return list(self._unschedulable.values())

    def _retry(self, waiting: Waiting) -> None:
        """Move the pod to a back-off queue if its back-off is not over, else to the active queue."""
        waiting.expiry = waiting.since + _backoff(waiting)
        if _window(waiting.expiry) >= _window(self._clock()):
            self._enter_backoff(waiting)
        else:
            self._enter_active(waiting)

    def _enter_active(self, waiting: Waiting) -> None:
        self._leave(waiting)
        if self._gate(waiting.pod):
            waiting.place = GATED
            self._gated[waiting.pod.uid] = waiting
            self._list(waiting)
            return
        waiting.place = ACTIVE
        self._active.push((-waiting.pod.priority, waiting.since), waiting)
        self._ready()

    def _enter_backoff(self, waiting: Waiting) -> None:
        self._leave(waiting)
        waiting.expiry = waiting.since + _backoff(waiting)
        order = (_window(waiting.expiry), -waiting.pod.priority, waiting.since)
        if waiting.errors:
            waiting.place = ERROR_BACKOFF
            self._errors.push(order, waiting)
        else:
            waiting.place = BACKOFF
            self._backoff.push(order, waiting)
            self._ready()
        self._arm_tick()

    def _enter_unschedulable(self, waiting: Waiting) -> None:
        self._leave(waiting)
        waiting.place = UNSCHEDULABLE
        self._unschedulable[waiting.pod.uid] = waiting
        self._list(waiting)
        if self._leftovers is None:
            self._leftovers = self._time.after(LEFTOVER_EVERY / MICROSECONDS, self._flush_leftovers)

    def _leave(self, waiting: Waiting) -> None:
        self._tickets += 1
        waiting.ticket = self._tickets
        if waiting.place in (GATED, UNSCHEDULABLE):
            self._unlist(waiting)
            self._gated.pop(waiting.pod.uid, None)
            self._unschedulable.pop(waiting.pod.uid, None)
        waiting.place = NOWHERE

    def _list(self, waiting: Waiting) -> None:
        for claim in waiting.pod.claim_keys:
            self._users.setdefault(claim, {})[waiting.pod.uid] = waiting

    def _unlist(self, waiting: Waiting) -> None:
        for claim in waiting.pod.claim_keys:
            users = self._users.get(claim)
            if users is not None:
                users.pop(waiting.pod.uid, None)
                if not users:
                    del self._users[claim]

    def _arm_tick(self) -> None:
        if self._tick is None:
            wait = WINDOW - self._clock() % WINDOW
            self._tick = self._time.after(wait / MICROSECONDS, self._flush_expired)

    def _flush_expired(self) -> None:
        self._tick = None
        now = _window(self._clock())
        for heap in (self._backoff, self._errors):
            while (first := heap.peek()) is not None and _window(first.expiry) < now:
                heap.pop()
                self._enter_active(first)
        if self._backoff.peek() is not None or self._errors.peek() is not None:
            self._arm_tick()

    def _flush_leftovers(self) -> None:
        self._leftovers = None
        limit = self._clock() - LEFTOVER_AFTER
        for waiting in list(self._unschedulable.values()):
            if waiting.since > limit:
                break
            self._retry(waiting)
        if self._unschedulable:
            self._leftovers = self._time.after(LEFTOVER_EVERY / MICROSECONDS, self._flush_leftovers)


def _helps(change: Change, waiting: Waiting) -> bool:
    pod = waiting.pod
    return any(change.helps(pod, plugin) for plugin in waiting.rejectors)


def _window(instant: int) -> int:
    return instant // WINDOW


def _backoff(waiting: Waiting) -> int:
    """The back-off in microseconds. Consecutive errors are counted apart from refusals; a refusal resets their count."""
    count = waiting.errors or waiting.refusals
    return min(MAX_BACKOFF, INITIAL_BACKOFF << min(count - 1, 10)) if count else 0
