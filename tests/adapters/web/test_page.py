"""The page's assets: what is vendored is what its maker published, and nothing that is filled in is filled in again."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files

from dds_adapters.web import page


def test_what_is_vendored_is_what_was_published() -> None:
    folder = files(page).joinpath("vendor")
    table = dict(re.findall(r"^\| (\S+) \| ([0-9a-f]{64}) \|$", folder.joinpath("README.md").read_text(), re.MULTILINE))
    found = {
        one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in folder.iterdir() if one.name != "README.md"
    }
    assert found == table
    assert folder.joinpath("uPlot.LICENSE").read_text().splitlines()[0] in page.script(), (
        "the licence goes with the copy"
    )


def test_a_part_that_looks_like_a_place_stays_text() -> None:
    made = page.document("{{data}} {{script}}", {})
    assert made.count("{{data}} {{script}}") == 2
    assert made.count('id="data"') == 1


def test_whom_the_page_may_ask_is_said_by_who_serves_it() -> None:
    assert "connect-src 'none'" in page.document("x", {})
    assert "connect-src 'self'" in page.live("x")
    assert "fetch(" in page.script(live=True) and "fetch(" not in page.script()
