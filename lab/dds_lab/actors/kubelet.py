"""The kubelets of all nodes: they start bound pods, have the drivers prepare their claims, run and end them, and complete their
deletion.

A claim is prepared by device name; if the node's driver does not know the name, the pod waits. The kubelet reports to the fabric
which devices running pods use. A node that is `lost` is silent: nothing on it starts, ends or goes until it is found again.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Protocol

from dds_lab.actors.fabric import Fabric
from dds_lab.actors.objects import Teller, claim_names, reservations, results
from dds_lab.actors.vendor import NotPrepared
from dds_lab.client import ApiError, Client, Object, instants
from dds_lab.latency import Fixed, Latency
from dds_lab.scenario.parts import KubeletPart
from dds_lab.time import Time, Timer

RUN_FOR = "lab.dynamic-device-scaler.io/run-for"
"""Annotation: the seconds that a pod runs. A Job's pod without it runs for `KubeletPart.job`, any other for ever."""
EXIT_CODE = "lab.dynamic-device-scaler.io/exit-code"
"""Annotation: the exit code with which it ends; 0 by default."""
_SECONDS = re.compile(r"\d{1,12}(\.\d{1,9})?")
FIRST_RETRY, LAST_RETRY = 2.0, 120.0
FORCED = Fixed(0.005)


class Driver(Protocol):
    """A DRA driver's plugin, as a kubelet sees it."""

    def prepare(self, node: str, device: str, *, looks: bool) -> str:
        """Prepare a device, or for a pod that only `looks` at it (admin access). Returns its serial, "" if it has none. Raises
        NotPrepared."""
        ...


@dataclass(slots=True)
class _Pod:
    uid: str
    node: str
    serials: tuple[str, ...] = ()
    running: bool = False
    ending: bool = False
    tries: int = 0
    timer: Timer | None = None


class Kubelet:
    """`drivers`: the DRA plugins by driver name. `forced`: seconds that the end of a pod takes at least."""

    def __init__(
        self,
        client: Client,
        time: Time,
        settings: KubeletPart,
        fabric: Fabric,
        drivers: Mapping[str, Driver],
        forced: Latency = FORCED,
    ) -> None:
        self._client = client
        self._time = time
        self._starts, self._stops, self._forced = settings.start.latency(), settings.stop.latency(), forced
        self._job = settings.job.latency()
        self._fabric = fabric
        self._drivers = drivers
        self._random: Random = time.random("kubelet")
        self._events = Teller(client, time, "kubelet")
        self._known: dict[tuple[str, str], _Pod] = {}  # (namespace, name)
        self._lost: set[str] = set()

    def start(self) -> None:
        self._pods = self._client.mirror("pods")
        self._pods.follow(self._changed)
        there = {"/".join(_key(pod)) for pod in self._pods.values()}
        for user in self._fabric.busy():  # pods that were deleted while no kubelet ran
            if user not in there:
                self._fabric.vacate(user)

    def stop(self) -> None:
        self._pods.close()
        for known in self._known.values():
            self._cancel(known)
        self._known.clear()

    def lose(self, node: str) -> None:
        """The node falls silent. Its pods keep running."""
        self._lost.add(node)
        for known in self._known.values():
            if known.node == node:
                self._cancel(known)

    def find(self, node: str) -> None:
        """The node answers again and catches up."""
        self._lost.discard(node)
        for pod in [one for one in self._pods.values() if one["spec"].get("nodeName") == node]:
            self._known.pop(_key(pod), None)
            self._changed(None, pod)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        if pod is None or not pod["spec"].get("nodeName"):
            return
        key, known = _key(pod), self._known.get(_key(pod))
        if new is None or (known is not None and known.uid != new["metadata"]["uid"]):
            if known is not None:
                self._cancel(known)
                self._vacate(key, known)
                del self._known[key]
            if new is None:
                return
            known = None
        node = new["spec"]["nodeName"]
        if node in self._lost:
            return
        phase = (new.get("status") or {}).get("phase", "Pending")
        if known is None:
            known = self._known[key] = _Pod(new["metadata"]["uid"], node)
            if not new["metadata"].get("deletionTimestamp"):
                self._admit(key, known, new, phase)
        if new["metadata"].get("deletionTimestamp") and not known.ending:
            self._end(key, known, new)

    def _admit(self, key: tuple[str, str], known: _Pod, pod: Object, phase: str) -> None:
        """A pod seen for the first time: start it, or take it over if it ran before this kubelet started."""
        if phase == "Pending":
            self._after(known, self._starts.draw(self._random), lambda: self._start(key, known))
        elif phase == "Running":
            with suppress(NotPrepared, ApiError):
                known.serials = tuple(self._prepared(pod))
            began = (pod.get("status") or {}).get("startTime")
            self._run(key, known, pod, instants.read(began) if began else self._time.now())

    def _start(self, key: tuple[str, str], known: _Pod) -> None:
        pod = self._pods.get(key[1], key[0])
        if pod is None or pod["metadata"]["uid"] != known.uid:
            return
        try:
            known.serials = tuple(self._prepared(pod))
        except NotPrepared as error:
            self._events.warn(pod, "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {error}")
            self._again(known, lambda: self._start(key, known))
            return
        except ApiError:
            self._again(known, lambda: self._start(key, known))
            return
        now = instants.written(self._time.now())
        if self._patch(key, _running(pod, now)):
            self._run(key, known, pod, self._time.now())
        else:
            self._again(known, lambda: self._start(key, known))

    def _run(self, key: tuple[str, str], known: _Pod, pod: Object, began: int) -> None:
        known.running, known.tries = True, 0
        for serial in known.serials:
            self._fabric.occupy(serial, "/".join(key))
        seconds = self._lifetime(pod)
        if seconds is not None:
            left = seconds - (self._time.now() - began) / 1_000_000
            self._after(known, max(0.0, left), lambda: self._complete(key, known))

    def _lifetime(self, pod: Object) -> float | None:
        """The seconds that the pod runs; None: for ever, as a pod does whose controller wants its containers restarted."""
        owners = pod["metadata"].get("ownerReferences") or ()
        kind = next((one["kind"] for one in owners if one.get("controller")), "")
        if kind and pod["spec"].get("restartPolicy") == "Always":
            return None
        text = (pod["metadata"].get("annotations") or {}).get(RUN_FOR, "")
        if _SECONDS.fullmatch(text):
            return float(text)
        return self._job.draw(self._random) if kind == "Job" else None

    def _complete(self, key: tuple[str, str], known: _Pod) -> None:
        pod = self._pods.get(key[1], key[0])
        if pod is None or pod["metadata"]["uid"] != known.uid:
            return
        now = instants.written(self._time.now())
        code = (pod["metadata"].get("annotations") or {}).get(EXIT_CODE, "0")
        if code.isdecimal() and 0 < int(code) < 256:
            done = _ended(pod, now, "Failed", "PodFailed", int(code), "Error")
        else:
            done = _ended(pod, now, "Succeeded", "PodCompleted", 0, "Completed")
        if not self._patch(key, done):
            self._again(known, lambda: self._complete(key, known))
            return
        self._vacate(key, known)

    def _end(self, key: tuple[str, str], known: _Pod, pod: Object) -> None:
        """End a deleted pod within its grace period."""
        known.ending = True
        grace = pod["metadata"].get("deletionGracePeriodSeconds", 30)
        wait = min(float(grace), self._stops.draw(self._random)) if known.running else 0.0
        self._after(known, max(wait, self._forced.draw(self._random)), lambda: self._finish(key, known))

    def _finish(self, key: tuple[str, str], known: _Pod) -> None:
        """Delete the ended pod. One that a finalizer keeps has a final phase from now on, which frees its claims (kubelets of
        1.27 and later; without a finalizer nobody sees that phase for long)."""
        self._vacate(key, known)
        pod = self._pods.get(key[1], key[0])
        if pod is not None and pod["metadata"].get("finalizers"):
            ended = _ended(pod, instants.written(self._time.now()), "Failed", "PodFailed", 137, "Error")
            if not self._patch(key, ended):
                self._again(known, lambda: self._finish(key, known))
                return
        try:
            self._client.delete("pods", key[1], key[0], uid=known.uid, grace=0)
        except ApiError as error:
            if error.code not in (404, 409):
                self._again(known, lambda: self._finish(key, known))

    def _vacate(self, key: tuple[str, str], known: _Pod) -> None:
        known.running = False
        self._fabric.vacate("/".join(key))
        known.serials = ()

    def _prepared(self, pod: Object) -> list[str]:
        """Prepare all devices of the pod's claims. Returns the serials of those that its processes use: not of those at which it
        only looks (admin access). Raises NotPrepared."""
        namespace, serials = pod["metadata"]["namespace"], []
        for name in claim_names(pod):
            claim = self._client.find("resourceclaims", name, namespace)
            if claim is None or all(one["uid"] != pod["metadata"]["uid"] for one in reservations(claim)):
                raise NotPrepared(f"claim {name} is not reserved for the pod", where=f"{namespace}/{name}")
            for result in results(claim):
                driver = self._drivers.get(result["driver"])
                if driver is None:
                    raise NotPrepared(f"DRA driver {result['driver']} is not registered", where=f"{namespace}/{name}")
                looks = bool(result.get("adminAccess"))
                serial = driver.prepare(pod["spec"]["nodeName"], result["device"], looks=looks)
                if serial and not looks:
                    serials.append(serial)
        return serials

    def _patch(self, key: tuple[str, str], status: Object) -> bool:
        """Write the pod's status. False if the write must be tried again."""
        try:
            self._client.patch("pods", key[1], {"status": status}, key[0], how="strategic", subresource="status")
        except ApiError as error:
            return error.code == 404
        return True

    def _again(self, known: _Pod, call: Callable[[], None]) -> None:
        wait = min(LAST_RETRY, FIRST_RETRY * 2.0 ** min(known.tries, 20))
        known.tries += 1
        self._after(known, wait, call)

    def _after(self, known: _Pod, seconds: float, call: Callable[[], None]) -> None:
        self._cancel(known)
        known.timer = self._time.after(seconds, call)

    def _cancel(self, known: _Pod) -> None:
        if known.timer is not None:
            known.timer.cancel()
            known.timer = None


def _key(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _running(pod: Object, now: str) -> Object:
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [_condition(name, "True", now) for name in ("Initialized", "ContainersReady", "Ready")],
        "containerStatuses": [
            _container(one, ready=True, state={"running": {"startedAt": now}}) for one in pod["spec"]["containers"]
        ],
    }


def _ended(pod: Object, now: str, phase: str, why: str, code: int, reason: str) -> Object:
    ended = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": now}}
    return {
        "phase": phase,
        "conditions": [_condition(name, "False", now, why) for name in ("ContainersReady", "Ready")],
        "containerStatuses": [_container(one, ready=False, state=ended) for one in pod["spec"]["containers"]],
    }


def _condition(name: str, status: str, now: str, reason: str = "") -> Object:
    found = {"type": name, "status": status, "lastTransitionTime": now}
    return {**found, "reason": reason} if reason else found


def _container(container: Object, *, ready: bool, state: Object) -> Object:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
    }
