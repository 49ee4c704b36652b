"""The publisher as what a process runs: who decides, and the threads that ask the fabric and the API server for it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from dds_adapters.fabric.provider import Provider
from dds_adapters.kubernetes import config
from dds_adapters.kubernetes.identity import Identity
from dds_adapters.kubernetes.known import seeds
from dds_adapters.kubernetes.publishing.translate import PUBLISHED
from dds_adapters.kubernetes.watched import Watched, watched_by_publisher
from dds_adapters.kubernetes.writer.tasks import Task
from dds_adapters.live.answers import Answers
from dds_adapters.live.decider import Decider
from dds_adapters.live.lacks import pool_lacks
from dds_adapters.live.lived import Arriving, Effective
from dds_adapters.live.part import Surroundings
from dds_adapters.live.prober import DRIVER, Prober
from dds_adapters.live.publisher import CONFIG, Publisher
from dds_adapters.live.settings import CONNECTIONS, SCAN_SECONDS
from dds_adapters.live.surveyor import Surveyor
from dds_core.errors import DdsError
from dds_core.events import Capabilities
from dds_core.log import EventLog
from dds_core.publishing.picture import PoolPicture

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
