"""The threads of the publisher: one surveys the fabric, one probes the API server.

They decide nothing. They put answers into `Answers`, from where the controller takes them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random, SystemRandom

from dds_adapters.fabric.provider import Provider
from dds_adapters.fabric.survey import Answer, MachinesAnswer, Question, entries, survey, together
from dds_adapters.kubernetes.cluster import Asking, Unreachable
from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.limiter import Backoff
from dds_adapters.kubernetes.publish.probe import probe
from dds_adapters.runtime.live_settings import CONNECTIONS, SCAN_SECONDS
from dds_adapters.runtime.loop import EffectivePolicy, Make, Surroundings
from dds_adapters.runtime.polling import PollingThread
from dds_adapters.runtime.publisher import DRIVER, Answers, Pollers, PublisherController
from dds_core.errors import DdsError
from dds_core.log import EventLog
from dds_core.publisher.model import Machine, PoolModel
from dds_core.publisher.state import PoolState

AGAIN_SECONDS = 600.0
"""Between probes while the API server drops fields."""
FAILED_SECONDS = 60.0
"""After a probe that failed."""
GLANCE = 0.2
"""Seconds between checks whether the API version is known, or running requests have ended."""


class ApiProbe(PollingThread):
    """Probes which fields of a slice the API server keeps, once `look` has set the driver: at the start, and repeatedly while
    it drops some, since no event reports that a feature gate was switched on."""

    def __init__(
        self,
        api: Asking,
        version: Callable[[], str],
        answers: Answers,
        *,
        on_error: Callable[[DdsError], None] = lambda error: None,
        random: Random | None = None,
    ) -> None:
        """`version` returns the API version in which ResourceSlices are watched, "" before it is known."""
        super().__init__("probe")
        self._api = api
        self._version = version
        self._answers = answers
        self._on_error = on_error
        self._backoff = Backoff(random or SystemRandom(), longest=30.0)
        self._driver: str | None = None
        self.answered = False
        """The API server has answered at least once."""
        self._dropped = False

    def look(self, driver: str, *, dropped: bool) -> None:
        """Probe with a slice of this driver; repeatedly while the API server drops fields (`dropped`)."""
        with self._changed:
            if (self._driver, self._dropped) != (driver, dropped):
                self._driver, self._dropped = driver, dropped
                self._changed.notify_all()

    def due(self) -> bool:
        """Whether a probe is needed."""
        return self._driver is not None and (self._dropped or not self.answered)

    def ask(self) -> float:
        """Probe once. Returns the seconds to wait before the next probe."""
        version = self._version()
        if not version:
            return GLANCE
        try:
            kept = probe(self._api, version, self._driver or DRIVER)
        except Unreachable as error:  # no answer is put: without the API server nothing can be decided anyway
            self._on_error(error)
            return self._backoff.failed(time.monotonic())
        except Exception as error:
            fault = error if isinstance(error, DdsError) else DdsError(f"the probe failed: {type(error).__name__}")
            self._on_error(fault)
            self._answers.probed(None)
            return FAILED_SECONDS
        self.answered = True
        self._answers.probed(kept)
        return AGAIN_SECONDS

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self.due())
                if self._stopping:
                    return
            wait = self.ask()
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, wait)


class FabricPoller(PollingThread):
    """Surveys the fabric again and again, once `look_for` has set the models. Surveys never overlap: a late one delays the
    next. A change of the models starts the next one at once. A failed request is a fact and is logged as one."""

    def __init__(
        self,
        provider: Provider,
        answers: Answers,
        *,
        interval: float = SCAN_SECONDS,
        connections: int = CONNECTIONS,
        on_error: Callable[[DdsError], None] = lambda error: None,
    ) -> None:
        """`interval`: seconds from the start of a survey to the start of the next. `connections`: number of parallel requests.
        `on_error` gets bugs of dds only."""
        super().__init__("fabric")
        self._provider = provider
        self._answers = answers
        self._interval = interval
        self._connections = connections
        self._on_error = on_error
        self._models: tuple[PoolModel, ...] | None = None
        self._machines: tuple[Machine, ...] = ()
        self.rounds = 0
        """Number of completed surveys."""

    def look_for(self, models: tuple[PoolModel, ...], machines: Iterable[Machine]) -> None:
        """Set the models to ask about and the known machines. A change of the models starts a new survey at once."""
        if models is self._models:
            return
        with self._changed:
            if models != self._models:
                self._models, self._machines = models, tuple(machines)
                self._changed.notify_all()

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (models := self._wanted()) is not None:
            began = time.monotonic()
            try:
                survey(
                    self._provider,
                    models,
                    self.rounds,
                    self._report,
                    self.stopping,
                    known=self._machines,
                    run=self._side_by_side,
                    instant=self._answers.instant,
                    counted=partial(self._ended, models),
                )
                if (told := entries(self._provider)) is not None:
                    self._report(told)
            except Exception as error:  # a bug in dds must not end the polling
                what = f"a round of questions ended with {type(error).__name__}"
                self._on_error(DdsError(what, where="the fabric", fix="please report it; the next round goes on"))
            self.rounds += 1
            self._ended(models)
            self._rest(began + self._interval, models)

    def _ended(self, models: tuple[PoolModel, ...]) -> None:
        """All stock was asked for. Publishing waits for this, but not for limits, which may take long."""
        if not self._stopping:
            self._answers.ended(models)

    def _wanted(self) -> tuple[PoolModel, ...] | None:
        """Wait for the models. None when the thread has to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._models is not None)
            return None if self._stopping else self._models

    def _rest(self, until: float, models: tuple[PoolModel, ...]) -> None:
        with self._changed:
            wait = until - time.monotonic()
            self._changed.wait_for(lambda: self._stopping or self._models != models, max(0.0, wait))

    def _report(self, answer: Answer) -> None:
        if isinstance(answer, MachinesAnswer):
            self._machines = answer.machines if answer.whole else together(self._machines, answer.machines)
        self._answers.put(answer)

    def _side_by_side(self, questions: Iterable[Question]) -> None:
        """Ask all questions in `connections` threads. When the poller stops, a hanging request is abandoned; its thread holds
        no lock."""
        left, lock = iter(questions), threading.Lock()
        names = range(self._connections)
        threads = [threading.Thread(target=_ask, args=(left, lock), name=f"fabric-{n}", daemon=True) for n in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive() and not self._stopping:
                thread.join(GLANCE)


def _ask(left: Iterator[Question], lock: threading.Lock) -> None:
    while True:
        with lock:
            question = next(left, None)
        if question is None:
            return
        question()


def make_publisher(
    code: str,
    provider: Provider,
    *,
    config_namespace: str = config.NAMESPACE,
    interval: float = SCAN_SECONDS,
    connections: int = CONNECTIONS,
    bare_metal_hosts: bool = False,
) -> Make[PoolState]:
    """A function that makes the publisher with its threads. `code` is the version of dds; for the others see `FabricPoller` and
    `PublisherController`. The caller closes the provider after the process has ended."""

    def make(log: EventLog, policy: EffectivePolicy, around: Surroundings[PoolState]) -> PublisherController:
        answers = Answers(around.arrivals.instant, around.arrivals.wake)

        def on_error(part: str) -> Callable[[DdsError], None]:
            return lambda error: around.trouble(part, error)

        fabric = FabricPoller(
            provider, answers, interval=interval, connections=connections, on_error=on_error("fabric")
        )
        probe = ApiProbe(around.api, lambda: around.version("resourceslices"), answers, on_error=on_error("probe"))
        return PublisherController(
            log,
            policy,
            code=code,
            config_namespace=config_namespace,
            bare_metal_hosts=bare_metal_hosts,
            listeners=around.listeners,
            on_error=on_error("decisions"),
            pollers=Pollers(answers, fabric, probe),
        )

    return make
