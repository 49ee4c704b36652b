"""What the history says of devices is what a second fold, made of whole pictures, says of them: to the microsecond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest

from dds_core.scaler.fold import apply
from dds_core.scaler.history import History
from dds_core.scaler.history.usage import shares
from dds_core.scaler.spending import STATES, USED
from dds_core.scaler.state import Picture, dump, load
from tests.core.scaler.history.told import LOGS, RECORDINGS, begins_anew, told

SPENT = {"Attaching": "attaching", "Idle": "idle", "Marked": "idle", "Used": "used", "Detaching": "detaching"}


def by_pictures(name: str) -> Counter[tuple[str, str, str]]:
    """Microseconds by device, state and claim: the pictures of all instants, one after the other."""
    picture, spent, since = Picture(), Counter[tuple[str, str, str]](), 0
    for moment in told(name):
        if since:
            for device, state, claims in standing(picture):
                for claim, share in shares(claims, moment.at - since):
                    spent[device, state, claim] += share
        picture = begins_anew(picture, moment, first=not since)
        for event in (moment.fact, *moment.caused):
            if event is not None:
                apply(picture, event, moment.at)
                picture.dirty.clear()
        since = moment.at
    return +spent


def standing(picture: Picture) -> Iterator[tuple[str, str, list[str]]]:
    for uid, life in picture.devices.rows.items():
        resource = picture.resources.get(uid)
        state = SPENT[life.state]
        if resource is not None and resource.error and state != USED:
            state = "error"
        keys = {life.key} if life.key is not None else set()
        keys |= picture.names_of(resource) if resource is not None else set()
        claims = sorted({claim for key in keys for claim in picture.holders[key]})
        yield uid, state, claims if state == USED else []


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_the_time_of_each_device_in_each_state_is_that_of_the_pictures(name: str) -> None:
    history = History().read(told(name))
    found: Counter[tuple[str, str, str]] = Counter()
    for device in history.devices.values():
        for span in device.spans:
            for claim, share in shares(span.claims, span.length(history.now)):
                found[device.uid, span.state, claim] += share
    expected = by_pictures(name)
    assert {key: value for key, value in (+found).items() if expected[key] != value} == {}
    assert +found == expected


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_the_spans_of_a_device_follow_one_another(name: str) -> None:
    history = History().read(told(name))
    for device in history.devices.values():
        for one, other in pairwise(device.spans):
            assert one.since < one.until == other.since
        assert all(span.state in STATES for span in device.spans)
        assert bool(device.gone) == (not device.state)


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_a_device_is_of_the_fabric_that_its_node_is_in(name: str) -> None:
    picture, history = Picture(), History()
    for moment in told(name):
        picture = begins_anew(picture, moment, first=not history.first)
        history.take(moment)
        for event in (moment.fact, *moment.caused):
            if event is not None:
                apply(picture, event, moment.at)
                picture.dirty.clear()
        for uid, resource in picture.resources.rows.items():
            fabric = picture.fabric_of.get(resource.node)
            assert fabric is None or history.devices[uid].fabric == fabric
    assert all(one.fabric for one in history.devices.values())


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_a_picture_counts_the_same_time_and_keeps_it_in_a_checkpoint(name: str) -> None:
    """A log that begins with a checkpoint of a version that did not count is counted from the last event before that."""
    picture, history, spent = Picture(), History(), Counter[tuple[str, str]]()
    for moment in told(name):
        picture = begins_anew(picture, moment, first=not history.first)
        if not history.first:
            spent.update({key: row.until(moment.at) for key, row in picture.spending.rows.items()})
        history.take(moment)
        for event in (moment.fact, *moment.caused):
            if event is not None:
                apply(picture, event, moment.at)
                picture.dirty.clear()
        picture = load(dump(picture)) if len(picture.devices) % 3 == 2 else picture
    for device in history.devices.values():
        spent.update({(state, device.model): micros for state, micros in device.spent(history.now).items()})
    counted = Counter({key: row.until(picture.now) for key, row in picture.spending.rows.items()})
    assert +counted == +spent
    assert counted or not history.devices
