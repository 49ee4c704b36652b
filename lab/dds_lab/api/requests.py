"""Requests to the server and its answers, as calls on objects and as HTTP messages. Plain values without logic."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dds_lab.api.kinds import Object, Resource
from dds_lab.api.store import Record

MASTERS = "system:masters"
ANONYMOUS = "system:anonymous"
UNAUTHENTICATED = "system:unauthenticated"
AUTHENTICATED = "system:authenticated"


class User(msgspec.Struct, frozen=True):
    """The user of a request. `extra` holds further facts from the token, such as the node of a service account."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def master(self) -> bool:
        """Members of system:masters may do everything."""
        return MASTERS in self.groups


NOBODY = User(ANONYMOUS, (UNAUTHENTICATED,))


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Options of get, list and watch, by the API's names. Versions are text as the client sent it, "" if not given."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    cont: str = ""
    version: str = ""
    match: str = ""
    timeout: float | None = None
    bookmarks: bool = False
    initial_events: bool | None = None


class Writing(msgspec.Struct, frozen=True, kw_only=True):
    """Options of create, update and patch. `how` is one of merge, json, strategic, apply."""

    dry_run: bool = False
    manager: str = ""
    validation: str = "Warn"
    how: str = "merge"
    force: bool = False


class Deleting(msgspec.Struct, frozen=True, kw_only=True):
    """Options of delete and deletecollection. `grace` in seconds, None if not given."""

    dry_run: bool = False
    uid: str | None = None
    version: str | None = None
    grace: int | None = None
    propagation: str = ""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One verb on one resource. Verbs: get, list, watch, create, update, patch, delete, deletecollection."""

    verb: str
    resource: Resource
    user: User
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: Any = None
    reading: Reading = Reading()
    writing: Writing = Writing()
    deleting: Deleting = Deleting()

    @property
    def path(self) -> str:
        """The object's key in its table."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a list: records in the storage version, and the continue token of the next page."""

    records: list[Record]
    revision: int
    cont: str = ""
    remaining: int | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call: an object (or a Status) in the requested version, or a page; and warnings. `record` is the stored
    version of the object, if there is one, so that its encoded form can be shared."""

    code: int = 200
    object: Object = {}
    page: Page | None = None
    record: Record | None = None
    warnings: tuple[str, ...] = ()


class Request(msgspec.Struct, frozen=True):
    """An HTTP request. Header names in lower case; `path` is decoded, `query` is not."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Response(msgspec.Struct, frozen=True):
    """A complete HTTP answer."""

    code: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


@dataclass(frozen=True)
class GranularCheck:
    """A permission that a status write needs beyond the one on its path, in the group of the object's resource.

    `resource` is synthetic ("resourceclaims/binding"). `verbs` are tried in order; one that is allowed is enough.
    `associated-node:` verbs count only for a service account whose token names `node`. A refusal is a Forbidden cause on
    `field` that names `what` (by default the field).
    """

    resource: str
    verbs: tuple[str, ...]
    name: str
    namespace: str
    field: str
    node: str = ""
    what: str = ""
