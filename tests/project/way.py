"""One arrival's way to its order: through which modules, functions and changes of module the first claim of a recording goes,
from the queue that a watch fills to the task that may be sent. `python -m tests.project.way` prints it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType

from dds_adapters.kubernetes.recording import read_recording
from dds_adapters.kubernetes.watch.delta_queue import SYNCED, DeltaQueue
from dds_adapters.kubernetes.watch.object_store import identity
from dds_adapters.kubernetes.write.outbox import Outbox
from dds_adapters.kubernetes.write.tasks import Task
from dds_adapters.runtime.scaler import ScalerController
from dds_core.log import MemoryLog
from dds_core.scaler.policy import Policy

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "tests" / "data" / "recordings" / "first_attach.jsonl.gz"
OURS = tuple(f"{ROOT}/{name}/" for name in ("dds_core", "adapters/dds_adapters"))


class Way:
    """What was called between `begin` and the end: modules with how often, functions, and changes from one module to another."""

    def __init__(self) -> None:
        self.modules: Counter[str] = Counter()
        self.functions: set[str] = set()
        self.switches = 0
        self._last = ""

    @contextmanager
    def walked(self) -> Iterator[None]:
        """Count all calls of ours made inside."""
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(OURS):
            return
        self.modules[file] += 1
        self.functions.add(f"{file}:{frame.f_code.co_qualname}")
        self.switches += file != self._last
        self._last = file


def way_of_a_claim() -> tuple[Way, Task]:
    """The way of the first claim of a recorded attach, and the task that it ends with."""
    events = list(read_recording(RECORDING))
    arrivals = DeltaQueue(now=lambda: now)
    now = events[0].at
    scaler = ScalerController(MemoryLog("way/scaler", cluster="c", recorded_at=now), Policy(mode="attach"), code="way")
    outbox = Outbox(Random(1))
    scaler.open(now)
    for resource in sorted(scaler.resources):
        arrivals.mark(resource, SYNCED)
    scaler.turn(arrivals.take(0), (), now)
    for event in events:
        now = max(now, event.at)
        way, uid = Way(), identity(event.raw).uid
        with way.walked():
            arrivals.put(event.resource, uid, event.type, event.raw)
            outbox.put(scaler.turn(arrivals.take(0), (), now), 0.0)
            task = outbox.next(0.0)
        if isinstance(task, Task) and task.action == "AttachOrdered":
            return way, task
    raise LookupError("nothing was ordered in the recording")


def main() -> None:
    """Print it."""
    way, task = way_of_a_claim()
    for file, calls in way.modules.most_common():
        sys.stdout.write(f"{calls:>6}  {file.removeprefix(f'{ROOT}/')}\n")
    numbers = f"{len(way.modules)} modules, {len(way.functions)} functions, {way.switches} changes of module"
    sys.stdout.write(f"{numbers}, to {task.action} {task.target}\n")


if __name__ == "__main__":
    main()
