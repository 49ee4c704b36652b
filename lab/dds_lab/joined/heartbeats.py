"""Keeps the lab alive in a foreign cluster, in a thread of its own: its nodes' leases and conditions, as kubelets do, and its own
Lease, by which another lab sees that this one still runs.

A slow server holds up the actors, but not the heartbeats. A node that a step has silenced has none.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from dds_core.errors import InputError
from dds_core.timeline.instants import rfc3339
from dds_lab.actors.objects import node_owner, ready_condition
from dds_lab.client import ApiError, Client, Object, instants
from dds_lab.joined.marks import LEASE, LEASES
from dds_lab.time import MICROSECONDS

RENEW_SECONDS, LEASE_SECONDS = 5.0, 20
BEATS_SECONDS, NODE_SECONDS = 10.0, 40
"""Interval of the nodes' leases, and what they say that they last: as kubelets do."""
CONDITIONS_SECONDS = 60.0
WORKERS = 8
_QUIET = (("MemoryPressure", "KubeletHasSufficientMemory"), ("DiskPressure", "KubeletHasNoDiskPressure"))


class AlreadyJoined(InputError):
    """Another lab has joined the cluster and is alive."""


def conditions(now: str) -> list[Object]:
    """The conditions of a healthy node."""
    ready = ready_condition("True", "KubeletReady", "kubelet is posting ready status", now)
    return [*({**ready, "type": kind, "status": "False", "reason": why, "message": why} for kind, why in _QUIET), ready]


def taken(client: Client) -> str:
    """The lab that has joined the cluster and still renews its Lease, as HOST/PID; "" if there is none. Raises ApiError."""
    found = client.find("leases.coordination.k8s.io", LEASE, LEASES)
    spec = (found or {}).get("spec") or {}
    who: str = spec.get("holderIdentity") or ""
    host, _, process = who.rpartition("/")
    if not who or (host == socket.gethostname() and not _runs(process)):
        return ""
    renewed = spec.get("renewTime")
    age = client.time.now() - instants.read(renewed) if renewed else LEASE_SECONDS * MICROSECONDS
    return who if age < LEASE_SECONDS * MICROSECONDS else ""


def _runs(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        pass
    return True


class Heartbeats:
    """`lost` is called, from the thread, when the lab's own lease is gone; `note` gets a line about each other trouble."""

    def __init__(
        self, client: Client, nodes: Iterable[str], lost: Callable[[], object], note: Callable[[str], None]
    ) -> None:
        self._client = client
        self._silent: set[str] = set()
        self._nodes = list(nodes)
        self._lost = lost
        self._note = note
        self._uid = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def take(self, scenario: str) -> None:
        """Make the lab's own lease, before anything else. Raises AlreadyJoined and ApiError."""
        spec = {
            "holderIdentity": f"{socket.gethostname()}/{os.getpid()}",
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": _now(),
        }
        body = {"metadata": {"name": LEASE, "namespace": LEASES, "annotations": {"scenario": scenario}}, "spec": spec}
        try:
            made = self._client.create("leases.coordination.k8s.io", body, LEASES)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            raise AlreadyJoined("another lab is joining this very moment", fix="wait for it, or let it leave") from None
        self._uid = made["metadata"]["uid"]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(30.0)

    def lose(self, node: str) -> None:
        """The node falls silent."""
        self._silent.add(node)

    def find(self, node: str) -> None:
        """The node answers again."""
        self._silent.discard(node)

    def _run(self) -> None:
        beats = told = -CONDITIONS_SECONDS
        silent: set[str] = set()
        with ThreadPoolExecutor(WORKERS, "heartbeat") as pool:
            while not self._stopped.is_set():
                self._renew()
                now = time.monotonic()
                alive = [one for one in self._nodes if one not in self._silent]
                if now - beats >= BEATS_SECONDS:
                    beats = now
                    list(pool.map(self._beat, alive))
                back = silent - self._silent
                list(pool.map(partial(self.tell, changed=True), back))
                if now - told >= CONDITIONS_SECONDS:
                    told = now
                    list(pool.map(self.tell, (one for one in alive if one not in back)))
                silent = set(self._silent)
                self._stopped.wait(RENEW_SECONDS)

    def _renew(self) -> None:
        body = {"metadata": {"uid": self._uid}, "spec": {"renewTime": _now()}}
        try:
            self._client.patch("leases.coordination.k8s.io", LEASE, body, LEASES)
        except ApiError as error:
            if error.code in (404, 409) and not self._stopped.is_set():
                self._stopped.set()
                self._lost()
            elif error.code not in (404, 409):
                self._note(f"the lab's lease: {error.code} {error}")

    def _beat(self, node: str) -> None:
        """Renew the node's lease. One that is missing is made, if there is still a node."""
        spec = {"holderIdentity": node, "leaseDurationSeconds": NODE_SECONDS, "renewTime": _now()}
        try:
            try:
                self._client.patch("leases.coordination.k8s.io", node, {"spec": spec}, LEASES)
            except ApiError as error:
                found = self._client.find("nodes", node) if error.code == 404 else None
                if error.code != 404:
                    raise
                if found is not None and not self._stopped.is_set():
                    owner = node_owner(node, found["metadata"]["uid"])
                    meta = {"name": node, "namespace": LEASES, "ownerReferences": [{**owner, "controller": False}]}
                    self._client.create("leases.coordination.k8s.io", {"metadata": meta, "spec": spec}, LEASES)
        except ApiError as error:
            self._note(f"heartbeat of {node}: {error.code} {error}")

    def tell(self, node: str, *, changed: bool = False) -> None:
        """Report the node healthy, as a kubelet does: the instant of the last transition stays, unless it was silent before."""
        found = conditions(instants.written(self._client.time.now()))
        if not changed:
            found = [{name: value for name, value in one.items() if name != "lastTransitionTime"} for one in found]
        patch: dict[str, Any] = {"status": {"conditions": found}}
        try:
            self._client.patch("nodes", node, patch, how="strategic", subresource="status")
        except ApiError as error:
            if error.code != 404:
                self._note(f"status of {node}: {error.code} {error}")


def _now() -> str:
    return rfc3339(time.time_ns() // 1000)
