"""The live scaler as a process of its own, for the bench: `python -m benchmarks.serve_ours KUBECONFIG DATABASE`, until SIGTERM.

It tells, as JSON with instants of the machine's steady clock, when it was synced and when the first decision was in the log.
Where DDS_PROFILE names a file, the profile of the thread that decides goes there.
"""

from __future__ import annotations

import cProfile
import json
import os
import signal
import sys
import time
from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.live.metrics import Metrics
from dds_adapters.live.process import Process
from dds_adapters.live.scaler import Committed
from dds_adapters.live.settings import LiveSettings
from dds_adapters.sql import Database, upgrade
from dds_core.errors import DdsError
from dds_core.events import Synced
from dds_core.log import EventLog
from dds_core.picture import Picture
from dds_core.policy import Policy

POLICY = Policy(mode="detach")


class Told:
    """An observer with the real metrics, which says when things happened first."""

    def __init__(self) -> None:
        self._metrics = Metrics(CollectorRegistry(), version="bench", fingerprint="bench")
        self._said: set[str] = set()
        self.facts = 0

    def committed(self, steps: Sequence[Committed], picture: Picture) -> None:
        self._metrics.committed(steps, picture)
        self.facts += len(steps)
        if "decided" not in self._said:
            for one in steps:
                if isinstance(one.step.fact, Synced):
                    self.say("synced")
                if one.step.decisions:
                    self.say("decided")

    def began(self, process: Process) -> None: ...

    def leads(self, leading: bool) -> None: ...

    def turned(self, picture: Picture) -> None: ...

    def trouble(self, part: str, error: DdsError) -> None:
        print(f"{part}: {error}", file=sys.stderr, flush=True)

    def say(self, what: str) -> None:
        """Once."""
        if what not in self._said:
            self._said.add(what)
            print(json.dumps({what: time.monotonic()}), flush=True)


def main(kubeconfig: str, path: str) -> None:
    """Run until told to end."""
    url = f"sqlite:///{path}"
    upgrade(url)
    told = Told()
    with Database(url, synchronous="FULL") as database:

        def open_log(cluster: str) -> EventLog:
            return database.open_log("bench/scaler", cluster=cluster, recorded_at=time.time_ns() // 1000)

        settings = LiveSettings(identity="bench", health=None, metrics=None)
        process = Process(settings, Cluster(kubeconfig), open_log, lambda: POLICY, code="bench", observer=told)
        signal.signal(signal.SIGTERM, lambda *_: process.stop())
        process.run()
    print(json.dumps({"facts": told.facts}), flush=True)


if __name__ == "__main__":
    profile = os.environ.get("DDS_PROFILE")
    if profile:
        with cProfile.Profile() as profiler:
            main(*sys.argv[1:])
        profiler.dump_stats(profile)
    else:
        main(*sys.argv[1:])
