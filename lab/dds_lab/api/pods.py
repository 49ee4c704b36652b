"""The two subresources of pods that are no part of the pod: binding puts it on a node, eviction asks it to go.

Each is one write like any other; nothing here decides where a pod should run.
"""

from typing import Any

import msgspec

from dds_lab.api import decoding, status
from dds_lab.api.clock import Clock
from dds_lab.api.deleting import Deleter
from dds_lab.api.kinds import Object
from dds_lab.api.packed import kind_node
from dds_lab.api.paths import Query, deleting
from dds_lab.api.requests import Call, Outcome
from dds_lab.api.status import Cause
from dds_lab.api.store import Store

POSTED = ("binding", "eviction")
"""Subresources that are only posted to."""


class PodVerbs:
    """Binding and eviction over one store."""

    def __init__(self, store: Store, clock: Clock, deleter: Deleter) -> None:
        self._store = store
        self._clock = clock
        self._deleter = deleter

    def create(self, call: Call) -> Outcome:
        """What a POST to a pod's subresource asks for; 201 and a Status."""
        return self._bind(call) if call.subresource == "binding" else self._evict(call)

    def _bind(self, call: Call) -> Outcome:
        body = _decoded(call, "", "Binding")
        meta = _part(body, "metadata")
        if meta.get("name") not in (None, "", call.name):
            words = f"the name of the object ({meta['name']}) does not match the name on the URL ({call.name})"
            raise status.bad_request(words)
        target = _part(body, "target")
        node = target.get("name")
        if target.get("kind") not in (None, "", "Node") or not node:
            raise _invalid_target(call, target)
        record = self._store.get("pods", call.path)
        if record is None:
            raise status.not_found(call.resource, call.name)
        pod = record.object
        self._check_bindable(call, pod, meta)
        bound = self._bound(pod, node, meta)
        if not call.writing.dry_run:
            self._store.put("pods", call.path, bound)
        return Outcome(code=201, object=status.success(code=201))

    def _check_bindable(self, call: Call, pod: Object, meta: Object) -> None:
        uid = meta.get("uid")
        if uid and uid != pod["metadata"]["uid"]:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod['metadata']['uid']}"
            raise status.conflict(call.resource, call.name, why)
        why = ""
        if pod["metadata"].get("deletionTimestamp"):
            why = f"pod {call.name} is being deleted, cannot be assigned to a host"
        elif (pod.get("spec") or {}).get("nodeName"):
            why = f'pod {call.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        elif (pod.get("spec") or {}).get("schedulingGates"):
            why = f"pod {call.name} has non-empty .spec.schedulingGates"
        if why:
            message = f'Operation cannot be fulfilled on pods/binding "{call.name}": {why}'
            raise status.ApiError(409, "Conflict", message, {"name": call.name, "kind": "pods/binding"})

    def _bound(self, pod: Object, node: str, meta: Object) -> Object:
        had = pod["metadata"]
        merged = {key: {**(had.get(key) or {}), **meta[key]} for key in ("annotations", "labels") if meta.get(key)}
        state = pod.get("status") or {}
        scheduled: Object = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self._clock.text(),
        }
        conditions: list[Object] = state.get("conditions") or []
        was = next((each for each in conditions if each.get("type") == "PodScheduled"), None)
        if was is not None and was.get("status") == "True":
            scheduled["lastTransitionTime"] = was.get("lastTransitionTime")
        others = [scheduled if each is was else each for each in conditions]
        kept = {key: value for key, value in state.items() if key != "nominatedNodeName"}
        return {
            **pod,
            "metadata": {**had, **merged},
            "spec": {**pod["spec"], "nodeName": node},
            "status": {**kept, "conditions": others if was is not None else [*conditions, scheduled]},
        }

    def _evict(self, call: Call) -> Outcome:
        body = _decoded(call, "policy", "Eviction")
        if (body.get("metadata") or {}).get("name") not in (None, "", call.name):
            words = f"name in URL does not match name in Eviction object: {call.name} != {body['metadata']['name']}"
            raise status.bad_request(words)
        options = deleting(Query(""), body.get("deleteOptions"))
        if call.writing.dry_run:
            options = msgspec.structs.replace(options, dry_run=True)
        self._deleter.delete(
            Call(
                verb="delete", resource=call.resource, user=call.user, namespace=call.namespace, name=call.name,
                deleting=options,
            )
        )  # fmt: skip
        return Outcome(code=201, object=status.success(code=201))


def _decoded(call: Call, group: str, kind: str) -> Object:
    """The body as an object of its kind, without fields that this kind does not know."""
    body: Any = call.body
    if not isinstance(body, dict) or body.get("kind") not in (None, "", kind):
        raise status.bad_request(f"the object provided is unrecognized (must be of type {kind})")
    try:
        found: Object = decoding.decoded(kind_node(group, "v1", kind), body)[0]
    except decoding.Mismatch as problem:
        raise status.bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {problem}') from None
    return found


def _part(body: Object, name: str) -> Object:
    part: Object = body.get(name) or {}
    return part


def _invalid_target(call: Call, target: Object) -> status.ApiError:
    if target.get("kind") not in (None, "", "Node"):
        cause = Cause(
            "FieldValueNotSupported",
            f'Unsupported value: "{target.get("kind")}": supported values: "Node", "<empty>"',
            "target.kind",
        )
    else:
        cause = Cause("FieldValueRequired", "Required value", "target.name")
    return status.invalid("Binding", call.name, [cause])
