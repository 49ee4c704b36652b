"""The server side of the live page: one thread follows the log and feeds all open pages; routes answer what a page asks for."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import msgspec

from dds_adapters.web.messages import Request, Response, Route, plain
from dds_commands.parameters import Place
from dds_commands.reports import passes, report_of
from dds_commands.sources import Beat, Log, Opened, beat
from dds_core import __version__
from dds_core.errors import DdsError, InputError
from dds_core.log import Head
from dds_core.scaler.history.live import Live
from dds_core.scaler.timeline import timelines

LOG = logging.getLogger("dds.ui")

ENOUGH = 20_000
"""A long log is read from the newest checkpoint with at least so many events after it; earlier events only if a page asks."""
POLL_SECONDS = 0.2
PAUSE_SECONDS = 0.5
"""Shortest time between two patches. If making a patch takes long, the pause is ten times that."""
BEAT_SECONDS = 4.0
"""Longest time without a message to a page: the page takes silence for a lost connection."""
AGAIN_SECONDS = 2.0
MOST_AGAIN_SECONDS = 60.0
"""Pause after a failure to read the log; it doubles with each failure, from AGAIN_SECONDS up to MOST_AGAIN_SECONDS."""
MOST_WAITING = 8 << 20
"""Bytes that may wait for one page, without the first message. A slower page is disconnected and starts again."""
_AT_ONCE = 500

OpenLog = Callable[[Opened], Log]


class _NotHere(InputError):
    """A page asked for something that is not in the log: answered with 404."""


class _Listener:
    """Messages that wait to be sent to one page."""

    def __init__(self, first: bytes) -> None:
        self.waiting = [first]
        self.is_slow = False

    def add(self, piece: bytes) -> None:
        self.waiting.append(piece)
        if sum(map(len, self.waiting[1:])) > MOST_WAITING:
            self.waiting.clear()
            self.is_slow = True


class Feed:
    """Follows one log in a thread of its own, from `start` to `stop`. The routes are called from any thread."""

    def __init__(self, open_log: OpenLog, keep: int, lasts: float = math.inf) -> None:
        """`open_log` is called at the start, after each failure and for each request of a page. `keep` goes to `Live`. A
        connection ends after `lasts` seconds: the page connects again and is authorized again."""
        self._open_log = open_log
        self._lasts = lasts
        self._keep = keep
        self._changed = threading.Condition()  # guards the next five fields and the content of `_live`
        self._listeners: set[_Listener] = set()
        self._live: Live | None = None
        self._whole: bytes | None = None
        self._first = 0
        self._now: dict[str, Any] = {"status": "reading the log"}
        self._reading = threading.Lock()  # only one request reads the log at a time
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self.routes: dict[str, Route] = {
            "/events": self._events,
            "/account": lambda request: _answer(self._account, request),
            "/past": lambda request: _answer(self._past, request),
        }

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(AGAIN_SECONDS)

    # -- the thread that follows -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = AGAIN_SECONDS
        while not self._stopped.is_set():
            told = self._live
            try:
                with Opened() as opened:
                    self._follow(self._open_log(opened))
            except DdsError as error:
                self._fails(str(error))
            except Exception as error:  # a bug in dds: pages stay connected and show the message
                self._fails(f"the log cannot be followed ({type(error).__name__}); please report it")
            pause = AGAIN_SECONDS if self._live is not told else min(2 * pause, MOST_AGAIN_SECONDS)
            self._stopped.wait(pause)

    def _follow(self, log: Log) -> None:
        """Returns when `stop` is called or when the log became shorter, which means that it is another log."""
        head = log.source.head()
        begun = _begun(log, head)
        self._first = log.span()[0] or head.recorded_at
        live = Live(self._first, {"dds": __version__, "log": log.log_name}, self._keep)
        is_live, position, has_news = log.live_head() is not None, begun.after, True
        told = due = 0.0
        while not self._stopped.is_set() and head.position >= position:
            has_news = has_news or head.position > position
            coming = begun.since(position, head.position)
            while moments := list(islice(coming, _AT_ONCE)):
                with self._changed:
                    live.history.read(moments)
            position, now = head.position, time.monotonic()
            if now >= due and (has_news or now - told >= BEAT_SECONDS):
                self._tell(live, head, time.time_ns() // 1000 if is_live else 0)
                told, due, has_news = now, now + max(PAUSE_SECONDS, 10 * (time.monotonic() - now)), False
            self._stopped.wait(POLL_SECONDS)
            head = log.source.head()

    def _tell(self, live: Live, head: Head, now: int) -> None:
        with self._changed:
            shown = beat(head, live.history.policy, live.history.synced, live.history.stale)
            # What is not over counts on for as long as a running process may be silent: later nothing is known of it.
            patch = live.news(min(now, shown.until) if shown.until else now)
            if live is not self._live:
                patch = {**live.whole(), "anew": True}
            self._live, self._now = live, self._clock(shown, now)
            self._send({**patch, **self._now})

    def _clock(self, shown: Beat, now: int) -> dict[str, Any]:
        """The clock, the status line and the beat of a page: milliseconds since the first event, and the sentences of `Beat`
        before and after `until`, with the time since `last` to be filled in. Without a live log (`now` is 0) there are none."""
        if not now:
            return {"live": False, "status": "", "beat": None}
        words = {
            "last": self._page_time(shown.last),
            "until": self._page_time(shown.until) if shown.until else None,
            "alive": shown.sentence(dead=False),
            "dead": shown.sentence(dead=True).removesuffix(f": {shown.absent}"),  # which is the status
        }
        status = shown.absent if shown.silent(now) else ""
        return {"live": True, "clock": self._page_time(now), "status": status, "beat": words}

    def _page_time(self, at: int) -> int:
        return (at - self._first) // 1000

    def _fails(self, why: str) -> None:
        """Pages keep their data and show why no new data comes."""
        with self._changed:
            if self._now.get("status") != why:
                LOG.warning("%s", why)
            self._now = {**self._now, "status": why}
            self._send({"status": why})

    def _send(self, patch: dict[str, Any]) -> None:
        piece = _piece(patch)
        self._whole = None
        for listener in self._listeners:
            listener.add(piece)
        self._changed.notify_all()

    # -- requests of pages -----------------------------------------------------------------------------------------------

    def _events(self, _: Request) -> Response:
        return Response(200, "text/event-stream; charset=utf-8", self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        """The whole state first, then patches, and an empty message after each `BEAT_SECONDS` without a patch."""
        ends = time.monotonic() + self._lasts
        with self._changed:
            if self._whole is None:
                whole = {**self._live.whole(), "anew": True} if self._live is not None else {}
                self._whole = _piece({**whole, **self._now})
            listener = _Listener(self._whole)
            self._listeners.add(listener)
        try:
            while not (self._stopped.is_set() or listener.is_slow) and time.monotonic() < ends:
                with self._changed:
                    self._changed.wait_for(lambda: listener.waiting or self._stopped.is_set(), BEAT_SECONDS)
                    piece = b"".join(listener.waiting)
                    listener.waiting.clear()
                yield piece or b": \n\n"
        finally:
            with self._changed:
                self._listeners.discard(listener)

    def _account(self, request: Request) -> dict[str, Any]:
        """The timeline of a claim (`key` is its uid), or of a device or node (by name) since the start of the page's data."""
        kind, key = _asked(request, "kind"), _asked(request, "key")
        with self._changed:
            live = self._live
            subject = live.subject(kind, key) if live is not None else None
        if live is None or subject is None:
            raise _NotHere(f"there is no {kind} {key}" if kind else "no kind is given", fix="give kind and key")
        with self._reading, Opened() as opened:
            log = self._open_log(opened)
            told = log.about(subject) if kind == "claim" else _begun(log, log.source.head()).about(None)
            [entries] = timelines(told, [subject])
        with self._changed:
            known = live.subject(kind, key)  # again: the page's data may have dropped it meanwhile
            if known is None:
                raise _NotHere(f"{kind} {key} has ended long ago", fix="look at the time before")
            return live.account(known, entries)

    def _past(self, request: Request) -> dict[str, Any]:
        """The data before an instant (in ms since the first event), from the last checkpoint before it or the first event."""
        text = _asked(request, "before")
        if not re.fullmatch("[0-9]{1,15}", text):
            raise _NotHere(f"{text!r} is no instant", where="before", fix="give milliseconds since the first event")
        before = self._first + int(text) * 1000
        if before <= self._first:
            raise _NotHere("nothing happened before the first event", where="before", fix="give a later instant")
        with self._reading, Opened() as opened:
            log = self._open_log(opened)
            checkpoints = [position for position, at in log.checkpoints() if at < before]
            begun = log.begun_at(checkpoints[-1] if checkpoints else 0)
            made = report_of(passes(begun), log.label, log.log_name, Place(), Place(before - 1), self._first)
        return {**made, "anew": True, "live": False}


def _begun(log: Log, head: Head) -> Log:
    """The log, begun at its newest checkpoint with at least `ENOUGH` events after it."""
    if head.position - log.after <= ENOUGH:
        return log
    return log.begun_at(max((at for at, _ in log.checkpoints() if at <= head.position - ENOUGH), default=0))


def _piece(patch: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(patch) + b"\n\n"


def _asked(request: Request, name: str) -> str:
    return request.query.get(name, [""])[0]


def _answer(make: Callable[[Request], dict[str, Any]], request: Request) -> Response:
    try:
        return Response(200, "application/json", msgspec.json.encode(make(request)))
    except _NotHere as error:
        return plain(404, f"{error}\n")
    except DdsError as error:
        return plain(503, f"{error}\n")
