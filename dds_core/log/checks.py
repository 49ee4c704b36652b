"""What every log refuses, and in which words."""

from __future__ import annotations

from collections.abc import Sequence

from dds_core.errors import Archived, Fenced, ForeignLog, InvalidEvent
from dds_core.log.envelope import CHECKPOINT, LOG_OPENED, Group, Head, NewEvent


def check_groups(groups: Sequence[Group]) -> None:
    """Refuse with `InvalidEvent` what no log may hold, before anything is locked."""
    previous = -1
    for group in groups:
        if group.ordinal <= previous:
            raise InvalidEvent(f"group {group.ordinal} follows group {previous}", fix="number groups upwards from 0")
        if not group.events:
            raise InvalidEvent(f"group {group.ordinal} is empty", fix="append groups of at least one event")
        previous = group.ordinal
        for index, event in enumerate(group.events):
            _check_event(group, index, event)


def _check_event(group: Group, index: int, event: NewEvent) -> None:
    where = f"group {group.ordinal}, event {index} ({event.type})"
    if not event.stream or not event.type or event.schema_version < 1:
        raise InvalidEvent("stream, type or schema version is missing", where=where, fix="give all three")
    if not event.stream.isprintable():
        raise InvalidEvent(f"{event.stream!r} is no name of a stream", where=where, fix="name streams by UID")
    if event.cause is not None and not 0 <= event.cause < max(index, 1):
        raise InvalidEvent(
            f"cause {event.cause} does not stand before it", where=where, fix="name an earlier event of the group"
        )
    if event.type == LOG_OPENED:
        raise InvalidEvent("the log writes its first event itself", where=where, fix="leave it out")
    if event.type == CHECKPOINT and len(group.events) != 1:
        raise InvalidEvent("a checkpoint stands alone in its group", where=where, fix="append it as a group of its own")
    try:
        event.data.decode()
    except UnicodeDecodeError as error:
        raise InvalidEvent(f"data is no UTF-8 text ({error.reason})", where=where, fix="encode data as JSON") from None


def check_epoch(head: Head, epoch: int) -> None:
    """Raise `Fenced` unless `epoch` is the newest that the log gave out."""
    if epoch != head.epoch or epoch < 1:
        raise Fenced(
            f"epoch {epoch} may not write, the newest is {head.epoch}",
            where=f"log {head.log}",
            fix="stop writing; take a new epoch only after winning the lease again",
        )


def check_not_archived(head: Head, after: int) -> None:
    """Raise `Archived` when reading from `after` on would silently leave something out of the log."""
    check_part(head.log, head.archived, after)


def check_part(log: str, before: int, after: int) -> None:
    """Raise `Archived` when a source that begins after position `before` is asked for what comes after `after`
    already."""
    if after < before:
        raise Archived(
            f"positions {after + 1} to {before} are not here, they were moved to an archive",
            where=f"log {log}",
            fix=f"give the archive as well, or read from the checkpoint at {before + 1} on",
        )


def check_cluster(head: Head, cluster: str) -> None:
    """Raise `ForeignLog` unless the log belongs to the cluster with this identity."""
    if head.cluster != cluster:
        raise ForeignLog(
            f"it belongs to the cluster with kube-system UID {head.cluster}, this one has {cluster}",
            where=f"log {head.log}",
            fix="give this cluster a log of another name, or correct the name of the cluster",
        )
