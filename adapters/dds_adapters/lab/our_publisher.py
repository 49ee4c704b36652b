"""Our own publisher as a part of a lab on virtual time: the one that runs against real clusters and managers, without threads or
sockets.

What it has in common with any process of ours there is in `our_process`, how it asks the fabric in `rounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from dds_adapters.fabric.opening import open_provider
from dds_adapters.fabric.provider import Provider
from dds_adapters.fabric.settings import FabricSettings, Outside
from dds_adapters.kubernetes.cluster import Unreachable
from dds_adapters.kubernetes.identity import Identity
from dds_adapters.kubernetes.known import seeds
from dds_adapters.kubernetes.publishing.probe import ProbeFailed, probe
from dds_adapters.kubernetes.publishing.translate import PUBLISHED
from dds_adapters.kubernetes.watched import Watched, watched_by_publisher
from dds_adapters.lab.api.requests import MASTERS
from dds_adapters.lab.lab import Lab
from dds_adapters.lab.manager import Manager
from dds_adapters.lab.manager.transport import ManagerTransport
from dds_adapters.lab.our_process import USUAL, OurProcess, OurTimes
from dds_adapters.lab.rounds import PACE, Pace, Rounds
from dds_adapters.live.lived import Arriving, Watcher
from dds_adapters.live.publisher import Answered, Probed, Publisher, RoundEnded
from dds_core.log import EventLog
from dds_core.publishing.picture import PoolPicture
from dds_core.publishing.policy import PublishPolicy

USER = "system:serviceaccount:composable-dra:dds-publisher"
PROBE_DRIVER = "probe.dds"
PROBE_AGAIN = 10.0
"""Seconds until an API server that did not say what it keeps is asked again."""

Reach = Callable[[Outside], Provider]
"""Opens the way to a fabric; what it may know of time and chance is given."""


def by_manager(manager: Manager, settings: FabricSettings) -> Reach:
    """The way to a simulated manager, by the client that real ones are asked with."""

    def reach(outside: Outside) -> Provider:
        def sleep(seconds: float) -> None:
            outside.sleep(seconds)

        transport = ManagerTransport(manager, sleep=sleep)
        return open_provider(settings, replace(outside, transport=transport))

    return reach


class OurPublisher(OurProcess[PoolPicture]):
    """The publisher in a lab. `rounds` are its questions to the fabric."""

    def __init__(
        self,
        lab: Lab,
        log: EventLog,
        policy: PublishPolicy,
        reach: Reach,
        *,
        user: str = USER,
        groups: tuple[str, ...] = (MASTERS,),
        times: OurTimes = USUAL,
        pace: Pace = PACE,
        skew: float = 0.0,
        watchers: Sequence[Watcher[PoolPicture]] = (),
        code: str = "lab",
    ) -> None:
        super().__init__(lab, user, groups, times, skew)
        self.publisher = Publisher(log, policy, code=code, watchers=watchers, told=self.faults.append)
        self.rounds = Rounds(
            lab.time,
            reach,
            pace,
            answered=lambda answer: self._take(Answered(answer, self._now())),
            ended=lambda models: self._take(RoundEnded(models, self._now())),
            instant=self._now,
        )
        self._came: list[Arriving] = []

    @property
    def decider(self) -> Publisher:
        return self.publisher

    def start(self) -> None:
        super().start()
        self._time.after(self._times.write.draw(self._random), self._probe)

    def kill(self) -> None:
        super().kill()
        self.rounds.stop()

    def watched(self) -> Sequence[Watched]:
        return watched_by_publisher()

    def seeds(self, picture: PoolPicture) -> Mapping[str, Iterable[Identity]]:
        return seeds(picture, PUBLISHED)

    def came(self) -> Sequence[Arriving]:
        came, self._came = self._came, []
        return came

    def turned(self) -> None:
        if self.publisher.configured:
            self.rounds.about(self.publisher.models, tuple(self.publisher.picture.machines_by_uuid.rows.values()))

    # -- what comes ----------------------------------------------------------------------------------------------

    def _take(self, one: Arriving) -> None:
        self._came.append(one)
        self.wake()

    def _probe(self) -> None:
        """Ask until it is known."""
        if not self._alive:
            return
        drivers = (model.driver for model in self.publisher.models)
        try:
            found = probe(self.requests, self.version("resourceslices"), next(drivers, PROBE_DRIVER))
        except (ProbeFailed, Unreachable):
            self._take(Probed(None, self._now()))
            self._time.after(PROBE_AGAIN, self._probe)
        else:
            self._take(Probed(found, self._now()))
