"""The sources that commands read: a recording, an export, archives, a database. dds recognizes them by content, not by name.

All of them give moments, rows or a state, so commands need not know which kind they read. `Opened` opens and closes sources.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, NamedTuple, Protocol

from dds_adapters.files import file_error
from dds_adapters.jsonl import JsonlLog, is_log_file
from dds_adapters.plugins import component_of
from dds_adapters.sql import Database, SqlLog
from dds_adapters.sql.urls import as_url, is_url
from dds_commands.excerpts import Excerpt, found_claim
from dds_commands.parameters import LOG_VARIABLE, STANDARD, Place, served_log, without_password
from dds_commands.screen import note, progress
from dds_core.component import Component
from dds_core.engine import Step
from dds_core.errors import DdsError, FileError, InputError, Unfoldable
from dds_core.events.base import SCALER as SCALER_STREAM
from dds_core.events.base import TYPES, Fact
from dds_core.events.shared import Checkpoint
from dds_core.kit.deadlines import writes_every
from dds_core.kit.policy import MICROSECONDS
from dds_core.log import CHECKPOINT, LOG_OPENED, EventSource, Head, JoinedSource, LeanEvent
from dds_core.replay import fold_log, moments, of_steps
from dds_core.scaler.component import SCALER
from dds_core.scaler.history import History
from dds_core.scaler.history.fold import IGNORED
from dds_core.scaler.policy import Policy
from dds_core.scaler.timeline.around import NOTED, Around, near
from dds_core.timeline import Moment, Subject
from dds_core.timeline.instants import duration

_SQLITE = b"SQLite format 3\x00"
_STDIN = "standard input"
_PIECE = 1 << 20
_RECORDED = "recording:"
"""Prefix of the cluster's UID in a log that was written from a recording."""


class Source(Protocol):
    """The events of one component, from the first to the last."""

    label: str

    @property
    def component(self) -> Component[Any]:
        """The component of the log; the scaler for a recording, since the scaler's rules replay it."""

    def told(self) -> Iterator[Moment]:
        """All moments."""

    def happened(self) -> Iterator[Moment]:
        """All moments, with what a history needs of them; a source may return more."""

    def named(self) -> Iterator[Moment]:
        """The moments that give objects their names; a source may return more, up to all."""

    def find(self, text: str) -> Subject | None:
        """The subject of this name if an index finds it; None means that `named` has to be searched."""

    def about(self, subject: Subject | None) -> Iterator[Moment]:
        """The moments that concern a subject, or any; a source may return more, up to all."""

    def span(self) -> tuple[int, int]:
        """First and last instant in microseconds; (0, 0) without events."""

    def state(self, at: int | None, until: int | None) -> Any:
        """The component's state at an instant and position, both inclusive; by default at the end."""


class Recording:
    """A recording, replayed under a policy (mode observe by default). Positions are those of a log written from it."""

    component = SCALER

    def __init__(self, path: str, policy: Policy | None = None, label: str = "") -> None:
        self.label = label or path
        self.path = path
        self.policy = policy if policy is not None else Policy()

    def steps(self) -> Iterator[Step]:
        # Imported here, so that a command that reads a log does not wait for it.
        from dds_adapters.kubernetes.recording import replay_recording

        return replay_recording(Path(self.path), self.policy)

    def told(self) -> Iterator[Moment]:
        return of_steps(self.steps())

    def happened(self) -> Iterator[Moment]:
        return self.told()

    def named(self) -> Iterator[Moment]:
        return self.told()

    def find(self, text: str) -> Subject | None:
        return None

    def about(self, subject: Subject | None) -> Iterator[Moment]:
        return self.told()

    def span(self) -> tuple[int, int]:
        from dds_adapters.kubernetes.recording import read_recording

        first, last = 0, 0
        for event in read_recording(self.path):
            first, last = first or event.at, event.at
        return first, last

    def state(self, at: int | None, until: int | None) -> Any:
        return folded(cut(progress(self.told(), None, "replaying"), at, until))

    @property
    def log_name(self) -> str:
        """The name of a log written from it: <file name>/scaler."""
        stem = Path(self.path).name.lower().removesuffix(".gz").removesuffix(".jsonl")
        return f"{re.sub(r'[^a-z0-9._-]+', '-', stem).strip('-._')[:100] or 'recording'}/scaler"

    def identity(self) -> str:
        """The recording's hash; it takes the place of the cluster's UID in a log written from it."""
        with open(self.path, "rb") as file:
            return f"{_RECORDED}{hashlib.file_digest(file, 'sha256').hexdigest()[:32]}"


class Log:
    """A log from a database, a file, or several joined parts. `url` is empty unless it is in a database."""

    def __init__(self, source: EventSource, label: str, url: str = "", begin: int = 0) -> None:
        """`begin` is the position of the checkpoint to begin at; 0 for the first event that is not archived."""
        self.source = source
        self.label = label
        self.url = url
        self._begin = begin
        self.component: Component[Any] = component_of(source.name)

    def live_head(self) -> Head | None:
        """The log's head if a process may be writing the log now; None for a file or a log written from a recording."""
        head = self.source.head() if isinstance(self.source, SqlLog) else None
        return head if head is not None and is_live(head) else None

    @property
    def log_name(self) -> str:
        """<cluster>/<component>."""
        return self.source.name

    @property
    def length(self) -> int:
        """Number of events that are not archived."""
        first, last = self.source.span()
        return last - first + 1

    @property
    def after(self) -> int:
        """The position before the first event that is read."""
        return max(self._begin, self.source.span()[0]) - 1

    def told(self) -> Iterator[Moment]:
        return moments(self.source.read_lean(self.after), self.component)

    def happened(self) -> Iterator[Moment]:
        return moments(self.source.read_lean(self.after), self.component, IGNORED)

    def near(self, elsewhere: Set[str]) -> Iterator[Moment]:
        """All but what concerns only objects of these streams (`Around.elsewhere`)."""
        return moments(near(self.source.read_lean(self.after), elsewhere), self.component, {CHECKPOINT})

    def since(self, position: int, until: int) -> Iterator[Moment]:
        return moments(self.source.read_lean(position, until), self.component)

    def begun_at(self, checkpoint: int) -> Log:
        """The same log, read from this checkpoint on; 0 for the whole log."""
        return Log(self.source, self.label, self.url, checkpoint)

    def checkpoints(self, until: int | None = None) -> list[tuple[int, int]]:
        """Position and instant of each checkpoint up to a position, oldest first."""
        if isinstance(self.source, SqlLog):
            found = self.source.places(CHECKPOINT, SCALER_STREAM)
            return [one for one in found if until is None or one[0] <= until]
        rows = self.source.read_lean(self.source.span()[0] - 1, until, types=[CHECKPOINT])
        return [(row.position, row.occurred_at) for row in rows]

    def named(self) -> Iterator[Moment]:
        telling = self.component.telling
        rows = telling.naming(self.source.read_lean(self.after, types=telling.names))
        return moments(rows, self.component, {CHECKPOINT})

    def find(self, text: str) -> Subject | None:
        indexed = self._indexed()
        return found_claim(indexed, text) if indexed is not None else None

    def about(self, subject: Subject | None) -> Iterator[Moment]:
        by_index = subject is not None and subject.kind in ("claim", "pod") and bool(subject.uids)
        indexed = self._indexed() if by_index else None
        if indexed is not None and subject is not None:
            return moments(Excerpt(indexed, subject).rows(), self.component)
        if subject is not None and subject.kind in ("device", "node") and self.component is SCALER:
            around = Around()
            for moment in moments(self.source.read_lean(self.after, types=NOTED), self.component, {CHECKPOINT}):
                around.take(moment)
            # The operator has one worker for all nodes, so a history needs the resources of the other nodes, too.
            return self.near(around.elsewhere([subject]) - around.resources)
        return moments(self.source.read_lean(self.after), self.component, {CHECKPOINT})

    def _indexed(self) -> SqlLog | None:
        """The log if an index finds each object's first event: a scaler's log in a database, with nothing archived."""
        usable = isinstance(self.source, SqlLog) and self.component is SCALER and self.after == 0
        return self.source if usable and isinstance(self.source, SqlLog) else None

    def span(self) -> tuple[int, int]:
        first, last = self.source.span()
        begin = next((e.occurred_at for e in self.source.read_lean(first - 1) if e.type != LOG_OPENED), 0)
        end = next((e.occurred_at for e in self.source.read_lean(last - 1)), 0)
        return begin, max(begin, end)

    def state(self, at: int | None, until: int | None) -> Any:
        start = self.checkpoint(at, until)
        rows = progress(self._rows(start - 1, at, until), None, "folding")
        try:
            return fold_log(rows, component=self.component)
        except Unfoldable as error:
            note(f"{self.label}: {error}; shown is the state before it")
            return self.state(at, error.position - 1)

    def _rows(self, after: int, at: int | None, until: int | None) -> Iterator[LeanEvent]:
        """Rows up to an instant and position. They end before a later fact, never within a group."""
        for row in self.source.read_lean(after):
            late = (at is not None and row.occurred_at > at) or (until is not None and row.position > until)
            if late and issubclass(TYPES.get(row.type, Fact), Fact) and row.type != LOG_OPENED:
                return
            yield row

    def checkpoint(self, at: int | None, until: int | None) -> int:
        """The position to read from for an instant or position: the newest usable checkpoint, if the source can find it faster
        than read everything."""
        start = self.after + 1
        if isinstance(self.source, SqlLog):
            for position, instant in self.checkpoints(until):
                if at is None or instant <= at:
                    start = max(start, position)
        return start


def is_recorded(cluster: str) -> bool:
    """Whether a log with this cluster UID was written from a recording."""
    return cluster.startswith(_RECORDED)


def is_live(head: Head) -> bool:
    return not is_recorded(head.cluster)


AGO = "{ago}"
"""In the sentence of a `Beat`, where the time since the newest event belongs."""


class Beat(NamedTuple):
    """What a live log shows of its writer. `last`: the instant of the newest event; `every`: microseconds within which a running
    process writes its next one; 0 if nothing makes it write now, and `why`."""

    component: str
    last: int
    every: int
    why: str

    @property
    def until(self) -> int:
        """The instant up to which a running process may be silent; 0 for no limit."""
        return self.last + self.every if self.every else 0

    def silent(self, now: int) -> int:
        """Microseconds since the newest event, if a running process would have written another one; else 0."""
        return now - self.last if self.until and now > self.until else 0

    def sentence(self, *, dead: bool) -> str:
        """The state of the writer, with `AGO` in it. `dead`: the process is silent for longer than a running one is."""
        article = "an" if self.component[0] in "aeiou" else "a"
        if not self.every:
            return f"last event {AGO} ago; nothing makes {article} {self.component} write now: {self.why}"
        most = f"a live {self.component} writes at least every {self.every // MICROSECONDS} s"
        return f"last event {AGO} ago, but {most}: {self.absent}" if dead else f"last event {AGO} ago; {most}"

    @property
    def absent(self) -> str:
        return f"no {self.component} runs, or it cannot write its log"

    def words(self, now: int) -> str:
        ago = duration(max(0, now - self.last))
        return self.sentence(dead=self.silent(now) > 0).replace(AGO, ago)


def beat(head: Head, policy: Any, synced: bool, stale: Iterable[str]) -> Beat:
    """The beat of a live log; `policy`, `synced` and `stale` as of its newest event."""
    every, why = writes_every(policy.scan_interval_seconds, synced, stale)
    return Beat(component_of(head.log).name, head.recorded_at, every, why)


def present(source: Source, last: Place, policy: Policy, synced: bool, stale: Iterable[str]) -> int:
    """The current time in microseconds, if the whole of a live log is read; with a note if no scaler seems to write it. 0 in all
    other cases: durations then count to the end of what was read."""
    head = source.live_head() if last == Place() and isinstance(source, Log) else None
    if head is None:
        return 0
    now = time.time_ns() // 1000
    shown = beat(head, policy, synced, stale)
    if shown.silent(now):
        note(shown.words(now))
    return now


def cut(told: Iterable[Moment], at: int | None, until: int | None) -> Iterator[Moment]:
    """The moments up to an instant and a position, both inclusive."""
    for moment in told:
        if (at is not None and moment.at > at) or (until is not None and moment.position > until):
            return
        yield moment


def folded(told: Iterable[Moment], component: Component[Any] = SCALER) -> Any:
    """The state after these moments, which begin with the first one or a checkpoint."""
    state = component.state()
    for moment in told:
        for event in (moment.fact, *moment.caused):
            if isinstance(event, Checkpoint):
                state = component.load(event.picture)
            elif event is not None:
                component.apply(state, event, moment.at)
        state.dirty.clear()
    return state


def require(source: Source, component: Component[Any], fix: str) -> None:
    """Raises InputError with `fix` if the source is of another component."""
    if source.component is not component:
        name = source.component.name
        article = "an" if name[0] in "aeiou" else "a"
        raise InputError(f"it is the log of {article} {name}", where=source.label, fix=fix)


def history_of(source: Source, last: Place) -> History:
    """The history of every claim and device up to `last`. Raises InputError for another component's log."""
    require(source, SCALER, "use dds status, or dds replay --at, on it; give a scaler's with --name CLUSTER/scaler")
    return History().read(progress(cut(source.happened(), *last), None, "reading"))


def go_on(history: History, source: Source, last: Place) -> bool:
    """Set the instant to which a history counts unfinished times: `last`, at most the source's end, or the current time for a
    live log. Returns whether it is the current time."""
    now = present(source, last, history.policy, history.synced, history.stale)
    if last.at is not None:
        now = min(last.at, source.span()[1])
    history.now = max(history.now, now)
    return last.at is None and now > 0


class Opened:
    """A context manager that opens sources and closes all of them at the end."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._copy = ""

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stack.close()
        if self._copy and isinstance(error, DdsError):
            error.args = (str(error).replace(self._copy, _STDIN),)

    def file(self, path: str) -> str:
        """The path of a file. Standard input is copied to a file, since sources are read more than once."""
        if path != STANDARD:
            return path
        fix = "pipe a file into it, or name a file in place of -"
        if self._copy:
            raise InputError("it can be read once only", where=_STDIN, fix=fix)
        if sys.stdin is None or sys.stdin.isatty():
            raise InputError("it is a terminal" if sys.stdin is not None else "it is closed", where=_STDIN, fix=fix)
        self._copy = str(Path(self._stack.enter_context(TemporaryDirectory(prefix="dds-")), "standard-input"))
        try:
            with open(self._copy, "wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy, _PIECE)
        except OSError as error:
            raise file_error(error, f"a copy of {_STDIN} in {gettempdir()}") from None
        return self._copy

    def source(
        self,
        named: Sequence[str],
        url: str | None,
        name: str | None = None,
        component: Component[Any] = SCALER,
    ) -> Recording | Log:
        """The source `named` (one recording, or the parts of one log, oldest first), else the log at `url`, else the file that
        `dds serve` writes. If a database has several logs, the component chooses. Raises InputError."""
        fix = f"give a SOURCE, or a log by --log URL or {LOG_VARIABLE}"
        texts = list(named) or [url or served_log("no source was named", fix)]
        found = [self._one(text, name, component, is_log=not named) for text in texts]
        if len(found) == 1:
            return found[0]
        logs = [one for one in found if isinstance(one, Log)]
        if len(logs) < len(found):
            raise InputError("a recording cannot be joined with anything else", fix="name it alone")
        return Log(JoinedSource([log.source for log in logs]), ", ".join(log.label for log in logs))

    def log(self, url: str, name: str | None = None, component: Component[Any] | None = SCALER) -> SqlLog:
        """The log of this name in a database. Without a name: its only log, else the component's only log. Raises InputError if
        that is not exactly one; without a component a log must be named if there are several."""
        database = self.database(url)
        heads = [head.log for head in database.heads()]
        if name is not None:
            return database.log(name)
        mine = [log for log in heads if component_of(log) is component] if len(heads) > 1 else heads
        if len(mine) != 1:
            what = f"it holds {len(heads)} logs ({', '.join(heads[:5])})" if heads else "it holds no log yet"
            fix = "choose one with --name" if heads else "start dds serve or dds publish, which write one"
            raise InputError(what, where=database.where, fix=fix)
        return database.log(mine[0])

    def database(self, url: str) -> Database:
        return self._stack.enter_context(Database(url))

    def _one(self, text: str, name: str | None, component: Component[Any], *, is_log: bool) -> Recording | Log:
        path = self.file(text)
        label = without_password(text) if path == text else _STDIN
        if is_url(path) or (is_log and not Path(path).is_file()) or _begins(path, _SQLITE):
            return Log(self.log(as_url(path), name, component), label, as_url(path))
        if is_log_file(path):
            return Log(JsonlLog(path), label)
        _require_recording(path)
        return Recording(path, label=label)


def _begins(path: str, magic: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(magic)) == magic
    except OSError as error:
        fix = "give a file, or a database URL such as sqlite:///log.sqlite3"
        raise FileError(error.strerror or str(error), where=path, fix=fix) from None


def _require_recording(path: str) -> None:
    """Raises NotARecording for an empty file or another format, before anything is written."""
    from dds_adapters.kubernetes.recording import NotARecording, read_recording

    try:
        next(read_recording(path), None)
    except NotARecording as error:
        fix = "give a recording of watch events, an export, an archive, or a database"
        what = error.what if "empty" in error.what else "it is none of the forms that can be read"
        raise NotARecording(what, where=path, fix=fix) from None
