"""The Deployment controller: one ReplicaSet for each pod template; rollouts, scaling, history. Source: pkg/controller/deployment.

Annotations of its ReplicaSets tell their revision and how large the Deployment was when they were scaled.
"""

from collections.abc import Iterable
from math import ceil, floor
from typing import Any

from dds_lab.actors.apps.controller import Controller, condition_of, controller_of, digest, has_ended
from dds_lab.client import ApiError, Object

REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
OWN = (REVISION, DESIRED, MOST, "deprecated.deployment.rollback.to", "kubectl.kubernetes.io/last-applied-configuration")
"""Annotations of a Deployment that its ReplicaSets do not inherit."""
HASH = "pod-template-hash"
NO_DEADLINE = 2**31 - 1
RECREATE = "Recreate"

AVAILABLE, PROGRESSING = "Available", "Progressing"
DONE, TIMED_OUT, PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"

Sets = dict[str, Object]
"""The ReplicaSets of a Deployment by name, oldest first."""


class Deployments(Controller):
    kind = "Deployment"
    resource = "deployments"
    owned = ("replicasets", "pods")

    def _owned_changed(self, old: Object | None, new: Object | None) -> None:
        """A pod concerns its ReplicaSet's Deployment, if it is gone: a rollout of type Recreate waits for that."""
        obj = new or old
        if obj is None or obj["kind"] != "Pod":
            super()._owned_changed(old, new)
            return
        reference = controller_of(obj)
        if new is None and reference is not None:
            rs = self._owned["replicasets"].get(reference["name"], obj["metadata"]["namespace"])
            if rs is not None:
                super()._owned_changed(rs, rs)

    def _sync(self, owner: Object) -> None:
        sets: Sets = {one["metadata"]["name"]: one for one in self._claimed(owner, "replicasets")}
        new = next((name for name, one in sets.items() if _template(one) == _template(owner)), "")
        made = False
        if not owner["metadata"].get("deletionTimestamp"):
            if new:
                self._revise(owner, sets, new)
            if owner["spec"].get("paused") or _is_resized(owner, sets):
                self._resize(owner, sets, new)
            else:
                if not new and self._may_begin(owner, sets):
                    new, made = self._begin(owner, sets), True
                if new and owner["spec"]["strategy"]["type"] == RECREATE:
                    self._scale(owner, sets, new, _wanted(owner))
                elif new:
                    self._roll(owner, sets, new)
            self._forget(owner, sets, new)
        self._tell(owner, sets, new, made)

    # -- the new ReplicaSet

    def _may_begin(self, owner: Object, sets: Sets) -> bool:
        """Whether pods of the new template may come. With type Recreate the old ones go first."""
        if owner["spec"]["strategy"]["type"] != RECREATE:
            return True
        scaled = [name for name in sets if self._scale(owner, sets, name, 0)]
        if scaled:
            return False
        uids = {one["metadata"]["uid"] for one in sets.values()}
        pods = self._client.list("pods", owner["metadata"]["namespace"])
        owners = [controller_of(one) for one in pods if not has_ended(one)]
        return not any(one is not None and one["uid"] in uids for one in owners)

    def _begin(self, owner: Object, sets: Sets) -> str:
        """Create the ReplicaSet of the template. Returns its name."""
        metadata, spec = owner["metadata"], owner["spec"]
        template, collisions = spec["template"], (owner.get("status") or {}).get("collisionCount", 0)
        hashed = digest([template, collisions])
        told = {**(template.get("metadata") or {})}
        told["labels"] = {**(told.get("labels") or {}), HASH: hashed}
        name, selector = f"{metadata['name']}-{hashed}", spec["selector"]
        fitting = {**(selector.get("matchLabels") or {}), HASH: hashed}
        size = _room(owner, sets, 0)
        rs = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "labels": told["labels"],
                "annotations": {**_inherited(owner), **_sizes(owner), REVISION: str(_newest(sets.values()) + 1)},
                "ownerReferences": [self._reference(owner)],
            },
            "spec": {
                "replicas": size,
                "minReadySeconds": spec.get("minReadySeconds", 0),
                "selector": {**selector, "matchLabels": fitting},
                "template": {**template, "metadata": told},
            },
        }
        try:
            sets[name] = self._client.create("replicasets", rs)
        except ApiError as error:
            if error.reason == "AlreadyExists":  # of another template: the next try has another name
                status = {**(owner.get("status") or {}), "collisionCount": collisions + 1}
                self._report(owner, status)
            else:
                self._events.warn(owner, "ReplicaSetCreateError", f'Failed to create new replica set "{name}": {error}')
            raise
        if size:
            self._events.say(owner, "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {size}")
        return name

    def _revise(self, owner: Object, sets: Sets, new: str) -> None:
        """The ReplicaSet of the template has the highest revision, and the Deployment's annotations."""
        newest = _newest(one for name, one in sets.items() if name != new) + 1
        known = sets[new]["metadata"].get("annotations") or {}
        wanted = {**known, **_inherited(owner), REVISION: str(max(newest, _newest([sets[new]])))}
        least = owner["spec"].get("minReadySeconds", 0)
        if wanted != known or sets[new]["spec"].get("minReadySeconds", 0) != least:
            self._patch(sets, new, {"metadata": {"annotations": wanted}, "spec": {"minReadySeconds": least}})

    # -- sizes

    def _roll(self, owner: Object, sets: Sets, new: str) -> None:
        """One step of a rolling update: the new ReplicaSet up, or else old ones down."""
        if self._scale(owner, sets, new, _room(owner, sets, _size(sets[new]))):
            return
        old = [name for name in sets if name != new]
        least = _wanted(owner) - _shares(owner)[1]
        waits = _size(sets[new]) - _count(sets[new], "availableReplicas")
        spare = sum(map(_size, sets.values())) - least - waits
        if spare <= 0:
            return
        for name in old:  # pods that are not available first
            idle = max(0, min(spare, _size(sets[name]) - _count(sets[name], "availableReplicas")))
            self._scale(owner, sets, name, _size(sets[name]) - idle)
            spare -= idle
        spare = sum(_count(one, "availableReplicas") for one in sets.values()) - least
        for name in old:
            fewer = max(0, min(spare, _size(sets[name])))
            self._scale(owner, sets, name, _size(sets[name]) - fewer)
            spare -= fewer

    def _resize(self, owner: Object, sets: Sets, new: str) -> None:
        """Give ReplicaSets their share of a Deployment that was scaled, without a step of a rollout."""
        wanted = _wanted(owner)
        active = [name for name in sets if _size(sets[name])]
        if len(active) <= 1:
            for name in active or [new or next(reversed(sets), "")]:
                if name:
                    self._scale(owner, sets, name, wanted)
            return
        if new and _size(sets[new]) == wanted == _count(sets[new], "availableReplicas"):
            for name in active:
                self._scale(owner, sets, name, wanted if name == new else 0)
            return
        if owner["spec"]["strategy"]["type"] == RECREATE:
            return
        room = wanted + _shares(owner)[0] if wanted else 0
        missing = left = room - sum(_size(sets[name]) for name in active)
        active.sort(key=lambda name: _size(sets[name]), reverse=True)
        sizes = {}
        for name in active:
            size = _size(sets[name])
            before = _annotated(sets[name], MOST) or room
            share = round(size * room / before) - size
            share = min(max(share, 0), left) if missing > 0 else max(min(share, 0), left)
            sizes[name], left = size + share, left - share
        sizes[active[0]] = max(0, sizes[active[0]] + left)
        for name, size in sizes.items():
            self._scale(owner, sets, name, size)

    def _scale(self, owner: Object, sets: Sets, name: str, size: int) -> bool:
        """Set a ReplicaSet's size. Returns whether it changes."""
        before, sizes = _size(sets[name]), _sizes(owner)
        known = sets[name]["metadata"].get("annotations") or {}
        if size == before and (not size or all(known.get(key) == sizes[key] for key in sizes)):
            return False
        self._patch(sets, name, {"metadata": {"annotations": {**known, **sizes}}, "spec": {"replicas": size}})
        if size != before:
            way = "up" if size > before else "down"
            words = f"Scaled {way} replica set {name} from {before} to {size}"
            self._events.say(owner, "ScalingReplicaSet", words)
        return size != before

    def _patch(self, sets: Sets, name: str, patch: Object) -> None:
        sets[name] = self._client.patch("replicasets", name, patch, sets[name]["metadata"]["namespace"])

    def _forget(self, owner: Object, sets: Sets, new: str) -> None:
        """Delete the oldest ReplicaSets without pods that exceed the history."""
        old = sorted((name for name in sets if name != new), key=lambda name: _newest([sets[name]]))
        if not _is_complete(owner, owner.get("status") or {}) and not owner["spec"].get("paused"):
            return
        for name in old[: max(0, len(old) - owner["spec"]["revisionHistoryLimit"])]:
            one = sets[name]
            seen = (one.get("status") or {}).get("observedGeneration", 0) >= one["metadata"]["generation"]
            if seen and not _size(one) and not _count(one, "replicas") and not one["metadata"].get("deletionTimestamp"):
                self._client.delete("replicasets", name, one["metadata"]["namespace"], uid=one["metadata"]["uid"])
                del sets[name]

    # -- the status

    def _tell(self, owner: Object, sets: Sets, new: str, made: bool) -> None:
        available = sum(_count(one, "availableReplicas") for one in sets.values())
        status: Object = {
            "observedGeneration": owner["metadata"]["generation"],
            "replicas": sum(_count(one, "replicas") for one in sets.values()),
            "updatedReplicas": _count(sets[new], "replicas") if new else 0,
            "readyReplicas": sum(_count(one, "readyReplicas") for one in sets.values()),
            "availableReplicas": available,
            "unavailableReplicas": max(0, sum(map(_size, sets.values())) - available),
            "collisionCount": (owner.get("status") or {}).get("collisionCount"),
        }
        enough = available >= _wanted(owner) - _shares(owner)[1]
        words = "has" if enough else "does not have"
        reason = f"MinimumReplicas{'Available' if enough else 'Unavailable'}"
        told = (str(enough), reason, f"Deployment {words} minimum availability.")
        found = [self._condition(owner, AVAILABLE, *told), self._progress(owner, status, new, made)]
        status["conditions"] = [one for one in found if one is not None]
        annotations = owner["metadata"].get("annotations") or {}
        if new:
            annotations = {**annotations, REVISION: str(_newest([sets[new]]))}
        self._report(owner, status, annotations or None)

    def _progress(self, owner: Object, status: Object, new: str, made: bool) -> Object | None:
        """The condition Progressing; None for a Deployment without a deadline."""
        known, limit = condition_of(owner, PROGRESSING), owner["spec"]["progressDeadlineSeconds"]
        if limit == NO_DEADLINE:
            return None
        if owner["spec"].get("paused"):
            if known is not None and known["reason"] == TIMED_OUT:
                return known
            return self._condition(owner, PROGRESSING, "Unknown", PAUSED, "Deployment is paused")
        if known is not None and known["reason"] == PAUSED:
            return self._condition(owner, PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed")
        if made:
            words = f'Created new replica set "{new}"'
            return self._condition(owner, PROGRESSING, "True", "NewReplicaSetCreated", words)
        if known is not None and known["reason"] == DONE and status["updatedReplicas"] == status["replicas"]:
            return known  # a finished rollout whose pods fail later has no deadline
        named = f'ReplicaSet "{new}"' if new else f'Deployment "{owner["metadata"]["name"]}"'
        if _is_complete(owner, status):
            words = f"{named} has successfully progressed."
            return self._condition(owner, PROGRESSING, "True", DONE, words)
        if _has_moved(owner.get("status") or {}, status) or known is None:
            words = f"{named} is progressing."
            return self._condition(owner, PROGRESSING, "True", "ReplicaSetUpdated", words, again=True)
        if known["reason"] in (DONE, TIMED_OUT):
            return known
        left = limit - self._seconds_since(known["lastUpdateTime"])
        if left > 0:
            self._again(owner, left)
            return known
        return self._condition(owner, PROGRESSING, "False", TIMED_OUT, f"{named} has timed out progressing.")

    def _condition(
        self, owner: Object, type: str, status: str, reason: str, message: str, again: bool = False
    ) -> Object:
        """The condition, with the instants of the present one as far as nothing changed; `again`: it is updated in any case."""
        known, now = condition_of(owner, type), self._now()
        if known is not None and not again and (known["status"], known["reason"]) == (status, reason):
            return known
        since = known["lastTransitionTime"] if known is not None and known["status"] == status else now
        told = {"type": type, "status": status, "reason": reason, "message": message}
        return {**told, "lastUpdateTime": now, "lastTransitionTime": since}


def _template(obj: Object) -> Object:
    """The pod template without the label that tells its hash."""
    template = obj["spec"]["template"]
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def _wanted(owner: Object) -> int:
    replicas: int = owner["spec"]["replicas"]
    return replicas


def _size(rs: Object) -> int:
    replicas: int = rs["spec"]["replicas"]
    return replicas


def _count(rs: Object, field: str) -> int:
    found: int = (rs.get("status") or {}).get(field, 0)
    return found


def _shares(owner: Object) -> tuple[int, int]:
    """How many pods there may be beyond those wanted, and how many may be unavailable."""
    rolling = owner["spec"]["strategy"].get("rollingUpdate")
    if rolling is None:
        return 0, 0
    wanted = _wanted(owner)
    surge, spare = _share(rolling["maxSurge"], wanted, ceil), _share(rolling["maxUnavailable"], wanted, floor)
    return surge, min(wanted, spare if surge or spare else 1)


def _share(value: Any, whole: int, rounded: Any) -> int:
    found: int = rounded(int(value[:-1]) * whole / 100) if isinstance(value, str) else value
    return found


def _room(owner: Object, sets: Sets, size: int) -> int:
    """The size that a new ReplicaSet of this size may have now."""
    wanted = _wanted(owner)
    if owner["spec"]["strategy"]["type"] == RECREATE or size >= wanted:
        return wanted
    room = wanted + _shares(owner)[0] - sum(map(_size, sets.values()))
    return min(wanted, size + max(0, room))


def _sizes(owner: Object) -> dict[str, str]:
    wanted = _wanted(owner)
    return {DESIRED: str(wanted), MOST: str(wanted + _shares(owner)[0])}


def _is_resized(owner: Object, sets: Sets) -> bool:
    """Whether the Deployment was scaled since its ReplicaSets were."""
    known = [_annotated(one, DESIRED) for one in sets.values() if _size(one)]
    return any(one is not None and one != _wanted(owner) for one in known)


def _annotated(obj: Object, key: str) -> int | None:
    text = (obj["metadata"].get("annotations") or {}).get(key, "")
    return int(text) if text.isdecimal() else None


def _newest(sets: Iterable[Object]) -> int:
    """The highest revision."""
    return max((_annotated(one, REVISION) or 0 for one in sets), default=0)


def _inherited(owner: Object) -> dict[str, str]:
    return {key: text for key, text in (owner["metadata"].get("annotations") or {}).items() if key not in OWN}


def _is_complete(owner: Object, status: Object) -> bool:
    counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")]
    return status.get("observedGeneration", 0) >= owner["metadata"]["generation"] and set(counts) == {_wanted(owner)}


def _has_moved(old: Object, new: Object) -> bool:
    """Whether a rollout has made progress between two statuses."""
    more = any(new[key] > old.get(key, 0) for key in ("updatedReplicas", "readyReplicas", "availableReplicas"))
    left = old.get("replicas", 0) - old.get("updatedReplicas", 0)
    return more or new["replicas"] - new["updatedReplicas"] < left
