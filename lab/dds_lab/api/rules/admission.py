"""ValidatingAdmissionPolicy and its binding: defaults, and checks (among others that every expression compiles)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dds_lab.api import names
from dds_lab.api.expressions import ExpressionError, Scope, compiled
from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes, parts
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn
from dds_lab.api.verdicts import REASONS, scope_of

CONDITIONS = 64
VARIABLES = 64
"""A limit of the lab: a real server limits only the cost of variables."""
OPERATIONS = ("*", "CREATE", "UPDATE", "DELETE", "CONNECT")
SCOPES = ("*", "Cluster", "Namespaced")
MATCHING = ("Equivalent", "Exact")
FAILURES = ("Fail", "Ignore")
ACTIONS = ("Audit", "Deny", "Warn")
NOT_FOUND = ("Deny", "Allow")
UNSPECIFIED = "expression is not specified"
BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers "
    "serves no purpose)"
)
ONE_ITEM = "validations or auditAnnotations must contain at least one item"
EXCLUSIVE = "name and selector are mutually exclusive"

_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")


class _Admission(BuiltIn):
    """What both kinds share: defaults of the field that says what they match."""

    counted = True
    matching = ""

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        spec = obj.get("spec") or {}
        if old is not None and obj.get("spec") is old.get("spec"):
            return obj
        return {**obj, "spec": self.defaulted_spec(spec)}

    def defaulted_spec(self, spec: Object) -> Object:
        match = spec.get(self.matching)
        if match is None:
            return spec
        filled = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
        made = {**match, **{key: value for key, value in filled.items() if match.get(key) is None}}
        for key in ("resourceRules", "excludeResourceRules"):
            if match.get(key):
                made[key] = [{**each, "scope": each.get("scope") or "*"} for each in match[key]]
        return {**spec, self.matching: made}


class Policies(_Admission):
    """Policies, in CEL. A binding says to what a policy applies, and with which parameters."""

    matching = "matchConstraints"

    def defaulted_spec(self, spec: Object) -> Object:
        made = super().defaulted_spec(spec)
        return made if made.get("failurePolicy") else {**made, "failurePolicy": "Fail"}

    def check(self, obj: Object) -> Iterator[Cause]:
        spec = obj.get("spec") or {}
        yield from parts.choice(spec.get("failurePolicy"), "spec.failurePolicy", FAILURES)
        if spec.get("paramKind") is not None:
            yield from (
                causes.required(f"spec.paramKind.{key}")
                for key in ("apiVersion", "kind")
                if not spec["paramKind"].get(key)
            )
        match = spec.get("matchConstraints")
        if match is None:
            yield causes.required("spec.matchConstraints")
        else:
            yield from _check_match(match, "spec.matchConstraints")
            if not match.get("resourceRules"):
                yield causes.required("spec.matchConstraints.resourceRules")
        before = scope_of(spec, whole=False)
        conditions = spec.get("matchConditions")
        yield from parts.each(
            conditions, "spec.matchConditions", CONDITIONS, lambda each, at: _check_condition(each, at, before), "name"
        )
        yield from _check_variables(spec)
        yield from _check_validations(spec)


class PolicyBindings(_Admission):
    matching = "matchResources"

    def check(self, obj: Object) -> Iterator[Cause]:
        spec = obj.get("spec") or {}
        yield from parts.name(spec.get("policyName") or "", "spec.policyName", names.dns_subdomain)
        if spec.get("paramRef") is not None:
            yield from _check_reference(spec["paramRef"], "spec.paramRef")
        if spec.get("matchResources") is not None:
            yield from _check_match(spec["matchResources"], "spec.matchResources")
        actions = spec.get("validationActions") or []
        for number, action in enumerate(actions):
            yield from parts.choice(action, f"spec.validationActions[{number}]", ACTIONS)
        yield from parts.unique_texts(actions, "spec.validationActions")
        if {"Deny", "Warn"} <= set(actions):
            yield causes.invalid("spec.validationActions", actions, BOTH)
        if not actions:
            yield causes.required("spec.validationActions", "at least one validation action is required")


def _check_match(match: Object, at: str) -> Iterator[Cause]:
    yield from parts.choice(match.get("matchPolicy"), f"{at}.matchPolicy", MATCHING)
    for key in ("namespaceSelector", "objectSelector"):
        yield from parts.label_selector(match.get(key) or {}, f"{at}.{key}")
    for key in ("resourceRules", "excludeResourceRules"):
        for number, rule in enumerate(match.get(key) or ()):
            yield from _check_rule(rule, f"{at}.{key}[{number}]")


def _check_rule(rule: Object, at: str) -> Iterator[Cause]:
    fields = ("operations", "apiGroups", "apiVersions", "resources")
    yield from (causes.required(f"{at}.{key}") for key in fields if not rule.get(key))
    for number, operation in enumerate(rule.get("operations") or ()):
        yield from parts.choice(operation, f"{at}.operations[{number}]", OPERATIONS)
    yield from parts.choice(rule.get("scope"), f"{at}.scope", SCOPES)


def _check_condition(condition: Object, at: str, scope: Scope) -> Iterator[Cause]:
    yield from parts.name(condition.get("name") or "", f"{at}.name", names.qualified_name)
    yield from _check_expression((condition.get("expression") or "").strip(), f"{at}.expression", scope, "bool", "")


def _check_variables(spec: Object) -> Iterator[Cause]:
    """A variable may use those before it."""
    scope = scope_of(spec)
    if len(scope.variables) > VARIABLES:
        yield causes.too_many("spec.variables", len(scope.variables), VARIABLES)
        return
    for number, (name, expression) in enumerate(scope.variables):
        at = f"spec.variables[{number}]"
        if not name.strip():
            yield causes.required(f"{at}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name):
            yield causes.invalid(f"{at}.name", name, "name is not a valid CEL identifier")
        here = Scope(scope.params, scope.variables[:number])
        yield from _check_expression(expression, f"{at}.expression", here)
        if name in dict(here.variables):
            yield causes.duplicate(f"{at}.name", name)


def _check_validations(spec: Object) -> Iterator[Cause]:
    validations = spec.get("validations") or []
    if not validations and not spec.get("auditAnnotations"):
        yield from (causes.required(f"spec.{key}", ONE_ITEM) for key in ("validations", "auditAnnotations"))
        return
    scope = scope_of(spec)
    if len(scope.variables) > VARIABLES:
        return
    for number, each in enumerate(validations):
        at, message = f"spec.validations[{number}]", each.get("message") or ""
        yield from _check_expression(each.get("expression") or "", f"{at}.expression", scope, "bool")
        if each.get("messageExpression"):
            yield from _check_expression(each["messageExpression"], f"{at}.messageExpression", scope, "string")
        if message and not message.strip():
            yield causes.invalid(f"{at}.message", message, "message must be non-empty if specified")
        elif "\n" in message.strip():
            yield causes.invalid(f"{at}.message", message, "message must not contain line breaks")
        if each.get("reason") is not None:
            yield from parts.choice(each["reason"], f"{at}.reason", sorted(REASONS))


def _check_expression(text: str, at: str, scope: Scope, kind: str = "", missing: str = UNSPECIFIED) -> Iterable[Cause]:
    """It must compile and evaluate to `kind` (to any type if empty)."""
    if not text.strip():
        return [causes.required(at, missing)]
    try:
        program = compiled(text, scope)
    except ExpressionError as problem:
        return [causes.invalid(at, text, problem.what)]
    return [] if kind in ("", program.kind.lower()) else [causes.invalid(at, text, f"must evaluate to {kind}")]


def _check_reference(reference: Object, at: str) -> Iterator[Cause]:
    name, selector = reference.get("name") or "", reference.get("selector")
    if name:
        yield from causes.invalids(f"{at}.name", name, names.path_segment(name))
    if selector is not None:
        yield from parts.label_selector(selector, f"{at}.selector")
    if name and selector is not None:
        yield from (causes.forbidden(f"{at}.{key}", EXCLUSIVE) for key in ("name", "selector"))
    if not name and selector is None:
        yield causes.required(at, "one of name or selector must be specified")
    yield from parts.choice(reference.get("parameterNotFoundAction"), f"{at}.parameterNotFoundAction", NOT_FOUND)
