"""Selectors over labels and over nodes, as the scheduler evaluates them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Object = dict[str, Any]


def selects(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """A label selector: every label and every expression. None selects nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(meets(one, labels) for one in selector.get("matchExpressions") or ())


def node_selects(selector: Object | None, name: str, labels: Mapping[str, str]) -> bool:
    """A node selector: one of its terms. None selects every node."""
    return selector is None or any(term_selects(one, name, labels) for one in selector.get("nodeSelectorTerms") or ())


def term_selects(term: Object, name: str, labels: Mapping[str, str]) -> bool:
    """One term of a node selector: all of its requirements; a term without any selects nothing."""
    expressions: Iterable[Object] = term.get("matchExpressions") or ()
    fields: Iterable[Object] = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(meets(one, labels) for one in expressions) and all(meets(one, {"metadata.name": name}) for one in fields)


def meets(requirement: Object, labels: Mapping[str, str]) -> bool:
    """One requirement: In, NotIn, Exists, DoesNotExist, Gt, Lt."""
    value = labels.get(requirement["key"])
    operator = requirement["operator"]
    values = requirement.get("values") or ()
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    return value is not None and _compares(operator, value, values)


def _compares(operator: str, value: str, values: Iterable[str]) -> bool:
    try:
        left, right = int(value), int(next(iter(values)))
    except (ValueError, StopIteration):
        return False
    return left > right if operator == "Gt" else operator == "Lt" and left < right
