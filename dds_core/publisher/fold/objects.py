"""The folds of facts about objects of the cluster."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.kit.work import Fold, config_observed, ending, forget_left_labels, leave_labels, observed
from dds_core.model import Claim, FabricResource
from dds_core.publisher import events as e
from dds_core.publisher.describe import selector
from dds_core.publisher.indexes import has_arrived, machines_of, results_of
from dds_core.publisher.model import Host, PoolConfig, PoolKey, PoolRow, PoolSlice
from dds_core.publisher.state import PoolPicture, is_so, stream_of


def _config_observed(picture: PoolPicture, event: e.ObjectObserved, at: int) -> None:
    before = picture.config
    config_observed(picture, event, at)
    if before is not None and before.prefix != picture.prefix:
        for host in picture.hosts.rows.values():
            leave_labels(picture, host.name, host.labels, _ours(picture, before, host), picture.prefix)
    configured = {one.model for one in picture.models}
    picture.forget_answers(lambda _, model: model not in configured)
    picture.dirty.everything = True


def _ours(picture: PoolPicture, config: PoolConfig, host: Host) -> list[str]:
    """The labels of a node that we keep; its limits only where the fabric knows them."""
    machine = picture.machine_of(host)
    limited = machine is not None and machine.limits is not None and picture.policy.label_limits
    names = [f"{model.device}-size-{end}" for model in config.models for end in ("max", "min")] if limited else []
    return [f"{config.prefix}/{name}" for name in ("fabric", *names)]


def _host_observed(picture: PoolPicture, event: e.ObjectObserved, at: int) -> None:
    old = picture.hosts.get(event.uid)
    if old is not None:
        picture.touch_node(old.name)
    observed(picture, event, at)
    host = picture.hosts.rows[event.uid]
    if old is not None and old.machine != host.machine:
        _forget_absent(picture, old)
    for key in list(picture.labels_of[host.name]):
        if host.labels.get(key[1], "") == picture.labelled.rows[key]:
            picture.labelled.drop(key)
    forget_left_labels(picture, host.name, host.labels)
    picture.dirty.hosts.add(host.name)
    picture.touch_node(host.name)


def _host_gone(picture: PoolPicture, event: e.ObjectGone, at: int) -> None:
    host = picture.hosts.get(event.uid)
    if host is None:
        return
    picture.touch_node(host.name)
    picture.hosts.drop(event.uid)
    _forget_absent(picture, host)
    for key in list(picture.labels_of[host.name]):
        picture.labelled.drop(key)
    picture.left_labels.drop(host.name)
    picture.passed.drop(("cooling", host.name))
    picture.shown.drop(("NodeLabelled", host.name))


def _forget_absent(picture: PoolPicture, host: Host) -> None:
    """When no node is the machine any more, nobody has to know how long it is gone."""
    for machine in machines_of(host):
        if not picture.hosts_of[machine]:
            picture.is_back(machine)


def _slice_observed(picture: PoolPicture, event: e.ObjectObserved, at: int) -> None:
    old = picture.slices.get(event.uid)
    observed(picture, event, at)
    new = picture.slices.rows[event.uid]
    if not (new.node or (old is not None and not picture.is_ours(old))) and _came_about(picture, new):
        return
    _slice_moved(picture, old)
    _slice_moved(picture, new)


def _came_about(picture: PoolPicture, new: PoolSlice) -> bool:
    """Whether a slice of ours is now as it was decided: what is wanted of its pool is no other for that, and a pool with many
    slices would be worked out anew for each of them."""
    key = (new.driver, new.pool)
    row = picture.pools.get(key)
    place = row.place(new.name) if row is not None else None
    if row is None or place is None or not is_so(new, row, place, selector(row.prefix, row.model.device, row.fabric)):
        return False
    if picture.shows(key, row):
        _settled(picture, key, row)
    picture.dirty.due.add(("readback", stream_of(key)))
    return True


def _slice_gone(picture: PoolPicture, event: e.ObjectGone, at: int) -> None:
    old = picture.slices.get(event.uid)
    picture.slices.drop(event.uid)
    _slice_moved(picture, old)


def _slice_moved(picture: PoolPicture, one: PoolSlice | None) -> None:
    """A slice is new, gone, or other than before: its pool, or those of its node, are looked at."""
    if one is None:
        return
    if one.node:
        picture.touch_node(one.node, one.driver)
        return
    key = (one.driver, one.pool)
    row = picture.pools.get(key)
    if row is not None or key in picture.slices_of or picture.model_of_pool(key) is not None:
        picture.dirty.pools.add(key)
    if row is not None and picture.shows(key, row):
        _settled(picture, key, row)
    if not any(not picture.is_ours(found) for found in picture.slices_in(key)):
        picture.tell_again(stream_of(key), "PoolOwnedByOther")


def _settled(picture: PoolPicture, key: PoolKey, row: PoolRow) -> None:
    """The cluster shows a pool as it was decided; of one that was withdrawn nothing is left to be known."""
    if row.slices:
        picture.pools.put(key, replace(row, settled=True, void=False))
    else:
        picture.pools.drop(key)
    picture.passed.drop(("readback", stream_of(key)))


def _claim_observed(picture: PoolPicture, event: e.ObjectObserved, at: int) -> None:
    old = picture.claims.get(event.uid)
    observed(picture, event, at)
    _claim_moved(picture, old)
    _claim_moved(picture, picture.claims.rows[event.uid])


def _taken_from(picture: PoolPicture, key: PoolKey) -> None:
    """Of what was offered, what claims have taken is not offered any more; nor is it because they give it back."""
    row = picture.pools.get(key)
    if row is not None and (left := picture.unheld(key, row)) < row.open:
        picture.pools.put(key, replace(row, open=left))


def _claim_gone(picture: PoolPicture, event: e.ObjectGone, at: int) -> None:
    old = picture.claims.get(event.uid)
    picture.claims.drop(event.uid)
    _claim_moved(picture, old)


def _claim_moved(picture: PoolPicture, claim: Claim | None) -> None:
    """What it holds, or held, counts differently now: in its pool, and on its node."""
    if claim is None or claim.allocation is None:
        return
    for driver, pool, _ in results_of(claim):
        if (driver, pool) in picture.slices_of or (driver, pool) in picture.pools:
            picture.dirty.pools.add((driver, pool))
            row = picture.pools.get((driver, pool))
            if row is not None:
                picture.dirty.pools.update(picture.pools_of(row.fabric, row.model.model))
            _taken_from(picture, (driver, pool))
        elif claim.allocation.node:
            picture.touch_node(claim.allocation.node, driver)


def _resource_observed(picture: PoolPicture, event: e.ObjectObserved, at: int) -> None:
    old = picture.resources.get(event.uid)
    observed(picture, event, at)
    new = picture.resources.rows[event.uid]
    if has_arrived(new) and not (old is not None and has_arrived(old)) and (fabric := picture.fabric_of(new.node)):
        picture.uncounted.put(new.uid, (fabric, new.model))
    for row in (old, new):
        _resource_moved(picture, row)


def _resource_gone(picture: PoolPicture, event: e.ObjectGone, at: int) -> None:
    old = picture.resources.get(event.uid)
    picture.resources.drop(event.uid)
    picture.uncounted.drop(event.uid)
    _resource_moved(picture, old)


def _resource_moved(picture: PoolPicture, one: FabricResource | None) -> None:
    if one is None:
        return
    fabric = picture.fabric_of(one.node)
    fabrics = {fabric} if fabric else picture.fabrics()  # of a node that is gone, or in no known one, nobody knows
    wanted = [model for model in picture.models if model.model == one.model]
    picture.dirty.pools |= {picture.pool_of(model, fabric) for model in wanted for fabric in fabrics}


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
