"""A scaler's status as plain data, computed from its state and its log's head alone, without a clock or a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from dds_adapters.plugins import component_of
from dds_commands.claims_and_devices import READ_STATES, device_rows
from dds_core.events.shared import POLICY, Alerted
from dds_core.kit.deadlines import DeadlineKind
from dds_core.kit.state import Refusal
from dds_core.lifecycle import DEVICE_STATES
from dds_core.log import Head
from dds_core.scaler.ordering import in_flight_cap
from dds_core.scaler.state import State
from dds_core.scaler.unallocated import NAMED, UNALLOCATED, Unallocated, queues, unallocated
from dds_core.scaler.waiting import return_stage, waiting_rows

# -- the whole status ----------------------------------------------------------------------------------------------------

_alert = msgspec.json.Decoder(Alerted)


def status_data(head: Head, state: State, most: int) -> dict[str, Any]:
    """The whole status. Of the waiting claims it has the number and the `most` longest waits."""
    waiting, without = waiting_rows(state), unallocated(state)
    shown = {uid: life.state for uid, life in state.lifecycle.lives.rows.items()} | {
        one.uid: UNALLOCATED for one in without
    }
    return {
        **log_data(head, state.process.now),
        "mode": {"effective": state.mode, "policy": state.policy.mode, "config": state.settings.config.mode or None},
        "policy_fault": state.notes.policy_fault or None,
        "hand_over": state.policy.hand_over,
        "config_seen": bool(state.settings.config.uid),
        "models": [model.model for model in state.settings.config.models],
        "synced": state.process.synced,
        "synced_at": state.process.synced_at,
        "stale": sorted(state.process.stale),
        "unallocated": _unallocated(state, without),
        "claims": _counted(READ_STATES, list(shown.values())),
        "waiting_count": len(waiting),
        "waiting": [row._asdict() for row in waiting[:most]],
        "attaches_under_way": state.fleet.units_coming,
        "attaches_at_most": in_flight_cap(state),
        "orders": _orders(state),
        "hand_overs": _hand_overs(state),
        "devices": _devices(state),
        "fences": _fences(state),
        "cool_downs": _cool_downs(state),
        **trouble_data(state, alerts_of(state.notes.last_emitted.rows), partial(name_of, state)),
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
        **log_data(head, state.process.now),
        "mode": {
            "effective": state.mode,
            "policy": state.policy.mode,
            "config": (config.mode or None) if config is not None else None,
        },
        "policy_fault": state.notes.policy_fault or None,
        "config_seen": config is not None,
        "models": [model.model for model in config.models] if config is not None else [],
        "synced": state.process.synced,
        "synced_at": state.process.synced_at,
        "stale": sorted(state.process.stale),
    }


def trouble_data(state: Any, alerts: Iterable[Alerted], name: Callable[[str], str]) -> dict[str, Any]:
    """Refused writes, alerts and rejected fields; `name` gives the name for a uid or target. A refused write that was not tried
    again when its time had come is no longer wanted."""
    fired = state.notes.fired_deadlines
    rows = (
        (key, row)
        for key, row in state.notes.refusals.rows.items()
        if row.undone or fired.get((DeadlineKind.RETRY, "/".join(key))) != row.until
    )
    refused = sorted(rows, key=lambda item: (item[1].until, item[0]))
    return {
        "refused": [
            {"action": action, "of": name(target), "count": row.count, "again_at": row.until, "why": _refused(row)}
            for (action, target), row in refused
        ],
        "alerts": [{"of": name(one.of), "reason": one.reason, "text": one.text} for one in alerts],
        "rejected": [
            {"of": name(uid), "field": field, "reason": reason}
            for uid, field, reason in sorted(state.notes.rejections.rows)
            if uid != POLICY
        ],
    }


def _refused(row: Refusal) -> str:
    """Who refused the write, in whose words."""
    if row.undone:
        return f"written, and undone by {row.text or 'another client'}"
    return f"the API server: {row.text}" if row.text else "the object had changed meanwhile"


_NAMED = ("claims", "pods", "nodes", "resources", "requests", "taint_rules", "slices", "classes", "lives")


def name_of(state: Any, uid: str, tables: Iterable[str] = _NAMED) -> str:
    """The name of an object or life in one of these tables, with its namespace; the uid if the state does not have it."""
    for table in tables:
        row = state.tables[table].get(uid)
        if row is not None:
            namespace = getattr(row, "namespace", "")
            return f"{namespace}/{row.name}" if namespace else str(row.name)
    return "the ConfigMap" if uid in state.tables["configs"] else uid


def _counted(states: tuple[str, ...], found: list[str]) -> dict[str, int]:
    """Numbers by state, in the order of `states`, without zeros."""
    number = Counter(found)
    return {state: number[state] for state in states if number[state]}


def _unallocated(state: State, rows: list[Unallocated]) -> list[dict[str, Any]]:
    """The claims that wait without an allocation, by the models that may serve them; of holders, nodes and reasons the first."""
    return [
        {
            **one._asdict(),
            "models": list(one.models),
            "held_by": [{"claim": name, "devices": number} for name, number in one.held_by[:NAMED]],
            "held_by_count": len(one.held_by),
            "idle_on": [{"node": name, "devices": number} for name, number in one.idle_on[:NAMED]],
            "idle_on_count": len(one.idle_on),
            "whys": [{"why": why, "claims": number} for why, number in one.whys[:NAMED]],
            "whys_count": len(one.whys),
            "longest": list(one.longest),
            "resources": [{"resource": name, "class": by} for name, by in one.resources],
        }
        for one in queues(state, rows)
    ]


def _orders(state: State) -> list[dict[str, Any]]:
    """Orders that the requests do not show yet."""
    return [
        {"node": node, "model": model, "request": row.request, "size": row.size, "since": row.since}
        for (node, model), row in sorted(state.fleet.orders.rows.items(), key=lambda item: (item[1].since, item[0]))
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
        for uid, row in sorted(state.hand_over.hand_overs.rows.items(), key=lambda item: (item[1].since, item[0]))
    ]


def _devices(state: State) -> list[dict[str, Any]]:
    """For each model the number of devices by state, and the number that the pools list as free."""
    rows = device_rows(state)
    names = sorted({*state.settings.models, *(row["model"] for row in rows)})
    nodes = {node for node, _ in state.health.unexplained.rows.values()}
    return [
        {
            "model": name,
            "states": _counted(DEVICE_STATES, [row["state"] for row in rows if row["model"] == name]),
            "free": sum(state.inventory.pools[key].free for key in state.inventory.pools_of_model[name]),
            "unexplained": sum(len(state.unexplained_at(node, name)) for node in nodes),
        }
        for name in names
    ]


def _fences(state: State) -> list[dict[str, Any]]:
    found = []
    for uid, fence in sorted(state.give_back.fences.rows.items(), key=lambda item: (item[1].since, item[0])):
        resource = state.fleet.resources.get(uid)
        found.append(
            {
                "device": (resource.uuid or resource.name) if resource is not None else uid,
                "node": resource.node if resource is not None else "",
                "model": resource.model if resource is not None else "",
                "stage": return_stage(state, uid, fence),
                "since": fence.since,
            }
        )
    return found


def _cool_downs(state: State) -> list[dict[str, Any]]:
    return [
        {"node": node, "model": model, "until": row.until, "reason": row.reason}
        for (node, model), row in sorted(state.failing.cooling.rows.items())
    ]


def alerts_of(shown: Mapping[tuple[str, str], bytes]) -> list[Alerted]:
    """The alerts among the decisions that a state has emitted last."""
    return [_alert.decode(data) for (kind, _), data in sorted(shown.items()) if kind == Alerted.__name__]
