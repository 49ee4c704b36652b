"""What is known of orders without deciding anything: the most attaches at once, when one is stranded, and between which tries one
that fails may be called off."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import takewhile

from dds_core.kit.policy import MICROSECONDS
from dds_core.model import BEING_ATTACHED, FabricResource
from dds_core.scaler.keys import BUSY, BUSY_SINCE
from dds_core.scaler.model import Look
from dds_core.scaler.operator import WHOLE_REQUEST, pauses
from dds_core.scaler.state import State

_UNHURRIED = 100 * MICROSECONDS
"""An order in vain that no claim wants stands for so long: the fabric may have mended by then, and nobody is kept waiting."""


_STRANDED = 300 * MICROSECONDS
"""The operator looks at what it attaches every 30 s, and restarts the driver's plugin for it."""
ORDERS_IN_FLIGHT = 16
"""Most attaches under way for models without a pool, until the fabric's pace is measured: a fabric attaches some at a time, and
what it cannot begin in time fails its claim."""


def in_flight_cap(state: State) -> int:
    """The most attaches under way at once: what the fabric can finish within the attach budget at its measured pace."""
    rate = state.fleet.rates.get("")
    if rate is None or rate.count < 5 or rate.service <= 0:
        return ORDERS_IN_FLIGHT
    return max(1, int(state.policy.attach_budget("") / MICROSECONDS / rate.service))


def stranded_due(state: State, resource: FabricResource) -> int | None:
    """From when a device that the operator attaches counts as stranded: the fabric has named it long ago, and no node lists it.
    Its node's driver fails, or the device has left again; the operator waits for the list for ever. None for others."""
    look = state.health.looks.get(resource.uid)
    if resource.state not in BEING_ATTACHED or not resource.uuid or look is None:
        return None
    other = state.inventory.keys_of[resource.uuid] or len(state.fleet.resources_of_uuid[resource.uuid]) > 1
    return None if other else max(look.named, look.since) + _STRANDED


def stranded_of(state: State, request: str, at: int) -> frozenset[str]:
    """The resources (uids) of a request whose devices are stranded."""
    rows = (state.fleet.resources.rows[uid] for uid in state.fleet.resources_of_request[request])
    return frozenset(one.uid for one in rows if (due := stranded_due(state, one)) is not None and due <= at)


def quiet_times(state: State, resource: FabricResource) -> Iterator[tuple[int, int]]:
    """(first, last) instants between which no order for the resource can be under way: one that the size is lowered for would be
    carried out, and the device would have no resource. A try that is due waits for the operator's one worker: in all not longer
    than it was at work since, and at each turn for one try of each that fails. If no claim wants the model, there is time for
    more tries."""
    rate = state.fleet.rates.get("")
    request = max(WHOLE_REQUEST, 2 * round(rate.service * MICROSECONDS) if rate is not None else 0)
    wanted = any(failure.model == resource.model for failure in state.failing.failures.rows.values())
    look = state.health.looks.get(resource.uid) or Look(0)
    since = max(state.health.erring.rows[resource.uid], look.erred)
    took = 2 * sum(row.took for row in state.health.looks.rows.values())
    busy, works_since = (
        (state.lifecycle.counters.get(BUSY) or 0) - look.busy,
        state.lifecycle.counters.get(BUSY_SINCE) or 0,
    )
    least = since if wanted else since + _UNHURRIED
    for first, last, certain in pauses(since, request, took):
        if certain:
            first += busy
            if works_since and first > works_since:
                continue
        if least <= first < last:
            yield first, last


def pause_end(state: State, uid: str, at: int) -> float:
    """Until when an order that fails may be called off, if it may be `at` this instant; without end if it reports no error."""
    if uid not in state.health.erring or uid not in state.fleet.resources:
        return math.inf
    found = takewhile(lambda pause: pause[0] <= at, quiet_times(state, state.fleet.resources.rows[uid]))
    return max((last for _, last in found), default=at)
