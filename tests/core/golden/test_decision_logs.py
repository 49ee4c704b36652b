"""The golden decision logs: what is decided at each fact of a recording, byte for byte, chain included.

To change them deliberately: `python -m tests.core.golden.regenerate`, then read `git diff` of the timelines beside them.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dds_adapters.jsonl import JsonlLog
from dds_core.log import Envelope, verify_chain
from dds_core.replay import verify
from dds_core.scaler.component import SCALER
from tests.core.golden.regenerate import exported
from tests.core.golden.replays import CODE, GOLDEN, SMALL, digests_of, log_of, replayed

LOGS = GOLDEN / "logs"
AGAIN = "check the change against the raw events, then run: python -m tests.core.golden.regenerate"


@pytest.mark.parametrize("name", SMALL)
def test_the_replay_gives_the_golden_log_byte_for_byte(name: str, tmp_path: Path) -> None:
    golden = gzip.decompress((LOGS / f"{name}.jsonl.gz").read_bytes()).splitlines()
    fresh = gzip.decompress(exported(log_of(replayed(name)), tmp_path).read_bytes()).splitlines()
    for number, (was, now) in enumerate(zip(golden, fresh, strict=False), start=1):
        assert now == was, f"line {number} of {name}; {AGAIN}"
    assert len(fresh) == len(golden), AGAIN


def test_the_replay_of_the_burst_gives_the_golden_digests() -> None:
    golden = (LOGS / "burst.digests").read_text().splitlines()
    fresh = digests_of(log_of(replayed("burst")).read()).splitlines()
    for was, now in zip(golden, fresh, strict=False):
        assert now == was, AGAIN
    assert len(fresh) == len(golden), AGAIN


@pytest.mark.parametrize("name", SMALL)
def test_a_golden_log_verifies(name: str) -> None:
    log = JsonlLog(str(LOGS / f"{name}.jsonl.gz"))
    chain = verify_chain(log.read())
    report = verify(log.read(), SCALER, fingerprint=CODE)
    assert (chain.first, chain.last) == log.span()
    assert report.ok, report.differences
    assert report.last == chain.last and all(span.same for span in report.spans) and not report.unjudged


def test_a_digest_changes_with_any_decided_byte() -> None:
    rows = list(JsonlLog(str(LOGS / "first_attach.jsonl.gz")).read())
    victim = next(row for row in rows if row.type == "AttachOrdered")
    changed = [_with_other_size(row) if row is victim else row for row in rows]
    differing = [
        a for a, b in zip(digests_of(rows).splitlines(), digests_of(changed).splitlines(), strict=True) if a != b
    ]
    assert len(differing) == 1 and differing[0].startswith(f"{victim.epoch}.{victim.group} ")


def _with_other_size(row: Envelope) -> Envelope:
    from msgspec.structs import replace

    assert row.data is not None
    return replace(row, data=row.data.replace(b'"size":1', b'"size":2'))
