"""The folds of facts about objects: what is taken in beside the object itself, and what is forgotten with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dds_core.events import Event
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
)
from dds_core.model import BLOCKING, Allocation, AttachRequest, FabricResource, Slice, Taint
from dds_core.scaler import events as e
from dds_core.scaler.fold.decisions import detach_void, hold_seen, order_met
from dds_core.scaler.fold.lives import forget_claim
from dds_core.scaler.model import COOLING, DEPARTED, NO_PROGRESS
from dds_core.scaler.spending import counting
from dds_core.scaler.state import Picture

_WITH_POD, _WITH_RULE = gone_with(e.EVENTS, "pod"), gone_with(e.EVENTS, "rule")
_WITH_NODE, _WITH_CELL = gone_with(e.EVENTS, "node"), gone_with(e.EVENTS, "cell")


DEVICE_ERROR, DEVICE_TAINTED, DEVICE_TWICE = "DeviceError", "DeviceTainted", "DeviceTwice"
DEVICE_UNLISTED = "DeviceUnlisted"
"""Reasons of alerts about a device."""
SLICES = ("slices", "changed")
"""Under this `passed` remembers when a slice changed of a driver for which there is still a DeviceTaintRule of ours."""
_FAR_AHEAD = 600 * MICROSECONDS


def taints_of(picture: Picture, resource: FabricResource) -> set[Taint]:
    """Those that keep the scheduler away from it, as a whole where it is listed so; none when one of its faces has none."""
    keys = picture.keys_of[resource.uuid] if resource.uuid else frozenset()
    if all(picture.pools[key[:2]].free == len(picture.pools[key[:2]].devices) for key in keys):
        return set()
    faces = [key for key in keys if not picture.face(key).part] or list(keys)
    devices = [device for key in faces if (device := picture.device(key)) is not None]
    taints = [{taint for taint in device.taints if taint.effect in BLOCKING} for device in devices]
    return set().union(*taints) if all(taints) else set()


def _slice_observed(picture: Picture, event: Any, at: int) -> None:
    before = _uuids(picture, picture.slices.get(event.uid) or Slice(uid=event.uid), event.devices)
    observed(picture, event, at)
    _slice_changed(picture, picture.slices.rows[event.uid].driver, at)
    _note_unlisted(picture, picture.slices.rows[event.uid].node, at)
    _forget_departed(picture, before)
    _tell_taints_again(picture, before)


def _slice_gone(picture: Picture, event: e.ObjectGone, at: int) -> None:
    old = picture.slices.get(event.uid)
    before = _uuids(picture, old, old.devices) if old is not None else set()
    gone(picture, event, at)
    _slice_changed(picture, old.driver if old is not None else "", at)
    _note_unlisted(picture, old.node if old is not None else "", at)
    _forget_departed(picture, before)
    _tell_taints_again(picture, before)


def _slice_changed(picture: Picture, driver: str, at: int) -> None:
    """Rules of ours may only go while the slices of their drivers are quiet."""
    if picture.synced and any(picture.rules.rows[uid].driver == driver for uid in picture.our_rules):
        picture.passed.put(SLICES, at)


def _note_unlisted(picture: Picture, node: str, at: int) -> None:
    """Since when devices that are attached to the node are not listed, although all is listed that their driver has there, which
    may be nothing."""
    for uid in picture.resources_at[node] if node else ():
        resource, known = picture.resources.rows[uid], uid in picture.unlisted
        is_so = _is_unlisted(picture, resource)
        if is_so and not known:
            picture.unlisted.put(uid, at)
        elif is_so:
            picture.touch_device(uid)  # whether the driver lists others may have changed
        elif known:
            picture.unlisted.drop(uid)
            picture.passed.drop(("unlisted", uid))
            picture.tell_again(uid, DEVICE_UNLISTED)


def _is_unlisted(picture: Picture, resource: FabricResource) -> bool:
    if not resource.uuid or picture.names_of(resource) or resource.state != "Online" or resource.deleting:
        return False
    model = picture.model(resource.model)
    pools = [picture.pools[key] for key in picture.pools_at[resource.node] if model and key[0] == model.driver]
    return bool(pools) and all(pool.usable for pool in pools)


def _tell_taints_again(picture: Picture, uuids: set[str]) -> None:
    for uid in {uid for uuid in uuids for uid in picture.resources_of_uuid[uuid]}:
        if not taints_of(picture, picture.resources.rows[uid]):
            picture.tell_again(uid, DEVICE_TAINTED)


def _uuids(picture: Picture, slice: Slice, names: Iterable[str]) -> set[str]:
    return {uuid for name in names for uuid in picture.face((slice.driver, slice.pool, name)).uuids}


def _forget_departed(picture: Picture, uuids: set[str]) -> None:
    """What no slice shows any more need not be remembered as gone."""
    for uuid in uuids:
        if not picture.keys_of[uuid]:
            picture.passed.drop((DEPARTED, uuid))


def _config_observed(picture: Picture, event: e.ObjectObserved, at: int) -> None:
    before = picture.config
    config_observed(picture, event, at)
    if before.uid and before.prefix != picture.config.prefix:
        ours = [f"{before.prefix}/{model.device}{end}" for model in before.models for end in ("", COOLING)]
        for node in picture.nodes.rows.values():
            leave_labels(picture, node.name, node.labels, ours, picture.config.prefix)


def _claim_observed(picture: Picture, event: e.ObjectObserved, at: int) -> None:
    before = picture.claims.get(event.uid)
    observed(picture, event, at)
    claim = picture.claims.rows[event.uid]
    for held in {claim.hold, before.hold if before is not None else ""} - {""}:
        hold_seen(picture, held, at)
    if claim.hold:
        return
    was = before.allocation if before is not None else None
    if claim.allocation != was:
        picture.tell_again(event.uid, DEVICE_TWICE)
        if claim.allocation is not None and event.uid not in picture.exchanges:
            _measure_skew(picture, claim.allocation, at)


def _measure_skew(picture: Picture, allocation: Allocation, at: int) -> None:
    """What a scheduler has just written tells how far its clock is behind ours at most, and the least counts. That it is far
    ahead may come from one odd timestamp, and counts until the next one. What a start finds was written at any time: it tells
    something only when it lies ahead."""
    if allocation.timestamp is None or (not picture.synced and allocation.timestamp <= at):
        return
    seen = at - allocation.timestamp
    if picture.skew is None or seen < picture.skew or picture.skew < -_FAR_AHEAD:
        picture.skew = seen


def _claim_gone(picture: Picture, event: e.ObjectGone, at: int) -> None:
    claim = picture.claims.get(event.uid)
    picture.claims.drop(event.uid)
    if claim is not None and claim.hold:
        hold_seen(picture, claim.hold, at)
    life = picture.lives.get(event.uid)
    if life is None or life.state == "Released":
        forget_claim(picture, event.uid)


def _rule_observed(picture: Picture, event: e.ObjectObserved, at: int) -> None:
    observed(picture, event, at)
    _slice_changed(picture, picture.rules.rows[event.uid].driver, at)  # what changed before is not known


def _rule_gone(picture: Picture, event: e.ObjectGone, at: int) -> None:
    gone(picture, event, at)
    picture.lifted.drop(event.uid)
    for name in _WITH_RULE:
        picture.shown.drop((name, event.uid))


def _pod_gone(picture: Picture, event: e.ObjectGone, at: int) -> None:
    picture.pods.drop(event.uid)
    picture.reservations.drop(f"pod:{event.uid}")
    for name in _WITH_POD:
        picture.shown.drop((name, event.uid))


def _node_observed(picture: Picture, event: e.ObjectObserved, at: int) -> None:
    observed(picture, event, at)
    node = picture.nodes.rows[event.uid]
    labelled = picture.labelled
    labelled.drop_where(lambda key: key[0] == node.name and node.labels.get(key[1], "") == labelled.rows[key])
    forget_left_labels(picture, node.name, node.labels)


def _node_gone(picture: Picture, event: e.ObjectGone, at: int) -> None:
    node = picture.nodes.get(event.uid)
    picture.nodes.drop(event.uid)
    if node is not None:
        for cell in sorted(picture.cooling_at[node.name]):
            picture.cooling.drop(cell)
        picture.cooled.drop_where(lambda cell: cell[0] == node.name)
        picture.labelled.drop_where(lambda key: key[0] == node.name)
        picture.left_labels.drop(node.name)
        picture.orders.drop_where(lambda cell: cell[0] == node.name)
        _forget_shown(picture, node.name)


def _forget_shown(picture: Picture, node: str) -> None:
    forget_words(picture, node)
    for name in _WITH_NODE:
        picture.shown.drop((name, node))
        picture.shown.drop((name, f"{node}:ready"))
    for model in picture.models:
        for name in _WITH_CELL:
            picture.shown.drop((name, f"{node}/{model}"))


def _request_observed(picture: Picture, event: e.ObjectObserved, at: int) -> None:
    old = picture.requests.get(event.uid)
    observed(picture, event, at)
    request = picture.requests.rows[event.uid]
    order_met(picture, request)
    _order_overtaken(picture, request, old.size if old is not None else 0)


def _order_overtaken(picture: Picture, request: AttachRequest, before: int) -> None:
    """Somebody else took the size beyond what we ordered: our intent is void, or the next order would undo theirs."""
    order = picture.orders.get((request.node, request.model))
    if order is None or order.request != request.name:
        return
    if request.size > max(order.size, before) or request.size < order.size <= before:
        picture.orders.drop((request.node, request.model))
        detach_void(picture, request.name)


def _request_gone(picture: Picture, event: e.ObjectGone, at: int) -> None:
    request = picture.requests.get(event.uid)
    picture.requests.drop(event.uid)
    if request is not None:
        order = picture.orders.get((request.node, request.model))
        if order is not None and order.request == request.name:
            picture.orders.drop((request.node, request.model))


def _resource_observed(picture: Picture, event: e.ObjectObserved, at: int) -> None:
    """An error is an error from its first word on, until it is taken back, or until the device came all the same: the operator
    takes back the words of an earlier try only with Online."""
    old = picture.resources.get(event.uid)
    observed(picture, event, at)
    resource = picture.resources.rows[event.uid]
    if resource.uuid:
        picture.passed.drop((DEPARTED, resource.uuid))
    else:
        _departed(picture, old, at)
    if not resource.marked:
        picture.unmarked.drop(event.uid)
    if not resource.error:
        picture.tell_again(event.uid, DEVICE_ERROR)
    if old is not None and old.state != resource.state:
        picture.tell_again(event.uid, NO_PROGRESS)
    _note_unlisted(picture, resource.node, at)
    stands = resource.error and resource.state in ("", "Attaching")
    came = bool(resource.uuid) and old is not None and not old.uuid
    unchanged = old is not None and old.error == resource.error
    if not stands or (came and unchanged):
        picture.erring.drop(event.uid)
    elif event.uid not in picture.erring and not (resource.uuid and unchanged):
        picture.erring.put(event.uid, at)


def _departed(picture: Picture, old: FabricResource | None, at: int) -> None:
    """The fabric has the device back. A slice that still shows it is old news: watches of two kinds need not keep step, and a
    device that no resource names would pass for one that is built in. Before `Synced` lists come in any order."""
    if picture.synced and old is not None and old.uuid and picture.keys_of[old.uuid]:
        picture.passed.put((DEPARTED, old.uuid), at)


def _resource_gone(picture: Picture, event: e.ObjectGone, at: int) -> None:
    _departed(picture, picture.resources.get(event.uid), at)
    picture.resources.drop(event.uid)
    picture.unmarked.drop(event.uid)
    picture.erring.drop(event.uid)
    picture.unlisted.drop(event.uid)
    picture.passed.drop(("unlisted", event.uid))


FOLDS: dict[type[Event], Fold] = {
    **{kind: observed if issubclass(kind, e.ObjectObserved) else ending() for kind in e.EVENTS if kind in e.KIND_OF},
    e.ConfigObserved: _config_observed,
    e.ClaimObserved: _claim_observed,
    e.ClaimGone: ending(_claim_gone),
    e.SliceObserved: _slice_observed,
    e.SliceGone: ending(_slice_gone),
    e.TaintRuleObserved: _rule_observed,
    e.TaintRuleGone: ending(_rule_gone),
    e.PodGone: ending(_pod_gone),
    e.NodeObserved: _node_observed,
    e.NodeGone: ending(_node_gone),
    e.AttachRequestObserved: _request_observed,
    e.AttachRequestGone: ending(_request_gone),
    e.FabricResourceObserved: counting(_resource_observed),
    e.FabricResourceGone: counting(ending(_resource_gone)),
}
