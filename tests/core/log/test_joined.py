"""Archives and the log, read as one."""

import pytest

from dds_core.errors import Archived, InputError
from dds_core.log import EventLog, EventSource, JoinedSource, MemoryLog, verify_chain
from tests.support.logs import NOON, SALTS, checkpoint, groups, told_group


def cut(log: MemoryLog, at: int) -> None:
    (stored,) = log.read(at - 1, at)
    log.truncate(at, stored.hash)


def parts() -> tuple[list[EventSource], EventLog]:
    """Three parts of one log, as two archives and the rest would be, and the whole of it."""
    logs = [MemoryLog("a/scaler", cluster="c", recorded_at=NOON, salts=SALTS) for _ in range(4)]
    ordinal, checkpoints = 0, []
    for log in logs:
        log.take_epoch(NOON)
    for _ in range(3):
        batch = [*groups(7, ordinal), checkpoint(ordinal + 7)]
        ordinal += 8
        for log in logs:
            log.append(batch, epoch=1, recorded_at=NOON)
        checkpoints.append(logs[0].head().checkpoint)
    whole, first, second, third = logs
    cut(second, checkpoints[0])
    cut(third, checkpoints[1])
    return [_Until(first, checkpoints[0]), _Until(second, checkpoints[1]), third], whole


class _Until:
    """A source that ends earlier: what an archive is."""

    def __init__(self, log: MemoryLog, last: int) -> None:
        self._log = log
        self._last = last
        self.name = log.name
        self.head = log.head
        self.read = log.read
        self.read_lean = log.read_lean

    def span(self) -> tuple[int, int]:
        return self._log.span()[0], self._last


def test_the_parts_read_as_the_whole() -> None:
    sources, whole = parts()
    joined = JoinedSource(sources)
    assert (joined.name, joined.span()) == ("a/scaler", whole.span())
    assert (joined.head().position, joined.head().hash, joined.head().archived) == (
        whole.span()[1],
        whole.head().hash,
        0,
    )
    everything = list(whole.read())
    assert list(joined.read()) == everything
    assert list(joined.read_lean()) == list(whole.read_lean())
    assert verify_chain(joined.read()).last == len(everything)
    for after in range(0, len(everything) + 2, 3):
        for until in (*range(0, len(everything), 5), 999):
            assert list(joined.read(after, until)) == everything[after : max(until, after)]
            assert list(joined.read(after, until, stream="scaler")) == [
                e for e in everything[after : max(until, after)] if e.stream == "scaler"
            ]


def test_the_rest_alone_says_that_something_is_missing() -> None:
    sources, _ = parts()
    with pytest.raises(Archived):
        list(JoinedSource(sources[1:]).read())


def test_the_log_may_grow_while_it_is_read_as_a_part() -> None:
    sources, whole = parts()
    joined = JoinedSource(sources)
    last = sources[2]
    assert isinstance(last, MemoryLog)
    last.append([told_group(99)], epoch=1, recorded_at=NOON)
    assert list(joined.read()) == list(whole.read()), "what came after the parts were joined is left for the next time"


def test_parts_that_do_not_fit_are_refused() -> None:
    sources, whole = parts()
    for wrong in ([sources[0], sources[2]], [sources[1], sources[0]], [sources[2], whole]):
        with pytest.raises(InputError, match="a part with positions"):
            JoinedSource(wrong)
    other = MemoryLog("b/scaler", cluster="c", recorded_at=NOON)
    with pytest.raises(InputError, match="log b/scaler does not continue log a/scaler"):
        JoinedSource([sources[0], other])
    with pytest.raises(InputError, match="no source was given"):
        JoinedSource([])
