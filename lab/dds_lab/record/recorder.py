"""Records the lab itself: the watch events of every resource that dds reads, in order.

It uses ordinary watches and changes nothing. On virtual time the same scenario and seed give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from dds_lab.api.kinds import Object, Resource
from dds_lab.api.requests import MASTERS, Call, Reading, User
from dds_lab.api.server import ApiServer
from dds_lab.api.watches import Watch
from dds_lab.record import RESOURCES
from dds_lab.time import MICROSECONDS, Time, Timers

_WATCHER = User("recorder", (MASTERS,))
_FOR_EVER = 100 * 366 * 86_400.0


class Sink(Protocol):
    """Receives the events of a recording."""

    def write(self, at: int, resource: str, type: str, obj: bytes) -> None:
        """Take one event; `at` in microseconds since 1970-01-01 UTC, `obj` the object's JSON."""
        ...


class Recorder:
    """Records a server until it is stopped, beginning with the objects that exist."""

    def __init__(self, server: ApiServer, time: Time, sink: Sink) -> None:
        self._time = time
        self._sink = sink
        self._encode = msgspec.json.Encoder().encode
        self._watches: list[Watch] = []
        self._timers = Timers(time)  # by resource
        served = {one.plural: one for one in reversed(server.registry.resources())}
        for resource in RESOURCES:
            if resource in served:
                self._follow(server, served[resource])

    def stop(self) -> None:
        self._timers.clear()
        for watch in self._watches:
            watch.on_ready(None)
            watch.close()

    def _follow(self, server: ApiServer, resource: Resource) -> None:
        shown = server.registry.strategy(resource).from_storage
        reading = Reading(bookmarks=True, timeout=_FOR_EVER)
        watch = server.watch(Call(verb="watch", resource=resource, user=_WATCHER, reading=reading), endless=False)
        self._watches.append(watch)
        watch.on_ready(lambda: self._take(resource.plural, watch, shown))
        self._await_bookmark(resource.plural, watch)

    def _take(self, resource: str, watch: Watch, shown: Callable[[Object], Object]) -> None:
        now = self._time.now()
        for type, record in watch.take():
            self._sink.write(now, resource, type, self._encode(shown(record.object)))

    def _await_bookmark(self, name: str, watch: Watch) -> None:
        due = watch.due
        if due is not None:
            self._timers.after(name, (due - self._time.now()) / MICROSECONDS, lambda: self._tick(name, watch))

    def _tick(self, name: str, watch: Watch) -> None:
        watch.tick()
        self._await_bookmark(name, watch)
