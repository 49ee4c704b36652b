"""Enforces the stored ValidatingAdmissionPolicies: finds those that apply to a write, and their parameters.

A policy applies through its bindings, as soon as both are stored (on a real server a moment later). Only Deny has an effect:
the actions Warn and Audit, and audit annotations, are only stored. `verdicts` evaluates a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from dds_lab.api import selectors, status
from dds_lab.api.expressions import ExpressionError
from dds_lab.api.kinds import ADMISSION, EXTENSIONS, Object, Resource
from dds_lab.api.registry import Registry
from dds_lab.api.requests import Call
from dds_lab.api.status import ApiError, Cause
from dds_lab.api.store import Change, Store
from dds_lab.api.verdicts import REASONS, Denied, verdict

POLICIES = f"validatingadmissionpolicies.{ADMISSION}"
BINDINGS = f"validatingadmissionpolicybindings.{ADMISSION}"
DEFINITIONS = f"customresourcedefinitions.{EXTENSIONS}"
NAMESPACES = "namespaces"


class Bound(msgspec.Struct, frozen=True):
    """A policy with one of its bindings."""

    policy: str
    spec: Object
    name: str
    binding: Object


class Write(msgspec.Struct, frozen=True):
    """A write before it is stored, in the stored shape."""

    call: Call
    old: Object | None
    new: Object | None

    @property
    def operation(self) -> str:
        return "CREATE" if self.old is None else "DELETE" if self.new is None else "UPDATE"

    @property
    def object(self) -> Object:
        """The new object; the old one of a deletion."""
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found

    @property
    def name(self) -> str:
        return str(self.call.name or self.object["metadata"].get("name") or "")


def rule_meets(rule: Object, resource: Resource, subresource: str, operation: str, name: str | None = None) -> bool:
    """Whether a rule matches a write; without `name`, whatever the object's name."""

    def has(field: str, value: str) -> bool:
        given = rule.get(field) or ()
        return "*" in given or value in given

    scope = "Namespaced" if resource.namespaced else "Cluster"
    named = not rule.get("resourceNames") or name is None or name in rule["resourceNames"]
    return (
        named
        and (rule.get("scope") or "*") in ("*", scope)
        and has("operations", operation)
        and has("apiGroups", resource.group)
        and has("apiVersions", resource.version)
        and any(_target_meets(target, resource.plural, subresource) for target in rule.get("resources") or ())
    )


def _target_meets(target: str, plural: str, subresource: str) -> bool:
    resource, _, part = target.partition("/")
    return resource in ("*", plural) and part in ("*", subresource)


class Policies:
    """The admission hook that asks the stored policies about every write."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._bound: list[Bound] | None = []
        self._concerned: dict[tuple[Resource, str, str], list[tuple[Bound, Resource]]] = {}
        self.on_verdict: Callable[[Call, str, list[Denied]], None] | None = None
        """Called with a write, a policy whose match conditions hold for it, and the policy's refusals."""
        for key in (POLICIES, BINDINGS, DEFINITIONS):
            store.subscribe(key, self._forget)

    def judge(self, call: Call, old: Object | None, new: Object | None) -> list[Cause] | None:
        """ApiError if a policy refuses the write, with the first refusal."""
        if self._bound is None:
            self._bound = self._read()
        if not self._bound or call.resource.group == ADMISSION:
            return None
        write = Write(call, old, new)
        denied = [each for bound, resource in self._concerning(write) for each in self._denied(bound, resource, write)]
        if denied:
            raise _refusal(write, *denied[0])
        return None

    def _forget(self, change: Change) -> None:
        self._bound = None
        self._concerned.clear()

    def _read(self) -> list[Bound]:
        """Every binding whose policy exists, by the names of both."""
        policies = self._store.table(POLICIES).records
        bindings = self._store.table(BINDINGS)
        found = []
        for path in bindings.paths:
            binding = bindings.records[path].object["spec"]
            policy = policies.get(binding["policyName"])
            if policy is not None:
                found.append(Bound(binding["policyName"], policy.object["spec"], path, binding))
        return sorted(found, key=lambda bound: (bound.policy, bound.name))

    def _concerning(self, write: Write) -> list[tuple[Bound, Resource]]:
        """The policies whose rules match such writes, each with the version in which it sees the object."""
        key = (write.call.resource, write.call.subresource, write.operation)
        found = self._concerned.get(key)
        if found is None:
            found = []
            for bound in self._bound or ():
                seen = self._matched(bound.spec.get("matchConstraints") or {}, write, named=False)
                found += [(bound, seen)] if seen is not None else []
            self._concerned[key] = found
        return found

    def _matched(self, match: Object, write: Write, named: bool = True) -> Resource | None:
        """The resource in the version in which a rule matches the write (without rules, as requested); None if none does."""
        rules = match.get("resourceRules")
        versions = [write.call.resource]
        if match.get("matchPolicy") != "Exact":
            versions += [each for each in self._registry.resources() if each.key == write.call.resource.key]
        about = (write.call.subresource, write.operation, write.name if named else None)
        if named and any(
            rule_meets(each, seen, *about) for each in match.get("excludeResourceRules") or () for seen in versions
        ):
            return None
        if not rules:
            return write.call.resource
        return next((seen for seen in versions for each in rules if rule_meets(each, seen, *about)), None)

    def _selected(self, match: Object, write: Write) -> bool:
        """Whether the selectors match the object and its namespace."""
        by_label = match.get("objectSelector")
        if by_label and not any(
            selectors.selects(by_label, each["metadata"].get("labels") or {}) for each in (write.new, write.old) if each
        ):
            return False
        by_namespace = match.get("namespaceSelector")
        namespace = write.object if write.call.resource.key == NAMESPACES else self._namespace(write)
        labels = (namespace or {}).get("metadata", {}).get("labels") or {}
        return not by_namespace or namespace is None or selectors.selects(by_namespace, labels)

    def _namespace(self, write: Write) -> Object | None:
        found = self._store.get(NAMESPACES, write.call.namespace) if write.call.resource.namespaced else None
        return found.object if found is not None else None

    def _denied(self, bound: Bound, resource: Resource, write: Write) -> Iterable[tuple[Bound, Denied]]:
        matches = [bound.spec.get("matchConstraints") or {}, bound.binding.get("matchResources") or {}]
        if not all(self._matched(match, write) is not None and self._selected(match, write) for match in matches):
            return
        try:
            params = self._params(bound, write.call.namespace)
        except ExpressionError as problem:
            if bound.spec.get("failurePolicy") != "Ignore":
                yield bound, Denied(problem.what)
            return
        values = self._values(write, resource) if params else {}
        for param in params:
            known = {**values, "params": param} if bound.spec.get("paramKind") is not None else values
            found = verdict(bound.spec, known)
            if found is None:
                continue
            if self.on_verdict is not None:
                self.on_verdict(write.call, bound.policy, found)
            if "Deny" in (bound.binding.get("validationActions") or ()):
                yield from ((bound, each) for each in found)

    def _values(self, write: Write, resource: Resource) -> dict[str, Any]:
        """The values that expressions may use, objects in the version of `resource`."""
        strategy = self._registry.strategy(resource)
        return {
            "object": None if write.new is None else strategy.from_storage(write.new),
            "oldObject": None if write.old is None else strategy.from_storage(write.old),
            "request": _request(write, resource),
            "namespaceObject": self._namespace(write),
        }

    def _params(self, bound: Bound, namespace: str) -> list[Object | None]:
        """The parameters to evaluate with, one after the other; [None] if the policy or its binding has none. ExpressionError
        if none is found and that counts as a failure."""
        kind, reference = bound.spec.get("paramKind"), bound.binding.get("paramRef")
        if kind is None or reference is None:
            return [None]
        wanted = (kind.get("apiVersion"), kind.get("kind"))
        resource = next((each for each in self._registry.resources() if (each.api_version, each.kind) == wanted), None)
        if resource is None:
            raise ExpressionError(
                f"failed to configure binding: paramKind kind `{wanted[0]}, Kind={wanted[1]}` not known"
            )
        within = (reference.get("namespace") or namespace) if resource.namespaced else ""
        if resource.namespaced and not within:
            why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            raise ExpressionError(f"failed to configure binding: {why}")
        prefix, table = f"{within}/" if within else "", self._store.table(resource.key)
        paths = [f"{prefix}{reference['name']}"] if reference.get("name") else table.under(prefix)
        records = [table.records[path] for path in paths if path in table.records]
        if not reference.get("name"):
            wants = reference.get("selector") or {}
            records = [
                each for each in records if selectors.selects(wants, each.object["metadata"].get("labels") or {})
            ]
        if not records and reference.get("parameterNotFoundAction") == "Deny":
            why = "no params found for policy binding with `Deny` parameterNotFoundAction"
            raise ExpressionError(f"failed to configure binding: {why}")
        return [self._registry.strategy(resource).from_storage(each.object) for each in records]


def _request(write: Write, resource: Resource) -> Object:
    """The variable `request`, without `uid` and `options`. Empty fields are left out, so that `has()` works."""
    call, user = write.call, write.call.user
    asked = call.resource
    who = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    request = {
        "kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
        "subResource": call.subresource,
        "requestKind": {"group": asked.group, "version": asked.version, "kind": asked.kind},
        "requestResource": {"group": asked.group, "version": asked.version, "resource": asked.plural},
        "requestSubResource": call.subresource,
        "name": write.name,
        "namespace": call.namespace,
        "operation": write.operation,
        "userInfo": {key: value for key, value in who.items() if value},
    }
    kept = {key: value for key, value in request.items() if value}
    return {**kept, "dryRun": call.writing.dry_run or call.deleting.dry_run}


def _refusal(write: Write, bound: Bound, denied: Denied) -> ApiError:
    """A real server's message, which says "forbidden" whatever the code."""
    resource = write.call.resource
    words = f"ValidatingAdmissionPolicy '{bound.policy}' with binding '{bound.name}' denied request: {denied.message}"
    details = status.details_of(resource, write.name, causes=[{"message": words}])
    message = f'{resource.name} "{write.name}" is forbidden: {words}'
    return ApiError(REASONS[denied.reason], denied.reason, message, details)
