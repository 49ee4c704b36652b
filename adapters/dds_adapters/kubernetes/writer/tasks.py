"""What is to be written, as the engine's thread hands it over: everything a task needs is in it, so that whoever carries it out
never looks into the picture.

Pure data; nothing here sends anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dds_adapters.kubernetes.cluster import Asking
from dds_core.policy import Mode

Versions = Callable[[str], str]
"""The API version in which a resource is served and followed ("resourceclaims" -> "resource.k8s.io/v1"); "" when it is not."""


class Work(Protocol):
    """One kind of write. A frozen dataclass that carries all it needs."""

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        """Look at the live objects, compare with what the decision was made for, send what is still needed.

        Called again from the beginning after `Later`, and after a crash: whatever it does must be safe to do twice."""
        ...


@dataclass(frozen=True, slots=True)
class Task:
    """A write that is wanted.

    `decision` is the event id of the decision, `action` its type and `target` what `WriteDone` and `WriteRefused` are to name;
    all three are "" for what nobody decided (a Kubernetes Event, an epoch stamp): nobody is told what becomes of it.
    `objects` are those that it writes, as "<resource>/<uid or name>": tasks that share one are carried out in the order in
    which they were put. A task with the same non-empty `replaces` as an older one that was not carried out yet supersedes it.
    `needs` is the mode below which it must not be carried out any more. `at` is the decision's instant in microseconds.
    `lasting` tells of what nobody decided that it is not given up all the same. `within` so many seconds from when it is put it
    has to begin; later it is not wanted any more.
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


@dataclass(frozen=True, slots=True)
class Done:
    """The live object is as the decision wants it, by this write or already before. `requests` were sent."""

    written: bool = True


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
class Overdue:
    """The work of a task that could not begin in time."""

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        return Obsolete("it could not be sent in time, and is not wanted any more")


class NotLeading(Exception):
    """This process may not begin a write now: it does not lead, or the log is away. Nothing was sent."""
