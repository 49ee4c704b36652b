"""Everything that is decided for one node: which waiting claim has its device, what to order, hand over and give back."""

from __future__ import annotations

from dds_core.lifecycle import PENDING
from dds_core.scaler.events import Promise
from dds_core.scaler.policy import MICROSECONDS
from dds_core.scaler.rules.assignment import Cover, cover
from dds_core.scaler.rules.failures import end_cool_downs, fail, tell_failures
from dds_core.scaler.rules.handover import drop_overdue, hand_over, promises_of, reserve
from dds_core.scaler.rules.labels import label
from dds_core.scaler.rules.moves import move
from dds_core.scaler.rules.orders import order, prewarm
from dds_core.scaler.rules.release import detach, rebalance
from dds_core.scaler.rules.work import Work


def step(work: Work, node: str) -> None:
    if not node:  # a claim that no node was found for can only be failed
        tell_failures(work, node)
        return
    picture = work.picture
    drop_overdue(work, node)
    covers = cover(picture, node) if picture.somebody_waits(node) else []
    for covered in covers:
        _advance(work, covered, node)
    if covers:
        order(work, node, covers)
        for covered in covers:
            if covered.complete:
                hand_over(work, covered.claim, node)
        rebalance(work, node, covers)
    detach(work, node, covers)
    prewarm(work, node, covers)
    end_cool_downs(work, node)
    label(work, node, covers)
    tell_failures(work, node)


def _advance(work: Work, covered: Cover, node: str) -> None:
    """`device_ready` once every unit has its device (in live modes only with our reservation), `ordered` once every unit
    is asked for, `failed` when the fabric has said no for long enough."""
    life = work.picture.lives.rows[covered.claim.uid]
    if covered.complete:
        if reserve(work, covered, life, node) or not work.picture.live:
            names = ", ".join(found.uuid or found.key[2] for _, found in covered.ready)
            verb = "is" if len(covered.ready) == 1 else "are"
            _move(work, covered, "device_ready", f"{names} {verb} there and free", promises_of(covered))
        return
    if covered.asked and life.state == PENDING:
        _move(work, covered, "ordered", _asked_cause(work, covered, node))
    for model, uid in covered.erring:
        since = work.picture.erring.get(uid)
        if since is not None and work.has_come(since + work.picture.policy.error_grace_seconds * MICROSECONDS):
            resource = work.picture.resources.rows[uid]
            life = work.picture.lives.rows[covered.claim.uid]
            fail(work, covered.claim, life, "AttachFailed", resource.error, model, observed=True)
            return


def _asked_cause(work: Work, covered: Cover, node: str) -> str:
    models = {model.model for _, _, model in work.picture.pool_results(covered.claim.allocation)}
    rows = (work.picture.requests.rows[uid] for uid in sorted(work.picture.requests_at[node]))
    named = [f"request {r.name} asks for {r.size} of {r.model}" for r in rows if r.model in models and not r.deleting]
    return "; ".join(named) or "our order covers it"


def _move(work: Work, covered: Cover, trigger: str, cause: str, promises: tuple[Promise, ...] = ()) -> None:
    uid = covered.claim.uid
    step = move(uid, work.picture.lives.rows[uid], trigger, cause, devices=covered.resources, promises=promises)
    if step is not None:
        work.emit(step)
