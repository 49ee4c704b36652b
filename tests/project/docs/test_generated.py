"""The generated parts of the documentation are what the code says; the policy page's example is a policy."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
import yaml

from dds_core import Policy, events, from_reference, read_policy
from dds_core.lifecycle import CLAIM_TABLE, DEVICE_TABLE, Edge
from tests.project.docs.pages import PARTS, ROOT, filled


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PARTS)
def test_a_page_says_what_the_code_says(page: str) -> None:
    assert _text(page) == filled(page, _text(page)), "run: python -m tests.project.docs.generate"


def test_a_page_without_one_of_its_parts_is_found() -> None:
    text = _text("docs/policy.md").replace("<!-- end: drivers -->", "")
    with pytest.raises(LookupError, match="drivers"):
        filled("docs/policy.md", text)


def test_generating_twice_changes_nothing_and_keeps_what_is_written_by_hand() -> None:
    page = "docs/events.md"
    emptied = re.sub(r"(<!-- generated: [^>]+ -->\n).*?(<!-- end)", r"\1\2", _text(page), flags=re.DOTALL)
    assert emptied != _text(page)
    assert filled(page, emptied) == _text(page)


@pytest.mark.parametrize("edges", [CLAIM_TABLE, DEVICE_TABLE], ids=["claim", "device"])
def test_every_edge_stands_there_with_its_sentence(edges: Sequence[Edge]) -> None:
    text = _text("docs/lifecycle.md")
    assert all(edge.sentence in text and f"`{edge.trigger}`" in text for edge in edges)


def test_every_event_stands_there_once() -> None:
    found = re.findall(r"^\| `(\w+)` \|", _text("docs/events.md"), flags=re.MULTILINE)
    assert len(found) == len(set(found))
    assert set(events.TYPES) <= set(found)


def test_the_example_of_the_policy_page_is_a_policy() -> None:
    written = re.search(r"```yaml\n(.*?)```", _text("docs/policy.md"), flags=re.DOTALL)
    assert written is not None
    policy = read_policy(yaml.safe_load(written[1]))
    assert policy.mode == "detach"
    assert policy.limit_of("node0007", "A100 40G").max == 2
    assert policy.limit_of("node0001", "A100 40G").max == 4
    assert policy.limit_of("node0001", "H100 80G").max == 8
    assert policy.attach_budget("batch-scheduler") == 1_200_000_000
    assert policy.attach_budget("default-scheduler") == 540_000_000


def test_the_table_of_the_references_variables_is_true() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| `(\w+)` \| (\d+) \|$", _text("docs/policy.md"), flags=re.MULTILINE)
    assert len(rows) == 3
    for variable, knob, default in rows:
        assert getattr(Policy(), knob) == int(default)
        assert from_reference({variable: "7"}) == {knob: 7}
