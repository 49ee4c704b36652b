"""Stores results of runs in a table of SQLite or PostgreSQL; a row is written when its run ends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from sqlalchemy import Column, Integer, MetaData, String, Table, Text, create_engine, insert, make_url, select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from dds_adapters.sql.urls import as_url
from dds_core.errors import InputError

_RUNS = Table(
    "dds_whatif_runs",
    MetaData(),
    Column("key", String(32), primary_key=True),
    Column("seed", Integer, nullable=False),
    Column("cell", Text, nullable=False),
    Column("measures", Text, nullable=False),
)
_PIECE = 500


class Store:
    """Results by key. Several processes may share a store: if two add the same run, the first one stays."""

    def __init__(self, place: str | None = None) -> None:
        """`place` is a URL or the path of a SQLite file; None keeps the results in memory. Raises InputError."""
        url = make_url(as_url(place) if place is not None else "sqlite://")
        self._place = place if place is not None and "://" not in place else url.render_as_string(hide_password=True)
        try:
            self._engine = create_engine(url)
            _RUNS.metadata.create_all(self._engine)
        except (SQLAlchemyError, ImportError) as error:
            raise self._unusable(error) from None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.dispose()

    def known(self, keys: Iterable[str]) -> dict[str, dict[str, float]]:
        """The measures of the stored runs among these keys."""
        wanted, found = list(dict.fromkeys(keys)), dict[str, dict[str, float]]()
        try:
            with self._engine.connect() as connection:
                for start in range(0, len(wanted), _PIECE):
                    rows = connection.execute(
                        select(_RUNS.c.key, _RUNS.c.measures).where(_RUNS.c.key.in_(wanted[start : start + _PIECE]))
                    )
                    found |= {key: json.loads(text) for key, text in rows}
        except SQLAlchemyError as error:
            raise self._unusable(error) from None
        return found

    def add(self, key: str, cell: Mapping[str, Any], seed: int, measures: Mapping[str, float]) -> None:
        """Store a run. Raises InputError if the database cannot be used."""
        row = {"key": key, "seed": seed, "cell": json.dumps(cell), "measures": json.dumps(measures)}
        try:
            with self._engine.begin() as connection:
                connection.execute(insert(_RUNS).values(**row))
        except IntegrityError:
            return
        except SQLAlchemyError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> InputError:
        words = str(error).splitlines()[0]
        return InputError(f"results cannot be kept: {words}", where=self._place, fix="name another file or database")
