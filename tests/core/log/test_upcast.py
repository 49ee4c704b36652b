"""Old events reach new code through a gapless chain of pure steps."""

from typing import Any

import pytest

from dds_core.errors import UnknownEvent, UpcastError
from dds_core.replay.logged import Upcasts

Data = dict[str, Any]


def renamed(data: Data) -> Data:
    return {"uid": data["id"]}


def with_mode(data: Data) -> Data:
    return {**data, "mode": "observe"}


UPCASTS = Upcasts({"Claim": 3, "Node": 1}, {("Claim", 1): renamed, ("Claim", 2): with_mode})


def test_each_version_is_brought_to_the_current_one() -> None:
    assert UPCASTS("Claim", 1, {"id": "a"}) == {"uid": "a", "mode": "observe"}
    assert UPCASTS("Claim", 2, {"uid": "a"}) == {"uid": "a", "mode": "observe"}
    assert UPCASTS("Claim", 3, {"uid": "a", "mode": "x"}) == {"uid": "a", "mode": "x"}
    assert UPCASTS.decoded("Claim", 1, b'{"id":"a"}') == {"uid": "a", "mode": "observe"}


@pytest.mark.parametrize(
    ("type", "version", "words"),
    [("Claim", 4, "knows the type up to version 3"), ("Claim", 0, "up to version 3"), ("Pod", 1, "not at all")],
)
def test_what_this_code_does_not_know_is_said(type: str, version: int, words: str) -> None:
    with pytest.raises(UnknownEvent, match=words):
        UPCASTS(type, version, {})


@pytest.mark.parametrize(
    ("current", "steps", "words"),
    [
        ({"Claim": 3}, {("Claim", 1): renamed}, "the step of Claim from version 2 to 3 is missing"),
        ({"Claim": 3}, {("Claim", 2): renamed}, "from version 1 to 2 is missing"),
        ({"Claim": 1}, {("Claim", 1): renamed}, "from version 1 to 2 leads nowhere"),
        ({"Claim": 1}, {("Pod", 1): renamed}, "of Pod from version 1 to 2 leads nowhere"),
    ],
)
def test_a_gap_is_found_when_the_registry_is_made(current: dict[str, int], steps: Any, words: str) -> None:
    with pytest.raises(UpcastError, match=words):
        Upcasts(current, steps)
