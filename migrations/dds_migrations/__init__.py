"""The schema of the SQL event log, as the sum of its migrations.

Everything works on a connection that the caller opened, inside the caller's transaction. Nothing here connects,
commits, or knows what an event means.
"""

from __future__ import annotations

import enum
from pathlib import Path

from sqlalchemy import Connection, inspect, text

VERSION_TABLE = "dds_schema"
"""Where a database keeps the name of its newest migration."""


class Status(enum.Enum):
    """How a database's schema stands to this version of the code."""

    MISSING = "missing"
    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"


def newest() -> str:
    """The revision that this version of the code needs."""
    return revisions()[-1]


def revisions() -> list[str]:
    """Every revision that this version of the code knows, oldest first: as the migrations' files are called."""
    return sorted(path.name[1:5] for path in (Path(__file__).parent / "versions").glob("v[0-9]*.py"))


def current(connection: Connection) -> str | None:
    """The revision of the database, None when it has no schema of ours."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return str(found) if found is not None else None


def check(connection: Connection) -> Status:
    """Compare the database with this version of the code; changes nothing."""
    revision = current(connection)
    if revision is None:
        return Status.MISSING
    if revision == newest():
        return Status.CURRENT
    return Status.OLDER if revision in revisions() else Status.NEWER


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations that the database lacks, up to `revision`."""
    from alembic import command  # loaded where something is to be changed, which is seldom
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
