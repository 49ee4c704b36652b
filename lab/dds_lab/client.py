"""The API as actors use it: verbs that return at once or raise ApiError, and mirrors that follow a resource.

Objects that come from here are shared and must never be changed in place. `instants` are as objects carry them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Protocol

from msgspec.structs import replace

from dds_lab.api import clock as instants
from dds_lab.api import status
from dds_lab.api.kinds import Object, Resource
from dds_lab.api.requests import AUTHENTICATED, MASTERS, Call, Deleting, Outcome, Reading, User, Writing
from dds_lab.api.server import ApiServer
from dds_lab.api.status import ApiError
from dds_lab.api.store import DELETED, Record
from dds_lab.api.watches import Notice, Watch
from dds_lab.latency import NONE, Latency
from dds_lab.time import MICROSECONDS, Time, Timer

__all__ = ["ApiError", "Client", "Mirror", "Object", "OnChange", "Resource", "full_name", "instants", "tolerating"]

RETRY_SECONDS = 1.0
"""Until a mirror that could not list tries again."""

News = Notice | dict[tuple[str, str], Object]
"""What a mirror is told: a notice, or everything after it had to list anew."""

OnChange = Callable[[Object | None, Object | None], None]
"""Told (old, new) of each change: old is None for a new object, new is None for one that is gone."""

BeforeCall = Callable[[Call], None]
"""Asked before each call of a client; it raises ApiError to let the call fail."""


Carry = Callable[[Call], Outcome]
"""Has a call carried out, and gives what came of it."""


class Tap(Protocol):
    """Stands between a server and the mirrors of one client, for faults. `behind`: a mirror's first list is as it was so many
    changes of its resource ago."""

    behind: int

    def hear(self, mirror: Mirror, news: News) -> None:
        """What a mirror is about to be told. It is told by its own `hear`, now or later, or never."""
        ...


@contextmanager
def tolerating(*codes: int) -> Iterator[None]:
    """What the API refuses with one of these codes need not be done."""
    try:
        yield
    except ApiError as error:
        if error.code not in codes:
            raise


class Client:
    """One user of one server. `resource` is a plural ("resourceclaims") or, where that is not unique, plural.group, of the
    server's preferred version; plural.version.group names another version."""

    def __init__(
        self, server: ApiServer, time: Time, user: str, groups: tuple[str, ...] = (MASTERS,), manager: str = ""
    ) -> None:
        """`manager` is the field manager of what is written, the user's name when not given."""
        self.server = server
        self.time = time
        self.user = User(user, (*groups, AUTHENTICATED))
        self.manager = manager or user
        self.before: BeforeCall | None = None
        self.carry: Carry = server.perform
        self.tap: Tap | None = None
        self._resources: dict[str, Resource] = {}
        self._mirrors: list[Mirror] = []
        self._writing = Writing(manager=self.manager, validation="Strict")

    # -- reading

    def get(self, resource: str, name: str, namespace: str = "") -> Object:
        """An object; ApiError 404 when there is none."""
        return self._perform(
            Call(verb="get", resource=self.resource(resource), user=self.user, namespace=namespace, name=name)
        ).object

    def find(self, resource: str, name: str, namespace: str = "") -> Object | None:
        """An object, None when there is none."""
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
        show = self.server.registry.strategy(found).from_storage
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
        made = Mirror(self.server, self.time, call, latency, random, self.tap)
        self._mirrors = [*(one for one in self._mirrors if not one.closed), made]
        return made

    def cut(self, seconds: float = 0.0, resource: str = "") -> None:
        """Break every mirror's connection for so long, or those of one resource."""
        for one in self._mirrors:
            if resource in ("", one.resource):
                one.cut(seconds)

    # -- writing

    def create(self, resource: str, obj: Object, namespace: str = "") -> Object:
        """A new object; gives it as it was stored."""
        namespace = namespace or (obj.get("metadata") or {}).get("namespace", "")
        return self._write("create", resource, obj, namespace, "")

    def update(self, resource: str, obj: Object, subresource: str = "") -> Object:
        """The whole object replaced; its resourceVersion guards it (409 when it has changed since)."""
        meta = obj["metadata"]
        return self._write("update", resource, obj, meta.get("namespace", ""), meta["name"], subresource)

    def patch(
        self, resource: str, name: str, patch: Any, namespace: str = "", how: str = "merge", subresource: str = "",
        force: bool = False,
    ) -> Object:  # fmt: skip
        """Part of an object changed; `how` is merge, json, strategic or apply."""
        writing = Writing(manager=self.manager, validation="Strict", how=how, force=force)
        return self._write("patch", resource, patch, namespace, name, subresource, writing)

    def delete(
        self, resource: str, name: str, namespace: str = "", uid: str = "", resource_version: str = "",
        grace: int | None = None, propagation: str = "",
    ) -> Object:  # fmt: skip
        """An object deleted, if it is (when given) that uid at that version; gives the object or a Status."""
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
        """Ask a pod to go (pods/eviction)."""
        self._write("create", "pods", {"metadata": {"name": name}}, namespace, name, "eviction")

    def _write(
        self, verb: str, resource: str, body: Any, namespace: str, name: str, subresource: str = "",
        writing: Writing | None = None,
    ) -> Object:  # fmt: skip
        return self._perform(
            Call(
                verb=verb, resource=self.resource(resource), user=self.user, namespace=namespace, name=name,
                subresource=subresource, body=body, writing=writing or self._writing,
            )
        ).object  # fmt: skip

    def _perform(self, call: Call) -> Outcome:
        if self.before is not None:
            self.before(call)
        return self.carry(call)

    def served(self) -> tuple[Resource, ...]:
        """Every resource that the server has now, preferred versions first (discovery)."""
        return tuple(self.server.registry.resources())

    def resource(self, name: str) -> Resource:
        """The resource that a plural (plural.group, plural.version.group) means. ApiError 404 when the server has none."""
        found, registry = self._resources.get(name), self.server.registry
        if found is None or registry.find(found.group, found.version, found.plural) is not found:
            served = (each for each in registry.resources() if name in _names(each))
            found = next(served, None)
            if found is None:
                raise status.no_such_path()
            self._resources[name] = found
        return found


class Mirror:
    """What one actor knows of a resource: listed, then watched, each change `latency` after it was made, in order.

    When the watch breaks it lists again and tells the differences, so that nothing is lost or invented.
    """

    def __init__(
        self, server: ApiServer, time: Time, call: Call, latency: Latency, random: Random, tap: Tap | None = None
    ) -> None:
        self._server = server
        self._tap = tap
        self._time = time
        self._call = call
        self._latency = latency
        self._random = random
        self._at_once = latency == NONE
        self._shown = server.registry.strategy(call.resource).from_storage
        self._objects: dict[tuple[str, str], Object] = {}
        self._queue: deque[tuple[int, News]] = deque()
        self._due = 0
        self._timer: Timer | None = None
        self._return: Timer | None = None
        self._calls: list[OnChange] = []
        self._watch: Watch | None = None
        self.closed = False
        self._objects = self._list(tap.behind if tap is not None else 0)

    # -- what is known

    def get(self, name: str, namespace: str = "") -> Object | None:
        """The object as it is known, None when none is."""
        return self._objects.get((namespace, name))

    def values(self) -> Iterator[Object]:
        """All objects that are known, in the order in which they became so."""
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def on_change(self, call: OnChange) -> None:
        """Be told of every change from now on; what is known already is not told."""
        self._calls.append(call)

    def follow(self, call: OnChange) -> None:
        """Be told of every object that is known, as a new one, and of every change from now on."""
        self._calls.append(call)
        for obj in list(self._objects.values()):
            call(None, obj)

    def close(self) -> None:
        """Follow no longer; what is on its way is dropped."""
        self.closed = True
        self._queue.clear()
        for timer in (self._timer, self._return):
            if timer is not None:
                timer.cancel()
        self._timer = self._return = None
        self._leave()

    def cut(self, seconds: float = 0.0) -> None:
        """What a broken connection does: nothing is heard for so long, then everything is listed again."""
        if self._watch is not None:
            self._leave()
            self._return = self._time.after(seconds, self._come_back)

    # -- following

    @property
    def resource(self) -> str:
        """The plural of what it follows."""
        return self._call.resource.plural

    def hear(self, news: News) -> None:
        """Be told; one that is closed is not."""
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
        for call in self._calls:
            call(old, obj)

    def _list(self, behind: int = 0) -> dict[tuple[str, str], Object]:
        """Everything there is now, or was so many changes ago, and a watch from there on."""
        changes = self._server.store.table(self._call.resource.key).changes if behind else ()
        if len(changes) > behind:
            return self._list_of(changes[-behind - 1].revision)
        self._watch = self._server.watch(self._call)
        objects = self._places(record for _, record in self._watch.take())
        self._attend(self._watch)
        return objects

    def _list_of(self, revision: int) -> dict[tuple[str, str], Object]:
        """As a replica that is behind gives it: what there was then, and what it is told from there on."""
        reading = replace(self._call.reading, version=str(revision))
        exact = replace(self._call, verb="list", reading=replace(reading, match="Exact"))
        page = self._server.perform(exact).page
        assert page is not None
        self._watch = self._server.watch(replace(self._call, reading=reading))
        self._attend(self._watch)
        return self._places(page.records)

    def _attend(self, watch: Watch) -> None:
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
        """List again, as often as it takes."""
        self._return = None
        try:
            self._enqueue(self._list())
        except ApiError:
            self._watch = None
            self._return = self._time.after(RETRY_SECONDS, self._come_back)

    def _ended(self) -> None:
        """The server has ended the watch."""
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
        """A fresh list took the place of what was known: tell what differs."""
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
    """A name that no other resource has, for the verbs of a client: plural.version.group."""
    return f"{resource.plural}.{resource.version}.{resource.group}"


def _names(resource: Resource) -> tuple[str, ...]:
    return resource.plural, resource.name, full_name(resource)


def _place(obj: Object) -> tuple[str, str]:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]
