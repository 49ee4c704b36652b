"""Our ValidatingAdmissionPolicies, asked by the lab's evaluator about objects that need not be whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from dds_lab.api.kinds import Resource
from dds_lab.api.policies import rule_meets
from dds_lab.api.verdicts import verdict

Object = dict[str, Any]
ACCOUNT = "system:serviceaccount:composable-dra:dds"
"""Whom the policies of the kustomize base are for."""
PUBLISHER_ACCOUNT = "system:serviceaccount:composable-dra:dds-publisher"
"""Whom those of the component `publisher` are for."""
AUTOSCALER_ACCOUNT = "system:serviceaccount:composable-dra:dds-autoscaler"
"""And those of the component `autoscaler`."""
KUSTOMIZE = Path(__file__).parents[3] / "deploy" / "kustomize"
FILES = {
    ACCOUNT: KUSTOMIZE / "base" / "admission.yaml",
    PUBLISHER_ACCOUNT: KUSTOMIZE / "publisher" / "publisher-admission.yaml",
    AUTOSCALER_ACCOUNT: KUSTOMIZE / "autoscaler" / "autoscaler-admission.yaml",
}


@dataclass(frozen=True)
class Asked:
    """A write: `was` is None for a create, `object` for a deletion. `resource` may be a part of one, as in "pods/status". `dry`:
    as a dry run."""

    resource: str
    object: Object | None
    was: Object | None = None
    group: str = ""
    user: str = ACCOUNT
    dry: bool = False

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


def denials(asked: Asked, judges: Iterable[Object] | None = None) -> list[str]:
    """Why the policies refuse a write (by default those of all accounts); none when it is let through."""
    known = judges if judges is not None else [one for account in FILES for one in policies(account)]
    values = {
        "object": asked.object,
        "oldObject": asked.was,
        "request": {"userInfo": {"username": asked.user}, "operation": asked.operation, "dryRun": asked.dry},
    }
    found = [verdict(policy["spec"], values) or () for policy in known if _concerns(policy, asked)]
    return [denied.message for each in found for denied in each]


def _concerns(policy: Object, asked: Asked) -> bool:
    plural, _, subresource = asked.resource.partition("/")
    resource = Resource(asked.group, "v1", plural, plural, "", True)
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    return any(rule_meets(rule, resource, subresource, asked.operation) for rule in rules)
