"""The steps of a device's life, by what is observed of its resource and of the claims that have it; alerts about its state."""

from __future__ import annotations

from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import MICROSECONDS
from dds_core.lifecycle import DEVICE_DETACHING, IDLE, MARKED, NEW, REQUESTED, USED, device_target
from dds_core.model import GOING, ONLINE, AttachRequest, DeviceKey, FabricResource
from dds_core.scaler.events import DeviceMoved, UsedStamped
from dds_core.scaler.fence import PASSED
from dds_core.scaler.model import (
    DEVICE_ERROR,
    DEVICE_LOST,
    DEVICE_TAINTED,
    DEVICE_UNEXPLAINED,
    DEVICE_UNLISTED,
    MANAGER,
    MANAGER_ERROR,
    MODEL_DIFFERS,
    NO_PROGRESS,
    PoolKey,
)
from dds_core.scaler.operator import verdict
from dds_core.scaler.rules.suiting import promised_otherwise
from dds_core.scaler.state import State, Work
from dds_core.timeline.instants import time_of_day


def step(work: Work, uid: str) -> None:
    """Take every step that is due for the device of resource `uid`."""
    for _ in range(4):
        move = next_move(work.state, uid)
        if move is None:
            work.state.dirty.devices.discard(uid)  # its own steps marked it, and were looked at
            return
        life = work.state.lifecycle.devices.get(uid)
        work.emit(move)
        if move.trigger == "gone" and move.source == USED and life is not None and life.key is not None:
            tell_lost(work, life.key, life.node)
        if move.trigger == "freed":
            resource = work.state.fleet.resources.get(uid)
            if resource is not None:
                work.emit_once(UsedStamped(resource=uid, mode=work.state.mode, name=resource.name, at=work.at), uid)


def next_move(state: State, uid: str) -> DeviceMoved | None:
    resource = state.fleet.resources.get(uid)
    life = state.lifecycle.devices.get(uid)
    source = life.state if life is not None else NEW
    if resource is None:
        return _move(uid, "gone", source, "its resource was deleted") if life is not None else None
    if source == NEW:
        return _move(uid, "requested", source, f"resource {resource.name} for {resource.model} on {resource.node}")
    if source == DEVICE_DETACHING:
        return None
    if resource.leaving:
        return _move(
            uid,
            "detaching",
            source,
            f"resource {resource.name} is {_on_its_way_back(resource)}",
        )
    key = held_key(state, uid, resource)
    if key is not None:
        if source != USED:
            claim = state.demand.claims.get(min(state.demand.having[key]))
            who = f"claim {claim.namespace}/{claim.name}" if claim is not None else "a claim"
            return _move(uid, "taken", source, f"{who} holds {key[2]} of {key[1]}", key)
        return None
    if source == USED:
        return _move(uid, "freed", source, "no claim holds it any more")
    if source == REQUESTED:
        how = ONLINE if resource.state == ONLINE else "listed by its node"
        return (
            _move(uid, "online", source, f"resource {resource.name} is {how}") if state.is_arrived(resource) else None
        )
    marked = is_marked(state, uid, resource)
    if source == IDLE and marked:
        return _move(uid, "marked", source, "marked to go back to the pool")
    if source == MARKED and not marked:
        return _move(uid, "unmarked", source, "the mark was taken off")
    return None


def tell_lost(work: Work, key: DeviceKey, node: str) -> None:
    """Alert about a device that is gone under the claims that have it, most often with its node."""
    state = work.state
    how = f"with node {node}" if state.fleet.node(node) is None else f"on node {node}, whose ComposableResource is gone"
    for uid in sorted(state.demand.having[key]):
        claim = state.demand.claims.rows[uid]
        name = f"{claim.namespace}/{claim.name}"
        work.alert(
            uid, DEVICE_LOST, f"claim {name} has lost its device {key[2]} {how}: delete its pod if it is still there"
        )


def _on_its_way_back(resource: FabricResource) -> str:
    if resource.state in GOING and not resource.deleting:
        return resource.state
    return "being deleted" if resource.deleting else "there to take its device off, which no other resource named"


def held_key(state: State, uid: str, resource: FabricResource) -> DeviceKey | None:
    """The name under which a claim has the device or a part of it; None when no claim has. The name under which the claim took it
    still counts if its slice is gone, if the name has moved to another UUID, and between the two writes of an exchange. A name on
    the node that a claim has and no slice lists may be that of any device in use."""
    life = state.lifecycle.devices.get(uid)
    keys = state.names_of(resource) | state.hidden_forms_of(resource)
    if life is not None and life.key is not None:
        keys.add(life.key)
    held = [key for key in keys if state.demand.having[key]]
    if not held and life is not None and life.state == USED and life.key is not None:
        if state.hand_over.is_given_back(life.key):
            return life.key
        held = sorted(held_and_unlisted(state, life.key[:2]))
    return min(held) if held else None


def held_and_unlisted(state: State, pool: PoolKey) -> set[DeviceKey]:
    """The devices of a node's pool that claims have and no slice lists."""
    claims = (state.demand.claims.rows[uid] for uid in state.demand.claims_in_pool[pool])
    results = (one for claim in claims if claim.allocation is not None for one in claim.allocation.results)
    return {
        one.key for one in results if one.key[:2] == pool and one.key not in state.inventory.faces and not one.admin
    }


def check_health(work: Work, uid: str) -> None:
    """Alert about a device that is sick, or not to be used for another reason: no claim gets it, one that has it keeps it. An
    error of all devices at once is the manager's."""
    state = work.state
    resource = state.fleet.resources.get(uid)
    if resource is None or resource.leaving or not (resource.state == ONLINE or resource.uuid):
        return
    whose = f"{resource.name} ({resource.uuid}) on {resource.node}"
    if state.is_sick(resource):
        text = f"{whose} is {resource.state} with an error and is assigned to no claim: {resource.error}"
        work.alert(uid, DEVICE_ERROR, text)
    elif verdict(resource.error) == "warning":
        work.alert(uid, DEVICE_ERROR, f"{whose} is assigned only where nothing better is there: {resource.error}")
    elif (DeadlineKind.SICK, uid) in state.notes.fired_deadlines and state.manager_fails:
        text = f"the operator can ask nothing about any of {len(state.fleet.online)} devices, which are used as before"
        work.alert(MANAGER, MANAGER_ERROR, f"{text}: {resource.error}")
    if resource.state != ONLINE:
        return
    _tell_promises(work, resource)
    if state.is_missed(uid):
        others = "others; another is ordered for who waits" if state.lists_others(uid) else "no device there"
        work.alert(uid, DEVICE_UNLISTED, f"{whose} is not listed by its node's driver, which lists {others}")
    taints = sorted(taint.key for taint in state.inventory.taints_of(resource))
    if taints:
        work.alert(
            uid, DEVICE_TAINTED, f"{whose} is tainted by its driver and will not be assigned: {', '.join(taints)}"
        )


def _tell_promises(work: Work, resource: FabricResource) -> None:
    """Alert, once a model, about a description that promises other values than the driver lists: who asks for a promised value is
    allocated from the pool, and gets no device that comes."""
    state, model = work.state, work.state.settings.model(resource.model)
    named = (
        key for key in state.names_of(resource) if state.inventory.face(key).uuid == resource.uuid
    )  # in no other form
    keys = sorted(key for key in named if not state.inventory.face(key).part)
    differ = promised_otherwise(state, model, keys[0]) if model is not None and keys else ""
    if differ:
        text = f"the pools of {resource.model} promise {differ}: write in device-info what the driver lists"
        work.alert(resource.model, MODEL_DIFFERS, text)


_SYNCER = 600 * MICROSECONDS
"""The operator takes off a device that no resource has named for so long, and looks for such devices every minute."""


def tell_unexplained(work: Work, node: str) -> None:
    """Alert about devices that no resource names although they came after an order: the answer to it was lost, or another client
    attached them. No claim of dds gets one; the claim of another client that has one loses it."""
    state = work.state
    for uuid in sorted(one for model in state.settings.models for one in state.unexplained_at(node, model)):
        off = time_of_day(state.health.unexplained.rows[uuid][1] + _SYNCER)
        what = f"{uuid} on {node} is attached, and no ComposableResource names it"
        work.alert(
            uuid, DEVICE_UNEXPLAINED, f"{what}: no claim gets it, and the operator takes it off soon after {off}"
        )
        for claim in sorted({one for key in state.inventory.keys_of[uuid] for one in state.demand.having[key]}):
            name = f"{state.demand.claims.rows[claim].namespace}/{state.demand.claims.rows[claim].name}"
            text = f"claim {name} has it: delete the pod, since the operator takes it off soon after {off}"
            work.alert(claim, DEVICE_UNEXPLAINED, f"{what}; {text}")


SLOW = 300 * MICROSECONDS


def progress_due(state: State, uid: str) -> int | None:
    """The instant from which a device on its way in or out has made no progress for long; None if it is not on its way."""
    life, fence = state.lifecycle.devices.get(uid), state.give_back.fences.get(uid)
    if life is None or life.state not in (REQUESTED, MARKED, DEVICE_DETACHING):
        return None
    if life.state == MARKED and fence is not None and not fence.confirmed:
        return None
    return max(life.since, fence.confirmed if fence is not None else 0) + SLOW


def check_progress(work: Work, uid: str) -> None:
    """Alert about a device that makes no progress, with what the operator says and what is waited for."""
    state, due = work.state, progress_due(work.state, uid)
    resource, life = state.fleet.resources.get(uid), state.lifecycle.devices.get(uid)
    if resource is None or life is None or due is None or not work.has_come(due) or not state.live:
        return
    fence = state.give_back.fences.get(uid)
    says = f"the operator says {resource.state or 'nothing'}{f', {resource.error}' if resource.error else ''}"
    if life.state == REQUESTED:
        text = f"{resource.name} is being attached to {resource.node} for long; {says}"
    elif life.state == DEVICE_DETACHING:
        text = f"{resource.name} leaves {resource.node} for long; {says}{looked_at(state, uid)}"
    elif fence is not None and fence.ordered:
        text = f"{resource.name} is to leave {resource.node}: its request was lowered, and {says}"
    else:
        rest = "until nothing of its request is being attached or marked by others, and the operator is done with it"
        text = f"{resource.name} is marked to leave {resource.node}, which waits {rest}"
    work.alert(uid, NO_PROGRESS, text)


def looked_at(state: State, uid: str) -> str:
    """Words on the claims that look at the device (admin access), whose processes may keep it on its node; "" without any."""
    resource, fence = state.fleet.resources.get(uid), state.give_back.fences.get(uid)
    keys = state.names_of(resource) if resource is not None else set()
    keys |= {fence.key} if fence is not None else set()
    claims = sorted({one for key in keys for one in state.demand.holders[key] - state.demand.having[key]})
    names = [f"{one.namespace}/{one.name}" for uid in claims if (one := state.demand.claims.get(uid)) is not None]
    return f"; looked at (adminAccess) by {', '.join(names)}" if names else ""


def is_marked(state: State, uid: str, resource: FabricResource) -> bool:
    """Marked by dds, or by another client's annotation whose removal was not decided."""
    return uid in state.give_back.fences or (resource.marked and uid not in state.give_back.unmarked)


def staying_of(state: State, own: AttachRequest) -> list[FabricResource]:
    """The resources of a request that are not leaving, with or without a device yet; unordered."""
    owned = (state.fleet.resources.rows[uid] for uid in state.fleet.resources_of_request[own.name])
    return [r for r in owned if not r.leaving]


def is_given_up(state: State, resource: FabricResource) -> bool:
    """Whether the operator has acted on the smaller size for which this device was to go. A larger size would no longer keep it,
    even if its resource is not seen to leave yet: that news may come later. It stays after all if the operator has taken up the
    larger size, is done, and nothing has come for long."""
    fence = state.give_back.fences.get(resource.uid)
    request = state.fleet.request(resource.request)
    if fence is None or not fence.passed or request is None:
        return False
    stays = request.done and request.size >= len(staying_of(state, request))
    return not stays or state.process.now < fence.passed + PASSED


def _move(uid: str, trigger: str, state: str, cause: str, key: DeviceKey | None = None) -> DeviceMoved | None:
    target = device_target(trigger, state)
    if target is None:
        return None
    return DeviceMoved(resource=uid, trigger=trigger, source=state, target=target, cause=cause, key=key)
