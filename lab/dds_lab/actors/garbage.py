"""The garbage collector of kube-controller-manager: it deletes objects whose owners are gone.

An object is deleted when none of its owners exists. While one owner exists, references to missing owners are removed. A
foreground deletion waits for the dependants that block it; an orphaning deletion first removes the references to the owner.
Decisions use live objects only; the watch only says what to check. The collector treats all kinds alike. Source:
pkg/controller/garbagecollector/garbagecollector.go.
"""

from dataclasses import dataclass
from typing import Any

from dds_lab.actors.workqueue import Finish, WorkQueue
from dds_lab.client import ApiError, Client, Mirror, Object, Resource, full_name
from dds_lab.latency import Latency, Uniform
from dds_lab.time import Time

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
WORKERS = 20
LOOK = Uniform(0.005, 0.03)
IGNORED = ("events", "leases")
"""Plurals of resources that are not watched."""

GONE, LIVING, WAITING = "gone", "living", "waiting"
"""States of an owner. WAITING: its foreground deletion waits for its dependants."""


@dataclass(frozen=True)
class Place:
    """An object's resource, namespace ("" for none) and name."""

    resource: Resource
    namespace: str
    name: str


class Garbage:
    """Collects objects of all kinds that the server has, custom resources that are defined later included."""

    def __init__(self, client: Client, time: Time, look: Latency = LOOK) -> None:
        """`look`: seconds until a queued object is checked."""
        self._client = client
        self._queue = WorkQueue(time, self._look, look, time.random("garbage"), WORKERS)
        self._mirrors: dict[str, Mirror] = {}
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._places: dict[str, Place] = {}
        self._owners: dict[str, tuple[str, ...]] = {}
        self._dependants: dict[str, dict[str, None]] = {}

    def start(self) -> None:
        self._follow_all()
        self._mirrors[DEFINITIONS].on_change(lambda old, new: self._follow_all())

    def stop(self) -> None:
        self._queue.stop()
        for mirror in self._mirrors.values():
            mirror.close()

    def _follow_all(self) -> None:
        """Watch every kind that the server has, and stop watching those that it no longer has."""
        served: dict[str, Resource] = {}
        kinds: dict[tuple[str, str], Resource] = {}
        for resource in self._client.served():
            kinds.setdefault((resource.group, resource.kind), resource)
            if resource.kept and resource.plural not in IGNORED:
                served.setdefault(resource.key, resource)
        self._kinds = kinds
        for key in [key for key in self._mirrors if key not in served]:
            self._forget_kind(key)
        for key, resource in served.items():
            if key not in self._mirrors:
                self._follow(key, resource)

    def _follow(self, key: str, resource: Resource) -> None:
        mirror = self._mirrors[key] = self._client.mirror(full_name(resource))
        mirror.follow(lambda old, new: self._changed(resource, old, new))

    def _forget_kind(self, key: str) -> None:
        mirror = self._mirrors.pop(key)
        mirror.close()
        for obj in mirror.values():
            self._gone(obj)

    def _changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._gone(old)
            return
        metadata, uid = new["metadata"], new["metadata"]["uid"]
        if uid not in self._places:
            self._places[uid] = Place(resource, metadata.get("namespace", ""), metadata["name"])
        references = metadata.get("ownerReferences") or ()
        owners = tuple(reference["uid"] for reference in references)
        if owners != self._owners.get(uid, ()):
            self._set_owners(uid, owners)
            if any(owner not in self._places for owner in owners) or metadata.get("deletionTimestamp"):
                self._queue.add(uid)
        if metadata.get("deletionTimestamp") and _policies(new):
            self._queue.add(uid)

    def _gone(self, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        self._places.pop(uid, None)
        for owner in self._owners.get(uid, ()):
            if owner in self._places:
                self._queue.add(owner)
        self._set_owners(uid, ())
        for dependant in self._dependants.get(uid, ()):
            self._queue.add(dependant)

    def _set_owners(self, uid: str, owners: tuple[str, ...]) -> None:
        for owner in self._owners.pop(uid, ()):
            dependants = self._dependants[owner]
            del dependants[uid]
            if not dependants:
                del self._dependants[owner]
        if owners:
            self._owners[uid] = owners
            for owner in dict.fromkeys(owners):
                self._dependants.setdefault(owner, {})[uid] = None

    def _look(self, uid: str, finish: Finish) -> None:
        try:
            obj = self._live(self._places.get(uid), uid)
            if obj is not None:
                self._attend(self._places[uid], obj)
            self._queue.forget(uid)
        except ApiError as error:
            if error.code == 404:
                self._queue.forget(uid)
            else:
                self._queue.retry(uid)
        finish()

    def _live(self, place: Place | None, uid: str) -> Object | None:
        """The live object, None if it is gone or has another uid."""
        if place is None:
            return None
        found = self._client.find(full_name(place.resource), place.name, place.namespace)
        return found if found is not None and found["metadata"]["uid"] == uid else None

    def _attend(self, place: Place, obj: Object) -> None:
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            if ORPHAN in _policies(obj):
                self._cut_loose(place, obj)
            elif FOREGROUND in _policies(obj):
                self._clear_way(place, obj)
            else:
                return
        if metadata.get("ownerReferences"):
            self._collect(place, obj)

    def _cut_loose(self, place: Place, owner: Object) -> None:
        """Remove all references to this owner, then its finalizer."""
        uid = owner["metadata"]["uid"]
        for dependant in list(self._dependants.get(uid, ())):
            where = self._places.get(dependant)
            obj = self._live(where, dependant)
            if where is not None and obj is not None:
                self._keep_owners(where, obj, [one for one in obj["metadata"]["ownerReferences"] if one["uid"] != uid])
        self._drop_finalizer(place, owner, ORPHAN)

    def _clear_way(self, place: Place, owner: Object) -> None:
        """Delete the dependants, then the finalizer when none of them blocks any more. Each dependant that goes queues the owner
        again."""
        uid = owner["metadata"]["uid"]
        blocked = False
        for dependant in list(self._dependants.get(uid, ())):
            where = self._places.get(dependant)
            obj = self._live(where, dependant)
            if where is None or obj is None:
                continue
            blocked |= any(one["uid"] == uid and one.get("blockOwnerDeletion") for one in _references(obj))
            if not obj["metadata"].get("deletionTimestamp"):
                self._collect(where, obj)
        if not blocked:
            self._drop_finalizer(place, owner, FOREGROUND)

    def _collect(self, place: Place, obj: Object) -> None:
        references = _references(obj)
        states = [self._state(place, reference) for reference in references]
        kept = [one for one, state in zip(references, states, strict=True) if state == LIVING]
        if kept:
            self._keep_owners(place, obj, kept)
            return
        metadata = obj["metadata"]
        if not references or metadata.get("deletionTimestamp"):
            return
        waits = WAITING in states and metadata["uid"] in self._dependants
        policy = "Foreground" if waits else _POLICY.get(next(iter(_policies(obj)), ""), "Background")
        self._client.delete(
            full_name(place.resource), place.name, place.namespace, uid=metadata["uid"],
            resource_version=metadata["resourceVersion"], propagation=policy,
        )  # fmt: skip

    def _state(self, place: Place, reference: Object) -> str:
        """The state of an owner. LIVING also if its kind is unknown, or if it is namespaced and the object is not: the real
        collector cannot decide about either and leaves the object alone."""
        group = reference["apiVersion"].rpartition("/")[0]
        resource = self._kinds.get((group, reference["kind"]))
        if resource is None or (resource.namespaced and not place.namespace):
            return LIVING
        namespace = place.namespace if resource.namespaced else ""
        owner = self._client.find(full_name(resource), reference["name"], namespace)
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            return GONE
        deleting = owner["metadata"].get("deletionTimestamp") and FOREGROUND in _policies(owner)
        return WAITING if deleting else LIVING

    def _keep_owners(self, place: Place, obj: Object, kept: list[Object]) -> None:
        if len(kept) < len(_references(obj)):
            self._patch(place, obj, {"ownerReferences": kept or None})

    def _drop_finalizer(self, place: Place, obj: Object, finalizer: str) -> None:
        left = [one for one in obj["metadata"]["finalizers"] if one != finalizer]
        self._patch(place, obj, {"finalizers": left or None})

    def _patch(self, place: Place, obj: Object, metadata: dict[str, Any]) -> None:
        guarded = {**metadata, "uid": obj["metadata"]["uid"], "resourceVersion": obj["metadata"]["resourceVersion"]}
        self._client.patch(full_name(place.resource), place.name, {"metadata": guarded}, place.namespace)


_POLICY = {FOREGROUND: "Foreground", ORPHAN: "Orphan"}


def _policies(obj: Object) -> list[str]:
    """The object's finalizers that the collector handles."""
    return [one for one in obj["metadata"].get("finalizers") or () if one in (FOREGROUND, ORPHAN)]


def _references(obj: Object) -> list[Object]:
    found: list[Object] = obj["metadata"].get("ownerReferences") or []
    return found
