"""Real GPU traces, turned into scenarios of the lab, with their numbers.

- `reading`: a CSV file, plain or gzipped, row by row; whatever is wrong is told with file and line.
- `dlrm`, `openb`, `philly`: the rows of one form of trace each, as `demand.Trace`, which says nothing of where it is from.
- `facts`: the numbers of a trace in a window.
- `scenario`: a window of a trace as a scenario with a file of its pods.
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
"""The forms of traces that can be read."""


def read_trace(kind: str, paths: Sequence[Path]) -> Trace:
    """The trace in these files, of a kind among `KINDS`. Raises InputError, also where a kind wants other files, and TraceError
    at the first row that is not of its form."""
    read, files = _READ[kind]
    if len(paths) != len(files):
        wants = " and ".join(f"a file of {one}" for one in files)
        raise InputError(f"{kind} is {wants}, {len(paths)} given", fix="give these files, in this order")
    found = read(*paths)
    if not found.held:
        raise TraceError("no row holds a device", where=str(paths[0]), fix="give the file as it was published")
    return found
