"""The ReplicaSet controller: as many pods as wanted. Source: pkg/controller/replicaset."""

from collections import Counter
from typing import Any

from dds_lab.actors.apps.controller import Controller, condition_of, is_active, phase_of, ready_since
from dds_lab.actors.objects import condition
from dds_lab.client import ApiError, Object, instants

COST = "controller.kubernetes.io/pod-deletion-cost"
PHASES = ("Pending", "Unknown", "Running")
FAILURE = "ReplicaFailure"


class ReplicaSets(Controller):
    kind = "ReplicaSet"
    resource = "replicasets"

    def _sync(self, owner: Object) -> None:
        pods = [one for one in self._claimed(owner) if is_active(one)]
        missing = owner["spec"]["replicas"] - len(pods)
        failure: ApiError | None = None
        if not owner["metadata"].get("deletionTimestamp"):
            try:
                for _ in range(missing):
                    self._create_pod(owner, owner["spec"]["template"])
                for pod in _first_to_go(pods)[: max(0, -missing)]:
                    self._delete_pod(owner, pod)
            except ApiError as error:
                failure = error
        self._tell(owner, pods, "" if failure is None else str(failure), "FailedCreate")
        if failure is not None:
            raise failure

    def _tell(self, owner: Object, pods: list[Object], failure: str, reason: str) -> None:
        """Write the status of the pods that were there. Those that came or went bring the next look."""
        spec = owner["spec"]
        available, wait = self._available(owner, pods)
        wanted = ((spec["template"].get("metadata") or {}).get("labels") or {}).items()
        status: Object = {
            "observedGeneration": owner["metadata"]["generation"],
            "replicas": len(pods),
            "fullyLabeledReplicas": sum(wanted <= one["metadata"]["labels"].items() for one in pods),
            "readyReplicas": sum(bool(ready_since(one)) for one in pods),
            "availableReplicas": len(available),
        }
        if failure:
            known = condition_of(owner, FAILURE)
            status["conditions"] = [known or condition(FAILURE, "True", reason, failure, self._time.now())]
        self._report(owner, status)
        self._again(owner, wait)


def _first_to_go(pods: list[Object]) -> list[Object]:
    """In the order of deletion: without a node, pending, not ready, of low cost, many on one node, ready for a short time,
    often restarted, young."""
    beside = Counter(one["spec"].get("nodeName") for one in pods)

    def rank(pod: Object) -> tuple[Any, ...]:
        since, phase = ready_since(pod), phase_of(pod)
        states = (pod.get("status") or {}).get("containerStatuses") or ()
        return (
            bool(pod["spec"].get("nodeName")),
            PHASES.index(phase) if phase in PHASES else 0,
            bool(since),
            _cost(pod),
            -beside[pod["spec"].get("nodeName")],
            -instants.read(since) if since else 0,
            -max((one.get("restartCount", 0) for one in states), default=0),
            -instants.read(pod["metadata"]["creationTimestamp"]),
        )

    return sorted(pods, key=rank)


def _cost(pod: Object) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(COST, "0")
    return int(text) if text.lstrip("-").isdecimal() else 0
