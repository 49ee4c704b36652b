"""Orders: how many devices of a model the request of a node should have. The size rises with demand, never beyond a limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.policy import MICROSECONDS
from dds_core.matching.node_selectors import NodeSelector, node_matches
from dds_core.model import (
    GOING,
    OWNER,
    OWNER_LABEL,
    RESOURCE_DETACHING,
    AttachRequest,
    Claim,
    ClaimRequest,
    FabricResource,
    Model,
    model_of_device,
    request_name,
)
from dds_core.scaler.events import SURPLUS, WITHDRAWN, AttachOrdered, CoolDownOver
from dds_core.scaler.model import ASKS_FOR, DEPARTED, ORDER_REFUSED, WANTS_BOTH, Cell, PoolKey
from dds_core.scaler.ordering import in_flight_cap
from dds_core.scaler.rules.assignment import Assignment, assign, models_for, ordered_not_made, size_wanted
from dds_core.scaler.rules.devices import is_given_up, progress_due, staying_of
from dds_core.scaler.rules.failures import (
    PLACED,
    UNSCHEDULABLE,
    fail,
    fail_unschedulable,
    placed_in_vain,
    refused_order,
)
from dds_core.scaler.rules.suiting import (
    UNSUITABLE,
    arrived_unsuitable,
    basis_of,
    known_otherwise,
    tainted_there,
    unjudged,
    verdict_stands,
    without_class,
)
from dds_core.scaler.state import State, Work

NODE_LIMIT = "NodeLimit"
PREWARM_INTERVAL = 60 * MICROSECONDS
"""Between two devices that are ordered ahead of demand: claims that wait now shall not queue behind them."""


def usable(state: State, request: AttachRequest) -> bool:
    """Whether dds may change the request's size: it is its own, or the policy allows to adopt it."""
    if request.labels.get(OWNER_LABEL) == OWNER or request.name == request_name(
        request.node, request.type, request.model
    ):
        return True
    if request.policy != "samenode" or not request.node:
        return False
    match state.policy.adoption:
        case "all":
            return True
        case "reference":
            return request.generate_name == "composability-"
        case _:
            return False


def limits_of(state: State, node: str, model: str) -> tuple[int, int]:
    """(min, max) devices of the model on the node. Labels of the node win over the policy; one that is no number is ignored."""
    cell = (node, model)
    known = state.fleet.limits.get(cell)
    if known is None:
        known = state.fleet.limits[cell] = _read_limits(state, node, model)
    return known


def _read_limits(state: State, node: str, model: str) -> tuple[int, int]:
    limit = state.policy.limit_of(node, model)
    found, named = state.fleet.node(node), state.settings.model(model)
    labels = found.labels if found is not None else {}
    stem = f"{state.settings.config.prefix}/{named.device if named is not None else ''}"
    low, high = (_number(labels.get(f"{stem}-size-{end}", "")) for end in ("min", "max"))
    top = limit.max if high is None else high
    return min(limit.min if low is None else low, top), top


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


@dataclass(slots=True)
class CellRequests:
    """The requests for one model on one node, while the rules compute on them. `own`: the one that dds may change. `foreign`:
    another's, which prevents one of dds. `leaving`: one that is being deleted. `others`: devices of other requests.
    `stuck`: devices whose detach fails or hangs, or that no resource names. `size`: what `own` is to have. `granted`: claims
    (uids) that get more."""

    node: str
    model: Model
    type: str
    own: AttachRequest | None = None
    foreign: AttachRequest | None = None
    leaving: AttachRequest | None = None
    others: int = 0
    stuck: int = 0
    size: int = 0
    granted: list[str] = field(default_factory=list)

    @property
    def filled(self) -> int:
        """How much of the node's maximum is used up."""
        return self.size + self.others + self.stuck


def cell_of(state: State, node: str, model: Model) -> CellRequests:
    cell = CellRequests(node, model, state.settings.request_type(model))
    requests = [state.fleet.requests.rows[uid] for uid in state.fleet.requests_at[node]]
    for request in sorted(requests, key=lambda r: (r.created, r.name)):
        if request.model != model.model:
            continue
        if request.type != cell.type:
            cell.others += request.size
        elif request.deleting:
            cell.leaving = request
        elif usable(state, request) and cell.own is None:
            cell.own = request
        elif request.policy == "samenode":
            cell.foreign = request
            cell.others += request.size
    mine = cell.own.name if cell.own is not None else request_name(node, cell.type, model.model)
    cell.size = size_wanted(state, node, model.model, mine, cell.own.size if cell.own is not None else 0)
    requests_here = {request.name for request in requests}
    here = [r for uid in state.fleet.resources_at[node] if (r := state.fleet.resources.rows[uid]).model == model.model]
    cell.others += len([r for r in here if r.request not in requests_here and not r.deleting])
    cell.stuck = len([r for r in here if r.state == RESOURCE_DETACHING and _is_stuck(state, r)])
    cell.stuck += len(state.unexplained_at(node, model.model)) if state.health.unexplained else 0
    return cell


def fit_surplus(work: Work, node: str) -> None:
    """Raise the size of a request to the number of resources that the operator has made for it. Else it would take off those
    beyond the size, in use or not, as soon as the size changes."""
    state = work.state
    for uid in () if state.process.stale else sorted(state.fleet.requests_at[node]):
        own = state.fleet.requests.rows[uid]
        model = state.settings.model(own.model)
        if model is None or own.size >= len(own.planned or ()):
            continue
        cell, made = cell_of(state, node, model), sum(one.name in (own.planned or ()) for one in staying_of(state, own))
        done = own.done and own.size == cell.size
        if done and cell.own is not None and cell.own.uid == uid and made > own.size:
            cell.size = made
            ask(work, cell, SURPLUS)


def order(work: Work, node: str, assignments: list[Assignment]) -> None:
    """Raise the requests of the node for claims that nothing covers yet, oldest first; for a whole claim, or not at all. What was
    for one that fails is for the next: `assignments` are made anew then."""
    state = work.state
    cells: dict[str, CellRequests] = {}
    blocked, seen = set[str](), set[str]()
    while (assignment := next((one for one in assignments if one.claim.uid not in seen), None)) is not None:
        seen.add(assignment.claim.uid)
        models = {m.model: m for m in state.inventory.wanted_models(assignment.claim.allocation)}
        for name in models:
            if name not in cells:
                cells[name] = cell_of(state, node, models[name])
        if assignment.missing:
            _grant(work, node, assignment, assignments, cells, blocked)
            if assignment.claim.uid in state.failing.failures and (assignment.ordered or assignment.resources):
                assignments[:] = assign(state, node)
    for cell in cells.values():
        if cell.granted:
            ask(work, cell, "demand", tuple(dict.fromkeys(cell.granted)))


def tell_refused(work: Work, uid: str, assignment: Assignment, node: str) -> None:
    """Alert in the API server's words that an order for the claim is not taken."""
    for name in dict.fromkeys(assignment.missing):
        text = refused_order(work.state, node, name)
        if text:
            claim = f"{assignment.claim.namespace}/{assignment.claim.name}"
            work.alert(uid, ORDER_REFUSED, f"{claim} waits for {name} on {node}, which may not be ordered: {text}")


def withdraw(work: Work, node: str, assignments: list[Assignment]) -> None:
    """Take back what was ordered, is not written yet, and no claim waits for any more: the newer order replaces the older. If the
    older was written at this very moment, its device comes and idles."""
    state = work.state
    for name, model in sorted(state.settings.models.items()):
        order = state.fleet.orders.get((node, name))
        if order is None or not order.more:
            continue
        cell = cell_of(state, node, model)
        spare = ordered_not_made(state, node, model) - sum(one.ordered.count(name) for one in assignments)
        kept = limits_of(state, node, name)[0] - cell.others if state.policy.prewarm else 0
        size = max(cell.size - spare, cell.own.size if cell.own is not None else 0, kept)
        if size < cell.size:
            cell.size = size
            ask(work, cell, WITHDRAWN)


def _grant(
    work: Work,
    node: str,
    assignment: Assignment,
    assignments: Iterable[Assignment],
    cells: dict[str, CellRequests],
    blocked: set[str],
) -> None:
    state, claim = work.state, assignment.claim
    life = state.lifecycle.lives.rows[claim.uid]
    place = state.fleet.node(node)
    pods = state.demand.pods_of(claim)
    waiting = [pod for pod in pods if not pod.node]
    if place is not None and fail_unschedulable(work, [claim], waiting, place):
        return
    never = never_together(state, claim)
    if never:
        fail(work, claim, life, "Coexistence", never, anywhere=True)
        return
    if verdict_stands(state, claim, life):
        fail(work, claim, life, UNSUITABLE, life.verdict[1], anywhere=True)
        return
    needed = {name: assignment.missing.count(name) for name in dict.fromkeys(assignment.missing)}
    granted = {name for name, cell in cells.items() if cell.granted}
    for name in needed:
        tainted = tainted_there(state, node, claim, cells[name].model)
        if tainted:  # a matter of the node, for all claims
            fail(work, claim, life, UNSUITABLE, tainted, model=name)
            return
        otherwise = known_otherwise(state, node, claim, cells[name].model)
        if otherwise:
            why = f"no {name} that comes would do: {otherwise}"
            fail(work, claim, life, UNSUITABLE, why, anywhere=True, basis=basis_of(state, claim))
            return
        unsuitable = arrived_unsuitable(state, node, claim, cells[name].model)
        if unsuitable is not None:
            device, why, lasts = unsuitable
            basis = basis_of(state, claim) if lasts else ""
            fail(work, claim, life, UNSUITABLE, why, anywhere=True, device=device, basis=basis)
            return
        if unjudged(state, node, claim, cells[name].model):
            blocked.update(needed)
            return
        top = limits_of(state, node, name)[1]
        alone, together = _on_one_node(state, claim, name, assignments)
        needs = needed[name] if together <= top else together
        whose = " with the other claims of its pod" if alone <= top else ""
        refusal = _refusal(state, node, claim, cells[name], needs, granted, whose)
        if refusal is not None:
            full = refusal[0] == NODE_LIMIT
            nowhere = full and _fits_nowhere(state, name, together)
            blamed = "" if nowhere else name
            fail(work, claim, life, *refusal, blamed, anywhere=nowhere, needs=needs if full else 0)
            return
    if any(conflicting_model(state, node, cells[name].model, claim) for name in needed):
        blocked.update(needed)
        return
    if _has_what_leaves(state, claim) or without_class(state, claim):  # it cannot be served as it is
        return
    placed = placed_in_vain(state, claim) if len(waiting) < len(pods) else ""
    if placed:
        work.alert(claim.uid, PLACED, placed)
        return
    if blocked & needed.keys() or place is None or (not waiting and place.unschedulable):
        blocked.update(needed)
        return
    if not all(_there_is(state, node, cells[name], count) for name, count in needed.items()):
        blocked.update(needed)
        return
    for name, count in needed.items():
        cells[name].size += count
        cells[name].granted += [claim.uid] * count


def _on_one_node(state: State, claim: Claim, model: str, assignments: Iterable[Assignment]) -> tuple[int, int]:
    """How many devices of the model the claim needs on its node, those included that it has or awaits there: alone, and together
    with the other claims of a pod. Devices that are fixed in the node do not count, as in its limit."""
    assigned = {one.claim.uid: one for one in assignments}
    node = state.demand.node_of(claim)
    groups = ([claim], *map(state.demand.claims_of, state.demand.pods_of(claim)))
    alone, *others = [
        sum(_units(state, one, model, assigned.get(one.uid)) for one in group if state.demand.node_of(one) == node)
        for group in groups
    ]
    return alone, max((alone, *others))


def _units(state: State, claim: Claim, model: str, assignment: Assignment | None) -> int:
    """How many devices of the model a claim needs on its node by its allocation."""
    allocation = claim.allocation
    has = [state.resource_of(one.key) for one in state.inventory.local_results(allocation) if not one.admin]
    there = {one.uid for one in has if one is not None and one.model == model}
    if assignment is None:
        waits = {one.key for _, one, named in state.inventory.pool_results(allocation) if named.model == model}
        return len(there) + len(waits)
    rows = state.fleet.resources.rows
    there |= {uid for uid in assignment.resources if rows[uid].model == model}
    return len(there) + assignment.ordered.count(model) + assignment.missing.count(model)


def _fits_nowhere(state: State, model: str, count: int) -> bool:
    """Whether so many of the model on one node are more than any node may have, though nodes may have some: cool-downs would only
    keep others out."""
    tops = [limits_of(state, node, model)[1] for node in state.fleet.node_names()]
    return 0 < max(tops, default=0) < count


def end_cool_downs(work: Work, node: str) -> None:
    """End cool-downs whose time is over, those of a node that took no pods when it takes them again, and those of a full node
    when it has room for what was refused."""
    state, place = work.state, work.state.fleet.node(node)
    open_again = place is not None and place.takes(())
    for cell in sorted(state.failing.cooling_at[node]):
        row, model = state.failing.cooling.rows[cell], state.settings.model(cell[1])
        filled = cell_of(state, node, model).filled if row.needs and model is not None else None
        room = filled is not None and filled + row.needs <= limits_of(state, *cell)[1]
        if work.has_come(row.until) or room or (open_again and row.reason == UNSCHEDULABLE):
            work.emit_once(CoolDownOver(node=cell[0], model=cell[1], mode=state.mode), "/".join(cell))


def _has_what_leaves(state: State, claim: Claim) -> bool:
    """Whether a device that the claim already has on the node is leaving. The fabric could attach this very device to the node
    again, and the operator would detach it once more."""
    has = (
        state.resource_of(result.key) for result in state.inventory.local_results(claim.allocation) if not result.admin
    )
    return any(one is not None and one.leaving for one in has)


def _refusal(
    state: State, node: str, claim: Claim, cell: CellRequests, count: int, granted: set[str], whose: str
) -> tuple[str, str] | None:
    """(reason, message) why this node cannot give the claim its devices as things are, None when it can. `granted`: the models
    that older claims are getting in this step; `whose`: as for `limit_words`."""
    if cell.own is None and cell.foreign is not None:
        return (
            "RequestOwnedByOther",
            f"ComposabilityRequest {cell.foreign.name} holds {cell.model.model} on {node} and is not ours",
        )
    rival = conflicting_model(state, node, cell.model, claim, leaving=False)
    rival = rival or min(granted & state.settings.rivals.get(cell.model.model, frozenset()), default="")
    if rival:
        return "Coexistence", rival_words(cell.model.model, node, rival)
    top = limits_of(state, node, cell.model.model)[1]
    if cell.filled + count > top:
        return NODE_LIMIT, limit_words(cell.model.model, node, top, cell.filled, count, whose)
    return None


def rival_words(model: str, node: str, rival: str) -> str:
    return f"{model} may not share {node} with {rival}"


def limit_words(model: str, node: str, top: int, filled: int, count: int, whose: str = "") -> str:
    """What stands against `count` devices more: what the node has, unless it may never have so many. `whose`: who asks for them
    besides the claim."""
    if count > top:
        return f"{ASKS_FOR} {count} of {model}{whose}, and {node} may have {top}"
    room = f": no room for {count}" if filled < top else ""
    return f"{node} may have {top} of {model} and has or awaits {filled}{room}"


def never_together(state: State, claim: Claim) -> str:
    """Words on two models that may not share a node and that the claim, or its pod with its other claims, both needs; "" if there
    are none. A request that is not allocated yet counts too: whatever it gets will be a rival. A request that has its device on
    the node needs none of a pool."""
    if not any(state.settings.rivals.get(model.model) for model in state.inventory.wanted_models(claim.allocation)):
        return ""
    together = {one.uid: one for pod in state.demand.pods_of(claim) for one in state.demand.claims_of(pod)} | {
        claim.uid: claim
    }
    asked = [
        (one, request) for one in together.values() for request in one.requests if not _is_there(state, one, request)
    ]
    if len(asked) < 2:
        return ""
    return apart_words(state.settings.rivals, (models_for(state, one, request) for one, request in asked))


def apart_words(rivals: Mapping[str, Collection[str]], ways: Iterable[Collection[str]]) -> str:
    """Words on two requests whose models may not share a node, whichever serve them; "" if there are none. `ways`: the models
    that serve each request, those without any left out."""
    for first, second in combinations(filter(None, ways), 2):
        if all(other in rivals.get(model, ()) for model in first for other in second):
            one, other = sorted((min(first), min(second)))
            return f"{one} and {other} may not share a node, and {WANTS_BOTH}"
    return ""


def _is_there(state: State, claim: Claim, request: ClaimRequest) -> bool:
    """Whether all that the claim was allocated for the request is on a node."""
    results = claim.allocation.results if claim.allocation is not None else ()
    named = [one for one in results if one.request.partition("/")[0] == request.name]
    return bool(named) and all(state.inventory.model_of_pool((one.driver, one.pool)) is None for one in named)


def conflicting_model(
    state: State, node: str, model: Model, claim: Claim | None = None, *, leaving: bool = True
) -> str:
    """A model on the node, or ordered for it, that may not share it with `model`; "" if none. The claim's own other models count
    too, and devices that are being detached only with `leaving`."""
    rivals = state.settings.rivals.get(model.model)
    if not rivals:
        return ""
    there = installed_models(state, node, leaving=leaving)
    if claim is not None:
        there |= {m.model for m in state.inventory.wanted_models(claim.allocation)}
    return min(there & rivals, default="")


def installed_models(state: State, node: str, *, leaving: bool = True) -> set[str]:
    """Models with a device on the node, or a request for one."""
    there = [r for uid in state.fleet.resources_at[node] if not state.has_left(r := state.fleet.resources.rows[uid])]
    models = {r.model for r in there if leaving or not r.leaving} | _fixed_models(state, node)
    requests = (state.fleet.requests.rows[uid] for uid in state.fleet.requests_at[node])
    models |= {request.model for request in requests if request.size > 0}
    return models | {
        name for name in state.settings.models if (row := state.fleet.orders.get((node, name))) and row.size > 0
    }


def _fixed_models(state: State, node: str) -> set[str]:
    """Models of devices that the node lists and that no ComposableResource of the node names: built in, or lost by the
    operator."""
    found = set()
    for key in state.inventory.pools_at[node]:
        for name, device in state.inventory.pools[key].devices.items():
            full = (*key, name)
            gone = any((DEPARTED, uuid) in state.notes.fired_deadlines for uuid in state.inventory.face(full).uuids)
            resource = state.resource_of(full)
            if not gone and (resource is None or resource.node != node):
                model = model_of_device(state.settings.config, key[0], device)
                found |= {model.model} if model is not None else set()
    return found


def _there_is(state: State, node: str, cell: CellRequests, count: int) -> bool:
    """Whether the operator can take an order now, and the pools show enough free devices; an incomplete pool is waited for. Of a
    model without any pool, only so many are ordered as the fabric can attach in time."""
    if cell.leaving is not None if cell.own is None else _counts_what_goes(state, cell.own):
        return False
    if is_making(state, cell) or _falls_first(state, cell):
        return False
    if _is_being_taken_off(state, node, cell.model):
        return False
    shown = published_free(state, node, cell.model)
    if shown is None:
        known = state.inventory.pools_of_model[cell.model.model]
        return not known and state.fleet.units_coming + len(cell.granted) < in_flight_cap(state)
    return shown >= count + still_shown(state, node, cell)


def going_first(state: State, claim: Claim, cell: CellRequests) -> str:
    """What has to be gone before the cell's request may grow for the claim, in words; "" if nothing has."""
    node, model, own = cell.node, cell.model.model, cell.own
    if own is None and cell.leaving is not None:
        return f"request {cell.leaving.name} is being deleted"
    if own is not None and _counts_what_goes(state, own):
        return f"a device of {own.name} is being deleted that the operator still counts"
    if _falls_first(state, cell):
        return f"the operator has still to see that {own.name if own is not None else model} asks for fewer"
    if _is_being_taken_off(state, node, cell.model):
        return f"a device of {model} is being detached from {node}"
    rival = conflicting_model(state, node, cell.model, claim)
    if rival and not conflicting_model(state, node, cell.model, claim, leaving=False):
        return f"{rival_words(model, node, rival)}, which is being detached"
    return "a device that it has is leaving" if _has_what_leaves(state, claim) else ""


def is_making(state: State, cell: CellRequests) -> bool:
    """Whether the operator has still to make resources for the size that was ordered last. If the size changes after it has named
    the resources (status.resources) and before it has made them, it makes those of both sizes."""
    order, own = state.fleet.orders.get((cell.node, cell.model.model)), cell.own
    if order is not None and order.more:
        return True
    if own is None or own.error or own.done:
        return False
    return len(staying_of(state, own)) < own.size


def _falls_first(state: State, cell: CellRequests) -> bool:
    """Whether a size that the operator made nothing for is just being lowered. Raised before the operator has seen that, it would
    be the size for which it made nothing."""
    own = cell.own
    return own is not None and state.is_unmade(own) and (cell.size < own.size or not own.done)


def _counts_what_goes(state: State, own: AttachRequest) -> bool:
    """Whether a resource is being deleted that the operator still counts by its state. The operator would not replace it for a
    size that is raised now, nor once it is gone: only another size makes it look again."""
    owned = (state.fleet.resources.rows[uid] for uid in state.fleet.resources_of_request[own.name])
    return any(one.deleting and one.state not in GOING for one in owned)


def _is_being_taken_off(state: State, node: str, model: Model) -> bool:
    """Whether a device of the model is being detached from the node. The fabric may already have it back and attach it to the
    same node again. But the operator waits until no slice shows the device and then asks the fabric where it is: it would detach
    it once more, and the new resource would be attaching for ever. A device whose detach fails while the node lists it, or takes
    very long, is not waited for."""
    rows = state.fleet.resources.rows
    here = [rows[uid] for uid in state.fleet.resources_at[node] if rows[uid].model == model.model and rows[uid].uuid]
    return any(one.uid not in state.health.late and _goes(state, one) for one in here)


def _goes(state: State, resource: FabricResource) -> bool:
    return is_given_up(state, resource) or (resource.state == RESOURCE_DETACHING and not _is_stuck(state, resource))


def _is_stuck(state: State, resource: FabricResource) -> bool:
    """Whether the detach of a resource that is Detaching fails, or hangs, while its node still lists it."""
    passed = state.notes.fired_deadlines.get((DeadlineKind.PROGRESS, resource.uid))
    hangs = passed is not None and passed == progress_due(state, resource.uid)
    return bool((resource.error or hangs) and state.names_of(resource))


def still_shown(state: State, node: str, cell: CellRequests) -> int:
    """Devices that the pools may still show but that are taken: ordered on this node, or on others that reach the same pools, and
    not attached yet (pools are published some seconds after an attach has begun). To order more than there is would not only be
    in vain (B22): the operator tries for ever, and meanwhile no device of that request can be detached."""
    there = sum(bool(r.uuid) for r in staying_of(state, cell.own)) if cell.own else 0
    mine = set(pools_for(state, node, cell.model))
    coming = _spoken_for(state).items()
    everywhere = sum(
        units for (model, pools), units in coming if model == cell.model.model and not mine.isdisjoint(pools)
    )
    return max(0, cell.size - there) + everywhere - state.fleet.coming.get((node, cell.model.model), 0)


def _spoken_for(state: State) -> Counter[tuple[str, tuple[PoolKey, ...]]]:
    """How many devices are ordered and not attached yet, by model and by the pools that their nodes reach."""
    if state.fleet.spoken_for is None:
        found: Counter[tuple[str, tuple[PoolKey, ...]]] = Counter()
        for (node, name), units in state.fleet.coming.items():
            model = state.settings.model(name)
            if model is not None:
                found[name, pools_for(state, node, model)] += units
        state.fleet.spoken_for = found
    return state.fleet.spoken_for


def who_waited_for(state: State, freed: set[Cell]) -> set[str]:
    """The nodes whose waiting claims may be served now that fewer devices are on their way for these cells: devices in the same
    pools are no longer taken, or the fabric has room."""
    models = {name: model for _, name in freed if (model := state.settings.model(name)) is not None}
    pools = {(name, key) for node, name in freed if name in models for key in pools_for(state, node, models[name])}
    blind = [model for model in state.settings.config.models if not state.inventory.pools_of_model[model.model]]
    return {
        node
        for node in state.lifecycle.pending_at
        if blind or any((name, key) in pools for name, model in models.items() for key in pools_for(state, node, model))
    }


def published_free(state: State, node: str, model: Model) -> int | None:
    """The free devices of the model in the pools that the node reaches, without tainted ones; None without a complete pool."""
    whole = pools_for(state, node, model)
    return sum(state.inventory.pools[key].free for key in whole) if whole else None


def pools_for(state: State, node: str, model: Model) -> tuple[PoolKey, ...]:
    """The complete pools of the model that the node reaches, as if no cool-down kept them from it."""
    cell = (node, model.model)
    known = state.fleet.reach.get(cell)
    if known is None:
        known = state.fleet.reach[cell] = _reached(state, node, model)
    return known


def _reached(state: State, node: str, model: Model) -> tuple[PoolKey, ...]:
    place = state.fleet.node(node)
    if place is None:
        return ()
    labels = {**place.labels, f"{state.settings.config.prefix}/{model.device}": "true"}
    pools = ((key, state.inventory.pools[key]) for key in sorted(state.inventory.pools_of_model[model.model]))
    return tuple(
        key
        for key, pool in pools
        if pool.usable and (not pool.selector or node_matches(NodeSelector.of(pool.selector), node, labels))
    )


def ask(work: Work, cell: CellRequests, reason: str, claims: tuple[str, ...] = ()) -> None:
    state = work.state
    own = cell.own
    name = own.name if own is not None else request_name(cell.node, cell.type, cell.model.model)
    work.emit_once(
        AttachOrdered(
            node=cell.node,
            model=cell.model.model,
            mode=state.mode,
            request=name,
            type=cell.type,
            size=cell.size,
            previous=own.size if own is not None else None,
            uid=own.uid if own is not None else "",
            claims=claims,
            reason=reason,
            force_detach=own is None and state.policy.driver_of(cell.model.driver).force_detach,
        ),
        name,
    )


def prewarms(state: State) -> bool:
    return state.policy.prewarm


def prewarm(work: Work, node: str, assignments: list[Assignment]) -> None:
    """Order ahead of demand, one device at a time, up to the minimum of each cell. Not where another's request is in the way, nor
    for a model that claims wait for."""
    state = work.state
    place = state.fleet.node(node)
    if place is None or not place.takes(()):
        return
    wanted = {model.model for one in assignments for model in state.inventory.wanted_models(one.claim.allocation)}
    for model in state.settings.config.models:
        if model.model in wanted:
            continue
        if (
            work.at
            < (state.notes.fired_deadlines.get((DeadlineKind.PREWARM, "")) or -PREWARM_INTERVAL) + PREWARM_INTERVAL
        ):
            return
        low, top = limits_of(state, node, model.model)
        cell = cell_of(state, node, model)
        short = cell.foreign is None and cell.size + cell.others < low and cell.filled < top
        possible = pools_for(state, node, model) and not conflicting_model(state, node, model)
        if short and possible and _there_is(state, node, cell, 1):
            cell.size += 1
            ask(work, cell, "prewarm")
