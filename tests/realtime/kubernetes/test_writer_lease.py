"""A writer that has a lease, and stands still at the worst moment: another leads and writes before it goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.kubernetes.lease.elector import Elector
from dds_adapters.kubernetes.write.writer import Writer
from dds_core.events import WriteDone
from tests.support.contenders import QUICK, Arena, arena
from tests.support.served import client_of
from tests.support.written import NAMESPACE, Noted, appended


class Leading:
    """A contender with a writer that writes while it leads."""

    def __init__(self, place: Arena, name: str) -> None:
        self.elector: Elector = place.contender(name, QUICK)
        self.cluster = Cluster(place.config, name)
        self.noted = Noted(self.cluster)
        self.writer = Writer(self.noted, lambda resource: "v1", permit=self.elector.remaining, wake=lambda: None)
        self.writer.start()


@contextmanager
def leading(place: Arena, name: str) -> Iterator[Leading]:
    one = Leading(place, name)
    try:
        yield one
    finally:
        assert one.writer.stop(20)
        one.cluster.close()


def numbers(place: Arena) -> list[int]:
    found = place.served.run(lambda: client_of(place.served.server).get("configmaps", "map", NAMESPACE))
    return [int(number) for number in found["data"]["numbers"].split()]


@pytest.mark.smoke
@pytest.mark.parametrize("at", ["GET", "PATCH"], ids=["before it looks", "between looking and writing"])
def test_a_write_that_comes_after_the_lease_changes_nothing(tmp_path: Path, at: str) -> None:
    held, go_on = threading.Event(), threading.Event()

    def stand_still(method: str) -> None:
        if method == at and not held.is_set():
            held.set()
            assert go_on.wait(60)

    with arena(tmp_path) as place:
        body = {"metadata": {"name": "map"}, "data": {"numbers": ""}}
        place.served.run(lambda: client_of(place.served.server).create("configmaps", body, NAMESPACE))
        with leading(place, "a") as first:
            assert first.elector.lead(20)
            first.noted.before = stand_still
            first.writer.put([appended("map", 1)])
            assert held.wait(20), "it passed the check, and has not sent"
            first.elector.stop(0)  # it would never give the lease up like this; another leads the sooner
            with leading(place, "b") as second:
                assert second.elector.lead(20)
                second.writer.put([appended("map", 7)])
                place.until(lambda: numbers(place) == [7])
                go_on.set()
                place.until(lambda: first.writer.running == 0)
                time.sleep(0.5)
                assert numbers(place) == [7], "the late write is refused, and not made again"
                assert len(first.noted.asked) == (1 if at == "GET" else 2), "nothing was begun after the lease's end"
                assert first.writer.outcomes() == []
                assert first.writer.waiting == 1
                assert second.writer.outcomes() == [WriteDone("map-7", "Appended", "map")]
