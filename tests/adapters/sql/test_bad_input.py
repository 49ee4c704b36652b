"""Whatever is wrong with a file or a database: one line that says what, where and what to do, and nothing
half-written."""

import gzip
import random
import resource
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import event

from dds_adapters import jsonl, sql
from dds_adapters.jsonl.writing import heading_of, write_log
from dds_adapters.sql.connection import engine_for, writing
from dds_core.errors import (
    BrokenChain,
    CorruptFile,
    DatabaseError,
    DatabaseMissing,
    DdsError,
    FileError,
    ForeignLog,
    InputError,
    LogError,
    LogFull,
    LogLocked,
    LogUnavailable,
    LogUnreachable,
    NoSuchLog,
    NotADatabase,
    NotALogFile,
    SchemaMissing,
    TruncatedFile,
)
from dds_core.log import ChainReport, Envelope, EventLog, MemoryLog, verify_chain
from tests.support.logs import CLUSTER, NAME, NOON, MemoryPlace, SqlPlace, checkpoint, groups, opened, sqlite_url
from tests.support.postgres import Postgres, running_postgres


def refused(kind: type[DdsError], call: Callable[[], object], *words: str) -> None:
    """The call raises just this error, in one line, with these words in it."""
    with pytest.raises(DdsError) as caught:
        call()
    told = str(caught.value)
    assert type(caught.value) is kind, told
    assert "\n" not in told and len(told) < 600
    assert caught.value.where and caught.value.fix, told
    for word in words:
        assert word in told, told


# --- log files
# ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    log, _ = opened(MemoryPlace(), [*groups(30), checkpoint(30)])
    jsonl.export(log, str(tmp_path / "log.jsonl"))
    return tmp_path / "log.jsonl"


def reading(path: Path) -> Callable[[], object]:
    return lambda: verify_chain(jsonl.JsonlLog(str(path)).read())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"\n", "it is no export or archive of a log"),
        (b"PK\x03\x04 a zip file", "it is no export or archive of a log"),
        (b'{"ts":"2026-09-21T00:00:00Z","resource":"pods","type":"ADDED","object":{}}\n', "it is no export"),
        (b'{"dds_log":2,"log":"a/b","cluster":"c","component":"b","after":0,"until":1}\n', "its format is 2"),
    ],
)
def test_a_file_of_another_kind_is_told(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    refused(NotALogFile, reading(path), str(path), words)
    path.write_bytes(gzip.compress(content))
    refused(NotALogFile, reading(path), str(path), words)


def test_a_damaged_header_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b'{"dds_log":1,"log":"a/b"}\n')
    refused(CorruptFile, reading(path), str(path), "line 1 is damaged")
    path.write_bytes(b'{"dds_log":1,"log":"a/b"')
    refused(TruncatedFile, reading(path), str(path), "it ends early, in line 1")


def test_a_file_cut_anywhere_is_told(exported: Path, tmp_path: Path) -> None:
    whole, cut = exported.read_bytes(), tmp_path / "cut.jsonl"
    lines = whole.splitlines(keepends=True)
    for length in [len(b"".join(lines[:n])) for n in range(1, len(lines))] + list(range(200, len(whole) - 1, 997)):
        cut.write_bytes(whole[:length])
        refused(TruncatedFile, reading(cut), str(cut), "it ends early, in line", "get the whole file again")
        with pytest.raises(TruncatedFile):
            list(jsonl.JsonlLog(str(cut)).read_lean())


def test_a_compressed_file_cut_anywhere_is_told(exported: Path, tmp_path: Path) -> None:
    packed, cut = gzip.compress(exported.read_bytes()), tmp_path / "cut.jsonl.gz"
    for length in range(20, len(packed) - 1, 97):
        cut.write_bytes(packed[:length])
        refused(TruncatedFile, reading(cut), str(cut), "get the whole file again")


def test_a_damaged_compressed_file_is_told(exported: Path, tmp_path: Path) -> None:
    packed, path = bytearray(gzip.compress(exported.read_bytes())), tmp_path / "log.jsonl.gz"
    packed[len(packed) // 2] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(DdsError) as caught:
        reading(path)()
    assert isinstance(caught.value, (CorruptFile, BrokenChain))
    packed = bytearray(gzip.compress(exported.read_bytes()))
    packed[-8] ^= 0xFF  # the checksum
    path.write_bytes(packed)
    refused(CorruptFile, reading(path), str(path), "its compressed data is damaged")


def test_a_damaged_line_is_told_by_its_number(exported: Path) -> None:
    lines = exported.read_bytes().splitlines(keepends=True)
    lines[9] = lines[9].replace(b'"stream"', b'"str\x00eam"')
    exported.write_bytes(b"".join(lines))
    refused(CorruptFile, reading(exported), str(exported), "line 10 is damaged")


def test_what_stands_after_the_closing_line_is_told(exported: Path) -> None:
    exported.write_bytes(exported.read_bytes() + b"{}\n")
    refused(CorruptFile, reading(exported), "it goes on after the closing line")


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:9] + lines[10:],
        lambda lines: [*lines[:9], lines[10], lines[9], *lines[11:]],
        lambda lines: [*lines[:9], lines[9].replace(b'"type":"Claim', b'"type":"Clown'), *lines[10:]],
        lambda lines: [*lines[:9], lines[9].replace(b"ordinal", b"0rdinal"), *lines[10:]],
    ],
    ids=["cut", "swapped", "type edited", "data edited"],
)
def test_one_cut_swapped_or_edited_event_is_named(exported: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    lines = exported.read_bytes().splitlines(keepends=True)
    exported.write_bytes(b"".join(change(lines)))
    with pytest.raises(BrokenChain) as caught:
        reading(exported)()
    assert caught.value.position == 9


def test_a_tail_that_was_cut_with_care_is_found_by_the_header(exported: Path) -> None:
    lines = exported.read_bytes().splitlines(keepends=True)
    exported.write_bytes(b"".join([*lines[:-3], lines[-1]]))
    with pytest.raises(BrokenChain) as caught:
        reading(exported)()
    assert caught.value.position == len(lines) - 3


def test_another_closing_hash_is_named(exported: Path) -> None:
    lines = exported.read_bytes().splitlines(keepends=True)
    lines[-1] = lines[-1][:-10] + b"0000000" + lines[-1][-3:]
    exported.write_bytes(b"".join(lines))
    with pytest.raises(BrokenChain, match="the closing line has another hash"):
        reading(exported)()
    lines[-1] = b'{"end":nonsense}\n'
    exported.write_bytes(b"".join(lines))
    refused(CorruptFile, reading(exported), "is damaged")


def test_a_file_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    refused(FileError, reading(tmp_path / "nothing"), str(tmp_path / "nothing"), "No such file", "check the path")
    refused(FileError, reading(tmp_path), str(tmp_path), "Is a directory", "name a file")
    assert not jsonl.is_log_file(str(tmp_path)) and not jsonl.is_log_file(str(tmp_path / "nothing"))


def test_events_that_are_fewer_than_the_header_says_are_not_written(tmp_path: Path) -> None:
    log, _ = opened(MemoryPlace(), groups(9))
    heading = heading_of(log.head(), log.head().position)
    with pytest.raises(BrokenChain, match="it is missing"):
        write_log(str(tmp_path / "log.jsonl"), heading, log.read(until=5))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    log, _ = opened(MemoryPlace(), groups(3))
    refused(FileError, lambda: jsonl.export(log, str(tmp_path / "no" / "log.jsonl")), "No such file", "check the path")


def test_a_disk_that_gets_full_leaves_no_file(tmp_path: Path) -> None:
    """The limit on file sizes stands for a full disk: the write fails in the middle."""
    program = """
import resource, sys
from dds_adapters import jsonl
from tests.support.logs import MemoryPlace, groups, opened
log, _ = opened(MemoryPlace(), groups(2000))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    jsonl.export(log, sys.argv[1])
except Exception as error:
    print(type(error).__name__, error)
"""
    told = in_process(program, str(tmp_path / "log.jsonl"))
    assert told.startswith("FileError") and "File too large" in told and told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def in_process(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


# --- databases
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [sql.Database, sql.check, sql.current, sql.upgrade])
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "what was given is no database URL"),
        ("mysql://root@localhost/a", "databases of kind mysql are not known"),
        ("sqlite://", "a SQLite log needs a file"),
        ("sqlite:///:memory:", "a SQLite log needs a file"),
    ],
)
def test_another_url_is_told(call: Callable[[str], object], url: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        call(url)
    assert "use sqlite:///path" in str(caught.value)


def test_a_folder_for_the_database_has_to_be_there(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'no' / 'log.sqlite3'}"
    refused(DatabaseMissing, lambda: sql.upgrade(url), url, "its folder does not exist")


@pytest.mark.parametrize("call", [sql.Database, sql.check, sql.upgrade])
@pytest.mark.parametrize("content", [b"PK\x03\x04 not a database" * 100, b'{"dds_log":1}\n' * 100])
def test_a_file_that_is_no_database_is_told_and_not_touched(
    tmp_path: Path, call: Callable[[str], object], content: bytes
) -> None:
    url = sqlite_url(tmp_path)
    (tmp_path / "log.sqlite3").write_bytes(content)
    refused(NotADatabase, lambda: call(url), url, "this is no SQLite database")
    assert (tmp_path / "log.sqlite3").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["log.sqlite3"]


@pytest.mark.parametrize("again", ["removed", "another"])
def test_a_file_that_goes_while_it_is_open_takes_no_more(tmp_path: Path, again: str) -> None:
    url, path = sqlite_url(tmp_path), tmp_path / "log.sqlite3"
    sql.upgrade(url)
    with sql.Database(url) as database:
        log = database.open_log(NAME, cluster=CLUSTER, recorded_at=NOON)
        epoch = log.take_epoch(NOON)
        for one in tmp_path.iterdir():
            one.unlink()
        if again == "another":
            sql.upgrade(url)
        words = "the file was removed or replaced while it was open"
        refused(DatabaseMissing, lambda: log.append(groups(1), epoch=epoch, recorded_at=NOON), url, words)
        assert path.exists() == (again == "another")


def test_an_empty_file_is_a_database_without_a_log(tmp_path: Path) -> None:
    (tmp_path / "log.sqlite3").touch()
    refused(SchemaMissing, lambda: sql.Database(sqlite_url(tmp_path)), "run `dds db upgrade` on it")


def test_a_truncated_or_overwritten_database_is_told(sqlite_place: SqlPlace, tmp_path: Path) -> None:
    opened(sqlite_place, groups(2000))
    sqlite_place.close()
    path = tmp_path / "log.sqlite3"
    whole = path.read_bytes()

    def read() -> ChainReport:
        with sql.Database(sqlite_place.url) as database:
            return verify_chain(database.log(NAME).read())

    intact = read()
    for length in (100, 4096, len(whole) // 2):
        path.write_bytes(whole[:length])
        refused(NotADatabase, read, sqlite_place.url)
    dice, told = random.Random(1), 0
    for place in range(4096, len(whole), 4096 * 9):
        path.write_bytes(whole[:place] + dice.randbytes(4096) + whole[place + 4096 :])
        try:
            assert read() == intact, "the damage lies in an index that the read does not use"
        except (NotADatabase, BrokenChain) as error:
            assert "\n" not in str(error)
            told += 1
    assert told > 5


def test_a_log_that_is_not_there_is_told(place: SqlPlace) -> None:
    opened(place, groups(1))
    refused(
        NoSuchLog, lambda: place.database.log("prod-us/scaler"), "no log prod-us/scaler", "it holds: prod-eu/scaler"
    )


def test_another_clusters_log_is_told(place: SqlPlace) -> None:
    log, _ = opened(place, groups(3))
    before = list(log.read())
    refused(ForeignLog, lambda: place.open(cluster="other-uid"), f"log {NAME}", CLUSTER, "other-uid")
    assert list(log.read()) == before


def test_a_locked_database_is_told_and_can_be_tried_again(sqlite_place: SqlPlace) -> None:
    log, epoch = opened(sqlite_place, groups(3))
    before = list(log.read())
    holder = sqlite3.connect(sqlite_place.url.removeprefix("sqlite:///"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with sql.Database(sqlite_place.url, lock_seconds=0.1) as database:
        hasty = database.log(NAME)
        refused(LogLocked, lambda: hasty.append(groups(2, 3), epoch=epoch, recorded_at=NOON), "holds the write lock")
        refused(LogLocked, lambda: hasty.take_epoch(NOON))
        refused(LogLocked, lambda: sql.upgrade(sqlite_place.url, lock_seconds=0.1))
        assert list(hasty.read()) == before, "readers are not held up"
        holder.execute("ROLLBACK")
        hasty.append(groups(2, 3), epoch=epoch, recorded_at=NOON)
    holder.close()
    assert verify_chain(log.read()).last == log.head().position


def test_a_full_disk_is_told_and_nothing_half_written(sqlite_place: SqlPlace) -> None:
    opened(sqlite_place, groups(30))
    with sql.Database(sqlite_place.url) as database:
        event.listen(
            database._engine, "begin", lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 1")
        )
        log: EventLog = database.log(NAME)
        before = list(log.read())
        many = groups(500, 30)
        refused(LogFull, lambda: log.append(many, epoch=1, recorded_at=NOON), sqlite_place.url, "make room")
        with pytest.raises(LogFull):
            database.import_log(another_log())
        assert list(log.read()) == before
    again = sqlite_place.open()
    again.append(many, epoch=1, recorded_at=NOON)
    assert verify_chain(again.read()).last == again.head().position


def another_log() -> list[Envelope]:
    log = MemoryLog("other/scaler", cluster=CLUSTER, recorded_at=NOON)
    log.append(groups(300), epoch=log.take_epoch(NOON), recorded_at=NOON)
    return list(log.read())


def test_a_limit_on_the_files_size_is_told_and_nothing_half_written(sqlite_place: SqlPlace) -> None:
    log, epoch = opened(sqlite_place, groups(30))
    before = log.head()
    program = """
import os, resource, sys
from dds_adapters import sql
from tests.support.logs import NAME, NOON, groups
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
with sql.Database(sys.argv[1]) as database:
    try:
        database.log(NAME).append(groups(5000, 30), epoch=1, recorded_at=NOON)
    except Exception as error:
        print(type(error).__name__, error)
"""
    told = in_process(program, sqlite_place.url)
    assert told.startswith(("LogUnavailable", "LogFull")) and told.count("\n") == 1, told
    assert log.head() == before
    log.append(groups(5000, 30), epoch=epoch, recorded_at=NOON)
    assert verify_chain(log.read()).last == log.head().position


def test_a_failed_upgrade_leaves_no_file(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    program = """
import resource, sys
from dds_adapters import sql
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    sql.upgrade(sys.argv[1])
except Exception as error:
    print(type(error).__name__, error)
"""
    told = in_process(program, url)
    assert told.startswith(("LogUnavailable", "LogFull")) and told.count("\n") == 1, told
    assert list(tmp_path.iterdir()) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 10_000


# --- the server
# --------------------------------------------------------------------------------------------------------


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.mark.parametrize("call", [sql.Database, sql.check, sql.current, sql.upgrade])
def test_a_server_that_is_not_there_is_told_without_the_password(call: Callable[[str], object]) -> None:
    url = f"postgresql://dds:secret@127.0.0.1:{closed_port()}/log"
    with pytest.raises(LogUnreachable) as caught:
        call(url)
    told = str(caught.value)
    assert "the server cannot be reached" in told and "check host, port, database and user" in told
    assert "127.0.0.1" in told and "secret" not in told and "\n" not in told


def test_a_database_that_is_not_there_is_told(postgres: Postgres) -> None:
    refused(LogUnreachable, lambda: sql.Database(postgres.url("nowhere")), 'database "nowhere" does not exist')


def test_a_server_that_goes_away_and_comes_back_is_told_and_used_again(tmp_path: Path) -> None:
    with running_postgres() as server:
        place = SqlPlace(server.new_database())
        log, epoch = opened(place, groups(3))
        server.stop()
        refused(LogUnreachable, lambda: log.append(groups(2, 3), epoch=epoch, recorded_at=NOON), "try again later")
        refused(LogUnreachable, log.head)
        server.start()
        log.append(groups(2, 3), epoch=epoch, recorded_at=NOON)
        assert verify_chain(log.read()).last == log.head().position
        place.close()


@pytest.mark.parametrize(
    ("state", "kind", "words"),
    [
        ("53100", LogFull, "no room is left on the server's disk"),
        ("25006", LogUnavailable, "name the primary server"),
        ("57P03", LogUnreachable, "the server ended the session"),
        ("42501", DatabaseError, "lacks a right"),
        ("40001", LogLocked, "in conflict with another"),
        ("22012", LogError, "the database refuses"),
    ],
)
def test_what_the_server_says_while_writing_is_told_and_nothing_written(
    postgres: Postgres, state: str, kind: type[DdsError], words: str
) -> None:
    """A trigger lets the server itself answer with the state that the real trouble has."""
    place = SqlPlace(postgres.new_database())
    log, epoch = opened(place, groups(3))
    before = list(log.read())
    engine = engine_for(place.url)
    with writing(engine) as connection:
        connection.exec_driver_sql(
            "CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"RAISE EXCEPTION E'two\\nlines' USING ERRCODE = '{state}'; END $$"
        )
        connection.exec_driver_sql("CREATE TRIGGER t BEFORE INSERT ON dds_events EXECUTE FUNCTION trouble()")
    refused(kind, lambda: log.append(groups(2, 3), epoch=epoch, recorded_at=NOON), words)
    assert list(log.read()) == before
    with writing(engine) as connection:
        connection.exec_driver_sql("DROP TRIGGER t ON dds_events")
    engine.dispose()
    log.append(groups(2, 3), epoch=epoch, recorded_at=NOON)
    assert verify_chain(log.read()).last == log.head().position
    place.close()
