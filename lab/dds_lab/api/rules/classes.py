"""DeviceClass and DeviceTaintRule."""

import re

from dds_lab.api import names
from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes, devices, parts
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn

CONDITIONS = 8
_EXTENDED = re.compile(r"[^/]+/[^/]+")


class DeviceClasses(BuiltIn):
    """Classes may change; allocations made by them stay."""

    counted = True

    def check(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        found = devices.selectors(spec.get("selectors"), "spec.selectors")
        found += parts.each(spec.get("config"), "spec.config", devices.CONFIGS, devices.configuration)
        name = spec.get("extendedResourceName")
        if name is not None and not _is_extended(name):
            found.append(causes.invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
        return found

    def check_change(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return [] if new.get("spec") is old.get("spec") else self.check(new)


def _is_extended(name: str) -> bool:
    """`domain/name`, of no domain that is Kubernetes' own, and short enough to be asked for in a quota."""
    domain = name.split("/")[0]
    own = domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or name.startswith("requests.")
    return bool(_EXTENDED.fullmatch(name)) and not own and not names.qualified_name(f"requests.{name}")


class DeviceTaintRules(BuiltIn):
    """Taints that an administrator puts on devices. An empty selector is every device, none is no device."""

    counted = True

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        spec = obj.get("spec") or {}
        taint, second = spec.get("taint"), self.second()
        if not taint or taint.get("timeAdded") or not second or (old is not None and spec is old.get("spec")):
            return obj
        return {**obj, "spec": {**spec, "taint": {**taint, "timeAdded": second}}}

    def check(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        selector = spec.get("deviceSelector")
        found: list[Cause] = []
        if selector is not None:
            for key, test in (("driver", devices.driver), ("pool", devices.pool), ("device", devices.device)):
                if selector.get(key) is not None:
                    found += test(selector[key], f"spec.deviceSelector.{key}")
        return found + devices.taint(spec.get("taint") or {}, "spec.taint")

    def check_change(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "status":
            conditions = (new.get("status") or {}).get("conditions") or []
            return parts.conditions(conditions, "status.conditions", CONDITIONS)
        return [] if new.get("spec") is old.get("spec") else self.check(new)
