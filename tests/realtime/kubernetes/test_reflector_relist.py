"""A list that is asked for is made at once, of nothing that was asked before, and costs nothing that a watch would have told."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from dds_adapters.kubernetes.watch.arrivals import STALE, SYNCED, Arrival
from dds_lab.faults.wire import Refuse, Rule, Slow
from dds_lab.latency import Fixed
from tests.support.reflected import QUICK, Reflected, reflected

LASTING = replace(QUICK, shortest=60, longest=60, learning=60, quiet=60.0)


def synced(found: Reflected) -> list[Arrival]:
    return [one for one in found.taker.taken if one.type == SYNCED]


def later_than(found: Reflected, wish: int) -> bool:
    """Whether a SYNCED comes that is of a list which was begun after the wish."""
    return found.taker.until(lambda: any(one.since > wish for one in synced(found)))


@pytest.mark.smoke
def test_a_list_follows_although_a_watch_is_open(tmp_path: Path) -> None:
    with reflected(tmp_path, timing=LASTING) as found:
        found.world.create("a")
        assert found.agrees()
        time.sleep(0.2)
        requests = found.reflector.requests
        for number in range(5):
            wish = found.taker.arrivals.instant()
            before = time.monotonic()
            found.reflector.relist()
            assert later_than(found, wish)
            assert time.monotonic() - before < 5, "it does not wait for the watch to end"
            found.world.create(f"b{number}")
            assert found.agrees()
        assert found.troubles == []
        assert found.reflector.requests <= requests + 3 * 5, (
            "a list and a watch for each, and one that may have been cut short"
        )
        assert all(0 < one.since <= one.at for one in synced(found))


def test_a_list_that_is_under_way_is_not_enough(tmp_path: Path) -> None:
    with reflected(tmp_path, Rule(Slow(Fixed(1.0)), verbs=("list",)), timing=LASTING) as found:
        found.world.create("a")
        time.sleep(0.5)
        wish = found.taker.arrivals.instant()
        found.reflector.relist()
        assert later_than(found, wish)
        first, second = synced(found)
        assert first.since < wish < second.since
        assert found.agrees()


def test_a_wish_outlives_a_server_in_trouble(tmp_path: Path) -> None:
    with reflected(tmp_path, timing=LASTING) as found:
        assert found.agrees()
        found.plan.rules, found.plan.struck = (Rule(Refuse(503), limit=3),), [0]
        wish = found.taker.arrivals.instant()
        found.reflector.relist()
        assert later_than(found, wish)
        assert found.plan.struck == [3]


@pytest.mark.parametrize("seed", range(3))
def test_wishes_at_any_time_lose_nothing(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    with reflected(tmp_path, Rule(Slow(Fixed(0.02)), verbs=("list",)), timing=LASTING, seed=seed) as found:
        for number in range(40):
            found.world.create(f"n{number}")
            if random.random() < 0.5:
                wish = found.taker.arrivals.instant()
                found.reflector.relist()
            if random.random() < 0.5:
                found.taker.take(random.choice((0.0, 0.01, 0.03)))
        assert found.agrees()
        assert later_than(found, wish)
        assert STALE not in found.taker.types()
        assert found.troubles == []
