"""The columns that `kubectl get` prints: a real server's for built-in kinds, the definition's for custom kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from dds_lab.api import clock as instants
from dds_lab.api.clock import MICROSECONDS
from dds_lab.api.kinds import APPS, BATCH, RBAC, Column, Object
from dds_lab.api.selectors import selector_text
from dds_lab.api.strategies import Strategy

Cell = Callable[[Object, int], Any]
"""What a cell shows of an object at an instant (µs)."""

UNKNOWN = "<unknown>"
NONE = "<none>"
UNSET = "<unset>"


class Columns:
    def __init__(self, strategy: Strategy, now: Callable[[], int]) -> None:
        self._now = now
        known = PRINTED.get(strategy.resource.key)
        if known is None:
            known = tuple((_defined(column), _shown(column)) for column in strategy.columns)
        self.definitions = [definition for definition, _ in known]
        self._cells = [cell for _, cell in known]

    def cells(self, obj: Object) -> list[Any]:
        now = self._now()
        return [cell(obj, now) for cell in self._cells]


def _column(name: str, cell: Cell, type: str = "string", priority: int = 0, format: str = "") -> tuple[Object, Cell]:
    if name == "Name":
        format = "name"
    return {"name": name, "type": type, "format": format, "description": "", "priority": priority}, cell


def _defined(column: Column) -> Object:
    format = "name" if column.name == "Name" and not column.format else column.format
    definition = {"name": column.name, "type": column.type, "format": format, "description": column.description}
    return {**definition, "priority": column.priority}


def _shown(column: Column) -> Cell:
    path = column.path

    def cell(obj: Object, now: int) -> Any:
        found = list(at(obj, path))
        if not found or found[0] is None:
            return "" if column.type == "string" else None
        if column.type == "date":
            return since(str(found[0]), now)
        if column.type in ("integer", "number", "boolean"):
            return found[0]
        return ",".join(_plain(each) for each in found)

    return cell


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def at(obj: Any, path: str) -> Iterator[Any]:
    """Values at a simple JSONPath: `.a.b`, `.a[0]`, `.a[*].b`, `.a['b.c']`, `.a[?(@.type=="x")].b`, `.a\\.b`."""
    level = [obj]
    for step in _steps(path):
        level = [found for each in level for found in _step(each, step)]
    yield from level


def _steps(path: str) -> list[str]:
    steps, at, path = [], 0, path.strip("{}")
    while at < len(path):
        if path[at] == "[":
            end = path.find("]", at)
            end = len(path) if end < 0 else end
            steps.append(path[at + 1 : end])
            at = end + 1
            continue
        at += path[at] == "."
        name = ""
        while at < len(path) and path[at] not in ".[":
            at += path[at] == "\\"
            name += path[at : at + 1]
            at += 1
        if name:
            steps.append("." + name)
    return steps


def _step(value: Any, step: str) -> list[Any]:
    if step.startswith("."):
        return [value[step[1:]]] if isinstance(value, dict) and step[1:] in value else []
    if step[:1] in ("'", '"'):
        return [value[step[1:-1]]] if isinstance(value, dict) and step[1:-1] in value else []
    if not isinstance(value, list):
        return []
    if step == "*":
        return value
    if step.startswith("?(@."):
        field, _, wanted = step[4:].rstrip(")").partition("==")
        text = wanted.strip().strip("'\"")
        return [each for each in value if isinstance(each, dict) and _plain(each.get(field.strip())) == text]
    try:
        return [value[int(step)]]
    except (ValueError, IndexError):
        return []


def since(instant: str, now: int) -> str:
    """The age as kubectl writes it (5s, 3m12s, 4h, 2d)."""
    try:
        then = datetime.fromisoformat(instant.replace("Z", "+00:00"))
    except ValueError:
        return UNKNOWN
    return duration(now // MICROSECONDS - int(then.timestamp()))


def duration(seconds: int) -> str:
    """Seconds in one or two units, as kubectl writes them."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years, rest = divmod(days, 365)
    return f"{years}y{rest}d" if years < 8 and rest else f"{years}y"


# -- built-in kinds


def _name(obj: Object, now: int) -> str:
    return str(obj["metadata"].get("name", ""))


def _age(obj: Object, now: int) -> str:
    return since(obj["metadata"].get("creationTimestamp", ""), now)


def _path(path: str, missing: str = "") -> Cell:
    def cell(obj: Object, now: int) -> Any:
        found = next(at(obj, path), None)
        return missing if found is None or found == "" else found

    return cell


def _number(path: str) -> Cell:
    def cell(obj: Object, now: int) -> Any:
        return next(at(obj, path), None) or 0

    return cell


def _count(path: str) -> Cell:
    def cell(obj: Object, now: int) -> int:
        return len(next(at(obj, path), None) or ())

    return cell


def _claim_state(obj: Object, now: int) -> str:
    status = obj.get("status") or {}
    states = []
    if obj["metadata"].get("deletionTimestamp"):
        states.append("deleted")
    if not status.get("allocation"):
        states += [] if states else ["pending"]
    else:
        states.append("allocated")
        states += ["reserved"] if status.get("reservedFor") else []
    return ",".join(states)


def _node_status(obj: Object, now: int) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    ready = next((each.get("status") for each in conditions if each.get("type") == "Ready"), None)
    words = [{"True": "Ready", "False": "NotReady"}.get(ready or "", "NotReady" if ready else "Unknown")]
    if (obj.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(obj: Object, now: int) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    return ",".join(sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))) or NONE


def _address(type: str) -> Cell:
    def cell(obj: Object, now: int) -> str:
        addresses = (obj.get("status") or {}).get("addresses") or ()
        return next((each.get("address", "") for each in addresses if each.get("type") == type), NONE)

    return cell


def _pod_ready(obj: Object, now: int) -> str:
    states = (obj.get("status") or {}).get("containerStatuses") or ()
    ready = sum(1 for each in states if each.get("ready"))
    return f"{ready}/{len((obj.get('spec') or {}).get('containers') or ())}"


def _pod_status(obj: Object, now: int) -> str:
    status = obj.get("status") or {}
    shown = status.get("reason") or status.get("phase") or ""
    for each in status.get("containerStatuses") or ():
        state = each.get("state") or {}
        for kind in ("waiting", "terminated"):
            reason = (state.get(kind) or {}).get("reason")
            shown = reason or shown
    if obj["metadata"].get("deletionTimestamp"):
        shown = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(shown)


def _pod_restarts(obj: Object, now: int) -> str:
    states = (obj.get("status") or {}).get("containerStatuses") or ()
    return str(sum(each.get("restartCount", 0) for each in states))


def _gates(obj: Object, now: int) -> str:
    gates = (obj.get("spec") or {}).get("readinessGates") or ()
    if not gates:
        return NONE
    conditions = (obj.get("status") or {}).get("conditions") or ()
    true = {each.get("type") for each in conditions if each.get("status") == "True"}
    return f"{sum(1 for gate in gates if gate.get('conditionType') in true)}/{len(gates)}"


def _involved(obj: Object, now: int) -> str:
    target = obj.get("involvedObject") or obj.get("regarding") or {}
    kind = str(target.get("kind", "")).lower()
    return f"{kind}/{target.get('name', '')}"


def _last_seen(obj: Object, now: int) -> str:
    series = (obj.get("series") or {}).get("lastObservedTime")
    seen = series or obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or obj.get("eventTime")
    return since(seen, now) if seen else UNKNOWN


def _first_seen(obj: Object, now: int) -> str:
    seen = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    return since(seen, now) if seen else UNKNOWN


def _message(obj: Object, now: int) -> str:
    return str(obj.get("message") or obj.get("note") or "").strip()


def _source(obj: Object, now: int) -> str:
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {host}" if host else str(component)


def _event_count(obj: Object, now: int) -> int:
    return int((obj.get("series") or {}).get("count") or obj.get("count") or obj.get("deprecatedCount") or 1)


def _role(obj: Object, now: int) -> str:
    reference = obj.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _ready(obj: Object, now: int) -> str:
    return f"{(obj.get('status') or {}).get('readyReplicas', 0)}/{obj['spec']['replicas']}"


def _each_container(field: str) -> Cell:
    def cell(obj: Object, now: int) -> str:
        return ",".join(str(one.get(field, "")) for one in obj["spec"]["template"]["spec"].get("containers") or ())

    return cell


def _selector(obj: Object, now: int) -> str:
    return selector_text(obj["spec"].get("selector") or {})


def _controller(obj: Object, now: int) -> str:
    for one in obj["metadata"].get("ownerReferences") or ():
        if one.get("controller"):
            return f"{one['kind'].lower()}.{one['apiVersion'].partition('/')[0]}/{one['name']}"
    return NONE


def _job_status(obj: Object, now: int) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    true = {one["type"] for one in conditions if one["status"] == "True"}
    for type in ("Complete", "Failed"):
        if type in true:
            return type
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((type for type in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if type in true), "Running")


def _completions(obj: Object, now: int) -> str:
    spec, succeeded = obj["spec"], (obj.get("status") or {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    return f"{succeeded}/1 of {spec['parallelism']}" if spec["parallelism"] > 1 else f"{succeeded}/1"


def _job_duration(obj: Object, now: int) -> str:
    status = obj.get("status") or {}
    if not status.get("startTime"):
        return ""
    ended = status.get("completionTime")
    return since(status["startTime"], instants.read(ended) if ended else now)


_NAME = _column("Name", _name)
_AGE = _column("Age", _age)
_IMAGES = (
    _column("Containers", _each_container("name"), priority=1),
    _column("Images", _each_container("image"), priority=1),
)
_SELECTOR = _column("Selector", _selector, priority=1)
_CREATED = _column("Created At", _path(".metadata.creationTimestamp", UNKNOWN), "dateTime")

PRINTED: dict[str, tuple[tuple[Object, Cell], ...]] = {
    "configmaps": (_NAME, _column("Data", _count(".data")), _AGE),
    "secrets": (_NAME, _column("Type", _path(".type")), _column("Data", _count(".data")), _AGE),
    "serviceaccounts": (_NAME, _column("Secrets", _count(".secrets")), _AGE),
    "namespaces": (_NAME, _column("Status", _path(".status.phase")), _AGE),
    "events": (
        _column("Last Seen", _last_seen),
        _column("Type", _path(".type")),
        _column("Reason", _path(".reason")),
        _column("Object", _involved),
        _column("Subobject", _path(".involvedObject.fieldPath"), priority=1),
        _column("Source", _source, priority=1),
        _column("Message", _message),
        _column("First Seen", _first_seen, priority=1),
        _column("Count", _event_count, priority=1),
        _column("Name", _name, priority=1),
    ),
    "nodes": (
        _NAME,
        _column("Status", _node_status),
        _column("Roles", _node_roles),
        _AGE,
        _column("Version", _path(".status.nodeInfo.kubeletVersion")),
        _column("Internal-IP", _address("InternalIP"), priority=1),
        _column("External-IP", _address("ExternalIP"), priority=1),
        _column("OS-Image", _path(".status.nodeInfo.osImage", UNKNOWN), priority=1),
        _column("Kernel-Version", _path(".status.nodeInfo.kernelVersion", UNKNOWN), priority=1),
        _column("Container-Runtime", _path(".status.nodeInfo.containerRuntimeVersion", UNKNOWN), priority=1),
    ),
    "pods": (
        _NAME,
        _column("Ready", _pod_ready),
        _column("Status", _pod_status),
        _column("Restarts", _pod_restarts),
        _AGE,
        _column("IP", _path(".status.podIP", NONE), priority=1),
        _column("Node", _path(".spec.nodeName", NONE), priority=1),
        _column("Nominated Node", _path(".status.nominatedNodeName", NONE), priority=1),
        _column("Readiness Gates", _gates, priority=1),
    ),
    f"deployments.{APPS}": (
        _NAME,
        _column("Ready", _ready),
        _column("Up-to-date", _number(".status.updatedReplicas"), "integer"),
        _column("Available", _number(".status.availableReplicas"), "integer"),
        _AGE,
        *_IMAGES,
        _SELECTOR,
    ),
    f"replicasets.{APPS}": (
        _NAME,
        _column("Desired", _number(".spec.replicas"), "integer"),
        _column("Current", _number(".status.replicas"), "integer"),
        _column("Ready", _number(".status.readyReplicas"), "integer"),
        _AGE,
        *_IMAGES,
        _SELECTOR,
    ),
    f"statefulsets.{APPS}": (_NAME, _column("Ready", _ready), _AGE, *_IMAGES),
    f"controllerrevisions.{APPS}": (
        _NAME,
        _column("Controller", _controller),
        _column("Revision", _number(".revision"), "integer"),
        _AGE,
    ),
    f"jobs.{BATCH}": (
        _NAME,
        _column("Status", _job_status),
        _column("Completions", _completions),
        _column("Duration", _job_duration),
        _AGE,
        *_IMAGES,
        _SELECTOR,
    ),
    "leases.coordination.k8s.io": (_NAME, _column("Holder", _path(".spec.holderIdentity")), _AGE),
    "resourceclaims.resource.k8s.io": (_NAME, _column("State", _claim_state), _AGE),
    "resourceslices.resource.k8s.io": (
        _NAME,
        _column("Node", _path(".spec.nodeName", UNSET)),
        _column("Driver", _path(".spec.driver")),
        _column("Pool", _path(".spec.pool.name")),
        _AGE,
    ),
    f"clusterroles.{RBAC}": (_NAME, _CREATED),
    f"roles.{RBAC}": (_NAME, _CREATED),
    f"clusterrolebindings.{RBAC}": (_NAME, _column("Role", _role), _AGE),
    f"rolebindings.{RBAC}": (_NAME, _column("Role", _role), _AGE),
    "customresourcedefinitions.apiextensions.k8s.io": (_NAME, _CREATED),
}
"""By storage key, in a real server's order. Other kinds show the columns of their strategy."""
