"""Requests to an API server: whole answers, pages of a list, and the events of a watch, all as raw bytes.

The official client does configuration, authentication and transport; its typed models are not used. A request is repeated only
once, after new credentials were read. Nothing here keeps or interprets what the server answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import msgspec

from dds_adapters.kubernetes import access
from dds_adapters.kubernetes.access import Access
from dds_adapters.kubernetes.limiter import MOST, Limiter
from dds_core import __version__
from dds_core.errors import DdsError

PAGE = 500
"""Objects of a list in one answer."""
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
WATCH_SECONDS = 240
QUIET_SECONDS = 60.0
"""A watch is dead when nothing comes for this much longer than it may last."""
RENEW_SECONDS = 10.0
"""After a 401 the credentials are read again, but not more often than this."""
LONGEST_LINE = 32 * 1024 * 1024


class Unreachable(DdsError):
    """The API server does not answer; a later attempt may succeed."""


class Refused(DdsError):
    """The API server answered with an error. `code` is the HTTP status, `wait` its Retry-After in seconds."""

    def __init__(self, where: str, code: int, reason: str, wait: float = 0.0) -> None:
        self.code = code
        self.wait = wait
        super().__init__(f"{code} {reason}".strip(), where=where, fix=_FIXES.get(code, "ask again later"))


_FIXES = {
    401: "renew the credentials of the kubeconfig",
    403: "let this user get, list and watch it",
    404: "it is not served",
    410: "list again",
}


@dataclass(frozen=True)
class Scope:
    """Which objects of a resource: all, or those of a namespace that match a field selector and a label selector."""

    namespace: str = ""
    fields: str = ""
    labels: str = ""


EVERYTHING = Scope()


@dataclass(frozen=True)
class Answer:
    """HTTP status, body, the seconds of Retry-After (0: none), and the server's clock in microseconds, precise to the second (0:
    no Date header)."""

    code: int
    body: bytes
    wait: float = 0.0
    date: int = 0


class Asking(Protocol):
    """A way to send requests: `Cluster`, or a wrapper of it. Raises `Unreachable` when it is unknown whether the request was
    carried out."""

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = ANSWER_SECONDS,
    ) -> Answer: ...


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, rename="camel"):
    """A page of a list. Items of built-in kinds carry neither kind nor apiVersion."""

    items: list[msgspec.Raw] | None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    reason: str = ""


_page = msgspec.json.Decoder(Page)
_event = msgspec.json.Decoder(Event)
_status = msgspec.json.Decoder(_Status)


Asked = Callable[[str, int, float], None]
"""Called with the method, the HTTP status (0: no answer) and the seconds until the answer's headers, from any thread."""


class Watch:
    """An open watch: iterate `events` in one thread, call `end` from any."""

    def __init__(self, response: Any, where: str) -> None:
        self._response = response
        self._where = where

    @property
    def events(self) -> Iterator[Event]:
        """The events until the server ends the watch. Raises Unreachable when the connection breaks, or when nothing came for too
        long."""
        rest = b""
        try:
            for chunk in self._response.stream(65_536, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield _event.decode(line)
                if len(rest) > LONGEST_LINE:
                    raise ValueError(f"a line of more than {LONGEST_LINE} bytes")
        except ValueError:
            raise Unreachable("the watch is not one of objects", where=self._where) from None
        except Exception as error:  # urllib3 and sockets raise many types for a broken connection
            raise Unreachable(f"the watch broke off ({type(error).__name__})", where=self._where) from None
        finally:
            self._response.close()

    def close(self) -> None:
        """Close the connection; call it from the reading thread."""
        self._response.close()

    def end(self) -> None:
        """Let a read that is under way return. Does nothing after the watch has ended."""
        try:
            self._response.shutdown()
        except (AttributeError, ValueError, RuntimeError, OSError):
            self._response.close()


class Cluster:
    """One API server. `where` is its address; `asked` is called after each request. All methods are thread-safe."""

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        way: Access | None = None,
        user_agent: str = "",
    ) -> None:
        """Without `way`, `access.found` finds the server. Raises InputError when its configuration is unusable, or when the
        client is not installed."""
        access.require_client()
        self._way = way or access.found(kubeconfig, context)
        self._agent = user_agent or f"dds/{__version__}"
        self._lock = threading.Lock()
        self._api = self._way.client()
        self._read_at = time.monotonic()
        self.where = _host(self._api)
        self.asked: Asked | None = None
        self.sparing = False
        """True: a failing server gets no more requests than a `Limiter` allows, from all threads together."""
        self._limiters: dict[str, Limiter] = {}
        self._limiting = threading.Lock()

    def close(self) -> None:
        """Close all connections."""
        self._api.close()
        self._api.rest_client.pool_manager.clear()

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = ANSWER_SECONDS,
    ) -> Answer:
        """Send a request; gives the whole answer, whatever its status. `timeout` (seconds) includes the time to connect. Raises
        Unreachable; it is then unknown whether the request was carried out."""
        response = self._send(method, path, query or {}, timeout, body, content_type)
        return self._answer(response, path)

    def get(self, resource: str, api_version: str, name: str, namespace: str = "") -> bytes:
        """One object's JSON. Raises Refused and Unreachable."""
        answer = self.ask("GET", path_of(resource, api_version, namespace, name))
        if answer.code >= 300:
            raise refusal(self._said(resource), answer)
        return answer.body

    def page(self, resource: str, api_version: str, token: str = "", scope: Scope = EVERYTHING) -> Page:
        """A page of a list; `token` is the `continue` of the page before. Raises Refused and Unreachable."""
        query = _selected(scope) | {"limit": str(PAGE)} | ({"continue": token} if token else {})
        answer = self.ask("GET", path_of(resource, api_version, scope.namespace), query=query)
        if answer.code >= 300:
            raise refusal(self._said(resource), answer)
        try:
            return _page.decode(answer.body)
        except ValueError:
            raise Unreachable("answers with something else than a list", where=self._said(resource)) from None

    def watch(
        self,
        resource: str,
        api_version: str,
        since: str,
        seconds: int = WATCH_SECONDS,
        scope: Scope = EVERYTHING,
        quiet: float | None = None,
    ) -> Watch:
        """Watch the changes after version `since`, for at most `seconds`; the connection is dropped when nothing, not even a
        bookmark, comes for `quiet` seconds. Raises Refused and Unreachable."""
        query = _selected(scope) | {
            "watch": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(seconds),
            "allowWatchBookmarks": "true",
        }
        path = path_of(resource, api_version, scope.namespace)
        response = self._send("GET", path, query, seconds + QUIET_SECONDS if quiet is None else quiet)
        if response.status >= 300:
            raise refusal(self._said(resource), self._answer(response, path))
        return Watch(response, self._said(resource))

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        timeout: float,
        body: bytes | None = None,
        content_type: str = "",
    ) -> Any:
        api = self._api
        url = f"{path}?{urlencode(query)}" if query else path
        head = {"Content-Type": content_type} if body is not None else {}
        until = time.monotonic() + timeout
        response = self._sent(api, method, url, until, body, head)
        if response.status == 401 and self._renewed(api):
            response.drain_conn()
            response.release_conn()
            response = self._sent(self._api, method, url, until, body, head)
        return response

    def _sent(self, api: Any, method: str, url: str, until: float, body: bytes | None, head: Mapping[str, str]) -> Any:
        headers = {"Accept": "application/json", "User-Agent": self._agent, **head}
        began, status = time.monotonic(), 0
        limiter = self._limiter(resource_of(url)) if self.sparing else None
        if limiter is not None and not self._begins(limiter, began):
            what = "is in trouble and was asked often enough; nothing was sent"
            raise Unreachable(what, where=f"{self.where}{url.partition('?')[0]}", fix="it is asked again later")
        try:
            for one in api.configuration.auth_settings().values():
                headers[one["key"]] = str(one["value"]).strip()
            timeout = until - time.monotonic()  # a credential plugin may have used up part of it
            if timeout <= 0:
                raise TimeoutError
            response = api.rest_client.pool_manager.request(
                method,
                f"{_host(api)}{url}",
                body=body,
                headers=headers,
                timeout=_timeouts(min(CONNECT_SECONDS, timeout), timeout),
                retries=False,  # urllib3 would itself wait for Retry-After and send again, uncounted
                redirect=False,
                preload_content=False,
            )
            status = response.status
            return response
        except Exception as error:
            raise self._failure(url, error) from None
        finally:
            now = time.monotonic()
            if limiter is not None:
                self._ended(limiter, now, status)
            if self.asked is not None:
                self.asked(method, status, now - began)

    def _limiter(self, resource: str) -> Limiter:
        with self._limiting:
            return self._limiters.setdefault(resource, Limiter(MOST))

    def _begins(self, limiter: Limiter, now: float) -> bool:
        """Whether a request may be sent. If so, `_ended` must follow."""
        with self._limiting:
            free = limiter.wait(now) <= 0
            limiter.running += free
            return free

    def _ended(self, limiter: Limiter, now: float, code: int) -> None:
        """`code` is the HTTP status, 0 for no answer."""
        with self._limiting:
            limiter.running -= 1
            if code in (0, 401, 429) or code >= 500:
                limiter.failed((now,))
            else:
                limiter.succeeded()

    def _renewed(self, refused: Any) -> bool:
        """Whether there are newer credentials than those of the client `refused`."""
        with self._lock:
            if self._api is not refused:
                return True
            if time.monotonic() - self._read_at < RENEW_SECONDS:
                return False
            self._read_at = time.monotonic()
            try:
                self._api = self._way.client()
            except DdsError:  # the file is being written just now; the next 401 reads it again
                return False
            return True

    def _answer(self, response: Any, path: str) -> Answer:
        try:
            body = bytes(response.data)
        except Exception as error:
            raise self._failure(path, error) from None
        finally:
            response.release_conn()
        wait = str(response.headers.get("Retry-After", ""))
        date = _instant(str(response.headers.get("Date", "")))
        return Answer(response.status, body, float(wait) if wait.isdigit() else 0.0, date)

    def _failure(self, url: str, error: Exception) -> Unreachable:
        path = url.partition("?")[0]
        what, fix = f"does not answer ({type(error).__name__})", "check network and address"
        untrusted = getattr(error.args[0] if error.args else None, "verify_message", "")
        if untrusted:
            what = f"has a certificate that is not trusted ({untrusted})"
            fix = "give the certificate authority of this server, and the name in its certificate"
        return Unreachable(what, where=f"{self.where}{path}", fix=fix)

    def _said(self, resource: str) -> str:
        return f"{self.where} {resource}"


def path_of(resource: str, api_version: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of a collection, an object or a subresource; `api_version` as in objects: "v1" or "group/version"."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    where = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    parts = [quote(part, safe="") for part in (name, subresource) if part]
    return "/".join((f"{root}{where}/{resource}", *parts))


def resource_of(path: str) -> str:
    """The resource of a path made by `path_of`; any other path is returned as it is, without its query."""
    path = path.partition("?")[0]
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    return rest[0] if rest else path


def _instant(date: str) -> int:
    try:
        return int(parsedate_to_datetime(date).timestamp()) * 1_000_000
    except ValueError:
        return 0


def _host(api: Any) -> str:
    return str(api.configuration.host).rstrip("/")


def _selected(scope: Scope) -> dict[str, str]:
    chosen = {"fieldSelector": scope.fields, "labelSelector": scope.labels}
    return {name: value for name, value in chosen.items() if value}


def _timeouts(connect: float, read: float) -> Any:
    from urllib3 import Timeout

    return Timeout(total=read, connect=connect, read=read)


def refusal(where: str, answer: Answer) -> Refused:
    """The error for an answer that is not a success."""
    try:
        reason = _status.decode(answer.body).reason
    except ValueError:
        reason = ""
    return Refused(where, answer.code, reason[:100], answer.wait)


def listed(ask: Callable[[Mapping[str, str]], bytes], selected: Mapping[str, str]) -> Iterator[bytes]:
    """The objects of a list, page by page. `ask` sends a query, which always contains `selected`. Raises ValueError for an answer
    that is no list."""
    token = ""
    while True:
        page = _page.decode(ask({**selected, "limit": str(PAGE)} | ({"continue": token} if token else {})))
        yield from map(bytes, page.items or ())
        token = page.metadata.continue_
        if not token:
            return
