"""The folds of facts about ourselves: start, policy, deadlines, and what became of writes."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core import events as e
from dds_core.events import Event
from dds_core.model import FAILED_CONDITION, RESCHEDULE, Claim
from dds_core.scaler.fold.common import HOUR, SECOND, Fold, detach_void, nothing, order_met, touch_device
from dds_core.scaler.policy import read_policy
from dds_core.scaler.rows import Refusal
from dds_core.scaler.state import Picture

# -- restart -----------------------------------------------------------------------------------------------------------

# What a restart makes of intents: a decision whose outcome the cluster does not show is void, so that the level pass
# that follows decides it again. Reservations stand: they are promises, not writes. Part of the fold; it never decides.


Reissue = set[tuple[str, str]]
"""(type of decision, what it was about), as `dds_core.scaler.fold.shown_key` names them."""


def void_unseen(picture: Picture, at: int) -> Reissue:
    """Void every intent that the cluster does not show; gives what is re-issued if it is decided again."""
    unseen: Reissue = set()
    _orders(picture, unseen)
    _hand_overs(picture, unseen)
    _failures(picture, unseen)
    _labels(picture, unseen)
    _fences(picture, unseen, at)
    return unseen


def _orders(picture: Picture, unseen: Reissue) -> None:
    for cell in list(picture.orders):
        picture.orders.drop(cell)
        unseen |= {("AttachOrdered", "/".join(cell)), ("DetachOrdered", "/".join(cell))}


def _hand_overs(picture: Picture, unseen: Reissue) -> None:
    for uid, row in list(picture.hand_overs.rows.items()):
        if not _told(picture.claims.get(uid), RESCHEDULE):
            picture.hand_overs.drop(uid)
            unseen.add(("HandOver", uid))
        elif row.steered:
            picture.hand_overs.put(uid, replace(row, steered=False))
            unseen.add(("Steered", row.pod))


def _failures(picture: Picture, unseen: Reissue) -> None:
    for uid, row in list(picture.failures.rows.items()):
        if row.signalled and not _told(picture.claims.get(row.on), FAILED_CONDITION):
            picture.failures.put(uid, replace(row, signalled=False))
            unseen.add(("FailureSignalled", uid))


def _told(claim: Claim | None, condition: str) -> bool:
    return claim is not None and any(c.type == condition and c.status == "True" for c in claim.conditions)


def _labels(picture: Picture, unseen: Reissue) -> None:
    for key in list(picture.labelled):
        picture.labelled.drop(key)
        unseen |= {("NodeLabelled", key[0]), ("NodeLabelled", f"{key[0]}:ready")}


def _fences(picture: Picture, unseen: Reissue, at: int) -> None:
    """A fence that was watched by a process that is gone starts anew; a mark that is not there is to be written again."""
    for uid, fence in list(picture.fences.rows.items()):
        resource = picture.resources.get(uid)
        if resource is None:
            picture.fences.drop(uid)
            continue
        picture.fences.put(uid, replace(fence, since=at, wanted=False, confirmed=0, ordered=False))
        unseen.add(("ClaimsListWanted", uid))
        if not resource.marked:
            unseen.add(("VictimMarked", uid))
    for uid in list(picture.unmarked):
        unseen.add(("VictimUnmarked", uid))
    for uid in list(picture.lifted):
        picture.lifted.drop(uid)
        unseen.add(("TaintLifted", uid))


# -- ourselves ---------------------------------------------------------------------------------------------------------


def _started(picture: Picture, event: e.Started, at: int) -> None:
    picture.epoch = event.epoch
    picture.synced = False
    picture.restarted = True


def _policy(picture: Picture, event: e.PolicyChanged, at: int) -> None:
    before, picture.policy = picture.policy, read_policy(event.policy)
    for name in list(picture.timeouts):  # what the scheduler itself was given may be new too
        said, says = (one.scheduler_of(name).binding_timeout_seconds for one in (before, picture.policy))
        if said != says:
            picture.timeouts.drop(name)
    picture.rebuild()


def _capabilities(picture: Picture, event: e.Capabilities, at: int) -> None:
    picture.dirty.everything = picture.taint_rules != event.taint_rules or picture.dirty.everything
    picture.taint_rules = event.taint_rules


def _synced(picture: Picture, event: e.Synced, at: int) -> None:
    picture.synced = True
    picture.stale.clear()
    if not picture.synced_at:
        picture.synced_at = at
    picture.level_at = at
    if picture.restarted:
        picture.restarted = False
        for key in sorted(void_unseen(picture, at)):
            picture.reissue.put(key, True)
    picture.touch_everything()


def _stale(picture: Picture, event: e.Stale, at: int) -> None:
    picture.stale.add(event.resource)


def _claims_listed(picture: Picture, event: e.ClaimsListed, at: int) -> None:
    fence = picture.fences.get(event.resource)
    settled = picture.policy.fence_settle_seconds * SECOND
    if fence is not None and event.started >= fence.since + settled:
        picture.fences.put(event.resource, replace(fence, confirmed=at))
        touch_device(picture, event.resource)


def _deadline(picture: Picture, event: e.DeadlinePassed, at: int) -> None:
    picture.passed.put((event.kind, event.of), event.due)
    match event.kind:
        case "level":
            picture.level_at = at
            picture.touch_everything()
        case "idle" | "fence" | "grace":
            touch_device(picture, event.of)
        case "cooling":
            picture.dirty.nodes.add(event.of.partition("/")[0])
        case "retry":
            action, _, target = event.of.partition("/")
            refusal = picture.refusals.get((action, target))
            if refusal is not None and refusal.node:
                picture.dirty.nodes.add(refusal.node)
            else:
                _touch_target(picture, target)
        case "detaches" | "prewarm":
            picture.dirty.everything = True
        case "publisher":
            failure = picture.failures.get(event.of)
            if failure is not None:
                picture.dirty.nodes.add(failure.node)
        case "reservation":
            picture.dirty.claims.add(event.of)
            picture.dirty.nodes |= {picture.reservations.rows[key].node for key in picture.reservations_for[event.of]}
        case _:
            picture.dirty.claims.add(event.of)
            life = picture.lives.get(event.of)
            if life is not None and life.node:
                picture.dirty.nodes.add(life.node)


def _touch_target(picture: Picture, target: str) -> None:
    """What a refused write was about may be decided again: a claim, pod, device, rule, node, cell or request."""
    dirty = picture.dirty
    claim, pod = picture.claims.get(target), picture.pods.get(target)
    request = picture.requests.get(picture.request_named.get(target, ""))
    if claim is not None:
        dirty.claims.add(target)
        dirty.nodes.add(picture.node_of(claim))
    elif pod is not None:
        dirty.claims |= {one.uid for one in picture.claims_of(pod)}
    elif target in picture.resources:
        touch_device(picture, target)
    elif target in picture.rules:
        dirty.rules.add(target)
    elif request is not None:
        dirty.nodes.add(request.node)
    elif (name := target.partition("/")[0]) in picture.node_named:
        dirty.nodes.add(name)
    else:
        dirty.everything = True


def _write_done(picture: Picture, event: e.WriteDone, at: int) -> None:
    picture.refusals.drop((event.action, event.target))
    picture.passed.drop(("retry", f"{event.action}/{event.target}"))
    request = picture.requests.get(picture.request_named.get(event.target, ""))
    if request is not None and event.action in ("AttachOrdered", "DetachOrdered"):
        order_met(picture, request)


def _write_refused(picture: Picture, event: e.WriteRefused, at: int) -> None:
    """The intent is void; the same is not decided again before a pause that doubles from 30 s to 10 minutes."""
    _try_later(picture, event.action, event.target, at, 30 * SECOND)


def _write_obsolete(picture: Picture, event: e.WriteObsolete, at: int) -> None:
    """The intent is void. What was found is observed sooner than the pause is over, which doubles from 2 s to 10 minutes."""
    _try_later(picture, event.action, event.target, at, 2 * SECOND)


def _try_later(picture: Picture, action: str, target: str, at: int, first: int) -> None:
    key = (action, target)
    before = picture.refusals.get(key)
    count = before.count + 1 if before is not None else 1
    ordered = (cell[0] for cell, order in picture.orders.rows.items() if order.request == target)
    node = next(ordered, before.node if before is not None else "")
    _forget_old_refusals(picture, at)
    pause = min(first << min(count - 1, 10), 600 * SECOND)
    picture.refusals.put(key, Refusal(count, at + pause, node))
    _void(picture, action, target)


def _forget_old_refusals(picture: Picture, at: int) -> None:
    """What was refused so long ago and not tried again is wanted no more: its object may be gone."""
    for key, refusal in list(picture.refusals.rows.items()):
        if refusal.until <= at - HOUR:
            picture.refusals.drop(key)
            picture.passed.drop(("retry", "/".join(key)))


def _superseded(picture: Picture, event: e.Superseded, at: int) -> None:
    """A newer decision took its place; that one carries the intent. Where it raises a request instead of lowering it, the other
    victims' turn is still to come."""
    if event.action == "DetachOrdered":
        detach_void(picture, event.target)


def _void(picture: Picture, action: str, target: str) -> None:
    """Forget the intent of a decision that will not be carried out; `target` is the object's name or uid."""
    match action:
        case "AttachOrdered" | "DetachOrdered":
            for cell, order in list(picture.orders.rows.items()):
                if order.request == target:
                    picture.orders.drop(cell)
                    picture.dirty.nodes.add(cell[0])
            if action == "DetachOrdered":
                detach_void(picture, target)
        case "HandOver":
            _hand_over_void(picture, target)
        case "Steered":
            for uid, row in list(picture.hand_overs.rows.items()):
                if row.pod == target:
                    picture.hand_overs.put(uid, replace(row, steered=False))
        case "FailureSignalled":
            failure = picture.failures.get(target)
            if failure is not None:
                picture.failures.put(target, replace(failure, signalled=False))
        case "NodeLabelled":
            for key in [key for key in picture.labelled.rows if key[0] == target]:
                picture.labelled.drop(key)
            picture.dirty.nodes.add(target)
        case "TaintLifted":
            picture.lifted.drop(target)
            picture.dirty.rules.add(target)
        case "VictimMarked":
            picture.fences.drop(target)
            touch_device(picture, target)
        case "VictimUnmarked" if target in picture.unmarked:
            picture.unmarked.put(target, 0)
        case _:
            pass


def _hand_over_void(picture: Picture, claim: str) -> None:
    """Nobody of the group was told: its claims are signalled in one write or not at all."""
    first = picture.hand_overs.get(claim)
    together = [claim]
    if first is not None:
        rows = picture.hand_overs.rows.items()
        together = [uid for uid, row in rows if (row.pod, row.node, row.since) == (first.pod, first.node, first.since)]
    for uid in together:
        picture.hand_overs.drop(uid)
        picture.dirty.claims.add(uid)


FOLDS: dict[type[Event], Fold] = {
    e.Started: _started,
    e.PolicyChanged: _policy,
    e.Capabilities: _capabilities,
    e.Synced: _synced,
    e.Stale: _stale,
    e.ClaimsListed: _claims_listed,
    e.WriteDone: _write_done,
    e.WriteObsolete: _write_obsolete,
    e.WriteRefused: _write_refused,
    e.Superseded: _superseded,
    e.DeadlinePassed: _deadline,
    e.Checkpoint: nothing,
}
