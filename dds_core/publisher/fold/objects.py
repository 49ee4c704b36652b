"""The folds of facts about objects of the cluster."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.events import Event, NodeLabelled
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.work import Fold, config_observed, ending, forget_left_labels, leave_labels, observed
from dds_core.model import Claim, FabricResource
from dds_core.publisher import events as e
from dds_core.publisher.describe import selector
from dds_core.publisher.model import Host, PoolConfig, PoolKey, PoolRow, PoolSlice
from dds_core.publisher.rooms import has_arrived, machines_of, results_of
from dds_core.publisher.state import PoolState, is_so, stream_of


def _config_observed(state: PoolState, event: e.ObjectObserved, at: int) -> None:
    before = state.config
    config_observed(state, event, at)
    if before is not None and before.prefix != state.prefix:
        for host in state.cluster.hosts.rows.values():
            leave_labels(state, host.name, host.labels, _ours(state, before, host), state.prefix)
    configured = {one.model for one in state.models}
    state.forget_answers(lambda _, model: model not in configured)
    state.dirty.everything = True


def _ours(state: PoolState, config: PoolConfig, host: Host) -> list[str]:
    """The labels of the node that dds keeps; its limits only where the fabric knows them."""
    machine = state.machine_of(host)
    limited = machine is not None and machine.limits is not None and state.policy.label_limits
    names = [f"{model.device}-size-{end}" for model in config.models for end in ("max", "min")] if limited else []
    return [f"{config.prefix}/{name}" for name in ("fabric", *names)]


def _host_observed(state: PoolState, event: e.ObjectObserved, at: int) -> None:
    old = state.cluster.hosts.get(event.uid)
    if old is not None:
        state.touch_node(old.name)
    observed(state, event, at)
    host = state.cluster.hosts.rows[event.uid]
    if old is not None and old.machine != host.machine:
        _forget_absent(state, old)
    for key in list(state.labels_of[host.name]):
        if host.labels.get(key[1], "") == state.notes.labelled.rows[key]:
            state.notes.labelled.drop(key)
    forget_left_labels(state, host.name, host.labels)
    state.dirty.hosts.add(host.name)
    state.touch_node(host.name)


def _host_gone(state: PoolState, event: e.ObjectGone, at: int) -> None:
    host = state.cluster.hosts.get(event.uid)
    if host is None:
        return
    state.touch_node(host.name)
    state.cluster.hosts.drop(event.uid)
    _forget_absent(state, host)
    for key in list(state.labels_of[host.name]):
        state.notes.labelled.drop(key)
    state.notes.left_labels.drop(host.name)
    state.notes.fired_deadlines.drop((DeadlineKind.COOLING, host.name))
    state.notes.last_emitted.drop((NodeLabelled.__name__, host.name))


def _forget_absent(state: PoolState, host: Host) -> None:
    """Without a node for the machine, how long it is gone does not matter."""
    for machine in machines_of(host):
        if not state.cluster.hosts_of[machine]:
            state.is_back(machine)


def _slice_observed(state: PoolState, event: e.ObjectObserved, at: int) -> None:
    old = state.cluster.slices.get(event.uid)
    observed(state, event, at)
    new = state.cluster.slices.rows[event.uid]
    if not (new.node or (old is not None and not state.is_ours(old))) and _came_about(state, new):
        return
    _slice_moved(state, old)
    _slice_moved(state, new)


def _came_about(state: PoolState, new: PoolSlice) -> bool:
    """Whether one of dds's slices is now as it was decided: then nothing else is wanted of its pool. A pool with many slices
    would otherwise be recomputed for each of them."""
    key = (new.driver, new.pool)
    row = state.pools.get(key)
    place = row.place(new.name) if row is not None else None
    if row is None or place is None or not is_so(new, row, place, selector(row.prefix, row.model.device, row.fabric)):
        return False
    if state.shows(key, row):
        _settled(state, key, row)
    state.dirty.due.add((DeadlineKind.READBACK, stream_of(key)))
    return True


def _slice_gone(state: PoolState, event: e.ObjectGone, at: int) -> None:
    old = state.cluster.slices.get(event.uid)
    state.cluster.slices.drop(event.uid)
    _slice_moved(state, old)


def _slice_moved(state: PoolState, one: PoolSlice | None) -> None:
    """A slice is new, gone or changed: look at its pool, or the pools of its node."""
    if one is None:
        return
    if one.node:
        state.touch_node(one.node, one.driver)
        return
    key = (one.driver, one.pool)
    row = state.pools.get(key)
    if row is not None or key in state.cluster.slices_of or state.model_of_pool(key) is not None:
        state.dirty.pools.add(key)
    if row is not None and state.shows(key, row):
        _settled(state, key, row)
    if not any(not state.is_ours(found) for found in state.slices_in(key)):
        state.notes.clear_alert(stream_of(key), "PoolOwnedByOther")


def _settled(state: PoolState, key: PoolKey, row: PoolRow) -> None:
    """The cluster shows the pool as decided; a withdrawn pool is forgotten."""
    if row.slices:
        state.pools.put(key, replace(row, settled=True, void=False))
    else:
        state.pools.drop(key)
    state.notes.fired_deadlines.drop((DeadlineKind.READBACK, stream_of(key)))


def _claim_observed(state: PoolState, event: e.ObjectObserved, at: int) -> None:
    old = state.cluster.claims.get(event.uid)
    observed(state, event, at)
    _claim_moved(state, old)
    _claim_moved(state, state.cluster.claims.rows[event.uid])


def _taken_from(state: PoolState, key: PoolKey) -> None:
    """Devices that claims have taken are no longer offered, nor when claims give them back."""
    row = state.pools.get(key)
    if row is not None and (left := state.unheld(key, row)) < row.open:
        state.pools.put(key, replace(row, open=left))


def _claim_gone(state: PoolState, event: e.ObjectGone, at: int) -> None:
    old = state.cluster.claims.get(event.uid)
    state.cluster.claims.drop(event.uid)
    _claim_moved(state, old)


def _claim_moved(state: PoolState, claim: Claim | None) -> None:
    """What it holds, or held, counts differently now: in its pool, and on its node."""
    if claim is None or claim.allocation is None:
        return
    for driver, pool, _ in results_of(claim):
        if (driver, pool) in state.cluster.slices_of or (driver, pool) in state.pools:
            state.dirty.pools.add((driver, pool))
            row = state.pools.get((driver, pool))
            if row is not None:
                state.dirty.pools.update(state.pools_of(row.fabric, row.model.model))
            _taken_from(state, (driver, pool))
        elif claim.allocation.node:
            state.touch_node(claim.allocation.node, driver)


def _resource_observed(state: PoolState, event: e.ObjectObserved, at: int) -> None:
    old = state.cluster.resources.get(event.uid)
    observed(state, event, at)
    new = state.cluster.resources.rows[event.uid]
    if has_arrived(new) and not (old is not None and has_arrived(old)) and (fabric := state.fabric_of(new.node)):
        state.fabric.uncounted.put(new.uid, (fabric, new.model))
    for row in (old, new):
        _resource_moved(state, row)


def _resource_gone(state: PoolState, event: e.ObjectGone, at: int) -> None:
    old = state.cluster.resources.get(event.uid)
    state.cluster.resources.drop(event.uid)
    state.fabric.uncounted.drop(event.uid)
    _resource_moved(state, old)


def _resource_moved(state: PoolState, one: FabricResource | None) -> None:
    if one is None:
        return
    fabric = state.fabric_of(one.node)
    fabrics = {fabric} if fabric else state.fabrics()  # a node that is gone may be of any
    wanted = [model for model in state.models if model.model == one.model]
    state.dirty.pools |= {state.pool_of(model, fabric) for model in wanted for fabric in fabrics}


FOLDS: dict[type[Event], Fold] = {
    e.PoolConfigObserved: _config_observed,
    e.PoolConfigGone: ending(),
    e.HostObserved: _host_observed,
    e.HostGone: ending(_host_gone),
    e.PoolSliceObserved: _slice_observed,
    e.PoolSliceGone: ending(_slice_gone),
    e.ClaimObserved: _claim_observed,
    e.ClaimGone: ending(_claim_gone),
    e.FabricResourceObserved: _resource_observed,
    e.FabricResourceGone: ending(_resource_gone),
}
