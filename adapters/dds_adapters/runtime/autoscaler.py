"""The autoscaler as one that decides: what it follows, what Cluster Autoscaler asks it, and what its decisions become.

Threads of others put in what is asked and which servers there are (`Inbox`); both come to it as arrivals do. What is asked is
answered when all that it has led to is in the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from dds_adapters.autoscaler.provider import Away, BadRequest, ProviderError, Refused, Unknown
from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.decode.fleet import AUTOSCALED
from dds_adapters.kubernetes.decode.translate import Translator
from dds_adapters.kubernetes.watch.known import Identity, seeds
from dds_adapters.kubernetes.watch.watched import OPTIONAL, WatchSpec, watched_by_autoscaler
from dds_adapters.kubernetes.write.tasks import Task
from dds_adapters.machines.provider import Machines
from dds_adapters.runtime.fleet_plan import announce, plan
from dds_adapters.runtime.loop import Arriving, Controller, Effective, OnError, Watcher
from dds_core.autoscaler import events as e
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.model import GroupsView
from dds_core.autoscaler.records import Server
from dds_core.autoscaler.rules.asks import is_news
from dds_core.autoscaler.state import Fleet
from dds_core.autoscaler.view import view_of
from dds_core.engine import Step
from dds_core.errors import DdsError
from dds_core.events import Alerted, Decision, Event, WriteDone, difference
from dds_core.kit.policy import Mode
from dds_core.log import EventLog

Ask = e.Refreshed | e.GrowthAsked | e.ShrinkAsked | e.RemovalAsked


class Asked(NamedTuple):
    """What Cluster Autoscaler asks; `answer` is done when it may be answered, with an exception where it is refused."""

    fact: Ask
    answer: Future[None]
    at: int


class ServersTold(NamedTuple):
    """A provider's answer. In the groups `unread` there may be more servers than these."""

    servers: tuple[Server, ...]
    unread: frozenset[str]
    at: int


class Inbox:
    """What is asked and told, until it is taken; of answers of the provider only the newest is of interest."""

    def __init__(self, instant: Callable[[], int], wake: Callable[[], None]) -> None:
        """`instant` gives microseconds as arrivals have them; `wake` lets the taker look."""
        self._instant = instant
        self._wake = wake
        self._lock = threading.Lock()
        self._asked: list[Asked] = []
        self._told: list[ServersTold] = []

    def ask(self, fact: Ask) -> Future[None]:
        """From any thread. What is cancelled before it is taken was never asked."""
        answer: Future[None] = Future()
        with self._lock:
            self._asked.append(Asked(fact, answer, self._instant()))
        self._wake()
        return answer

    def tell(self, servers: Iterable[Server], unread: Iterable[str] = ()) -> None:
        """From any thread."""
        with self._lock:
            self._told = [ServersTold(tuple(servers), frozenset(unread), self._instant())]
        self._wake()

    def take(self) -> list[Asked | ServersTold]:
        """What waits, in the order in which it came."""
        with self._lock:
            taken: list[Asked | ServersTold] = [*self._told, *self._asked]
            self._told, self._asked = [], []
        return sorted(taken, key=lambda one: one.at)


class Beside(Protocol):
    """What runs beside the one who decides, from `start` until `stop`: it asks the provider for its servers, and listens to
    Cluster Autoscaler."""

    def start(self) -> None: ...
    def look(self) -> None:
        """Servers are others now: ask soon."""

    def stop(self) -> Sequence[str]:
        """Gives the names of threads that still hang."""

    def threads(self) -> Mapping[str, bool]: ...
    def age(self) -> float | None:
        """Seconds since the provider last told all its servers, None before the first time."""


@dataclass(frozen=True)
class Outside:
    """All that an autoscaler has to do with beside the cluster."""

    machines: Machines
    inbox: Inbox
    beside: Beside


_ERRORS: dict[str, type[ProviderError]] = {"unknown": Unknown, "refused": Refused, "bad": BadRequest}
_SERVERS = (e.ServerOrdered.__name__, e.ServerReturned.__name__)
NOT_YET = "the cluster was not seen whole yet, or the provider of servers has not answered yet"


class Autoscaler(Controller[Fleet]):
    """The autoscaler on its log. It decides once all resources were listed, and the provider has told which servers there are, or
    the log knows some. `shown` is what Cluster Autoscaler sees, None before that; threads that answer it read it."""

    optional = OPTIONAL

    def __init__(
        self,
        log: EventLog,
        policy: Effective,
        outside: Outside,
        *,
        code: str,
        config_namespace: str = config.NAMESPACE,
        watchers: Sequence[Watcher[Fleet]] = (),
        on_error: OnError = lambda error: None,
    ) -> None:
        self.shown: GroupsView | None = None
        self._outside = outside
        self._config_namespace = config_namespace
        self._follows = watched_by_autoscaler(config_namespace)
        self.resources = frozenset(one.resource for one in self._follows)
        self._waiting: dict[int, Asked] = {}
        """By the fact's identity who waits for its group to be in the log."""
        self._unchanged: list[Asked] = []
        self._answered = False
        super().__init__(AUTOSCALER, log, policy, code=code, watchers=watchers, on_error=on_error)

    # -- what is followed and asked ------------------------------------------------------------------------------

    def watched(self) -> Sequence[WatchSpec]:
        return self._follows

    def seeds(self) -> Mapping[str, Iterable[Identity]]:
        return seeds(self.state, AUTOSCALED)

    def translator(self, state: Fleet) -> Translator:
        return Translator(state, self._config_namespace, AUTOSCALED, namespace="")

    def capabilities(self) -> None:
        return None

    @property
    def ready(self) -> bool:
        return self._answered or bool(self.state.servers)

    def begin(self) -> None:
        self._outside.beside.start()

    def arrived(self) -> Sequence[Arriving]:
        return self._outside.inbox.take()

    def end(self) -> Sequence[str]:
        hanging = self._outside.beside.stop()
        self._give_up()
        return hanging

    def threads(self) -> Mapping[str, bool]:
        return self._outside.beside.threads()

    def servers_age(self) -> float | None:
        """Seconds since the provider last told all its servers, None before the first time; from any thread."""
        return self._outside.beside.age()

    # -- what came -----------------------------------------------------------------------------------------------

    def came(self, one: Arriving) -> None:
        match one:
            case ServersTold():
                for fact in list(self._changes(one)):
                    self.happened(fact, one.at)
                self._answered = True
                self.look_again(one.at)
            case Asked():
                self._asked(one)
            case _:
                super().came(one)

    def _changes(self, told: ServersTold) -> Iterator[Event]:
        """What an answer changes. Servers that are there come first: one that has got another id has not gone."""
        known = self.state.servers.rows
        for server in told.servers:
            fact = difference(known.get(server.uid), server)
            if fact is not None:
                yield fact
        there = {server.uid for server in told.servers}
        for uid, row in known.items():
            if uid not in there and row.group not in told.unread:
                yield e.ServerGone(uid)

    def _asked(self, one: Asked) -> None:
        if not one.answer.set_running_or_notify_cancel():
            return
        if self.shown is None:
            one.answer.set_exception(Away(NOT_YET, fix="ask again"))
        elif self._stale and isinstance(one.fact, e.RemovalAsked):
            words = f"nothing is heard of {', '.join(sorted(self._stale))}: nobody knows whether a device is on its way"
            one.answer.set_exception(Away(words, fix="ask again"))
        elif isinstance(one.fact, e.Refreshed) and not is_news(self.state):
            self._unchanged.append(one)
        else:
            self._waiting[id(one.fact)] = one
            self.happened(one.fact, one.at)

    def before(self, fact: Event) -> None:
        if isinstance(fact, WriteDone) and fact.action in _SERVERS:
            self._outside.beside.look()

    def seen_whole(self) -> Iterable[Task]:
        self.shown = self.shown or view_of(self.state)
        return ()

    # -- answers -------------------------------------------------------------------------------------------------

    def announce(self, step: Step) -> Iterator[Task]:
        one = self._waiting.pop(id(step.fact), None)
        if one is not None:
            self._answer(one, [event for event, _ in step.caused])
        for event in (step.fact, *(event for event, _ in step.caused)):
            yield from announce(event, step.at, self.state, self._config_namespace)

    def _answer(self, one: Asked, caused: Sequence[Event]) -> None:
        """What was asked is in the log with all that it has led to."""
        refusal = next((event for event in caused if isinstance(event, e.AskRefused)), None)
        if refusal is not None:
            one.answer.set_exception(_ERRORS[refusal.kind](refusal.text))
        elif any(isinstance(event, Alerted) for event in caused):
            one.answer.set_exception(Away("an error inside dds, which its log tells of", fix="look at its log"))
        else:
            self.shown = self._changed(one.fact)
            one.answer.set_result(None)

    def _changed(self, fact: Ask) -> GroupsView:
        """The view that is seen from now on: between two refreshes only the group that was asked about changes."""
        fresh, shown = view_of(self.state), self.shown
        if isinstance(fact, e.Refreshed) or shown is None:
            return fresh
        changed = fresh.group(fact.group)
        groups = tuple(changed if changed is not None and one.id == fact.group else one for one in shown.groups)
        return replace(shown, groups=groups)

    def turned(self) -> None:
        unchanged, self._unchanged = self._unchanged, []
        if unchanged:
            self.shown = view_of(self.state)
        for one in unchanged:
            one.answer.set_result(None)
        self._give_up()

    def _give_up(self) -> None:
        """Once around all that was asked is answered: what is left could not be taken in."""
        left = [*self._unchanged, *self._waiting.values()]
        self._unchanged, self._waiting = [], {}
        for one in left:
            one.answer.set_exception(Away("it could not be taken in", fix="ask again; the log of dds says why"))

    # -- what decisions become -----------------------------------------------------------------------------------

    @property
    def limit(self) -> Mode:
        return "attach" if self.state.live else "observe"

    def plan(self, decision: Decision, event_id: str, at: int) -> Sequence[Task]:
        return plan(decision, event_id, at, self.state, self._outside.machines)

    def preflight(self, where: str) -> list[DdsError]:
        return []
