"""Turns errors of the database drivers into errors of the project, by SQLite's error code or PostgreSQL's SQLSTATE. The
driver's own text is appended in parentheses."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError

from dds_core.errors import (
    DatabaseError,
    DdsError,
    LogError,
    LogFull,
    LogLocked,
    LogUnavailable,
    LogUnreachable,
    NotADatabase,
    SchemaMissing,
)

_RETRY = "try again later; the same call may be repeated without doubling"

_READONLY = "check the permissions of file and folder; only to read it, copy it to a folder where you may write"

_SQLITE: dict[str, tuple[type[DdsError], str, str]] = {
    "SQLITE_BUSY": (LogLocked, "another process holds the write lock", f"end that process or {_RETRY}"),
    "SQLITE_LOCKED": (LogLocked, "another connection holds the write lock", f"end it or {_RETRY}"),
    "SQLITE_FULL": (LogFull, "no room is left on the disk", "make room, then repeat the call"),
    "SQLITE_IOERR": (LogUnavailable, "the disk gives an error", "check the disk, its quota and the file's size limit"),
    "SQLITE_READONLY": (LogUnavailable, "the database may not be written", _READONLY),
    "SQLITE_NOTADB": (NotADatabase, "this is no SQLite database", "name the right file"),
    "SQLITE_CORRUPT": (NotADatabase, "the database is damaged", "restore it, or import an export into a new one"),
    "SQLITE_CANTOPEN": (DatabaseError, "the database cannot be opened", "check that path and permissions are right"),
    "SQLITE_PERM": (DatabaseError, "the database may not be opened", "check the permissions of file and folder"),
}

_POSTGRES: dict[str, tuple[type[DdsError], str, str]] = {
    "55P03": (LogLocked, "another session holds the head row", f"end that session or {_RETRY}"),
    "57014": (LogLocked, "the statement was cancelled", _RETRY),
    "40001": (LogLocked, "the transaction was in conflict with another", _RETRY),
    "40P01": (LogLocked, "the transaction was in a deadlock with another", _RETRY),
    "25P03": (LogUnreachable, "the server ended a session that stood still in a transaction", _RETRY),
    "53100": (LogFull, "no room is left on the server's disk", "make room, then repeat the call"),
    "25006": (LogUnavailable, "the server accepts no writes", "name the primary server"),
    "42501": (DatabaseError, "the database's user lacks a right", "grant the user the rights to the dds tables"),
    "schema": (
        DatabaseError,
        "the database's user may not make tables in the schema",
        "let its owner run `GRANT CREATE ON SCHEMA public TO …` (the default until PostgreSQL 14), or `dds db upgrade` itself",
    ),
    "42P01": (SchemaMissing, "a table of ours is missing", "run `dds db upgrade` on it"),
    "53": (LogUnreachable, "the server is out of resources", _RETRY),
    "57": (LogUnreachable, "the server ended the session", _RETRY),
    "08": (LogUnreachable, "the connection was lost", _RETRY),
}


@contextmanager
def translated_errors(where: str) -> Iterator[None]:
    """Raise errors of the driver in the block as a `DdsError` about the database `where`."""
    try:
        yield
    except DBAPIError as error:
        raise ours(error.orig or error, where, lost=error.connection_invalidated) from error
    except sqlite3.Error as error:
        raise ours(error, where) from error
    except Exception as error:
        if type(error).__module__.split(".")[0] != "psycopg":
            raise
        raise ours(error, where) from error


def ours(error: BaseException, where: str, *, lost: bool = False) -> DdsError:
    """The `DdsError` for an error of a driver. `lost`: the connection was lost."""
    if isinstance(error, sqlite3.Error):
        return _told(_sqlite_case(error), error, where)
    state = getattr(error, "sqlstate", None) or ""
    if state == "42501" and "schema" in str(error):
        state = "schema"
    case = _POSTGRES.get(state) or _POSTGRES.get(state[:2])
    if case is None and (lost or (not state and type(error).__name__ in ("OperationalError", "InterfaceError"))):
        fix = "check host, port, database and user, or try again later"
        case = (LogUnreachable, "the server cannot be reached", fix)
    return _told(case, error, where)


def _sqlite_case(error: sqlite3.Error) -> tuple[type[DdsError], str, str] | None:
    name = getattr(error, "sqlite_errorname", "") or ""
    for prefix, case in _SQLITE.items():
        if name == prefix or name.startswith(prefix + "_"):
            return case
    if "no such table" in str(error):
        return _POSTGRES["42P01"]
    if str(error).startswith("Could not decode"):  # the driver's message for text that is not UTF-8
        return _SQLITE["SQLITE_CORRUPT"]
    return None


def _told(case: tuple[type[DdsError], str, str] | None, error: BaseException, where: str) -> DdsError:
    kind, what, fix = case or (LogError, "the database refuses", "report this as a fault of dds")
    return kind(f"{what} ({' '.join(str(error).split())[:300]})", where=where, fix=fix)
