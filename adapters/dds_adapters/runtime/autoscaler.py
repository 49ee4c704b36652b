"""The controller of the autoscaler: what it watches, the calls of Cluster Autoscaler, and the tasks of its decisions.

Other threads put calls and the provider's servers into an `Inbox`; the controller takes them from there like arrivals. A call
is answered only after the log has all that it led to.
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
from dds_adapters.kubernetes.watch.object_store import Identity, seeds
from dds_adapters.kubernetes.watch.watch_spec import OPTIONAL, WatchSpec, watched_by_autoscaler
from dds_adapters.kubernetes.write.tasks import Task
from dds_adapters.machines.provider import Machines
from dds_adapters.runtime.autoscaler_tasks import announce, tasks_of
from dds_adapters.runtime.loop import Arriving, CommitListener, Controller, EffectivePolicy, OnError
from dds_core.autoscaler import events as e
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.model import GroupsView
from dds_core.autoscaler.records import Server
from dds_core.autoscaler.state import Fleet
from dds_core.autoscaler.view import is_news, view_of
from dds_core.engine import Step
from dds_core.errors import DdsError
from dds_core.events import Alerted, Decision, Event, WriteDone, difference
from dds_core.kit.policy import Mode
from dds_core.log import EventLog

Ask = e.Refreshed | e.GrowthAsked | e.ShrinkAsked | e.RemovalAsked


class Asked(NamedTuple):
    """A call of Cluster Autoscaler. `answer` is done when the call may be answered; with an exception when it is refused."""

    fact: Ask
    answer: Future[None]
    at: int


class ServersTold(NamedTuple):
    """All servers of the provider. In the groups `unread`, which could not be read, there may be more."""

    servers: tuple[Server, ...]
    unread: frozenset[str]
    at: int


class Inbox:
    """A thread-safe queue of calls and of the provider's answers, of which it keeps only the newest."""

    def __init__(self, instant: Callable[[], int], wake: Callable[[], None]) -> None:
        """`instant` is the clock of arrivals, in microseconds. `wake` wakes the thread that calls `take`."""
        self._instant = instant
        self._wake = wake
        self._lock = threading.Lock()
        self._asked: list[Asked] = []
        self._told: list[ServersTold] = []

    def ask(self, fact: Ask) -> Future[None]:
        """Put a call. From any thread. The call has no effect if the future is cancelled before `take`."""
        answer: Future[None] = Future()
        with self._lock:
            self._asked.append(Asked(fact, answer, self._instant()))
        self._wake()
        return answer

    def tell(self, servers: Iterable[Server], unread: Iterable[str] = ()) -> None:
        """Put an answer of the provider. From any thread."""
        with self._lock:
            self._told = [ServersTold(tuple(servers), frozenset(unread), self._instant())]
        self._wake()

    def take(self) -> list[Asked | ServersTold]:
        """Remove and return everything, in the order of arrival."""
        with self._lock:
            taken: list[Asked | ServersTold] = [*self._told, *self._asked]
            self._told, self._asked = [], []
        return sorted(taken, key=lambda one: one.at)


class SideThreads(Protocol):
    """Threads that run from `start` to `stop`: they poll the provider for its servers and serve Cluster Autoscaler."""

    def start(self) -> None: ...
    def look(self) -> None:
        """Poll the provider soon, because its servers have changed."""

    def stop(self) -> Sequence[str]:
        """Returns the names of threads that still hang."""

    def threads(self) -> Mapping[str, bool]: ...
    def age(self) -> float | None:
        """Seconds since the provider last listed all its servers; None before the first time."""


@dataclass(frozen=True)
class Outside:
    """The systems beside the cluster that an autoscaler works with."""

    machines: Machines
    inbox: Inbox
    beside: SideThreads


_ERRORS: dict[str, type[ProviderError]] = {"unknown": Unknown, "refused": Refused, "bad": BadRequest}
_SERVERS = (e.ServerOrdered.__name__, e.ServerReturned.__name__)
NOT_YET = "the cluster is not fully listed yet, or the provider of servers has not answered yet"


class AutoscalerController(Controller[Fleet]):
    """The autoscaler's controller. It decides once all resources were listed and the servers are known, from the provider or
    from the log. `shown` is the view for Cluster Autoscaler, None before that; the threads that answer calls read it."""

    optional = OPTIONAL

    def __init__(
        self,
        log: EventLog,
        policy: EffectivePolicy,
        outside: Outside,
        *,
        code: str,
        config_namespace: str = config.NAMESPACE,
        listeners: Sequence[CommitListener[Fleet]] = (),
        on_error: OnError = lambda error: None,
    ) -> None:
        self.shown: GroupsView | None = None
        self._outside = outside
        self._config_namespace = config_namespace
        self._follows = watched_by_autoscaler(config_namespace)
        self.resources = frozenset(one.resource for one in self._follows)
        self._waiting: dict[int, Asked] = {}
        """Calls that wait until their group is in the log, by `id` of the fact."""
        self._unchanged: list[Asked] = []
        self._answered = False
        super().__init__(AUTOSCALER, log, policy, code=code, listeners=listeners, on_error=on_error)

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
        return self._answered or bool(self.state.cluster.servers)

    def begin(self) -> None:
        self._outside.beside.start()

    def take_inputs(self) -> Sequence[Arriving]:
        return self._outside.inbox.take()

    def end(self) -> Sequence[str]:
        hanging = self._outside.beside.stop()
        self._give_up()
        return hanging

    def threads(self) -> Mapping[str, bool]:
        return self._outside.beside.threads()

    def servers_age(self) -> float | None:
        """Seconds since the provider last listed all its servers; None before the first time. From any thread."""
        return self._outside.beside.age()

    # -- what came -----------------------------------------------------------------------------------------------

    def on_input(self, one: Arriving) -> None:
        match one:
            case ServersTold():
                for fact in list(self._changes(one)):
                    self.happened(fact, one.at)
                self._answered = True
                self.check_synced(one.at)
            case Asked():
                self._asked(one)
            case _:
                super().on_input(one)

    def _changes(self, told: ServersTold) -> Iterator[Event]:
        """The facts of the provider's answer. Existing servers come first, so that a server with a new id does not count as
        gone."""
        known = self.state.cluster.servers.rows
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
            words = f"no news of {', '.join(sorted(self._stale))}: dds cannot tell whether a device is being attached"
            one.answer.set_exception(Away(words, fix="ask again"))
        elif isinstance(one.fact, e.Refreshed) and not is_news(self.state):
            self._unchanged.append(one)
        else:
            self._waiting[id(one.fact)] = one
            self.happened(one.fact, one.at)

    def before(self, fact: Event) -> None:
        if isinstance(fact, WriteDone) and fact.action in _SERVERS:
            self._outside.beside.look()

    def on_synced(self) -> Iterable[Task]:
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
        """Answer a call after the log has all that it led to."""
        refusal = next((event for event in caused if isinstance(event, e.AskRefused)), None)
        if refusal is not None:
            one.answer.set_exception(_ERRORS[refusal.kind](refusal.text))
        elif any(isinstance(event, Alerted) for event in caused):
            one.answer.set_exception(Away("an error inside dds, which its log tells of", fix="look at its log"))
        else:
            self.shown = self._changed(one.fact)
            one.answer.set_result(None)

    def _changed(self, fact: Ask) -> GroupsView:
        """The view to show from now on. Between two refreshes only the group of the call changes."""
        fresh, shown = view_of(self.state), self.shown
        if isinstance(fact, e.Refreshed) or shown is None:
            return fresh
        changed = fresh.group(fact.group)
        groups = tuple(changed if changed is not None and one.id == fact.group else one for one in shown.groups)
        return replace(shown, groups=groups)

    def after_turn(self) -> None:
        unchanged, self._unchanged = self._unchanged, []
        if unchanged:
            self.shown = view_of(self.state)
        for one in unchanged:
            one.answer.set_result(None)
        self._give_up()

    def _give_up(self) -> None:
        """Refuse the calls that are left at the end of a turn: they could not be processed."""
        left = [*self._unchanged, *self._waiting.values()]
        self._unchanged, self._waiting = [], {}
        for one in left:
            one.answer.set_exception(Away("dds could not process it", fix="ask again; the log of dds says why"))

    # -- what decisions become -----------------------------------------------------------------------------------

    @property
    def limit(self) -> Mode:
        return "attach" if self.state.live else "observe"

    def tasks_of(self, decision: Decision, event_id: str, at: int) -> Sequence[Task]:
        return tasks_of(decision, event_id, at, self._outside.machines)

    def preflight(self, where: str) -> list[DdsError]:
        return []
