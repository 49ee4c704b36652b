"""`serve` runs a scaler, a publisher, an autoscaler or several of them in one program, with health and metrics, until a
signal."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from dds_adapters.fabric import Outside, open_provider
from dds_adapters.jsonl import archive
from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.machines.registry import open_machines
from dds_adapters.runtime.health import Endpoints
from dds_adapters.runtime.live_settings import Autoscaling, Publishing, Scaling
from dds_adapters.runtime.loop import Make
from dds_adapters.runtime.metrics import Calls
from dds_adapters.runtime.metrics import catalogue as c
from dds_adapters.runtime.operation import AutoscalerOperation, Operation, PublisherOperation, ScalerOperation
from dds_adapters.runtime.process import Process
from dds_adapters.runtime.publishing import make_publisher
from dds_adapters.runtime.scaler import make_scaler
from dds_core import __version__
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.errors import FileError
from dds_core.log import EventLog
from dds_core.publisher.component import PUBLISHER
from dds_core.scaler.component import SCALER

LAST_SECONDS = 40.0
"""After an error of one process, the program is killed if others still hang after so long. Longer than a graceful stop takes."""


class Supervisor:
    """Several processes in one program. They start together, and the end of one ends all. Each has its own lease, log and
    threads; they share data only through the cluster. Call `run` in one thread, `stop` from any."""

    def __init__(self, processes: Sequence[Process[Any]]) -> None:
        self._processes = processes
        self._errors: list[BaseException] = []
        self._last: list[threading.Timer] = []

    def stop(self) -> None:
        """Stop all processes gracefully. Returns at once."""
        for process in self._processes:
            process.stop()

    def run(self) -> None:
        """Run until `stop`, or until one process ends. Raises the first error that ended a process."""
        first, *others = self._processes
        threads = [threading.Thread(target=self._run, args=(one,), name=f"beside-{n}") for n, one in enumerate(others)]
        for thread in threads:
            thread.daemon = True
            thread.start()
        self._run(first)
        for thread in threads:
            thread.join()
        for timer in self._last:  # no process hung, so the program must not be killed
            timer.cancel()
        if self._errors:
            raise self._errors[0]

    def _run(self, process: Process[Any]) -> None:
        try:
            process.run()
        except BaseException as error:
            self._errors.append(error)
            last = threading.Timer(LAST_SECONDS, os._exit, (1,))
            last.daemon = True
            last.start()
            self._last.append(last)
        finally:
            self.stop()


OpenLog = Callable[[str], EventLog]
"""Opens a log for the cluster whose namespace kube-system has this UID."""


def serve(
    cluster: Cluster,
    logger: logging.Logger,
    open_log: Callable[[str], OpenLog],
    *,
    scaling: Scaling | None = None,
    publishing: Publishing | None = None,
    autoscaling: Autoscaling | None = None,
) -> None:
    """Run until SIGTERM, SIGINT or SIGHUP, only in the main thread. `open_log` gives for a component the function that opens its
    log. Addresses and certificates are taken from the first of the given settings.

    Raises Fenced when another process writes the log, LogWentBack when its database went back, InputError for settings that are
    wrong, FabricOdd for an inventory with faults, Refused when the API server does not let it identify the cluster.
    """
    settings = [one.settings for one in (scaling, publishing, autoscaling) if one is not None]
    endpoints = Endpoints(settings[0], logger, len(settings))
    with ExitStack() as ends:
        ends.callback(endpoints.close)
        processes: list[Process[Any]] = []
        if scaling is not None:
            make = make_scaler(__version__, scaling.settings.config_namespace, scaling.settings.lease_namespace)
            operation = ScalerOperation(endpoints, logger)
            processes.append(_process(cluster, scaling, open_log(SCALER.name), make, operation))
        if publishing is not None:
            component = PUBLISHER.name if len(settings) > 1 else ""
            opener = open_log(PUBLISHER.name)
            processes.append(_publisher(cluster, endpoints, logger, publishing, opener, ends, component))
        if autoscaling is not None:
            component = AUTOSCALER.name if len(settings) > 1 else ""
            opener = open_log(AUTOSCALER.name)
            processes.append(_autoscaler(cluster, endpoints, logger, autoscaling, opener, ends, component))
        program = Supervisor(processes)
        with _ended_by_signals(program, logger):
            program.run()
        logger.info("ended in order")


def _publisher(
    cluster: Cluster,
    endpoints: Endpoints,
    logger: logging.Logger,
    given: Publishing,
    opener: OpenLog,
    ends: ExitStack,
    component: str,
) -> Process[Any]:
    provider = open_provider(given.fabric, Outside(observe=Calls(endpoints.registry).observe))
    ends.callback(provider.close)
    make = make_publisher(
        __version__,
        provider,
        config_namespace=given.settings.config_namespace,
        interval=given.interval,
        connections=given.connections,
        bare_metal_hosts=given.bare_metal_hosts,
    )
    return _process(cluster, given, opener, make, PublisherOperation(endpoints, logger, component=component))


def _autoscaler(
    cluster: Cluster,
    endpoints: Endpoints,
    logger: logging.Logger,
    given: Autoscaling,
    opener: OpenLog,
    ends: ExitStack,
    component: str,
) -> Process[Any]:
    from dds_adapters.autoscaler.server import Server, TlsFiles, check  # gRPC is needed only here
    from dds_adapters.runtime.autoscaling import make_autoscaler

    tls = TlsFiles(*given.tls) if given.tls is not None else None
    check(given.address, tls)  # also on a standby, which listens once it leads
    machines = open_machines(given.machines)
    ends.callback(machines.close)
    rpcs = c.counters(c.RPCS, endpoints.registry)
    make = make_autoscaler(
        __version__,
        machines,
        lambda face: Server(face, given.address, tls=tls),
        config_namespace=given.settings.config_namespace,
        interval=given.interval,
        observe=lambda method, code: rpcs[(method, code)].inc(),
    )
    return _process(cluster, given, opener, make, AutoscalerOperation(endpoints, logger, component=component))


def _process(
    cluster: Cluster,
    given: Scaling | Publishing | Autoscaling,
    opener: OpenLog,
    make: Make[Any],
    operation: Operation[Any],
) -> Process[Any]:
    folder = given.settings.archive_folder
    if folder is not None:  # report errors at the start, not weeks later at the first checkpoint
        try:
            _made(folder)
        except FileError as error:
            operation.trouble("archive", error)
    return Process(
        given.settings,
        cluster,
        opener,
        given.policy,
        make,
        observer=operation,
        archive=None if folder is None else lambda log: archive_into(folder, log),
        stored=given.stored,
    )


def _made(folder: Path) -> None:
    fix = "give a folder that can be written; meanwhile the log only grows"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(error.strerror or str(error), where=str(folder), fix=fix) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError("it may not be written", where=str(folder), fix=fix)


def archive_into(folder: Path, log: EventLog) -> None:
    """Archive the events up to the newest checkpoint into a file of this folder, named by its positions. Raises FileError when
    the folder cannot be written, and as `archive`."""
    head = log.head()
    if head.checkpoint <= head.archived + 1:
        return
    _made(folder)
    name = f"{head.log.replace('/', '-')}-{head.archived + 1:012d}-{head.checkpoint:012d}.jsonl.gz"
    archive(log, str(folder / name), checkpoint=head.checkpoint)


@contextmanager
def _ended_by_signals(program: Supervisor, logger: logging.Logger) -> Iterator[None]:
    """The first signal stops the program gracefully, the second kills it. SIGHUP (the terminal was closed) counts as a first
    signal, unless it is ignored, as with nohup. It never counts as a second one: shell and kernel each send one, and some send
    it together with SIGTERM."""
    seen: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGHUP and any(one != signal.SIGHUP for one in seen):
            os._exit(128 + number)
        seen.append(number)
        if len(seen) == 1:
            # A handler may run while its own thread holds a lock that `stop` needs.
            threading.Thread(target=_stop, args=(number,), name="signal", daemon=True).start()

    def _stop(number: int) -> None:
        logger.info("%s: ending in order", signal.Signals(number).name)
        program.stop()

    heeded = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        heeded.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            late = number == signal.SIGHUP and number in seen  # a second SIGHUP may come after the end
            signal.signal(number, signal.SIG_IGN if late else handler)
