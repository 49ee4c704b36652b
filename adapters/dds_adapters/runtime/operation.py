"""What people and probes see of a running process: metrics, health and log lines.

It only observes. It reads data of other threads without waiting for them.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

from dds_adapters.kubernetes.watch.reflector import Dispensable
from dds_adapters.kubernetes.watch.watch_spec import OPTIONAL, PUBLISHER_OPTIONAL, VERSIONS
from dds_adapters.kubernetes.watch.watch_spec import PUBLISHER as FOLLOWED
from dds_adapters.runtime.autoscaler import AutoscalerController
from dds_adapters.runtime.health import (
    Check,
    Endpoints,
    Verdict,
    alive,
    answering,
    log_there,
    turning,
    unless_standby,
    viewed,
)
from dds_adapters.runtime.log_lines import EventLogger, Naming
from dds_adapters.runtime.loop import CommitListener, Committed, Controller, P
from dds_adapters.runtime.metrics import GroupMetrics, Metrics, PoolMetrics, Sources
from dds_adapters.runtime.metrics import catalogue as c
from dds_adapters.runtime.process import Process
from dds_adapters.runtime.publisher import PublisherController
from dds_core import __version__
from dds_core.autoscaler.deadlines import KINDS as AUTOSCALER_KINDS
from dds_core.autoscaler.state import Fleet
from dds_core.errors import DdsError
from dds_core.publisher.deadlines import KINDS
from dds_core.publisher.state import PoolState
from dds_core.scaler.component import SCALER
from dds_core.scaler.state import State

AGAIN = 60.0
"""Seconds before a repeated error of a part is logged again as a warning."""
PATIENCE = 120.0
"""Seconds without a turn of the loop after which the process is not live. Longer than any call to a log takes."""


class Operation(ABC, Generic[P]):
    """The observer of one process (`process.Observer`). Its checks and metrics are served on the program's endpoints."""

    wanted: Sequence[str]
    """Resources that must be listed and watched for readiness."""
    deciding: str
    """The log line when this process becomes the leader."""

    def __init__(
        self, endpoints: Endpoints, logger: logging.Logger, *, component: str = "", names: Naming | None = None
    ) -> None:
        """`component`, unless empty, is added to log lines and put before the names of checks."""
        self._endpoints = endpoints
        self._log = logger
        self._component = component
        self._listeners: list[CommitListener[P]] = [EventLogger(logger, names, component)]
        self._turned = time.monotonic()
        self._synced = False
        self._mode = ""
        self._said: dict[str, tuple[str, float]] = {}
        self._away = self._standing = ""

    # -- what each component defines -----------------------------------------------------------------------------

    @abstractmethod
    def measured(self, process: Process[P]) -> CommitListener[P]:
        """Make and register the component's metrics."""

    @abstractmethod
    def seen(self, state: P) -> str:
        """The numbers of listed objects, for the log line after the first list of the cluster."""

    @abstractmethod
    def configured_mode(self, state: P) -> str:
        """The mode in the ConfigMap; "" for none."""

    def more_checks(self) -> Mapping[str, Check]:
        """Additional checks of readiness."""
        return {}

    # -- calls of the process ------------------------------------------------------------------------------------

    def began(self, process: Process[Any]) -> None:
        """Join the endpoints. Raises InputError when an address cannot be used."""
        self._listeners.append(self.measured(process))
        live, ready = self._checks(process)
        lease, leads = process.settings.lease_name, lambda: process.leading and process.controller is not None
        self._endpoints.join(process.cluster, lease, leads, self._named(live), self._named(ready))

    def leads(self, leading: bool, why: str = "") -> None:
        self._synced = self._synced and leading
        before, self._standing = self._standing, why
        if leading or why.partition(";")[0] != before.partition(";")[0]:  # what follows is an instant
            self._say(self.deciding if leading else f"standing by: {why}")

    def alive(self) -> None:
        self._turned = time.monotonic()

    def on_turn(self, state: P, /) -> None:
        self._turned = time.monotonic()
        self._away = ""
        if state.process.synced and not self._synced:
            self._say(f"the whole cluster was seen: {self.seen(state)}; mode {state.mode}")
        elif state.process.synced and state.mode != self._mode:
            switch = self.configured_mode(state)
            says = f", the ConfigMap says {switch}" if switch else ""
            self._say(f"mode {state.mode} is in effect now (policy {state.policy.mode}{says})")
        self._synced, self._mode = state.process.synced, state.mode

    def trouble(self, part: str, error: DdsError) -> None:
        if part == "log":
            self._away = str(error)
        before, at = self._said.get(part, ("", 0.0))
        again = str(error) == before and time.monotonic() - at < AGAIN
        if not again:
            self._said[part] = (str(error), time.monotonic())
        level = logging.INFO if isinstance(error, Dispensable) else logging.WARNING
        self._say(str(error), logging.DEBUG if again else level, part)

    def committed(self, steps: Sequence[Committed], state: P, /) -> None:
        for listener in reversed(self._listeners):
            listener.committed(steps, state)

    def _say(self, words: str, level: int = logging.INFO, part: str = "") -> None:
        self._log.log(level, "%s", words, extra={"component": self._component, "part": part})

    # -- checks --------------------------------------------------------------------------------------------------

    def _named(self, checks: Mapping[str, Check]) -> dict[str, Check]:
        prefix = f"{self._component}-" if self._component else ""
        return {prefix + name: check for name, check in checks.items()}

    def _checks(self, process: Process[P]) -> tuple[dict[str, Check], dict[str, Check]]:
        """The checks of liveness, and the additional ones of readiness."""

        def seen(resource: str) -> Check:
            def check() -> Verdict:
                controller = process.controller
                synced, lost = (controller.synced_resources, controller.lost) if controller is not None else ((), ())
                return viewed(resource, synced, lost)

            return check

        def late() -> float:
            return process.elector.overdue() if process.elector is not None else 0.0

        live: dict[str, Check] = {
            "loop": lambda: turning(time.monotonic() - self._turned, PATIENCE),
            "threads": lambda: alive(process.threads()),
            "lease": lambda: answering(late()),
        }
        ready: dict[str, Check] = {"log": lambda: log_there(self._away), **{one: seen(one) for one in self.wanted}}
        leading = lambda: process.leading  # noqa: E731 # also true while the log does not open: no standby
        wanted = {**ready, **self.more_checks()}
        return live, {name: unless_standby(leading, lambda: self._standing, check) for name, check in wanted.items()}


LOOK_AT_ALL = 15.0
"""Seconds between counts of who waits without an allocation, which read the whole state."""


class ScalerOperation(Operation[State]):
    wanted = tuple(name for name in VERSIONS if name not in OPTIONAL)
    deciding = "this process decides"

    _metrics: Metrics | None = None
    _looked = -LOOK_AT_ALL

    def measured(self, process: Process[State]) -> Metrics:
        self._metrics = Metrics(
            self._endpoints.registry, version=__version__, fingerprint=SCALER.fingerprint, sources=sources_of(process)
        )
        return self._metrics

    def on_turn(self, state: State, /) -> None:
        super().on_turn(state)
        now = time.monotonic()
        if self._metrics is not None and now - self._looked >= LOOK_AT_ALL:
            self._looked = now
            self._metrics.look(state)

    def seen(self, state: State) -> str:
        claims, nodes, requests = state.demand.claims.rows, state.fleet.nodes.rows, state.fleet.requests.rows
        return f"{len(claims)} claims, {len(nodes)} nodes, {len(requests)} requests"

    def configured_mode(self, state: State) -> str:
        return state.settings.config.mode


def sources_of(process: Process[Any]) -> Sources:
    """Values that other threads of a process keep, read at each scrape."""

    def of_decider(
        read: Callable[[Controller[Any]], float], before: float = 0.0
    ) -> Callable[[], dict[tuple[str, ...], float]]:
        return lambda: {(): read(process.controller) if process.controller is not None else before}

    def lag(controller: Controller[Any]) -> float:
        oldest = controller.oldest_pending
        return 0.0 if oldest is None else max(0.0, (process.clock.now() - oldest) / 1_000_000)

    return {
        c.WATCH_AGE: lambda: {(resource,): age for resource, age in process.arrivals.ages().items()},
        c.ATTEMPTS: lambda: {(action, outcome): n for (action, outcome), n in process.writer.counts.items()},
        c.LAG: of_decider(lag),
        c.AVAILABLE: of_decider(lambda controller: not controller.away, before=1.0),
    }


# -- a publisher -----------------------------------------------------------------------------------------------------------


class PoolNames(Naming):
    """The names in a publisher's log lines, from its state."""

    guards = False
    deadlines = KINDS
    tables = ("slices", "hosts", "claims", "resources", "machines_by_uuid")


_WEIGHT = ("machines", "stock", "limits", "entries")
LOOK = 1.0
"""Seconds between updates of what is shown from the state."""


class PublisherOperation(Operation[PoolState]):
    """A fabric that does not answer appears in logs, metrics and details of checks, but does not make the publisher unready:
    its slices remain valid, and a restart would not help."""

    wanted = tuple(name for name in FOLLOWED if name not in PUBLISHER_OPTIONAL)
    deciding = "this process publishes"

    def __init__(self, endpoints: Endpoints, logger: logging.Logger, *, component: str = "") -> None:
        super().__init__(endpoints, logger, component=component, names=PoolNames())
        self._metrics: PoolMetrics
        self._publisher: Callable[[], PublisherController | None]
        self._looked = 0.0
        self._failing = self._conditions = ""

    def measured(self, process: Process[Any]) -> PoolMetrics:
        def publisher() -> PublisherController | None:
            return process.controller if isinstance(process.controller, PublisherController) else None

        self._publisher = publisher
        self._metrics = PoolMetrics(
            self._endpoints.registry,
            version=__version__,
            sources=sources_of(process),
            ages=lambda: one.ages() if (one := publisher()) is not None else {},
        )
        return self._metrics

    def seen(self, state: PoolState) -> str:
        machines, nodes, models = state.fabric.machines_by_uuid.rows, state.cluster.hosts.rows, state.models
        return f"{len(machines)} machines, {len(nodes)} nodes, {len(models)} models"

    def configured_mode(self, state: PoolState) -> str:
        return state.config.mode if state.config is not None else ""

    def on_turn(self, state: PoolState, /) -> None:
        super().on_turn(state)
        now = time.monotonic()
        if now - self._looked >= LOOK:
            self._looked = now
            self._metrics.look(state)
            self._failing = _failing(state.fabric.failures.rows)
            self._conditions = _conditions(state, self._publisher())

    def more_checks(self) -> Mapping[str, Check]:
        return {
            "fabric": lambda: Verdict(True, self._failing),
            "bindingconditions": lambda: Verdict(True, self._conditions),
        }


def _conditions(state: PoolState, publisher: PublisherController | None) -> str:
    """What is wrong with binding conditions; "" when nothing is wrong."""
    if not state.cluster.capabilities.binding_conditions:
        return "the API server drops binding conditions: nothing is published"
    if publisher is None or not publisher.probed:
        return "the API server has not said whether it keeps them: see the log lines about the probe"
    return ""


def _failing(failures: Mapping[str, str]) -> str:
    """The unanswered questions in one line that names the most important; "" when there are none."""
    if not failures:
        return ""
    of = min(failures, key=lambda of: (_WEIGHT.index(of.partition("/")[0]), of))
    more = f"; and {len(failures) - 1} questions more" if len(failures) > 1 else ""
    return f"no answer about {of}: {failures[of]}{more}"


# -- an autoscaler ---------------------------------------------------------------------------------------------------------


class FleetNames(Naming):
    """The names in an autoscaler's log lines, from its state."""

    guards = False
    deadlines = AUTOSCALER_KINDS
    tables = ("workers", "loads", "claims", "slices", "resources")


class AutoscalerOperation(Operation[Fleet]):
    """A provider of servers that does not answer appears in logs and metrics, but does not make the autoscaler unready: the
    groups that it shows remain valid, and a restart would not help."""

    wanted = tuple(name for name in VERSIONS if name not in OPTIONAL)
    deciding = "this process answers Cluster Autoscaler"

    def __init__(self, endpoints: Endpoints, logger: logging.Logger, *, component: str = "") -> None:
        super().__init__(endpoints, logger, component=component, names=FleetNames())
        self._metrics: GroupMetrics
        self._looked = 0.0

    def measured(self, process: Process[Any]) -> GroupMetrics:
        def age() -> float | None:
            return process.controller.servers_age() if isinstance(process.controller, AutoscalerController) else None

        self._metrics = GroupMetrics(
            self._endpoints.registry, version=__version__, sources=sources_of(process), age=age
        )
        return self._metrics

    def seen(self, state: Fleet) -> str:
        servers, nodes, pods = state.cluster.servers.rows, state.cluster.workers.rows, state.cluster.loads.rows
        return f"{len(servers)} servers, {len(nodes)} nodes, {len(pods)} pods"

    def configured_mode(self, state: Fleet) -> str:
        return state.config.mode

    def on_turn(self, state: Fleet, /) -> None:
        super().on_turn(state)
        now = time.monotonic()
        if now - self._looked >= LOOK:
            self._looked = now
            self._metrics.look(state)
