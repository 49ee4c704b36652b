"""Questions to the Fsas managers, asked with a token: the one place that puts it on a request.

A question that is refused for its token is asked once more with another; every other refusal is told in the manager's own words,
without secrets, and short.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from dds_adapters.fabric.answers import Part, read
from dds_adapters.fabric.connections import Connections
from dds_adapters.fabric.fsas.credentials import Folder
from dds_adapters.fabric.fsas.forms import ErrorBody
from dds_adapters.fabric.fsas.token import Token, denied_again, redirected
from dds_adapters.fabric.http import LARGEST_OF_MANY, Call, Http, Reply
from dds_adapters.fabric.provider import FabricBusy, FabricOdd, FabricRefused
from dds_adapters.fabric.settings import FabricSettings, Outside
from dds_adapters.fabric.words import said

P = TypeVar("P", bound=Part)

_FIXES = {
    403: "let this user read the tenant",
    404: "check tenant and cluster; the machine may be gone",
    429: "the manager has too much to do; it is asked again later",
}


class Session:
    """GETs to one endpoint. May be used from several threads."""

    def __init__(self, settings: FabricSettings, folder: Folder, outside: Outside) -> None:
        self._endpoint = settings.endpoint.rstrip("/")
        self._connections = Connections(lambda: folder.read().certificate, outside.transport)
        self._http = Http(self._connections.way, outside, settings.connect_seconds)
        self.token = Token(self._http, self._endpoint, folder, outside, settings.token_seconds)

    def close(self) -> None:
        self._connections.close()

    def get(
        self,
        form: type[P],
        name: str,
        path: str,
        seconds: float,
        query: Mapping[str, str] | None = None,
        largest: int = LARGEST_OF_MANY,
    ) -> tuple[P, str]:
        """The answer, and what names call and request in a complaint about it. Raises FabricError."""
        call = Call(name, f"{self._endpoint}{path}", seconds, query or {}, largest=largest)
        token = self.token.current()
        reply = self._asked(call, token)
        if reply.status == 401:
            token = self.token.instead_of(token, reply.where)
            reply = self._asked(call, token)
            if reply.status == 401:
                raise denied_again(reply.where)
        if not 200 <= reply.status < 300:
            raise self._refusal(reply, token)
        return read(form, reply.body, reply.where), reply.where

    def _asked(self, call: Call, token: str) -> Reply:
        return self._http.ask(replace(call, headers={"Authorization": f"Bearer {token}"}))

    def _refusal(self, reply: Reply, token: str) -> FabricRefused:
        """`token` is the one that was sent, which another thread may have replaced meanwhile."""
        if 300 <= reply.status < 400:
            return redirected(reply)
        words = said(_words(reply.body), (*self.token.hidden(), token))
        kind = FabricBusy if reply.status == 429 else FabricRefused
        return kind(
            f"answers with {reply.status}{f': {words}' if words else ''}",
            code=reply.status,
            where=reply.where,
            fix=_FIXES.get(reply.status, "look the request up in the manager's log"),
        )


def _words(body: bytes) -> str:
    """Code and message of an error's body; nothing of a body that is of another form."""
    try:
        detail = read(ErrorBody, body, "").detail
    except FabricOdd:
        return ""
    if detail is None:
        return ""
    return " ".join(str(part) for part in (detail.code, detail.message) if isinstance(part, str | int))
