"""A log that several versions wrote: each span is judged by the code that wrote it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dds_core.engine import checkpoint
from dds_core.events import Checkpoint, Started, encode
from dds_core.log import Envelope, MemoryLog, verify_chain
from dds_core.replay import VerifyReport, verify
from dds_core.scaler.component import SCALER
from dds_core.scaler.events import ClaimMoved
from tests.core.replay.tampering import changed, resealed, write_file
from tests.support.commands import dds
from tests.support.world import A100, World

OLD = Started("0.0.9", "f" * 64, 1, 1, "attach")
NEW = Started("0.1.0", SCALER.fingerprint, 1, 2, "attach")


def log_of(world: World) -> list[Envelope]:
    log = MemoryLog("c/scaler", cluster="cluster", recorded_at=0)
    epoch = log.take_epoch(0)
    log.append([step.group(place) for place, step in enumerate(world.steps)], epoch=epoch, recorded_at=0)
    return list(log.read())


@pytest.fixture(scope="module")
def rows() -> list[Envelope]:
    """Pods wait, two under the old version and one under the new, and a device is ordered for each."""
    world = three_nodes()
    for started, nodes in ((OLD, ("node0", "node1")), (NEW, ("node2",))):
        world.feed(started)
        world.sync()
        for node in nodes:
            world.waits(f"on-{node}", node)
            world.carry_out()
    return log_of(world)


def three_nodes() -> World:
    world = World("attach", scan_interval_seconds=0)
    for node in ("node0", "node1", "node2"):
        world.node(node)
    world.pool(A100, 4)
    return world


def ordered(rows: Sequence[Envelope]) -> list[int]:
    return [row.position for row in rows if row.type == "AttachOrdered"]


def other(data: dict[str, Any]) -> None:
    data["reason"] = "forged"


def judged(rows: Sequence[Envelope], **more: Any) -> VerifyReport:
    verify_chain(rows)
    return verify(rows, SCALER, **more)


def test_a_decision_of_other_code_is_told_and_does_not_fail(rows: list[Envelope]) -> None:
    first, _, last = ordered(rows)
    report = judged(resealed(changed(rows, first, other)))
    assert report.ok and [one.position for one in report.told] == [first]
    assert [(span.code, span.same, span.differences) for span in report.spans] == [
        ("", True, 0),
        ("0.0.9", False, 1),
        ("0.1.0", True, 0),
    ]
    begin, old, new = report.spans
    assert (begin.first, begin.last + 1, old.last + 1, new.last) == (2, old.first, new.first, rows[-1].position)
    assert old.first <= first <= old.last < new.first <= last


def test_a_decision_of_the_same_code_fails_whatever_other_code_did_before(rows: list[Envelope]) -> None:
    first, _, last = ordered(rows)
    report = judged(resealed(changed(changed(rows, first, other), last, other)), at_most=1)
    assert [one.position for one in report.differences] == [last] and [one.position for one in report.told] == [first]
    assert not report.ok


def test_more_differences_of_other_code_than_are_kept_are_counted_and_hide_nothing(rows: list[Envelope]) -> None:
    last = ordered(rows)[-1]
    forged: Sequence[Envelope] = rows
    for position in ordered(rows):
        forged = changed(forged, position, other)
    report = judged(resealed(forged), at_most=1)
    assert len(report.told) == 1 and report.spans[1].differences == 2
    assert [one.position for one in report.differences] == [last]


@pytest.mark.parametrize(("wrote", "same"), [(SCALER.fingerprint, True), ("f" * 64, False), ("", False)])
def test_a_log_that_begins_with_a_checkpoint_is_judged_by_who_wrote_that(wrote: str, same: bool) -> None:
    """As after an archive. A checkpoint of an older dds does not say."""
    world = three_nodes()
    begin = checkpoint(SCALER, world.state, world.now, "0.0.9")
    assert isinstance(begin.fact, Checkpoint)
    world.steps[:] = [begin._replace(fact=replace(begin.fact, fingerprint=wrote, code="0.0.9" if wrote else ""))]
    world.waits("one", "node0")
    rows = log_of(world)
    report = judged(resealed(changed(rows, ordered(rows)[0], other)))
    assert ([span.same for span in report.spans], report.ok) == ([same], not same)
    assert len(report.differences) + len(report.told) == 1


@pytest.mark.parametrize("span", [0, 1])
def test_what_fits_no_state_of_this_code_is_told(rows: list[Envelope], span: int) -> None:
    """A step that the table of today does not have, and an event that does not fold at all."""
    begin = [row.position for row in rows if row.type == "Started"][span]
    position = next(row.position for row in rows if row.type == "ClaimMoved" and row.position > begin)

    moved = encode(ClaimMoved("no-such-claim", "settled", "Detaching", "Released", 1, 1))
    report = judged(resealed([replace(row, data=moved) if row.position == position else row for row in rows]))
    assert position in [one.position for one in (report.told, report.differences)[span]]


# -- as the command says it ------------------------------------------------------------------------------------------------


def test_the_command_says_which_span_was_judged_how(rows: list[Envelope], tmp_path: Path) -> None:
    first, _, last = ordered(rows)
    path = write_file(tmp_path / "log.jsonl", resealed(changed(rows, first, other)))
    done = dds("log", "verify", path)
    assert done.exit_code == 0
    assert "by dds 0.0.9 (other rules, fingerprint ffffffffffff): 1 difference from this version" in done.stdout
    assert "to judge them, install dds 0.0.9" in done.stdout
    assert "by dds 0.1.0 (the same rules as this version): no difference" in done.stdout
    assert f"position {first}: expected AttachOrdered" in done.stdout
    strict = dds("log", "verify", path, "--strict")
    assert strict.exit_code == 2 and f"position {first}" in strict.stderr
    told = json.loads(dds("log", "verify", path, "--json").stdout)
    assert told["ok"] and [one["position"] for one in told["told"]] == [first] and told["differences"] == []
    assert [one["same"] for one in told["spans"]] == [True, False, True]
    wrong = write_file(tmp_path / "wrong.jsonl", resealed(changed(rows, last, other)))
    assert dds("log", "verify", wrong).exit_code == 2


def test_strict_goes_with_verify_alone(rows: list[Envelope], tmp_path: Path) -> None:
    path = write_file(tmp_path / "log.jsonl", rows)
    assert dds("replay", path, "--strict").exit_code == 1
