"""What faults do to the lines of a watch."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from dds_lab.faults.wire import FaultyStream, WatchEffects
from dds_lab.latency import Fixed

SECOND = 1_000_000


class Source:
    """Lines that a test puts in."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.closed = False
        self.due: int | None = None
        self.ticked = 0
        self._ready: Callable[[], None] | None = None

    def put(self, *lines: bytes) -> None:
        self.lines += lines
        if self._ready is not None:
            self._ready()

    def take(self) -> list[bytes]:
        taken, self.lines = self.lines, []
        return taken

    def on_ready(self, call: Callable[[], None] | None) -> None:
        self._ready = call

    def tick(self) -> None:
        self.ticked += 1

    def close(self) -> None:
        self.closed = True


class Setup:
    def __init__(self, effects: WatchEffects) -> None:
        self.now = 0
        self.source = Source()
        self.cuts: list[bytes] = []
        self.stream = FaultyStream(self.source, effects, lambda: self.now, Random(1), self.cuts.append)
        self.told = 0
        self.stream.on_ready(self._tell)

    def _tell(self) -> None:
        self.told += 1


def test_without_effects_nothing_changes() -> None:
    setup = Setup(WatchEffects())
    setup.source.put(b"a\n", b"b\n")
    assert setup.told == 1 and setup.stream.take() == [b"a\n", b"b\n"] and not setup.stream.closed
    setup.source.closed = True
    assert setup.stream.closed


def test_a_cut_ends_it_without_an_end() -> None:
    setup = Setup(WatchEffects(cut_at=5 * SECOND))
    assert setup.stream.due == 5 * SECOND
    setup.source.put(b"a\n")
    assert setup.stream.take() == [b"a\n"]
    setup.now = 5 * SECOND
    setup.stream.tick()
    assert setup.told == 2 and setup.stream.take() == []
    assert setup.cuts == [b""] and setup.stream.closed and setup.source.closed


def test_a_cut_in_the_middle_waits_for_a_line() -> None:
    setup = Setup(WatchEffects(cut_at=0, mid_line=True))
    assert setup.stream.take() == [] and setup.cuts == []
    setup.source.put(b"0123456789\n", b"next\n")
    assert setup.stream.take() == []
    assert setup.cuts == [b"01234"] and setup.stream.closed


def test_a_silent_watch_says_nothing_and_does_not_end() -> None:
    setup = Setup(WatchEffects(silent_at=5 * SECOND))
    setup.source.put(b"a\n")
    assert setup.stream.take() == [b"a\n"]
    setup.now = 6 * SECOND
    setup.stream.tick()
    assert setup.stream.take() == []
    setup.source.put(b"b\n")
    setup.source.closed = True
    assert setup.stream.take() == [] and not setup.stream.closed and setup.stream.due is None
    setup.stream.close()
    assert setup.stream.closed


def test_an_expired_watch_tells_so_and_ends() -> None:
    setup = Setup(WatchEffects(expired=True))
    assert setup.stream.due is None
    (line,) = setup.stream.take()
    told = json.loads(line)
    assert told["type"] == "ERROR" and told["object"]["code"] == 410 and told["object"]["reason"] == "Expired"
    assert setup.stream.closed
    assert setup.stream.take() == []
    assert setup.source.closed


def test_duplicates_follow_their_originals() -> None:
    setup = Setup(WatchEffects(duplicates=1.0))
    setup.source.put(b"a\n", b"b\n")
    assert setup.stream.take() == [b"a\n", b"a\n", b"b\n", b"b\n"]


def test_late_lines_keep_their_order_and_come_before_the_end() -> None:
    setup = Setup(WatchEffects(delay=Fixed(3)))
    setup.source.put(b"a\n")
    assert setup.stream.take() == [] and setup.stream.due == 3 * SECOND
    setup.now = SECOND
    setup.source.put(b"b\n")
    assert setup.stream.take() == []
    setup.source.closed = True
    assert not setup.stream.closed
    setup.now = 3 * SECOND
    setup.stream.tick()
    assert setup.stream.take() == [b"a\n"] and setup.stream.due == 4 * SECOND
    setup.now = 4 * SECOND
    setup.stream.tick()
    assert setup.stream.take() == [b"b\n"] and setup.stream.closed
