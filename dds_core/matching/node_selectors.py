"""Node selectors (v1.NodeSelector): which nodes they select, and how the selectors of several devices are merged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from dds_core.model import Requirement

Object = dict[str, Any]
"""An API object, or a part of one, as decoded JSON. Never changed in place."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64 = range(-(2**63), 2**63)
_NAME = "metadata.name"
"""The only field that node selectors may name."""


class Term(Struct, frozen=True):
    """A node must satisfy all requirements of a term. A term without requirements selects no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    @classmethod
    def of(cls, both: Iterable[Requirement]) -> Term:
        """The term with these requirements, on labels and on the node's name, as `dds_core.model` keeps them: in one tuple."""
        found = tuple(both)
        return cls(
            tuple([each for each in found if each.key != _NAME]), tuple([each for each in found if each.key == _NAME])
        )


class NodeSelector(Struct, frozen=True):
    """A node must satisfy one of the terms."""

    terms: tuple[Term, ...] = ()

    @classmethod
    def of(cls, both: Iterable[Requirement]) -> NodeSelector:
        """The selector with one term of these requirements."""
        return cls((Term.of(both),))

    @classmethod
    def from_object(cls, selector: Object) -> NodeSelector:
        return cls(
            tuple(
                Term(requirements(term.get("matchExpressions")), requirements(term.get("matchFields")))
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


def node_matches(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Whether the selector selects the node of this name with these labels. Unknown operators and fields, which the API server
    refuses, select no node."""
    return any(_term_matches(term, name, labels) for term in selector.terms)


def only(node: str) -> NodeSelector:
    """The selector for exactly the node of this name."""
    return NodeSelector((Term(fields=(Requirement(_NAME, "In", (node,)),)),))


def merged(selectors: Iterable[NodeSelector]) -> NodeSelector | None:
    """A selector whose one term has all requirements of these, without duplicates. None when there are none.

    Only the first term of each is used: ResourceSlice validation allows just one.
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


def _term_matches(term: Term, name: str, labels: Mapping[str, str]) -> bool:
    if not term.expressions and not term.fields:
        return False
    return all(_holds(each, labels) for each in term.expressions) and all(
        each.key == _NAME and each.operator in ("In", "NotIn") and _holds(each, {each.key: name})
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
    """Label minus bound. 0 when one of them is no integer of 64 bits, so that neither Gt nor Lt holds."""
    if value is None or len(bounds) != 1:
        return 0
    left, right = _integer(value), _integer(bounds[0])
    return 0 if left is None or right is None else left - right


def _integer(text: str) -> int | None:
    """As Go's ParseInt reads it: no underscore, no space, ASCII digits only."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


def requirements(written: Iterable[Object] | None) -> tuple[Requirement, ...]:
    """The requirements of a term, from its JSON."""
    return tuple(Requirement(each["key"], each["operator"], tuple(each.get("values") or ())) for each in written or ())


def _written(requirement: Requirement) -> Object:
    written: Object = {"key": requirement.key, "operator": requirement.operator}
    if requirement.values:
        written["values"] = list(requirement.values)
    return written
