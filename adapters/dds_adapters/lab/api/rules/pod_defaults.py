"""What a server fills into a pod's spec, and the quality of service that follows from it."""

from typing import Any

from dds_adapters.lab.api import quantities
from dds_adapters.lab.api.kinds import Object

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


def defaulted(spec: Object) -> Object:
    """The spec with its defaults."""
    made = {**spec, **{key: value for key, value in SPEC.items() if spec.get(key) is None}}
    for group in ("containers", "initContainers", "ephemeralContainers"):
        if made.get(group):
            made[group] = [_container(container) for container in made[group]]
    if made.get("volumes"):
        made["volumes"] = [_volume(volume) for volume in made["volumes"]]
    return made


def admitted(spec: Object) -> Object:
    """The spec of a new pod with what admission adds: tolerations of failing nodes, a priority.

    PriorityClasses are not served: a pod's own `priority` counts, or that of the two classes that every cluster has.
    """
    made = {**spec, "tolerations": _tolerations(spec.get("tolerations") or [])}
    made.setdefault("priority", PRIORITIES.get(made.get("priorityClassName") or "", 0))
    made.setdefault("preemptionPolicy", "PreemptLowerPriority")
    return made


def _container(container: Object) -> Object:
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
    """A pod stays five minutes on a node that fails, unless it says otherwise itself."""
    made = list(given)
    for key in UNREADY:
        if not any(_covers(toleration, key) for toleration in given):
            made.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": UNREADY_SECONDS})
    return made


def _covers(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")


def quality(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    requests = [_counted(container, "requests") for container in containers]
    limits = [_counted(container, "limits") for container in containers]
    if not any(requests) and not any(limits):
        return "BestEffort"
    whole = all(len(limit) == len(COUNTED_FOR_QUALITY) for limit in limits)
    return "Guaranteed" if whole and requests == limits else "Burstable"


def _counted(container: Object, field: str) -> dict[str, Any]:
    amounts = (container.get("resources") or {}).get(field) or {}
    exact = {name: quantities.nanos(value) for name, value in amounts.items() if name in COUNTED_FOR_QUALITY}
    return {name: value for name, value in exact.items() if value}
