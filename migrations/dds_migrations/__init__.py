"""The schema of the SQL event log and its migrations. All functions use the caller's connection and transaction."""

from __future__ import annotations

import enum
from pathlib import Path

from sqlalchemy import Connection, inspect, text

VERSION_TABLE = "dds_schema"
"""The table that holds the revision of a database."""


class Status(enum.Enum):
    """A database's schema compared with the one that this version of the code needs."""

    MISSING = "missing"
    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"


def newest() -> str:
    """The revision that this version of the code needs."""
    return revisions()[-1]


def revisions() -> list[str]:
    """Every revision that this version of the code knows, oldest first, by the names of the migrations' files."""
    return sorted(path.name[1:5] for path in (Path(__file__).parent / "versions").glob("v[0-9]*.py"))


def current(connection: Connection) -> str | None:
    """The revision of the database. None when it has no schema of dds."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return str(found) if found is not None else None


def check(connection: Connection) -> Status:
    """Compare the database with this version of the code. Changes nothing."""
    revision = current(connection)
    if revision is None:
        return Status.MISSING
    if revision == newest():
        return Status.CURRENT
    return Status.OLDER if revision in revisions() else Status.NEWER


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations that the database lacks, up to `revision`."""
    from alembic import command  # loaded only here, since upgrades are rare
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
