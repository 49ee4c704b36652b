"""The page of `dds report` in a real browser: it opens, asks nobody for anything, and does what people do with it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Browser, browser, missing
from tests.support.commands import RECORDINGS, fine
from tests.support.hostile import HOSTILE, hostile_recording

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        bool(missing()), reason=f"no {missing()}: install Debian's packages chromium and chromium-driver"
    ),
    pytest.mark.xdist_group("browser"),
]

AXE = "axe-core-4.14.1.tgz"
AXE_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
READY = "window.dds?.model.revision && dds.frame === undefined"
WINDOW = (1280, 800)


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports of the incidents."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("attach_failure", "node_limit", "burst"):
        fine("report", str(RECORDINGS / f"{name}.jsonl.gz"), "-o", str(folder / f"{name}.html"))
    return folder


class Page:
    """A page that was opened, and what is on it."""

    def __init__(self, window: Browser, file: Path, fragment: str = "") -> None:
        self.window, self.file = window, file
        window.size(*WINDOW)
        window.dark(False)
        window.log("performance")
        window.log("browser")
        window.open("about:blank")
        window.open(f"{file.as_uri()}{fragment}")
        self.ready()

    def ready(self) -> Page:
        self.window.eventually(READY)
        return self

    def __call__(self, expression: str) -> Any:
        return self.window.run(f"return {expression}")

    def rows(self) -> list[str]:
        found: list[str] = self("dds.rows.rows.map((row) => row.text)")
        return found

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self(f"[...document.querySelectorAll({selector!r})].map((one) => one.textContent)")
        return found

    def seen(self) -> list[float]:
        """The instants between which the time is seen."""
        found: list[float] = self("[dds.view.from(), dds.view.to(dds.axis)].map((place) => dds.axis.instant(place))")
        return found

    def place(self, selector: str, x: float = 0.5, y: float = 0.5) -> tuple[float, float]:
        """A point of an element in the window."""
        box = self(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")
        return box["x"] + box["width"] * x, box["y"] + box["height"] * y

    def said(self) -> list[str]:
        """What the console was told."""
        return [one["message"] for one in self.window.log("browser")]

    def asked(self) -> list[str]:
        """Whatever was asked for over a network."""
        sent = [json.loads(one["message"])["message"] for one in self.window.log("performance")]
        urls = [one["params"]["request"]["url"] for one in sent if one["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith(("file:", "data:", "about:"))]


@pytest.mark.parametrize("name", ["attach_failure", "node_limit", "burst"])
def test_it_opens_without_an_error_or_a_request(window: Browser, pages: Path, name: str) -> None:
    page = Page(window, pages / f"{name}.html")
    data = json.loads(fine("report", str(RECORDINGS / f"{name}.jsonl.gz"), "--json"))
    assert page.texts("#sentences li") == data["summary"]
    assert len(page.rows()) == len(data["claims"])
    for tab in ("claims", "devices", "alerts", "waits"):
        window.click(f"#tab-{tab}")
        page.ready()
        assert page(f"document.getElementById('tab-{tab}').getAttribute('aria-selected')") == "true"
    assert page.said() == []
    assert page.asked() == []


def test_what_it_draws_is_there(window: Browser, pages: Path) -> None:
    """Bars stand where and in the colour that the data say."""
    page = Page(window, pages / "node_limit.html", "#tab=claims")
    pixel = """(() => {
      const claim = dds.rows.rows[0].thing, place = dds.rows.place, ratio = devicePixelRatio;
      const context = dds.rows.canvas.getContext('2d');
      return claim.spans.filter((span) => dds.model.end(span) - span.since > 1500).map((span) => {
        const x = place.x((span.since + dds.model.end(span)) / 2);
        const [r, g, b] = context.getImageData(Math.round(x * ratio), Math.round(12 * ratio), 1, 1).data;
        return [`rgb(${r}, ${g}, ${b})`, dds.palette().stages[span.stage]];
      });
    })()"""
    found = page(pixel)
    assert len(found) > 5 and all(drawn == meant for drawn, meant in found)
    used = page("dds.curves.plot.data[2].reduce((most, one) => Math.max(most, one), 0)")
    assert used == 2, "two devices were in use at once"


def test_the_scrubber_shows_the_picture_at_an_instant(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "burst.html")
    before = page.texts("#picture li")
    window.drag(page.place("#scrubber", 0.5), page.place("#scrubber", 0.6))
    page.ready()
    at = page("dds.instant")
    x = page.place("#scrubber", 0.6)[0]
    assert abs(page(f"dds.axis.instant(dds.placeAt({x}))") - at) < 500
    shown = page.texts("#picture li")
    expected = page(f"""(() => {{ const found = new Map();
      for (const one of [...dds.model.claims, ...dds.model.devices]) for (const span of one.spans)
        if (span.since <= {at} && {at} < (span.until ?? Infinity)) {{
          const name = one.kind === 'claim' ? dds.model.stageName(span.stage) : dds.model.states[span.state];
          found.set(name, (found.get(name) ?? 0) + 1); }}
      return [...found].map(([name, number]) => `${{number}} ${{name}}`).sort(); }})()""")
    assert sorted(shown) == expected != sorted(before)
    assert (
        page("document.getElementById('scrubber').getAttribute('aria-valuetext')")
        in page.texts("#picture h2")[0] + " UTC"
    )
    window.run("document.getElementById('scrubber').focus()")
    window.type("Home")
    assert page.ready()("dds.instant") == 0
    window.type("End")
    assert page.ready()("dds.instant") == page("dds.model.now")
    window.type("Left", "Left")
    assert 0 < page.ready()("dds.instant") < page("dds.model.now")


def test_zoom_and_pan_by_wheel_drag_and_keys(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "burst.html", "#tab=claims")
    whole = page.seen()
    window.wheel(*page.place("#chart", 0.6), -400)
    inner = page.ready().seen()
    assert whole[0] < inner[0] < inner[1] < whole[1]
    window.drag(page.place("#rows canvas", 0.6, 0.5), page.place("#rows canvas", 0.3, 0.5))
    moved = page.ready().seen()
    assert moved[0] > inner[0] and moved[1] - moved[0] == pytest.approx(inner[1] - inner[0])
    assert page("dds.state.sel") == "", "a drag is no click"
    window.drag(page.place("#chart", 0.5), page.place("#chart", 0.7))
    chosen = page.ready().seen()
    assert chosen[1] - chosen[0] < (moved[1] - moved[0]) / 2
    window.click("#whole")
    assert page.ready().seen() == whole
    window.run("document.getElementById('rows').focus()")
    window.type("+", "+", "Right")
    keyed = page.ready().seen()
    assert keyed[1] - keyed[0] < (whole[1] - whole[0]) / 1.9 and keyed[0] > whole[0]
    window.type("0")
    assert page.ready().seen() == whole
    window.click("#gaps")
    assert page.ready()("dds.axis.cuts.length") >= 0 and page("dds.axis.length") <= whole[1]


def test_a_click_opens_a_timeline_and_links_lead_on(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "node_limit.html")
    window.press(*page.place("#rows canvas", 0.2, 0.02))
    page.ready()
    assert page.texts("#detail h2") == ["claim default/job-2"]
    shown = fine("timeline", "default/job-2", str(RECORDINGS / "node_limit.jsonl.gz"), "--json")
    entries = json.loads(shown)
    assert page.texts("#detail .head li") == entries["summary"]
    assert any(
        text.startswith("12 × NodeLimit on node0000, node0001")
        for text in (one.partition(" ")[2] for one in page.texts("#detail summary"))
    )
    window.click("#facts")
    page.ready()
    told = page("[...document.querySelectorAll('#detail .entries > li:not(:has(> details))')].length")
    assert told == len(entries["entries"])
    window.run(
        "[...document.querySelectorAll('#detail p .link')].find((one) => one.textContent === 'node0001').click()"
    )
    assert page.ready().texts("#detail h2") == ["node node0001"]
    device = "[...document.querySelectorAll('#detail p .link')].find((one) => one.textContent.startsWith('GPU-'))"
    name = page(f"{device}.textContent")
    window.run(f"{device}.click()")
    assert page.ready().texts("#detail h2") == [f"device {name}"]
    window.run("document.querySelector('#detail .entries .time').click()")
    assert page.ready()("document.querySelector('#picture h2').textContent").endswith(
        page.texts("#detail .entries .time")[0]
    )


def test_search_and_order(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "burst.html")
    waits = page("dds.rows.rows.map((row) => dds.model.waited(row.thing))")
    assert len(waits) == 40 and waits == sorted(waits, reverse=True)
    window.run("document.body.focus()")
    window.type("/", "burst-01")
    assert sorted(page.ready().rows()) == [f"default/burst-01{n}" for n in range(10)]
    window.run(
        "document.getElementById('search').value = ''; document.getElementById('search').dispatchEvent(new Event('input'))"
    )
    window.run(
        "const sort = document.getElementById('sort'); sort.value = 'name'; sort.dispatchEvent(new Event('change'))"
    )
    assert page.ready().rows() == sorted(page.rows()) and len(page.rows()) == 40
    window.click("#tab-devices")
    for by in ("node", "fabric", "model"):
        window.run(
            f"const by = document.getElementById('group'); by.value = '{by}'; by.dispatchEvent(new Event('change'))"
        )
        groups = [text for text in page.ready().rows() if text.startswith(f"{by} ")]
        assert len(groups) == len(set(page(f"dds.model.devices.map((one) => one.{by})")))
        assert len(page.rows()) == 24 + len(groups)
    window.run(
        "const s = document.getElementById('search'); s.value = 'nothing such'; s.dispatchEvent(new Event('input'))"
    )
    assert page.ready().rows() == [] and page.texts("#none") == ["nothing matches nothing such"]


def test_it_can_be_used_by_keyboard_alone(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "node_limit.html")
    focused, seen = "document.activeElement.id || document.activeElement.tagName", []
    for _ in range(20):
        window.type("Tab")
        seen.append(page(focused))
    order = [
        one
        for one in seen
        if one in ("search", "theme", "tab-waits", "sort", "gaps", "out", "scrubber", "rows", "picture")
    ]
    assert order[:9] == ["search", "theme", "tab-waits", "sort", "gaps", "out", "scrubber", "rows", "picture"]
    window.run("document.getElementById('tab-waits').focus()")
    window.type("Right")
    assert page.ready()(focused) == "tab-claims" and page("dds.state.tab") == "claims"
    window.run("document.getElementById('rows').focus()")
    assert page("getComputedStyle(document.activeElement).outlineStyle") == "solid", "focus can be seen"
    window.type("Down")
    page.ready()
    active = (
        "document.getElementById(document.getElementById('rows').getAttribute('aria-activedescendant')).textContent"
    )
    assert page(active).startswith("default/job-1")
    window.type("Enter")
    assert page.ready()(focused) == "detail" and page.texts("#detail h2") == ["claim default/job-1"]
    window.type("Escape")
    assert page.ready()(focused) == "rows" and page("document.getElementById('detail').hidden")
    window.type("End", "Enter")
    assert page.ready().texts("#detail h2") == ["claim default/job-0"]


def test_the_address_keeps_what_is_looked_at(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "burst.html", "#tab=devices&group=model")
    window.click("#in")
    window.drag(page.place("#scrubber", 0.6), page.place("#scrubber", 0.65))
    window.press(*page.place("#rows canvas", 0.5, 0.15))
    window.click("#gaps")
    window.run(
        "const s = document.getElementById('search'); s.value = 'h100 & <b>'; s.dispatchEvent(new Event('input'))"
    )
    state = "JSON.stringify([dds.state, dds.instant, dds.rows.rows.length])"
    kept, seen = page.ready()(state), page.seen()
    page.window.eventually("location.hash.includes('q=') && location.hash.includes('sel=device')")
    fragment = page("location.hash")
    again = Page(window, pages / "burst.html", fragment)
    assert again(state) == kept
    assert again.seen() == pytest.approx(seen, abs=2)
    window.run("location.hash = '#tab=alerts'")
    window.eventually("dds.state.tab === 'alerts'")
    for broken in (
        "#tab=none&from=x&to=-1&at=1e999&sort=zz&group=constructor&sel=claim:none",
        "#%E0%A4%A&&=",
        "#sel=__proto__:x",
    ):
        assert Page(window, pages / "burst.html", broken).said() == []


def test_it_is_dark_where_people_want_it_dark(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "node_limit.html")
    back = "getComputedStyle(document.body).backgroundColor"
    light, bar = page(back), page("dds.palette().stages[1]")
    window.dark(True)
    window.eventually(f"{back} !== arguments[0] && dds.palette().key === 'dark'", light)
    assert page("dds.palette().stages[1]") != bar
    window.click("#theme")
    assert page.ready()(back) == light and page("dds.palette().key") == "light"
    assert page.said() == []


def test_it_prints(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "node_limit.html")
    window.run("document.getElementById('summary').open = false")
    assert window.printed().startswith(b"%PDF")
    assert page("document.getElementById('summary').open && document.getElementById('print').hidden")
    assert page.texts("#print tbody td:first-child") == ["default/job-2", "default/job-1", "default/job-0"]
    drawn = "new Set(document.querySelector('#print canvas').getContext('2d').getImageData(0, 0, 680, 56).data).size"
    assert page(drawn) > 10


@pytest.mark.parametrize("name", HOSTILE, ids=["script", "end", "quotes", "rtl", "long"])
def test_hostile_names_are_harmless(window: Browser, tmp_path: Path, name: str) -> None:
    file = tmp_path / "hostile.html"
    fine("report", hostile_recording(tmp_path, name), "-o", str(file))
    page = Page(window, file, "#tab=claims")
    window.press(*page.place("#rows canvas", 0.2, 0.02))
    assert name in page.ready().texts("#detail h2")[0]
    window.click("#facts")
    window.drag(page.place("#rows canvas", 0.2, 0.02), page.place("#rows canvas", 0.21, 0.02))
    window.run("window.dispatchEvent(new Event('beforeprint')); window.dispatchEvent(new Event('afterprint'))")
    page.ready()
    assert page("window.harm === undefined && !document.querySelector('img, svg, main script')")
    assert page("document.documentElement.scrollWidth <= innerWidth"), "a long name breaks no layout"
    assert page.said() == [] and page.asked() == []


def test_a_patch_changes_what_is_seen(window: Browser, pages: Path) -> None:
    """What a live page is given after the first: the selection, the part of the time and the order stay."""
    page = Page(window, pages / "node_limit.html", "#tab=claims&from=1000&to=20000")
    window.press(*page.place("#rows canvas", 0.2, 0.02))
    before = page.ready()("dds.model.strings.length")
    window.run("""const n = dds.model.strings.length, now = dds.model.now + 60000;
      dds.take({ now, strings: ["uid-new", "team/new", "waiting"], summary: ["one more"], devices: [],
        claims: [[3, n, n + 1, [n + 1], n + 2, 0, now - 50000, null, [0, now - 50000, null, 0], []]], accounts: [],
        alerts: [[now, n + 1, n + 2, n + 1]] });""")
    assert page.ready().rows()[0:3] == ["default/job-2", "default/job-1", "team/new"]
    assert page.texts("#sentences li") == ["one more"] and page.texts("#tab-alerts") == ["Alerts (1)"]
    assert page.seen() == pytest.approx([1000, 20000]) and page.texts("#detail h2") == ["claim default/job-2"]
    assert page("dds.model.strings.length") == before + 3
    assert page.said() == []


def test_a_file_that_was_cut_off_says_so(window: Browser, pages: Path, tmp_path: Path) -> None:
    text = (pages / "node_limit.html").read_text()
    begin = text.index('id="data">') + 200
    cut = tmp_path / "cut.html"
    cut.write_text(text[:begin] + text[text.index("</script>", begin) :])
    window.open(cut.as_uri())
    window.eventually("document.getElementById('span').textContent.includes('was the file cut off?')")


def test_axe_finds_no_serious_problem(window: Browser, pages: Path) -> None:
    source = axe()
    for dark in (False, True):
        for fragment in ("", "#tab=claims&sel=node:node0000", "#tab=devices", "#tab=alerts"):
            page = Page(window, pages / "node_limit.html", fragment)
            window.dark(dark)
            page.ready()
            window.run("window.dds.touch()")
            page.ready()
            window.devtools("Runtime.evaluate", expression=source)
            found = window.wait(
                "axe.run().then((found) => done(found.violations), (error) => done([{id: String(error)}]))"
            )
            serious = [
                (one["id"], [node["html"][:200] for node in one["nodes"]])
                for one in found
                if one.get("impact") in ("serious", "critical", None)
            ]
            assert serious == [], (dark, fragment)


def axe() -> str:
    """axe-core of the npm registry, kept for the next time. Skips the test where it cannot be had."""
    folder = Path.home() / ".cache" / "dds-tests"
    kept = folder / AXE
    if not kept.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm to fetch axe-core with")
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [npm, "pack", "axe-core@4.14.1", "--silent"], cwd=folder, capture_output=True, timeout=60, check=False
        )
        if done.returncode or not kept.is_file():
            pytest.skip("axe-core cannot be fetched from the npm registry")
    packed = kept.read_bytes()
    assert b64encode(hashlib.sha512(packed).digest()).decode() == AXE_SHA512
    return _member(gzip.decompress(packed), "package/axe.min.js")


def _member(archive: bytes, name: str) -> str:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        found = files.extractfile(name)
        assert found is not None
        return found.read().decode()
