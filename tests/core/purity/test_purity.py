"""The core reads no clock, no chance, no environment, and does no input or output: the same facts give the same bytes at any
time and anywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from freezegun import freeze_time

from dds_core.publisher.component import PUBLISHER
from dds_core.scaler.policy import Policy
from tests.core.purity.facts import facts_of, lines, read
from tests.core.purity.isolated import replayed
from tests.support.pool_story import A100, told_story

REPOSITORY = Path(__file__).parents[3]
CASES = [("first_attach", "observe"), ("two_claims", "detach"), ("node_limit", "attach"), ("shares", "observe")]


def isolated(facts: bytes, component: str, **environment: str) -> dict[str, object]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.core.purity.isolated", component],
        input=facts,
        capture_output=True,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()
    found: dict[str, object] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize(("recording", "mode"), CASES)
def test_the_time_of_day_changes_nothing(recording: str, mode: str) -> None:
    facts = read(facts_of(recording, Policy.model_validate({"mode": mode})))
    now = replayed(facts)
    for moment in ("1970-01-01", "2038-01-19 03:14:08"):
        with freeze_time(moment):
            assert replayed(facts) == now
    with freeze_time("2026-03-29 00:59:59", tz_offset=-11, auto_tick_seconds=86_400):
        assert replayed(facts) == now


@pytest.mark.parametrize(("recording", "mode"), CASES[:2])
def test_the_core_touches_nothing_outside(recording: str, mode: str) -> None:
    """In a process of its own, with another hash seed and time zone: no file, socket, process, import, clock or chance."""
    facts = facts_of(recording, Policy.model_validate({"mode": mode}))
    found = isolated(facts, "scaler", PYTHONHASHSEED="7", TZ="Pacific/Kiritimati")
    assert found == {"digest": replayed(read(facts)), "did": []}


def published() -> bytes:
    """The facts of a publisher, with time behind them for its deadlines."""
    story = told_story()
    story.tick(1000)
    story.stock("1", A100, 3)
    return lines(story.steps)


def test_the_publishers_half_is_as_pure() -> None:
    facts = published()
    now = replayed(read(facts), PUBLISHER)
    with freeze_time("2038-01-19 03:14:08"):
        assert replayed(read(facts), PUBLISHER) == now
    found = isolated(facts, "publisher", PYTHONHASHSEED="7", TZ="Pacific/Kiritimati")
    assert found == {"digest": now, "did": []}


def test_the_watch_sees_what_is_forbidden(tmp_path: Path) -> None:
    """The hook and the broken clocks of the test above do catch something."""
    script = (
        "from tests.core.purity.isolated import forbid\n"
        "import time\n"
        "did = set()\n"
        "forbid(did)\n"
        f"open({str(tmp_path / 'x')!r}, 'w').close()\n"
        "try:\n    time.time()\nexcept AssertionError:\n    did.add('clock')\n"
        "print(sorted(did))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=REPOSITORY, check=True)
    assert run.stdout.strip() == "['clock', 'open']"
