"""Tasks: writes to the API server that the engine's thread hands over.

A task is pure data and contains all that the write needs, so that the writer's threads never read the state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import extract_tb
from typing import Any, Protocol, TypeVar

from dds_adapters.kubernetes.cluster import Answer, Asking, Unreachable
from dds_core.errors import DdsError
from dds_core.events import Decision
from dds_core.kit.policy import Mode

Versions = Callable[[str], str]
"""The API version in which a resource is served and followed ("resourceclaims" -> "resource.k8s.io/v1"); "" if it is not
served."""


class Write(Protocol):
    """One kind of write: a frozen dataclass with all that it needs."""

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        """Read the live objects, compare them with those of the decision, and send what is still needed.

        It starts again from the beginning after `Later` and after a crash, so it must be idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """The live object is as the decision wants it, by this write or already before. `version` is its resourceVersion, if a later
    write depends on it. `rivals`: as in `WriteDone`."""

    written: bool = True
    version: str = ""
    rivals: str = ""


@dataclass(frozen=True, slots=True)
class Obsolete:
    """The live object is not the one of the decision, or has changed since: the next decision follows from what is observed of
    it. `why` is for the log line."""

    why: str


@dataclass(frozen=True, slots=True)
class Declined:
    """A final refusal of the API server: HTTP status, reason, and scrubbed message."""

    code: int
    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Later:
    """Try again: no answer, an overloaded server, repeated conflicts. `wait` is the server's Retry-After in seconds.

    `trouble`: the server did not answer, or answered 429 or 5xx. `carry_out` sets it from the answers; a `Write` need not."""

    why: str
    wait: float = 0.0
    trouble: bool = False


Result = Done | Obsolete | Declined | Later


@dataclass(frozen=True, slots=True)
class Task:
    """A write.

    `decision` is the event id of the decision, `action` its type, and `target` the name for `WriteDone` and `WriteRefused`. All
    three are "" for a task without decision (a Kubernetes Event, an epoch stamp); its outcome is not logged. `objects` are those
    that it writes, as "<resource>/<uid or name>": tasks that share one run in the order in which they were put. A task supersedes
    an unfinished older one with the same non-empty `replaces`. `needs`: the task does not run in a weaker mode. `at` is the
    decision's instant in microseconds. `then`: what is put once it is done, such as the Kubernetes Event that tells of it.
    `lasting`: a task without decision that is never dropped. `within`: each try must begin
    within so many seconds after the task was put; after that the task ends with `too_late`.
    """

    write: Write
    objects: tuple[str, ...]
    decision: str = ""
    action: str = ""
    target: str = ""
    replaces: str = ""
    needs: Mode = "attach"
    at: int = 0
    lasting: bool = False
    within: float = math.inf
    too_late: Result = Obsolete("it could not be sent in time, and is not wanted any more")
    then: tuple[Task, ...] = ()

    @property
    def resource(self) -> str:
        """Of its first object; "" without one."""
        return self.objects[0].partition("/")[0] if self.objects else ""


P = TypeVar("P")
TaskTable = Mapping[type[Decision], Callable[[Any, int, P], Task]]
"""By type of decision the function that makes its task; the int is the decision's instant in microseconds."""


def tasks_by(table: TaskTable[P], decision: Decision, event_id: str, at: int, state: P) -> tuple[Task, ...]:
    """The tasks of a decision; none for one that writes nothing or was made in mode `observe`.

    `event_id` is the decision's id in the log, `at` its instant in microseconds; the state has folded it, and maybe later
    events.
    """
    make = table.get(type(decision))
    if make is None or decision.mode == "observe":
        return ()
    task = make(decision, at, state)
    return (replace(task, decision=event_id, action=type(decision).__name__, at=at),)


@dataclass(frozen=True, slots=True)
class Overdue:
    """Replaces the write of a task that did not begin in time."""

    result: Result

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        return self.result


class NotLeading(Exception):
    """This process may not begin a write now: it does not lead, or the log is unavailable. Nothing was sent."""


# -- carrying a task out -----------------------------------------------------------------------------------------------

MARGIN = 0.1
"""Seconds: if less is left of the lease, nothing is sent."""
REQUEST_SECONDS = 15.0
"""The longest wait for an answer."""
INTERNAL_ERROR = "InternalError"

Permit = Callable[[], float]
"""Seconds for which this process may still write, 0 if it may not. Does not block."""


class Guard:
    """A way to the API server (`Asking`) for one task. It sends a request only while this process may write, with the remaining
    time as its limit, and only if the limiter of a failing server allows it."""

    def __init__(self, api: Asking, permit: Permit, another: Callable[[], bool]) -> None:
        """`another` is called before each request but the first; False: send nothing more to this failing server."""
        self.trouble = False
        """The server did not answer, or answered 429 or 5xx, or `another` refused."""
        self._api = api
        self._permit = permit
        self._another = another
        self._sent = False

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float = REQUEST_SECONDS,
    ) -> Answer:
        """Send a request. Raises NotLeading (nothing was sent) and Unreachable."""
        if self._sent and not self._another():
            self.trouble = True
            fix = "it is asked again later"
            raise Unreachable("is in trouble and was asked often enough; nothing was sent", where=path, fix=fix)
        left = self._permit()
        if left <= MARGIN:
            raise NotLeading
        self._sent = True
        seconds = min(timeout, left, REQUEST_SECONDS)
        try:
            answer = self._api.ask(method, path, query=query, body=body, content_type=content_type, timeout=seconds)
        except Unreachable:
            self.trouble = True
            raise
        self.trouble = self.trouble or answer.code == 429 or answer.code >= 500
        return answer


def carry_out(task: Task, guard: Guard, versions: Versions, on_error: Callable[[str], None]) -> Result:
    """Carry out a task. Raises NotLeading. An error of the program is reported in one line, and the task is declined."""
    try:
        result = task.write.carry_out(guard, versions)
    except NotLeading:
        raise
    except Unreachable as error:
        result = Later(error.what)
    except Exception as error:
        line = fault(error, f"{task.action or type(task.write).__name__} {task.target}".rstrip())
        with suppress(Exception):
            on_error(line)
        return Declined(0, INTERNAL_ERROR, line)
    return replace(result, trouble=True) if isinstance(result, Later) and guard.trouble else result


def fault(error: Exception, where: str) -> str:
    """One line for an error of the program: its type, file and line, without its message, which may contain foreign text or
    secrets."""
    frames = extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return str(DdsError(f"{type(error).__name__}{place}", where=where, fix="an error of the program: report it"))
