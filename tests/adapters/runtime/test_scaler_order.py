"""The owner of engine and log: what comes before what, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dds_adapters.kubernetes.watch.delta_queue import ADDED, STALE, SYNCED, Arrival
from dds_adapters.kubernetes.watch.watch_spec import VERSIONS
from dds_adapters.runtime.loop import EVENT_BYTES, Committed, Stall, checkpoint_after
from dds_adapters.runtime.scaler import ScalerController
from dds_core.engine import EngineOf, Step
from dds_core.errors import Fenced, LogUnreachable
from dds_core.events import DeadlinePassed, Synced, WriteDone
from dds_core.kit.policy import Mode
from dds_core.log import CHECKPOINT
from dds_core.replay import fold_log, verify
from dds_core.scaler.component import SCALER
from dds_core.scaler.events import ClaimsListWanted
from dds_core.scaler.policy import Policy
from dds_core.scaler.state import dump
from tests.adapters.runtime.test_scaler import SECOND, START, Guarded, Run, Shaky, node

EVERY_TEN = Policy(mode="attach", scan_interval_seconds=10)


def synced(run: Run, resource: str, since: int = 0) -> Arrival:
    return Arrival(resource, SYNCED, b"", run.now, since=since)


def stale(run: Run, resource: str) -> Arrival:
    return Arrival(resource, STALE, b"", run.now, 150)


# -- the start


class LastWords(Shaky):
    """Another process appends once more while this log is folded, before it loses the pen."""

    last: Callable[[], None] | None = None

    def take_epoch(self, recorded_at: int, above: int = 0) -> int:
        if self.last is not None:
            last, self.last = self.last, None
            last()
        return super().take_epoch(recorded_at, above)


def test_what_the_one_before_appended_last_is_known_to_the_next() -> None:
    """Between the fold and the epoch the one before may still append."""
    log = LastWords("test/scaler", cluster="c", recorded_at=START)
    first = Run(log=log)
    first.sync()
    log.last = lambda: first.turn(first.see("nodes", ADDED, **node("n0")))
    second = ScalerController(log, Policy(mode="attach"), code="t")
    second.open(first.now)
    assert second.state.fleet.node_names() == {"n0"}
    assert dump(second.state) == dump(fold_log(log.read(), SCALER))
    assert second.position == log.head().position
    with pytest.raises(Fenced):
        first.turn(first.see("nodes", ADDED, **node("n1")))


def test_a_start_under_another_policy_is_a_fact_and_one_under_the_same_is_none() -> None:
    log = Shaky("test/scaler", cluster="c", recorded_at=START)
    for policy, changes in ((Policy(mode="attach"), 1), (Policy(mode="attach"), 1), (Policy(mode="detach"), 2)):
        run = Run(policy, log=log)
        assert run.types().count("PolicyChanged") == changes
        assert run.scaler.state.policy == policy


def test_a_start_counts_from_the_newest_checkpoint() -> None:
    """Else each start would write one."""
    run = Run()
    run.sync()
    run.scaler.checkpoint(run.now)
    there = run.scaler.position
    run.turn(run.see("nodes", ADDED, **node("n0")))
    assert run.scaler.checkpoint_at == there
    assert Run(log=run.log).scaler.checkpoint_at == there < run.log.head().position


def test_checkpoints_take_no_more_room_than_the_events_between_them() -> None:
    run = Run()
    run.sync()
    assert run.scaler.checkpoint_bytes == 0
    run.scaler.checkpoint(run.now)
    [row] = [row for row in run.log.read() if row.type == CHECKPOINT]
    assert run.scaler.checkpoint_bytes == len(row.data or b"")
    long = 30_000 * EVENT_BYTES
    assert checkpoint_after(20_000, 0) == 20_000
    assert checkpoint_after(20_000, long) == 30_000
    assert checkpoint_after(0, long) == 0, "none are written"


# -- views


def test_a_view_that_went_stale_before_all_was_seen_must_be_back_before_anything_is_decided() -> None:
    run = Run()
    names = list(VERSIONS)
    run.turn(*(synced(run, one) for one in names[:-1]))
    run.turn(stale(run, names[0]))
    run.turn(synced(run, names[-1]))
    assert "Synced" not in run.types()
    run.turn(synced(run, names[0]))
    assert run.types().count("Synced") == 1


def test_after_a_stall_a_list_that_was_under_way_makes_nothing_good() -> None:
    """What it has seen is older than the stall, and deadlines passed on it."""
    run = Run(EVERY_TEN)
    run.sync()
    begun, run.now = run.now, run.now + 20 * SECOND
    stalled = run.now
    run.scaler.turn((), (), run.now, stall=Stall(begun, 20.0))
    run.turn(*(synced(run, one, begun) for one in VERSIONS))
    assert not {"Synced", "DeadlinePassed"} & set(run.types()[run.types().index("Stale") :])
    run.turn(*(synced(run, one, stalled) for one in VERSIONS))
    assert "Synced" in run.types()[run.types().index("Stale") :]
    assert verify(run.log.read(), SCALER).ok


# -- deadlines


def test_a_deadline_comes_before_a_view_goes_stale_after_it() -> None:
    run = Run(EVERY_TEN)
    run.sync()
    run.now += 15 * SECOND
    run.turn(stale(run, "nodes"))
    assert run.types()[-2:] == ["DeadlinePassed", "Stale"]
    assert verify(run.log.read(), SCALER).ok


def test_a_deadline_comes_before_an_answer_about_guards_after_it() -> None:
    run = Guarded(EVERY_TEN)
    run.sync()
    run.now += 15 * SECOND
    run.answer("")
    run.turn()
    assert run.types()[-2:] == ["DeadlinePassed", "Capabilities"]
    assert verify(run.log.read(), SCALER).ok


def test_a_deadline_comes_before_a_list_that_was_wanted_and_came_after_it() -> None:
    run = Run(EVERY_TEN)
    run.sync()
    run.scaler._wishes["a-device"] = run.now
    run.now += 15 * SECOND
    run.turn(synced(run, "resourceclaims", since=run.now))
    assert run.types()[-2:] == ["DeadlinePassed", "ClaimsListed"]
    assert verify(run.log.read(), SCALER).ok


def test_a_list_that_was_begun_before_the_wish_does_not_fulfil_it() -> None:
    run = Run()
    run.sync()
    run.scaler._wishes["a-device"] = run.now
    run.turn(synced(run, "resourceclaims", since=run.now - 1))
    assert run.types()[-1] != "ClaimsListed"
    assert run.scaler.wanted_lists == {"resourceclaims"}, "and is asked for again"
    run.scaler.wanted_lists.clear()
    run.turn(synced(run, "resourceclaims", since=run.now))
    assert run.types()[-1] == "ClaimsListed"
    run.turn(synced(run, "resourceclaims", since=run.now))
    assert run.types().count("ClaimsListed") == 1 and not run.scaler.wanted_lists


def test_a_deadline_that_cannot_be_taken_in_is_told_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(EVERY_TEN)
    run.sync()
    feed = EngineOf.feed

    def fails_for_one(engine: Any, fact: Any, at: int) -> Any:
        if isinstance(fact, DeadlinePassed) and fact.due <= START + 12 * SECOND:
            raise RuntimeError("a fault of ours")
        return feed(engine, fact, at)

    monkeypatch.setattr(EngineOf, "feed", fails_for_one)
    run.now += 12 * SECOND
    run.turn(run.see("nodes", ADDED, **node("n0")))
    assert run.scaler.state.fleet.node_names() == {"n0"}
    assert len(run.told) == 1 and "DeadlinePassed level" in run.told[0].where
    assert not run.waits() or run.scaler.due() > run.now  # type: ignore[operator]
    run.turn()
    assert len(run.told) == 1


# -- the log


def test_while_the_log_cannot_be_read_anew_nothing_may_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be taken in left its traces in memory; until they are gone, the log counts as away."""
    run = Run()
    run.sync()
    feed = EngineOf.feed
    lost = [True]

    def fails_for_one(engine: Any, fact: Any, at: int) -> Any:
        step = feed(engine, fact, at)
        if getattr(fact, "uid", "") == "uid-bad":
            raise RuntimeError("a fault of ours")
        return step

    def read_lean(self: Shaky, *args: Any, **more: Any) -> Any:
        if lost[0]:
            raise LogUnreachable("is away")
        return super(Shaky, self).read_lean(*args, **more)

    monkeypatch.setattr(EngineOf, "feed", fails_for_one)
    monkeypatch.setattr(Shaky, "read_lean", read_lean)
    with pytest.raises(LogUnreachable):
        run.turn(run.see("nodes", ADDED, **node("bad")), run.see("nodes", ADDED, **node("n0")))
    assert run.away()
    lost[0] = False
    run.turn()
    run.turn()
    assert not run.away() and run.scaler.state.fleet.node_names() == {"n0"}
    assert verify(run.log.read(), SCALER).ok


def test_what_arrives_is_not_lost_with_a_deadline_before_it_while_the_log_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(EVERY_TEN)
    run.sync()
    feed, read_lean = EngineOf.feed, Shaky.read_lean

    def fails_for_one(engine: Any, fact: Any, at: int) -> Any:
        if isinstance(fact, DeadlinePassed) and fact.due <= START + 12 * SECOND:
            raise RuntimeError("a fault of ours")
        return feed(engine, fact, at)

    def away(self: Shaky, *args: Any, **more: Any) -> Any:
        raise LogUnreachable("is away")

    monkeypatch.setattr(EngineOf, "feed", fails_for_one)
    monkeypatch.setattr(Shaky, "read_lean", away)
    run.now += 12 * SECOND
    with pytest.raises(LogUnreachable):
        run.turn(run.see("nodes", ADDED, **node("n0")))
    monkeypatch.setattr(Shaky, "read_lean", read_lean)
    run.turn()
    run.turn()
    assert run.scaler.state.fleet.node_names() == {"n0"}


def test_what_arrived_while_the_log_was_away_comes_before_the_deadlines_of_that_time() -> None:
    """A device that came in time is not too late because nobody could write it down."""
    run = Run(EVERY_TEN)
    run.sync()
    run.log.before = True
    with pytest.raises(LogUnreachable):
        run.turn(run.see("nodes", ADDED, **node("n0")))
    seen = run.see("nodes", ADDED, **node("n1"))
    run.now += 30 * SECOND
    with pytest.raises(LogUnreachable):
        run.turn()
    run.log.before = False
    run.scaler.turn((), [WriteDone("id", "NodeLabelled", "n0")], run.now)
    assert not run.away() and run.types()[-1] == "NodeObserved"
    run.turn(seen)
    tail = run.types()[-5:]
    assert tail[0] == "NodeObserved" and "DeadlinePassed" in tail[1:] and "WriteDone" in tail
    assert [row.type for row in run.log.read() if row.type == "NodeObserved"] == ["NodeObserved"] * 2
    assert verify(run.log.read(), SCALER).ok


@pytest.mark.parametrize("now", ["observe", "detach"])
@pytest.mark.parametrize("mode", ["observe", "detach"])
def test_a_list_that_is_only_shown_to_be_wanted_is_not_made(mode: Mode, now: Mode) -> None:
    """The mode in which it was decided counts. That of the commit did: a fence whose mode was lowered in the same turn waited for
    its list for ever when the mode was back."""
    run = Run(Policy(mode=now))
    run.sync()
    wanted = ClaimsListWanted(resource="a-device", mode=mode, fenced=run.now)
    rows: Any = [None, SimpleNamespace(event_id="id")]
    run.scaler._carry_out(Committed(Step(run.now, Synced(), [(wanted, 0)]), rows))
    assert run.scaler.wanted_lists == (set() if mode == "observe" else {"resourceclaims"})
