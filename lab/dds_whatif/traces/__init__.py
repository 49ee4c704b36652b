"""Turns published GPU traces into scenarios of the lab, and computes their numbers.

- `reading`: reads a CSV file, plain or gzipped, row by row; errors name file and line.
- `dlrm`, `openb`, `philly`: one format of trace each; all give a `demand.Trace`.
- `facts`: the numbers of a trace in a window.
- `scenario`: makes a scenario, with its pods, of a window of a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dds_core.errors import InputError
from dds_whatif.traces.demand import Trace
from dds_whatif.traces.dlrm import read_dlrm
from dds_whatif.traces.openb import read_openb
from dds_whatif.traces.philly import read_philly
from dds_whatif.traces.reading import TraceError

_READ: dict[str, tuple[Callable[..., Trace], tuple[str, ...]]] = {
    "alibaba-gpu-v2025": (read_dlrm, ("the instances",)),
    "openb-v2023": (read_openb, ("the pods", "the nodes")),
    "philly": (read_philly, ("the jobs",)),
}
KINDS = tuple(_READ)
"""Formats of traces that can be read."""


def read_trace(kind: str, paths: Sequence[Path]) -> Trace:
    """Read a trace of a format in `KINDS`. Raises InputError for a wrong number of files, and TraceError at the first row that is
    not in the format."""
    read, files = _READ[kind]
    if len(paths) != len(files):
        wants = " and ".join(f"a file of {one}" for one in files)
        raise InputError(f"{kind} is {wants}, {len(paths)} given", fix="give these files, in this order")
    found = read(*paths)
    if not found.held:
        raise TraceError("no row holds a device", where=str(paths[0]), fix="give the file as it was published")
    return found
