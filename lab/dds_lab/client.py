"""The API for actors: verbs that return at once or raise ApiError, and mirrors that follow a resource.

Objects from here are shared and must never be changed in place. `instants` converts the times in objects, `selects` says
whether a LabelSelector matches labels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Protocol

from msgspec.structs import replace

from dds_lab.api import clock as instants
from dds_lab.api import status
from dds_lab.api.kinds import Object, Resource
from dds_lab.api.requests import AUTHENTICATED, MASTERS, Call, Deleting, Outcome, Reading, User, Writing
from dds_lab.api.selectors import selects
from dds_lab.api.server import ApiServer
from dds_lab.api.status import ApiError
from dds_lab.api.store import DELETED, Record
from dds_lab.api.watches import Notice
from dds_lab.latency import NONE, Latency
from dds_lab.time import MICROSECONDS, Time, Timer

__all__ = [
    "ApiError", "Call", "Client", "Mirror", "Object", "OnChange", "Resource", "full_name", "instants", "selects", "tolerating",
]  # fmt: skip

RETRY_SECONDS = 1.0
"""Wait before a mirror that could not list tries again."""

News = Notice | dict[tuple[str, str], Object]
"""What a mirror receives: a notice, or all objects if it had to list again."""

OnChange = Callable[[Object | None, Object | None], None]
"""Called with (old, new) for each change: old is None for a new object, new is None for one that is gone."""

BeforeCall = Callable[[Call], None]
"""Called before each call of a client. If it raises ApiError, the call fails."""


Carry = Callable[[Call], Outcome]
"""Carries out a call."""


class Following(Protocol):
    """An open watch: first what there is (`take`), then each change."""

    @property
    def closed(self) -> bool: ...

    def take(self) -> list[Notice]: ...

    def on_notice(self, call: Callable[[Notice], None]) -> None: ...

    def on_ready(self, call: Callable[[], None] | None) -> None: ...

    def close(self) -> None: ...


class Registry(Protocol):
    """What a server serves."""

    def resources(self) -> Sequence[Resource]: ...

    def find(self, group: str, version: str, plural: str) -> Resource | None: ...


class Server(Protocol):
    """What a client needs of an API server: the lab's own `ApiServer` in this process, or one reached over HTTP
    (`dds_lab.joined.remote`)."""

    @property
    def registry(self) -> Registry: ...

    def perform(self, call: Call) -> Outcome:
        """Carry out a call that is no watch. Raises ApiError."""
        ...

    def watch(self, call: Call) -> Following:
        """All objects that there are, and every change from then on. Raises ApiError."""
        ...

    def shown(self, resource: Resource) -> Callable[[Object], Object]:
        """Converts what a record of the resource holds to the version of the resource."""
        ...


class Tap(Protocol):
    """Stands between the server and the mirrors of a client, for faults. `behind` is how many changes of its resource the first
    list of a mirror lags behind."""

    behind: int

    def hear(self, mirror: Mirror, news: News) -> None:
        """Called in place of the mirror's `hear`, to which it passes the news now, later or never."""


@contextmanager
def tolerating(*codes: int) -> Iterator[None]:
    """Ignore an ApiError with one of these codes."""
    try:
        yield
    except ApiError as error:
        if error.code not in codes:
            raise


class Client:
    """One user of one server. `resource` is a plural ("resourceclaims") or, if that is not unique, plural.group, in the
    preferred version; plural.version.group names another version."""

    def __init__(
        self, server: Server, time: Time, user: str, groups: tuple[str, ...] = (MASTERS,), manager: str = ""
    ) -> None:
        """`manager` is the field manager of writes, by default the user's name."""
        self.api = server
        self.time = time
        self.user = User(user, (*groups, AUTHENTICATED))
        self.manager = manager or user
        self.before: BeforeCall | None = None
        self.carry: Carry = server.perform
        self.tap: Tap | None = None
        self._resources: dict[str, Resource] = {}
        self._mirrors: list[Mirror] = []
        self._writing = Writing(manager=self.manager, validation="Strict")

    @property
    def server(self) -> ApiServer:
        """The lab's own server."""
        assert isinstance(self.api, ApiServer), "this client speaks to a joined cluster, not to the lab's own server"
        return self.api

    def get(self, resource: str, name: str, namespace: str = "") -> Object:
        """An object; ApiError 404 if there is none."""
        return self._perform(
            Call(verb="get", resource=self.resource(resource), user=self.user, namespace=namespace, name=name)
        ).object

    def find(self, resource: str, name: str, namespace: str = "") -> Object | None:
        """An object; None if there is none."""
        try:
            return self.get(resource, name, namespace)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def list(self, resource: str, namespace: str = "", labels: str = "", fields: str = "") -> list[Object]:
        """All objects (of a namespace) that match the selectors, in the order of namespace and name."""
        found, reading = self.resource(resource), Reading(labels=labels, fields=fields)
        outcome = self._perform(Call(verb="list", resource=found, user=self.user, namespace=namespace, reading=reading))
        assert outcome.page is not None
        show = self.api.shown(found)
        return [show(record.object) for record in outcome.page.records]

    def mirror(
        self, resource: str, latency: Latency = NONE, fields: str = "", labels: str = "", namespace: str = ""
    ) -> Mirror:
        """A copy that follows the resource (an informer)."""
        found, reading = self.resource(resource), Reading(labels=labels, fields=fields)
        call = Call(verb="watch", resource=found, user=self.user, namespace=namespace, reading=reading)
        if self.before is not None:
            self.before(call)
        random = self.time.random(f"mirror/{self.user.name}/{resource}/{fields}/{labels}")
        made = Mirror(self.api, self.time, call, latency, random, self.tap)
        self._mirrors = [*(one for one in self._mirrors if not one.closed), made]
        return made

    def cut(self, seconds: float = 0.0, resource: str = "") -> None:
        """Break the connections of all mirrors, or of those of one resource, for `seconds`."""
        for one in self._mirrors:
            if resource in ("", one.resource):
                one.cut(seconds)

    def create(self, resource: str, obj: Object, namespace: str = "") -> Object:
        """Create an object; gives it as stored."""
        namespace = namespace or (obj.get("metadata") or {}).get("namespace", "")
        return self._write("create", resource, obj, namespace, "")

    def update(self, resource: str, obj: Object, subresource: str = "") -> Object:
        """Replace the whole object. ApiError 409 if it has changed since its resourceVersion."""
        return self.perform(self.updating(resource, obj, subresource))

    def updating(self, resource: str, obj: Object, subresource: str = "") -> Call:
        """The call of `update`, for one who repeats it (`perform`)."""
        meta = obj["metadata"]
        return self._writes("update", resource, obj, meta.get("namespace", ""), meta["name"], subresource)

    def perform(self, call: Call) -> Object:
        """Carry out a call of this client's; gives the object. Raises ApiError."""
        if self.before is not None:
            self.before(call)
        return self.carry(call).object

    def patch(
        self, resource: str, name: str, patch: Any, namespace: str = "", how: str = "merge", subresource: str = "",
        force: bool = False,
    ) -> Object:  # fmt: skip
        """Change part of an object; `how` is merge, json, strategic or apply."""
        writing = Writing(manager=self.manager, validation="Strict", how=how, force=force)
        return self._write("patch", resource, patch, namespace, name, subresource, writing)

    def delete(
        self, resource: str, name: str, namespace: str = "", uid: str = "", resource_version: str = "",
        grace: int | None = None, propagation: str = "",
    ) -> Object:  # fmt: skip
        """Delete an object. A `uid` or `resource_version` that is given must match. Gives the object or a Status."""
        deleting = Deleting(uid=uid or None, version=resource_version or None, grace=grace, propagation=propagation)
        found = self.resource(resource)
        call = Call(verb="delete", resource=found, user=self.user, namespace=namespace, name=name, deleting=deleting)
        return self._perform(call).object

    def bind(self, name: str, namespace: str, node: str) -> None:
        """Put a pod on a node (pods/binding)."""
        target = {"kind": "Node", "name": node}
        body = {"kind": "Binding", "apiVersion": "v1", "metadata": {"name": name}, "target": target}
        self._write("create", "pods", body, namespace, name, "binding")

    def evict(self, name: str, namespace: str) -> None:
        """Evict a pod (pods/eviction)."""
        self._write("create", "pods", {"metadata": {"name": name}}, namespace, name, "eviction")

    def _write(
        self, verb: str, resource: str, body: Any, namespace: str, name: str, subresource: str = "",
        writing: Writing | None = None,
    ) -> Object:  # fmt: skip
        return self.perform(self._writes(verb, resource, body, namespace, name, subresource, writing))

    def _writes(
        self, verb: str, resource: str, body: Any, namespace: str, name: str, subresource: str = "",
        writing: Writing | None = None,
    ) -> Call:  # fmt: skip
        return Call(
            verb=verb, resource=self.resource(resource), user=self.user, namespace=namespace, name=name,
            subresource=subresource, body=body, writing=writing or self._writing,
        )  # fmt: skip

    def _perform(self, call: Call) -> Outcome:
        if self.before is not None:
            self.before(call)
        return self.carry(call)

    def served(self) -> tuple[Resource, ...]:
        """Every resource that the server serves now, preferred versions first (discovery)."""
        return tuple(self.api.registry.resources())

    def resource(self, name: str) -> Resource:
        """The resource for plural, plural.group or plural.version.group. ApiError 404 if the server has none."""
        found, registry = self._resources.get(name), self.api.registry
        if found is None or registry.find(*found.place) is not found:
            served = (each for each in registry.resources() if name in _names(each))
            found = next(served, None)
            if found is None:
                raise status.no_such_path()
            self._resources[name] = found
        return found


class Mirror:
    """An actor's copy of a resource: listed, then watched. Each change arrives `latency` later, in order. When the watch
    breaks, the mirror lists again and reports the differences, so that nothing is lost or invented."""

    def __init__(
        self, server: Server, time: Time, call: Call, latency: Latency, random: Random, tap: Tap | None = None
    ) -> None:
        self._server = server
        self._tap = tap
        self._time = time
        self._call = call
        self._latency = latency
        self._random = random
        self._at_once = latency == NONE
        self._shown = server.shown(call.resource)
        self._objects: dict[tuple[str, str], Object] = {}
        self._queue: deque[tuple[int, News]] = deque()
        self._due = 0
        self._timer: Timer | None = None
        self._return: Timer | None = None
        self._calls: list[OnChange] = []
        self._watch: Following | None = None
        self.closed = False
        self._objects = self._list(tap.behind if tap is not None else 0)

    def get(self, name: str, namespace: str = "") -> Object | None:
        return self._objects.get((namespace, name))

    def values(self) -> Iterator[Object]:
        """All known objects, in the order in which they became known."""
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def on_change(self, call: OnChange) -> None:
        """Call for every change from now on, not for what is known already."""
        self._calls.append(call)

    def follow(self, call: OnChange) -> None:
        """Call for every known object, as a new one, and for every change from now on."""
        self._calls.append(call)
        for obj in list(self._objects.values()):
            call(None, obj)

    def close(self) -> None:
        """Stop following. Changes under way are dropped."""
        self.closed = True
        self._queue.clear()
        for timer in (self._timer, self._return):
            if timer is not None:
                timer.cancel()
        self._timer = self._return = None
        self._leave()

    def cut(self, seconds: float = 0.0) -> None:
        """Break the connection: no changes for `seconds`, then a new list."""
        if self._watch is not None:
            self._leave()
            self._return = self._time.after(seconds, self._come_back)

    @property
    def resource(self) -> str:
        return self._call.resource.plural

    def hear(self, news: News) -> None:
        """Take in news and report the changes. A closed mirror ignores them."""
        if self.closed:
            return
        if isinstance(news, dict):
            self._replace(news)
            return
        type, record = news
        obj = self._shown(record.object)
        place = _place(obj)
        if type == DELETED:
            old = self._objects.pop(place, None)
            if old is not None:
                self._tell(old, None)
            return
        old = self._objects.get(place)
        self._objects[place] = obj
        self._tell(old, obj)

    def _list(self, behind: int = 0) -> dict[tuple[str, str], Object]:
        """Everything there is now, or was `behind` changes ago, and a watch from there on."""
        if behind and isinstance(self._server, ApiServer):
            changes = self._server.store.table(self._call.resource.key).changes
            if len(changes) > behind:
                return self._list_of(changes[-behind - 1].revision)
        self._watch = self._server.watch(self._call)
        objects = self._places(record for _, record in self._watch.take())
        self._attend(self._watch)
        return objects

    def _list_of(self, revision: int) -> dict[tuple[str, str], Object]:
        """What a server replica that lags behind gives: a list at `revision`, and a watch from there on."""
        reading = replace(self._call.reading, version=str(revision))
        exact = replace(self._call, verb="list", reading=replace(reading, match="Exact"))
        page = self._server.perform(exact).page
        assert page is not None
        self._watch = self._server.watch(replace(self._call, reading=reading))
        self._attend(self._watch)
        return self._places(page.records)

    def _attend(self, watch: Following) -> None:
        if not watch.closed:
            watch.on_notice(self._enqueue)
        watch.on_ready(self._ended)

    def _places(self, records: Iterable[Record]) -> dict[tuple[str, str], Object]:
        found = (self._shown(record.object) for record in records)
        return {_place(obj): obj for obj in found}

    def _leave(self) -> None:
        if self._watch is not None:
            self._watch.on_ready(None)
            self._watch.close()
            self._watch = None

    def _come_back(self) -> None:
        """List again, until it succeeds."""
        self._return = None
        try:
            self._enqueue(self._list())
        except ApiError:
            self._watch = None
            self._return = self._time.after(RETRY_SECONDS, self._come_back)

    def _ended(self) -> None:
        if self._watch is not None:
            self._watch.on_ready(None)
            self._come_back()

    def _enqueue(self, news: News) -> None:
        delay = 0.0
        if self._at_once:
            self._due = self._time.now()
        else:
            delay = self._latency.draw(self._random)
            self._due = max(self._due, self._time.now() + round(delay * MICROSECONDS))
        self._queue.append((self._due, news))
        if self._timer is None:
            self._timer = self._time.after(delay, self._deliver)

    def _deliver(self) -> None:
        self._timer = None
        now = self._time.now()
        while self._queue and self._queue[0][0] <= now:
            news = self._queue.popleft()[1]
            if self._tap is not None:
                self._tap.hear(self, news)
            else:
                self.hear(news)
        if self._queue and self._timer is None:
            self._timer = self._time.after((self._queue[0][0] - now) / MICROSECONDS, self._deliver)

    def _replace(self, objects: dict[tuple[str, str], Object]) -> None:
        """Replace the known objects by a new list and report the differences."""
        for place in [each for each in self._objects if each not in objects]:
            self._tell(self._objects.pop(place), None)
        for place, obj in objects.items():
            old = self._objects.get(place)
            if old is None or old["metadata"]["uid"] != obj["metadata"]["uid"]:
                if old is not None:
                    del self._objects[place]
                    self._tell(old, None)
                self._objects[place] = obj
                self._tell(None, obj)
            elif old["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self._objects[place] = obj
                self._tell(old, obj)

    def _tell(self, old: Object | None, new: Object | None) -> None:
        for call in self._calls:
            call(old, new)


def full_name(resource: Resource) -> str:
    """A unique name of a resource for a client's verbs: plural.version.group."""
    return f"{resource.plural}.{resource.version}.{resource.group}"


def _names(resource: Resource) -> tuple[str, ...]:
    return resource.plural, resource.name, full_name(resource)


def _place(obj: Object) -> tuple[str, str]:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]
