"""Export, import and archive: the same events, byte for byte, wherever they come from and go to."""

import gzip
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from dds_adapters import jsonl
from dds_core.errors import BrokenChain, FileError, InputError, LogExists, NotACheckpoint
from dds_core.log import EventLog, JoinedSource, verify_chain
from tests.support.logs import CLUSTER, NOON, MemoryPlace, Place, SqlPlace, checkpoint, groups, opened, told_group

GOLDEN = Path(__file__).parents[2] / "data" / "formats" / "export-v1.jsonl"


KILLED = """
import os, signal, sys
from dds_adapters.files import new_file
with new_file(sys.argv[1], replace=True) as file:
    file.write(b"x" * 1_000_000)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("before", [None, b"what was there"])
def test_a_process_that_is_killed_while_it_writes_leaves_nothing_but_what_was_there(
    tmp_path: Path, before: bytes | None
) -> None:
    path = tmp_path / "archive.jsonl.gz"
    if before is not None:
        path.write_bytes(before)
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)]).returncode == -signal.SIGKILL
    assert [one.read_bytes() for one in tmp_path.iterdir()] == ([] if before is None else [before])


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> SqlPlace:
    """An empty database to import into."""
    if request.param == "sqlite":
        place = SqlPlace(f"sqlite:///{tmp_path / 'target.sqlite3'}")
    else:
        place = SqlPlace(request.getfixturevalue("postgres").new_database())
    request.addfinalizer(place.close)
    return place


def with_checkpoint(place: Place) -> tuple[EventLog, int]:
    return opened(place, [*groups(20), checkpoint(20), *groups(10, 21)])


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
def test_an_export_holds_the_log_unchanged(place: Place, tmp_path: Path, name: str) -> None:
    log, _ = with_checkpoint(place)
    path = str(tmp_path / name)
    report = jsonl.export(log, path)
    file = jsonl.JsonlLog(path)
    assert report == verify_chain(log.read()) == verify_chain(file.read())
    assert list(file.read()) == list(log.read())
    assert (file.name, file.span(), file.heading.cluster) == (log.name, log.span(), CLUSTER)
    assert file.head() == replace(log.head(), checkpoint=0, epoch_at=0)
    assert jsonl.is_log_file(path)


def test_reading_a_file_is_like_reading_the_log(place: Place, tmp_path: Path) -> None:
    log, _ = with_checkpoint(place)
    jsonl.export(log, str(tmp_path / "log.jsonl.gz"))
    file = jsonl.JsonlLog(str(tmp_path / "log.jsonl.gz"))
    for ask in (
        {"after": 5},
        {"after": 5, "until": 9},
        {"until": 1},
        {"after": 999},
        {"stream": "claim-2"},
        {"types": ["Checkpoint"]},
        {"after": 3, "stream": "scaler", "types": ["AttachOrdered"], "batch": 1},
    ):
        assert list(file.read(**ask)) == list(log.read(**ask))
        assert list(file.read_lean(**ask)) == list(log.read_lean(**ask))


def test_the_same_log_gives_the_same_file(place: Place, tmp_path: Path) -> None:
    log, _ = opened(place, [*groups(6), checkpoint(6)])
    jsonl.export(log, str(tmp_path / "one.jsonl"))
    jsonl.export(log, str(tmp_path / "two.jsonl.gz"))
    assert (tmp_path / "one.jsonl").read_bytes() == GOLDEN.read_bytes()
    assert gzip.decompress((tmp_path / "two.jsonl.gz").read_bytes()) == GOLDEN.read_bytes()


def test_an_export_up_to_a_position_ends_there(place: Place, tmp_path: Path) -> None:
    log, _ = with_checkpoint(place)
    jsonl.export(log, str(tmp_path / "log.jsonl"), until=7)
    assert list(jsonl.JsonlLog(str(tmp_path / "log.jsonl")).read()) == list(log.read(until=7))


def test_progress_is_told(place: Place, tmp_path: Path) -> None:
    log, _ = with_checkpoint(place)
    told: list[int] = []
    jsonl.export(log, str(tmp_path / "log.jsonl"), progress=told.append)
    assert told[-1] == log.head().position


def test_a_file_that_is_there_is_never_overwritten(place: Place, tmp_path: Path) -> None:
    log, _ = with_checkpoint(place)
    (tmp_path / "log.jsonl").write_text("mine")
    with pytest.raises(FileError, match="is there already"):
        jsonl.export(log, str(tmp_path / "log.jsonl"))
    assert [path.name for path in tmp_path.glob("log.jsonl*")] == ["log.jsonl"]
    assert (tmp_path / "log.jsonl").read_text() == "mine"


def test_an_import_is_the_log_itself_and_can_be_written_on(place: Place, tmp_path: Path, target: SqlPlace) -> None:
    log, _ = with_checkpoint(place)
    jsonl.export(log, str(tmp_path / "log.jsonl.gz"))
    told: list[int] = []
    report = target.database.import_log(jsonl.JsonlLog(str(tmp_path / "log.jsonl.gz")).read(), progress=told.append)
    taken = target.open()
    assert report == verify_chain(log.read()) and told[-1] == report.last
    assert list(taken.read()) == list(log.read())
    old, new = log.head(), taken.head()
    assert (new.hash, new.epoch, new.ordinal, new.checkpoint) == (old.hash, old.epoch, old.ordinal, old.checkpoint)
    epoch = taken.take_epoch(NOON)
    taken.append(groups(3), epoch=epoch, recorded_at=NOON, expected={"claim-1": log.stream_version("claim-1")})
    assert verify_chain(taken.read()).last == taken.head().position


def test_an_import_over_a_log_is_refused(tmp_path: Path, target: SqlPlace) -> None:
    log, _ = with_checkpoint(target)
    before = list(log.read())
    with pytest.raises(LogExists, match="holds log prod-eu/scaler already"):
        target.database.import_log(iter(before))
    assert list(log.read()) == before


def test_a_broken_chain_is_not_imported_at_all(target: SqlPlace) -> None:
    log, _ = with_checkpoint(MemoryPlace())
    events = list(log.read())
    del events[20]
    with pytest.raises(BrokenChain) as caught:
        target.database.import_log(events)
    assert caught.value.position == 21
    assert target.database.heads() == []
    assert target.database.import_log(log.read()).events == len(events) + 1, "the whole one is welcome afterwards"


def test_a_part_of_a_log_is_not_imported(target: SqlPlace) -> None:
    log, _ = with_checkpoint(MemoryPlace())
    with pytest.raises(InputError, match="begins with ClaimMoved at position 4"):
        target.database.import_log(log.read(3))
    with pytest.raises(InputError, match="it is empty"):
        target.database.import_log([])
    assert target.database.heads() == []


def test_an_archive_and_the_rest_are_the_whole(place: Place, tmp_path: Path, target: SqlPlace) -> None:
    log, epoch = with_checkpoint(place)
    everything = list(log.read())
    paths = [str(tmp_path / "one.jsonl.gz"), str(tmp_path / "two.jsonl")]
    first = jsonl.archive(log, paths[0])
    assert log.span()[0] == first.last == log.head().checkpoint
    everything += log.append([checkpoint(31), told_group(32)], epoch=epoch, recorded_at=NOON)
    second = jsonl.archive(log, paths[1])
    assert (second.first, second.last) == (first.last, log.head().checkpoint)
    whole = JoinedSource([*map(jsonl.JsonlLog, paths), log])
    assert list(whole.read()) == everything
    assert target.database.import_log(whole.read()).last == everything[-1].position
    assert list(target.open().read()) == everything


def test_an_archive_that_was_interrupted_before_the_removal_is_finished(place: Place, tmp_path: Path) -> None:
    log, _ = with_checkpoint(place)
    path, at = str(tmp_path / "one.jsonl.gz"), log.head().checkpoint
    jsonl.export(log, path, until=at)
    assert jsonl.archive(log, path).last == at
    assert log.span()[0] == at
    with pytest.raises(InputError, match=f"everything before position {at} is archived"):
        jsonl.archive(log, path)


def test_an_archive_never_takes_another_file_for_its_own(place: Place, tmp_path: Path) -> None:
    log, _ = with_checkpoint(place)
    jsonl.export(log, str(tmp_path / "one.jsonl"))
    with pytest.raises(FileError, match="holds something else"):
        jsonl.archive(log, str(tmp_path / "one.jsonl"))
    assert log.span()[0] == 1


def test_only_a_checkpoint_ends_an_archive(place: Place, tmp_path: Path) -> None:
    log, epoch = opened(place, groups(10))
    with pytest.raises(NotACheckpoint, match="holds no checkpoint"):
        jsonl.archive(log, str(tmp_path / "one.jsonl"))
    log.append([checkpoint(10)], epoch=epoch, recorded_at=NOON)
    with pytest.raises(NotACheckpoint, match="position 5 is no checkpoint"):
        jsonl.archive(log, str(tmp_path / "one.jsonl"), checkpoint=5)
    assert not list(tmp_path.glob("one*"))
    assert log.span()[0] == 1


def test_data_are_erased_from_a_file_too(place: Place, tmp_path: Path) -> None:
    log, _ = with_checkpoint(place)
    path = str(tmp_path / "log.jsonl.gz")
    jsonl.export(log, path)
    assert jsonl.redact_file(path, positions=[1, 9], stream="claim-1") == log.redact(positions=[1, 9], stream="claim-1")
    assert list(jsonl.JsonlLog(path).read()) == list(log.read())
    assert verify_chain(jsonl.JsonlLog(path).read()).unjudged == verify_chain(log.read()).unjudged != ()


def test_an_export_of_an_erased_log_is_imported(place: Place, tmp_path: Path, target: SqlPlace) -> None:
    log, _ = with_checkpoint(place)
    log.redact(stream="claim-1")
    jsonl.export(log, str(tmp_path / "log.jsonl"))
    report = target.database.import_log(jsonl.JsonlLog(str(tmp_path / "log.jsonl")).read())
    assert report.unjudged == verify_chain(log.read()).unjudged != ()
    assert list(target.open().read()) == list(log.read())
