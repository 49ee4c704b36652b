"""A Perfetto file tells what the histories tell, slice by slice, and no two slices on a track overlap."""

from __future__ import annotations

import importlib
import shutil
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

from dds_adapters.export import Story
from dds_adapters.export.perfetto import Slice, lanes, perfetto
from dds_core.events.shared import Alerted
from dds_core.scaler.history import BOUND
from tests.core.scaler.history.told import LOGS, RECORDINGS, told
from tests.support.drawn import examples
from tests.support.traces import Trace, decoded

ALL = [*RECORDINGS, *LOGS]
OVER = 1000


def story(name: str) -> Story:
    return Story("prod-eu", told(name), lambda at, position: True)


def trace(story: Story) -> Trace:
    return decoded(b"".join(perfetto(story)))


def expected(story: Story) -> Counter[tuple[str, str, str, int, int]]:
    """Uid, category, name and nanoseconds of each slice, off the histories."""
    found: Counter[tuple[str, str, str, int, int]] = Counter()
    now = story.history.now
    for claim in story.history.claims.values():
        for span in claim.spans:
            found[claim.uid, "stage", span.stage, span.since * OVER, (span.until or now) * OVER] += 1
        for one in claim.attempts:
            name = f"attempt: {one.reason or one.outcome or 'under way'}"
            found[claim.uid, "attempt", name, one.since * OVER, (one.until or now) * OVER] += 1
    for device in story.history.devices.values():
        for held in device.spans:
            found[device.uid, "state", held.state, held.since * OVER, (held.until or now) * OVER] += 1
    return found


@pytest.mark.parametrize("name", ALL)
def test_slices_are_the_spans_and_attempts_of_the_history(name: str) -> None:
    whole = story(name)
    found = trace(whole)
    assert Counter((one.uid, one.category, one.name, one.since, one.until) for one in found.slices) == expected(whole)
    names = {one.uid: one.name for one in whole.history.claims.values()}
    nodes = {one.uid: f"node {one.node}" for one in whole.history.devices.values()}
    assert all(one.track == names[one.uid] for one in found.slices if one.process == "claims")
    assert all(one.process == nodes.get(one.uid, "claims") for one in found.slices)


@pytest.mark.parametrize("name", ["node_limit", "attach_failure", "fleet-6-scaler", "burst"])
def test_where_an_attempt_failed(name: str) -> None:
    whole = story(name)
    failed = Counter(
        (claim.name, f"failed: {one.reason}", one.until * OVER)
        for claim in whole.claims
        for one in claim.attempts
        if one.outcome == "failed"
    )
    found = Counter((one.track, one.name, one.since) for one in trace(whole).instants if one.category == "failure")
    assert found == failed
    assert found


def test_what_a_person_was_called_for() -> None:
    moments = list(told("first_attach"))
    claim = next(iter(story("first_attach").history.claims))
    place = len(moments) // 2
    before = moments[place]
    new, again = (Alerted(claim, "NoProgress", "nothing comes", "attach", reissued=one) for one in (False, True))
    called = before._replace(fact=None, caused=[new, again])
    found = trace(Story("c", [*moments[:place], called, *moments[place:]], lambda at, position: True))
    ((one, notes),) = ((one, notes) for one, notes in found.notes.items() if one.category == "alert")
    assert (one.process, one.track, one.name, one.since) == ("cluster c", "alerts", "NoProgress", before.at * OVER)
    assert notes == {"of": "default/train-1", "text": "nothing comes"}


@pytest.mark.parametrize("name", ["burst", "fleet-6-scaler", "node_limit"])
def test_counters_say_at_each_instant_how_many_there_are(name: str) -> None:
    whole = story(name)
    now = whole.history.now + 1
    waits = [span for claim in whole.claims for span in claim.spans if span.stage != BOUND]
    used = [span for device in whole.devices for span in device.spans if span.state == "used"]
    for counter, spans in (("claims waiting", waits), ("devices used", used)):
        values = trace(whole).counters[counter]
        assert values[0][0] == whole.since * OVER
        for at, value in values:
            there = sum(max(one.since, whole.since) * OVER <= at < (one.until or now) * OVER for one in spans)
            assert value == there, (counter, at)
    assert trace(whole).counters.keys() == {
        "claims waiting",
        *(f"devices {state}" for state in ("used", "idle", "attaching", "detaching", "error")),
    }


def test_the_clock_of_the_trace_is_the_wall_clock() -> None:
    whole = story("first_attach")
    assert trace(whole).clocks == {6: whole.since * OVER, 1: whole.since * OVER}


def test_what_a_slice_says_beside_its_name() -> None:
    found = trace(story("first_attach")).notes
    about = [notes for one, notes in found.items() if one.name == "used"]
    assert {one["claims"] for one in about} == {"default/train-1"}
    fabric = next(notes for one, notes in found.items() if one.name == "fabric")
    assert fabric == {"node": "node0000", "whose": "the fabric: attaching the device"}


def test_what_goes_on_says_so_and_ends_with_what_is_told() -> None:
    moments = list(told("first_attach"))
    cut = Story("c", moments[: len(moments) // 2], lambda at, position: True)
    found = trace(cut)
    going = sorted((one.name, one.until) for one, notes in found.notes.items() if "open" in notes)
    claim, devices = cut.claims[0], cut.devices
    names = [*("attempt: under way" for one in claim.attempts if not one.until), claim.stage]
    assert going == sorted((name, cut.now * OVER) for name in [*names, *(one.state for one in devices if one.state)])


def test_the_same_story_is_the_same_file() -> None:
    assert list(perfetto(story("burst"))) == list(perfetto(story("burst")))


def test_nothing_told_is_a_trace_without_events() -> None:
    found = trace(Story("c", [], lambda at, position: True))
    assert (found.slices, found.instants) == ([], [])


def between(since: int, until: int) -> Slice:
    return Slice(since, until, TrackEvent())


TIMES = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda pair: between(min(pair), max(pair)))


@examples(60, 2000)
@given(slices=st.lists(TIMES, max_size=12))
def test_slices_that_overlap_go_on_tracks_of_their_own(slices: list[Slice]) -> None:
    found = lanes(slices)
    assert Counter(id(one) for lane in found for one in lane) == Counter(map(id, slices))
    for lane in found:
        for one, other in combinations(lane, 2):
            apart = one.until <= other.since or other.until <= one.since
            within = one.since <= other.since <= other.until <= one.until
            around = other.since <= one.since <= one.until <= other.until
            assert apart or within or around


def test_what_nests_needs_no_second_track() -> None:
    attempts = [between(0, 5), between(5, 5), between(5, 9)]
    stages = [between(0, 2), between(2, 5), between(5, 9), between(9, 20)]
    assert len(lanes([*attempts, *stages])) == 1
    assert [len(lane) for lane in lanes([between(0, 5), between(3, 8), between(6, 7)])] == [2, 1]


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "\u202eevil\u202c", "x" * 5000, "a\x00b", "naïve ☃ 💥"])
def test_any_text_survives(text: str) -> None:
    whole = story("first_attach")
    for claim in whole.claims:
        claim.name = text
    assert {one.track for one in trace(whole).slices if one.process == "claims"} == {text}


@pytest.fixture(scope="module")
def trace_processor() -> Any:
    """The official trace processor on a file. Its package fetches the program; a test does not."""
    api = importlib.import_module("perfetto.trace_processor")

    kept = sorted(Path.home().glob(".local/share/perfetto/prebuilts/trace_processor_shell*"))
    program = shutil.which("trace_processor_shell") or next((str(one) for one in kept if one.suffix != ".tmp"), None)
    if program is None:
        how = "python -c 'from perfetto.trace_processor import TraceProcessor; TraceProcessor()' fetches it"
        pytest.skip(f"no trace_processor_shell: {how}")
    return lambda file: api.TraceProcessor(trace=str(file), config=api.TraceProcessorConfig(bin_path=program))


@pytest.mark.parametrize("name", ["first_attach", "attach_failure", "node_limit", "burst"])
def test_the_official_trace_processor_finds_the_same_slices(name: str, trace_processor: Any, tmp_path: Path) -> None:
    file = tmp_path / "trace.pftrace"
    file.write_bytes(b"".join(perfetto(story(name))))
    with trace_processor(file) as processor:
        found = Counter(
            (row.process, row.track, row.category, row.name, row.ts, row.dur)
            for row in processor.query(
                "SELECT process.name AS process, process_track.name AS track, category, slice.name AS name, ts, dur "
                "FROM slice JOIN process_track ON track_id = process_track.id JOIN process USING (upid)"
            )
        )
        wrong = "SELECT name FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"
        assert [row.name for row in processor.query(wrong)] == []
    told = decoded(file.read_bytes())
    assert found == Counter(
        (one.process, one.track, one.category, one.name, one.since, one.until - one.since)
        for one in [*told.slices, *told.instants]
    )
