"""Makes a scenario of the lab of a window of a trace. The pods are the trace's; `Shape` gives the nodes and pools.

All devices are in one fabric with a pool for each model. A pod comes when its row was created. It is deleted, with its claim,
after it ran for as long as the row held its devices. A row that runs when the window begins comes at once, for the rest of its
time.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from dds_adapters.files import file_error
from dds_core.errors import InputError
from dds_core.timeline.instants import duration, rfc3339
from dds_lab.scenario.checks import MAX_NODES, unknown
from dds_lab.scenario.cluster import Cluster, Fabric, Limit, Model, Nodes
from dds_lab.scenario.parts import Fabrics, Parts, ScalerPart
from dds_lab.scenario.reading import parse, written
from dds_lab.scenario.scenario import START, Run, Scenario
from dds_lab.scenario.values import YEAR
from dds_lab.scenario.workload import Arrival, write_workload
from dds_whatif.traces.demand import Held, Host, Trace, Window
from dds_whatif.traces.facts import touching, use

_SECOND = 1_000_000
_SPARE = 2
"""Slots of all nodes per device in the pools: devices should be scarce, not slots."""
_PARTS = Parts(scaler=ScalerPart(refresh=False))
"""For many devices: a reference scaler that writes to each device every few seconds would take most of a run's time."""
_THERE = ("", "default", "kube-system", "composable-dra")


@dataclass(frozen=True)
class Shape:
    """The properties of the cluster that a trace does not have."""

    nodes: int | None = None
    """By default so many that there are twice as many slots as devices."""
    slots: int = 8
    """Most devices of a model on a node; a row that holds more becomes several pods."""
    pools: Mapping[str, int] = field(default_factory=dict)
    """Devices by model."""
    pool: int | None = None
    """Devices of each model that `pools` does not name; by default the peak in use in the window."""
    pending: bool = False
    """Whether rows that never ran become pods, too, which are deleted when the rows ended."""
    warm_up: float = 0.0
    """Seconds before the window in which the rows come that exist at its start, one after the other."""


@dataclass(frozen=True)
class Imported:
    """A scenario and its pods."""

    scenario: Scenario
    """Without `workload`: that is set when the scenario is written."""
    rows: list[tuple[float, Held]]
    """Rows that have pods, each with the seconds after the scenario's start at which they come, in that order."""
    left_out: Counter[str]
    """Number of rows of the window without pods, by reason."""
    opens: float
    """Seconds from the scenario's start to the window's start."""
    begins: float
    """The window's start on the trace's clock."""
    slots: int

    @property
    def pods(self) -> int:
        return sum(-(-one.devices // self.slots) for _, one in self.rows)

    def arrivals(self) -> Iterator[Arrival]:
        """The pods, in the order in which they come."""
        for at, one in self.rows:
            stays = _stays(one, self.begins, max(self.opens - at, 0.0))
            for name, devices in _pods(one, self.slots):
                run = Run(
                    name=name,
                    namespace=one.owner or "default",
                    devices={_device(one.model): devices},
                    delete_after=stays if one.start is not None else None,
                    cpu=f"{one.cpu * devices // one.devices}m" if one.cpu else None,
                    memory=f"{one.memory * devices // one.devices}Mi" if one.memory else None,
                )
                yield Arrival(at=at, run=run, withdraw_after=stays if one.start is None else None)


def cut(trace: Trace, window: Window, every: int = 1) -> Trace:
    """The trace's rows in a window, thinned to every `every`-th row in order of arrival. Rows that are left out are counted.
    Raises InputError if no row is left."""
    begins, ends = window
    there = touching(trace.held, window)
    kept = sorted(there, key=lambda one: max(one.arrived(begins), begins))[::every]
    left_out = Counter(trace.left_out)
    left_out["not in the window"] += len(trace.held) - len(there)
    left_out[f"thinned out, one of {every} is kept"] += len(there) - len(kept)
    if not kept:
        raise InputError(
            f"nothing is held from {shown(begins, trace)} until {shown(ends, trace)}",
            fix=f"choose from {shown(trace.window[0], trace)} until {shown(trace.window[1], trace)}",
        )
    return replace(trace, held=kept, window=window, left_out=+left_out)


def shown(at: float, trace: Trace) -> str:
    """An instant of a trace as text."""
    return rfc3339(round(at * _SECOND)).replace(".000000", "") if trace.calendar else f"{at:.0f} s"


def imported(trace: Trace, name: str, shape: Shape) -> Imported:
    """The scenario of a trace's window. Raises InputError if the pods do not fit into the shape."""
    rows, left_out = _rows(trace, shape)
    pools = _pools(trace, [one for _, one in rows], shape)
    hosts = _hosts(trace, sum(pools.values()), shape)
    fitting = [(at, one) for at, one in rows if _fits(one, hosts)]
    left_out["more CPU or memory than a node has"] += len(rows) - len(fitting)
    if not fitting:
        raise InputError("nothing in the window could be a pod", fix="choose another window, or give more --nodes")
    try:
        found = Scenario(
            name=name,
            duration=shape.warm_up + trace.window[1] - trace.window[0],
            cluster=_cluster(pools, hosts, {one.owner for _, one in fitting}, shape.slots),
            parts=_PARTS.model_copy(update={"fabric": Fabrics(slots=shape.slots)}),
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        what = f"no scenario can hold it: {field}: {first['msg'].removeprefix('Value error, ')}"
        raise InputError(what, fix="choose a shorter window, or thin it out with --every") from None
    made = Imported(found, fitting, +left_out, shape.warm_up, trace.window[0], shape.slots)
    said = {
        "start": round((trace.window[0] - shape.warm_up) * _SECOND) if trace.calendar else START,
        "about": _about(trace, made.pods, len(hosts), shape),
    }
    return replace(made, scenario=found.model_copy(update=said))


def _rows(trace: Trace, shape: Shape) -> tuple[list[tuple[float, Held]], Counter[str]]:
    begins = trace.window[0]
    left_out: Counter[str] = Counter()
    found = []
    for one in trace.held:
        if one.start is None and not shape.pending:
            left_out["never ran"] += 1
        elif one.end is not None and one.end <= begins and one.arrived(-1.0) < begins:
            left_out["ended as the window begins"] += 1
        else:
            found.append((one.arrived(begins - 1) - begins, one))
    there = sum(at < 0 for at, _ in found)
    early = (round(place * shape.warm_up / there, 6) for place in range(there))
    times = [(next(early) if at < 0 else shape.warm_up + at, one) for at, one in found]
    return sorted(times, key=lambda row: row[0]), left_out


def _stays(one: Held, begins: float, early: float) -> float | None:
    """Seconds for which a row holds its devices, or waits, counted from `early` seconds before the window; None: to the end."""
    start = one.arrived(begins) if one.start is None else one.start
    found = None if one.end is None else one.end - max(start, begins) + early
    return None if found is None or found > YEAR else found


def _pods(one: Held, slots: int) -> list[tuple[str, int]]:
    """Names of a row's pods and the devices that each asks for: as many as a node has slots, the last pod the rest."""
    if one.devices <= slots:
        return [(one.name, one.devices)]
    whole, rest = divmod(one.devices, slots)
    return [(f"{one.name}-{i}", n) for i, n in enumerate([slots] * whole + [rest] * bool(rest))]


def _pools(trace: Trace, rows: Sequence[Held], shape: Shape) -> dict[str, int]:
    """Number of devices by model. Raises InputError if a node or pool is too small for a row, or a pool's model is unknown."""
    models: dict[str, list[Held]] = {}
    for one in rows:
        models.setdefault(one.model, []).append(one)
    for model in shape.pools:
        if model not in models:
            raise InputError(f"--pool: {unknown('model', model, models)}", fix="name a model that the window asks for")
    return {model: _pool(model, models[model], trace, shape) for model in sorted(models)}


def _pool(model: str, rows: Sequence[Held], trace: Trace, shape: Shape) -> int:
    largest = max(rows, key=lambda one: one.devices)
    wanted = f"{largest.name} asks for {largest.devices} {model} at once"
    if largest.devices > shape.slots and not trace.gangs:
        raise InputError(f"{wanted}, a node has {shape.slots} slots", fix=f"give --slots {largest.devices}, or more")
    peak = int(use([one for one in rows if one.start is not None], trace.window).peak)
    found = shape.pools.get(model, shape.pool or max(peak, largest.devices))
    if found < largest.devices:
        fix = f"give --pool {model}={largest.devices}, or more"
        raise InputError(f"{wanted}, its pool has {found}", fix=fix)
    return found


def _hosts(trace: Trace, devices: int, shape: Shape) -> list[Host]:
    """The nodes: taken evenly from the trace's list, or, if the trace has none, equal nodes whose slots run out before CPU and
    memory. Raises InputError if the trace has too few."""
    wanted = shape.nodes or min(-(-devices // shape.slots) * _SPARE, MAX_NODES)
    if trace.hosts is None:
        cpu = max((one.cpu for one in trace.held), default=0)
        memory = max((one.memory for one in trace.held), default=0)
        return [Host(cpu * shape.slots, memory * shape.slots)] * wanted
    there = len(trace.hosts)
    if there == 0 or (shape.nodes or 0) > there:
        raise InputError(
            f"the list of nodes has {there} without devices of their own",
            fix=f"give --nodes {there}, or fewer" if there else "give openb_node_list_all_node",
        )
    wanted = min(wanted, there)
    return [trace.hosts[place * there // wanted] for place in range(wanted)]


def _fits(one: Held, hosts: Sequence[Host]) -> bool:
    return any(one.cpu <= host.cpu and one.memory <= host.memory for host in set(hosts))


def _cluster(pools: dict[str, int], hosts: Sequence[Host], owners: set[str], slots: int) -> Cluster:
    limits = {model: Limit(max=slots) for model in pools}
    return Cluster(
        models=tuple(Model(model=model, device=_device(model), product=model) for model in pools),
        fabrics=(Fabric(id=1, devices=pools),),
        nodes=tuple(_groups(hosts, limits)),
        namespaces=tuple(sorted(owners.difference(_THERE))),
    )


def _groups(hosts: Sequence[Host], limits: dict[str, Limit]) -> Iterator[Nodes]:
    first = 0
    for host, count in Counter(hosts).items():
        group = Nodes(count=count, first=first, fabric=1, limits=limits)
        resources = {"cpu": f"{host.cpu}m", "memory": f"{host.memory}Mi"}
        said = {name: amount for name, amount in resources.items() if getattr(host, name)}
        yield group.model_copy(update=said)
        first += count


def _device(model: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:50].strip("-")


def _about(trace: Trace, pods: int, nodes: int, shape: Shape) -> str:
    begins, ends = trace.window
    lasts = duration(round((ends - begins) * _SECOND))
    warm = (
        f", after {duration(round(shape.warm_up * _SECOND))} in which what is there at first comes"
        if shape.warm_up
        else ""
    )
    pools = "as given" if shape.pool or shape.pools else "what was in use at most"
    slots = f"each with {shape.slots} slots of a model"
    spare = f", {_SPARE} slots for a device" if shape.nodes is None else ""
    return (
        f"{trace.kind} from {shown(begins, trace)} until {shown(ends, trace)} ({lasts}){warm}: {pods} pods. "
        f"Pools: {pools}. Nodes: {nodes}, {slots}{spare}. Made by dds lab import"
    )


# -- writing a scenario, and the file of its pods beside it: both completely or not at all -----------------------------


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
