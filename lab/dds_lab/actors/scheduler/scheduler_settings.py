"""How a scheduler is configured, how fast it is, and what may be wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dds_lab.latency import NONE, Latency, Measured

Tie = Callable[[str, Sequence[str]], str | None]
"""Chooses among equals, nodes for a pod or claims of it to clear: (namespace/name of the pod, names) → one, None for chance."""


@dataclass(frozen=True)
class Profile:
    """One scheduler name: how long PreBind waits for devices, and how long one node's allocation may take (0: any time)."""

    binding_timeout: float = 600.0
    filter_timeout: float = 10.0


SEEN = Measured((0.0005, 0.001, 0.0015, 0.003))
CYCLE = Measured((0.001, 0.002, 0.003, 0.005, 0.011, 0.020))
WRITE = Measured((0.001, 0.003, 0.004, 0.005, 0.006, 0.008, 0.013))


@dataclass(frozen=True)
class Latencies:
    """What takes time, in seconds. The defaults are quantiles of the gaps between two writes of one pod in the recordings."""

    seen: Latency = SEEN
    """From a write of anybody until the scheduler's cache shows it."""
    cycle: Latency = CYCLE
    """One turn of the scheduling loop; one pod at a time."""
    write: Latency = WRITE
    """One write of the loop or of a binding."""


GATES: Mapping[str, bool] = {
    "DRAAdminAccess": True,
    "DRAConsumableCapacity": True,
    "DRADeviceBindingConditions": True,
    "DRADeviceTaintRules": False,
    "DRADeviceTaints": True,
    "DRAExtendedResource": True,
    "DRAPartitionableDevices": True,
    "DRAPrioritizedList": True,
    "DRASchedulerFilterTimeout": True,
    "NominatedNodeNameForExpectation": True,
}
"""The scheduler's own feature gates as 1.36 has them by default. They are settled apart from the API server's."""


@dataclass(frozen=True)
class SchedulerSettings:
    """Everything that a scheduler is told at its start."""

    profiles: Mapping[str, Profile] = field(default_factory=lambda: {"default-scheduler": Profile()})
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Gates that differ from GATES."""
    release: str = "1.36"
    """The one that it plays, as the API server's gates name it: 1.36 is 1.36.2."""
    latencies: Latencies = field(default_factory=Latencies)
    percentage_of_nodes_to_score: int = 0
    """kube-scheduler's setting of that name; 0: by the number of nodes, never fewer than 100 nodes."""
    finders: int = 2
    """Equal nodes are tried side by side and the first to answer is taken: the choice is among the first so many of them in the
    scheduler's order. The recordings' machine had two cores. 0: any of them is as likely as the other."""
    tie: Tie | None = None
    """Asked before chance is, where several nodes, or claims to clear, are equal."""
    clock_offset: float = 0.0
    """Seconds by which the clock of the scheduler's host is ahead."""
    allocation_delay: Latency = NONE
    """How long a chosen allocation stays in flight before it is written."""
    filter_cost: Latency = NONE
    """How long the allocator works on one node: what exceeds the profile's `filter_timeout` is refused."""
    seed_name: str = "scheduler"
    """Names the stream of random numbers, so that two schedulers of one lab differ."""

    def gate(self, name: str) -> bool:
        """Whether the feature gate is on in this scheduler."""
        return self.gates.get(name, GATES[name])

    @property
    def follows_taint_rules(self) -> bool:
        """Whether it has to do with DeviceTaintRules."""
        return self.gate("DRADeviceTaintRules") and self.gate("DRADeviceTaints")

    @property
    def fears_taint_rules(self) -> bool:
        """Whether it has the fault of 1.36.0 to 1.36.2: its tracker of ResourceSlices takes DeviceTaintRules for those of another
        API version. So it does not notice them, and panics when a slice comes or changes while there is one (kubernetes PR
        139651, mended in 1.36.3 by 139681)."""
        return self.follows_taint_rules and self.release == "1.36"
