"""What is to be written, as the engine's thread hands it over: everything a task needs is in it, so that whoever carries it out
never looks into the state.

Pure data; nothing here sends anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import extract_tb
from typing import Protocol

from dds_adapters.kubernetes.cluster import Answer, Asking, Unreachable
from dds_core.errors import DdsError
from dds_core.kit.policy import Mode

Versions = Callable[[str], str]
"""The API version in which a resource is served and followed ("resourceclaims" -> "resource.k8s.io/v1"); "" when it is not."""


class Work(Protocol):
    """One kind of write. A frozen dataclass that carries all it needs."""

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        """Look at the live objects, compare with what the decision was made for, send what is still needed.

        Called again from the beginning after `Later`, and after a crash: whatever it does must be safe to do twice."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """The live object is as the decision wants it, by this write or already before. `version` is the resourceVersion that it has
    since, where a later write rests on it."""

    written: bool = True
    version: str = ""


@dataclass(frozen=True, slots=True)
class Obsolete:
    """The live object is not the one that the decision was made for, or has moved on: what is observed of it leads to the next
    decision. `why` is for the log line."""

    why: str


@dataclass(frozen=True, slots=True)
class Declined:
    """The API refuses for good: HTTP status, the API's reason, and scrubbed foreign words."""

    code: int
    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Later:
    """Not now: no answer, an overloaded server, a conflict that went on. `wait` is what the server asked for, in seconds.

    `trouble`: the server did not answer, or said 429 or 5xx. Works need not say so: who carries them out saw the answers."""

    why: str
    wait: float = 0.0
    trouble: bool = False


Result = Done | Obsolete | Declined | Later


@dataclass(frozen=True, slots=True)
class Task:
    """A write that is wanted.

    `decision` is the event id of the decision, `action` its type and `target` what `WriteDone` and `WriteRefused` are to name;
    all three are "" for what nobody decided (a Kubernetes Event, an epoch stamp): nobody is told what becomes of it.
    `objects` are those that it writes, as "<resource>/<uid or name>": tasks that share one are carried out in the order in
    which they were put. A task with the same non-empty `replaces` as an older one that was not carried out yet supersedes it.
    `needs` is the mode below which it must not be carried out any more. `at` is the decision's instant in microseconds.
    `lasting` tells of what nobody decided that it is not given up all the same. `within` so many seconds from when it is put it
    has to begin, each time that it is tried; later it is not wanted any more, and ends with `too_late`.
    """

    work: Work
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


@dataclass(frozen=True, slots=True)
class Overdue:
    """The work of a task that could not begin in time."""

    result: Result

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        return self.result


class NotLeading(Exception):
    """This process may not begin a write now: it does not lead, or the log is away. Nothing was sent."""


# -- carrying a task out -----------------------------------------------------------------------------------------------

MARGIN = 0.1
"""Seconds: with less left than this, nothing is sent."""
REQUEST_SECONDS = 15.0
"""The longest that an answer is waited for."""
INTERNAL_ERROR = "InternalError"

Permit = Callable[[], float]
"""Seconds for which this process may still write, 0 when it may not; it never waits."""


class Guard:
    """A way to the API server (`Asking`) for one task: each request only while this process may write, within the time that it
    has for that, and no more of them than a server in trouble can bear."""

    def __init__(self, api: Asking, permit: Permit, another: Callable[[], bool]) -> None:
        """`another` is asked before each request but the first; no when the server is to be left alone."""
        self.trouble = False
        """The server did not answer, or said 429 or 5xx, or was left alone for that."""
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
        """Send it if that may be. Raises NotLeading, then nothing was sent, and Unreachable."""
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
    """What became of it. Raises NotLeading. A fault of the program is told as one line, and the task declined."""
    try:
        result = task.work.carry_out(guard, versions)
    except NotLeading:
        raise
    except Unreachable as error:
        result = Later(error.what)
    except Exception as error:
        line = fault(error, f"{task.action or type(task.work).__name__} {task.target}".rstrip())
        with suppress(Exception):
            on_error(line)
        return Declined(0, INTERNAL_ERROR, line)
    return replace(result, trouble=True) if isinstance(result, Later) and guard.trouble else result


def fault(error: Exception, where: str) -> str:
    """An error of the program as one line: its kind, file and line. What it says may be somebody else's words, or secret."""
    frames = extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return str(DdsError(f"{type(error).__name__}{place}", where=where, fix="an error of the program: report it"))
