"""The scheduler's cache of claims: the informer's view, its own newer writes on top of it, and allocations in flight.

Source: pkg/scheduler/framework/plugins/dynamicresources (dra_manager.go, allocateddevices.go, dynamicresources.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dds_core.matching.usage import held
from dds_core.model import IMPLICIT
from dds_lab.actors.objects import allocation_of, reservations, results, version_of
from dds_lab.actors.scheduler.pods import Pod, units
from dds_lab.client import Object, instants
from dds_lab.time import MICROSECONDS

READY, WAITING, FAILED, TIMED_OUT = "ready", "waiting", "failed", "timed out"
MOST_RESERVATIONS = 256
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
NATIVE = ("cpu", "memory", "ephemeral-storage", "pods")


class Book:
    """The devices that count as taken: those that claims are allocated, and those of allocations in flight. `use(result)` and
    `free(result)` are called when a device, or a share of one, becomes used or free.

    Devices of claims are a set without counts: if two claims name one device, the first that lets go frees it for both. Source:
    allocateddevices.go, dra_manager.go.
    """

    def __init__(self, use: Callable[[Object], None], free: Callable[[Object], None]) -> None:
        self._use = use
        self._free = free
        self._entered: set[_Part] = set()
        self._in_flight: dict[str, Object] = {}
        self._held: dict[_Part, tuple[int, Object]] = {}

    def enter(self, allocation: Object | None) -> None:
        """A claim got this allocation."""
        for part, result in _parts(allocation):
            if part not in self._entered:
                self._entered.add(part)
                self._hold(part, result)

    def strike(self, allocation: Object | None) -> None:
        """A claim lost this allocation."""
        for part, _ in _parts(allocation):
            if part in self._entered:
                self._entered.remove(part)
                self._let_go(part)

    def take_off(self, uid: str, allocation: Object) -> None:
        """An allocation was chosen but is not written yet."""
        self.land(uid)
        self._in_flight[uid] = allocation
        for part, result in _parts(allocation):
            self._hold(part, result)

    def land(self, uid: str) -> None:
        """The allocation in flight was written or given up."""
        for part, _ in _parts(self._in_flight.pop(uid, None)):
            self._let_go(part)

    def in_flight(self, uid: str) -> bool:
        return uid in self._in_flight

    def _hold(self, part: _Part, result: Object) -> None:
        count, first = self._held.get(part, (0, result))
        self._held[part] = (count + 1, first)
        if not count:
            self._use(result)

    def _let_go(self, part: _Part) -> None:
        count, result = self._held.pop(part)
        if count > 1:
            self._held[part] = (count - 1, result)
        else:
            self._free(result)


_Part = tuple[str, str, str, str]  # driver, pool, device, shareID


def _parts(allocation: Object | None) -> Iterable[tuple[_Part, Object]]:
    for result in held(allocation or {}):
        yield (result["driver"], result["pool"], result["device"], result.get("shareID") or ""), result


class ClaimCache:
    """All claims by namespace/name. Changes of their allocations are entered in the book."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._seen: dict[str, Object] = {}
        self._ahead: dict[str, Object] = {}

    def get(self, key: str) -> Object | None:
        """The newest version of the claim that the scheduler knows."""
        return self._ahead.get(key) or self._seen.get(key)

    def seen(self, key: str, new: Object | None) -> None:
        """The informer reports the newest version of a claim, or (None) its deletion."""
        old = self.get(key)
        if new is None:
            self._seen.pop(key, None)
            self._ahead.pop(key, None)
        else:
            self._seen[key] = new
            ahead = self._ahead.get(key)
            if ahead is not None and (uid_of(ahead) != uid_of(new) or version_of(ahead) <= version_of(new)):
                del self._ahead[key]
        self._changed(old, self.get(key))

    def wrote(self, key: str, obj: Object) -> None:
        """The scheduler's own write, whose result it knows before the informer reports it."""
        old = self.get(key)
        seen = self._seen.get(key)
        if seen is None or version_of(obj) > version_of(seen):
            self._ahead[key] = obj
        self._changed(old, self.get(key))

    def take_off(self, uid: str, allocation: Object) -> None:
        self._book.take_off(uid, allocation)

    def land(self, uid: str) -> None:
        self._book.land(uid)

    def in_flight(self, uid: str) -> bool:
        return self._book.in_flight(uid)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        """Enter a new allocation, strike a removed one. If an allocation replaced another, the book keeps the old one, as the
        real scheduler does: it assumes that an allocation is immutable (allocateddevices.go, onUpdate). This happens when a
        relist missed the states between."""
        before, after = allocation_of(old), allocation_of(new)
        if old is None or new is None or uid_of(old) != uid_of(new) or before is None or after is None:
            self._book.strike(before)
            self._book.enter(after)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether one claim lets its pod be bound. `reason` and `message` are those of the condition that failed."""

    state: str
    reason: str = ""
    message: str = ""


def readiness(claim: Object, now: int, timeout: float) -> Readiness:
    """The state of the first device, in the order of results, that is not ready. `now` in microseconds, `timeout` in seconds."""
    for result in results(claim):
        wanted = result.get("bindingConditions")
        if not wanted:
            continue
        entry = _entry(claim, result)
        conditions = {one["type"]: one for one in (entry or {}).get("conditions") or ()}
        for name in result.get("bindingFailureConditions") or ():
            failure = conditions.get(name)
            if failure is not None and failure["status"] == "True":
                return Readiness(FAILED, failure.get("reason", ""), failure.get("message", ""))
        if any(conditions.get(name, {}).get("status") != "True" for name in wanted):
            began = (allocation_of(claim) or {}).get("allocationTimestamp")
            late = bool(began) and now > instants.read(str(began)) + timeout * MICROSECONDS
            return Readiness(TIMED_OUT if late else WAITING)
    return Readiness(READY)


def waits(claim: Object) -> bool:
    """Whether a device of the claim has binding conditions."""
    return any(one.get("bindingConditions") for one in results(claim))


def is_reserved_for(claim: Object, pod: Pod) -> bool:
    return any(one["uid"] == pod.uid for one in reservations(claim))


def can_be_cleared(claim: Object, pod: Pod) -> bool:
    """Whether the claim is reserved for no other pod."""
    return all(one["uid"] == pod.uid for one in reservations(claim))


def _entry(claim: Object, result: Object) -> Object | None:
    """The first status entry of the device; shareID is not compared."""
    for entry in (claim.get("status") or {}).get("devices") or ():
        if all(entry.get(name) == result.get(name) for name in ("driver", "pool", "device")):
            found: Object = entry
            return found
    return None


def uid_of(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def name_of(claim: Object) -> str:
    meta = claim["metadata"]
    return f"{meta['namespace']}/{meta['name']}"


# -- special claims: the scheduler creates them for pods that ask for devices as extended resources (KEP-5004)
# A node that has the resource in its allocatable serves it from there. For any other node, the requests of the pod's containers
# become one special claim. PreBind creates it. If PreBind fails, it is deleted; the next attempt creates one with another name.


class ExtendedResources:
    """The device class for each extended resource: of several for one resource the newest, then the first by name."""

    def __init__(self) -> None:
        self._classes: dict[str, Object] = {}
        self._by_resource: dict[str, str] = {}

    def put(self, obj: Object) -> None:
        self._classes[obj["metadata"]["name"]] = obj
        self._index()

    def drop(self, name: str) -> None:
        self._classes.pop(name, None)
        self._index()

    def class_of(self, resource: str) -> str | None:
        """The class for the resource, None if no device can serve it."""
        if resource.startswith(IMPLICIT):
            name = resource.removeprefix(IMPLICIT)
            return name if name in self._classes else None
        return self._by_resource.get(resource)

    def wanted(self, pod: Pod) -> tuple[str, ...]:
        """The pod's extended resources that devices may serve."""
        return tuple(name for name in pod.requests if is_extended(name) and self.class_of(name) is not None)

    def _index(self) -> None:
        self._by_resource = {}
        newest: dict[str, str] = {}
        for name, obj in sorted(self._classes.items()):
            resource = (obj.get("spec") or {}).get("extendedResourceName")
            created = obj["metadata"].get("creationTimestamp", "")
            if resource and (resource not in newest or created > newest[resource]):
                newest[resource] = created
                self._by_resource[resource] = name


def is_extended(resource: str) -> bool:
    return resource not in NATIVE and not resource.startswith(("hugepages-", "attachable-volumes-", "requests."))


def special_claim(pod: Pod, resources: Iterable[str], known: ExtendedResources) -> tuple[Object, list[Object]]:
    """The special claim for these resources, and the mapping of its requests to containers and resources."""
    requests: list[Object] = []
    mappings: list[Object] = []
    wanted = sorted(resources)
    spec = pod.obj["spec"]
    for place, container in enumerate([*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]):
        asked = (
            (container.get("resources") or {}).get("requests") or (container.get("resources") or {}).get("limits") or {}
        )
        for number, resource in enumerate(name for name in wanted if asked.get(name)):
            name = f"container-{place}-request-{number}"
            exactly = {
                "deviceClassName": known.class_of(resource),
                "allocationMode": "ExactCount",
                "count": units(resource, asked[resource]),
            }
            requests.append({"name": name, "exactly": exactly})
            mappings.append({"containerName": container["name"], "resourceName": resource, "requestName": name})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{pod.name}-extended-resources-",
            "namespace": pod.namespace,
            "annotations": {ANNOTATION: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }
    return claim, mappings


def is_special(claim: Object, pod: Pod) -> bool:
    """Whether the claim is a special claim of this pod."""
    meta = claim["metadata"]
    owners = meta.get("ownerReferences") or ()
    return (meta.get("annotations") or {}).get(ANNOTATION) == "true" and any(
        one.get("controller") and one["uid"] == pod.uid for one in owners
    )
