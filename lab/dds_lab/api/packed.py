"""Schema nodes of built-in kinds, from the packed facts of Kubernetes 1.36 (`data/kinds-1.36.json.gz`).

Nodes are built on first use, and shared. `facts` adds what OpenAPI does not say: which optional fields a real server always
writes, and which it leaves out if they are zero (Go's omitempty on values and on pointers).
"""

import gzip
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

import msgspec

from dds_lab.api.facts import facts as known
from dds_lab.api.schema import EMPTY, Node

SCHEMA_OR_OTHER = ("JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray")
"""Definitions of a schema or something else. A schema is decoded as one."""


def kind_node(group: str, version: str, kind: str) -> Node:
    """The root node of a built-in kind, or of a body (Binding, Eviction of group policy, DeleteOptions)."""
    return _named(_data()["kinds"][f"{group}/{version}/{kind}"])


def definition(name: str) -> Node:
    """The node of the definition whose name ends so, such as `meta.v1.ObjectMeta`."""
    return _named(next(full for full in _data()["definitions"] if full.endswith("." + name)))


@cache
def _data() -> dict[str, Any]:
    packed = resources.files(__package__) / "data" / "kinds-1.36.json.gz"
    data: dict[str, Any] = msgspec.json.decode(gzip.decompress(packed.read_bytes()))
    return data


_built: dict[str, Node] = {}


def _named(full: str) -> Node:
    """A definition's node. Several threads may ask at once: each gets a node with all its fields."""
    if full not in _built:
        new: dict[str, Node] = {}
        _build(full, new)
        for name, node in new.items():
            _built.setdefault(name, node)
    return _built[full]


def _build(full: str, new: dict[str, Node]) -> Node:
    """The node. New nodes that it needs go to `new`."""
    found = _built.get(full) or new.get(full)
    if found is not None:
        return found
    if full.endswith(SCHEMA_OR_OTHER):
        found = new[full] = _with(_build(full[: full.index("Or")], new), type="any")
        return found
    facts = _data()["definitions"][full]
    short = ".".join(full.split(".")[-3:])
    # A definition may contain itself (JSON schemas do), so its node is registered before its fields are filled in.
    fields: dict[str, Node] = {}
    named = {"name": full.rsplit(".", 1)[-1], "zeros": known("zeros").get(short, EMPTY)}
    node = _node(facts, new, fields=MappingProxyType(fields), **named)
    node = _with(node, falsy=_falsy(short, facts))
    new[full] = node
    fields.update({key: _child(part, new) for key, part in facts.get("fields", {}).items()})
    return node


def _child(facts: dict[str, Any], new: dict[str, Node]) -> Node:
    if "ref" not in facts:
        return _node(facts, new)
    own = {key: _tupled(value) for key, value in facts.items() if key != "ref"}
    node = _build(facts["ref"], new)
    return _with(node, **own) if own else node


def _node(facts: dict[str, Any], new: dict[str, Node], **more: Any) -> Node:
    items = _child(facts["items"], new) if "items" in facts else None
    plain = {key: _tupled(value) for key, value in facts.items() if key not in ("items", "fields")}
    return Node(**plain, items=items, **more)


def _falsy(short: str, facts: dict[str, Any]) -> frozenset[str]:
    required = set(facts.get("required", ())) | set(known("zeros").get(short, ()))
    strings = {key for key, part in facts.get("fields", {}).items() if part.get("type") == "string"} - required
    return frozenset(known("zero_values").get(short, ())) | (frozenset() if short in known("pointers") else strings)


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _with(node: Node, **changes: Any) -> Node:
    return Node(**{**{name: getattr(node, name) for name in Node.__slots__}, **changes})
