"""Writes a scenario made of a trace, and the file of its pods beside it: both completely or not at all."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dds_adapters.files import file_error
from dds_core.errors import InputError
from dds_lab.scenario.reading import parse, written
from dds_lab.scenario.workload import write_workload
from dds_whatif.traces.scenario import Imported


def write(made: Imported, path: Path, *, over: bool = False) -> Path:
    """Write the scenario to a file and its pods to a CSV file beside it; returns the path of the latter. Raises InputError if one
    of them exists, unless `over`, and FileError."""
    pods = pods_beside(path)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.stem}.", dir=path.parent) as folder:
            part, part_of_pods = Path(folder, path.name), Path(folder, pods.name)
            text = written(made.scenario.model_copy(update={"workload": pods.name}))
            parse(text, str(path))
            part.write_text(text, encoding="utf-8")
            write_workload(part_of_pods, made.arrivals())
            refuse(path, over=over)
            os.replace(part_of_pods, pods)
            os.replace(part, path)
    except OSError as error:
        raise file_error(error, str(path)) from error
    return pods


def pods_beside(path: Path) -> Path:
    """The path of the file with a scenario's pods."""
    return path.with_suffix(".csv")


def refuse(path: Path, *, over: bool, apart: Sequence[Path] = ()) -> None:
    """Raises InputError if a scenario cannot be written to this path, or would overwrite a file: one of `apart`, which are read,
    or without `over` any file."""
    if path.suffix not in (".yaml", ".yml"):
        raise InputError("is no name of a scenario", where=str(path), fix="let it end in .yaml")
    if not path.parent.is_dir():
        raise InputError("its folder is not there", where=str(path), fix=f"make {path.parent} first")
    for one in (path, pods_beside(path)):
        if any(one.exists() and source.exists() and one.samefile(source) for source in apart):
            raise InputError("it is what is read, and would be lost", where=str(one), fix="choose another name with -o")
        if one.is_dir():
            raise InputError("it is a folder", where=str(one), fix="choose another name with -o")
        if os.path.lexists(one) and not over:
            fix = "choose another name with -o, or give --replace"
            raise InputError("it is there already", where=str(one), fix=fix)


def name_of(path: Path) -> str:
    """The name of the scenario in this file."""
    return re.sub(r"[^a-z0-9_]+", "-", path.stem.lower()).strip("-_")[:100].strip("-_") or "trace"
