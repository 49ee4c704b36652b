"""Following a log: what is there already, then whatever is appended. Misses nothing, because positions become visible
in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator

from dds_core.log.envelope import Envelope
from dds_core.log.interface import EventLog


def follow(
    log: EventLog,
    after: int = 0,
    *,
    types: Collection[str] | None = None,
    stream: str | None = None,
    poll_seconds: float = 0.5,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Envelope]:
    """Events after `after` without end, until `stopped()` says so; the log is asked again every `poll_seconds`
    once it has no more."""
    while True:
        ending = stopped()  # asked first: what was appended before the end is still given
        last = log.head().position
        yield from log.read(after, last, stream, types)
        if ending:
            return
        if last == after:
            time.sleep(poll_seconds)
        after = last
