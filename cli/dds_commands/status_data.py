"""What a scaler is doing, as plain data: read off the picture and the head of its log. No clock, nothing is asked."""

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
from dds_core.model import Claim, Model, Observed
from dds_core.scaler.model import ClaimLife, Fence
from dds_core.scaler.rules.assignment import Cover, cover
from dds_core.scaler.rules.orders import cell_of, conflicting_model, in_flight_cap, published_free, request_name
from dds_core.scaler.state import Picture
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
    """Every claim in a state of waiting, those that wait longest first, and in a sentence what each of them waits for: read off
    the picture with the questions that the rules themselves ask."""
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
    if not all(place.takes(pod.tolerations) for pod in picture.pods_of(claim) if not pod.node):
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
        if not picture.pools_of_model[name] and picture.units_coming >= (cap := in_flight_cap(picture)):
            yield f"{picture.units_coming} attaches are under way, the most without a pool are {cap}"
    elif free == 0:
        yield f"the pool has no {name} left"
    if not picture.live:
        yield f"mode observe: dds orders no {name}"


def _request(picture: Picture, node: str, model: Model) -> str:
    cell = cell_of(picture, node, model)
    return cell.own.name if cell.own is not None else request_name(node, cell.type, model.model)


# -- the whole status ----------------------------------------------------------------------------------------------------

_alert = msgspec.json.Decoder(Alerted)


INSTANTS = frozenset({"recorded_at", "at", "epoch_at", "synced_at", "since", "until", "again_at", "listed_at"})
"""Keys whose values are microseconds since 1970-01-01 UTC, 0 for never."""


def status_data(head: Head, picture: Picture, most: int) -> dict[str, Any]:
    """The whole status; of the claims that wait the first `most`, those that wait longest, and how many there are."""
    waiting = waiting_rows(picture)
    return {
        **log_data(head, picture.now),
        "mode": {"effective": picture.mode, "policy": picture.policy.mode, "config": picture.config.mode or None},
        "hand_over": picture.policy.hand_over,
        "config_seen": bool(picture.config.uid),
        "models": [model.model for model in picture.config.models],
        "synced": picture.synced,
        "synced_at": picture.synced_at,
        "stale": sorted(picture.stale),
        "claims": _counted(CLAIM_STATES, [row.state for row in claim_rows(picture)]),
        "waiting_count": len(waiting),
        "waiting": [row._asdict() for row in waiting[:most]],
        "attaches_under_way": picture.units_coming,
        "attaches_at_most": in_flight_cap(picture),
        "orders": _orders(picture),
        "hand_overs": _hand_overs(picture),
        "devices": _devices(picture),
        "fences": _fences(picture),
        "cool_downs": _cool_downs(picture),
        "refused": _refused(picture),
        "alerts": _alerts(picture),
        "rejected": _rejected(picture),
    }


def log_data(head: Head, at: int) -> dict[str, Any]:
    """Whose log it is, how far it goes, and who writes it; `at` is the newest fact's instant."""
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


def part_data(head: Head, picture: Any, config: Any) -> dict[str, Any]:
    """What is told of a publisher and of an autoscaler alike; `config` is the ConfigMap, None while it is not there."""
    return {
        **log_data(head, picture.now),
        "mode": {
            "effective": picture.mode,
            "policy": picture.policy.mode,
            "config": (config.mode or None) if config is not None else None,
        },
        "config_seen": config is not None,
        "models": [model.model for model in config.models] if config is not None else [],
        "synced": picture.synced,
        "synced_at": picture.synced_at,
        "stale": sorted(picture.stale),
    }


def trouble_data(picture: Any, alerts: Iterable[Alerted], name: Callable[[str], str]) -> dict[str, Any]:
    """What can go wrong with either; `name` is what a uid or a target is called."""
    refused = sorted(picture.refusals.rows.items(), key=lambda item: (item[1].until, item[0]))
    return {
        "refused": [
            {"action": action, "of": name(target), "count": row.count, "again_at": row.until}
            for (action, target), row in refused
        ],
        "alerts": [{"of": name(one.of), "reason": one.reason, "text": one.text} for one in alerts],
        "rejected": [
            {"of": name(uid), "field": field, "reason": reason}
            for uid, field, reason in sorted(picture.rejections.rows)
        ],
    }


def readable(data: Any) -> Any:
    """The same data with instants as RFC 3339, null for never."""
    if isinstance(data, dict):
        return {
            key: (rfc3339(value) if value else None) if key in INSTANTS else readable(value)
            for key, value in data.items()
        }
    return [readable(one) for one in data] if isinstance(data, list) else data


def name_of(picture: Picture, uid: str) -> str:
    """The name of any object, its namespace before it; the uid where it is not known."""
    tables = (picture.claims, picture.pods, picture.nodes, picture.resources, picture.requests, picture.rules)
    for table in (*tables, picture.slices, picture.classes):
        row: Observed | None = table.get(uid)
        if row is not None:
            namespace = getattr(row, "namespace", "")
            return f"{namespace}/{getattr(row, 'name', uid)}" if namespace else getattr(row, "name", uid)
    life = picture.lives.get(uid)
    if life is not None:
        return f"{life.namespace}/{life.name}"
    return "the ConfigMap" if uid in picture.configs else uid


def _counted(states: tuple[str, ...], found: list[str]) -> dict[str, int]:
    """In the order of the table; states that nothing is in are left out."""
    number = Counter(found)
    return {state: number[state] for state in states if number[state]}


def _orders(picture: Picture) -> list[dict[str, Any]]:
    """What was ordered, and the requests do not show yet."""
    return [
        {"node": node, "model": model, "request": row.request, "size": row.size, "since": row.since}
        for (node, model), row in sorted(picture.orders.rows.items(), key=lambda item: (item[1].since, item[0]))
    ]


def _hand_overs(picture: Picture) -> list[dict[str, Any]]:
    return [
        {
            "claim": name_of(picture, uid),
            "uid": uid,
            "pod": name_of(picture, row.pod) if row.pod else None,
            "node": row.node,
            "steering": row.steering,
            "steered": row.steered,
            "since": row.since,
        }
        for uid, row in sorted(picture.hand_overs.rows.items(), key=lambda item: (item[1].since, item[0]))
    ]


def _devices(picture: Picture) -> list[dict[str, Any]]:
    """By model: how many are in which state, and how many the pools list as free."""
    rows = device_rows(picture)
    names = sorted({*picture.models, *(row.model for row in rows)})
    return [
        {
            "model": name,
            "states": _counted(DEVICE_STATES, [row.state for row in rows if row.model == name]),
            "free": sum(picture.pools[key].free for key in picture.pools_of_model[name]),
        }
        for name in names
    ]


def _fences(picture: Picture) -> list[dict[str, Any]]:
    found = []
    for uid, fence in sorted(picture.fences.rows.items(), key=lambda item: (item[1].since, item[0])):
        resource = picture.resources.get(uid)
        found.append(
            {
                "device": (resource.uuid or resource.name) if resource is not None else uid,
                "node": resource.node if resource is not None else "",
                "model": resource.model if resource is not None else "",
                "stage": _stage(fence),
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


def _cool_downs(picture: Picture) -> list[dict[str, Any]]:
    return [
        {"node": node, "model": model, "until": row.until, "reason": row.reason}
        for (node, model), row in sorted(picture.cooling.rows.items())
    ]


def _refused(picture: Picture) -> list[dict[str, Any]]:
    return [
        {"action": action, "of": name_of(picture, target), "count": row.count, "again_at": row.until}
        for (action, target), row in sorted(picture.refusals.rows.items(), key=lambda item: (item[1].until, item[0]))
    ]


def alerts_of(shown: Mapping[tuple[str, str], bytes]) -> list[Alerted]:
    """What a person was told, of what a picture has shown."""
    return [_alert.decode(data) for (kind, _), data in sorted(shown.items()) if kind == Alerted.__name__]


def _alerts(picture: Picture) -> list[dict[str, Any]]:
    told = alerts_of(picture.shown.rows)
    return [{"of": name_of(picture, one.of), "reason": one.reason, "text": one.text} for one in told]


def _rejected(picture: Picture) -> list[dict[str, Any]]:
    return [
        {"of": name_of(picture, uid), "field": field, "reason": reason}
        for uid, field, reason in sorted(picture.rejections.rows)
    ]
