"""The simulated manager: finds the route of a call, checks the token, lets the API answer, and applies faults.

It has no socket and no clock of its own. Calls for which the fabric needs time are answered later. The record of a call must
never contain a secret.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol
from urllib.parse import parse_qsl

from dds_lab.actors.fabric import Fabric
from dds_lab.actors.faults import CallFaults
from dds_lab.manager import nec
from dds_lab.manager.calls import AWAY, CUT, JSON, Call, Done, Refused, Reply, Route, at, error, find, route, told
from dds_lab.manager.cm import ClusterManager
from dds_lab.manager.faults import huge, odd, other_fabric
from dds_lab.manager.fm import FabricManager
from dds_lab.manager.inventory import Inventory, ManagerSettings, model_of
from dds_lab.manager.servers import Servers
from dds_lab.scenario.trouble import ManagerFault
from dds_lab.time import MICROSECONDS, Time

REMEMBERED = 10_000
HIDDEN = "…"
FORM = "application/x-www-form-urlencoded"
PATH = "/id_manager/realms/{realm}/protocol/openid-connect/token"
_SECRET_HEADERS = ("authorization", "cookie", "proxy-authorization")
_SECRET_FIELDS = ("password", "client_secret", "refresh_token")


# -- the identity service, as Keycloak's realm endpoint answers: a password login for a token that expires


class Logins:
    """Issues and checks tokens. The login's body is decoded as a form, so a password may have any character. Tokens have the form
    of a JWT without a signature."""

    def __init__(self, time: Time, settings: ManagerSettings) -> None:
        self.routes: tuple[Route, ...] = (route("token", "POST", PATH, self._login, free=True),)
        self._time = time
        self._settings = settings
        self._random: Random = time.random("manager/tokens")
        self._good: dict[str, int] = {}  # token → expiry instant

    def check(self, call: Call) -> None:
        """Raises Refused (401) unless the call has a valid token."""
        scheme, _, token = call.headers.get("authorization", "").partition(" ")
        expires = self._good.get(token) if scheme.lower() == "bearer" else None
        if expires is None or expires <= self._time.now():
            self._good.pop(token, None)
            raise Refused(401, "E010401", "the token is missing, unknown or has expired")

    def forget(self) -> None:
        self._good.clear()

    def _login(self, call: Call, parts: dict[str, str]) -> Reply:
        login = self._settings.login
        if parts["realm"] != login.realm:
            return told(404, {"error": "Realm does not exist"})
        if call.headers.get("content-type", "").partition(";")[0].strip() != FORM:
            return told(415, {"error": "HTTP 415 Unsupported Media Type"})
        form = form_of(call)
        if form.get("grant_type") != "password":
            return _no(400, "unsupported_grant_type", "Unsupported grant_type")
        if "openid" not in form.get("scope", "").split():
            return _no(400, "invalid_scope", "Invalid scopes")
        if (form.get("client_id"), form.get("client_secret")) != (login.client_id, login.client_secret):
            return _no(401, "invalid_client", "Invalid client or Invalid client credentials")
        if (form.get("username"), form.get("password")) != (login.username, login.password):
            return _no(401, "invalid_grant", "Invalid user credentials")
        return told(200, self._token())

    def _token(self) -> dict[str, Any]:
        now, life = self._time.now(), self._settings.token_life
        self._good = {token: expires for token, expires in self._good.items() if expires > now}
        expires = now + round(life * MICROSECONDS)
        access = self._jwt({"exp": expires // MICROSECONDS, "iat": now // MICROSECONDS, "typ": "Bearer"})
        self._good[access] = expires
        return {
            "access_token": access,
            "expires_in": int(life),
            "refresh_expires_in": int(life) * 6,
            "refresh_token": self._jwt({"typ": "Refresh"}),
            "token_type": "Bearer",
            "id_token": self._jwt({"typ": "ID"}),
            "not-before-policy": 0,
            "session_state": self._word(),
            "scope": "openid profile email",
        }

    def _jwt(self, claims: dict[str, Any]) -> str:
        head = {"alg": "none", "typ": "JWT"}
        return ".".join((_coded(head), _coded({**claims, "jti": self._word()}), self._word()))

    def _word(self) -> str:
        return f"{self._random.getrandbits(128):032x}"


def form_of(call: Call) -> dict[str, str]:
    """The fields of a form; bytes that are not UTF-8 are replaced."""
    return dict(parse_qsl(call.body.decode("utf-8", "replace"), keep_blank_values=True))


def _coded(part: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def _no(status: int, word: str, sentence: str) -> Reply:
    return told(status, {"error": word, "error_description": sentence})


# -- the manager


@dataclass(frozen=True)
class Seen:
    """Record of a call: its name ("" if unknown), its content without secrets, and the status of the reply (0: no reply). `form`
    has the fields of a login."""

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
    """`faults`: the active faults. `seen`: the last calls. `counts`: number of calls by name. `servers`: servers that it composes
    (cm). It can be reached only while it is `up`."""

    def __init__(
        self,
        time: Time,
        fabric: Fabric,
        settings: ManagerSettings | None = None,
        faults: Sequence[ManagerFault] = (),
    ) -> None:
        self.settings = settings if settings is not None else ManagerSettings()
        self.fabric = fabric
        self.time = time
        self.faults = CallFaults(time, "manager/faults", faults)
        self.up = True
        self.seen: deque[Seen] = deque(maxlen=REMEMBERED)
        self.counts: Counter[str] = Counter()
        self._random: Random = time.random("manager")
        self._logins = Logins(time, self.settings)
        self.servers = Servers(time, fabric, self.settings.stocks)
        self._apis = self._made()
        logins = () if self.settings.api == "nec" else self._logins.routes
        self._routes = [*logins, *(one for api in self._apis for one in api.routes)]
        self._error = nec.refusal if self.settings.api == "nec" else error

    def _made(self) -> tuple[_Api, ...]:
        inventory = Inventory(self.fabric, self.settings)
        if self.settings.api == "nec":
            return (nec.Cdim(inventory, self.time),)
        fabric_manager = FabricManager(inventory)
        return (
            (fabric_manager, ClusterManager(inventory, self.servers))
            if self.settings.api == "cm"
            else (fabric_manager,)
        )

    def start(self) -> None:
        """Become reachable, as after the creation."""
        self.up = True

    def stop(self) -> None:
        """Become unreachable until `start`, and forget all tokens."""
        self.up = False
        self.forget_tokens()

    def ask(self, call: Call, done: Done) -> None:
        """Answer a call: `done` gets the reply once, before `ask` returns or when the fabric is done."""
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
        """The reply to a call that is answered at once. Raises TypeError for another call, which is carried out all the same."""
        replies: list[Reply] = []
        self.ask(call, replies.append)
        if not replies:
            raise TypeError("this call is answered when the fabric is done: use ask")
        return replies[0]

    def forget_tokens(self) -> None:
        """Expire all tokens at once, as a restart of the identity service does."""
        self._logins.forget()

    def _about(self, call: Call, parts: dict[str, str]) -> tuple[str, str]:
        """The node of the machine in a call's path, and the model in its query or its order; "" for none."""
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

    def _refusal(self, call: Call, found: Route, faults: tuple[ManagerFault, ...]) -> Reply | None:
        """The reply of a fault that prevents the call; None if the call is to be carried out."""
        for fault in faults:
            if fault.kind == "away":
                return AWAY
            if fault.kind == "error":
                return self._error(Refused(fault.code, f"E99{fault.code}", "a fault was asked for"))
            if fault.kind == "busy":
                busy = self._error(Refused(503, "E99503", "the manager is busy"))
                return replace(busy, headers={**JSON, "Retry-After": str(max(1, round(fault.wait)))})
            if fault.kind == "expired":
                self.forget_tokens()
        if found.free:
            return None
        try:
            self._logins.check(call)
        except Refused as refused:
            return self._error(refused)
        return None

    def _tell(self, call: Call, name: str, faults: tuple[ManagerFault, ...], reply: Reply, done: Done) -> None:
        """Apply the faults to a reply, record the call, and reply."""
        delay = self.settings.answer.draw(self._random)
        for fault in faults:
            if fault.kind == "slow":
                delay += fault.wait
            elif fault.kind == "cut" and not reply.lost:
                reply = CUT
            elif 200 <= reply.status < 300:
                reply = self._spoilt(reply, name, fault)
        self._remember(call, name, reply.status)
        done(replace(reply, delay=delay))

    def _spoilt(self, reply: Reply, name: str, fault: ManagerFault) -> Reply:
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
        api = next((one for one in self._apis if any(each.name == name for each in one.routes)), None)
        return api.example(name) if api is not None else None

    def _remember(self, call: Call, name: str, status: int) -> None:
        headers = {key: HIDDEN if key in _SECRET_HEADERS else value for key, value in call.headers.items()}
        form = form_of(call) if name == "token" else {}
        shown = {key: HIDDEN if key in _SECRET_FIELDS else value for key, value in form.items()}
        body = b"" if name == "token" else call.body
        self.seen.append(Seen(self.time.now(), name, call.method, call.path, call.query, headers, body, shown, status))
