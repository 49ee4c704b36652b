"""Kubernetes Events (events.k8s.io/v1) of dds, for `kubectl describe`.

An event's name is that of its object, with a hash of object, reason, part and instant, so that a retry creates no second one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dds_adapters.kubernetes.cluster import Asking
from dds_adapters.kubernetes.decode import config
from dds_adapters.kubernetes.decode.translate import RESOURCES
from dds_adapters.kubernetes.write.devices import rfc3339
from dds_adapters.kubernetes.write.live_object import MANAGER, Changed, Ended, Ref, Server
from dds_adapters.kubernetes.write.tasks import Done, Result, Task, Versions
from dds_core.events import Decision, Event
from dds_core.kit.policy import MICROSECONDS
from dds_core.lifecycle import ATTACHED, IDLE
from dds_core.model import FINISHED, Claim, Pod
from dds_core.scaler import events as e
from dds_core.scaler.blame import HAND_OVER, OPERATOR, SCHEDULER, WHOSE
from dds_core.scaler.state import State
from dds_core.text import scrub

EVENTS = "events"
API_VERSION = "events.k8s.io/v1"
OF_CLUSTER = "default"
"""The namespace of events about cluster-scoped objects."""
POLICY_INVALID = "PolicyInvalid"
"""The reason of an event about the policy's file."""
WORD_LENGTH = 128
NAME_LENGTH = 230
"""Longest part of an object's name that leaves room for the hash."""

Type = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class Regarding:
    """An object, as an event refers to it. `api_version` "": the version in which `resource` is served."""

    kind: str
    resource: str
    name: str
    uid: str
    namespace: str = ""
    api_version: str = ""

    def reference(self, versions: Versions) -> dict[str, str]:
        version = self.api_version or versions(self.resource)
        whole = {
            "apiVersion": version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }
        return {key: value for key, value in whole.items() if value}


@dataclass(frozen=True, slots=True)
class TellPeople:
    """One event. `at` is an instant in microseconds, `instance` names the reporting process. `part` distinguishes events about
    one object with the same reason and instant."""

    regarding: Regarding
    reason: str
    action: str
    note: str
    type: Type
    at: int
    instance: str
    related: Regarding | None = None
    part: str = ""

    @property
    def name(self) -> str:
        part = f"\0{self.part}" if self.part else ""
        digest = hashlib.sha256(f"{self.regarding.uid}\0{self.reason}\0{self.at}{part}".encode()).hexdigest()[:16]
        return f"{self.regarding.name[:NAME_LENGTH].rstrip('.-')}.{digest}"

    @property
    def namespace(self) -> str:
        return self.regarding.namespace or OF_CLUSTER

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        server = Server(api, lambda _: API_VERSION)
        try:
            server.create(Ref(EVENTS, self.name, self.namespace), self._body(versions))
        except Changed:  # it exists already
            return Done(written=False)
        except Ended as end:
            return end.result
        return Done()

    def _body(self, versions: Versions) -> dict[str, Any]:
        related = {"related": self.related.reference(versions)} if self.related is not None else {}
        return {
            "apiVersion": API_VERSION,
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "eventTime": rfc3339(self.at, precise=True),
            "reportingController": MANAGER,
            "reportingInstance": self.instance[:WORD_LENGTH],
            "action": self.action[:WORD_LENGTH],
            "reason": self.reason[:WORD_LENGTH],
            "note": scrub(self.note),
            "type": self.type,
            "regarding": self.regarding.reference(versions),
            **related,
        }


# -- texts -------------------------------------------------------------------------------------------------------------

_PLURAL = {one.name: plural for plural, one in RESOURCES.items()}
_KIND = {one.kind: one.name for one in RESOURCES.values()}


class Words:
    """Makes the tasks for one event of the log."""

    def __init__(self, at: int, state: State, config_namespace: str) -> None:
        self.state = state
        self.config_namespace = config_namespace
        self._at = at
        self._instance = f"dds-epoch-{state.process.epoch}"

    def tell(
        self,
        regarding: Regarding,
        reason: str,
        action: str,
        note: str,
        related: Regarding | None = None,
        type: Type = "Normal",
    ) -> Task:
        write = TellPeople(regarding, reason, action, note, type, self._at, self._instance, related)
        return Task(write, (f"{EVENTS}/{regarding.uid}",), at=self._at)

    def warn(self, regarding: Regarding, reason: str, action: str, note: str, related: Regarding | None = None) -> Task:
        return self.tell(regarding, reason, action, note, related, "Warning")


def announce(event: Event, at: int, state: State, config_namespace: str = config.NAMESPACE) -> tuple[Task, ...]:
    """The Kubernetes Events for an event of the log, decided or seen at `at` (microseconds): each step of a claim's life once, on
    the object that its user looks at. None in mode `observe`."""
    say = _WORDS.get(type(event))
    if say is None or not state.live or (isinstance(event, Decision) and event.mode == "observe"):
        return ()
    return tuple(say(event, Words(at, state, config_namespace)))


def _regarding(found: Any) -> Regarding:
    kind = _KIND[type(found)]
    version = "v1" if kind in ("Pod", "Node", "ConfigMap") else ""
    return Regarding(kind, _PLURAL[kind], found.name, found.uid, getattr(found, "namespace", ""), version)


def _waiting_pod(state: State, claim: Claim) -> Pod | None:
    """The claim's first pod without a node."""
    waiting = (
        pod for pod in state.demand.pods_of(claim) if not pod.node and not pod.deleting and pod.phase not in FINISHED
    )
    return next(waiting, None)


# --- one function per event --------------------------------------------------------------------------------------------


def _attach_ordered(event: e.AttachOrdered, words: Words) -> Iterator[Task]:
    for uid in event.claims:
        claim = words.state.demand.claims.get(uid)
        if claim is None:
            continue
        what = f"ordered {event.model} for node {event.node}, for claim {claim.namespace}/{claim.name}"
        note = f"{what}; it waits for {WHOSE[OPERATOR]}"
        pod = _waiting_pod(words.state, claim)
        if pod is None:
            yield words.tell(_regarding(claim), "AttachOrdered", "Attach", note)
        else:
            yield words.tell(_regarding(pod), "AttachOrdered", "Attach", note, _regarding(claim))


def _claim_moved(event: e.ClaimMoved, words: Words) -> Iterator[Task]:
    claim = words.state.demand.claims.get(event.claim)
    if claim is not None and event.trigger == "allocated_pool":
        yield from _looks_only(claim, words)
    if claim is None or event.trigger != "device_ready" or event.target != ATTACHED:
        return
    names = ", ".join(f"{promise.device} ({promise.uuid})" for promise in event.promises)
    node = words.state.demand.node_of(claim)
    note = f"attached to node {node}: {names}" if names else f"its devices are attached to node {node}"
    yield words.tell(_regarding(claim), "DeviceAttached", "Attach", note)


def _looks_only(claim: Claim, words: Words) -> Iterator[Task]:
    """A claim with admin access gets no device attached, and its pod would not learn why it waits."""
    looks = any(result.admin for _, result, _ in words.state.inventory.pool_results(claim.allocation))
    pod = _waiting_pod(words.state, claim) if looks else None
    if pod is not None:
        node = words.state.demand.node_of(claim)
        note = f"no device is attached only to be looked at (adminAccess): it gets those of {node}, or waits"
        yield words.tell(_regarding(pod), "LooksOnly", "Attach", note, _regarding(claim))


def _hand_over(event: e.HandOver, words: Words) -> Iterator[Task]:
    pod = words.state.demand.pods.get(event.pod)
    if pod is not None:
        note = f"its devices are attached to node {event.node}; it waits for {WHOSE[HAND_OVER]}"
        yield words.tell(_regarding(pod), "HandOver", "HandOver", note)


def _devices_given(event: e.DevicesGiven, words: Words) -> Iterator[Task]:
    claim = words.state.demand.claims.get(event.claim)
    if claim is None:
        return
    given = ", ".join(one.device for one in event.swap.results)
    what = f"given {given} on node {event.node} instead of {', '.join(event.instead)}"
    note = f"{what}; it waits for {WHOSE[SCHEDULER]}"
    pod = _waiting_pod(words.state, claim)
    yield words.tell(_regarding(claim), "Exchanged", "HandOver", note, _regarding(pod) if pod is not None else None)


def _claim_failed(event: e.ClaimFailed, words: Words) -> Iterator[Task]:
    claim = words.state.demand.claims.get(event.claim)
    if claim is None:
        return
    where = f" on node {event.node}" if event.node else ""
    note = f"{event.model or 'its device'} cannot be attached{where}: {event.message or event.reason}"
    yield words.warn(_regarding(claim), event.reason, "Attach", note)
    pod = _waiting_pod(words.state, claim)
    if pod is not None:
        told = f"claim {claim.name}: {note}"
        yield words.warn(_regarding(pod), event.reason, "Attach", told, _regarding(claim))


def _detach_ordered(event: e.DetachOrdered, words: Words) -> Iterator[Task]:
    request = words.state.fleet.requests.get(event.uid)
    if request is None:
        return
    known = (words.state.fleet.resources.get(uid) for uid in event.victims)
    names = ", ".join(one.name for one in known if one is not None) or f"{event.previous - event.size} devices"
    came = event.victims and not event.unattached
    what = "back to the pool from" if came else "taken back, as the fabric has none and nobody waits, for"
    note = f"{what} node {event.node}: {names}; {event.size} of {event.model} stay"
    yield words.tell(_regarding(request), "DetachOrdered", "Detach", note)


def _device_moved(event: e.DeviceMoved, words: Words) -> Iterator[Task]:
    resource = words.state.fleet.resources.get(event.resource)
    if resource is None or event.trigger != "freed" or event.target != IDLE:
        return
    seconds = words.state.idle_time(resource.node, resource.model) // MICROSECONDS
    note = f"{resource.model} on node {resource.node} is in no claim's hands; it may go back to the pool in {seconds} s"
    yield words.tell(_regarding(resource), "DeviceIdle", "Release", note)


def _alerted(event: e.Alerted, words: Words) -> Iterator[Task]:
    regarding = _object(words.state, event.of)
    if regarding is not None:
        yield words.warn(regarding, event.reason, "Check", event.text)
    for pod in _users(words.state, event.of):
        yield words.warn(pod, event.reason, "Check", event.text, regarding)


def _users(state: State, of: str) -> Iterator[Regarding]:
    """The pods that use a resource's device, or the pod that waits for a claim."""
    if (waiting := state.demand.claims.get(of)) is not None and (pod := _waiting_pod(state, waiting)) is not None:
        yield _regarding(pod)
    resource = state.fleet.resources.get(of)
    faces = state.inventory.keys_of[resource.uuid] if resource is not None and resource.uuid else ()
    claims = {uid: state.demand.claims.rows[uid] for key in sorted(faces) for uid in sorted(state.demand.having[key])}
    for claim in claims.values():
        for one in claim.consumers:
            if one.resource == "pods":
                yield Regarding("Pod", "pods", one.name, one.uid, claim.namespace, "v1")


def _rejected(event: e.Rejected, words: Words) -> Iterator[Task]:
    if event.uid == e.POLICY:  # no object is known of its file: the ConfigMap of the fabric stands for it
        uid = words.state.settings.config.uid
        regarding = Regarding("ConfigMap", "configmaps", config.NAME, uid, words.config_namespace, "v1")
        yield words.warn(regarding, POLICY_INVALID, "Read", f"{event.field}; the last valid policy stays in force")
        return
    plural = _PLURAL.get(event.kind, "")
    if not plural or not event.name or event.uid == e.SCALER:
        return
    version = "v1" if event.kind in ("Pod", "Node", "ConfigMap") else ""
    regarding = Regarding(event.kind, plural, event.name, event.uid, event.namespace, version)
    yield words.warn(
        regarding, "Rejected", "Read", f"{event.field} {event.reason}; it is left aside until that is mended"
    )


def _object(state: State, of: str) -> Regarding | None:
    """The object of an alert, by its uid or a node's name; None if it has none, or it is gone."""
    tables: tuple[Any, ...] = (
        state.demand.claims,
        state.fleet.resources,
        state.demand.pods,
        state.fleet.requests,
        state.fleet.nodes,
        state.inventory.taint_rules,
    )
    found = next((one for table in tables if (one := table.get(of)) is not None), None) or state.fleet.node(of)
    return _regarding(found) if found is not None else None


_WORDS: dict[type[Event], Callable[[Any, Words], Iterator[Task]]] = {
    e.AttachOrdered: _attach_ordered,
    e.ClaimMoved: _claim_moved,
    e.HandOver: _hand_over,
    e.DevicesGiven: _devices_given,
    e.ClaimFailed: _claim_failed,
    e.DetachOrdered: _detach_ordered,
    e.DeviceMoved: _device_moved,
    e.Alerted: _alerted,
    e.Rejected: _rejected,
}
