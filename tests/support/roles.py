"""Roles made from the tables of permissions, as Kubernetes objects: what the chart is held against."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from dds_adapters.kubernetes import rbac
from dds_adapters.kubernetes.rbac import (
    ALWAYS,
    AUTOSCALER,
    AUTOSCALER_RULES,
    PUBLISHER,
    PUBLISHER_RULES,
    RULES,
    USUAL,
    USUAL_AUTOSCALER,
    USUAL_PUBLISHER,
    Names,
    Rule,
    Where,
)

RBAC = "rbac.authorization.k8s.io/v1"
ACCOUNT = "dds"
"""Name of the ServiceAccount and of its roles."""

_SHARED = (rbac.EVENTS, rbac.ELECTION, rbac.REVIEWS)
_SCALER = (
    rbac.ATTACH,
    rbac.SIGNAL,
    rbac.EXCHANGE,
    rbac.CLEAR,
    rbac.LABELS,
    rbac.NUDGE,
    rbac.STAMP,
    rbac.DETACH,
)
POWERS = tuple(one.power for one in (*_SCALER, *_SHARED))
"""The names of all powers of the scaler, in the order in which they are explained."""
PUBLISHER_POWERS = tuple(one.power for one in (rbac.PUBLISH, rbac.NODE_LABELS, rbac.MACHINES, *_SHARED))
"""Those of the publisher."""
AUTOSCALER_POWERS = tuple(one.power for one in (rbac.SERVERS, rbac.CLUSTER_API, *_SHARED))
"""Those of the autoscaler."""
Powers = frozenset[str]
NOTHING: Powers = frozenset({ALWAYS})
EVERYTHING: Powers = NOTHING | frozenset(POWERS)
ALL_OF_PUBLISHER: Powers = NOTHING | frozenset(PUBLISHER_POWERS) - {rbac.MACHINES.power}
ALL_OF_AUTOSCALER: Powers = NOTHING | frozenset(AUTOSCALER_POWERS)


def rules(powers: Powers = EVERYTHING, where: Where | None = None, table: Sequence[Rule] = RULES) -> list[Rule]:
    """The rules of a table that these powers leave, of one role or of all."""
    return [rule for rule in table if rule.power in powers and where in (None, rule.where)]


def sections(chosen: Sequence[Rule]) -> list[tuple[str, list[Rule]]]:
    """The rules by power, each power's in the order of the table."""
    order = (ALWAYS, *dict.fromkeys((*POWERS, *PUBLISHER_POWERS, *AUTOSCALER_POWERS)))
    ranked = sorted(chosen, key=lambda rule: order.index(rule.power))
    return [(power, list(some)) for power, some in groupby(ranked, key=lambda rule: rule.power)]


def policy_rules(chosen: Sequence[Rule]) -> list[dict[str, Any]]:
    """PolicyRules for rules of one power, resources with the same verbs and names in one. Markers stay."""
    verbs: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for rule in chosen:
        wanted = verbs.setdefault((rule.group, rule.resource, rule.names), [])
        wanted += [verb for verb in rule.verbs if verb not in wanted]
    shapes: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, resource, names), some in verbs.items():
        shapes.setdefault((group, tuple(sorted(some)), names), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(some)}
        | ({"resourceNames": list(names)} if names else {})
        for (group, some, names), resources in shapes.items()
    ]


def role(
    where: Where,
    powers: Powers = EVERYTHING,
    names: Names = USUAL,
    name: str = ACCOUNT,
    table: Sequence[Rule] = RULES,
) -> dict[str, Any]:
    """The ClusterRole, or the Role of one of the namespaces. A rule whose markers stand for nothing is left out: without names it
    would allow every object."""
    found = [rule for _, some in sections(rules(powers, where, table)) for rule in policy_rules(some)]
    named = [
        one | {"resourceNames": list(names.of(one["resourceNames"]))} if "resourceNames" in one else one
        for one in found
    ]
    namespace = names.namespace(where)
    return {
        "apiVersion": RBAC,
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": {"name": role_name(name, where)} | ({"namespace": namespace} if namespace else {}),
        "rules": [one for one in named if one.get("resourceNames", True)],
    }


def publisher_role(
    where: Where, powers: Powers = ALL_OF_PUBLISHER, names: Names = USUAL_PUBLISHER, name: str = PUBLISHER
) -> dict[str, Any]:
    """The publisher's ClusterRole, or its Role in one of the namespaces."""
    return role(where, powers, names, name, PUBLISHER_RULES)


def autoscaler_role(
    where: Where, powers: Powers = ALL_OF_AUTOSCALER, names: Names = USUAL_AUTOSCALER, name: str = AUTOSCALER
) -> dict[str, Any]:
    """The autoscaler's."""
    return role(where, powers, names, name, AUTOSCALER_RULES)


def role_name(name: str, where: Where) -> str:
    """What a role is called. The two Roles may be in one namespace."""
    return name if where == "cluster" else f"{name}-{where}"


def binding(made: dict[str, Any], account: str, namespace: str) -> dict[str, Any]:
    """The binding that gives a role to a ServiceAccount."""
    return {
        "apiVersion": RBAC,
        "kind": f"{made['kind']}Binding",
        "metadata": dict(made["metadata"]),
        "roleRef": {"apiGroup": RBAC.partition("/")[0], "kind": made["kind"], "name": made["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
