"""How the first list of a reflector ended, for whoever waits for it in another thread."""

from __future__ import annotations

import threading

from dds_adapters.kubernetes.cluster import Refused, Unreachable
from dds_adapters.kubernetes.watch.delta_queue import LOST
from dds_core.errors import DdsError


class FirstList:
    """Takes what the reflector tells of one resource until its first list has succeeded or failed: its errors, and the markers
    that it gives its `Sink`. `error`: why the list failed, None if it succeeded; `lost`: nothing will be listed for long."""

    def __init__(self) -> None:
        self.error: DdsError | None = None
        self.lost = False
        self._ended = threading.Event()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end of the list; False if it has not come in so many seconds."""
        return self._ended.wait(seconds)

    def failed(self, error: DdsError) -> bool:
        """Take an error. False if the list has ended before, so that this is a trouble of the watch."""
        if self._ended.is_set():
            return False
        again = self.error is not None
        self.error = self.error or error
        # A resource that is not served is told of first and then marked as lost; one that may not be listed the other way round.
        if self.lost or again or isinstance(error, Refused | Unreachable):
            self._ended.set()
        return True

    def marked(self, marker: str) -> None:
        """Take a marker. A list that succeeds ends what errors there were before it."""
        if self._ended.is_set():
            return
        self.lost = marker == LOST
        if not self.lost:
            self.error = None
        if not self.lost or self.error is not None:
            self._ended.set()
