"""JSON merge patch: what is shared, and what is no patch. tests/property/lab holds it to the definition of RFC 7386."""

from typing import Any

import pytest

from dds_lab.api.patches import merge_patch
from dds_lab.api.status import ApiError


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
