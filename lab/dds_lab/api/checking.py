"""What is checked of every write, whatever its kind: that the body belongs to the path, unknown fields, preconditions, what
an apply must say; and whether a write changes anything at all.

Pure; the rules of a kind are its strategy's.
"""

from typing import Any

import msgspec

from dds_lab.api import status
from dds_lab.api.kinds import Object, Resource
from dds_lab.api.requests import Call
from dds_lab.api.status import Cause


def check_identity(call: Call, body: Any, at_create: bool = False) -> None:
    """The body is an object of the kind, version, namespace and name that the path says."""
    resource = call.resource
    if not isinstance(body, dict):
        raise status.bad_request(f"the object provided is unrecognized (must be of type {resource.kind})")
    kind, version = body.get("kind", ""), body.get("apiVersion", "")
    if resource.custom and not (kind and version):
        raise status.bad_request(f"Object 'Kind' or 'apiVersion' is missing in a {resource.kind}")
    if (kind and kind != resource.kind) or (version and version != resource.api_version):
        raise status.bad_request(
            f"{resource.kind} in version \"{resource.version}\" cannot be handled as a {resource.kind}: "
            f"converting {version} {kind} to {resource.api_version} {resource.kind}: the API version and kind in the data "
            "do not match the expected ones"
        )  # fmt: skip
    meta = body.get("metadata")
    if meta is None and at_create:
        return
    if not isinstance(meta, dict):
        raise status.bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    namespace = meta.get("namespace") or ""
    if resource.namespaced and namespace and namespace != call.namespace:
        if at_create:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        words = (
            f"the namespace of the object ({namespace}) does not match the namespace on the request ({call.namespace})"
        )
        raise status.bad_request(words)
    if at_create:
        return
    name = meta.get("name") or ""
    if not name:
        raise status.bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def unknown_fields(call: Call, unknown: list[str]) -> tuple[str, ...]:
    """Warnings about fields that were dropped; ApiError 400 where the client wants to be strict."""
    if not unknown or call.writing.validation == "Ignore":
        return ()
    words = [f'unknown field "{path}"' for path in unknown]
    if call.writing.validation == "Strict":
        resource = call.resource
        raise status.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"strict decoding error: {', '.join(words)}"
        )
    return tuple(words)


def same(new: Object, old: Object) -> bool:
    """Whether a write would change nothing: versions and the times of managers do not count."""
    if new.keys() != old.keys() or any(new[key] != old[key] for key in new if key != "metadata"):
        return False
    fresh, kept = new["metadata"], old["metadata"]
    for key in fresh.keys() | kept.keys():
        if key in ("resourceVersion", "managedFields") or fresh.get(key) == kept.get(key):
            continue
        return False
    return _without_times(fresh.get("managedFields")) == _without_times(kept.get("managedFields"))


def _without_times(managed: list[Object] | None) -> list[Object]:
    return [{key: value for key, value in entry.items() if key != "time"} for entry in managed or []]


def in_namespace(obj: Object, namespace: str) -> Object:
    """The object in the namespace of its path: where it names none, that one; in none where the path has none."""
    meta = obj["metadata"]
    if (meta.get("namespace") or "") == namespace:
        return obj
    kept = {key: value for key, value in meta.items() if key != "namespace"}
    return {**obj, "metadata": {**kept, "namespace": namespace} if namespace else kept}


def without_status(obj: Object, resource: Resource) -> Object:
    """What the creator of an object owns: a status that has a path of its own is not taken from it."""
    return {key: value for key, value in obj.items() if key != "status"} if "status" in resource.subresources else obj


def check_uid(call: Call, meta: Object, kept: str) -> None:
    """The uid of what was sent, if it has one, against that of what is there ("" for nothing): an object that was deleted
    does not come back by an update of it."""
    uid = meta.get("uid")
    if uid and uid != kept:
        key = f"/registry/{call.resource.plural}/{call.path}"
        raise status.conflict(
            call.resource, call.name,
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed:"
            f" UID in precondition: {uid}, UID in object meta: {kept}",
        )  # fmt: skip


def check_preconditions(call: Call, old: Object, meta: Object) -> None:
    """uid and resourceVersion of what was sent, against what is there."""
    kept = old["metadata"]
    version = meta.get("resourceVersion") or ""
    if call.resource.custom and call.verb == "update" and version in ("", "0"):
        cause = Cause(
            "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
        )
        raise status.invalid(call.resource.plural, call.name, [cause], call.resource.group)
    check_uid(call, meta, kept["uid"])
    if version not in ("", "0") and version != kept["resourceVersion"]:
        if not (version.isascii() and version.isdigit()):
            cause = Cause(
                "FieldValueInvalid", f'Invalid value: "{version}": must be an integer', "metadata.resourceVersion"
            )
            raise status.invalid_object(call.resource, call.name, [cause])
        raise status.conflict(call.resource, call.name)


def check_applied(call: Call) -> None:
    """ApiError where the body of an apply does not say what it must, or says what it must not."""
    body = call.body
    if not call.writing.manager:
        cause = Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
        raise status.invalid("PatchOptions", "", [cause], "meta.k8s.io")
    if not isinstance(body, dict):
        raise status.bad_request("error decoding YAML: the applied configuration must be an object")
    if not (body.get("kind") and body.get("apiVersion")):
        raise status.bad_request("apply patch must include kind and apiVersion")
    check_identity(call, {"metadata": {}, **body}, at_create=True)
    meta = body.get("metadata") or {}
    if not isinstance(meta, dict):
        raise status.bad_request("metadata of the applied configuration must be an object")
    if meta.get("managedFields"):
        raise status.bad_request("metadata.managedFields must be nil")
    name = meta.get("name") or ""
    if name and name != call.name:
        raise status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def useless_patch(call: Call, problem: status.ApiError) -> status.ApiError:
    """What came of a patch is no object of its kind: 422 about the patch, where a whole body that is none gets 400."""
    if problem.code != 400:
        return problem
    words = str(problem).partition(f"cannot be handled as a {call.resource.kind}: ")[2] or str(problem)
    shown = msgspec.json.encode(call.body).decode()
    return status.invalid("", "", [Cause("FieldValueInvalid", f"Invalid value: {shown}: {words}", "patch")])


def nothing_to_apply_to(call: Call, uid: str | None) -> status.ApiError:
    """An apply that would create where it may not."""
    if call.subresource:
        return status.not_found(call.resource, call.name)
    why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    return status.conflict(call.resource, call.name, why)
