"""The live scaler as a process of its own, for the bench.

`python -m benchmarks.serve_ours KUBECONFIG DATABASE MODE QUEUE` runs it until SIGTERM. It tells, as JSON with instants of the machine's
steady clock, when it was synced, when the first decision was in the log, and with how many facts the last object of each
watch was there (see `serve_storm`). QUEUE `whole` lets it take in every state of an object that a watch tells, `newest` what it
does in use: only the newest that it has not seen. Where DDS_PROFILE names a file, the profile of the thread that decides goes
there.
"""

from __future__ import annotations

import cProfile
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from itertools import count

from prometheus_client import CollectorRegistry

from benchmarks.serve_storm import LAST
from dds_adapters.kubernetes.arrivals import Arrivals
from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.live import process
from dds_adapters.live.metrics import Metrics
from dds_adapters.live.process import Process
from dds_adapters.live.scaler import Committed
from dds_adapters.live.settings import LiveSettings
from dds_adapters.sql import Database, upgrade
from dds_core.errors import DdsError
from dds_core.events import Synced
from dds_core.log import EventLog
from dds_core.picture import Picture
from dds_core.policy import MODES, Mode, Policy

WATCHES = 6
"""On which something happens in a storm."""


class Told:
    """An observer with the real metrics, which says when things happened first."""

    def __init__(self) -> None:
        self._metrics = Metrics(CollectorRegistry(), version="bench", fingerprint="bench")
        self._said: set[str] = set()
        self.facts = 0
        self.last = 0

    def committed(self, steps: Sequence[Committed], picture: Picture) -> None:
        self._metrics.committed(steps, picture)
        self.facts += len(steps)
        self.last += sum(one.step.fact.subject.startswith(LAST) for one in steps)
        if self.last == WATCHES:
            self.say("all", self.facts)
        if "decided" not in self._said:
            for one in steps:
                if isinstance(one.step.fact, Synced):
                    self.say("synced")
                if one.step.decisions:
                    self.say("decided")

    def began(self, process: Process) -> None: ...

    def leads(self, leading: bool) -> None: ...

    def alive(self) -> None: ...

    def turned(self, picture: Picture) -> None: ...

    def trouble(self, part: str, error: DdsError) -> None:
        print(f"{part}: {error}", file=sys.stderr, flush=True)

    def say(self, what: str, facts: int = 0) -> None:
        """Once."""
        if what not in self._said:
            self._said.add(what)
            print(json.dumps({"what": what, "at": time.monotonic(), "facts": facts}), flush=True)


class Whole(Arrivals):
    """A queue that keeps each state of each object, so that what is measured has as many facts as there were changes."""

    def put(self, resource: str, uid: str, type: str, raw: bytes) -> None:
        super().put(resource, f"{uid}/{next(_number)}", type, raw)


_number = count()


def main(kubeconfig: str, path: str, mode: Mode, queue: str) -> None:
    """Run until told to end."""
    if queue == "whole":
        setattr(process, Arrivals.__name__, Whole)
    url = f"sqlite:///{path}"
    upgrade(url)
    told, policy = Told(), Policy(mode=mode)
    with Database(url, synchronous="FULL") as database:

        def open_log(cluster: str) -> EventLog:
            return database.open_log("bench/scaler", cluster=cluster, recorded_at=time.time_ns() // 1000)

        settings = LiveSettings(identity="bench", health=None, metrics=None)
        scaler = Process(settings, Cluster(kubeconfig), open_log, lambda: policy, code="bench", observer=told)
        signal.signal(signal.SIGTERM, lambda *_: scaler.stop())
        scaler.run()
    print(json.dumps({"facts": told.facts}), flush=True)


if __name__ == "__main__":
    _kubeconfig, _path, _word, _queue = sys.argv[1:]
    _mode = next(mode for mode in MODES if mode == _word)
    profile = os.environ.get("DDS_PROFILE")
    if profile:
        with cProfile.Profile() as profiler:
            main(_kubeconfig, _path, _mode, _queue)
        profiler.dump_stats(profile)
    else:
        main(_kubeconfig, _path, _mode, _queue)
