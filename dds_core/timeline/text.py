"""A timeline as text, as a diagram, and as plain data for programs. Tests compare the text with recorded text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from textwrap import wrap
from typing import Any

from dds_core.timeline.instants import day, duration, rfc3339, time_of_day
from dds_core.timeline.telling import ACT, DECISION, ERASED, FACT, FOLDED, NODE, REST, Entry

WIDTH = 100

MARKS = {FACT: "·", ACT: "×", DECISION: "▸", ERASED: "⌧", FOLDED: "≡"}
LEGEND = "· fact   × done by somebody else, not by dds   ▸ decision of dds"

Style = Callable[[str, str], str]
"""(text, role) → the text with colours; roles are time, state, cause, name and the kinds of notes."""

_INDENT = 14
_STATES = 21
_AFTER = 11


def plain(text: str, role: str) -> str:
    """No colours."""
    return text


def render_text(entries: Iterable[Entry], *, width: int = WIDTH, style: Style = plain, names: bool = False) -> str:
    """The whole timeline as text. See `render_lines`."""
    return "".join(f"{line}\n" for line in render_lines(entries, width=width, style=style, names=names))


def render_lines(
    entries: Iterable[Entry], *, width: int = WIDTH, style: Style = plain, names: bool = False, origin: int = 0
) -> Iterator[str]:
    """The lines of a timeline, as entries arrive: a heading for each day, each entry, its notes under it. Each change shows the
    time spent in the state before, and the time since the instant `origin` unless that is 0. `names` adds the name of the claim
    or device."""
    today = ""
    for entry in entries:
        if day(entry.at) != today:
            if today:
                yield ""
            today = day(entry.at)
            yield style(f"{today} UTC", "name")
        yield from _entry(entry, width, style, names, origin)


def _entry(entry: Entry, width: int, style: Style, names: bool, origin: int) -> Iterator[str]:
    time = style(time_of_day(entry.at), "time")
    if entry.kind in (DECISION, FOLDED):
        start = f"{time}  {style(MARKS[entry.kind], entry.kind)} "
        yield from _wrapped(start, _INDENT + 2, entry.cause, entry.kind, width, style)
    elif entry.kind == REST:
        yield f"{time}  {style('no change since; what was seen:', 'cause')}"
    else:
        if names or entry.kind == NODE:
            yield f"{time}  {style(f'{entry.kind} {entry.name}', 'name')}"
            time = " " * 12
        states, columns = _states(entry, style, origin)
        cause = entry.cause or entry.meaning
        yield from _wrapped(f"{time}  {states}", _INDENT + columns, cause, "cause", width, style)
    for note in entry.notes:
        start = f"{' ' * _INDENT}{time_of_day(note.at)} {MARKS[note.kind]} "
        yield from _wrapped(style(start, note.kind), len(start), note.text, note.kind, width, style)


def _states(entry: Entry, style: Style, origin: int) -> tuple[str, int]:
    """The columns before the cause, and their width in characters on the screen."""
    states = f"{entry.source} → {entry.target}" if entry.source != entry.target else f"{entry.target} (stays)"
    after = f"+{duration(entry.after)}" if entry.after is not None else ""
    times = [after, duration(max(0, entry.at - origin))] if origin else [after]
    gap = "  " if len(times) == 1 else " "
    told = gap + "".join(f"{time.ljust(_AFTER)}{gap}" for time in times)
    return f"{style(states.ljust(_STATES), 'state')}{told}", _STATES + len(told)


def _wrapped(start: str, column: int, text: str, role: str, width: int, style: Style) -> Iterator[str]:
    """`start`, which is `column` characters wide on the screen, and the text beside it."""
    lines = wrap(text, max(width - column, 20), break_long_words=False, break_on_hyphens=False) or [""]
    yield (start + style(lines[0], role)).rstrip()
    for line in lines[1:]:
        yield " " * column + style(line, role)


def as_data(entry: Entry) -> dict[str, Any]:
    """An entry as plain data, with instants in RFC 3339 and durations in seconds."""
    return {
        "at": rfc3339(entry.at),
        "position": entry.position,
        "kind": entry.kind,
        "name": entry.name,
        "uid": entry.uid,
        "trigger": entry.trigger,
        "from": entry.source,
        "to": entry.target,
        "after_seconds": None if entry.after is None else entry.after / 1_000_000,
        "cause": entry.cause,
        "meaning": entry.meaning,
        "notes": [{"at": rfc3339(n.at), "kind": n.kind, "text": n.text} for n in entry.notes],
    }


def path_diagram(entries: Iterable[Entry]) -> str:
    """A Mermaid diagram of the changes of one subject: an arrow for each, with its number, instant, trigger and the time spent in
    the state before. Several claims or devices can be told apart only by the order of the numbers."""
    lines = ["stateDiagram-v2"]
    number = 0
    for entry in entries:
        if not entry.trigger:
            continue
        number += 1
        source = "[*]" if entry.source == "New" else entry.source
        spent = f" after {duration(entry.after)}" if entry.after is not None else ""
        # A colon would end the label, so times have the ratio sign.
        time = time_of_day(entry.at).replace(":", "∶")
        lines.append(f"    {source} --> {entry.target}: {number}. {time} {entry.trigger}{spent}")
    return "\n".join(lines) + "\n"
