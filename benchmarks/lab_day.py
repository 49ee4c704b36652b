"""A simulated day of a thousand nodes and ten thousand claims, in a process of its own: how long it takes, how much memory.

It runs on one core; what it uses of that core is judged, since others may want it too.

`python -m benchmarks.lab_day` runs it in this process and prints what came of it as JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping

from benchmarks.measure import Row, short
from dds_lab import shipped
from dds_lab.lab import Lab
from dds_lab.tally import Tally, moves

MOST_SECONDS, MOST_MIB = 60, 1024


def measure(rounds: int) -> list[Row]:
    """Once, however many rounds: it takes a minute."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.lab_day"], capture_output=True, text=True, check=True)
    found: Mapping[str, float] = json.loads(done.stdout)
    seconds, memory = found["cpu"], found["mib"]
    what = f"a day of {found['nodes']:.0f} nodes and {found['claims']:.0f} claims"
    story = (
        f"{found['writes']:.0f} writes, {found['attached']:.0f} attaches, {found['hand_overs']:.0f} hand-overs, "
        f"{found['stayed']:.0f} of them on the node that was made ready"
    )
    return [
        Row(
            what,
            f"{seconds:.0f} s of a core, {found['clock']:.0f} s by the clock",
            story,
            None,
            f"≤ {MOST_SECONDS} s",
            seconds <= MOST_SECONDS,
        ),
        Row("its writes", f"{short(found['writes'] / seconds)} writes/s", "each seen by every actor that watches"),
        Row("its memory", f"{memory:.0f} MiB", "peak of the process", None, f"≤ {MOST_MIB} MiB", memory <= MOST_MIB),
    ]


def day() -> dict[str, float]:
    """Run the scenario `day` to its end."""
    scenario, tally = shipped.find("day"), Tally()
    begun, used = time.perf_counter(), time.process_time()
    with Lab.virtual(scenario) as lab:
        tally.follow(lab.client("tally"))
        lab.run()
        clock, cpu = time.perf_counter() - begun, time.process_time() - used
        moved = moves(lab.ledger)
        return {
            "cpu": cpu,
            "clock": clock,
            "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "nodes": len(scenario.cluster.node_names()),
            "claims": tally.claims,
            "bound": tally.bound,
            "writes": lab.server.store.revision,
            "attached": moved["attached"],
            "detached": moved["detached"],
            "hand_overs": tally.hand_overs,
            "stayed": tally.stayed,
        }


if __name__ == "__main__":
    print(json.dumps(day()))
