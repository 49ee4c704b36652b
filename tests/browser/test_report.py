"""The page of `dds report` in a real browser: it opens, asks nobody for anything, and does what people do with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.web.page import document
from tests.browser.opened import Page, axe
from tests.support.browser import Browser, browser, missing
from tests.support.commands import RECORDINGS, fine
from tests.support.hostile import HOSTILE, hostile_recording

pytestmark = [
    pytest.mark.skipif(
        bool(missing()), reason=f"no {missing()}: install Debian's packages chromium and chromium-driver"
    ),
    pytest.mark.xdist_group("browser"),
]


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


@pytest.mark.parametrize("name", ["attach_failure", "node_limit", "burst"])
def test_it_opens_without_an_error_or_a_request(window: Browser, pages: Path, name: str) -> None:
    page = Page(window, pages / f"{name}.html")
    data = json.loads(fine("report", str(RECORDINGS / f"{name}.jsonl.gz"), "--json"))
    summary = data["summary"]
    assert page.texts("#tiles dd:not(.note)") == [one["value"] for one in summary["tiles"]]
    assert len(page.texts("#causes li")) == len(summary["causes"]) and page.texts("#notes li") == summary["notes"]
    assert len(page.rows()) == len(data["claims"])
    for tab in ("devices", "waits", "alerts", "claims"):
        window.click(f"#tab-{tab}")
        page.ready()
        assert page(f"document.getElementById('tab-{tab}').getAttribute('aria-selected')") == "true"
    assert page.said() == []
    assert page.asked() == []


def test_the_summary_needs_no_script(window: Browser, pages: Path) -> None:
    window.devtools("Emulation.setScriptExecutionDisabled", value=True)
    try:
        Page(window, pages / "node_limit.html", wait=False)
        root = window.devtools("DOM.getDocument")["root"]["nodeId"]

        def text(selector: str) -> str:
            found = window.devtools("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
            return str(window.devtools("DOM.getOuterHTML", nodeId=found)["outerHTML"])

        def is_shown(selector: str) -> bool:
            found = window.devtools("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
            window.devtools("CSS.enable")
            style = window.devtools("CSS.getComputedStyleForNode", nodeId=found)["computedStyle"]
            return any(one["name"] == "display" and one["value"] != "none" for one in style)

        assert "19 of 24" in text("#tiles") and "18 × NodeLimit" in text("#notes") and "retry" in text("#causes")
        assert "2026-11-21 02:18:03 to 02:19:49 UTC" in text("#span")
        assert is_shown("#summary") and is_shown("#tiles")
        assert not any(is_shown(one) for one in ("#board", "aside", "#search", "#theme")), "nothing that does nothing"
    finally:
        window.devtools("Emulation.setScriptExecutionDisabled", value=False)


def test_what_it_draws_is_there(window: Browser, pages: Path) -> None:
    """Bars stand where and in the colour that the data say; some are hatched."""
    page = Page(window, pages / "node_limit.html")
    pixels = """(() => {
      const claim = dds.rows.rows[0].thing, place = dds.rows.place, ratio = devicePixelRatio;
      const context = dds.rows.canvas.getContext('2d');
      return claim.spans.filter((span) => dds.model.end(span) - span.since > 1500).map((span) => {
        const x = place.x((span.since + dds.model.end(span)) / 2);
        const colourAt = (n) => context.getImageData(Math.round((x - 2 + n) * ratio), Math.round(12 * ratio), 1, 1).data;
        const found = [0, 1, 2, 3, 4].map((n) => colourAt(n)).map(([r, g, b]) => `rgb(${r}, ${g}, ${b})`);
        return [found, dds.palette().stages[span.stage], dds.model.stageName(span.stage)];
      });
    })()"""
    found = page(pixels)
    assert len(found) > 5 and all(meant in drawn for drawn, meant, _ in found)
    hatched = {stage: len(set(drawn)) > 1 for drawn, _, stage in found}
    assert hatched["retry"] and not hatched["hand-over"]
    used = page("dds.curves[1].plot.data[2].reduce((most, one) => Math.max(most, one), 0)")
    assert used == 2, "two devices were in use at once"


def test_the_stock_of_each_pool_is_a_curve(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "burst.html")
    data = json.loads(fine("report", str(RECORDINGS / "burst.jsonl.gz"), "--json"))
    last: dict[str, int] = {}
    least: dict[str, int] = {}
    for _, pool, free in data["stock"]:
        name = data["strings"][pool]
        last[name], least[name] = free, min(free, least.get(name, free))
    assert set(last) == {"A100 40G, fabric 1", "H100 80G, fabric 1"} and min(least.values()) == 0
    assert page("Object.fromEntries(dds.curves[2].series.map((one) => [one.name, one.low]))") == least
    drawn = "Object.fromEntries(dds.curves[2].plot.data.slice(1).map((list, n) => [dds.curves[2].plot.series[n + 1].label, list"
    assert page(f"{drawn}.reduce((low, one) => one === null ? low : Math.min(low, one), 99)]))") == least, (
        "an empty pool is seen"
    )
    window.run("dds.scrub(dds.model.now)")
    assert sorted(page.ready().texts("#picture li:has(b)")) == sorted(f"{free} {name}" for name, free in last.items())
    assert f"{next(iter(least))}, at least" in page(
        "document.getElementById('curves-pools').getAttribute('aria-label')"
    )


def test_a_view_has_one_axis(window: Browser, pages: Path) -> None:
    """Durations have a ruler at the top, and nothing beside them that goes by the clock."""
    page, shown = Page(window, pages / "burst.html"), "(id) => document.getElementById(id).offsetParent !== null"
    parts = ["curves", "scrubber", "zoom", "cutting", "within"]
    assert page(f"{parts}.every({shown}) && !['ruler'].some({shown})")
    window.click("#tab-waits")
    assert page.ready()(f"!{parts}.some({shown}) && ['ruler'].every({shown})")
    assert page("document.getElementById('line').hidden")
    top, rows = (
        page(f"document.getElementById('{one}').getBoundingClientRect().{side}")
        for one, side in (("ruler", "bottom"), ("rows", "top"))
    )
    assert top == rows
    ink = "[...document.querySelector('#ruler canvas').getContext('2d').getImageData(0, 0, 300, 29).data].some((one) => one)"
    assert page(ink)


def test_names_are_cut_in_the_middle(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "burst.html", "#tab=devices")
    name = "document.querySelector('.row.device .name')"
    assert page(f"{name}.textContent") == page("dds.rows.rows[1].text") == page(f"{name}.title")
    tail = page(f"{name}.lastChild.textContent")
    assert len(tail) == 9 and page("dds.rows.rows[1].text").endswith(tail)
    assert page(f"{name}.firstChild.scrollWidth > {name}.firstChild.clientWidth"), "what lies before its end is cut"


def test_the_curves_of_another_source_are_under_its_own(window: Browser, tmp_path: Path) -> None:
    burst, other = (str(RECORDINGS / f"{name}.jsonl.gz") for name in ("burst", "node_limit"))
    fine("report", burst, "--beside", other, "-o", str(tmp_path / "two.html"))
    page = Page(window, tmp_path / "two.html")
    most = "dds.curves[1].plot.data.slice(1).map((list) => list.reduce((most, one) => Math.max(most, one), 0))"
    alone, beside = (
        page(f"{one}.curves('devices').map((one) => one.peak)") for one in ("dds.model", "dds.model.beside")
    )
    assert page(most) == [*alone, *beside] and alone != beside
    assert page("dds.curves[1].plot.series.slice(4).map((one) => one.label)") == [
        f"{name}, {other}" for name in ("devices, all states", "in use", "idle")
    ]
    assert "dotted: " in page.texts("#legend")[0]
    assert page.said() == [] and page.asked() == []


def test_the_scrubber_shows_the_picture_at_an_instant(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "burst.html")
    before = page.texts("#picture li:not(:has(b))")
    window.drag(page.place("#scrubber", 0.5), page.place("#scrubber", 0.6))
    page.ready()
    at = page("dds.instant")
    x = page.place("#scrubber", 0.6)[0]
    assert abs(page(f"dds.axis.instant(dds.placeAt({x}))") - at) < 500
    shown = page.texts("#picture li:not(:has(b))")
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
    window.wheel(*page.place("#curves-devices", 0.6), -400)
    inner = page.ready().seen()
    assert whole[0] < inner[0] < inner[1] < whole[1]
    window.drag(page.place("#rows canvas", 0.6, 0.5), page.place("#rows canvas", 0.3, 0.5))
    moved = page.ready().seen()
    assert moved[0] > inner[0] and moved[1] - moved[0] == pytest.approx(inner[1] - inner[0])
    assert page("dds.state.sel") == "", "a drag is no click"
    window.drag(page.place("#curves-devices", 0.5), page.place("#curves-devices", 0.7))
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
    window.type("+", "+", "+", "+")
    window.click("#only")
    rows = page.ready().rows()
    assert 0 < len(rows) < 40
    window.type("0")
    window.run("dds.look(() => { dds.view.range = null; })")
    assert len(page.ready().rows()) == 40


def test_two_fingers_zoom_where_they_are(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "burst.html", "#tab=claims")
    x, y = page.place("#rows canvas", 0.5)
    whole, at = page.seen(), page(f"dds.axis.instant(dds.placeAt({x}))")
    window.pinch(x, y, (40, 160))
    seen = page.ready().seen()
    assert (seen[1] - seen[0]) == pytest.approx((whole[1] - whole[0]) / 4, rel=0.2)
    assert page(f"dds.axis.instant(dds.placeAt({x}))") == pytest.approx(at, abs=(whole[1] - whole[0]) / 20)
    assert page("dds.state.sel") == ""


def test_long_times_without_a_change_are_cut_out(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "attach_failure.html", "#tab=claims")
    whole = page("dds.axis.length")
    window.click("#gaps")
    cuts = page.ready()("dds.axis.cuts.map((gap) => [gap.since, gap.until])")
    lost = sum(until - since for since, until in cuts)
    assert cuts and lost > whole / 3
    assert page("dds.axis.length") == pytest.approx(whole - lost + len(cuts) * whole / 300)
    assert page("dds.seen()") == [0, whole], "all of it is still there"
    instants = page("[...dds.model.instants()]")
    assert not any(since < at < until for at in instants for since, until in cuts), "nothing is lost with them"
    assert page("[...dds.model.instants()].every((at) => Math.abs(dds.axis.instant(dds.axis.place(at)) - at) < 1)")
    ticks = page("dds.axis.ticks(0, dds.axis.length, 1000, dds.model.start).found")
    assert ticks and not any(since < at < until for at in ticks for since, until in cuts)
    window.click("#gaps")
    assert page.ready()("dds.axis.length") == whole


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
    page = Page(window, pages / "burst.html", "#tab=waits")
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


def test_search_finds_models_and_causes_in_every_view(window: Browser, pages: Path, tmp_path: Path) -> None:
    data = json.loads(fine("report", str(RECORDINGS / "node_limit.jsonl.gz"), "--json"))
    text = len(data["strings"])
    data["strings"] += ["default/job-2", "NoProgress", "nothing has come", "node0001", "Other", "another story"]
    data["alerts"] = [[9000, text, text + 1, text + 2], [9500, text + 3, text + 4, text + 5]]
    file = tmp_path / "alerts.html"
    file.write_text(document("alerts", data), encoding="utf-8")
    page = Page(window, file)

    def found(tab: str, search: str) -> int:
        window.run(
            "dds.change({tab: arguments[0]}); const s = document.getElementById('search'); s.value = arguments[1];"
            "s.dispatchEvent(new Event('input'))",
            *(tab, search),
        )
        page.ready()
        return page("document.querySelectorAll('#alerts tbody tr').length") if tab == "alerts" else len(page.rows())

    for tab, whole in (("claims", 3), ("waits", 3), ("devices", 6), ("alerts", 2)):
        assert found(tab, "") == whole
        assert found(tab, "a100") == (1 if tab == "alerts" else whole), "a model"
        assert 0 < found(tab, "nodelimit") <= whole, "a cause"
        assert found(tab, "nothing-such") == 0
    assert found("claims", "hand-over") == 2 and found("claims", "nodelimit a100 node0001 job-2") == 1
    window.click("#tab-alerts")
    assert "nothing matches" not in page.ready().texts("#alerts")[0]


def test_it_can_be_used_by_keyboard_alone(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "node_limit.html")
    focused, seen = "document.activeElement.id || document.activeElement.tagName", []
    for _ in range(24):
        window.type("Tab")
        seen.append(page(focused))
    order = [
        one
        for one in seen
        if one in ("search", "theme", "tab-claims", "sort", "gaps", "out", "scrubber", "rows", "picture")
    ]
    assert order[:9] == ["search", "theme", "tab-claims", "sort", "gaps", "out", "scrubber", "rows", "picture"]
    window.run("document.getElementById('tab-claims').focus()")
    window.type("Right", "Right")
    assert page.ready()(focused) == "tab-waits" and page("dds.state.tab") == "waits"
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
    window.press(*page.place("#rows canvas", 0.5, 0.25))
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


def test_it_can_be_used_on_a_small_screen(window: Browser, pages: Path) -> None:
    page = Page(window, pages / "burst.html")
    window.size(390, 844)
    box = "document.querySelector('{}').getBoundingClientRect()"
    for tab in ("claims", "devices", "waits", "alerts"):
        window.run(f"document.getElementById('tab-{tab}').click()")
        page.ready()
        assert page("document.documentElement.scrollWidth <= innerWidth"), f"{tab}: nothing stands out at the side"
        assert page("dds.width") > 200 or tab == "alerts", "there is room for bars"
        named = "[...document.querySelectorAll('.row:not([hidden]) .name span + span')]"
        assert page(f"{named}.every((one) => one.scrollWidth <= one.clientWidth + 1)"), (
            f"{tab}: the end of a name is read"
        )
    window.run("document.getElementById('tab-claims').click(); document.getElementById('board').scrollIntoView()")
    window.press(*page.ready().place("#rows canvas", 0.2, 0.02))
    seen = page.ready()(box.format("#detail"))
    assert page("document.getElementById('hint').offsetParent") is None
    assert 0 < seen["top"] < 844 and seen["bottom"] == 844, "what was chosen is seen without a search for it"
    window.press(*page.place("#detail .close"))
    assert page.ready()("document.getElementById('detail').hidden")


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
    shown = re.sub("[\u200b-\u2069]", lambda found: f"\\u{ord(found[0]):04x}", name)
    assert shown in page.ready().texts("#detail h2")[0], "nothing in it turns around what follows"
    assert any(shown in text for text in page.texts("#told"))
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
      dds.take({ now, strings: ["uid-new", "team/new", "waiting"], devices: [],
        claims: [[3, n, n + 1, [n + 1], n + 2, 0, now - 50000, null, [0, now - 50000, null, 0], []]], accounts: [],
        alerts: [[now, n + 1, n + 2, n + 1]] });""")
    assert page.ready().rows()[0:3] == ["default/job-2", "default/job-1", "team/new"]
    assert page.texts("#tab-alerts") == ["Alerts (1)"]
    assert page.seen() == pytest.approx([1000, 20000]) and page.texts("#detail h2") == ["claim default/job-2"]
    assert page("dds.model.strings.length") == before + 3
    assert page.said() == []


def test_ten_thousand_claims_stay_smooth(window: Browser, tmp_path: Path) -> None:
    """The bounds leave room for a machine that does something else besides."""
    data = many(json.loads(fine("report", str(RECORDINGS / "burst.jsonl.gz"), "--json")), 250)
    file = tmp_path / "many.html"
    file.write_text(document("many", data), encoding="utf-8")
    page = Page(window, file, "#tab=claims")
    assert len(page.rows()) == 10_000
    assert page("performance.getEntriesByName('first-contentful-paint')[0].startTime") < 1000
    for tab in ("waits", "claims", "devices"):
        window.click(f"#tab-{tab}")
        page.ready()
        drawn = window.wait("""const draw = dds.draw, took = [], rows = document.getElementById('rows');
          dds.draw = () => { const begun = performance.now(); draw.call(dds); took.push(performance.now() - begun); };
          dds.zoom(0.2);
          const step = () => { rows.scrollTop += 333; dds.move(5000); dds.touch();
            if (took.length < 40) return requestAnimationFrame(step);
            delete dds.draw; done(took.sort((one, other) => one - other)); };
          requestAnimationFrame(step);""")
        assert drawn[20] < 16, f"{tab}: half of all drawings take {drawn[20]} ms or more"
        labels = page("[...document.querySelectorAll('.row')].length")
        assert 0 < labels < 60, "only rows that are seen exist"
    assert page("document.getElementById('rows').scrollTop") > 10_000
    assert page.said() == []


def many(data: dict[str, Any], times: int) -> dict[str, Any]:
    """The same again and again, each twenty seconds later."""
    claims, devices = len(data["claims"]), len(data["devices"])
    found: dict[str, Any] = {**data, "claims": [], "devices": [], "accounts": [], "strings": list(data["strings"])}
    found["now"] = data["now"] + times * 20_000
    for round_ in range(times):
        late = round_ * 20_000
        for number, _, name, *rest, first, gone, spans, attempts in data["claims"]:
            found["strings"] += [f"uid-{round_}-{number}", f"{data['strings'][name]}-{round_}"]
            named = [len(found["strings"]) - 2, len(found["strings"]) - 1]
            spans = [one + late if n % 4 in (1, 2) else one for n, one in enumerate(spans)]
            attempts = [[since + late, until + late, *more] for since, until, *more in attempts]
            row = [number + round_ * claims, *named, *rest, first + late, gone + late if gone else None]
            found["claims"].append([*row, spans, attempts])
        for number, *rest, first, gone, spans in data["devices"]:
            held = [[s, a + late, b + late, [one + round_ * claims for one in h]] for s, a, b, h in spans]
            found["devices"].append([number + round_ * devices, *rest, first + late, gone + late, held])
    return found


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
        for fragment in ("", "#tab=claims&sel=node:node0000", "#tab=devices", "#tab=waits", "#tab=alerts"):
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
