"""The scaler as one that decides: what it follows, the lists of claims that its fences wish for, the pods that it has to ask for,
and what its decisions become.

What all that decide have in common is in `decider`; which decisions there are is the core's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dds_adapters.kubernetes import config
from dds_adapters.kubernetes.arrivals import Arrival
from dds_adapters.kubernetes.identity import Identity
from dds_adapters.kubernetes.known import seeds
from dds_adapters.kubernetes.translate import Translator
from dds_adapters.kubernetes.watched import OPTIONAL, VERSIONS, Watched, watched
from dds_adapters.kubernetes.writer.announce import announce
from dds_adapters.kubernetes.writer.plan import plan, stamps
from dds_adapters.kubernetes.writer.pods import Outlet
from dds_adapters.kubernetes.writer.tasks import Task
from dds_adapters.live.decider import Decider
from dds_adapters.live.lacks import lacks
from dds_adapters.live.lived import Arriving, Effective, Told
from dds_adapters.live.lived import Watcher as Watcher
from dds_adapters.live.part import Surroundings
from dds_adapters.live.pen import Committed as Committed
from dds_adapters.live.pods import PodQuestions
from dds_core.component import SCALER
from dds_core.engine import Step
from dds_core.errors import DdsError
from dds_core.events import Capabilities, ClaimsListed, ClaimsListWanted, Decision, Event
from dds_core.log import EventLog
from dds_core.picture import Picture
from dds_core.policy import Mode

CLAIMS = "resourceclaims"


class Scaler(Decider[Picture]):
    """The dynamic device scaler on its log."""

    resources = frozenset(VERSIONS)
    optional = OPTIONAL

    def __init__(
        self,
        log: EventLog,
        policy: Effective,
        *,
        code: str,
        capabilities: Callable[[], Capabilities] = Capabilities,
        config_namespace: str = config.NAMESPACE,
        outlet: Outlet | None = None,
        watchers: Sequence[Watcher[Picture]] = (),
        told: Told = lambda error: None,
    ) -> None:
        """`capabilities` says what the API serves, as far as it is known by now. `outlet` takes the answers about pods that have
        to be asked for; without one none is."""
        self._capabilities = capabilities
        self._config_namespace = config_namespace
        self._questions = PodQuestions(outlet)
        self._wishes: dict[str, int] = {}
        super().__init__(SCALER, log, policy, code=code, watchers=watchers, told=told)

    def translator(self, picture: Picture) -> Translator:
        return Translator(picture, self._config_namespace)

    def capabilities(self) -> Capabilities:
        return self._capabilities()

    def plan(self, decision: Decision, event_id: str, at: int) -> Sequence[Task]:
        if isinstance(decision, ClaimsListWanted):
            self._wish(decision, at)
            return ()
        return plan(decision, event_id, at, self.picture)

    def announce(self, step: Step) -> Iterator[Task]:
        picture = self.picture
        if picture.live:
            for event in (step.fact, *(event for event, _ in step.caused)):
                yield from announce(event, step.at, picture)
        if picture.synced:
            yield from self._questions.after(step, picture)

    @property
    def limit(self) -> Mode:
        return self.picture.mode

    def before(self, fact: Event) -> None:
        self._questions.before(fact, self.picture)

    def seen_whole(self) -> list[Task]:
        return self._questions.at_start(self.picture)

    # -- fences that wish for a list of all claims ---------------------------------------------------------------

    def _wish(self, wanted: ClaimsListWanted, at: int) -> None:
        if self.picture.live:
            self._wishes[wanted.resource] = at
            self.wanted_lists.add(CLAIMS)

    def listed(self, arrival: Arrival) -> None:
        """A list that was begun after a fence had settled confirms it."""
        if arrival.resource != CLAIMS:
            return
        for resource, wished in sorted(self._wishes.items()):
            if arrival.since >= wished:
                del self._wishes[resource]
                self.happened(ClaimsListed(resource=resource, started=arrival.since), arrival.at)
        if self._wishes:
            self.wanted_lists.add(CLAIMS)


class ScalerPart:
    """The scaler as what a process runs."""

    def __init__(self, code: str, config_namespace: str = config.NAMESPACE) -> None:
        """`code` says which version of the program runs."""
        self._code = code
        self._config_namespace = config_namespace

    def decider(self, log: EventLog, policy: Effective, around: Surroundings[Picture]) -> Scaler:
        def capabilities() -> Capabilities:
            """As the reflector found it."""
            return Capabilities(taint_rules=around.version("devicetaintrules").rpartition("/")[2])

        return Scaler(
            log,
            policy,
            code=self._code,
            capabilities=capabilities,
            config_namespace=self._config_namespace,
            outlet=around.arrivals,
            watchers=(around.watcher,),
            told=lambda error: around.trouble("decisions", error),
        )

    def watched(self) -> Sequence[Watched]:
        return watched(self._config_namespace)

    def seeds(self, picture: Picture) -> Mapping[str, Iterable[Identity]]:
        return seeds(picture)

    def begin(self, decider: Decider[Picture]) -> None:
        """Nothing else is listened to."""

    def arrived(self) -> Sequence[Arriving]:
        return ()

    def first(self, picture: Picture) -> Sequence[Task]:
        """Requests of ours are marked as this epoch's: what a former leader still sends to them fails."""
        return stamps(picture)

    def turned(self, decider: Decider[Picture]) -> None:
        """Nobody else has to know."""

    def lacks(self, picture: Picture, where: str) -> list[DdsError]:
        return lacks(picture, where, self._config_namespace)

    def end(self) -> Sequence[str]:
        return ()

    def threads(self) -> Mapping[str, bool]:
        return {}
