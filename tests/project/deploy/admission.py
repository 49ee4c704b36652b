"""ValidatingAdmissionPolicies as an API server evaluates them, on objects as they are after the server's own defaults: match
conditions, variables in their order, validations. Only what our policies use of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

Object = dict[str, Any]
ACCOUNT = "system:serviceaccount:composable-dra:dds"
"""Whom the policies of the kustomize base are for."""
PUBLISHER_ACCOUNT = "system:serviceaccount:composable-dra:dds-publisher"
"""Whom those of the component `publisher` are for."""
KUSTOMIZE = Path(__file__).parents[3] / "deploy" / "kustomize"
FILES = {
    ACCOUNT: KUSTOMIZE / "base" / "admission.yaml",
    PUBLISHER_ACCOUNT: KUSTOMIZE / "publisher" / "publisher-admission.yaml",
}


@dataclass(frozen=True)
class Asked:
    """A write: `was` is None for a create, `object` for a deletion. `resource` may be a part of one, as in "pods/status"."""

    resource: str
    object: Object | None
    was: Object | None = None
    group: str = ""
    user: str = ACCOUNT

    @property
    def operation(self) -> str:
        return "CREATE" if self.was is None else "UPDATE" if self.object is not None else "DELETE"


@lru_cache(maxsize=4)
def policies(user: str = ACCOUNT) -> tuple[Object, ...]:
    """The policies for somebody."""
    return policies_of(FILES[user].read_text(encoding="utf-8"))


def policies_of(text: str) -> tuple[Object, ...]:
    """The policies in a file."""
    return tuple(one for one in yaml.safe_load_all(text) if one["kind"] == "ValidatingAdmissionPolicy")


@lru_cache(maxsize=1)
def _environment() -> cel.Env:
    """What a policy's expressions may name; objects are of no declared type, as in Kubernetes."""
    names = ("object", "oldObject", "request", "variables")
    extensions = [ext_strings.ExtStrings(), ext_optional.ExtOptional()]
    return cel.NewEnv(variables=dict.fromkeys(names, cel.Type.DYN), extensions=extensions)


@lru_cache(maxsize=200)
def compiled(expression: str) -> cel.Expression:
    """An expression, compiled once. Raises RuntimeError where it does not compile."""
    return _environment().compile(expression)


def denials(asked: Asked, judges: Iterable[Object] | None = None) -> list[str]:
    """Why the policies refuse a write (by default those of both accounts); none when it is let through. An expression that fails
    raises: with failurePolicy Fail that is a refusal that nobody meant."""
    known = judges if judges is not None else (*policies(), *policies(PUBLISHER_ACCOUNT))
    return [message for policy in known if _concerns(policy, asked) for message in _refused(policy["spec"], asked)]


def _concerns(policy: Object, asked: Asked) -> bool:
    return any(
        asked.group in rule["apiGroups"]
        and asked.operation in rule["operations"]
        and asked.resource in rule["resources"]
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
    )


def _refused(spec: Object, asked: Asked) -> Iterator[str]:
    known: dict[str, Any] = {
        "object": asked.object,
        "oldObject": asked.was,
        "request": {"userInfo": {"username": asked.user}, "operation": asked.operation},
        "variables": {},
    }
    if not all(_value(one["expression"], known) is True for one in spec["matchConditions"]):
        return
    for one in spec.get("variables", ()):
        found = _value(one["expression"], known)
        known = known | {"variables": {**known["variables"], one["name"]: found}}
    for one in spec["validations"]:
        if _value(one["expression"], known) is not True:
            yield one["message"]


def _value(expression: str, known: Mapping[str, Any]) -> Any:
    found = compiled(expression).eval(data=dict(known))
    if found.type().name() == "ERROR":
        raise ValueError(f"{expression}: {found.value()}")
    return found.plain_value()
