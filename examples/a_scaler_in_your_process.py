"""The live scaler inside a program of one's own, with a watcher that is told of every commit.

    python examples/a_scaler_in_your_process.py KUBECONFIG LOG.sqlite3 [SECONDS]

`dds serve` is this with settings, metrics and health around it. Try it against `dds lab up`: it prints what claims go through,
and the seconds from the scheduler's choice to a running pod, and ends after SECONDS (60), in order, as a program must.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.lease.elector import new_identity
from dds_adapters.runtime.loop import Committed
from dds_adapters.runtime.process import Process
from dds_adapters.runtime.scaler import make_scaler
from dds_adapters.runtime.settings import LiveSettings
from dds_adapters.sql import Database, upgrade
from dds_core import EventLog, Picture, Policy
from dds_core.errors import DdsError
from dds_core.scaler.events import ClaimMoved

POLICY = Policy(mode="attach")


class Stopwatch:
    """An observer (`dds_adapters.runtime.process.Observer`). Its calls come from the thread that decides, so they have to be
    quick; `trouble` comes from any."""

    def __init__(self) -> None:
        self._began: dict[str, int] = {}

    def committed(self, steps: Sequence[Committed], picture: Picture) -> None:
        """What is in the log now: the only thing that counts."""
        for one in steps:
            for moved in one.step.transitions:
                if isinstance(moved, ClaimMoved) and moved.source != moved.target:
                    self._moved(moved, one.step.at, picture)

    def _moved(self, moved: ClaimMoved, at: int, picture: Picture) -> None:
        life = picture.lives.get(moved.claim)
        name = f"{life.namespace}/{life.name}" if life is not None else moved.claim
        print(f"claim {name} is {moved.target}: {moved.cause}", flush=True)
        if moved.target == "Pending":
            self._began.setdefault(moved.claim, at)
        elif moved.target == "Bound" and moved.claim in self._began:
            seconds = (at - self._began.pop(moved.claim)) / 1e6
            print(f"claim {name} waited {seconds:.1f} s for its device", flush=True)

    def began(self, process: Process[Any]) -> None:
        print(f"listening to {process.cluster.where}", flush=True)

    def leads(self, leading: bool) -> None: ...

    def alive(self) -> None: ...

    def turned(self, picture: Picture) -> None: ...

    def trouble(self, part: str, error: DdsError) -> None:
        print(f"{part}: {error}", file=sys.stderr, flush=True)


def main(kubeconfig: str, path: str, seconds: float) -> None:
    """Run for so long."""
    url = f"sqlite:///{path}"
    upgrade(url)
    with Database(url) as database:

        def open_log(cluster: str) -> EventLog:
            return database.open_log("example/scaler", cluster=cluster, recorded_at=time.time_ns() // 1000)

        settings = LiveSettings(identity=new_identity(), health=None, metrics=None)
        make = make_scaler("example")
        process = Process(settings, Cluster(kubeconfig), open_log, lambda: POLICY, make, observer=Stopwatch())
        threading.Timer(seconds, process.stop).start()
        process.run()
    print("ended in order")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 60.0)
