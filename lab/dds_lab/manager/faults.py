"""Faults between a client and the manager: which calls they hit, how often, and how they change the answer.

A scenario or a test adds a fault in advance; calls that come later are hit. A fault never touches the fabric.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from dds_lab.actors.fabric import Told, concerns
from dds_lab.manager.calls import JSON, Reply, told

Kind = Literal["away", "busy", "cut", "empty", "error", "expired", "huge", "odd", "other_fabric", "slow"]
Odd = Literal["types", "missing", "html", "truncated", "null", "list"]

HUGE = 10_000
HTML = b"<html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"
_LISTS = {
    "machines": "resources",
    "machine": "resources",
    "node": "devices",
    "nodegroups": "nodegroups",
    "nodegroup": "mach_ids",
    "nodes": "resources",
    "resources": "resources",
}
_COUNT = "reserved_res_num_per_fabric"
_IDS = ("res_uuid", "res_serial_num", "device_id", "deviceID", "uuid")


@dataclass(frozen=True)
class Fault:
    """A fault of calls. Empty `calls`, `nodes` or `models` mean all.

    `away`: the manager cannot be reached. `busy`: 503 with Retry-After of `seconds`. `cut`: the call is carried out, but the
    connection ends without an answer. `empty`: the answer has no body. `error`: the call is refused with `code`. `expired`: all
    tokens expire just before the call. `huge`: the answer lists or counts 10,000 devices. `odd`: the answer has a wrong form, as
    `odd` says; with `field` that field is missing or of another type. `other_fabric`: the answer has another fabric's ids.
    `slow`: the answer takes `seconds` longer.

    `times` 0 means until lifted; `chance` is the probability that a call is hit.
    """

    kind: Kind
    calls: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    times: int = 0
    chance: float = 1.0
    seconds: float = 1.0
    code: int = 500
    odd: Odd = "types"
    field: str = ""


class Faults(Told[Fault]):
    """The active faults."""

    def take(self, call: str, node: str = "", model: str = "") -> tuple[Fault, ...]:
        """All faults that hit a call about a node's machine and a model ("" for none)."""
        return self.struck(lambda fault: (not fault.calls or call in fault.calls) and concerns(fault, node, model))


# -- wrong answers


def odd(reply: Reply, how: Odd, field: str, random: Random) -> Reply:
    """A reply with a wrong form."""
    if how == "html":
        return Reply(200, HTML, {"Content-Type": "text/html"})
    if how == "truncated":
        return Reply(reply.status, reply.body[: len(reply.body) // 2], JSON)
    if how in ("null", "list"):
        return told(reply.status, None if how == "null" else [])
    data = reply.json() if reply.body else {}
    places = [(holder, key) for holder, key in _places(data) if not field or key == field]
    for holder, key in places if field else random.sample(places, min(1, len(places))):
        if how == "missing":
            holder.pop(key, None)
        else:
            holder[key] = _other(holder[key])
    return told(reply.status, data)


def other_fabric(reply: Reply) -> Reply:
    """The reply with the ids of the next fabric."""
    data = reply.json()
    for holder, key in _places(data):
        if key == "fabric_id":
            holder[key] = holder[key] + 1 if isinstance(holder[key], int) else 1
    return told(reply.status, data)


def huge(reply: Reply, name: str, example: Any) -> Reply:
    """The reply with 10,000 devices; the invented ones look like `example`."""
    data = reply.json()
    if _COUNT in data:
        data[_COUNT] = HUGE
    for holder, key in _places(data):
        if key == _LISTS.get(name) and isinstance(holder[key], list):
            there = holder[key]
            there.extend(_renamed(example, number) for number in range(HUGE - len(there)))
            break
    if isinstance(data.get("count"), int):
        data["count"] = HUGE
    return told(reply.status, data)


def _places(found: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """All pairs of object and key in a JSON value, outer objects first."""
    if isinstance(found, dict):
        for key in list(found):
            yield found, key
        for value in list(found.values()):
            yield from _places(value)
    elif isinstance(found, list):
        for value in found:
            yield from _places(value)


def _other(value: Any) -> Any:
    return {"unexpected": True} if isinstance(value, str) else "unexpected"


def _renamed(example: Any, number: int) -> Any:
    """A copy with ids of its own."""
    word = str(uuid.uuid5(uuid.NAMESPACE_URL, f"huge/{number}"))
    if isinstance(example, str):
        return word
    copy = json.loads(json.dumps(example))
    for holder, key in _places(copy):
        if key in _IDS:
            holder[key] = f"GPU-{word}" if str(holder[key]).startswith("GPU-") else word
    return copy
