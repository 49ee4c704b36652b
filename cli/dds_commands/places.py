"""Where programs keep what outlives them but is nobody's document: the XDG state directory."""

from __future__ import annotations

import os
from pathlib import Path

from dds_core.errors import InputError

_LOG = "scaler.sqlite3"


def state_folder(*parts: str) -> Path:
    """The folder of ours under $XDG_STATE_HOME or ~/.local/state. Nothing is made."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base, "dds", *parts)


def default_path() -> str:
    """The SQLite file that `dds serve` writes where no log is named."""
    return str(state_folder() / _LOG)


def served_log(what: str, fix: str) -> str:
    """The SQLite file that `dds serve` writes, for those who named no log. Raises InputError, with `what` is missing, where it is
    not there."""
    path = default_path()
    if not Path(path).is_file():
        raise InputError(f"{what}, and dds serve has made none", where=path, fix=fix)
    return path


def made(folder: Path, fix: str) -> Path:
    """The folder, for this user alone when it is new. Raises InputError, with `fix` as what to do instead."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(error.strerror or str(error), where=str(folder), fix=fix) from None
    return folder
