"""Delete and deletecollection: preconditions, grace, finalizers, and the content of namespaces and definitions.

Owners and dependants do not count here: a garbage collector follows them.
"""

from typing import Any

from dds_lab.api import clock as instants
from dds_lab.api import status
from dds_lab.api.clock import MICROSECONDS, Clock
from dds_lab.api.kinds import EXTENSIONS, RESOURCE, Object, Resource
from dds_lab.api.reading import Reader
from dds_lab.api.registry import OWN_NAMES, Registry
from dds_lab.api.requests import Call, Outcome
from dds_lab.api.store import Record, Store
from dds_lab.api.writing import TERMINATING, Admission, admit

POD_GRACE_SECONDS = 30
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
NAMESPACES = "namespaces"
PODS = "pods"
IMMORTAL = frozenset({"default", "kube-public", "kube-system"})
"""Namespaces that cannot be deleted."""
DEFINITIONS = f"customresourcedefinitions.{EXTENSIONS}"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer of definitions, for the removal of their objects, which is done here."""
FINALIZER_OF = {"Foreground": FOREGROUND, "Orphan": ORPHAN}

SHOWS_DELETED = frozenset({PODS, "serviceaccounts"})
"""Kinds whose deletion is answered with the object instead of a Status, like those of resource.k8s.io."""


class Deleter:
    def __init__(
        self, store: Store, registry: Registry, clock: Clock, reader: Reader, admission: list[Admission]
    ) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._reader = reader
        self._admission = admission

    def delete(self, call: Call) -> Outcome:
        """Remove one object, or mark it if a finalizer or its grace period keeps it."""
        record = self._store.get(call.resource.key, call.path)
        if record is None:
            raise status.not_found(call.resource, call.name)
        if call.resource.key == NAMESPACES and call.name in IMMORTAL:
            why = f'namespaces "{call.name}" is forbidden: this namespace may not be deleted'
            raise status.forbidden(why, status.details_of(call.resource, call.name))
        _check_preconditions(call, record.object["metadata"])
        admit(self._admission, call, record.object, None)
        return self._removed(call, record)

    def collection(self, call: Call) -> Outcome:
        """Delete every object that the selectors match. The answer lists them as they were."""
        found = self._reader.page(call)
        assert found.page is not None
        for record in found.page.records:
            each = _for_one(call, record.object["metadata"], call.resource)
            if self._store.get(call.resource.key, each.path) is not None:
                admit(self._admission, each, record.object, None)
                self._removed(each, record)
        return found

    def _removed(self, call: Call, record: Record) -> Outcome:
        resource, obj = call.resource, record.object
        strategy = self._registry.strategy(resource)
        grace = _grace(call, obj)
        finalizers = _finalizers(call, obj)
        if resource.key in (NAMESPACES, DEFINITIONS):
            return self._emptied(call, record)
        if not finalizers and grace == 0:
            if call.deleting.dry_run:
                return _answer(resource, strategy.from_storage(obj))
            if resource.key == PODS and (marked := self._marked(obj, 0, finalizers)) is not obj:
                self._store.put(resource.key, call.path, marked)  # whoever watches sees it marked, then gone
            gone = self._store.remove(resource.key, call.path)
            return _answer(resource, strategy.from_storage(gone.object))
        marked = self._marked(obj, grace, finalizers)
        if marked is obj or call.deleting.dry_run:
            return Outcome(object=strategy.from_storage(marked), record=record if marked is obj else None)
        kept = self._store.put(resource.key, call.path, marked)
        return Outcome(object=strategy.from_storage(kept.object), record=kept)

    def _marked(self, obj: Object, grace: int, finalizers: list[str]) -> Object:
        """The object marked for deletion; the same object if it is marked already and nothing changes."""
        meta = obj["metadata"]
        if meta.get("deletionTimestamp"):
            return _marked_again(obj, grace, finalizers)
        due = self._clock.now() + grace * MICROSECONDS
        changed = {**meta, "deletionTimestamp": instants.written(due), "deletionGracePeriodSeconds": grace}
        if finalizers:
            changed["finalizers"] = finalizers
        if meta.get("generation"):
            changed["generation"] = meta["generation"] + 1
        return {**obj, "metadata": changed}

    def _emptied(self, call: Call, record: Record) -> Outcome:
        """Mark a namespace or a definition and delete its content. It goes once nothing is left."""
        obj, key = record.object, call.resource.key
        strategy = self._registry.strategy(call.resource)
        if call.deleting.dry_run:
            return Outcome(object=strategy.from_storage(obj))
        if not obj["metadata"].get("deletionTimestamp"):
            marked = self._marked(obj, 0, obj["metadata"].get("finalizers") or [])
            if key == NAMESPACES:
                marked = {**marked, "status": {**(obj.get("status") or {}), "phase": TERMINATING}}
            record = self._store.put(key, call.path, marked)
        for resource, path in self._content(key, call.name):
            found = self._store.get(resource.key, path)
            if found is not None:
                self._removed(_for_one(call, found.object["metadata"], resource), found)
        self.end(key, call.name)
        return Outcome(object=strategy.from_storage(record.object), record=record)

    def _content(self, key: str, name: str) -> list[tuple[Resource, str]]:
        """Everything in a namespace, or of a custom kind."""
        if key == DEFINITIONS:
            paths = self._store.table(name).paths if name not in OWN_NAMES else []
            return [(self._registry.by_key(name), path) for path in paths] if paths else []
        prefix = f"{name}/"
        found = [(each, path) for each in self._store.known() for path in self._store.table(each).under(prefix)]
        resources = {each: self._registry.by_key(each) for each, _ in found}
        return [(resources[each], path) for each, path in found if resources[each].namespaced]

    def end(self, key: str, name: str) -> None:
        """Remove a namespace or a definition that is marked and empty, unless a finalizer keeps it."""
        record = self._store.get(key, name)
        if record is None or not record.object["metadata"].get("deletionTimestamp"):
            return
        kept_by = set(record.object["metadata"].get("finalizers") or ()) - {CLEANUP}
        if not kept_by and not self._content(key, name):
            self._store.remove(key, name)


def _for_one(call: Call, meta: Object, resource: Resource) -> Call:
    return Call(
        verb="delete", resource=resource, user=call.user, namespace=meta.get("namespace", ""), name=meta["name"],
        deleting=call.deleting,
    )  # fmt: skip


def _marked_again(obj: Object, grace: int, finalizers: list[str]) -> Object:
    """A shorter grace period brings the end forward, counted from the first request; a longer one has no effect."""
    meta = obj["metadata"]
    changed = dict(meta)
    waits = meta.get("deletionGracePeriodSeconds") or 0
    if grace < waits:
        due = instants.read(meta["deletionTimestamp"]) + (grace - waits) * MICROSECONDS
        changed |= {"deletionTimestamp": instants.written(due), "deletionGracePeriodSeconds": grace}
    if finalizers != (meta.get("finalizers") or []):
        changed["finalizers"] = finalizers
    return obj if changed == meta else {**obj, "metadata": changed}


def _check_preconditions(call: Call, meta: Object) -> None:
    options = call.deleting
    if options.uid is not None and options.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise status.conflict(call.resource, call.name, why, kind=call.resource.kind)
    if options.version is not None and options.version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in record "
            f"({meta['resourceVersion']}). The object might have been modified"
        )
        raise status.conflict(call.resource, call.name, why, kind=call.resource.kind)


def _grace(call: Call, obj: Object) -> int:
    """Seconds. Only pods have any, while they are on a node and have not ended: as the caller or the spec says, else 30."""
    if call.resource.key != PODS:
        return 0
    spec: dict[str, Any] = obj.get("spec") or {}
    if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    if call.deleting.grace is not None:
        return max(0, call.deleting.grace)
    return int(spec.get("terminationGracePeriodSeconds", POD_GRACE_SECONDS))


def _finalizers(call: Call, obj: Object) -> list[str]:
    """The finalizers after this deletion. Its propagation policy replaces that of an earlier one."""
    had: list[str] = list(obj["metadata"].get("finalizers") or [])
    policy = call.deleting.propagation
    if not policy:
        return had
    wanted = FINALIZER_OF.get(policy)
    kept = [each for each in had if each not in (FOREGROUND, ORPHAN)]
    return [*kept, wanted] if wanted else kept


def _answer(resource: Resource, obj: Object) -> Outcome:
    if resource.group == RESOURCE or resource.key in SHOWS_DELETED:
        return Outcome(object=obj)
    meta = obj["metadata"]
    return Outcome(object=status.success(status.details_of(resource, meta["name"], uid=meta["uid"])))
