"""Requests, answers and the transport: any server of a kubeconfig, through the official client's connection.

Only bytes and JSON, no typed models, so that the comparison sees exactly what the server sent.
"""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from dds_core.errors import DdsError

USER_AGENT = "python-httpx/0.28.1"
"""The same as in the recording: a server derives the name of the fields' manager from it."""
PATIENCE_S = 30.0
"""Seconds that an answer may take; for a watch, beyond its own timeout."""
PACE_S = 0.5
"""Seconds between requests while a watch is open; the server's bookmarks come in between."""


class CouldNotAsk(DdsError):
    """The server cannot be reached, or is not in a state in which the questions may be asked."""


@dataclass(frozen=True)
class Ask:
    """One request. `type` is the content type of `body`: text is sent unchanged, all else as JSON. `who`: admin, dds, none."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    type: str = ""
    body: Any = None
    who: str = "admin"


@dataclass(frozen=True)
class Answer:
    """An answer. `body` is decoded JSON, or text; a watch has its events and the seconds until its end."""

    code: int
    body: Any = None
    warning: str = ""
    events: list[Any] | None = None
    closed_after_s: float | None = None


class Transport(Protocol):
    """Sends requests to a server. Raises CouldNotAsk if there is no answer."""

    def ask(self, ask: Ask) -> Answer: ...

    def watch(self, ask: Ask, during: Sequence[Ask]) -> Answer:
        """Open a watch, send the requests of `during`, and return all events until the watch ends."""
        ...


class Kubeconfig:
    """Sends requests to the server of a kubeconfig. `admin` is the current context (or the named one), `dds` the context of this
    name, or else `dds_user` impersonated by the admin, and `none` sends no credentials."""

    def __init__(self, path: str, context: str | None = None, dds_user: str = "") -> None:
        """Raises CouldNotAsk if the file or the context cannot be used."""
        import urllib3
        import yaml

        client, config = import_module("kubernetes.client"), import_module("kubernetes.config")
        try:
            named, _ = config.list_kube_config_contexts(path)
            admin = config.new_client_from_config(path, context)
            own = not dds_user and any(each["name"] == "dds" for each in named)
            dds = config.new_client_from_config(path, "dds") if own else admin
        except (config.ConfigException, yaml.YAMLError, OSError, TypeError, KeyError, ValueError) as error:
            fix = "name a file that kubectl can use, and a context of it"
            raise CouldNotAsk(f"not a usable kubeconfig ({error})", where=path, fix=fix) from error
        bare = client.Configuration()
        bare.host = admin.configuration.host
        bare.ssl_ca_cert = admin.configuration.ssl_ca_cert
        bare.verify_ssl = admin.configuration.verify_ssl
        self._clients = {"admin": admin, "dds": dds, "none": client.ApiClient(bare)}
        self._impersonated = {} if own else {"dds": dds_user or "ddsuser"}
        self._failures = (urllib3.exceptions.HTTPError, OSError)
        self._urllib3 = urllib3
        self.host: str = admin.configuration.host

    def close(self) -> None:
        for each in self._clients.values():
            each.rest_client.pool_manager.clear()

    def __enter__(self) -> "Kubeconfig":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, ask: Ask) -> Answer:
        try:
            response = self._sent(ask, PATIENCE_S)
            return _answer(response, response.data)
        except self._failures as error:
            raise self._unreachable(error) from error

    def watch(self, ask: Ask, during: Sequence[Ask]) -> Answer:
        seconds = float(ask.params.get("timeoutSeconds", "5"))
        try:
            response = self._sent(ask, seconds + PATIENCE_S)
            if response.status != 200:
                return _answer(response, response.read())
            start = time.monotonic()
            meanwhile = threading.Thread(target=self._meanwhile, args=(during,), daemon=True)
            meanwhile.start()
            lines = b"".join(response.stream(amt=65536)).splitlines()
            taken = time.monotonic() - start
            meanwhile.join(PATIENCE_S)
            return Answer(200, None, "", [_json(line) for line in lines], taken)
        except self._failures as error:
            raise self._unreachable(error) from error

    def _meanwhile(self, asks: Sequence[Ask]) -> None:
        for ask in asks:
            time.sleep(PACE_S)
            with suppress(CouldNotAsk):  # an event that is missing in the stream shows the failure
                self.ask(ask)

    def _sent(self, ask: Ask, patience: float) -> Any:
        api = self._clients[ask.who]
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
        if ask.type:
            headers["Content-Type"] = ask.type
        if ask.who in self._impersonated:
            headers["Impersonate-User"] = self._impersonated[ask.who]
        if ask.who != "none":
            for each in api.configuration.auth_settings().values():
                headers[each["key"]] = each["value"]
        body = None if ask.body is None else ask.body if isinstance(ask.body, str) else json.dumps(ask.body)
        return api.rest_client.pool_manager.request(
            ask.method,
            self._clients["admin"].configuration.host + _quoted(ask),
            headers=headers,
            body=body,
            preload_content=False,
            retries=False,
            timeout=self._urllib3.Timeout(connect=5.0, read=patience),
        )

    def _unreachable(self, error: Exception) -> CouldNotAsk:
        return CouldNotAsk(f"no answer ({error})", where=self.host, fix="start the server, or name another kubeconfig")


def _quoted(ask: Ask) -> str:
    query = urlencode(ask.params)
    return quote(ask.path) + (f"?{query}" if query else "")


def _answer(response: Any, raw: bytes) -> Answer:
    return Answer(response.status, _json(raw), response.headers.get("Warning", ""))


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")
