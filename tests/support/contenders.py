"""Electors against a served lab, each on its own connection and as a user of its own, watched by one who believes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.lease.elector import Elector, LeaseLost
from dds_adapters.kubernetes.lease.state import LeaseSettings
from dds_lab.api.requests import MASTERS, User
from dds_lab.faults.wire import Rule, WireFaults
from dds_lab.http_frontend import Credentials, Served, serving
from tests.support.served import client_of, new_server, wall

NAMES = ("a", "b", "c")
NAMESPACE, LEASE = "default", "dds"
QUICK = LeaseSettings(duration=2, renew_deadline=1.4, retry_period=0.2)
"""For leases that are to be lost; a busy machine may lose them earlier, and nothing may depend on that."""
LASTING = LeaseSettings(duration=25, renew_deadline=20, retry_period=0.2)
"""For leases that are to be kept, also where the machine stands still for some seconds: nobody waits for one to run out."""
RELEASED = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": "2026-11-21T00:00:00.000000Z"}


class Arena:
    """A served lab with a released lease, and its contenders."""

    def __init__(self, served: Served, folder: Path, faults: WireFaults) -> None:
        self.served = served
        self._faults = faults
        self.config = served.kubeconfig(folder / "kubeconfig")
        self.electors: dict[str, Elector] = {}
        self.losses: list[tuple[str, LeaseLost]] = []
        self.told: list[tuple[str, str]] = []
        self.doubled: list[str] = []
        self._clusters: list[Cluster] = []
        self._over = threading.Event()
        self._guard = threading.Thread(target=self._watch)
        self.put(RELEASED)
        self._guard.start()

    def contender(self, name: str, settings: LeaseSettings = QUICK, **more: Any) -> Elector:
        """One who contends from now on, as the user of the same name."""
        cluster = Cluster(self.config, name)
        self._clusters.append(cluster)
        elector = Elector(
            cluster, NAMESPACE, LEASE, name, settings,
            on_lost=lambda lost: self.losses.append((name, lost)), on_error=lambda line: self.told.append((name, line)), **more,
        )  # fmt: skip
        self.electors[name] = elector
        elector.start()
        return elector

    def leader(self) -> str:
        """Who is certain to lead; empty when nobody is."""
        return next((name for name, elector in self.electors.items() if elector.remaining() > 0), "")

    def until(self, enough: Callable[[], bool], seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not enough():
            assert time.monotonic() < deadline, "it did not come"
            time.sleep(0.01)

    def strike(self, *rules: Rule) -> None:
        """From now on these faults and no others."""

        def change() -> None:
            self._faults.rules, self._faults.struck = rules, [0] * len(rules)

        self.served.run(change)

    # -- the object, as somebody else sees and changes it ---------------------------------------------------------------

    def put(self, spec: dict[str, Any], **meta: Any) -> None:
        self.served.run(partial(self._put, spec, meta))

    def spec(self) -> dict[str, Any]:
        lease = self.served.run(lambda: client_of(self.served.server).find("leases", LEASE, NAMESPACE))
        return dict(lease["spec"]) if lease is not None else {}

    def delete(self) -> None:
        self.served.run(lambda: client_of(self.served.server).delete("leases", LEASE, NAMESPACE))

    def _put(self, spec: dict[str, Any], meta: dict[str, Any]) -> None:
        client = client_of(self.served.server)
        old = client.find("leases", LEASE, NAMESPACE)
        if old is None:
            client.create("leases", {"metadata": {"name": LEASE, **meta}, "spec": spec}, NAMESPACE)
        else:
            client.update("leases", {**old, "metadata": {**old["metadata"], **meta}, "spec": spec})

    # -- the end ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        for elector in self.electors.values():
            elector.stop(timeout=0)
        self._over.set()
        self._guard.join()
        for cluster in self._clusters:
            cluster.close()

    def _watch(self) -> None:
        """Look for two who are certain at once. Who is asked first is asked again at the end: only who was certain all the time
        counts."""
        while not self._over.wait(0.002):
            first = [name for name, elector in list(self.electors.items()) if elector.remaining() > 0]
            still = [name for name in first if self.electors[name].remaining() > 0]
            if len(still) > 1:
                self.doubled.append(" and ".join(still))


@contextmanager
def arena(folder: Path) -> Iterator[Arena]:
    """A lab with users a, b and c, whom faults can strike one by one; at the end nobody may have been doubled."""
    faults = WireFaults((), wall, Random(1))
    credentials = Credentials({name: User(name, (MASTERS,)) for name in NAMES} | {"nobody": User("nobody")})
    with serving(new_server(), credentials, tls=False, faults=faults) as served:
        place = Arena(served, folder, faults)
        try:
            yield place
        finally:
            place.close()
    assert place.doubled == []
