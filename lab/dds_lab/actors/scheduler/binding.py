"""The binding cycle of one pod: nomination, PreBind (its writes, then the wait for devices) and Bind; after a failure the
clean-up.

It runs beside the scheduling loop and other bindings. Source: schedule_one.go (bindingCycle, handleBindingCycleError),
dynamicresources.go (PreBind, bindClaim, isPodReadyForBinding, Unreserve), extendeddynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from dds_core.errors import DdsError
from dds_lab.actors.objects import CLAIM_FINALIZER, allocation_of, with_finalizer, without_finalizer
from dds_lab.actors.scheduler.claim_cache import (
    FAILED,
    READY,
    TIMED_OUT,
    ClaimCache,
    is_reserved_for,
    is_special,
    name_of,
    readiness,
    uid_of,
    waits,
)
from dds_lab.actors.scheduler.pods import Pod
from dds_lab.actors.scheduler.writing import PodWrites
from dds_lab.client import ApiError, Client, Object, instants
from dds_lab.scenario.parts import Profile
from dds_lab.time import MICROSECONDS, Time, Timer

POLL = 5.0
CONFLICT_RETRIES = 5

Steps = Generator[float, None, None]


class Process:
    """The lab's goroutine. It runs `steps`, a generator that yields the seconds until its next step, until they end, are
    interrupted or are stopped. `ended` is called once, except after a stop. Only a timer resumes a process, never another step,
    so two processes never interleave within a step."""

    def __init__(self, time: Time, steps: Steps, ended: Callable[[], None] | None = None) -> None:
        self._time = time
        self._steps = steps
        self._ended = ended
        self._timer: Timer | None = time.after(0.0, self._next)

    def interrupt(self, error: Exception) -> None:
        """Raise `error` where the process waits, at this instant, after the step that runs now. No effect after its end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._time.after(0.0, lambda: self._next(error))

    def stop(self) -> None:
        """End the process where it waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._steps.close()

    def _next(self, error: Exception | None = None) -> None:
        self._timer = None
        try:
            seconds = self._steps.throw(error) if error is not None else next(self._steps)
        except StopIteration:
            if self._ended is not None:
                self._ended()
            return
        self._timer = self._time.after(seconds, self._next)


class BindingFailed(DdsError):
    """PreBind or Bind failed; the text goes into the pod's condition."""


@dataclass(slots=True, eq=False)
class Assigned:
    """What the scheduling cycle decided for a pod."""

    pod: Pod
    node: str
    claims: list[Object]
    allocations: dict[str, Object] = field(default_factory=dict)  # claim uid → allocation in flight
    special: Object | None = None  # special claim that PreBind must create; its allocation has the key ""
    mappings: list[Object] = field(default_factory=list)


class Bindings(Protocol):
    """The scheduler, as its bindings use it."""

    time: Time
    client: Client
    claims: ClaimCache
    writes: PodWrites

    def clock(self) -> int: ...

    def gate(self, name: str) -> bool: ...

    def pause(self) -> float:
        """Seconds that the next write takes."""
        ...

    def in_flight(self) -> float:
        """Seconds that a chosen allocation stays unwritten."""
        ...

    def pod(self, uid: str) -> Pod | None:
        """The newest known version of the pod."""
        ...

    def forget(self, pod: Pod) -> None:
        """Take the pod off its node, and let the queue retry pods that this may help."""
        ...

    def give_back(self, pod: Pod, message: str) -> Iterator[float]:
        """Report the failure and put the pod back into the queue."""
        ...


class Binding:
    def __init__(self, scheduler: Bindings, assigned: Assigned, profile: Profile, ended: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._assigned = assigned
        self._profile = profile
        self._waiting = False
        self.pod = assigned.pod
        self._process = Process(scheduler.time, self._run(), ended)

    def preempt(self) -> bool:
        """End the wait for devices. False if the pod does not wait."""
        if self._waiting:
            self._waiting = False
            self._process.interrupt(_prebind("preempted by DefaultPreemption"))
            return True
        return False

    def stop(self) -> None:
        """Stop with the scheduler, without clean-up."""
        self._process.stop()

    def _run(self) -> Steps:
        scheduler, assigned = self._scheduler, self._assigned
        try:
            delay = scheduler.in_flight() if assigned.allocations else 0.0
            if delay:
                yield delay
            if scheduler.gate("NominatedNodeNameForExpectation") and self._has_work():
                yield scheduler.pause()
                scheduler.writes.nominate(self._newest(), assigned.node)
            yield from self._write_claims()
            yield from self._await_devices()
            yield scheduler.pause()
            self._bind()
        except BindingFailed as failure:
            self._waiting = False
            yield from self._give_up(str(failure))

    def _has_work(self) -> bool:
        """Whether PreBind has something to write or to wait for."""
        return self._assigned.special is not None or any(
            not is_reserved_for(claim, self.pod) or waits(claim) for claim in self._assigned.claims
        )

    def _bind(self) -> None:
        try:
            self._scheduler.writes.bind(self.pod, self._assigned.node)
        except ApiError as error:
            raise BindingFailed(f'running Bind plugin "DefaultBinder": {error}') from error
        text = f"Successfully assigned {self.pod.key} to {self._assigned.node}"
        self._scheduler.writes.event(self.pod, "Scheduled", text, "Binding")

    # -- PreBind

    def _write_claims(self) -> Steps:
        assigned = self._assigned
        for place, claim in enumerate(assigned.claims):
            if not is_reserved_for(claim, self.pod):
                assigned.claims[place] = yield from self._write_claim(claim, assigned.allocations.get(uid_of(claim)))
        if assigned.special is not None:
            yield self._scheduler.pause()
            claim = self._create_special(assigned.special)
            assigned.claims.append(claim)
            assigned.claims[-1] = yield from self._write_claim(claim, assigned.allocations.get(uid_of(claim)))
            yield self._scheduler.pause()
            self._scheduler.writes.name_special_claim(self._newest(), claim["metadata"]["name"], assigned.mappings)

    def _create_special(self, wanted: Object) -> Object:
        scheduler = self._scheduler
        try:
            claim = scheduler.client.create("resourceclaims", wanted, self.pod.namespace)
        except ApiError as error:
            raise _prebind(f"create claim for extended resources {self.pod.key}: {error}") from error
        allocations = self._assigned.allocations
        allocations[uid_of(claim)] = allocations.pop("")
        scheduler.claims.land(temporary_uid(self.pod))
        scheduler.claims.take_off(uid_of(claim), allocations[uid_of(claim)])
        scheduler.claims.wrote(name_of(claim), claim)
        self._assigned.special = None
        return claim

    def _write_claim(self, claim: Object, allocation: Object | None) -> Generator[float, None, Object]:
        """Add the finalizer if it is missing, then write allocation, reservation and timestamp in one status update. Only
        conflicts are tried again; any other error of the API fails the binding."""
        key, doing = name_of(claim), ""
        for _ in range(CONFLICT_RETRIES):
            try:
                if allocation is not None and CLAIM_FINALIZER not in (claim["metadata"].get("finalizers") or ()):
                    doing = "add finalizer"
                    yield self._scheduler.pause()
                    claim = self._scheduler.client.update("resourceclaims", with_finalizer(claim, CLAIM_FINALIZER))
                doing = "add reservation" if allocation is None else "add allocation and reservation"
                yield self._scheduler.pause()
                written = self._scheduler.client.update("resourceclaims", self._reserved(claim, allocation), "status")
            except ApiError as error:
                if error.reason != "Conflict":
                    raise _prebind(f"{doing} to claim {key}: {error}") from error
                claim = self._refreshed(claim, allocation)
                continue
            self._scheduler.claims.wrote(name_of(written), written)
            self._scheduler.claims.land(uid_of(written))
            return written
        raise _prebind(f"claim {key} changed too often")

    def _refreshed(self, claim: Object, allocation: Object | None) -> Object:
        """The live claim after a conflict. Raises BindingFailed if the pod cannot have it any more."""
        meta = claim["metadata"]
        try:
            found = self._scheduler.client.find("resourceclaims", meta["name"], meta["namespace"])
        except ApiError as error:
            raise _prebind(f"get updated claim {name_of(claim)} after conflict: {error}") from error
        if found is None or uid_of(found) != uid_of(claim):
            raise _prebind(f'resourceclaims.resource.k8s.io "{meta["name"]}" not found')
        if allocation is not None and allocation_of(found) is not None:
            raise _prebind(f"claim {name_of(claim)} got allocated elsewhere in the meantime")
        return found

    def _reserved(self, claim: Object, allocation: Object | None) -> Object:
        status = dict(claim.get("status") or {})
        if allocation is not None:
            status["allocation"] = allocation
            if self._scheduler.gate("DRADeviceBindingConditions"):
                status["allocation"] = {**allocation, "allocationTimestamp": instants.written(self._scheduler.clock())}
        reserver = {"resource": "pods", "name": self.pod.name, "uid": self.pod.uid}
        status["reservedFor"] = [*(status.get("reservedFor") or ()), reserver]
        return {**claim, "status": status}

    def _await_devices(self) -> Steps:
        """Check at once, then every five seconds, until all devices are ready, one failed, or the time is over."""
        scheduler = self._scheduler
        if not scheduler.gate("DRADeviceBindingConditions") or not any(waits(claim) for claim in self._assigned.claims):
            return
        text = f"waiting for binding conditions for device on node {self._assigned.node}"
        scheduler.writes.event(self.pod, "BindingConditionsPending", text, "Scheduling")
        self._waiting = True
        deadline = scheduler.time.now() + round(self._profile.binding_timeout * MICROSECONDS)
        while (unready := self._first_unready()) is not None:
            left = (deadline - scheduler.time.now()) / MICROSECONDS
            if left <= 0:
                raise _prebind(f"device binding timeout: claim={unready}")
            yield min(POLL, left)
        self._waiting = False

    def _first_unready(self) -> str | None:
        """The first claim that is not ready, None when all are. Raises BindingFailed if a device failed or the pod is gone.

        Each check reads the claims anew (isPodReadyForBinding). A claim without allocation is waited for like any other. A
        device without binding conditions is ready. Node and reservation of the claim are not checked.
        """
        if self._scheduler.pod(self.pod.uid) is None:
            raise _prebind(f"pod {self.pod.key} is gone")
        for place, claim in enumerate(self._assigned.claims):
            name = claim["metadata"]["name"]
            found = self._scheduler.claims.get(name_of(claim))
            if found is None:
                raise _prebind(f'resourceclaim "{name}" not found')
            self._assigned.claims[place] = found
            if allocation_of(found) is None:
                return str(name)
            state = readiness(found, self._scheduler.clock(), self._profile.binding_timeout)
            if state.state == FAILED:
                message = state.message.replace("\\", "\\\\").replace('"', '\\"')
                raise _prebind(f'device binding failed: claim={name}, reason={state.reason}, message="{message}"')
            if state.state == TIMED_OUT:
                raise _prebind(f"device binding timeout: claim={name}")
            if state.state != READY:
                return str(name)
        return None

    def _give_up(self, message: str) -> Steps:
        scheduler = self._scheduler
        yield from self._unreserve()
        scheduler.forget(self.pod)
        yield from scheduler.give_back(self.pod, message)

    def _unreserve(self) -> Steps:
        """Remove the pod, and no other, from the reservations of claims that were allocated at its last check. Allocations stay.
        A special claim is deleted instead."""
        scheduler = self._scheduler
        if self._assigned.special is not None:
            scheduler.claims.land(temporary_uid(self.pod))
        for claim in self._assigned.claims:
            scheduler.claims.land(uid_of(claim))
            if is_special(claim, self.pod):
                yield from delete_special(scheduler, claim)
            elif allocation_of(claim) is not None and is_reserved_for(claim, self.pod):
                yield scheduler.pause()
                self._patch_reservation(claim)

    def _patch_reservation(self, claim: Object) -> None:
        meta = claim["metadata"]
        going = {"$patch": "delete", "uid": self.pod.uid}
        body = {"metadata": {"uid": meta["uid"]}, "status": {"reservedFor": [going]}}
        client = self._scheduler.client
        try:
            written = client.patch("resourceclaims", meta["name"], body, meta["namespace"], "strategic", "status")
        except ApiError:
            return
        self._scheduler.claims.wrote(name_of(claim), written)

    def _newest(self) -> Pod:
        return self._scheduler.pod(self.pod.uid) or self.pod


def delete_special(scheduler: Bindings, claim: Object) -> Steps:
    """Delete a special claim, which is never deallocated. Its finalizer is removed first."""
    meta = claim["metadata"]
    client = scheduler.client
    try:
        newest = client.get("resourceclaims", meta["name"], meta["namespace"])
        if newest["metadata"].get("finalizers"):
            yield scheduler.pause()
            client.update("resourceclaims", without_finalizer(newest, CLAIM_FINALIZER))
        yield scheduler.pause()
        client.delete("resourceclaims", meta["name"], meta["namespace"], uid=meta["uid"])
    except ApiError:
        return


def cleared(claim: Object) -> Object:
    """The claim without reservations, allocation and device statuses, as PostFilter writes it."""
    status = {key: value for key, value in (claim.get("status") or {}).items() if key not in _ALLOCATED}
    return {**claim, "status": status}


_ALLOCATED = ("allocation", "reservedFor", "devices")


def temporary_uid(pod: Pod) -> str:
    """The uid under which a special claim is counted before it exists."""
    return f"special/{pod.uid}"


def _prebind(text: str) -> BindingFailed:
    return BindingFailed(f'running PreBind plugin "DynamicResources": {text}')
