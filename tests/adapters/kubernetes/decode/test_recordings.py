"""The 19 recordings: every line translates, little of it is news, and what was folded is what the objects say in the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dds_adapters.kubernetes import RESOURCES, RecordedEvent, read_recording
from dds_core.events import FabricResourceObserved, Rejected
from tests.adapters.kubernetes.samples import BY_NAME, DECODE, RECORDINGS, NamingView, Watched


def test_they_are_all_here() -> None:
    assert len(RECORDINGS) == 19


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_every_line_translates(path: Path) -> None:
    watched = Watched(NamingView())
    last: dict[tuple[str, str], bytes] = {}
    for event in read_recording(path):
        events = watched.sees(event.resource, event.raw, event.type)
        assert not [one for one in events if isinstance(one, Rejected)]
        assert len(events) <= 1
        for one in events:
            last[event.resource, one.subject] = event.raw
            if event.type == "DELETED":
                del last[event.resource, one.subject]
    assert {(RESOURCES[resource].kind, uid) for resource, uid in last} == set(watched.view.objects)
    for (resource, uid), raw in last.items():
        if resource in DECODE:
            assert watched.the(resource, uid) == DECODE[resource](raw)


def test_little_of_a_burst_is_news() -> None:
    watched = Watched()
    changes: Counter[str] = Counter()
    facts: Counter[str] = Counter()
    for event in read_recording(BY_NAME["burst"]):
        if event.type == "MODIFIED":
            changes[event.resource] += 1
            facts[event.resource] += len(watched.sees(event.resource, event.raw))
        else:
            watched.sees(event.resource, event.raw, event.type)
    assert changes["composableresources"] == 1453
    assert facts["composableresources"] == 144
    assert sum(facts.values()) < sum(changes.values()) / 2


def test_the_annotation_alone_is_never_a_fact() -> None:
    """In the burst most changes of a ComposableResource are the reference scaler's last-used-time."""
    watched = Watched()
    before: dict[str, RecordedEvent] = {}
    for event in read_recording(BY_NAME["burst"]):
        if event.resource == "composableresources" and event.type == "MODIFIED":
            for fact in watched.sees(event.resource, event.raw):
                assert isinstance(fact, FabricResourceObserved)
                old = before.get(fact.uid)
                assert old is None or DECODE[event.resource](old.raw) != DECODE[event.resource](event.raw)
                before[fact.uid] = event


def test_translating_twice_says_nothing_new() -> None:
    watched = Watched(NamingView())
    last: dict[tuple[str, str], RecordedEvent] = {}
    for event in read_recording(BY_NAME["many_devices"]):
        for one in watched.sees(event.resource, event.raw, event.type):
            last[event.resource, one.subject] = event
    for event in last.values():
        assert watched.sees(event.resource, event.raw, event.type) == ()
