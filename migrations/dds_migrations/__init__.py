"""The schema of the SQL event log, as the sum of its migrations.

Everything works on a connection that the caller opened, inside the caller's transaction. Nothing here connects,
commits, or knows what an event means.
"""

from __future__ import annotations

import enum
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

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
    revision = _scripts().get_current_head()
    assert revision is not None, "there is always a first migration"
    return revision


def current(connection: Connection) -> str | None:
    """The revision of the database, None when it has no schema of ours."""
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def check(connection: Connection) -> Status:
    """Compare the database with this version of the code; changes nothing."""
    revision = current(connection)
    if revision is None:
        return Status.MISSING
    if revision == newest():
        return Status.CURRENT
    known = {script.revision for script in _scripts().walk_revisions()}
    return Status.OLDER if revision in known else Status.NEWER


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations that the database lacks, up to `revision`."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
