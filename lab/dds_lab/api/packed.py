"""Schema nodes of built-in kinds, from the packed facts of Kubernetes 1.36 (`data/kinds-1.36.json.gz`).

All nodes of a release are built together, on first use, and shared. `facts` adds what 1.37 changed, and what OpenAPI does not
say: which optional fields a real server always writes, and which it leaves out if they are zero (Go's omitempty on values and on
pointers).
"""

import gzip
from collections.abc import Mapping
from functools import cache
from importlib import resources
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
    return _built(release)[_data()["kinds"][known("same_shape").get(name, name)]]


def definition(name: str) -> Node:
    """The node of the definition whose name ends so, such as `meta.v1.ObjectMeta`."""
    return next(node for full, node in _built(BASE).items() if full.endswith("." + name))


@cache
def _data() -> dict[str, Any]:
    packed = resources.files(__package__) / "data" / "kinds-1.36.json.gz"
    data: dict[str, Any] = msgspec.json.decode(gzip.decompress(packed.read_bytes()))
    return data


def _built(release: str) -> Mapping[str, Node]:
    """Every node of a release by its full name. Of threads that build them at the same time, all take those of one."""
    changes = known("changed_fields")
    release = release if release in changes else BASE
    found = _RELEASES.get(release)
    return found if found is not None else _RELEASES.setdefault(release, _Nodes(changes.get(release, EMPTY)).nodes)


_RELEASES: dict[str, Mapping[str, Node]] = {}


class _Nodes:
    """Builds the nodes of one release. `changed`: by short name of a definition its fields that came, or went (None)."""

    def __init__(self, changed: Mapping[str, Mapping[str, Any]]) -> None:
        self._changed = changed
        self.nodes: dict[str, Node] = {}
        for full in _data()["definitions"]:
            self._build(full)

    def _build(self, full: str) -> Node:
        found = self.nodes.get(full)
        if found is not None:
            return found
        if full.endswith(SCHEMA_OR_OTHER):
            found = self.nodes[full] = _with(self._build(full[: full.index("Or")]), type="any")
            return found
        short = ".".join(full.split(".")[-3:])
        facts = _changed(_data()["definitions"][full], self._changed.get(short, EMPTY))
        # A definition may contain itself (JSON schemas do), so its node is registered before its fields are filled in.
        fields: dict[str, Node] = {}
        named = {"name": full.rsplit(".", 1)[-1], "zeros": known("zeros").get(short, EMPTY)}
        node = self._node(facts, fields=MappingProxyType(fields), **named)
        node = _with(node, falsy=_falsy(short, facts))
        self.nodes[full] = node
        fields.update({key: self._child(part) for key, part in facts.get("fields", {}).items()})
        return node

    def _child(self, facts: dict[str, Any]) -> Node:
        if "ref" not in facts:
            return self._node(facts)
        own = {key: _tupled(value) for key, value in facts.items() if key != "ref"}
        node = self._build(facts["ref"])
        return _with(node, **own) if own else node

    def _node(self, facts: dict[str, Any], **more: Any) -> Node:
        items = self._child(facts["items"]) if "items" in facts else None
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
