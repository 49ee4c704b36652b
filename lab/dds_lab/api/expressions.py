"""CEL expressions of admission policies: compiled once, with the names that Kubernetes 1.36 declares for them.

`object`, `oldObject`, `request`, `params` and `namespaceObject` are JSON without a declared type. A variable has the type of
its expression, so most of what Kubernetes' type checker refuses is refused here too. `authorizer` and Kubernetes' own libraries
(quantities, lists, URLs, …) are missing, so expressions with them do not compile. The CEL library nests at most 32 deep, and a
variable cannot hold an optional.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from dds_core.errors import DdsError
from dds_core.matching.cel import reason

if TYPE_CHECKING:
    from cel_expr_python import cel

REFUSALS = (RuntimeError, TypeError, ValueError, OverflowError)
"""What the library raises if it cannot compile or evaluate, or has no Python value for a result."""

CACHED = 1024
"""Size of the cache of compiled expressions; that of environments is a quarter."""

_LOST = re.compile(r'No value with name "variables\.(\w+)"')
_STATUS = re.compile(r"^[A-Z_]+: |\s*\[[A-Z_]+\]\s*$")


Known: TypeAlias = "cel.Activation"
"""Values by name, converted once for any number of expressions."""


class ExpressionError(DdsError):
    """An expression does not compile, or fails on a write. The text is that of the answer."""


@dataclass(frozen=True)
class Scope:
    """The names besides `object`, `oldObject`, `request` and `namespaceObject`: the parameters, and variables (name and
    expression), each of which may use those before it."""

    params: bool = False
    variables: tuple[tuple[str, str], ...] = ()


class Program:
    """A compiled expression. `kind` is the name of its type: BOOL, STRING, DYN, …"""

    __slots__ = ("_run", "expression", "kind")

    def __init__(self, expression: str, run: cel.Expression) -> None:
        self.expression = expression
        self.kind = run.return_type().name()
        self._run = run

    def value(self, known: Known, lost: Mapping[str, str] | None = None) -> Any:
        """Evaluate. ExpressionError if it fails; `lost` says why variables have no value."""
        try:
            found = self._run.eval(known)
            value = found.plain_value()
        except REFUSALS as error:
            raise self._failed(str(error), lost) from error
        if found.type().name() == "ERROR":
            raise self._failed(str(value), lost)
        return value

    def _failed(self, words: str, lost: Mapping[str, str] | None) -> ExpressionError:
        missing = _LOST.search(words)
        why = reason(words)
        if missing and lost:
            why = f'composited variable "{missing[1]}" fails to evaluate: {lost.get(missing[1], why)}'
        return ExpressionError(f"expression '{self.expression}' resulted in error: {why}")


@lru_cache(maxsize=CACHED)
def compiled(expression: str, scope: Scope = Scope()) -> Program:
    """Compile an expression. ExpressionError says what is wrong with it."""
    try:
        return Program(expression, _environment(scope).compile(expression))
    except REFUSALS as error:
        raise ExpressionError(f"compilation failed: {_STATUS.sub('', str(error)).strip()}") from error


def known(scope: Scope, values: Mapping[str, Any]) -> Known:
    """Convert values for the expressions of a scope. A variable's name is `variables.x`."""
    return _environment(scope).Activation(dict(values))


@lru_cache(maxsize=CACHED // 4)
def _environment(scope: Scope) -> cel.Env:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    names = dict.fromkeys(("object", "oldObject", "request", "namespaceObject"), cel.Type.DYN)
    if scope.params:
        names["params"] = cel.Type.DYN
    for number, (name, expression) in enumerate(scope.variables):
        earlier = Scope(scope.params, scope.variables[:number])
        try:
            names[f"variables.{name}"] = _environment(earlier).compile(expression).return_type()
        except REFUSALS:
            names[f"variables.{name}"] = cel.Type.DYN  # only the variable is refused, not all that use it
    extensions = [ext_bindings.ExtBindings(), ext_strings.ExtStrings(), ext_optional.ExtOptional()]
    return cel.NewEnv(variables=names, extensions=extensions)
