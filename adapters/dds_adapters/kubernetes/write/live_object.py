"""Live objects: dds reads them before each write, changes them only as they were read, and interprets the answers of the API
server.

Every change carries the uid and the resourceVersion that were compared, so that a late write either fails or is still right.
Nothing here knows the meaning of a write. Foreign text leaves this module only scrubbed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import msgspec

from dds_adapters.kubernetes.cluster import Answer, Asking, Unreachable, listed, path_of
from dds_adapters.kubernetes.decode.decoding import Fault
from dds_adapters.kubernetes.write.tasks import Declined, Later, Obsolete, Result, Versions
from dds_core.errors import DdsError
from dds_core.text import scrub

ATTEMPTS = 4
"""How often an object that keeps changing is compared again before the task goes back to the outbox."""
NOT_SERVED_SECONDS = 10.0
MANAGER = "dds"
"""Field manager of all writes of dds."""

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"

_T = TypeVar("_T")


class Ended(DdsError):
    """Ends a write with `result`. Never leaves `LiveWrite`."""

    def __init__(self, result: Result) -> None:
        self.result = result
        super().__init__(f"the write ends with {type(result).__name__}")


class Changed(DdsError):
    """The object changed since it was read: compare again. Never leaves `LiveWrite`."""

    def __init__(self, where: str) -> None:
        super().__init__("was changed by others each time it was to be written", where=where)


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    name: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_object = msgspec.json.Decoder(_Object)
_status = msgspec.json.Decoder(_Status)


@dataclass(frozen=True, slots=True)
class Ref:
    """An object by its name, and the uid that it must have ("" if not known yet)."""

    resource: str
    name: str
    namespace: str = ""
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.resource} {self.namespace}/{self.name}" if self.namespace else f"{self.resource} {self.name}"


@dataclass(frozen=True, slots=True)
class Live:
    ref: Ref
    raw: bytes
    uid: str
    version: str
    deleting: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def identity(self) -> dict[str, Any]:
        """Metadata for a patch: it applies only to this object at this version."""
        return {"uid": self.uid, "resourceVersion": self.version}


class _Entry(msgspec.Struct):
    manager: str = ""
    time: str = ""
    subresource: str = ""


class _Entries(msgspec.Struct):
    entries: list[_Entry] = msgspec.field(name="managedFields", default_factory=list)


class _Managed(msgspec.Struct):
    metadata: _Entries


_managed = msgspec.json.Decoder(_Managed)


def last_writers(live: Live) -> str:
    """The managers, other than dds, of the newest writes of the object itself; "" if none owns a field of it any more."""
    try:
        found = [
            one for one in _managed.decode(live.raw).metadata.entries if one.manager != MANAGER and not one.subresource
        ]
    except ValueError:
        return ""
    newest = max((one.time for one in found), default="")
    return ", ".join(sorted({one.manager for one in found if one.time == newest}))


class Server:
    """The objects of an API server. Any reason to stop a write is raised as `Ended` or `Changed`."""

    def __init__(self, api: Asking, versions: Versions) -> None:
        self._api = api
        self._versions = versions

    def serves(self, resource: str) -> bool:
        return bool(self._versions(resource))

    def version_of(self, resource: str) -> str:
        """The API version in which it is served. Raises Ended if it is not."""
        version = self._versions(resource)
        if not version:
            raise Ended(Later(f"{resource} are not served", NOT_SERVED_SECONDS))
        return version

    def find(self, ref: Ref) -> Live | None:
        """The object of that name, None if there is none."""
        answer = self._ask(ref, "GET", self._path(ref))
        if answer.code == 404:
            return None
        if answer.code >= 300:
            _refuse(ref, answer)
        return live_of(ref, answer.body)

    def get(self, ref: Ref) -> Live:
        """The object with that uid. Raises Ended (Obsolete) if it is gone or the name belongs to another object."""
        found = self.find(ref)
        if found is None:
            raise Ended(Obsolete(f"{ref} is gone"))
        if ref.uid and found.uid != ref.uid:
            raise Ended(Obsolete(f"{ref} is another object by now"))
        return found

    def listed(self, ref: Ref) -> Live | None:
        """As `find`, but with the permission to list only: for a resource that dds follows and seldom writes."""
        found = self.list(ref.resource, {"fieldSelector": f"metadata.name={ref.name}"})
        return live_of(ref, found[0]) if found else None

    def list(self, resource: str, selected: Mapping[str, str], namespace: str = "") -> list[bytes]:
        """All objects that match the selectors (query parameters), as JSON; `namespace` "" means all namespaces."""
        ref = Ref(resource, "*", namespace)
        path = path_of(resource, self.version_of(resource), namespace)

        def page(query: Mapping[str, str]) -> bytes:
            answer = self._ask(ref, "GET", path, query=query)
            if answer.code == 410:
                raise Changed(str(ref))
            if answer.code >= 300:
                _refuse(ref, answer)
            return answer.body

        try:
            return list(listed(page, selected))
        except ValueError:
            raise Ended(Later(f"{ref}: the answer is not a list")) from None

    def question(self, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """The answer to a GET, or with a body (a review) to a POST, whatever its status, except for a failing server. A conflict
        makes no sense for a query: something between dds and the API server is failing."""
        ref = Ref("the API server,", path)
        sent = None if body is None else msgspec.json.encode(body)
        answer = self._ask(ref, "GET" if body is None else "POST", path, body=sent)
        if _is_trouble(answer) or answer.code == 409:
            raise _later(ref, answer)
        return answer

    def create(self, ref: Ref, body: Mapping[str, Any]) -> bytes:
        """Create an object; gives its JSON as stored. Raises Changed if the name is taken."""
        path = path_of(ref.resource, self.version_of(ref.resource), ref.namespace)
        query = {"fieldManager": MANAGER}
        answer = self._ask(ref, "POST", path, query=query, body=msgspec.json.encode(body))
        if answer.code == 404:  # no such kind or namespace: nothing that dds watches would trigger another try
            raise Ended(declined(answer))
        if answer.code >= 300:
            _refuse(ref, answer)
        return answer.body

    def put(self, live: Live, body: Mapping[str, Any]) -> bytes:
        """Replace the whole object; gives its JSON as stored. Of `body`, name and identity are set."""
        meta = {**body.get("metadata", {}), "name": live.ref.name, **live.identity}
        encoded = msgspec.json.encode({**body, "metadata": meta})
        answer = self._ask(live.ref, "PUT", self._path(live.ref), {"fieldManager": MANAGER}, encoded)
        if answer.code >= 300:
            _refuse(live.ref, answer)
        return answer.body

    def merge(self, live: Live, changes: Mapping[str, Any], subresource: str = "", *, unchanged: bool = True) -> bytes:
        """Merge-patch the object as it was read; gives its JSON as stored. Other metadata of `changes` is kept.
        `unchanged=False`: patch the object even if others changed it since."""
        return self._patch(live, MERGE, _merging(live, changes, unchanged), subresource)

    def merged_on_trial(self, live: Live, changes: Mapping[str, Any], subresource: str = "") -> Answer:
        """The answer to a merge patch as a dry run (dryRun=All), whatever version the object has."""
        query = {"fieldManager": MANAGER, "dryRun": "All"}
        body = msgspec.json.encode(_merging(live, changes, unchanged=False))
        answer = self._ask(live.ref, "PATCH", self._path(live.ref, subresource), query, body, MERGE)
        if _is_trouble(answer):
            _refuse(live.ref, answer)
        return answer

    def replace(self, live: Live, path: str, value: Any, subresource: str = "") -> bytes:
        """Replace one existing value (a JSON patch with tests); gives the object's JSON as stored."""
        body = [
            {"op": "test", "path": "/metadata/uid", "value": live.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": live.version},
            {"op": "replace", "path": path, "value": value},
        ]
        return self._patch(live, JSON, body, subresource)

    def apply(self, live: Live, kind: str, fields: Mapping[str, Any], subresource: str = "") -> None:
        """Server-side apply of all fields that dds owns: a field that dds applied before and that is not in `fields` is
        removed."""
        named = {"name": live.ref.name, **({"namespace": live.ref.namespace} if live.ref.namespace else {})}
        body = {
            "apiVersion": self.version_of(live.ref.resource),
            "kind": kind,
            "metadata": {**named, **live.identity},
            **fields,
        }
        self._patch(live, APPLY, body, subresource)

    def delete(self, live: Live, *, unchanged: bool = False) -> None:
        """Delete the object with this uid, with `unchanged` only at the version that was read. One that is gone already is
        fine."""
        means = live.identity if unchanged else {"uid": live.uid}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": means}
        answer = self._ask(live.ref, "DELETE", self._path(live.ref), body=msgspec.json.encode(body))
        if answer.code >= 300 and answer.code != 404:
            _refuse(live.ref, answer)

    def _patch(self, live: Live, content_type: str, body: Any, subresource: str = "") -> bytes:
        query = {"fieldManager": MANAGER} | ({"force": "true"} if content_type == APPLY else {})
        path = self._path(live.ref, subresource)
        answer = self._ask(live.ref, "PATCH", path, query, msgspec.json.encode(body), content_type)
        if (
            answer.code == 422 and content_type == JSON and not _causes(answer)
        ):  # the only sign of a failed test of the patch
            raise Changed(str(live.ref))
        if answer.code >= 300:
            _refuse(live.ref, answer)
        return answer.body

    def _path(self, ref: Ref, subresource: str = "") -> str:
        return path_of(ref.resource, self.version_of(ref.resource), ref.namespace, ref.name, subresource)

    def _ask(
        self,
        ref: Ref,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        try:
            return self._api.ask(method, path, query=query, body=body, content_type=content_type)
        except Unreachable as error:
            raise Ended(Later(f"{ref}: {error.what}")) from None


class LiveWrite(ABC):
    """A write that reads live objects, compares them, and sends what is still needed."""

    __slots__ = ()

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        """Carry it out; start again a few times if an object changed in between."""
        server = Server(api, versions)
        why = ""
        for _ in range(ATTEMPTS):
            try:
                return self._once(server)
            except Changed as error:
                why = str(error)
            except Ended as end:
                return end.result
        return Later(why)

    @abstractmethod
    def _once(self, server: Server) -> Result: ...


def decoded(decode: Callable[[bytes], _T], live: Live) -> _T:
    """The object as the core has it. Raises Ended (Obsolete) if it cannot be read."""
    try:
        return decode(live.raw)
    except Fault as fault:
        raise Ended(Obsolete(f"{live.ref} cannot be read ({fault})")) from None


def live_of(ref: Ref, raw: bytes) -> Live:
    """A live object from the JSON of an answer."""
    try:
        meta = _object.decode(raw).metadata
    except ValueError:
        raise Ended(Later(f"{ref}: the answer is not an object")) from None
    return Live(
        ref=ref,
        raw=raw,
        uid=meta.uid,
        version=meta.resource_version,
        deleting=meta.deletion_timestamp is not None,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
    )


def _merging(live: Live, changes: Mapping[str, Any], unchanged: bool) -> dict[str, Any]:
    means = live.identity if unchanged else {"uid": live.uid}
    return {**changes, "metadata": {**changes.get("metadata", {}), **means}}


def _refuse(ref: Ref, answer: Answer) -> NoReturn:
    """Raise the meaning of an answer that is not a success."""
    code = answer.code
    if code == 404:
        raise Ended(Obsolete(f"{ref} is gone"))
    if code == 409:
        raise Changed(str(ref))
    if _is_trouble(answer):
        raise _later(ref, answer)
    if code == 422 and any("must be an allocated device" in cause.message for cause in _causes(answer)):
        raise Ended(Obsolete(f"{ref} is not allocated on the device any more"))
    raise Ended(declined(answer))


def _later(ref: Ref, answer: Answer) -> Ended:
    return Ended(Later(f"{ref}: the API server answers {answer.code} {_told(answer).reason}".rstrip(), answer.wait))


def _is_trouble(answer: Answer) -> bool:
    """Whether the answer is not about the request, but about the server's state or the sender's credentials."""
    return answer.code in (401, 408, 429) or answer.code >= 500


def declined(answer: Answer) -> Declined:
    """The refusal in an answer. From 1.36 the API server reports a missing permission within a 422: that becomes Forbidden."""
    told = _told(answer)
    forbidden = any(cause.reason == "FieldValueForbidden" for cause in _causes(answer))
    return Declined(answer.code, "Forbidden" if forbidden else scrub(told.reason)[:100], scrub(told.message))


def _causes(answer: Answer) -> list[_Cause]:
    details = _told(answer).details
    return (details.causes or []) if details is not None else []


def _told(answer: Answer) -> _Status:
    try:
        return _status.decode(answer.body)
    except ValueError:
        return _Status()
