"""Timelines of a few things from the events around these alone."""

from __future__ import annotations

import pytest

from dds_core.replay import moments
from dds_core.scaler.component import SCALER
from dds_core.scaler.timeline import timelines
from dds_core.scaler.timeline.around import Around, near
from tests.core.scaler.history.told import LOGS, RECORDINGS, rows

_KINDS = ("claim", "device", "node")


@pytest.mark.parametrize("name", [*LOGS, *RECORDINGS])
def test_what_is_elsewhere_changes_no_timeline(name: str) -> None:
    kept, around = list(rows(name)), Around()
    whole = list(moments(kept, SCALER))
    for moment in whole:
        around.take(moment)
    subjects = [one for one in SCALER.telling.directory().read(whole).subjects() if one.kind in _KINDS]
    read = 0
    for subject, expected in zip(subjects, timelines(whole, subjects), strict=True):
        some = list(near(kept, around.elsewhere([subject])))
        read += len(some)
        assert timelines(moments(some, SCALER), [subject]) == [expected], subject
    nodes = sum(one.kind == "node" for one in subjects)
    assert nodes < 4 or read < len(kept) * len(subjects) * 0.9, (name, nodes, read / len(kept) / len(subjects))
