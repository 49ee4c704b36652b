"""The result of an examination: one finding for each thing that was checked, with a mend if something is to be done.

Pure. A finding is one line for a person. Foreign text goes through `foreign`, so that a finding never contains a credential.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from dds_core.errors import DdsError
from dds_core.text import scrub

Level = Literal["ok", "note", "warning", "error", "unknown"]
LEVELS: tuple[Level, ...] = ("ok", "note", "warning", "error", "unknown")
"""ok: as it should be. note: good to know. warning: it works, but less well than it could. error: a part of the work cannot be
done. unknown: it could not be checked."""


@dataclass(frozen=True)
class Finding:
    """`check` is the topic, `what` was found, `mend` is what to do ("": nothing)."""

    check: str
    level: Level
    what: str
    mend: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "what", _one_line(self.what))
        object.__setattr__(self, "mend", _one_line(self.mend))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def foreign(text: str) -> str:
    """Text from outside dds (a user's name, a lease's holder), made fit to be shown."""
    return scrub(text)[:120]


def ok(check: str, what: str) -> Finding:
    return Finding(check, "ok", what)


def note(check: str, what: str, mend: str = "") -> Finding:
    return Finding(check, "note", what, mend)


def warning(check: str, what: str, mend: str) -> Finding:
    return Finding(check, "warning", what, mend)


def error(check: str, what: str, mend: str) -> Finding:
    return Finding(check, "error", what, mend)


def unknown(check: str, what: str, mend: str = "") -> Finding:
    return Finding(check, "unknown", what, mend)


def failed(check: str, problem: DdsError, level: Level = "unknown", mend: str = "") -> Finding:
    """A check that ended with a known error; `mend` is for an error that has no fix."""
    what = f"{problem.where}: {problem.what}" if problem.where else problem.what
    return Finding(check, level, what, problem.fix or mend)


def sound(findings: Iterable[Finding]) -> bool:
    """True if none is an error."""
    return all(one.level != "error" for one in findings)


def many(number: int, word: str) -> str:
    """Such as 1 machine, 2 machines; 1 capacity, 2 capacities."""
    if number == 1:
        return f"1 {word}"
    return f"{number} {word.removesuffix('y')}ies" if word.endswith("ty") else f"{number} {word}s"


def several(names: Iterable[str], limit: int = 5) -> str:
    """Names, sorted, with commas; of a long list the rest is counted."""
    found = sorted(set(names))
    rest = len(found) - limit
    return ", ".join(found[:limit]) + (f" and {rest} more" if rest > 0 else "")
