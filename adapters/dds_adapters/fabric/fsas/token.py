"""The id manager's token: one login for its whole life, for all threads.

A token is renewed 30 seconds before its end, or when a call was refused with it. After a refused login, or the refusal of a new
token, dds waits before it tries again: many failed logins lock an account. Nothing here logs or quotes a token.
"""

from __future__ import annotations

import base64
import json
import math
import threading
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import Field, StringConstraints

from dds_adapters.fabric.answers import Part, odd, read
from dds_adapters.fabric.fabric_settings import Outside
from dds_adapters.fabric.fsas.credentials import Credentials, Folder
from dds_adapters.fabric.http import Call, Http, Reply, redirected
from dds_adapters.fabric.provider import FabricDenied, FabricError, FabricOdd, FabricRefused

AccessToken = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,16384}$")]
"""Goes into a header unchanged."""


class Login(Part):
    """POST id_manager/realms/{realm}/protocol/openid-connect/token"""

    access_token: AccessToken = Field(repr=False)
    expires_in: Annotated[float, Field(ge=0, le=1e9)] | None = None


class ErrorDetail(Part):
    code: Any = None
    message: Any = None


class ErrorBody(Part):
    """{status, detail: {code, message, data}}; the id manager says `error`."""

    detail: ErrorDetail | None = None
    error: Any = None


EARLY = 30.0
"""Seconds before its end at which a token is renewed; at most half of its life."""
AGAIN, LONGEST_AGAIN = 60.0, 600.0
"""Seconds until credentials of a refused login are tried again: the first time (it then doubles), and at most."""
DOUBTFUL = 10.0
"""Seconds for which a token that replaced a refused one is not replaced again if it is refused, too; and the wait after a login
that gave no usable token, because each login is a session for the id manager."""


@dataclass
class _Held:
    """What is known for some credentials. `denied`: why not to log in until `denied_until`; `wait`: seconds for which the next
    refusal holds; `failed`: why the last login failed, for any reason."""

    credentials: Credentials | None
    token: str = field(default="", repr=False)
    renew_at: float = -math.inf
    doubtful_until: float = -math.inf
    denied: FabricError | None = None
    denied_until: float = -math.inf
    wait: float = AGAIN
    failed: FabricError | None = None
    failed_at: float = -math.inf


class Token:
    """Gives the token for requests. Thread-safe."""

    def __init__(self, http: Http, endpoint: str, folder: Folder, outside: Outside, seconds: float) -> None:
        self._http = http
        self._endpoint = endpoint
        self._folder = folder
        self._outside = outside
        self._seconds = seconds
        self._lock = threading.Lock()
        self._held = _Held(None)

    def current(self) -> str:
        """A token that is valid for some time. Raises FabricError with `general` set."""
        came = self._outside.clock()
        with self._lock:
            credentials = self._folder.read()
            if credentials != self._held.credentials:
                self._held = _Held(credentials)
            held = self._held
            if not held.token or self._outside.clock() >= held.renew_at:
                if held.failed is not None and held.failed_at > came:
                    raise held.failed.with_traceback(None)  # another thread has just tried: a login would fail again
                self._renew(held, credentials)
            return held.token

    def instead_of(self, refused: str, where: str) -> str:
        """A token in place of `refused`. Raises FabricDenied if that one was itself just such a replacement."""
        with self._lock:
            held = self._held
            if held.token == refused:
                now = self._outside.clock()
                if now < held.doubtful_until:
                    raise denied_again(where)
                held.token = ""
                held.doubtful_until = now + DOUBTFUL
        return self.current()

    def hidden(self) -> tuple[str, ...]:
        """What may not be in any message."""
        held = self._held
        return (*(held.credentials.hidden() if held.credentials is not None else ()), held.token)

    def _renew(self, held: _Held, credentials: Credentials) -> None:
        began = self._outside.clock()
        if held.denied is not None and began < held.denied_until:
            raise held.denied.with_traceback(None)
        held.token = ""
        try:
            reply = self._login(credentials)
            found = read(Login, reply.body, reply.where)
            life = self._life(found, reply.where)
        except FabricError as error:
            error.general = True  # every request needs a token
            held.failed, held.failed_at = error, self._outside.clock()
            if isinstance(error, FabricDenied):
                held.denied, held.denied_until = error, self._outside.clock() + held.wait
                held.wait = min(LONGEST_AGAIN, held.wait * 2)
            elif isinstance(error, FabricOdd):
                held.denied, held.denied_until = error, self._outside.clock() + DOUBTFUL
            raise
        held.denied, held.failed, held.wait = None, None, AGAIN
        held.token = found.access_token
        held.renew_at = began + life - min(EARLY, life / 2)

    def _login(self, credentials: Credentials) -> Reply:
        realm = quote(credentials.realm, safe="")
        reply = self._http.ask(
            Call(
                "im.token",
                f"{self._endpoint}/id_manager/realms/{realm}/protocol/openid-connect/token",
                self._seconds,
                form={
                    "client_id": credentials.client_id,
                    "client_secret": credentials.client_secret,
                    "username": credentials.username,
                    "password": credentials.password,
                    "scope": "openid",
                    "response_type": "id_token token",
                    "grant_type": "password",
                },
                harmless=False,
            )
        )
        if 200 <= reply.status < 300:
            return reply
        if reply.status in (400, 401, 403, 404):
            raise _refused(reply)
        if 300 <= reply.status < 400:
            raise redirected(reply)
        raise FabricRefused(
            f"the login fails with {reply.status}",
            code=reply.status,
            where=reply.where,
            fix="look the request up in the id manager's log; it is asked again later",
        )

    def _life(self, found: Login, where: str) -> float:
        """Seconds that the token lives: by its own two instants, by its end and this machine's clock, or by `expires_in`."""
        claims = claims_of(found.access_token)
        end, made = instant_of(claims, "exp"), instant_of(claims, "iat")
        if end is not None:
            life = end - (made if made is not None else self._outside.wall())
        elif found.expires_in is not None:
            life = found.expires_in
        else:
            raise odd(where, "expires_in", "is missing, and the token does not tell its end")
        if life <= 0:
            raise odd(where, "access_token", "has ended already (compare the clocks)")
        return life


def denied_again(where: str) -> FabricDenied:
    """Two tokens in a row were refused."""
    return FabricDenied(
        "a token fresh from a login is refused, too",
        where=where,
        fix="check what this user may do, and the clocks of id manager and fabric manager",
    )


def _refused(reply: Reply) -> FabricDenied:
    """Quotes the id manager's word only if it is one of OAuth's; another text might quote what was sent."""
    try:
        word = read(ErrorBody, reply.body, reply.where).error
    except FabricOdd:
        word = None
    known = word in (
        "invalid_grant",
        "invalid_client",
        "unauthorized_client",
        "invalid_request",
        "unsupported_grant_type",
    )
    said = f"{reply.status} {word}" if known else str(reply.status)
    fix = (
        "check realm in the credentials"
        if reply.status == 404
        else "check username, password, client_id, client_secret and realm in the credentials, and whether the account is locked"
    )
    return FabricDenied(f"the login is refused ({said})", where=reply.where, fix=fix)


def claims_of(token: str) -> dict[str, object]:
    """The claims of a JWT, not verified (dds only sends the token); empty for a token of another kind."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def instant_of(claims: dict[str, object], name: str) -> float | None:
    value = claims.get(name)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e11
    return float(value) if usable and isinstance(value, int | float) else None
