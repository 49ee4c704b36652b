"""The live page in a real browser: fed by `dds serve` beside a lab, and by a log that grows, goes away and comes back."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.web.messages import Request
from dds_commands import feed
from dds_commands.ui import Shown, serving
from dds_core.scaler.history.live import Live
from dds_lab.shipped import find
from tests.adapters.web.reviewing import reviewer
from tests.browser.opened import Page, axe
from tests.core.scaler.history.test_live import SECOND, churn
from tests.support.browser import Browser, browser, missing
from tests.support.growing_log import Writer
from tests.support.growing_log import url as url
from tests.support.growing_log import writer as writer
from tests.support.http_server import http_server
from tests.support.live_lab import QUICK, LiveLab, eventually, without_scaler
from tests.support.serve_program import Program

pytestmark = [
    pytest.mark.skipif(
        bool(missing()), reason=f"no {missing()}: install Debian's packages chromium and chromium-driver"
    ),
    pytest.mark.xdist_group("browser"),
]

SEEN = """window.seen = {};
  const take = dds.take;
  dds.take = function (patch) {
    take.call(dds, patch);
    for (const one of dds.model.claims) if (one) window.seen[one.name] ??= Date.now() - (dds.model.start + one.first);
  };"""
"""From now on keeps for each claim how many milliseconds after its fact it was there."""
ROWS = "dds.rows.rows.map((row) => row.text)"


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as found:
        yield found


def test_a_claim_appears_within_a_second_of_its_fact_and_goes_on(window: Browser, tmp_path: Path) -> None:
    scenario = without_scaler(find("burst"))
    log = str(tmp_path / "log.sqlite3")
    with (
        LiveLab(scenario, tmp_path, speed=4) as lab,
        Program(lab, log, tmp_path, QUICK, "--migrate", "--ui-bind-address", "127.0.0.1:0") as ours,
    ):
        page = Page(window, ours.address("page"))
        window.run(SEEN)
        window.eventually(
            "Object.keys(window.seen).filter((name) => name.startsWith('default/burst')).length >= 20", seconds=90
        )
        delays = page("window.seen")
        assert max(delay for name, delay in delays.items() if name.startswith("default/burst")) < 1000
        window.eventually("dds.model.claims.some((one) => one?.outcome === 'bound')", seconds=60)
        window.run("const one = dds.model.claims.find((one) => one?.outcome === 'bound'); dds.open('claim', one.uid)")
        window.eventually(
            "[...document.querySelectorAll('#detail .entries b')].some((one) => one.textContent === 'Attached → Bound')"
        )
        assert page.texts("#live") == ["live"]
        assert page("document.title") == "lab/scaler: live"
        window.eventually("document.querySelectorAll('#causes li').length > 0")
        assert [text.partition(" ")[0] for text in page.texts("#tiles dt")][:2] == ["claims", "median"]
        window.eventually("dds.model.curves('pools').length === 2 && !document.getElementById('curves-pools').hidden")
        before = page("dds.instant")
        window.eventually(f"dds.instant > {before} + 900")
        window.run("dds.scrub(dds.model.since)")
        assert page.ready()("dds.instant") == page("dds.model.since"), "back to the first event"
        assert page.said() == []
        assert {one.partition("?")[0].rpartition("/")[2] for one in page.asked()} == {"", "events", "account"}
        ours.end()
        window.eventually("document.getElementById('live').textContent.startsWith('no connection')")
        assert page("document.getElementById('live').classList.contains('bad')")
        page.said()  # what the browser says of connections that are refused


def test_bars_end_where_a_killed_scaler_would_have_written(window: Browser, tmp_path: Path) -> None:
    log = str(tmp_path / "log.sqlite3")
    policy = QUICK.model_copy(update={"scan_interval_seconds": 1})
    with LiveLab(without_scaler(find("first_attach")), tmp_path, speed=1) as lab, ExitStack() as ends:
        with Program(lab, log, tmp_path, policy, "--migrate") as ours:
            eventually(ours.seen_all)
            page = Page(window, serving(Shown((), f"sqlite:///{log}", None, "127.0.0.1:0"), ends, None).url)
            alive = r"last event [0-9] s ago; a live scaler writes at least every 11 s"
            window.eventually(f"/^{alive}$/.test(document.getElementById('beat').textContent)")
            ours.kill()
        window.eventually("document.getElementById('beat').classList.contains('bad')", seconds=20)
        now = page("dds.model.now")
        assert now == page("dds.feed.beat.until") and now - page("dds.feed.beat.last") == 11_000
        window.eventually("document.getElementById('live').classList.contains('bad')")
        assert page.texts("#live") == ["no scaler runs, or it cannot write its log"]
        assert re.fullmatch(r"last event \d+ s ago, but a live scaler writes .*", page.texts("#beat")[0])
        time.sleep(2.5)
        assert page("dds.model.now") == now == page("dds.model.instants().at(-1)"), "nothing grows"
        assert page.said() == []


def test_it_can_be_used_by_everybody(window: Browser, url: str, writer: Writer) -> None:
    script = axe()
    with ExitStack() as ends:
        server = serving(Shown((), url, None, "127.0.0.1:0"), ends, None)
        writer.write(len(writer.steps))
        page = Page(window, server.url)
        window.run("for (const id of ['earlier', 'return', 'entrance']) document.getElementById(id).hidden = false")
        window.run(script)
        found = window.wait("axe.run({ resultTypes: ['violations'] }).then((all) => done(all.violations))")
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
        assert page.said() == []


def test_the_time_before_is_asked_for_and_left_again(
    window: Browser, url: str, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "ENOUGH", 100)
    for _ in range(3):
        writer.write(len(writer.steps) // 3 + 1)
        writer.checkpoint()
    with ExitStack() as ends:
        page = Page(window, serving(Shown((), url, None, "127.0.0.1:0"), ends, None).url)
        newest = set(page(ROWS))
        window.eventually("!document.getElementById('earlier').hidden")
        since = page("dds.model.since")
        window.click("#earlier")
        window.eventually(f"dds.model.since < {since}")
        assert page("dds.model.now") < since and page.ready().texts("#live") == ["the time before"]
        assert set(page(ROWS)) != newest
        window.press(*page.place("#rows canvas", 0.2, 0.02))
        assert page.ready().texts("#detail .entries li"), "what happened is in it"
        while page("!document.getElementById('earlier').hidden"):
            since = page("dds.model.since")
            window.click("#earlier")
            window.eventually(f"dds.model.since < {since}")
            page.ready()
        assert page("dds.model.since") == 0, "the first event"
        window.click("#return")
        window.eventually("dds.model.live && !document.getElementById('earlier').hidden")
        assert set(page.ready()(ROWS)) == newest
        assert page.said() == []


def test_an_answer_that_nobody_waits_for_any_more_is_dropped(
    window: Browser, url: str, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back to now before what was before has come: the page shows now, and nothing of the other."""
    monkeypatch.setattr(feed, "ENOUGH", 100)
    past, go_on = feed.Feed._past, threading.Event()

    def slowly(self: feed.Feed, request: Request) -> dict[str, Any]:
        go_on.wait(10)
        return past(self, request)

    monkeypatch.setattr(feed.Feed, "_past", slowly)
    for _ in range(2):
        writer.write(len(writer.steps) // 2 + 1)
        writer.checkpoint()
    with ExitStack() as ends:
        page = Page(window, serving(Shown((), url, None, "127.0.0.1:0"), ends, None).url)
        window.eventually("!document.getElementById('earlier').hidden")
        newest = set(page(ROWS))
        window.click("#earlier")
        page.ready()
        window.click("#return")
        window.eventually("document.getElementById('live').textContent === 'live'")
        go_on.set()
        time.sleep(1.5)
        assert set(page.ready()(ROWS)) == newest and page.texts("#live") == ["live"]
        assert page("dds.model.live") is True and page.said() == []


def test_what_is_open_stays_open_when_something_happens(window: Browser, url: str, writer: Writer) -> None:
    writer.write(400)
    with ExitStack() as ends:
        page = Page(window, serving(Shown((), url, None, "127.0.0.1:0"), ends, None).url)
        window.run("dds.open('claim', dds.model.claims.find((one) => one?.spans.length).uid)")
        window.eventually("document.querySelector('#detail .entries')")
        window.run("const one = document.querySelector('#detail summary'); one.click(); one.focus()")
        for _ in range(5):
            before = page("dds.model.revision")
            writer.write(40)
            window.eventually(f"dds.model.revision > {before}")
            page.ready()
        assert page("document.querySelector('#detail details').open")
        assert page("document.activeElement === document.querySelector('#detail summary')")


def test_a_connection_that_breaks_is_made_again(window: Browser, url: str, writer: Writer) -> None:
    writer.write(300)
    with ExitStack() as ends:
        page = Page(window, serving(Shown((), url, None, "127.0.0.1:0"), ends, None).url)
        address = page.url.removeprefix("http://")
        window.eventually("dds.model.claims.length > 0")
        ends.close()
        window.eventually("document.getElementById('live').textContent.startsWith('no connection')")
        known, at = page("dds.model.claims.length"), page("dds.model.now")
        assert known, "what was told stays"
        time.sleep(2.5)
        assert page.texts("#live")[0].startswith("no connection") and page("dds.model.now") == at, (
            "and time does not go on"
        )
        writer.write(len(writer.steps))
        serving(Shown((), url, None, address), ends, None)
        window.eventually("dds.model.claims.filter(Boolean).length === 40", seconds=15)
        assert page.ready().texts("#live") == ["live"]


def test_elsewhere_it_asks_for_a_token(window: Browser, url: str, writer: Writer, tmp_path: Path) -> None:
    writer.write(len(writer.steps))
    with http_server(reviewer) as api, ExitStack() as ends:
        kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
        server = serving(Shown((), url, None, "0.0.0.0:0", kubeconfig=kubeconfig), ends, None)
        window.open(f"https://localhost:{server.port}/")
        window.eventually("document.getElementById('entrance') && !document.getElementById('entrance').hidden")
        for token, words in (("nobody", ""), ("stranger", "This token may not see the page.")):
            window.run("document.getElementById('entrance').hidden = false; document.getElementById('token').focus()")
            window.type(*token, "Enter")
            window.eventually("!document.getElementById('entrance').hidden")
            window.eventually(f"document.getElementById('refused').textContent === {words!r}")
        window.type(*"reader", "Enter")
        window.eventually("dds.model.claims.filter(Boolean).length === 40")
        assert window.run("return document.getElementById('entrance').hidden")
        kept = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
        assert "reader" not in window.run(f"return {kept}")
        window.log("browser")


def test_an_hour_of_claims_does_not_make_it_grow(window: Browser, url: str) -> None:
    """A claim a second; what is measured after a quarter of the hour is not more in the end."""
    keep = 200
    live, moments = Live(SECOND, {"dds": "1", "log": "lab/scaler"}, keep), churn(3600)
    with ExitStack() as ends:
        page = Page(window, serving(Shown((), url, None, "127.0.0.1:0"), ends, None).url, wait=False)
        window.run("dds.feed.isPast = true; dds.feed.stop?.abort()")
        window.devtools("Performance.enable")
        sizes = []
        for minute in range(60):
            for moment in moments[minute * 240 : (minute + 1) * 240]:
                live.history.take(moment)
                if moment.position % 40 == 0:
                    patch = live.news() if minute or moment.position > 40 else {**live.news(), **live.whole()}
                    window.run("dds.take(arguments[0])", patch)
            if minute % 15 == 14:
                page.ready()
                window.devtools("HeapProfiler.collectGarbage")
                metrics = {one["name"]: one["value"] for one in window.devtools("Performance.getMetrics")["metrics"]}
                counts = page("[dds.model.claims.length, dds.model.devices.length, dds.model.strings.length]")
                sizes.append((metrics["JSHeapUsedSize"], metrics["Nodes"], *counts))
        first, *_, last = sizes
        for early, late in zip(first, last, strict=True):
            assert late <= early * 1.2, sizes
        assert last[2] <= keep * 5 // 4 + 20
