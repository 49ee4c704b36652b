"""Which part of an object a write may change: what built-in and custom kinds have in common.

Pure; nothing is changed in place.
"""

from typing import Any

from dds_lab.api.kinds import Object, Resource

KEPT = ("uid", "creationTimestamp")
"""Metadata that no update changes, whatever the writer says."""
SERVERS = ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
"""Metadata that no creator sets."""


def handled(resource: Resource) -> str:
    """How a server begins to say that a body cannot be decoded."""
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}:'


def versioned(obj: Object, resource: Resource, version: str) -> Object:
    """The object as one of another version of its kind that has the same shape."""
    name = f"{resource.group}/{version}" if resource.group else version
    if obj.get("apiVersion") == name and obj.get("kind") == resource.kind:
        return obj
    return {**obj, "apiVersion": name, "kind": resource.kind}


def with_status(obj: Object, value: Any) -> Object:
    """The object with another status, or without one (None)."""
    made = dict(obj)
    if value is None:
        made.pop("status", None)
    else:
        made["status"] = value
    return made


def carried_metadata(new: Object, old: Object, of_status: bool) -> Object:
    """The metadata after a write: of the writer's what may be changed, of the old what may not. A write of the status alone
    changes none of it but what the server keeps itself (managedFields, resourceVersion)."""
    if new is old:
        return old
    if of_status:
        made = {key: value for key, value in old.items() if key not in ("managedFields", "resourceVersion")}
        made.update({key: new[key] for key in ("managedFields", "resourceVersion") if key in new})
        return made
    made = {key: value for key, value in new.items() if key not in ("generation", "selfLink")}
    for key in (*KEPT, *SERVERS):
        if key in old:
            made[key] = old[key]
    return made


def differs(new: Object, old: Object, with_its_status: bool = False) -> bool:
    """Whether anything but metadata (and status) changed."""
    keys = {*new, *old} - {"metadata", "apiVersion", "kind"} - (set() if with_its_status else {"status"})
    return any(new.get(key) is not old.get(key) and new.get(key) != old.get(key) for key in keys)


def raised_generation(new: Object, old: Object) -> Object:
    """The object with the generation that follows the old one's."""
    return {**new, "metadata": {**new["metadata"], "generation": old["metadata"].get("generation", 0) + 1}}
