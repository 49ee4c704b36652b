"""The publisher as what a process runs: who decides, and the threads that ask the fabric and the API server for it."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from random import SystemRandom

from dds_adapters.fabric.provider import Provider
from dds_adapters.fabric.survey import Answer, MachinesAnswer, Question, survey, together
from dds_adapters.kubernetes.cluster import Asking, Unreachable
from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.limiter import Backoff
from dds_adapters.kubernetes.publish.decode import PUBLISHED
from dds_adapters.kubernetes.publish.probe import probe
from dds_adapters.kubernetes.watch.identity import Identity
from dds_adapters.kubernetes.watch.known import seeds
from dds_adapters.kubernetes.watch.watched import Watched, watched_by_publisher
from dds_adapters.kubernetes.write.tasks import Task
from dds_adapters.runtime.lacks import pool_lacks
from dds_adapters.runtime.loop import Arriving, Decider, Effective
from dds_adapters.runtime.process import Surroundings
from dds_adapters.runtime.publisher import CONFIG, Answers, Publisher
from dds_adapters.runtime.settings import CONNECTIONS, SCAN_SECONDS
from dds_core.errors import DdsError
from dds_core.events import Capabilities
from dds_core.log import EventLog
from dds_core.publisher.model import Machine, PoolModel
from dds_core.publisher.state import PoolPicture

# -- asker -------------------------------------------------------------------------------------------------------------

# A thread that asks somebody something, again and again, from `start` to `stop`. What, and how often, is its own
# business.


class Asker(ABC):
    """`_changed` guards what the thread is told, and is notified when that is something new."""

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._stopping = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def end(self) -> None:
        """Ask nothing more; it does not wait for a question that runs."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def stop(self, seconds: float) -> bool:
        """Ask nothing more; False when a question still hangs after so many seconds."""
        self.end()
        if self.thread.ident is not None:
            self.thread.join(seconds)
        return not self.thread.is_alive()

    def stopping(self) -> bool:
        return self._stopping

    @abstractmethod
    def _run(self) -> None:
        """Until it is stopping."""


# -- prober ------------------------------------------------------------------------------------------------------------

# The thread that asks the API server what it keeps of a slice: once at start, and again as long as something is
# dropped, since who switches a gate on tells nobody. It decides nothing.


AGAIN_SECONDS = 600.0
"""Between questions while something is dropped."""
FAILED_SECONDS = 60.0
"""After an answer that says nothing."""
GLANCE = 0.2
DRIVER = "probe.dds-publisher"
"""In whose name it is asked while no model is configured."""


class Prober(Asker):
    """Asks from `start` to `stop`, once it was told (`look`) in whose name."""

    def __init__(
        self,
        api: Asking,
        version: Callable[[], str],
        answers: Answers,
        *,
        told: Callable[[DdsError], None] = lambda error: None,
    ) -> None:
        """`version` is that in which ResourceSlices are followed, "" before it is known. `told` is told of failures."""
        super().__init__("probe")
        self._api = api
        self._version = version
        self._answers = answers
        self._told = told
        self._driver: str | None = None
        self.answered = False
        """The API server has said at least once what it keeps."""
        self._dropped = False

    def look(self, driver: str, *, dropped: bool) -> None:
        """Ask for this driver; again and again while something is `dropped`."""
        with self._changed:
            if (self._driver, self._dropped) != (driver, dropped):
                self._driver, self._dropped = driver, dropped
                self._changed.notify_all()

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        backoff = Backoff(SystemRandom(), longest=30.0)
        while self._due():
            version = self._version()
            if not version:
                self._wait(GLANCE)
                continue
            try:
                kept = probe(self._api, version, self._driver or DRIVER)
            except Unreachable as error:  # nothing is decided either, as long as nothing is listed
                self._told(error)
                self._wait(backoff.failed(time.monotonic()))
            except Exception as error:
                fault = error if isinstance(error, DdsError) else DdsError(f"the probe failed: {type(error).__name__}")
                self._told(fault)
                self._answers.probed(None)
                self._wait(FAILED_SECONDS)
            else:
                self.answered = True
                self._answers.probed(kept)
                self._wait(AGAIN_SECONDS)

    def _due(self) -> bool:
        """Wait until there is something to ask for; False when all is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._is_due())
            return not self._stopping

    def _is_due(self) -> bool:
        return self._driver is not None and (self._dropped or not self.answered)

    def _wait(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds)


# -- surveyor ----------------------------------------------------------------------------------------------------------

# The threads that ask the fabric, round after round. What they hear they put where the thread that decides takes it
# (`answers`); they decide nothing and tell nobody: that a question fails is a fact, and told as one.
#
# A round never overlaps another. One that is late makes the next one late, and a change of the models begins the next
# one at once.


"""Seconds between looks whether questions that run have come to their end, or this is to end."""


class Surveyor(Asker):
    """Asks round after round from `start` to `stop`, once it was told (`look_for`) which models there are."""

    def __init__(
        self,
        provider: Provider,
        answers: Answers,
        *,
        interval: float = SCAN_SECONDS,
        connections: int = CONNECTIONS,
        told: Callable[[DdsError], None] = lambda error: None,
    ) -> None:
        """A round begins `interval` seconds after the one before began. `connections` questions run side by side. `told` is told
        of faults of the program."""
        super().__init__("fabric")
        self._provider = provider
        self._answers = answers
        self._interval = interval
        self._connections = connections
        self._told = told
        self._models: tuple[PoolModel, ...] | None = None
        self._machines: tuple[Machine, ...] = ()
        self.rounds = 0
        """How many have ended."""
        self.seconds = 0.0
        """How long the last one took."""

    def look_for(self, models: tuple[PoolModel, ...], machines: Iterable[Machine]) -> None:
        """The models to ask about, and the machines that are known; others than before begin a new round at once."""
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
            except Exception as error:  # a fault of ours must not end the asking
                what = f"a round of questions ended with {type(error).__name__}"
                self._told(DdsError(what, where="the fabric", fix="please report it; the next round goes on"))
            self.rounds += 1
            self.seconds = time.monotonic() - began
            self._ended(models)
            self._rest(began + self._interval, models)

    def _ended(self, models: tuple[PoolModel, ...]) -> None:
        """All stock was asked for, which is what publishing waits for; limits may take their time."""
        if not self._stopping:
            self._answers.ended(models)

    def _wanted(self) -> tuple[PoolModel, ...] | None:
        """The models, once there are some to ask for; None when all is over."""
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
        """All of them, some at a time. A question that hangs when all is to end is left behind: its thread holds nothing."""
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


# -- publishing --------------------------------------------------------------------------------------------------------

STOP_SECONDS = 2.0


class PublisherPart:
    """Who makes it closes the provider, after the process has ended."""

    answers: Answers
    surveyor: Surveyor
    prober: Prober

    def __init__(
        self,
        code: str,
        provider: Provider,
        *,
        config_namespace: str = config.NAMESPACE,
        interval: float = SCAN_SECONDS,
        connections: int = CONNECTIONS,
        bare_metal_hosts: bool = False,
    ) -> None:
        """`code` says which version of the program runs; `interval` and `connections` are the surveyor's, `bare_metal_hosts` the
        publisher's."""
        self._code = code
        self._provider = provider
        self._config_namespace = config_namespace
        self._interval = interval
        self._connections = connections
        self._bare_metal_hosts = bare_metal_hosts
        self._began = False

    def decider(self, log: EventLog, policy: Effective, around: Surroundings[PoolPicture]) -> Publisher:
        self.answers = Answers(around.arrivals.instant, around.arrivals.wake)
        self.surveyor = Surveyor(
            self._provider,
            self.answers,
            interval=self._interval,
            connections=self._connections,
            told=lambda error: around.trouble("fabric", error),
        )
        self.prober = Prober(
            around.cluster,
            lambda: around.version("resourceslices"),
            self.answers,
            told=lambda error: around.trouble("probe", error),
        )
        return Publisher(
            log,
            policy,
            code=self._code,
            config_namespace=self._config_namespace,
            bare_metal_hosts=self._bare_metal_hosts,
            watchers=(around.watcher,),
            told=lambda error: around.trouble("decisions", error),
        )

    def watched(self) -> Sequence[Watched]:
        return watched_by_publisher(self._config_namespace, bare_metal_hosts=self._bare_metal_hosts)

    def seeds(self, picture: PoolPicture) -> Mapping[str, Iterable[Identity]]:
        return seeds(picture, PUBLISHED)

    def begin(self, decider: Decider[PoolPicture]) -> None:
        self.surveyor.start()
        self.prober.start()
        self._began = True

    def arrived(self) -> Sequence[Arriving]:
        return self.answers.take()

    def first(self, picture: PoolPicture) -> Sequence[Task]:
        """Every write to a slice names the version that it was compared with: what a former leader still sends fails by that."""
        return ()

    def turned(self, decider: Decider[PoolPicture]) -> None:
        """Tell those who ask what to ask for: nothing before it is known which models there are."""
        picture = decider.picture
        if CONFIG not in decider.synced_resources:
            return
        models = picture.models
        self.surveyor.look_for(models, picture.machines_by_uuid.rows.values())
        kept = Capabilities(taint_rules=picture.capabilities.taint_rules)
        doubtful = isinstance(decider, Publisher) and decider.doubtful
        self.prober.look(models[0].driver if models else DRIVER, dropped=doubtful or picture.capabilities != kept)

    def lacks(self, picture: PoolPicture, where: str) -> list[DdsError]:
        return pool_lacks(picture, where, self._config_namespace)

    def end(self) -> Sequence[str]:
        if not self._began:
            return ()
        until = time.monotonic() + STOP_SECONDS
        askers = (self.surveyor, self.prober)
        for asker in askers:
            asker.end()
        ended = {asker.thread.name: asker.stop(max(0.0, until - time.monotonic())) for asker in askers}
        return [name for name, over in ended.items() if not over]

    # -- what metrics show ---------------------------------------------------------------------------------------

    def ages(self) -> Mapping[str, float]:
        """By question the seconds since the fabric answered it last."""
        return self.answers.ages() if self._began else {}

    def rounds(self) -> tuple[int, float]:
        """How many rounds of questions there were, and how many seconds the last one took."""
        return (self.surveyor.rounds, self.surveyor.seconds) if self._began else (0, 0.0)

    @property
    def probed(self) -> bool:
        """Whether the API server has said to this process what it keeps of a slice."""
        return self._began and self.prober.answered

    def threads(self) -> Mapping[str, bool]:
        if not self._began:
            return {}
        return {thread.name: thread.is_alive() for thread in (self.surveyor.thread, self.prober.thread)}
