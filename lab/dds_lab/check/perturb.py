"""Disturbs a scaler once in a run. The point is the number of an event that the scaler receives, or of a write that it makes."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, get_args

from dds_lab.time import Time

EventKind = Literal["dies", "unseen", "stale", "stale-start", "late"]
WriteKind = Literal["dies-before", "dies-after", "answer-lost", "too-late"]
Kind = Literal[EventKind, WriteKind]
EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)
WRITE_KINDS: tuple[WriteKind, ...] = get_args(WriteKind)
KINDS: tuple[Kind, ...] = (*EVENT_KINDS, *WRITE_KINDS)
COUNTED: tuple[Kind, ...] = ("stale", "stale-start", "late")
"""Kinds with a size: number of changes that a replica is behind, or number of later events that arrive first."""
SIZES = (1, 5)

AWAY = 1.0
"""Seconds until an ended process is replaced."""
HEALED = 8.0
"""Seconds after which held-back events are delivered: a watch that missed events lists anew, a replica catches up."""
OVERTAKEN = 2.0
"""Seconds after the start of the next process at which the late write of the previous one arrives."""


class Gone(BaseException):
    """The process ends in the middle of a call. A BaseException, so that a scaler's code does not catch it."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """A kind and its point: `at` counts from 0 the events that the scaler receives, or its writes.

    - `dies`: the process ends when it receives the event, and another one starts.
    - `unseen`: the process does not receive the event until its watch breaks and it lists anew.
    - `stale`: from then on all its events come from a replica that is `size` changes of each resource behind.
    - `stale-start`: the process ends, and the first lists of the next one come from such a replica.
    - `late`: the event, and later ones of the same resource, come after `size` events of other resources.
    - `dies-before`, `dies-after`: the process ends before the write, or after the write but before the answer.
    - `answer-lost`: the write is carried out, and the connection breaks before the answer.
    - `too-late`: the process is replaced while its write is on its way; the write arrives after that.
    """

    kind: Kind
    at: int
    size: int = 0

    @property
    def point(self) -> tuple[int, bool]:
        """The number, and whether it counts writes."""
        return self.at, self.kind in WRITE_KINDS

    def __str__(self) -> str:
        return f"{self.kind}:{self.at}" + (f":{self.size}" if self.size else "")


def perturbations(events: int, writes: int, kinds: tuple[Kind, ...] = KINDS) -> Iterator[Perturbation]:
    """All perturbations of these kinds for a run with so many events and writes."""
    for kind in kinds:
        for at in range(events if kind in EVENT_KINDS else writes):
            for size in SIZES if kind in COUNTED else (0,):
                yield Perturbation(kind, at, size)


class Hears(Protocol):
    """The receiver of one resource's events in the disturbed process."""

    @property
    def resource(self) -> str:
        """The resource's plural."""
        ...

    def hear(self, news: Any) -> None: ...


class Process(Protocol):
    """The process that is disturbed. `asks_the_newest`: its lists require the newest version, which a replica that is behind
    cannot answer."""

    asks_the_newest: bool

    def end(self) -> None:
        """End as in a crash."""
        ...

    def begin(self) -> None:
        """Start another process."""
        ...

    def relist(self, resource: str) -> None:
        """Break the watch of a resource, so that the process lists anew."""
        ...

    def lose_answer(self) -> Exception:
        """The exception that a call raises if its connection breaks."""
        ...


_Answer = TypeVar("_Answer")

Choose = Callable[[int, bool], Perturbation | None]
"""Called at each point with its number and whether it is a write; returns the perturbation, None for none."""


def nothing(at: int, write: bool) -> None:
    """A `Choose` that never disturbs."""


def only(wanted: Perturbation) -> Choose:
    """A `Choose` for this perturbation alone."""
    return lambda at, write: wanted if wanted.point == (at, write) else None


class Perturber:
    """Sits between a process and the API server, counts events and writes, and disturbs at most once. `chosen` is the
    perturbation that happened, `path` the path of the disturbed write."""

    def __init__(self, time: Time, process: Process, choose: Choose = nothing) -> None:
        self.events = self.writes = self.behind = 0
        self.chosen: Perturbation | None = None
        self.path = ""
        self._time = time
        self._process = process
        self._choose = choose
        self._lag = 0
        self._kept: defaultdict[Hears, deque[Any]] = defaultdict(deque)
        self._late: Hears | None = None
        self._before_it = 0

    # -- events

    def keeps(self, mirror: Hears) -> bool:
        """Whether events for this receiver are held back."""
        return bool(self._kept.get(mirror))

    def hear(self, mirror: Hears, news: Any) -> None:
        self.events += 1
        now = self._now(self.events, write=False)
        if now is not None:
            self._disturb(mirror, news, now)
        else:
            self._pass(mirror, news)

    def _now(self, passed: int, *, write: bool) -> Perturbation | None:
        """The perturbation for the event or write with this count, None for none."""
        if self.chosen is not None:
            return None
        self.chosen = self._choose(passed - 1, write)
        return self.chosen

    def _disturb(self, mirror: Hears, news: Any, wanted: Perturbation) -> None:
        size = wanted.size
        match wanted.kind:
            case "dies":
                self._replace()
            case "stale-start":
                self._lag = size
                self.behind = 0 if self._process.asks_the_newest else size
                self._replace()
                self._time.after(HEALED, self._heal)
            case "unseen":
                self._time.after(HEALED, lambda: self._process.relist(mirror.resource))
            case "stale":
                self._lag = size
                self._time.after(HEALED, self._heal)
                self._pass(mirror, news)
            case "late":
                self._late, self._before_it = mirror, size
                self._time.after(HEALED, self._heal)
                self._pass(mirror, news)

    def _pass(self, mirror: Hears, news: Any) -> None:
        kept = self._kept[mirror]
        kept.append(news)
        if mirror is self._late:
            return
        while len(kept) > self._lag:
            mirror.hear(kept.popleft())
        if self._late is not None:
            self._before_it -= 1
            if not self._before_it:
                self._heal()

    def _heal(self) -> None:
        """Deliver all events that were held back."""
        self._lag = self.behind = 0
        self._late = None
        for mirror, kept in list(self._kept.items()):
            while kept:
                mirror.hear(kept.popleft())

    # -- writes

    def write(self, carry_out: Callable[[], _Answer], path: str = "") -> _Answer:
        """Carry a write out, or disturb it: raises Gone if the process ends, else the error of a lost answer."""
        self.writes += 1
        wanted = self._now(self.writes, write=True)
        if wanted is None:
            return carry_out()
        self.path = path
        match wanted.kind:
            case "dies-before":
                self._replace()
            case "dies-after":
                _unanswered(carry_out)
                self._replace()
            case "answer-lost":
                _unanswered(carry_out)
                raise self._process.lose_answer()
            case "too-late":
                self._replace()
                self._time.after(AWAY + OVERTAKEN, lambda: _unanswered(carry_out))
        raise Gone

    def _replace(self) -> None:
        self._process.end()
        self._kept.clear()
        self._time.after(AWAY, self._process.begin)


def _unanswered(carry_out: Callable[[], object]) -> None:
    """Carry out a write whose answer nobody reads."""
    try:
        carry_out()
    except Exception:
        return
