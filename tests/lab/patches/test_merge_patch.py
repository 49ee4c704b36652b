"""JSON merge patch: the table of RFC 7386, appendix A, as far as it is about objects, and what is no patch."""

import copy
from typing import Any

import pytest

from dds_lab.api.patches import merge_patch
from dds_lab.api.status import ApiError


@pytest.mark.parametrize(
    ("original", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "b"}, {"a": {"c": None, "d": 1}}, {"a": {"d": 1}}),
        ({"a": 1}, {}, {"a": 1}),
        ({"a": [{"b": 1, "c": None}]}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
    ],
)
def test_table(original: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy((original, patch))
    assert merge_patch(original, patch) == expected
    assert (original, patch) == before


def test_what_changes_nothing_gives_the_same_object() -> None:
    original = {"a": {"b": "c"}, "d": [1]}
    assert merge_patch(original, {"a": {"x": None}, "y": None}) is original
    assert merge_patch(original, {"e": 1})["a"] is original["a"]


@pytest.mark.parametrize("patch", [[], ["a"], "text", 5, None, True, 1.5])
def test_what_is_no_patch(patch: Any) -> None:
    with pytest.raises(ApiError) as refused:
        merge_patch({"a": 1}, patch)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    assert "json: cannot unmarshal" in str(refused.value)
