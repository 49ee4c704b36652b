"""The folds of the fabric's answers."""

from __future__ import annotations

from dds_core.events import Event
from dds_core.kit.work import Fold
from dds_core.publisher import events as e
from dds_core.publisher.model import FABRIC_, Absent, Machine, Stock
from dds_core.publisher.state import PoolState, stream_of


def _machine_observed(state: PoolState, event: e.MachineObserved, at: int) -> None:
    new = event.machine
    old = state.fabric.machines_by_uuid.get(new.uuid)
    state.fabric.machines_by_uuid.put(new.uuid, new)
    state.is_back(new.uuid)
    _machine_moved(state, old)
    _machine_moved(state, new)
    if old is not None and old.fabric != new.fabric:
        _left(state, old.fabric, at)
    if new.fabric:
        state.is_back(FABRIC_ + new.fabric)
    else:
        state.fabric.failures.drop(f"limits/{new.uuid}")


def _machine_gone(state: PoolState, event: e.MachineGone, at: int) -> None:
    old = state.fabric.machines_by_uuid.get(event.machine)
    state.fabric.machines_by_uuid.drop(event.machine)
    state.fabric.failures.drop(f"limits/{event.machine}")
    if old is None:
        return
    if state.cluster.hosts_of[event.machine]:  # else no node's labels depend on it
        state.fabric.absent.put(event.machine, Absent(old.fabric, at))
    _left(state, old.fabric, at)
    _machine_moved(state, old)


def _left(state: PoolState, fabric: str, at: int) -> None:
    """A machine has left this fabric. A fabric without machines is not asked anything, so what it has is unknown."""
    if fabric and not state.fabric.machines_in[fabric]:
        state.fabric.absent.put(FABRIC_ + fabric, Absent(fabric, at))
        state.forget_answers(lambda one, _: one == fabric)


def _machine_moved(state: PoolState, machine: Machine | None) -> None:
    if machine is None:
        return
    state.touch_fabric(machine.fabric)
    for node in state.nodes_of(machine.uuid):
        state.dirty.hosts.add(node)
        state.touch_node(node)


def _stock_observed(state: PoolState, event: e.StockObserved, at: int) -> None:
    new = Stock(event.fabric, event.model, event.free, event.devices, event.whole)
    state.fabric.stocks.put((event.fabric, event.model), new)
    uncounted = state.fabric.uncounted
    uncounted.drop_where(lambda uid: uncounted.rows[uid] == (event.fabric, event.model))
    pools = {state.pool_of(model, event.fabric) for model in state.models if model.model == event.model}
    state.dirty.pools |= pools
    if event.free <= state.policy.pool_devices:  # if it happens again, alert again
        for key in pools:
            state.notes.clear_alert(stream_of(key), e.BEYOND_BELIEF)


def _fabric_failed(state: PoolState, event: e.FabricFailed, at: int) -> None:
    state.fabric.failures.put(event.of, event.text)


def _fabric_answered(state: PoolState, event: e.FabricAnswered, at: int) -> None:
    state.fabric.failures.drop(event.of)
    if event.of == "machines" and not state.fabric.listed_at:
        state.fabric.listed_at = at
        state.dirty.everything = True


FOLDS: dict[type[Event], Fold] = {
    e.MachineObserved: _machine_observed,
    e.MachineGone: _machine_gone,
    e.StockObserved: _stock_observed,
    e.FabricFailed: _fabric_failed,
    e.FabricAnswered: _fabric_answered,
}
