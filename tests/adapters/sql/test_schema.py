"""The schema is the sum of its migrations, and opening a database never changes it."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Index, inspect, text

import dds_migrations
from dds_adapters import sql
from dds_adapters.sql.connection import engine_for, writing
from dds_adapters.sql.tables import events, metadata
from dds_core.errors import DatabaseMissing, NotADatabase, SchemaMissing, SchemaNewer, SchemaOlder
from tests.support.logs import NOON, SqlPlace, groups, opened, sqlite_url
from tests.support.postgres import Postgres

READABLE_VIEW = "events_readable"

Index(
    "dds_events_first",
    *(events.c[name] for name in ("log", "type", "stream")),
    sqlite_where=events.c.version == 1,
    postgresql_where=events.c.version == 1,
)
"""Not with the tables: what is said of one database makes SQLAlchemy import it, at each start of a command."""


def test_the_schema_is_the_sum_of_the_migrations(place: SqlPlace) -> None:
    engine = engine_for(place.url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": dds_migrations.VERSION_TABLE, "compare_type": True}
        )
        assert compare_metadata(context, metadata) == []
        inspector = inspect(connection)
        for table in metadata.sorted_tables:
            assert inspector.get_pk_constraint(table.name)["constrained_columns"] == list(
                table.primary_key.columns.keys()
            )
        views = ("claims_readable", "decisions_readable", READABLE_VIEW, "transitions_readable")
        assert sorted(inspector.get_view_names()) == sorted(views)
    engine.dispose()


def test_an_upgrade_tells_what_it_did_and_may_be_repeated(url: str) -> None:
    newest = dds_migrations.newest()
    assert sql.upgrade(url) == (None, newest)
    assert sql.current(url) == sql.check(url) == newest
    place = SqlPlace(url)
    log, _ = opened(place, groups(5))
    before = list(log.read())
    assert sql.upgrade(url) == (newest, newest)
    assert list(log.read()) == before
    place.close()


def test_what_helps_readers_is_made_where_it_is_missing(url: str) -> None:
    """A database of before has none, and is as good: only slower to search."""
    sql.upgrade(url)
    engine = engine_for(url)
    with writing(engine) as connection:
        connection.exec_driver_sql("DROP INDEX dds_events_first")
    place = SqlPlace(url)
    log, _ = opened(place, groups(5))
    assert isinstance(log, sql.SqlLog)
    found = log.holding(b'"ordinal":1', ["ClaimMoved"], "claim-1")
    assert [row.position for row in found] and sql.check(url)
    sql.upgrade(url)
    with engine.connect() as connection:
        assert "dds_events_first" in {one["name"] for one in inspect(connection).get_indexes("dds_events")}
    assert log.holding(b'"ordinal":1', ["ClaimMoved"], "claim-1") == found
    place.close()
    engine.dispose()


def test_an_incident_can_be_read_with_the_databases_own_shell(place: SqlPlace) -> None:
    opened(place, groups(3))
    engine = engine_for(place.url)
    with engine.connect() as connection:
        rows = connection.execute(text(f"SELECT * FROM {READABLE_VIEW} WHERE stream = 'claim-1' ORDER BY position"))
        row = rows.mappings().all()[1]
    engine.dispose()
    assert (row["type"], row["from_state"], row["to_state"], row["data"]) == (
        *("ClaimMoved", "Pending", "Attaching"),
        '{"ordinal":1}',
    )
    assert row["occurred_at"] == "2026-09-21T14:13:20.000001Z"
    assert row["recorded_at"] == "2026-09-21T14:13:20.000000Z"
    assert row["causation_id"] == "prod-eu/scaler:1.1.0"
    assert len(row["hash"]) == 64


def test_opening_never_migrates(url: str, tmp_path: Path) -> None:
    if url.startswith("sqlite"):
        sqlite3.connect(tmp_path / "log.sqlite3").close()
    for call in (sql.Database, sql.check):
        with pytest.raises(SchemaMissing, match="holds no event log yet; run `dds db upgrade` on it"):
            call(url)
    assert sql.current(url) is None


def test_opening_never_makes_a_file(tmp_path: Path) -> None:
    for call in (sql.Database, sql.check, sql.current):
        with pytest.raises(DatabaseMissing, match="there is no such file; check the path"):
            call(sqlite_url(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_another_application_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    before = path.read_bytes()
    for call in (sql.Database, sql.check, sql.upgrade):
        with pytest.raises(NotADatabase, match=r"belongs to another application \(it holds the table bookmarks\)"):
            call(sqlite_url(tmp_path))
    assert path.read_bytes() == before


def test_a_postgres_database_may_be_shared(postgres: Postgres) -> None:
    url = postgres.new_database()
    engine = engine_for(url)
    with writing(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE bookmarks (url TEXT)")
    engine.dispose()
    sql.upgrade(url)
    place = SqlPlace(url)
    opened(place, groups(2))
    place.close()


@pytest.fixture
def next_version(tmp_path: Path) -> Path:
    """A copy of the migrations with one more: what the next version of dds will bring."""
    copy = tmp_path / "next" / "dds_migrations"
    shutil.copytree(Path(dds_migrations.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "versions" / "v0002_more.py").write_text(
        'import sqlalchemy as sa\nfrom alembic import op\nrevision = "0002"\ndown_revision = "0001"\n'
        'def upgrade():\n    op.create_table("dds_more", sa.Column("a", sa.Integer))\n'
    )
    return copy.parent


def in_next_version(folder: Path, program: str, url: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, url],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_an_older_database_is_refused_until_it_is_upgraded(url: str, next_version: Path) -> None:
    sql.upgrade(url)
    told = in_next_version(
        next_version,
        "import sys\nfrom dds_adapters import sql\ntry:\n    sql.Database(sys.argv[1])\n"
        "except Exception as error:\n    print(type(error).__name__, error)",
        url,
    )
    assert told.startswith(SchemaOlder.__name__)
    assert "its schema is 0001, this version of dds needs 0002; make a copy, then run `dds db upgrade` on it" in told
    assert sql.current(url) == "0001"


def test_a_newer_database_is_refused_and_not_touched(url: str, next_version: Path) -> None:
    in_next_version(next_version, "import sys\nfrom dds_adapters import sql\nsql.upgrade(sys.argv[1])", url)
    for call in (sql.Database, sql.check, sql.upgrade):
        with pytest.raises(
            SchemaNewer, match="its schema is 0002, made by a newer dds than this one, which knows 0001"
        ):
            call(url)
    assert sql.current(url) == "0002"


def test_two_upgrades_at_once_do_not_disturb_each_other(url: str) -> None:
    program = "import sys\nfrom dds_adapters import sql\nprint(sql.upgrade(sys.argv[1])[1])"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    told = [process.communicate() for process in running]
    assert [out.strip() for out, _ in told] == ["0001", "0001"], told
    database = sql.Database(url)
    assert database.heads() == []
    database.open_log("a/scaler", cluster="c", recorded_at=NOON)
    database.close()
