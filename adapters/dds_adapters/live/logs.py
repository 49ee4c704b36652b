"""Log lines of a live scaler: one line an event, on standard error, as text for people or as JSON for programs.

What a line carries beside its words are fields, given as logging's `extra`. Secrets are taken out of everything that is logged,
of what libraries log and of tracebacks too, before it is written. A line that cannot be written is dropped: logging never ends
or stops a scaler.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Any, Literal, TextIO

import msgspec

from dds_adapters.live.narrator import EVENTS, Narrator
from dds_core.errors import InputError
from dds_core.text import scrub
from dds_core.timeline.clock import rfc3339

__all__ = ["Form", "JsonLines", "Narrator", "Scrubbing", "TextLines", "start"]

Form = Literal["text", "json"]

LOGGER = "dds"
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; the rest are fields."""
_SAID = frozenset({"at", "uid", "trigger", "from", "to", "mode"})
"""Fields of an event that its words say too, or that nobody reads: left out of a text line."""


def start(level: str = "info", form: str = "text", stream: TextIO | None = None) -> logging.Logger:
    """Log from `level` on, in `form`, to `stream` (standard error); gives the logger that everything of ours is below. Of other
    packages only warnings are shown. Called again, it takes the place of the time before.

    Raises InputError for a level or form that does not exist.
    """
    if level not in LEVELS:
        raise InputError(f"{level!r} is no level", where="log level", fix=f"use one of {', '.join(LEVELS)}")
    if form not in ("text", "json"):
        raise InputError(f"{form!r} is no form", where="log format", fix="use text or json")
    handler = _Lines(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(Scrubbing())
    root, ours = logging.getLogger(), logging.getLogger(LOGGER)
    for old in [one for one in root.handlers if isinstance(one, _Lines)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    ours.setLevel(LEVELS[level])
    logging.captureWarnings(True)
    return ours


class _Lines(logging.StreamHandler[TextIO]):
    """Writes lines, and never complains."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 # logging's own name
        """The reader is gone, or the disk is full: there is nobody to tell."""


class Scrubbing(logging.Filter):
    """Takes secrets out of a record: its words, its fields, its traceback, each made one line of text.

    What `Narrator` tells passes as it is: foreign words were scrubbed before they got into an event, and to do so again would
    cost more than all the rest of the line.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == EVENTS:
            return True
        record.msg, record.args = scrub(_message(record)), None
        for name, value in fields(record).items():
            if isinstance(value, str):
                setattr(record, name, scrub(value))
        if record.exc_info:
            record.error = scrub(" | ".join(_lines(record.exc_info)))
            record.exc_info = record.exc_text = None
        record.stack_info = None
        return True


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # words and arguments that do not fit each other must not cost the line
        return str(record.msg)


def _lines(info: Any) -> list[str]:
    """The traceback, the newest call and the error first: what is cut off matters least."""
    lines = "".join(traceback.format_exception(*info)).splitlines()
    return [line.strip() for line in reversed(lines) if line.strip()]


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was given as `extra`, in order, but for what is empty."""
    return {name: value for name, value in vars(record).items() if name not in _OWN and value not in ("", None)}


class JsonLines(logging.Formatter):
    """One JSON object a line: ts (RFC 3339 with microseconds, UTC), level, logger, msg, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": _instant(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": _message(record),
            **fields(record),
        }
        return msgspec.json.encode(line, enc_hook=str).decode()


class TextLines(logging.Formatter):
    """Time, level, words, then the fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        told = "".join(f" {name}={_shown(value)}" for name, value in fields(record).items() if name not in _SAID)
        return f"{_instant(record)} {record.levelname:<7} {' '.join(_message(record).split())}{told}"


def _shown(value: Any) -> str:
    text = str(value)
    plain = text.isprintable() and not any(c in ' "=' for c in text)
    return text if plain else msgspec.json.encode(text).decode()


def _instant(record: logging.LogRecord) -> str:
    return rfc3339(int(record.created * 1_000_000))
