"""`dds ui`: show a log as a live page, as a command of its own or beside `dds serve`.

Beside a scaler the page is served by a separate process with a lower priority. It only reads the log, and it ends when the scaler
closes the pipe to it.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import click
import msgspec

from dds_adapters.kubernetes.cluster import Cluster
from dds_adapters.runtime.live_settings import Listen
from dds_adapters.web import page
from dds_adapters.web.messages import Request, Response, Route, plain
from dds_adapters.web.reviews import Reviews, guarded
from dds_adapters.web.server import Server
from dds_adapters.web.tls import certificate
from dds_commands.feed import Feed
from dds_commands.parameters import STANDARD, Place, source_arguments
from dds_commands.reports import report_of
from dds_commands.running import FINE, INPUT
from dds_commands.running import require as require_extra
from dds_commands.screen import show
from dds_commands.sources import Log, Opened, require
from dds_core.errors import DdsError, InputError
from dds_core.scaler.component import SCALER
from dds_core.scaler.history.live import KEEP

LOG = logging.getLogger("dds.ui")

ADDRESS = "127.0.0.1:8090"
PATH = "/ui"
"""A client sees the page if the API server allows it to GET this path."""
MOST = 64
"""Most connections at once; each open page keeps one."""
LASTS = 300.0
"""Seconds after which a page's connection ends, so that its client is authorized again."""
ANSWERING_SECONDS = 120.0
AGAIN_SECONDS, MOST_AGAIN_SECONDS = 10.0, 300.0
"""Pause before the page's process is started again after it ended by itself; it doubles each time, up to the second value."""
_TITLE = "dds"
_HTML = "text/html; charset=utf-8"


class Shown(msgspec.Struct, frozen=True):
    """What the page shows, and its address. On loopback every client sees it; on other addresses it needs TLS and a token that
    the API server authorizes. `cert` and `key` are files, "" for a certificate made at the start."""

    sources: tuple[str, ...]
    url: str | None
    name: str | None
    address: str
    keep: int = KEEP
    cert: str = ""
    key: str = ""
    kubeconfig: str | None = None
    context: str | None = None


@click.command("ui", short_help="Serve a live page of claims and devices.")
@source_arguments
@click.option("--bind-address", metavar="HOST:PORT", default=ADDRESS, show_default=True, help="Address of the page.")
@click.option(
    "--cert-file",
    metavar="FILE",
    default="",
    help="Certificate (PEM) beyond loopback; by default generated at start.",
)
@click.option("--key-file", metavar="FILE", default="", help="Private key of --cert-file.")
@click.option(
    "--keep",
    type=click.IntRange(min=10),
    metavar="NUMBER",
    default=KEEP,
    show_default=True,
    help="Ended claims, and ended devices, that the page keeps; it loads older ones on request.",
)
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig of the cluster that authorizes viewers.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
def ui(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    bind_address: str,
    cert_file: str,
    key_file: str,
    keep: int,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Serve the page of dds report live: claims and devices now, their history, and any instant before.

    \b
    dds ui
    dds ui postgresql://reader@db/dds --name prod-eu/scaler

    It only reads the log, and runs anywhere that reaches it. It listens on loopback; any other address is served over TLS,
    to clients whose token (`kubectl create token`) the API server authorizes for /ui. Ctrl-C ends it.

    SOURCE is a database; recordings, exports and archives are shown without updates.
    """
    shown = Shown(sources, url, name, bind_address, keep, cert_file, key_file, kubeconfig, context)
    stopped = threading.Event()
    with ExitStack() as ends:
        server = serving(shown, ends, _still(shown))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        show(f"the page is at {server.url}; Ctrl-C ends it")
        sys.stdout.flush()
        stopped.wait()
    return FINE


def _still(shown: Shown) -> str | None:
    """The finished page of a source that cannot grow; None for a log that may. Raises InputError for another component's log."""
    with Opened() as opened:
        source = opened.source(shown.sources, shown.url, shown.name)
        require(source, SCALER, "give a scaler's with --name CLUSTER/scaler")
        if isinstance(source, Log) and STANDARD not in shown.sources:
            return None
        moments = list(source.told())
        made = report_of(lambda _: moments, source.label, source.log_name, Place(), Place())
        return page.document(f"{source.log_name}: report", made)


def serving(shown: Shown, ends: ExitStack, still: str | None) -> Server:
    """Start a server that `ends` stops. Raises InputError if it cannot listen."""
    here = Listen.read(shown.address)
    tls = _certificate(shown, here)
    guard = _guard(shown, here, ends)
    lasts = math.inf if _is_local(here.host) else LASTS
    feed = Feed(partial(_log, shown), shown.keep, lasts) if still is None else None
    routes = {"/": _fixed(page.live(_TITLE) if still is None else still), **(feed.routes if feed is not None else {})}
    free = {"/"} if feed is not None and not _is_local(here.host) else set()  # without data; asks for the token
    routes = {path: route if path in free else guard(route) for path, route in routes.items()}
    server = Server(routes, here.host, here.port, tls=tls, name="ui", most=MOST, answering=ANSWERING_SECONDS)
    server.start()
    ends.callback(server.stop)
    if feed is not None:
        feed.start()
        ends.callback(feed.stop)  # runs before the server waits for the end of its answers
    return server


def _log(shown: Shown, opened: Opened) -> Log:
    source = opened.source(shown.sources, shown.url, shown.name)
    assert isinstance(source, Log), "it was one at the start"
    return source


def _fixed(document: str) -> Route:
    headers = {"Content-Security-Policy": "frame-ancestors 'none'", "Referrer-Policy": "no-referrer"}
    answer = Response(200, _HTML, document.encode(errors="backslashreplace"), headers)
    return lambda request: plain(404, "404 page not found\n") if request.rest else answer


# -- authorization -------------------------------------------------------------------------------------------------------


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return False


def _certificate(shown: Shown, here: Listen) -> Callable[[], ssl.SSLContext] | None:
    if bool(shown.cert) != bool(shown.key):
        raise InputError("certificate and key go together", where="ui", fix="give both files, or neither")
    return None if _is_local(here.host) else certificate(shown.cert, shown.key, [here.host])


def _guard(shown: Shown, here: Listen, ends: ExitStack) -> Callable[[Route], Route]:
    if _is_local(here.host):
        return _from_here
    require_extra("serve")
    cluster = Cluster(shown.kubeconfig, shown.context)
    ends.callback(cluster.close)
    reviews = Reviews(cluster, PATH)
    return lambda route: guarded(route, reviews)


def _from_here(route: Route) -> Route:
    """The route, only for requests whose Host is this machine: protects against DNS rebinding by other sites."""

    def guard(request: Request) -> Response:
        named = request.headers.get("host", "").rpartition(":")
        host = named[0] if named[2].isdecimal() else request.headers.get("host", "")
        return route(request) if _is_local(host.strip("[]")) else plain(403, "403 ask by the name localhost\n")

    return guard


# -- beside a scaler -----------------------------------------------------------------------------------------------------


class Beside:
    """Runs the page in a child process and starts it again when it ends, until `stop`."""

    def __init__(self, shown: Shown, level: str, form: str) -> None:
        """`level` and `form` are those of the child's log lines."""
        self._address = shown.address
        self._told = msgspec.json.encode((shown, level, form)) + b"\n"
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="ui", daemon=True)

    def start(self) -> None:
        """Raises InputError if the page could not listen on its address."""
        here = Listen.read(self._address)
        Server({}, here.host, here.port).stop()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        with self._lock:
            if self._process is not None:
                self._process.terminate()
        self._thread.join(AGAIN_SECONDS)

    def _run(self) -> None:
        pause = AGAIN_SECONDS
        while (process := self._started()) is not None:
            with process:
                assert process.stdin is not None
                with suppress(OSError):
                    process.stdin.write(self._told)
                    process.stdin.flush()
                code = process.wait()
            if not self._stopped.is_set():
                LOG.warning("the page's process ended with %d; it is started again in %d s", code, pause)
            self._stopped.wait(pause)
            pause = min(2 * pause, MOST_AGAIN_SECONDS)

    def _started(self) -> subprocess.Popen[bytes] | None:
        """A new child process, which waits for its input; None after `stop` or if none can be started."""
        with self._lock:
            if self._stopped.is_set():
                return None
            # The child's settings go through its pipe: ps shows arguments and environment.
            command = [sys.executable, "-m", __name__]
            try:  # in a session of its own: Ctrl-C reaches the scaler only, which then ends the child
                self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
            except OSError as error:
                LOG.warning("the page cannot be served: no process can be started (%s)", error.strerror)
                return None
            return self._process


def beside() -> int:
    """The child process of `Beside`: reads what to show from its pipe, and serves until the pipe closes."""
    from dds_adapters.runtime import log_lines

    with suppress(OSError):
        os.nice(10)
        Path("/proc/self/oom_score_adj").write_text("1000")  # the kernel's first victim, not the scaler
    shown, level, form = msgspec.json.decode(sys.stdin.buffer.readline(), type=tuple[Shown, str, str])
    log_lines.start(level, form)
    with ExitStack() as ends:
        try:
            server = serving(shown, ends, None)
        except DdsError as error:
            LOG.error("%s", error)
            return INPUT
        LOG.info("page served on %s", server.url)
        sys.stdin.buffer.read()
    return FINE


if __name__ == "__main__":
    sys.exit(beside())
