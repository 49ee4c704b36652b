"""Liveness and readiness, in the format of kube-apiserver's /livez and /readyz, and the endpoints for them and for the metrics.

A check is a function that reads data of other threads. It must be fast and may be called from any thread. If it raises, only
this check has failed.

Not live: only a new process can help, because the loop stands still or a thread has ended. Not ready: the log or the view of a
resource must come back. A standby is ready.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.runtime.live_settings import LiveSettings
from dds_adapters.runtime.metrics import Program
from dds_adapters.web.messages import Route, exposition, probes
from dds_adapters.web.reviews import Reviews, guarded
from dds_adapters.web.server import Server, Unbound
from dds_adapters.web.tls import certificate
from dds_core.errors import InputError
from dds_core.text import scrub


class Verdict(NamedTuple):
    """The result of a check. `detail` says why it failed, or is a remark."""

    ok: bool
    detail: str = ""


Check = Callable[[], Verdict]

OK = Verdict(True)


class Said(NamedTuple):
    """An answer: HTTP status and text."""

    code: int
    text: str


class Health:
    """The checks of one process, by name, in the order in which they are shown."""

    def __init__(self, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        """`ready` are the additional checks of readiness. A process that is not live is not ready."""
        self._live = dict(live)
        self._ready = {**live, **ready}

    def livez(self, check: str = "", *, verbose: bool = False, exclude: Collection[str] = ()) -> Said:
        """The answer of /livez, or of /livez/CHECK."""
        return _said("livez", self._live, check, verbose, exclude)

    def readyz(self, check: str = "", *, verbose: bool = False, exclude: Collection[str] = ()) -> Said:
        """The answer of /readyz, or of /readyz/CHECK."""
        return _said("readyz", self._ready, check, verbose, exclude)


def _said(page: str, checks: Mapping[str, Check], one: str, verbose: bool, exclude: Collection[str]) -> Said:
    if one:
        return _alone(checks, one)
    lines, failed = [], False
    for name, check in checks.items():
        if name in exclude:
            lines.append(f"[+]{name} excluded: ok")
            continue
        verdict = _asked(check)
        failed = failed or not verdict.ok
        lines.append(_line(name, verdict))
    unknown = sorted(set(exclude) - checks.keys())
    lines += [f"warn: some health checks cannot be excluded: no matches for {', '.join(map(repr, unknown))}"] * bool(
        unknown
    )
    lines.append(f"{page} check {'failed' if failed else 'passed'}")
    if failed or verbose:
        return Said(500 if failed else 200, "\n".join(lines) + "\n")
    return Said(200, "ok")


def _alone(checks: Mapping[str, Check], name: str) -> Said:
    check = checks.get(name)
    if check is None:
        return Said(404, "404 page not found\n")
    verdict = _asked(check)
    return Said(200, "ok") if verdict.ok else Said(500, f"internal server error: {verdict.detail}\n")


def _asked(check: Check) -> Verdict:
    try:
        return check()
    except Exception as error:
        return Verdict(False, f"the check itself failed with {type(error).__name__}")


def _line(name: str, verdict: Verdict) -> str:
    detail = scrub(verdict.detail)
    if verdict.ok:
        return f"[+]{name} ok" + (f": {detail}" if detail else "")
    return f"[-]{name} failed: {detail}" if detail else f"[-]{name} failed"


# -- checks ------------------------------------------------------------------------------------------------------------


def turning(age: float, patience: float) -> Verdict:
    """The loop that decides has run within `patience` seconds; `age` is the time since. It also runs when there is nothing to
    decide and when the log is unavailable."""
    return OK if age <= patience else Verdict(False, f"the loop has not run for {age:.0f} s")


def alive(threads: Mapping[str, bool]) -> Verdict:
    """All threads that should run are alive. `threads` says by name whether a thread is."""
    dead = sorted(name for name, alive in threads.items() if not alive)
    return Verdict(False, f"{', '.join(dead)} ended") if dead else OK


def answering(late: float, patience: float = 60.0) -> Verdict:
    """No request of the leader election is overdue by more than `patience` seconds: a standby whose request never returns would
    never lead."""
    return OK if late <= patience else Verdict(False, f"a request hangs, {late:.0f} s overdue")


def log_there(away: str) -> Verdict:
    """The log can be written. `away` says why not; "" when it can."""
    return Verdict(False, away) if away else OK


def viewed(resource: str, synced: Collection[str], lost: Collection[str]) -> Verdict:
    """A resource was listed and is still watched."""
    if resource in lost:
        return Verdict(False, "not served, or this user may not list and watch it")
    return OK if resource in synced else Verdict(False, "not synced: it was not listed yet")


def unless_standby(leading: Callable[[], bool], standing: Callable[[], str], check: Check) -> Check:
    """A check that only the leader has to pass. `standing`: which process leads, or when the lease can be taken."""
    return lambda: check() if leading() else Verdict(True, f"standby: {standing()}")


# -- endpoints -----------------------------------------------------------------------------------------------------------

_FLAGS = {"health": "--health-probe-bind-address", "metrics": "--metrics-bind-address"}


class Endpoints:
    """The HTTP servers of a program for metrics and health, each shared by all processes in it. They serve from when all
    processes have joined, so that no client sees only some of them, until `close`."""

    def __init__(self, settings: LiveSettings, logger: logging.Logger, processes: int = 1) -> None:
        """`settings` have the addresses; `processes` is the number of processes that will join."""
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
        self._ends.close()

    def join(
        self,
        cluster: Cluster,
        lease: str,
        leads: Callable[[], bool],
        live: Mapping[str, Check],
        ready: Mapping[str, Check],
    ) -> None:
        """Add a process: its checks, and whether it holds the Lease of this name. The last process to join starts the servers.
        Raises InputError when an address cannot be used."""
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
        tls = None
        if settings.metrics_cert is not None or settings.metrics_secure:
            tls = certificate(settings.metrics_cert or "", settings.metrics_key or "", [settings.metrics.host])
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
