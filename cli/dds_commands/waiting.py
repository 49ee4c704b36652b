"""The claims that wait for a device, oldest first, and in a sentence what each of them waits for.

Read off the picture with the questions that the rules themselves ask; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dds_core.lifecycle import ATTACHED, WAITING
from dds_core.model import Claim, Model
from dds_core.picture import Picture
from dds_core.rows import ClaimLife
from dds_core.rules.coverage import Cover, cover
from dds_core.rules.handover import open_for
from dds_core.rules.orders import cell_of, conflicting_model, in_flight_cap, published_free, request_name
from dds_core.timeline.clock import rfc3339


class WaitingRow(NamedTuple):
    """A claim that is allocated and not in use yet: `since` is the start of its attempt, in microseconds."""

    claim: str
    uid: str
    state: str
    since: int
    node: str
    models: tuple[str, ...]
    why: str


def waiting_rows(picture: Picture) -> list[WaitingRow]:
    """Every claim in a state of waiting, those that wait longest first."""
    covers = {one.claim.uid: one for node in sorted(_nodes(picture)) for one in cover(picture, node)}
    rows = []
    for uid, life in picture.lives.rows.items():
        if life.state in WAITING:
            models = tuple(dict.fromkeys(model.model for _, _, model in picture.pool_results(life.allocation)))
            name = f"{life.namespace}/{life.name}"
            why = _why(picture, life, uid, covers.get(uid))
            rows.append(WaitingRow(name, uid, life.state, life.began, life.node, models, why))
    return sorted(rows, key=lambda row: (row.since, row.claim, row.uid))


def _nodes(picture: Picture) -> set[str]:
    return {life.node for life in picture.lives.rows.values() if life.node and life.state in WAITING}


def _why(picture: Picture, life: ClaimLife, uid: str, covered: Cover | None) -> str:
    failure = picture.failures.get(uid)
    if failure is not None:
        told = "the scheduler is told" if failure.signalled else "the scheduler is told when the cool-down stands"
        return f"failed: {failure.reason}: {failure.message}; {told}"
    if life.state == ATTACHED:
        return _why_not_bound(picture, life, uid)
    claim = picture.claims.get(uid)
    if claim is None or claim.allocation is None:
        return "its allocation was cleared, the scheduler chooses anew"
    if covered is None:
        return "no device of a known model is asked for"
    return "; ".join(dict.fromkeys(_steps(picture, covered, life.node))) or "its devices are there"


def _why_not_bound(picture: Picture, life: ClaimLife, uid: str) -> str:
    row = picture.hand_overs.get(uid)
    if row is not None:
        steered = ", nominated and cleared" if row.steered else ""
        return f"handed over to the scheduler for {row.node} ({row.steering}{steered})"
    if picture.pool_results(life.allocation):
        return "its devices are there, the hand-over waits for the rest of its pod"
    return "its devices are there, its pod is not bound yet"


def _steps(picture: Picture, covered: Cover, node: str) -> Iterator[str]:
    """What stands between the claim and its devices, the worst first."""
    for _, uid in covered.erring:
        resource = picture.resources.rows[uid]
        yield f"{resource.name}: {resource.error}"
    for name in dict.fromkeys(covered.missing):
        yield _why_not_ordered(picture, covered.claim, node, picture.models[name])
    for name in dict.fromkeys(covered.ordered):
        yield _why_not_made(picture, node, name)
    for _, uid in covered.attaching:
        resource = picture.resources.rows[uid]
        yield f"{resource.name} is {resource.state or 'new'}"
    if covered.sharing:
        yield "shares a device that is not ordered yet"


def _why_not_made(picture: Picture, node: str, model: str) -> str:
    """There is an order; no resource has come of it."""
    for uid in sorted(picture.requests_at[node]):
        request = picture.requests.rows[uid]
        if request.model == model:
            return f"{request.name} is {request.state or 'new'}" + (f": {request.error}" if request.error else "")
    return f"{model} is ordered"


def _why_not_ordered(picture: Picture, claim: Claim, node: str, model: Model) -> str:
    return next(_obstacles(picture, claim, node, model), f"{model.model} is about to be ordered")


def _obstacles(picture: Picture, claim: Claim, node: str, model: Model) -> Iterator[str]:
    name = model.model
    place = picture.node(node)
    if not picture.synced or picture.stale:
        yield "the view of the cluster is not complete"
    if place is None:
        yield f"node {node} is not known"
        return
    if not all(open_for(place, pod.tolerations) for pod in picture.pods_of(claim) if not pod.node):
        yield f"{node} is cordoned, tainted or being deleted"
    cooling = picture.cooling.get((node, name))
    if cooling is not None:
        yield f"{name} cools down on {node} until {rfc3339(cooling.until)} after {cooling.reason}"
    fabric = picture.fabric_of.get(node, "")
    if picture.fails(fabric, name):
        yield f"{name} cools down in fabric {fabric}, which brought none to {len(picture.fabric_failed[fabric, name])} nodes"
    rival = conflicting_model(picture, node, model, claim)
    if rival:
        yield f"{name} may not share {node} with {rival}"
    refusal = picture.refusals.get(("AttachOrdered", _request(picture, node, model)))
    if refusal is not None:
        yield f"the order was refused {refusal.count} times, tried again at {rfc3339(refusal.until)}"
    free = published_free(picture, node, model)
    if free is None:
        yield f"no whole pool of {name} reaches {node}"
    elif free == 0:
        yield f"the pool has no {name} left"
    under_way, cap = len(picture.under_way) + picture.units_ordered, in_flight_cap(picture)
    if under_way >= cap:
        yield f"{under_way} attaches are under way, the most are {cap}"
    if not picture.live:
        yield f"mode observe: dds orders no {name}"


def _request(picture: Picture, node: str, model: Model) -> str:
    cell = cell_of(picture, node, model)
    return cell.own.name if cell.own is not None else request_name(node, cell.type, model.model)
