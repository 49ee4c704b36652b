"""The kinds that the API server can serve, with their discovery data.

What an object may hold is in `schema` and `rules`. `registry` decides by the gates which versions are served.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dds_lab.api.facts import facts

Object = dict[str, Any]
"""The JSON shape of an API object. It is never changed in place once it was passed to the API or came from it."""

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The same for custom resources, in the order of a real server."""

APPS = "apps"
BATCH = "batch"
RESOURCE = "resource.k8s.io"
RBAC = "rbac.authorization.k8s.io"
AUTHENTICATION = "authentication.k8s.io"
EXTENSIONS = "apiextensions.k8s.io"
ADMISSION = "admissionregistration.k8s.io"


@dataclass(frozen=True)
class Resource:
    """One plural in one version of one group, as paths of the API name it."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    subresources: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    storage_version: str = ""
    """The version in which objects are stored; the resource's own if empty."""
    storage: str = ""
    """Storage key of another resource with the same objects (events.k8s.io shares those of the core group)."""
    custom: bool = False
    since: str = ""
    """The first release that serves it; empty: all do."""
    conditional: bool = False
    """Whether an update must name the object's resourceVersion, as one of a custom resource must."""

    def __hash__(self) -> int:
        """Resources are keys of many tables, looked up at every call: hash only what identifies them."""
        return hash(self.place)

    @cached_property
    def place(self) -> tuple[str, str, str]:
        """Group, version and plural, which identify it."""
        return self.group, self.version, self.plural

    @cached_property
    def key(self) -> str:
        """The storage key, the same for all versions: `plural.group`, or `plural` in the core group."""
        return self.storage or self.name

    @cached_property
    def name(self) -> str:
        """`plural.group` as messages and RBAC name the resource; `plural` in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def stored_api_version(self) -> str:
        version = self.storage_version or self.version
        return f"{self.group}/{version}" if self.group else version

    @property
    def kept(self) -> bool:
        """Whether objects are stored. Reviews are only answered."""
        return "get" in self.verbs


def _resource(kind: str, subresources: Iterable[str] = (), **row: Any) -> Resource:
    several: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return Resource(kind=kind, singular=kind.lower(), subresources=frozenset(subresources), **several)


BUILT_IN = tuple(_resource(**{"version": "v1", "namespaced": True, **row}) for row in facts("resources"))
"""Everything that can be served. `registry` leaves out what gates and runtime configuration switch off."""


@dataclass(frozen=True)
class Column:
    """A printer column. `path` is a simple JSONPath (".spec.size"); `type` an OpenAPI type, or "date", which is shown as an
    age."""

    name: str
    path: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
