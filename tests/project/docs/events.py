"""The events page's tables, made from the events that the components register, and from what these are made of: fields, forms,
meaning. An event without a docstring of its own fails: what is stored for ever has to say what it means.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct, UnsetType, structs

from dds_core import PUBLISHER, SCALER
from dds_core import events as e
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.model import DeviceKey
from tests.project.docs.markdown import table

_WORDS = {
    str: "string",
    int: "integer",
    bool: "boolean",
    float: "number",
    type(None): "null",
    Any: "any",
    msgspec.Raw: "object",
    DeviceKey: "DeviceKey",
}
"""`DeviceKey` is said once, above the tables."""

EVENTS = tuple(dict.fromkeys((*SCALER.events, *PUBLISHER.events, *AUTOSCALER.events)))
"""Every event that a log may hold, each once."""


def object_facts() -> str:
    return _section(kind for kind in EVENTS if kind in _OF_OBJECTS)


def own_facts() -> str:
    return _section(kind for kind in SCALER.events if issubclass(kind, e.Fact) and kind not in _OF_OBJECTS)


def fabric_facts() -> str:
    of_publisher = (kind for kind in PUBLISHER.events if kind not in SCALER.events and kind not in _OF_OBJECTS)
    return _section(kind for kind in of_publisher if issubclass(kind, e.Fact))


def asks() -> str:
    of_autoscaler = (kind for kind in AUTOSCALER.events if kind not in SCALER.events and kind not in _OF_OBJECTS)
    return _section(kind for kind in of_autoscaler if issubclass(kind, e.Fact))


def decisions() -> str:
    return _section(kind for kind in EVENTS if issubclass(kind, e.Decision))


def transitions() -> str:
    return _section(kind for kind in EVENTS if issubclass(kind, e.Transition))


def objects() -> str:
    return _section(e.OBSERVED)


def parts() -> str:
    """What events and objects are made of."""
    return _section(_parts((*EVENTS, *e.OBSERVED)))


_OF_OBJECTS = {*e.KIND_OF, e.Rejected}


def _parts(kinds: Iterable[type[Struct]]) -> Iterable[type[Struct]]:
    """The structs in the fields of these, and in theirs, in the order in which they are met."""
    waiting, found = list(kinds), dict[type[Struct], None]()
    while waiting:
        fields = structs.fields(waiting.pop(0))
        new = [one for field in fields for one in _inside(field.type) if one not in found and one not in e.OBSERVED]
        found.update(dict.fromkeys(new))
        waiting += new
    return found


def _inside(kind: Any) -> Iterator[type[Struct]]:
    if isinstance(kind, type) and issubclass(kind, Struct) and not issubclass(kind, e.Changes):
        yield kind
    for one in get_args(kind):
        yield from _inside(one)


def _section(kinds: Iterable[type[Struct]]) -> str:
    return table(("type", "what it means", "fields"), [_row(kind) for kind in kinds])


def _row(kind: type[Struct]) -> tuple[str, str, str]:
    fields = [field for field in structs.fields(kind) if not _of_all(kind, field.name)]
    return f"`{kind.__name__}`", meaning(kind), "<br>".join(_field(field) for field in fields) or "none"


def _of_all(kind: type[Struct], field: str) -> bool:
    """Whether every event of this sort has the field; the page says so once."""
    return field in ("mode", "reissued") if issubclass(kind, e.Decision) else field == "uid" and kind in e.KIND_OF


def meaning(kind: type[Struct]) -> str:
    """The docstring in one line. Raises LookupError without one."""
    text = kind.__dict__.get("__doc__")
    if not text:
        raise LookupError(f"{kind.__name__} has no docstring that says what it means")
    return re.sub(r"\s+", " ", text).strip()


def _field(field: structs.FieldInfo) -> str:
    optional = field.default is not NODEFAULT or field.default_factory is not NODEFAULT
    return f"`{field.name}` {form(field.type)}{_default(field) if optional else ''}"


def _default(field: structs.FieldInfo) -> str:
    value = field.default
    if value is msgspec.UNSET or value is NODEFAULT or value in ("", None, (), {}, 0, False):
        return "?"
    return f" = {msgspec.json.encode(value).decode()}" if not isinstance(value, Struct) else "?"


def form(kind: Any) -> str:
    """A type in words, as its JSON looks."""
    if kind in _WORDS:
        return _WORDS[kind]
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(form(one) for one in inside if one is not UnsetType)
    if origin is tuple:
        same = len(inside) == 2 and inside[1] is Ellipsis
        return f"list[{form(inside[0])}]" if same else f"({', '.join(form(one) for one in inside)})"
    if origin is dict:
        return f"map[{form(inside[1])}]"
    if origin is Literal:
        return "/".join(f'"{one}"' for one in inside)
    name = kind.__name__
    return f"changes[{name.removesuffix('Changes')}]" if name.endswith("Changes") else name
