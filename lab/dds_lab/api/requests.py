"""What is asked of the server and what it answers, in two forms: calls on objects, and HTTP requests as plain values.

Values only: nothing here decides anything or does I/O.
"""

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
    """Who asks. `extra` holds what the token says besides (the node of a service account's token, for one)."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def master(self) -> bool:
        """Members of system:masters may everything."""
        return MASTERS in self.groups


NOBODY = User(ANONYMOUS, (UNAUTHENTICATED,))


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Options of get, list and watch, by the API's names. Versions are text as clients send it, "" when not given."""

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
    """Options of delete and deletecollection. `grace` in seconds, None when not given."""

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
        """The object's place in its table."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What a list found: records of the storage version, and where the next page begins."""

    records: list[Record]
    revision: int
    cont: str = ""
    remaining: int | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a call: an object (or a Status) in the version that was asked for, or a page; and warnings.

    `record` is the stored version behind the object where there is one, so that its encoded form can be shared.
    """

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
    """An HTTP answer that is all there."""

    code: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


@dataclass(frozen=True)
class GranularCheck:
    """One such permission, in the group of the object's own resource.

    `resource` is synthetic ("resourceclaims/binding"). `verbs` are tried in order and the first that is allowed is enough;
    `associated-node:` verbs count only for a service account whose token names `node`. A refusal is told as a Forbidden
    cause on `field`, as one of `what` (that field, unless told otherwise).
    """

    resource: str
    verbs: tuple[str, ...]
    name: str
    namespace: str
    field: str
    node: str = ""
    what: str = ""
