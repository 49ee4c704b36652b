"""Random streams never break the invariants: nothing raises, nothing is promised twice, nothing in use is taken away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dds_core import events as e
from dds_core.engine import new_event
from dds_core.log import Group, MemoryLog
from dds_core.replay import fold_log, verify
from dds_core.scaler.component import SCALER
from dds_core.scaler.state import PROJECTION, dump
from tests.property.cluster import START, Move
from tests.property.run import Run
from tests.property.streams import QUICK, SOAK, chaos, cooperation, modes, policies


def play(mode: str, policy: int, moves: list[Move], *, thorough: bool = False) -> None:
    run = Run(mode, policy, thorough=thorough)
    run.play(moves)
    run.wait(4000)


@QUICK
@given(mode=modes, policy=policies, moves=chaos(40))
def test_no_stream_breaks_an_invariant(mode: str, policy: int, moves: list[Move]) -> None:
    play(mode, policy, moves)


@QUICK
@given(mode=st.sampled_from(("attach", "detach")), policy=policies, moves=cooperation(30))
def test_no_stream_of_a_cluster_that_obeys_breaks_an_invariant(mode: str, policy: int, moves: list[Move]) -> None:
    play(mode, policy, moves)


@pytest.mark.soak
@SOAK
@given(mode=modes, policy=policies, moves=st.one_of(chaos(120), cooperation(80)))
def test_no_long_stream_breaks_an_invariant(mode: str, policy: int, moves: list[Move]) -> None:
    play(mode, policy, moves, thorough=True)


# -- replay is proof: what any stream wrote verifies clean, folds to the same state, and does so from a checkpoint too


def written(mode: str, policy: int, before: list[Move], after: list[Move]) -> None:
    """A stream is played and logged, with a checkpoint in the middle."""
    run = Run(mode, policy)
    run.play(before)
    log = MemoryLog("test/scaler", cluster="test", recorded_at=START)
    epoch = log.take_epoch(START)
    groups = [step.group(ordinal) for ordinal, step in enumerate(run.steps)]
    checkpoint = new_event(e.Checkpoint(PROJECTION, dump(run.state), "test", "test"), run.state.process.now, None)
    groups.append(Group(len(groups), (checkpoint,)))
    logged = len(run.steps)
    run.play(after)
    groups += [step.group(len(groups) + ordinal) for ordinal, step in enumerate(run.steps[logged:])]
    log.append(groups, epoch=epoch, recorded_at=START)
    start = log.head().checkpoint
    for rows in (list(log.read()), list(log.read(start - 1))):
        assert [str(one) for one in verify(rows, SCALER, fingerprint="test").differences] == []
        assert dump(fold_log(rows, SCALER)) == dump(run.state)


@QUICK
@given(mode=modes, policy=policies, before=st.one_of(chaos(30), cooperation(20)), after=cooperation(12))
def test_what_was_written_verifies(mode: str, policy: int, before: list[Move], after: list[Move]) -> None:
    written(mode, policy, before, after)


@pytest.mark.soak
@SOAK
@given(mode=modes, policy=policies, before=st.one_of(chaos(100), cooperation(60)), after=chaos(50))
def test_whatever_was_written_verifies(mode: str, policy: int, before: list[Move], after: list[Move]) -> None:
    written(mode, policy, before, after)


FOUND = {
    "reasons for labels come in the order of the labels as they were told": ("attach", [Move("config")], []),
    "deadlines that waited for a stale view come late": (
        "attach",
        [Move("stale"), Move("resource", 0, 1), Move("attach"), Move("attach"), Move("wait", 7), Move("synced")],
        [Move("write")],
    ),
}


@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND.keys())
def test_what_once_did_not_verify(found: tuple[str, list[Move], list[Move]]) -> None:
    mode, before, after = found
    written(mode, 0, before, after)
