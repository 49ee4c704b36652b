"""Database URLs: parse them, and show them without secrets.

A secret may be in the password, in the query or, in a malformed URL, anywhere. So errors never repeat a malformed URL, and a
shown URL has no query.
"""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from dds_core.errors import InputError

PASSWORD_FILE = "password_file"
"""In the query of a URL: the file that holds the password, read anew for each connection."""
_FORMS = "use sqlite:///path/to/log.sqlite3 or postgresql://user@host/database"
_DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_SEVERAL = re.compile(r"(postgres[\w+]*://(?:[^@/?]*@)?)([^@/?,]*(?:,[^@/?,]*)+)(/[^?]*)?(?:\?(.*))?", re.DOTALL)
_MEANT_FOR_A_SERVER = re.compile(r"\s*postgres[\w+]*:|.*\b(?:password|dbname)\s*=", re.IGNORECASE | re.DOTALL)
"""Text that is meant for a server but is no URL: `postgresql:user@host`, or libpq's `host=… password=…`."""


def parsed(url: str) -> URL:
    """The URL with the driver that dds uses. Several hosts, as libpq takes them, become several `host` in the query. Raises
    `InputError` for a URL of another database."""
    try:
        found = make_url(_with_hosts(url))
    except (ArgumentError, ValueError):
        raise InputError("what was given is no database URL", fix=_FORMS) from None
    if found.drivername not in _DRIVERS:
        raise InputError(f"databases of kind {found.drivername} are not known", fix=_FORMS)
    found = found.set(drivername=_DRIVERS[found.drivername])
    if found.get_backend_name() != "sqlite":
        if "@" in (found.host or ""):
            raise InputError("the database URL has more than one @", fix="in a user or password write @ as %40")
        return found
    if found.host or found.username or found.port:
        raise InputError("a SQLite URL names no host", fix="write three slashes: sqlite:///path/to/log.sqlite3")
    if found.database in (None, "", ":memory:"):
        raise InputError("a SQLite log needs a file", fix=_FORMS)
    return found


def _with_hosts(url: str) -> str:
    """libpq's list of hosts in a form that SQLAlchemy reads."""
    several = _SEVERAL.fullmatch(url)
    if several is None:
        return url
    begin, hosts, database, query = several.groups()
    named = "&".join(f"host={one}" for one in hosts.split(","))
    return f"{begin}{database or '/'}?{named}{'&' + query if query else ''}"


def password_in(path: str | tuple[str, ...], where: str) -> str:
    """The password in a file, without a line break at its end. Raises `InputError`."""
    name = path if isinstance(path, str) else path[-1]
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InputError(
            f"the file of the password, {name}, cannot be read: {what}", where=where, fix="mend it"
        ) from None


def shown(url: str | URL) -> str:
    """A URL without password and query, but with its hosts. Raises `InputError` for text that is no database URL."""
    found = parsed(url) if isinstance(url, str) else url
    if found.get_backend_name() == "sqlite":
        return f"sqlite:///{found.database}"
    hosts = found.query.get("host", "")
    plain = found.set(drivername=found.get_backend_name(), query={})
    if isinstance(hosts, str):
        return plain.render_as_string(hide_password=True)
    begin, _, database = plain.set(host="-").render_as_string(hide_password=True).rpartition("-/")
    return f"{begin}{','.join(hosts)}/{database}"


def as_url(text: str) -> str:
    """A URL unchanged, or the path of a SQLite file (with any characters) as a URL. Raises `InputError` as `is_url` does."""
    if is_url(text):
        return text
    return URL.create("sqlite", database=text).render_as_string(hide_password=False)


def is_url(text: str) -> bool:
    """Whether the text is a URL and not a path. Raises `InputError` for text meant for a server that is no URL, so that it is
    not taken for the path of a file."""
    if "://" not in text and _MEANT_FOR_A_SERVER.match(text):
        raise InputError("what was given is no database URL", fix=_FORMS)
    return "://" in text
