"""Events in both forms: that of the core group, in which they are stored, and that of events.k8s.io."""

from collections.abc import Iterator, Mapping

from dds_lab.api import names
from dds_lab.api.decoding import decoded
from dds_lab.api.kinds import Object
from dds_lab.api.packed import kind_node
from dds_lab.api.rules import causes
from dds_lab.api.status import Cause
from dds_lab.api.strategies import BuiltIn

CORE_NAMES: Mapping[str, str] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""Fields of events.k8s.io and their names in the core group. Other fields have the same name in both."""
NEW_NAMES = {core: new for new, core in CORE_NAMES.items()}
TYPES = ("Normal", "Warning")
WORD_LENGTH = 128
NOTE_LENGTH = 1024
CLUSTER_NAMESPACE = "default"
REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
FIXED = ("involvedObject", "related", "reason", "message", "action", "eventTime", "type", "reportingComponent",
         "reportingInstance")  # fmt: skip


class Events(BuiltIn):
    selectable_names = (
        *(f"involvedObject.{key}" for key in REFERENCE), "reason", "reportingComponent", "source", "type",
    )  # fmt: skip

    def selectable(self, obj: Object) -> dict[str, str]:
        involved, source = obj.get("involvedObject") or {}, obj.get("source") or {}
        found = {f"involvedObject.{key}": involved.get(key) or "" for key in REFERENCE}
        found |= {key: obj.get(key) or "" for key in ("reason", "reportingComponent", "type")}
        return found | {"source": source.get("component") or obj.get("reportingComponent") or ""}

    def check(self, obj: Object) -> list[Cause]:
        return _check_namespace(obj)

    def check_change(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return _check_namespace(new)


class NewEvents(Events):
    """Events of events.k8s.io: the same objects with other field names and stricter rules."""

    selectable_names = (*(f"regarding.{key}" for key in REFERENCE), "reason", "reportingController", "type")

    def selectable(self, obj: Object) -> dict[str, str]:
        found = super().selectable(obj)
        made = {f"regarding.{key}": found[f"involvedObject.{key}"] for key in REFERENCE}
        return {
            **made,
            "reason": found["reason"],
            "type": found["type"],
            "reportingController": found["reportingComponent"],
        }

    def to_storage(self, obj: Object) -> Object:
        if obj.get("apiVersion") == "v1":
            return obj  # converted already: a write calls this more than once
        made = {CORE_NAMES.get(key, key): value for key, value in obj.items()}
        full, _ = decoded(kind_node("", "v1", "Event"), {**made, "apiVersion": "v1", "kind": "Event"})
        return dict(full)

    def from_storage(self, obj: Object) -> Object:
        made = {NEW_NAMES.get(key, key): value for key, value in obj.items()}
        full, _ = decoded(self.schema, {**made, "apiVersion": self.resource.api_version, "kind": "Event"})
        return dict(full)

    def check(self, obj: Object) -> list[Cause]:
        return [*_check_namespace(obj), *_check_strictly(obj)]

    def check_change(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        found = [
            causes.immutable(NEW_NAMES.get(key, key), new.get(key)) for key in FIXED if new.get(key) != old.get(key)
        ]
        return [*_check_namespace(new), *found]


def _check_namespace(obj: Object) -> list[Cause]:
    namespace = obj["metadata"].get("namespace") or ""
    involved = (obj.get("involvedObject") or {}).get("namespace") or ""
    if not involved and namespace not in (CLUSTER_NAMESPACE, "kube-system"):
        return [causes.invalid("involvedObject.namespace", involved, "does not match event.namespace")]
    if involved and involved != namespace:
        return [causes.invalid("involvedObject.namespace", involved, "does not match event.namespace")]
    return []


def _check_strictly(obj: Object) -> Iterator[Cause]:
    if not obj.get("eventTime"):
        yield causes.required("eventTime")
    controller = obj.get("reportingComponent") or ""
    if not controller:
        yield causes.required("reportingController")
    yield from causes.invalids("reportingController", controller, names.qualified_name(controller))
    for key in ("reportingInstance", "action", "reason"):
        value = obj.get(key) or ""
        if not value:
            yield causes.required(key)
        elif len(value) > WORD_LENGTH:
            yield causes.invalid(key, "", f"can have at most {WORD_LENGTH} characters")
    if len(obj.get("message") or "") > NOTE_LENGTH:
        yield causes.invalid("message", "", f"can have at most {NOTE_LENGTH} characters")
    if obj.get("type") not in TYPES:
        yield causes.invalid("type", "", "has invalid value: " + str(obj.get("type") or ""))
