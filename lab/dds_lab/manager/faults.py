"""How faults between a client and the manager (`scenario.trouble.ManagerFault`) change an answer. They never touch the fabric."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from random import Random
from typing import Any, Literal

from dds_lab.manager.calls import JSON, Reply, told

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
