"""dds beside a lab that is faster than a cluster: what the scaler's constants measure passes sooner too.

with sooner(10, "FENCE_SETTLE"): ...    # in this process, and in the programs of `dds_beside()` that are started meanwhile
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
def sooner(times: float, *only: str) -> Iterator[None]:
    """Meanwhile each of these constants (all, or `only` those) is so many times shorter."""
    before = [getattr(module, name) for module, name in CONSTANTS]
    os.environ[TIMES] = " ".join((str(times), *only))
    names = [name for _, name in CONSTANTS]
    _set(
        [round(value / times) if not only or name in only else value for name, value in zip(names, before, strict=True)]
    )
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

    times, *only = os.environ[TIMES].split()
    with sooner(float(times), *only):
        sys.exit(main())
