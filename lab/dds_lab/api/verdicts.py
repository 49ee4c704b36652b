"""Evaluates one ValidatingAdmissionPolicy on one write: match conditions, variables in order, validations.

Pure: the caller gives the values that expressions may use. `policies` decides which policies apply to a write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dds_lab.api.expressions import ExpressionError, Known, Scope, compiled
from dds_lab.api.expressions import known as values_for
from dds_lab.api.kinds import Object

LONGEST_MESSAGE = 5 * 1024
"""Limit for the result of a message expression, in bytes."""
REASONS: Mapping[str, int] = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
"""Reasons that a validation may give, with their HTTP codes."""
INVALID = "Invalid"


class Denied(msgspec.Struct, frozen=True):
    message: str
    reason: str = INVALID


def scope_of(spec: Object, whole: bool = True) -> Scope:
    """The names that a policy's expressions may use. Its match conditions may use no variables (`whole` is False)."""
    variables = tuple((one.get("name") or "", one.get("expression") or "") for one in spec.get("variables") or ())
    return Scope(spec.get("paramKind") is not None, variables if whole else ())


def verdict(spec: Object, known: Mapping[str, Any]) -> list[Denied] | None:
    """Why the policy refuses a write, whose values are `known` by name: empty if it allows it, None if its match conditions do
    not hold. A failing expression is a refusal unless the failurePolicy is Ignore."""
    fails = spec.get("failurePolicy") != "Ignore"
    scope, values, lost = scope_of(spec), dict(known), dict[str, str]()
    at_hand = values_for(Scope(scope.params), known)
    try:
        if not _meant(spec, at_hand):
            return None
    except ExpressionError as problem:
        return [Denied(problem.what)] if fails else []
    for number, (name, expression) in enumerate(scope.variables):
        here = Scope(scope.params, scope.variables[:number])
        try:
            values[f"variables.{name}"] = compiled(expression, here).value(values_for(here, values), lost)
        except ExpressionError as problem:
            lost[name] = problem.what  # an error only for expressions that use it
    if scope.variables:
        at_hand = values_for(scope, values)
    found: list[Denied] = []
    for each in spec.get("validations") or ():
        try:
            if compiled(each["expression"], scope).value(at_hand, lost) is not True:
                words = _message(each, lambda text: compiled(text, scope).value(at_hand, lost))
                found.append(Denied(words, each.get("reason") or INVALID))
        except ExpressionError as problem:
            found += [Denied(problem.what)] if fails else []
    return found


def _meant(spec: Object, at_hand: Known) -> bool:
    """Whether all match conditions hold. False if one does not; ExpressionError if one fails and the others hold."""
    scope = scope_of(spec, whole=False)
    problem: ExpressionError | None = None
    for each in spec.get("matchConditions") or ():
        try:
            if compiled(each["expression"].strip(), scope).value(at_hand) is not True:
                return False
        except ExpressionError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return True


def _message(validation: Object, value: Callable[[str], Any]) -> str:
    """The text of a failed validation: the result of its message expression, its message, or the expression."""
    if validation.get("messageExpression"):
        try:
            words = str(value(validation["messageExpression"])).strip()
        except ExpressionError:
            words = ""
        if words and "\n" not in words and len(words.encode()) <= LONGEST_MESSAGE:
            return words
    return (validation.get("message") or "").strip() or f"failed expression: {validation['expression'].strip()}"
