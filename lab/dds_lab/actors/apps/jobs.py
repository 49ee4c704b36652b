"""The Job controller: pods that run to completion. It also deletes Jobs whose `ttlSecondsAfterFinished` has passed.

A finalizer keeps each pod until its end is counted: first the pod's uid goes into the status, then the finalizer from the pod,
then the uid becomes a number. So no end is lost or counted twice, whenever the controller restarts. Not obeyed, and told in an
Event: NOT_OBEYED. Source: pkg/controller/job, pkg/controller/ttlafterfinished.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dds_lab.actors.apps.controller import Controller, controller_of, has_ended, is_active, phase_of, ready_since
from dds_lab.actors.objects import condition, without_finalizer
from dds_lab.client import Object, instants, tolerating
from dds_lab.time import MICROSECONDS

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
OWN_MANAGER = "kubernetes.io/job-controller"
NOT_OBEYED = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex")
FIRST_BACKOFF, LAST_BACKOFF = 10.0, 600.0
"""Seconds until a failed pod is replaced; doubled with each failure in a row."""

COMPLETE, FAILED = "Complete", "Failed"
CRITERIA, TARGET = "SuccessCriteriaMet", "FailureTarget"
SUSPENDED = "Suspended"
ENDS = {CRITERIA: COMPLETE, TARGET: FAILED}
"""What is decided about a Job, and what it becomes when none of its pods is left running."""
KINDS = ("succeeded", "failed")


@dataclass
class _Run:
    """One look at a Job: its status as it is going to be, and its pods."""

    job: Object
    status: dict[str, Any]
    pods: list[Object]
    uncounted: dict[str, list[str]]
    """Uids of pods that have ended and are not in the numbers yet, by how they ended."""
    conditions: list[Object] = field(default_factory=list)

    def total(self, kind: str) -> int:
        """How many pods have succeeded or failed."""
        number: int = self.status.get(kind, 0)
        return number + len(self.uncounted[kind])

    def is_true(self, type: str) -> bool:
        return any(one["type"] == type and one["status"] == "True" for one in self.conditions)

    @property
    def decided(self) -> str:
        return next((type for type in ENDS if self.is_true(type)), "")

    @property
    def indexed(self) -> bool:
        return bool(self.job["spec"]["completionMode"] == "Indexed")


class Jobs(Controller):
    kind = "Job"
    api_version = "batch/v1"
    resource = "jobs"

    def _orphaned(self, namespace: str, name: str, uid: str = "") -> None:
        """Nobody counts the pods of a Job that is gone. `uid`: of the Job that has its name now."""
        for pod in self._client.list("pods", namespace):
            reference = controller_of(pod) or {"name": "", "apiVersion": "", "kind": ""}
            if self._is_ours(reference) and reference["name"] == name and reference["uid"] != uid:
                self._let_go(pod)

    def _sync(self, owner: Object) -> None:
        spec, metadata = owner["spec"], owner["metadata"]
        if spec.get("managedBy", OWN_MANAGER) != OWN_MANAGER:
            return
        self._orphaned(metadata["namespace"], metadata["name"], metadata["uid"])
        run = self._looked_at(owner)
        if run.is_true(COMPLETE) or run.is_true(FAILED):
            for pod in run.pods:
                self._let_go(pod)
            self._expire(owner, run)
            return
        for name in NOT_OBEYED:
            if spec.get(name) is not None:
                self._events.warn(owner, "NotObeyed", f"the lab does not obey spec.{name}")
        _count_ended(run)
        self._judge(run)
        if not metadata.get("deletionTimestamp"):
            self._manage(run)
        self._write(run)

    def _looked_at(self, owner: Object) -> _Run:
        status = dict(owner.get("status") or {})
        known = status.pop("uncountedTerminatedPods", None) or {}
        conditions = [*(status.get("conditions") or ())]
        return _Run(owner, status, self._claimed(owner), {kind: [*known.get(kind, ())] for kind in KINDS}, conditions)

    # -- what becomes of the Job

    def _judge(self, run: _Run) -> None:
        """Start the Job's clock, suspend or resume it, and decide that it has succeeded or failed."""
        spec, status = run.job["spec"], run.status
        if run.decided:
            return
        if not spec["suspend"] and not status.get("startTime"):
            status["startTime"] = self._now()
        if spec["suspend"] and not run.is_true(SUSPENDED):
            status.pop("startTime", None)
            self._set(run, SUSPENDED, "True", "JobSuspended", "Job suspended")
            self._events.say(run.job, "Suspended", "Job suspended")
        elif not spec["suspend"] and run.is_true(SUSPENDED):
            self._set(run, SUSPENDED, "False", "JobResumed", "Job resumed")
            self._events.say(run.job, "Resumed", "Job resumed")
        if run.total("failed") > spec["backoffLimit"]:
            words = "Job has reached the specified backoff limit"
            self._set(run, TARGET, "True", "BackoffLimitExceeded", words)
        elif self._is_late(run):
            words = "Job was active longer than specified deadline"
            self._set(run, TARGET, "True", "DeadlineExceeded", words)
        elif _has_succeeded(run):
            self._set(run, CRITERIA, "True", "CompletionsReached", "Reached expected number of succeeded pods")

    def _is_late(self, run: _Run) -> bool:
        limit, began = run.job["spec"].get("activeDeadlineSeconds"), run.status.get("startTime")
        if limit is None or began is None:
            return False
        left: float = limit - self._seconds_since(began)
        self._again(run.job, left if left > 0 else None)
        return left <= 0

    def _set(self, run: _Run, type: str, status: str, reason: str, message: str) -> None:
        told = condition(type, status, reason, message, self._time.now())
        others = [one for one in run.conditions if one["type"] != type]
        run.conditions = [*others, {**told, "lastProbeTime": told["lastTransitionTime"]}]

    def _expire(self, owner: Object, run: _Run) -> None:
        """Delete the finished Job once its time to live has passed."""
        life = owner["spec"].get("ttlSecondsAfterFinished")
        if life is None or owner["metadata"].get("deletionTimestamp"):
            return
        end = next(one for one in run.conditions if one["type"] in (COMPLETE, FAILED))
        left = life - self._seconds_since(end["lastTransitionTime"])
        if left > 0:
            self._again(owner, left)
            return
        metadata = owner["metadata"]
        with tolerating(404, 409):
            self._client.delete(
                "jobs", metadata["name"], metadata["namespace"], uid=metadata["uid"], propagation="Foreground"
            )

    # -- its pods

    def _manage(self, run: _Run) -> None:
        """Create the pods that are missing, delete those that are too many."""
        spec, active = run.job["spec"], [one for one in run.pods if is_active(one)]
        if run.decided:
            for pod in active:  # counted as failed: they keep their finalizer
                self._delete_pod(run.job, pod)
            return
        wanted = 0 if spec["suspend"] else _wanted(run, len(active))
        for pod in sorted(active, key=lambda one: bool(ready_since(one)))[: max(0, len(active) - wanted)]:
            self._let_go(pod)
            self._delete_pod(run.job, pod)
        missing = wanted - len(active)
        if spec["podReplacementPolicy"] == "Failed":
            missing -= sum(not is_active(one) and not has_ended(one) for one in run.pods)
        left = self._backoff(run) if missing > 0 else 0.0
        if left > 0:
            self._again(run.job, left)
            return
        indexes = _missing_indexes(run, active)
        for _ in range(missing):
            run.pods.append(self._create(run, next(indexes, None) if run.indexed else None))

    def _create(self, run: _Run, index: int | None) -> Object:
        template, name = run.job["spec"]["template"], run.job["metadata"]["name"]
        told = template.get("metadata") or {}
        more: Object = {"finalizers": [FINALIZER]}
        if index is not None:
            more |= {key: {**(told.get(key) or {}), INDEX: str(index)} for key in ("labels", "annotations")}
            more["generateName"] = f"{name}-{index}-"
            source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
            entry = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
            spec = {**template["spec"], "hostname": f"{name}-{index}"}
            spec["containers"] = [{**one, "env": [*(one.get("env") or ()), entry]} for one in spec["containers"]]
            template = {**template, "spec": spec}
        return self._create_pod(run.job, template, **more)

    def _backoff(self, run: _Run) -> float:
        """Seconds until a pod that failed may be replaced: by the failures since the last success, of the pods that are there."""
        ended = sorted((_ended_at(one), phase_of(one) == "Failed") for one in run.pods if has_ended(one))
        failures = 0
        while failures < len(ended) and ended[-1 - failures][1]:
            failures += 1
        if not failures:
            return 0.0
        wait = min(LAST_BACKOFF, FIRST_BACKOFF * 2.0 ** (failures - 1))
        return wait - (self._time.now() - ended[-1][0]) / MICROSECONDS

    def _let_go(self, pod: Object) -> None:
        if _is_held(pod):
            meta = without_finalizer(pod, FINALIZER)["metadata"]
            patch = {key: meta[key] or None for key in ("uid", "resourceVersion", "finalizers")}
            with tolerating(404):
                self._client.patch("pods", meta["name"], {"metadata": patch}, meta["namespace"])

    # -- the status

    def _write(self, run: _Run) -> None:
        """Write the status; then let go of the pods whose end is in it, and turn their uids into numbers."""
        self._publish(run)
        counted = {uid for kind in KINDS for uid in run.uncounted[kind]}
        ended = [one for one in run.pods if one["metadata"]["uid"] in counted]
        for pod in ended:
            self._let_go(pod)
        for kind in KINDS:
            run.status[kind] = run.total(kind)
            run.uncounted[kind] = []
        if run.decided and not any(not has_ended(one) for one in run.pods if one not in ended):
            self._finish(run)
        owner = self._client.find("jobs", run.job["metadata"]["name"], run.job["metadata"]["namespace"])
        if owner is not None and owner["metadata"]["uid"] == run.job["metadata"]["uid"]:
            run.job = owner
            self._publish(run)

    def _finish(self, run: _Run) -> None:
        why = next(one for one in run.conditions if one["type"] == run.decided)
        type = ENDS[run.decided]
        self._set(run, type, "True", why["reason"], why["message"])
        if type == COMPLETE:
            run.status["completionTime"] = self._now()
            self._events.say(run.job, "Completed", "Job completed")
        else:
            self._events.warn(run.job, why["reason"], why["message"])

    def _publish(self, run: _Run) -> None:
        active = [one for one in run.pods if is_active(one)]
        status = {
            **run.status,
            "active": len(active),
            "ready": sum(bool(ready_since(one)) for one in active),
            "terminating": sum(not is_active(one) and not has_ended(one) for one in run.pods),
            "uncountedTerminatedPods": {kind: uids for kind, uids in run.uncounted.items() if uids},
            "conditions": run.conditions,
        }
        if run.indexed:
            status["completedIndexes"] = _as_ranges(_done(run))
        self._report(run.job, status)


def _is_held(pod: Object) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def _count_ended(run: _Run) -> None:
    """Put the uids of pods that have ended since the last look into the status, and make numbers of those that were let go."""
    held = {one["metadata"]["uid"]: one for one in run.pods if _is_held(one)}
    for kind in KINDS:
        gone = [uid for uid in run.uncounted[kind] if uid not in held]
        run.uncounted[kind] = [uid for uid in run.uncounted[kind] if uid in held]
        run.status[kind] = run.status.get(kind, 0) + len(gone)
    if run.indexed:
        run.status["completedIndexes"] = _as_ranges(_done(run))
    known = {uid for uids in run.uncounted.values() for uid in uids}
    waits = run.decided or run.job["spec"]["podReplacementPolicy"] == "Failed"
    for uid, pod in held.items():
        # A deleted pod counts before its end only if nobody waits for that, or no kubelet will report it.
        lost = not is_active(pod) and (not waits or pod["metadata"].get("deletionGracePeriodSeconds") == 0)
        phase = phase_of(pod)
        kind = "succeeded" if phase == "Succeeded" else "failed" if phase == "Failed" or lost else ""
        if kind and uid not in known:
            run.uncounted[kind].append(uid)


def _has_succeeded(run: _Run) -> bool:
    completions: int | None = run.job["spec"].get("completions")
    if completions is None:  # one success ends it; the other pods end by themselves
        return run.total("succeeded") > 0 and not any(is_active(one) for one in run.pods)
    return (len(_done(run)) if run.indexed else run.total("succeeded")) >= completions


def _wanted(run: _Run, active: int) -> int:
    """How many pods should be active."""
    spec = run.job["spec"]
    parallel: int = spec["parallelism"]
    if spec.get("completions") is None:
        return active if run.total("succeeded") else parallel
    left: int = spec["completions"] - (len(_done(run)) if run.indexed else run.total("succeeded"))
    return max(0, min(left, parallel))


def _ended_at(pod: Object) -> int:
    """The instant (µs) at which the pod's last container ended; that of its creation if none says so."""
    states = (one.get("state") or {} for one in (pod.get("status") or {}).get("containerStatuses") or ())
    found = [(one.get("terminated") or {}).get("finishedAt") for one in states]
    return max(instants.read(one or pod["metadata"]["creationTimestamp"]) for one in [*found, None])


# -- indexes, written as "0,2-4"


def _index(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdecimal() else None


def _done(run: _Run) -> set[int]:
    """The indexes that have succeeded."""
    done: set[int] = set()
    for part in filter(None, run.status.get("completedIndexes", "").split(",")):
        first, _, last = part.partition("-")
        done.update(range(int(first), int(last or first) + 1))
    ended = (_index(one) for one in run.pods if phase_of(one) == "Succeeded" and _is_held(one))
    done.update(index for index in ended if index is not None)
    return done


def _missing_indexes(run: _Run, active: Iterable[Object]) -> Iterator[int]:
    taken = _done(run) | {index for pod in active if (index := _index(pod)) is not None}
    return (index for index in range(run.job["spec"].get("completions") or 0) if index not in taken)


def _as_ranges(indexes: set[int]) -> str:
    found: list[list[int]] = []
    for index in sorted(indexes):
        if found and index == found[-1][1] + 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
