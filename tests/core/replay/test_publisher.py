"""A publisher's log is a proof as a scaler's is: it folds to what the publisher knew, and whatever was changed in it is found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from dds_core.component import COMPONENTS, component_of
from dds_core.engine import Step
from dds_core.errors import InputError, UnknownEvent
from dds_core.events import Checkpoint, DeadlinePassed, NodeLabelled
from dds_core.log import Envelope, MemoryLog, verify_chain
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.events import PoolPublished
from dds_core.publisher.policy import PublishPolicy
from dds_core.replay import VerifyReport, fold_log, moments, re_decide, verify
from dds_core.replay.logged import event_of
from dds_core.scaler.component import SCALER, Engine
from tests.core.replay.tampering import edits
from tests.support.pool_story import A100, START, PoolStory, told_story


def long_story() -> PoolStory:
    """With deadlines: a write that was not seen, a refused one that may be tried again, level passes."""
    story = told_story()
    story.tick(400)
    story.stock("1", A100, 4)
    return story


@pytest.fixture(scope="module")
def story() -> PoolStory:
    return long_story()


@pytest.fixture(scope="module")
def rows(story: PoolStory) -> list[Envelope]:
    return list(story.log().read())


def judged(rows: Sequence[Envelope]) -> VerifyReport:
    """The decisions, once the chain was found whole."""
    verify_chain(rows)
    return verify(rows, component=PUBLISHER)


def with_checkpoint(story: PoolStory, of: PoolStory) -> MemoryLog:
    """The log of a story, a checkpoint of the state of another, and one fact more."""
    groups = story.groups()
    fact = Checkpoint(PUBLISHER.projection, PUBLISHER.dump(of.state))
    groups.append(Step(story.now, fact, []).group(len(groups)))
    log = MemoryLog("lab/publisher", cluster="uid", recorded_at=START)
    log.append(groups, epoch=log.take_epoch(START), recorded_at=story.now)
    return log


def test_it_folds_to_what_the_publisher_knew_and_every_decision_is_found_again(
    story: PoolStory, rows: list[Envelope]
) -> None:
    report = judged(rows)
    assert (report.ok, [span.same for span in report.spans], report.events) == (True, [True], len(rows) - 1)
    assert any(isinstance(step.fact, DeadlinePassed) for step in story.steps)
    assert PUBLISHER.dump(fold_log(rows, component=PUBLISHER)) == PUBLISHER.dump(story.state)


def test_any_changed_value_of_anything_decided_is_found_at_its_position(rows: list[Envelope]) -> None:
    decided = [row for row in rows if row.causation_id is not None]
    assert {"PoolPublished", "NodeLabelled"} <= {row.type for row in decided}
    for row in decided:
        for what, edited in edits(rows, row):
            report = judged(edited)
            assert report.differences and report.differences[0].position == row.position, what


def rewritten(story: PoolStory, steps: list[Step]) -> list[Envelope]:
    """The rows of a log of these steps in place of the story's."""
    log = MemoryLog("lab/publisher", cluster="uid", recorded_at=START)
    log.append([one.group(n) for n, one in enumerate(steps)], epoch=log.take_epoch(START), recorded_at=story.now)
    return list(log.read())


def test_a_deadline_that_is_left_out_or_made_up_is_found(story: PoolStory) -> None:
    places = [n for n, step in enumerate(story.steps) if isinstance(step.fact, DeadlinePassed)]
    kinds = [getattr(story.steps[place].fact, "kind", "") for place in places]
    assert kinds == ["readback", "retry", "gone", "level"]
    for place, kind in zip(places, kinds, strict=True):
        step = story.steps[place]
        missing = judged(rewritten(story, story.steps[:place] + story.steps[place + 1 :])).differences
        assert missing[0].expected.startswith(f"deadline {kind} of "), missing
        early = step._replace(fact=replace(step.fact, due=step.at - 1))
        made_up = judged(rewritten(story, [*story.steps[:place], early, *story.steps[place + 1 :]])).differences
        assert made_up[0].found.startswith(f"deadline {kind} of "), made_up


def test_a_checkpoint_is_what_the_log_before_it_amounts_to(story: PoolStory) -> None:
    whole = with_checkpoint(story, story)
    assert judged(list(whole.read())).ok
    checkpoint = next(row for row in whole.read() if row.type == "Checkpoint")
    begun = fold_log(whole.read_lean(after=checkpoint.position - 1), component=PUBLISHER)
    assert PUBLISHER.dump(begun) == PUBLISHER.dump(story.state)
    wrong = judged(list(with_checkpoint(story, told_story()).read()))
    assert [one.expected for one in wrong.differences] == ["a checkpoint of the state so far"]


def test_what_was_erased_is_not_judged_up_to_the_next_checkpoint(story: PoolStory) -> None:
    log = with_checkpoint(story, story)
    position = next(row.position for row in log.read() if row.type == "StockObserved")
    log.redact(positions=[position])
    report = judged(list(log.read()))
    last = next(row.position for row in log.read() if row.type == "Checkpoint")
    assert (report.ok, report.unjudged) == (True, [(position, last - 1)])


def test_other_code_is_told_and_compared_all_the_same(rows: list[Envelope]) -> None:
    report = verify(rows, component=PUBLISHER, fingerprint="another")
    assert (report.ok, report.told) == (True, [])
    assert [(span.same, span.fingerprint) for span in report.spans] == [(False, PUBLISHER.fingerprint)]


def test_under_its_own_policy_the_same_is_decided(rows: list[Envelope]) -> None:
    told = list(re_decide(rows, PublishPolicy(mode="publish"), PUBLISHER))
    published = [one for again in told for one in again.step.decisions if isinstance(one, PoolPublished)]
    assert published
    first = next(n for n, again in enumerate(told) if again.differs)
    assert isinstance(told[first].step.fact, DeadlinePassed) or first > len(told) // 2, "outcomes of writes are dropped"


def test_under_another_policy_the_loop_is_open(rows: list[Envelope]) -> None:
    told = list(re_decide(rows, PublishPolicy(mode="publish", label_nodes=False), PUBLISHER))
    assert not [one for again in told for one in again.step.decisions if isinstance(one, NodeLabelled)]
    assert told[-1].differs


def test_a_checkpoint_of_another_form_is_refused_at_its_position(story: PoolStory) -> None:
    row = next(row for row in with_checkpoint(story, story).read() if row.type == "Checkpoint")
    assert event_of(row, PUBLISHER) is not None
    other = row.data.replace(b'"projection":1', b'"projection":2') if row.data else b""
    with pytest.raises(UnknownEvent, match=rf"position {row.position}: the checkpoint holds projection 2"):
        event_of(replace(row, data=other), PUBLISHER)


# -- whose log it is -------------------------------------------------------------------------------------------------------


def test_a_log_says_in_its_name_whose_it_is() -> None:
    assert component_of("prod-eu/publisher") is COMPONENTS["publisher"] is PUBLISHER
    assert component_of("prod-eu/scaler") is COMPONENTS["scaler"] is SCALER
    assert component_of("burst/second-try") is SCALER, "as people name what they write from recordings"


def test_a_publishers_log_is_not_taken_for_the_scalers(rows: list[Envelope]) -> None:
    for reading in (
        lambda: verify(rows, SCALER),
        lambda: fold_log(rows, SCALER),
        lambda: list(moments(rows, SCALER)),
        lambda: list(re_decide(rows, PublishPolicy(), SCALER)),
    ):
        with pytest.raises(InputError, match="position 1: it is the log of a publisher; give component=PUBLISHER"):
            reading()


def test_a_scalers_log_is_not_taken_for_the_publishers() -> None:
    log = MemoryLog("prod-eu/scaler", cluster="c", recorded_at=1)
    for reading in (lambda: verify(log.read(), PUBLISHER), lambda: fold_log(log.read(), PUBLISHER)):
        with pytest.raises(InputError, match="position 1: it is the log of a scaler; give component=SCALER"):
            reading()


def test_the_scalers_is_the_default() -> None:
    assert Engine().component is SCALER
