"""The event log without durable storage: envelopes, the hash chain, the contract of every log, the line codec, `MemoryLog`."""

from dds_core.log.chain import (
    Anchor,
    ChainCheck,
    ChainReport,
    SaltSource,
    anchor_of,
    checked,
    event_id,
    fixed_salts,
    verify_chain,
    verify_log,
)
from dds_core.log.envelope import (
    CHECKPOINT,
    LOG_OPENED,
    LOG_STREAM,
    Envelope,
    Group,
    Head,
    LeanEvent,
    NewEvent,
)
from dds_core.log.interface import BATCH, EventLog, EventSource, JoinedSource
from dds_core.log.memory import MemoryLog

__all__ = [
    "BATCH",
    "CHECKPOINT",
    "LOG_OPENED",
    "LOG_STREAM",
    "Anchor",
    "ChainCheck",
    "ChainReport",
    "Envelope",
    "EventLog",
    "EventSource",
    "Group",
    "Head",
    "JoinedSource",
    "LeanEvent",
    "MemoryLog",
    "NewEvent",
    "SaltSource",
    "anchor_of",
    "checked",
    "event_id",
    "fixed_salts",
    "verify_chain",
    "verify_log",
]
