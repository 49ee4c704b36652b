"""Old events reach new code through a chain of pure steps."""

from typing import Any

import pytest

from dds_core.errors import UnknownEvent, UpcastError
from dds_core.replay.logged import Upcasts

Data = dict[str, Any]


def renamed(data: Data) -> Data:
    return {"uid": data["id"]}


def with_mode(data: Data) -> Data:
    return {**data, "mode": "observe"}


UPCASTS = Upcasts(4, {("Claim", 1): renamed, ("Claim", 3): with_mode})


def test_each_version_is_brought_to_the_current_one() -> None:
    assert UPCASTS("Claim", 1, {"id": "a"}) == {"uid": "a", "mode": "observe"}
    for version in (2, 3):
        assert UPCASTS("Claim", version, {"uid": "a"}) == {"uid": "a", "mode": "observe"}
    assert UPCASTS("Claim", 4, {"uid": "a", "mode": "x"}) == {"uid": "a", "mode": "x"}
    assert UPCASTS.decoded("Claim", 1, b'{"id":"a"}') == {"uid": "a", "mode": "observe"}


def test_a_type_whose_form_did_not_change_stays_as_it_is() -> None:
    assert UPCASTS("Node", 1, {"uid": "a"}) == {"uid": "a"}


@pytest.mark.parametrize("version", [5, 0])
def test_what_this_code_does_not_know_is_said(version: int) -> None:
    words = f"Claim is written in version {version} of its form, this version of dds knows up to 4"
    with pytest.raises(UnknownEvent, match=words):
        UPCASTS("Claim", version, {})


@pytest.mark.parametrize("version", [4, 0])
def test_a_step_without_use_is_found_when_the_registry_is_made(version: int) -> None:
    with pytest.raises(UpcastError, match=f"from version {version} to {version + 1} leads nowhere"):
        Upcasts(4, {("Claim", version): renamed})
