"""Engines that play runs: processes of this machine, or Ray on a cluster. Both are executors of `concurrent.futures`, so that the
other modules need not know which one they use."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import forkserver, get_context
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

from dds_core.errors import InputError, install_hint

_T = TypeVar("_T")
TRIES = 5
"""How often Ray plays a run again whose worker was lost."""
PLAYS = "dds_whatif.play"
KNOCK = 5.0
"""Seconds to wait for a connection to Ray."""


def opened(engine: str, jobs: int | None = None, address: str | None = None) -> tuple[Executor, int]:
    """The executor of an engine (processes, ray), and how many runs it plays at once. Processes get ready from here on, so that
    it is best opened before the source is read. Raises InputError if Ray is not installed or cannot be used."""
    if engine == "ray":
        return _ray(address)
    number = jobs or os.cpu_count() or 1
    return ProcessPoolExecutor(number, mp_context=_prepared()), number


def _prepared() -> BaseContext:
    """Workers come from one process that imports what a run needs, once for all of them. Where processes that use the system's
    libraries must not fork, each imports it itself."""
    if sys.platform != "linux":
        return get_context("spawn")
    forkserver.set_forkserver_preload([PLAYS])
    forkserver.ensure_running()
    return get_context("forkserver")


class RayExecutor(Executor):
    """Plays runs on a Ray cluster; a run whose worker was lost is played again."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._task = ray.remote(num_cpus=1, max_retries=TRIES)(_call)

    def submit(self, fn: Callable[..., _T], /, *args: Any, **more: Any) -> Future[_T]:
        found: Future[_T] = self._task.remote(fn, args, more).future()
        return found

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._ray.shutdown()


def _call(fn: Callable[..., _T], args: tuple[Any, ...], more: dict[str, Any]) -> _T:
    return fn(*args, **more)


def _ray(address: str | None) -> tuple[Executor, int]:
    if find_spec("ray") is None:
        raise InputError("the package ray is not installed", where="--engine ray", fix=install_hint("sweep", "./lab"))
    ray: Any = import_module("ray")
    where = address or "a Ray of this machine's own"
    _knock(address)
    try:
        own = {} if address is not None else {"_node_ip_address": "127.0.0.1"}  # listen on loopback only
        ray.init(address=address, **own, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        number = int(ray.cluster_resources().get("CPU", 0))
    except ConnectionError as error:
        raise InputError(f"cannot be reached: {_words(error)}", where=where, fix="name a cluster that runs") from None
    except (RuntimeError, ValueError) as error:  # such as another version of Ray or Python
        raise InputError(
            f"Ray refuses: {_words(error)}", where=where, fix="install the cluster's versions here"
        ) from None
    if number < 1:
        raise InputError("the cluster has no CPUs", where=where, fix="add nodes to it")
    return RayExecutor(ray), number


def _knock(address: str | None) -> None:
    """Raises InputError if nothing listens at the address: Ray itself would try for minutes without a message."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"cannot be reached: {_words(error)}", where=address or "", fix="name a cluster that runs"
        ) from None


def _words(error: Exception) -> str:
    """The message as one line. It needs all lines: the versions that differ are not in the first one."""
    return " ".join(str(error).split()) or type(error).__name__
