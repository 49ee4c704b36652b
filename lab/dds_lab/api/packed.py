"""Schema nodes of built-in kinds, from the packed facts of Kubernetes 1.36 (`data/kinds-1.36.json.gz`).

Nodes are built on first use, and shared. `facts` adds what 1.37 changed, and what OpenAPI does not say: which optional fields a
real server always writes, and which it leaves out if they are zero (Go's omitempty on values and on pointers).
"""

import gzip
from collections.abc import Mapping
from functools import cache
from importlib import resources
from threading import RLock
from types import MappingProxyType
from typing import Any

import msgspec

from dds_lab.api.facts import facts as known
from dds_lab.api.schema import EMPTY, Node

BASE = "1.36"
"""The release of the packed facts."""

SCHEMA_OR_OTHER = ("JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray")
"""Definitions of a schema or something else. A schema is decoded as one."""


def kind_node(group: str, version: str, kind: str, release: str = BASE) -> Node:
    """The root node of a built-in kind, or of a body (Binding, Eviction of group policy, DeleteOptions), in this release. Those
    before 1.36 have its fields: their gates drop what they do not know."""
    name = f"{group}/{version}/{kind}"
    return _built(release).named(_data()["kinds"][known("same_shape").get(name, name)])


def definition(name: str) -> Node:
    """The node of the definition whose name ends so, such as `meta.v1.ObjectMeta`."""
    return _built(BASE).named(next(full for full in _data()["definitions"] if full.endswith("." + name)))


@cache
def _data() -> dict[str, Any]:
    packed = resources.files(__package__) / "data" / "kinds-1.36.json.gz"
    data: dict[str, Any] = msgspec.json.decode(gzip.decompress(packed.read_bytes()))
    return data


@cache
def _built(release: str) -> "_Nodes":
    changes = known("changed_fields")
    return _Nodes(changes[release]) if release in changes else _built(BASE) if release != BASE else _Nodes({})


class _Nodes:
    """The nodes of one release. `changed`: by short name of a definition its fields that came, or went (None)."""

    def __init__(self, changed: Mapping[str, Mapping[str, Any]]) -> None:
        self._changed = changed
        self._nodes: dict[str, Node] = {}
        self._lock = RLock()

    def named(self, full: str) -> Node:
        """A definition's node. Several threads may ask at once: all get the same node, with all its fields."""
        with self._lock:
            if full not in self._nodes:
                new: dict[str, Node] = {}
                self._build(full, new)
                self._nodes |= new
            return self._nodes[full]

    def _build(self, full: str, new: dict[str, Node]) -> Node:
        """The node. New nodes that it needs go to `new`."""
        found = self._nodes.get(full) or new.get(full)
        if found is not None:
            return found
        if full.endswith(SCHEMA_OR_OTHER):
            found = new[full] = _with(self._build(full[: full.index("Or")], new), type="any")
            return found
        short = ".".join(full.split(".")[-3:])
        facts = _changed(_data()["definitions"][full], self._changed.get(short, EMPTY))
        # A definition may contain itself (JSON schemas do), so its node is registered before its fields are filled in.
        fields: dict[str, Node] = {}
        named = {"name": full.rsplit(".", 1)[-1], "zeros": known("zeros").get(short, EMPTY)}
        node = self._node(facts, new, fields=MappingProxyType(fields), **named)
        node = _with(node, falsy=_falsy(short, facts))
        new[full] = node
        fields.update({key: self._child(part, new) for key, part in facts.get("fields", {}).items()})
        return node

    def _child(self, facts: dict[str, Any], new: dict[str, Node]) -> Node:
        if "ref" not in facts:
            return self._node(facts, new)
        own = {key: _tupled(value) for key, value in facts.items() if key != "ref"}
        node = self._build(facts["ref"], new)
        return _with(node, **own) if own else node

    def _node(self, facts: dict[str, Any], new: dict[str, Node], **more: Any) -> Node:
        items = self._child(facts["items"], new) if "items" in facts else None
        plain = {key: _tupled(value) for key, value in facts.items() if key not in ("items", "fields")}
        return Node(**plain, items=items, **more)


def _changed(facts: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    if not changes:
        return facts
    fields = {key: part for key, part in {**facts["fields"], **changes}.items() if part is not None}
    return {**facts, "fields": fields}


def _falsy(short: str, facts: dict[str, Any]) -> frozenset[str]:
    required = set(facts.get("required", ())) | set(known("zeros").get(short, ()))
    strings = {key for key, part in facts.get("fields", {}).items() if part.get("type") == "string"} - required
    return frozenset(known("zero_values").get(short, ())) | (frozenset() if short in known("pointers") else strings)


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _with(node: Node, **changes: Any) -> Node:
    return Node(**{**{name: getattr(node, name) for name in Node.__slots__}, **changes})
