"""A large inventory: every slice is written once, then nothing while nothing changes, and one write for a count that changes by
one. How long it takes is measured by the benchmark of the same name."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.publish import FABRICS, IDLE, INTERVAL, MODELS, stage
from dds_core.log import MemoryLog
from dds_core.publisher.component import PUBLISHER
from dds_core.replay import verify


@pytest.mark.full
def test_sixty_four_fabrics_of_eight_models(tmp_path: Path) -> None:
    log = MemoryLog("lab/publisher", cluster="lab", recorded_at=1)
    with stage(tmp_path, log) as on:
        on.until(lambda: on.shown == FABRICS * MODELS)
        assert [verb for verb, _ in on.writes.all] == ["create"] * FABRICS * MODELS
        on.lab.run(IDLE)
        assert len(on.writes.all) == FABRICS * MODELS
        on.lab.fabric.resize("17", "M3", -1)
        on.lab.run(INTERVAL + 5)
        assert on.writes.all[FABRICS * MODELS :] == [("update", "model-3-fabric17-gpu-nvidia-com-000")]
        assert on.ours.faults == []
    assert verify(log.read(), component=PUBLISHER).ok
