"""The simulated manager: finds out which call it is, checks the token, lets the API answer, and makes go wrong what is to.

Pure: no socket and no clock of its own; what takes the fabric time is answered later. It must never let a secret into what
it remembers of a call.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol

from dds_lab.actors.fabric import Fabric
from dds_lab.manager import nec
from dds_lab.manager.calls import AWAY, CUT, JSON, Call, Done, Refused, Reply, Route, at, error, find, told
from dds_lab.manager.cm import ClusterManager
from dds_lab.manager.faults import Fault, Faults, Odd
from dds_lab.manager.fm import FabricManager
from dds_lab.manager.im import Logins, form_of
from dds_lab.manager.inventory import Inventory, model_of
from dds_lab.manager.settings import ManagerSettings
from dds_lab.time import Time

# -- odd ---------------------------------------------------------------------------------------------------------------

# Answers made wrong on purpose: of another form, of another fabric, far too long. What really is stays as it is.


HUGE = 10_000
HTML = b"<html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"
_LISTS = {
    "machines": "resources",
    "machine": "resources",
    "node": "devices",
    "nodegroups": "nodegroups",
    "nodegroup": "mach_ids",
    "nodes": "resources",
    "resources": "resources",
}
_COUNT = "reserved_res_num_per_fabric"
_IDS = ("res_uuid", "res_serial_num", "device_id", "deviceID", "uuid")


def odd(reply: Reply, how: Odd, field: str, random: Random) -> Reply:
    """A reply that is not of its form."""
    if how == "html":
        return Reply(200, HTML, {"Content-Type": "text/html"})
    if how == "truncated":
        return Reply(reply.status, reply.body[: len(reply.body) // 2], JSON)
    if how in ("null", "list"):
        return told(reply.status, None if how == "null" else [])
    data = reply.json() if reply.body else {}
    places = [(holder, key) for holder, key in _places(data) if not field or key == field]
    for holder, key in places if field else random.sample(places, min(1, len(places))):
        if how == "missing":
            holder.pop(key, None)
        else:
            holder[key] = _other(holder[key])
    return told(reply.status, data)


def other_fabric(reply: Reply) -> Reply:
    """The reply with the ids of the next fabric."""
    data = reply.json()
    for holder, key in _places(data):
        if key == "fabric_id":
            holder[key] = holder[key] + 1 if isinstance(holder[key], int) else 1
    return told(reply.status, data)


def huge(reply: Reply, name: str, example: Any) -> Reply:
    """The reply with 10,000 devices; those that are not there look like `example`."""
    data = reply.json()
    if _COUNT in data:
        data[_COUNT] = HUGE
    for holder, key in _places(data):
        if key == _LISTS.get(name) and isinstance(holder[key], list):
            there = holder[key]
            there.extend(_renamed(example, number) for number in range(HUGE - len(there)))
            break
    if isinstance(data.get("count"), int):
        data["count"] = HUGE
    return told(reply.status, data)


def _places(found: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Every object of a JSON value with each of its keys, the outer ones first."""
    if isinstance(found, dict):
        for key in list(found):
            yield found, key
        for value in list(found.values()):
            yield from _places(value)
    elif isinstance(found, list):
        for value in found:
            yield from _places(value)


def _other(value: Any) -> Any:
    """A value of another type."""
    return {"unexpected": True} if isinstance(value, str) else "unexpected"


def _renamed(example: Any, number: int) -> Any:
    """A copy with ids of its own."""
    word = str(uuid.uuid5(uuid.NAMESPACE_URL, f"huge/{number}"))
    if isinstance(example, str):
        return word
    copy = json.loads(json.dumps(example))
    for holder, key in _places(copy):
        if key in _IDS:
            holder[key] = f"GPU-{word}" if str(holder[key]).startswith("GPU-") else word
    return copy


# -- manager -----------------------------------------------------------------------------------------------------------

REMEMBERED = 10_000
HIDDEN = "…"
_SECRET_HEADERS = ("authorization", "cookie", "proxy-authorization")
_SECRET_FIELDS = ("password", "client_secret", "refresh_token")


@dataclass(frozen=True)
class Seen:
    """A call that came: its name ("" for none that is known), what was sent without its secrets, and the status that went
    back (0: none). `form` has the fields of a login."""

    at: int
    name: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    form: Mapping[str, str]
    status: int


class _Api(Protocol):
    @property
    def routes(self) -> tuple[Route, ...]: ...

    def example(self, name: str) -> Any: ...


class Manager:
    """`faults` is what goes wrong, `seen` the last calls, `counts` how often each call came. While it is not `up` nobody can
    reach it."""

    def __init__(self, time: Time, fabric: Fabric, settings: ManagerSettings | None = None) -> None:
        self.settings = settings if settings is not None else ManagerSettings()
        self.fabric = fabric
        self.time = time
        self.faults = Faults(time.random("manager/faults"))
        self.up = True
        self.seen: deque[Seen] = deque(maxlen=REMEMBERED)
        self.counts: Counter[str] = Counter()
        self._random: Random = time.random("manager")
        self._logins = Logins(time, self.settings)
        self._apis = self._made()
        logins = () if self.settings.api == "nec" else self._logins.routes
        self._routes = [*logins, *(one for api in self._apis for one in api.routes)]
        self._error = nec.refusal if self.settings.api == "nec" else error

    def _made(self) -> tuple[_Api, ...]:
        inventory = Inventory(self.fabric, self.settings)
        if self.settings.api == "nec":
            return (nec.Cdim(inventory, self.time),)
        fabric_manager = FabricManager(inventory)
        return (fabric_manager, ClusterManager(inventory)) if self.settings.api == "cm" else (fabric_manager,)

    def start(self) -> None:
        """Be there (as it is from the beginning)."""
        self.up = True

    def stop(self) -> None:
        """Be away until it is started again; what it has given tokens for is forgotten."""
        self.up = False
        self.forget_tokens()

    def ask(self, call: Call, done: Done) -> None:
        """Answer a call: `done` gets the reply once, within this call or when the fabric is done."""
        if not self.up:
            done(AWAY)
            return
        try:
            found, parts = find(self._routes, call)
        except Refused as refused:
            self._tell(call, "", (), self._error(refused), done)
            return
        self.counts[found.name] += 1
        faults = self.faults.take(found.name, *self._about(call, parts))
        refusal = self._refusal(call, found, faults)
        if refusal is not None:
            self._tell(call, found.name, faults, refusal, done)
            return
        try:
            answer = found.answer(call, parts)
        except Refused as refused:
            answer = self._error(refused)
        if isinstance(answer, Reply):
            self._tell(call, found.name, faults, answer, done)
        else:
            answer(lambda reply: self._tell(call, found.name, faults, reply, done))

    def answer(self, call: Call) -> Reply:
        """The reply to a call that takes the fabric no time. Raises TypeError for another one, which is under way then."""
        replies: list[Reply] = []
        self.ask(call, replies.append)
        if not replies:
            raise TypeError("this call is answered when the fabric is done: use ask")
        return replies[0]

    def forget_tokens(self) -> None:
        """Every token expires at once, as when the identity service restarts."""
        self._logins.forget()

    def _about(self, call: Call, parts: dict[str, str]) -> tuple[str, str]:
        """The node whose machine a call's path names, and the model that its query or its one order names; "" for none."""
        machine = self.fabric.machine_of(parts.get("machine", ""))
        try:
            if "condition" in call.query:
                model = model_of(json.loads(call.query["condition"]))
            else:
                spec = at(call.json(), "tenants", "machines", 0, "resources", 0, "res_specs", 0)
                model = model_of(at(spec, "res_spec", "condition", 0))
        except (Refused, ValueError, RecursionError):
            model = ""
        return machine.node if machine is not None else "", model

    def _refusal(self, call: Call, found: Route, faults: tuple[Fault, ...]) -> Reply | None:
        """Why the call is not carried out, None when it is."""
        for fault in faults:
            if fault.kind == "away":
                return AWAY
            if fault.kind == "error":
                return self._error(Refused(fault.code, f"E99{fault.code}", "a fault was asked for"))
            if fault.kind == "busy":
                busy = self._error(Refused(503, "E99503", "the manager is busy"))
                return replace(busy, headers={**JSON, "Retry-After": str(max(1, round(fault.seconds)))})
            if fault.kind == "expired":
                self.forget_tokens()
        if found.free:
            return None
        try:
            self._logins.check(call)
        except Refused as refused:
            return self._error(refused)
        return None

    def _tell(self, call: Call, name: str, faults: tuple[Fault, ...], reply: Reply, done: Done) -> None:
        """Make wrong what is to be wrong about a reply, remember the call, and reply."""
        delay = self.settings.answer.draw(self._random)
        for fault in faults:
            if fault.kind == "slow":
                delay += fault.seconds
            elif fault.kind == "cut" and not reply.lost:
                reply = CUT
            elif 200 <= reply.status < 300:
                reply = self._spoilt(reply, name, fault)
        self._remember(call, name, reply.status)
        done(replace(reply, delay=delay))

    def _spoilt(self, reply: Reply, name: str, fault: Fault) -> Reply:
        if fault.kind == "empty":
            return Reply(reply.status, b"", JSON)
        if fault.kind == "odd":
            return odd(reply, fault.odd, fault.field, self._random)
        if fault.kind == "other_fabric" and reply.body:
            return other_fabric(reply)
        if fault.kind == "huge" and reply.body:
            return huge(reply, name, self._example(name))
        return reply

    def _example(self, name: str) -> Any:
        api = next((one for one in self._apis if any(route.name == name for route in one.routes)), None)
        return api.example(name) if api is not None else None

    def _remember(self, call: Call, name: str, status: int) -> None:
        headers = {key: HIDDEN if key in _SECRET_HEADERS else value for key, value in call.headers.items()}
        form = form_of(call) if name == "token" else {}
        shown = {key: HIDDEN if key in _SECRET_FIELDS else value for key, value in form.items()}
        body = b"" if name == "token" else call.body
        self.seen.append(Seen(self.time.now(), name, call.method, call.path, call.query, headers, body, shown, status))
