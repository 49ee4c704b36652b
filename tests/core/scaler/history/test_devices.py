"""What the history says of devices is what a second fold, made of whole states, says of them: to the microsecond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest

from dds_core.scaler.folds import apply
from dds_core.scaler.history import History
from dds_core.scaler.history.usage import shares
from dds_core.scaler.spending import STATES, USED
from dds_core.scaler.state import State, dump, load
from tests.core.scaler.history.told import LOGS, RECORDINGS, begins_anew, side_by_side, told

SPENT = {"Attaching": "attaching", "Idle": "idle", "Marked": "idle", "Used": "used", "Detaching": "detaching"}


def by_states(name: str) -> Counter[tuple[str, str, str]]:
    """Microseconds by device, state and claim: the states of all instants, one after the other."""
    state, spent, since = State(), Counter[tuple[str, str, str]](), 0
    for moment in told(name):
        if since:
            for device, doing, claims in standing(state):
                for claim, share in shares(claims, moment.at - since):
                    spent[device, doing, claim] += share
        state = begins_anew(state, moment, first=not since)
        for event in (moment.fact, *moment.caused):
            if event is not None:
                apply(state, event, moment.at)
                state.dirty.clear()
        since = moment.at
    return +spent


def standing(state: State) -> Iterator[tuple[str, str, list[str]]]:
    for uid, life in state.lifecycle.devices.rows.items():
        resource = state.fleet.resources.get(uid)
        doing = SPENT[life.state]
        if resource is not None and resource.error and doing != USED:
            doing = "error"
        keys = {life.key} if life.key is not None else set()
        keys |= state.names_of(resource) if resource is not None else set()
        claims = sorted({claim for key in keys for claim in state.demand.holders[key]})
        yield uid, doing, claims if doing == USED else []


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_the_time_of_each_device_in_each_state_is_that_of_the_pictures(name: str) -> None:
    history = History().read(told(name))
    found: Counter[tuple[str, str, str]] = Counter()
    for device in history.devices.values():
        for span in device.spans:
            for claim, share in shares(span.claims, span.length(history.now)):
                found[device.uid, span.state, claim] += share
    expected = by_states(name)
    assert (+found).keys() == expected.keys()
    off = {key: value - expected[key] for key, value in (+found).items() if value != expected[key]}
    assert all(abs(one) < 1000 for one in off.values()), (
        "a share is of whole microseconds, at each instant and in each span"
    )
    assert not any(claim == "" for _, _, claim in off)


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
    for state, history in side_by_side(told(name)):
        for uid, resource in state.fleet.resources.rows.items():
            fabric = state.failing.fabric_of.get(resource.node)
            assert fabric is None or history.devices[uid].fabric == fabric
    assert all(one.fabric for one in history.devices.values())


@pytest.mark.parametrize("name", [*RECORDINGS, *LOGS])
def test_a_picture_counts_the_same_time_and_keeps_it_in_a_checkpoint(name: str) -> None:
    """A log that begins with a checkpoint of a version that did not count is counted from the last event before that."""
    state, history, spent = State(), History(), Counter[tuple[str, str]]()
    for moment in told(name):
        state = begins_anew(state, moment, first=not history.first)
        if not history.first:
            spent.update({key: row.until(moment.at) for key, row in state.lifecycle.spending.rows.items()})
        history.take(moment)
        for event in (moment.fact, *moment.caused):
            if event is not None:
                apply(state, event, moment.at)
                state.dirty.clear()
        state = load(dump(state)) if len(state.lifecycle.devices) % 3 == 2 else state
    for device in history.devices.values():
        spent.update({(doing, device.model): micros for doing, micros in device.spent(history.now).items()})
    counted = Counter({key: row.until(state.process.now) for key, row in state.lifecycle.spending.rows.items()})
    assert +counted == +spent
    assert counted or not history.devices
