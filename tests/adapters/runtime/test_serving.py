"""What a running scaler archives, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_adapters.runtime.serving import archive_into
from dds_core.errors import FileError
from tests.support.logs import MemoryPlace, checkpoint, groups, opened


def test_what_lies_before_a_checkpoint_goes_into_a_file_once(tmp_path: Path) -> None:
    log, _ = opened(MemoryPlace(), [*groups(6), checkpoint(6), *groups(1, 7)])
    head = log.head()
    archive_into(tmp_path / "new" / "folder", log)
    archive_into(tmp_path / "new" / "folder", log)
    (file,) = (tmp_path / "new" / "folder").iterdir()
    assert file.name == f"prod-eu-scaler-000000000001-{head.checkpoint:012d}.jsonl.gz"
    assert log.head().archived == head.checkpoint - 1


def test_a_folder_that_cannot_be_had_is_told_and_nothing_is_removed(tmp_path: Path) -> None:
    log, _ = opened(MemoryPlace(), [*groups(6), checkpoint(6)])
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="give a folder that can be written; meanwhile the log only grows"):
        archive_into(tmp_path / "file" / "folder", log)
    assert log.head().archived == 0
