"""Decodes request bodies in JSON, YAML and some protobuf, whatever a client sends.

YAML is read as the JSON that it stands for: no dates, no aliases, and the words for true and false that a real server knows.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml

from dds_adapters.documents import Alias, Unwanted, events
from dds_lab.api import clock, status
from dds_lab.api.facts import facts
from dds_lab.api.kinds import Object
from dds_lab.api.status import ApiError

LARGEST = 3 * 1024 * 1024
DEEPEST = 200
"""Limit of nesting, since code that walks objects is recursive."""
JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = (JSON, YAML, PROTOBUF)
"""What a real server accepts, as its refusals list it. The lab knows protobuf of some kinds only."""
APPLY = "application/apply-patch+yaml"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader, with the scalars of JSON only."""


_TRUE, _FALSE = ("y", "yes", "on", "true"), ("n", "no", "off", "false")
_PLAIN = {
    "tag:yaml.org,2002:null": (re.compile(r"~|null|Null|NULL|"), "~nN\0"),
    "tag:yaml.org,2002:bool": (
        re.compile("|".join(f"{word}|{word.title()}|{word.upper()}" for word in (*_TRUE, *_FALSE))),
        "yYnNtTfFoO",
    ),
    "tag:yaml.org,2002:int": (re.compile(r"[-+]?(?:0|[1-9][0-9]*)"), "-+0123456789"),
    "tag:yaml.org,2002:float": (
        re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?"),
        "-+0123456789.",
    ),
}
_Loader.yaml_implicit_resolvers = {}
for _tag, (_pattern, _first) in _PLAIN.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern.pattern})$"), list(_first))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^$"), [""])


def _bool(loader: Any, node: Any) -> bool:
    word = loader.construct_scalar(node).lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(f"cannot decode !!str `{word}` as a !!bool")
    return word in _TRUE


_Loader.add_constructor("tag:yaml.org,2002:bool", _bool)


def media_type(headers: Mapping[str, str]) -> str:
    """The Content-Type in lower case, without its parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def decode(body: bytes, type: str, kind: str) -> Any:
    """The value in a body of media type `type`; messages name the expected `kind`. ApiError 400, 413 or 415."""
    if len(body) > LARGEST:
        raise status.too_large()
    if type in (YAML, APPLY):
        return _yaml(body, kind)
    if type == PROTOBUF:
        return _protobuf(body, kind)
    return _json(body, kind)


def _json(body: bytes, kind: str) -> Any:
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError, msgspec.MsgspecError) as problem:
        raise _unreadable(body, kind, f"json parse error: {problem}") from None
    if body.count(b"{") + body.count(b"[") > DEEPEST and too_deep(value):
        raise _unreadable(body, kind, "json parse error: exceeded max depth")
    return value


def _protobuf(body: bytes, kind: str) -> Any:
    try:
        return decode_protobuf(body)
    except Unreadable as problem:
        raise _unreadable(body, kind, str(problem)) from None
    except UnknownKind:
        raise status.unsupported_media_type((JSON, YAML)) from None


def _yaml(body: bytes, kind: str) -> Any:
    try:
        text = body.decode()
        if text.lstrip().startswith(("{", "[")):
            try:
                return _json(body, kind)
            except ApiError:
                pass  # YAML in flow style begins alike
        for _ in events(text, DEEPEST):
            pass
        return _as_json(yaml.load(text, Loader=_Loader))
    except Alias:
        raise _unreadable(body, kind, "error converting YAML to JSON: aliases are not supported") from None
    except Unwanted:
        raise _unreadable(body, kind, "error converting YAML to JSON: exceeded max depth") from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as problem:
        raise _unreadable(body, kind, f"error converting YAML to JSON: {problem}") from None


def _as_json(value: Any) -> Any:
    """With texts as keys, and texts for values that JSON cannot express. ValueError for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {_key(key): _as_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    if isinstance(value, int) and value.bit_length() > 63:
        value = float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"json: unsupported value: {value}")
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


def too_deep(value: Any) -> bool:
    """Whether a value is nested deeper than DEEPEST. It uses no recursion."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            each
            for one in level
            for each in (one.values() if isinstance(one, dict) else one)
            if isinstance(each, dict | list)
        ] if isinstance(level[0], dict | list) else []  # fmt: skip
        if not level:
            return False
    return True


def _unreadable(body: bytes, kind: str, why: str) -> ApiError:
    shown = body[:200].decode(errors="replace")
    must = f" (must be of type {kind})" if kind else ""
    return status.bad_request(f"the object provided is unrecognized{must}: couldn't get version/kind; {why} ({shown})")


# -- Kubernetes' protobuf, for the kinds that kubectl sends in it (`create …` without a file, `auth`, `drain`)
#
# It is only read. For other kinds the answer 415 makes the client send JSON. All answers are JSON, which such clients accept.

MAGIC = b"k8s\x00"


class Unreadable(ValueError):
    """The bytes are no message of the expected form. The text says why."""


class UnknownKind(ValueError):
    """A message of a kind without a table here."""


_META = "metadata=1:ObjectMeta"
_TABLES: Mapping[str, str] = facts("protobuf")
KINDS = frozenset(name for name, fields in _TABLES.items() if fields.startswith(_META)) | {"DeleteOptions"}

PARTIAL = frozenset(
    {"Container", "ContainerPort", "DeploymentSpec", "DeploymentStrategy", "JobSpec", "LabelSelector", "PodSpec"}
)
"""Messages of which the table has what kubectl sets. Another field that is set is refused, as an unknown kind is, not dropped."""

_Fields = Mapping[int, tuple[str, str]]


def _compiled(table: str) -> _Fields:
    fields = {}
    for each in table.split():
        name, _, rest = each.partition("=")
        number, _, type = rest.partition(":")
        fields[int(number)] = (name, type)
    return fields


_MESSAGES: Mapping[str, _Fields] = {name: _compiled(table) for name, table in _TABLES.items()}


def decode_protobuf(body: bytes) -> Object:
    """The object in a body, in its JSON shape. Raises Unreadable or UnknownKind."""
    if not body.startswith(MAGIC):
        raise Unreadable("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = dict(_fields(body[len(MAGIC) :]))
    type_meta = dict(_fields(_bytes(envelope.get(1, b""))))
    api_version, kind = _text(type_meta.get(1, b"")), _text(type_meta.get(2, b""))
    if kind not in KINDS:
        raise UnknownKind(f"{kind} of {api_version}")
    return {"kind": kind, "apiVersion": api_version, **_message(_bytes(envelope.get(2, b"")), kind)}


def _message(data: bytes, name: str) -> Object:
    known = _MESSAGES[name]
    found: Object = {}
    for number, value in _fields(data):
        if number not in known:
            if value and name in PARTIAL:
                raise UnknownKind(f"field {number} of {name}")
            continue
        key, type = known[number]
        if type.startswith("[]"):
            found.setdefault(key, []).append(_message(_bytes(value), type[2:]) if type[2:] else _text(value))
        elif type in ("map", "bytesmap"):
            entry = dict(_fields(_bytes(value)))
            inner = _bytes(entry.get(2, b""))
            found.setdefault(key, {})[_text(entry.get(1, b""))] = (
                _text(inner) if type == "map" else base64.b64encode(inner).decode()
            )
        else:
            single = _single(value, type)
            if single is not None:
                found[key] = single
    return found


def _single(value: int | bytes, type: str) -> Any:
    """A value that occurs once; None for what JSON would leave out."""
    if type == "":
        return _text(value) or None
    if type == "Time":
        data = _bytes(value)
        seconds = dict(_fields(data)).get(1)
        if not isinstance(seconds, int) or seconds >> 63 or seconds > 253_402_300_799:
            return None
        return clock.written(seconds * clock.MICROSECONDS)
    if type.startswith(("int", "bool")):
        if not isinstance(value, int):
            raise Unreadable("a number was expected")
        if not value and not type.endswith("*"):
            return None
        return bool(value) if type.startswith("bool") else value - (1 << 64) if value >> 63 else value
    return _message(_bytes(value), type)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field, in order."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise Unreadable(f"proto: illegal wireType {wire}")
        if at + size > len(data):
            raise Unreadable("unexpected EOF")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise Unreadable("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
        if shift > 63:
            raise Unreadable("proto: integer overflow")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise Unreadable("proto: wrong wireType")
    return value


def _text(value: int | bytes) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise Unreadable("string field contains invalid UTF-8") from None
