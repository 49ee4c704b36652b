"""`dds ui` over HTTP: what pages are told while the log goes on, what they may ask for, and who gets nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from dds_adapters.sql import Database, SqlLog, upgrade
from dds_adapters.web.server import Server
from dds_commands import feed, ui
from dds_commands.ui import Beside, Shown, serving
from tests.adapters.web.asking import Said, ask
from tests.adapters.web.reviewing import reviewer
from tests.core.scaler.history.test_page import Reader, made
from tests.support.commands import PROGRAM, RECORDINGS, environment, fine, log_of, refused
from tests.support.growing_log import NAME, Writer, now
from tests.support.growing_log import url as url
from tests.support.growing_log import writer as writer
from tests.support.http_server import http_server


class Stream:
    """Patches as one page is told them."""

    def __init__(self, server: Server, path: str = "/events") -> None:
        self._connection = HTTPConnection(server.host, server.port, timeout=20)
        self._connection.request("GET", path)
        self.answer: HTTPResponse = self._connection.getresponse()
        self.page = Reader()
        self.last: dict[str, Any] = {}

    def next(self) -> dict[str, Any]:
        """The next patch; words that keep the connection are passed over."""
        while line := self.answer.readline():
            if line.startswith(b"data: "):
                patch: dict[str, Any] = json.loads(line[6:])
                self.last |= patch
                if patch.get("anew"):
                    self.page = Reader()
                if "strings" in patch:
                    self.page.take(patch)
                return patch
        raise AssertionError("the stream ended")

    def until(self, claims: int, seconds: float = 10) -> Stream:
        """Read on until so many claims were told."""
        end = time.monotonic() + seconds
        while len(self.page.claims) < claims:
            assert time.monotonic() < end, f"{len(self.page.claims)} of {claims} claims"
            self.next()
        return self

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


@contextmanager
def served(url: str, keep: int = 2000) -> Iterator[Server]:
    with ExitStack() as ends:
        yield serving(Shown((), url, None, "127.0.0.1:0", keep), ends, None)


@contextmanager
def stream(server: Server) -> Iterator[Stream]:
    found = Stream(server)
    try:
        yield found
    finally:
        found.close()


def asked(server: Server, path: str, **query: object) -> Said:
    return ask(server, f"{path}?{urlencode(query)}")


def claims_of(page: Reader) -> dict[str, Any]:
    return {one["uid"]: one for one in page.claims.values()}


# -- what pages are told -------------------------------------------------------------------------------------------------


def test_a_page_is_told_what_there_is_and_then_what_is_new(url: str, writer: Writer) -> None:
    writer.write(300)
    with served(url) as server, stream(server) as early:
        assert early.answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        early.until(1)
        known = len(early.page.claims)
        writer.write(len(writer.steps))
        written = time.monotonic()
        early.until(known + 1)
        assert time.monotonic() - written < 5
        with stream(server) as late:
            _, whole, report = made("burst")
            for one in (early.until(40), late.until(40)):
                while one.last["claims"] or one.last["devices"]:
                    one.next()
                # Nothing has ended that the report holds; what goes on goes on until now.
                assert claims_of(one.page) == claims_of(whole)
                assert one.last["start"] == report["start"] and one.last["live"] is True
                assert one.last["status"] == "" and abs(one.last["clock"] - (now() // 1000 - one.last["start"])) < 5000


def test_many_pages_are_told_the_same(url: str, writer: Writer) -> None:
    with served(url) as server, ExitStack() as ends:
        pages = [ends.enter_context(stream(server)) for _ in range(10)]
        writer.write(len(writer.steps))
        found = [claims_of(page.until(40).page) for page in pages]
        assert all(set(one) == set(found[0]) for one in found)


def test_what_has_ended_long_ago_is_let_go_and_told_when_asked_for(
    url: str, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back from the newest page to the first event, each part from a checkpoint on."""
    monkeypatch.setattr(feed, "ENOUGH", 100)
    for _ in range(4):
        writer.write(len(writer.steps) // 4 + 1)
        writer.checkpoint()
    with served(url, keep=10) as server, stream(server) as page:
        patch = page.next()
        while "strings" not in patch:
            patch = page.next()
        since, parts, seen = patch["since"], 0, set(claims_of(page.page))
        assert 0 < len(page.page.claims) < 40
        while since:
            said = asked(server, "/past", before=since)
            assert said.code == 200, said.body
            past = json.loads(said.body)
            assert past["live"] is False and past["anew"] is True
            assert past["since"] < since and past["now"] < since and past["start"] == patch["start"]
            seen |= set(claims_of(Reader().take(past)))
            since, parts = past["since"], parts + 1
        assert 2 < parts < 6 and len(seen) == 40
        said = asked(server, "/past", before=0)
        assert said.code == 404 and b"nothing happened" in said.body
        for wrong in ("-1", "x", "", "\u0663", "9" * 5000):
            assert asked(server, "/past", before=wrong).code == 404


def test_what_happened_to_one_thing_is_told_when_asked_for(url: str, writer: Writer) -> None:
    writer.write(len(writer.steps))
    with served(url) as server, stream(server) as page:
        page.until(40)
        _, whole, _ = made("burst")
        for kind, key in [*list(whole.accounts)[:6], ("node", "node0000")]:
            found = json.loads(asked(server, "/account", kind=kind, key=key).body)
            _, _, head, entries = found["account"]
            expected_head, expected = whole.accounts[kind, key]
            # A device that is in use since then is in use for longer by now.
            assert [found["strings"][one].split(" ")[0] for one in head] == [one.split(" ")[0] for one in expected_head]
            assert [entry[0] for entry in entries] == [entry[0] for entry in expected]
        for kind, key in (("claim", "nobody"), ("", ""), ("model", "A100 40G"), ("node", "<script>"), ("device", "")):
            said = asked(server, "/account", kind=kind, key=key)
            assert said.code == 404 and said.headers["content-type"].startswith("text/plain")


# -- a log that is not there, goes away, or is of another kind ---------------------------------------------------------------


def test_a_log_that_comes_later_is_shown_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "AGAIN_SECONDS", 0.2)
    url = f"sqlite:///{tmp_path / 'later.sqlite3'}"
    with served(url) as server, stream(server) as page:
        while "there is no such file" not in page.last.get("status", ""):
            page.next()
        upgrade(url)
        while "holds no log yet" not in page.last["status"]:
            page.next()
        with Database(url) as database:
            log = database.open_log(NAME, cluster="a-cluster", recorded_at=now())
            assert isinstance(log, SqlLog)
            Writer(log).write(400)
        assert page.until(1).last["status"] == ""


def test_a_log_that_cannot_be_read_for_a_while_is_gone_on_with(
    url: str, writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "AGAIN_SECONDS", 0.2)
    writer.write(300)
    with (
        served(url) as server,
        stream(server) as page,
        closing(sqlite3.connect(tmp_path / "log.sqlite3", isolation_level=None)) as database,
    ):
        page.until(1)
        database.execute("ALTER TABLE dds_heads RENAME TO away")
        while not page.next()["status"]:
            pass
        assert claims_of(page.page), "what was told stays"
        assert asked(server, "/account", kind="claim", key=next(iter(claims_of(page.page)))).code == 503
        database.execute("ALTER TABLE away RENAME TO dds_heads")
        while page.next()["status"]:
            pass
        writer.write(len(writer.steps))
        page.until(40)


def test_what_a_later_version_has_written_is_told(url: str, writer: Writer, tmp_path: Path) -> None:
    writer.write(300)
    with closing(sqlite3.connect(tmp_path / "log.sqlite3")) as database:
        database.execute("UPDATE dds_events SET type = 'FromLater' WHERE position = 200")
        database.commit()
    with served(url) as server, stream(server) as page:
        while "FromLater" not in page.last.get("status", ""):
            page.next()
        assert "use the version of dds that wrote it, or a newer one" in page.last["status"]


def test_a_log_that_nobody_writes_any_more_says_so(url: str, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    writer.write(300)
    monkeypatch.setattr(feed, "BEAT_SECONDS", 0.2)
    with served(url) as server, stream(server) as page:
        assert page.until(1).last["status"] == ""
        monkeypatch.setattr(time, "time_ns", lambda late=time.time_ns: late() + 600 * 10**9)
        while not page.last["status"]:
            page.next()
        assert page.last["status"] == "no scaler runs, or it cannot write its log"
        beat = page.last["beat"]
        assert beat["until"] == beat["last"] + 70_000
        assert beat["dead"] == "last event {ago} ago, but a live scaler writes at least every 70 s"
        assert page.last["now"] == beat["until"], "what is not over counts on until then, not until now"


# -- who gets what -------------------------------------------------------------------------------------------------------


def test_the_frame_holds_nothing_and_may_do_little(url: str, writer: Writer) -> None:
    writer.write(300)
    with served(url) as server:
        said = ask(server, "/")
        text = said.body.decode()
        assert "train" not in text and "burst" not in text
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
        assert policy is not None
        assert "default-src 'none'; script-src 'sha256-" in policy[1] and "connect-src 'self'" in policy[1]
        assert said.headers["content-security-policy"] == "frame-ancestors 'none'"
        assert ask(server, "/events", "HEAD").code == 200
        assert ask(server, "/events", "POST").code == 405
        assert ask(server, "/secrets").code == 404


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost:80", 200),
        ("127.0.0.1", 200),
        ("[::1]:8090", 200),
        ("evil.example:8090", 403),
        ("127.0.0.1.evil", 403),
    ],
)
def test_on_loopback_only_who_asks_for_this_machine_is_answered(url: str, host: str, code: int) -> None:
    """A page from elsewhere can have a name that leads here, and would be of the same origin then."""
    with served(url) as server:
        for path in ("/", "/events", "/account", "/past"):
            method = "HEAD" if path == "/events" else "GET"
            found = ask(server, path, method, {"Host": host}).code
            assert found == 403 if code == 403 else found in (200, 404, 503), path


def test_elsewhere_tokens_are_asked_for(url: str, writer: Writer, tmp_path: Path) -> None:
    """Over TLS; the API server is asked whose token it is and whether that one may get /ui."""
    writer.write(300)

    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with http_server(reviewer) as api, ExitStack() as ends:
        kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
        server = serving(Shown((), url, None, "0.0.0.0:0", kubeconfig=kubeconfig), ends, None)
        assert server.url.startswith("https://")
        assert ask(server, "/", context=trusting).code == 200, "the frame, which asks for a token"
        for path in ("/events", "/account?kind=node&key=x", "/past?before=0"):
            for token, code in (("", 401), ("nobody", 401), ("stranger", 403)):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                assert ask(server, path, headers=headers, context=trusting).code == code
        headers = {"Authorization": "Bearer reader"}
        assert ask(server, "/account?kind=node&key=x", headers=headers, context=trusting).code == 404
        assert ask(server, "/events", "HEAD", headers, context=trusting).code == 200


def test_a_page_that_does_not_read_is_let_go(url: str, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_WAITING", 10_000)
    listener = feed._Listener(b"x")
    for _ in range(20):
        listener.add(b"x" * 1000)
    assert listener.is_slow and sum(map(len, listener.waiting)) <= 10_000


# -- the program ---------------------------------------------------------------------------------------------------------


@contextmanager
def program(*args: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`dds ui` with these arguments, and where its page is."""
    process = subprocess.Popen(
        [str(PROGRAM), "ui", "--bind-address", "127.0.0.1:0", *args],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        said = re.fullmatch(r"the page is at http://127\.0\.0\.1:(\d+); Ctrl-C ends it\n", process.stdout.readline())
        assert said is not None
        yield process, said[1]
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_the_program_serves_until_it_is_ended(url: str, writer: Writer) -> None:
    writer.write(300)
    with program("--log", url) as (process, port):
        with urlopen(f"http://127.0.0.1:{port}/events", timeout=10) as answer:
            assert answer.readline().startswith(b"data: ")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


def test_an_export_of_a_cluster_is_not_taken_for_a_log_that_somebody_writes(
    url: str, writer: Writer, tmp_path: Path
) -> None:
    writer.write(300)
    fine("log", "export", "-o", str(tmp_path / "export.jsonl"), url)
    with ExitStack() as ends:
        server = serving(Shown((str(tmp_path / "export.jsonl"),), None, None, "127.0.0.1:0"), ends, None)
        with stream(server) as page:
            page.until(1)
            assert page.last["live"] is False and page.last["status"] == "" and "clock" not in page.last


def test_what_does_not_go_on_is_shown_as_a_report(tmp_path: Path) -> None:
    recording = str(RECORDINGS / "node_limit.jsonl.gz")
    export = tmp_path / "export.jsonl"
    fine("log", "export", "-o", str(export), log_of(recording, tmp_path))
    with program(recording) as (_, port), urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
        assert answer.read().decode() == fine("report", recording)
    with program(str(export)) as (_, port), urlopen(f"http://127.0.0.1:{port}/events", timeout=10) as answer:
        patch = next(one for line in answer if "strings" in (one := json.loads(line[6:] or b"{}")))
        assert len(patch["claims"]) == 3 and patch["live"] is False


def test_what_cannot_be_shown_is_refused_in_a_line(tmp_path: Path, url: str) -> None:
    with Database(url) as database:
        database.open_log("lab/publisher", cluster="a-cluster", recorded_at=now())
        database.open_log("lab/scaler", cluster="a-cluster", recorded_at=now())
    assert "no address to listen on" in refused("ui", "--log", url, "--bind-address", "here")
    assert "log of a publisher" in refused("ui", "--log", url, "--name", "lab/publisher")
    assert "certificate and key" in refused("ui", "--log", url, "--bind-address", "0.0.0.0:0", "--cert-file", "x")
    assert "No such file" in refused("ui", str(tmp_path / "none.jsonl"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "cannot listen" in refused("ui", "--log", url, "--bind-address", f"127.0.0.1:{port}")


# -- beside a scaler -----------------------------------------------------------------------------------------------------


def test_beside_a_scaler_it_is_started_again_and_ends_with_it(
    url: str, writer: Writer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ui, "AGAIN_SECONDS", 0.2)
    writer.write(300)
    page = Beside(Shown((), url, NAME, "127.0.0.1:0"), "info", "text")
    page.start()

    def running() -> str:
        """Where it says that it serves, once it does."""
        said, end = "", time.monotonic() + 20
        while "page served on" not in said:
            assert time.monotonic() < end
            time.sleep(0.05)
            said += capfd.readouterr().err
        return said.rpartition("page served on ")[2].strip()

    try:
        first = running()
        assert first.startswith("http://127.0.0.1:")
        process = page._process
        assert process is not None
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
        assert url not in " ".join(Path(f"/proc/{process.pid}/cmdline").read_text().split("\0"))
        process.kill()
        assert running() != first
        last = page._process
        assert last is not None and last.pid != process.pid
    finally:
        page.stop()
    assert last.wait(10) != 0


def test_beside_a_scaler_that_was_killed_it_ends_too(url: str, writer: Writer) -> None:
    """Its pipe ends."""
    writer.write(10)
    script = (
        "import sys, time; from dds_commands.ui import Beside, Shown;"
        f"page = Beside(Shown((), {url!r}, {NAME!r}, '127.0.0.1:0'), 'info', 'text'); page.start();"
        "time.sleep(0.5); print(page._process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as scaler:
        assert scaler.stdout is not None
        pid = int(scaler.stdout.readline())
        scaler.kill()
        end = time.monotonic() + 10
        while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
            assert time.monotonic() < end
            time.sleep(0.05)
