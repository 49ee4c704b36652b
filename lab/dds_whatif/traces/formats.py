"""Reads each format of trace that is published."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from dds_core.errors import InputError
from dds_lab.scenario.checks import unknown
from dds_whatif.traces.demand import Held, Host, Trace, Window
from dds_whatif.traces.reading import Names, Row, TraceError, given, rows

# -- alibaba-gpu-v2025 (disaggregated_DLRM_trace): 31 days of inference instances whose GPUs are on other machines than their CPUs
#
# github.com/alibaba/clusterdata, cluster-trace-gpu-v2025. A row of role HN holds a GPU from scheduled_time (if empty: from the
# start of the trace) to deletion_time (if empty: to the end). Rows of role CN hold none.

MODEL = "GPU"
_TIMES = ("creation_time", "scheduled_time", "deletion_time")
_INSTANCES = ("instance_sn", "role", "app_name", "cpu_request", "gpu_request", "memory_request", *_TIMES)
_ROLES = ("CN", "HN")


def read_dlrm(path: Path) -> Trace:
    """The GPU side of the trace. Its window is from 0 to the largest time in the file. Raises TraceError and FileError."""
    held: list[Held] = []
    left_out: Counter[str] = Counter()
    names, latest = Names(), 0.0
    for row in rows(path, _INSTANCES, "the table of instances of alibaba-gpu-v2025"):
        row.ordered(*_TIMES)
        latest = max(latest, *(row.moment(one) or 0.0 for one in _TIMES))
        role = row.text("role")
        if role not in _ROLES:
            raise row.fault(f"role: {role!r} is neither CN nor HN", "correct or remove the row")
        if role == "CN":
            left_out["role CN: the CPU side, without a GPU"] += 1
        else:
            held.append(_instance(row, names))
    return Trace("alibaba-gpu-v2025", held, (0.0, latest), left_out)


def _instance(row: Row, names: Names) -> Held:
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


# -- openb-v2023: pods and nodes of a heterogeneous cluster with shared GPUs
#
# github.com/alibaba/clusterdata, cluster-trace-gpu-v2023/csv: openb_pod_list_*.csv and openb_node_list_all_node.csv. A pod holds
# num_gpu devices from scheduled_time to deletion_time; a pod without scheduled_time never ran. A pod that asks for a part of a
# device (gpu_milli) holds a whole one.

_PODS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
_NODES = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_WHOLE = 1000


def read_openb(pods: Path, nodes: Path) -> Trace:
    """The trace's GPU pods, also those that never ran. The window is from the smallest to the largest deletion_time of all pods;
    the hosts are the nodes without a GPU. Raises TraceError and FileError."""
    devices, hosts = _nodes(nodes)
    held: list[Held] = []
    left_out: Counter[str] = Counter()
    names, ends = Names(), (math.inf, 0.0)
    for row in rows(pods, _PODS, "openb's list of pods"):
        end = given(row.moment("deletion_time"), row, "deletion_time")
        ends = min(ends[0], end), max(ends[1], end)
        if row.whole("num_gpu") == 0:
            left_out["without a GPU"] += 1
        else:
            held.append(_held(row, names, end, devices))
    return Trace("openb-v2023", held, ends, left_out, hosts=hosts)


def _nodes(path: Path) -> tuple[dict[str, int], tuple[Host, ...]]:
    """Number of devices by model, largest first, and the nodes without devices."""
    devices: Counter[str] = Counter()
    hosts: list[Host] = []
    for row in rows(path, _NODES, "openb's list of nodes"):
        number, model = row.whole("gpu"), row.text("model")
        if number and not model:
            raise row.fault(f"has {number} devices and no model", "correct or remove the row")
        if number:
            row.label("model")
            devices[model] += number
        else:
            hosts.append(Host(row.whole("cpu_milli"), row.whole("memory_mib")))
    if not devices:
        raise TraceError("no node has a device", where=str(path), fix="give openb_node_list_all_node")
    return dict(devices.most_common()), tuple(hosts)


def _held(row: Row, names: Names, end: float, devices: Mapping[str, int]) -> Held:
    row.ordered("creation_time", "scheduled_time", "deletion_time")
    wanted, thousandths = row.whole("num_gpu"), row.whole("gpu_milli")
    if not 0 < thousandths <= _WHOLE or (thousandths < _WHOLE and wanted > 1):
        raise row.fault(
            f"gpu_milli: {thousandths} for {wanted} devices; it is 1000, or less for one device", "correct the row"
        )
    return Held(
        name=names.new(row, "name"),
        owner="",
        created=given(row.moment("creation_time"), row, "creation_time"),
        start=row.moment("scheduled_time"),
        end=end,
        devices=wanted,
        model=_model(row, wanted, devices),
        thousandths=wanted * thousandths,
        cpu=row.whole("cpu_milli"),
        memory=row.whole("memory_mib"),
    )


def _model(row: Row, wanted: int, devices: Mapping[str, int]) -> str:
    """The first model that the pod allows; if it allows any, the most frequent one."""
    spec = [one for one in row.text("gpu_spec").split("|") if one]
    known = [one for one in spec if one in devices] if spec else list(devices)
    if not known:
        raise row.fault(f"gpu_spec: {unknown('model', spec[0], devices)}", "give the list of nodes that belongs to it")
    enough = [one for one in known if devices[one] >= wanted]
    if not enough:
        there = ", ".join(f"{devices[one]} {one}" for one in known)
        raise row.fault(f"num_gpu: asks for {wanted} devices, there are {there}", "correct or remove the row")
    return enough[0]


# -- philly: training jobs of 15 tenants from the trace of msr-fiddle/philly-traces, in the form of siasosp23/artifacts
# (sia-simulator/traces/philly.csv)
#
# A job holds num_gpus for `duration` from its submission on. `duration` is the sum of its attempts without queueing, so the trace
# has demand but no waits. Times are read as UTC. There is one model, and no nodes or CPU.

CORE: Window = (1506902400.0, 1512950400.0)
"""2017-10-02 to 2017-12-11: before it the trace has few jobs, after it jobs are missing."""
_JOBS = ("timestamp", "duration", "num_gpus", "cluster")


def read_philly(path: Path) -> Trace:
    """All jobs. The window is `CORE` if the trace covers it, else the whole trace. Raises TraceError and FileError."""
    held = [
        _job(row, number) for number, row in enumerate(rows(path, _JOBS, "the table of jobs of philly.csv"), start=1)
    ]
    begins = min((one.start for one in held if one.start is not None), default=0.0)
    ends = max((one.end for one in held if one.end is not None), default=0.0)
    whole = (begins, ends)
    covered = begins <= CORE[0] and CORE[1] <= ends
    return Trace("philly", held, CORE if covered else whole, waits=False, calendar=True, gangs=True)


def _job(row: Row, number: int) -> Held:
    submitted, duration, devices = _submitted(row), row.number("duration"), row.whole("num_gpus")
    if devices < 1:
        raise row.fault("num_gpus: 0, a job has at least one", "correct or remove the row")
    return Held(
        name=f"job-{number:05}",
        owner=f"vc-{row.label('cluster')}",
        created=submitted,
        start=submitted,
        end=submitted + duration,
        devices=devices,
        model=MODEL,
        thousandths=devices * 1000,
    )


def _submitted(row: Row) -> float:
    written = row.text("timestamp")
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        what = f"{written!r} is no time" if written else "is empty"
        raise row.fault(f"timestamp: {what}", "write it as 2017-10-09 07:01:55") from None
    seconds = found.replace(tzinfo=found.tzinfo or UTC).timestamp()
    if seconds < 0:
        raise row.fault(f"timestamp: {written} is before 1970", "correct or remove the row")
    return seconds


# -- by name

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
