"""Checking the chain of a log that also has a head: what the head says is there has to be there."""

from __future__ import annotations

from collections.abc import Iterable

from dds_core.log.chain import Anchor, ChainReport, verify_chain
from dds_core.log.envelope import Head
from dds_core.log.interface import EventLog


def anchor_of(head: Head) -> Anchor:
    """Where the log stands now, to be kept elsewhere."""
    return Anchor(head.log, head.position, head.hash)


def verify_log(log: EventLog, *, after: int | None = None, anchors: Iterable[Anchor] = ()) -> ChainReport:
    """Check all that the log holds, or what comes after position `after`; its head serves as one more anchor.

    Raises `BrokenChain` naming the first position that does not hold.
    """
    head = log.head()
    start = head.archived if after is None else after
    return verify_chain(log.read(start), anchors=[*anchors, anchor_of(head)])
