"""Namespace, ConfigMap, Secret, Lease, Node, roles and their bindings."""

import base64
from collections.abc import Iterable, Iterator
from typing import Any

from dds_lab.api import names
from dds_lab.api.kinds import RBAC, Object
from dds_lab.api.rules import causes, meta, parts
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"
LARGEST = 1024 * 1024
NODE_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NOT_READY: Object = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
CHANGEABLE = frozenset({"unschedulable", "taints", "providerID", "podCIDR", "podCIDRs", "configSource"})
"""Fields of a node's spec that an update may change."""
SUBJECTS = ("ServiceAccount", "User", "Group")


class Namespaces(BuiltIn):
    """A namespace carries its name as a label, and stays until the server has emptied it."""

    name_check: meta.NameCheck = staticmethod(names.dns_label)
    selectable_names = ("status.phase",)

    def selectable(self, obj: Object) -> dict[str, str]:
        return {"status.phase": (obj.get("status") or {}).get("phase") or ""}

    def first_status(self, obj: Object) -> Any:
        return {"phase": "Active"}

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        return _with_name_label(obj)

    def prepared(self, new: Object, old: Object | None, subresource: str) -> Object:
        if old is None:
            spec = new.get("spec") or {}
            finalizers = [name for name in spec.get("finalizers") or () if name != FINALIZER]
            new = {**new, "spec": {**spec, "finalizers": [*finalizers, FINALIZER]}}
        elif subresource != "finalize":
            new = {**new, "spec": old.get("spec") or {}}
        return new

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterable[Cause]:
        given = (new.get("spec") or {}).get("finalizers") or []
        return meta.finalizers(given, "spec.finalizers") if subresource == "finalize" else []


def _with_name_label(namespace: Object) -> Object:
    metadata = namespace["metadata"]
    name, labels = metadata.get("name"), metadata.get("labels") or {}
    if not name or labels.get(NAME_LABEL) == name:
        return namespace
    return {**namespace, "metadata": {**metadata, "labels": {**labels, NAME_LABEL: name}}}


class _Kept(BuiltIn):
    """Keyed data, which `immutable` protects from changes."""

    fields: tuple[str, ...] = ()

    def check(self, obj: Object) -> Iterator[Cause]:
        size = 0
        seen: set[str] = set()
        for field in self.fields:
            for key, value in (obj.get(field) or {}).items():
                at = f"{field}[{key}]"
                yield from causes.invalids(at, key, names.config_key(key))
                if key in seen:
                    yield causes.invalid(at, key, "duplicate of key present in data")
                seen.add(key)
                text = value or ""  # binary data may be null
                size += len(text.encode()) if field == "data" and "binaryData" in self.fields else len(text) * 3 // 4
        if size > LARGEST:
            yield causes.too_long(self.fields[0] if len(self.fields) == 1 else "", LARGEST)

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterator[Cause]:
        if old.get("immutable"):
            if not new.get("immutable"):
                yield causes.forbidden("immutable", "field is immutable when `immutable` is set")
            for field in self.fields:
                if new.get(field) != old.get(field):
                    yield causes.forbidden(field, "field is immutable when `immutable` is set")
        yield from self.check(new)


class ConfigMaps(_Kept):
    fields = ("data", "binaryData")


class Secrets(_Kept):
    """`stringData` can only be written; its values end up in `data`."""

    fields = ("data",)
    selectable_names = ("type",)

    def selectable(self, obj: Object) -> dict[str, str]:
        return {"type": obj.get("type") or ""}

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        made = obj if obj.get("type") else {**obj, "type": "Opaque"}
        if made.get("stringData"):
            encoded = {key: base64.b64encode(text.encode()).decode() for key, text in made["stringData"].items()}
            made = {key: value for key, value in made.items() if key != "stringData"}
            made["data"] = {**(made.get("data") or {}), **encoded}
        return made

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterator[Cause]:
        if new.get("type") != old.get("type"):
            yield causes.immutable("type", new.get("type"))
        yield from super().check_change(new, old, subresource)


class Leases(BuiltIn):
    def check(self, obj: Object) -> Iterator[Cause]:
        spec = obj.get("spec") or {}
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            yield causes.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
        if transitions is not None and transitions < 0:
            yield causes.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
        if spec.get("preferredHolder") and not spec.get("strategy"):
            why = "must be nil if `strategy` is nil"
            yield causes.forbidden("spec.preferredHolder", why)


class Nodes(BuiltIn):
    """A new node gets the taint not-ready, as from a real server's admission, and the status that its creator sends."""

    labels_by_status = True
    selectable_names = ("spec.unschedulable",)

    def selectable(self, obj: Object) -> dict[str, str]:
        return {"spec.unschedulable": "true" if (obj.get("spec") or {}).get("unschedulable") else "false"}

    def first_status(self, obj: Object) -> Any:
        return obj.get("status") or super().first_status(obj)

    def admitted(self, obj: Object) -> Object:
        spec = obj.get("spec") or {}
        taints = spec.get("taints") or []
        if any(all(taint.get(key) == value for key, value in NOT_READY.items()) for taint in taints):
            return obj
        return {**obj, "spec": {**spec, "taints": [*taints, dict(NOT_READY)]}}

    def check(self, obj: Object) -> Iterable[Cause]:
        return [*_check_taints((obj.get("spec") or {}).get("taints")), *_check_status(obj)]

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterator[Cause]:
        if subresource == "status":
            yield from [] if new.get("status") is old.get("status") else _check_status(new)
            return
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if spec is before:
            return
        yield from [] if spec.get("taints") is before.get("taints") else _check_taints(spec.get("taints"))
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            yield causes.forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
        fixed = {*spec, *before} - CHANGEABLE
        if any(spec.get(key) != before.get(key) for key in fixed):
            yield causes.forbidden("spec", "node updates may only change labels, taints, or capacity")


def _check_taints(taints: list[Object] | None) -> Iterator[Cause]:
    seen: set[tuple[Any, Any]] = set()
    for index, taint in enumerate(taints or ()):
        at = f"spec.taints[{index}]"
        yield from parts.taint(taint, at, NODE_EFFECTS)
        key = (taint.get("key"), taint.get("effect"))
        if key in seen:
            duplicated = causes.duplicate(at, taint)
            why = ": taints must be unique by key and effect pair"
            yield Cause(duplicated.reason, duplicated.message + why, at)
        seen.add(key)


def _check_status(obj: Object) -> Iterator[Cause]:
    status = obj.get("status") or {}
    for field in ("capacity", "allocatable"):
        for name, value in (status.get(field) or {}).items():
            yield from parts.amount(name, value, f"status.{field}[{name}]")
    seen: set[Any] = set()
    for index, address in enumerate(status.get("addresses") or ()):
        key = (address.get("type"), address.get("address"))
        if key in seen:
            yield causes.duplicate(f"status.addresses[{index}]", address)
        seen.add(key)
    yield from (
        cause
        for index, condition in enumerate(status.get("conditions") or ())
        for cause in parts.name(condition.get("type") or "", f"status.conditions[{index}].type", names.qualified_name)
    )


class Roles(BuiltIn):
    """Only roles of the cluster may name paths that are no resources."""

    name_check: meta.NameCheck = staticmethod(names.path_segment)

    def check(self, obj: Object) -> Iterable[Cause]:
        namespaced = self.resource.namespaced
        rules = obj.get("rules") or ()
        return [cause for index, rule in enumerate(rules) for cause in _rule(rule, namespaced, f"rules[{index}]")]


def _rule(rule: Object, namespaced: bool, at: str) -> Iterator[Cause]:
    if not rule.get("verbs"):
        yield causes.required(f"{at}.verbs", "verbs must contain at least one value")
    paths = rule.get("nonResourceURLs")
    if paths:
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            yield causes.invalid(f"{at}.nonResourceURLs", paths, why)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            yield causes.invalid(f"{at}.nonResourceURLs", paths, why)
        return
    if not rule.get("apiGroups"):
        yield causes.required(f"{at}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield causes.required(f"{at}.resources", "resource rules must supply at least one resource")


class Bindings(BuiltIn):
    """The role of a binding is immutable."""

    name_check: meta.NameCheck = staticmethod(names.path_segment)

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        role = obj.get("roleRef") or {}
        made = obj if role.get("apiGroup") else {**obj, "roleRef": {**role, "apiGroup": RBAC}}
        subjects = made.get("subjects")
        if subjects and any(_lacks_group(subject) for subject in subjects):
            filled = [{**subject, "apiGroup": RBAC} if _lacks_group(subject) else subject for subject in subjects]
            made = {**made, "subjects": filled}
        return made

    def check(self, obj: Object) -> Iterator[Cause]:
        role = obj.get("roleRef") or {}
        known = ("Role", "ClusterRole") if self.resource.namespaced else ("ClusterRole",)
        if role.get("apiGroup") != RBAC:
            yield causes.not_supported("roleRef.apiGroup", role.get("apiGroup") or "", (RBAC,))
        if role.get("kind") not in known:
            yield causes.not_supported("roleRef.kind", role.get("kind") or "", known)
        if not role.get("name"):
            yield causes.required("roleRef.name")
        else:
            yield from causes.invalids("roleRef.name", role["name"], names.path_segment(role["name"]))
        for index, subject in enumerate(obj.get("subjects") or ()):
            yield from _subject(subject, f"subjects[{index}]")

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterator[Cause]:
        yield from self.check(new)
        if new.get("roleRef") != old.get("roleRef"):
            yield causes.invalid("roleRef", new.get("roleRef"), "cannot change roleRef")


def _lacks_group(subject: Object) -> bool:
    return subject.get("kind") in ("User", "Group") and not subject.get("apiGroup")


def _subject(subject: Object, at: str) -> Iterator[Cause]:
    kind, name, group = subject.get("kind") or "", subject.get("name") or "", subject.get("apiGroup") or ""
    if not name:
        yield causes.required(f"{at}.name")
    if kind == "ServiceAccount":
        if name:
            yield from causes.invalids(f"{at}.name", name, names.dns_subdomain(name))
        if group:
            yield causes.not_supported(f"{at}.apiGroup", group, ("",))
        if not subject.get("namespace"):
            yield causes.required(f"{at}.namespace")
    elif kind in SUBJECTS:
        if group != RBAC:
            yield causes.not_supported(f"{at}.apiGroup", group, (RBAC,))
    else:
        yield causes.not_supported(f"{at}.kind", kind, SUBJECTS)
