"""What a change wakes is enough: a pass over everything finds nothing after any group (`tests/support/passes.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_adapters.jsonl import JsonlLog
from dds_core.scaler.component import Engine
from tests.core.golden.replays import ALL, DATA, replayed
from tests.support.passes import nothing_left, play_stream, stepped

LOGS = sorted((DATA / "logs").glob("*-scaler.log.jsonl.gz"))
A_TURN = 20
"""Streams that one test plays."""


@pytest.mark.parametrize("name", ALL)
def test_a_pass_finds_nothing_in_a_recording(name: str) -> None:
    engine = Engine()
    for step in replayed(name, engine=engine):
        nothing_left(engine, step)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name.partition(".")[0])
def test_a_pass_finds_nothing_in_a_log(path: Path) -> None:
    for engine, step in stepped(JsonlLog(str(path)).read()):
        nothing_left(engine, step)


@pytest.mark.parametrize(
    "first",
    [
        *range(0, 100, A_TURN),
        *(pytest.param(n, marks=pytest.mark.full) for n in range(100, 500, A_TURN)),
        *(pytest.param(n, marks=pytest.mark.soak) for n in range(500, 3000, A_TURN)),
    ],
)
def test_a_pass_finds_nothing_in_random_streams(first: int) -> None:
    for seed in range(first, first + A_TURN):
        play_stream(seed)
