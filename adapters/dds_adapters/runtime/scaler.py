"""The controller of the scaler: what it watches, the new lists of claims that fences need, the pods that it reads one by one,
and the tasks of its decisions. `loop` has what all controllers share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET

from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.decode.translate import Translator
from dds_adapters.kubernetes.recording import EVALUATOR
from dds_adapters.kubernetes.watch.delta_queue import Arrival
from dds_adapters.kubernetes.watch.object_store import Identity, seeds
from dds_adapters.kubernetes.watch.watch_spec import OPTIONAL, VERSIONS, WatchSpec, watched
from dds_adapters.kubernetes.write.events import announce
from dds_adapters.kubernetes.write.guarding import Guarding, ask_guarding
from dds_adapters.kubernetes.write.pods import Sink, ask_pod, tell_gone
from dds_adapters.kubernetes.write.scaler_tasks import stamps, tasks_of, writes
from dds_adapters.kubernetes.write.tasks import Task
from dds_adapters.runtime.loop import Arriving, CommitListener, Controller, EffectivePolicy, OnError, Surroundings
from dds_adapters.runtime.preflight import preflight
from dds_core.engine import Step
from dds_core.errors import DdsError
from dds_core.events import Capabilities, ClaimGone, ClaimObserved, Decision, Event, ObjectGone
from dds_core.kit.policy import Mode
from dds_core.log import EventLog
from dds_core.model import Claim, Pod
from dds_core.scaler.component import SCALER
from dds_core.scaler.events import ClaimsListed, ClaimsListWanted, ClaimsRelisted
from dds_core.scaler.state import State


class PodQuestions:
    """Tasks that read one pod each and pass the answer to the outlet, as if it came from a watch.

    The scaler watches only pods without a node, since there may be very many with one. For those, claims are enough: a pod for
    which a claim is reserved is in use; a pod that loses its reservation has finished or is gone, so it is read; a pod without
    claims does not matter."""

    def __init__(self, outlet: Sink | None) -> None:
        self._outlet = outlet
        self._naming: dict[str, list[str]] = {}
        """Uid of a claim about to be removed → the pods that name it. Later the claim's name is no longer known."""

    def before(self, fact: Event, state: State) -> None:
        """Call before a fact is folded."""
        if isinstance(fact, ClaimGone) and (claim := state.demand.claims.get(fact.uid)) is not None:
            self._naming[fact.uid] = [pod.uid for pod in _pods_naming(state, claim)]

    def at_start(self, state: State) -> list[Task]:
        """Tasks for the pods that may have changed while no process ran: known pods that have a node and no reservation, and
        unknown pods for which a claim is reserved."""
        self._naming.clear()
        absent = [pod for pod in state.demand.pods.rows.values() if pod.node and not _reserves(state, pod)]
        asked = [self._ask(pod.namespace, pod.name, pod.uid) for pod in absent]
        for claim in state.demand.claims.rows.values():
            asked.extend(self._strangers(state, claim))
        return [task for task in asked if task is not None]

    def after(self, step: Step, state: State) -> list[Task]:
        """Tasks for the pods concerned by a change of a claim's reservations. A pod with a node whose last claim is gone is
        passed to the outlet as gone."""
        fact = step.fact
        if isinstance(fact, ClaimGone):
            self._without_claims(fact, state)
        if not isinstance(fact, ClaimObserved):
            return []
        consumers: object = fact.changes.consumers
        if consumers is UNSET:
            return []
        claim = state.demand.claims.get(fact.uid)
        if claim is None:
            return []
        gone = (pod for pod in _pods_naming(state, claim) if pod.node and not _reserves(state, pod))
        asked = [self._ask(pod.namespace, pod.name, pod.uid) for pod in gone]
        asked.extend(self._strangers(state, claim))
        return [task for task in asked if task is not None]

    def _without_claims(self, fact: ObjectGone, state: State) -> None:
        for uid in self._naming.pop(fact.uid, ()):
            pod = state.demand.pods.get(uid)
            if pod is not None and pod.node and not state.demand.claims_of(pod) and self._outlet is not None:
                tell_gone(pod.namespace, pod.name, pod.uid, self._outlet)

    def _strangers(self, state: State, claim: Claim) -> Iterator[Task | None]:
        for consumer in claim.consumers:
            if consumer.resource == "pods" and consumer.uid not in state.demand.pods:
                yield self._ask(claim.namespace, consumer.name, consumer.uid)

    def _ask(self, namespace: str, name: str, uid: str) -> Task | None:
        if self._outlet is None:
            return None
        return Task(
            ask_pod(namespace, name, uid, self._outlet), (f"pods/{uid}",), replaces=f"ask/{uid}", needs="observe"
        )


def _pods_naming(state: State, claim: Claim) -> Iterable[Pod]:
    uids = state.demand.pods_naming[(claim.namespace, claim.name)]
    return [pod for uid in sorted(uids) if (pod := state.demand.pods.get(uid)) is not None]


def _reserves(state: State, pod: Pod) -> bool:
    return any(consumer.uid == pod.uid for claim in state.demand.claims_of(pod) for consumer in claim.consumers)


class Heard(NamedTuple):
    """The answer about guards."""

    found: Guarding
    at: int


class GuardQuestion:
    """Asks whether devices can be guarded, at the start and after each resync. The question is a task like a write, so that the
    thread that decides does not wait; it calls `arrived` for the answer."""

    def __init__(self, namespace: str, instant: Callable[[], int], wake: Callable[[], None]) -> None:
        """`instant` is the clock of arrivals, in microseconds. `wake` wakes the thread that decides."""
        self.namespace = namespace
        self._instant = instant
        self._wake = wake
        self._heard: deque[Heard] = deque(maxlen=1)

    def task(self) -> Task:
        return ask_guarding(self.namespace, self._on_guarding)

    def _on_guarding(self, found: Guarding) -> None:
        self._heard.append(Heard(found, self._instant()))
        self._wake()

    def take_inputs(self) -> list[Heard]:
        """The newest answer, removed."""
        return [self._heard.popleft()] if self._heard else []


CLAIMS = "resourceclaims"


class ScalerController(Controller[State]):
    """The scaler's controller."""

    resources = frozenset(VERSIONS)
    optional = OPTIONAL
    evaluator = EVALUATOR

    def __init__(
        self,
        log: EventLog,
        policy: EffectivePolicy,
        *,
        code: str,
        config_namespace: str = config.NAMESPACE,
        outlet: Sink | None = None,
        guards: GuardQuestion | None = None,
        listeners: Sequence[CommitListener[State]] = (),
        on_error: OnError = lambda error: None,
    ) -> None:
        """`outlet` takes the answers about pods; without it no pod is read. `guards` asks whether devices can be guarded, and
        decisions wait for its answer; without it they cannot be guarded."""
        self._guards = guards
        self._guarding: Guarding | None = None
        self._seen = False
        self._config_namespace = config_namespace
        self._questions = PodQuestions(outlet)
        self._wishes: dict[str, int] = {}
        super().__init__(SCALER, log, policy, code=code, listeners=listeners, on_error=on_error)

    def watched(self) -> Sequence[WatchSpec]:
        return watched(self._config_namespace)

    def seeds(self) -> Mapping[str, Iterable[Identity]]:
        return seeds(self.state)

    def translator(self, state: State) -> Translator:
        namespace = self._guards.namespace if self._guards is not None else self._config_namespace
        return Translator(state, self._config_namespace, namespace=namespace)

    def capabilities(self) -> Capabilities:
        found = self._guarding
        return Capabilities(**found._asdict()) if found is not None else Capabilities()

    # -- whether devices can be guarded ------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        return self._guards is None or self._guarding is not None

    def begin(self) -> None:
        if self._guards is not None:
            self._tasks.append(self._guards.task())

    def take_inputs(self) -> Sequence[Arriving]:
        return self._guards.take_inputs() if self._guards is not None else ()

    def on_input(self, one: Arriving) -> None:
        if not isinstance(one, Heard):
            return super().on_input(one)
        self._guarding = one.found
        self.check_synced(one.at)

    # -- what decisions become ---------------------------------------------------------------------------------------

    def tasks_of(self, decision: Decision, event_id: str, at: int) -> Sequence[Task]:
        if isinstance(decision, ClaimsListWanted):
            self._wish(decision, at)
            return ()
        return tasks_of(decision, event_id, at, self.state)

    def announce(self, step: Step) -> Iterator[Task]:
        state = self.state
        if state.live:
            for event in (step.fact, *(event for event, _ in step.caused)):
                if not writes(event):
                    yield from announce(event, step.at, state, self._config_namespace)
        if state.process.synced:
            yield from self._questions.after(step, state)

    @property
    def limit(self) -> Mode:
        return self.state.mode

    def before(self, fact: Event) -> None:
        self._questions.before(fact, self.state)

    def on_synced(self) -> list[Task]:
        again = [self._guards.task()] if self._guards is not None and self._seen else []
        self._seen = True
        return [*again, *self._questions.at_start(self.state)]

    def first_tasks(self) -> Sequence[Task]:
        """Mark the requests of dds with this epoch, so that late writes of a former leader to them fail."""
        return stamps(self.state)

    def preflight(self, where: str) -> list[DdsError]:
        return preflight(self.state, where, self._config_namespace)

    # -- fences that need a new list of all claims ---------------------------------------------------------------

    def _wish(self, wanted: ClaimsListWanted, at: int) -> None:
        """Request the list in any current mode: it only reads, and the fence needs it when the mode is back."""
        if wanted.mode != "observe":
            self._wishes[wanted.resource] = at
            self.wanted_lists.add(CLAIMS)

    def listed(self, arrival: Arrival) -> None:
        """Confirm the fences that wished for a list before this list began. A list because the watch's history had ended is a
        fact of its own: a scheduler that lists at the same time can miss an exchange."""
        if arrival.resource != CLAIMS:
            return
        if arrival.anew:
            self.happened(ClaimsRelisted(), arrival.at)
        for resource, wished in sorted(self._wishes.items()):
            if arrival.since >= wished:
                del self._wishes[resource]
                self.happened(ClaimsListed(resource=resource, started=arrival.since), arrival.at)
        if self._wishes:
            self.wanted_lists.add(CLAIMS)


def make_scaler(
    code: str, config_namespace: str = config.NAMESPACE, namespace: str = config.NAMESPACE
) -> Callable[[EventLog, EffectivePolicy, Surroundings[State]], ScalerController]:
    """A function that makes the scaler. `code` is the version of dds; `namespace` is where dds is installed."""

    def make(log: EventLog, policy: EffectivePolicy, around: Surroundings[State]) -> ScalerController:
        return ScalerController(
            log,
            policy,
            code=code,
            config_namespace=config_namespace,
            outlet=around.arrivals,
            guards=GuardQuestion(namespace, around.arrivals.instant, around.arrivals.wake),
            listeners=around.listeners,
            on_error=lambda error: around.trouble("decisions", error),
        )

    return make
