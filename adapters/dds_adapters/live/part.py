"""What a process runs: a scaler or a publisher. A `Part` says what is its own; all that they share (lease, log, listening,
writing, beginning and ending in order) is the process's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from dds_adapters.kubernetes.arrivals import Arrivals
from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.identity import Identity
from dds_adapters.kubernetes.watched import Watched
from dds_adapters.kubernetes.writer.tasks import Task
from dds_adapters.live.decider import Decider
from dds_adapters.live.lived import Arriving, Effective, P, Watcher
from dds_core.errors import DdsError
from dds_core.log import EventLog


@dataclass(frozen=True)
class Surroundings(Generic[P]):
    """What a process has around its part: the API server, the queue of what came, in which version a resource is followed ("" for
    one that is not), who looks on, and who is told what went wrong (with which part of the process)."""

    cluster: Cluster
    arrivals: Arrivals
    version: Callable[[str], str]
    watcher: Watcher[P]
    trouble: Callable[[str, DdsError], None]


class Part(Protocol[P]):
    """One kind of process. All methods are called on the thread that decides, but `threads`."""

    def decider(self, log: EventLog, policy: Effective, around: Surroundings[P]) -> Decider[P]:
        """Who decides, not opened yet. Called again when the log could not be opened."""

    def watched(self) -> Sequence[Watched]:
        """What of the cluster is followed."""

    def seeds(self, picture: P) -> Mapping[str, Iterable[Identity]]:
        """By resource the objects that are known from before."""

    def begin(self, decider: Decider[P]) -> None:
        """The log is open, listening has begun: start whatever else listens."""

    def arrived(self) -> Sequence[Arriving]:
        """What came beside objects of the cluster, since the last call; who puts something there wakes the queue."""

    def first(self, picture: P) -> Sequence[Task]:
        """What is sent, once and before everything else, as soon as all is known and this process may write."""

    def turned(self, decider: Decider[P]) -> None:
        """Once around: all that had come is decided on."""

    def lacks(self, picture: P, where: str) -> list[DdsError]:
        """What the cluster at this address lacks, so that nothing can be served although nothing fails."""

    def end(self) -> Sequence[str]:
        """Nothing is to be listened to any more; gives the names of threads that still hang."""

    def threads(self) -> Mapping[str, bool]:
        """Which threads of its own should run, and whether they do; from any thread."""
