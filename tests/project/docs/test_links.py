"""What the documentation refers to is there: its links between pages and files, and the files that it names."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.project.docs.pages import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
_FILE = re.compile(r"`((?:tests|dds_core|adapters|lab|cli|migrations|examples|benchmarks|docs)/[\w./-]*\w/?)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [one for one in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in one]
    missing = [one for one in targets if not (page.parent / one).exists()]
    assert not missing, f"{page.name} links to what is not there"


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_a_part_of_a_page_lead_there(page: Path) -> None:
    found = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    missing = [f"{to}#{part}" for to, part in found if part not in anchors(page.parent / to if to else page)]
    assert not missing, f"{page.name} links to what is not there"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_are_there(page: Path) -> None:
    named = _FILE.findall(page.read_text(encoding="utf-8"))
    missing = [one for one in named if not (ROOT / one).exists()]
    assert not missing, f"{page.name} names what is not there"


def test_modules_of_the_architecture_are_there() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| module \|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", text, flags=re.MULTILINE)
    rows = [row.split("|")[1] for table in tables for row in table.splitlines()]
    named = {name.removesuffix(".*") for row in rows for name in re.findall(r"`([a-z_.]+\*?)`", row)}
    modules = {name if name.startswith("dds_") else f"dds_adapters.{name}" for name in named}
    assert len(modules) > 10
    assert {name for name in modules if find_spec(name) is None} == set()


def test_every_fault_has_its_row_and_every_test_of_one_is_named() -> None:
    text = (ROOT / "docs/rules.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| B(\d+) \|", text, flags=re.MULTILINE))
    assert rows == {str(number) for number in range(1, 31)} - {"29"}
    assert "B29" in text
    tests = {path.name for path in (ROOT / "tests/core/scaler").glob("test_b[0-9]*.py")}
    assert not {name for name in tests if name not in text}
