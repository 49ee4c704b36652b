"""`dds log verify` in several processes says what it says in one."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import active_children
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.sql import Database, upgrade
from dds_commands import verifying
from dds_core.replay import Part, PartReport
from tests.core.replay.test_parts import positions, written
from tests.support.commands import dds, fine
from tests.support.postgres import Postgres


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also short logs are verified in several processes."""
    monkeypatch.setattr(verifying, "LONG", 0)


def stored(url: str) -> str:
    upgrade(url)
    with Database(url, synchronous="NORMAL") as database:
        database.import_log(written("first_attach", restart=True).read())
    return url


def tampered(path: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement, values).rowcount == 1
    connection.close()


def in_parts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verification in one piece fails from here on."""
    monkeypatch.setattr(verifying, "verify", None)


@pytest.mark.usefixtures("short")
def test_processes_find_what_one_process_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.sqlite3"
    url = stored(f"sqlite:///{path}")
    whole = fine("log", "verify", url, "--jobs", "1", "--json")
    cut = positions(list(written("first_attach", restart=True).read()))[1]
    broken = tmp_path / "broken.sqlite3"
    broken.write_bytes(path.read_bytes())
    tampered(broken, "UPDATE dds_events SET hash = zeroblob(32) WHERE position = ?", cut)
    done = dds("log", "verify", str(broken), "--jobs", "2")
    assert done.exit_code == 2 and f"position {cut}:" in done.stderr
    in_parts_alone(monkeypatch)
    assert fine("log", "verify", url, "--jobs", "2", "--json") == whole


@pytest.mark.usefixtures("short")
def test_processes_read_postgres(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    url = stored(postgres.new_database())
    whole = fine("log", "verify", url, "--jobs", "1")
    in_parts_alone(monkeypatch)
    assert fine("log", "verify", url, "--jobs", "2") == whole


def test_ctrl_c_ends_all_processes_and_reaches_one(tmp_path: Path) -> None:
    url = stored(f"sqlite:///{tmp_path / 'log.sqlite3'}")
    head = written("first_attach", restart=True).head()

    def interrupted() -> None:
        with verifying._processes(2, (url, head.log, head, ())) as workers:
            for child in active_children():
                assert child.pid is not None
                os.kill(child.pid, signal.SIGINT)
            workers[1].send(Part(0, 0, "", "golden"))
            assert workers[1].poll(60)
            assert isinstance(workers[1].recv(), PartReport)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not active_children()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("short")
def test_where_a_process_dies_the_log_is_verified_in_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = stored(f"sqlite:///{tmp_path / 'log.sqlite3'}")
    started = verifying._processes

    @contextmanager
    def dying(number: int, log: Any) -> Iterator[list[Connection]]:
        with started(number, log) as workers:
            active_children()[0].kill()
            yield workers

    monkeypatch.setattr(verifying, "_processes", dying)
    assert fine("log", "verify", url, "--jobs", "2") == fine("log", "verify", url, "--jobs", "1")


def test_a_short_log_and_one_job_start_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = stored(f"sqlite:///{tmp_path / 'log.sqlite3'}")
    monkeypatch.setattr(verifying, "_processes", None)
    fine("log", "verify", url, "--jobs", "2")
    monkeypatch.setattr(verifying, "LONG", 0)
    fine("log", "verify", url, "--jobs", "1")
    monkeypatch.setattr(verifying, "_cores", lambda: 1)
    fine("log", "verify", url)
