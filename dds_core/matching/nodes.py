"""Which nodes a selector means (v1.NodeSelector), and how the selectors of several devices become one.

This module must know nothing of devices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from dds_core.model import Requirement

Object = dict[str, Any]
"""An API object, or a part of one, in its JSON form; never changed in place."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class Node(Struct, frozen=True, eq=False):
    """What device choice reads of a node."""

    name: str
    labels: Mapping[str, str] = {}

    @classmethod
    def from_object(cls, node: Object) -> Node:
        metadata = node["metadata"]
        return cls(metadata["name"], metadata.get("labels") or {})


class Term(Struct, frozen=True):
    """One term: all of its requirements must hold; without any it means no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class NodeSelector(Struct, frozen=True):
    """Terms of which one must hold."""

    terms: tuple[Term, ...] = ()

    @classmethod
    def from_object(cls, selector: Object) -> NodeSelector:
        return cls(
            tuple(
                Term(_requirements(term.get("matchExpressions")), _requirements(term.get("matchFields")))
                for term in selector.get("nodeSelectorTerms") or ()
            )
        )

    def to_object(self) -> Object:
        terms: list[Object] = []
        for term in self.terms:
            written: Object = {}
            if term.expressions:
                written["matchExpressions"] = [_written(each) for each in term.expressions]
            if term.fields:
                written["matchFields"] = [_written(each) for each in term.fields]
            terms.append(written)
        return {"nodeSelectorTerms": terms}


def node_matches(selector: NodeSelector, node: Node) -> bool:
    """Whether the selector means this node. What a server would not have let in (an unknown operator or field) means none."""
    return any(_term_matches(term, node) for term in selector.terms)


def only(node: str) -> NodeSelector:
    """The selector that means the node of this name and no other."""
    return NodeSelector((Term(fields=(Requirement("metadata.name", "In", (node,)),)),))


def merged(selectors: Iterable[NodeSelector]) -> NodeSelector | None:
    """One selector of one term with all requirements of these, each once; None when there are none.

    Slices have selectors of one term (ResourceSlice validation); the first counts.
    """
    expressions: list[Requirement] = []
    fields: list[Requirement] = []
    for selector in selectors:
        for term in selector.terms[:1]:
            _add_new(expressions, term.expressions)
            _add_new(fields, term.fields)
    if not expressions and not fields:
        return None
    return NodeSelector((Term(tuple(expressions), tuple(fields)),))


def _add_new(to: list[Requirement], more: Iterable[Requirement]) -> None:
    known = {(each.key, each.operator, frozenset(each.values)) for each in to}
    for each in more:
        if (each.key, each.operator, frozenset(each.values)) not in known:
            to.append(each)


def _term_matches(term: Term, node: Node) -> bool:
    if not term.expressions and not term.fields:
        return False
    return all(_holds(each, node.labels) for each in term.expressions) and all(
        each.key == "metadata.name" and each.operator in ("In", "NotIn") and _holds(each, {each.key: node.name})
        for each in term.fields
    )


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _difference(value, requirement.values) > 0
        case "Lt":
            return _difference(value, requirement.values) < 0
        case _:
            return False


def _difference(value: str | None, bounds: tuple[str, ...]) -> int:
    """Label minus bound; 0, so neither more nor less, where one of them is no integer."""
    if value is None or len(bounds) != 1 or not _INTEGER.fullmatch(value) or not _INTEGER.fullmatch(bounds[0]):
        return 0
    return int(value) - int(bounds[0])


def _requirements(written: Iterable[Object] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(each["key"], each["operator"], tuple(each.get("values") or ())) for each in written or ())


def _written(requirement: Requirement) -> Object:
    written: Object = {"key": requirement.key, "operator": requirement.operator}
    if requirement.values:
        written["values"] = list(requirement.values)
    return written
