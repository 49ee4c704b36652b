"""Where a SQLite file lies: on a file system on which a log is not safe."""

from __future__ import annotations

import os
from pathlib import Path

_UNSAFE = {
    "overlay": "the container's own layer, which is gone with its pod: mount a volume",
    "tmpfs": "memory, which is gone with its pod or machine: mount a volume",
    "ramfs": "memory, which is gone with the machine: mount a volume",
    **dict.fromkeys(
        ("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "9p"),
        "a network file system, on which SQLite's locks and write-ahead log are not reliable: use a local volume or PostgreSQL",
    ),
}
"""By type of file system: what is wrong with it."""


def danger(path: str, mounts: str = "/proc/self/mountinfo") -> str:
    """Why a log in this file is not safe; "" if nothing is known against it, or the system does not say (only Linux does)."""
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    best, kind = -1, ""
    try:
        lines = Path(mounts).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    for line in lines:  # proc(5): … mount point is the fifth field; after " - " comes the type
        left, _, right = line.partition(" - ")
        point = left.split()[4].encode().decode("unicode_escape") if len(left.split()) > 4 else ""
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        if point and inside and len(point) >= best:
            best, kind = len(point), right.split()[0] if right else ""
    return f"its folder is on {kind}: {_UNSAFE[kind]}" if kind in _UNSAFE else ""
