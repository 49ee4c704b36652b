"""Logs written in one process are verified in another, with another hash seed, time zone, batch size and back end, after
export, import, archive and a round trip through PostgreSQL: clean each time, and with the same bytes.

Every pair of settings occurs in the normal suite, every combination under the marker `soak`.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.adapters.log.writer import Job, groups
from tests.support.postgres import Postgres

REPOSITORY = Path(__file__).parents[3]

RECORDINGS = ("first_attach", "many_devices", "attach_failure")
MODES = ("observe", "detach")
BACKENDS = ("memory", "sqlite", "postgres")
BATCHES = (1, 7, 1000)
JOURNEYS = ("stay", "moved", "round-trip", "archived", "restored")
SURROUNDINGS = (
    ({"PYTHONHASHSEED": "0", "TZ": "UTC"}, {"PYTHONHASHSEED": "4711", "TZ": "Asia/Kathmandu"}),
    ({"PYTHONHASHSEED": "1", "TZ": "Pacific/Chatham"}, {"PYTHONHASHSEED": "random", "TZ": "America/St_Johns"}),
)
"""Of the writer and of who verifies."""


class Case(NamedTuple):
    recording: str
    mode: str
    backend: str
    written: int
    read: int
    surroundings: int
    journey: str


FACTORS: tuple[tuple[Any, ...], ...] = (RECORDINGS, MODES, BACKENDS, BATCHES, BATCHES, (0, 1), JOURNEYS)


def pairs_of(case: Iterable[Any]) -> set[tuple[int, Any, int, Any]]:
    return {(i, a, j, b) for (i, a), (j, b) in itertools.combinations(enumerate(case), 2)}


def pairwise() -> list[Case]:
    """Few cases in which every pair of settings occurs, chosen greedily; the same ones each time."""
    every = [Case(*values) for values in itertools.product(*FACTORS)]
    missing = set().union(*map(pairs_of, every))
    chosen: list[Case] = []
    while missing:
        best = max(every, key=lambda case: len(pairs_of(case) & missing))
        chosen.append(best)
        missing -= pairs_of(best)
    return chosen


PAIRWISE = pairwise()


def run(module: str, surroundings: dict[str, str], jobs: bytes) -> Any:
    """What a module of this folder prints when it runs as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.adapters.log.{module}", jobs.decode()],
        cwd=REPOSITORY,
        env={**os.environ, **surroundings},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@cache
def length_of(recording: str, mode: str) -> int:
    """Events in the log: those of the replay, the checkpoint and the opening."""
    return 1 + sum(len(group.events) for group in groups(_memory_job(recording, mode)))


def _memory_job(recording: str, mode: str) -> Job:
    return Job(recording=recording, mode=mode, backend="memory", batch=1, journeys=(), folder="")


HASHES: dict[tuple[str, str], str] = {}
"""The hash of the last event by recording and mode: whoever wrote the log, wherever and however, it is the same."""


def job_of(case: Case, folder: Path, postgres: Postgres, journeys: tuple[str, ...]) -> Job:
    count = (case.backend == "postgres") + ("round-trip" in journeys)
    folder.mkdir()
    return Job(
        recording=case.recording,
        mode=case.mode,
        backend=case.backend,
        batch=case.written,
        journeys=journeys,
        folder=str(folder),
        databases=tuple(postgres.new_database() for _ in range(count)),
    )


def verdicts(cases: Sequence[Case], folder: Path, postgres: Postgres, *journeys: str) -> list[list[Any]]:
    """For each case what the second process says of each journey (by default the case's own). The cases have the same
    surroundings."""
    writer, reader = SURROUNDINGS[cases[0].surroundings]
    jobs = [job_of(case, folder / str(n), postgres, journeys or (case.journey,)) for n, case in enumerate(cases)]
    written = run("writer", writer, msgspec.json.encode(jobs))
    assert [set(sources) for sources in written] == [set(job.journeys) for job in jobs]
    asked = [(c.read, parts) for c, sources in zip(cases, written, strict=True) for parts in sources.values()]
    told = iter(run("judge", reader, json.dumps(asked).encode()))
    return [[next(told) for _ in job.journeys] for job in jobs]


def clean(case: Case) -> dict[str, Any]:
    """The verdict on a log that holds everything, and in which every decision is the one that the rules make."""
    events = length_of(case.recording, case.mode)
    return {
        "first": 1,
        "events": events,
        "judged": events - 1,
        "other_code": [],
        "unjudged": [],
        "differences": [],
    }


def check(case: Case, found: dict[str, Any]) -> None:
    last = found.pop("hash")
    assert found == clean(case)
    assert last == HASHES.setdefault((case.recording, case.mode), last), "another process has written other bytes"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> dict[Case, Any]:
    """The verdicts on all cases of the normal suite: one process writes and one verifies, for each pair of surroundings."""
    found: dict[Case, Any] = {}
    for number in range(len(SURROUNDINGS)):
        cases = [case for case in PAIRWISE if case.surroundings == number]
        told = verdicts(cases, tmp_path_factory.mktemp("logs"), postgres)
        found.update(zip(cases, (verdict for (verdict,) in told), strict=True))
    return found


def test_every_pair_of_settings_occurs() -> None:
    every = set().union(*(pairs_of(values) for values in itertools.product(*FACTORS)))
    assert set().union(*map(pairs_of, PAIRWISE)) == every
    assert len(PAIRWISE) < 24


@pytest.mark.parametrize("case", PAIRWISE, ids=lambda case: "-".join(map(str, case)))
def test_a_log_verifies_elsewhere(case: Case, judged: dict[Case, Any]) -> None:
    check(case, judged[case])


@pytest.mark.parametrize("recording", RECORDINGS)
def test_the_modes_fold_and_decide_differently(recording: str) -> None:
    observed, live = (
        b"".join(e.data for g in groups(_memory_job(recording, mode)) for e in g.events) for mode in MODES
    )
    assert observed != live.replace(b'"mode":"detach"', b'"mode":"observe"')


@pytest.mark.soak
@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("surroundings", range(len(SURROUNDINGS)))
def test_every_combination_verifies(
    recording: str, mode: str, backend: str, surroundings: int, tmp_path: Path, postgres: Postgres
) -> None:
    batches = itertools.product(BATCHES, BATCHES)
    cases = [Case(recording, mode, backend, written, read, surroundings, "") for written, read in batches]
    for journeys in (JOURNEYS[:3], JOURNEYS[3:]):  # the last two cut the log that the others read
        folder = tmp_path / journeys[0]
        folder.mkdir()
        for case, told in zip(cases, verdicts(cases, folder, postgres, *journeys), strict=True):
            for verdict in told:
                check(case, verdict)
