"""A recording becomes a log: the rules decide on it, and what they decide is written as one writer would have done."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

from dds_adapters.plugins import component_of
from dds_adapters.sql import Database, random_salt
from dds_commands.screen import position_bar
from dds_commands.sources import Recording
from dds_core import __version__
from dds_core.engine import Step, checkpoint
from dds_core.errors import InputError
from dds_core.log import ChainReport, Envelope, Group
from dds_core.log.chain import SaltSource, advanced, check_cluster, seal
from dds_core.log.envelope import opening, unopened
from dds_core.scaler.component import SCALER
from dds_core.scaler.folds import apply
from dds_core.scaler.state import State

EPOCH = 1
"""Of every event that is written: there is one writer."""


def write_recording(recording: Recording, database: Database, name: str | None, *, checkpoint: bool) -> ChainReport:
    """Replay the recording into a new log of the database. The recording's hash takes the place of the cluster's UID.

    Raises ForeignLog if the log's name is used for another recording or cluster, LogExists if this recording was written before.
    """
    log = name if name is not None else recording.log_name
    if component_of(log) is not SCALER:
        what = f"a recording is put to the rules of the scaler, and {log} would be a publisher's log"
        raise InputError(what, where=recording.label, fix="give --name CLUSTER/scaler")
    cluster = recording.identity()
    for head in database.heads():
        if head.log == log:
            check_cluster(head, cluster)
    steps = recording.steps()
    groups = with_checkpoint(steps) if checkpoint else (step.group(n) for n, step in enumerate(steps))
    now = time.time_ns() // 1000
    with position_bar(0, "writing") as progress:
        return database.import_log(sealed(log, cluster, groups, now, random_salt), progress=progress)


def with_checkpoint(steps: Iterable[Step]) -> Iterator[Group]:
    """The steps' groups, then a checkpoint of the final state, so that the events can be archived."""
    state, ordinal = State(), 0
    for ordinal, step in enumerate(steps, start=1):
        for event in (step.fact, *(event for event, _ in step.caused)):
            apply(state, event, step.at)
        state.dirty.clear()
        yield step.group(ordinal - 1)
    yield checkpoint(SCALER, state, state.process.now, __version__).group(ordinal)


def sealed(name: str, cluster: str, groups: Iterable[Group], recorded_at: int, salts: SaltSource) -> Iterator[Envelope]:
    """The envelopes of a whole log, as one writer would have appended these groups."""
    head, versions = unopened(name, cluster), defaultdict[str, int](int)
    opened = ((0, opening(name, cluster, recorded_at)),)
    for epoch, group in chain(opened, ((EPOCH, group) for group in groups)):
        fresh = seal(head, epoch, [group], versions, recorded_at, salts)
        head = advanced(head, fresh)
        yield from fresh
