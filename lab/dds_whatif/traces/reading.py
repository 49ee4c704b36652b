"""Reads a trace's CSV file, plain or gzipped, row by row and never as a whole."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from dds_adapters.files import opened
from dds_core.errors import InputError

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")
_MOST = 10**9


class TraceError(InputError):
    """A file is not in the format of its trace; `where` names the line."""


class Row:
    """A row with its cells by column. The methods raise TraceError if the cell does not have the form that they read."""

    __slots__ = ("_cells", "_places", "where")

    def __init__(self, cells: Sequence[str], places: dict[str, int], where: str) -> None:
        self._cells = cells
        self._places = places
        self.where = where

    def text(self, column: str) -> str:
        """The cell's text, which may be empty."""
        return self._cells[self._places[column]].strip()

    def label(self, column: str) -> str:
        """The cell's text as a valid name of a pod or namespace."""
        written = self.text(column)
        found = re.sub(r"[^a-z0-9]+", "-", written.lower())
        if not _LABEL.fullmatch(found):
            raise self.fault(
                f"{column}: {written!r} makes no name of an object", "name it by up to 50 letters, digits and dashes"
            )
        return found

    def number(self, column: str) -> float:
        """A number, not below 0."""
        written = self.text(column)
        try:
            found = float(written)
        except ValueError:
            what = f"{written!r} is no number" if written else "is empty"
            raise self.fault(f"{column}: {what}", "correct or remove the row") from None
        if not math.isfinite(found):
            raise self.fault(f"{column}: {written!r} is no number", "correct or remove the row")
        if found < 0:
            raise self.fault(f"{column}: {written} is negative", "correct or remove the row")
        return found

    def whole(self, column: str) -> int:
        """A whole number, not below 0."""
        found = self.number(column)
        if found != int(found) or found > _MOST:
            raise self.fault(f"{column}: {self.text(column)} is no whole number up to {_MOST}", "correct the row")
        return int(found)

    def moment(self, column: str) -> float | None:
        """Seconds; None for an empty cell."""
        return self.number(column) if self.text(column) else None

    def ordered(self, *columns: str) -> None:
        """Check that the moments in these columns do not decrease; empty cells are skipped."""
        there = [(one, found) for one in columns if (found := self.moment(one)) is not None]
        for (first, earlier), (second, later) in pairwise(there):
            if later < earlier:
                raise self.fault(f"{second} {later:g} is before {first} {earlier:g}", "correct or remove the row")

    def fault(self, what: str, fix: str) -> TraceError:
        return TraceError(what, where=self.where, fix=fix)


def rows(path: Path, columns: Sequence[str], what: str) -> Iterator[Row]:
    """The rows of a file that has these columns and maybe more; blank lines are skipped. `what` says in messages what the file
    should be, such as `openb's pods`.

    Raises TraceError, and FileError if the file cannot be read.
    """
    with opened(str(path)) as raw:
        lines = csv.reader(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""), strict=True)
        try:
            header = [one.strip() for one in next(lines, [])]
            _check(header, columns, path, what)
            places = {name: place for place, name in enumerate(header)}
            for cells in lines:
                where = f"{path}:{lines.line_num}"
                if len(cells) == len(header):
                    yield Row(cells, places, where)
                elif cells:
                    raise TraceError(
                        f"has {len(cells)} cells, the header {len(header)}",
                        where=where,
                        fix="correct or remove the row",
                    )
        except (csv.Error, UnicodeDecodeError) as error:
            raise TraceError(
                f"is no CSV file: {error}",
                where=f"{path}:{lines.line_num + 1}",
                fix="give the file as it was published",
            ) from None


def _check(header: Sequence[str], columns: Sequence[str], path: Path, what: str) -> None:
    missing = [name for name in columns if name not in header]
    if missing:
        some = f"column {missing[0]}" if len(missing) == 1 else f"columns {', '.join(missing)}"
        raise TraceError(
            f"{some} missing: this is not {what}", where=f"{path}:1", fix="give the file as it was published"
        )


class Names:
    """Checks that names are unique."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def new(self, row: Row, column: str) -> str:
        """The row's name. Raises TraceError if an earlier row has the same."""
        found = row.label(column)
        if found in self._given:
            raise row.fault(f"{column}: a row before it is called {row.text(column)} too", "keep one of them")
        self._given.add(found)
        return found


def given(found: float | None, row: Row, column: str) -> float:
    """The moment. Raises TraceError for None."""
    if found is None:
        raise row.fault(f"{column}: is empty, which it is nowhere in this trace", "correct or remove the row")
    return found
