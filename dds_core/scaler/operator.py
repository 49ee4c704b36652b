"""What dds knows of the composable-resource-operator (Go, commit 38251b7), as measured on a real cluster (docs/upstream.md).

The operator processes a ComposableResource when the object changes, and again every POLL. Each such *look* at a resource that has
its device's id restarts the vendor's plugin on the node if that is older than PLUGIN_REST, and says Online once a slice lists the
device: the plugin lists devices only when it starts. Instants and times are in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from dds_core.kit.policy import MICROSECONDS

POLL = 30 * MICROSECONDS
"""Time between two looks at an object that does not change; also between two health checks of a device that is Online."""
PLUGIN_REST = 10 * MICROSECONDS
"""A look restarts only a plugin that is older."""
PLUGIN_START = MICROSECONDS
"""From a look that restarts the plugin to its new pod, whose age the operator compares."""
TWO_CHECKS = 65 * MICROSECONDS
"""An error of a device that has its id counts only after so long: the operator keeps the text until its next look has succeeded,
and one failed question to the manager is an error."""
SURE = 2
"""So many looks in a row that found a device there show that the operator does not wait for the fabric's answer."""
FIRST_RETRY = 5 * (MICROSECONDS // 1000)
"""A failed order is tried again after this time, which doubles with each failure."""
LONGEST_RETRY = 1000 * MICROSECONDS
"""It doubles no further (controller-runtime's limiter)."""
WHOLE_REQUEST = 30 * MICROSECONDS
"""An order may be under way for so long, and for twice as long as the fabric's measured time for an attach."""
RARE = 1341 * MICROSECONDS
"""From the first failed try to the end of a request at the first one that is followed by LONGEST_RETRY."""

_MARGIN = 2 * MICROSECONDS

MEANWHILE = MICROSECONDS // 2
"""An operator that takes up another resource so long after it has asked the fabric does not wait for the answer."""

LEAVES = "k8s.io/device-uuid"
"""Key of the taint in its rules for devices that leave; the value is the device's UUID."""

Verdict = Literal["gone", "critical", "warning", ""]

_VERDICTS: tuple[tuple[str, Verdict], ...] = (
    ("cannot be found", "gone"),
    ("critical", "critical"),
    ("warning status", "warning"),
)

_OF_NODE = ("driver pod", "nvidia-smi", "kubelet plugin", "kubelet-plugin", "driver is not")


def plugin_restarted(listed: int, look: int) -> int:
    """When the plugin whose list came at `listed` was restarted, by the look that is thought to have done it: a start takes
    seconds, so of a look long before it was another one."""
    return look if listed - look < PLUGIN_REST else listed


class Job(NamedTuple):
    """A resource, by uid, for which the operator has to ask the fabric or has asked it, and no answer or error is seen. `since`:
    when the operator took it up, which is when it wrote the state Attaching or, of one that is `leaving`, Detaching."""

    uid: str
    since: int
    leaving: bool = False
    node: str = ""


def at_work(jobs: Iterable[Job]) -> str:
    """The resource for which the operator has asked the fabric, "" for none. Its one worker waits for the answer, whichever node
    is concerned: all that it took up and has no answer for wait for their turn, by age. A detach may be answered long before the
    state says so: it holds up nothing that was taken up well after it."""
    by_age = sorted(jobs, key=lambda one: one.since)
    late = by_age[-1].since - MEANWHILE if by_age else 0
    return next((one.uid for one in by_age if not one.leaving or one.since >= late), "")


class Turns:
    """What the operator has taken up (`jobs`, by uid), and for which of it it has asked the fabric. `turn`: `at_work`. On a node
    for which it was seen to take up a resource while the fabric works for another, it does not wait for the answer."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.turn = ""
        self._since = 0
        self._several: set[str] = set()

    def waits(self, node: str) -> bool:
        """Whether the operator waits for the fabric's answer about a device of the node."""
        return node not in self._several

    def asked(self) -> set[str]:
        """The resources for which it has asked the fabric."""
        return {job.uid for job in self.jobs.values() if not self.waits(job.node)} | (
            {self.turn} if self.turn else set()
        )

    def take_up(self, job: Job) -> None:
        turn = self.jobs.get(self.turn)
        if turn is not None and not turn.leaving and job.since - self._since > MEANWHILE:
            self._several |= {turn.node, job.node}
        self.jobs[job.uid] = job
        self._next(job.since)

    def end(self, uid: str, at: int) -> str:
        """The fabric's answer is there. If another resource was thought to have its turn, that begins only now: its uid, else
        ""."""
        job = self.jobs.pop(uid)
        wrong = self.turn if self.turn not in ("", uid) and self.waits(job.node) else ""
        if wrong:
            self.turn = ""
        self._next(at)
        return wrong

    def _next(self, at: int) -> None:
        turn = at_work(job for job in self.jobs.values() if self.waits(job.node))
        if turn != self.turn:
            self.turn, self._since = turn, at


def is_of_node(error: str) -> bool:
    """Whether an attach failed for the node's sake, by the operator's text: the vendor's driver does not run there, or cannot be
    asked. It says nothing of the fabric."""
    words = error.lower()
    return any(text in words for text in _OF_NODE)


def verdict(error: str) -> Verdict:
    """What the manager says of the device itself, by the operator's text; "" for a text that is about a failed question."""
    words = error.lower()
    return next((found for text, found in _VERDICTS if text in words), "")


def pauses(since: int, request: int, took: int = 0) -> Iterator[tuple[int, int, bool]]:
    """(first, last, certain): instants between which no order can be under way for a resource that has shown one error text since
    `since`, if the operator was free to try whenever it was due: the last try is a whole `request` ago, and the next one is not
    due yet. Each failed try may have taken up to `took`, or no time: so the tries are known less and less precisely. When they
    are rarest nothing is certain any more, and nearly always none is under way. Without end, unless a request takes longer than
    the longest wait: then one may be under way at any time."""
    early, late, wait = since, since, FIRST_RETRY
    while True:
        first, last = late + request, early + wait - _MARGIN
        if wait == LONGEST_RETRY:
            if early + request >= last:
                return
            yield early + request, last, False
        elif first < last:
            yield first, last, True
        early, late, wait = early + wait, late + wait + took, min(2 * wait, LONGEST_RETRY)
