"""Checks every permission of the tables in `rbac` by a SelfSubjectAccessReview, and reports what does not work without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from dds_adapters.kubernetes import guard, rbac
from dds_adapters.kubernetes.cluster import Refused
from dds_adapters.kubernetes.doctor.api_server import GATED, taint_rule_version
from dds_adapters.kubernetes.doctor.context import ExaminationContext
from dds_adapters.kubernetes.doctor.findings import Finding, Level, ok, several, unknown
from dds_adapters.kubernetes.rbac import Names, Rule
from dds_core.autoscaler.policy import AutoscalePolicy
from dds_core.publisher.policy import PublishPolicy

_CHECK = "permissions"
_PUBLISHER = "publisher rights"
_AUTOSCALER = "autoscaler rights"
_GRANULAR = ("resourceclaims/driver", "resourceclaims/binding")


@dataclass(frozen=True)
class Asked:
    """One review: a verb on a resource, of one name or of any ("")."""

    rule: Rule
    verb: str
    name: str
    namespace: str

    def __str__(self) -> str:
        target = f"{self.rule.resource}.{self.rule.group}" if self.rule.group else self.rule.resource
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {target}{f' {self.name}' if self.name else ''}{where}"


def asked_of(rule: Rule, names: Names) -> list[Asked]:
    """The reviews for a rule: every verb on every name."""
    namespace = names.namespace(rule.where)
    return [Asked(rule, verb, name, namespace) for name in names.of(rule.names) or ("",) for verb in rule.verbs]


def names_of(context: ExaminationContext) -> Names:
    """The values of the table's markers in this cluster."""
    drivers = tuple(sorted({model.driver for model in context.config_or_usual().models}))
    own = ""
    with suppress(Refused):
        own = guard.namespace_of(context.user())
    usual = Names(
        config_namespace=context.namespace,
        lease_namespace=context.namespace,
        guard_namespace=own or context.namespace,
    )
    return replace(usual, drivers=drivers) if drivers else usual


def permissions(context: ExaminationContext) -> Iterator[Finding]:
    needed = rbac.needed(context.policy, rbac.RULES)
    yield from _table(context, _CHECK, rbac.RULES, names_of(context), needed)


def publisher_permissions(context: ExaminationContext) -> Iterator[Finding]:
    told = (rbac.MACHINES,) if context.bare_metal_hosts else ()
    rules = [rule for rule in rbac.PUBLISHER_RULES if rule.of is not rbac.MACHINES or rule.of in told]
    needed = rbac.needed(context.publishing or PublishPolicy(), rules, *told)
    names = replace(rbac.USUAL_PUBLISHER, config_namespace=context.namespace, lease_namespace=context.namespace)
    yield from _table(context, _PUBLISHER, rules, names, needed)


def autoscaler_permissions(context: ExaminationContext) -> Iterator[Finding]:
    told = (rbac.CLUSTER_API,) if context.has_machines else ()
    rules = [rule for rule in rbac.AUTOSCALER_RULES if rule.of is not rbac.CLUSTER_API or rule.of in told]
    needed = rbac.needed(context.autoscaling or AutoscalePolicy(), rules, *told)
    names = replace(rbac.USUAL_AUTOSCALER, config_namespace=context.namespace, lease_namespace=context.namespace)
    yield from _table(context, _AUTOSCALER, rules, names, needed)


def _table(
    context: ExaminationContext, check: str, rules: Sequence[Rule], names: Names, needed: frozenset[str]
) -> Iterator[Finding]:
    """One finding for each feature whose rules are all granted, and one for each rule that lacks something."""
    granted = Counter[str]()
    complete: dict[str, bool] = {}
    for rule in rules:
        asked = asked_of(rule, names)
        try:
            missing = [one for one in asked if not _granted(context, one)]
        except Refused as refused:
            mend = "let this user create selfsubjectaccessreviews (every authenticated user usually may)"
            yield unknown(check, f"the server does not say what we may ({refused.code})", mend)
            return
        granted[rule.feature] += len(asked) - len(missing)
        complete[rule.feature] = complete.get(rule.feature, True) and not missing
        if missing:
            yield Finding(check, _level(context, rule, needed), *_said(rule, missing))
    for feature, whole in complete.items():
        if whole:
            yield ok(check, f"{feature}: all {granted[feature]} granted")


def _granted(context: ExaminationContext, asked: Asked) -> bool:
    resource, subresource = asked.rule.parts
    attributes = {
        "verb": asked.verb,
        "group": asked.rule.group,
        "resource": resource,
        "subresource": subresource,
        "name": asked.name,
        "namespace": asked.namespace,
    }
    spec = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    found = context.review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", spec)
    return found.get("allowed") is True


def _said(rule: Rule, missing: list[Asked]) -> tuple[str, str]:
    lost = several(map(str, missing))
    what = f"{rule.feature} is not possible without: {lost} ({rule.call})"
    kind = "ClusterRole" if rule.where == "cluster" else "Role"
    return what, f"add it to the {kind} of this user (the chart and the kustomize base have it)"


def _level(context: ExaminationContext, rule: Rule, needed: frozenset[str]) -> Level:
    """A missing permission is a note if this policy, release or setting never uses it."""
    if (rule.resource in _GRANULAR or rule.of in (rbac.EXCHANGE, rbac.GUARD)) and 0 < context.minor() < GATED:
        return "note"
    if rule.resource == "devicetaintrules" and not taint_rule_version(context):
        return "note"
    if rule.power not in needed:
        return "note"
    return "warning" if rule.of.words or rule.of.spare else "error"
