"""Writes the golden files anew: `python -m tests.core.golden.regenerate [NAME ...]`, from the top folder of the project.

Never run by a test. Whoever runs it reads the difference (`git diff tests/data/golden`) and checks every change against the
raw events; what a timeline says by then stands in the note beside it (`NAME.md`), which is written by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from dds_adapters import jsonl
from dds_core.log import EventLog
from tests.core.golden.replays import ALL, GOLDEN, REPORTED, digests_of, log_of, overview_of, replayed, timeline_of

LARGE = ("burst",)
"""Their logs are kept as digests."""


def exported(log: EventLog, folder: Path) -> Path:
    """The log as a packed export in `folder`."""
    path = folder / "log.jsonl.gz"
    jsonl.export(log, str(path))
    return path


def write(name: str) -> None:
    (GOLDEN / f"{name}.txt").write_text(timeline_of(name))
    if name in REPORTED:
        (GOLDEN / "reports" / f"{name}.txt").write_text(overview_of(name))
    log = log_of(replayed(name))
    if name in LARGE:
        (GOLDEN / "logs" / f"{name}.digests").write_text(digests_of(log.read()))
        return
    with TemporaryDirectory() as folder:
        (GOLDEN / "logs" / f"{name}.jsonl.gz").write_bytes(exported(log, Path(folder)).read_bytes())


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ALL:
        write(wanted)
        sys.stdout.write(f"{wanted}\n")
