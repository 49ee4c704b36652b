"""Kubernetes Events as actors write them. An Event that cannot be written is lost, as in a real cluster."""

from random import Random

from dds_lab.actors import instants
from dds_lab.client import ApiError, Client, Object
from dds_lab.time import Time


class Teller:
    """One component's Events; the same words about the same object are counted up instead of written anew."""

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
            self._client.create("events", self._event(about, kind, reason, message, name, namespace, now))
            self._told[key] = (name, 1)
        except ApiError:
            self._told.pop(key, None)

    def _event(
        self, about: Object, kind: str, reason: str, message: str, name: str, namespace: str, now: str
    ) -> Object:
        metadata = about["metadata"]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
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
