"""A log verified in parts gives what it gives in one piece: sound, of several versions, repaired, and tampered with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dds_core.engine import Step, checkpoint
from dds_core.errors import DdsError
from dds_core.events import Checkpoint, LogRepaired, Started, encode
from dds_core.log import CHECKPOINT, Anchor, ChainCheck, Envelope, MemoryLog, anchor_of, checked
from dds_core.log.envelope import Head, lean
from dds_core.replay import PartReport, VerifyReport, divided, joined, verify, verify_part
from dds_core.scaler.component import SCALER, Engine
from tests.core.golden.replays import CLUSTER, CODE, LOG_NAME, RECORDED_AT, SALTS, replayed
from tests.core.replay.tampering import changed, resealed, texts_of

EVERY = 20
"""Groups between two checkpoints."""


@cache
def written(name: str, restart: bool = False) -> MemoryLog:
    """The log of a recording with checkpoints on the way; `restart`: after the second one another version takes over."""
    log = MemoryLog(LOG_NAME, cluster=CLUSTER, recorded_at=RECORDED_AT, salts=SALTS)
    steps, state, checkpoints = list[Step](), SCALER.state(), 0
    for number, step in enumerate(replayed(name), 1):
        steps.append(step)
        for event in (step.fact, *(event for event, _ in step.caused)):
            SCALER.apply(state, event, step.at)
        state.dirty.clear()
        if number % EVERY == 0:
            checkpoints += 1
            one = checkpoint(SCALER, state, step.at, CODE)
            assert isinstance(one.fact, Checkpoint)
            steps.append(one._replace(fact=replace(one.fact, fingerprint=CODE)))
            if restart and checkpoints == 2:
                engine = Engine(state)
                steps.append(engine.feed(Started("other", "o" * 64, 1, 2, "observe"), step.at))
    epoch = log.take_epoch(RECORDED_AT)
    log.append([step.group(place) for place, step in enumerate(steps)], epoch=epoch, recorded_at=RECORDED_AT)
    return log


@pytest.fixture(scope="module")
def rows() -> list[Envelope]:
    return list(written("first_attach").read())


def positions(rows: Sequence[Envelope], type: str = CHECKPOINT) -> list[int]:
    return [row.position for row in rows if row.type == type]


def in_parts(
    rows: Sequence[Envelope], number: int, anchors: Sequence[Anchor] = ()
) -> tuple[VerifyReport, ChainCheck] | None:
    """What is found in parts; None if the log has to be verified in one piece."""
    first, last = rows[0].position, max(row.position for row in rows)
    cuts = [row.position for row in rows if row.type == CHECKPOINT and row.data is not None]
    starts = [lean(row) for row in rows if row.type == "Started" or (row is rows[0] and row.type == CHECKPOINT)]
    found: list[PartReport | None] = []
    for part in divided(first, last, cuts, starts, number, CODE):
        until = part.last + 1 if part.last else last
        mine = [row for row in rows if (part.first or first) <= row.position <= until]
        try:
            found.append(verify_part(mine, SCALER, part, ChainCheck(anchors), fingerprint=CODE))
        except DdsError:
            found.append(None)
    assert len(found) > 1, "there is nothing to join"
    return joined(found)


def told(verified: Callable[[], tuple[VerifyReport, ChainCheck]], head: Head | None = None) -> dict[str, Any]:
    """All that is said of a log: the report or the error, also of the anchors and the head."""
    try:
        report, check = verified()
        chain = check.report()
        if head is not None:
            check.check_head(head)
    except DdsError as error:
        return {"error": (type(error), str(error))}
    return {**asdict(report), "chain": (chain.log, chain.first, chain.last, chain.hash, chain.events)}


def same(
    rows: Sequence[Envelope], number: int = 3, anchors: Sequence[Anchor] = (), head: Head | None = None
) -> VerifyReport | None:
    """The joined report; as `dds log verify` says it, it has to be that of one piece."""

    def whole() -> tuple[VerifyReport, ChainCheck]:
        check = ChainCheck(anchors)
        return verify(checked(rows, check), SCALER, fingerprint=CODE), check

    found = in_parts(rows, number, anchors)
    assert told(lambda: found or whole(), head) == told(whole, head)
    return found[0] if found is not None else None


@pytest.mark.parametrize("name", ["first_attach", "two_claims", "attach_failure", "coexistence"])
@pytest.mark.parametrize("number", [2, 3, 50])
def test_a_sound_log_is_found_sound_in_any_number_of_parts(name: str, number: int) -> None:
    log = written(name)
    rows = list(log.read())
    report = same(rows, number, [anchor_of(log.head())], log.head())
    assert report is not None and report.ok and report.events == len(rows) - 1
    cut = rows[positions(rows)[0] - 1 :]  # as after an archive
    report = same(cut, number)
    assert report is not None and report.events == len(cut)


def test_the_head_and_anchors_are_compared_as_in_one_piece() -> None:
    log = written("first_attach", restart=True)
    rows, head = list(log.read()), log.head()
    for other in (
        replace(head, ordinal=head.ordinal + 1),
        replace(head, checkpoint=positions(rows)[0]),
        replace(head, position=head.position - 1),
        replace(head, archived=3),
    ):
        assert same(rows, head=other) is not None
    for position in (1, positions(rows)[1], head.position, head.position + 1):
        same(rows, anchors=[Anchor(LOG_NAME, position, bytes(32))])


def test_what_another_version_wrote_is_told_in_its_span() -> None:
    rows = list(written("first_attach", restart=True).read())
    for number in (2, 4, 9):
        report = same(rows, number)
        assert report is not None and [one.same for one in report.spans] == [True, False]
        assert report.told and not report.differences and report.spans[1].differences == len(report.told)


def texts(row: Envelope) -> Callable[[dict[str, Any]], None]:
    """A change of the row's last text."""
    return list(texts_of(row))[-1][1]


def damages(rows: Sequence[Envelope], row: Envelope) -> Iterator[tuple[str, list[Envelope]]]:
    """Ways to tamper with a row, with and without the chain made anew."""

    def put(one: Envelope) -> list[Envelope]:
        return [one if other is row else other for other in rows]

    at = rows.index(row)
    edited = changed(rows, row.position, texts(row))
    yield "edited", edited
    yield "edited, resealed", resealed(edited)
    yield "formless, resealed", resealed(put(replace(row, data=b'{"colour":"blue"}')))
    yield "no json, resealed", resealed(put(replace(row, data=b"{")))
    yield "of another type, resealed", resealed(put(replace(row, type="PodObserved")))
    yield (
        "a checkpoint, resealed",
        resealed(put(replace(row, type=CHECKPOINT, data=encode(Checkpoint(1, msgspec.Raw(b'{"a":1}')))))),
    )
    yield "of another group, resealed", resealed(put(replace(row, group=row.group + 1)))
    yield "caused, resealed", resealed(put(replace(row, correlation_id="x", causation_id="x")))
    yield "later, resealed", resealed(put(replace(row, occurred_at=row.occurred_at + 1)))
    yield "of another epoch", put(replace(row, epoch=row.epoch + 1))
    yield "erased", put(replace(row, data=None, salt=None))
    yield "half erased", put(replace(row, salt=None))
    yield "of another hash", put(replace(row, hash=bytes(32)))
    yield "gone", [*rows[:at], *rows[at + 1 :]]
    yield "twice", [*rows[:at], row, *rows[at:]]
    yield "swapped", [*rows[:at], *rows[at + 1 : at + 2], row, *rows[at + 2 :]]
    yield "cut", list(rows[:at])


@pytest.mark.parametrize(
    "step", [-1, 0, 1, pytest.param(2, marks=pytest.mark.full), pytest.param(7, marks=pytest.mark.full)]
)
def test_a_log_tampered_with_at_a_border_gives_the_findings_of_one_piece(rows: list[Envelope], step: int) -> None:
    cuts = positions(rows)
    joint = Counter[str]()
    for place in (cuts[0] + step, cuts[-1] + step):
        joint += tampered_at(rows, place, len(cuts) + 1)
    assert joint["edited, resealed"] and joint["cut"], joint  # else nothing was compared
    assert not joint["edited"] + joint["gone"] + joint["swapped"], joint


def test_a_log_tampered_with_at_its_ends_gives_the_findings_of_one_piece(rows: list[Envelope]) -> None:
    for place in (2, len(rows) - 1, len(rows)):
        tampered_at(rows, place, 3)


def tampered_at(rows: list[Envelope], place: int, number: int) -> Counter[str]:
    """How often the findings on a log with one bad row are joined from parts."""
    joint = Counter[str]()
    for what, tampered in damages(rows, rows[place - 1]):
        if len(positions(tampered)) > 1:
            try:
                joint[what] += same(tampered, number) is not None
            except AssertionError as error:
                raise AssertionError(f"{what} at {place}") from error
    return joint


def test_a_checkpoint_that_does_not_follow_is_found_at_the_border(rows: list[Envelope]) -> None:
    """With all care: the chain made anew, and loadable, so that both parts are sound in themselves."""
    cuts = positions(rows)
    victim, other = rows[cuts[1] - 1], rows[cuts[0] - 1]
    forged = resealed([replace(row, data=other.data) if row is victim else row for row in rows])
    report = same(forged, len(cuts) + 1)
    assert report is not None
    first = report.differences[0]
    assert (first.position, first.expected) == (cuts[1], "a checkpoint of the state so far")


def test_a_repair_is_judged_as_in_one_piece(rows: list[Envelope]) -> None:
    cuts = positions(rows)
    for place in (cuts[1] + 1, cuts[1] + 4):
        for stops in (3, cuts[0] + 1, cuts[1], place - 1, place):
            fact = LogRepaired(stops, place, "torn")
            row = rows[place - 1]
            head = replace(
                row, type="LogRepaired", stream="scaler", data=encode(fact), event_id=f"{LOG_NAME}:{row.epoch}"
            )
            same(resealed([head if one is row else one for one in rows]), len(cuts) + 1)


def test_more_differences_than_are_kept_end_in_one_piece(rows: list[Envelope], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dds_core.replay.parts.AT_MOST", 3)
    decided = [row for row in rows if row.causation_id is not None]
    edited: Sequence[Envelope] = rows
    for row in (decided[0], decided[len(decided) // 2], decided[-1]):
        edited = changed(edited, row.position, texts(row))
    assert in_parts(resealed(edited), 3) is None
