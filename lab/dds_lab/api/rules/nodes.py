"""Node: taints, provider id, what of the spec may change."""

from typing import Any

from dds_lab.api import names
from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes, parts, resources
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NOT_READY: Object = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
CHANGEABLE = frozenset({"unschedulable", "taints", "providerID", "podCIDR", "podCIDRs", "configSource"})


class Nodes(BuiltIn):
    """Nodes. A new one is tainted as not ready, as the admission of a real server does; its status is its creator's."""

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

    def check(self, obj: Object) -> list[Cause]:
        return [*_check_taints((obj.get("spec") or {}).get("taints")), *_check_status(obj)]

    def check_change(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "status":
            return [] if new.get("status") is old.get("status") else _check_status(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if spec is before:
            return []
        found = [] if spec.get("taints") is before.get("taints") else _check_taints(spec.get("taints"))
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            found.append(
                causes.forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
            )
        fixed = {*spec, *before} - CHANGEABLE
        if any(spec.get(key) != before.get(key) for key in fixed):
            found.append(causes.forbidden("spec", "node updates may only change labels, taints, or capacity"))
        return found


def _check_taints(taints: list[Object] | None) -> list[Cause]:
    found: list[Cause] = []
    seen: set[tuple[Any, Any]] = set()
    for index, taint in enumerate(taints or ()):
        at = f"spec.taints[{index}]"
        found += parts.taint(taint, at, EFFECTS)
        key = (taint.get("key"), taint.get("effect"))
        if key in seen:
            duplicated = causes.duplicate(at, taint)
            why = ": taints must be unique by key and effect pair"
            found.append(Cause(duplicated.reason, duplicated.message + why, at))
        seen.add(key)
    return found


def _check_status(obj: Object) -> list[Cause]:
    status = obj.get("status") or {}
    found: list[Cause] = []
    for field in ("capacity", "allocatable"):
        for name, value in (status.get(field) or {}).items():
            found += resources.amount(name, value, f"status.{field}[{name}]")
    seen: set[Any] = set()
    for index, address in enumerate(status.get("addresses") or ()):
        key = (address.get("type"), address.get("address"))
        if key in seen:
            found.append(causes.duplicate(f"status.addresses[{index}]", address))
        seen.add(key)
    found += [
        cause
        for index, condition in enumerate(status.get("conditions") or ())
        for cause in parts.name(condition.get("type") or "", f"status.conditions[{index}].type", names.qualified_name)
    ]
    return found
