"""The identity service: a password login for a token that expires.

As Keycloak's realm endpoint answers it. The form is decoded as forms are, so that a password may hold any character; the
tokens are shaped like a JWT, and nothing is signed.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from random import Random
from typing import Any
from urllib.parse import parse_qsl

from dds_lab.manager.calls import Call, Refused, Reply, Route, route, told
from dds_lab.manager.settings import ManagerSettings
from dds_lab.time import MICROSECONDS, Time

FORM = "application/x-www-form-urlencoded"
PATH = "/id_manager/realms/{realm}/protocol/openid-connect/token"


class Logins:
    """Gives tokens, and knows those that are good."""

    def __init__(self, time: Time, settings: ManagerSettings) -> None:
        self.routes: tuple[Route, ...] = (route("token", "POST", PATH, self._login, free=True),)
        self._time = time
        self._settings = settings
        self._random: Random = time.random("manager/tokens")
        self._good: dict[str, int] = {}  # token → the instant at which it expires

    def check(self, call: Call) -> None:
        """Raises Refused (401) unless the call has a token that has not expired."""
        scheme, _, token = call.headers.get("authorization", "").partition(" ")
        expires = self._good.get(token) if scheme.lower() == "bearer" else None
        if expires is None or expires <= self._time.now():
            self._good.pop(token, None)
            raise Refused(401, "E010401", "the token is missing, unknown or has expired")

    def forget(self) -> None:
        """Every token expires at once."""
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
    """The fields of a form; text that is not UTF-8 is read as far as it is."""
    return dict(parse_qsl(call.body.decode("utf-8", "replace"), keep_blank_values=True))


def _coded(part: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def _no(status: int, word: str, sentence: str) -> Reply:
    return told(status, {"error": word, "error_description": sentence})
