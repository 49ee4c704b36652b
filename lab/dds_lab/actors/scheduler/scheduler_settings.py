"""The scheduler's settings: its configuration, its latencies, and the faults of its release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from dds_core.matching.gates import Gates
from dds_lab.latency import NONE, Latency, Measured
from dds_lab.scenario.parts import Choice, Profile

Tie = Callable[[str, Sequence[str]], str | None]
"""Chooses among equal nodes, or claims to clear: (the pod's namespace/name, their names) → one of them, None for a random
one."""


SEEN = Measured((0.0005, 0.001, 0.0015, 0.003))
CYCLE = Measured((0.001, 0.002, 0.003, 0.005, 0.011, 0.020))
WRITE = Measured((0.001, 0.003, 0.004, 0.005, 0.006, 0.008, 0.013))


@dataclass(frozen=True)
class Latencies:
    """Latencies in seconds. The defaults are quantiles of the gaps between two writes of one pod in the recordings."""

    seen: Latency = SEEN  # from any client's write until the scheduler's cache shows it
    cycle: Latency = CYCLE  # one turn of the scheduling loop; one pod at a time
    write: Latency = WRITE  # one write of the loop or of a binding


GATES: Mapping[str, bool] = {
    "DRAAdminAccess": True,
    "DRAConsumableCapacity": True,
    "DRADeviceBindingConditions": True,
    "DRADeviceTaintRules": False,
    "DRADeviceTaints": True,
    "DRAExtendedResource": True,
    "DRAPartitionableDevices": True,
    "DRAPrioritizedList": True,
    "NominatedNodeNameForExpectation": True,
}
"""The default feature gates of the scheduler 1.36. The API server's gates are set separately."""


@dataclass(frozen=True)
class SchedulerSettings:
    profiles: Mapping[str, Profile] = field(default_factory=lambda: {"default-scheduler": Profile()})
    gates: Mapping[str, bool] = field(default_factory=dict)  # gates that differ from GATES
    release: str = "1.36"  # the release that it simulates, named as in the API server's gates: 1.36 is 1.36.2
    latencies: Latencies = field(default_factory=Latencies)
    percentage_of_nodes_to_score: int = 0  # as in kube-scheduler; 0: by the number of nodes; at least 100 nodes
    finders: int = 2
    """The choice among equal nodes is among so many of them, the first in the scheduler's order: nodes are tried in parallel,
    and the first to end is taken. The recordings' machine had two cores. 0: any of them is equally likely."""
    lead: float | None = None  # how often the first of these is taken; None: each is as likely
    choice: Choice = "least"  # which nodes score best
    tie: Tie | None = None  # called before chance decides among equal nodes, or claims to clear
    clock_offset: float = 0.0  # seconds by which the clock of the scheduler's host is ahead
    allocation_delay: Latency = NONE  # how long a chosen allocation stays in flight before it is written
    seed_name: str = "scheduler"  # names the stream of random numbers, so that two schedulers of one lab differ

    def gate(self, name: str) -> bool:
        return self.gates.get(name, GATES[name])

    @property
    def matching(self) -> Gates:
        """What the choice of devices depends on. Of 1.37 no fault is known to be mended but that of rules without selector."""
        bare = self.release != "1.37.1"
        return replace(Gates.read(self.gate, faults=True), taint_without_selector=bare)

    @property
    def follows_taint_rules(self) -> bool:
        return self.gate("DRADeviceTaintRules") and self.gate("DRADeviceTaints")

    @property
    def fears_taint_rules(self) -> bool:
        """The fault of 1.36.0 to 1.36.2: the tracker of ResourceSlices takes DeviceTaintRules for those of another API version.
        So the scheduler ignores them, and panics when a slice is added or changed while there is one (kubernetes PR 139651,
        fixed in 1.36.3 by 139681)."""
        return self.follows_taint_rules and self.release == "1.36"
