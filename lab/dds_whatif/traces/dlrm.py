"""alibaba-gpu-v2025 (disaggregated_DLRM_trace): 31 days of inference instances whose GPUs are on other machines than their CPUs.

github.com/alibaba/clusterdata, cluster-trace-gpu-v2025. A row of role HN holds a GPU from scheduled_time (if empty: from the
start of the trace) to deletion_time (if empty: to the end). Rows of role CN hold none.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from dds_whatif.traces.demand import Held, Trace
from dds_whatif.traces.reading import Names, Row, rows

MODEL = "GPU"
_TIMES = ("creation_time", "scheduled_time", "deletion_time")
_COLUMNS = ("instance_sn", "role", "app_name", "cpu_request", "gpu_request", "memory_request", *_TIMES)
_ROLES = ("CN", "HN")


def read_dlrm(path: Path) -> Trace:
    """The GPU side of the trace. Its window is from 0 to the largest time in the file. Raises TraceError and FileError."""
    held: list[Held] = []
    left_out: Counter[str] = Counter()
    names, latest = Names(), 0.0
    for row in rows(path, _COLUMNS, "the table of instances of alibaba-gpu-v2025"):
        row.ordered(*_TIMES)
        latest = max(latest, *(row.moment(one) or 0.0 for one in _TIMES))
        role = row.text("role")
        if role not in _ROLES:
            raise row.fault(f"role: {role!r} is neither CN nor HN", "correct or remove the row")
        if role == "CN":
            left_out["role CN: the CPU side, without a GPU"] += 1
        else:
            held.append(_held(row, names))
    return Trace("alibaba-gpu-v2025", held, (0.0, latest), left_out)


def _held(row: Row, names: Names) -> Held:
    created, scheduled = row.moment("creation_time"), row.moment("scheduled_time")
    if (created is None) != (scheduled is None):
        raise row.fault("has one of creation_time and scheduled_time: this trace has both or none", "correct the row")
    devices = row.whole("gpu_request")
    if devices < 1:
        raise row.fault("gpu_request: 0, but its role is HN", "correct or remove the row")
    return Held(
        name=names.new(row, "instance_sn"),
        owner=row.label("app_name"),
        created=created,
        start=scheduled or 0.0,
        end=row.moment("deletion_time"),
        devices=devices,
        model=MODEL,
        thousandths=devices * 1000,
        cpu=round(row.number("cpu_request") * 1000),
        memory=round(row.number("memory_request") * 1024),
    )
