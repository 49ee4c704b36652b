"""The publisher as one that decides: what it follows, what a fabric's answers become, and what has to be known before it decides.

It never asks the fabric or the API server anything: answers come to it as arrivals do, each with the instant at which it came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dds_adapters.fabric.facts import facts_of
from dds_adapters.fabric.survey import Answer, StockAnswer
from dds_adapters.kubernetes import config
from dds_adapters.kubernetes.publishing.announce import PoolNews
from dds_adapters.kubernetes.publishing.machines import BareMetalHosts
from dds_adapters.kubernetes.publishing.plan import plan
from dds_adapters.kubernetes.publishing.pools import NOT_KEPT
from dds_adapters.kubernetes.publishing.translate import PublisherTranslator
from dds_adapters.kubernetes.watched import PUBLISHER_OPTIONAL, watched_by_publisher
from dds_adapters.kubernetes.writer.tasks import Task
from dds_adapters.live.decider import Decider
from dds_adapters.live.lived import Arriving, Effective, Told, Watcher
from dds_core.engine import Step
from dds_core.events import Capabilities, Decision, Event, FabricResourceObserved, WriteRefused
from dds_core.log import EventLog
from dds_core.policy import Mode
from dds_core.publishing.component import PUBLISHER
from dds_core.publishing.fold import DROPPED
from dds_core.publishing.model import PoolModel
from dds_core.publishing.picture import PoolPicture, StockKey

CONFIG = "configmaps"


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


class Publisher(Decider[PoolPicture]):
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
        watchers: Sequence[Watcher[PoolPicture]] = (),
        told: Told = lambda error: None,
    ) -> None:
        """With `bare_metal_hosts` these are followed, too: they say which machine a node is."""
        self._hosts = BareMetalHosts() if bare_metal_hosts else None
        self.resources = frozenset(one.resource for one in watched_by_publisher(bare_metal_hosts=bare_metal_hosts))
        self._config_namespace = config_namespace
        self._news = PoolNews(config_namespace)
        self._surveyed: tuple[PoolModel, ...] | None = None
        self._probed = False
        self.doubtful = False
        """A write was kept otherwise than the API server said: it has to be asked again."""
        self._came_last: dict[StockKey, int] = {}  # when a device last did
        self._kept: Capabilities | None = None  # nobody said: what the log knows stands
        super().__init__(PUBLISHER, log, policy, code=code, watchers=watchers, told=told)

    # -- what the fabric is to be asked about --------------------------------------------------------------------

    @property
    def configured(self) -> bool:
        """Whether it is known which models there are: before, no question makes sense."""
        return CONFIG in self.synced_resources

    @property
    def models(self) -> tuple[PoolModel, ...]:
        """Those that there are."""
        return self.picture.models

    # -- what came -----------------------------------------------------------------------------------------------

    def came(self, one: Arriving) -> None:
        match one:
            case Answered(StockAnswer() as answer) if self._is_crossed(answer):
                pass  # it is asked again in the next round
            case Answered(answer, at):
                for fact in facts_of(answer, self.picture):
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
        waiting = self.picture.uncounted.get(fact.uid) if isinstance(fact, FabricResourceObserved) else None
        super().happened(fact, at)
        if isinstance(fact, FabricResourceObserved) and waiting is None:
            key = self.picture.uncounted.get(fact.uid)
            if key is not None:
                self._came_last[key] = at

    def _was_probed(self, capabilities: Capabilities | None, at: int) -> None:
        self._probed, self.doubtful = True, False
        if capabilities is not None:
            self._kept = capabilities
            if capabilities != self.picture.capabilities:  # a refused write may have taught otherwise meanwhile
                self.forget_capabilities()
        self.look_again(at)

    @property
    def ready(self) -> bool:
        return self._probed and self._surveyed == self.models

    def before(self, fact: Event) -> None:
        """A write was kept otherwise than the API server said it would be: what is known of that outlives what it said."""
        if isinstance(fact, WriteRefused) and fact.reason in (DROPPED, NOT_KEPT):
            self.doubtful = True
            self._kept = None if fact.reason == DROPPED else self._kept

    def capabilities(self) -> Capabilities:
        return self._kept if self._kept is not None else self.picture.capabilities

    # -- what decisions become -----------------------------------------------------------------------------------

    @property
    def limit(self) -> Mode:
        return "attach" if self.picture.live else "observe"

    def translator(self, picture: PoolPicture) -> PublisherTranslator:
        return PublisherTranslator(picture, self._config_namespace, self._hosts)

    def plan(self, decision: Decision, event_id: str, at: int) -> Sequence[Task]:
        return plan(decision, event_id, at, self.picture)

    def announce(self, step: Step) -> Iterator[Task]:
        for event in (step.fact, *(event for event, _ in step.caused)):
            yield from self._news.tell(event, step.at, self.picture)
