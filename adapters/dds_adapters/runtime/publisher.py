"""The controller of the publisher: what it watches, the facts of the fabric's answers, and what it needs before it decides.

It makes no request. Two pollers ask the fabric and the API server (`Pollers`); the controller tells them what to ask. Their
answers come in like arrivals, each with its instant.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dds_adapters.fabric.survey import (
    ENTRIES,
    MACHINES,
    Answer,
    EntriesAnswer,
    LimitsAnswer,
    MachinesAnswer,
    NoAnswer,
    StockAnswer,
    facts_of,
    limits_of,
)
from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.publish.decode import PUBLISHED, BareMetalHosts, PublisherTranslator
from dds_adapters.kubernetes.publish.pools import NOT_KEPT
from dds_adapters.kubernetes.publish.publisher_tasks import PoolNews, tasks_of
from dds_adapters.kubernetes.watch.object_store import Identity, seeds
from dds_adapters.kubernetes.watch.watch_spec import PUBLISHER_OPTIONAL, WatchSpec, watched_by_publisher
from dds_adapters.kubernetes.write.tasks import Task
from dds_adapters.runtime.loop import Arriving, CommitListener, Controller, EffectivePolicy, OnError
from dds_adapters.runtime.preflight import pool_lacks
from dds_core.engine import Step
from dds_core.errors import DdsError
from dds_core.events import Capabilities, Decision, Event, FabricResourceObserved, WriteRefused
from dds_core.kit.policy import Mode
from dds_core.log import EventLog
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.events import DROPPED, stock_stream
from dds_core.publisher.model import Machine, PoolModel
from dds_core.publisher.rooms import StockKey
from dds_core.publisher.state import PoolState


class Answered(NamedTuple):
    """An answer of the fabric, or a failure to get one."""

    answer: Answer
    at: int


class RoundEnded(NamedTuple):
    """A survey has asked for all stock of these models, with answers or failures."""

    models: tuple[PoolModel, ...]
    at: int


class Probed(NamedTuple):
    """Which fields of a slice the API server keeps. None: unknown; the former knowledge stays."""

    capabilities: Capabilities | None
    at: int


Heard = Answered | RoundEnded | Probed


def question_of(answer: Answer) -> str:
    """The question to which this is the answer, in the form of `FabricFailed.of`."""
    match answer:
        case MachinesAnswer():
            return MACHINES
        case StockAnswer(stock):
            return stock_stream(stock.fabric, stock.model)
        case LimitsAnswer(machine):
            return limits_of(machine)
        case EntriesAnswer():
            return ENTRIES
        case NoAnswer(of):
            return of


class Answers:
    """A thread-safe queue that keeps the newest answer to each question. While the controller takes none (the log is away), it
    grows with the number of questions, not of surveys."""

    def __init__(
        self, instant: Callable[[], int], wake: Callable[[], None], steady: Callable[[], float] = time.monotonic
    ) -> None:
        """`instant` is the clock of arrivals, in microseconds; `steady` a monotonic clock, in seconds. `wake` wakes the thread
        that calls `take`."""
        self.instant = instant
        self._wake = wake
        self._steady = steady
        self._lock = threading.Lock()
        self._waiting: dict[str, Heard] = {}
        self._good: dict[str, float] = {}

    def put(self, answer: Answer) -> None:
        """Put an answer. From any thread."""
        of = question_of(answer)
        with self._lock:
            if isinstance(answer, MachinesAnswer) and answer.whole:
                self._forget_gone(answer)
                self._good[of] = self._steady()
            if isinstance(answer, StockAnswer | LimitsAnswer):
                self._good[of] = self._steady()
        self._put(of, lambda at: Answered(answer, at))

    def ended(self, models: tuple[PoolModel, ...]) -> None:
        """A survey of these models is over. The ages of answers about other models are dropped."""
        asked = {model.model for model in models}
        with self._lock:
            for of in list(self._good):
                kind, _, rest = of.partition("/")
                if kind == "stock" and rest.partition("/")[2] not in asked:
                    del self._good[of]
        self._put("", lambda at: RoundEnded(models, at))

    def probed(self, capabilities: Capabilities | None) -> None:
        """Put the result of a probe of the API server."""
        self._put("probe", lambda at: Probed(capabilities, at))

    def take(self) -> list[Heard]:
        """Remove and return all answers, in the order of arrival."""
        with self._lock:
            taken, self._waiting = list(self._waiting.values()), {}
        return taken

    def ages(self) -> dict[str, float]:
        """Question → seconds since it was last answered."""
        now = self._steady()
        with self._lock:
            return {of: now - at for of, at in self._good.items()}

    def _put(self, of: str, heard: Callable[[int], Heard]) -> None:
        with self._lock:
            self._waiting.pop(of, None)
            self._waiting[of] = heard(self.instant())
        self._wake()

    def _forget_gone(self, answer: MachinesAnswer) -> None:
        """Drop the ages of answers about machines and fabrics that are gone."""
        machines = {limits_of(one.uuid) for one in answer.machines}
        fabrics = {one.fabric for one in answer.machines}
        for of in list(self._good):
            kind, _, rest = of.partition("/")
            if (kind == "limits" and of not in machines) or (kind == "stock" and rest.partition("/")[0] not in fabrics):
                del self._good[of]


class Poller(Protocol):
    """Polls from `start` to `end` and puts answers into `Answers`. See `PollingThread`."""

    @property
    def name(self) -> str: ...
    @property
    def alive(self) -> bool:
        """Whether its thread runs."""

    def start(self) -> None: ...
    def end(self) -> None:
        """Send no more requests. Does not wait for a running one."""

    def stop(self, seconds: float) -> bool:
        """As `end`, and wait. False when a request still hangs after so many seconds."""


class Surveying(Poller, Protocol):
    """Surveys the fabric again and again."""

    def look_for(self, models: tuple[PoolModel, ...], machines: Iterable[Machine]) -> None:
        """Set the models to ask about and the known machines. A change of the models starts a new survey at once."""


class Probing(Poller, Protocol):
    """Asks the API server which fields of a slice it keeps."""

    answered: bool
    """The API server has answered at least once."""

    def look(self, driver: str, *, dropped: bool) -> None:
        """Probe with a slice of this driver; repeatedly while the API server drops fields (`dropped`)."""


@dataclass(frozen=True)
class Pollers:
    """The two pollers and the queue of their answers."""

    answers: Answers
    fabric: Surveying
    probe: Probing


CONFIG = "configmaps"
DRIVER = "probe.dds-publisher"
"""The driver in the probe's slice while no model is configured."""
STOP_SECONDS = 2.0


class PublisherController(Controller[PoolState]):
    """The publisher's controller. It decides once all resources were listed, the API server was probed, and a survey of the
    configured models has ended."""

    optional = PUBLISHER_OPTIONAL

    def __init__(
        self,
        log: EventLog,
        policy: EffectivePolicy,
        *,
        code: str,
        config_namespace: str = config.NAMESPACE,
        bare_metal_hosts: bool = False,
        listeners: Sequence[CommitListener[PoolState]] = (),
        on_error: OnError = lambda error: None,
        pollers: Pollers | None = None,
    ) -> None:
        """With `bare_metal_hosts`, BareMetalHosts are watched: they say which machine a node is. Without `pollers`, answers are
        passed to `turn`."""
        self.pollers = pollers
        self._asking = False
        self._follows = watched_by_publisher(config_namespace, bare_metal_hosts=bare_metal_hosts)
        self._hosts = BareMetalHosts() if bare_metal_hosts else None
        self.resources = frozenset(one.resource for one in self._follows)
        self._config_namespace = config_namespace
        self._news = PoolNews(config_namespace)
        self._surveyed: tuple[PoolModel, ...] | None = None
        self._probed = False
        self.doubtful = False
        """The API server kept a write differently than its last answer said, so it must be probed again."""
        self._came_last: dict[StockKey, int] = {}  # the instant at which a device last arrived
        self._kept: Capabilities | None = None  # None: no answer yet, the capabilities in the log apply
        super().__init__(PUBLISHER, log, policy, code=code, listeners=listeners, on_error=on_error)

    # -- what is followed and asked ------------------------------------------------------------------------------

    def watched(self) -> Sequence[WatchSpec]:
        return self._follows

    def seeds(self) -> Mapping[str, Iterable[Identity]]:
        return seeds(self.state, PUBLISHED)

    def begin(self) -> None:
        self._asking = self.pollers is not None
        for poller in self._both():
            poller.start()

    def take_inputs(self) -> Sequence[Arriving]:
        return self.pollers.answers.take() if self.pollers is not None else ()

    def after_turn(self) -> None:
        """Tell the pollers what to ask, once the configured models are known."""
        if self.pollers is None or CONFIG not in self.synced_resources:
            return
        state = self.state
        models = state.models
        self.pollers.fabric.look_for(models, state.fabric.machines_by_uuid.rows.values())
        dropped = self.doubtful or state.cluster.capabilities != Capabilities()
        self.pollers.probe.look(models[0].driver if models else DRIVER, dropped=dropped)

    def end(self) -> Sequence[str]:
        until = time.monotonic() + STOP_SECONDS
        for poller in self._both():
            poller.end()
        ended = {poller.name: poller.stop(max(0.0, until - time.monotonic())) for poller in self._both()}
        return [name for name, over in ended.items() if not over]

    def threads(self) -> Mapping[str, bool]:
        return {poller.name: poller.alive for poller in self._both()}

    def _both(self) -> Sequence[Poller]:
        return (self.pollers.fabric, self.pollers.probe) if self.pollers is not None and self._asking else ()

    def preflight(self, where: str) -> list[DdsError]:
        return pool_lacks(self.state, where, self._config_namespace)

    # -- for metrics ---------------------------------------------------------------------------------------------

    def ages(self) -> Mapping[str, float]:
        """Question → seconds since the fabric last answered it."""
        return self.pollers.answers.ages() if self.pollers is not None and self._asking else {}

    @property
    def probed(self) -> bool:
        """Whether the API server has answered a probe of this process."""
        return self.pollers is not None and self._asking and self.pollers.probe.answered

    # -- what came -----------------------------------------------------------------------------------------------

    def on_input(self, one: Arriving) -> None:
        match one:
            case Answered(StockAnswer() as answer) if self._is_crossed(answer):
                pass  # the next survey asks again
            case Answered(answer, at):
                for fact in facts_of(answer, self.state):
                    self.happened(fact, at)
            case RoundEnded(models, at):
                self._surveyed = models
                self.check_synced(at)
            case Probed(capabilities, at):
                self._was_probed(capabilities, at)
            case _:
                super().on_input(one)

    def _is_crossed(self, answer: StockAnswer) -> bool:
        """Whether a device was attached after the question was sent: the answer may still count it as free."""
        stock = answer.stock
        return not stock.whole and 0 < answer.asked <= self._came_last.get((stock.fabric, stock.model), 0)

    def happened(self, fact: Event, at: int) -> None:
        waiting = self.state.fabric.uncounted.get(fact.uid) if isinstance(fact, FabricResourceObserved) else None
        super().happened(fact, at)
        if isinstance(fact, FabricResourceObserved) and waiting is None:
            key = self.state.fabric.uncounted.get(fact.uid)
            if key is not None:
                self._came_last[key] = at

    def _was_probed(self, capabilities: Capabilities | None, at: int) -> None:
        self._probed, self.doubtful = True, False
        if capabilities is not None:
            self._kept = capabilities
            if capabilities != self.state.cluster.capabilities:  # a refused write may have changed them meanwhile
                self.forget_capabilities()
        self.check_synced(at)

    @property
    def ready(self) -> bool:
        return self._probed and self._surveyed == self.state.models

    def before(self, fact: Event) -> None:
        """When a write was kept differently than the probe said, trust the write."""
        if isinstance(fact, WriteRefused) and fact.reason in (DROPPED, NOT_KEPT):
            self.doubtful = True
            self._kept = None if fact.reason == DROPPED else self._kept

    def capabilities(self) -> Capabilities:
        return self._kept if self._kept is not None else self.state.cluster.capabilities

    # -- what decisions become -----------------------------------------------------------------------------------

    @property
    def limit(self) -> Mode:
        return "attach" if self.state.live else "observe"

    def translator(self, state: PoolState) -> PublisherTranslator:
        return PublisherTranslator(state, self._config_namespace, self._hosts)

    def tasks_of(self, decision: Decision, event_id: str, at: int) -> Sequence[Task]:
        return tasks_of(decision, event_id, at, self.state)

    def announce(self, step: Step) -> Iterator[Task]:
        for event in (step.fact, *(event for event, _ in step.caused)):
            yield from self._news.tell(event, step.at, self.state)
