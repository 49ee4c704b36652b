"""An API server as the scaler sees it: requests with whole answers, pages of a list, and the lines of a watch, all as raw bytes.

The official client serves configuration, authentication and transport; its typed models are never made. Nothing is asked
twice behind the caller's back, except once after new credentials were read; nothing here keeps or judges what was answered.
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
"""A watch on which nothing comes for this much longer than it may last is taken for dead."""
RENEW_SECONDS = 10.0
"""Credentials that were refused are read anew, but not again within so long."""
LONGEST_LINE = 32 * 1024 * 1024


class Unreachable(DdsError):
    """The API server does not answer; asking again may help."""


class Refused(DdsError):
    """The API server answered with an error. `code` is the HTTP status, `wait` the seconds it asks for."""

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
    """Which objects of a resource are meant: all, or those of a namespace that match a field selector."""

    namespace: str = ""
    fields: str = ""


EVERYTHING = Scope()


@dataclass(frozen=True)
class Answer:
    """What came back: HTTP status, body, the seconds to wait that were asked for (0: none), and the server's clock in
    microseconds, to the second (0: not told)."""

    code: int
    body: bytes
    wait: float = 0.0
    date: int = 0


class Asking(Protocol):
    """A way to send requests: `Cluster`, or whoever stands before it. Raises `Unreachable` when nobody knows what became of the
    request."""

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
    """A line of a watch."""

    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    reason: str = ""


_page = msgspec.json.Decoder(Page)
_event = msgspec.json.Decoder(Event)
_status = msgspec.json.Decoder(_Status)


Asked = Callable[[str, int, float], None]
"""Is told the method, the HTTP status (0: no answer) and the seconds until the head of the answer, from any thread."""


class Watch:
    """A watch that is open: iterate `events` in one thread, `end` it from any."""

    def __init__(self, response: Any, where: str) -> None:
        self._response = response
        self._where = where

    @property
    def events(self) -> Iterator[Event]:
        """Until the server ends the watch. Raises Unreachable when it breaks off, or when nothing came for too long."""
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
        except Exception as error:  # urllib3 and the socket have many kinds of a connection that is gone
            raise Unreachable(f"the watch broke off ({type(error).__name__})", where=self._where) from None
        finally:
            self._response.close()

    def close(self) -> None:
        """Give it up; for the thread that reads."""
        self._response.close()

    def end(self) -> None:
        """Let a read that is under way return; does nothing when it has ended."""
        try:
            self._response.shutdown()
        except (AttributeError, ValueError, RuntimeError, OSError):
            self._response.close()


class Cluster:
    """One API server. `where` is its address; `asked` is told of each request. All methods may be called from any thread."""

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        way: Access | None = None,
        user_agent: str = "",
    ) -> None:
        """Without `way`, `access.found` says where the server is. Raises InputError when that cannot be used, or the client is
        not installed."""
        access.require_client()
        self._way = way or access.found(kubeconfig, context)
        self._agent = user_agent or f"dds/{__version__}"
        self._lock = threading.Lock()
        self._api = self._way.client()
        self._read_at = time.monotonic()
        self.where = _host(self._api)
        self.asked: Asked | None = None
        self.sparing = False
        """Whether a server in trouble is asked no more than it can bear, whoever asks: for a process of many threads."""
        self._limiters: dict[str, Limiter] = {}
        self._limiting = threading.Lock()

    def close(self) -> None:
        """Give connections back."""
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
        """Send a request as it is, and give the whole answer, whatever its status. `timeout` in seconds is for connecting and the
        wait for the answer together. Raises Unreachable: then nobody knows whether it was carried out."""
        response = self._send(method, path, query or {}, timeout, body, content_type)
        return self._answer(response, path)

    def get(self, resource: str, api_version: str, name: str, namespace: str = "") -> bytes:
        """One object's JSON. Raises Refused and Unreachable."""
        answer = self.ask("GET", path_of(resource, api_version, namespace, name))
        if answer.code >= 300:
            raise refusal(self._said(resource), answer)
        return answer.body

    def page(self, resource: str, api_version: str, token: str = "", scope: Scope = EVERYTHING) -> Page:
        """A page of the list; `token` is the `continue` of the one before. Raises Refused and Unreachable."""
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
        """The changes after a version, for at most so long; given up when nothing, not even a bookmark, comes for `quiet`
        seconds. Raises Refused and Unreachable."""
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
            timeout = until - time.monotonic()  # credentials may have taken their time, and a lease does not wait
            if timeout <= 0:
                raise TimeoutError
            response = api.rest_client.pool_manager.request(
                method,
                f"{_host(api)}{url}",
                body=body,
                headers=headers,
                timeout=_timeouts(min(CONNECT_SECONDS, timeout), timeout),
                retries=False,  # urllib3 would obey Retry-After by itself, unseen and uncounted
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
        """Whether a request may be sent. Each yes is followed by `_ended`."""
        with self._limiting:
            free = limiter.wait(now) <= 0
            limiter.running += free
            return free

    def _ended(self, limiter: Limiter, now: float, code: int) -> None:
        """It was answered with this HTTP status, or not at all (0)."""
        with self._limiting:
            limiter.running -= 1
            if code in (0, 401, 429) or code >= 500:
                limiter.failed((now,))
            else:
                limiter.succeeded()

    def _renewed(self, refused: Any) -> bool:
        """Whether there are other credentials than the refused ones to ask with."""
        with self._lock:
            if self._api is not refused:
                return True
            if time.monotonic() - self._read_at < RENEW_SECONDS:
                return False
            self._read_at = time.monotonic()
            try:
                self._api = self._way.client()
            except DdsError:  # a file that is just being written; the next refusal reads it again
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
    """The path of a collection, an object or a part of it; `api_version` as in objects: "v1" or "group/version"."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    where = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    parts = [quote(part, safe="") for part in (name, subresource) if part]
    return "/".join((f"{root}{where}/{resource}", *parts))


def resource_of(path: str) -> str:
    """The resource of a path as `path_of` makes it; any other path as it is, without its query."""
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
    return {"fieldSelector": scope.fields} if scope.fields else {}


def _timeouts(connect: float, read: float) -> Any:
    from urllib3 import Timeout

    return Timeout(total=read, connect=connect, read=read)


def refusal(where: str, answer: Answer) -> Refused:
    """An answer other than success, as an error."""
    try:
        reason = _status.decode(answer.body).reason
    except ValueError:
        reason = ""
    return Refused(where, answer.code, reason[:100], answer.wait)


def listed(ask: Callable[[Mapping[str, str]], bytes], selected: Mapping[str, str]) -> Iterator[bytes]:
    """The objects of a list, page by page; `ask` gives the answer to a query, `selected` is a part of each. Raises ValueError for
    one that is no list."""
    token = ""
    while True:
        page = _page.decode(ask({**selected, "limit": str(PAGE)} | ({"continue": token} if token else {})))
        yield from map(bytes, page.items or ())
        token = page.metadata.continue_
        if not token:
            return
