"""A SQLite log on a file system on which it is not safe is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_adapters.sql.places import danger

MOUNTS = """\
22 1 254:0 / / rw,relatime - {root} /dev/root rw
23 22 0:21 / /data rw,nosuid - nfs4 server:/export rw
24 23 8:1 / /data/local\\040disk rw - ext4 /dev/sda1 rw
25 22 0:5 / /dev rw - devtmpfs devtmpfs rw
broken
"""


@pytest.mark.parametrize(
    ("root", "path", "words"),
    [
        ("overlay", "/var/lib/dds/log.sqlite3", "overlay: the container's own layer"),
        ("ext4", "/var/lib/dds/log.sqlite3", ""),
        ("ext4", "/data/log.sqlite3", "nfs4: a network file system"),
        ("overlay", "/data/local disk/log.sqlite3", ""),
        ("overlay", "/database/log.sqlite3", "overlay"),
    ],
)
def test_the_file_system_of_a_log_is_judged(root: str, path: str, words: str, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(root=root), encoding="utf-8")
    found = danger(path, str(mounts))
    assert words in found and bool(words) == bool(found)


def test_where_nothing_is_known_nothing_is_said(tmp_path: Path) -> None:
    assert danger("/data/log.sqlite3", str(tmp_path / "none")) == ""
