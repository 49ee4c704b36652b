"""`apply`: the fold of one event into the publisher's picture. Facts and decisions alike; it never decides.

Decisions made in mode `observe` are folded only as "already shown". Loading a log is `apply` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from dds_core import events as e
from dds_core.events import KIND_OF, Event, merged
from dds_core.model import Claim, FabricResource, Requirement
from dds_core.publishing.describe import digest_of_pool, selector
from dds_core.publishing.model import MANAGED_BY, Machine, PoolModel, PoolSlice, Stock
from dds_core.publishing.picture import PoolPicture, results_of, stream_of
from dds_core.publishing.policy import read_publish_policy
from dds_core.publishing.rows import Absent, PoolKey, PoolRow
from dds_core.rows import Refusal

SECOND = 1_000_000
HOUR = 3_600 * SECOND
RECENT = 900 * SECOND
"""Misses of a pool that lie further apart than this and the pause between them have nothing to do with each other."""
_PAUSE, _LONGEST_PAUSE = 30 * SECOND, HOUR
FABRIC_ = "fabric/"
"""Before a fabric's id in the table of what is absent; a machine's UUID stands there as it is."""
BEYOND_BELIEF = "StockBeyondBelief"
"""Reason of an alert: the fabric says that more is free than the policy believes."""
DROPPED = "BindingConditionsDropped"
"""Reason of a refusal: the API does not keep what makes a device wait for its attach."""

Fold = Callable[[PoolPicture, Any, int], None]


def apply(picture: PoolPicture, event: Event, at: int) -> PoolPicture:
    """Fold `event`, which happened at the instant `at`, into `picture`; the same picture is returned."""
    if picture.reissue and isinstance(event, e.Fact):
        for key in list(picture.reissue):
            picture.reissue.drop(key)
    if isinstance(event, e.Decision) and getattr(event, "mode", "") == "observe":
        picture.shown.put(shown_key(event), e.encode(event))
    else:
        _FOLDS[type(event)](picture, event, at)
    if at > picture.now:
        picture.now = at
    return picture


def shown_key(decision: e.Decision) -> tuple[str, str]:
    """What a later decision must have in common with this one to take its place."""
    if isinstance(decision, e.Alerted):
        return ("Alerted", f"{decision.of}:{decision.reason}")
    if isinstance(decision, e.OfPool):
        return ("pool", decision.subject)
    return (type(decision).__name__, decision.subject)


def pause_after(misses: int) -> int:
    """Microseconds until a pool that was missed so often may be written again: none at first, then 30 s doubling to an hour."""
    return min(_PAUSE << min(misses - 1, 10), _LONGEST_PAUSE) if misses else 0


def shows(picture: PoolPicture, key: PoolKey, row: PoolRow) -> bool:
    """Whether the cluster shows a pool as it was decided."""
    live = {one.name: one for one in picture.own_slices(key)}
    if live.keys() != {one.name for one in row.slices}:
        return False
    wanted = selector(row.prefix, row.model.device, row.fabric)
    return all(_is_so(live[one.name], row, place, wanted) for place, one in enumerate(row.slices))


def _is_so(found: PoolSlice, row: PoolRow, place: int, wanted: tuple[Requirement, ...]) -> bool:
    """Whether a slice is as the one at this place was decided. `wanted` is the pool's selector."""
    return (
        found.digest == row.digests[place]
        and found.devices == row.slices[place].devices
        and (found.generation, found.slices) == (row.generation, len(row.slices))
        and found.selector == wanted
        and found.owner == MANAGED_BY
    )


# -- objects --------------------------------------------------------------------------------------------------------------


def _observed(picture: PoolPicture, event: Any, at: int) -> None:
    kind = KIND_OF[type(event)]
    table = picture.table(kind)
    old = table.get(event.uid)
    table.put(event.uid, merged(old if old is not None else kind(uid=event.uid), event.changes))


def _config_observed(picture: PoolPicture, event: e.PoolConfigObserved, at: int) -> None:
    _observed(picture, event, at)
    configured = {one.model for one in picture.models}
    _forget_answers(picture, lambda _, model: model not in configured)
    picture.dirty.everything = True


def _config_gone(picture: PoolPicture, event: e.PoolConfigGone, at: int) -> None:
    picture.configs.drop(event.uid)
    _forget_rejections(picture, event.uid)


def _host_observed(picture: PoolPicture, event: e.HostObserved, at: int) -> None:
    old = picture.hosts.get(event.uid)
    if old is not None:
        picture.touch_node(old.name)
    _observed(picture, event, at)
    host = picture.hosts.rows[event.uid]
    if old is not None and old.machine != host.machine:
        _forget_absent(picture, old.machine)
    for key in list(picture.labels_of[host.name]):
        if host.labels.get(key[1], "") == picture.labelled.rows[key]:
            picture.labelled.drop(key)
    picture.dirty.hosts.add(host.name)
    picture.touch_node(host.name)


def _host_gone(picture: PoolPicture, event: e.HostGone, at: int) -> None:
    host = picture.hosts.get(event.uid)
    _forget_rejections(picture, event.uid)
    if host is None:
        return
    picture.touch_node(host.name)
    picture.hosts.drop(event.uid)
    _forget_absent(picture, host.machine)
    for key in list(picture.labels_of[host.name]):
        picture.labelled.drop(key)
    picture.shown.drop(("NodeLabelled", host.name))


def _forget_absent(picture: PoolPicture, machine: str) -> None:
    """When no node is the machine any more, nobody has to know how long it is gone."""
    if not picture.hosts_of[machine]:
        _is_back(picture, machine)


def _slice_observed(picture: PoolPicture, event: e.PoolSliceObserved, at: int) -> None:
    old = picture.slices.get(event.uid)
    _observed(picture, event, at)
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
    if row is None or place is None or not _is_so(new, row, place, selector(row.prefix, row.model.device, row.fabric)):
        return False
    if shows(picture, key, row):
        _settled(picture, key, row)
    picture.dirty.due.add(("readback", stream_of(key)))
    return True


def _slice_gone(picture: PoolPicture, event: e.PoolSliceGone, at: int) -> None:
    old = picture.slices.get(event.uid)
    picture.slices.drop(event.uid)
    _forget_rejections(picture, event.uid)
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
    if row is not None or key in picture.slices_of.sets or picture.model_of_pool(key) is not None:
        picture.dirty.pools.add(key)
    if row is not None and shows(picture, key, row):
        _settled(picture, key, row)
    if not any(not picture.is_ours(found) for found in picture.slices_in(key)):
        picture.shown.drop(("Alerted", f"{stream_of(key)}:PoolOwnedByOther"))


def _settled(picture: PoolPicture, key: PoolKey, row: PoolRow) -> None:
    """The cluster shows a pool as it was decided; of one that was withdrawn nothing is left to be known."""
    if row.slices:
        picture.pools.put(key, replace(row, settled=True, void=False))
    else:
        picture.pools.drop(key)
    picture.passed.drop(("readback", stream_of(key)))


def _claim_observed(picture: PoolPicture, event: e.ClaimObserved, at: int) -> None:
    old = picture.claims.get(event.uid)
    _observed(picture, event, at)
    _claim_moved(picture, old)
    _claim_moved(picture, picture.claims.rows[event.uid])


def _taken_from(picture: PoolPicture, key: PoolKey) -> None:
    """Of what was offered, what claims have taken is not offered any more; nor is it because they give it back."""
    row = picture.pools.get(key)
    if row is not None and (left := _unheld(picture, key, row)) < row.open:
        picture.pools.put(key, replace(row, open=left))


def _unheld(picture: PoolPicture, key: PoolKey, row: PoolRow) -> int:
    held = {device[2] for device in picture.held_in[key]}
    return sum(name not in held for name in row.names)


def _claim_gone(picture: PoolPicture, event: e.ClaimGone, at: int) -> None:
    old = picture.claims.get(event.uid)
    picture.claims.drop(event.uid)
    _forget_rejections(picture, event.uid)
    _claim_moved(picture, old)


def _claim_moved(picture: PoolPicture, claim: Claim | None) -> None:
    """What it holds, or held, counts differently now: in its pool, and on its node."""
    if claim is None or claim.allocation is None:
        return
    for driver, pool, _ in results_of(claim):
        if (driver, pool) in picture.slices_of.sets or (driver, pool) in picture.pools:
            picture.dirty.pools.add((driver, pool))
            row = picture.pools.get((driver, pool))
            if row is not None:
                picture.dirty.pools.update(picture.pools_of(row.fabric, row.model.model))
            _taken_from(picture, (driver, pool))
        elif claim.allocation.node:
            picture.touch_node(claim.allocation.node, driver)


def _resource_observed(picture: PoolPicture, event: e.FabricResourceObserved, at: int) -> None:
    old = picture.resources.get(event.uid)
    _observed(picture, event, at)
    new = picture.resources.rows[event.uid]
    if _has_arrived(new) and not _has_arrived(old) and (fabric := picture.fabric_of(new.node)):
        picture.uncounted.put(new.uid, (fabric, new.model))
    for row in (old, new):
        _resource_moved(picture, row)


def _has_arrived(one: FabricResource | None) -> bool:
    return one is not None and bool(one.uuid or one.fabric_id)


def _resource_gone(picture: PoolPicture, event: e.FabricResourceGone, at: int) -> None:
    old = picture.resources.get(event.uid)
    picture.resources.drop(event.uid)
    picture.uncounted.drop(event.uid)
    _forget_rejections(picture, event.uid)
    _resource_moved(picture, old)


def _resource_moved(picture: PoolPicture, one: FabricResource | None) -> None:
    if one is None:
        return
    there = picture.host(one.node) is not None
    fabrics = (
        {picture.fabric_of(one.node)} - {""} if there else picture.fabrics()
    )  # of a node that is gone nobody knows
    wanted = [model for model in picture.models if model.model == one.model]
    picture.dirty.pools |= {picture.pool_of(model, fabric) for model in wanted for fabric in fabrics}


def _rejected(picture: PoolPicture, event: e.Rejected, at: int) -> None:
    picture.rejections.put((event.uid, event.field, event.reason), True)


def _forget_rejections(picture: PoolPicture, uid: str) -> None:
    for key in [key for key in picture.rejections if key[0] == uid]:
        picture.rejections.drop(key)


# -- the fabric -----------------------------------------------------------------------------------------------------------


def _machine_observed(picture: PoolPicture, event: e.MachineObserved, at: int) -> None:
    new = event.machine
    old = picture.machines_by_uuid.get(new.uuid)
    picture.machines_by_uuid.put(new.uuid, new)
    _is_back(picture, new.uuid)
    _machine_moved(picture, old)
    _machine_moved(picture, new)
    if old is not None and old.fabric != new.fabric:
        _left(picture, old.fabric, at)
    if new.fabric:
        _is_back(picture, FABRIC_ + new.fabric)
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
        _forget_answers(picture, lambda one, _: one == fabric)


def _is_back(picture: PoolPicture, name: str) -> None:
    picture.absent.drop(name)
    picture.passed.drop(("gone", name))


def _forget_answers(picture: PoolPicture, which: Callable[[str, str], bool]) -> None:
    """What was answered of these fabrics and models was true long ago when they are asked about again, and so was why not."""
    for fabric, model in list(picture.stocks):
        if which(fabric, model):
            picture.stocks.drop((fabric, model))
    for of in list(picture.failures):
        kind, _, rest = of.partition("/")
        fabric, _, model = rest.partition("/")
        if kind == "stock" and which(fabric, model):
            picture.failures.drop(of)


def _machine_moved(picture: PoolPicture, machine: Machine | None) -> None:
    if machine is None:
        return
    picture.touch_fabric(machine.fabric)
    picture.dirty.hosts |= picture.nodes_of(machine.uuid)


def _stock_observed(picture: PoolPicture, event: e.StockObserved, at: int) -> None:
    new = Stock(event.fabric, event.model, event.free, event.devices, event.whole)
    picture.stocks.put((event.fabric, event.model), new)
    for uid in [uid for uid, key in picture.uncounted.rows.items() if key == (event.fabric, event.model)]:
        picture.uncounted.drop(uid)
    pools = {picture.pool_of(model, event.fabric) for model in picture.models if model.model == event.model}
    picture.dirty.pools |= pools
    if event.free <= picture.policy.pool_devices:  # when it is beyond belief again, it is told again
        for key in pools:
            picture.shown.drop(("Alerted", f"{stream_of(key)}:{BEYOND_BELIEF}"))


def _fabric_failed(picture: PoolPicture, event: e.FabricFailed, at: int) -> None:
    picture.failures.put(event.of, event.text)


def _fabric_answered(picture: PoolPicture, event: e.FabricAnswered, at: int) -> None:
    picture.failures.drop(event.of)
    if event.of == "machines" and not picture.listed_at:
        picture.listed_at = at
        picture.dirty.everything = True


# -- ourselves ------------------------------------------------------------------------------------------------------------


def _started(picture: PoolPicture, event: e.Started, at: int) -> None:
    picture.epoch = event.epoch
    picture.synced = False
    picture.restarted = True
    picture.listed_at = 0


def _policy(picture: PoolPicture, event: e.PolicyChanged, at: int) -> None:
    picture.policy = read_publish_policy(event.policy)
    picture.dirty.everything = True


def _capabilities(picture: PoolPicture, event: e.Capabilities, at: int) -> None:
    if event.binding_conditions:
        picture.shown.drop(("Alerted", f"{e.FABRIC}:{DROPPED}"))
    if event != picture.capabilities:
        picture.capabilities = event
        picture.dirty.everything = True


def _synced(picture: PoolPicture, event: e.Synced, at: int) -> None:
    picture.synced = True
    picture.stale.clear()
    picture.synced_at = picture.synced_at or at
    picture.level_at = at
    if picture.restarted:
        picture.restarted = False
        _void_unseen(picture)
    picture.dirty.everything = True


def _void_unseen(picture: PoolPicture) -> None:
    """After a restart a decision whose outcome the cluster does not show is decided again. What names a pool has stays known."""
    for key, row in list(picture.pools.rows.items()):
        seen = shows(picture, key, row)
        picture.pools.put(key, replace(row, settled=seen, void=not seen, done=0))
        if not seen:
            picture.reissue.put(("pool", stream_of(key)), True)
    for node, label in list(picture.labelled):
        picture.labelled.drop((node, label))
        picture.reissue.put(("NodeLabelled", node), True)


def _stale(picture: PoolPicture, event: e.Stale, at: int) -> None:
    picture.stale.add(event.resource)


def _deadline(picture: PoolPicture, event: e.DeadlinePassed, at: int) -> None:
    picture.passed.put((event.kind, event.of), event.due)
    match event.kind:
        case "level":
            picture.level_at = at
            picture.dirty.everything = True
            for label in list(picture.labelled):  # one that somebody took off again at once was perhaps never seen
                picture.labelled.drop(label)
        case "gone":
            _touch_gone(picture, event.of)
        case "retry":
            _touch_target(picture, event.of.partition("/")[2])
        case _:
            _touch_target(picture, event.of)


def _touch_gone(picture: PoolPicture, name: str) -> None:
    """Who is absent counts as gone from now on; one that is not known to be absent stands for all that were never seen."""
    absent = picture.absent.get(name)
    if absent is None:
        picture.dirty.everything = True
    elif name.startswith(FABRIC_):
        picture.touch_fabric(absent.fabric)
    else:
        picture.dirty.hosts |= picture.nodes_of(name)


def _touch_target(picture: PoolPicture, target: str) -> None:
    """What a write was about may be decided again: the stream of a pool, or a node."""
    word, _, rest = target.partition("/")
    driver, _, pool = rest.partition("/")
    if word == "pool" and pool:
        picture.dirty.pools.add((driver, pool))
    else:
        picture.dirty.hosts.add(target)


def _write_done(picture: PoolPicture, event: e.WriteDone, at: int) -> None:
    picture.refusals.drop((event.action, event.target))
    picture.passed.drop(("retry", f"{event.action}/{event.target}"))
    key = pool_of(event.target)
    row = picture.pools.get(key) if key is not None else None
    if row is not None and key is not None:
        picture.pools.put(key, replace(row, done=at))
        picture.dirty.pools.add(key)


def _write_refused(picture: PoolPicture, event: e.WriteRefused, at: int) -> None:
    """The intent is void; the same is not decided again before a pause that doubles from 30 s to 10 minutes."""
    if event.reason == DROPPED and picture.capabilities.binding_conditions:
        picture.capabilities = replace(picture.capabilities, binding_conditions=False)
        picture.dirty.everything = True
    _try_later(picture, event.action, event.target, at, 30 * SECOND)


def _write_obsolete(picture: PoolPicture, event: e.WriteObsolete, at: int) -> None:
    """The intent is void. What was found is observed sooner than the pause is over, which doubles from 2 s to 10 minutes."""
    _try_later(picture, event.action, event.target, at, 2 * SECOND)


def _try_later(picture: PoolPicture, action: str, target: str, at: int, first: int) -> None:
    for key, refusal in list(picture.refusals.rows.items()):
        if refusal.until <= at - HOUR:
            picture.refusals.drop(key)
            picture.passed.drop(("retry", "/".join(key)))
    before = picture.refusals.get((action, target))
    count = before.count + 1 if before is not None else 1
    pause = min(first << min(count - 1, 10), 600 * SECOND)
    picture.refusals.put((action, target), Refusal(count, at + pause))
    pool = pool_of(target)
    row = picture.pools.get(pool) if pool is not None else None
    if row is not None and pool is not None:
        picture.pools.put(pool, replace(row, void=True))
        picture.dirty.pools.add(pool)
    elif action == "NodeLabelled":
        for label in list(picture.labels_of[target]):
            picture.labelled.drop(label)
        picture.dirty.hosts.add(target)


def pool_of(target: str) -> PoolKey | None:
    """The pool whose stream that is."""
    word, _, rest = target.partition("/")
    driver, _, pool = rest.partition("/")
    return (driver, pool) if word == "pool" and pool else None


# -- decisions ------------------------------------------------------------------------------------------------------------


def _published(picture: PoolPicture, event: e.PoolPublished, at: int) -> None:
    key = (event.driver, event.pool)
    digests = tuple(
        digest_of_pool(event.model, one.devices, event.taint, one.closed, event.prefix) for one in event.slices
    )
    old = picture.pools.get(key)
    new = PoolRow(
        event.fabric, event.prefix, event.model, event.generation, event.slices, digests, event.taint, since=at
    )
    if old is not None and at - old.since <= RECENT + pause_after(old.misses):
        again = old.came_about and (old.slices, old.digests, old.prefix) == (new.slices, new.digests, new.prefix)
        new = replace(new, misses=old.misses + again)
    new = replace(new, settled=shows(picture, key, new), open=_unheld(picture, key, new))
    picture.pools.put(key, new)
    picture.passed.drop(("readback", event.subject))
    if not new.misses:  # when it begins again, it is told again
        picture.shown.drop(("Alerted", f"{event.subject}:ReadBackDiffers"))


def _withdrawn(picture: PoolPicture, event: e.PoolWithdrawn, at: int) -> None:
    """What is left is the wish that nothing is there; it is forgotten once that is so."""
    key = (event.driver, event.pool)
    old = picture.pools.get(key) or PoolRow("", "", PoolModel(0, "", "", event.driver), 0, (), ())
    misses = old.misses + (not old.slices and old.came_about and at - old.since <= RECENT + pause_after(old.misses))
    new = replace(old, slices=(), digests=(), since=at, done=0, settled=False, void=False, misses=misses)
    picture.pools.put(key, new)
    picture.passed.drop(("readback", event.subject))
    if shows(picture, key, new):
        picture.pools.drop(key)


def _labelled(picture: PoolPicture, event: e.NodeLabelled, at: int) -> None:
    for key, value in event.labels.items():
        picture.labelled.put((event.node, key), value or "")


def _alerted(picture: PoolPicture, event: e.Alerted, at: int) -> None:
    picture.shown.put(shown_key(event), e.encode(event))


def _nothing(picture: PoolPicture, event: Event, at: int) -> None:
    """Told for people; nothing rests on it."""


_FOLDS: dict[type[Event], Fold] = {
    e.PoolConfigObserved: _config_observed,
    e.PoolConfigGone: _config_gone,
    e.HostObserved: _host_observed,
    e.HostGone: _host_gone,
    e.PoolSliceObserved: _slice_observed,
    e.PoolSliceGone: _slice_gone,
    e.ClaimObserved: _claim_observed,
    e.ClaimGone: _claim_gone,
    e.FabricResourceObserved: _resource_observed,
    e.FabricResourceGone: _resource_gone,
    e.Rejected: _rejected,
    e.MachineObserved: _machine_observed,
    e.MachineGone: _machine_gone,
    e.StockObserved: _stock_observed,
    e.FabricFailed: _fabric_failed,
    e.FabricAnswered: _fabric_answered,
    e.Started: _started,
    e.PolicyChanged: _policy,
    e.Capabilities: _capabilities,
    e.Synced: _synced,
    e.Stale: _stale,
    e.DeadlinePassed: _deadline,
    e.WriteDone: _write_done,
    e.WriteRefused: _write_refused,
    e.WriteObsolete: _write_obsolete,
    e.Superseded: _nothing,
    e.Checkpoint: _nothing,
    e.PoolPublished: _published,
    e.PoolWithdrawn: _withdrawn,
    e.NodeLabelled: _labelled,
    e.Alerted: _alerted,
}
