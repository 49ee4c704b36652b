"""What clients only POST: subresources of pods (binding, eviction), and reviews (who am I, whose token is this, may I, …).

A binding puts a pod on a node, an eviction deletes it; nothing here decides where a pod runs. Reviews are answered from
`access` and not stored.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dds_lab.api import decoding, ownership, status
from dds_lab.api.access import Access, Attributes
from dds_lab.api.clock import Clock
from dds_lab.api.deleting import Deleter
from dds_lab.api.kinds import Object
from dds_lab.api.packed import kind_node
from dds_lab.api.paths import Query, deleting
from dds_lab.api.registry import Registry
from dds_lab.api.requests import Call, Outcome, User
from dds_lab.api.status import Cause
from dds_lab.api.store import Store
from dds_lab.api.writing import check_identity, unknown_fields

POSTED = ("binding", "eviction")
"""Subresources that accept only POST."""
ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


class PodVerbs:
    def __init__(self, store: Store, clock: Clock, deleter: Deleter) -> None:
        self._store = store
        self._clock = clock
        self._deleter = deleter

    def create(self, call: Call) -> Outcome:
        """Carry out a POST to a pod's subresource; 201 and a Status."""
        return self._bind(call) if call.subresource == "binding" else self._evict(call)

    def _bind(self, call: Call) -> Outcome:
        body = _decoded(call, "", "Binding")
        meta: Object = body.get("metadata") or {}
        if meta.get("name") not in (None, "", call.name):
            words = f"the name of the object ({meta['name']}) does not match the name on the URL ({call.name})"
            raise status.bad_request(words)
        target: Object = body.get("target") or {}
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
    """The body as an object of its kind, without unknown fields."""
    body: Any = call.body
    if not isinstance(body, dict) or body.get("kind") not in (None, "", kind):
        raise status.bad_request(f"the object provided is unrecognized (must be of type {kind})")
    try:
        found: Object = decoding.decoded(kind_node(group, "v1", kind), body)[0]
    except decoding.Mismatch as problem:
        raise status.bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {problem}') from None
    return found


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


class Reviews:
    """The kinds that are answered and not stored."""

    def __init__(self, registry: Registry, access: Access, now_text: Callable[[], str]) -> None:
        self._registry = registry
        self._access = access
        self._now_text = now_text
        self._answers: Mapping[str, Callable[[Call, Object], Object]] = {
            "selfsubjectaccessreviews": self._may_i,
            "subjectaccessreviews": self._may_they,
            "localsubjectaccessreviews": self._may_they,
            "selfsubjectrulesreviews": self._what_may_i,
            "selfsubjectreviews": self._who_am_i,
            "tokenreviews": self._whose_token,
        }

    def create(self, call: Call) -> Outcome:
        """The object that was sent, with its status filled in; 201."""
        check_identity(call, call.body, at_create=True)
        decoded, unknown = self._registry.strategy(call.resource).decode(call.body)
        warnings = unknown_fields(call, unknown)
        spec = decoded.get("spec") or {}
        answer = self._answers[call.resource.plural](call, spec)
        shown = {
            "kind": call.resource.kind,
            "apiVersion": call.resource.api_version,
            "metadata": self._metadata(call, decoded),
        }
        if call.resource.plural != "selfsubjectreviews":
            shown["spec"] = spec
        return Outcome(code=201, object={**shown, "status": answer}, warnings=warnings)

    def _metadata(self, call: Call, decoded: Object) -> Object:
        schema = self._registry.strategy(call.resource).schema
        version = call.resource.api_version
        managed = ownership.updated(schema, None, decoded, call.writing.manager, "", version, self._now_text())
        meta = decoded.get("metadata") or {}
        return {**meta, "managedFields": managed} if managed else meta

    def _may_i(self, call: Call, spec: Object) -> Object:
        return self._verdict(call.user, _asked(call, spec))

    def _may_they(self, call: Call, spec: Object) -> Object:
        groups = tuple(spec.get("groups") or ())
        if not (spec.get("user") or groups):
            message = "at least one of user or group must be specified"
            raise _invalid(call, "FieldValueInvalid", f'Invalid value: "": {message}', "spec.user")
        extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
        user = User(spec.get("user") or "", groups, spec.get("uid") or "", extra)
        asked = _asked(call, spec)
        if call.namespace and asked.namespace != call.namespace:
            message = f'Invalid value: "{asked.namespace}": must match metadata.namespace'
            raise _invalid(call, "FieldValueInvalid", message, "spec.resourceAttributes.namespace")
        return self._verdict(user, asked)

    def _verdict(self, user: User, asked: Attributes) -> Object:
        if self._access.allowed(user, asked):
            return {"allowed": True, "reason": "" if user.master else "RBAC: allowed by a binding"}
        return {"allowed": False}

    def _what_may_i(self, call: Call, spec: Object) -> Object:
        namespace = spec.get("namespace") or ""
        if not namespace:
            raise status.bad_request("no namespace on request")
        rules = self._access.rules_in(call.user, namespace)
        resources: list[Object] = [
            _without_empty(
                {
                    "verbs": list(rule.verbs),
                    "apiGroups": list(rule.groups),
                    "resources": list(rule.resources),
                    "resourceNames": list(rule.names),
                }
            )
            for rule in rules
            if rule.resources
        ]
        paths: list[Object] = [
            {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.paths)} for rule in rules if rule.paths
        ]
        return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}

    def _who_am_i(self, call: Call, spec: Object) -> Object:
        return {"userInfo": _user_info(call.user)}

    def _whose_token(self, call: Call, spec: Object) -> Object:
        token = spec.get("token") or ""
        if not token:
            raise _invalid(call, "FieldValueRequired", "Required value: token is required", "spec.token")
        user = self._access.user_of(token)
        if user is None:
            return {"user": {}}
        audiences = spec.get("audiences")
        found: Object = {"authenticated": True, "user": _user_info(user)}
        return {**found, "audiences": audiences} if audiences else found


def _user_info(user: User) -> Object:
    extra = {key: list(values) for key, values in user.extra.items()}
    return _without_empty({"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra})


def _without_empty(shape: Object) -> Object:
    return {key: value for key, value in shape.items() if value}


def _asked(call: Call, spec: Object) -> Attributes:
    of_resource: Any = spec.get("resourceAttributes")
    of_path: Any = spec.get("nonResourceAttributes")
    if (of_resource is None) == (of_path is None):
        raise _invalid(call, "FieldValueInvalid", f"Invalid value: null: {ONE_OF}", "spec.resourceAttributes")
    if of_path is not None:
        return Attributes(verb=of_path.get("verb") or "", path=of_path.get("path") or "/")
    names = ("verb", "group", "resource", "subresource", "name", "namespace")
    return Attributes(**{name: of_resource.get(name) or "" for name in names})


def _invalid(call: Call, reason: str, message: str, field: str) -> status.ApiError:
    return status.invalid_object(call.resource, "", [Cause(reason, message, field)])
