"""What is the same for all built-in kinds: decoding, which part of an object a write may change, generations, metadata.

A kind adds its defaults and rules by deriving from `BuiltIn` (package `rules`). Objects are never changed in place.
"""

from collections.abc import Callable
from typing import Any

from dds_adapters.lab.api import decoding, gated, names, status
from dds_adapters.lab.api.columns import Column
from dds_adapters.lab.api.gates import Gates
from dds_adapters.lab.api.granular import GranularCheck
from dds_adapters.lab.api.kinds import RBAC, Object, Resource
from dds_adapters.lab.api.packed import kind_node
from dds_adapters.lab.api.rules import meta
from dds_adapters.lab.api.status import Cause
from dds_adapters.lab.api.writes import (
    SERVERS,
    carried_metadata,
    differs,
    handled,
    raised_generation,
    versioned,
    with_status,
)


class BuiltIn:
    """A kind with nothing of its own: the schema is checked, all else may be."""

    counted = False
    """Whether changes of anything but metadata and status raise metadata.generation."""
    labels_by_status = False
    """Whether metadata may be changed through the status subresource (pods, nodes)."""
    name_check: meta.NameCheck = staticmethod(names.dns_subdomain)
    selectable_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = (
        Column("Name", ".metadata.name"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    )

    def __init__(self, resource: Resource, gates: Gates, second: Callable[[], str] = str) -> None:
        """`second` tells the present second as text, or nothing where there is no time."""
        self.resource = resource
        self.gates = gates
        self.second = second
        self.schema = kind_node(resource.group, resource.version, resource.kind)
        self.empty: Object = decoding.decoded(self.schema, {})[0]
        self._has_status = "status" in resource.subresources
        self._dropped = gated.dropped(resource.key, gates)
        if resource.group == RBAC:
            self.name_check = names.path_segment

    # -- what comes in ---------------------------------------------------------------------------------------

    def decode(self, body: Object, live: Object | None = None) -> tuple[Object, list[str]]:
        """The body as this version knows it, and paths of unknown fields; parts that are the same object in `live` (the
        stored object in this version's shape) are not looked at again. ApiError 400 on a wrong JSON type."""
        try:
            return decoding.decoded(self.schema, body, live)
        except decoding.Mismatch as problem:
            raise status.bad_request(f"{handled(self.resource)} {problem}") from None

    def to_storage(self, obj: Object) -> Object:
        return versioned(obj, self.resource, self.resource.storage_version or self.resource.version)

    def from_storage(self, obj: Object) -> Object:
        return versioned(obj, self.resource, self.resource.version)

    # -- what a write makes of it ----------------------------------------------------------------------------

    def for_create(self, obj: Object) -> Object:
        """With defaults, without a status (where it has a subresource), generation and fields of gates that are off."""
        made = self.to_storage(obj)
        if self._has_status:
            made = with_status(made, self.first_status(made))
        given = made.get("metadata") or {}
        metadata = {key: value for key, value in given.items() if key not in SERVERS}
        if self.counted:
            metadata["generation"] = 1
        made = self.defaulted({**made, "metadata": metadata}, None)
        return self.prepared(gated.without(made, None, self._dropped) if self._dropped else made, None, "")

    def for_update(self, new: Object, old: Object, subresource: str) -> Object:
        """With what this write may not change taken from `old`."""
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
            made = gated.without(made, old, self._dropped)
        made = self.prepared(made, old, subresource)
        if self.counted and subresource != "status" and differs(made, old):
            return raised_generation(made, old)
        return made

    # -- what a kind says of itself ---------------------------------------------------------------------------

    def first_status(self, obj: Object) -> Any:
        """The status of a new object."""
        return self.empty.get("status")

    def defaulted(self, obj: Object, old: Object | None) -> Object:
        """The object with the defaults of its kind; parts that are the same object in `old` have theirs already."""
        return obj

    def prepared(self, new: Object, old: Object | None, subresource: str) -> Object:
        """What the kind makes of a write besides (old is None: a creation)."""
        return new

    def admitted(self, obj: Object) -> Object:
        """A new object with what a real server's admission adds to it; no manager owns that."""
        return obj

    def check(self, obj: Object) -> list[Cause]:
        """What is wrong with a new object, metadata apart."""
        return []

    def check_change(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """What is wrong with a change, metadata apart; what is the same object in both need not be looked at."""
        return [] if subresource else self.check(new)

    # -- answers to the server --------------------------------------------------------------------------------

    def check_create(self, obj: Object) -> list[Cause]:
        return [*meta.check(obj["metadata"], self.resource.namespaced, self.name_check), *self.check(obj)]

    def check_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        fresh, before = new["metadata"], old["metadata"]
        found = [] if fresh is before else [*meta.check_changed(fresh, before), *meta.check_change(fresh, before)]
        # A real server looks at metadata twice on an update, once for all kinds and once for this one.
        return [*found, *found, *self.check_change(new, old, subresource)]

    def granular(self, new: Object, old: Object, subresource: str, verb: str) -> list[GranularCheck]:
        return []

    def selectable(self, obj: Object) -> dict[str, str]:
        return {}
