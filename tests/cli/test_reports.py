"""`dds report`: the file, for every kind of source, and what it says against what it cannot read."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.web.page import document
from dds_core.replay import of_steps
from dds_core.scaler.history import History
from tests.support.commands import FIRST_ATTACH, PROGRAM, RECORDINGS, environment, fine, log_of, refused
from tests.support.hostile import HOSTILE, hostile_recording

MOST_BYTES = 500 * 1024
"""Beside the data."""
NODE_LIMIT = str(RECORDINGS / "node_limit.jsonl.gz")


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of those that hold one."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._tag = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._tag = tag + (f"#{dict(attrs)['id']}" if "id" in dict(attrs) else "")

    def handle_data(self, data: str) -> None:
        self.texts[self._tag] = self.texts.get(self._tag, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""


def data_in(page: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(Elements(page).texts["script#data"], validate=True)))


def test_the_page_holds_the_data_and_asks_nobody_for_anything() -> None:
    page = fine("report", NODE_LIMIT)
    elements = Elements(page)
    asked = [
        (tag, name, value)
        for tag, attributes in elements.found
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "action", "data", "poster", "background", "ping", "formaction")
    ]
    assert asked == [("link", "href", "data:,")]
    handlers = [
        name for _, attributes in elements.found for name in attributes if name.startswith("on") or name == "style"
    ]
    assert handlers == []
    for source in (elements.texts["script"], elements.texts["style"]):
        assert (
            re.findall(
                r"@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|sendBeacon|\bimport\s*\(|importScripts", source
            )
            == []
        )
        assert "innerHTML" not in source.replace(uplot(), "") and "insertAdjacentHTML" not in source
    policy = next(a["content"] for tag, a in elements.found if a.get("http-equiv") == "Content-Security-Policy")
    assert (
        policy is not None
        and policy.startswith("default-src 'none'; ")
        and "unsafe" not in policy
        and "http" not in policy
    )
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(elements.texts[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert data_in(page) == json.loads(fine("report", NODE_LIMIT, "--json"))
    assert len(page.encode()) - len(elements.texts["script#data"]) <= MOST_BYTES


def uplot() -> str:
    return (Path(document.__code__.co_filename).parent / "vendor" / "uPlot.iife.min.js").read_text()


def test_every_kind_of_source_gives_the_same(tmp_path: Path) -> None:
    log = log_of(FIRST_ATTACH, tmp_path)
    export = str(tmp_path / "export.jsonl.gz")
    fine("log", "export", export, "--log", log)
    found = [json.loads(fine("report", one, "--json")) for one in (FIRST_ATTACH, log, export)]
    assert found[0] == found[1] == found[2]
    assert found[0]["log"] == "first_attach/scaler"


def test_a_page_is_the_same_bytes_on_any_output(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    fine("report", FIRST_ATTACH, "-o", str(file))
    for encoding in ("latin-1", "ascii", "utf-16"):
        where = {**environment(), "PYTHONIOENCODING": encoding}
        done = subprocess.run(
            [str(PROGRAM), "report", FIRST_ATTACH], capture_output=True, env=where, timeout=60, check=True
        )
        assert done.stdout == file.read_bytes()


def test_a_part_of_the_time() -> None:
    history_end = json.loads(fine("report", NODE_LIMIT, "--json"))["now"]
    until = json.loads(fine("report", NODE_LIMIT, "--json", "--until", "02:18:30"))
    assert until["now"] < history_end and until["summary"]["tiles"][0]["note"] == "1 bound, 2 still waiting"
    since = json.loads(fine("report", NODE_LIMIT, "--json", "--since", "02:19:40"))
    assert since["now"] == history_end and since["since"] > 0 and since["claims"] == []
    assert since["summary"]["tiles"][0]["note"] == "none was seen" and since["summary"]["causes"] == []
    position = json.loads(fine("report", NODE_LIMIT, "--json", "--since", "300"))
    assert 0 < position["since"] < since["since"]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    file = tmp_path / "incident.html"
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "empty" in refused("report", str(empty), "-o", str(file))
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(Path(NODE_LIMIT).read_bytes()[:-2000])
    assert "cut" in refused("report", str(cut), "-o", str(file))
    other = tmp_path / "other.png"
    other.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200))
    assert "give a recording" in refused("report", str(other), "-o", str(file))
    assert not file.exists(), "whole or not at all"
    publisher = str(RECORDINGS.parent / "logs" / "fleet-6-publisher.log.jsonl.gz")
    assert "it is the log of a publisher" in refused("report", publisher)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_data(name: str, tmp_path: Path) -> None:
    page = fine("report", hostile_recording(tmp_path, name))
    outer = Elements(page)
    plain = Elements(fine("report", FIRST_ATTACH))
    assert [tag for tag, _ in outer.found] == [tag for tag, _ in plain.found], "no element more than in any page"
    assert any(name in text for text in data_in(page)["strings"])
    around = page.replace(outer.texts["script#data"], "")
    assert name not in around or name == "x" * 5_000, "in the summary it is escaped"


def test_a_title_is_escaped() -> None:
    page = document("</title><script>alert(1)</script>", {})
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page


def test_history_of_an_empty_log_is_refused(tmp_path: Path) -> None:
    log = str(tmp_path / "log.sqlite3")
    fine("db", "upgrade", log)
    assert "it holds no log yet" in refused("report", log)
    assert History().read(of_steps(iter(()))).first == 0
