"""The folds of facts about ourselves: what the API can, the policy, the whole cluster seen, deadlines."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.events import Event
from dds_core.kit import work as kit
from dds_core.kit.policy import MICROSECONDS
from dds_core.kit.work import Fold
from dds_core.scaler import events as e
from dds_core.scaler.fold import reuse
from dds_core.scaler.fold.decisions import RELISTED, go_on, hold_is, settled_due, void_unseen
from dds_core.scaler.policy import read_policy
from dds_core.scaler.state import Picture


def _policy(picture: Picture, event: e.PolicyChanged, at: int) -> None:
    before, picture.policy = picture.policy, read_policy(event.policy)
    for name in list(picture.timeouts):  # what the scheduler itself was given may be new too
        said, says = (one.scheduler_of(name).binding_timeout_seconds for one in (before, picture.policy))
        if said != says:
            picture.timeouts.drop(name)
    if not picture.policy.learns_idle or before.longest_idle != picture.policy.longest_idle:
        reuse.forget(picture)
    picture.rebuild()


def _capabilities(picture: Picture, event: e.Capabilities, at: int) -> None:
    changed = (picture.guards, picture.unanswered) != (event.guards, event.unanswered)
    picture.dirty.everything = changed or picture.dirty.everything
    picture.version, picture.guards, picture.unguarded = event.version, event.guards, event.unguarded
    picture.unanswered = event.unanswered


def _synced(picture: Picture, event: e.Synced, at: int) -> None:
    kit.synced(picture, at, void_unseen)
    picture.dirty.everything = True


def _claims_listed(picture: Picture, event: e.ClaimsListed, at: int) -> None:
    exchange = picture.exchanges.get(event.resource)
    if exchange is not None and exchange.stage == "listing" and event.started >= settled_due(picture, exchange.since):
        go_on(picture, exchange.group, "listing", "listed", at)
    hold, fence = picture.holds.get(event.resource), picture.fences.get(event.resource)
    if hold is not None and hold.stage == "listing" and event.started >= settled_due(picture, hold.since):
        hold_is(picture, event.resource, "listed", at)
    settled = picture.policy.fence_settle_seconds * MICROSECONDS
    if fence is not None and event.started >= fence.since + settled:
        picture.fences.put(event.resource, replace(fence, confirmed=at))
        picture.touch_device(event.resource)


def _claims_relisted(picture: Picture, event: e.ClaimsRelisted, at: int) -> None:
    picture.passed.put(RELISTED, at)


def _deadline(picture: Picture, event: e.DeadlinePassed, at: int) -> None:
    picture.passed.put((event.kind, event.of), event.due)
    match event.kind:
        case "level":
            picture.level_at = at
            picture.dirty.everything = True
        case "idle" | "fence" | "grace" | "hold" | "unlisted" | "progress":
            picture.touch_device(event.of)
        case "settle" if event.of in picture.holds:
            picture.touch_device(event.of)
        case "rules":
            picture.dirty.rules |= picture.our_rules
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
        picture.touch_device(target)
    elif target in picture.rules:
        dirty.rules.add(target)
    elif request is not None:
        dirty.nodes.add(request.node)
    elif (name := target.partition("/")[0]) in picture.node_named:
        dirty.nodes.add(name)
    else:
        dirty.everything = True


FOLDS: dict[type[Event], Fold] = {
    e.PolicyChanged: _policy,
    e.Capabilities: _capabilities,
    e.Synced: _synced,
    e.ClaimsListed: _claims_listed,
    e.ClaimsRelisted: _claims_relisted,
    e.DeadlinePassed: _deadline,
}
