"""`run_scaler`: the live scaler inside another program. `dds serve` adds settings, metrics, health and a lease."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.lease.elector import new_identity
from dds_adapters.runtime.live_settings import LiveSettings
from dds_adapters.runtime.loop import Committed
from dds_adapters.runtime.process import Process
from dds_adapters.runtime.scaler import make_scaler
from dds_adapters.sql import Database, upgrade
from dds_adapters.sql.urls import as_url
from dds_core.errors import DdsError
from dds_core.log import EventLog
from dds_core.scaler.component import SCALER
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import State
from dds_core.text import scrub

OnCommit = Callable[[Committed, State], None]
OnError = Callable[[str, DdsError], None]


def run_scaler(
    *,
    log: str,
    policy: Policy | Callable[[], Policy],
    kubeconfig: str | None = None,
    on_commit: OnCommit = lambda committed, state: None,
    on_error: OnError = lambda part, error: None,
    stop: threading.Event | None = None,
    cluster: str = "embedded",
    leader_elect: bool = False,
) -> None:
    """Scale until `stop` is set; without it, until an error ends it.

    `log` is the path of a SQLite file, which is made, or the URL of a database, whose schema is brought up to date. The log there
    has the name `<cluster>/scaler`. `policy` may be a function that is asked again every second; mode "attach" never detaches.
    Without `kubeconfig` it runs in a pod, with the account of that pod. With `leader_elect` it waits for the Lease that `dds
    serve` has, and only then decides; without it no other process may write the same log, and no other scaler may decide in the
    cluster, also not on a log of its own.

    `on_commit` receives each committed group of events, and the engine's live state. The state has everything that was folded so
    far, so it may be newer than the group. The call comes from the thread that decides: return quickly, do not change the state,
    and do not use it later or on another thread. Each group is passed at most once: after a crash between commit and call, never.
    To miss nothing, read the log from a position. An exception is caught and reported to `on_error` as part "on_commit".

    `on_error` receives the name of a part of the process and its error; that part is tried again (a group is not), and the rest
    goes on. It is called from any thread and must not raise.

    An API server that does not answer is waited for, and so is a lost lease. Raises InputError for a log or kubeconfig that is
    wrong, Fenced when another process writes the log, LogWentBack when its database went back, and Refused when the API server
    does not let it identify the cluster.
    """
    url = as_url(log)
    upgrade(url)
    settings = LiveSettings(identity=new_identity(), leader_elect=leader_elect, health=None, metrics=None)
    asked = policy if callable(policy) else lambda: policy
    with Database(url) as database, closing(Cluster(kubeconfig)) as followed:

        def open_log(uid: str) -> EventLog:
            name = f"{cluster}/{SCALER.name}"
            return database.open_log(name, cluster=uid, recorded_at=time.time_ns() // 1000)

        process = Process(
            settings, followed, open_log, asked, make_scaler("embedded"), observer=Callbacks(on_commit, on_error)
        )
        if stop is not None:
            threading.Thread(target=_stop_when, args=(stop, process), name="stop", daemon=True).start()
        process.run()


def _stop_when(stop: threading.Event, process: Process[State]) -> None:
    stop.wait()
    process.stop()


class Callbacks:
    """Passes groups and errors to the embedding program (`dds_adapters.runtime.process.Observer`)."""

    def __init__(self, on_commit: OnCommit, on_error: OnError) -> None:
        self._on_commit = on_commit
        self.trouble = on_error

    def committed(self, steps: Sequence[Committed], state: State) -> None:
        for one in steps:
            try:
                self._on_commit(one, state)
            except Exception as error:  # the caller's fault concerns neither the other groups nor the scaler
                what = f"the caller's function failed with {type(error).__name__}: {scrub(str(error))}"
                where, fix = f"position {one.envelopes[0].position}", "mend it; the scaler goes on"
                self.trouble("on_commit", DdsError(what, where=where, fix=fix))

    def began(self, process: Process[Any]) -> None: ...

    def leads(self, leading: bool, why: str = "") -> None: ...

    def alive(self) -> None: ...

    def on_turn(self, state: State) -> None: ...
