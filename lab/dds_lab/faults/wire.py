"""What can go wrong between a client and the API server: rules, and a seeded plan that says when they strike.

Pure: the plan is asked about each request and answers what shall happen to it; who asks makes it so (`face` on the wire,
`Client.before` in the process). It must never touch the server: whatever it does, objects and versions stay true.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from dds_core.errors import InputError
from dds_lab.api import status
from dds_lab.api.requests import Call
from dds_lab.api.status import ApiError
from dds_lab.latency import Fixed, Latency

MICROSECONDS = 1_000_000
CODES = (409, 429, 500, 503)


@dataclass(frozen=True)
class Refuse:
    """The request is not looked at: 409, 429 (with Retry-After), 500 or 503."""

    code: int
    retry_after: int = 1

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise InputError(
                f"{self.code} cannot be had", where="refuse", fix=f"choose one of {', '.join(map(str, CODES))}"
            )

    def error(self) -> ApiError:
        """What the client is told."""
        if self.code == 409:
            return ApiError(409, "Conflict", f"Operation cannot be fulfilled: {status.CHANGED}")
        if self.code == 429:
            return status.too_many_requests(seconds=self.retry_after)
        if self.code == 503:
            return status.unavailable()
        return ApiError(500, "InternalError", "Internal error occurred: a fault was asked for")


@dataclass(frozen=True)
class Slow:
    """The request is carried out at once, and its answer comes so many seconds later (a watch begins so much later)."""

    seconds: Latency


@dataclass(frozen=True)
class Lost:
    """The request is carried out, and the connection is cut before any answer."""


@dataclass(frozen=True)
class Cut:
    """A watch loses its connection `after` seconds, without a proper end; with `mid_line` in the middle of its next line."""

    after: Latency = field(default_factory=Fixed)
    mid_line: bool = False


@dataclass(frozen=True)
class HalfOpen:
    """From `after` seconds on nothing comes on a watch any more, no bookmark and no end, while its socket stays open."""

    after: Latency = field(default_factory=Fixed)


@dataclass(frozen=True)
class Expire:
    """A watch from a version is told that this version is too old (410)."""


@dataclass(frozen=True)
class Duplicate:
    """A share of the events of a watch comes twice."""

    share: float = 1.0


@dataclass(frozen=True)
class Delay:
    """Each event of a watch comes later, in the same order."""

    seconds: Latency


RequestFault = Refuse | Slow | Lost
WatchFault = Cut | HalfOpen | Expire | Duplicate | Delay
Action = RequestFault | WatchFault
_OF_WATCHES = (Cut, HalfOpen, Expire, Duplicate, Delay)


@dataclass(frozen=True)
class Rule:
    """An action and whom it strikes. Names that are empty mean all; `resources` are plurals. The window is in seconds of
    lab time after the plan's start; a cut or a falling silent comes due in it too when the watch was opened before it."""

    action: Action
    users: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    start: float = 0.0
    end: float = float("inf")
    share: float = 1.0
    limit: int | None = None
    """So many times and no more."""


@dataclass(frozen=True)
class Asked:
    """A request as far as rules look at it. `versioned` says that a watch begins at a version."""

    user: str
    verb: str
    resource: str
    versioned: bool = False


@dataclass(frozen=True)
class WatchEffects:
    """What happens to one watch. Instants in microseconds, None for never."""

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
    """What happens to one request."""

    refused: Refuse | None = None
    slow: float = 0.0
    lost: bool = False
    watch: WatchEffects = WatchEffects()


NOTHING = Effects()


class FaultPlan:
    """Rules, and how often each has struck. The same rules, seed and requests give the same faults."""

    def __init__(self, rules: Sequence[Rule], now: Callable[[], int], random: Random) -> None:
        """The plan starts now; `now` gives microseconds of lab time."""
        self.rules = tuple(rules)
        self.struck = [0] * len(self.rules)
        self.random = random
        self._now = now
        self._start = now()

    def for_request(self, asked: Asked) -> Effects:
        """What shall happen to a request that came over the wire."""
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

    def for_call(self, call: Call) -> None:
        """For clients in the same process: ApiError where the call is refused. They know no wire, hence no other fault."""
        asked = Asked(call.user.name, call.verb, call.resource.plural, bool(call.reading.version))
        for at in self._striking(asked, (Refuse,)):
            action = self.rules[at].action
            assert isinstance(action, Refuse)
            raise action.error()

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
        """The rules of these kinds that strike now; each is counted and has drawn its lot."""
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
