"""The log: whether it can be reached and used, belongs to this cluster, and is kept short by checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from dds_adapters.kubernetes.doctor.findings import Finding, error, note, ok, unknown, warning
from dds_core.log import Head
from dds_core.picture import Picture
from dds_core.timeline.clock import duration, rfc3339

_CHECK = "log"
MANY_EVENTS = 250_000
"""Events after the newest checkpoint that make a start slow: some ten seconds of folding."""
AHEAD = 60_000_000
"""Microseconds by which the newest event may be later than our clock."""


class Journal(Protocol):
    """A database that holds logs, open and of the right schema. `where` is its name without a password."""

    @property
    def where(self) -> str: ...

    def heads(self) -> list[Head]:
        """The heads of all logs in it."""

    def picture(self, name: str) -> Picture:
        """What a log amounts to. Raises DdsError."""


def log(journal: Journal, name: str, cluster: str | None, now: int) -> Iterator[Finding]:
    """The log of this name; `cluster` is the uid of kube-system, None where it could not be read."""
    heads = {one.log: one for one in journal.heads()}
    head = heads.get(name)
    if head is None:
        yield _not_there(journal, name, cluster, list(heads.values()))
        return
    yield _identity(journal, head, cluster)
    yield from _size(head, now)


def _not_there(journal: Journal, name: str, cluster: str | None, heads: list[Head]) -> Finding:
    mine = [one.log for one in heads if cluster and one.cluster == cluster and one.component == name.rpartition("/")[2]]
    if mine:
        what = f"{journal.where} has no log {name}, but {mine[0]}, which belongs to this cluster"
        return warning(_CHECK, what, f"give --cluster-name {mine[0].rpartition('/')[0]}, or idle clocks start anew")
    return note(_CHECK, f"{journal.where} has no log {name} yet", "the first start of dds serve makes it")


def _identity(journal: Journal, head: Head, cluster: str | None) -> Finding:
    if cluster is None:
        return unknown(_CHECK, f"whether {head.log} belongs to this cluster could not be seen")
    if head.cluster != cluster:
        what = f"{head.log} in {journal.where} belongs to another cluster, kube-system with uid {head.cluster}, not {cluster}"
        return error(
            _CHECK, what, "name another log with --log or --cluster-name, or take the kubeconfig of that cluster"
        )
    return ok(_CHECK, f"{head.log} in {journal.where} belongs to this cluster")


def _size(head: Head, now: int) -> Iterator[Finding]:
    since = head.position - head.checkpoint
    newest = (
        f"{head.log} stands at position {head.position}, epoch {head.epoch}, newest event {rfc3339(head.recorded_at)}"
    )
    if head.recorded_at > now + AHEAD:
        what = f"{newest}, which is {duration(head.recorded_at - now)} ahead of our clock"
        yield warning(_CHECK, what, "keep the clocks of all machines that run dds right with NTP or chrony")
    else:
        yield ok(_CHECK, newest)
    after = f"{since} events since the newest checkpoint" if head.checkpoint else f"{since} events and no checkpoint"
    if since > MANY_EVENTS:
        yield warning(
            _CHECK, f"{after}: a start has to fold them all", "run dds serve with --checkpoint-events above 0"
        )
    else:
        yield ok(_CHECK, after)
