"""dds beside a lab that is faster than a cluster: what the scaler's constants measure passes sooner too.

with sooner(10): ...    # in this process, and in the programs of `dds_beside()` that are started meanwhile
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dds_core.scaler import deadlines, fence, settling
from dds_core.scaler.rules import failures
from tests.support.commands import PROGRAM

TIMES = "TIMES_SOONER"
CONSTANTS = (
    (deadlines, "UNLISTED_GRACE"),
    (fence, "FENCE_SETTLE"),
    (failures, "ERROR_GRACE"),
    (failures, "READ_BACK"),
    (settling, "GUARD_SETTLE"),
)


@contextmanager
def sooner(times: float) -> Iterator[None]:
    """Meanwhile each of these constants is so many times shorter."""
    before = [getattr(module, name) for module, name in CONSTANTS]
    os.environ[TIMES] = str(times)
    _set([round(value / times) for value in before])
    try:
        yield
    finally:
        del os.environ[TIMES]
        _set(before)


def dds_beside() -> list[str]:
    """How `dds` is started as a program."""
    return [sys.executable, "-m", __name__] if TIMES in os.environ else [str(PROGRAM)]


def _set(values: list[int]) -> None:
    for (module, name), value in zip(CONSTANTS, values, strict=True):
        setattr(module, name, value)


if __name__ == "__main__":
    from dds_commands import main

    with sooner(float(os.environ[TIMES])):
        sys.exit(main())
