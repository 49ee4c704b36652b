"""Detach: which idle device leaves its node, and the steps until the operator may detach it.

1. `_mark_idle` chooses a device that has idled long enough; `rebalance` one that a claim on another node needs. Both call
   `choose_victim`, which begins a hold or, where devices cannot be held, marks at once.
2. `check_hold`: where devices can be held, a claim of dds takes the device, so that no pod gets it.
3. The resource is annotated: from here on the device is a victim, and a fence stands around it. `check_fence` requests a list of
   all claims, at once if a hold has the device, else half a minute later; if none of them has it, the fence is confirmed.
4. `_lower` lowers the size of the request by the number of marked victims, and the operator detaches them.

Every step checks again: a victim that is wanted is unmarked, and a person is alerted when the wrong device leaves. The operator
takes resources that are still attaching first, and marked ones after them. So for a detach a size is lowered only while nothing
is attaching, and by exactly the number of marked victims. Orders in vain have their own section.
"""

from __future__ import annotations

from itertools import takewhile

from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import HOUR, MICROSECONDS
from dds_core.lifecycle import DEVICE_DETACHING, IDLE, MARKED
from dds_core.matching.search import MOST_RESULTS
from dds_core.model import BEING_ATTACHED, NO_NODE_FITS, ONLINE, AttachRequest, DeviceKey, FabricResource
from dds_core.scaler import hold, idleness
from dds_core.scaler.events import (
    DetachOrdered,
    VictimUnmarked,
)
from dds_core.scaler.fence import VICTIM_STUCK, ask_for_list, mark, mark_again
from dds_core.scaler.model import NO_DEVICE, DeviceLife, Fence, Hold
from dds_core.scaler.operator import RARE, verdict
from dds_core.scaler.ordering import quiet_times
from dds_core.scaler.rules.assignment import Assignment, assign
from dds_core.scaler.rules.devices import held_and_unlisted, held_key, is_given_up, progress_due, staying_of, tell_lost
from dds_core.scaler.rules.failures import definite_due
from dds_core.scaler.rules.orders import CellRequests, ask, cell_of, limits_of, published_free
from dds_core.scaler.state import State, Work

_RESCHEDULED = 30 * MICROSECONDS
"""Time after a cool-down within which a pod that waited for its end is scheduled again: the kube-scheduler backs off for at most
10 s (KubeSchedulerConfiguration.podMaxBackoffSeconds)."""
TAKEN_SOON = "a pod nominated to the node could take it"

# -- marks -------------------------------------------------------------------------------------------------------------


def unmark(work: Work, node: str) -> None:
    """Remove marks that stand without a reason. A mark with a fence is never touched."""
    if work.state.give_back.unmarked:
        _unmark_again(work, node)
    _unmark_strange(work, node)


def _unmark_again(work: Work, node: str) -> None:
    """Marks whose removal was decided and that are still there, after a restart or a failed write."""
    state = work.state
    for uid in sorted(uid for uid in state.fleet.resources_at[node] if uid in state.give_back.unmarked):
        resource = state.fleet.resources.rows[uid]
        restarted = (VictimUnmarked.__name__, uid) in state.notes.reissue
        if resource.marked and (restarted or (state.live and not state.give_back.unmarked.rows[uid])):
            why = "the mark was to come off before the restart" if restarted else "the mark was to come off before"
            work.emit_once(VictimUnmarked(resource=uid, mode=state.mode, name=resource.name, reason=why), uid)


def _unmark_strange(work: Work, node: str) -> None:
    """Marks without a fence, such as those of a scaler whose log is lost. The operator would detach these devices first, in use
    or not, and meanwhile no other device of the request can go. An idle one is marked again in its turn. Not while the request is
    smaller than the number of its resources that stay (victims whose detach is ordered do not): then the mark says which device
    the operator is about to take, and without it that would be another."""
    state = work.state
    strange = sorted(
        uid
        for uid in state.fleet.resources_at[node]
        if state.fleet.resources.rows[uid].marked
        and uid not in state.give_back.fences
        and uid not in state.give_back.unmarked
    )
    for uid in strange if state.live else ():
        resource = state.fleet.resources.rows[uid]
        model = state.settings.model(resource.model)
        own = cell_of(state, node, model).own if model is not None else None
        if own is None or own.name != resource.request or resource.leaving:
            continue
        kept = [one for one in staying_of(state, own) if not _is_ordered(state, one.uid)]
        if own.size >= len(kept):
            why = "this log does not say why it is marked"
            work.emit_once(VictimUnmarked(resource=uid, mode=state.mode, name=resource.name, reason=why), uid)


def _is_ordered(state: State, uid: str) -> bool:
    fence = state.give_back.fences.get(uid)
    return fence is not None and fence.ordered


# -- orders in vain ----------------------------------------------------------------------------------------------------


def models_unfulfillable(state: State, node: str) -> set[str]:
    """The models on a node for which the fabric reports an error, or of which a device has made no progress for long."""
    here, late = state.fleet.resources_at[node], state.notes.fired_deadlines
    return {
        state.fleet.resources.rows[uid].model
        for uid in here
        if uid in state.health.erring or (DeadlineKind.PROGRESS, uid) in late
    }


def call_off(work: Work, cell: CellRequests, own: AttachRequest, assignments: list[Assignment]) -> None:
    """Take back an order that the fabric cannot fulfil and that no claim needs any more: while it hangs, no device of its request
    can go. The operator takes resources without a device first. They are not marked: any change of the object makes the operator
    order again."""
    state = work.state
    if state.process.stale or _somebody_waits(state, assignments, cell.model.model):
        return
    staying = staying_of(state, own)
    hanging = sorted((r for r in staying if r.state in BEING_ATTACHED), key=lambda r: r.name)
    going = [
        r
        for r in staying
        if r not in hanging and (r.marked or r.uid in state.give_back.fences or r.uid in state.give_back.holds)
    ]
    if not all(_hangs(work, r) for r in hanging) or not cell.size == own.size == own.acted_size == len(staying):
        return
    low = limits_of(state, cell.node, cell.model.model)[0]
    victims = hanging[: max(0, cell.size + cell.others - len(going) - low)]
    if victims and _may_go(state, going):
        lower_size(work, cell, own, victims, own.size - len(victims), unattached=True)


def call_off_due(state: State, uid: str) -> int | None:
    """The next instant from which an order that fails, or hangs, may be called off."""
    definite, passed = definite_due(state, uid), state.notes.fired_deadlines.get((DeadlineKind.CALL_OFF, uid)) or 0
    if definite is None:
        hung = _hung_due(state, uid)
        return hung if hung is not None and hung > passed else None
    firsts = (
        max(first, definite) for first, last in quiet_times(state, state.fleet.resources.rows[uid]) if last > definite
    )
    return next((first for first in firsts if first > passed), None)


def _hung_due(state: State, uid: str) -> int | None:
    """From when an order without an error may be called off. One that the operator has begun may be under way at any time, or
    wait for its turn."""
    resource, look = state.fleet.resources.get(uid), state.health.looks.get(uid)
    if resource is None or resource.uuid or resource.state not in BEING_ATTACHED:
        return None
    return look.since + RARE if look is not None else progress_due(state, uid)


def _models_unmade(state: State, node: str) -> set[str]:
    """The models of which a request asks for more than the operator has made, although it reports that it is done. Its resources
    may be observed later than this report, so this is checked in level passes, and where a device of the request makes no
    progress for long; the writer checks again."""
    level, late = state.process.now == state.process.level_at, state.notes.fired_deadlines
    slow = {
        state.fleet.resources.rows[uid].request
        for uid in state.fleet.resources_at[node]
        if (DeadlineKind.PROGRESS, uid) in late
    }
    requests = (state.fleet.requests.rows[uid] for uid in state.fleet.requests_at[node])
    asked = (one for one in requests if (level or one.name in slow) and _is_done(one))
    return {one.model for one in asked if one.size > len(state.fleet.resources_of_request[one.name])}


def _fit_size(work: Work, cell: CellRequests, own: AttachRequest, assignments: list[Assignment]) -> None:
    """Lower the size to the number of resources that exist, unless a claim waits for more. A size is too large when it was raised
    again while the operator was already detaching: the operator makes no resource for it, and it counts to the node's maximum.
    While one of its resources leaves, their number is not known yet."""
    state = work.state
    owned, low = staying_of(state, own), limits_of(state, cell.node, cell.model.model)[0]
    if state.process.stale or _somebody_waits(state, assignments, cell.model.model) or not _is_done(own):
        return
    settled = len(owned) == len(state.fleet.resources_of_request[own.name])
    if settled and len(owned) < own.size == cell.size and len(owned) + cell.others >= low:
        lower_size(work, cell, own, [], len(owned))


def _may_go(state: State, going: list[FabricResource]) -> bool:
    """Whether each of these has a confirmed fence, so that it may go at any moment."""
    fences = [state.give_back.fences.get(one.uid) for one in going]
    return all(fence is not None and fence.confirmed for fence in fences)


def _somebody_waits(state: State, assignments: list[Assignment], model: str) -> bool:
    """Whether a claim on the node waits for a device of the model."""
    return any(m.model == model for one in assignments for m in state.inventory.wanted_models(one.claim.allocation))


def _hangs(work: Work, resource: FabricResource) -> bool:
    """Whether the fabric has not named a device for it, and no order can be under way: it has failed for long, or was not begun
    for long; or that is hardly possible."""
    state, due = work.state, definite_due(work.state, resource.uid)
    if resource.uuid or resource.fabric_id:
        return False
    if due is not None:
        found = takewhile(lambda pause: pause[0] <= work.at, quiet_times(state, resource))
        return work.has_come(due) and any(work.at <= last for _, last in found)
    late = _hung_due(state, resource.uid)
    return late is not None and work.has_come(late)


# -- detach ------------------------------------------------------------------------------------------------------------


def detach(work: Work, node: str, assignments: list[Assignment], wanted: set[str]) -> None:
    """Choose devices that have idled long enough, lower the sizes for fenced ones, and take back orders in vain. `wanted`: the
    resources that claims wait for."""
    state = work.state
    if state.mode == "attach":
        return
    vain = models_unfulfillable(state, node)
    models = {state.lifecycle.devices.rows[uid].model for uid in state.lifecycle.idle_at[node]} | vain
    if state.give_back.fences:
        models |= {
            state.fleet.resources.rows[uid].model
            for uid in state.fleet.resources_at[node]
            if uid in state.give_back.fences
        }
    unmade = _models_unmade(state, node)
    for name in sorted(models | unmade):
        model = state.settings.model(name)
        if model is not None:
            cell = cell_of(state, node, model)
            if cell.own is not None:
                _mark_idle(work, cell, cell.own, wanted)
                _lower(work, cell, cell.own)
                if name in vain:
                    call_off(work, cell, cell.own, assignments)
                if name in unmade:
                    _fit_size(work, cell, cell.own, assignments)


# --- hold --------------------------------------------------------------------------------------------------------------


def check_hold(work: Work, uid: str, wanted: set[str]) -> None:
    """Go on until the device is held, then mark it; from there on its fence decides."""
    state = work.state
    row = state.give_back.holds.rows[uid]
    fence, resource = state.give_back.fences.get(uid), state.fleet.resources.get(uid)
    leaving = resource is not None and resource.leaving and row.stage == "held"
    if leaving and resource is not None and any(_is_of_another(state, resource, key) for key in row.devices):
        hold.next_step(work, uid, row, "another device has its name by now")
    if leaving or (fence is not None and (state.live or fence.ordered)):
        return
    why = "its resource is gone" if resource is None else _against_hold(work, resource, row, wanted)
    if resource is not None and row.stage == "held" and not why:
        mark(work, resource, row.devices[0], row.reason)
    else:
        hold.next_step(work, uid, row, why)


def _is_of_another(state: State, leaving: FabricResource, key: DeviceKey) -> bool:
    """Whether a leaving device's name is another's by now: its resource may hang long after the driver has reused the name."""
    now = state.resource_of(key)
    return now is not None and now.uuid != leaving.uuid


def _against_hold(work: Work, resource: FabricResource, row: Hold, wanted: set[str]) -> str:
    state, life = work.state, work.state.lifecycle.devices.get(resource.uid)
    why = _against_detach(work, resource, list(row.devices), wanted)
    if why:
        return why
    if set(_faces_of(state, resource)) != set(row.devices):
        return "its names on the node have changed"
    if row.stage != "held" and _held_for_another(state, resource.uid, list(row.devices)):
        return "another device is held by its name"
    if life is None or life.state != IDLE:
        return "it is idle no more"
    if _could_be_taken(state, resource, list(row.devices)):
        return TAKEN_SOON
    return "the node's minimum keeps it" if _is_kept(state, resource) else ""


def _against_detach(work: Work, resource: FabricResource, faces: list[DeviceKey], wanted: set[str]) -> str:
    """Why a device may not go, however it is protected; "" when nothing is against it."""
    state = work.state
    if state.mode != "detach":
        return f"mode is {state.mode}"
    if any(state.demand.having[key] for key in faces) or held_key(state, resource.uid, resource) is not None:
        return "a claim holds it"
    if resource.uid in wanted or (resource.uuid and state.promised(resource.uuid)):
        return "a claim waits for it"
    return ""


def _held_for_another(state: State, uid: str, faces: list[DeviceKey]) -> bool:
    """Whether the hold of a leaving device still has a name that this device has got since: when the first of two with one name
    goes, the name is free for all claims."""
    ours = state.demand.claims_holding[uid]
    return any(state.give_back.held_as[key] - {uid} or state.demand.held_by[key] - ours for key in faces)


# --- fence -------------------------------------------------------------------------------------------------------------


def check_fence(work: Work, uid: str, wanted: set[str]) -> None:
    """Unmark a victim that may not go after all; else request the list that its fence waits for."""
    state = work.state
    resource, row, life = (
        state.fleet.resources.rows[uid],
        state.give_back.fences.rows[uid],
        state.lifecycle.devices.get(uid),
    )
    if life is None or (life.state != DEVICE_DETACHING and not is_given_up(state, resource)):
        broken = (_why_unmark if row.named else _not_called_off)(work, resource, row, wanted)
        if broken:
            _unmark(work, resource, row, broken)
        else:
            ask_for_list(work, uid, row)
    if state.notes.reissue:
        mark_again(work, uid)


def _why_unmark(work: Work, resource: FabricResource, fence: Fence, wanted: set[str]) -> str:
    """Why the victim may not go after all, "" while the fence holds. The garbage collector deletes a hold as soon as its resource
    is gone, which may be observed first: that alone does not call off an ordered detach, unless a claim has the device."""
    state, faces = work.state, _faces_of(work.state, resource)
    why = _against_detach(work, resource, list({fence.key: None} | dict.fromkeys(faces)), wanted)
    if why:
        return why
    # Once the detach of a held device is ordered, no pod can take it; an operator that has begun would order another device.
    if not (fence.held and fence.ordered) and _could_be_taken(state, resource, faces):
        return TAKEN_SOON
    if faces and fence.key not in faces:
        return "its name on the node has changed"
    if not faces and not fence.ordered and _is_maybe_had(state, resource):
        return "a claim has a device of its node that may be this one in another form"
    if not faces and not fence.ordered and work.has_come(fence.since + VICTIM_STUCK):
        return "the node has not listed it for long, and others of its request wait for it"
    hold = state.give_back.holds.get(resource.uid)
    lost = fence.held and (hold is None or hold.stage != "held")
    if lost and not (fence.ordered and not state.demand.claims_holding[resource.uid]):
        return "its hold was taken away"
    if fence.held and hold is not None and not set(faces) <= set(hold.devices):
        return "it has got another name on the node"
    if fence.held and not fence.ordered and fence.confirmed and work.has_come(fence.confirmed + VICTIM_STUCK):
        return "its size could not be lowered for long"
    if not fence.held and not fence.ordered and state.policy.detach_without_fence == "never":
        return "nothing holds it"
    if not fence.ordered and _is_kept(state, resource):
        return "the node's minimum keeps it"
    if fence.ordered and state.live and _called_off(state, resource):
        return "its detach was called off"
    return ""


def _not_called_off(work: Work, resource: FabricResource, fence: Fence, wanted: set[str]) -> str:
    """Why a hanging order, or a device that no node lists, is not taken back after all; "" when nothing is against it."""
    state = work.state
    if state.mode != "detach":
        return f"mode is {state.mode}"
    if resource.uid in wanted:
        return "a claim waits for it"
    if (resource.uuid or resource.fabric_id) and not _is_nowhere(state, resource):
        return "its device has come"
    return "it was asked for again" if fence.ordered and state.live and _called_off(state, resource) else ""


def _is_kept(state: State, resource: FabricResource, more: int = 0) -> bool:
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


def _faces_of(state: State, resource: FabricResource) -> list[DeviceKey]:
    """The names under which claims can have the device, the whole device first, those that are not listed now last; none while
    its node does not list it."""
    names = state.names_of(resource)
    names |= state.hidden_forms_of(resource) if names else set()
    return sorted(names, key=lambda key: (key not in state.inventory.faces, state.inventory.face(key).part, key))


def _is_nowhere(state: State, resource: FabricResource) -> bool:
    """Whether no node lists the device, its own for too long unless the manager cannot find it either, and no other resource is
    the same device."""
    alone = not state.inventory.keys_of[resource.uuid] and len(state.fleet.resources_of_uuid[resource.uuid]) == 1
    return alone and state.is_useless(resource.uid) and not _is_maybe_had(state, resource)


def _is_maybe_had(state: State, resource: FabricResource) -> bool:
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


def _could_be_taken(state: State, resource: FabricResource, faces: list[DeviceKey]) -> bool:
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


def _unmark(work: Work, resource: FabricResource, fence: Fence, why: str) -> None:
    """Remove the mark. If the size was lowered for it, raise the size first: an operator that has one device too many and finds
    none marked takes another, which may be in use."""
    state = work.state
    model = state.settings.model(resource.model)
    if fence.ordered and model is not None:
        cell = cell_of(state, resource.node, model)
        if cell.own is not None:
            staying = len(staying_of(state, cell.own))
            if cell.size < staying:
                cell.size += 1
                ask(work, cell, "victim wanted after its detach was ordered")
            if cell.own.size < staying:
                return
    work.emit_once(
        VictimUnmarked(resource=resource.uid, mode=state.mode, name=resource.name, reason=why),
        resource.uid,
    )


def _called_off(state: State, resource: FabricResource) -> bool:
    """Whether the size that was lowered for a victim was raised again."""
    model = state.settings.model(resource.model)
    cell = cell_of(state, resource.node, model) if model is not None else None
    return cell is not None and cell.own is not None and cell.size >= len(staying_of(state, cell.own))


# --- victims -----------------------------------------------------------------------------------------------------------


def idle_due(state: State, uid: str) -> int:
    """The instant from which an idle device may go: when it has idled long enough and no pause for its claims is left; at once if
    the manager cannot find it."""
    life, resource = state.lifecycle.devices.rows[uid], state.fleet.resources.get(uid)
    if resource is not None and verdict(resource.error) == "gone":
        return life.idle_since
    idled = life.idle_since + state.idle_time(life.node, life.model)
    return max(idled, hold.pause_due(state, uid), _next_attempt_due(state, life))


def _next_attempt_due(state: State, life: DeviceLife) -> int:
    """The instant by which a claim for which such devices came too late has had another attempt, 0 without one. Otherwise a claim
    for several devices would start from nothing each time, on a fabric that attaches one after the other. If the claim has
    several requests, a device of this model may have come while another model was late."""
    failures = (
        (state.demand.claims.get(claim), state.failing.failures.rows[claim])
        for claim in state.failing.failed_at[life.node]
    )
    late = (
        one.since
        for claim, one in failures
        if one.late and (one.model == life.model or (claim is not None and len(claim.requests) > 1))
    )
    pause = state.policy.cool_down_seconds * MICROSECONDS + _RESCHEDULED
    return max((since + pause for since in late), default=0)


def _mark_idle(work: Work, cell: CellRequests, own: AttachRequest, wanted: set[str]) -> None:
    state = work.state
    here = [state.fleet.resources.rows[uid] for uid in state.lifecycle.idle_at[cell.node] - wanted]
    idle = [r for r in here if r.request == own.name and _is_idle(state, r) and work.has_come(idle_due(state, r.uid))]
    if not idle:
        return
    idle.sort(key=lambda r: (state.lifecycle.devices.rows[r.uid].idle_since, r.name))
    low = limits_of(state, cell.node, cell.model.model)[0]
    marked = sum(_is_marked(state, r.uid) or r.uid in state.give_back.holds for r in staying_of(state, own))
    useless = [r for r in idle if state.is_useless(r.uid)]  # the minimum counts only devices that can be used
    spare = cell.size + cell.others - marked - low - len(useless)
    for resource in [*useless, *[r for r in idle if r not in useless][: max(0, spare)]]:
        # The mark before may have changed how long this one is worth keeping.
        if work.has_come(idle_due(state, resource.uid)):
            choose_victim(work, resource, _idle_reason(state, cell))


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
    faces = _faces_of(state, resource)
    life = state.lifecycle.devices.get(resource.uid)
    if life is None or not may_mark(state, work.at):
        return False
    if _is_nowhere(state, resource):
        why = f"{reason}, and its node does not list it"
        return mark(work, resource, NO_DEVICE, why)
    if _is_kept(state, resource, more=1):
        return False
    if not faces or _could_be_taken(state, resource, faces) or _held_for_another(state, resource.uid, faces):
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


def _may_go_unheld(state: State) -> bool:
    """Not before it is known whether devices can be held: a scheduler would take the device before this answer comes."""
    return state.policy.detach_without_fence == "best_effort" and not state.settings.unanswered


def _is_idle(state: State, resource: FabricResource) -> bool:
    """Idle, not chosen to go, and meant for no claim."""
    life = state.lifecycle.devices.get(resource.uid)
    chosen = resource.uid in state.give_back.fences or resource.uid in state.give_back.holds
    free = life is not None and life.state == IDLE and not chosen and resource.state == ONLINE
    return free and not state.promised(resource.uuid)


def _is_marked(state: State, uid: str) -> bool:
    life = state.lifecycle.devices.get(uid)
    return life is not None and life.state == MARKED


def _lower(work: Work, cell: CellRequests, own: AttachRequest) -> None:
    """Lower the size by exactly the number of marked victims, if the operator could take no other device in their place. A device
    that another client detaches is no victim: the operator replaces it, and a lower size would cost another device."""
    state = work.state
    owned = [state.fleet.resources.rows[uid] for uid in state.fleet.resources_of_request[own.name]]
    victims = [r for r in owned if r.uid in state.give_back.fences and _is_marked(state, r.uid)]
    if state.process.stale or not victims or not all(_may_leave(state, r) for r in victims):
        return
    if any(state.give_back.fences.rows[r.uid].ordered for r in victims) or not all(r.marked for r in victims):
        return
    if cell.size != own.size or not _at_rest(state, own, owned):
        return
    if any(r.marked and not r.leaving and r.uid not in state.give_back.fences for r in owned):
        return
    lower_size(work, cell, own, victims, own.size - len(victims))


def lower_size(
    work: Work,
    cell: CellRequests,
    own: AttachRequest,
    victims: list[FabricResource],
    size: int,
    *,
    unattached: bool = False,
) -> None:
    """Lower the request by the number of victims; without victims, to the number of its resources (`DetachOrdered`)."""
    work.emit_once(
        DetachOrdered(
            node=cell.node,
            model=cell.model.model,
            mode=work.state.mode,
            request=own.name,
            uid=own.uid,
            size=size,
            previous=own.size,
            victims=tuple(sorted(r.uid for r in victims)),
            unattached=unattached,
        ),
        own.name,
    )


def _may_leave(state: State, resource: FabricResource) -> bool:
    """Whether the fence is confirmed and a slice lists the device. A gap in the slices proves nothing."""
    fence = state.give_back.fences.rows[resource.uid]
    if not fence.named:
        return _is_nowhere(state, resource)
    return bool(fence.confirmed) and fence.key in _faces_of(state, resource)


def _at_rest(state: State, own: AttachRequest, owned: list[FabricResource]) -> bool:
    """Whether the operator is done with the request: exactly as many resources as its size, and none is attaching."""
    done = _is_done(own) and own.size == len(staying_of(state, own))
    return done and not any(r.state in BEING_ATTACHED for r in owned)


def _is_done(own: AttachRequest) -> bool:
    return own.state == "Running" and own.acted_size == own.size


def check_departures(work: Work, uid: str) -> None:
    """Alert if a device leaves while another was marked, or while a claim has it."""
    state = work.state
    resource, life = state.fleet.resources.get(uid), state.lifecycle.devices.get(uid)
    if resource is None or life is None:
        return
    fence = state.give_back.fences.get(uid)
    others = [
        o
        for o in state.fleet.resources_of_request[resource.request]
        if (f := state.give_back.fences.get(o)) and f.ordered
    ]
    if fence is None and others:
        work.alert(
            uid, "WrongVictim", f"{resource.name} leaves {resource.node} although another device was marked to go"
        )
    known = [life.key] if life.key is not None else []
    if fence is not None:
        known = [] if _is_of_another(state, resource, fence.key) else [fence.key]
    key = next((key for key in (*known, *_faces_of(state, resource)) if state.demand.having[key]), None)
    if key is not None and state.fleet.node(resource.node) is None:
        tell_lost(work, key, resource.node)
    elif key is not None:
        work.alert(
            uid,
            "DetachedInUse",
            f"{resource.name} ({resource.uuid}) leaves {resource.node} while a claim holds {key[2]}",
        )


# --- a pool that is empty ----------------------------------------------------------------------------------------------


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
