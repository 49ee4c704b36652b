"""Nudges: an annotation of dds on a ComposableResource makes the operator look at it now, not at its next poll (30 s).

- `list`: the device has its id, its node does not list it, and the plugin is old enough for a restart. One look for the node, as
  the plugin lists all devices that are there.
- `settle`: the node lists the device, and the operator does not say Online yet. A look restarts no plugin that is young.
- `attach`, `detach`: by the measured time the fabric is done, and the operator has not asked it yet.

Never is a look caused that could do harm: one between a plugin's start and its list would restart the plugin again, and a change
of the object while the operator waits for the fabric's answer makes it lose the device (it writes the id with the version that it
had read before the order). So `attach` needs an operator that was seen to poll.
"""

from __future__ import annotations

from dds_core.kit.policy import MICROSECONDS
from dds_core.model import RESOURCE_ATTACHING, RESOURCE_DETACHING, FabricResource
from dds_core.scaler.events import OperatorNudged
from dds_core.scaler.keys import UNANSWERED
from dds_core.scaler.model import Listing, Look, Pace
from dds_core.scaler.operator import PLUGIN_REST, PLUGIN_START, POLL, SURE
from dds_core.scaler.state import State, Work

_MOST = 4
"""Nudges for one attach or detach."""
_PAUSE = 2 * MICROSECONDS
_BACK_OFF = 5 * MICROSECONDS
_UNANSWERED = 3
"""So many nudges in a row without effect, and the operator is left alone until everything is listed anew."""
_NARROW = 3 * MICROSECONDS


def nudge(work: Work, uid: str) -> None:
    state = work.state
    due = nudge_due(state, uid)
    if due is None or not work.has_come(due):
        return
    resource = state.fleet.resources.rows[uid]
    why = _why(state, resource)
    work.emit_once(OperatorNudged(resource=uid, mode=state.mode, name=resource.name, node=resource.node, why=why), uid)


def nudge_due(state: State, uid: str) -> int | None:
    """The instant at which the operator is to look at the resource; None if it is left alone."""
    resource, row = state.fleet.resources.get(uid), state.health.looks.get(uid)
    if resource is None or row is None or state.policy.operator_nudge == "off" or not row.nudges < _MOST:
        return None
    if (state.lifecycle.counters.get(UNANSWERED) or 0) >= _UNANSWERED:
        return None
    why, due = _why(state, resource), None
    match why:
        case "settle":
            due = max(row.named, _listing(state, resource).listed)
        case "list":
            due = _list_due(state, resource)
        case "attach" | "detach" as what if not resource.error:
            pace = state.health.paces.get((what, state.failing.fabric_of.get(resource.node, ""), resource.model))
            due = _done_due(row, pace) if pace is not None else None
    if due is not None and row.nudges:
        due = max(due, row.last + (_BACK_OFF << row.nudges - 1 if due <= row.last else _PAUSE))
    if due is not None and why == "settle":
        starting = _listing(state, resource).starting
        return due if not starting or due < starting + PLUGIN_REST else None
    return due


def _why(state: State, resource: FabricResource) -> str:
    if resource.state == RESOURCE_DETACHING:
        return "detach"
    if resource.state != RESOURCE_ATTACHING:
        return ""
    if not resource.uuid:
        return "attach" if not resource.deleting else ""
    return "settle" if state.is_listed(resource) else "list"


def _listing(state: State, resource: FabricResource) -> Listing:
    return state.health.listings.get(state.place_listed(resource)) or Listing()


def _list_due(state: State, resource: FabricResource) -> int | None:
    """When a look at the oldest unlisted resource of the node's driver restarts the plugin, and not between its start and its
    list. Of an unknown model nothing is known."""
    place = state.place_listed(resource)
    here = (state.fleet.resources.rows[uid] for uid in state.fleet.resources_at[resource.node] if place[1])
    known = ((one.uid, state.health.looks.get(one.uid)) for one in here if state.place_listed(one) == place)
    rows = {uid: row for uid, row in known if row is not None and row.named}
    waiting = [uid for uid in rows if rows[uid].nudges < _MOST and not state.is_listed(state.fleet.resources.rows[uid])]
    if resource.uid != min(waiting, key=lambda uid: (rows[uid].named, uid), default=""):
        return None
    listing, last = _listing(state, resource), max(row.last for row in rows.values())
    if not listing.starting:
        return max(listing.restarted, state.process.synced_at) + PLUGIN_REST + PLUGIN_START
    late = 2 * listing.slowest
    if 0 < late < PLUGIN_REST and last <= listing.starting:
        return listing.starting + late  # if the last look restarted nothing, this one does; else it is harmless
    again = listing.starting + max(late, PLUGIN_REST + PLUGIN_START)
    return max(again, last + late) if late else None


def _done_due(row: Look, pace: Pace) -> int | None:
    """When the fabric should be done: in the middle of what is known, so that each attach tells more, in the end just after."""
    if pace.polled < SURE:
        return None
    least = max(pace.least, row.last - row.since if row.last else 0)
    after = (least + pace.most) // 2 if pace.most - least > _NARROW else max(pace.most, least + _PAUSE)
    return row.since + after if -after % POLL >= _PAUSE else None
