"""Helpers of several actors to read and write API objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random

from dds_core.model import Taint, Toleration
from dds_lab.client import ApiError, Client, Mirror, Object, OnChange, instants
from dds_lab.time import Time

CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"

Key = tuple[str, str, str]  # driver, pool, device


def version_of(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def said(obj: Object, field: str) -> str:
    """A text field of the object's status, "" if it is missing."""
    found: str = (obj.get("status") or {}).get(field, "")
    return found


def with_finalizer(obj: Object, finalizer: str) -> Object:
    meta = obj["metadata"]
    return {**obj, "metadata": {**meta, "finalizers": [*(meta.get("finalizers") or ()), finalizer]}}


def without_finalizer(obj: Object, finalizer: str) -> Object:
    meta = obj["metadata"]
    left = [one for one in meta.get("finalizers") or () if one != finalizer]
    return {**obj, "metadata": {**meta, "finalizers": left}}


def condition(type: str, status: str, reason: str, message: str, now: int) -> Object:
    since = instants.written(now)
    return {"type": type, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def ready_condition(status: str, reason: str, message: str, now: str) -> Object:
    found = {"type": "Ready", "status": status, "reason": reason, "message": message}
    return {**found, "lastHeartbeatTime": now, "lastTransitionTime": now}


def node_owner(name: str, uid: str) -> Object:
    """The owner reference of an object that is deleted with its node."""
    return {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": True}


def tolerates(tolerations: Iterable[Object], taint: Object) -> bool:
    """Whether one of the tolerations covers the taint of a node or device."""
    return any(covers(one, taint) for one in tolerations)


def covers(toleration: Object, taint: Object) -> bool:
    given = [toleration.get(name) or "" for name in ("key", "operator", "value", "effect")]
    given[1] = given[1] or "Equal"
    return Toleration(*given).tolerates(Taint(taint["key"], taint.get("value") or "", taint["effect"]))


def allocation_of(claim: Object | None) -> Object | None:
    found: Object | None = ((claim or {}).get("status") or {}).get("allocation")
    return found


def results(claim: Object | None) -> list[Object]:
    """The allocated devices of the claim."""
    found: list[Object] = ((allocation_of(claim) or {}).get("devices") or {}).get("results") or []
    return found


def key_of(result: Object) -> Key:
    return result["driver"], result["pool"], result["device"]


def node_of(claim: Object | None) -> str:
    """The first node that the allocation's node selector names, "" if it names none."""
    for term in ((allocation_of(claim) or {}).get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            if one["key"] == "metadata.name" and one["operator"] == "In" and one.get("values"):
                found: str = one["values"][0]
                return found
    return ""


def reservations(claim: Object) -> list[Object]:
    found: list[Object] = (claim.get("status") or {}).get("reservedFor") or []
    return found


def claim_names(pod: Object) -> Iterator[str]:
    """The names of the pod's claims in the order of its spec, then that of the claim for its extended resources."""
    generated = {one["name"]: one.get("resourceClaimName") for one in claim_statuses(pod)}
    for entry in pod["spec"].get("resourceClaims") or ():
        name = entry.get("resourceClaimName") or generated.get(entry["name"])
        if name:
            yield name
    special = extended_claim(pod)
    if special:
        yield special


def claim_statuses(pod: Object) -> list[Object]:
    found: list[Object] = (pod.get("status") or {}).get("resourceClaimStatuses") or []
    return found


def extended_claim(pod: Object) -> str:
    """The claim that the scheduler created for the pod's extended resources, "" if there is none."""
    found = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    name: str = found.get("resourceClaimName", "")
    return name


class Formed:
    """A mirror that hides malformed objects, such as a custom resource without a spec. An object appears when `formed` becomes
    true for it, and is reported as deleted when `formed` becomes false."""

    def __init__(self, mirror: Mirror, formed: Callable[[Object], bool]) -> None:
        self._mirror = mirror
        self._formed = formed
        self.close = mirror.close

    def get(self, name: str, namespace: str = "") -> Object | None:
        obj = self._mirror.get(name, namespace)
        return obj if obj is not None and self._formed(obj) else None

    def has(self, obj: Object, name: str, namespace: str = "") -> bool:
        """Whether this is the newest version of the object, which `get` returned once."""
        return self._mirror.get(name, namespace) is obj

    def values(self) -> Iterator[Object]:
        return (one for one in self._mirror.values() if self._formed(one))

    def follow(self, call: OnChange) -> None:
        """Call `call` with every known object, and at every change."""

        def told(old: Object | None, new: Object | None) -> None:
            old, new = self._kept(old), self._kept(new)
            if old is not None or new is not None:
                call(old, new)

        self._mirror.follow(told)

    def _kept(self, obj: Object | None) -> Object | None:
        return obj if obj is not None and self._formed(obj) else None


def has_spec(obj: Object) -> bool:
    """Whether a ComposableResource is well-formed."""
    return bool(obj.get("spec"))


def has_resource(obj: Object) -> bool:
    """Whether a ComposabilityRequest is well-formed."""
    return bool((obj.get("spec") or {}).get("resource"))


class Teller:
    """Writes the Events of one component. A repeated Event increases the count of the first one. An Event that cannot be written
    is lost, as in a real cluster."""

    def __init__(self, client: Client, time: Time, component: str) -> None:
        self._client = client
        self._time = time
        self._component = component
        self._random: Random = time.random(f"events/{component}")
        self._told: dict[tuple[str, str, str], tuple[str, int]] = {}  # → name of the Event, count

    def warn(self, about: Object, reason: str, message: str) -> None:
        self._tell(about, "Warning", reason, message)

    def say(self, about: Object, reason: str, message: str) -> None:
        self._tell(about, "Normal", reason, message)

    def _tell(self, about: Object, kind: str, reason: str, message: str) -> None:
        metadata = about["metadata"]
        namespace = metadata.get("namespace") or "default"
        key = (metadata["uid"], reason, message)
        known = self._told.get(key)
        now = instants.written(self._time.now())
        try:
            if known is not None:
                name, count = known
                self._client.patch("events", name, {"count": count + 1, "lastTimestamp": now}, namespace)
                self._told[key] = (name, count + 1)
                return
            name = f"{metadata['name']}.{self._random.getrandbits(60):015x}"
            meta = {"name": name, "namespace": namespace}
            self._client.create("events", self._event(about, kind, reason, message, meta, now))
            self._told[key] = (name, 1)
        except ApiError:
            self._told.pop(key, None)

    def _event(self, about: Object, kind: str, reason: str, message: str, meta: Object, now: str) -> Object:
        metadata = about["metadata"]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": meta,
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": metadata["name"],
                **({"namespace": metadata["namespace"]} if "namespace" in metadata else {}),
                "uid": metadata["uid"],
            },
            "type": kind,
            "reason": reason,
            "message": message[:1024],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
