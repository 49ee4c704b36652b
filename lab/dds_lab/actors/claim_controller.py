"""The ResourceClaim controller of kube-controller-manager: it creates claims from templates, removes reservations that ended,
and deallocates.

A reservation ends when its pod is gone, replaced, finished, or deleted before it had a node. When the last reservation ends, the
same update removes the allocation; then the finalizer goes. The controller never looks at binding conditions. Source:
pkg/controller/resourceclaim/controller.go.
"""

from random import Random

from dds_lab.actors.objects import (
    CLAIM_FINALIZER,
    allocation_of,
    claim_names,
    claim_statuses,
    extended_claim,
    reservations,
    without_finalizer,
)
from dds_lab.actors.workqueue import Finish, WorkQueue
from dds_lab.client import ApiError, Client, Object, tolerating
from dds_lab.latency import Latency, Uniform
from dds_lab.time import Time

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
MANAGER = "ResourceClaimController"
WORKERS = 50
LOOK = Uniform(0.003, 0.008)


class ClaimController:
    """The work queue has two kinds of keys: `pod/<namespace>/<name>` and `claim/<namespace>/<name>`. `look`: seconds to process
    one."""

    def __init__(self, client: Client, time: Time, look: Latency = LOOK) -> None:
        self._client = client
        random: Random = time.random("claims")
        self._queue = WorkQueue(time, self._look, look, random, WORKERS)

    def start(self) -> None:
        self._pods = self._client.mirror("pods")
        self._claims = self._client.mirror("resourceclaims")
        self._pods.follow(self._pod_changed)
        self._claims.follow(self._claim_changed)

    def stop(self) -> None:
        self._queue.stop()
        self._pods.close()
        self._claims.close()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        if pod is None or not (pod["spec"].get("resourceClaims") or extended_claim(pod)):
            return
        if new is None or is_done(new):
            for name in claim_names(pod):
                self._queue.add(f"claim/{pod['metadata']['namespace']}/{name}")
        elif old is None or old["spec"].get("nodeName") != new["spec"].get("nodeName") or not _all_named(new):
            self._queue.add(f"pod/{pod['metadata']['namespace']}/{pod['metadata']['name']}")

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                # A generated claim was deleted: queue its pod, which gets a new claim if it still waits.
                owner = _owning_pod(old)
                if owner is not None:
                    self._queue.add(f"pod/{old['metadata']['namespace']}/{owner['name']}")
            return
        if reservations(new) or new["metadata"].get("deletionTimestamp") or _owning_pod(new) is not None:
            self._queue.add(f"claim/{new['metadata']['namespace']}/{new['metadata']['name']}")

    def _look(self, key: str, finish: Finish) -> None:
        kind, namespace, name = key.split("/")
        try:
            if kind == "pod":
                pod = self._pods.get(name, namespace)
                if pod is not None and not is_done(pod) and not pod["metadata"].get("deletionTimestamp"):
                    self._provide(pod)
            else:
                claim = self._claims.get(name, namespace)
                if claim is not None:
                    self._release(claim)
            self._queue.forget(key)
        except ApiError:
            self._queue.retry(key)
        finish()

    def _provide(self, pod: Object) -> None:
        """Create claims from the pod's templates. Reserve allocated claims if the pod got its node without the scheduler."""
        named = {one["name"]: one.get("resourceClaimName") for one in claim_statuses(pod)}
        new = False
        for entry in pod["spec"].get("resourceClaims") or ():
            if entry.get("resourceClaimTemplateName") and entry["name"] not in named:
                named[entry["name"]] = self._generated(pod, entry)
                new = True
        if new:
            self._tell(pod, named)
        elif pod["spec"].get("nodeName"):
            for name in claim_names(pod):
                self._reserve(pod, name)

    def _generated(self, pod: Object, entry: Object) -> str:
        """The name of the entry's claim: one that an earlier try created, or a new one."""
        metadata = pod["metadata"]
        for claim in self._client.list("resourceclaims", metadata["namespace"]) if self._retried(pod) else ():
            annotations = claim["metadata"].get("annotations") or {}
            owner = _owning_pod(claim)
            if owner is not None and owner["uid"] == metadata["uid"] and annotations.get(POD_CLAIM) == entry["name"]:
                found: str = claim["metadata"]["name"]
                return found
        template = self._client.get("resourceclaimtemplates", entry["resourceClaimTemplateName"], metadata["namespace"])
        made = self._client.create("resourceclaims", _claim_of(template, pod, entry["name"]))
        name: str = made["metadata"]["name"]
        return name

    def _retried(self, pod: Object) -> bool:
        """Only an earlier try that failed can have left a claim behind."""
        return self._queue.failures(f"pod/{pod['metadata']['namespace']}/{pod['metadata']['name']}") > 0

    def _tell(self, pod: Object, named: dict[str, str | None]) -> None:
        statuses = [{"name": name, **({"resourceClaimName": claim} if claim else {})} for name, claim in named.items()]
        metadata = {
            "name": pod["metadata"]["name"],
            "namespace": pod["metadata"]["namespace"],
            "uid": pod["metadata"]["uid"],
        }
        patch = {
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"resourceClaimStatuses": statuses},
        }  # fmt: skip
        self._client.patch(
            "pods", metadata["name"], patch, metadata["namespace"], how="apply", subresource="status", force=True
        )

    def _reserve(self, pod: Object, name: str) -> None:
        claim = self._claims.get(name, pod["metadata"]["namespace"])
        if claim is None or not allocation_of(claim):
            return
        known = reservations(claim)
        if any(one["uid"] == pod["metadata"]["uid"] for one in known):
            return
        entry = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        status = {**claim["status"], "reservedFor": [*known, entry]}
        self._client.update("resourceclaims", {**claim, "status": status}, subresource="status")

    def _release(self, claim: Object) -> None:
        known = reservations(claim)
        valid = [one for one in known if self._holds(claim, one)]
        protected = CLAIM_FINALIZER in (claim["metadata"].get("finalizers") or ())
        deleting = bool(claim["metadata"].get("deletionTimestamp"))
        if len(valid) < len(known):
            claim = self._reserved_for(claim, valid, deallocate=protected and not valid)
            if protected and not allocation_of(claim):
                claim = self._client.update("resourceclaims", without_finalizer(claim, CLAIM_FINALIZER))
        elif protected and deleting and not valid:
            if allocation_of(claim):
                claim = self._reserved_for(claim, [], deallocate=True)
            claim = self._client.update("resourceclaims", without_finalizer(claim, CLAIM_FINALIZER))
        if not valid:
            self._delete_unwanted(claim)

    def _holds(self, claim: Object, consumer: Object) -> bool:
        """Whether a reservation is still valid: its pod exists, is the same, and is not done. Consumers that are not pods always
        count."""
        if consumer.get("apiGroup") or consumer["resource"] != "pods":
            return True
        namespace = claim["metadata"]["namespace"]
        pod = self._pods.get(consumer["name"], namespace)
        if pod is None:
            pod = self._client.find("pods", consumer["name"], namespace)
        return pod is not None and pod["metadata"]["uid"] == consumer["uid"] and not is_done(pod)

    def _reserved_for(self, claim: Object, valid: list[Object], deallocate: bool) -> Object:
        status = {key: value for key, value in claim["status"].items() if key != "reservedFor"}
        if valid:
            status["reservedFor"] = valid
        if deallocate:
            status.pop("allocation", None)
            status.pop("devices", None)
        return self._client.update("resourceclaims", {**claim, "status": status}, subresource="status")

    def _delete_unwanted(self, claim: Object) -> None:
        """Delete a generated claim whose pod is done or replaced. If the pod is gone, the garbage collector deletes the
        claim."""
        owner, metadata = _owning_pod(claim), claim["metadata"]
        if owner is None or metadata.get("deletionTimestamp"):
            return
        pod = self._pods.get(owner["name"], metadata["namespace"])
        if pod is not None and (pod["metadata"]["uid"] != owner["uid"] or is_done(pod)):
            with tolerating(404):
                self._client.delete("resourceclaims", metadata["name"], metadata["namespace"], uid=metadata["uid"])


def is_done(pod: Object) -> bool:
    """Whether the pod finished, or was deleted before it had a node."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    return bool(pod["metadata"].get("deletionTimestamp")) and not pod["spec"].get("nodeName")


def _all_named(pod: Object) -> bool:
    named = {one["name"] for one in claim_statuses(pod)}
    return all(
        one["name"] in named for one in pod["spec"].get("resourceClaims") or () if one.get("resourceClaimTemplateName")
    )


def _owning_pod(claim: Object) -> Object | None:
    for one in claim["metadata"].get("ownerReferences") or ():
        if one.get("controller") and one["kind"] == "Pod" and one["apiVersion"] == "v1":
            found: Object = one
            return found
    return None


def _claim_of(template: Object, pod: Object, entry: str) -> Object:
    spec = template["spec"]
    told = spec.get("metadata") or {}
    metadata = {
        "generateName": f"{pod['metadata']['name']}-{entry}-",
        "namespace": pod["metadata"]["namespace"],
        "annotations": {**(told.get("annotations") or {}), POD_CLAIM: entry},
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    if told.get("labels"):
        metadata["labels"] = told["labels"]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec["spec"]}
