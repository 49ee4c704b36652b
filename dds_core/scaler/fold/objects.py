"""The folds of facts about objects: the object itself, what else follows from it, and what is forgotten at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import MICROSECONDS
from dds_core.kit.work import (
    Fold,
    config_observed,
    ending,
    forget_left_labels,
    forget_words,
    gone,
    gone_with,
    leave_labels,
    observed,
    undone,
)
from dds_core.model import (
    RESOURCE_ATTACHING,
    Allocation,
    AttachRequest,
    Config,
    DeviceKey,
    FabricResource,
    Slice,
)
from dds_core.scaler import events as e
from dds_core.scaler import fence, hold
from dds_core.scaler.fold.decisions import note_ordered, order_met
from dds_core.scaler.fold.lives import forget_claim
from dds_core.scaler.fold.looks import listings_end, looks_end, resource_looked_at, slice_looked_at, touch
from dds_core.scaler.keys import FIXED, ORDERED, UNMADE
from dds_core.scaler.model import (
    CONDEMNED,
    COOLING,
    DEPARTED,
    DEVICE_ERROR,
    DEVICE_TAINTED,
    DEVICE_TWICE,
    DEVICE_UNEXPLAINED,
    DEVICE_UNLISTED,
    LABEL_FIGHT,
    MANAGER,
    MANAGER_ERROR,
    MODEL_DIFFERS,
    NO_PROGRESS,
)
from dds_core.scaler.operator import verdict
from dds_core.scaler.spending import counting
from dds_core.scaler.state import State

_WITH_POD = gone_with(e.EVENTS, "pod")
_WITH_NODE, _WITH_CELL = gone_with(e.EVENTS, "node"), gone_with(e.EVENTS, "cell")


_FAR_AHEAD = 600 * MICROSECONDS


def _slice_observed(state: State, event: Any, at: int) -> None:
    old = state.inventory.slices.get(event.uid)
    before = _uuids(state, old or Slice(uid=event.uid), event.devices)
    observed(state, event, at)
    new = state.inventory.slices.rows[event.uid]
    if new != old:
        _after_slice(state, new, before, at)
    if old is not None and _promises(old) != _promises(new):
        model = state.inventory.model_of_pool((new.driver, new.pool))
        state.notes.clear_alert(model.model if model is not None else "", MODEL_DIFFERS)


def _promises(slice: Slice) -> tuple[object, object]:
    """What a pool says of its model: its devices are alike."""
    device = next(iter(slice.devices.values()), None) if not slice.node else None
    return (device.attributes, device.capacity) if device is not None else ({}, {})


def _slice_gone(state: State, event: e.ObjectGone, at: int) -> None:
    old = state.inventory.slices.get(event.uid)
    before = _uuids(state, old, old.devices) if old is not None else set()
    gone(state, event, at)
    if old is not None:
        _after_slice(state, old, before, at)


def _after_slice(state: State, slice: Slice, before: set[str], at: int) -> None:
    """What follows from a changed slice, or one that is gone. `before`: the UUIDs that its changed devices had."""
    _note_hardware(state, slice.node)
    _note_unlisted(state, slice.node, at)
    if state.process.synced and state.fleet.node(slice.node) is not None:
        slice_looked_at(state, slice, at)
    if slice.node:
        _note_unnamed(state, slice, at)
    _forget_departed(state, before)
    _tell_taints_again(state, before)


def _note_unnamed(state: State, slice: Slice, at: int) -> None:
    """Note which listed devices no resource names. Before the first order on the node they belong to the machine; one that is
    first listed after it is unexplained: the operator may have attached it and lost the answer."""
    key = (slice.driver, slice.pool)
    pool = state.inventory.pools.get(key)
    if slice.driver not in state.settings.drivers or FIXED not in state.notes.fired_deadlines:
        return
    late = (ORDERED, slice.node) in state.notes.fired_deadlines
    for name in pool.devices if pool is not None else ():
        for uuid in _unnamed_of(state, (*key, name), slice.node):
            if _unnamed_at(state, uuid) != slice.node and _is_unnamed(state, uuid, slice.node):
                state.health.fixed.drop(uuid)
                (state.health.unexplained if late else state.health.fixed).put(uuid, (slice.node, at))
    for uuid in [
        one
        for one, row in state.health.unexplained.rows.items()
        if row[0] == slice.node and not state.inventory.keys_of[one]
    ]:
        state.explain(uuid)
    fix_by_policy(state)


def _unnamed_of(state: State, key: DeviceKey, node: str) -> tuple[str, ...]:
    """The UUIDs of a listed device that may be no resource's; none where its hardware is a resource's, under another UUID."""
    here = (state.fleet.resources.rows[uid] for uid in state.fleet.resources_at[node])
    uuids = state.inventory.face(key).uuids
    named = any(
        state.fleet.resources.rows[uid].node == node for uuid in uuids for uid in state.fleet.resources_of_uuid[uuid]
    )
    return (
        ()
        if named or any(key in state.names_of(one) for one in here if not state.inventory.keys_of[one.uuid])
        else uuids
    )


def _unnamed_at(state: State, uuid: str) -> str:
    """The node where the device was last noted as named by no resource, "" if it was not."""
    row = state.health.fixed.get(uuid) or state.health.unexplained.get(uuid)
    return row[0] if row is not None else ""


def _is_unnamed(state: State, uuid: str, node: str) -> bool:
    named = any(state.fleet.resources.rows[uid].node == node for uid in state.fleet.resources_of_uuid[uuid])
    return not named and (DEPARTED, uuid) not in state.notes.fired_deadlines


def fix_by_policy(state: State) -> None:
    """As many unexplained devices belong to the machine as the policy says, the first ones first."""
    for uuid, (node, at) in sorted(state.health.unexplained.rows.items(), key=lambda one: (one[1], one[0])):
        model = state.inventory.model_of_uuid(uuid)
        most = state.policy.limit_of(node, model.model).fixed if model is not None else 0
        here = [one for one, row in state.health.fixed.rows.items() if row[0] == node] if most else []
        if sum(state.inventory.model_of_uuid(one) == model for one in here) < most:
            state.explain(uuid)
            state.health.fixed.put(uuid, (node, at))


def note_fixed(state: State, at: int) -> None:
    """What is listed when dds first sees a node's driver, and named by no resource, is taken to belong to the machine."""
    state.notes.fired_deadlines.put(FIXED, at)
    for key in sorted(state.inventory.faces):
        node = state.inventory.pools[key[:2]].node
        for uuid in _unnamed_of(state, key, node) if key[0] in state.settings.drivers else ():
            if _unnamed_at(state, uuid) != node and _is_unnamed(state, uuid, node):
                state.health.fixed.put(uuid, (node, at))


def _note_hardware(state: State, node: str) -> None:
    """Note what tells the hardware of the node's attached devices, while their UUIDs are listed. (Names of counter sets are used
    again for other devices.)"""
    for uid in state.fleet.resources_at[node] if node else ():
        resource, life = state.fleet.resources.rows[uid], state.lifecycle.devices.get(uid)
        if life is None or not resource.uuid:
            continue
        tokens = state.inventory.tokens_of(resource.uuid)
        told = tuple(sorted(token for token in tokens if not token.startswith("counters/"))) if tokens else ()
        if told:
            whole = {
                key
                for key in state.inventory.keys_of[resource.uuid]
                if state.inventory.pools[key[:2]].node == node and not state.inventory.face(key).part
            }
            is_so_still = whole & set(life.forms) and tokens & set(life.hardware)
            forms = tuple(sorted(whole)) if len(whole) > 1 else life.forms if is_so_still else ()
            if (told, forms) != (life.hardware, life.forms):
                state.lifecycle.devices.put(uid, replace(life, hardware=told, forms=forms))


def _note_unlisted(state: State, node: str, at: int) -> None:
    """Note since when attached devices of the node are in no slice, although all pools of their driver there are complete."""
    for uid in state.fleet.resources_at[node] if node else ():
        resource, known = state.fleet.resources.rows[uid], uid in state.health.unlisted
        is_so = (node, resource.uuid) not in state.inventory.keys_at and _is_unlisted(state, resource)
        if is_so and not known:
            state.health.unlisted.put(uid, at)
        elif is_so:
            state.touch_device(uid)  # whether the driver lists others may have changed
        elif known:
            state.health.unlisted.drop(uid)
            state.notes.fired_deadlines.drop((DeadlineKind.UNLISTED, uid))
            state.notes.clear_alert(uid, DEVICE_UNLISTED)


def _is_unlisted(state: State, resource: FabricResource) -> bool:
    if not resource.uuid or state.names_of(resource) or resource.state != "Online" or resource.deleting:
        return False
    model = state.settings.model(resource.model)
    pools = [
        state.inventory.pools[key]
        for key in state.inventory.pools_at[resource.node]
        if model and key[0] == model.driver
    ]
    return bool(pools) and all(pool.usable for pool in pools)


def _tell_taints_again(state: State, uuids: set[str]) -> None:
    for uid in {uid for uuid in uuids for uid in state.fleet.resources_of_uuid[uuid]}:
        if not state.inventory.taints_of(state.fleet.resources.rows[uid]):
            state.notes.clear_alert(uid, DEVICE_TAINTED)


def _uuids(state: State, slice: Slice, names: Iterable[str]) -> set[str]:
    return {uuid for name in names for uuid in state.inventory.face((slice.driver, slice.pool, name)).uuids}


def _forget_departed(state: State, uuids: set[str]) -> None:
    """Forget departed devices that no slice shows any more."""
    for uuid in uuids:
        if not state.inventory.keys_of[uuid]:
            state.notes.fired_deadlines.drop((DEPARTED, uuid))


def _config_observed(state: State, event: e.ObjectObserved, at: int) -> None:
    before = state.settings.config
    config_observed(state, event, at)
    if state.process.synced:
        note_fixed(state, at)
    if before.uid and before.prefix != state.settings.config.prefix:
        ours = _labels_of(before)
        for node in state.fleet.nodes.rows.values():
            leave_labels(state, node.name, node.labels, ours, state.settings.config.prefix)


def _claim_observed(state: State, event: e.ObjectObserved, at: int) -> None:
    before = state.demand.claims.get(event.uid)
    observed(state, event, at)
    claim = state.demand.claims.rows[event.uid]
    for held in {claim.hold, before.hold if before is not None else ""} - {""}:
        hold.seen(state, held, at)
    if claim.hold:
        return
    was = before.allocation if before is not None else None
    if claim.allocation != was:
        state.notes.clear_alert(event.uid, DEVICE_TWICE)
        state.notes.clear_alert(event.uid, DEVICE_UNEXPLAINED)
        if claim.allocation is not None and event.uid not in state.hand_over.exchanges:
            _measure_skew(state, claim.allocation, at)


def _measure_skew(state: State, allocation: Allocation, at: int) -> None:
    """By how much a scheduler's clock is at most behind this one, from an allocation that it has just written; the least counts.
    A clock far ahead may come from one odd timestamp, and counts until the next one. What a start finds was written at any time:
    it says something only if it lies ahead."""
    if allocation.timestamp is None or (not state.process.synced and allocation.timestamp <= at):
        return
    seen = at - allocation.timestamp
    if state.settings.skew is None or seen < state.settings.skew or state.settings.skew < -_FAR_AHEAD:
        state.settings.skew = seen


def _claim_gone(state: State, event: e.ObjectGone, at: int) -> None:
    claim = state.demand.claims.get(event.uid)
    state.demand.claims.drop(event.uid)
    if claim is not None and claim.hold:
        hold.seen(state, claim.hold, at)
    life = state.lifecycle.lives.get(event.uid)
    if life is None or life.state == "Released":
        forget_claim(state, event.uid)


def _pod_gone(state: State, event: e.ObjectGone, at: int) -> None:
    state.demand.pods.drop(event.uid)
    state.hand_over.reservations.drop(f"pod:{event.uid}")
    for name in _WITH_POD:
        state.notes.last_emitted.drop((name, event.uid))


def _node_observed(state: State, event: e.ObjectObserved, at: int) -> None:
    before = state.fleet.nodes.get(event.uid)
    observed(state, event, at)
    node = state.fleet.nodes.rows[event.uid]
    touch(state, node.name)
    labelled = state.notes.labelled
    if (
        state.process.synced
        and state.live
        and before is not None
        and _is_undone(state, node.name, before.labels, node.labels)
    ):
        if (e.NodeLabelled.__name__, node.name) not in state.notes.refusals:  # it is long ago, or the first time
            state.notes.clear_alert(node.name, LABEL_FIGHT)
        undone(state, e.NodeLabelled.__name__, node.name, at)
    labelled.drop_where(lambda key: key[0] == node.name and node.labels.get(key[1], "") == labelled.rows[key])
    forget_left_labels(state, node.name, node.labels)


def _is_undone(state: State, node: str, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether another client has changed a label that dds alone writes. A write of dds that is observed now is no such change."""
    changed = (key for key in _labels_of(state.settings.config) if before.get(key, "") != after.get(key, ""))
    return any((node, key) not in state.notes.labelled for key in changed)


def _labels_of(config: Config) -> list[str]:
    """The keys of the labels that dds writes under this ConfigMap, for all its models."""
    return [f"{config.prefix}/{model.device}{end}" for model in config.models for end in ("", COOLING)]


def _node_gone(state: State, event: e.ObjectGone, at: int) -> None:
    node = state.fleet.nodes.get(event.uid)
    state.fleet.nodes.drop(event.uid)
    if node is not None:
        for cell in sorted(state.failing.cooling_at[node.name]):
            state.failing.cooling.drop(cell)
        state.failing.cooled.drop_where(lambda cell: cell[0] == node.name)
        state.notes.labelled.drop_where(lambda key: key[0] == node.name)
        state.notes.left_labels.drop(node.name)
        state.fleet.orders.drop_where(lambda cell: cell[0] == node.name)
        listings_end(state, node.name)
        unexplained = any(row[0] == node.name for row in state.health.unexplained.rows.values())
        # A machine that had devices of the operator may register again with one that no resource names by then.
        if state.process.synced and not unexplained and not state.fleet.resources_at[node.name]:
            state.notes.fired_deadlines.drop((ORDERED, node.name))
            state.health.fixed.drop_where(lambda uuid: state.health.fixed.rows[uuid][0] == node.name)
        _forget_shown(state, node.name)


def _forget_shown(state: State, node: str) -> None:
    forget_words(state, node)
    for name in _WITH_NODE:
        state.notes.last_emitted.drop((name, node))
        state.notes.last_emitted.drop((name, f"{node}:ready"))
    for model in state.settings.models:
        for name in _WITH_CELL:
            state.notes.last_emitted.drop((name, f"{node}/{model}"))


def _request_observed(state: State, event: e.ObjectObserved, at: int) -> None:
    old = state.fleet.requests.get(event.uid)
    observed(state, event, at)
    request = state.fleet.requests.rows[event.uid]
    if request.size:
        note_ordered(state, request.node, at)
    fence.passed_over(state, request, at)
    order_met(state, request)
    _order_overtaken(state, request, old.size if old is not None else 0)
    if (request.done and not _is_short(state, request)) or (old is not None and request.size > old.size):
        state.notes.fired_deadlines.drop((UNMADE, request.name))


def _is_short(state: State, request: AttachRequest) -> bool:
    return len(state.fleet.resources_of_request[request.name]) < request.size


def _order_overtaken(state: State, request: AttachRequest, before: int) -> None:
    """Another client took the size beyond what was ordered: the intent is void, or the next order would undo that."""
    order = state.fleet.orders.get((request.node, request.model))
    if order is None or order.request != request.name:
        return
    if request.size > max(order.size, before) or request.size < order.size <= before:
        state.fleet.orders.drop((request.node, request.model))
        fence.voided(state, request.name)


def _request_gone(state: State, event: e.ObjectGone, at: int) -> None:
    request = state.fleet.requests.get(event.uid)
    state.fleet.requests.drop(event.uid)
    if request is not None:
        state.notes.fired_deadlines.drop((UNMADE, request.name))
        order = state.fleet.orders.get((request.node, request.model))
        if order is not None and order.request == request.name:
            state.fleet.orders.drop((request.node, request.model))


def _resource_observed(state: State, event: e.ObjectObserved, at: int) -> None:
    """An attach error stands from its first text until the text is removed, or until the device has an id: the operator removes
    the text of an earlier try only with Online, and from then on an error is the node's."""
    old, failed = state.fleet.resources.get(event.uid), state.manager_fails
    observed(state, event, at)
    resource = state.fleet.resources.rows[event.uid]
    if resource.uuid:
        state.notes.fired_deadlines.drop((DEPARTED, resource.uuid))
    else:
        _departed(state, old, at)
    if not resource.marked:
        state.give_back.unmarked.drop(event.uid)
    if not resource.error or verdict(resource.error) not in ("", verdict(old.error if old is not None else "")):
        state.notes.clear_alert(event.uid, DEVICE_ERROR)
    _note_sick(state, resource, failed, at)
    resource_looked_at(state, old, resource, at)
    touch(state, resource.node)
    if resource.uuid and _unnamed_at(state, resource.uuid) == resource.node:
        state.health.fixed.drop(resource.uuid)
        state.explain(resource.uuid)
    note_ordered(state, resource.node, at)
    if old is not None and old.state != resource.state:
        state.notes.clear_alert(event.uid, NO_PROGRESS)
    _note_hardware(state, resource.node)
    _note_unlisted(state, resource.node, at)
    if not resource.error or resource.state not in ("", RESOURCE_ATTACHING) or resource.uuid:
        state.health.erring.drop(event.uid)
    elif event.uid not in state.health.erring:
        state.health.erring.put(event.uid, at)


def _note_sick(state: State, resource: FabricResource, failed: bool, at: int) -> None:
    """Note since when a device with an id has an error that says nothing of the device. When the manager that had failed answers
    again, its errors of the other devices are forgotten: they go at the operator's next checks."""
    found = verdict(resource.error)
    if found in ("gone", "critical"):
        state.notes.fired_deadlines.put((CONDEMNED, resource.uid), at)
    elif found or not resource.error:  # a question that fails since does not take the verdict back
        state.notes.fired_deadlines.drop((CONDEMNED, resource.uid))
    if not resource.error or not resource.uuid or found or resource.leaving:
        _is_not_sick(state, resource.uid)
    elif resource.uid not in state.health.sick:
        state.health.sick.put(resource.uid, at)
    _manager_answers(state, failed, at)


def _manager_answers(state: State, failed: bool, at: int) -> None:
    if failed and not state.manager_fails:
        state.notes.clear_alert(MANAGER, MANAGER_ERROR)
        for other in list(state.health.sick):
            _is_not_sick(state, other)
            state.health.sick.put(other, at)


def _is_not_sick(state: State, uid: str) -> None:
    state.health.sick.drop(uid)
    state.notes.fired_deadlines.drop((DeadlineKind.SICK, uid))


def _departed(state: State, old: FabricResource | None, at: int) -> None:
    """The fabric has the device back, but a slice may still show it: watches of two kinds need not keep step, and without a
    resource the device would pass for a built-in one. Before `Synced`, lists come in any order."""
    if state.process.synced and old is not None and old.uuid and state.inventory.keys_of[old.uuid]:
        state.notes.fired_deadlines.put((DEPARTED, old.uuid), at)


def _resource_gone(state: State, event: e.ObjectGone, at: int) -> None:
    old, failed = state.fleet.resources.get(event.uid), state.manager_fails
    _departed(state, old, at)
    state.fleet.resources.drop(event.uid)
    state.give_back.unmarked.drop(event.uid)
    state.health.erring.drop(event.uid)
    _is_not_sick(state, event.uid)
    state.notes.fired_deadlines.drop((CONDEMNED, event.uid))
    _manager_answers(state, failed, at)
    looks_end(state, event.uid, at, old)
    touch(state, old.node if old is not None else "")
    request = state.fleet.request(old.request) if old is not None else None
    # What the operator made before it said that it is done was observed before this resource went.
    if request is not None and request.done and _is_short(state, request):
        state.notes.fired_deadlines.put((UNMADE, request.name), at)
    state.health.unlisted.drop(event.uid)
    state.notes.fired_deadlines.drop((DeadlineKind.UNLISTED, event.uid))


FOLDS: dict[type[Event], Fold] = {
    **{kind: observed if issubclass(kind, e.ObjectObserved) else ending() for kind in e.EVENTS if kind in e.KIND_OF},
    e.ConfigObserved: _config_observed,
    e.ClaimObserved: _claim_observed,
    e.ClaimGone: ending(_claim_gone),
    e.SliceObserved: _slice_observed,
    e.SliceGone: ending(_slice_gone),
    e.TaintRuleObserved: observed,
    e.TaintRuleGone: ending(gone),
    e.PodGone: ending(_pod_gone),
    e.NodeObserved: _node_observed,
    e.NodeGone: ending(_node_gone),
    e.AttachRequestObserved: _request_observed,
    e.AttachRequestGone: ending(_request_gone),
    e.FabricResourceObserved: counting(_resource_observed),
    e.FabricResourceGone: counting(ending(_resource_gone)),
}
