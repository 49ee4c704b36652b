"""The reference's scan interval, found in when it wrote."""

from __future__ import annotations

from random import Random

import pytest

from dds_whatif.scans import Scans

SECOND = 1_000_000


def scanned(every: int, objects: list[float], seen: list[float], changes: list[float] | None = None) -> Scans:
    """Objects came at these seconds, and of each timer those scans wrote that are in `seen` (by number, from 1)."""
    found = Scans()
    for at in sorted([*objects, *(changes or [])]):
        found.changed(round(at * SECOND), new=at in objects)
    for at in objects:
        for number in seen:
            found.wrote(round((at + 0.1 + number * every * 1.004) * SECOND))
    return found


@pytest.mark.parametrize("every", [3, 5, 30, 60])
def test_it_is_found_in_a_few_scans_of_two_timers(every: int) -> None:
    found = scanned(every, [0.5, 12.3], [1, 2, 4])
    assert found.interval == every
    assert found.begin(every) == pytest.approx([0.1 + 0.004 * every] * 2)


def test_a_write_soon_after_a_change_answers_that_change() -> None:
    found = scanned(5, [0.5], [1, 2, 4], changes=[10.5])
    assert len(found.unasked) == 2


def test_one_scan_does_not_tell_of_which_number_it_is() -> None:
    assert scanned(5, [0.5], [3]).interval is None


@pytest.mark.parametrize("seed", range(5))
def test_in_scans_at_any_time_nothing_is_found(seed: int) -> None:
    random = Random(seed)
    found = scanned(5, [0.5, 12.3], [])
    for _ in range(20):
        found.wrote(round(random.uniform(20, 200) * SECOND))
    assert len(found.unasked) > 15 and found.interval is None


def test_what_comes_after_too_many_objects_is_not_kept() -> None:
    found = scanned(5, [float(at) for at in range(1000)], [1])
    assert len(found.seen) < 100 > len(found.changes) and len(found.unasked) < 100
