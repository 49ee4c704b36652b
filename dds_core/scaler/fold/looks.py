"""The folds behind nudges: when the operator looked at a device on its way, when its node's driver listed devices, and how long
the fabric takes. `dds_core.scaler.rules.nudges` decides by these rows."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from dds_core.kit.policy import MICROSECONDS
from dds_core.model import ONLINE, RESOURCE_ATTACHING, RESOURCE_DETACHING, FabricResource, Slice
from dds_core.scaler import events as e
from dds_core.scaler.keys import BUSY, BUSY_SINCE, UNANSWERED, WROTE
from dds_core.scaler.model import Listing, Look, Pace
from dds_core.scaler.operator import PLUGIN_REST, PLUGIN_START, POLL, SURE, WHOLE_REQUEST
from dds_core.scaler.state import State

_ON_ITS_WAY = (RESOURCE_ATTACHING, RESOURCE_DETACHING)
_AT_A_LOOK = MICROSECONDS
"""What is seen so soon after a look was found by it."""
_ANSWER = 5 * MICROSECONDS


def resource_looked_at(state: State, old: FabricResource | None, new: FabricResource, at: int) -> None:
    row, wrote = state.health.looks.get(new.uid), state.lifecycle.counters.get(WROTE) or 0
    if (
        old is not None
        and (old.state, old.error, old.uuid) != (new.state, new.error, new.uuid)
        and state.process.synced
    ):
        state.lifecycle.counters.put(WROTE, at)
    if new.state not in _ON_ITS_WAY:
        looks_end(state, new.uid, at, old)
        _count_answer(state, row, new, at)
        return
    if row is None or old is None or old.state != new.state:
        row = Look(at)
    if new.error and (old is None or old.error != new.error):
        took = at - max(row.since, wrote) if state.process.synced else WHOLE_REQUEST
        took = min(took, row.took) if row.erred else took
        row = replace(row, erred=at, took=took, busy=busy_until(state, at))
    state.health.looks.put(new.uid, row)
    _note_work(state, at)
    if new.uuid and not row.named and new.state == RESOURCE_ATTACHING:
        _measure(state, "attach", new, row, at)
        state.health.looks.put(new.uid, replace(row, named=at))
        _looked(state, new, at)


def looks_end(state: State, uid: str, at: int, resource: FabricResource | None = None) -> None:
    """The resource is no longer on its way, or gone."""
    row = state.health.looks.get(uid)
    if row is not None and resource is not None and resource.state == RESOURCE_DETACHING:
        _measure(state, "detach", resource, row, at)
    state.health.looks.drop(uid)
    _note_work(state, at)


def busy_until(state: State, at: int) -> int:
    """For how long the operator's one worker may have been at work: while it is, a try that is due waits for its turn."""
    since = state.lifecycle.counters.get(BUSY_SINCE) or 0
    return (state.lifecycle.counters.get(BUSY) or 0) + (at - since if since else 0)


def _note_work(state: State, at: int) -> None:
    """Note when the worker begins and ends to be at work. What has failed is at work for moments only (`Look.took`)."""
    since = state.lifecycle.counters.get(BUSY_SINCE) or 0
    if state.process.synced and any(map(partial(_is_at_work, state), state.health.looks.rows)) != bool(since):
        state.lifecycle.counters.put(BUSY, busy_until(state, at))
        state.lifecycle.counters.put(BUSY_SINCE, 0 if since else at)
        state.dirty.devices.update(state.health.erring.rows)


def _is_at_work(state: State, uid: str) -> bool:
    """Whether an attach or detach may be under way that the operator waits for."""
    one = state.fleet.resources.get(uid)
    if one is None or one.error or (one.uuid and one.state != RESOURCE_DETACHING):
        return False
    what = "detach" if one.state == RESOURCE_DETACHING else "attach"
    pace = state.health.paces.get((what, state.failing.fabric_of.get(one.node, ""), one.model))
    return pace is None or pace.polled < SURE


def _all_count(state: State) -> None:
    """What is known of the operator or a fabric has changed."""
    state.dirty.devices.update(state.health.looks.rows)


def _count_answer(state: State, row: Look | None, resource: FabricResource, at: int) -> None:
    """A device that is listed is Online at the operator's next look, so that shows whether nudges cause looks."""
    if row is None or not row.nudges or resource.state != ONLINE:
        return
    _all_count(state)
    if at - row.last <= _ANSWER:
        state.lifecycle.counters.put(UNANSWERED, 0)
    elif not any(
        (one := state.fleet.resources.get(uid)) is not None and not one.uuid for uid in state.lifecycle.under_way
    ):
        state.lifecycle.counters.put(UNANSWERED, (state.lifecycle.counters.get(UNANSWERED) or 0) + 1)


def _measure(state: State, what: str, resource: FabricResource, row: Look, at: int) -> None:
    """An attach or detach is done. If it was found by a look, it had been done since the look before."""
    if not state.process.synced:
        return
    _all_count(state)
    key = (what, state.failing.fabric_of.get(resource.node, ""), resource.model)
    before, took = state.health.paces.get(key), at - row.since
    polls = round(took / POLL)
    nudged = row.last - row.since if row.last else 0
    if row.last and at - row.last <= _AT_A_LOOK:
        missed = max(nudged // POLL * POLL, row.missed)
    elif polls and abs(took - polls * POLL) <= _AT_A_LOOK:
        missed = max((polls - 1) * POLL, nudged)
    else:
        state.health.paces.drop(key)
        return
    if before is not None and before.least < took <= before.most:
        missed = max(before.least, missed)
    state.health.paces.put(key, Pace(min(missed, took), took, before.polled + 1 if before is not None else 1))


def slice_looked_at(state: State, slice: Slice, at: int) -> None:
    """A slice of the node's driver changed: its plugin has started, at the look that restarted it if there was one."""
    key = (slice.node, slice.driver)
    before = state.health.listings.get(key) or Listing()
    slowest = max(at - before.starting, before.slowest * 7 // 8) if before.starting else before.slowest
    state.health.listings.put(key, Listing(at, before.starting or at, slowest))
    touch(state, slice.node)


def listings_end(state: State, node: str) -> None:
    """The node is gone."""
    state.health.listings.drop_where(lambda key: key[0] == node)
    touch(state, node)


def _looked(state: State, resource: FabricResource, at: int) -> None:
    """The operator looks at a resource that has its id: it restarts the plugin if that is old enough. When it looked at what a
    start finds is not known."""
    key = state.place_listed(resource)
    if not key[1] or not state.process.synced:
        return
    before = state.health.listings.get(key) or Listing()
    if at >= max(before.restarted, before.starting) + PLUGIN_REST + PLUGIN_START:
        state.health.listings.put(key, replace(before, starting=at))
    touch(state, resource.node)


def touch(state: State, node: str) -> None:
    """What a look at one resource of the node brings concerns the others too."""
    state.dirty.devices |= state.health.looks.keys() & state.fleet.resources_at[node]


def nudged(state: State, event: e.OperatorNudged, at: int) -> None:
    row, resource = state.health.looks.get(event.resource), state.fleet.resources.get(event.resource)
    if row is not None:
        missed = row.last - row.since if row.last else 0
        state.health.looks.put(event.resource, replace(row, nudges=row.nudges + 1, last=at, missed=missed))
    if resource is not None:
        touch(state, resource.node)
    if resource is not None and resource.uuid and resource.state == RESOURCE_ATTACHING:
        _looked(state, resource, at)
    state.lifecycle.counters.put(f"nudges/{event.why}", (state.lifecycle.counters.get(f"nudges/{event.why}") or 0) + 1)


def nudge_void(state: State, uid: str) -> None:
    """The nudge will not be written: the operator does not look for it, and owes no answer."""
    row, resource = state.health.looks.get(uid), state.fleet.resources.get(uid)
    if row is None or resource is None or not row.nudges:
        return
    state.health.looks.put(uid, replace(row, nudges=row.nudges - 1))
    key = state.place_listed(resource)
    listing = state.health.listings.get(key)
    if listing is not None and listing.starting == row.last:
        state.health.listings.put(key, replace(listing, starting=0))
    touch(state, resource.node)
