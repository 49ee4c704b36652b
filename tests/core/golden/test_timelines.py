"""Every recording tells the timeline that was checked by hand against its raw events.

`NAME.md` beside each `NAME.txt` says what happens in the raw stream, and why our decisions differ from what the reference
scaler did. A timeline that changes is looked at, checked again, and written anew by `tests/core/golden/regenerate.py`.
"""

from __future__ import annotations

import re
from difflib import unified_diff

import pytest

from dds_core.timeline.instants import time_of_day
from tests.core.golden.replays import ALL, GOLDEN, RECORDINGS, REPORTED, overview_of, recorded, timeline_of

_INSTANT = re.compile(r"\b\d\d:\d\d:\d\d\.\d{3}\b")


@pytest.mark.parametrize("name", ALL)
def test_the_timeline_is_the_one_that_was_checked(name: str) -> None:
    golden = (GOLDEN / f"{name}.txt").read_text()
    told = timeline_of(name)
    changed = "\n".join(list(unified_diff(golden.splitlines(), told.splitlines(), "golden", "now", lineterm=""))[:60])
    assert told == golden, f"the timeline of {name} has changed:\n{changed}"


@pytest.mark.parametrize("name", REPORTED)
def test_a_report_says_in_a_few_lines_what_happened(name: str) -> None:
    told = overview_of(name)
    assert told == (GOLDEN / "reports" / f"{name}.txt").read_text()
    assert len(told.splitlines()) <= 25


def test_every_recording_has_a_timeline_a_note_and_a_log() -> None:
    recordings = {path.name.removesuffix(".jsonl.gz") for path in RECORDINGS.iterdir()}
    logs = {path.name.partition(".")[0] for path in (GOLDEN / "logs").iterdir()}
    assert {path.stem for path in GOLDEN.glob("*.txt")} == recordings | {"shares-named"} == set(ALL)
    assert {path.stem for path in GOLDEN.glob("*.md")} - {"README"} == set(ALL) == logs


@pytest.mark.parametrize("name", ALL)
def test_a_note_names_only_instants_at_which_something_happened(name: str) -> None:
    named = set(_INSTANT.findall((GOLDEN / f"{name}.md").read_text()))
    raw = {time_of_day(event.at) for event in recorded(name)}
    told = set(_INSTANT.findall((GOLDEN / f"{name}.txt").read_text()))
    assert named - raw - told == set()
    assert named, "a note gives the instants of what it says"
