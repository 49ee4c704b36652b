"""The lab's API server as a writer asks it, without a socket between: requests and answers as over HTTP, on virtual time.

Nothing here knows what is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from dds_adapters.kubernetes.cluster import Answer
from dds_adapters.lab.api.requests import MASTERS, Request, User
from dds_adapters.lab.api.server import ApiServer
from dds_adapters.lab.api.watches import Stream

Before = Callable[[str, str], None]
"""Told method and path of each request before it is made; it raises what should happen to it in its place."""


class Direct:
    """One user's requests (`Cluster.ask`), answered within the call. `requests` counts them by method."""

    def __init__(self, server: ApiServer, user: str, groups: tuple[str, ...] = (MASTERS,)) -> None:
        self._server = server
        self._token = f"direct-{user}"
        self.before: Before | None = None
        self.after: Before | None = None
        self.requests: dict[str, int] = {}
        server.access.register(self._token, User(user, groups))

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = 60.0,
    ) -> Answer:
        """The whole answer, whatever its status."""
        if self.before is not None:
            self.before(method, path)
        self.requests[method] = self.requests.get(method, 0) + 1
        headers = {"authorization": f"Bearer {self._token}", "accept": "application/json"}
        if body is not None:
            headers["content-type"] = content_type
        response = self._server.respond(Request(method, path, urlencode(query or {}), headers, body or b""))
        if self.after is not None:
            self.after(method, path)
        if isinstance(response, Stream):
            raise TypeError("a watch has no whole answer")
        wait = response.headers.get("Retry-After", "")
        return Answer(response.code, response.body, float(wait) if wait.isdigit() else 0.0)
