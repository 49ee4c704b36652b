"""With another policy recorded deadlines and outcomes are dropped, and from the first difference on the loop is open."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_adapters.kubernetes.recording import replay_recording
from dds_core import MemoryLog, verify
from dds_core.engine import Step
from dds_core.events import DeadlinePassed, PolicyChanged, Started, encode
from dds_core.kit.policy import MODES, Mode
from dds_core.log import Envelope, fixed_salts
from dds_core.replay import OPEN_LOOP, Redecided, re_decide
from dds_core.scaler.component import SCALER
from dds_core.scaler.events import HandOver, VictimMarked
from dds_core.scaler.policy import Policy
from tests.core.golden.replays import SMALL, log_of, policy_of, replayed

MINUTE = 60_000_000


def rows_of(name: str) -> list[Envelope]:
    return list(log_of(replayed(name)).read())


def first_open(redecided: list[Redecided]) -> Step:
    return next(one.step for one in redecided if one.differs)


@pytest.mark.parametrize("name", SMALL)
def test_under_its_own_policy_everything_is_decided_again_and_the_loop_stays_closed(name: str) -> None:
    again = list(re_decide(rows_of(name), policy_of(name), SCALER))
    assert not any(one.differs for one in again)
    told = [encode(event) for one in again for event, _ in one.step.caused]
    assert told == [encode(event) for step in replayed(name) for event, _ in step.caused]


def test_a_longer_idle_time_opens_the_loop_where_the_mark_is_missing() -> None:
    policy = policy_of("first_attach").model_copy(update={"no_removal_seconds": 3600})
    recorded = [step for step in replayed("first_attach") if any(isinstance(d, VictimMarked) for d in step.decisions)]
    again = list(re_decide(rows_of("first_attach"), policy, SCALER))
    assert not any(isinstance(d, VictimMarked) for one in again for d in one.step.decisions)
    assert first_open(again).at > recorded[0].at


def test_a_shorter_idle_time_opens_the_loop_with_a_deadline_of_its_own() -> None:
    policy = policy_of("first_attach").model_copy(update={"no_removal_seconds": 5})
    again = list(re_decide(rows_of("first_attach"), policy, SCALER))
    opened = first_open(again)
    assert isinstance(opened.fact, DeadlinePassed) and opened.fact.kind == "idle"
    assert any(isinstance(decision, VictimMarked) for decision in opened.decisions)


def test_another_hand_over_opens_the_loop_at_the_first_hand_over() -> None:
    policy = policy_of("first_attach").model_copy(update={"hand_over": "clear"})
    again = list(re_decide(rows_of("first_attach"), policy, SCALER))
    hand_overs = [step for step in replayed("first_attach") if any(isinstance(d, HandOver) for d in step.decisions)]
    assert first_open(again).at == hand_overs[0].at
    closed = [one.differs for one in again]
    assert closed == sorted(closed), "once open, the loop does not close again"


def test_recorded_deadlines_are_dropped_and_the_new_policy_is_the_only_one() -> None:
    policy = Policy(no_removal_seconds=7, scan_interval_seconds=20)
    steps = [one.step for one in re_decide(rows_of("first_attach"), policy, SCALER)]
    given = [step.fact for step in steps if isinstance(step.fact, PolicyChanged)]
    assert [fact.policy["no_removal_seconds"] for fact in given] == [7]
    assert isinstance(steps[0].fact, Started)
    due = [step for step in steps if isinstance(step.fact, DeadlinePassed)]
    assert {step.fact.kind for step in due if isinstance(step.fact, DeadlinePassed)} >= {"idle", "level"}
    late = {step.fact.kind for step in due if isinstance(step.fact, DeadlinePassed) and step.at != step.fact.due}
    assert late <= {"nudge"}, "a device is listed after it has its id, and may be looked at from then on"
    assert steps[-1].at - steps[0].at < MINUTE


def test_it_is_said() -> None:
    assert OPEN_LOOP == "open loop: the world did not follow from here on"


# -- every recording, replayed under the policy as it is shipped and in every mode, is judged clean


RECORDINGS = sorted((Path(__file__).parents[2] / "data" / "recordings").glob("*.jsonl.gz"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_a_replay_under_the_shipped_policy_verifies(path: Path, mode: Mode) -> None:
    """In binding_timeout the learned timeout moves a budget's deadline into the past: it is told late, and that is right."""
    log = MemoryLog("c/scaler", cluster="cluster", recorded_at=0, salts=fixed_salts(b"recordings"))
    epoch = log.take_epoch(0)
    steps = replay_recording(path, Policy(mode=mode))
    log.append([step.group(ordinal) for ordinal, step in enumerate(steps)], epoch=epoch, recorded_at=0)
    assert [str(difference) for difference in verify(log.read(), SCALER).differences] == []
