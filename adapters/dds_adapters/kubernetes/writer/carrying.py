"""How one task is carried out, whoever does it: each of its requests only while this process may write, within the time that it
has for that, and no more of them than a server in trouble can bear.

No threads, no clock. A fault of a work is the end of its task and of nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb

from dds_adapters.kubernetes.cluster import Answer, Asking, Unreachable
from dds_adapters.kubernetes.writer.tasks import Declined, Later, NotLeading, Result, Task, Versions
from dds_core.errors import DdsError

MARGIN = 0.1
"""Seconds: with less left than this, nothing is sent."""
REQUEST_SECONDS = 15.0
"""The longest that an answer is waited for."""
INTERNAL_ERROR = "InternalError"

Permit = Callable[[], float]
"""Seconds for which this process may still write, 0 when it may not; it never waits."""


class Guard:
    """A way to the API server (`Asking`) for one task."""

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


def carry_out(task: Task, guard: Guard, versions: Versions, told: Callable[[str], None]) -> Result:
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
            told(line)
        return Declined(0, INTERNAL_ERROR, line)
    return replace(result, trouble=True) if isinstance(result, Later) and guard.trouble else result


def fault(error: Exception, where: str) -> str:
    """An error of the program as one line: its kind, file and line. What it says may be somebody else's words, or secret."""
    frames = extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return str(DdsError(f"{type(error).__name__}{place}", where=where, fix="an error of the program: report it"))
