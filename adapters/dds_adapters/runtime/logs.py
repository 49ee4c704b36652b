"""Log lines of a live scaler: one line an event, on standard error, as text for people or as JSON for programs.

What a line carries beside its words are fields, given as logging's `extra`. Secrets are taken out of everything that is logged,
of what libraries log and of tracebacks too, before it is written. A line that cannot be written is dropped: logging never ends
or stops a scaler.
"""

from __future__ import annotations

import logging
import sys
import traceback
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
from dds_core.model import Observed
from dds_core.scaler import events as e
from dds_core.scaler.deadlines import KINDS
from dds_core.scaler.state import State
from dds_core.text import scrub
from dds_core.timeline.clock import rfc3339
from dds_core.timeline.telling import UNCHANGED, Known, decision_words, fact_words

EVENTS = "dds.events"
"""The logger of its lines."""

Fields = dict[str, Any]

MANY = 100
"""So many steps of one group are told one by one."""


class Naming(Known):
    """Names from the state of whoever decides and not from its own objects."""

    state: Any

    def keep(self, move: Event) -> None:
        """Keep the name of who has moved, though it is not told."""

    def remember(self) -> None:
        """A process took over: take the names that the log tells of."""

    def let_go(self, one: Row) -> None:
        """Forget the names of those whose lives have ended with this group."""


class EventLogger:
    """A watcher of commits that tells each event in a line, to `logger`'s child "events", or to that of "dds", with names for
    uids and the place in the log.

    Transitions and decisions at INFO; what a person should look at (alerts, claims given up, refused writes, rejected objects)
    at WARNING; facts at DEBUG, but for those about the scaler itself. When one fact moves very many claims and devices (the
    first look at a cluster), how many is told at INFO and each step at DEBUG: what was decided must not wait for ten thousand
    lines. In mode observe it says what dds would do. An event that cannot be told costs its line and nothing else."""

    def __init__(self, logger: logging.Logger | None = None, names: Naming | None = None, component: str = "") -> None:
        """`names` are those of the component that decides, by default the scaler's; `component` is put into each line."""
        self._component = component
        self._log = logging.getLogger(EVENTS) if logger is None else logger.getChild("events")
        self._names = names if names is not None else _Names()

    def committed(self, steps: Sequence[Row], state: object) -> None:
        """Tell it. `state` may already know more than that."""
        self._names.state = state
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
                self._log.info("%d steps of claims and devices follow; each is in the log, and told at DEBUG", many)
            self._names.let_go(one)

    def _too_many(self, one: Row) -> int:
        """How many steps a group has, 0 when they can be told one by one."""
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
                about, words = {}, f"{row.type} cannot be told ({type(error).__name__}); it is in the log"
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
    """The scaler's. Those of claims and devices are kept until their lives have ended:
    the state may forget them before that is told."""

    deadlines = KINDS

    def __init__(self) -> None:
        super().__init__()
        self.state: State = State()
        self._kept: dict[str, Fields] = {}

    def name(self, uid: str) -> str:
        row = self._row(uid)
        if row is not None:
            return self.name_of(row)
        kept = self._kept.get(uid, {})
        return str(kept.get("claim") or kept.get("device") or uid)

    def called(self, uid: str) -> str:
        return self.name(uid) if uid not in self.state.resources else str(self.device_fields(uid)["device"])

    def keep(self, move: Event) -> None:
        with suppress(Exception):  # as with what is told: a name is not worth more
            if isinstance(move, e.ClaimMoved):
                self.claim_fields(move.claim)
            elif isinstance(move, e.DeviceMoved):
                self.device_fields(move.resource)

    def remember(self) -> None:
        """Of all: what went meanwhile is gone before it is told."""
        for uid in self.state.lives.rows:
            self.claim_fields(uid)
        for uid in self.state.resources.rows:
            self.device_fields(uid)

    def let_go(self, one: Row) -> None:
        for event, _ in one.step.caused:
            if isinstance(event, Transition) and self._ended(event):
                self._kept.pop(event.subject, None)

    def _ended(self, event: Transition) -> bool:
        if isinstance(event, e.ClaimMoved):
            return event.target == RELEASED and event.claim not in self.state.lives
        return isinstance(event, e.DeviceMoved) and event.target == GONE

    def _row(self, uid: str) -> Observed | None:
        state = self.state
        for table in (state.claims, state.resources, state.pods, state.nodes, state.requests, state.rules):
            row: Observed | None = table.get(uid)
            if row is not None:
                return row
        return None

    def claim_fields(self, uid: str) -> Fields:
        claim, life = self.state.claims.get(uid), self.state.lives.get(uid)
        known = claim if claim is not None else life if life is not None and life.name else None
        if known is not None:
            node = life.node if life is not None else ""
            self._kept[uid] = {"claim": f"{known.namespace}/{known.name}", "node": node, "uid": uid}
        return dict(self._kept.get(uid) or {"claim": uid})

    def device_fields(self, uid: str) -> Fields:
        row = self.state.resources.get(uid)
        if row is not None:
            before = str(self._kept.get(uid, {}).get("device", ""))
            name = row.uuid or (before if before != row.name else "") or row.name
            self._kept[uid] = {"device": name, "resource": row.name, "node": row.node, "model": row.model}
        return dict(self._kept.get(uid) or {"device": uid})


def _changed(fact: Event, names: Naming) -> str:
    """A fact about an object: what it is called, and which fields are different."""
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
"""What every record has; the rest are fields."""
_SAID = frozenset({"at", "uid", "trigger", "from", "to", "mode"})
"""Fields of an event that its words say too, or that nobody reads: left out of a text line."""


def start(level: str = "info", form: str = "text", stream: TextIO | None = None) -> logging.Logger:
    """Log from `level` on, in `form`, to `stream` (standard error); gives the logger that everything of ours is below. Of other
    packages only warnings are shown, each once a minute. Called again, it takes the place of the time before.

    Raises InputError for a level or form that does not exist.
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
    """Writes lines, and never complains."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 # logging's own name
        """The reader is gone, or the disk is full: there is nobody to tell."""


AGAIN = 60.0
"""Seconds in which what another package says again is only counted."""
_MOST_KNOWN = 1_000


class Repeating(logging.Filter):
    """Lets what another package says again and again pass once a minute; `repeated` then says how often it was held back. While
    the API server is away urllib3 may warn at every request."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()
        self._said: dict[tuple[str, str], tuple[float, int]] = {}
        """By logger and words without their arguments: when they passed, and how often they were held back since."""

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
    """Takes secrets out of a record: its words, its fields, its traceback, each made one line of text.

    What `EventLogger` tells passes as it is: foreign words were scrubbed before they got into an event, and to do so again would
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
