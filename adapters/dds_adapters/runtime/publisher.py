"""The publisher as one that decides: what it follows, what a fabric's answers become, and what has to be known before it decides.

It never asks the fabric or the API server anything: two askers do, which it tells what to ask for. Their answers come to it as
arrivals do, each with the instant at which it came.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dds_adapters.fabric.survey import Answer, LimitsAnswer, MachinesAnswer, NoAnswer, StockAnswer, facts_of, limits_of
from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.publish.decode import PUBLISHED, BareMetalHosts, PublisherTranslator
from dds_adapters.kubernetes.publish.plan import PoolNews, plan
from dds_adapters.kubernetes.publish.pools import NOT_KEPT
from dds_adapters.kubernetes.watch.known import Identity, seeds
from dds_adapters.kubernetes.watch.watched import PUBLISHER_OPTIONAL, WatchSpec, watched_by_publisher
from dds_adapters.kubernetes.write.tasks import Task
from dds_adapters.runtime.loop import Arriving, Controller, Effective, OnError, Watcher
from dds_adapters.runtime.preflight import pool_lacks
from dds_core.engine import Step
from dds_core.errors import DdsError
from dds_core.events import Capabilities, Decision, Event, FabricResourceObserved, WriteRefused
from dds_core.kit.policy import Mode
from dds_core.log import EventLog
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.events import DROPPED, stock_stream
from dds_core.publisher.indexes import StockKey
from dds_core.publisher.model import Machine, PoolModel
from dds_core.publisher.state import PoolState


class Answered(NamedTuple):
    """An answer of the fabric, or that there was none."""

    answer: Answer
    at: int


class RoundEnded(NamedTuple):
    """A whole round of questions about these models is over, whatever was answered."""

    models: tuple[PoolModel, ...]
    at: int


class Probed(NamedTuple):
    """What the API server keeps of a slice. None: it does not say; what is known of it stays."""

    capabilities: Capabilities | None
    at: int


Heard = Answered | RoundEnded | Probed


def question_of(answer: Answer) -> str:
    """What was asked, in the words of `FabricFailed.of`."""
    match answer:
        case MachinesAnswer():
            return "machines"
        case StockAnswer(stock):
            return stock_stream(stock.fabric, stock.model)
        case LimitsAnswer(machine):
            return limits_of(machine)
        case NoAnswer(of):
            return of


class Answers:
    """The newest answer to each question that the taker has not seen yet: while nobody takes (the log is away) it grows with the
    number of questions, not with the rounds. `good` says when, on the steady clock, a question was last answered well."""

    def __init__(
        self, instant: Callable[[], int], wake: Callable[[], None], steady: Callable[[], float] = time.monotonic
    ) -> None:
        """`instant` gives microseconds as arrivals have them, `steady` seconds of a clock that nobody sets; `wake` lets the taker
        look."""
        self.instant = instant
        self._wake = wake
        self._steady = steady
        self._lock = threading.Lock()
        self._waiting: dict[str, Heard] = {}
        self._good: dict[str, float] = {}

    def put(self, answer: Answer) -> None:
        """From any thread."""
        of = question_of(answer)
        with self._lock:
            if isinstance(answer, MachinesAnswer) and answer.whole:
                self._forget_gone(answer)
            if not isinstance(answer, NoAnswer) and not (isinstance(answer, MachinesAnswer) and not answer.whole):
                self._good[of] = self._steady()
        self._put(of, lambda at: Answered(answer, at))

    def ended(self, models: tuple[PoolModel, ...]) -> None:
        """A round about these models is over; how old the answers about others are nobody wants to know."""
        asked = {model.model for model in models}
        with self._lock:
            for of in list(self._good):
                kind, _, rest = of.partition("/")
                if kind == "stock" and rest.partition("/")[2] not in asked:
                    del self._good[of]
        self._put("", lambda at: RoundEnded(models, at))

    def probed(self, capabilities: Capabilities | None) -> None:
        """The API server was asked what it keeps, and said so, or did not."""
        self._put("probe", lambda at: Probed(capabilities, at))

    def take(self) -> list[Heard]:
        """What waits, in the order in which it came."""
        with self._lock:
            taken, self._waiting = list(self._waiting.values()), {}
        return taken

    def ages(self) -> dict[str, float]:
        """By question the seconds since it was last answered."""
        now = self._steady()
        with self._lock:
            return {of: now - at for of, at in self._good.items()}

    def _put(self, of: str, heard: Callable[[int], Heard]) -> None:
        with self._lock:
            self._waiting.pop(of, None)
            self._waiting[of] = heard(self.instant())
        self._wake()

    def _forget_gone(self, answer: MachinesAnswer) -> None:
        """Of machines and fabrics that are gone nobody wants to know how old the last answer is."""
        machines = {limits_of(one.uuid) for one in answer.machines}
        fabrics = {one.fabric for one in answer.machines}
        for of in list(self._good):
            kind, _, rest = of.partition("/")
            if (kind == "limits" and of not in machines) or (kind == "stock" and rest.partition("/")[0] not in fabrics):
                del self._good[of]


class Asker(Protocol):
    """Asks somebody something again and again, from `start` until `end`, and puts what it hears into `Answers`."""

    @property
    def name(self) -> str: ...
    @property
    def alive(self) -> bool:
        """Whether it asks; False once it has ended."""

    def start(self) -> None: ...
    def end(self) -> None:
        """Ask nothing more, without waiting for a question that runs."""

    def stop(self, seconds: float) -> bool:
        """Ask nothing more; False when a question still hangs after so many seconds."""


class Surveying(Asker, Protocol):
    """Asks the fabric, round after round."""

    rounds: int
    """How many have ended."""
    seconds: float
    """How long the last one took."""

    def look_for(self, models: tuple[PoolModel, ...], machines: Iterable[Machine]) -> None:
        """The models to ask about, and the machines that are known; others than before begin a new round at once."""


class Probing(Asker, Protocol):
    """Asks the API server what it keeps of a slice."""

    answered: bool
    """The API server has said so at least once."""

    def look(self, driver: str, *, dropped: bool) -> None:
        """Ask for this driver; again and again while something is `dropped`."""


@dataclass(frozen=True)
class Askers:
    """Both, and where their answers wait."""

    answers: Answers
    fabric: Surveying
    probe: Probing


CONFIG = "configmaps"
DRIVER = "probe.dds-publisher"
"""In whose name the API server is asked while no model is configured."""
STOP_SECONDS = 2.0


class Publisher(Controller[PoolState]):
    """The pool publisher on its log. It decides once all resources were listed, the API server was asked what it keeps, and a
    round of questions about the models that are configured has ended."""

    optional = PUBLISHER_OPTIONAL

    def __init__(
        self,
        log: EventLog,
        policy: Effective,
        *,
        code: str,
        config_namespace: str = config.NAMESPACE,
        bare_metal_hosts: bool = False,
        watchers: Sequence[Watcher[PoolState]] = (),
        on_error: OnError = lambda error: None,
        askers: Askers | None = None,
    ) -> None:
        """With `bare_metal_hosts` these are followed, too: they say which machine a node is. Without `askers` answers come
        by `turn` alone."""
        self.askers = askers
        self._asking = False
        self._follows = watched_by_publisher(config_namespace, bare_metal_hosts=bare_metal_hosts)
        self._hosts = BareMetalHosts() if bare_metal_hosts else None
        self.resources = frozenset(one.resource for one in self._follows)
        self._config_namespace = config_namespace
        self._news = PoolNews(config_namespace)
        self._surveyed: tuple[PoolModel, ...] | None = None
        self._probed = False
        self.doubtful = False
        """A write was kept otherwise than the API server said: it has to be asked again."""
        self._came_last: dict[StockKey, int] = {}  # when a device last did
        self._kept: Capabilities | None = None  # nobody said: what the log knows stands
        super().__init__(PUBLISHER, log, policy, code=code, watchers=watchers, on_error=on_error)

    # -- what is followed and asked ------------------------------------------------------------------------------

    def watched(self) -> Sequence[WatchSpec]:
        return self._follows

    def seeds(self) -> Mapping[str, Iterable[Identity]]:
        return seeds(self.state, PUBLISHED)

    def begin(self) -> None:
        self._asking = self.askers is not None
        for asker in self._both():
            asker.start()

    def arrived(self) -> Sequence[Arriving]:
        return self.askers.answers.take() if self.askers is not None else ()

    def turned(self) -> None:
        """Tell those who ask what to ask for: nothing before it is known which models there are."""
        if self.askers is None or CONFIG not in self.synced_resources:
            return
        state = self.state
        models = state.models
        self.askers.fabric.look_for(models, state.machines_by_uuid.rows.values())
        dropped = self.doubtful or state.capabilities != Capabilities()
        self.askers.probe.look(models[0].driver if models else DRIVER, dropped=dropped)

    def end(self) -> Sequence[str]:
        until = time.monotonic() + STOP_SECONDS
        for asker in self._both():
            asker.end()
        ended = {asker.name: asker.stop(max(0.0, until - time.monotonic())) for asker in self._both()}
        return [name for name, over in ended.items() if not over]

    def threads(self) -> Mapping[str, bool]:
        return {asker.name: asker.alive for asker in self._both()}

    def _both(self) -> Sequence[Asker]:
        return (self.askers.fabric, self.askers.probe) if self.askers is not None and self._asking else ()

    def preflight(self, where: str) -> list[DdsError]:
        return pool_lacks(self.state, where, self._config_namespace)

    # -- what metrics show ---------------------------------------------------------------------------------------

    def ages(self) -> Mapping[str, float]:
        """By question the seconds since the fabric answered it last."""
        return self.askers.answers.ages() if self.askers is not None and self._asking else {}

    def rounds(self) -> tuple[int, float]:
        """How many rounds of questions there were, and how many seconds the last one took."""
        asked = self.askers.fabric if self.askers is not None and self._asking else None
        return (asked.rounds, asked.seconds) if asked is not None else (0, 0.0)

    @property
    def probed(self) -> bool:
        """Whether the API server has said to this process what it keeps of a slice."""
        return self.askers is not None and self._asking and self.askers.probe.answered

    # -- what came -----------------------------------------------------------------------------------------------

    def came(self, one: Arriving) -> None:
        match one:
            case Answered(StockAnswer() as answer) if self._is_crossed(answer):
                pass  # it is asked again in the next round
            case Answered(answer, at):
                for fact in facts_of(answer, self.state):
                    self.happened(fact, at)
            case RoundEnded(models, at):
                self._surveyed = models
                self.look_again(at)
            case Probed(capabilities, at):
                self._was_probed(capabilities, at)
            case _:
                super().came(one)

    def _is_crossed(self, answer: StockAnswer) -> bool:
        """Whether a device arrived after the question: nobody can tell whether the answer still counts it as free."""
        stock = answer.stock
        return not stock.whole and 0 < answer.asked <= self._came_last.get((stock.fabric, stock.model), 0)

    def happened(self, fact: Event, at: int) -> None:
        waiting = self.state.uncounted.get(fact.uid) if isinstance(fact, FabricResourceObserved) else None
        super().happened(fact, at)
        if isinstance(fact, FabricResourceObserved) and waiting is None:
            key = self.state.uncounted.get(fact.uid)
            if key is not None:
                self._came_last[key] = at

    def _was_probed(self, capabilities: Capabilities | None, at: int) -> None:
        self._probed, self.doubtful = True, False
        if capabilities is not None:
            self._kept = capabilities
            if capabilities != self.state.capabilities:  # a refused write may have taught otherwise meanwhile
                self.forget_capabilities()
        self.look_again(at)

    @property
    def ready(self) -> bool:
        return self._probed and self._surveyed == self.state.models

    def before(self, fact: Event) -> None:
        """A write was kept otherwise than the API server said it would be: what is known of that outlives what it said."""
        if isinstance(fact, WriteRefused) and fact.reason in (DROPPED, NOT_KEPT):
            self.doubtful = True
            self._kept = None if fact.reason == DROPPED else self._kept

    def capabilities(self) -> Capabilities:
        return self._kept if self._kept is not None else self.state.capabilities

    # -- what decisions become -----------------------------------------------------------------------------------

    @property
    def limit(self) -> Mode:
        return "attach" if self.state.live else "observe"

    def translator(self, state: PoolState) -> PublisherTranslator:
        return PublisherTranslator(state, self._config_namespace, self._hosts)

    def plan(self, decision: Decision, event_id: str, at: int) -> Sequence[Task]:
        return plan(decision, event_id, at, self.state)

    def announce(self, step: Step) -> Iterator[Task]:
        for event in (step.fact, *(event for event, _ in step.caused)):
            yield from self._news.tell(event, step.at, self.state)
