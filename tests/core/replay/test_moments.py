"""What of a stored log is decoded when it is read by moments."""

from __future__ import annotations

import pytest

from dds_core.errors import MalformedEvent
from dds_core.events import Synced
from dds_core.log import CHECKPOINT, LeanEvent
from dds_core.replay import moments
from dds_core.scaler.component import SCALER


def row(position: int, type: str, data: bytes | None) -> LeanEvent:
    return LeanEvent(position, "scaler", type, 1, position, None, None, data)


UNREADABLE = row(3, CHECKPOINT, b"no JSON")


def test_a_checkpoint_that_is_left_out_is_not_decoded() -> None:
    told = list(moments([row(2, "Synced", b"{}"), UNREADABLE], SCALER, {CHECKPOINT}))
    assert [(one.position, one.fact) for one in told] == [(2, Synced()), (3, None)]


def test_a_checkpoint_is_needed_for_what_was_erased_before_it() -> None:
    with pytest.raises(MalformedEvent, match="position 3"):
        list(moments([row(2, "Synced", None), UNREADABLE], SCALER, {CHECKPOINT}))
