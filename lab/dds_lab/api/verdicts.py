"""What one ValidatingAdmissionPolicy says of one write: match conditions, variables in their order, validations.

Pure: the values that its expressions may name are given. Where a policy is asked at all is said by `policies`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dds_lab.api.expressions import ExpressionError, Known, Scope, compiled
from dds_lab.api.expressions import known as values_for
from dds_lab.api.kinds import Object

LONGEST_MESSAGE = 5 * 1024
"""Bytes that a message expression may give."""
REASONS: Mapping[str, int] = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
"""Reasons that a validation may give, with the codes that they are answered by."""
INVALID = "Invalid"


class Denied(msgspec.Struct, frozen=True):
    """Why a policy refuses a write."""

    message: str
    reason: str = INVALID


def scope_of(spec: Object, whole: bool = True) -> Scope:
    """What the expressions of a policy may name; not `whole` is what its match conditions may."""
    variables = tuple((one.get("name") or "", one.get("expression") or "") for one in spec.get("variables") or ())
    return Scope(spec.get("paramKind") is not None, variables if whole else ())


def verdict(spec: Object, known: Mapping[str, Any]) -> list[Denied] | None:
    """What a policy says of a write, whose values are `known` by name: why it refuses it, nothing where it lets it through; None
    where its match conditions do not hold. What fails counts as the failure policy says."""
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
            lost[name] = problem.what  # an error only for who asks for it
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
    """Whether all match conditions hold. One that does not outweighs one that fails."""
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
    """What is told of a validation that does not hold: what its message expression gives, its message, or the expression."""
    if validation.get("messageExpression"):
        try:
            words = str(value(validation["messageExpression"])).strip()
        except ExpressionError:
            words = ""
        if words and "\n" not in words and len(words.encode()) <= LONGEST_MESSAGE:
            return words
    return (validation.get("message") or "").strip() or f"failed expression: {validation['expression'].strip()}"
