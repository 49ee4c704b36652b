"""The public interface is documented: every export stands on its page and has a docstring, and the page's examples run."""

from __future__ import annotations

import doctest
import inspect
import re
from types import ModuleType

import pytest

import dds_core
from tests.project.docs.pages import ROOT

PAGE = ROOT / "docs/api.md"

_BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def _described() -> set[str]:
    """The names in the first column of the page's tables."""
    cells = re.findall(r"^\| (`[^|]+`) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_every_export_is_on_the_page_and_nothing_else() -> None:
    assert _described() == set(dds_core.__all__)


@pytest.mark.parametrize("name", dds_core.__all__)
def test_every_export_says_what_it_is(name: str) -> None:
    """Constants are exempt: Python gives them no docstring of their own."""
    export = getattr(dds_core, name)
    if isinstance(export, ModuleType) or inspect.isclass(export) or inspect.isroutine(export):
        assert export.__doc__, f"dds_core.{name} has no docstring"
    else:
        assert name.isupper(), f"dds_core.{name} is neither a constant nor anything with a docstring"


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
