"""Facts in words: what changed, in sentences that need no knowledge of the code.

A fact about an object is told by its differences, each in a sentence of its own; what no rule of a life looks at is left
out. Nothing here decides whether a fact matters to anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dds_core import events as e
from dds_core.events import Event
from dds_core.model import (
    Allocation,
    AttachRequest,
    Claim,
    Condition,
    Config,
    FabricResource,
    Node,
    Pod,
    Slice,
    TaintRule,
)
from dds_core.timeline import phrases
from dds_core.timeline.known import Known, Pair, Row
from dds_core.timeline.phrases import MANY, taints


def fact_words(fact: Event, pair: Pair, known: Known) -> list[str]:
    """The sentences of a fact; empty when it says nothing that a person would want to know."""
    before, after = pair
    row = after if after is not None else before
    if row is not None:
        tell = OBJECTS.get(type(row))
        if tell is None:
            return []
        return list(tell(before, row, known)) if after is not None else [f"{_noun(row)} {known.name_of(row)} is gone"]
    own = FACTS.get(type(fact))
    return [own(fact, known)] if own is not None else []


def _noun(row: Row) -> str:
    name = type(row).__name__
    return _NOUNS.get(name, name.lower())


_NOUNS = {
    "FabricResource": "resource",
    "AttachRequest": "request",
    "TaintRule": "taint rule",
    "Config": "ConfigMap",
    "Host": "node",
    "PoolSlice": "slice",
    "PoolConfig": "ConfigMap",
}


# --- objects -----------------------------------------------------------------------------------------------------------


def _claim(before: Claim | None, claim: Claim, known: Known) -> Iterator[str]:
    name = f"claim {known.name_of(claim)}"
    if before is None:
        wanted = ", ".join(f"{r.count} of {' or '.join(r.classes)}" for r in claim.requests)
        yield f"{name} asks for {wanted}" if wanted else f"{name} is there"
    old = before if before is not None else Claim(uid=claim.uid)
    if claim.allocation != old.allocation:
        yield f"{name}: {_allocation(claim.allocation)}"
    if claim.consumers != old.consumers:
        users = ", ".join(f"{c.resource.removesuffix('s')} {c.name or known.name(c.uid)}" for c in claim.consumers)
        yield f"{name}: reserved for {users}" if users else f"{name}: reserved for nobody any more"
    yield from (f"{name}: {text}" for text in _conditions(old.conditions, claim.conditions))
    if claim.deleting and not old.deleting:
        yield f"{name} is being deleted"


def _allocation(allocation: Allocation | None) -> str:
    if allocation is None:
        return "its allocation was cleared"
    devices = ", ".join(
        f"{r.device} of pool {r.pool}" + (f" ({_amounts(r.consumed)})" if r.consumed else "")
        for r in allocation.results
    )
    return f"allocated {devices}" + (f" on {allocation.node}" if allocation.node else "")


def _amounts(consumed: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(consumed.items()))


def _conditions(old: tuple[Condition, ...], new: tuple[Condition, ...]) -> Iterator[str]:
    def key(c: Condition) -> tuple[str, ...]:
        return (c.driver, c.pool, c.device, c.share, c.type)

    was = {key(c): c for c in old}
    for c in new:
        former = was.pop(key(c), None)
        if former is None or former.status != c.status or former.reason != c.reason:
            yield f"condition {c.type}={c.status} on {c.device}" + (f" ({c.reason})" if c.reason else "")
    for c in was.values():
        yield f"condition {c.type} on {c.device} was taken away"


def _pod(before: Pod | None, pod: Pod, known: Known) -> Iterator[str]:
    name = f"pod {known.name_of(pod)}"
    old = before if before is not None else Pod(uid=pod.uid)
    if before is None:
        yield f"{name} is there" + (f", for scheduler {pod.scheduler}" if pod.scheduler else "")
    if pod.nominated != old.nominated and not pod.node:
        yield f"{name} is nominated to {pod.nominated}" if pod.nominated else f"{name}: its nomination was taken back"
    if pod.waiting != old.waiting and not pod.node:
        yield f"{name} waits: {pod.waiting}" if pod.waiting else f"{name} is tried again"
    if pod.node != old.node and pod.node:
        yield f"{name} is bound to {pod.node}"
    if pod.phase != old.phase and pod.phase not in ("", "Pending"):
        yield f"{name} is {pod.phase}"
    if pod.deleting and not old.deleting:
        yield f"{name} is being deleted"


def _resource(before: FabricResource | None, row: FabricResource, known: Known) -> Iterator[str]:
    name = f"resource {row.name}"
    old = before if before is not None else FabricResource(uid=row.uid)
    if before is None:
        yield f"{name} was made: one {row.model} for {row.node}, for request {row.request or '(none)'}"
    if row.uuid != old.uuid:
        yield f"{name} is device {row.uuid}" if row.uuid else f"{name} names no device any more"
    if row.state != old.state and row.state:
        yield f"{name} is {row.state}"
    if row.error != old.error:
        yield f"{name} reports: {row.error}" if row.error else f"{name} reports no error any more"
    if row.marked != old.marked:
        yield f"{name} is marked to be detached" if row.marked else f"{name} is no longer marked to be detached"
    if row.deleting and not old.deleting:
        yield f"{name} is being deleted"


def _request(before: AttachRequest | None, row: AttachRequest, known: Known) -> Iterator[str]:
    name = f"request {row.name}"
    old = before if before is not None else AttachRequest(uid=row.uid)
    if before is None:
        yield f"{name} was made: {row.size} of {row.model} for {row.node}"
    elif row.size != old.size:
        yield f"{name} was {'raised' if row.size > old.size else 'lowered'} from {old.size} to {row.size}"
    if row.state != old.state and row.state:
        yield f"{name} is {row.state}"
    if row.error != old.error:
        yield f"{name} reports: {row.error}" if row.error else f"{name} reports no error any more"
    if row.deleting and not old.deleting:
        yield f"{name} is being deleted"


def _slice(before: Slice | None, row: Slice, known: Known) -> Iterator[str]:
    where = row.node or f"pool {row.pool}"
    old = before.devices if before is not None else {}
    new = [name for name in row.devices if name not in old]
    lost = [name for name in old if name not in row.devices]
    if new:
        yield f"{where} lists {_devices(row, new, known)}"
    if lost:
        yield f"{where} no longer lists {_devices(row, lost, known)}"
    for name, device in row.devices.items():
        if name in old and device.taints != old[name].taints:
            yield f"{where}: device {name} is tainted {taints(device.taints)}"


def _devices(row: Slice, names: list[str], known: Known) -> str:
    if len(names) > MANY:
        return f"{len(names)} devices ({names[0]} … {names[-1]})"
    uuids = (known.uuid_at.get((row.driver, row.pool, name), "") for name in names)
    return ", ".join(f"{name} ({uuid})" if uuid else name for name, uuid in zip(names, uuids, strict=True))


def _node(before: Node | None, node: Node, known: Known) -> Iterator[str]:
    old = before if before is not None else Node(uid=node.uid)
    if before is None:
        yield f"node {node.name} is there"
    if node.unschedulable != old.unschedulable:
        yield f"node {node.name} is {'cordoned' if node.unschedulable else 'open for pods again'}"
    if node.taints != old.taints:
        yield f"node {node.name} is tainted {taints(node.taints)}"
    if before is not None:
        yield from phrases.labels(node.name, old.labels, node.labels)
    if node.deleting and not old.deleting:
        yield f"node {node.name} is being deleted"


def _config(before: Config | None, config: Config, known: Known) -> Iterator[str]:
    models = ", ".join(model.model for model in config.models) or "no model"
    yield f"the ConfigMap knows {models}" + (f"; mode {config.mode}" if config.mode else "")


def _rule(before: TaintRule | None, rule: TaintRule, known: Known) -> Iterator[str]:
    what = "/".join(part or "*" for part in (rule.driver, rule.pool, rule.device))
    yield f"taint rule {rule.name} puts {taints((rule.taint,))} on {what}"


OBJECTS: dict[type[Row], Callable[[Any, Any, Known], Iterator[str]]] = {
    Claim: _claim,
    Pod: _pod,
    FabricResource: _resource,
    AttachRequest: _request,
    Slice: _slice,
    Node: _node,
    Config: _config,
    TaintRule: _rule,
}
"""How the changes of an object of each kind are told; a component adds its own."""


# --- ourselves ---------------------------------------------------------------------------------------------------------

_DEADLINES = {
    "budget": "the time for the attach is used up",
    "reservation": "the device that was handed over was not taken in time",
    "idle": "it has idled long enough to go back",
    "fence": "the fence around it has settled",
    "grace": "its attach error has stood long enough to be definite",
    "cooling": "the cool-down is over",
    "publisher": "the failure waits no longer for the publisher to close the pool",
    "retry": "a refused write may be tried again",
    "detaches": "the hourly number of detaches has room again",
    "prewarm": "another device may be ordered ahead of demand",
    "level": "a pass over the whole fleet is due",
    "gone": "what the fabric has not named any more for long enough is taken for gone",
    "readback": "what was published should be seen by now",
}


def _capabilities(fact: e.Capabilities, known: Known) -> str:
    lost = [name for name, kept in _KEPT.items() if not getattr(fact, kept)]
    if not known.fences:
        return f"the API server drops {', '.join(lost)} of slices" if lost else "the API server keeps all of a slice"
    drops = f"; it drops {', '.join(lost)} of slices" if lost else ""
    return f"the API serves {'taint rules ' + fact.taint_rules if fact.taint_rules else 'no taint rules'}{drops}"


_KEPT = {
    "binding conditions": "binding_conditions",
    "taints": "device_taints",
    "allowMultipleAllocations": "shared_devices",
}


def _deadline(fact: e.DeadlinePassed, known: Known) -> str:
    return f"{_DEADLINES.get(fact.kind, fact.kind)} ({known.name(fact.of)})"


def _refused(fact: e.WriteRefused, known: Known) -> str:
    return f"{fact.action} of {known.name(fact.target)} was refused: {fact.code} {fact.reason} {fact.text}".rstrip()


def _rejected(fact: e.Rejected, known: Known) -> str:
    name = f"{fact.namespace}/{fact.name}" if fact.namespace else fact.name
    return f"{fact.kind} {name} is not as expected: {fact.field} {fact.reason}"


FACTS: dict[type[Event], Callable[[Any, Known], str]] = {
    e.Started: lambda fact, known: f"dds {fact.code} started in mode {fact.mode}, epoch {fact.epoch}",
    e.PolicyChanged: lambda fact, known: f"the policy was set, mode {fact.policy.get('mode', 'observe')}",
    e.Capabilities: _capabilities,
    e.Synced: lambda fact, known: "all resources were listed",
    e.Stale: lambda fact, known: f"nothing was heard of {fact.resource} for {fact.age} s; deadlines wait",
    e.ClaimsListed: lambda fact, known: f"all claims were listed for the fence of {known.name(fact.resource)}",
    e.WriteDone: lambda fact, known: f"{fact.action} of {known.name(fact.target)} was carried out",
    e.WriteRefused: _refused,
    e.WriteObsolete: lambda fact, known: f"{fact.action} of {known.name(fact.target)} was overtaken: {fact.text}",
    e.Superseded: lambda fact, known: f"{fact.action} of {known.name(fact.target)} was dropped for a newer decision",
    e.DeadlinePassed: _deadline,
    e.Rejected: _rejected,
    e.Checkpoint: lambda fact, known: "a checkpoint was written",
}
"""How each of the other facts is told; a component adds its own."""
