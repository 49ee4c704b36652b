"""What wakes what: which claims, devices and nodes the rules look at again when a row of a table changes.

`WAKES` is the one table of it. The indexes are up to date when it is read (hooks of `dds_core.scaler.rooms` keep them, and what
a change amounts to: `regathered`, `fewer_coming`, `fabric_turned`). A pass over everything after any group finds nothing that
these rows have not woken (`tests/support/passes.py`).

Where no change of a table says the same, the fold of a fact wakes:

- everything: a start, a policy, a ConfigMap, another answer about guards, a learned timeout, a level pass;
- the nodes where somebody waits: another release of the API server;
- what a deadline is for, when it passes;
- what a write was about that failed, or that succeeded after a refusal;
- a device whose mark or unmarking was decided, or whose list has come;
- other devices, of the node, the fabric or the fleet: the operator's looks, the driver's lists, another idle time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from dds_core.lifecycle import WAITING
from dds_core.model import (
    AttachRequest,
    Claim,
    DeviceKey,
    FabricResource,
    Node,
    Pod,
    TaintRule,
)
from dds_core.scaler.model import (
    DEPARTED,
    Cell,
    DeviceLife,
    Exchange,
    Failure,
    Guarded,
    Look,
    Reservation,
)
from dds_core.scaler.rooms import Regathered, Rooms, shape_of

Select = Callable[[Rooms, Any, Any, Any], Iterable[Any]]
"""Of the state, a row's key, the row before and the row now (None where there is none): who is woken."""


class Wake(NamedTuple):
    """A change of the table wakes these claims (uids), devices (uids) and nodes (names); with `their_nodes`, also those of the
    claims. `freed`: cells for which fewer devices are on their way; who waited for that is found when all else is settled."""

    table: str
    why: str
    claims: Select | None = None
    devices: Select | None = None
    nodes: Select | None = None
    freed: Select | None = None
    their_nodes: bool = False


# -- selectors ---------------------------------------------------------------------------------------------------------


def itself(state: Rooms, key: str, old: Any, new: Any) -> Iterable[str]:
    return (key,)


def its_nodes(state: Rooms, key: Any, old: Any, new: Any) -> Iterable[str]:
    """The nodes of the row before and now."""
    return {row.node for row in (old, new) if row is not None and row.node}


def its_nodes_or_none(state: Rooms, key: Any, old: Any, new: Any) -> Iterable[str]:
    """Also "": a claim without a node can only fail, and that is told there."""
    return {row.node for row in (old, new) if row is not None}


def its_claims(
    state: Rooms, key: Any, old: Reservation | Guarded | None, new: Reservation | Guarded | None
) -> Iterable[str]:
    return {row.claim for row in (old, new) if row is not None}


def its_cell(state: Rooms, cell: Cell, old: Any, new: Any) -> Iterable[str]:
    return (cell[0],)


def its_resources_node(state: Rooms, uid: str, old: Any, new: Any) -> Iterable[str]:
    resource = state.fleet.resources.get(uid)
    return (resource.node,) if resource is not None else ()


def all_that_err(state: Rooms, key: Any, old: Any, new: Any) -> Iterable[str]:
    return state.health.erring.rows


def those_returning(state: Rooms, uid: str, old: DeviceLife | None, new: DeviceLife | None) -> Iterable[str]:
    return state.lifecycle.returning[uid]


def erring_beside(state: Rooms, uid: str, old: Look | None, new: Look | None) -> Iterable[str]:
    took = (old.took if old is not None else 0) != (new.took if new is not None else 0)
    return state.health.erring.rows if took else ()


def group_at_the_end(state: Rooms, claim: str, old: Exchange | None, new: Exchange | None) -> Iterable[str]:
    return (claim, *old.group) if old is not None and new is None else (claim,)


def given_and_taken(state: Rooms, claim: str, old: Exchange | None, new: Exchange | None) -> Iterable[str]:
    results = (one for row in (old, new) if row is not None for one in row.swap.results)
    return {uid for one in results for uid in state.lifecycle.taken_as[one.key]}


def unguarded_node(state: Rooms, key: DeviceKey, old: Guarded | None, new: Guarded | None) -> Iterable[str]:
    return (old.node,) if old is not None and new is None and old.node else ()


def idle_there(state: Rooms, claim: str, old: Failure | None, new: Failure | None) -> Iterable[str]:
    return {uid for row in (old, new) if row is not None for uid in state.lifecycle.idle_at[row.node]}


def nodes_of_its_fabric(state: Rooms, key: Any, old: Any, new: Any) -> Iterable[str]:
    return state.failing.fabric_turned


def where_fewer_come(state: Rooms, key: Any, old: Any, new: Any) -> Iterable[Cell]:
    return state.fleet.fewer_coming


def where_unexplained(
    state: Rooms, uuid: str, old: tuple[str, int] | None, new: tuple[str, int] | None
) -> Iterable[str]:
    return ((new or old or ("", 0))[0],)


def where_listed(state: Rooms, key: tuple[str, str], old: int | None, new: int | None) -> Iterable[str]:
    """The nodes that list a device which departed, or is named again."""
    return (
        {state.inventory.pools[one[:2]].node for one in state.inventory.keys_of[key[1]]} if key[0] == DEPARTED else ()
    )


# -- claims and pods


def _resulted(state: Rooms, old: Claim | None, new: Claim | None) -> Iterable[Claim]:
    """The claim before and now if what it is allocated has changed; holds apart."""
    stays = old is not None and new is not None and (old.allocation, old.hold) == (new.allocation, new.hold)
    return () if stays else (one for one in (old, new) if one is not None and one.allocation is not None)


def itself_and_who_has_what_it_holds(state: Rooms, uid: str, old: Claim | None, new: Claim | None) -> Iterable[str]:
    """The claim; of a hold, those that have its devices."""
    rows = (one for one in (old, new) if one is not None and one.hold and one.allocation is not None)
    found = {
        one
        for row in rows
        if row.allocation
        for result in row.allocation.results
        for one in state.demand.holders[result.key]
    }
    return {uid} | found


def allocated_devices(state: Rooms, uid: str, old: Claim | None, new: Claim | None) -> Iterable[str]:
    found: set[str] = set()
    for claim in _resulted(state, old, new):
        for result in claim.allocation.results if claim.allocation is not None and not claim.hold else ():
            found |= state.devices_named(result.key)
    return found


def allocated_nodes(state: Rooms, uid: str, old: Claim | None, new: Claim | None) -> Iterable[str]:
    """The nodes of the allocation before and now; and that of a device which is unexplained on another node."""
    found: set[str] = set()
    for claim in (one for one in (old, new) if one is not None):
        if claim.allocation is not None:
            found.add(claim.allocation.node or (state.demand.node_of(claim) if not claim.hold else ""))
    for claim in _resulted(state, old, new) if state.health.unexplained else ():
        results = claim.allocation.results if claim.allocation is not None and not claim.hold else ()
        rows = (state.health.unexplained.get(uuid) for one in results for uuid in state.inventory.face(one.key).uuids)
        found |= {row[0] for row in rows if row is not None}
    return found


def claims_of_pod(state: Rooms, uid: str, old: Pod | None, new: Pod | None) -> Iterable[str]:
    """The claims that the pod names before and now, and those that are reserved for it."""
    pods = [one for one in (old, new) if one is not None]
    names = ((pod.namespace, name) for pod in pods for name in (*pod.claims, pod.extended_claim) if name)
    named = (state.demand.claim_uid(*name) for name in names)
    return state.demand.claims_for[uid] | {claim for claim in named if claim is not None}


def nominated_nodes(state: Rooms, uid: str, old: Pod | None, new: Pod | None) -> Iterable[str]:
    return {one.nominated for one in (old, new) if one is not None and one.nominated}


# -- nodes, slices, rules, requests, resources


def its_name(state: Rooms, uid: str, old: Node | None, new: Node | None) -> Iterable[str]:
    return {one.name for one in (old, new) if one is not None}


def returning_there(state: Rooms, uid: str, old: Node | None, new: Node | None) -> Iterable[str]:
    names = its_name(state, uid, old, new)
    return {
        claim for name in names for one in state.fleet.resources_at[name] for claim in state.lifecycle.returning[one]
    }


def _waiting(state: Rooms, pool: Regathered) -> set[str]:
    """The waiting claims that a change of a pool concerns: those with a device of any pool of the model if more may be available;
    else those whose own device changed."""
    before, after = pool.before, pool.after
    if before is None or after is None or shape_of(before) != shape_of(after) or after.free > before.free:
        model = state.inventory.model_of_pool(pool.key)
        pools = {pool.key} | state.inventory.pools_of_model[model.model] if model is not None else {pool.key}
        found = {uid for key in pools for uid in state.demand.claims_in_pool[key]}
    else:
        names = before.devices.keys() | after.devices.keys()
        changed = (name for name in names if before.devices.get(name) is not after.devices.get(name))
        found = {uid for name in changed for uid in state.demand.holders[(*pool.key, name)]}
    return {uid for uid in found if (life := state.lifecycle.lives.get(uid)) is not None and life.state in WAITING}


def _changed_pools(state: Rooms) -> list[Regathered]:
    return [one for one in state.inventory.regathered if one.changed]


def waiting_for_pool(state: Rooms, uid: str, old: Any, new: Any) -> Iterable[str]:
    return {claim for pool in _changed_pools(state) for claim in _waiting(state, pool)}


def faces_changed(state: Rooms, uid: str, old: Any, new: Any) -> Iterable[str]:
    """The devices whose names have changed, and those that may have one of these names."""
    found: set[str] = set()
    for pool in _changed_pools(state):
        found.update(one for uuid in pool.uuids for one in state.fleet.resources_of_uuid[uuid])
        if pool.names_held:
            found |= state.lifecycle.taken_in[pool.key]
        if pool.others:
            found.update(state.forms_at(pool.key))
    return found


def nodes_of_pool(state: Rooms, uid: str, old: Any, new: Any) -> Iterable[str]:
    """The node that lists the pool, even if the pool is equal; those of the failed claims that wait until it is closed; and of
    the devices that leave, which have left where another node lists them."""
    found = {
        pool.node
        for one in state.inventory.regathered
        for pool in (one.before, one.after)
        if pool is not None and pool.node
    }
    for one in _changed_pools(state):
        found |= {
            state.failing.failures.rows[uid].node
            for uid in state.failing.failures.rows.keys() & state.demand.claims_in_pool[one.key]
        }
        named = (state.fleet.resources.rows[uid] for uuid in one.uuids for uid in state.fleet.resources_of_uuid[uuid])
        found |= {resource.node for resource in named if resource.leaving}
    return found


def where_somebody_waits(state: Rooms, uid: str, old: Any, new: Any) -> Iterable[str]:
    return state.lifecycle.waiting_at.keys() | state.demand.pods_nominated.keys()


def where_the_rule_is_for(state: Rooms, uid: str, old: TaintRule | None, new: TaintRule | None) -> Iterable[str]:
    found: set[str] = set()
    for rule in (one for one in (old, new) if one is not None):
        if not (rule.driver and rule.pool):
            found |= state.inventory.pools_at.keys()
        elif (pool := state.inventory.pools.get((rule.driver, rule.pool))) is not None and pool.node:
            found.add(pool.node)
    return found


def returning_of_request(state: Rooms, uid: str, old: AttachRequest | None, new: AttachRequest | None) -> Iterable[str]:
    returning, rows = state.lifecycle.returning, (one for one in (old, new) if one is not None)
    devices = (one for row in rows for one in returning.keys() & state.fleet.resources_of_request[row.name])
    return {claim for one in devices for claim in returning[one]}


def _counted_as(one: FabricResource | None) -> tuple[object, ...]:
    """Where a resource counts among those of its model."""
    return (one.node, one.model, one.deleting) if one is not None else ()


def returning_siblings(state: Rooms, uid: str, old: FabricResource | None, new: FabricResource | None) -> Iterable[str]:
    """Whether the policy keeps a device depends on how many of its model the node has."""
    returning, rows = state.lifecycle.returning, state.fleet.resources.rows
    if not returning or _counted_as(old) == _counted_as(new):
        return ()
    cells = {(one.node, one.model) for one in (old, new) if one is not None}
    there = ((model, one) for node, model in cells for one in returning.keys() & state.fleet.resources_at[node])
    return {claim for model, one in there if rows[one].model == model for claim in returning[one]}


# -- the table ---------------------------------------------------------------------------------------------------------

WAKES: tuple[Wake, ...] = (
    Wake(
        "claims",
        "Its allocation, its conditions or its pods.",
        itself_and_who_has_what_it_holds,
        allocated_devices,
        allocated_nodes,
    ),
    Wake("pods", "Who waits, where, and for which claims.", claims_of_pod, nodes=nominated_nodes, their_nodes=True),
    Wake("nodes", "Labels, taints, limits; whether it is there at all.", returning_there, nodes=its_name),
    Wake("nodes", "Its fabric begins or ceases to count as failing.", nodes=nodes_of_its_fabric),
    Wake(
        "slices",
        "What is free, and which names a device has.",
        waiting_for_pool,
        faces_changed,
        nodes_of_pool,
        their_nodes=True,
    ),
    Wake("classes", "Other devices may satisfy claims.", nodes=where_somebody_waits),
    Wake(
        "taint_rules",
        "Other devices may satisfy claims; a rule may also cover devices that are listed later.",
        nodes=where_somebody_waits,
    ),
    Wake("taint_rules", "The devices of its pool are tainted or not any more.", nodes=where_the_rule_is_for),
    Wake(
        "requests",
        "Sizes, and what the operator has done.",
        returning_of_request,
        nodes=its_nodes,
        freed=where_fewer_come,
    ),
    Wake(
        "resources", "The device itself, and all that is counted by it.", returning_siblings, itself, its_nodes_or_none
    ),
    Wake("resources", "Others waited for what was on its way.", freed=where_fewer_come),
    Wake("orders", "What is ordered, and how much is on its way.", nodes=its_cell, freed=where_fewer_come),
    Wake("lives", "A claim's own step.", itself, nodes=its_nodes),
    Wake(
        "devices",
        "A device's own step; the claims that wait for its return.",
        those_returning,
        itself,
        its_resources_node,
    ),
    Wake("reservations", "A device is kept for a claim, or is free.", its_claims, nodes=its_nodes_or_none),
    Wake(
        "exchanges",
        "Each stage wakes its claim; the end wakes all claims of its group.",
        group_at_the_end,
        given_and_taken,
        its_nodes_or_none,
    ),
    Wake("guarded", "Its claim; where a guard ends, a hold may begin.", its_claims, nodes=unguarded_node),
    Wake("failures", "The node cools down; what idles there may be wanted again.", None, idle_there, its_nodes_or_none),
    Wake("failures", "Whether an order that fails may be called off.", devices=all_that_err),
    Wake("rates", "Whether an order that fails may be called off.", devices=all_that_err),
    Wake("cooling", "The model is kept from the node, or not any more.", nodes=its_cell),
    Wake("cooling", "The fabric begins or ceases to count as failing.", nodes=nodes_of_its_fabric),
    Wake("holds", "A step of it.", devices=itself, nodes=its_nodes_or_none),
    Wake("fences", "A step of it.", devices=itself),
    Wake("unlisted", "Its driver lists it, or not.", devices=itself),
    Wake("sick", "Its error may be a verdict.", devices=itself, nodes=its_resources_node),
    Wake("looks", "When the operator looks at it again.", devices=itself),
    Wake("looks", "Each try waits for the others'.", devices=erring_beside),
    Wake("unexplained", "No claim may have it.", nodes=where_unexplained),
    Wake("fired_deadlines", "A departed device is fixed where it is listed, or not any more.", nodes=where_listed),
)


def watch(state: Rooms) -> None:
    """Let the tables of a state wake what `WAKES` says. Call it when all its indexes watch."""
    for name in dict.fromkeys(one.table for one in WAKES):
        _watch(state, name, [one for one in WAKES if one.table == name])


def _watch(state: Rooms, name: str, wakes: list[Wake]) -> None:
    claims = [(one.claims, one.their_nodes) for one in wakes if one.claims is not None]
    devices = [one.devices for one in wakes if one.devices is not None]
    nodes = [one.nodes for one in wakes if one.nodes is not None]
    freed = [one.freed for one in wakes if one.freed is not None]

    def changed(key: Any, old: Any, new: Any) -> None:
        if not state.noting:
            return
        dirty = state.dirty
        for select, their_nodes in claims:
            found = select(state, key, old, new)
            dirty.claims.update(found)
            for uid in found if their_nodes else ():
                dirty.nodes.update(state.nodes_of_claim(uid))
        for select in devices:
            dirty.devices.update(select(state, key, old, new))
        for select in nodes:
            dirty.nodes.update(select(state, key, old, new))
        for select in freed:
            dirty.freed.update(select(state, key, old, new))

    state.tables[name].watch(changed)
