"""Verify can fail: whatever is changed, cut or swapped in a log is found, and its position named.

Without the chain made anew the chain breaks at the place. With it only the rules can tell: what was recorded is not what
they decide. `dds log verify` ends with 2 in every case, and says one line.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dds_adapters import sql
from dds_core.engine import Step
from dds_core.errors import MalformedEvent, UnknownEvent
from dds_core.events import Checkpoint, DeadlinePassed, PolicyChanged, encode
from dds_core.log import Envelope, MemoryLog, verify_chain
from dds_core.replay import VerifyReport, verify
from dds_core.scaler.component import SCALER
from dds_core.scaler.state import PROJECTION
from tests.adapters.log.writer import Job, groups
from tests.core.golden.replays import CLUSTER, CODE, LOG_NAME, RECORDED_AT, SALTS, SMALL, log_of, replayed
from tests.core.replay.tampering import changed, resealed, texts_of, write_file
from tests.support.commands import dds

LONGER = ("two_claims", "coexistence")


@pytest.fixture(scope="module")
def rows() -> list[Envelope]:
    """The log of first_attach."""
    return list(log_of(replayed("first_attach")).read())


def judged(rows: Sequence[Envelope]) -> VerifyReport:
    """The decisions, once the chain was found whole."""
    verify_chain(rows)
    return verify(rows, SCALER, fingerprint=CODE)


def first_of(rows: Sequence[Envelope], type: str) -> Envelope:
    return next(row for row in rows if row.type == type)


def refused(position: int, *args: str) -> str:
    """What `dds log verify` says on a log that is wrong at `position`. The log names the code of the tests, not this one."""
    done = dds("log", "verify", "--strict", *args)
    assert done.exit_code == 2, done.output
    said = done.stdout + done.stderr
    assert re.search(rf"\bposition {position}\b", said), said
    return said


# --- the chain made anew: the rules tell ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [
        {"stream": "another"},
        {"from_state": "Pending"},
        {"to_state": "Bound"},
        {"causation_id": "x"},
        {"occurred_at": 1},
    ],
    ids=lambda columns: "".join(columns),
)
def test_a_changed_column_of_a_fact_is_found_at_its_position(rows: list[Envelope], columns: dict[str, Any]) -> None:
    facts = [row for row in rows if row.causation_id is None]
    position = facts[len(facts) // 2].position
    edited = [replace(row, **columns) if row.position == position else row for row in rows]
    assert verify(resealed(edited), SCALER, fingerprint=CODE).differences[0].position == position


def test_a_decision_that_no_fact_caused_is_found(rows: list[Envelope]) -> None:
    last = rows[-1]
    decided = first_of(rows, "AttachOrdered")
    at = last.position + 1
    forged = replace(decided, position=at, group=last.group + 1, causation_id=None, occurred_at=last.occurred_at)
    report = verify(resealed([*rows, forged]), SCALER, fingerprint=CODE)
    assert [(d.position, d.expected) for d in report.differences] == [(at, "a fact")]


@pytest.mark.parametrize(
    "name", ["first_attach", *(pytest.param(name, marks=pytest.mark.full) for name in ("attach_failure", *LONGER))]
)
def test_any_changed_value_of_anything_decided_is_found_at_its_position(name: str) -> None:
    rows = list(log_of(replayed(name)).read())
    decided = [row for row in rows if row.causation_id is not None]
    assert decided
    for row in decided:
        until = rows[: row.position]
        for what, change in texts_of(row):
            report = verify(resealed(changed(until, row.position, change)), SCALER, fingerprint=CODE)
            assert report.differences, f"{row.type} {what} at {row.position}"
            assert report.differences[0].position == row.position, f"{row.type} {what}"


def test_any_changed_byte_of_a_decision_is_found_at_its_position(rows: list[Envelope]) -> None:
    """A byte of a name, a bracket or a comma too: what is left has the form of no event."""
    victim = first_of(rows, "AttachOrdered")
    data = victim.data or b""
    for place in range(len(data)):
        other = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        tampered = resealed([replace(row, data=other) if row is victim else row for row in rows[: victim.position]])
        try:
            found = verify(tampered, SCALER, fingerprint=CODE).differences[0].position
        except MalformedEvent as error:
            assert error.where == f"position {victim.position}"
        else:
            assert found == victim.position, other


def test_a_type_and_a_projection_that_are_not_known_are_said_to_be_so(rows: list[Envelope]) -> None:
    victim = first_of(rows, "AttachOrdered")
    with pytest.raises(UnknownEvent, match=f"position {victim.position}: type 'DetachDreamt' is not known"):
        judged(resealed([replace(row, type="DetachDreamt") if row is victim else row for row in rows]))
    newer = encode(Checkpoint(projection=PROJECTION + 1, picture=msgspec.Raw(b"{}")))
    checkpoint = replace(rows[1], type="Checkpoint", data=newer)
    with pytest.raises(UnknownEvent, match="position 2: the checkpoint holds projection"):
        judged(resealed([rows[0], checkpoint]))


@pytest.mark.parametrize("column", ["from_state", "to_state", "stream", "occurred_at"])
def test_a_changed_column_of_a_transition_is_found(rows: list[Envelope], column: str) -> None:
    victim = first_of(rows, "ClaimMoved")
    other: Any = victim.occurred_at + 1 if column == "occurred_at" else "Bound"
    report = judged(resealed([replace(r, **{column: other}) if r is victim else r for r in rows]))
    assert report.differences[0].position == victim.position


def test_a_changed_cause_of_a_decision_is_found(rows: list[Envelope]) -> None:
    victim = next(row for row in rows if row.causation_id not in (None, row.correlation_id))
    report = judged(resealed([replace(r, causation_id=r.correlation_id) if r is victim else r for r in rows]))
    assert report.differences[0].position == victim.position


def test_an_edited_policy_is_found_at_its_position_whatever_it_changes(rows: list[Envelope]) -> None:
    policy = first_of(rows, "PolicyChanged")
    for what, change in texts_of(policy):
        report = judged(resealed(changed(rows, policy.position, change)))
        assert report.differences[0].position == policy.position, what


def edited(knob: str, value: object) -> Callable[[dict[str, Any]], None]:
    """A policy edited with all care: its own digest fits too."""

    def change(data: dict[str, Any]) -> None:
        data["policy"][knob] = value
        data["digest"] = PolicyChanged(policy=data["policy"]).digest_of_policy()

    return change


@pytest.mark.parametrize(
    ("knob", "value", "told"),
    [
        ("mode", "attach", "AttachOrdered"),  # the first decision was made in mode observe
        ("no_removal_seconds", 14, "deadline idle"),  # the device would have gone earlier
        ("no_removal_seconds", 16, "deadline idle"),  # later: nothing was due yet
        ("hand_over", "clear", "HandOver"),
    ],
)
def test_a_policy_edited_with_all_care_is_found_where_it_would_have_decided_otherwise(
    rows: list[Envelope], knob: str, value: object, told: str
) -> None:
    policy = first_of(rows, "PolicyChanged")
    first = judged(resealed(changed(rows, policy.position, edited(knob, value)))).differences[0]
    assert first.position > policy.position
    assert told in f"{first.expected} {first.found}"


def test_an_edited_checkpoint_is_found_at_its_position() -> None:
    job = Job(recording="first_attach", mode="detach", backend="memory", batch=1, journeys=(), folder="")
    log = MemoryLog(LOG_NAME, cluster=CLUSTER, recorded_at=RECORDED_AT, salts=SALTS)
    log.append(list(groups(job)), epoch=log.take_epoch(RECORDED_AT), recorded_at=RECORDED_AT)
    rows = list(log.read())
    assert judged(rows).ok
    checkpoint = first_of(rows, "Checkpoint")
    for what, change in list(texts_of(checkpoint))[1::23]:  # the first is the projection's number
        report = verify(resealed(changed(rows, checkpoint.position, change)), SCALER, fingerprint=CODE)
        assert report.differences and report.differences[0].position == checkpoint.position, what


def test_an_edited_fact_is_found_at_what_followed_from_it(rows: list[Envelope]) -> None:
    fact = next(r for r in rows if r.type == "FabricResourceObserved" and b'"deleting":true' in (r.data or b""))
    report = judged(resealed(changed(rows, fact.position, lambda data: data["changes"].update(deleting=False))))
    assert report.differences[0].position == fact.position + 1


def test_a_deadline_left_out_or_made_up_is_found() -> None:
    steps = list(replayed("first_attach"))
    place = next(
        n for n, step in enumerate(steps) if isinstance(step.fact, DeadlinePassed) and step.at > steps[n - 1].at
    )
    without = list(log_of([*steps[:place], *steps[place + 1 :]]).read())
    report = judged(without)
    assert "deadline" in report.differences[0].expected
    early = Step(steps[place - 1].at, steps[place].fact, steps[place].caused)
    report = judged(list(log_of([*steps[:place], early, *steps[place + 1 :]]).read()))
    assert report.differences


@pytest.mark.parametrize("name", SMALL)
def test_a_decision_taken_out_or_put_in_is_found(name: str) -> None:
    steps = list(replayed(name))
    for place, step in enumerate(steps):
        if not step.caused:
            continue
        for other in (step.caused[:-1], [*step.caused, step.caused[-1]]):
            log = log_of([*steps[:place], step._replace(caused=other), *steps[place + 1 :]])
            report = judged(list(log.read()))
            assert report.differences, f"group {place}"
        break


# --- as the command says it ----------------------------------------------------------------------------------------------


def test_the_command_names_a_changed_decision(rows: list[Envelope], tmp_path: Path) -> None:
    victim = first_of(rows, "AttachOrdered")
    tampered = resealed(changed(rows, victim.position, lambda data: data.update(size=2)))
    said = refused(victim.position, write_file(tmp_path / "log.jsonl", tampered))
    assert '"size":1' in said and '"size":2' in said
    formless = resealed(changed(rows, victim.position, lambda data: data.update(colour="blue")))
    refused(victim.position, write_file(tmp_path / "formless.jsonl", formless))


def test_the_command_names_an_edited_policy(rows: list[Envelope], tmp_path: Path) -> None:
    position = first_of(rows, "PolicyChanged").position
    tampered = resealed(changed(rows, position, lambda data: data["policy"].update(mode="attach")))
    refused(position, write_file(tmp_path / "log.jsonl", tampered))
    careful = resealed(changed(rows, position, edited("mode", "attach")))
    refused(first_of(rows, "AttachOrdered").position, write_file(tmp_path / "careful.jsonl", careful))


@pytest.mark.parametrize(
    ("statement", "position"),
    [
        ("UPDATE dds_events SET data = replace(data, 'node', 'nodf') WHERE position = 20", 20),
        ("UPDATE dds_events SET type = 'NodeGone' WHERE position = 20", 20),
        ("UPDATE dds_events SET to_state = 'Bound' WHERE position = (SELECT min(position) FROM dds_events"
         " WHERE type = 'ClaimMoved')", 0),
        ("DELETE FROM dds_events WHERE position = 20", 20),
        ("UPDATE dds_events SET position = CASE position WHEN 20 THEN -21 ELSE -20 END WHERE position IN (20, 21);"
         "UPDATE dds_events SET position = -position WHERE position < 0", 20),
        ("UPDATE dds_events SET salt = NULL WHERE position = 20", 20),
    ],
)  # fmt: skip
def test_a_row_changed_in_the_database_is_found(
    rows: list[Envelope], statement: str, position: int, tmp_path: Path
) -> None:
    path = tmp_path / "log.sqlite3"
    sql.upgrade(f"sqlite:///{path}")
    with sql.Database(f"sqlite:///{path}") as database:
        database.import_log(rows)
        assert verify(database.log(LOG_NAME).read(), SCALER, fingerprint=CODE).ok
    with sqlite3.connect(path) as connection:
        connection.executescript(statement)
    connection.close()
    refused(position or first_of(rows, "ClaimMoved").position, str(path))


def test_an_event_correlated_with_another_group_is_found(rows: list[Envelope]) -> None:
    at = next(n for n, row in enumerate(rows) if row.type == "ClaimMoved")
    edited = resealed([*rows[:at], replace(rows[at], correlation_id=rows[1].correlation_id), *rows[at + 1 :]])
    assert [d.position for d in judged(edited).differences] == [rows[at].position]
