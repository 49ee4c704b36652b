"""`apply` and `decide` on fleets of different size: facts a second, what a fact costs as the fleet grows, memory.

The facts are a steady churn (`benchmarks.fleet`); before anything is timed every node has had its turn, so that all
that the engine remembers of a node is there. The level pass costs by the fleet and not by the fact; it is on in one
contender and off in the others.
"""

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.fleet import DEVICES_A_NODE, Fleet
from benchmarks.measure import Contender, Row, TimedCall, Timing, ratio, short, side_by_side
from dds_core.scaler.component import Engine

FACTS = 10_000
SMALL, LARGE = 100, 10_000
"""Live claims."""
MODES = ("observe", "attach", "detach")
PASS = "attach, a level pass each minute"
PARTITIONS = 7
PARTED = f"attach, {PARTITIONS} partitions listed for each device"


@dataclass
class Running:
    """An engine on a fleet; each round goes on where the last one ended."""

    claims: int
    mode: str
    scan_interval: int = 0
    partitions: int = 0

    def __post_init__(self) -> None:
        self.fleet = Fleet(self.claims // DEVICES_A_NODE, self.partitions)
        self.engine = Engine()
        policy: dict[str, object] = {"mode": self.mode, "scan_interval_seconds": self.scan_interval}
        for _ in self.engine.run(self.fleet.begin(policy)):
            pass
        for _ in range(self.fleet.nodes):
            for _ in self.engine.run(self.fleet.turn()):
                pass
        assert len(self.engine.state.lifecycle.lives) >= self.claims

    @contextmanager
    def prepared(self) -> Iterator[TimedCall]:
        facts = self.fleet.turns(FACTS)

        def run() -> int:
            for _ in self.engine.run(facts):
                pass
            return len(facts)

        yield run


def _bytes_a_claim(claims: int) -> int:
    """All that a state of the fleet holds (devices, pods and nodes too) by the number of its live claims.

    What the objects themselves take is counted with it: the state is all that keeps them here.
    """
    gc.collect()
    tracemalloc.start()
    engine = Engine()
    for _ in engine.run(Fleet(claims // DEVICES_A_NODE).begin({"mode": "attach", "scan_interval_seconds": 0})):
        pass
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held // len(engine.state.lifecycle.lives)


def measure(rounds: int) -> list[Row]:
    """Tell rates in every mode, the growth of cost with the fleet, and memory."""
    contenders = []
    for mode in MODES:
        contenders.append(Contender(f"{mode} small", Running(SMALL, mode).prepared))
        contenders.append(Contender(f"{mode} large", Running(LARGE, mode).prepared))
    contenders.append(Contender(PASS, Running(LARGE, "attach", 60).prepared))
    contenders.append(Contender(PARTED, Running(LARGE, "attach", partitions=PARTITIONS).prepared))
    found = side_by_side(contenders, rounds)
    rates = [_rate(mode, found[f"{mode} large"]) for mode in MODES]
    growth = [_growth(mode, found[f"{mode} large"], found[f"{mode} small"]) for mode in MODES]
    size = _bytes_a_claim(LARGE)
    what = "memory of a live claim, its pod, device and share of the node"
    memory = Row(what, f"{size / 1024:.3g} KiB", target="≤ 10 KiB", met=size <= 10_240)
    return [*rates, _rate(PASS, found[PASS]), _rate(PARTED, found[PARTED]), *growth, memory]


def _rate(mode: str, timing: Timing) -> Row:
    what = f"`apply` + `decide`, mode {mode}"
    return Row(what, f"{short(timing.rate)} facts/s", target="≥ 15k facts/s", met=timing.rate >= 15_000)


def _growth(mode: str, large: Timing, small: Timing) -> Row:
    cost = ratio(small, large)
    what = f"cost of a fact, beside that at {SMALL} claims, mode {mode}"
    return Row(what, f"{1e6 / large.rate:.3g} µs", f"{1e6 / small.rate:.3g} µs", cost, "≤ 1.5", cost.median <= 1.5)
