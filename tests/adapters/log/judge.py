"""Verifies logs in a process of its own: `python -m tests.adapters.log.judge '[[BATCH, ["part", ...]], ...]'`.

Each source, given by its parts, is read BATCH events at a time. Prints a JSON list with one verdict for each.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from dds_adapters import sql
from dds_adapters.jsonl import JsonlLog
from dds_core.log import EventSource, JoinedSource, verify_chain
from dds_core.replay import verify
from dds_core.scaler.component import SCALER
from tests.core.golden.replays import CODE, LOG_NAME


def opened(part: str) -> EventSource:
    """A part of a log: a database or a file."""
    return sql.Database(part).log(LOG_NAME) if "://" in part else JsonlLog(part)


def verdict(parts: list[str], batch: int) -> dict[str, Any]:
    """Chain and decisions of one source, read `batch` events at a time."""
    source = JoinedSource([opened(part) for part in parts])
    chain = verify_chain(source.read(batch=batch))
    report = verify(source.read(batch=batch), SCALER, fingerprint=CODE)
    return {
        "first": chain.first,
        "events": chain.events,
        "hash": chain.hash.hex(),
        "judged": report.events,
        "other_code": [span.code for span in report.spans if not span.same],
        "unjudged": report.unjudged,
        "differences": [str(difference) for difference in report.differences],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps([verdict(parts, batch) for batch, parts in json.loads(sys.argv[1])]))
