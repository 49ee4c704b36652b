"""Moments from logs, erased data, checkpoints, and the text's form."""

from __future__ import annotations

import pytest

from dds_core import events as e
from dds_core.log import MemoryLog
from dds_core.replay import moments, of_steps
from dds_core.scaler.component import SCALER
from dds_core.scaler.state import PROJECTION, dump
from dds_core.scaler.timeline import Directory, timeline
from dds_core.timeline import Entry, Moment, Note, as_data, render_text
from dds_core.timeline.instants import duration, micros, moment_of, rfc3339, time_of_day
from tests.support.world import A100, World

MIDNIGHT = 1_795_219_200_000_000  # 2026-11-21


def world() -> World:
    made = World("observe", scan_interval_seconds=0)
    made.node("node0")
    made.pool(A100, 2)
    made.claim("train")
    made.allocate("train", "node0")
    made.request("composability-x", "node0")
    return made


def logged(made: World) -> MemoryLog:
    log = MemoryLog("test/scaler", cluster="c", recorded_at=1)
    epoch = log.take_epoch(1)
    log.append([step.group(n) for n, step in enumerate(made.steps)], epoch=epoch, recorded_at=1)
    return log


def test_a_log_tells_what_the_replay_told_at_the_same_positions() -> None:
    made = world()
    assert list(moments(logged(made).read(), SCALER)) == list(of_steps(made.steps))
    assert list(moments(logged(made).read_lean(), SCALER)) == list(of_steps(made.steps))
    assert sum(moment.length for moment in of_steps(made.steps)) == logged(made).head().position - 1


def test_what_was_erased_is_said() -> None:
    made = world()
    log = logged(made)
    moved = next(row for row in log.read() if row.type == "ClaimMoved")
    fact = next(row for row in log.read() if row.type == "AttachRequestObserved")
    log.redact(positions=[moved.position, fact.position])
    rows = list(moments(log.read(), SCALER))
    told = list(timeline(rows, Directory().read(rows).find("default/train")))
    assert [note.text for entry in told for note in entry.notes if note.kind == "erased"] == [
        f"1 event was erased, of the group at position {moved.position - 1}",
        f"1 event was erased, of the group at position {fact.position}",
    ]
    assert [(entry.source, entry.target) for entry in told if entry.trigger] == [("Pending", "Attaching")]


def test_a_log_that_begins_with_a_checkpoint_goes_on_telling() -> None:
    made = world()
    checkpoint = Moment(1, made.now, e.Checkpoint(projection=PROJECTION, picture=dump(made.state)), [])
    before = len(made.steps)
    made.condition("train", "FabricDeviceReschedule")
    rows = [checkpoint, *of_steps(made.steps[before:], 2)]
    entries = list(timeline(rows, Directory().read(rows).find("default/train")))
    assert (entries[0].name, entries[0].source, entries[0].target) == ("default/train", "Attaching", "Attached")
    assert entries[0].after is not None


def entry(**fields: object) -> Entry:
    base = Entry(MIDNIGHT, 7, "claim", "ns/train", "uid", "ordered", "Pending", "Attaching", 1_400_000, "because")
    return base._replace(**fields)  # type: ignore[arg-type]


def test_the_text_has_a_heading_for_each_day_and_aligns_what_is_long() -> None:
    long = " ".join(["word"] * 30)
    later = entry(at=MIDNIGHT + 86_400_000_000, cause=long, notes=(Note(MIDNIGHT, "fact", long),))
    lines = render_text([entry(), later], width=80).splitlines()
    assert lines[0] == "2026-11-21 UTC"
    assert lines[1] == "00:00:00.000  Pending → Attaching    +1.4 s       because"
    assert lines[2:4] == ["", "2026-11-22 UTC"]
    assert all(len(line) <= 80 for line in lines)
    assert lines[5].startswith(" " * 50 + "word")


def test_roles_are_given_to_whoever_shows_the_text() -> None:
    seen: set[str] = set()

    def style(text: str, role: str) -> str:
        seen.add(role)
        return text

    noted = entry(notes=tuple(Note(MIDNIGHT, kind, "x") for kind in ("fact", "act", "decision", "erased")))
    decided = entry(kind="decision", trigger="")
    assert render_text([noted, decided], style=style, names=True) == render_text([noted, decided], names=True)
    assert seen == {"name", "time", "state", "cause", "fact", "act", "decision", "erased"}


def test_an_entry_as_data_has_seconds_and_rfc_3339() -> None:
    data = as_data(entry(notes=(Note(MIDNIGHT, "fact", "x"),)))
    assert data["at"] == "2026-11-21T00:00:00.000000Z"
    assert data["after_seconds"] == 1.4
    assert data["notes"] == [{"at": "2026-11-21T00:00:00.000000Z", "kind": "fact", "text": "x"}]
    assert as_data(entry(after=None))["after_seconds"] is None


@pytest.mark.parametrize(
    ("micros_long", "text"),
    [
        (0, "0 ms"),
        (38_400, "38 ms"),
        (999_499, "999 ms"),
        (999_500, "1.0 s"),
        (1_440_000, "1.4 s"),
        (59_949_999, "59.9 s"),
        (59_950_000, "1 min 00 s"),
        (125_000_000, "2 min 05 s"),
        (3_720_000_000, "1 h 02 min"),
        (273_600_000_000, "3 d 04 h"),
    ],
)
def test_durations_are_short(micros_long: int, text: str) -> None:
    assert duration(micros_long) == text


def test_instants_are_cut_and_come_back() -> None:
    assert time_of_day(MIDNIGHT + 999_999) == "00:00:00.999"
    assert rfc3339(MIDNIGHT + 1) == "2026-11-21T00:00:00.000001Z"
    assert micros(moment_of(MIDNIGHT + 1)) == MIDNIGHT + 1


def test_other_lives_are_kept_out() -> None:
    made = world()
    made.claim("bystander")
    rows = list(of_steps(made.steps))
    entries = timeline(rows, Directory().read(rows).find("default/bystander"))
    assert [note.text for entry in entries for note in entry.notes if "train" in note.text] == []
