"""A real API server as actors know one: verbs that return at once or raise ApiError, and watches whose changes arrive on the
actors' own thread.

A call blocks that thread for as long as the server takes. Watches have threads of their own, one for each set of objects, however
many mirrors follow it: the product's reflectors. What an actor has written is in all mirrors when the call returns, as with the
lab's own server: the operator would else act on what it knew before, and attach a second device.
Errors carry the server's words, never a header, so no credentials.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from dds_adapters.kubernetes.cluster import Answer, Cluster, Refused, Scope, Unreachable, listed, path_of
from dds_adapters.kubernetes.watch.reflector import Reflector, Timing
from dds_adapters.kubernetes.watch.watch_spec import OPERATOR as GROUP
from dds_adapters.kubernetes.watch.watch_spec import WatchSpec
from dds_core.errors import DdsError
from dds_lab.api import status
from dds_lab.api.kinds import ADMISSION, EXTENSIONS, RESOURCE, Object, Resource
from dds_lab.api.requests import Call, Outcome, Page
from dds_lab.api.status import ApiError
from dds_lab.api.store import ADDED, DELETED, MODIFIED, Record
from dds_lab.api.watches import Notice
from dds_lab.client import tolerating
from dds_lab.record.first_list import FirstList

GROUPS = ("", RESOURCE, GROUP, "coordination.k8s.io", EXTENSIONS, "events.k8s.io", ADMISSION)
"""The groups that the lab asks for, the core group first: a plural means the first that serves it."""
TIMING = Timing(shortest=50, longest=60, grace=5.0)
"""Of a watch: the actors need no sign of life every few seconds."""
PATIENCE = 20.0
"""Seconds that an answer may take. Meanwhile the actors stand still."""
TRIES: Final = 4
LONGEST_PAUSE = 5.0
"""Seconds that the lab waits at most before it repeats a call that the server was too busy for."""

_PATCHES: Mapping[str, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_METHODS: Mapping[str, str] = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}

Post = Callable[[Callable[[], None]], object]
"""Has a function called soon on the actors' thread; may be called from any."""


class Registry:
    """What a server serves, of the groups of `GROUPS`, preferred versions first."""

    def __init__(self, ask: Callable[[str], Any]) -> None:
        """`ask` gives the JSON at a path. Raises ApiError."""
        self._ask = ask
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self.read()

    def read(self) -> None:
        """Ask again (discovery). Raises ApiError."""
        groups = {one["name"]: one for one in self._ask("/apis").get("groups") or ()}
        found = _of_version(self._ask("/api/v1"), "", "v1")
        for name in GROUPS[1:]:
            if name in groups:
                preferred = groups[name]["preferredVersion"]["version"]
                versions = [one["version"] for one in groups[name]["versions"]]
                for version in sorted(versions, key=lambda one: one != preferred):
                    with tolerating(404):  # its definitions are just coming or going
                        found |= _of_version(self._ask(f"/apis/{name}/{version}"), name, version)
        self._resources = found

    def resources(self) -> list[Resource]:
        return list(self._resources.values())

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))


def _of_version(answer: Any, group: str, version: str) -> dict[tuple[str, str, str], Resource]:
    entries = answer.get("resources") or ()
    below: dict[str, set[str]] = {}
    for one in entries:
        plural, _, subresource = one["name"].partition("/")
        below.setdefault(plural, set()).update({subresource} - {""})
    return {
        (group, version, one["name"]): Resource(
            group, version, one["name"], one.get("singularName") or "", one["kind"], one["namespaced"],
            frozenset(below[one["name"]]), verbs=tuple(one.get("verbs") or ()), custom=group == GROUP,
        )
        for one in entries
        if "/" not in one["name"]
    }  # fmt: skip


class RemoteServer:
    """The server of a kubeconfig. `note` gets a line about each trouble of a watch."""

    def __init__(self, cluster: Cluster, post: Post, note: Callable[[str], None], patience: float = PATIENCE) -> None:
        """Asks what the server serves. Raises ApiError."""
        self.cluster = cluster
        self._post = post
        self._note = note
        self._patience = patience
        self._thread = threading.get_ident()  # of the actors
        self._followed: dict[tuple[Resource, Scope], _Shared] = {}
        self.registry = Registry(self.json)

    def close(self) -> None:
        """End all watches."""
        for one in list(self._followed.values()):
            one.end()

    def json(self, path: str, body: Any = None) -> Any:
        """The JSON at a path, or what a review answers to `body`. Raises ApiError."""
        return self._decoded(self._ask("GET" if body is None else "POST", path, {}, body))

    def shown(self, resource: Resource) -> Callable[[Object], Object]:
        return _same

    def perform(self, call: Call) -> Outcome:
        """Carry out a call. Raises ApiError; without an answer it has code 503, and the call may have been carried out."""
        if call.verb == "list":
            records = [Record(msgspec.json.decode(raw), 0) for raw in self._pages(call)]
            return Outcome(page=Page(records=[_typed(one, call.resource) for one in records], revision=0))
        name = "" if call.verb == "create" and not call.subresource else call.name
        path = path_of(call.resource.plural, call.resource.api_version, call.namespace, name, call.subresource)
        query, body, kind = {}, None, "application/json"
        if call.verb == "delete":
            body = _options(call)
        elif call.verb != "get":
            query = {"fieldManager": call.writing.manager[:128], "fieldValidation": call.writing.validation}
            if call.verb == "create" and not call.subresource:
                body = {"apiVersion": call.resource.api_version, "kind": call.resource.kind, **call.body}
            else:
                body = call.body
            if call.verb == "patch":
                kind = _PATCHES[call.writing.how]
                query |= {"force": "true"} if call.writing.force else {}
            if call.writing.dry_run:
                query["dryRun"] = "All"
        answer = self._ask(_METHODS.get(call.verb, "GET"), path, query, body, kind)
        obj = self._decoded(answer)
        if call.verb in ("update", "patch") and threading.get_ident() == self._thread:
            for (resource, _), shared in list(self._followed.items()):
                if resource == call.resource:
                    shared.wrote(obj)
        return Outcome(code=answer.code, object=obj)

    def watch(self, call: Call) -> RemoteWatch:
        """All objects that there are, and every change from then on. Raises ApiError."""
        reading = call.reading
        return self._shared(call.resource, Scope(call.namespace, reading.fields, reading.labels)).follow(_everything)

    def _shared(self, resource: Resource, scope: Scope) -> _Shared:
        key = resource, scope
        if key not in self._followed:
            made = _Shared(self.cluster, resource, scope, self._post, self._note, lambda: self._followed.pop(key, None))
            self._followed[key] = made
        return self._followed[key]

    def _pages(self, call: Call) -> list[bytes]:
        chosen = {"labelSelector": call.reading.labels, "fieldSelector": call.reading.fields}
        path = path_of(call.resource.plural, call.resource.api_version, call.namespace)

        def ask(query: Mapping[str, str]) -> bytes:
            return self._ask("GET", path, query, None).body

        for left in range(TRIES - 1, -1, -1):
            try:
                return list(listed(ask, {name: value for name, value in chosen.items() if value}))
            except ApiError as error:  # 410: the list is older than the server's history; begin it again
                if error.code != 410 or not left:
                    raise
            except ValueError:
                raise ApiError(503, "ServiceUnavailable", f"{path}: the answer is no list") from None
        raise AssertionError

    def _ask(
        self, method: str, path: str, query: Mapping[str, str], body: Any, kind: str = "application/json"
    ) -> Answer:
        """The answer to a call that succeeded. One that the server was too busy for is sent again after the pause that it names.
        Raises ApiError."""
        sent = None if body is None else msgspec.json.encode(body)
        left = self._patience
        for tries in range(1, TRIES + 1):
            try:
                answer = self.cluster.ask(
                    method, path, query=query, body=sent, content_type=kind, timeout=self._patience
                )
            except Unreachable as error:
                raise ApiError(503, "ServiceUnavailable", str(error)) from None
            wait = min(answer.wait, LONGEST_PAUSE)
            busy = answer.code == 429 and wait and not path.endswith("/eviction")
            if not busy or tries == TRIES or wait > left:
                break
            left -= wait
            time.sleep(wait)
        if answer.code >= 400:
            raise _error(answer, f"{method} {path}")
        return answer

    def _decoded(self, answer: Answer) -> Any:
        try:
            return msgspec.json.decode(answer.body)
        except ValueError:
            raise ApiError(
                503, "ServiceUnavailable", f"{self.cluster.where} answers with something else than JSON"
            ) from None


def _error(answer: Answer, what: str) -> ApiError:
    try:
        found = msgspec.json.decode(answer.body)
    except ValueError:
        found = None
    told = found if isinstance(found, dict) and found.get("kind") == "Status" else {}
    message = told.get("message") or f"{what} is answered with {answer.code}"
    return ApiError(answer.code, told.get("reason") or "", message, told.get("details"))


def _place(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def _options(call: Call) -> Object:
    deleting = call.deleting
    expected = {"uid": deleting.uid, "resourceVersion": deleting.version}
    body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if preconditions := {name: value for name, value in expected.items() if value}:
        body["preconditions"] = preconditions
    if deleting.grace is not None:
        body["gracePeriodSeconds"] = deleting.grace
    if deleting.propagation:
        body["propagationPolicy"] = deleting.propagation
    return body


def _typed(record: Record, resource: Resource) -> Record:
    """Items of a list carry neither kind nor apiVersion."""
    record.object = {"apiVersion": resource.api_version, "kind": resource.kind, **record.object}
    return record


def _same(obj: Object) -> Object:
    return obj


def _everything(obj: Object) -> bool:
    return True


# -- watches


Sees = Callable[[Object], bool]
"""Whether a follower gets to see an object."""


class RemoteWatch:
    """One follower of a set of objects. An object that it no longer `sees` is reported as deleted."""

    def __init__(self, shared: _Shared, sees: Sees) -> None:
        self._shared = shared
        self._sees = sees
        self._hear: Callable[[Notice], None] = _ignore
        self.closed = False

    def take(self) -> list[Notice]:
        return [(ADDED, record) for record in self._shared.objects.values() if self._sees(record.object)]

    def on_notice(self, call: Callable[[Notice], None]) -> None:
        self._hear = call

    def on_ready(self, call: Callable[[], None] | None) -> None:
        """It never ends by itself: a watch that breaks is opened anew below."""

    def close(self) -> None:
        self.closed = True
        self._shared.leave(self)

    def hear(self, type: str, record: Record) -> None:
        self._hear((type if self._sees(record.object) else DELETED, record))


def _ignore(notice: Notice) -> None:
    pass


def _first_error(error: DdsError, resource: Resource) -> ApiError:
    if isinstance(error, Refused):
        return ApiError(error.code, "", f"{resource.name}: {error}")
    return ApiError(503, "ServiceUnavailable", str(error)) if isinstance(error, Unreachable) else status.no_such_path()


class _Shared:
    """A list and a watch for all that follow the same objects, as the `Sink` of a reflector. `objects` belongs to the actors'
    thread."""

    def __init__(
        self, cluster: Cluster, resource: Resource, scope: Scope, post: Post, note: Callable[[str], None],
        ended: Callable[[], object],
    ) -> None:  # fmt: skip
        """Lists the objects. Raises ApiError."""
        self.objects: dict[tuple[str, str], Record] = {}
        self._resource = resource
        self._post = post
        self._note = note
        self._ended = ended
        self._watches: list[RemoteWatch] = []
        self._list = FirstList()
        self._first: list[tuple[str, Object]] | None = []
        self._taking = threading.Lock()  # of `_first`
        spec = WatchSpec(resource.plural, (resource.api_version,), scope)
        self._reflector = Reflector(spec, cluster, self, self._failed, timing=TIMING)
        self._reflector.start()
        self._list.wait()
        if self._list.error is not None:
            self._reflector.end()
            raise _first_error(self._list.error, resource)
        with self._taking:
            taken, self._first = self._first or [], None
        for type, obj in taken:
            self._take(type, obj)

    def follow(self, sees: Sees) -> RemoteWatch:
        self._watches.append(watch := RemoteWatch(self, sees))
        return watch

    def leave(self, watch: RemoteWatch) -> None:
        if watch in self._watches:
            self._watches.remove(watch)
            if not self._watches:
                self.end()

    def end(self) -> None:
        self._ended()
        self._reflector.end()

    def _failed(self, resource: str, error: DdsError) -> None:
        if not self._list.failed(error):
            self._note(str(error))

    # -- as a `Sink`, in the reflector's thread

    def put(self, resource: str, uid: str, type: str, raw: bytes) -> None:
        obj = {"apiVersion": self._resource.api_version, "kind": self._resource.kind, **msgspec.json.decode(raw)}
        with self._taking:
            if self._first is not None:
                self._first.append((type, obj))
                return
        self._post(lambda: self._take(type, obj))

    def mark(self, resource: str, marker: str, since: int = 0, *, anew: bool = False) -> None:
        self._list.marked(marker)

    def instant(self) -> int:
        return time.time_ns() // 1000

    def heard(self, resource: str, within: float) -> bool:
        return False

    def wrote(self, obj: Object) -> None:
        """Take in what was written, if it was known before."""
        if _place(obj) in self.objects:
            self._take(MODIFIED, obj)

    def _take(self, type: str, obj: Object) -> None:
        place, metadata = _place(obj), obj["metadata"]
        known = self.objects.get(place)
        same = known is not None and known.object["metadata"]["uid"] == metadata["uid"]
        if type == DELETED:
            if not same:
                return  # an object of the same name was made since
            record = self.objects.pop(place)
        elif known is not None and same and _version(obj) <= _version(known.object):
            return  # the lab wrote it, or something newer
        else:
            record = self.objects[place] = Record(obj, 0)
        for watch in list(self._watches):
            watch.hear(type, record)
