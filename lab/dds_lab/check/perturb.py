"""One disturbance of a scaler in a lab, at one point: the number of an event that it hears, or of a write that it makes."""

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
"""Those that come in sizes: versions behind, or events of other resources that come before it."""
SIZES = (1, 5)

AWAY = 1.0
"""Seconds until the process that ended is replaced."""
HEALED = 8.0
"""Seconds after which what was kept back is told: a watch that missed something lists anew, a replica has caught up."""
OVERTAKEN = 2.0
"""Seconds after the next process has begun at which a write of the one before arrives."""


class Gone(BaseException):
    """The process ends in the middle of a call. No code of a scaler may catch it."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """`at` counts from 0: the events that the scaler hears, or the writes that it makes.

    `dies`: the process ends as it hears the event, and another one begins. `unseen`: it does not hear it until its watch has
    broken and it lists anew. `stale`: from there on all that it hears comes from a replica that is `size` changes of each
    resource behind. `stale-start`: it ends there, and the next one's first lists are of such a replica. `late`: it hears the
    event, and what follows of the same resource, after `size` events of others. `dies-before`, `dies-after`: it ends before
    the write, or after it was carried out and before it has the answer. `answer-lost`: the write is carried out, and the
    connection breaks. `too-late`: the process is replaced while its write is on its way, which is carried out then.
    """

    kind: Kind
    at: int
    size: int = 0

    @property
    def point(self) -> tuple[int, bool]:
        """The number, and whether it is that of a write."""
        return self.at, self.kind in WRITE_KINDS

    def __str__(self) -> str:
        return f"{self.kind}:{self.at}" + (f":{self.size}" if self.size else "")


def perturbations(events: int, writes: int, kinds: tuple[Kind, ...] = KINDS) -> Iterator[Perturbation]:
    """All of these kinds for a run with so many events and writes."""
    for kind in kinds:
        for at in range(events if kind in EVENT_KINDS else writes):
            for size in SIZES if kind in COUNTED else (0,):
                yield Perturbation(kind, at, size)


class Hears(Protocol):
    """Who hears of one resource, in the process that is disturbed."""

    @property
    def resource(self) -> str:
        """Its plural."""
        ...

    def hear(self, news: Any) -> None: ...


class Process(Protocol):
    """Who is disturbed. `asks_the_newest`: its lists name no version, so that no replica that is behind may answer them."""

    asks_the_newest: bool

    def end(self) -> None:
        """It ends as a crash ends it."""
        ...

    def begin(self) -> None:
        """Another one begins."""
        ...

    def relist(self, resource: str) -> None:
        """Its watch of a resource breaks, and it lists anew."""
        ...

    def lose_answer(self) -> Exception:
        """What a call raises whose connection breaks."""
        ...


_Answer = TypeVar("_Answer")

Choose = Callable[[int, bool], Perturbation | None]
"""Asked at each point, by its number and whether it is a write: what disturbs the process there, None for nothing."""


def nothing(at: int, write: bool) -> None:
    """As `Choose`: the run is not disturbed."""


def only(wanted: Perturbation) -> Choose:
    """This one alone."""
    return lambda at, write: wanted if wanted.point == (at, write) else None


class Perturber:
    """Stands between a process and the API server, and counts. `chosen` is what has disturbed the process, if anything has, and
    `path` that of the write, if it was at one."""

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

    # -- what it hears

    def keeps(self, mirror: Hears) -> bool:
        """Whether something that it is to hear is kept back."""
        return bool(self._kept.get(mirror))

    def hear(self, mirror: Hears, news: Any) -> None:
        """As `client.Tap`."""
        self.events += 1
        now = self._now(self.events, write=False)
        if now is not None:
            self._disturb(mirror, news, now)
        else:
            self._pass(mirror, news)

    def _now(self, passed: int, *, write: bool) -> Perturbation | None:
        """What disturbs the last of so many events, or writes."""
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
        """Everything that was kept back is told."""
        self._lag = self.behind = 0
        self._late = None
        for mirror, kept in list(self._kept.items()):
            while kept:
                mirror.hear(kept.popleft())

    # -- what it writes

    def write(self, carry_out: Callable[[], _Answer], path: str = "") -> _Answer:
        """Have a write carried out, or what becomes of it."""
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
    """Nobody waits for the answer any more, whatever it is."""
    try:
        carry_out()
    except Exception:
        return
