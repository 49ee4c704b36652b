"""One HTTP call to a manager: retries, waits and limits; every failure is a `FabricError` that names the request.

A call is limited as a whole: its time including retries, and the bytes of its answer. Redirects are not followed, cookies are not
kept, netrc is ignored: a request with a token goes to the configured address only, through a proxy within its TLS. Nothing
here may put a header, a query, a body or a URL into a log or an error.
"""

from __future__ import annotations

import logging
import re
import ssl
import uuid
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from dds_adapters.fabric.answers import P, odd, read
from dds_adapters.fabric.error_text import said
from dds_adapters.fabric.fabric_settings import Outside
from dds_adapters.fabric.provider import (
    FabricAway,
    FabricBusy,
    FabricError,
    FabricLate,
    FabricOdd,
    FabricRefused,
    FabricUnreachable,
)
from dds_core import __version__

LOG = logging.getLogger("dds.fabric")

TRIES = 3
FIRST, LONGEST = 0.5, 8.0
"""Seconds: the longest wait after the first try, and after any."""
LARGEST, LARGEST_OF_MANY = 32 * 1024 * 1024, 8 * 1024 * 1024
"""Bytes of an answer: of a list of all machines or devices, which is requested alone; and of any other, of which several may come
at once."""
PASSING = (429, 500, 502, 503, 504)
"""Statuses after which the same request may succeed."""
BUSY = (429, 503)
"""Statuses with which dds obeys `Retry-After`."""
LONGEST_REST = 300.0
"""Longest Retry-After, in seconds, that dds obeys."""


@dataclass(frozen=True, repr=False)
class Call:
    """A request. `name` is for people and metrics; `seconds` limits all tries together; a `harmless` one may be sent again though
    it may have been carried out; `largest` limits its answer in bytes. With `form` or `json` it is a POST of that."""

    name: str
    url: str
    seconds: float
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] | None = None
    json: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    harmless: bool = True
    largest: int = LARGEST_OF_MANY


@dataclass(frozen=True, repr=False)
class Reply:
    """An answer; `where` names call and request for errors about it. `paged`: it is one page of several."""

    status: int
    body: bytes
    where: str
    retry_after: float | None = None
    paged: bool = False


Way = Callable[[], AbstractContextManager[httpx.BaseTransport]]
"""Gives the transport for one try."""


class Http:
    """Calls over the transports that `way` gives."""

    def __init__(self, way: Way, outside: Outside, connect_seconds: float) -> None:
        self._way = way
        self._outside = outside
        self._connect = connect_seconds
        self._agent = f"dds/{__version__}"
        self._rests: dict[str, tuple[float, int]] = {}
        """By service (the first word of a call's name): until when it asked for a pause, and the status of that answer."""

    def ask(self, call: Call) -> Reply:
        """The answer, whatever its status. Raises FabricUnreachable, FabricAway, FabricOdd for an unreadable one, and FabricBusy,
        without a request, if the service asked for a pause that is longer than the call may take."""
        until = self._outside.clock() + call.seconds
        tries = 1
        while True:
            self._heed(call, until)
            try:
                reply = self._try(call, until)
                self._hear(call, reply)
            except _Passing as passing:
                wait = self._wait(tries)
                if not (call.harmless or passing.unsent) or passing.final or not self._may(tries, wait, until):
                    raise passing.error from None
            else:
                wait = self._wait(tries, reply.retry_after)
                if reply.status not in PASSING or not call.harmless or not self._may(tries, wait, until):
                    return reply
            self._outside.sleep(wait)
            tries += 1

    def _hear(self, call: Call, reply: Reply) -> None:
        if reply.status in BUSY and reply.retry_after:
            until = self._outside.clock() + min(reply.retry_after, LONGEST_REST)
            self._rests[_service(call)] = (until, reply.status)

    def _heed(self, call: Call, until: float) -> None:
        """A pause that the service asked for applies to all calls; otherwise hundreds of calls would each be told to wait."""
        rest, status = self._rests.get(_service(call), (0.0, 0))
        wait = rest - self._outside.clock()
        if wait <= 0:
            return
        if rest >= until:
            raise FabricBusy(
                f"wishes to be left alone for {wait:.0f} s (it answered {status})",
                code=status,
                where=call.name,
                fix="nothing was sent; it is asked again afterwards",
            )
        self._outside.sleep(wait)

    def _may(self, tries: int, wait: float, until: float) -> bool:
        """Whether there is another try, and time for it."""
        return tries < TRIES and self._outside.clock() + wait < until

    def _wait(self, tries: int, asked: float | None = None) -> float:
        """Full jitter below a ceiling that doubles, but at least Retry-After."""
        jitter = self._outside.random.uniform(0.0, min(LONGEST, FIRST * 2 ** (tries - 1)))
        return max(jitter, asked or 0.0)

    def _try(self, call: Call, until: float) -> Reply:
        clock = self._outside.clock
        request_id = str(uuid.UUID(int=self._outside.random.getrandbits(128), version=4))
        where = f"{call.name} (request {request_id})"
        began, outcome = clock(), "timeout"
        try:
            if until <= began:
                raise _Passing(_too_slow(where, call.seconds), final=True)
            reply = self._sent(call, request_id, where, until)
            outcome = str(reply.status)
            return reply
        except _Passing as passing:
            outcome = passing.outcome
            raise
        except FabricError as error:
            outcome = type(error).__name__.removeprefix("Fabric").lower()
            raise
        finally:
            seconds = clock() - began
            self._outside.observe(call.name, seconds, outcome)
            LOG.debug("%s: %s after %.3f s", where, outcome, seconds)

    def _sent(self, call: Call, request_id: str, where: str, until: float) -> Reply:
        left = until - self._outside.clock()
        request = httpx.Request(
            "GET" if call.form is None and call.json is None else "POST",
            call.url,
            params=call.query or None,
            data=call.form,
            json=call.json,
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "User-Agent": self._agent,
                "X-Request-Id": request_id,
                **call.headers,
            },
            extensions={"timeout": httpx.Timeout(left, connect=min(self._connect, left)).as_dict()},
        )
        try:
            with self._way() as way:
                response = way.handle_request(request)
                try:
                    body = self._body(response, where, until, call)
                finally:
                    response.close()
        except httpx.TransportError as error:
            raise _failure(error, where, call) from None
        paged = any("next" in link.get("rel", "").lower().split() for link in response.links.values())
        return Reply(response.status_code, body, where, self._retry_after(response), paged)

    def _body(self, response: httpx.Response, where: str, until: float, call: Call) -> bytes:
        unpack = _unpacking(response.headers.get("Content-Encoding", ""), where)
        body = bytearray()
        assert isinstance(response.stream, httpx.SyncByteStream)
        for piece in response.stream:
            body += unpack(piece, call.largest + 1 - len(body))
            if len(body) > call.largest:
                raise odd(where, "", f"is longer than {call.largest >> 20} MiB")
            if self._outside.clock() >= until:
                raise _Passing(_too_slow(where, call.seconds), final=True)
        return bytes(body)

    def _retry_after(self, response: httpx.Response) -> float | None:
        """Retry-After in seconds, given as a number or a date."""
        text = str(response.headers.get("Retry-After", "")).strip()
        if text.isascii() and text.isdigit():
            return float(text[:9])
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - self._outside.wall())
        except (ValueError, OverflowError):
            return None


def _unpacking(encoding: str, where: str) -> Callable[[bytes, int], bytes]:
    """Unpacks a body piece by piece, each to so many bytes at most. Some managers and proxies compress without being asked."""
    match encoding.strip().lower():
        case "" | "identity":
            return lambda piece, most: piece
        case "gzip" | "x-gzip" | "deflate":
            unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)

            def unpack(piece: bytes, most: int) -> bytes:
                try:
                    return unpacker.decompress(piece, most)
                except zlib.error:
                    raise odd(where, "", "is not compressed as it says") from None

            return unpack
    raise odd(where, "", "is compressed, which was not asked for")


def _service(call: Call) -> str:
    return call.name.partition(".")[0]


class _Passing(Exception):
    """A failed try. `final`: another one would fail too; `unsent`: the request did not reach the manager; `outcome` is for
    metrics."""

    def __init__(
        self, error: FabricError, outcome: str = "timeout", *, final: bool = False, unsent: bool = False
    ) -> None:
        self.error = error
        self.outcome = outcome
        self.final = final
        self.unsent = unsent
        super().__init__(outcome)


def _too_slow(where: str, seconds: float) -> FabricLate:
    return FabricLate(
        f"no whole answer within {seconds:g} s", where=where, fix="look the request up in the manager's log"
    )


def _failure(error: httpx.TransportError, where: str, call: Call) -> _Passing:
    """The meaning of a transport error. Only its type is quoted, and TLS's own words."""
    tls, connecting = _tls(error), isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    if tls is not None and connecting:
        untrusted = getattr(tls, "verify_message", "")
        if untrusted:
            fault = FabricAway(
                f"the manager's certificate is not trusted: {said(untrusted)}",
                where=where,
                fix=f"nothing was sent; {_mend(untrusted)}",
            )
        else:
            fault = FabricAway(
                f"no TLS connection comes about: {said(getattr(tls, 'reason', '') or type(tls).__name__)}",
                where=where,
                fix="nothing was sent; check that https is spoken at this address and port",
            )
        return _Passing(fault, "untrusted", final=True)
    if isinstance(error, httpx.ProxyError):
        words = f"the proxy opens no way to {_address(call)} ({said(str(error))})"
        fault = FabricAway(
            words, where=where, fix="check HTTPS_PROXY and what the proxy allows, or add the host to NO_PROXY"
        )
        return _Passing(fault, "unreachable", unsent=True)
    if connecting:
        fault = FabricAway(
            f"no connection to {_address(call)} comes about ({type(error).__name__})",
            where=where,
            fix="check address, port and network",
        )
        return _Passing(fault, "unreachable", unsent=True)
    if isinstance(error, httpx.TimeoutException):
        return _Passing(_too_slow(where, call.seconds))
    what = "the connection broke off"
    if isinstance(error, httpx.ProtocolError):
        what = "the answer breaks off, or is not HTTP"
    kind = type(error).__name__ if tls is None else said(getattr(tls, "reason", "") or type(tls).__name__)
    broken = FabricUnreachable(f"{what} ({kind})", where=where, fix="it is asked again in the next round")
    return _Passing(broken, "unreachable")


def _mend(words: str) -> str:
    """What to do about a certificate with this TLS error."""
    if "expired" in words or "not yet valid" in words:
        return "renew the manager's certificate, or compare the clocks"
    if "mismatch" in words:
        return "ask at a name that it is made for, or have it made for this one"
    return "give the authority that signed it as `certificate`"


def _address(call: Call) -> str:
    """Host and port only; the path names a tenant."""
    url = httpx.URL(call.url)
    return (
        f"{said(url.netloc.decode('ascii', 'replace'))}{'' if url.port else ':443' if url.scheme == 'https' else ':80'}"
    )


def _tls(error: BaseException) -> ssl.SSLError | None:
    """The TLS error that caused an error, if any."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


_TITLE = re.compile(rb"<title[^>]*>(.{1,1000}?)</title", re.IGNORECASE | re.DOTALL)
_EMPTY = {202: "it has only begun a task", 204: "no content"}


def content(form: type[P], reply: Reply) -> P:
    """The decoded answer of a GET with status 200. Raises FabricOdd, also for one page of several: the rest is not known."""
    if reply.paged:
        raise odd(reply.where, "", "is one page of several, which are not followed")
    return read(form, reply.body, reply.where)


def redirected(reply: Reply) -> FabricRefused:
    """dds follows no redirect with a password or a token."""
    return FabricRefused(
        f"answers with a redirect ({reply.status}), which is not followed",
        code=reply.status,
        where=reply.where,
        fix="give the address that it leads to as the endpoint",
    )


def refusal(
    reply: Reply, told: Callable[[bytes], Iterable[object]], fix: str, hidden: Collection[str] = ()
) -> FabricRefused:
    """The error for a manager's error answer, in the manager's words: the texts and numbers that `told` finds in the body,
    shortened and without `hidden`; of a web page its title. `told` may raise FabricOdd."""
    if 300 <= reply.status < 400:
        return redirected(reply)
    try:
        parts = [str(part) for part in told(reply.body) if isinstance(part, str | int)]
    except FabricOdd:
        parts = []
    if not parts and (title := _TITLE.search(reply.body)):
        parts = [title[1].decode(errors="replace")]
    words = said(" ".join(parts), hidden) or _EMPTY.get(reply.status, "")
    kind = FabricBusy if reply.status == 429 else FabricRefused
    what = f"answers with {reply.status}{f': {words}' if words else ''}"
    return kind(what, code=reply.status, where=reply.where, fix=fix, reason=said(parts[0], hidden) if parts else "")
