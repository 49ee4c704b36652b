"""Faults between a client and the API server: rules, and with a seed the requests that they hit (`WireFaults`).

`WireFaults` is pure: for each request it returns the effects, and the HTTP frontend applies them. It never touches the server, so
objects and versions stay correct. `FaultyStream` has no I/O and no timers either, like the stream that it wraps.
"""

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from dds_core.errors import InputError
from dds_lab.api import status
from dds_lab.api.status import ApiError
from dds_lab.api.watches import Flow
from dds_lab.latency import Fixed, Latency

MICROSECONDS = 1_000_000
CODES = (409, 429, 500, 503)


@dataclass(frozen=True)
class Refuse:
    """The request is answered with 409, 429 (with Retry-After), 500 or 503 and has no other effect."""

    code: int
    retry_after: int = 1

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise InputError(
                f"{self.code} cannot be had", where="refuse", fix=f"choose one of {', '.join(map(str, CODES))}"
            )

    def error(self) -> ApiError:
        if self.code == 409:
            return ApiError(409, "Conflict", f"Operation cannot be fulfilled: {status.CHANGED}")
        if self.code == 429:
            return status.too_many_requests(seconds=self.retry_after)
        if self.code == 503:
            return status.unavailable()
        return ApiError(500, "InternalError", "Internal error occurred: a fault was asked for")


@dataclass(frozen=True)
class Slow:
    """The request is carried out at once, but the answer is delayed by so many seconds (for a watch: its start)."""

    seconds: Latency


@dataclass(frozen=True)
class Lost:
    """The request is carried out, but the connection is cut before the answer."""


@dataclass(frozen=True)
class Cut:
    """A watch's connection is cut after `after` seconds, without a proper end; with `mid_line` in the middle of the next line."""

    after: Latency = field(default_factory=Fixed)
    mid_line: bool = False


@dataclass(frozen=True)
class HalfOpen:
    """From `after` seconds on a watch sends nothing, no bookmark and no end, while its socket stays open."""

    after: Latency = field(default_factory=Fixed)


@dataclass(frozen=True)
class Expire:
    """A watch that starts at a version gets the error that the version is too old (410)."""


@dataclass(frozen=True)
class Duplicate:
    """A share of a watch's events is sent twice."""

    share: float = 1.0


@dataclass(frozen=True)
class Delay:
    """Each event of a watch is delayed; the order stays."""

    seconds: Latency


RequestFault = Refuse | Slow | Lost
WatchFault = Cut | HalfOpen | Expire | Duplicate | Delay
Action = RequestFault | WatchFault
_OF_WATCHES = (Cut, HalfOpen, Expire, Duplicate, Delay)


@dataclass(frozen=True)
class Rule:
    """An action and the requests that it hits. Empty names mean all; `resources` are plurals. The window is in seconds of lab
    time after the start of `WireFaults`. `Cut` and `HalfOpen` also hit watches that were opened before the window."""

    action: Action
    users: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    start: float = 0.0
    end: float = float("inf")
    share: float = 1.0
    limit: int | None = None
    """Most times that the rule hits; None for no limit."""


@dataclass(frozen=True)
class Asked:
    """The properties of a request that rules look at. `versioned`: a watch that starts at a version."""

    user: str
    verb: str
    resource: str
    versioned: bool = False


@dataclass(frozen=True)
class WatchEffects:
    """The effects on one watch. Instants in microseconds, None for never."""

    cut_at: int | None = None
    mid_line: bool = False
    silent_at: int | None = None
    expired: bool = False
    duplicates: float = 0.0
    delay: Latency | None = None

    @property
    def any(self) -> bool:
        return self != WatchEffects()


@dataclass(frozen=True)
class Effects:
    """The effects on one request."""

    refused: Refuse | None = None
    slow: float = 0.0
    lost: bool = False
    watch: WatchEffects = WatchEffects()


NOTHING = Effects()


class WireFaults:
    """Rules, and how often each has hit. The same rules, seed and requests give the same faults."""

    def __init__(self, rules: Sequence[Rule], now: Callable[[], int], random: Random) -> None:
        """They start at once; `now` gives the lab's time in microseconds."""
        self.rules = tuple(rules)
        self.struck = [0] * len(self.rules)
        self.random = random
        self._now = now
        self._start = now()

    def for_request(self, asked: Asked) -> Effects:
        """The effects on a request; counts the rules that hit it."""
        refused: Refuse | None = None
        slow, lost = 0.0, False
        for at in self._striking(asked, _REQUEST_FAULTS):
            action = self.rules[at].action
            if isinstance(action, Refuse):
                refused = refused or action
            elif isinstance(action, Slow):
                slow += action.seconds.draw(self.random)
            elif isinstance(action, Lost):
                lost = asked.verb != "watch"
        watch = self._for_watch(asked) if asked.verb == "watch" else WatchEffects()
        return Effects(refused, slow, lost, watch)

    def _for_watch(self, asked: Asked) -> WatchEffects:
        now = self._now()
        cut_at: int | None = None
        silent_at: int | None = None
        mid_line, expired, duplicates = False, False, 0.0
        delay: Latency | None = None
        for at in self._striking(asked, _OF_WATCHES):
            rule, action = self.rules[at], self.rules[at].action
            if isinstance(action, Cut | HalfOpen):
                instant = max(now, int(self._instant(rule.start))) + _microseconds(action.after.draw(self.random))
                if isinstance(action, HalfOpen):
                    silent_at = instant if silent_at is None else min(instant, silent_at)
                elif cut_at is None or instant < cut_at:
                    cut_at, mid_line = instant, action.mid_line
            elif isinstance(action, Expire):
                expired = True
            elif isinstance(action, Duplicate):
                duplicates = max(duplicates, action.share)
            elif isinstance(action, Delay):
                delay = action.seconds
        return WatchEffects(cut_at, mid_line, silent_at, expired, duplicates, delay)

    def _striking(self, asked: Asked, kinds: tuple[type, ...]) -> list[int]:
        """Indices of the rules of these kinds that hit the request; each hit is counted."""
        striking = []
        for at, rule in enumerate(self.rules):
            if isinstance(rule.action, kinds) and self._concerns(rule, asked) and self._drawn(at, rule):
                self.struck[at] += 1
                striking.append(at)
        return striking

    def _concerns(self, rule: Rule, asked: Asked) -> bool:
        if rule.users and asked.user not in rule.users:
            return False
        if rule.verbs and asked.verb not in rule.verbs:
            return False
        if rule.resources and asked.resource not in rule.resources:
            return False
        if isinstance(rule.action, Expire) and not asked.versioned:
            return False
        now = self._now()
        early = isinstance(rule.action, Cut | HalfOpen)
        return (early or now >= self._instant(rule.start)) and now < self._instant(rule.end)

    def _drawn(self, at: int, rule: Rule) -> bool:
        if rule.limit is not None and self.struck[at] >= rule.limit:
            return False
        return rule.share >= 1.0 or self.random.random() < rule.share

    def _instant(self, seconds: float) -> float:
        return self._start + seconds * MICROSECONDS

    def __bool__(self) -> bool:
        return bool(self.rules)


_REQUEST_FAULTS = (Refuse, Slow, Lost)


def _microseconds(seconds: float) -> int:
    return round(seconds * MICROSECONDS)


Lines = Flow[bytes]
"""A watch's stream of lines, from the API server or with faults."""


class FaultyStream:
    """A watch's stream with faults: lines come twice, late or never, or the stream is cut."""

    def __init__(
        self,
        stream: Lines,
        effects: WatchEffects,
        now: Callable[[], int],
        random: Random,
        cut: Callable[[bytes], None],
    ) -> None:
        """`cut` is called once to cut the connection, with the bytes to send before that (half a line or nothing)."""
        self._stream = stream
        self._effects = effects
        self._now = now
        self._random = random
        self._late: deque[tuple[int, bytes]] = deque()
        self._ready: Callable[[], None] | None = None
        self._silent = False
        self._over = False
        self._cut = cut
        if effects.expired:
            stream.close()
            stream.take()

    def take(self) -> list[bytes]:
        """Lines that have become due since the last call."""
        if self._effects.expired and not self._over:
            self._over = True
            return [_expired_line()]
        if self._over:
            return []
        now = self._now()
        if self._effects.silent_at is not None and now >= self._effects.silent_at:
            self._fall_silent()
            return []
        lines = self._arrived(now)
        if self._effects.cut_at is None or now < self._effects.cut_at:
            return lines
        if not self._effects.mid_line:
            self._break(b"")
            return []
        if lines:
            self._break(lines[0][: len(lines[0]) // 2])
        return []

    def _arrived(self, now: int) -> list[bytes]:
        lines = [line for each in self._stream.take() for line in self._copies(each)]
        if self._effects.delay is None:
            return lines
        due = self._late[-1][0] if self._late else now
        for line in lines:
            due = max(due, now + round(self._effects.delay.draw(self._random) * MICROSECONDS))
            self._late.append((due, line))
        arrived = []
        while self._late and self._late[0][0] <= now:
            arrived.append(self._late.popleft()[1])
        return arrived

    def _copies(self, line: bytes) -> list[bytes]:
        share = self._effects.duplicates
        return [line, line] if share and self._random.random() < share else [line]

    def _fall_silent(self) -> None:
        self._silent = True
        self._late.clear()
        self._stream.on_ready(None)
        self._stream.close()

    def _break(self, rest: bytes) -> None:
        self._over = True
        self._stream.on_ready(None)
        self._stream.close()
        self._cut(rest)

    def on_ready(self, call: Callable[[], None] | None) -> None:
        self._ready = call
        if self._silent:
            return
        self._stream.on_ready(call)

    @property
    def closed(self) -> bool:
        """Whether no more lines will come; a silent stream never reports that."""
        if self._over:
            return True
        return not self._silent and not self._effects.expired and self._stream.closed and not self._late

    @property
    def due(self) -> int | None:
        """The instant at which `tick` is to be called."""
        if self._over or self._silent:
            return None
        instants = [self._stream.due, self._effects.cut_at, self._effects.silent_at]
        if self._late:
            instants.append(self._late[0][0])
        now = self._now()
        return min((each for each in instants if each is not None and each > now), default=None)

    def tick(self) -> None:
        """Report that lines have become due."""
        self._stream.tick()
        if not (self._over or self._silent) and self._ready is not None:
            self._ready()

    def close(self) -> None:
        self._over = True
        self._late.clear()
        self._stream.close()


def _expired_line() -> bytes:
    told = status.expired("too old resource version: a fault was asked for").status
    return json.dumps({"type": "ERROR", "object": told}, separators=(",", ":")).encode() + b"\n"
