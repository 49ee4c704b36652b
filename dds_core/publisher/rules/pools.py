"""One pool: what it should be now, and whether that must be written."""

from __future__ import annotations

from typing import NamedTuple

from dds_core.kit.policy import MICROSECONDS
from dds_core.publisher.describe import as_exclusive, digest_of_pool, selector
from dds_core.publisher.events import BEYOND_BELIEF, DROPPED, FABRIC, NOT_AS_WRITTEN, PoolPublished, PoolWithdrawn
from dds_core.publisher.model import (
    COOLING,
    FABRIC_,
    MANAGED_BY,
    PoolKey,
    PoolModel,
    PoolRow,
    PoolSlice,
    SliceLayout,
    Stock,
)
from dds_core.publisher.rules import layout, need
from dds_core.publisher.state import PoolState, Work, stream_of

_TELL_AFTER = 3
"""Misses after which a person is alerted."""


class Wanted(NamedTuple):
    """What a pool should be: its device names, how each device is described, and why."""

    model: PoolModel
    fabric: str
    prefix: str
    names: set[str]
    why: str
    taint: str = ""


def step(work: Work, key: PoolKey) -> None:
    """Publish, change or withdraw the pool, unless that cannot be decided now or it is as it should be."""
    state = work.state
    if state.process.stale or state.config is None:
        return  # an unseen claim may hold a device
    own = state.own_slices(key)
    if not state.cluster.capabilities.binding_conditions:
        _without_conditions(work, key, own)
        return
    wanted = _wanted(work, key, own)
    if isinstance(wanted, str):
        _withdraw(work, key, own, wanted)
    elif wanted is not None:
        _publish(work, key, own, wanted)


def _without_conditions(work: Work, key: PoolKey, own: list[PoolSlice]) -> None:
    """The scheduler would hand out devices that are not there: withdraw them, and list nothing new."""
    text = "the API server drops binding conditions (gate DRADeviceBindingConditions): no pool is published"
    work.alert(FABRIC, DROPPED, text)
    if any(one.ordinary for one in own):
        _withdraw(work, key, own, "the API server drops binding conditions")


# -- what is wanted -----------------------------------------------------------------------------------------------------


def _wanted(work: Work, key: PoolKey, own: list[PoolSlice]) -> Wanted | str | None:
    """The pool as it should be; or why to withdraw it; or None to leave it as it is."""
    state, row = work.state, work.state.pools.get(key)
    model, fabric = state.model_of_pool(key), key[1].rpartition("-fabric")[2]
    held = state.held(key)
    if model is None:
        if state.config is not None and state.config.unread:
            return _as_it_is(row, held)  # its model may be the unreadable entry
        return _remainder(row, held, "the model is not configured any more")
    if row is not None and held and row.model.model not in ("", model.model):
        return _remainder(row, held, f"its name is that of {model.model} by now")
    if fabric not in state.fabrics():
        if work.at < state.gone_due(FABRIC_ + fabric) or not state.listed:
            return _as_it_is(row, held)
        return _remainder(row, held, f"fabric {fabric} is gone")
    stock = state.stock(fabric, model.model)
    if stock is None or _is_beyond_belief(work, key, stock):
        return _as_it_is(row, held)
    if model.shared and not state.cluster.capabilities.shared_devices:
        model = as_exclusive(model)
    listed = row.names if row is not None and row.slices else tuple(name for one in own for name in one.devices)
    stem = need.stem(state, key, model, listed)
    offer = need.offer(state, fabric, model, stock, state.promised(key, fabric, model.model))
    names = need.names(stock, offer, held, listed, stem, row.open if row is not None and row.slices else None)
    why = f"{need.healthy(stock)} free, {len(held)} held"
    taint = ""
    cooling = [host.name for host in state.hosts_in(fabric) if state.cooling_until(host.labels, model) > work.at]
    if cooling:
        why = f"{why}; cooling down, as {', '.join(cooling[:3])} asks"
        if state.cluster.capabilities.device_taints and state.policy.while_cooling == "taint":
            taint = f"{state.prefix}/{COOLING}"
        else:
            names = set(held)
    return Wanted(model, fabric, state.prefix, names, why, taint)


def _is_beyond_belief(work: Work, key: PoolKey, stock: Stock) -> bool:
    """Whether so much is free that the answer is probably wrong: listed devices that do not exist cost claims their time."""
    free, most = need.healthy(stock), work.state.policy.pool_devices
    if free <= most:
        return False
    text = (
        f"fabric {stock.fabric} says that {free} of {stock.model} are free, more than pool_devices ({most}): it is not believed, "
        f"and pool {key[1]} stays as it is; look at the fabric's manager, or raise pool_devices in the publisher's policy"
    )
    work.alert(stream_of(key), BEYOND_BELIEF, text)
    return True


def _remainder(row: PoolRow | None, held: dict[str, str], why: str) -> Wanted | str | None:
    """Of a pool to withdraw, held devices stay as they were described; None if that is unknown."""
    if not held:
        return why
    if row is None or not row.model.device:
        return None
    return Wanted(row.model, row.fabric, row.prefix, set(held), f"{why}; {len(held)} held", row.taint)


def _as_it_is(row: PoolRow | None, held: dict[str, str]) -> Wanted | None:
    """A pool that cannot be decided stays. But a device that was to be withdrawn and was not yet may have been taken since."""
    if row is None or not row.model.device:
        return None
    if held.keys() <= set(row.names):
        return None
    return Wanted(row.model, row.fabric, row.prefix, {*row.names, *held}, f"as it was; {len(held)} held", row.taint)


# -- whether it has to be written -----------------------------------------------------------------------------------------


def _publish(work: Work, key: PoolKey, own: list[PoolSlice], wanted: Wanted) -> None:
    state, row = work.state, work.state.pools.get(key)
    driver, pool = key
    others = [one for one in state.slices_in(key) if not state.is_ours(one)]
    if others:
        by = f"by {others[0].owner}" if others[0].owner else "by nobody named (the reference driver leaves such)"
        fix = "end who made it, then delete the slice or set adopt: reference in the policy"
        work.alert(stream_of(key), "PoolOwnedByOther", f"{others[0].name} of pool {pool} is {by}; {fix}")
        return
    before = row.slices if row is not None and row.slices else layout.as_layout(own)
    slices = layout.laid_out(pool, driver, wanted.names, before, tainted=bool(wanted.taint))
    if state.cluster.capabilities.device_taints and not wanted.taint and not wanted.model.shared:
        slices = layout.with_closed(slices, state.let_go(key))
    digests = tuple(
        digest_of_pool(wanted.model, one.devices, wanted.taint, one.closed, wanted.prefix) for one in slices
    )
    decided = row is not None and (row.slices, row.digests, row.prefix, row.fabric) == (
        slices, digests, wanted.prefix, wanted.fabric,
    )  # fmt: skip
    if row is not None and decided:
        if not _again(work, key, row):
            return
    elif row is None and not state.live and _is_there(own, wanted, slices, digests):
        return
    chosen = selector(wanted.prefix, wanted.model.device, wanted.fabric)
    generation = layout.generation(
        own, slices,
        lambda place, found: (found.digest, found.selector, found.owner) == (digests[place], chosen, MANAGED_BY),
        row.generation if row is not None else 0,
        again=decided and row is not None and not row.settled,
    )  # fmt: skip
    names = {one.name for one in slices}
    work.emit_once(
        PoolPublished(
            driver=driver,
            pool=pool,
            mode=state.mode,
            fabric=wanted.fabric,
            prefix=wanted.prefix,
            model=wanted.model,
            generation=generation,
            slices=slices,
            taint=wanted.taint,
            drop={one.name: one.uid for one in own if one.name not in names},
            adopt=any(not one.owner for one in own),
            why=wanted.why,
        ),
        # The write under way may take a device from its claim: a correction must not wait for a pause.
        at_once=row is not None and not row.void and not state.held(key).keys() <= set(row.names),
    )


def _is_there(own: list[PoolSlice], wanted: Wanted, slices: tuple[SliceLayout, ...], digests: tuple[str, ...]) -> bool:
    newest = max((one.generation for one in own), default=0)
    row = PoolRow(wanted.fabric, wanted.prefix, wanted.model, newest, slices, digests)
    live = {one.name: one for one in own}
    chosen = selector(row.prefix, row.model.device, row.fabric)
    return live.keys() == {one.name for one in slices} and all(
        (live[one.name].digest, live[one.name].selector, live[one.name].slices) == (digest, chosen, len(slices))
        for one, digest in zip(slices, digests, strict=True)
    )


def _withdraw(work: Work, key: PoolKey, own: list[PoolSlice], why: str) -> None:
    row = work.state.pools.get(key)
    if not own and (row is None or not row.slices):
        return
    if row is not None and not row.slices and not _again(work, key, row):
        return
    drop = {one.name: one.uid for one in own}
    work.emit_once(PoolWithdrawn(driver=key[0], pool=key[1], mode=work.state.mode, drop=drop, why=why))


def _again(work: Work, key: PoolKey, row: PoolRow) -> bool:
    """Whether to decide the same again, because the cluster does not show it."""
    due = again_due(work.state, key, row)
    if due is None or work.at < due:
        return False
    if row.came_about and row.misses + 1 >= _TELL_AFTER:
        text = (
            f"pool {key[1]} of {key[0]} is not seen as it was written, {row.misses + 1} times: does another publisher run, "
            "or is the watch of slices far behind?"
        )
        work.alert(stream_of(key), NOT_AS_WRITTEN, text)
    return True


def again_due(state: PoolState, key: PoolKey, row: PoolRow) -> int | None:
    """The instant from which a pool that the cluster does not show as decided may be written again; None if it does, or while the
    write is under way. The pause (`PoolRow.pause`) grows with repetition."""
    if state.shows(key, row):
        return None
    pause = row.since + row.pause
    if row.settled or row.void:
        return pause
    if row.done:
        return max(pause, row.done + state.policy.read_back_seconds * MICROSECONDS)
    return None
