"""The public interface is documented: every export stands on its page and has a docstring, and the page's examples run."""

from __future__ import annotations

import doctest
import inspect
import re
from operator import attrgetter
from types import ModuleType

import pytest

import dds_core
from tests.project.docs.pages import ROOT

PAGE = ROOT / "docs/api.md"

_BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def _described() -> set[str]:
    """The names in the first column of the page's tables."""
    cells = re.findall(r"^\| (`[^|]+`) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)}


def test_every_export_is_on_the_page() -> None:
    assert {name for name in _described() if "." not in name} == set(dds_core.__all__)
    assert len(dds_core.__all__) <= 25, "the rest belongs into modules"


@pytest.mark.parametrize("name", sorted(_described()))
def test_every_name_on_the_page_says_what_it_is(name: str) -> None:
    """Constants are exempt: Python gives them no docstring of their own."""
    export = attrgetter(name)(dds_core)
    if isinstance(export, ModuleType) or inspect.isclass(export) or inspect.isroutine(export):
        assert export.__doc__ or name.startswith("SCALER."), f"dds_core.{name} has no docstring"
    else:
        assert name.isupper() or name == "SCALER.projection" or name.rpartition(".")[2].isupper()


def test_the_examples_run_and_give_what_they_say() -> None:
    """All blocks of the page in order, in one namespace, as a reader would type them."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = _BLOCK.findall(text)
    assert len(blocks) > 10
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, "docs/api.md", str(PAGE), 0)
    told: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(test, out=told.append)
    assert outcome.attempted > 50
    assert not outcome.failed, "".join(told)
