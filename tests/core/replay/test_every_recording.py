"""Every recording, replayed under the policy as it is shipped and in every mode, is judged clean."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_adapters.kubernetes.recording import replay_recording
from dds_core import MemoryLog, Policy, verify
from dds_core.kit.policy import MODES, Mode
from dds_core.log import fixed_salts
from dds_core.scaler.component import SCALER

RECORDINGS = sorted((Path(__file__).parents[2] / "data" / "recordings").glob("*.jsonl.gz"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_a_replay_under_the_shipped_policy_verifies(path: Path, mode: Mode) -> None:
    """In binding_timeout the learned timeout moves a budget's deadline into the past: it is told late, and that is right."""
    log = MemoryLog("c/scaler", cluster="cluster", recorded_at=0, salts=fixed_salts(b"recordings"))
    epoch = log.take_epoch(0)
    steps = replay_recording(path, Policy(mode=mode))
    log.append([step.group(ordinal) for ordinal, step in enumerate(steps)], epoch=epoch, recorded_at=0)
    assert [str(difference) for difference in verify(log.read(), SCALER).differences] == []
