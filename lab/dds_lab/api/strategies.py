"""What the server asks about a kind (`Strategy`), and what all built-in kinds share (`BuiltIn`).

A built-in kind derives from `BuiltIn` and adds its defaults and rules (package `rules`). Objects never change in place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from dds_lab.api import decoding, names, status
from dds_lab.api.facts import facts
from dds_lab.api.gates import Gates
from dds_lab.api.kinds import RBAC, Column, Object, Resource
from dds_lab.api.packed import kind_node
from dds_lab.api.requests import GranularCheck
from dds_lab.api.rules import meta
from dds_lab.api.schema import Node
from dds_lab.api.status import Cause


class Strategy(ABC):
    """A write calls `decode`, `to_storage`, `for_create` or `for_update`, `check_create` or `check_update`; an answer calls
    `from_storage`. `for_…` and `check_…` see the stored shape."""

    resource: Resource
    schema: Node
    empty: Object
    """An object of this version without values, as bookmarks carry it."""
    selectable_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = (
        Column("Name", ".metadata.name"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    )

    @abstractmethod
    def decode(self, body: Object, live: Object | None = None) -> tuple[Object, list[str]]:
        """The body as this version describes it, and the paths of unknown fields (removed). Parts that are the same Python
        object in `live` (the stored object in this version) are taken as they are. ApiError 400 for a wrong JSON type."""

    def to_storage(self, obj: Object) -> Object:
        """The object in the stored version. For most kinds only apiVersion may differ."""
        return versioned(obj, self.resource, self.resource.stored_api_version)

    def from_storage(self, obj: Object) -> Object:
        """The stored object in this version."""
        resource = self.resource
        if obj.get("apiVersion") == resource.api_version and obj.get("kind") == resource.kind:
            return obj  # the usual case of every answer and notice
        return versioned(obj, resource, resource.api_version)

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        """The decoded object (stored shape) with the defaults that its writer then owns. Parts that are the same Python object
        in `old` already have theirs."""
        return obj

    @abstractmethod
    def for_create(self, obj: Object) -> Object:
        """A decoded new object with defaults, status reset, generation set, gated fields dropped."""

    @abstractmethod
    def for_update(self, new: Object, old: Object, subresource: str) -> Object:
        """The decoded new object. What this write may not change comes from the stored `old`."""

    def admitted(self, obj: Object) -> Object:
        """The new object with what a real server's admission adds to it. No manager owns that."""
        return obj

    @abstractmethod
    def check_create(self, obj: Object) -> list[Cause]:
        """Causes against an object from `for_create`."""

    @abstractmethod
    def check_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """Causes against an object from `for_update`."""

    def granular(self, new: Object, old: Object, subresource: str, verb: str) -> list[GranularCheck]:
        """Permissions that this write needs beyond the one on its path. `verb` is "update" or "patch"."""
        return []

    def selectable(self, obj: Object) -> dict[str, str]:
        """Values for field selectors beyond metadata.name and metadata.namespace."""
        return {}


class BuiltIn(Strategy):
    """A built-in kind without rules of its own: only its schema is checked."""

    counted = False
    """Whether changes outside metadata and status raise metadata.generation."""
    labels_by_status = False
    """Whether a write of the status may change metadata (pods, nodes)."""
    name_check: meta.NameCheck = staticmethod(names.dns_subdomain)

    def __init__(self, resource: Resource, gates: Gates, second: Callable[[], str] = str) -> None:
        """`second` returns the present second as text, "" if there is no time."""
        self.resource = resource
        self.gates = gates
        self.second = second
        self.schema = kind_node(resource.group, resource.version, resource.kind, gates.release)
        self.empty: Object = decoding.decoded(self.schema, {})[0]
        self._has_status = "status" in resource.subresources
        self._dropped = dropped(resource.key, gates)
        if resource.group == RBAC:
            self.name_check = names.path_segment

    def decode(self, body: Object, live: Object | None = None) -> tuple[Object, list[str]]:
        try:
            return decoding.decoded(self.schema, body, live)
        except decoding.Mismatch as problem:
            raise status.bad_request(f"{handled(self.resource)} {problem}") from None

    def for_create(self, obj: Object) -> Object:
        made = self.to_storage(obj)
        if self._has_status:
            made = with_status(made, self.first_status(made))
        given = made.get("metadata") or {}
        metadata = {key: value for key, value in given.items() if key not in SERVERS}
        if self.counted:
            metadata["generation"] = 1
        made = self.defaulted({**made, "metadata": metadata}, None)
        return self.prepared(without(made, None, self._dropped) if self._dropped else made, None, "")

    def for_update(self, new: Object, old: Object, subresource: str) -> Object:
        made = self.to_storage(new)
        if subresource == "status":
            made = with_status({**old, "metadata": made["metadata"]}, made.get("status"))
        else:
            if self._has_status:
                made = with_status(made, old.get("status"))
            made = self.defaulted(made, old)
        of_status = subresource == "status" and not self.labels_by_status
        made = {**made, "metadata": carried_metadata(made["metadata"], old["metadata"], of_status)}
        if self._dropped:
            made = without(made, old, self._dropped)
        made = self.prepared(made, old, subresource)
        if self.counted and subresource != "status" and differs(made, old):
            return raised_generation(made, old)
        return made

    # -- hooks for derived kinds

    def first_status(self, obj: Object) -> Any:
        return self.empty.get("status")

    def prepared(self, new: Object, old: Object | None, subresource: str) -> Object:
        """Further changes that the kind makes to a write (`old` is None for a creation)."""
        return new

    def check(self, obj: Object) -> Iterable[Cause]:
        """Causes against a new object, metadata excluded."""
        return []

    def check_change(self, new: Object, old: Object, subresource: str) -> Iterable[Cause]:
        """Causes against a change, metadata excluded. Parts that are the same Python object in both need no check."""
        return [] if subresource else self.check(new)

    def check_create(self, obj: Object) -> list[Cause]:
        return [*meta.check(obj["metadata"], self.resource.namespaced, self.name_check), *self.check(obj)]

    def check_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        fresh, before = new["metadata"], old["metadata"]
        found = [] if fresh is before else [*meta.check_changed(fresh, before), *meta.check_change(fresh, before)]
        # A real server checks metadata twice on an update: once for all kinds and once for this one.
        return [*found, *found, *self.check_change(new, old, subresource)]


# -- which part of an object a write may change

KEPT = ("uid", "creationTimestamp")
"""Metadata that no update changes, whatever the client sends."""
SERVERS = ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
"""Metadata that a creator cannot set."""


def handled(resource: Resource) -> str:
    """How a server's message begins if a body cannot be decoded."""
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}:'


def versioned(obj: Object, resource: Resource, api_version: str) -> Object:
    """The object in another version of its kind that has the same shape."""
    if obj.get("apiVersion") == api_version and obj.get("kind") == resource.kind:
        return obj
    return {**obj, "apiVersion": api_version, "kind": resource.kind}


def with_status(obj: Object, value: Any) -> Object:
    """The object with this status; None removes it."""
    made = dict(obj)
    if value is None:
        made.pop("status", None)
    else:
        made["status"] = value
    return made


def carried_metadata(new: Object, old: Object, of_status: bool) -> Object:
    """The metadata after a write: the writer's where it may change, else the stored one. A write of the status changes only
    what the server maintains (managedFields, resourceVersion)."""
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
    return {**new, "metadata": {**new["metadata"], "generation": old["metadata"].get("generation", 0) + 1}}


# -- fields of feature gates (`facts`): dropped silently while the gate is off, unless the stored object uses the feature

Path = tuple[str, ...]
"""Keys from the object down. "*" is every item of a list or value of a map; the last key may be several ("a|b")."""

Dropped = tuple[tuple[Path, ...], ...]


def dropped(key: str, gates: Gates) -> Dropped:
    """The groups of fields, one for each gate, that a server with these gates drops from objects of this kind."""
    return tuple(
        tuple(tuple(path.split(".")) for path in paths)
        for gate, paths in facts("gate_fields").get(key, {}).items()
        if not gates.on(gate)
    )


def without(obj: Object, old: Object | None, groups: Dropped) -> Object:
    """The object without the fields of every group that `old` does not use. Parts that are the same Python object in `old` are
    skipped."""
    for paths in groups:
        trimmed = obj
        for path in paths:
            trimmed = _without(trimmed, path, old)
        if trimmed is not obj and not (old is not None and any(_holds(old, path) for path in paths)):
            obj = trimmed
    return obj


def _holds(value: Any, path: Path) -> bool:
    key, rest = path[0], path[1:]
    if key == "*":
        return any(_holds(part, rest) for part in _parts(value))
    if not isinstance(value, dict):
        return False
    if not rest:
        return any(value.get(name) is not None for name in key.split("|"))
    return value.get(key) is not None and _holds(value[key], rest)


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _without(value: Any, path: Path, old: Any) -> Any:
    """The value without what is at the path; the same object if there is nothing, or if it is `old`."""
    if value is old:
        return value
    key, rest = path[0], path[1:]
    if key == "*":
        return _without_in_parts(value, rest, old)
    if not isinstance(value, dict):
        return value
    if not rest:
        gone = key.split("|")
        return (
            {name: part for name, part in value.items() if name not in gone}
            if not value.keys().isdisjoint(gone)
            else value
        )
    if value.get(key) is None:
        return value
    inner = _without(value[key], rest, old.get(key) if isinstance(old, dict) else None)
    return value if inner is value[key] else {**value, key: inner}


def _without_in_parts(value: Any, rest: Path, old: Any) -> Any:
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        fields = {name: _without(part, rest, before.get(name)) for name, part in value.items()}
        return value if all(fields[name] is part for name, part in value.items()) else fields
    if not isinstance(value, list):
        return value
    known = {id(part) for part in old} if isinstance(old, list) else set()
    parts = [part if id(part) in known else _without(part, rest, None) for part in value]
    return value if all(new is part for new, part in zip(parts, value, strict=True)) else parts
