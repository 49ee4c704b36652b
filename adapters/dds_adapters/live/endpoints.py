"""The addresses of a program: metrics and health of all the processes in it, however many there are, in one place each.

It serves once all of them have joined, so that nobody takes half of a program for the whole. It looks on and never steers.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from prometheus_client import CollectorRegistry, ProcessCollector

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.live.health import Check, Health
from dds_adapters.live.metrics import Program
from dds_adapters.live.settings import LiveSettings
from dds_adapters.web.messages import Route
from dds_adapters.web.pages import exposition, probes
from dds_adapters.web.reviews import Reviews, guarded
from dds_adapters.web.server import Server, Unbound
from dds_adapters.web.tls import Certificate, self_signed
from dds_core.errors import InputError

_FLAGS = {"health": "--health-probe-bind-address", "metrics": "--metrics-bind-address"}


class Endpoints:
    """`settings` say where. `close` ends what is served."""

    def __init__(self, settings: LiveSettings, logger: logging.Logger, processes: int = 1) -> None:
        """`processes` is how many are to join."""
        self.registry = CollectorRegistry()
        self.servers: dict[str, Server] = {}
        self._settings = settings
        self._log = logger
        self._awaited = processes
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        self._program = Program(self.registry)
        self._ends = ExitStack()

    def close(self) -> None:
        """Serve no longer."""
        self._ends.close()

    def join(
        self,
        cluster: Cluster,
        lease: str,
        leads: Callable[[], bool],
        live: Mapping[str, Check],
        ready: Mapping[str, Check],
    ) -> None:
        """A process has what is to be shown: its checks, and whether it leads by the Lease of that name. With the last one
        serving begins. Raises InputError when an address cannot be had."""
        self._live |= live
        self._ready |= ready
        self._program.leads(lease, leads)
        self._awaited -= 1
        if self._awaited == 0:
            self._open(cluster)

    def _open(self, cluster: Cluster) -> None:
        cluster.asked = self._program.asked
        ProcessCollector(registry=self.registry)
        health = Health(self._live, self._ready)
        pages = probes("/livez", health.livez) | probes("/readyz", health.readyz) | probes("/healthz", health.livez)
        settings = self._settings
        if settings.health is not None:
            here = settings.health
            self._serve("health", lambda: Server(pages, here.host, here.port, name="health"))
        if settings.metrics is not None:
            self._serve("metrics", lambda: self._metrics_server(cluster))

    def _metrics_server(self, cluster: Cluster) -> Server:
        settings, route = self._settings, exposition(self.registry)
        assert settings.metrics is not None
        tls: Callable[[], ssl.SSLContext] | None = None
        if settings.metrics_cert is not None and settings.metrics_key is not None:
            tls = Certificate(settings.metrics_cert, settings.metrics_key)
        elif settings.metrics_secure:
            own = self_signed([settings.metrics.host] if settings.metrics.host else [])
            tls = partial(_same, own)
        if settings.metrics_secure:
            route = guarded(route, Reviews(cluster))
        routes: dict[str, Route] = {"/metrics": route}
        return Server(routes, settings.metrics.host, settings.metrics.port, tls=tls, name="metrics")

    def _serve(self, name: str, listening: Callable[[], Server]) -> None:
        try:
            server = self.servers[name] = listening()
        except Unbound as error:
            fix = f"give another {_FLAGS[name]} (0 for nowhere), or end what listens there"
            raise InputError(error.what, where=error.where, fix=fix) from None
        server.start()
        self._ends.callback(server.stop)
        self._log.info("%s served on %s", name, server.url)


def _same(context: ssl.SSLContext) -> ssl.SSLContext:
    """One for every connection."""
    return context
