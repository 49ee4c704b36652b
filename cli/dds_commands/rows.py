"""Rows about objects, and the tables that show them, for `dds status`, `dds claims`, `dds devices`, `dds pools` and `dds replay`.

A row has the fields of the JSON output. Its instants (the fields in INSTANTS) are microseconds since 1970-01-01 UTC, 0 for never;
`readable` makes texts of them, a table shows how long ago they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from dds_commands.screen import show, style
from dds_commands.screen import table as show_columns
from dds_core.timeline.instants import duration, rfc3339

Row = Mapping[str, Any]
INSTANTS = frozenset(
    {"recorded_at", "at", "epoch_at", "synced_at", "since", "until", "again_at", "listed_at", "idle_since"}
)


def readable(data: Any) -> Any:
    """The same data with instants in RFC 3339, None for never."""
    if isinstance(data, dict):
        return {
            key: (rfc3339(value) if value else None) if key in INSTANTS else readable(value)
            for key, value in data.items()
        }
    return [readable(one) for one in data] if isinstance(data, list) else data


class Ages:
    """Words for the distance of an instant from now."""

    def __init__(self, now: int) -> None:
        self._now = now

    def since(self, at: int) -> str:
        """The time since an instant; "-" for 0 (never)."""
        return duration(max(0, self._now - at)) if at else "-"

    def until(self, at: int) -> str:
        return f"in {duration(at - self._now)}" if at > self._now else "now"


Cell = Callable[[Row, Ages], str]


class Table(NamedTuple):
    """`columns`: headings with the function that gives a cell; a heading alone stands for the field of this name. In a status the
    rows have the `key`, and the table the `title`."""

    columns: tuple[str | tuple[str, Cell], ...]
    title: str = ""
    key: str = ""


def field(key: str, otherwise: str = "") -> Cell:
    """The field as it is, a list with commas; `otherwise` if it is empty, "-" if there is no value."""

    def cell(row: Row, ages: Ages) -> str:
        value = row[key]
        if value is None:
            return "-"
        return (", ".join(value) if isinstance(value, list | tuple) else str(value)) or otherwise

    return cell


def since(heading: str = "for") -> tuple[str, Cell]:
    return heading, lambda row, ages: ages.since(row["since"])


def until(heading: str, key: str) -> tuple[str, Cell]:
    return heading, lambda row, ages: ages.until(row[key])


def show_table(table: Table, rows: Iterable[Row], now: int, empty: str = "") -> None:
    """Print the rows; without any `empty`. Times count back from `now`."""
    ages = Ages(now)
    columns = [(one, field(one)) if isinstance(one, str) else one for one in table.columns]
    show_columns([heading for heading, _ in columns], [[cell(row, ages) for _, cell in columns] for row in rows], empty)


def titled(title: str) -> None:
    """Print an empty line and a heading."""
    show("")
    show(style()(title, "name"))


def show_tables(data: Row, now: int, most: int, tables: Iterable[Table]) -> None:
    """Print the first `most` rows of each table with its title; an empty table is left out."""
    for table in tables:
        rows = data[table.key]
        if rows:
            titled(table.title)
            show_table(table, rows[:most], now)
            if len(rows) > most:
                show(f"… and {len(rows) - most} more, with --most or --json")
