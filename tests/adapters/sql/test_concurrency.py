"""Many writers, a tailing reader, old epochs and lost connections, on real databases."""

import select
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
import pytest
from sqlalchemy import event

from dds_adapters import sql
from dds_adapters.sql import connection
from dds_adapters.sql import log as sql_log
from dds_core.errors import Fenced, LogLocked, LogUnreachable
from dds_core.log import EventLog, Group, verify_chain
from tests.support.logs import CLUSTER, NAME, NOON, SqlPlace, fact, groups, opened, told_group
from tests.support.postgres import Postgres


class LossyProxy:
    """Passes bytes between clients and the server's unix socket. `lose` makes it cut connections at their next COMMIT.
    `freeze` makes a client stand still for the server, until `thawed` is set."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._folder = Path(tempfile.mkdtemp(prefix="dds-px-"))
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self._folder / server.name))
        self._listening.listen()
        self._to_lose = 0
        self._arrives = True
        self._freezes: tuple[bytes, bool] | None = None
        self.frozen, self.thawed = threading.Event(), threading.Event()
        self.lost = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def through(self, url: str) -> str:
        """The same database by way of the proxy."""
        return f"{url.partition('?')[0]}?host={self._folder}"

    def lose(self, times: int, arrives: bool) -> None:
        """Cut the connection at the next COMMITs, after (`arrives`) or before the server gets them."""
        self._to_lose, self._arrives, self.lost = times, arrives, 0

    def freeze(self, at: bytes, deaf: bool) -> None:
        """Once a client has sent these bytes, it takes no answer, and unless it is only `deaf`, sends no more."""
        self._freezes = (at, deaf)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)
        shutil.rmtree(self._folder)

    def _accept(self) -> None:
        passing = []
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                break
            passing.append(threading.Thread(target=self._pass_on, args=(client,), daemon=True))
            passing[-1].start()
        for thread in passing:
            thread.join(10)

    def _pass_on(self, client: socket.socket) -> None:
        with suppress(BrokenPipeError, ConnectionResetError), client, socket.socket(socket.AF_UNIX) as server:
            server.connect(str(self._server))
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for source in ready:
                    sent = source.recv(65536)
                    loses = source is client and b"COMMIT" in sent and self._to_lose > 0
                    if loses:
                        self._to_lose -= 1
                        self.lost += 1
                    if sent and (not loses or self._arrives):
                        (server if source is client else client).sendall(sent)
                    if loses and self._arrives:
                        server.recv(65536)  # the server has answered, so the commit is done; the client never learns
                    if loses or not sent:
                        return
                    if source is client and self._freezes and self._freezes[0] in sent:
                        deaf, self._freezes = self._freezes[1], None
                        self.frozen.set()
                        while not self.thawed.wait(0.05):
                            while deaf and select.select([client], [], [], 0.05)[0]:
                                server.sendall(client.recv(65536))


WRITERS, APPENDS = 8, 2000


@pytest.fixture
def server_place(postgres: Postgres) -> Iterator[SqlPlace]:
    place = SqlPlace(postgres.new_database())
    yield place
    place.close()


def database(place: SqlPlace, lock_seconds: float = 30.0) -> sql.Database:
    return sql.Database(place.url, lock_seconds=lock_seconds)


def test_a_tailing_reader_misses_nothing_of_eight_writers(server_place: SqlPlace) -> None:
    log, epoch = opened(server_place)
    done = threading.Event()

    def write(writer: int) -> int:
        with database(server_place) as mine:
            own = mine.log(NAME)
            for ordinal in range(writer, APPENDS, WRITERS):
                own.append([told_group(ordinal, streams=50)], epoch=epoch, recorded_at=NOON)
        return writer

    def tail() -> list[tuple[int, int]]:
        with database(server_place) as mine:
            events = sql.follow(mine.log(NAME), poll_seconds=0.001, stopped=done.is_set)
            return [(e.position, e.group) for e in events]

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        seen = pool.submit(tail)
        assert sorted(pool.map(write, range(WRITERS))) == list(range(WRITERS))
        done.set()
        told = seen.result()
    wanted = sum(len(told_group(ordinal).events) for ordinal in range(APPENDS))
    assert [position for position, _ in told] == list(range(1, wanted + 2))
    assert {ordinal for position, ordinal in told if position > 1} == set(range(APPENDS))
    assert verify_chain(log.read()).last == wanted + 1
    for stream in {e.stream for e in log.read_lean()}:
        assert [e.version for e in log.read(stream=stream)] == list(range(1, log.stream_version(stream) + 1))


def test_a_naive_reader_of_an_identity_column_misses_what_is_committed_late(server_place: SqlPlace) -> None:
    """Why positions are taken under the lock of the head row."""
    where = server_place.url.replace("+psycopg", "")
    with (
        psycopg.connect(where) as slow,
        psycopg.connect(where) as fast,
        psycopg.connect(where, autocommit=True) as reader,
    ):
        reader.execute("CREATE TABLE naive (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, told TEXT)")
        slow.execute("INSERT INTO naive (told) VALUES ('slow')")
        fast.execute("INSERT INTO naive (told) VALUES ('fast')")
        fast.commit()
        seen = reader.execute("SELECT id, told FROM naive WHERE id > 0 ORDER BY id").fetchall()
        slow.commit()
        seen += reader.execute("SELECT id, told FROM naive WHERE id > %s ORDER BY id", (seen[-1][0],)).fetchall()
        assert [told for _, told in seen] == ["fast"], "the slow one was never seen"


@contextmanager
def commit_held_open(place: sql.Database) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Every commit of this database waits: gives an event that says that one waits, and the one that lets it go."""
    reached, released = threading.Event(), threading.Event()

    def wait(_connection: object) -> None:
        reached.set()
        assert released.wait(20)

    event.listen(place._engine, "commit", wait)
    try:
        yield reached, released
    finally:
        released.set()
        event.remove(place._engine, "commit", wait)


def test_our_reader_sees_nothing_until_the_open_transaction_before_it_is_through(place: SqlPlace) -> None:
    log, epoch = opened(place)
    with database(place) as slow, database(place) as fast, ThreadPoolExecutor(2) as pool:
        slow_log, fast_log = slow.log(NAME), fast.log(NAME)
        with commit_held_open(slow) as (reached, released):
            first = pool.submit(slow_log.append, [told_group(0)], epoch=epoch, recorded_at=NOON)
            assert reached.wait(20)
            second = pool.submit(fast_log.append, [told_group(1)], epoch=epoch, recorded_at=NOON)
            time.sleep(0.2)
            assert not second.done()
            assert [e.position for e in log.read()] == [1]
            released.set()
            assert [e.position for e in first.result(20)] == [2]
            assert [e.position for e in second.result(20)] == [3, 4]
    assert [e.group for e in log.read(after=1)] == [0, 1, 1]


def test_a_writer_gives_up_waiting_after_its_time(place: SqlPlace) -> None:
    log, epoch = opened(place)
    with database(place) as slow, database(place, 0.2) as hasty, ThreadPoolExecutor(1) as pool:
        slow_log, hasty_log = slow.log(NAME), hasty.log(NAME)
        with commit_held_open(slow) as (reached, released):
            first = pool.submit(slow_log.append, [told_group(0)], epoch=epoch, recorded_at=NOON)
            assert reached.wait(20)
            with pytest.raises(LogLocked, match="may be repeated without doubling"):
                hasty_log.append([told_group(1)], epoch=epoch, recorded_at=NOON)
            released.set()
            first.result(20)
        hasty_log.append([told_group(1)], epoch=epoch, recorded_at=NOON)
    assert [e.group for e in log.read(after=1)] == [0, 1, 1]


def test_a_writer_that_slept_through_a_change_of_epoch_is_refused(place: SqlPlace) -> None:
    old_log, old = opened(place, groups(3))
    with database(place) as other:
        new_log = other.open_log(NAME, cluster=CLUSTER, recorded_at=NOON)
        new = new_log.take_epoch(NOON)
        new_log.append(groups(2), epoch=new, recorded_at=NOON)
        before = list(new_log.read())
        for ordinal in (3, 4):
            with pytest.raises(Fenced):
                old_log.append([told_group(ordinal)], epoch=old, recorded_at=NOON)
        assert list(new_log.read()) == before


@pytest.mark.parametrize(
    ("at", "deaf", "seen"),
    [
        (b"FOR UPDATE", False, "idle in transaction, ClientRead"),
        (b"unnest", False, "active, ClientRead"),  # in the middle of a message
        (b"unnest", True, "active, ClientWrite"),
        (b"COPY", False, "active, ClientRead"),
    ],
    ids=["between statements", "asking", "answered", "in its COPY"],
)
def test_who_stands_still_in_a_transaction_does_not_keep_others_out(
    postgres: Postgres, server_place: SqlPlace, monkeypatch: pytest.MonkeyPatch, at: bytes, deaf: bool, seen: str
) -> None:
    """A frozen leader holds the head row, at any place of its write, also at its second try, for which it has more time. Its
    session is ended, and another takes the next epoch."""
    log, epoch = opened(server_place)
    for module in (connection, sql_log):
        monkeypatch.setattr(module, "STILL_SECONDS", 0.5)
    many = Group(0, tuple(fact(f"claim-{number}-{'x' * 100}") for number in range(10_000)))  # more than sockets hold
    with (
        LossyProxy(postgres.socket) as proxy,
        sql.Database(proxy.through(server_place.url)) as frozen,
        database(server_place, 2.0) as other,
        psycopg.connect(server_place.url.replace("+psycopg", ""), autocommit=True) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        frozen_log, other_log = frozen.log(NAME), other.log(NAME)
        proxy.freeze(at, deaf)
        first = pool.submit(frozen_log.append, [many], epoch=epoch, recorded_at=NOON)
        try:
            assert proxy.frozen.wait(20)
            time.sleep(0.3)
            query = "SELECT state, wait_event FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
            assert [", ".join(row) for row in server.execute(query).fetchall()] == [seen]
            time.sleep(0.5)
            newer = other_log.take_epoch(NOON)
            other_log.append([told_group(1)], epoch=newer, recorded_at=NOON)
        finally:
            proxy.thawed.set()
        with pytest.raises(Fenced):
            first.result(20)
    assert {e.group for e in log.read(after=1)} == {1}


def test_two_processes_that_make_the_same_log_get_the_same_one(place: SqlPlace) -> None:
    barrier = threading.Barrier(6)

    def make(_number: int) -> EventLog:
        with database(place) as mine:
            barrier.wait()
            mine.open_log(NAME, cluster=CLUSTER, recorded_at=NOON)
            return mine.log(NAME)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(make, range(6)))
    assert len(list(place.open().read())) == 1


# --- a commit whose outcome is unknown
# ---------------------------------------------------------------------------------


@pytest.mark.parametrize("arrives", [True, False], ids=["commit arrives", "commit is lost"])
def test_a_commit_of_unknown_outcome_is_tried_again_without_doubling(
    postgres: Postgres, server_place: SqlPlace, arrives: bool
) -> None:
    log, epoch = opened(server_place, groups(5))
    with LossyProxy(postgres.socket) as proxy, sql.Database(proxy.through(server_place.url)) as lossy:
        writer = lossy.log(NAME)
        writer.append(groups(1, 5), epoch=epoch, recorded_at=NOON)
        proxy.lose(1, arrives)
        given = writer.append(groups(3, 6), epoch=epoch, recorded_at=NOON, expected={"claim-1": 2})
        assert proxy.lost == 1
        assert given == [e for e in log.read() if e.epoch == epoch and e.group >= 6]
    assert [e.group for e in log.read(after=1)] == [o for o in range(9) for _ in told_group(o).events]
    assert verify_chain(log.read()).last == log.head().position


@pytest.mark.parametrize("arrives", [True, False], ids=["commit arrives", "commit is lost"])
def test_when_the_second_try_is_lost_too_the_caller_may_repeat_the_call(
    postgres: Postgres, server_place: SqlPlace, arrives: bool
) -> None:
    log, epoch = opened(server_place, groups(5))
    with LossyProxy(postgres.socket) as proxy, sql.Database(proxy.through(server_place.url)) as lossy:
        writer = lossy.log(NAME)
        proxy.lose(2, arrives)
        with pytest.raises(LogUnreachable):
            writer.append(groups(3, 5), epoch=epoch, recorded_at=NOON)
        assert proxy.lost == 2
        assert len(writer.append(groups(3, 5), epoch=epoch, recorded_at=NOON)) == 6
    assert [e.group for e in log.read(after=1)] == [o for o in range(8) for _ in told_group(o).events]


def test_a_connection_that_died_while_idle_is_replaced(server_place: SqlPlace) -> None:
    log, epoch = opened(server_place, groups(2))
    with psycopg.connect(server_place.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    log.append(groups(2, 2), epoch=epoch, recorded_at=NOON)
    assert [e.group for e in log.read(after=1)] == [o for o in range(4) for _ in told_group(o).events]
