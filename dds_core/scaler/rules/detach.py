"""Detach: the steps from a chosen device until the operator may detach it, and orders in vain.

1. `rules.victims` chooses a device, and begins its hold or, where devices cannot be held, marks it at once.
2. `check_hold`: where devices can be held, a claim of dds takes the device, so that no pod gets it.
3. The resource is annotated: from here on the device is a victim, and a fence stands around it. `check_fence` requests a list of
   all claims, at once if a hold has the device, else half a minute later; if none of them has it, the fence is confirmed.
4. `_lower` lowers the size of the request by the number of marked victims, and the operator detaches them.

Every step checks again: a victim that is wanted is unmarked, and a person is alerted when the wrong device leaves. The operator
takes resources without a device first, then marked ones, then those that are still attaching with a device. So for a detach a
size is lowered only while nothing is attaching but what is stranded, and by exactly the number of marked victims. Orders in vain
have their own section.
"""

from __future__ import annotations

from itertools import takewhile

from dds_core.kit.deadlines import DeadlineKind
from dds_core.lifecycle import DEVICE_DETACHING, IDLE
from dds_core.model import BEING_ATTACHED, AttachRequest, DeviceKey, FabricResource
from dds_core.scaler import hold
from dds_core.scaler.events import (
    DetachOrdered,
    VictimUnmarked,
)
from dds_core.scaler.fence import VICTIM_STUCK, ask_for_list, mark, mark_again
from dds_core.scaler.model import Fence, Hold
from dds_core.scaler.operator import RARE
from dds_core.scaler.ordering import quiet_times, stranded_due
from dds_core.scaler.rules.assignment import Assignment
from dds_core.scaler.rules.devices import held_key, is_given_up, progress_due, staying_of, tell_lost
from dds_core.scaler.rules.failures import definite_due
from dds_core.scaler.rules.orders import CellRequests, ask, cell_of, limits_of
from dds_core.scaler.rules.victims import (
    could_be_taken,
    held_for_another,
    idle_due,
    is_kept,
    is_marked,
    is_maybe_had,
    is_nowhere,
    mark_idle,
    names_to_hold,
    needs_hold,
)
from dds_core.scaler.state import State, Work

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
    if not state.live:
        return
    marked = state.fleet.marked & state.fleet.resources_at[node]
    fences, unmarked = state.give_back.fences, state.give_back.unmarked
    for uid in sorted(uid for uid in marked if uid not in fences and uid not in unmarked):
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
    here = state.fleet.resources_at[node]
    vain = (state.health.erring.keys() & here) | (state.health.late & here)
    return {state.fleet.resources.rows[uid].model for uid in vain}


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
    """From when an order without an error may be called off, or its device is stranded. One that the operator has begun may be
    under way at any time, or wait for its turn."""
    resource, look = state.fleet.resources.get(uid), state.health.looks.get(uid)
    if resource is None or resource.state not in BEING_ATTACHED:
        return None
    if resource.uuid:
        return stranded_due(state, resource)
    return look.since + RARE if look is not None else progress_due(state, uid)


def _models_unmade(state: State, node: str) -> set[str]:
    """The models of which a request asks for more than the operator has made, although it reports that it is done. Its resources
    may be observed later than this report, so this is checked in level passes, where a device of the request makes no progress
    for long, and where one of its resources went after the report (`is_unmade`); the writer checks again."""
    level = state.process.now == state.process.level_at
    slow = {state.fleet.resources.rows[uid].request for uid in state.health.late & state.fleet.resources_at[node]}
    requests = (state.fleet.requests.rows[uid] for uid in state.fleet.requests_at[node])
    asked = (one for one in requests if one.done and (level or one.name in slow or state.is_unmade(one)))
    return {one.model for one in asked if one.size > len(state.fleet.resources_of_request[one.name])}


def _fit_size(work: Work, cell: CellRequests, own: AttachRequest, assignments: list[Assignment]) -> None:
    """Lower the size to the number of resources that exist, unless a claim may still get one. A size is too large when it was
    raised again while the operator was already detaching: the operator makes no resource for such a size, even if claims wait,
    and the size counts to the node's maximum. While one of its resources leaves, their number is not known yet."""
    state = work.state
    owned, low = staying_of(state, own), limits_of(state, cell.node, cell.model.model)[0]
    hoped = not state.is_unmade(own) and _somebody_waits(state, assignments, cell.model.model)
    if state.process.stale or hoped or not own.done:
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


def _is_stranded(work: Work, resource: FabricResource) -> bool:
    due = stranded_due(work.state, resource)
    return due is not None and work.has_come(due) and not is_maybe_had(work.state, resource)


# -- detach ------------------------------------------------------------------------------------------------------------


def detach(work: Work, node: str, assignments: list[Assignment], wanted: set[str]) -> None:
    """Choose devices that have idled long enough, lower the sizes for fenced ones, and take back orders in vain. `wanted`: the
    resources that claims wait for."""
    state = work.state
    vain, unmade = models_unfulfillable(state, node), _models_unmade(state, node)
    idle, fenced = state.lifecycle.idle_at[node], state.give_back.fences.keys() & state.fleet.resources_at[node]
    if not state.give_back.fences:  # no size is to be lowered, and only what has idled long enough is marked
        idle = {uid for uid in idle - wanted if work.has_come(idle_due(state, uid))}
    models = {state.lifecycle.devices.rows[uid].model for uid in idle}
    models |= {state.fleet.resources.rows[uid].model for uid in fenced}
    for name in sorted(models | vain | unmade):
        model = state.settings.model(name)
        if model is not None:
            cell = cell_of(state, node, model)
            if cell.own is not None:
                mark_idle(work, cell, cell.own, wanted)
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
    if set(names_to_hold(state, resource)) != set(row.devices):
        return "its names on the node have changed"
    if row.stage != "held" and held_for_another(state, resource.uid, list(row.devices)):
        return "another device is held by its name"
    if life is None or life.state != IDLE:
        return "it is idle no more"
    if could_be_taken(state, resource, list(row.devices)):
        return TAKEN_SOON
    return "the node's minimum keeps it" if is_kept(state, resource) else ""


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
    state, faces = work.state, names_to_hold(work.state, resource)
    why = _against_detach(work, resource, list({fence.key: None} | dict.fromkeys(faces)), wanted)
    if why:
        return why
    # Once the detach of a held device is ordered, no pod can take it; an operator that has begun would order another device.
    if not (fence.held and fence.ordered) and could_be_taken(state, resource, faces):
        return TAKEN_SOON
    if faces and fence.key not in faces:
        return "its name on the node has changed"
    if not faces and not fence.ordered and is_maybe_had(state, resource):
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
    if not fence.held and not fence.ordered and needs_hold(state):
        return "nothing holds it"
    if not fence.ordered and is_kept(state, resource):
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
    if (resource.uuid or resource.fabric_id) and not is_nowhere(state, resource):
        return "its device has come"
    return "it was asked for again" if fence.ordered and state.live and _called_off(state, resource) else ""


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


# --- sizes --------------------------------------------------------------------------------------------------------------


def _lower(work: Work, cell: CellRequests, own: AttachRequest) -> None:
    """Lower the size by exactly the number of marked victims, if the operator could take no other device in their place. A device
    that another client detaches is no victim: the operator replaces it, and a lower size would cost another device."""
    state = work.state
    owned = [state.fleet.resources.rows[uid] for uid in state.fleet.resources_of_request[own.name]]
    victims = [r for r in owned if r.uid in state.give_back.fences and is_marked(state, r.uid)]
    if state.process.stale or not victims or not all(_may_leave(state, r) for r in victims):
        return
    if any(state.give_back.fences.rows[r.uid].ordered for r in victims) or not all(r.marked for r in victims):
        return
    if cell.size != own.size or not _at_rest(work, own, owned):
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
        return is_nowhere(state, resource)
    return bool(fence.confirmed) and fence.key in names_to_hold(state, resource)


def _at_rest(work: Work, own: AttachRequest, owned: list[FabricResource]) -> bool:
    """Whether the operator is done with the request: exactly as many resources as its size, and none is attaching. It never is
    while a device is stranded, but has no more to make then."""
    attaching = [r for r in owned if r.state in BEING_ATTACHED]
    done = own.done or (bool(attaching) and own.acted_size == own.size)
    whole = done and own.size == len(staying_of(work.state, own))
    return whole and all(_is_stranded(work, r) for r in attaching)


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
    key = next((key for key in (*known, *names_to_hold(state, resource)) if state.demand.having[key]), None)
    if key is not None and state.fleet.node(resource.node) is None:
        tell_lost(work, key, resource.node)
    elif key is not None:
        work.alert(
            uid,
            "DetachedInUse",
            f"{resource.name} ({resource.uuid}) leaves {resource.node} while a claim holds {key[2]}",
        )
