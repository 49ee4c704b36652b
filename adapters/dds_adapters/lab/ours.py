"""Our own scaler as a part of a lab on virtual time: the one that runs against real clusters, without threads or sockets.

What it has in common with any process of ours there is in `our_process`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dds_adapters.kubernetes.identity import Identity
from dds_adapters.kubernetes.known import seeds
from dds_adapters.kubernetes.watched import Watched, watched
from dds_adapters.kubernetes.writer.plan import stamps
from dds_adapters.kubernetes.writer.tasks import Task
from dds_adapters.lab.api.requests import MASTERS
from dds_adapters.lab.lab import Lab
from dds_adapters.lab.our_process import USUAL, OurProcess, OurTimes, Outlet
from dds_adapters.live.scaler import Scaler, Watcher
from dds_core.events import Capabilities
from dds_core.log import EventLog
from dds_core.picture import Picture
from dds_core.policy import Policy

USER = "system:serviceaccount:composable-dra:dds"


class OurScaler(OurProcess[Picture]):
    """The scaler in a lab."""

    def __init__(
        self,
        lab: Lab,
        log: EventLog,
        policy: Policy,
        *,
        user: str = USER,
        groups: tuple[str, ...] = (MASTERS,),
        times: OurTimes = USUAL,
        skew: float = 0.0,
        watchers: Sequence[Watcher[Picture]] = (),
        code: str = "lab",
    ) -> None:
        super().__init__(lab, user, groups, times, skew)
        self.scaler = Scaler(
            log,
            policy,
            code=code,
            capabilities=self._capabilities,
            outlet=Outlet(self),
            watchers=watchers,
            told=self.faults.append,
        )

    @property
    def decider(self) -> Scaler:
        return self.scaler

    def watched(self) -> Sequence[Watched]:
        return watched()

    def seeds(self, picture: Picture) -> Mapping[str, Iterable[Identity]]:
        return seeds(picture)

    def first(self, picture: Picture) -> Sequence[Task]:
        return stamps(picture)

    def _capabilities(self) -> Capabilities:
        served = self.version("devicetaintrules")
        return Capabilities(taint_rules=served.rpartition("/")[2])
