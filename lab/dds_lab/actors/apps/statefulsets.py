"""The StatefulSet controller: pods with ordinals, started in order and deleted in reverse; rolling updates down to a partition.

What a template was is kept in a ControllerRevision. PersistentVolumeClaims are not served: pods name those of the claim
templates as volumes, and start without them. Source: pkg/controller/statefulset.
"""

from dataclasses import dataclass

from dds_lab.actors.apps.controller import Controller, digest, has_ended, is_active, phase_of, ready_since
from dds_lab.client import Object

REVISION_LABEL = "controller-revision-hash"
HASH = "controller.kubernetes.io/hash"
NAME_LABEL, INDEX_LABEL = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
PARALLEL, ROLLING = "Parallel", "RollingUpdate"


@dataclass(frozen=True)
class _Revisions:
    """The ControllerRevisions of the set's pods: the one that a rollout began with, and that of the present template."""

    current: Object
    update: Object


class StatefulSets(Controller):
    kind = "StatefulSet"
    resource = "statefulsets"
    owned = ("pods", "controllerrevisions")

    def _sync(self, owner: Object) -> None:
        pods = {one["metadata"]["name"]: one for one in self._claimed(owner) if _ordinal(owner, one) is not None}
        revisions = self._revisions(owner)
        if not owner["metadata"].get("deletionTimestamp"):
            self._step(owner, pods, revisions)
        self._tell(owner, pods, revisions)

    # -- revisions

    def _revisions(self, owner: Object) -> _Revisions:
        """Create the ControllerRevision of the present template, or make it the newest again; delete old ones."""
        known = sorted(self._claimed(owner, "controllerrevisions"), key=lambda one: int(one.get("revision", 0)))
        data = {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}
        newest = known[-1].get("revision", 0) if known else 0
        same = next((one for one in reversed(known) if one["data"] == data), None)
        if same is None:
            same = self._new_revision(owner, data, newest + 1)
            known.append(same)
        elif same is not known[-1]:
            same = self._client.update("controllerrevisions", {**same, "revision": newest + 1})
        said = (owner.get("status") or {}).get("currentRevision", "")
        current = next((one for one in known if one["metadata"]["name"] == said), same)
        self._forget(owner, [one for one in known if one["metadata"]["name"] not in (_name(current), _name(same))])
        return _Revisions(current, same)

    def _new_revision(self, owner: Object, data: Object, number: int) -> Object:
        name, labels = owner["metadata"]["name"], owner["spec"]["template"].get("metadata", {}).get("labels") or {}
        hashed = digest(data)
        return self._client.create(
            "controllerrevisions",
            {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {
                    "name": f"{name}-{hashed}",
                    "namespace": owner["metadata"]["namespace"],
                    "labels": {**labels, HASH: hashed},
                    "ownerReferences": [self._reference(owner)],
                },
                "data": data,
                "revision": number,
            },
        )

    def _forget(self, owner: Object, old: list[Object]) -> None:
        used = {_revision(one) for one in self._client.list("pods", owner["metadata"]["namespace"])}
        unused = [one for one in old if _name(one) not in used]
        for one in unused[: max(0, len(unused) - owner["spec"]["revisionHistoryLimit"])]:
            self._client.delete("controllerrevisions", _name(one), one["metadata"]["namespace"])

    # -- pods

    def _step(self, owner: Object, pods: dict[str, Object], revisions: _Revisions) -> None:
        """Create, delete and replace pods. With OrderedReady one at a time: each waits for the ones before it."""
        spec, name = owner["spec"], owner["metadata"]["name"]
        parallel = spec["podManagementPolicy"] == PARALLEL
        start = (spec.get("ordinals") or {}).get("start", 0)
        wanted = [f"{name}-{number}" for number in range(start, start + spec["replicas"])]
        surplus = sorted((one for one in pods if one not in wanted), key=lambda one: _number(one), reverse=True)
        healthy = {one["metadata"]["name"] for one in self._healthy(owner, pods)}
        for each in wanted:
            pod = pods.get(each)
            if pod is not None and has_ended(pod) and not pod["metadata"].get("deletionTimestamp"):
                self._delete_pod(owner, pod)
            elif pod is None:
                pods[each] = self._create(owner, each, start, revisions)
            if each not in healthy and not parallel:
                return
        for each in surplus:
            if is_active(pods[each]) or has_ended(pods[each]):
                self._delete_pod(owner, pods[each])
            if not parallel:
                return
        strategy = spec["updateStrategy"]
        if strategy["type"] == ROLLING:
            partition = strategy["rollingUpdate"]["partition"]
            for each in reversed(wanted[partition:]):
                if _revision(pods[each]) != _name(revisions.update) and is_active(pods[each]):
                    self._delete_pod(owner, pods[each])
                    return
                if each not in healthy:
                    return

    def _healthy(self, owner: Object, pods: dict[str, Object]) -> list[Object]:
        """The pods that run and are available."""
        found, wait = self._available(owner, [one for one in pods.values() if is_active(one)])
        self._again(owner, wait)
        return found

    def _create(self, owner: Object, name: str, start: int, revisions: _Revisions) -> Object:
        spec, number = owner["spec"], _number(name)
        strategy = spec["updateStrategy"]
        partition = strategy["rollingUpdate"]["partition"] if strategy["type"] == ROLLING else 0
        revision = revisions.current if number < start + partition else revisions.update
        template = {key: part for key, part in revision["data"]["spec"]["template"].items() if key != "$patch"}
        labels = {**(template.get("metadata") or {}).get("labels", {}), REVISION_LABEL: _name(revision)}
        labels |= {NAME_LABEL: name, INDEX_LABEL: str(number)}
        volumes = [
            {"name": stem, "persistentVolumeClaim": {"claimName": f"{stem}-{name}"}}
            for stem in (one["metadata"]["name"] for one in spec.get("volumeClaimTemplates") or ())
        ]
        others = [
            one for one in template["spec"].get("volumes") or () if one["name"] not in {v["name"] for v in volumes}
        ]
        made = {**template["spec"], "hostname": name, "subdomain": spec.get("serviceName", "")}
        if volumes:
            made["volumes"] = [*others, *volumes]
        return self._create_pod(owner, {**template, "spec": made}, name=name, labels=labels)

    # -- the status

    def _tell(self, owner: Object, pods: dict[str, Object], revisions: _Revisions) -> None:
        current, update = _name(revisions.current), _name(revisions.update)
        there = [one for one in pods.values() if not one["metadata"].get("deletionTimestamp")]
        of_revision = [_revision(one) for one in there]
        status: Object = {
            "observedGeneration": owner["metadata"]["generation"],
            "replicas": len(pods),
            "readyReplicas": sum(phase_of(one) == "Running" and bool(ready_since(one)) for one in pods.values()),
            "availableReplicas": len(self._available(owner, pods.values())[0]),
            "currentReplicas": of_revision.count(current),
            "updatedReplicas": of_revision.count(update),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": 0,
        }
        whole = status["updatedReplicas"] == status["readyReplicas"] == status["replicas"] == owner["spec"]["replicas"]
        if owner["spec"]["updateStrategy"]["type"] == ROLLING and whole:
            status |= {"currentRevision": update, "currentReplicas": status["updatedReplicas"]}
        self._report(owner, status)


def _ordinal(owner: Object, pod: Object) -> int | None:
    """The pod's number in the set, None if its name is not one of the set's."""
    stem, _, number = pod["metadata"]["name"].rpartition("-")
    return int(number) if stem == owner["metadata"]["name"] and number.isdecimal() else None


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _name(obj: Object) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _revision(pod: Object) -> str:
    found: str = (pod["metadata"].get("labels") or {}).get(REVISION_LABEL, "")
    return found
