"""The thread that asks the API server what it keeps of a slice: once at start, and again as long as something is dropped, since
who switches a gate on tells nobody. It decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import SystemRandom

from dds_adapters.kubernetes.backoff import Backoff
from dds_adapters.kubernetes.cluster import Asking, Unreachable
from dds_adapters.kubernetes.publishing.probe import probe
from dds_adapters.live.answers import Answers
from dds_adapters.live.asker import Asker
from dds_core.errors import DdsError

AGAIN_SECONDS = 600.0
"""Between questions while something is dropped."""
FAILED_SECONDS = 60.0
"""After an answer that says nothing."""
GLANCE = 0.2
DRIVER = "probe.dds-publisher"
"""In whose name it is asked while no model is configured."""


class Prober(Asker):
    """Asks from `start` to `stop`, once it was told (`look`) in whose name."""

    def __init__(
        self,
        api: Asking,
        version: Callable[[], str],
        answers: Answers,
        *,
        told: Callable[[DdsError], None] = lambda error: None,
    ) -> None:
        """`version` is that in which ResourceSlices are followed, "" before it is known. `told` is told of failures."""
        super().__init__("probe")
        self._api = api
        self._version = version
        self._answers = answers
        self._told = told
        self._driver: str | None = None
        self.answered = False
        """The API server has said at least once what it keeps."""
        self._dropped = False

    def look(self, driver: str, *, dropped: bool) -> None:
        """Ask for this driver; again and again while something is `dropped`."""
        with self._changed:
            if (self._driver, self._dropped) != (driver, dropped):
                self._driver, self._dropped = driver, dropped
                self._changed.notify_all()

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        backoff = Backoff(SystemRandom(), longest=30.0)
        while self._due():
            version = self._version()
            if not version:
                self._wait(GLANCE)
                continue
            try:
                kept = probe(self._api, version, self._driver or DRIVER)
            except Unreachable as error:  # nothing is decided either, as long as nothing is listed
                self._told(error)
                self._wait(backoff.failed(time.monotonic()))
            except Exception as error:
                fault = error if isinstance(error, DdsError) else DdsError(f"the probe failed: {type(error).__name__}")
                self._told(fault)
                self._answers.probed(None)
                self._wait(FAILED_SECONDS)
            else:
                self.answered = True
                self._answers.probed(kept)
                self._wait(AGAIN_SECONDS)

    def _due(self) -> bool:
        """Wait until there is something to ask for; False when all is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._is_due())
            return not self._stopping

    def _is_due(self) -> bool:
        return self._driver is not None and (self._dropped or not self.answered)

    def _wait(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds)
