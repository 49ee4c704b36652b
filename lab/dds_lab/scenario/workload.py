"""Pods in a CSV file beside a scenario, one row for each pod in order of arrival. The file is read row by row, so that 100,000
pods need no memory.

A row says when a pod comes and what it needs; empty cells are defaults. `devices` is written as `nvidia-a100-40=2 nvidia-h100=1`,
`shares` as `nic.example.com:bandwidth=4Gi`, `node_selector` as `zone=a`, durations as in a scenario.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from pydantic import Field, ValidationError

from dds_core.errors import InputError
from dds_lab.scenario.checks import unknown
from dds_lab.scenario.scenario import Run
from dds_lab.scenario.values import Duration, Written

COLUMNS = (
    "at", "name", "namespace", "devices", "shares", "lasts", "delete_after", "withdraw_after", "template", "cpu", "memory",
    "scheduler", "priority", "node_selector", "grace",
)  # fmt: skip
_NEEDED = ("at", "name")


class WorkloadError(InputError):
    """A file of pods has an error; `where` names the line."""


class Arrival(Written):
    """A pod that comes."""

    at: Duration = Field(description="So long after the start.")
    run: Run = Field(description="The pod and its claim.")
    withdraw_after: Duration | None = Field(
        default=None, description="Pod and claim are deleted so long after the pod came, whatever became of it."
    )


def read_workload(path: Path, classes: Collection[str] | None = None) -> Iterator[Arrival]:
    """The pods in a file, in order. With `classes`, other device classes are errors. Raises WorkloadError at the first error."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file, strict=True)
            header = next(rows, [])
            _check_header(header, path)
            latest = 0.0
            for row in rows:
                where = f"{path}:{rows.line_num}"
                if not row:
                    continue
                if len(row) != len(header):
                    raise WorkloadError(
                        f"has {len(row)} cells, the header {len(header)}",
                        where=where,
                        fix="give a cell for each column",
                    )
                found = _arrival(dict(zip(header, row, strict=True)), where)
                if found.at < latest:
                    raise WorkloadError(f"at: a row before it comes later ({latest:g}s)", where=where, fix="sort by at")
                latest = found.at
                strange = next(
                    (name for name in found.run.devices if classes is not None and name not in classes), None
                )
                if strange is not None:
                    raise WorkloadError(
                        f"devices: {unknown('class', strange, classes or ())}", where=where, fix="name one of them"
                    )
                yield found
    except OSError as error:
        raise WorkloadError(f"cannot be read: {error.strerror}", where=str(path), fix="name a file of pods") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise WorkloadError(f"is no CSV file: {error}", where=str(path), fix="write it as UTF-8 text") from None


def write_workload(path: Path, arrivals: Iterable[Arrival]) -> int:
    """Write pods to a file for `read_workload`; returns their number."""
    with path.open("w", encoding="utf-8", newline="") as file:
        return write_rows(file, arrivals)


def write_rows(file: TextIO, arrivals: Iterable[Arrival]) -> int:
    """As `write_workload`, to an open file."""
    rows, number = csv.writer(file, lineterminator="\n"), 0
    rows.writerow(COLUMNS)
    for one in arrivals:
        rows.writerow(_row(one))
        number += 1
    return number


def _check_header(header: list[str], path: Path) -> None:
    for name in header:
        if name not in COLUMNS:
            raise WorkloadError(unknown("column", name, COLUMNS), where=f"{path}:1", fix="correct the header")
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise WorkloadError(f"column {twice} is there twice", where=f"{path}:1", fix="keep one of them")
    for name in _NEEDED:
        if name not in header:
            raise WorkloadError(f"column {name} is missing", where=f"{path}:1", fix=f"begin with {','.join(COLUMNS)}")


def _arrival(row: dict[str, str], where: str) -> Arrival:
    given = {name: _cell_of(name, text, where) for name, text in row.items() if text}
    beside = {name: given.pop(name) for name in ("at", "withdraw_after") if name in given}
    try:
        return Arrival(**beside, run=Run(**given))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        what = str(first["msg"]).removeprefix("Value error, ")
        place = ".".join(str(part) for part in first["loc"])
        raise WorkloadError(f"{place}: {what[:1].lower()}{what[1:]}", where=where, fix="see docs/lab.md") from None


def _cell_of(name: str, text: str, where: str) -> Any:
    try:
        return _READ[name](text) if name in _READ else text
    except ValueError as error:
        raise WorkloadError(f"{name}: {text!r} cannot be read: {error}", where=where, fix="see docs/lab.md") from None


def _duration(text: str) -> float | str:
    return float(text) if text.replace(".", "", 1).isdigit() else text


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("is neither true nor false")
    return text == "true"


def _pairs(text: str, name: str) -> dict[str, Any]:
    """Parse `a=1 b=2`, for shares `class:capacity=amount`. Raises ValueError."""
    found: dict[str, Any] = {}
    for one in text.split():
        key, equals, value = one.partition("=")
        if not equals:
            raise ValueError(f"{one!r} has no =")
        if name == "shares":
            device_class, colon, capacity = key.partition(":")
            if not colon:
                raise ValueError(f"{one!r} names no class and capacity (class:capacity=amount)")
            found.setdefault(device_class, {})[capacity] = value
        else:
            found[key] = int(value) if name == "devices" else value
    return found


_READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("at", "lasts", "delete_after", "withdraw_after"), _duration),
    **dict.fromkeys(("priority", "grace"), int),
    "devices": lambda text: _pairs(text, "devices"),
    "shares": lambda text: _pairs(text, "shares"),
    "node_selector": lambda text: _pairs(text, "node_selector"),
    "template": _truth,
}


def _row(one: Arrival) -> list[str]:
    run = one.run
    cells = {
        "at": _number(one.at),
        "devices": _joined(run.devices),
        "shares": " ".join(f"{name}:{c}={amount}" for name, of in run.shares.items() for c, amount in of.items()),
        "node_selector": _joined(run.node_selector),
        "template": "true" if run.template else "",
        "withdraw_after": _number(one.withdraw_after),
        "lasts": _number(run.lasts),
        "delete_after": _number(run.delete_after),
    }
    return [cells[name] if name in cells else _cell(run, name) for name in COLUMNS]


def _cell(run: Run, name: str) -> str:
    value = getattr(run, name)
    return "" if value is None or value == Run.model_fields[name].default else str(value)


def _joined(pairs: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in pairs.items())


def _number(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.6f}".rstrip("0").rstrip(".") or "0"
