"""Several processes in one program: they begin together, and the end of one is the end of all.

Each has its own lease, log and threads; nothing of one goes through another, but by way of the cluster.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from dds_adapters.live.process import Process

LAST_SECONDS = 40.0
"""After one has ended by an error: longer than the others take to end in order. Who hangs then is ended with the program."""


class Together:
    """`run` them in one thread; `stop` them from any."""

    def __init__(self, processes: Sequence[Process[Any]]) -> None:
        self._processes = processes
        self._errors: list[BaseException] = []
        self._last: list[threading.Timer] = []

    def stop(self) -> None:
        """End all of them in order, soon."""
        for process in self._processes:
            process.stop()

    def run(self) -> None:
        """Until `stop`, or until one of them ends. Raises what ended the first that ended by an error."""
        first, *others = self._processes
        threads = [threading.Thread(target=self._run, args=(one,), name=f"beside-{n}") for n, one in enumerate(others)]
        for thread in threads:
            thread.daemon = True
            thread.start()
        self._run(first)
        for thread in threads:
            thread.join()
        for timer in self._last:  # nobody hung: who made them may go on
            timer.cancel()
        if self._errors:
            raise self._errors[0]

    def _run(self, process: Process[Any]) -> None:
        try:
            process.run()
        except BaseException as error:
            self._errors.append(error)
            last = threading.Timer(LAST_SECONDS, _end_now)
            last.daemon = True
            last.start()
            self._last.append(last)
        finally:
            self.stop()


def _end_now() -> None:
    os._exit(1)
