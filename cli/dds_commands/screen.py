"""Output for people: tables, JSON, notes, progress bars. Colours and progress bars appear on a terminal only."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from dds_adapters.files import new_file
from dds_core.errors import InputError
from dds_core.timeline.text import WIDTH, Style, plain

_T = TypeVar("_T")

_WIDEST = 10_000
_MOMENT = 0.3
_LOOK = 100

_COLOURS: dict[str, dict[str, Any]] = {
    "name": {"bold": True},
    "state": {"bold": True, "fg": "cyan"},
    "fact": {"dim": True},
    "act": {"fg": "yellow"},
    "decision": {"fg": "green"},
    "erased": {"fg": "red"},
    "bad": {"fg": "red", "bold": True},
    "good": {"fg": "green"},
}


def coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def style() -> Style:
    return _coloured if coloured() else plain


def _coloured(text: str, role: str) -> str:
    return click.style(text, **_COLOURS.get(role, {}))


def width() -> int:
    """Columns, at least 80: COLUMNS if it is a number, else the terminal's width, else 100, so that files look alike anywhere."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and 0 < int(given) <= _WIDEST:
        return max(80, int(given))
    return max(80, shutil.get_terminal_size((WIDTH, 24)).columns) if sys.stdout.isatty() else WIDTH


@contextmanager
def into_file(path: str, apart: Iterable[str] = ()) -> Iterator[None]:
    """Write the output of the block to a file, which appears or changes only when it is complete, or to a device such as
    /dev/null. Raises InputError if the file cannot be written or is one of `apart`."""
    place = Path(path).resolve()
    if place.is_char_device():
        with place.open("w", encoding="utf-8", errors="backslashreplace") as device, redirect_stdout(device):
            yield
        return
    if not place.parent.is_dir():
        raise InputError("its folder is not there", where=path, fix=f"make {place.parent} first")
    if place.exists() and not place.is_file():
        raise InputError("it is no file" if not place.is_dir() else "it is a folder", where=path, fix="name a file")
    if place.exists() and any(os.path.exists(one) and place.samefile(one) for one in apart):
        raise InputError("it is what is read, and would be lost", where=path, fix="choose another name")
    with new_file(str(place), replace=True) as file:
        text = TextIOWrapper(file, encoding="utf-8", errors="backslashreplace")
        try:
            with redirect_stdout(text):
                yield
        finally:
            text.detach()  # `new_file` closes the file


_UNSHOWN = re.compile(
    "(\x1b\\[(?:[012]|3[1-6])m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""Characters that move the cursor, hide text or change its direction. The first group are the styles of `_COLOURS`."""
_WIDE = 200


def harmless(text: str) -> str:
    """The text with control characters written as their codes: a name in it must not control the terminal."""
    return _UNSHOWN.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    return found[1] if found[1] and coloured() else found[0].encode("unicode_escape").decode()


def show(text: str) -> None:
    sys.stdout.write(f"{harmless(text)}\n")


def show_json(value: Any) -> None:
    _show_data(msgspec.json.format(msgspec.json.encode(value), indent=2))


def show_jsonl(values: Iterable[Any]) -> None:
    for value in values:
        _show_data(msgspec.json.encode(value))


def _show_data(encoded: bytes) -> None:
    """Print JSON. Characters that control the terminal stand in strings alone and are written with JSON's own escapes."""
    text = _UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", encoded.decode())
    sys.stdout.write(f"{text}\n")


def show_data(values: Iterable[Any], form: str) -> None:
    """Print objects as one JSON document (form "json"), else one on each line."""
    (show_json if form == "json" else show_jsonl)(list(values))


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
    """Print rows in columns below their headings; without rows print `empty`."""
    if not rows:
        show(empty)
        return
    rows = [[_cell(cell) for cell in row] for row in rows]
    columns = list(zip(headings, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    dress = style()
    show(dress("  ".join(h.upper().ljust(w) for h, w in zip(headings, widths, strict=True)).rstrip(), "name"))
    for row in rows:
        show("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


def _cell(text: str) -> str:
    """The text on one line, cut to `_WIDE` characters."""
    line = harmless(text.replace("\n", "\\n"))
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…"


def arranged(
    rows: Iterable[_T], by: Callable[[_T], Any] | None, limit: int, *, reverse: bool = False
) -> tuple[list[_T], int]:
    """The first `limit` rows (0: all) in the order of a key, or its opposite, and the number of rows left out."""
    ordered = list(rows) if by is None else sorted(rows, key=by)
    ordered = ordered[::-1] if reverse else ordered
    kept = ordered[: limit or None]
    return kept, len(ordered) - len(kept)


def show_left_out(number: int, form: str) -> None:
    """Say how many rows are left out; on standard error if the output is data."""
    if number:
        (show if form == "table" else note)(f"… and {number} more: --limit 0")


def counted(number: int, noun: str) -> str:
    """Such as 1 event, 2 events."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def note(text: str) -> None:
    """Print a note on standard error."""
    click.echo(f"dds: {harmless(text)}", err=True)


def progress(items: Iterable[_T], length: int | None, label: str) -> Iterator[_T]:
    """The same items. On a terminal a bar appears on standard error if it takes longer than `_MOMENT` seconds."""
    iterator = iter(items)
    if sys.stderr.isatty():
        begun = time.monotonic()
        for done, item in enumerate(iterator, start=1):
            yield item
            if done % _LOOK == 0 and time.monotonic() - begun > _MOMENT:
                rest = length - done if length is not None else None
                with click.progressbar(iterator, rest, label, file=sys.stderr, update_min_steps=_LOOK) as bar:
                    yield from bar
    else:
        yield from iterator


@contextmanager
def position_bar(last: int, label: str) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with the position reached; on a terminal it moves a bar on standard error."""
    if not sys.stderr.isatty():
        yield lambda position: None
        return
    with click.progressbar(length=last, label=label, file=sys.stderr) as bar:
        yield lambda position: bar.update(position - bar.pos)
