"""Decodes a JSON body as a real server does: unknown fields are reported and removed, empty values dropped.

The result has the shape that a real server writes: optional values that are null or empty are left out, values that Go always
writes are there, quantities and times are canonical. A correct part is returned itself, not a copy. A part that is the same
Python object in the live version is not checked again. The input never changes.
"""

import base64
import binascii
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from dds_lab.api.names import QUANTITY, canonical
from dds_lab.api.schema import Node

At = tuple[Any, ...]
"""A position: (position of the parent, key or index). () is the object itself."""

ABSENT: Final = object()
_TIME = re.compile(r"\d{4}-(?:0\d|1[0-2])-(?:[0-2]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ")
_GO_TYPES = {"string": "string", "boolean": "bool", "bytes": "[]uint8", "number": "float64"}
_ZERO: dict[str, Any] = {"string": "", "integer": 0, "boolean": False, "object": {}, "map": {}, "quantity": "0"}


class Mismatch(ValueError):
    """A JSON value of another type than its field. The text is what a real server says after "cannot be handled"."""


def decoded(node: Node, body: Any, live: Any = None) -> tuple[Any, list[str]]:
    """The body as `node` describes it, and the paths of unknown fields (removed). Mismatch for a wrong JSON type."""
    if body is live and body is not None:
        return body, []
    unknown: list[At] = []
    value = _value(node, body, live, (), node.name, unknown)
    return ({} if value is ABSENT else value), [path(at) for at in unknown]


def path(at: At) -> str:
    """The position as text: `spec.devices.requests[0].name`"""
    text = ""
    while at:
        at, key = at
        part = f"[{key}]" if isinstance(key, int) else key
        separator = "" if not text or text.startswith("[") else "."
        text = f"{part}{separator}{text}"
    return text


def _value(node: Node, value: Any, live: Any, at: At, owner: str, unknown: list[At]) -> Any:
    if value is None:
        return ABSENT
    kind = node.type
    if kind == "string":
        if type(value) is str:
            return value
    elif kind == "object":
        if type(value) is dict:
            return _object(node, value, live, at, unknown)
    elif kind == "list":
        if type(value) is list:
            return _list(node, value, live, at, owner, unknown)
    elif kind == "map":
        if type(value) is dict:
            return _map(node, value, live, at, owner, unknown)
    elif kind == "integer":
        if type(value) is int and -(1 << (node.bits - 1)) <= value < 1 << (node.bits - 1):
            return value
    elif kind == "boolean":
        if type(value) is bool:
            return value
    elif kind == "any":
        return _object(node, value, live, at, unknown) if node.fields and type(value) is dict else value
    elif kind == "int-or-string":
        if type(value) is int or type(value) is str:
            return value
    elif kind == "number":
        if type(value) in (int, float):
            return value
    else:
        return _special(node, value, at, owner)
    raise _mismatch(node, value, at, owner)


def _object(node: Node, value: dict[str, Any], live: Any, at: At, unknown: list[At]) -> Any:
    fields, result = node.fields, None
    before = live if type(live) is dict else None
    for key, item in value.items():
        child = fields.get(key)
        if child is None:
            unknown.append((at, key))
            new = ABSENT
        elif item and type(item) is str and child.type == "string":
            continue  # the usual case: a text stays as it is
        elif before is not None and item is not None and before.get(key) is item:
            continue
        else:
            new = _value(child, item, before.get(key) if before else None, (at, key), node.name, unknown)
            # Whether an empty value of this field is not written: optional lists and maps, and Go's plain values.
            if not new and (key in node.falsy or (child.type in ("list", "map") and key not in node.required)):
                new = ABSENT
        if new is not item:
            if result is None:
                result = dict(value)
            if new is ABSENT:
                del result[key]
            else:
                result[key] = new
    if not node.zeros:
        return value if result is None else result
    return _with_zeros(node, value if result is None else result, result is not None)


def _with_zeros(node: Node, value: dict[str, Any], own: bool) -> dict[str, Any]:
    for key, zero in node.zeros.items():
        if key in value:
            continue
        if not own:
            value, own = dict(value), True
        child = node.fields.get(key)
        value[key] = _with_zeros(child, {}, True) if zero == {} and child is not None else zero
    return value


def _map(node: Node, value: dict[str, Any], live: Any, at: At, owner: str, unknown: list[At]) -> Any:
    items, result = node.items, None
    assert items is not None
    before = live if type(live) is dict else {}
    for key, item in value.items():
        if item is not None and before.get(key) is item:
            continue
        if items.type == "string" and type(item) is str:
            continue
        new = _value(items, item, before.get(key), (at, key), owner, unknown)
        if new is ABSENT:
            new = _ZERO.get(items.type)
        if new is not item:
            result = dict(value) if result is None else result
            result[key] = new
    return value if result is None else result


def _list(node: Node, value: list[Any], live: Any, at: At, owner: str, unknown: list[At]) -> Any:
    items, result = node.items, None
    assert items is not None
    before = live if type(live) is list else []
    known = len(before)
    for index, item in enumerate(value):
        old = before[index] if index < known else None
        if item is old and item is not None:
            continue
        new = _value(items, item, old, (at, index), owner, unknown)
        if new is ABSENT:
            new = _with_zeros(items, {}, True) if items.type == "object" else _ZERO.get(items.type)
        if new is not item:
            result = list(value) if result is None else result
            result[index] = new
    return value if result is None else result


def _special(node: Node, value: Any, at: At, owner: str) -> Any:
    if node.type == "quantity":
        return _quantity(value)
    if type(value) is not str:
        raise _mismatch(node, value, at, owner)
    if node.type == "bytes":
        return _bytes(value)
    micro = node.type == "microtime"
    if not micro and len(value) == 20 and _TIME.fullmatch(value):
        return value
    found = _canonical_time(value, micro)
    return value if found == value else found


def _quantity(value: Any) -> str:
    text = value.strip() if type(value) is str else repr(value) if type(value) in (int, float) else ""
    found = canonical(text)
    if found is None:
        raise Mismatch(f"quantities must match the regular expression '{QUANTITY}'")
    return found


def _bytes(value: str) -> str:
    text = value.replace("\n", "").replace("\r", "")
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Mismatch("illegal base64 data at input byte 0") from None
    return value if text == value else text


@lru_cache(maxsize=1024)
def _canonical_time(value: str, micro: bool) -> str:
    """Cached: one write may read the same time more than once."""
    layout = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None or "T" not in value:
        raise Mismatch(f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"')
    instant = found.astimezone(UTC)
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _mismatch(node: Node, value: Any, at: At, owner: str) -> Mismatch:
    names: list[str] = []
    while at:
        at, key = at
        if isinstance(key, str):
            names.insert(0, key)
    where = f"Go struct field {owner}.{'.'.join(names)}" if names else "Go value"
    return Mismatch(f"json: cannot unmarshal {_json_word(value)} into {where} of type {_go_type(node)}")


def _json_word(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return f"number {value}" if abs(value) >= 2**31 or isinstance(value, float) else "number"
    return "string" if isinstance(value, str) else "object" if isinstance(value, dict) else "array"


def _go_type(node: Node) -> str:
    if node.type == "integer":
        return f"int{node.bits}"
    if node.type == "object":
        return f"v1.{node.name}"
    if node.type == "list" and node.items is not None:
        return f"[]{_go_type(node.items)}"
    if node.type == "map" and node.items is not None:
        return f"map[string]{_go_type(node.items)}"
    return _GO_TYPES.get(node.type, "v1.Time" if node.type == "time" else node.type)
