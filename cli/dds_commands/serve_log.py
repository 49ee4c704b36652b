"""The logs that `dds serve` and `dds publish` write: where they are by default, how their database is made, upgraded and opened.

No schema is ever changed unless the person who starts it asked for that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dds_adapters.sql import Database, upgrade
from dds_adapters.sql.urls import as_url
from dds_commands.parameters import without_password
from dds_commands.places import default_path, made, state_folder
from dds_core.errors import DatabaseMissing, LogUnavailable, SchemaMissing, SchemaOlder
from dds_core.log import EventLog

COMPONENT = "scaler"


class ServedLogs:
    """The database of a cluster's logs, which is opened once and kept; a context manager that closes it.

    `named` is a URL or the path of a SQLite file. With `migrate` the schema is made or upgraded before the first use.
    `say` is given what a person may want to know.
    """

    def __init__(self, named: str, cluster_name: str, *, migrate: bool, say: Callable[[str], None]) -> None:
        self._cluster_name = cluster_name
        self._named = named
        self._url = as_url(named)
        self._migrate = migrate
        self._say = say
        self._database: Database | None = None
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Find out early what no waiting mends. A database that is away may come back: that is no error yet.

        Raises DatabaseMissing, SchemaMissing, SchemaOlder (each says how to go on), SchemaNewer, NotADatabase or InputError.
        """
        if self._named == default_path():
            made(state_folder(), "give --log URL")
        try:
            self._opened()
        except LogUnavailable as error:
            self._say(str(error))

    def opener(self, component: str) -> Callable[[str], EventLog]:
        """Opens the log of a component for the cluster of the UID that it is given; the log is made if it is not there. Raises
        ForeignLog, LogUnavailable, and as `prepare`."""
        name = f"{self._cluster_name}/{component}"
        return lambda cluster: self._opened().open_log(name, cluster=cluster, recorded_at=time.time_ns() // 1000)

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def __enter__(self) -> ServedLogs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self) -> Database:
        with self._lock:
            if self._database is None:
                if self._migrate:
                    self._upgrade()
                self._database = self._open()
            return self._database

    def _upgrade(self) -> None:
        before, after = upgrade(self._url)
        if before != after:
            self._say(f"{without_password(self._named)} was brought from {before or 'nothing'} to {after}")

    def _open(self) -> Database:
        try:
            return Database(self._url)
        except (DatabaseMissing, SchemaMissing) as error:
            fix = "start once with --migrate, which makes the log there"
            raise type(error)(error.what, where=error.where, fix=self._or_elsewhere(fix)) from None
        except SchemaOlder as error:
            fix = "make a copy, then start once with --migrate, which upgrades it"
            raise SchemaOlder(error.what, where=error.where, fix=fix) from None

    def _or_elsewhere(self, fix: str) -> str:
        """A first installation has named no log: it may not want one there."""
        elsewhere = ", or name another log with --log URL" if self._named == default_path() else ""
        return f"{fix}{elsewhere}"
