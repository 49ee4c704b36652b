"""The event log in SQLite and PostgreSQL, with SQLAlchemy Core. Only `schema` migrates a database; opening one never does."""

from dds_adapters.sql.connection import Synchronous
from dds_adapters.sql.database import Database, random_salt
from dds_adapters.sql.log import SqlLog, follow
from dds_adapters.sql.schema import check, current, upgrade

__all__ = ["Database", "SqlLog", "Synchronous", "check", "current", "follow", "random_salt", "upgrade"]
