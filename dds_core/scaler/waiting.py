"""What waits, and for what, in sentences: claims without their devices, and devices on their way back to the pool. Whose time it
is says `dds_core.scaler.blame`; the reasons come from the same functions that the rules use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from itertools import takewhile
from math import inf
from typing import NamedTuple

from dds_core.lifecycle import ATTACHED, ATTACHING, FAILED, PENDING, WAITING
from dds_core.model import NO_NODE_FITS, RESOURCE_DETACHING, Claim, FabricResource, Model, Pod, request_name
from dds_core.scaler.blame import BY_US, POOL, TAKEN, Coming, Wait, is_placed, stage_of
from dds_core.scaler.events import AttachOrdered
from dds_core.scaler.model import ClaimLife, Cooling, Fence
from dds_core.scaler.operator import PLUGIN_REST, PLUGIN_START, TWO_CHECKS, Job, Turns, plugin_restarted
from dds_core.scaler.ordering import in_flight_cap
from dds_core.scaler.rules.assignment import Assignment, assign, undecided_because, unseen_because
from dds_core.scaler.rules.claims import trigger_of_conditions
from dds_core.scaler.rules.devices import looked_at
from dds_core.scaler.rules.failures import placed_in_vain, shown_failure, signal_due
from dds_core.scaler.rules.handover import group_of, is_signalled, no_way
from dds_core.scaler.rules.nudges import nudge_due
from dds_core.scaler.rules.orders import (
    CellRequests,
    cell_of,
    conflicting_model,
    going_first,
    is_making,
    never_together,
    published_free,
    rival_words,
    still_shown,
)
from dds_core.scaler.rules.suiting import unjudged, without_class
from dds_core.scaler.state import State
from dds_core.timeline.instants import rfc3339


class WaitingRow(NamedTuple):
    """A claim that is allocated, or about to be, and not in use yet; one that failed too while a pod waits for it. `since` is the
    start of its attempt in microseconds, `stage` one of `blame.STAGES`."""

    claim: str
    uid: str
    state: str
    since: int
    node: str
    models: tuple[str, ...]
    stage: str
    why: str


def waiting_rows(state: State) -> list[WaitingRow]:
    """Every waiting claim with a sentence that says what it waits for, longest wait first."""
    assignments = {one.claim.uid: one for node in sorted(_nodes(state)) for one in assign(state, node)}
    queued, rows = _queued(state), []
    for uid, life in state.lifecycle.lives.rows.items():
        failed = life.state == FAILED and _still_waited_for(state, uid)
        if failed or (life.state in WAITING and not is_without_node(state, uid)):
            models = tuple(dict.fromkeys(model.model for _, _, model in state.inventory.pool_results(life.allocation)))
            name = f"{life.namespace}/{life.name}"
            wait = _wait(state, life, uid, assignments.get(uid), queued)
            stage = stage_of(wait)
            if stage in BY_US:
                stage = stage_of(wait._replace(barred=_is_barred(state, uid)))
            why = _why(state, life, uid, assignments.get(uid), there=wait.exchanging or not wait.short)
            taker = taker_of(state, life, uid, short=wait.short) if stage in (TAKEN, POOL) else ""
            why = f"{taker} has taken the device that came for it; {why}" if taker else why
            why = "is being deleted, so that no scheduler places its pod" if is_going(state, uid) else why
            rows.append(WaitingRow(name, uid, life.state, life.began, life.node, models, stage, why))
    return sorted(rows, key=lambda row: (row.since, row.claim, row.uid))


def is_going(state: State, uid: str) -> bool:
    """Whether somebody has deleted the claim, which stays as long as a pod uses it: no scheduler places that pod any more."""
    claim = state.demand.claims.get(uid)
    return claim is not None and claim.deleting


def _is_barred(state: State, uid: str) -> bool:
    """Whether something keeps dds and the scheduler from serving the claim that neither can change."""
    claim = state.demand.claims.get(uid)
    if claim is None:
        return False
    if without_class(state, claim):
        return True
    pods = state.demand.pods_of(claim)
    if any(is_placed(pod, claim) for pod in pods) or placed_in_vain(state, claim):
        return True
    life = state.lifecycle.lives.get(uid)
    return life is not None and life.state == ATTACHED and bool(no_way(state, claim))


def is_without_node(state: State, uid: str) -> bool:
    """Whether a claim has no allocation any more and the scheduler has found no node for its pod, whatever came for the claim
    before: why, says `dds_core.scaler.unallocated`."""
    claim = state.demand.claims.get(uid)
    return (
        claim is not None
        and claim.allocation is None
        and not claim.deleting
        and not _is_exchanging(state, uid)
        and _finds_no_node(state.demand.pods_of(claim))
    )


def _still_waited_for(state: State, uid: str) -> bool:
    """Whether a pod waits for a claim that failed and keeps its allocation; without one it waits for a choice of the scheduler
    (`dds_core.scaler.unallocated`)."""
    claim = state.demand.claims.get(uid)
    return (
        claim is not None and claim.allocation is not None and any(pod.pending for pod in state.demand.pods_of(claim))
    )


def _nodes(state: State) -> set[str]:
    return {life.node for life in state.lifecycle.lives.rows.values() if life.node and life.state in WAITING}


def _wait(state: State, life: ClaimLife, uid: str, assignment: Assignment | None, queued: Container[str]) -> Wait:
    """The claim as `blame` sees it. `queued`: the resources that the operator has still to come to."""
    claim = state.demand.claims.get(uid)
    pods = state.demand.pods_of(claim) if claim is not None else []
    failure = state.failing.failures.get(uid)
    wait = Wait(
        life.state,
        allocated=claim is not None and claim.allocation is not None,
        pooled=claim is not None and state.inventory.waits_for_devices(claim),
        unschedulable=_finds_no_node(pods),
        failing=failure is not None,
        told=failure is None or any(one.fails for pod in pods for one in state.demand.claims_of(pod)),
        observes=not state.live,
        exchanging=_is_exchanging(state, uid),
        signalled=claim is not None and is_signalled(state, claim),
        lost=_is_lost(state, life),
        going=is_going(state, uid),
        turn=any(_lacks(state, other) for pod in pods for other in state.demand.claims_of(pod) if other.uid != uid),
    )
    if assignment is None:
        return wait._replace(taken=bool(taker_of(state, life, uid)))
    missing = Counter(assignment.missing)
    cells = [cell_of(state, life.node, state.settings.models[one]) for one in missing]
    making = bool(cells) and all(is_making(state, cell) for cell in cells)
    coming = [_coming(state, one, queued) for _, one in (*assignment.attaching, *assignment.erring)]
    lacks = len(assignment.missing) + len(assignment.ordered) + len(assignment.sharing)
    ordered = bool(assignment.ordered and not assignment.missing) or making
    empty = any(_left(state, cell)[1] < missing[cell.model.model] for cell in cells)
    needs = len(coming) + lacks
    short = life.state == ATTACHED and needs > 0 and not wait.signalled
    taken = bool(taker_of(state, life, uid, short=short))
    return wait._replace(ordered=ordered, empty=empty, needs=needs, coming=coming, short=short, taken=taken)


def _left(state: State, cell: CellRequests) -> tuple[int, float]:
    """How many devices the pools that the node reaches show, and how many of them are not ordered; any number while no pool is
    whole."""
    free = published_free(state, cell.node, cell.model)
    return (0, inf) if free is None else (free, free - still_shown(state, cell.node, cell))


def _finds_no_node(pods: Iterable[Pod]) -> bool:
    """Whether the scheduler has found no node for one of these pods."""
    return any(pod.pending and pod.waiting == NO_NODE_FITS for pod in pods)


def _is_exchanging(state: State, uid: str) -> bool:
    exchange = state.hand_over.exchanges.get(uid)
    return exchange is not None and exchange.stage != "left"


def _is_lost(state: State, life: ClaimLife) -> bool:
    """Whether the claim's node was deleted; before everything was listed for the first time, it may not have been seen yet."""
    return bool(life.node and state.process.synced_at) and state.fleet.node(life.node) is None


def _lacks(state: State, claim: Claim) -> bool:
    life = state.lifecycle.lives.get(claim.uid)
    return life is not None and life.state in (PENDING, ATTACHING)


def _queued(state: State) -> set[str]:
    """The resources that wait until the operator has the fabric's answer about others, by what it took up and what of that has
    been answered, as far as that is still on its way."""
    turns, told = Turns(), []
    for uid, look in state.health.looks.rows.items():
        one = state.fleet.resources.get(uid)
        if one is not None:
            leaving = one.state == RESOURCE_DETACHING
            told.append((look.since, 0, Job(uid, look.since, leaving, one.node)))
            if one.error or (one.uuid and not leaving):
                told.append((max(look.named, look.erred, look.since), 1, told[-1][2]))
    for at, ends, job in sorted(told):
        if ends:
            turns.end(job.uid, at)
        else:
            turns.take_up(job)
    return turns.jobs.keys() - turns.asked()


def _coming(state: State, uid: str, queued: Container[str]) -> Coming:
    """How far a device is; the instants are told only as come or not."""
    resource = state.fleet.resources.rows[uid]
    listed = bool(resource.uuid) and state.is_listed(resource)
    steps = (
        True,
        bool(resource.state) and uid not in queued,
        bool(resource.uuid),
        listed or _is_sought(state, resource),
        listed,
        state.is_arrived(resource),
    )
    return Coming(*map(int, steps))


def _is_sought(state: State, resource: FabricResource) -> bool:
    """Whether a look has restarted the driver's plugin, which has still to list the device. A plugin whose start was not seen may
    have been too young for that; and of a start for devices that were listed before, the end is not seen."""
    look, place = state.health.looks.get(resource.uid), state.place_listed(resource)
    listing = state.health.listings.get(place)
    if look is None or not look.named or listing is None or not listing.starting:
        return False
    before = plugin_restarted(listing.listed, listing.restarted) if listing.restarted else state.process.synced_at
    if listing.starting < before + PLUGIN_REST + PLUGIN_START:
        return False
    rows = state.fleet.resources.rows
    here = ((rows[one], state.health.looks.get(one)) for one in state.fleet.resources_at[resource.node])
    return any(
        known is not None and 0 < known.named <= listing.starting and not state.is_listed(one)
        for one, known in here
        if state.place_listed(one) == place
    )


def taker_of(state: State, life: ClaimLife, uid: str, *, short: bool = False) -> str:
    """The claim that has taken a device of those that came for this one, the last that did. `short`: it was attached, and lacks
    one by now."""
    mine = {promise.identity for promise in life.promises}
    lives = (state.lifecycle.lives.get(one) for one in state.lifecycle.waiting_at[life.node])
    robbed = (life.state != ATTACHED and any(one is not None and one.robbed for one in lives)) or (
        short and life.robbed
    )
    models = {model.model for _, _, model in state.inventory.pool_results(life.allocation)} if robbed else set()
    found = []
    for one in state.fleet.resources_at[life.node]:
        device, resource = state.lifecycle.devices.get(one), state.fleet.resources.rows[one]
        if device is None or device.key is None or uid in state.demand.having[device.key]:
            continue
        if resource.uuid in mine or (resource.model in models and device.since >= life.began):
            claims = (state.demand.claims.get(other) for other in state.demand.having[device.key])
            found += [(device.since, f"{claim.namespace}/{claim.name}") for claim in claims if claim is not None]
    return max(found)[1] if found else ""


def _why(state: State, life: ClaimLife, uid: str, assignment: Assignment | None, *, there: bool) -> str:
    """`there`: the devices of an attached claim are there."""
    if life.state == FAILED or uid in state.failing.failures:
        return failed_because(state, uid)
    claim = state.demand.claims.get(uid)
    lost = _is_lost(state, life) and uid not in state.hand_over.hand_overs
    if life.state == ATTACHED and not lost and (there or uid in state.hand_over.hand_overs):
        return _why_not_bound(state, life, uid)
    if claim is not None and claim.allocation is not None and _is_lost(state, life):
        return f"node {life.node} was deleted; the scheduler allocates anew once its binding timeout is over, or with a new pod"
    if claim is None or claim.allocation is None:
        return "its allocation was cleared, the scheduler chooses anew"
    if assignment is None:
        return "no device of a known model is asked for"
    return "; ".join(dict.fromkeys(_steps(state, assignment, life.node))) or "its devices are there"


def failed_because(state: State, uid: str) -> str:
    """Why the last attempt of a claim failed, and what ends the failure."""
    failure, life = state.failing.failures.get(uid), state.lifecycle.lives.get(uid)
    claim = state.demand.claims.get(uid)
    if failure is not None:
        why = f"failed: {failure.reason}: {failure.message}"
    else:  # dds would have a failure of its own
        found = trigger_of_conditions(state, claim) if claim is not None else None
        why = f"failed: another client set {found[1]}" if found is not None else "failed"
    if claim is None or claim.allocation is None:
        return f"{why}; its allocation is cleared"
    if failure is None or failure.signalled:
        return f"{why}; the scheduler is told, and clears its allocation"
    if not state.live:
        return f"{why}; mode observe: dds tells the scheduler nothing"
    refused = next((row for (_, of), row in state.notes.refusals.rows.items() if of == uid and row.text), None)
    if refused is not None:
        again = f"which is tried again at {rfc3339(refused.until)}"
        return f"{why}; the API server refused to let dds tell the scheduler, {again}: {refused.text}"
    if failure.model or life is None:
        return f"{why}; the scheduler is told after the node's label is visible"
    return (
        f"{why}; the scheduler is told at {rfc3339(signal_due(state, failure, life))}, and then clears its allocation"
    )


def _why_not_bound(state: State, life: ClaimLife, uid: str) -> str:
    row = state.hand_over.hand_overs.get(uid)
    if row is not None:
        steered = ", nominated and cleared" if row.steered else ""
        claim = state.demand.claims.get(uid)
        pods = state.demand.pods_of(claim) if claim is not None and claim.allocation is None else []
        then = "; the scheduler finds no node for its pod" if _finds_no_node(pods) else ""
        return f"handed over to the scheduler for {row.node} ({row.steering}{steered}){then}"
    exchange, claim = state.hand_over.exchanges.get(uid), state.demand.claims.get(uid)
    if exchange is not None and exchange.stage == "left":
        return "its devices are there, the scheduler allocates it anew: its exchange ended between its two writes"
    if exchange is not None:
        return f"its devices are there, they are put into its allocation for {exchange.node} (exchange)"
    if claim is not None and state.inventory.waits_for_devices(claim):
        why = placed_in_vain(state, claim) or no_way(state, claim) or group_of(state, claim)
        begins = "its hand-over is about to begin" if state.live else "mode observe: dds hands nothing over"
        return f"its devices are there, {why if isinstance(why, str) else begins}"
    return "its devices are there, its pod is not bound yet"


def _steps(state: State, assignment: Assignment, node: str) -> Iterator[str]:
    """What the claim still needs before it has its devices, the worst first."""
    if assignment.undecided:
        yield undecided_because(assignment, node)
    if assignment.unseen:
        yield unseen_because(assignment, node)
    for _, uid in assignment.erring:
        resource = state.fleet.resources.rows[uid]
        yield f"{resource.name}: {resource.error}"
    yield from _why_not_ordered(state, assignment, node)
    for name in dict.fromkeys(assignment.ordered):
        yield _why_not_made(state, node, name)
    for _, uid in assignment.attaching:
        yield _on_its_way(state, state.fleet.resources.rows[uid])
    if assignment.sharing:
        yield "shares a device that is not ordered yet"


def _on_its_way(state: State, resource: FabricResource) -> str:
    """What a device that is being attached waits for."""
    says = f"{resource.name} is {resource.state or 'new'}"
    if resource.error:
        sick = state.health.sick.get(resource.uid)
        until = f" until {rfc3339(sick + TWO_CHECKS)}" if sick is not None else ""
        return f"{says} with an error that may pass, waited for{until}: {resource.error}"
    if not resource.uuid:
        return says
    if not state.is_listed(resource):
        due = nudge_due(state, resource.uid)
        looked = f"; the operator is to look at {rfc3339(due)}" if due is not None else ""
        return f"{says}, {resource.uuid} is there and not listed by the driver on {resource.node}{looked}"
    return f"{says}, {resource.uuid} is listed under a name that is not free yet"


def _why_not_made(state: State, node: str, model: str) -> str:
    """Why an order has not led to a resource yet."""
    for uid in sorted(state.fleet.requests_at[node]):
        request = state.fleet.requests.rows[uid]
        if request.model == model:
            return f"{request.name} is {request.state or 'new'}" + (f": {request.error}" if request.error else "")
    return f"{model} is ordered"


def _why_not_ordered(state: State, assignment: Assignment, node: str) -> Iterator[str]:
    """Why the devices that nothing covers are not ordered: all of a claim are ordered at once, so what keeps one is enough."""
    names = list(dict.fromkeys(assignment.missing))
    models = [state.settings.models[name] for name in names]
    told = list(filter(None, (next(_obstacles(state, assignment, node, model), "") for model in models)))
    if told or not names:
        yield from told
        return
    first = next((one for one in _ahead(state, assignment, node) if {*names} & {*one.missing}), None)
    for name in names:
        yield f"{first.claim.path} waits on {node}, too, and comes first" if first else f"{name} is about to be ordered"


def _ahead(state: State, assignment: Assignment, node: str) -> Iterator[Assignment]:
    """The claims that are served on the node before this one."""
    return takewhile(lambda one: one.claim.uid != assignment.claim.uid, assign(state, node))


def _obstacles(state: State, assignment: Assignment, node: str, model: Model) -> Iterator[str]:
    name, claim = model.model, assignment.claim
    place = state.fleet.node(node)
    if not state.process.synced or state.process.stale:
        yield "the view of the cluster is not complete"
    if place is None:
        yield f"node {node} is not known"
        return
    yield from unjudged(state, node, claim, model).values()
    if not all(place.takes(pod.tolerations) for pod in state.demand.pods_of(claim) if not pod.node):
        yield f"{node} is cordoned, tainted or being deleted"
    yield from filter(None, (placed_in_vain(state, claim), without_class(state, claim), never_together(state, claim)))
    cooling = state.failing.cooling.get((node, name))
    if cooling is not None:
        yield cool_down_words(name, node, cooling)
    fabric = state.failing.fabric_of.get(node, "")
    if state.failing.fails(fabric, name):
        nodes = len(state.failing.fabric_failed[fabric, name])
        yield f"{name} cools down in fabric {fabric}, which brought none to {nodes} nodes"
    cell = cell_of(state, node, model)
    going = going_first(state, claim, cell)
    if going:
        yield going
    rival = conflicting_model(state, node, model, claim)
    if rival:
        yield rival_words(name, node, rival)
    refusal = state.notes.refusals.get((AttachOrdered.__name__, _request(state, node, model)))
    if refusal is not None:
        words = f": {refusal.text}" if refusal.text else ""
        yield f"the order was refused {refusal.count} times, tried again at {rfc3339(refusal.until)}{words}"
    if is_making(state, cell):
        yield f"the operator has still to make what was ordered for {name} on {node} before"
    free, left = _left(state, cell)
    if left == inf:
        yield f"no whole pool of {name} reaches {node}"
        if not state.inventory.pools_of_model[name] and state.fleet.units_coming >= (cap := in_flight_cap(state)):
            yield f"{state.fleet.units_coming} attaches are under way, the most without a pool are {cap}"
    elif free == 0:
        yield f"the pool has no {name} left"
    elif left < (needs := assignment.missing.count(name)):
        yield f"the pool shows {free} of {name}, ordered already: {free - int(max(0, left))}; it needs {needs}"
    life = state.lifecycle.lives.get(claim.uid)
    shown = shown_failure(state, claim.uid, life) if life is not None and not state.live else None
    if shown is not None:
        yield f"mode observe: dds would give up this attempt: {shown.reason}: {shown.message}"
    if not state.live:
        yield f"mode observe: dds orders no {name}"


def cool_down_words(model: str, node: str, cooling: Cooling) -> str:
    return f"{model} cools down on {node} until {rfc3339(cooling.until)} after {cooling.reason}"


def _request(state: State, node: str, model: Model) -> str:
    cell = cell_of(state, node, model)
    return cell.own.name if cell.own is not None else request_name(node, cell.type, model.model)


def return_stage(state: State, uid: str, fence: Fence) -> str:
    """How far the return of the device has come, and which claims look at it."""
    if fence.ordered:
        stage = "detach ordered"
    elif fence.confirmed:
        stage = "confirmed"
    else:
        stage = "waits for the list of claims" if fence.wanted else "settles"
    return stage + looked_at(state, uid)
