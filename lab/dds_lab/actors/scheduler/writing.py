"""The scheduler's writes to pods: the condition PodScheduled, the nomination, bindings, events. Except for `bind`, a failed
write is ignored: the next attempt starts from the cluster as it is then."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from dds_lab.actors.scheduler.pods import Object, Pod
from dds_lab.client import ApiError, Client, instants
from dds_lab.time import MICROSECONDS

EVENT_MEMORY = 360 * MICROSECONDS  # how long the event recorder merges events of one pod and reason


@dataclass(slots=True)
class _Told:
    at: int
    name: str
    repeated: bool = False


class PodWrites:
    """`clock`: the scheduler's own. `seen`: called with the pod as the server stored it."""

    def __init__(
        self, client: Client, clock: Callable[[], int], seen: Callable[[Object], None], random: Random, host: str
    ) -> None:
        self._client = client
        self._clock = clock
        self._seen = seen
        self._random = random
        self._host = host
        self._told: dict[str, dict[str, _Told]] = {}

    def nominate(self, pod: Pod, node: str) -> None:
        """Write the nomination if it differs. An empty `node` removes it."""
        if pod.nominated != node:
            self._patch(pod, {"nominatedNodeName": node or None})

    def refuse(self, pod: Pod, reason: str, message: str, nomination: str | None) -> None:
        """Write PodScheduled=False with the reason, unless the pod has it already. `nomination`: "" removes it, None keeps
        it."""
        status: Object = {}
        if nomination is not None and pod.nominated != nomination:
            status["nominatedNodeName"] = nomination or None
        condition = self._condition(pod, "PodScheduled", "False", reason, message)
        if condition is not None:
            status["conditions"] = [condition]
        if status:
            self._patch(pod, status)

    def disrupt(self, pod: Pod, message: str) -> None:
        """Write DisruptionTarget: the pod is about to be preempted."""
        condition = self._condition(pod, "DisruptionTarget", "True", "PreemptionByScheduler", message)
        if condition is not None:
            self._patch(pod, {"conditions": [condition]})

    def name_special_claim(self, pod: Pod, claim: str, mappings: list[Object]) -> None:
        self._patch(pod, {"extendedResourceClaimStatus": {"requestMappings": mappings, "resourceClaimName": claim}})

    def bind(self, pod: Pod, node: str) -> None:
        """Write pods/binding. Raises ApiError."""
        self._client.bind(pod.name, pod.namespace, node)

    def delete(self, pod: Pod) -> None:
        """Delete the pod, if it still has the same uid."""
        with suppress(ApiError):
            self._client.delete("pods", pod.name, pod.namespace, uid=pod.uid)

    def event(self, pod: Pod, reason: str, note: str, action: str, type: str = "Normal") -> None:
        """Write an event. Events of one pod and reason share one object: the second makes it a series, later ones are not
        counted."""
        now = self._clock()
        told = self._told.setdefault(pod.uid, {}).get(reason)
        try:
            if told is None or now - told.at >= EVENT_MEMORY:
                name = f"{pod.name}.{self._random.getrandbits(64):016x}"
                self._client.create("events.events.k8s.io", self._event(pod, name, reason, note, action, type, now))
                self._told[pod.uid][reason] = _Told(now, name)
                return
            told.at = now
            if not told.repeated:
                told.repeated = True
                series = {"series": {"count": 2, "lastObservedTime": _micro(now)}}
                self._client.patch("events.events.k8s.io", told.name, series, pod.namespace, how="strategic")
        except ApiError:
            return

    def forget(self, uid: str) -> None:
        self._told.pop(uid, None)

    def _event(self, pod: Pod, name: str, reason: str, note: str, action: str, type: str, now: int) -> Object:
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": pod.namespace},
            "eventTime": _micro(now),
            "reportingController": pod.scheduler,
            "reportingInstance": f"{pod.scheduler}-{self._host}",
            "action": action,
            "reason": reason,
            "regarding": {
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
                "apiVersion": "v1",
                "resourceVersion": pod.obj["metadata"]["resourceVersion"],
            },
            "note": note[:1024],
            "type": type,
        }

    def _condition(self, pod: Pod, type: str, status: str, reason: str, message: str) -> Object | None:
        conditions = (pod.obj.get("status") or {}).get("conditions") or ()
        old: Object = next((one for one in conditions if one["type"] == type), {})
        if (old.get("status"), old.get("reason"), old.get("message")) == (status, reason, message):
            return None
        since = old.get("lastTransitionTime") if old.get("status") == status else None
        return {
            "type": type,
            "observedGeneration": pod.generation,
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": since or instants.written(self._clock()),
            "reason": reason,
            "message": message,
        }

    def _patch(self, pod: Pod, status: Object) -> None:
        body = {"metadata": {"uid": pod.uid}, "status": status}
        with suppress(ApiError):
            self._seen(self._client.patch("pods", pod.name, body, pod.namespace, how="strategic", subresource="status"))


def _micro(instant: int) -> str:
    """RFC 3339 with microseconds, as eventTime wants it."""
    return f"{instants.written(instant)[:-1]}.{instant % MICROSECONDS:06d}Z"
