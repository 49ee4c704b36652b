"""Pod: defaults, checks of spec and status, and what an update may change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dds_lab.api import names
from dds_lab.api.kinds import Object
from dds_lab.api.rules import causes, meta, parts
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
RESTARTS = ("Always", "OnFailure", "Never")
DNS = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
PULLS = ("Always", "IfNotPresent", "Never")
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
PREEMPTION = ("PreemptLowerPriority", "Never")
CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
IDENTITY = ("key", "operator", "value", "effect")

SPEC: Object = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}
CONTAINER: Object = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
PROBE: Object = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
FILE_MODE = 420
SOURCES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
UNREADY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
UNREADY_SECONDS = 300
PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
COUNTED_FOR_QUALITY = ("cpu", "memory")
STANDARD = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "pods"})


def defaulted(spec: Object) -> Object:
    made = {**spec, **{key: value for key, value in SPEC.items() if spec.get(key) is None}}
    for group in ("containers", "initContainers", "ephemeralContainers"):
        if made.get(group):
            made[group] = [_defaulted_container(container) for container in made[group]]
    if made.get("volumes"):
        made["volumes"] = [_volume(volume) for volume in made["volumes"]]
    return made


def admitted(spec: Object) -> Object:
    """The spec of a new pod with what admission adds: tolerations of failing nodes, and a priority. PriorityClasses are not
    served: the pod's own `priority` counts, or that of the two classes that every cluster has."""
    made = {**spec, "tolerations": _tolerations(spec.get("tolerations") or [])}
    made.setdefault("priority", PRIORITIES.get(made.get("priorityClassName") or "", 0))
    made.setdefault("preemptionPolicy", "PreemptLowerPriority")
    return made


def _defaulted_container(container: Object) -> Object:
    made = {**container, **{key: value for key, value in CONTAINER.items() if not container.get(key)}}
    if not made.get("imagePullPolicy"):
        made["imagePullPolicy"] = "Always" if _is_latest(made.get("image") or "") else "IfNotPresent"
    limits = (made.get("resources") or {}).get("limits")
    if limits:
        requests = {**limits, **(made["resources"].get("requests") or {})}
        made["resources"] = {**made["resources"], "requests": requests}
    if made.get("ports"):
        made["ports"] = [{**port, "protocol": port.get("protocol") or "TCP"} for port in made["ports"]]
    for probe in PROBES:
        if made.get(probe):
            made[probe] = {**PROBE, **{key: value for key, value in made[probe].items() if value}}
    if made.get("env"):
        made["env"] = [_variable(variable) for variable in made["env"]]
    return made


def _is_latest(image: str) -> bool:
    name = image.rpartition("/")[2]
    if "@" in name:
        return False
    _, colon, tag = name.partition(":")
    return not colon or tag == "latest"


def _variable(variable: Object) -> Object:
    reference = (variable.get("valueFrom") or {}).get("fieldRef")
    if not reference or reference.get("apiVersion"):
        return variable
    return {**variable, "valueFrom": {**variable["valueFrom"], "fieldRef": {"apiVersion": "v1", **reference}}}


def _volume(volume: Object) -> Object:
    if len(volume) < 2:
        return {**volume, "emptyDir": {}}
    for source in SOURCES_WITH_MODE:
        if volume.get(source) is not None and volume[source].get("defaultMode") is None:
            return {**volume, source: {**volume[source], "defaultMode": FILE_MODE}}
    return volume


def _tolerations(given: list[Object]) -> list[Object]:
    """A pod stays five minutes on a failing node, unless its own tolerations say otherwise."""
    made = list(given)
    for key in UNREADY:
        if not any(_covers(toleration, key) for toleration in given):
            made.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": UNREADY_SECONDS})
    return made


def _covers(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


def quality(spec: Object) -> str:
    """The pod's QoS class: Guaranteed, Burstable or BestEffort."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    requests = [_counted(container, "requests") for container in containers]
    limits = [_counted(container, "limits") for container in containers]
    if not any(requests) and not any(limits):
        return "BestEffort"
    whole = all(len(limit) == len(COUNTED_FOR_QUALITY) for limit in limits)
    return "Guaranteed" if whole and requests == limits else "Burstable"


def _counted(container: Object, field: str) -> dict[str, Any]:
    amounts = (container.get("resources") or {}).get(field) or {}
    exact = {name: names.nanos(value) for name, value in amounts.items() if name in COUNTED_FOR_QUALITY}
    return {name: value for name, value in exact.items() if value}


class Pods(BuiltIn):
    """A binding sets a pod's node. Status writes set the names of its claims and its nominated node."""

    counted = True
    labels_by_status = True
    selectable_names = (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName",
    )  # fmt: skip

    def selectable(self, obj: Object) -> dict[str, str]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        found = {f"spec.{key}": str(spec.get(key) or "") for key in ("nodeName", "restartPolicy", "schedulerName")}
        found["spec.serviceAccountName"] = spec.get("serviceAccountName") or ""
        found["spec.hostNetwork"] = "true" if spec.get("hostNetwork") else "false"
        found |= {f"status.{key}": str(status.get(key) or "") for key in ("phase", "podIP", "nominatedNodeName")}
        return found

    def first_status(self, obj: Object) -> Any:
        return {"phase": "Pending"}

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        spec = obj.get("spec")
        if not spec or (old is not None and spec is old.get("spec")):
            return obj
        return {**obj, "spec": defaulted(spec)}

    def prepared(self, new: Object, old: Object | None, subresource: str) -> Object:
        if old is not None:
            return new
        return {**new, "status": {**new["status"], "qosClass": quality(new.get("spec") or {})}}

    def admitted(self, obj: Object) -> Object:
        return {**obj, "spec": admitted(obj.get("spec") or {})}

    def check(self, obj: Object) -> Iterable[Cause]:
        return check_spec(obj.get("spec") or {})

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterable[Cause]:
        if subresource == "status":
            return _check_status(new, old)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        if spec is before or spec == before:
            return []
        return [*check_spec(spec), *_check_spec_change(spec, before)]


# -- the spec


def check_spec(spec: Object) -> Iterator[Cause]:
    """Causes against the spec of a pod, with paths from the pod on."""
    claims = frozenset(claim.get("name") or "" for claim in spec.get("resourceClaims") or ())
    volumes = frozenset(volume.get("name") or "" for volume in spec.get("volumes") or ())
    yield from parts.each(spec.get("volumes"), "spec.volumes", len(volumes) or 1 << 20, _named, "name")
    yield from parts.each(spec.get("resourceClaims"), "spec.resourceClaims", 1 << 20, _resource_claim, "name")
    if not spec.get("containers"):
        yield causes.required("spec.containers")
    seen: set[str] = set()
    for group in CONTAINERS:
        for index, container in enumerate(spec.get(group) or ()):
            at = f"spec.{group}[{index}]"
            yield from _container(container, claims, volumes, at)
            if container.get("name") in seen:
                yield causes.duplicate(f"{at}.name", container["name"])
            seen.add(container.get("name") or "")
    yield from _check_placement(spec)
    yield from _check_choices(spec)


def _named(part: Object, at: str) -> Iterable[Cause]:
    return parts.name(part.get("name") or "", f"{at}.name", names.dns_label)


def _resource_claim(claim: Object, at: str) -> Iterator[Cause]:
    yield from _named(claim, at)
    name, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
    one_of = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
    if name is None and template is None:
        yield causes.invalid(at, claim, one_of)
    elif name is not None and template is not None:
        why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        yield causes.invalid(at, claim, why)
    for key, value in (("resourceClaimName", name), ("resourceClaimTemplateName", template)):
        if value is not None:
            yield from causes.invalids(f"{at}.{key}", value, names.dns_subdomain(value))


def _container(container: Object, claims: frozenset[str], volumes: frozenset[str], at: str) -> Iterator[Cause]:
    yield from _named(container, at)
    image = container.get("image") or ""
    if not image:
        yield causes.required(f"{at}.image")
    elif image != image.strip():
        yield causes.invalid(f"{at}.image", image, "must not have leading or trailing whitespace")
    if container.get("imagePullPolicy") not in PULLS:
        yield causes.not_supported(f"{at}.imagePullPolicy", container.get("imagePullPolicy") or "", PULLS)
    yield from _resources(container.get("resources") or {}, claims, f"{at}.resources")
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield causes.required(f"{at}.env[{index}].name")
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{at}.volumeMounts[{index}]"
        if mount.get("name") not in volumes:
            yield causes.not_found(f"{where}.name", mount.get("name") or "")
        if not mount.get("mountPath"):
            yield causes.required(f"{where}.mountPath")
    for index, port in enumerate(container.get("ports") or ()):
        if not 0 < port.get("containerPort", 0) < 65536:
            where = f"{at}.ports[{index}].containerPort"
            yield causes.invalid(where, port.get("containerPort", 0), "must be between 1 and 65535, inclusive")


def _resources(given: Object, claims: frozenset[str], at: str) -> Iterator[Cause]:
    """A container's limits and requests; `claims` are the names in the pod's resourceClaims."""
    limits, requests = given.get("limits") or {}, given.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            where = f"{at}.{field}[{name}]"
            yield from parts.amount(name, value, where)
            if "/" not in name and name not in STANDARD and not name.startswith("hugepages-"):
                why = "must be a standard resource type or fully qualified"
                yield causes.invalid(where, name, why)
    for name, value in requests.items():
        where = f"{at}.requests"
        limit = limits.get(name)
        if limit is not None and names.nanos(value) > names.nanos(limit):
            yield causes.invalid(where, value, f"must be less than or equal to {name} limit of {limit}")
        elif parts.is_extended(name) and limit is None:
            yield causes.required(f"{at}.limits", "Limit must be set for non overcommitable resources")
        elif parts.is_extended(name) and names.nanos(value) != names.nanos(limit):
            yield causes.invalid(where, value, f"must be equal to {name} limit of {limit}")
    yield from _claims_of_container(given.get("claims") or [], claims, f"{at}.claims")


def _claims_of_container(given: list[Object], known: frozenset[str], at: str) -> Iterator[Cause]:
    seen: set[tuple[str, str]] = set()
    for index, claim in enumerate(given):
        name, request = claim.get("name") or "", claim.get("request") or ""
        where = f"{at}[{index}]"
        if not name:
            yield causes.required(where)
        elif name not in known:
            yield causes.not_found(where, name)
        if (
            (name, request) in seen
            or ((name, "") in seen and request)
            or (not request and any(name == one for one, _ in seen))
        ):
            yield causes.duplicate(where, f"{name}/{request}" if request else name)
        seen.add((name, request))


def _check_placement(spec: Object) -> Iterator[Cause]:
    yield from meta.labels(spec.get("nodeSelector") or {}, "spec.nodeSelector")
    if spec.get("nodeName"):
        yield from causes.invalids("spec.nodeName", spec["nodeName"], names.dns_subdomain(spec["nodeName"]))
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        at = f"spec.tolerations[{index}]"
        yield from parts.toleration(toleration, at, EFFECTS)
        if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield causes.invalid(f"{at}.effect", toleration.get("effect") or "", why)
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    at = "spec.affinity.nodeAffinity"
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        yield from parts.node_selector(required, f"{at}.requiredDuringSchedulingIgnoredDuringExecution")
    for index, term in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        if not 1 <= term.get("weight", 0) <= 100:
            where = f"{at}.preferredDuringSchedulingIgnoredDuringExecution[{index}].weight"
            yield causes.invalid(where, term.get("weight", 0), "must be in the range 1-100")


def _check_choices(spec: Object) -> Iterator[Cause]:
    for key, known in (("restartPolicy", RESTARTS), ("dnsPolicy", DNS), ("preemptionPolicy", PREEMPTION)):
        yield from parts.choice(spec.get(key), f"spec.{key}", known)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        why = "must be greater than or equal to 0"
        yield causes.invalid("spec.terminationGracePeriodSeconds", spec["terminationGracePeriodSeconds"], why)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        why = "must be between 1 and 2147483647, inclusive"
        yield causes.invalid("spec.activeDeadlineSeconds", deadline, why)
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        yield from parts.name(gate.get("name") or "", f"spec.schedulingGates[{index}].name", names.qualified_name)
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield causes.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def _check_spec_change(spec: Object, before: Object) -> Iterator[Cause]:
    after = {_identity(toleration) for toleration in spec.get("tolerations") or ()}
    if any(_identity(toleration) not in after for toleration in before.get("tolerations") or ()):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield causes.forbidden("spec.tolerations", why)
    deadline, was = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if was is not None and deadline is None:
        yield causes.invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
    elif was is not None and deadline is not None and deadline > was:
        why = "must be less than or equal to previous value"
        yield causes.invalid("spec.activeDeadlineSeconds", deadline, why)
    gates = [gate.get("name") for gate in before.get("schedulingGates") or ()]
    if any(gate.get("name") not in gates for gate in spec.get("schedulingGates") or ()):
        yield causes.forbidden("spec.schedulingGates", "only deletion is allowed, but found new scheduling gates")
    if _fixed_part(spec) != _fixed_part(before):
        yield causes.forbidden("spec", FIXED)


def _identity(toleration: Object) -> tuple[Any, ...]:
    return tuple(toleration.get(key) or "" for key in IDENTITY)


def _fixed_part(spec: Object) -> Object:
    changeable = ("tolerations", "activeDeadlineSeconds", "schedulingGates", "ephemeralContainers")
    made = {key: value for key, value in spec.items() if key not in changeable}
    for group in ("containers", "initContainers"):
        if made.get(group):
            made[group] = [{key: part for key, part in one.items() if key != "image"} for one in made[group]]
    return made


# -- the status


def _check_status(new: Object, old: Object) -> Iterator[Cause]:
    status, spec = new.get("status") or {}, new.get("spec") or {}
    if new.get("status") is old.get("status"):
        return
    nominated = status.get("nominatedNodeName") or ""
    if nominated and nominated != (old.get("status") or {}).get("nominatedNodeName"):
        yield from causes.invalids("status.nominatedNodeName", nominated, names.dns_subdomain(nominated))
    if status.get("phase") and status["phase"] not in PHASES:
        yield causes.not_supported("status.phase", status["phase"], PHASES)
    yield from _claim_statuses(status.get("resourceClaimStatuses") or [], spec)
    for index, condition in enumerate(status.get("conditions") or ()):
        at = f"status.conditions[{index}]"
        yield from causes.invalids(
            f"{at}.type", condition.get("type"), names.qualified_name(condition.get("type") or "")
        )
        if condition.get("observedGeneration", 0) < 0:
            why = "must be greater than or equal to 0"
            yield causes.invalid(f"{at}.observedGeneration", condition["observedGeneration"], why)
    yield from _extended_claim(status.get("extendedResourceClaimStatus"), spec)


def _claim_statuses(given: list[Object], spec: Object) -> Iterator[Cause]:
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[Any] = set()
    for index, entry in enumerate(given):
        at, name = f"status.resourceClaimStatuses[{index}]", entry.get("name") or ""
        if name not in known:
            yield causes.invalid(f"{at}.name", name, "must match the name of an entry in `spec.resourceClaims`")
        if name in seen:
            yield causes.duplicate(f"{at}.name", name)
        seen.add(name)
        claim = entry.get("resourceClaimName")
        if claim is not None:
            yield from causes.invalids(f"{at}.name", claim, names.dns_subdomain(claim))


def _extended_claim(given: Object | None, spec: Object) -> Iterator[Cause]:
    if given is None:
        return
    at = "status.extendedResourceClaimStatus"
    claim = given.get("resourceClaimName") or ""
    yield from parts.name(claim, f"{at}.resourceClaimName", names.dns_subdomain)
    if not given.get("requestMappings"):
        yield causes.invalid(f"{at}.requestMappings", None, "must not be empty")
    containers = {one.get("name") for group in CONTAINERS[:2] for one in spec.get(group) or ()}
    for index, mapping in enumerate(given.get("requestMappings") or ()):
        where = f"{at}.requestMappings[{index}]"
        for key, check in (("requestName", names.dns_label), ("resourceName", names.qualified_name)):
            yield from parts.name(mapping.get(key) or "", f"{where}.{key}", check)
        if mapping.get("containerName") not in containers:
            why = "must match the name of an entry in `spec.initContainers.name` or `spec.containers.name`"
            yield causes.invalid(f"{where}.containerName", mapping.get("containerName") or "", why)
