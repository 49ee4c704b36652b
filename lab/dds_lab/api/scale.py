"""The scale subresource: the replicas of a Deployment, ReplicaSet or StatefulSet, as a Scale of autoscaling/v1."""

from collections.abc import Callable

from msgspec.structs import replace

from dds_lab.api import decoding, patches, status
from dds_lab.api.kinds import Object
from dds_lab.api.packed import kind_node
from dds_lab.api.requests import Call, Outcome
from dds_lab.api.selectors import selector_text
from dds_lab.api.status import Cause

SCALE = "scale"
GROUP = "autoscaling"
KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key in KEPT}
    replicas, there = obj["spec"]["replicas"], (obj.get("status") or {}).get("replicas", 0)
    return {
        "kind": "Scale",
        "apiVersion": f"{GROUP}/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": there, "selector": selector_text(obj["spec"]["selector"])},
    }


def scaled(call: Call, get: Callable[[Call], Outcome], update: Callable[[Call], Outcome]) -> Outcome:
    """Answer a get, update or patch of the subresource. A write becomes one of the object's replicas. ApiError 400 or 422."""
    whole = replace(call, subresource="", verb="get", body=None)
    obj = get(whole).object
    if call.verb == "get":
        return Outcome(object=scale_of(obj))
    body = call.body if call.verb == "update" else _patched(call, scale_of(obj))
    wanted = _decoded(body)
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        why = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise status.invalid("Scale", call.name, [Cause("FieldValueInvalid", why, "spec.replicas")], GROUP)
    metadata = dict(obj["metadata"])
    metadata |= {key: value for key, value in (wanted.get("metadata") or {}).items() if key in KEPT[2:4] and value}
    changed = {**obj, "metadata": metadata, "spec": {**obj["spec"], "replicas": replicas}}
    return Outcome(object=scale_of(update(replace(whole, verb="update", body=changed)).object))


def _patched(call: Call, live: Object) -> object:
    how = call.writing.how
    if how == "json":
        return patches.json_patch(live, call.body)
    if how == "strategic":
        return patches.strategic_patch(kind_node(GROUP, "v1", "Scale"), live, call.body)
    return patches.merge_patch(live, call.body)


def _decoded(body: object) -> Object:
    if not isinstance(body, dict) or body.get("kind", "Scale") != "Scale":
        raise status.bad_request("the object provided is unrecognized (must be of type Scale)")
    try:
        found: Object = decoding.decoded(kind_node(GROUP, "v1", "Scale"), body)[0]
    except decoding.Mismatch as problem:
        raise status.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {problem}') from None
    return found
