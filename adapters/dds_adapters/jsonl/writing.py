"""Writing a log, or a part of it, to a file, unchanged and with its hashes. Erasing data from such a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import IO

import msgspec

from dds_adapters.files import new_file
from dds_adapters.jsonl.reading import JsonlLog
from dds_core.errors import BrokenChain, FileError, InputError, NotACheckpoint
from dds_core.log.chain import ChainCheck, ChainReport, checked, verify_chain
from dds_core.log.codec import FORMAT, Closing, Heading, encode_closing, encode_envelope, encode_heading
from dds_core.log.envelope import CHECKPOINT, LOG_OPENED, Envelope, Head
from dds_core.log.interface import EventLog, EventSource

Progress = Callable[[int], None]
"""Called with the newest position, every `_STEP` events."""

_STEP = 1000


def silent(position: int) -> None:
    """A `Progress` that does nothing."""


def export(
    log: EventSource, path: str | IO[bytes], *, until: int | None = None, progress: Progress = silent
) -> ChainReport:
    """Write the log up to `until` to a new file, or to an open one, and check the chain meanwhile. Raises `FileError` or
    `BrokenChain`, and then leaves no file."""
    head = log.head()
    last = head.position if until is None else min(until, head.position)
    return write_log(path, heading_of(head, last), log.read(head.archived, last), progress=progress)


def heading_of(head: Head, until: int) -> Heading:
    """The header of a file with the log's events up to `until`."""
    return Heading(FORMAT, head.log, head.cluster, head.component, head.archived, until)


def write_log(
    path: str | IO[bytes],
    heading: Heading,
    envelopes: Iterable[Envelope],
    *,
    replace: bool = False,
    progress: Progress = silent,
) -> ChainReport:
    """Write these envelopes to a new file, or to an open one, and check them. Raises `BrokenChain` when they are not those that
    the header names."""
    check = ChainCheck()
    with new_file(path, replace=replace) if isinstance(path, str) else nullcontext(path) as file:
        file.write(encode_heading(heading) + b"\n")
        position = heading.after
        for envelope in checked(envelopes, check):
            file.write(encode_envelope(envelope) + b"\n")
            position = envelope.position
            if position % _STEP == 0:
                progress(position)
        report = check.report()
        if position != heading.until or (report.events and report.first != heading.after + 1):
            raise BrokenChain(heading.log, position + 1, f"it is missing, {heading.until} is the last one wanted")
        file.write(encode_closing(Closing(position, report.hash.hex())) + b"\n")
    progress(position)
    return report


def redact_file(path: str, *, positions: Iterable[int] = (), stream: str | None = None) -> int:
    """Erase data and salt of these events from an export or archive, as `EventLog.redact` does in a log. Returns how many. The
    file is replaced by a new one; copies of it are not changed."""
    source, chosen, erased = JsonlLog(path), set(positions), 0

    def redacted(e: Envelope) -> Envelope:
        nonlocal erased
        if e.redacted or e.type == LOG_OPENED or not (e.position in chosen or e.stream == stream):
            return e
        erased += 1
        return msgspec.structs.replace(e, data=None, salt=None)

    write_log(path, source.heading, map(redacted, source.read(source.heading.after)), replace=True)
    return erased


def archive(log: EventLog, path: str, *, checkpoint: int | None = None, progress: Progress = silent) -> ChainReport:
    """Move all events up to a checkpoint (by default the newest) into a new file. Returns what the file holds.

    The file is written, read back and checked before events are removed from the log. It ends with the checkpoint, and the log
    then starts with it. After an interruption, call it again with the same arguments: an existing file with exactly these
    events is used. Raises `NotACheckpoint`, `FileError`, `BrokenChain`.
    """
    head = log.head()
    last = head.checkpoint if checkpoint is None else checkpoint
    _require_checkpoint(log, head, last)
    heading = heading_of(head, last)
    if not os.path.lexists(path):
        write_log(path, heading, log.read(head.archived, last), progress=progress)
    written = JsonlLog(path)
    if written.heading != heading:
        raise FileError("it is there already and holds something else", where=path, fix="choose another name")
    report = verify_chain(written.read(heading.after))
    log.truncate(last, report.hash)
    return report


def _require_checkpoint(log: EventLog, head: Head, position: int) -> None:
    where = f"log {head.log}"
    if head.checkpoint == 0:
        raise NotACheckpoint("it holds no checkpoint", where=where, fix="append one first")
    if position <= head.archived + 1:
        raise InputError(
            f"everything before position {head.archived + 1} is archived", where=where, fix="nothing to do"
        )
    if not any(log.read(position - 1, position, types=[CHECKPOINT])):
        what = f"the event at position {position} is no checkpoint"
        raise NotACheckpoint(what, where=where, fix=f"archive up to a checkpoint; the newest is at {head.checkpoint}")
