"""Timelines of many subjects in one reading."""

from __future__ import annotations

import pytest

from dds_core.scaler.component import SCALER
from dds_core.scaler.timeline import timelines
from tests.core.scaler.history.told import LOGS, told


@pytest.mark.parametrize("name", ["node_limit", "many_devices", "node_lost", "two_claims", *LOGS])
def test_each_is_the_one_that_is_told_of_it_alone(name: str) -> None:
    moments = list(told(name))
    subjects = SCALER.telling.directory().read(moments).subjects()
    assert {one.kind for one in subjects} >= {"claim", "device", "node"}
    for subject, entries in zip(subjects, timelines(moments, subjects), strict=True):
        assert entries == list(SCALER.telling.timeline(moments, subject)), subject
        assert entries or subject.kind != "claim" or subject.name.startswith("composable-dra/"), (
            "but for dds's own claims"
        )
