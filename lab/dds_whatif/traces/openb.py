"""openb-v2023: pods and nodes of a heterogeneous cluster with shared GPUs.

github.com/alibaba/clusterdata, cluster-trace-gpu-v2023/csv: openb_pod_list_*.csv and openb_node_list_all_node.csv. A pod holds
num_gpu devices from scheduled_time to deletion_time; a pod without scheduled_time never ran. A pod that asks for a part of a
device (gpu_milli) holds a whole one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from dds_lab.scenario.checks import unknown
from dds_whatif.traces.demand import Held, Host, Trace
from dds_whatif.traces.reading import Names, Row, TraceError, given, rows

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
