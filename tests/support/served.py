"""An API server of the lab behind a real socket, for tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from dds_lab.api.gates import OPTIONAL_VERSIONS, Gates
from dds_lab.api.requests import MASTERS, User
from dds_lab.api.server import ApiServer
from dds_lab.client import Client
from dds_lab.crds import COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES
from dds_lab.faults.wire import Rule, WireFaults
from dds_lab.http_frontend import Credentials, Served, serving
from dds_lab.http_frontend.serving import LOOPBACK
from dds_lab.time import VirtualTime


def wall() -> int:
    """The wall clock in microseconds."""
    return time.time_ns() // 1000


def new_server(seed: int = 1, history: int = 20_000, version: str = "1.36") -> ApiServer:
    """An API server on the wall clock that knows the custom kinds and serves all versions."""
    gates = Gates.for_version(version, served=OPTIONAL_VERSIONS)
    server = ApiServer(gates=gates, now=wall, random=Random(seed), history=history)
    client = client_of(server)
    for definition in (COMPOSABILITY_REQUESTS, COMPOSABLE_RESOURCES):
        client.create("customresourcedefinitions", definition)
    return server


def client_of(server: ApiServer) -> Client:
    """An administrator in the same process; only for the server's own thread, or while it does not serve."""
    return Client(server, VirtualTime(0, 0), "setup")


def users() -> Credentials:
    """The users of the conformance questions."""
    return Credentials({"admin": User("admin", (MASTERS,)), "dds": User("ddsuser")})


@contextmanager
def served(
    *rules: Rule, tls: bool = False, server: ApiServer | None = None, seed: int = 1, host: str = LOOPBACK
) -> Iterator[Served]:
    """A server on a free port of loopback, with users admin and dds; `rules` are faults for whoever comes over the wire."""
    server = server or new_server(seed)
    faults = WireFaults(rules, wall, Random(seed)) if rules else None
    with serving(server, users(), tls=tls, host=host, faults=faults) as served:
        yield served
