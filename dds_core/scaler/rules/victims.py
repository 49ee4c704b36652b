"""Victims: which idle device leaves its node, and what keeps one there.

`mark_idle` chooses a device that has idled long enough, `rebalance` one that a claim on another node needs. Both call
`choose_victim`, which begins a hold or, where devices cannot be held, marks at once. `rules.detach` goes on from there, and asks
the same questions at every step.
"""

from __future__ import annotations

from dds_core.kit.policy import HOUR, MICROSECONDS
from dds_core.lifecycle import IDLE, MARKED
from dds_core.matching.search import MOST_RESULTS
from dds_core.model import NO_NODE_FITS, ONLINE, AttachRequest, DeviceKey, FabricResource
from dds_core.scaler import hold, idleness
from dds_core.scaler.fence import mark
from dds_core.scaler.model import NO_DEVICE, DeviceLife
from dds_core.scaler.operator import verdict
from dds_core.scaler.rules.assignment import Assignment, assign
from dds_core.scaler.rules.devices import held_and_unlisted, staying_of
from dds_core.scaler.rules.orders import CellRequests, cell_of, limits_of, published_free
from dds_core.scaler.state import State, Work

_RESCHEDULED = 30 * MICROSECONDS
"""Time after a cool-down within which a pod that waited for its end is scheduled again: the kube-scheduler backs off for at most
10 s (KubeSchedulerConfiguration.podMaxBackoffSeconds)."""

# -- choosing ----------------------------------------------------------------------------------------------------------


def mark_idle(work: Work, cell: CellRequests, own: AttachRequest, wanted: set[str]) -> None:
    state = work.state
    here = [state.fleet.resources.rows[uid] for uid in state.lifecycle.idle_at[cell.node] - wanted]
    idle = [r for r in here if r.request == own.name and _is_idle(state, r) and work.has_come(idle_due(state, r.uid))]
    if not idle:
        return
    idle.sort(key=lambda r: (state.lifecycle.devices.rows[r.uid].idle_since, r.name))
    low = limits_of(state, cell.node, cell.model.model)[0]
    marked = sum(is_marked(state, r.uid) or r.uid in state.give_back.holds for r in staying_of(state, own))
    useless = [r for r in idle if state.is_useless(r.uid)]  # the minimum counts only devices that can be used
    spare = cell.size + cell.others - marked - low - len(useless)
    for resource in [*useless, *[r for r in idle if r not in useless][: max(0, spare)]]:
        # The mark before may have changed how long this one is worth keeping.
        if work.has_come(idle_due(state, resource.uid)):
            choose_victim(work, resource, _idle_reason(state, cell))


def idle_due(state: State, uid: str) -> int:
    """The instant from which an idle device may go: when it has idled long enough and no pause for its claims is left; at once if
    the manager cannot find it. One that is not listed for long would be waited for in vain in their next attempt, too."""
    life, resource = state.lifecycle.devices.rows[uid], state.fleet.resources.get(uid)
    if resource is not None and verdict(resource.error) == "gone":
        return life.idle_since
    idled = max(life.idle_since + state.idle_time(life.node, life.model), hold.pause_due(state, uid))
    return idled if state.is_missed(uid) else max(idled, _next_attempt_due(state, life))


def _next_attempt_due(state: State, life: DeviceLife) -> int:
    """The instant by which a claim for which such devices came too late has had another attempt, 0 without one. Otherwise a claim
    for several devices would start from nothing each time, on a fabric that attaches one after the other. If the claim has
    several requests, a device of this model may have come while another model was late."""
    failures = (
        (state.demand.claims.get(claim), state.failing.failures.rows[claim])
        for claim in state.failing.failed_at.get(life.node, ())
    )
    late = (
        one.since
        for claim, one in failures
        if one.late and (one.model == life.model or (claim is not None and len(claim.requests) > 1))
    )
    pause = state.policy.cool_down_seconds * MICROSECONDS + _RESCHEDULED
    return max((since + pause for since in late), default=0)


def _idle_reason(state: State, cell: CellRequests) -> str:
    name = cell.model.model
    row = state.lifecycle.reuse.get(state.failing.place(cell.node, name)) if state.policy.learns_idle else None
    learned = idleness.why(row, state.policy.longest_idle) if row is not None else ""
    seconds = state.idle_time(cell.node, name) // MICROSECONDS
    return f"idle for {seconds} s{'; ' + learned if learned else ''}"


def choose_victim(work: Work, resource: FabricResource, reason: str) -> bool:
    """Choose the device as the next to go, unless its hold or fence would break at once. A hold comes first where devices can be
    held. A device that its node has not listed for long has no name by which it could be held or taken, so it needs none."""
    state = work.state
    faces = names_to_hold(state, resource)
    life = state.lifecycle.devices.get(resource.uid)
    if life is None or not may_mark(state, work.at):
        return False
    if is_nowhere(state, resource):
        why = f"{reason}, and its node does not list it"
        return mark(work, resource, NO_DEVICE, why)
    if is_kept(state, resource, more=1):
        return False
    if not faces or could_be_taken(state, resource, faces) or held_for_another(state, resource.uid, faces):
        return False
    if hold.are_possible(state, work.at) and len(faces) <= MOST_RESULTS:
        return hold.begin(work, resource, faces, reason)
    return _may_go_unheld(state) and mark(work, resource, faces[0], reason)


def may_mark(state: State, at: int) -> bool:
    """Whether any device may be chosen: no watch is stale, the cap of detaches per hour leaves room, and devices can be held, or
    the policy lets them go without."""
    if state.process.stale or not (hold.are_possible(state, at) or _may_go_unheld(state)):
        return False
    recent = sum(marked > at - HOUR for marked in state.give_back.marks.rows.values())
    return recent < state.policy.detaches_per_hour


def needs_hold(state: State) -> bool:
    """Whether by the policy nothing goes that is not held."""
    return state.policy.detach_without_fence == "never"


def _may_go_unheld(state: State) -> bool:
    """Not before it is known whether devices can be held: a scheduler would take the device before this answer comes."""
    return not (needs_hold(state) or state.settings.unanswered)


def _is_idle(state: State, resource: FabricResource) -> bool:
    """Idle, not chosen to go, and meant for no claim."""
    life = state.lifecycle.devices.get(resource.uid)
    chosen = resource.uid in state.give_back.fences or resource.uid in state.give_back.holds
    free = life is not None and life.state == IDLE and not chosen and resource.state == ONLINE
    return free and not state.promised(resource.uuid)


def is_marked(state: State, uid: str) -> bool:
    life = state.lifecycle.devices.get(uid)
    return life is not None and life.state == MARKED


# -- what keeps a device -----------------------------------------------------------------------------------------------


def is_kept(state: State, resource: FabricResource, more: int = 0) -> bool:
    """Whether the node would have less than its minimum without the chosen devices and `more` others. The minimum, or the number
    of devices, may have changed since they were chosen."""
    model = state.settings.model(resource.model)
    if model is None or state.is_useless(resource.uid):
        return False
    cell = cell_of(state, resource.node, model)
    here = (state.fleet.resources.rows[uid] for uid in state.fleet.resources_at[resource.node] if _is_going(state, uid))
    going = sum(one.model == resource.model for one in here)
    return cell.size + cell.others - going - more < limits_of(state, resource.node, model.model)[0]


def _is_going(state: State, uid: str) -> bool:
    """Whether it was chosen to go, and the size is not lowered for it yet."""
    if state.fleet.resources.rows[uid].leaving:
        return False
    fence = state.give_back.fences.get(uid)
    return not fence.ordered if fence is not None else uid in state.give_back.holds


def could_be_taken(state: State, resource: FabricResource, faces: list[DeviceKey]) -> bool:
    """Whether a pending pod nominated to the node has an unallocated claim that the device, or a part of it, could satisfy. Not a
    pod for which the scheduler has found no node although the device is there: its node lacks something else, such as CPU."""
    for uid in state.demand.pods_nominated[resource.node]:
        pod = state.demand.pods.rows[uid]
        if pod.node or pod.deleting or pod.waiting == NO_NODE_FITS:
            continue
        known = state.demand.claims_of(pod)
        if len(known) < len(pod.claims):
            return True
        allocator, waiting = state.inventory.allocator(resource.node), [one for one in known if one.allocation is None]
        if any(
            not one.known or allocator.selects(one, key)
            for one in waiting
            for key in faces
            if key in state.inventory.faces
        ):
            return True
    return False


def held_for_another(state: State, uid: str, faces: list[DeviceKey]) -> bool:
    """Whether the hold of a leaving device still has a name that this device has got since: when the first of two with one name
    goes, the name is free for all claims."""
    ours = state.demand.claims_holding[uid]
    return any(state.give_back.held_as[key] - {uid} or state.demand.held_by[key] - ours for key in faces)


def names_to_hold(state: State, resource: FabricResource) -> list[DeviceKey]:
    """The names under which claims can have the device, the whole device first, those that are not listed now last; none while
    its node does not list it."""
    names = state.names_of(resource)
    names |= state.hidden_forms_of(resource) if names else set()
    return sorted(names, key=lambda key: (key not in state.inventory.faces, state.inventory.face(key).part, key))


def is_nowhere(state: State, resource: FabricResource) -> bool:
    """Whether no node lists the device, its own for too long unless the manager cannot find it either, and no other resource is
    the same device."""
    alone = not state.inventory.keys_of[resource.uuid] and len(state.fleet.resources_of_uuid[resource.uuid]) == 1
    return alone and state.is_useless(resource.uid) and not is_maybe_had(state, resource)


def is_maybe_had(state: State, resource: FabricResource) -> bool:
    """Whether a claim has a device of the node's driver that may be this one in another form, of whose hardware nothing is known:
    it is neither another resource's nor one that was there before this one came."""
    model = state.settings.model(resource.model)
    for pool in state.inventory.pools_at[resource.node]:
        if model is None or pool[0] != model.driver:
            continue
        for key in {(*pool, name) for name in state.inventory.pools[pool].devices} | held_and_unlisted(state, pool):
            uuids = state.inventory.face(key).uuids
            other = any(state.fleet.resources_of_uuid[uuid] - {resource.uid} for uuid in uuids)
            other = other or any(
                uuid in state.health.fixed and state.health.fixed.rows[uuid][1] <= resource.created for uuid in uuids
            )
            if state.demand.having[key] and not other:
                return True
    return False


# -- a pool that is empty ----------------------------------------------------------------------------------------------


def rebalance(work: Work, node: str, assignments: list[Assignment]) -> None:
    """If a claim waits and the pool has no free device, mark the device of its model that has idled longest on another node of
    the fabric. Not if the fabric fails: it could not bring the device."""
    state = work.state
    for assignment in assignments:
        for name in dict.fromkeys(assignment.missing):
            model = state.settings.model(name)
            if model is None or state.failing.fails(state.failing.fabric_of.get(node, ""), name):
                continue
            if published_free(state, node, model) == 0:  # None: no complete pool
                _free_elsewhere(work, node, name, assignment.missing.count(name))


def _free_elsewhere(work: Work, node: str, model: str, count: int) -> None:
    """A device goes back to the pool of its own fabric, so only those of the node's fabric help, or are on the way."""
    state = work.state
    fabric = state.failing.fabric_of.get(node)
    on_the_way = [
        uid
        for uid in state.give_back.fences.rows.keys() | state.give_back.holds.rows.keys()
        if (r := state.fleet.resources.get(uid))
        and r.model == model
        and r.node != node
        and state.failing.fabric_of.get(r.node) == fabric
    ]
    candidates = []
    for uid in state.lifecycle.idle_of_model[model]:
        resource = state.fleet.resources.get(uid)
        if resource is None or resource.node == node or state.failing.fabric_of.get(resource.node) != fabric:
            continue
        if not _is_idle(state, resource):
            continue
        named = state.settings.model(model)
        cell = cell_of(state, resource.node, named) if named is not None else None
        if cell is not None and cell.own is not None and cell.own.name == resource.request:
            candidates.append((state.lifecycle.devices.rows[uid].idle_since, resource.name, resource))
    candidates.sort(key=lambda row: row[:2])
    left = count - len(on_the_way)
    for _, _, resource in candidates:
        if left > 0 and not _wanted_there(state, resource):
            left -= choose_victim(work, resource, f"wanted for {model} on {node}, and the pool is empty")


def _wanted_there(state: State, resource: FabricResource) -> bool:
    """Whether a claim on the device's own node waits for it: else two nodes would take each other's devices in turn."""
    return any(resource.uid in one.resources for one in assign(state, resource.node))
