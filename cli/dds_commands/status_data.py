"""A scaler's status as plain data, computed from its state and its log's head alone, without a clock or a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from dds_adapters.plugins import component_of
from dds_commands.state import claim_rows, device_rows
from dds_core.events.shared import Alerted
from dds_core.lifecycle import ATTACHED, CLAIM_STATES, DEVICE_STATES, WAITING
from dds_core.log import Head
from dds_core.model import Claim, FabricResource, Model, Observed
from dds_core.scaler.events import AttachOrdered
from dds_core.scaler.model import ClaimLife, Fence
from dds_core.scaler.operator import TWO_CHECKS
from dds_core.scaler.rules.assignment import Assignment, assign, undecided_because, unseen_because
from dds_core.scaler.rules.devices import looked_at
from dds_core.scaler.rules.handover import group_of
from dds_core.scaler.rules.nudges import nudge_due
from dds_core.scaler.rules.orders import (
    cell_of,
    conflicting_model,
    in_flight_cap,
    is_making,
    published_free,
    request_name,
)
from dds_core.scaler.rules.suiting import unjudged
from dds_core.scaler.state import State
from dds_core.timeline.clock import rfc3339


class WaitingRow(NamedTuple):
    """A claim that is allocated and not in use yet; `since` is the start of its attempt in microseconds."""

    claim: str
    uid: str
    state: str
    since: int
    node: str
    models: tuple[str, ...]
    why: str


def waiting_rows(state: State) -> list[WaitingRow]:
    """Every waiting claim with a sentence that says what it waits for, longest wait first. The reasons come from the same
    functions that the rules use."""
    assignments = {one.claim.uid: one for node in sorted(_nodes(state)) for one in assign(state, node)}
    rows = []
    for uid, life in state.lives.rows.items():
        if life.state in WAITING:
            models = tuple(dict.fromkeys(model.model for _, _, model in state.pool_results(life.allocation)))
            name = f"{life.namespace}/{life.name}"
            why = _why(state, life, uid, assignments.get(uid))
            rows.append(WaitingRow(name, uid, life.state, life.began, life.node, models, why))
    return sorted(rows, key=lambda row: (row.since, row.claim, row.uid))


def _nodes(state: State) -> set[str]:
    return {life.node for life in state.lives.rows.values() if life.node and life.state in WAITING}


def _why(state: State, life: ClaimLife, uid: str, assignment: Assignment | None) -> str:
    failure = state.failures.get(uid)
    if failure is not None:
        told = "the scheduler is told" if failure.signalled else "the scheduler is told when the cool-down stands"
        return f"failed: {failure.reason}: {failure.message}; {told}"
    if life.state == ATTACHED:
        return _why_not_bound(state, life, uid)
    claim = state.claims.get(uid)
    if claim is None or claim.allocation is None:
        return "its allocation was cleared, the scheduler chooses anew"
    if assignment is None:
        return "no device of a known model is asked for"
    return "; ".join(dict.fromkeys(_steps(state, assignment, life.node))) or "its devices are there"


def _why_not_bound(state: State, life: ClaimLife, uid: str) -> str:
    row = state.hand_overs.get(uid)
    if row is not None:
        steered = ", nominated and cleared" if row.steered else ""
        return f"handed over to the scheduler for {row.node} ({row.steering}{steered})"
    exchange, claim = state.exchanges.get(uid), state.claims.get(uid)
    if exchange is not None:
        return f"its devices are there, they are put into its allocation for {exchange.node} (exchange)"
    if claim is not None and state.waits_for_devices(claim):
        why = group_of(state, claim)
        return f"its devices are there, {why if isinstance(why, str) else 'its hand-over is about to begin'}"
    return "its devices are there, its pod is not bound yet"


def _steps(state: State, assignment: Assignment, node: str) -> Iterator[str]:
    """What the claim still needs before it has its devices, the worst first."""
    if assignment.undecided:
        yield undecided_because(assignment, node)
    if assignment.unseen:
        yield unseen_because(assignment, node)
    for _, uid in assignment.erring:
        resource = state.resources.rows[uid]
        yield f"{resource.name}: {resource.error}"
    for name in dict.fromkeys(assignment.missing):
        yield _why_not_ordered(state, assignment.claim, node, state.models[name])
    for name in dict.fromkeys(assignment.ordered):
        yield _why_not_made(state, node, name)
    for _, uid in assignment.attaching:
        yield _on_its_way(state, state.resources.rows[uid])
    if assignment.sharing:
        yield "shares a device that is not ordered yet"


def _on_its_way(state: State, resource: FabricResource) -> str:
    """What a device that is being attached waits for."""
    says = f"{resource.name} is {resource.state or 'new'}"
    if resource.error:
        sick = state.sick.get(resource.uid)
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
    for uid in sorted(state.requests_at[node]):
        request = state.requests.rows[uid]
        if request.model == model:
            return f"{request.name} is {request.state or 'new'}" + (f": {request.error}" if request.error else "")
    return f"{model} is ordered"


def _why_not_ordered(state: State, claim: Claim, node: str, model: Model) -> str:
    return next(_obstacles(state, claim, node, model), f"{model.model} is about to be ordered")


def _obstacles(state: State, claim: Claim, node: str, model: Model) -> Iterator[str]:
    name = model.model
    place = state.node(node)
    if not state.synced or state.stale:
        yield "the view of the cluster is not complete"
    if place is None:
        yield f"node {node} is not known"
        return
    yield from unjudged(state, node, claim, model).values()
    if not all(place.takes(pod.tolerations) for pod in state.pods_of(claim) if not pod.node):
        yield f"{node} is cordoned, tainted or being deleted"
    cooling = state.cooling.get((node, name))
    if cooling is not None:
        yield f"{name} cools down on {node} until {rfc3339(cooling.until)} after {cooling.reason}"
    fabric = state.fabric_of.get(node, "")
    if state.fails(fabric, name):
        yield f"{name} cools down in fabric {fabric}, which brought none to {len(state.fabric_failed[fabric, name])} nodes"
    rival = conflicting_model(state, node, model, claim)
    if rival:
        yield f"{name} may not share {node} with {rival}"
    refusal = state.refusals.get((AttachOrdered.__name__, _request(state, node, model)))
    if refusal is not None:
        words = f": {refusal.text}" if refusal.text else ""
        yield f"the order was refused {refusal.count} times, tried again at {rfc3339(refusal.until)}{words}"
    if is_making(state, cell_of(state, node, model)):
        yield f"the operator has still to make what was ordered for {name} on {node} before"
    free = published_free(state, node, model)
    if free is None:
        yield f"no whole pool of {name} reaches {node}"
        if not state.pools_of_model[name] and state.units_coming >= (cap := in_flight_cap(state)):
            yield f"{state.units_coming} attaches are under way, the most without a pool are {cap}"
    elif free == 0:
        yield f"the pool has no {name} left"
    if not state.live:
        yield f"mode observe: dds orders no {name}"


def _request(state: State, node: str, model: Model) -> str:
    cell = cell_of(state, node, model)
    return cell.own.name if cell.own is not None else request_name(node, cell.type, model.model)


# -- the whole status ----------------------------------------------------------------------------------------------------

_alert = msgspec.json.Decoder(Alerted)


INSTANTS = frozenset({"recorded_at", "at", "epoch_at", "synced_at", "since", "until", "again_at", "listed_at"})
"""Keys whose values are instants: microseconds since 1970-01-01 UTC, 0 for never."""


def status_data(head: Head, state: State, most: int) -> dict[str, Any]:
    """The whole status. Of the waiting claims it has the number and the `most` longest waits."""
    waiting = waiting_rows(state)
    return {
        **log_data(head, state.now),
        "mode": {"effective": state.mode, "policy": state.policy.mode, "config": state.config.mode or None},
        "hand_over": state.policy.hand_over,
        "config_seen": bool(state.config.uid),
        "models": [model.model for model in state.config.models],
        "synced": state.synced,
        "synced_at": state.synced_at,
        "stale": sorted(state.stale),
        "claims": _counted(CLAIM_STATES, [row.state for row in claim_rows(state)]),
        "waiting_count": len(waiting),
        "waiting": [row._asdict() for row in waiting[:most]],
        "attaches_under_way": state.units_coming,
        "attaches_at_most": in_flight_cap(state),
        "orders": _orders(state),
        "hand_overs": _hand_overs(state),
        "devices": _devices(state),
        "fences": _fences(state),
        "cool_downs": _cool_downs(state),
        "refused": _refused(state),
        "alerts": _alerts(state),
        "rejected": _rejected(state),
    }


def log_data(head: Head, at: int) -> dict[str, Any]:
    """The log's component, its head and its writer; `at` is the instant of the newest fact."""
    return {
        "log": head.log,
        "component": component_of(head.log).name,
        "cluster": head.cluster,
        "position": head.position,
        "recorded_at": head.recorded_at,
        "at": at,
        "epoch": head.epoch,
        "epoch_at": head.epoch_at,
    }


def part_data(head: Head, state: Any, config: Any) -> dict[str, Any]:
    """The part that publisher and autoscaler have in common; `config` is the ConfigMap, None if it is missing."""
    return {
        **log_data(head, state.now),
        "mode": {
            "effective": state.mode,
            "policy": state.policy.mode,
            "config": (config.mode or None) if config is not None else None,
        },
        "config_seen": config is not None,
        "models": [model.model for model in config.models] if config is not None else [],
        "synced": state.synced,
        "synced_at": state.synced_at,
        "stale": sorted(state.stale),
    }


def trouble_data(state: Any, alerts: Iterable[Alerted], name: Callable[[str], str]) -> dict[str, Any]:
    """Refused writes, alerts and rejected fields; `name` gives the name for a uid or target."""
    refused = sorted(state.refusals.rows.items(), key=lambda item: (item[1].until, item[0]))
    return {
        "refused": [
            {"action": action, "of": name(target), "count": row.count, "again_at": row.until}
            for (action, target), row in refused
        ],
        "alerts": [{"of": name(one.of), "reason": one.reason, "text": one.text} for one in alerts],
        "rejected": [
            {"of": name(uid), "field": field, "reason": reason} for uid, field, reason in sorted(state.rejections.rows)
        ],
    }


def readable(data: Any) -> Any:
    """The same data with instants in RFC 3339, None for never."""
    if isinstance(data, dict):
        return {
            key: (rfc3339(value) if value else None) if key in INSTANTS else readable(value)
            for key, value in data.items()
        }
    return [readable(one) for one in data] if isinstance(data, list) else data


def name_of(state: State, uid: str) -> str:
    """The name of an object, with its namespace; the uid if the state does not have the object."""
    tables = (state.claims, state.pods, state.nodes, state.resources, state.requests, state.rules)
    for table in (*tables, state.slices, state.classes):
        row: Observed | None = table.get(uid)
        if row is not None:
            namespace = getattr(row, "namespace", "")
            return f"{namespace}/{getattr(row, 'name', uid)}" if namespace else getattr(row, "name", uid)
    life = state.lives.get(uid)
    if life is not None:
        return f"{life.namespace}/{life.name}"
    return "the ConfigMap" if uid in state.configs else uid


def _counted(states: tuple[str, ...], found: list[str]) -> dict[str, int]:
    """Numbers by state, in the order of `states`, without zeros."""
    number = Counter(found)
    return {state: number[state] for state in states if number[state]}


def _orders(state: State) -> list[dict[str, Any]]:
    """Orders that the requests do not show yet."""
    return [
        {"node": node, "model": model, "request": row.request, "size": row.size, "since": row.since}
        for (node, model), row in sorted(state.orders.rows.items(), key=lambda item: (item[1].since, item[0]))
    ]


def _hand_overs(state: State) -> list[dict[str, Any]]:
    return [
        {
            "claim": name_of(state, uid),
            "uid": uid,
            "pod": name_of(state, row.pod) if row.pod else None,
            "node": row.node,
            "steering": row.steering,
            "steered": row.steered,
            "since": row.since,
        }
        for uid, row in sorted(state.hand_overs.rows.items(), key=lambda item: (item[1].since, item[0]))
    ]


def _devices(state: State) -> list[dict[str, Any]]:
    """For each model the number of devices by state, and the number that the pools list as free."""
    rows = device_rows(state)
    names = sorted({*state.models, *(row.model for row in rows)})
    nodes = {node for node, _ in state.unexplained.rows.values()}
    return [
        {
            "model": name,
            "states": _counted(DEVICE_STATES, [row.state for row in rows if row.model == name]),
            "free": sum(state.pools[key].free for key in state.pools_of_model[name]),
            "unexplained": sum(len(state.unexplained_at(node, name)) for node in nodes),
        }
        for name in names
    ]


def _fences(state: State) -> list[dict[str, Any]]:
    found = []
    for uid, fence in sorted(state.fences.rows.items(), key=lambda item: (item[1].since, item[0])):
        resource = state.resources.get(uid)
        found.append(
            {
                "device": (resource.uuid or resource.name) if resource is not None else uid,
                "node": resource.node if resource is not None else "",
                "model": resource.model if resource is not None else "",
                "stage": _stage(fence) + looked_at(state, uid),
                "since": fence.since,
            }
        )
    return found


def _stage(fence: Fence) -> str:
    if fence.ordered:
        return "detach ordered"
    if fence.confirmed:
        return "confirmed"
    return "waits for the list of claims" if fence.wanted else "settles"


def _cool_downs(state: State) -> list[dict[str, Any]]:
    return [
        {"node": node, "model": model, "until": row.until, "reason": row.reason}
        for (node, model), row in sorted(state.cooling.rows.items())
    ]


def _refused(state: State) -> list[dict[str, Any]]:
    return [
        {"action": action, "of": name_of(state, target), "count": row.count, "again_at": row.until}
        for (action, target), row in sorted(state.refusals.rows.items(), key=lambda item: (item[1].until, item[0]))
    ]


def alerts_of(shown: Mapping[tuple[str, str], bytes]) -> list[Alerted]:
    """The alerts among the decisions that a state has emitted last."""
    return [_alert.decode(data) for (kind, _), data in sorted(shown.items()) if kind == Alerted.__name__]


def _alerts(state: State) -> list[dict[str, Any]]:
    told = alerts_of(state.last_emitted.rows)
    return [{"of": name_of(state, one.of), "reason": one.reason, "text": one.text} for one in told]


def _rejected(state: State) -> list[dict[str, Any]]:
    return [
        {"of": name_of(state, uid), "field": field, "reason": reason}
        for uid, field, reason in sorted(state.rejections.rows)
    ]
