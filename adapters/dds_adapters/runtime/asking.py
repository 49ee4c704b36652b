"""A thread that asks somebody something again and again."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class PollingThread(ABC):
    """A thread that asks again and again, from `start` to `stop`. `_changed` guards what the thread is told, and is notified when
    that is something new."""

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
        """Ask nothing more; it does not wait for a question that runs."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def stop(self, seconds: float) -> bool:
        """Ask nothing more; False when a question still hangs after so many seconds."""
        self.end()
        if self.thread.ident is not None:
            self.thread.join(seconds)
        return not self.thread.is_alive()

    def stopping(self) -> bool:
        return self._stopping

    @abstractmethod
    def _run(self) -> None:
        """Until it is stopping."""
