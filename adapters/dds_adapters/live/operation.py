"""What people and probes see of a running scaler: metrics, health, log lines, and the addresses on which they are served.

It looks on and never steers. What it shows of other threads is read without waiting for them.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector

from dds_adapters.kubernetes.watched import OPTIONAL, VERSIONS
from dds_adapters.live.health import Health, alive, answering, log_there, turning, unless_standby, views
from dds_adapters.live.metrics import Metrics, Sources
from dds_adapters.live.narrator import Narrator
from dds_adapters.live.pen import Committed
from dds_adapters.live.process import Process
from dds_adapters.live.settings import LiveSettings
from dds_adapters.web.messages import Route
from dds_adapters.web.pages import exposition, probes
from dds_adapters.web.reviews import Reviews, guarded
from dds_adapters.web.server import Server, Unbound
from dds_adapters.web.tls import Certificate, self_signed
from dds_core.errors import DdsError, InputError
from dds_core.fingerprint import FINGERPRINT
from dds_core.picture import Picture

AGAIN = 60.0
"""Seconds before the same trouble of a part is said again."""
PATIENCE = 120.0
"""Seconds without a turn of the loop after which only a new process can help: longer than any call to a log takes."""

_FLAGS = {"health": "--health-probe-bind-address", "metrics": "--metrics-bind-address"}


class Operation:
    """The observer of one process (`process.Observer`). `close` ends what it serves."""

    def __init__(self, settings: LiveSettings, logger: logging.Logger) -> None:
        self.registry = CollectorRegistry()
        self.servers: dict[str, Server] = {}
        self._settings = settings
        self._log = logger
        self._metrics: Metrics
        self._narrator = Narrator(logger)
        self._turned = time.monotonic()
        self._synced = False
        self._mode = ""
        self._said: dict[str, tuple[str, float]] = {}
        self._away = ""
        self._ends = ExitStack()

    def close(self) -> None:
        """Serve no longer."""
        self._ends.close()

    # -- what the process tells ----------------------------------------------------------------------------------

    def began(self, process: Process[Any]) -> None:
        """Serve, from now on. Raises InputError when an address cannot be had."""
        self._metrics = Metrics(
            self.registry, version=version("dds-core"), fingerprint=FINGERPRINT, sources=_sources(process)
        )
        ProcessCollector(registry=self.registry)
        process.cluster.asked = self._metrics.asked
        health = self._health(process)
        pages = probes("/livez", health.livez) | probes("/readyz", health.readyz) | probes("/healthz", health.livez)
        settings = self._settings
        if settings.health is not None:
            here = settings.health
            self._serve("health", lambda: Server(pages, here.host, here.port, name="health"))
        if settings.metrics is not None:
            self._serve("metrics", lambda: self._metrics_server(process))

    def leads(self, leading: bool) -> None:
        """Say who decides."""
        self._log.info("this process decides" if leading else "standing by: another process leads, or is about to")

    def alive(self) -> None:
        """The loop came round, whatever it waits for."""
        self._turned = time.monotonic()

    def turned(self, picture: Picture) -> None:
        """The loop came round with all that there was."""
        self._turned = time.monotonic()
        self._away = ""
        if picture.synced and not self._synced:
            self._log.info(
                "the whole cluster was seen: %d claims, %d nodes, %d requests; mode %s",
                len(picture.claims.rows), len(picture.nodes.rows), len(picture.requests.rows), picture.mode,
            )  # fmt: skip
        elif picture.synced and picture.mode != self._mode:
            switch = f", the ConfigMap says {picture.config.mode}" if picture.config.mode else ""
            self._log.info("mode %s is in effect now (policy %s%s)", picture.mode, picture.policy.mode, switch)
        self._synced, self._mode = picture.synced, picture.mode

    def trouble(self, part: str, error: DdsError) -> None:
        """Say it, and go on."""
        if part == "log":
            self._away = str(error)
        before, at = self._said.get(part, ("", 0.0))
        again = str(error) == before and time.monotonic() - at < AGAIN
        if not again:
            self._said[part] = (str(error), time.monotonic())
        self._log.log(logging.DEBUG if again else logging.WARNING, "%s", error, extra={"part": part})

    def committed(self, steps: Sequence[Committed], picture: Picture) -> None:
        """Count and tell what is in the log now."""
        self._metrics.committed(steps, picture)
        self._narrator.committed(steps, picture)

    # -- what is served ------------------------------------------------------------------------------------------

    def _health(self, process: Process[Picture]) -> Health:
        def leading() -> bool:
            return process.leading  # also while the log does not open: that is no standby

        wanted = [name for name in VERSIONS if name not in OPTIONAL]
        seen = views(
            wanted,
            lambda: process.decider.synced_resources if process.decider is not None else (),
            lambda: process.decider.lost if process.decider is not None else (),
        )
        return Health(
            {
                "loop": turning(lambda: self._turned, time.monotonic, PATIENCE),
                "threads": alive(process.threads),
                "lease": answering(lambda: process.elector.overdue() if process.elector is not None else 0.0),
            },
            {
                "log": unless_standby(leading, log_there(lambda: self._away)),
                **{name: unless_standby(leading, check) for name, check in seen.items()},
            },
        )

    def _metrics_server(self, process: Process[Picture]) -> Server:
        settings, route = self._settings, exposition(self.registry)
        assert settings.metrics is not None
        tls: Callable[[], ssl.SSLContext] | None = None
        if settings.metrics_cert is not None and settings.metrics_key is not None:
            tls = Certificate(settings.metrics_cert, settings.metrics_key)
        elif settings.metrics_secure:
            own = self_signed([settings.metrics.host] if settings.metrics.host else [])
            tls = partial(_same, own)
        if settings.metrics_secure:
            route = guarded(route, Reviews(process.cluster))
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


def _sources(process: Process[Picture]) -> Sources:
    def behind() -> int:
        return process.decider.behind if process.decider is not None else 0

    def lag() -> float:
        oldest = process.decider.oldest_pending if process.decider is not None else None
        return 0.0 if oldest is None else max(0.0, (process.clock.now() - oldest) / 1_000_000)

    def outbox() -> Mapping[str, int]:
        return {"waiting": process.writer.waiting, "running": process.writer.running}

    return Sources(
        ages=process.arrivals.ages,
        arrivals=lambda: len(process.arrivals),
        outbox=outbox,
        attempts=lambda: process.writer.counts,
        behind=behind,
        lag=lag,
        away=lambda: process.decider is not None and process.decider.away,
        lease=process.settings.lease_name,
        leader=lambda: process.leading and process.decider is not None,
    )
