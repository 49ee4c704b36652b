"""A replay as a log: sealed as it would have been written, and taken into a database all at once or not at all."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from dds_adapters.sql import Database, random_salt
from dds_commands.screen import position_bar
from dds_commands.sources import Recording
from dds_core.engine import Step
from dds_core.events import Checkpoint
from dds_core.fold import apply
from dds_core.log import ChainReport, Envelope, Group
from dds_core.log.appending import advanced
from dds_core.log.chain import SaltSource, seal
from dds_core.log.checks import check_cluster
from dds_core.log.envelope import opening, unopened
from dds_core.picture import Picture
from dds_core.snapshot import PROJECTION, dump

EPOCH = 1
"""Of the one writer that a replay is."""


def write_recording(recording: Recording, database: Database, name: str | None, *, checkpoint: bool) -> ChainReport:
    """Replay the recording into a new log of the database; the recording's fingerprint stands for its cluster.

    Raises ForeignLog when a log of this name belongs to another recording or cluster, LogExists when it is this one.
    """
    log = name if name is not None else log_name(recording.path)
    cluster = recording.identity()
    for head in database.heads():
        if head.log == log:
            check_cluster(head, cluster)
    steps = recording.steps()
    groups = with_checkpoint(steps) if checkpoint else (step.group(n) for n, step in enumerate(steps))
    now = time.time_ns() // 1000
    with position_bar(0, "writing") as progress:
        return database.import_log(sealed(log, cluster, groups, now, random_salt), progress=progress)


def log_name(path: str) -> str:
    """The name of the log of a recording: <the file's name>/scaler."""
    stem = Path(path).name.lower().removesuffix(".gz").removesuffix(".jsonl")
    return f"{re.sub(r'[^a-z0-9._-]+', '-', stem).strip('-._')[:100] or 'recording'}/scaler"


def with_checkpoint(steps: Iterable[Step]) -> Iterator[Group]:
    """The groups of the steps, and a checkpoint of the whole picture at the end, so that they can be archived."""
    picture, ordinal = Picture(), 0
    for ordinal, step in enumerate(steps, start=1):
        for event in (step.fact, *(event for event, _ in step.caused)):
            apply(picture, event, step.at)
        picture.dirty.clear()
        yield step.group(ordinal - 1)
    fact = Checkpoint(projection=PROJECTION, picture=dump(picture))
    yield Step(picture.now, fact, []).group(ordinal)


def sealed(name: str, cluster: str, groups: Iterable[Group], recorded_at: int, salts: SaltSource) -> Iterator[Envelope]:
    """A whole log of these groups, envelope by envelope, as one writer would have appended them."""
    head, versions = unopened(name, cluster), defaultdict[str, int](int)
    opened = ((0, opening(name, cluster, recorded_at)),)
    for epoch, group in chain(opened, ((EPOCH, group) for group in groups)):
        fresh = seal(head, epoch, [group], versions, recorded_at, salts)
        head = advanced(head, fresh)
        yield from fresh
