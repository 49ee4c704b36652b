"""A scaler's state as plain data."""

from __future__ import annotations

from typing import Any

import msgspec

from dds_core.scaler.state import State, dump


def plain(state: State) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(dump(state))
    return found
