"""Values of custom resources: pruning, defaults, and the checks of OpenAPI in a real server's words.

Pure walks over a value and its node. What needs no change is returned as it is.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

from dds_lab.api.rules import causes
from dds_lab.api.schema import MISSING, Node
from dds_lab.api.status import Cause

_GO_TYPE = {"list": "array", "map": "object"}


# -- pruning and defaults


def pruned(node: Node, value: Any, at: str, unknown: list[str]) -> Any:
    """The value without fields that its node does not know. Their paths are added to `unknown`."""
    if node.type == "list" and node.items is not None and isinstance(value, list):
        items = node.items
        return _kept(value, [pruned(items, part, f"{at}[{index}]", unknown) for index, part in enumerate(value)])
    if not isinstance(value, dict):
        return value
    if node.type == "map" and node.items is not None:
        items = node.items
        made = {key: pruned(items, part, f"{at}.{key}" if at else key, unknown) for key, part in value.items()}
        return value if all(made[key] is value[key] for key in value) else made
    if node.type == "any" and not node.fields:
        return value
    changes: dict[str, Any] = {}
    strange = [] if node.preserve_unknown else [key for key in value if key not in node.fields]
    for key, part in value.items():
        if key in node.fields and type(part) in (dict, list):
            after = pruned(node.fields[key], part, f"{at}.{key}" if at else key, unknown)
            if after is not part:
                changes[key] = after
        elif key in strange:
            unknown.append(f"{at}.{key}" if at else key)
    if not changes and not strange:
        return value
    return {key: changes.get(key, part) for key, part in value.items() if key not in strange}


def _kept(before: list[Any], after: list[Any]) -> list[Any]:
    return before if all(one is other for one, other in zip(before, after, strict=True)) else after


def defaulted(node: Node, value: Any) -> Any:
    """The value with the defaults of everything in it. A null that is not allowed is replaced by the default."""
    if isinstance(value, list) and node.items is not None:
        items = node.items
        return _kept(value, [defaulted(items, part) for part in value])
    if not isinstance(value, dict):
        return value
    if node.items is not None:
        items = node.items
        made = {key: defaulted(items, part) for key, part in value.items()}
        return value if all(made[key] is value[key] for key in value) else made
    changes: dict[str, Any] = {}
    for key, child in node.fields.items():
        before = value.get(key, MISSING)
        if before is MISSING or (before is None and not child.nullable):
            if child.default is not MISSING:
                changes[key] = defaulted(child, child.default)
        elif type(before) in (dict, list):
            after = defaulted(child, before)
            if after is not before:
                changes[key] = after
    return {**value, **changes} if changes else value


# -- checks


def check(node: Node, value: Any, field: str, words: str) -> list[Cause]:
    """Everything wrong with a value. `field` is the path in the cause, `words` that in messages (from which a real server
    leaves out "status" if only the status is written)."""
    if value is None:
        return [] if node.nullable or node.type == "any" else [_wrong_type(node, value, field, words)]
    if not _fits(node, value):
        return [_wrong_type(node, value, field, words)]
    found = list(_check_value(node, value, field, words)) if node.checks else []
    if isinstance(value, dict):
        found += _check_fields(node, value, field, words)
    elif isinstance(value, list):
        found += _check_items(node, value, field, words)
    return found


def _check_fields(node: Node, value: dict[str, Any], field: str, words: str) -> Iterator[Cause]:
    yield from (causes.required(f"{field}.{key}" if field else key) for key in node.required if key not in value)
    for key, part in value.items():
        child = node.items if node.type == "map" else node.fields.get(key)
        if child is not None and not (child.type == "string" and type(part) is str and not child.checks):
            dot = "" if node.type == "map" and field.endswith("]") else "."
            below = f"{field}{dot}{key}" if field else key
            yield from check(child, part, below, f"{words}.{key}" if words else key)


def _check_items(node: Node, value: list[Any], field: str, words: str) -> Iterator[Cause]:
    items = node.items
    if items is None:
        return
    for index, part in enumerate(value):
        yield from check(items, part, f"{field}[{index}]", f"{words}[{index}]")
    if node.list_type == "set":
        yield from _duplicates([_frozen(part) for part in value], value, field)
    elif node.list_type == "map":
        keys = [{key: part.get(key) for key in node.list_keys} for part in value if isinstance(part, dict)]
        yield from _duplicates([_frozen(key) for key in keys], keys, field)


def _duplicates(frozen: list[Any], shown: list[Any], field: str) -> Iterator[Cause]:
    seen: set[Any] = set()
    for index, key in enumerate(frozen):
        if key in seen:
            yield causes.duplicate(f"{field}[{index}]", shown[index])
        seen.add(key)


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(sorted((key, _frozen(part)) for key, part in value.items()))
    if isinstance(value, list):
        return tuple(_frozen(part) for part in value)
    return (type(value).__name__, value)


def _fits(node: Node, value: Any) -> bool:
    match node.type:
        case "any":
            return True
        case "object" | "map":
            return isinstance(value, dict)
        case "list":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return _is_number(value) and float(value).is_integer()
        case "number":
            return _is_number(value)
        case _:
            return isinstance(value, str) or (_is_number(value) and isinstance(value, int))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _wrong_type(node: Node, value: Any, field: str, words: str) -> Cause:
    given = _type_of(value)
    wanted = _GO_TYPE.get(node.type, "integer,string" if node.type == "int-or-string" else node.type)
    where = f"{words} in body" if words else "in body"
    return causes.type_invalid(field, given, f'{where} must be of type {wanted}: "{given}"')


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "object" if isinstance(value, dict) else "array"


def _check_value(node: Node, value: Any, field: str, words: str) -> Iterator[Cause]:
    checks, where = node.checks, f"{words} in body"
    if "enum" in checks and not any(_same(value, known) for known in checks["enum"]):
        yield causes.not_supported(field, value, (str(known) for known in checks["enum"]))
    if isinstance(value, str):
        yield from _check_text(checks, value, field, where)
    elif _is_number(value):
        yield from _check_number(checks, value, field, where)
    elif isinstance(value, (list, dict)):
        yield from _check_size(checks, value, field, where)
    yield from _check_junctors(checks, value, field, words)


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _check_text(checks: Mapping[str, Any], value: str, field: str, where: str) -> Iterator[Cause]:
    if len(value) < checks.get("minLength", 0):
        yield causes.invalid(field, value, f"{where} should be at least {checks['minLength']} chars long")
    if "maxLength" in checks and len(value) > checks["maxLength"]:
        yield causes.too_long(field, checks["maxLength"])
    if "matches" in checks and not checks["matches"].search(value):
        yield causes.invalid(field, value, f"{where} should match '{checks['pattern']}'")
    if "format" in checks and not _has_format(checks["format"], value):
        yield causes.type_invalid(field, value, f'{where} must be of type {checks["format"]}: "{value}"')


def _check_number(checks: Mapping[str, Any], value: float, field: str, where: str) -> Iterator[Cause]:
    low, high, step = checks.get("minimum"), checks.get("maximum"), checks.get("multipleOf")
    if low is not None and (value <= low if checks.get("exclusiveMinimum") else value < low):
        bound = "greater than" if checks.get("exclusiveMinimum") else "greater than or equal to"
        yield causes.invalid(field, value, f"{where} should be {bound} {low}")
    if high is not None and (value >= high if checks.get("exclusiveMaximum") else value > high):
        bound = "less than" if checks.get("exclusiveMaximum") else "less than or equal to"
        yield causes.invalid(field, value, f"{where} should be {bound} {high}")
    if step and value % step:
        yield causes.invalid(field, value, f"{where} should be a multiple of {step}")
    bits = {"int32": 31, "int64": 63}.get(checks.get("format", ""))
    if bits is not None and not -(2**bits) <= value < 2**bits:
        yield causes.invalid(field, value, f"{where} should be a {checks['format']}")


def _check_size(checks: Mapping[str, Any], value: Any, field: str, where: str) -> Iterator[Cause]:
    unit = "Items" if isinstance(value, list) else "Properties"
    least, most = checks.get(f"min{unit}"), checks.get(f"max{unit}")
    if least is not None and len(value) < least:
        yield causes.invalid(field, len(value), f"{where} should have at least {least} {unit.lower()}")
    if most is not None and len(value) > most:
        yield causes.too_many(field, len(value), most)


def _check_junctors(checks: Mapping[str, Any], value: Any, field: str, words: str) -> Iterable[Cause]:
    found: list[Cause] = []
    for part in checks.get("allOf", ()):
        found += check(part, value, field, words)
    where = f'"{words}" must validate'
    if "anyOf" in checks and all(check(part, value, field, words) for part in checks["anyOf"]):
        found.append(causes.invalid(field, "", f"{where} at least one schema (anyOf)"))
    if "oneOf" in checks and sum(not check(part, value, field, words) for part in checks["oneOf"]) != 1:
        found.append(causes.invalid(field, "", f"{where} one and only one schema (oneOf)"))
    if "not" in checks and not check(checks["not"], value, field, words):
        found.append(causes.invalid(field, "", f'"{words}" must not validate the schema (not)'))
    return found


_DURATION = re.compile(r"[-+]?(?:\d+(?:\.\d*)?(?:ns|us|µs|ms|s|m|h))+|0")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_HOSTNAME = re.compile(
    r"(?=.{1,253}$)[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*"
)


def _has_format(name: str, value: str) -> bool:
    """Whether the text has a format of OpenAPI. Formats that servers do not check match every text."""
    try:
        match name:
            case "date-time":
                return "T" in value.upper() and datetime.fromisoformat(value).tzinfo is not None
            case "date":
                return bool(date.fromisoformat(value)) and len(value) == 10
            case "ipv4":
                return bool(ipaddress.IPv4Address(value))
            case "ipv6":
                return bool(ipaddress.IPv6Address(value))
            case "cidr":
                return "/" in value and bool(ipaddress.ip_interface(value))
            case "byte":
                return base64.b64decode(value, validate=True) is not None
            case "uri":
                return bool(urlsplit(value).scheme or value.startswith("/"))
    except (ValueError, binascii.Error):
        return False
    shapes = {"duration": _DURATION, "uuid": _UUID, "email": _EMAIL, "hostname": _HOSTNAME}
    return name not in shapes or shapes[name].fullmatch(value) is not None
