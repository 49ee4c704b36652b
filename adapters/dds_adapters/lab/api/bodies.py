"""Bodies of requests as values: JSON and YAML in, whatever nonsense a client sends.

YAML is read as the JSON that it stands for, with the words for true and false that a real server knows: no dates, no
aliases. Nothing here knows an object.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from dds_adapters.lab.api import protobuf, status
from dds_adapters.lab.api.status import ApiError

LARGEST = 3 * 1024 * 1024
DEEPEST = 200
"""Levels of nesting; what walks objects does so recursively."""
JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = (JSON, YAML, PROTOBUF)
"""What a real server accepts, as its refusals list it (of protobuf only what `protobuf` knows)."""
APPLY = "application/apply-patch+yaml"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader with the scalars of JSON only."""


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
    """The Content-Type without its parameters, in lower case."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def decode(body: bytes, type: str, kind: str) -> Any:
    """The value in a body of media type `type`; `kind` is what was expected, for the message. ApiError 400 or 413."""
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
        return protobuf.decode(body)
    except protobuf.Unreadable as problem:
        raise _unreadable(body, kind, str(problem)) from None
    except protobuf.UnknownKind:
        raise status.unsupported_media_type((JSON, YAML)) from None


def _yaml(body: bytes, kind: str) -> Any:
    try:
        text = body.decode()
        if text.lstrip().startswith(("{", "[")):
            try:
                return _json(body, kind)
            except ApiError:
                pass  # flow style YAML begins alike
        depth = 0
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.AliasEvent):
                raise _unreadable(body, kind, "error converting YAML to JSON: aliases are not supported")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise _unreadable(body, kind, "error converting YAML to JSON: exceeded max depth")
        return _as_json(yaml.load(text, Loader=_Loader))
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as problem:
        raise _unreadable(body, kind, f"error converting YAML to JSON: {problem}") from None


def _as_json(value: Any) -> Any:
    """With text for keys, as a conversion to JSON gives them; what JSON has no word for becomes text. ValueError for numbers
    that JSON does not have."""
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
    """Whether a value is nested deeper than DEEPEST, found without recursion."""
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
