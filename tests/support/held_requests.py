"""The door of a lab's API server: who came when with what, and who is stopped there.

door = Door(lab)
door.stop_at(first, "GET", "composabilityrequests")     # the process stands still while its question is answered
door.stop_at(first, "PATCH", "resourceclaims", held=True)   # or its write waits at the door until `let_in`
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from dds_adapters.kubernetes.lease.elector import RESOURCE as LEASES
from dds_adapters.kubernetes.write.devices import OPERATOR_LOOK
from dds_lab.api.kinds import Object
from dds_lab.api.paths import place
from dds_lab.api.requests import Request, Response
from dds_lab.lab import Lab
from tests.support.live_lab import LiveLab


class Came(NamedTuple):
    """A request for one object: the instant of `time.monotonic`, the user, the method, what it is about, and whether it only
    makes the operator look."""

    at: float
    user: str
    method: str
    resource: str
    name: str
    looks: bool


class Holder(NamedTuple):
    """Since when somebody holds the lease; "" for nobody, as after its deletion."""

    at: float
    identity: str


class _Stop(NamedTuple):
    user: str
    method: str
    resource: str
    number: int
    held: bool
    stand_still: Callable[[], None]


class HeldRequests:
    """Looks on from where it is made. `writes` are all requests that would change something, but those about the lease."""

    def __init__(self, lab: LiveLab) -> None:
        self.writes: list[Came] = []
        self.holders: list[Holder] = []
        self.stopped = threading.Event()
        self.stopped_at = 0.0
        self.late: list[int] = []
        """Status codes of what was held and then let in."""
        self._lab = lab
        self._stop: _Stop | None = None
        self._held: list[tuple[Any, Request]] = []
        self._met = 0
        self._answer: Callable[[Any, Request], None] = lab.face.answer
        setattr(lab.face, "answer", self._asked)  # noqa: B010 - a method of this one face
        lab.call(self._follow)

    def stop_at(
        self,
        user: str,
        method: str,
        resource: str,
        stand_still: Callable[[], None],
        *,
        number: int = 1,
        held: bool = False,
    ) -> None:
        """`stand_still` is called when this user comes for the `number`-th time with this method for one of these objects. The
        request is answered meanwhile, or `held` back until `let_in`."""
        self._stop = _Stop(user, method, resource, number, held, stand_still)

    def let_in(self) -> None:
        """What was held is carried out now."""
        self._lab.call(lambda lab: self._let_in())

    def after(self, user: str, instant: float) -> list[Came]:
        """What a user wanted to write that came after an instant."""
        return [one for one in self.writes if one.user == user and one.at > instant]

    def taken_by_another(self, than: str) -> float:
        """When the lease got a holder other than the one named; 0 while it has none."""
        return next((one.at for one in self.holders if one.identity not in ("", than)), 0.0)

    def _follow(self, lab: Lab) -> None:
        def changed(old: Object | None, new: Object | None) -> None:
            identity = ((new or {}).get("spec") or {}).get("holderIdentity") or ""
            if not self.holders or self.holders[-1].identity != identity:
                self.holders.append(Holder(time.monotonic(), identity))

        lab.client("door").mirror(LEASES).on_change(changed)

    def _asked(self, connection: Any, request: Request) -> None:
        where = place(request.path)
        if where is None or where.plural == LEASES or (request.method == "GET" and not where.name):
            self._answer(connection, request)
            return
        user = self._lab.lab.server.access.authenticate(request.headers).name
        if request.method != "GET":
            looks = OPERATOR_LOOK.encode() in request.body
            self.writes.append(Came(time.monotonic(), user, request.method, where.plural, where.name, looks))
        stop = self._stop
        if stop is None or (stop.user, stop.method, stop.resource) != (user, request.method, where.plural):
            self._answer(connection, request)
            return
        self._met += 1
        if self._met != stop.number:
            self._answer(connection, request)
            return
        stop.stand_still()
        self.stopped_at = time.monotonic()
        if stop.held:
            self._held.append((connection, request))
        else:
            self._answer(connection, request)
        self.stopped.set()

    def _let_in(self) -> None:
        held, self._held = self._held, []
        for connection, request in held:
            self._answer(_Overheard(connection, self.late), request)


class _Overheard:
    """A connection whose answer's code is noted."""

    def __init__(self, connection: Any, codes: list[int]) -> None:
        self._connection = connection
        self._codes = codes

    def reply(self, response: Response) -> None:
        self._codes.append(response.code)
        self._connection.reply(response)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)
