"""A reflector at a served lab, with a taker that believes nothing: every state that it is given must have been there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.watch.delta_queue import LOST, STALE, SYNCED, Arrival, DeltaQueue
from dds_adapters.kubernetes.watch.object_store import Identity
from dds_adapters.kubernetes.watch.reflector import Reflector, Timing
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS, WatchSpec
from dds_core.errors import DdsError
from dds_lab.api.requests import MASTERS, User
from dds_lab.api.server import ApiServer
from dds_lab.client import Client
from dds_lab.faults.wire import Rule, WireFaults
from dds_lab.http_frontend import Credentials, Served, serving
from tests.support.served import client_of, new_server, wall

QUICK = Timing(
    shortest=1, longest=3, grace=1.0, patience=60.0, absent=0.1, rarely=0.5,
    first=0.02, most=0.2, lasting=0.3, requests=1000, window=1.0,
)  # fmt: skip
"""Everything sooner than it is good for a real server."""


class World:
    """The objects of one resource, changed in the server's own thread, with every state that they ever had."""

    def __init__(self, served: Served, resource: str, namespace: str = "") -> None:
        self.states: dict[tuple[str, str], dict[str, Any]] = {}
        """By uid and version."""
        self._served = served
        self._resource = resource
        self._namespace = namespace
        self.client: Client = client_of(served.server)

    def create(self, name: str, **more: Any) -> str:
        """A new object; gives its uid."""
        return self._keep(
            lambda: self.client.create(self._resource, {"metadata": {"name": name}, **more}, self._namespace)
        )

    def touch(self, name: str, value: object) -> None:
        """A change that means nothing."""
        patch = {"metadata": {"annotations": {"touched": str(value)}}}
        self._keep(lambda: self.client.patch(self._resource, name, patch, self._namespace))

    def delete(self, name: str) -> None:
        """The object's end."""
        self._served.run(lambda: self.client.delete(self._resource, name, self._namespace))

    def call(self, call: Callable[[Client], Any]) -> Any:
        """Anything else, in the server's thread."""
        return self._served.run(lambda: call(self.client))

    def alive(self) -> dict[str, str]:
        """By uid the version of each object that is there."""
        found = self._served.run(lambda: self.client.list(self._resource))
        return {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in found}

    def _keep(self, write: Callable[[], dict[str, Any]]) -> str:
        found = self._served.run(write)
        meta = found["metadata"]
        self.states[(meta["uid"], meta["resourceVersion"])] = found
        return str(meta["uid"])


@dataclass
class Taker:
    """Takes arrivals and keeps the mirror that they make; `taken` is all that came, in order."""

    arrivals: DeltaQueue
    world: World | None = None
    mirror: dict[str, str] = field(default_factory=dict)
    taken: list[Arrival] = field(default_factory=list)

    def take(self, seconds: float = 0.0) -> None:
        """What is there, or comes within so many seconds."""
        for one in self.arrivals.take(seconds):
            self.taken.append(one)
            if one.type not in (SYNCED, STALE, LOST):
                self._fold(one)

    def _fold(self, one: Arrival) -> None:
        shape = msgspec.json.decode(one.raw)
        meta = shape["metadata"]
        uid = meta["uid"]
        if one.type == "DELETED":
            assert self.mirror.pop(uid, None), f"{meta['name']} ends that was not there"
            return
        assert (one.type == "ADDED") == (uid not in self.mirror), f"{one.type} of {meta['name']}"
        if self.world is not None:
            was = self.world.states.get((uid, meta["resourceVersion"]))
            assert was is not None, f"{meta['name']} never was at version {meta['resourceVersion']}"
            assert {**was, "kind": "", "apiVersion": ""} == {**shape, "kind": "", "apiVersion": ""}
        assert self.mirror.get(uid) != meta["resourceVersion"], f"{meta['name']} twice"
        self.mirror[uid] = meta["resourceVersion"]

    def until(self, enough: Callable[[], bool], seconds: float = 20.0) -> bool:
        """Take until it is enough, or for so long at most."""
        end = time.monotonic() + seconds
        while not enough():
            if time.monotonic() > end:
                return False
            self.take(0.05)
        return True

    def types(self) -> list[str]:
        return [one.type for one in self.taken]


@dataclass
class Reflected:
    """All that a test wants to see."""

    served: Served
    cluster: Cluster
    faults: WireFaults
    reflector: Reflector
    world: World
    taker: Taker
    troubles: list[DdsError]

    def agrees(self, seconds: float = 20.0) -> bool:
        """Whether the mirror comes to be what the server has."""
        alive = self.world.alive()
        return self.taker.until(lambda: self.reflector.synced.is_set() and self.taker.mirror == alive, seconds)


@contextmanager
def lab(
    folder: Path,
    *rules: Rule,
    server: ApiServer | None = None,
    seed: int = 1,
    tls: bool = False,
    port: int = 0,
    masters: bool = True,
) -> Iterator[tuple[Served, Cluster, WireFaults]]:
    """A server whose faults strike only the scaler, and the scaler's way to it."""
    users = {"scaler": User("scaler", (MASTERS,) if masters else ()), "admin": User("admin", (MASTERS,))}
    rules = tuple(Rule(**{**vars(one), "users": ("scaler",)}) for one in rules)
    faults = WireFaults(rules, wall, Random(seed))
    with serving(server or new_server(seed), Credentials(users), tls=tls, faults=faults, port=port) as served:
        path = served.kubeconfig(folder / f"kubeconfig-{seed}")
        with closing(Cluster(path)) as cluster:
            yield served, cluster, faults


@contextmanager
def reflecting(
    cluster: Cluster,
    watched: WatchSpec,
    arrivals: DeltaQueue,
    *,
    timing: Timing = QUICK,
    seed: int = 1,
    known: Sequence[Identity] = (),
    troubles: list[Any] | None = None,
) -> Iterator[tuple[Reflector, list[DdsError]]]:
    """A reflector that runs until the block ends, and what it had to tell."""
    told: list[Any] = [] if troubles is None else troubles
    reflector = Reflector(
        watched,
        cluster,
        arrivals,
        lambda _, error: told.append(error),
        random=Random(seed),
        timing=timing,
        known=known,
    )
    reflector.start()
    try:
        yield reflector, told
    finally:
        assert reflector.stop(10)


@contextmanager
def reflected(
    folder: Path, *rules: Rule, watched: WatchSpec | None = None, namespace: str = "", seed: int = 1,
    timing: Timing = QUICK, server: ApiServer | None = None, tls: bool = False,
) -> Iterator[Reflected]:  # fmt: skip
    """Nodes of a served lab (or another resource), followed."""
    arrivals = DeltaQueue()
    watched = watched or WatchSpec("nodes", VERSIONS["nodes"])
    with lab(folder, *rules, server=server, seed=seed, tls=tls) as (served, cluster, faults):
        world = World(served, watched.resource, namespace)
        with reflecting(cluster, watched, arrivals, timing=timing, seed=seed) as (reflector, troubles):
            yield Reflected(served, cluster, faults, reflector, world, Taker(arrivals, world), troubles)
