"""`kill -9` at any moment: what was acknowledged is there, what is there is whole, and trying again doubles nothing."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dds_adapters import jsonl, sql
from dds_core.log import verify_chain
from tests.support.logs import NAME, MemoryPlace, SqlPlace, checkpoint, groups, opened, told_group

ROOT = Path(__file__).parents[3]


def killed_while_appending(url: str, epoch: int, first: int, dice: random.Random) -> int:
    """Let a process append from this ordinal on and kill it; gives the highest ordinal that it saw acknowledged."""
    command = [
        sys.executable,
        "-m",
        "tests.realtime.log.writer",
        url,
        *map(str, (epoch, first, dice.randrange(1000))),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    told = [process.stdout.readline()]
    time.sleep(dice.uniform(0, 0.05))
    process.send_signal(signal.SIGKILL)
    rest, failure = process.communicate()
    told += rest.splitlines(keepends=True)
    assert process.returncode == -signal.SIGKILL, failure
    return max(int(line.split()[1]) for line in told if line.startswith("appended ") and line.endswith("\n"))


def crash_and_go_on(place: SqlPlace, times: int) -> None:
    """Each process goes on after the last ordinal that the one before *knew* of, so it repeats what was not
    acknowledged."""
    log, epoch = opened(place)
    dice, acknowledged, doubted = random.Random(times), -1, 0
    for _ in range(times):
        acknowledged = killed_while_appending(place.url, epoch, acknowledged + 1, dice)
        stored = [e.group for e in log.read(after=1)]
        assert set(stored) == set(range(stored[-1] + 1)), "no group is missing, acknowledged or not"
        assert stored == [ordinal for ordinal in range(stored[-1] + 1) for _ in told_group(ordinal).events]
        assert stored[-1] >= acknowledged
        doubted += stored[-1] > acknowledged
    assert doubted or times < 100, "some commits were never acknowledged, and were repeated by the next process"
    report = verify_chain(log.read())
    assert report.hash == log.head().hash
    assert report.last == log.head().position
    log.append(groups(20, acknowledged), epoch=epoch, recorded_at=0)
    for e in log.read(after=1):
        wanted = told_group(e.group).events[int(e.event_id.rpartition(".")[2])]
        assert (e.stream, e.type, e.data, e.occurred_at) == (
            wanted.stream,
            wanted.type,
            wanted.data,
            wanted.occurred_at,
        )
    for stream in {e.stream for e in log.read_lean()}:
        assert [e.version for e in log.read(stream=stream)] == list(range(1, log.stream_version(stream) + 1))


def test_a_kill_during_appends_loses_nothing_that_was_acknowledged(place: SqlPlace) -> None:
    crash_and_go_on(place, 10)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_hundred_kills_during_appends_lose_nothing_that_was_acknowledged(place: SqlPlace) -> None:
    crash_and_go_on(place, 200)


IMPORTING = """
import sys
from dds_adapters import jsonl, sql
def told(position):
    print(position, flush=True)
with sql.Database(sys.argv[1]) as database:
    database.import_log(jsonl.JsonlLog(sys.argv[2]).read(), progress=told)
"""


def test_a_kill_during_an_import_leaves_nothing_behind(place: SqlPlace, tmp_path: Path) -> None:
    log, _ = opened(MemoryPlace(), groups(20_000), batch=20_000)
    path = str(tmp_path / "log.jsonl.gz")
    jsonl.export(log, path)
    process = subprocess.Popen([sys.executable, "-c", IMPORTING, place.url, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert 0 < int(process.stdout.readline()) < log.head().position
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert place.database.heads() == []
    assert place.database.import_log(jsonl.JsonlLog(path).read()).hash == log.head().hash
    assert verify_chain(place.open().read()).last == log.head().position


EXPORTING = """
import sys
from dds_adapters import jsonl, sql
def told(position):
    print(position, flush=True)
with sql.Database(sys.argv[1]) as database:
    getattr(jsonl, sys.argv[3])(database.log(sys.argv[4]), sys.argv[2], progress=told)
"""


@pytest.mark.parametrize("what", ["export", "archive"])
def test_a_kill_during_an_export_or_archive_leaves_no_file_and_the_log_as_it_was(
    place: SqlPlace, tmp_path: Path, what: str
) -> None:
    log, _ = opened(place, [*groups(20_000), checkpoint(20_000)], batch=20_001)
    before, path = log.head(), tmp_path / "log.jsonl.gz"
    command = [sys.executable, "-c", EXPORTING, place.url, str(path), what, NAME]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert 0 < int(process.stdout.readline()) < before.position
    process.kill()
    process.communicate()
    assert not path.exists()
    with sql.Database(place.url) as database:
        again = database.log(NAME)
        assert again.head() == before
        assert getattr(jsonl, what)(again, str(path)).hash == before.hash
        assert list(jsonl.JsonlLog(str(path)).read_lean(after=before.position - 1)) == list(
            again.read_lean(after=before.position - 1)
        )
