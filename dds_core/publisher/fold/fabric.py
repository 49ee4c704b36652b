"""The folds of what the fabric answered."""

from __future__ import annotations

from dds_core.events import Event
from dds_core.kit.work import Fold
from dds_core.publisher import events as e
from dds_core.publisher.model import FABRIC_, Absent, Machine, Stock
from dds_core.publisher.state import PoolPicture, stream_of


def _machine_observed(picture: PoolPicture, event: e.MachineObserved, at: int) -> None:
    new = event.machine
    old = picture.machines_by_uuid.get(new.uuid)
    picture.machines_by_uuid.put(new.uuid, new)
    picture.is_back(new.uuid)
    _machine_moved(picture, old)
    _machine_moved(picture, new)
    if old is not None and old.fabric != new.fabric:
        _left(picture, old.fabric, at)
    if new.fabric:
        picture.is_back(FABRIC_ + new.fabric)
    else:
        picture.failures.drop(f"limits/{new.uuid}")


def _machine_gone(picture: PoolPicture, event: e.MachineGone, at: int) -> None:
    old = picture.machines_by_uuid.get(event.machine)
    picture.machines_by_uuid.drop(event.machine)
    picture.failures.drop(f"limits/{event.machine}")
    if old is None:
        return
    if picture.hosts_of[event.machine]:  # else nobody's labels wait for it
        picture.absent.put(event.machine, Absent(old.fabric, at))
    _left(picture, old.fabric, at)
    _machine_moved(picture, old)


def _left(picture: PoolPicture, fabric: str, at: int) -> None:
    """A machine is not in this fabric any more. Of one that no machine is in nothing is asked: what it had is not known then."""
    if fabric and not picture.machines_in[fabric]:
        picture.absent.put(FABRIC_ + fabric, Absent(fabric, at))
        picture.forget_answers(lambda one, _: one == fabric)


def _machine_moved(picture: PoolPicture, machine: Machine | None) -> None:
    if machine is None:
        return
    picture.touch_fabric(machine.fabric)
    for node in picture.nodes_of(machine.uuid):
        picture.dirty.hosts.add(node)
        picture.touch_node(node)


def _stock_observed(picture: PoolPicture, event: e.StockObserved, at: int) -> None:
    new = Stock(event.fabric, event.model, event.free, event.devices, event.whole)
    picture.stocks.put((event.fabric, event.model), new)
    uncounted = picture.uncounted
    uncounted.drop_where(lambda uid: uncounted.rows[uid] == (event.fabric, event.model))
    pools = {picture.pool_of(model, event.fabric) for model in picture.models if model.model == event.model}
    picture.dirty.pools |= pools
    if event.free <= picture.policy.pool_devices:  # when it is beyond belief again, it is told again
        for key in pools:
            picture.tell_again(stream_of(key), e.BEYOND_BELIEF)


def _fabric_failed(picture: PoolPicture, event: e.FabricFailed, at: int) -> None:
    picture.failures.put(event.of, event.text)


def _fabric_answered(picture: PoolPicture, event: e.FabricAnswered, at: int) -> None:
    picture.failures.drop(event.of)
    if event.of == "machines" and not picture.listed_at:
        picture.listed_at = at
        picture.dirty.everything = True


FOLDS: dict[type[Event], Fold] = {
    e.MachineObserved: _machine_observed,
    e.MachineGone: _machine_gone,
    e.StockObserved: _stock_observed,
    e.FabricFailed: _fabric_failed,
    e.FabricAnswered: _fabric_answered,
}
