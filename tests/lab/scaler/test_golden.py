"""What our scaler tells of scenarios in which it decides by what claims ask for, from the first pod to the last device: the
timelines in `tests/data/golden/ours`.

After a deliberate change: `python -m tests.lab.scaler.test_golden [NAME ...]`, and read what changed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dds_core.replay import moments
from dds_core.scaler.component import SCALER
from dds_core.scaler.timeline import timeline
from dds_core.timeline import render_text
from tests.support.ours import running, told_to_us

FOLDER = Path(__file__).parents[2] / "data" / "golden" / "ours"
NAMES = (
    "better_choice",
    "cxl_memory",
    "exchange_crash",
    "match_attribute",
    "partitioned",
    "refused_local",
    "relist_gap",
    "repartitioned",
    "rival",
    "shared_gap",
    "unhealthy",
)


def told(name: str) -> str:
    with running(told_to_us(name)) as run:
        run.lab.run()
        run.lab.run(90)
    return render_text(timeline(moments(run.log.read(), SCALER)), width=120, names=True)


@pytest.mark.parametrize("name", NAMES)
def test_the_timeline_is_as_it_was(name: str) -> None:
    assert told(name) == (FOLDER / f"{name}.txt").read_text()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for one in sys.argv[1:] or NAMES:
        (FOLDER / f"{one}.txt").write_text(told(one))
