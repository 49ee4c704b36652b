"""Whether what comes to a node would do for a claim: what came and does not, what cannot be told, and what is known before.

A device that comes and does not do is replaced once in an attempt. Where others of the model would be refused too (a selector, a
description that promises otherwise), none is ordered for the claim until something has changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from dds_core.kit.policy import MICROSECONDS
from dds_core.matching.devices import differences
from dds_core.matching.search import prevented
from dds_core.model import Claim, DeviceKey, FabricResource, Model, Toleration
from dds_core.scaler.model import MODEL_DIFFERS, ClaimLife
from dds_core.scaler.operator import LEAVES
from dds_core.scaler.state import State

UNSUITABLE = "DeviceUnsuitable"
_IN_PARTS = "the node lists parts of it only"


def tainted_there(state: State, node: str, claim: Claim, model: Model) -> str:
    """A standing rule that taints all devices of the model's driver on the node, and that the claim does not tolerate; or ""."""
    tolerated = _tolerations(claim)
    for rule in state.inventory.taint_rules.rows.values():
        here = rule.driver in ("", model.driver) and rule.pool == node and not rule.device and not rule.deleting
        if here and prevented((rule.taint,), tolerated):
            return f"the DeviceTaintRule {rule.name} taints what comes to {node}: {rule.taint.key}:{rule.taint.effect}"
    return ""


def known_otherwise(state: State, node: str, claim: Claim, model: Model) -> str:
    """Words on a description that promises what the claim asks for, where the driver lists otherwise on every node that has the
    model, so that the claim could have none of them; or "". Looked for once this node lists one so, or an alert has told it."""
    if not (state.notes.is_alerted(model.model, MODEL_DIFFERS) or _differs_here(state, node, model)):
        return ""
    there = [one for one in state.fleet.resources.rows.values() if one.model == model.model]
    named = [
        (one, key) for one in there for key in sorted(state.names_of(one)) if state.inventory.face(key).uuid == one.uuid
    ]
    listed = [(one.node, key) for one, key in named if not state.inventory.face(key).part]
    words = [(differ, node, key) for node, key in listed if (differ := promised_otherwise(state, model, key))]
    if not words or len(words) < len(listed):
        return ""
    refusals = [state.inventory.allocator(node).refusal(claim, key) for _, node, key in words]
    return f"{refusals[0]}; its pool promises {words[0][0]}" if all(refusals) else ""


def _differs_here(state: State, node: str, model: Model) -> bool:
    here = (state.fleet.resources.rows[uid] for uid in state.lifecycle.idle_at[node])
    keys = (key for one in here if one.model == model.model for key in state.names_of(one))
    return any(not state.inventory.face(key).part and promised_otherwise(state, model, key) for key in keys)


def _free(state: State, node: str, claim: Claim, model: Model) -> Iterator[FabricResource]:
    """Idle devices that are promised to no other claim."""
    mine = {promise.identity for promise in state.reserved_devices_of(claim)}
    here = (state.fleet.resources.rows[uid] for uid in sorted(state.lifecycle.idle_at[node]))
    return (one for one in here if one.model == model.model and (one.uuid in mine or not state.promised(one.uuid)))


def arrived_unsuitable(state: State, node: str, claim: Claim, model: Model) -> tuple[str, str, bool] | None:
    """(UUID, words, whether others of the model would be refused too) of a free device that came while the claim waits here and
    that does not satisfy it. A device from before is no reason against another order, unless it was on its way to the claim, or
    the claim has already failed for it. Nor is the first device that came in parts, with an error or with a taint: the next may
    be whole and well."""
    life = state.lifecycle.lives.rows[claim.uid]
    replaced, cut = life.ordered.count(model.model) > 1, False
    for resource in _free(state, node, claim, model):
        before = resource.created + MICROSECONDS <= life.began and resource.uid not in life.devices
        if before and resource.uuid not in life.unsuited:
            continue
        keys = sorted(state.names_of(resource))
        why = _why_not(state, node, claim, keys)
        lasts = bool(why) and why != _IN_PARTS
        if lasts:
            differ = promised_otherwise(state, model, keys[0])
            why += f"; its pool promises {differ}" if differ else ""
        elif not why and replaced:
            why = _ails(state, claim, resource)
        if why and (cut or why != _IN_PARTS or resource.uuid in life.unsuited):
            return resource.uuid, f"{resource.uuid} came for it and cannot be given to it: {why}", lasts
        cut = cut or bool(why)
    return None


def _ails(state: State, claim: Claim, resource: FabricResource) -> str:
    """What keeps a free device from every claim, or from those that do not tolerate it; "" if nothing does."""
    if not state.may_serve(resource):
        return resource.error
    if state.is_lost(resource.uid):
        return "its driver does not list it"
    names, tolerated = state.names_of(resource), _tolerations(claim)
    taints = [
        taint for key in sorted(names) if (device := state.inventory.device(key)) is not None for taint in device.taints
    ]
    rules = (one for one in state.inventory.taint_rules.rows.values() if (one.driver, one.pool, one.device) in names)
    taints += [one.taint for one in rules if one.taint.key != LEAVES]  # that is of a device which had the name before
    return next((f"it has the taint {one.key}:{one.effect}" for one in taints if prevented((one,), tolerated)), "")


def _tolerations(claim: Claim) -> list[Toleration]:
    return [one for request in claim.requests for asked in request.alternatives for one in asked.tolerations]


def _why_not(state: State, node: str, claim: Claim, keys: list[DeviceKey]) -> str:
    """Why a free device cannot be given to the claim under any of its names; "" when it can, or when that is not certain."""
    if not keys or not all(state.inventory.pools[key[:2]].usable for key in keys):
        return ""
    whole = [key for key in keys if not state.inventory.face(key).part]
    if not whole:
        return _IN_PARTS
    refusals = [state.inventory.allocator(node).refusal(claim, key) for key in whole]
    return refusals[0] or "" if all(refusals) else ""


def without_class(state: State, claim: Claim) -> str:
    """Words on a DeviceClass that the claim names and that does not exist, "" if there is none: of no device, free or to come, it
    can be told whether the claim may have it."""
    waiting = (one for _, one, _ in state.inventory.pool_results(claim.allocation))
    unknown = claim.unknown_class({one.name for one in state.inventory.classes.rows.values()}, waiting)
    return f"the DeviceClass {unknown} does not exist" if unknown else ""


def unjudged(state: State, node: str, claim: Claim, model: Model) -> dict[str, str]:
    """The free devices (uids) of which it cannot be told whether the claim may have them, each with why: its class is gone, or
    dds cannot evaluate a selector. They stay, and no other is ordered: it could be told no better."""
    free = list(_free(state, node, claim, model))
    if not free:  # usually; an allocator takes long to make
        return {}
    found, allocator = dict[str, str](), state.inventory.allocator(node)
    for resource in free:
        for key in sorted(state.names_of(resource)):
            doubt = allocator.refusal(claim, key, doubt=True)
            if doubt and allocator.refusal(claim, key) is None:
                told = f"{resource.uuid} is there, and it cannot be told whether the claim may have it"
                found.setdefault(resource.uid, f"{told}: {doubt}")
    return found


def promised_otherwise(state: State, model: Model, key: DeviceKey) -> str:
    """What the model's pool promises and the driver lists otherwise; "" if nothing."""
    slices = (
        state.inventory.slices.rows[uid]
        for pool in state.inventory.pools_of_model[model.model]
        for uid in state.inventory.slices_of[pool]
    )
    promised = next((each.devices[min(each.devices)] for each in slices if each.devices), None)
    listed = state.inventory.device(key)
    return "; ".join(differences(promised, listed)) if promised is not None and listed is not None else ""


def verdict_stands(state: State, claim: Claim, life: ClaimLife) -> bool:
    """Whether a device of the model was refused, and would be again: neither claim, class, description nor rule has changed, and
    no device of the model that is listed anywhere would do."""
    basis, _ = life.verdict
    if not basis or basis != basis_of(state, claim):
        return False
    models = {m.model for m in state.inventory.wanted_models(claim.allocation)}
    listed = (
        (one.node, key)
        for one in state.fleet.resources.rows.values()
        if one.model in models
        for key in state.names_of(one)
    )
    return not any(state.inventory.allocator(node).refusal(claim, key) is None for node, key in listed)


def basis_of(state: State, claim: Claim) -> str:
    """A digest of what the choice of a device for the claim depends on, but for the devices of nodes. The order
    of mappings does not count: it is another one after a restart."""
    named = {asked.device_class for request in claim.requests for asked in request.alternatives}
    models = {model.model for model in state.inventory.wanted_models(claim.allocation)}
    keys = (key for name in models for key in state.inventory.pools_of_model[name])
    pools = [state.inventory.slices.rows[uid] for key in keys for uid in state.inventory.slices_of[key]]
    rules = (one for one in state.inventory.taint_rules.rows.values() if not one.device)
    told = (
        [_written((claim.requests, claim.constraints))],
        {_written((one.name, one.selectors)) for one in state.inventory.classes.rows.values() if one.name in named},
        {_written(name) for name in models},
        {_written((one.attributes, one.capacity)) for each in pools for one in each.devices.values()},
        {_written(one) for one in rules},
    )
    return hashlib.sha256(b"\n".join(b",".join(sorted(each)) for each in told)).hexdigest()[:16]


def _written(what: object) -> bytes:
    return msgspec.json.encode(what, order="deterministic")
