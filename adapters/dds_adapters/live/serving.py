"""`serve`: a scaler as a program has it, with everything around it, until a signal ends it."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

from dds_adapters.jsonl import archive
from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.live.operation import Operation
from dds_adapters.live.process import Process
from dds_adapters.live.scaler import ScalerPart
from dds_adapters.live.settings import LiveSettings
from dds_core.errors import FileError
from dds_core.log import EventLog
from dds_core.policy import Policy


def serve(
    settings: LiveSettings,
    *,
    cluster: Cluster,
    open_log: Callable[[str], EventLog],
    policy: Callable[[], Policy],
    logger: logging.Logger,
) -> None:
    """Run until SIGTERM or SIGINT; only in the main thread. `open_log` is given the UID of the namespace kube-system; `policy` is
    asked again and again and raises PolicyError.

    Raises LeaseLost and Fenced when another process took over, InputError for what cannot be used, Refused and Unreachable
    when the cluster cannot even be identified.
    """
    operation = Operation(settings, logger)
    folder = settings.archive_folder
    process = Process(
        settings,
        cluster,
        open_log,
        policy,
        ScalerPart(version("dds-core"), settings.config_namespace),
        observer=operation,
        archive=None if folder is None else lambda log: archive_into(folder, log),
    )
    try:
        if folder is not None:
            _look_at(folder, operation)
        with _ended_by_signals(process, logger):
            process.run()
        logger.info("ended in order")
    finally:
        operation.close()


def _look_at(folder: Path, operation: Operation) -> None:
    """Say at the start, not weeks later at the first checkpoint, that nothing can be archived there."""
    try:
        _made(folder)
    except FileError as error:
        operation.trouble("archive", error)


def _made(folder: Path) -> None:
    fix = "give a folder that can be written; meanwhile the log only grows"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(error.strerror or str(error), where=str(folder), fix=fix) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError("it may not be written", where=str(folder), fix=fix)


def archive_into(folder: Path, log: EventLog) -> None:
    """Move what lies before the newest checkpoint into a file of this folder, named by the positions that it holds. Raises
    FileError where it cannot be written, and as `archive`."""
    head = log.head()
    if head.checkpoint <= head.archived + 1:
        return
    _made(folder)
    name = f"{head.log.replace('/', '-')}-{head.archived + 1:012d}-{head.checkpoint:012d}.jsonl.gz"
    archive(log, str(folder / name), checkpoint=head.checkpoint)


@contextmanager
def _ended_by_signals(process: Process[Any], logger: logging.Logger) -> Iterator[None]:
    """The first signal ends the process in order, the second at once."""
    seen: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) > 1:
            os._exit(128 + number)
        # A handler may run while its own thread holds a lock that `stop` needs.
        threading.Thread(target=_stop, args=(number,), name="signal", daemon=True).start()

    def _stop(number: int) -> None:
        logger.info("%s: ending in order", signal.Signals(number).name)
        process.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
