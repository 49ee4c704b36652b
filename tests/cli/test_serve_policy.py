"""The policy of a running scaler: followed while its file changes, and outweighed by what was set."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_commands.live import policy_source
from dds_core.errors import PolicyError
from dds_core.scaler.policy import Policy


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("mode: attach\nno_removal_seconds: 5\n")
    source = policy_source(str(path), None, "default", {"DEVICE_NO_REMOVAL_DURATION": "9"})
    assert (source().mode, source().no_removal_seconds) == ("attach", 9)
    assert source() is source()
    path.write_text("mode: detach\n")
    assert source().mode == "detach"


def test_a_file_that_cannot_be_used_is_said_each_time_until_it_can(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("mode: attach\n")
    source = policy_source(str(path), None, "default", {})
    source()
    for content in ("mode: attack\n", "- a\n", "mode: [\n", None):
        path.unlink() if content is None else path.write_text(content)
        for _ in range(2):
            with pytest.raises(PolicyError, match=str(path)):
                source()
    path.write_text("mode: attach\n")
    assert source().mode == "attach"


def test_what_was_set_outweighs_the_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("mode: detach\nscan_interval_seconds: 5\n")
    source = policy_source(str(path), "observe", "flag", {"SCAN_INTERVAL": "7", "HOME": "/"})
    assert source() == Policy(scan_interval_seconds=7)
    assert {row.name: row.origin for row in source.rows() if row.origin != "default"} == {
        "mode": "flag",
        "policy.scan_interval_seconds": "environment SCAN_INTERVAL",
    }


def test_a_wrong_variable_is_said_at_once() -> None:
    with pytest.raises(PolicyError, match="SCAN_INTERVAL='-1' is not a whole number"):
        policy_source(None, None, "default", {"SCAN_INTERVAL": "-1"})


def test_without_a_file_it_observes() -> None:
    assert policy_source(None, None, "default", {})() == Policy()
