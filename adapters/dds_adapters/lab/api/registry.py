"""What the server serves, and what it asks about each kind."""

from dataclasses import dataclass
from typing import Protocol

from dds_adapters.lab.api.kinds import Object, Resource
from dds_adapters.lab.api.schema import Node
from dds_adapters.lab.api.status import Cause


@dataclass(frozen=True)
class Column:
    """One column of a printed table. `path` is a simple JSONPath (".spec.size"); `type` an OpenAPI type."""

    name: str
    path: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True)
class GranularCheck:
    """A permission that a write needs beyond the one on its path (1.36, resource claims). `verbs` are tried in order, the
    first that is allowed is enough (a node's own service account may have only `associated-node:…`)."""

    resource: str
    verbs: tuple[str, ...]
    name: str
    namespace: str
    field: str
    node: str = ""
    """Node that the claim is allocated to; `associated-node:` verbs count only for an account of that node."""


class Strategy(Protocol):
    """What the server asks about a kind. Objects go in and come out unchanged; what changes is copied."""

    @property
    def resource(self) -> Resource: ...
    @property
    def schema(self) -> Node: ...
    @property
    def selectable_names(self) -> tuple[str, ...]: ...
    @property
    def columns(self) -> tuple[Column, ...]: ...

    def decode(self, body: Object) -> tuple[Object, list[str]]:
        """The body as this version knows it, and the paths of fields that it does not know (removed). Wrong JSON types
        raise ApiError 400."""
        ...

    def to_storage(self, obj: Object) -> Object:
        """From the shape of this version to the one that is kept; for most kinds only apiVersion may differ."""
        ...

    def from_storage(self, obj: Object) -> Object:
        """The way back."""
        ...

    def for_create(self, obj: Object) -> Object:
        """A decoded new object (storage shape) with defaults; status reset, generation set, gated fields dropped."""
        ...

    def for_update(self, new: Object, old: Object, subresource: str) -> Object:
        """The decoded new object (storage shape) with everything that this write may not change taken from `old`."""
        ...

    def check_create(self, obj: Object) -> list[Cause]:
        """What is wrong with an object that `for_create` gave."""
        ...

    def check_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """What is wrong with an object that `for_update` gave."""
        ...

    def granular(self, new: Object, old: Object, subresource: str, verb: str) -> list[GranularCheck]:
        """Permissions that this write needs beyond the one on its path."""
        ...

    def selectable(self, obj: Object) -> dict[str, str]:
        """Values of field selectors beyond metadata.name and metadata.namespace."""
        ...
