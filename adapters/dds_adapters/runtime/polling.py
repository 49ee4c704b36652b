"""A thread that polls an external system."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class PollingThread(ABC):
    """Polls from `start` to `stop`. `_changed` guards the inputs of the thread and is notified when they change."""

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._stopping = False
        self.name = name
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def alive(self) -> bool:
        return self.thread.is_alive()

    def start(self) -> None:
        self.thread.start()

    def end(self) -> None:
        """Send no more requests. Does not wait for a running one."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def stop(self, seconds: float) -> bool:
        """As `end`, and wait. False when a request still hangs after so many seconds."""
        self.end()
        if self.thread.ident is not None:
            self.thread.join(seconds)
        return not self.thread.is_alive()

    def stopping(self) -> bool:
        return self._stopping

    @abstractmethod
    def _run(self) -> None:
        """Poll until `_stopping`."""
