"""Moving the oldest part of a log into a file: written, read back and checked before anything is removed from the
log."""

from __future__ import annotations

import os

from dds_adapters.jsonl.reading import JsonlLog
from dds_adapters.jsonl.writing import Progress, heading_of, silent, write_log
from dds_core.errors import FileError, InputError, NotACheckpoint
from dds_core.log.chain import ChainReport, verify_chain
from dds_core.log.envelope import CHECKPOINT, Head
from dds_core.log.interface import EventLog


def archive(log: EventLog, path: str, *, checkpoint: int | None = None, progress: Progress = silent) -> ChainReport:
    """Move everything up to a checkpoint (by default the newest) into a new file; gives what the file holds.

    The file ends with the checkpoint, and the log then starts with it. Interrupted at any point it may be run
    again with the same arguments: a file that is there already is used if it holds just these events. Raises
    `NotACheckpoint`, `FileError`, `BrokenChain`.
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
