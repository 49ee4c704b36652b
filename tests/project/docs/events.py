"""The events page's tables, made from the classes of `dds_core.events` and `dds_core.model`: fields, forms, meaning.

An event without a docstring of its own fails: what is stored for ever has to say what it means.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct, UnsetType, structs

from dds_core import model
from dds_core.publisher import events as p
from dds_core.publisher import model as publishing
from dds_core.scaler import events as e
from tests.project.docs.markdown import table

_WORDS = {str: "text", int: "integer", bool: "yes or no", float: "number", type(None): "null", Any: "anything"}

PARTS: tuple[type[Struct], ...] = (e.Promise, e.Signal, e.Entry)
"""What decisions are made of."""

INNER: tuple[type[Struct], ...] = (
    model.ClaimRequest,
    model.Allocation,
    model.Result,
    model.Consumer,
    model.Condition,
    model.Device,
    model.Requirement,
    model.Model,
    model.Taint,
    model.Toleration,
    publishing.PoolModel,
    publishing.Attribute,
    publishing.Capacity,
    publishing.Range,
    publishing.Machine,
    publishing.Limit,
    publishing.FreeDevice,
    publishing.SliceLayout,
)
"""What objects, and what a fabric answers, are made of."""


def object_facts() -> str:
    return _section(kind for kind in _kinds(e.Fact) if kind in _OF_OBJECTS)


def own_facts() -> str:
    return _section(kind for kind in _kinds(e.Fact) if kind not in _OF_OBJECTS | _OF_FABRIC)


def fabric_facts() -> str:
    return _section(kind for kind in _kinds(e.Fact) if kind in _OF_FABRIC)


def decisions() -> str:
    return _section(_kinds(e.Decision))


def transitions() -> str:
    return _section(_kinds(e.Transition))


def objects() -> str:
    return _section(e.OBSERVED)


def parts() -> str:
    return _section((*PARTS, *INNER))


_OF_OBJECTS = {one for pair in e.OBSERVED.values() for one in pair} | {e.Rejected}
_OF_FABRIC = {p.MachineObserved, p.MachineGone, p.StockObserved, p.FabricFailed, p.FabricAnswered}


def _kinds(base: type[e.Event]) -> list[type[e.Event]]:
    return [kind for kind in e.TYPES.values() if issubclass(kind, base)]


def _section(kinds: Iterable[type[Struct]]) -> str:
    return table(("type", "what it means", "fields"), [_row(kind) for kind in kinds])


def _row(kind: type[Struct]) -> tuple[str, str, str]:
    fields = [field for field in structs.fields(kind) if not (issubclass(kind, e.Decision) and field.name in _OF_ALL)]
    return f"`{kind.__name__}`", meaning(kind), "<br>".join(_field(field) for field in fields) or "none"


_OF_ALL = ("mode", "reissued")
"""Fields of every decision; the page tells of them once."""


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
    if value is msgspec.UNSET or value is NODEFAULT or value in ("", None, (), {}):
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
        return f"list of {form(inside[0])}" if same else f"({', '.join(form(one) for one in inside)})"
    if origin is dict:
        return f"table of {form(inside[1])}"
    name = kind.__name__
    return f"changes of {name.removesuffix('Changes')}" if name.endswith("Changes") else name
