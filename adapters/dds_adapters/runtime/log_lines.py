"""Log lines of a live process: one line for each event, on standard error, as text for people or as JSON for programs.

A line has words and fields; fields are logging's `extra`. Secrets are removed from all lines, also from those of libraries and
from tracebacks. A line that cannot be written is dropped, so that logging never stops the process.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections import ChainMap
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Literal, TextIO

import msgspec
from msgspec import UNSET, Struct

from dds_adapters.runtime.metrics.metrics import Row
from dds_core.errors import InputError
from dds_core.events import KIND_OF, Decision, Event, Transition
from dds_core.lifecycle import GONE, RELEASED
from dds_core.log.envelope import Envelope
from dds_core.scaler import events as e
from dds_core.scaler.deadlines import KINDS
from dds_core.scaler.state import State
from dds_core.text import scrub
from dds_core.timeline.instants import rfc3339
from dds_core.timeline.telling import UNCHANGED, Known, decision_words, fact_words

EVENTS = "dds.events"
"""Name of the logger of `EventLogger`."""

Fields = dict[str, Any]

MANY = 100
"""Most transitions of one group that are logged one by one at INFO."""


class Naming(Known):
    """What is known of objects, read in the tables of the component's state instead of folded once more."""

    def look(self, state: Any) -> None:
        self.objects = ChainMap(*(state.tables[table].rows for table in self.tables))

    def name(self, uid: str) -> str:
        row = self.objects.get(uid)
        return (self.name_of(row) if row is not None else "") or self.fallback(uid)

    def called(self, uid: str) -> str:
        return self.name(uid)

    def fallback(self, uid: str) -> str:
        """The name of what has none in the tables."""
        return uid

    def keep(self, move: Event) -> None:
        """Remember the name of the claim or device of a transition that is not logged."""

    def remember(self) -> None:
        """At the start of a process: remember the names that the state has."""

    def let_go(self, one: Row) -> None:
        """Forget the names of claims and devices that this group has ended."""


class EventLogger:
    """A listener to commits that logs each event in a line, with names for uids and the position in the log. It uses the child
    "events" of `logger`, by default of "dds".

    Transitions and decisions have level INFO; alerts, failed claims, refused writes and rejected objects WARNING; facts DEBUG,
    except those about the component itself. When one fact causes more than `MANY` transitions (as at the first list of a
    cluster), their number is logged at INFO and each one at DEBUG, because decisions must not wait for ten thousand lines. In
    mode observe it logs what dds would do. An event that cannot be put into words gets a line that says so."""

    def __init__(self, logger: logging.Logger | None = None, names: Naming | None = None, component: str = "") -> None:
        """`names` are those of the component, by default the scaler's. `component` is added to each line."""
        self._component = component
        self._log = logging.getLogger(EVENTS) if logger is None else logger.getChild("events")
        self._names = names if names is not None else _Names()

    def committed(self, steps: Sequence[Row], state: object) -> None:
        """Log the events. `state` may already be ahead of them."""
        self._names.look(state)
        everything, moves = self._log.isEnabledFor(logging.DEBUG), self._log.isEnabledFor(logging.INFO)
        for one in steps:
            fact = one.step.fact
            if isinstance(fact, e.Started):
                self._names.remember()
            self._tell(fact, one.envelopes[0])
            many = 0 if everything else self._too_many(one)
            for (event, _), row in zip(one.step.caused, one.envelopes[1:], strict=True):
                if many and isinstance(event, Transition):
                    self._names.keep(event)
                else:
                    self._tell(event, row)
            if many and moves:
                self._log.info("%d steps of claims and devices follow; each is in the log, and logged at DEBUG", many)
            self._names.let_go(one)

    def _too_many(self, one: Row) -> int:
        """The number of transitions of a group; 0 when it is at most `MANY`."""
        steps = sum(isinstance(event, Transition) for event, _ in one.step.caused)
        return steps if steps > MANY else 0

    def _tell(self, event: Event, row: Envelope) -> None:
        level = LEVELS[event.level]
        if self._log.isEnabledFor(level):
            place: Fields = {
                "component": self._component,
                "type": row.type,
                "position": row.position,
                "epoch": row.epoch,
                "at": rfc3339(row.occurred_at),
            }
            try:
                about, words = event.about(self._names), self._words(event)
            except Exception as error:
                about, words = {}, f"{row.type} cannot be described ({type(error).__name__}); it is in the log"
            self._log.log(level, "%s", words, extra={**place, **about})

    def _words(self, event: Event) -> str:
        names = self._names
        match event:
            case e.ClaimMoved() | e.DeviceMoved():
                who = "claim" if isinstance(event, e.ClaimMoved) else "device"
                step = f"{event.source or 'New'} -> {event.target}" if event.source != event.target else event.target
                why = f": {event.cause}" if event.cause else ""
                return f"{who} {names.called(event.subject)}: {step} ({event.trigger}){why}"
            case Decision():
                return decision_words(event, names)
            case _ if type(event) in KIND_OF:
                return _changed(event, names)
            case _:
                return "; ".join(fact_words(event, UNCHANGED, names)) or type(event).__name__


class _Names(Naming):
    """The scaler's names. Those of claims and devices are kept here until the line about their end is logged, because the state
    may forget them earlier."""

    deadlines = KINDS
    tables = ("claims", "resources", "pods", "nodes", "requests", "taint_rules")

    def __init__(self) -> None:
        super().__init__()
        self.state: State = State()
        self._kept: dict[str, Fields] = {}

    def look(self, state: State) -> None:
        super().look(state)
        self.state = state

    def fallback(self, uid: str) -> str:
        kept = self._kept.get(uid, {})
        return str(kept.get("claim") or kept.get("device") or uid)

    def called(self, uid: str) -> str:
        return self.name(uid) if uid not in self.state.fleet.resources else str(self.device_fields(uid)["device"])

    def keep(self, move: Event) -> None:
        with suppress(Exception):  # a missing name must not stop the process
            if isinstance(move, e.ClaimMoved):
                self.claim_fields(move.claim)
            elif isinstance(move, e.DeviceMoved):
                self.device_fields(move.resource)

    def remember(self) -> None:
        """Remember all names: objects deleted while no process ran leave the state before their line is logged."""
        for uid in self.state.lifecycle.lives.rows:
            self.claim_fields(uid)
        for uid in self.state.fleet.resources.rows:
            self.device_fields(uid)

    def let_go(self, one: Row) -> None:
        for event, _ in one.step.caused:
            if isinstance(event, Transition) and self._ended(event):
                self._kept.pop(event.subject, None)

    def _ended(self, event: Transition) -> bool:
        if isinstance(event, e.ClaimMoved):
            return event.target == RELEASED and event.claim not in self.state.lifecycle.lives
        return isinstance(event, e.DeviceMoved) and event.target == GONE

    def claim_fields(self, uid: str) -> Fields:
        claim, life = self.state.demand.claims.get(uid), self.state.lifecycle.lives.get(uid)
        known = claim if claim is not None else life if life is not None and life.name else None
        if known is not None:
            node = life.node if life is not None else ""
            self._kept[uid] = {"claim": f"{known.namespace}/{known.name}", "node": node, "uid": uid}
        return dict(self._kept.get(uid) or {"claim": uid})

    def device_fields(self, uid: str) -> Fields:
        row = self.state.fleet.resources.get(uid)
        if row is not None:
            before = str(self._kept.get(uid, {}).get("device", ""))
            name = row.uuid or (before if before != row.name else "") or row.name
            self._kept[uid] = {"device": name, "resource": row.name, "node": row.node, "model": row.model}
        return dict(self._kept.get(uid) or {"device": uid})


def _changed(fact: Event, names: Naming) -> str:
    """The words for a fact about an object: its name and the names of the changed fields."""
    changes: Struct | None = getattr(fact, "changes", None)
    name = names.name(fact.subject)
    kind = type(fact).__name__.removesuffix("Observed").removesuffix("Gone").lower()
    if changes is None:
        return f"{kind} {name} is gone"
    told = [field for field in changes.__struct_fields__ if getattr(changes, field) is not UNSET]
    told += ["devices"] * bool(getattr(fact, "devices", None))
    return f"{kind} {name}: {', '.join(told) or 'seen'}"


# -- lines ---------------------------------------------------------------------------------------------------------------

Form = Literal["text", "json"]

LOGGER = "dds"
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes that every log record has. The others are fields."""
_SAID = frozenset({"at", "uid", "trigger", "from", "to", "mode"})
"""Fields that a text line leaves out, because they are also in its words or of no use to people."""


def start(level: str = "info", form: str = "text", stream: TextIO | None = None) -> logging.Logger:
    """Configure logging: from `level` on, in `form`, to `stream` (by default standard error). Returns the parent logger of dds.
    Other packages log only warnings, each at most once a minute. A second call replaces the first.

    Raises InputError for an unknown level or form.
    """
    if level not in LEVELS:
        raise InputError(f"{level!r} is no level", where="log level", fix=f"use one of {', '.join(LEVELS)}")
    if form not in ("text", "json"):
        raise InputError(f"{form!r} is no form", where="log format", fix="use text or json")
    handler = _Lines(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(Repeating())
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
    """Writes lines and ignores errors."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 # logging's own name
        """The reader of standard error is gone or the disk is full, so the error cannot be reported."""


AGAIN = 60.0
"""Seconds in which a repeated line of another package is only counted."""
_MOST_KNOWN = 1_000


class Repeating(logging.Filter):
    """Lets a repeated line of another package pass once a minute, with the number of suppressed ones in `repeated`. While the
    API server is away, urllib3 may warn at every request."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()
        self._said: dict[tuple[str, str], tuple[float, int]] = {}
        """By logger and words without arguments: when the line last passed, and how often it was suppressed since."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] == LOGGER:
            return True
        words = _message(record) if record.msg == "%s" or not record.args else str(record.msg)
        key = (record.name, words)
        with self._lock:
            at, held_back = self._said.get(key, (-AGAIN, 0))
            if 0 <= record.created - at < AGAIN:
                self._said[key] = (at, held_back + 1)
                return False
            if len(self._said) >= _MOST_KNOWN:
                self._said.clear()
            self._said[key] = (record.created, 0)
        if held_back:
            record.repeated = held_back
        return True


class Scrubbing(logging.Filter):
    """Removes secrets from a record's words, fields and traceback, and makes each of them one line of text.

    Lines of `EventLogger` pass unchanged: text from outside was scrubbed before it got into an event, and doing it again would
    cost more than the rest of the line.
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
    except Exception:  # the format does not fit the arguments: log it without them
        return str(record.msg)


def _lines(info: Any) -> list[str]:
    """The traceback in reverse, the error and the newest call first, so that truncation loses the least important lines."""
    lines = "".join(traceback.format_exception(*info)).splitlines()
    return [line.strip() for line in reversed(lines) if line.strip()]


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields given as `extra`, in order, without empty ones."""
    return {name: value for name, value in vars(record).items() if name not in _OWN and value not in ("", None)}


class JsonLines(logging.Formatter):
    """Each line is a JSON object: ts (RFC 3339 with microseconds, UTC), level, logger, msg, then the fields."""

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
        return f"{_instant(record)} {record.levelname:<7} {_plain(_message(record))}{told}"


def _plain(text: str) -> str:
    """One line; what would control a terminal is written as its code."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in " ".join(text.split()))


def _shown(value: Any) -> str:
    text = str(value)
    plain = text.isprintable() and not any(c in ' "=' for c in text)
    return text if plain else msgspec.json.encode(text).decode()


def _instant(record: logging.LogRecord) -> str:
    return rfc3339(int(record.created * 1_000_000))
