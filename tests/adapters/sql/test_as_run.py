"""PostgreSQL as companies run it: behind PgBouncer, behind proxies that end idle connections, with several hosts, with a password
in a file. And SQLite files that are nobody else's."""

from __future__ import annotations

import os
import signal
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from dds_adapters.sql import Database, upgrade
from dds_adapters.sql.urls import shown
from dds_core.errors import DatabaseError, DdsError, InputError
from dds_core.log import verify_log
from tests.support.certificates import Authority
from tests.support.live_lab import eventually
from tests.support.logs import CLUSTER, NOON, told_group
from tests.support.postgres import Postgres, pooled


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_each_transaction_may_run_in_another_session(postgres: Postgres, mode: str) -> None:
    """Another client takes the session that was used last, every other time. Nothing may be prepared or set for longer than a
    transaction."""
    plain = postgres.new_database()
    upgrade(plain)
    with pooled(postgres, mode) as through, Database(through(plain)) as database:
        log = database.open_log("prod/scaler", cluster=CLUSTER, recorded_at=NOON)
        epoch = log.take_epoch(NOON)
        with psycopg.connect(through(plain).replace("+psycopg", "")) as another:
            for ordinal in range(40):
                if ordinal % 2:
                    assert another.execute("SHOW lock_timeout").fetchone() == ("0",), (
                        "nothing of ours stays in a session"
                    )
                log.append([told_group(ordinal)], epoch=epoch, recorded_at=NOON)
                assert log.stream_version(f"claim-{ordinal % 5}")
                another.rollback()
        verify_log(log)


def test_what_is_acknowledged_is_on_the_disk_whatever_the_server_says(postgres: Postgres) -> None:
    """The settings hold in each writing transaction."""
    url = postgres.new_database()
    upgrade(url)
    name = url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(host=str(postgres.folder), user="dds", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    seen: list[str] = []
    with Database(url) as database:
        from sqlalchemy import event

        log = database.open_log("prod/scaler", cluster=CLUSTER, recorded_at=NOON)
        epoch = log.take_epoch(NOON)

        @event.listens_for(database._engine, "commit")
        def asked(connection: object) -> None:
            seen.append(connection.exec_driver_sql("SHOW synchronous_commit").scalar())  # type: ignore[attr-defined]

        log.append([told_group(0)], epoch=epoch, recorded_at=NOON)
    assert seen == ["on"]


def test_a_proxy_may_end_a_connection_that_idles(postgres: Postgres) -> None:
    plain = postgres.new_database()
    upgrade(plain)
    with pooled(postgres, "session", idle=2) as through, Database(through(plain)) as database:
        log = database.open_log("prod/scaler", cluster=CLUSTER, recorded_at=NOON)
        epoch = log.take_epoch(NOON)
        time.sleep(7)
        assert log.head().position == 1, "reading goes on"
        time.sleep(7)
        log.append([told_group(0)], epoch=epoch, recorded_at=NOON)


def test_the_primary_is_found_among_several_hosts(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.new_database()
    upgrade(url)
    name = url.partition("?")[0].rpartition("/")[2]
    several = (
        f"postgresql://dds@{tmp_path.as_posix().replace('/', '%2F')},{str(postgres.folder).replace('/', '%2F')}/{name}"
    )
    with Database(f"{several}?target_session_attrs=read-write") as database:
        assert database.heads() == []


def test_a_list_of_hosts_is_shown_without_its_password() -> None:
    url = "postgresql://dds:hunter2@db-1:5432,db-2:5433/dds?target_session_attrs=read-write"
    assert shown(url) == "postgresql://dds:***@db-1:5432,db-2:5433/dds"


def test_the_password_is_read_anew_for_each_connection(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.new_database()
    upgrade(url)
    file = tmp_path / "password"
    with pytest.raises(InputError, match="cannot be read"):
        Database(f"{url}&password_file={file}")
    file.write_text("hunter2\n", encoding="utf-8")
    with Database(f"{url}&password_file={file}&prepare_threshold=none") as database:
        assert database.heads() == []
        file.unlink()
        database._engine.dispose()
        with pytest.raises(InputError, match=f"the file of the password, {file}, cannot be read"):
            database.heads()


def test_a_managed_database_by_tls_a_changing_password_and_no_superuser(postgres: Postgres, tmp_path: Path) -> None:
    """PgBouncer stands for it: whoever asks must speak TLS and say the password."""
    name, authority = f"d{os.getpid()}", Authority.made()
    with psycopg.connect(host=str(postgres.folder), user="dds", dbname="postgres", autocommit=True) as connection:
        connection.execute("CREATE ROLE app LOGIN NOSUPERUSER NOCREATEDB")
        connection.execute(f"CREATE DATABASE {name} OWNER app")
    (tmp_path / "ca.pem").write_text(authority.pem, encoding="utf-8")
    theirs, owner = postgres.folder / "managed", postgres.folder.stat().st_uid
    theirs.mkdir()
    for file, content in zip(("tls.crt", "tls.key", "users"), (*authority.issued("127.0.0.1", 10), b""), strict=True):
        (theirs / file).write_bytes(content)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def change_to(password: str) -> None:
        (theirs / "users").write_text(f'"app" "{password}"\n', encoding="utf-8")

    change_to("first")
    for one in (theirs, *theirs.iterdir()):
        os.chown(one, owner, -1)
    tls = f"client_tls_sslmode=require\nclient_tls_cert_file={theirs}/tls.crt\nclient_tls_key_file={theirs}/tls.key\n"
    more = f"listen_addr=127.0.0.1\nlisten_port={port}\nauth_type=plain\nauth_file={theirs}/users\npidfile={theirs}/pid\n{tls}"
    with pooled(postgres, "transaction", more=more):
        base = f"postgresql://app@127.0.0.1:{port}/{name}?password_file={tmp_path}/password"
        url = f"{base}&sslmode=verify-full&sslrootcert={tmp_path}/ca.pem"
        (tmp_path / "password").write_text("first\n", encoding="utf-8")
        with pytest.raises(DdsError, match="SSL required"):
            Database(f"{base}&sslmode=disable")
        (tmp_path / "other.pem").write_text(Authority.made("another").pem, encoding="utf-8")
        with pytest.raises(DdsError, match="certificate verify failed"):
            Database(url.replace("ca.pem", "other.pem"))
        upgrade(url)
        with Database(url) as database:
            log = database.open_log("prod/scaler", cluster=CLUSTER, recorded_at=NOON)
            epoch = log.take_epoch(NOON)
            change_to("second")
            os.kill(int((theirs / "pid").read_text()), signal.SIGHUP)
            eventually(lambda: not _answers(database))
            (tmp_path / "password").write_text("second\n", encoding="utf-8")
            eventually(lambda: _answers(database))
            log.append([told_group(0)], epoch=epoch, recorded_at=NOON)


def _answers(database: Database) -> bool:
    database._engine.dispose()
    with suppress(DdsError):
        return bool(database.heads())
    return False


def test_who_may_not_make_tables_is_told_what_to_grant(postgres: Postgres) -> None:
    url = postgres.new_database()
    name = url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(host=str(postgres.folder), user="dds", dbname=name, autocommit=True) as connection:
        connection.execute(f"CREATE USER guest_{name}")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with pytest.raises(DatabaseError, match="GRANT CREATE ON SCHEMA public TO"):
        upgrade(url.replace("dds@", f"guest_{name}@"))


def test_a_sqlite_file_and_its_log_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        upgrade(f"sqlite:///{tmp_path}/log.sqlite3")
        with Database(f"sqlite:///{tmp_path}/log.sqlite3") as database:
            database.open_log("prod/scaler", cluster=CLUSTER, recorded_at=NOON)
            modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600} and "log.sqlite3-wal" in modes
