"""Sweeps: plays every combination of a grid's values with the same seeds. Results are stored, so an interrupted sweep can be
continued.

A run's key is a hash of everything that determines it: scenario, pods, policy, seed and code. A stored run is not played again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from itertools import product
from math import ceil
from types import TracebackType
from typing import Annotated, Any, NamedTuple

from pydantic import Field, ValidationError
from sqlalchemy import Column, Integer, MetaData, String, Table, Text, create_engine, insert, make_url, select
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from dds_adapters.sql.urls import as_url
from dds_core.errors import InputError
from dds_core.scaler.policy import Policy, read_policy
from dds_lab.check.results import fingerprint
from dds_lab.scenario import Scenario
from dds_lab.scenario.scenario import Step
from dds_lab.scenario.values import Delay, Written
from dds_lab.scenario.workload import Arrival
from dds_whatif.outcome import Outcome
from dds_whatif.play import Task, play, serving, tasks_of
from dds_whatif.world import Fitted

MOST_CELLS = 10_000
AHEAD = 4
"""Runs handed to the engine for each run that it plays at once, so that no worker waits for work."""

Factor = Annotated[float, Field(gt=0, le=1000)]


class Grid(Written):
    """What a sweep goes through: each list is an axis."""

    policy: dict[str, tuple[Any, ...]] = Field(default={}, description="Knobs of the policy.")
    pools: dict[str, tuple[Annotated[int, Field(ge=0, le=100_000)], ...]] = Field(
        default={}, description="Devices in all pools together, by model."
    )
    nodes: tuple[Annotated[int, Field(ge=1, le=10_000)], ...] = Field(default=(), description="Only the first so many.")
    fabric: tuple[Factor, ...] = Field(default=(), description="Attaching and detaching takes so many times as long.")
    arrivals: tuple[Factor, ...] = Field(default=(), description="So many times as many pods in an hour.")


Cell = Mapping[str, Any]
"""One value for each axis, by the axis' name: `policy.no_removal_seconds`, `pools.A100 40G`, `nodes`, `fabric`, `arrivals`."""


class Run(NamedTuple):
    """A played run and its measures."""

    cell: Cell
    seed: int
    measures: dict[str, float]


def grid_of(written: Mapping[str, Any], where: str) -> Grid:
    """Read a grid. Raises InputError."""
    try:
        found = Grid.model_validate_json(json.dumps(written))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{place}: {first['msg'].lower()}", where=where, fix="see docs/whatif.md") from None
    number = 1
    for _, values in axes(found):
        if not values:
            raise InputError("an axis has no values", where=where, fix="give a list of values, or leave it out")
        if len({json.dumps(value) for value in values}) < len(values):
            raise InputError("an axis has a value twice", where=where, fix="keep one of them")
        number *= len(values)
    if number == 1 and not axes(found):
        raise InputError("names no axis", where=where, fix="name some of policy, pools, nodes, fabric, arrivals")
    if number > MOST_CELLS:
        raise InputError(f"has {number:,} cells, {MOST_CELLS:,} is the most", where=where, fix="name fewer values")
    return found


def axes(grid: Grid) -> list[tuple[str, tuple[Any, ...]]]:
    """Name and values of each axis, in the order of the grid."""
    found: list[tuple[str, tuple[Any, ...]]] = []
    found += [(f"policy.{name}", values) for name, values in grid.policy.items()]
    found += [(f"pools.{model}", values) for model, values in grid.pools.items()]
    found += [(name, getattr(grid, name)) for name in ("nodes", "fabric", "arrivals") if getattr(grid, name)]
    return found


def cells(grid: Grid) -> list[Cell]:
    named = axes(grid)
    return [dict(zip((name for name, _ in named), values, strict=True)) for values in product(*(v for _, v in named))]


# -- cells -------------------------------------------------------------------------------------------------------------


def changed(model: Fitted, policy: Policy | None, cell: Cell, where: str) -> tuple[Fitted, Policy | None]:
    """Model and policy with the values of a cell. Raises InputError for an axis that they do not have."""
    scenario, arrivals = model.scenario, model.arrivals
    for name, value in cell.items():
        axis, _, of = name.partition(".")
        if axis == "policy":
            if policy is None:
                raise InputError(
                    "the simulated reference scaler has no policy", where=where, fix="name a policy of dds"
                )
            policy = serving(read_policy({**policy.model_dump(mode="json", exclude_defaults=True), of: value}), where)
        elif axis == "arrivals":
            scenario, arrivals = _faster(scenario, arrivals, value)
        else:
            scenario = _CHANGES[axis](scenario, of, value, where)
    return Fitted(scenario, arrivals, model.rests_on, model.notes, model.guarded), policy


def _with_pool(scenario: Scenario, model: str, number: int, where: str) -> Scenario:
    """The scenario with `number` devices of a model, divided among the fabrics in their present proportions."""
    had = [one.devices.get(model, 0) for one in scenario.cluster.fabrics]
    if not any(had):
        raise InputError(f"no pool has {model}", where=where, fix="name a model of the source")
    shares, left = [number * one // sum(had) for one in had], number
    left -= sum(shares)
    for place in range(left):
        shares[[i for i, one in enumerate(had) if one][place % sum(map(bool, had))]] += 1
    fabrics = tuple(
        one.model_copy(update={"devices": {**one.devices, model: share}}) if one.devices.get(model) else one
        for one, share in zip(scenario.cluster.fabrics, shares, strict=True)
    )
    return scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update={"fabrics": fabrics})})


def _with_nodes(scenario: Scenario, _: str, number: int, where: str) -> Scenario:
    groups, left = [], number
    for group in scenario.cluster.nodes:
        if left > 0:
            groups.append(group.model_copy(update={"count": min(group.count, left)}))
            left -= group.count
    if left > 0:
        raise InputError(f"there are {number - left} nodes, not {number}", where=where, fix="name fewer")
    known = {name for group in groups for name in group.names()}
    steps = tuple(one for one in scenario.steps if _is_of(one, known))
    cluster = scenario.cluster.model_copy(update={"nodes": tuple(groups)})
    return scenario.model_copy(update={"cluster": cluster, "steps": steps})


def _is_of(step: Step, known: set[str]) -> bool:
    """Whether a step names one of these nodes, or no node at all."""
    node = getattr(step, step.action)
    by_name = step.action in ("cordon", "uncordon", "drain", "lose_node") and isinstance(node, str)
    return not by_name or node in known


def _with_fabric(scenario: Scenario, _: str, factor: float, where: str) -> Scenario:
    knobs = scenario.parts.fabric
    fabric = knobs.model_copy(
        update={
            "attach": _times(knobs.attach, factor),
            "detach": _times(knobs.detach, factor),
            "attach_of": {model: _times(delay, factor) for model, delay in knobs.attach_of.items()},
            "detach_of": {model: _times(delay, factor) for model, delay in knobs.detach_of.items()},
        }
    )
    return scenario.model_copy(update={"parts": scenario.parts.model_copy(update={"fabric": fabric})})


def _times(delay: Delay, factor: float) -> Delay:
    if delay.measured:
        return Delay(measured=tuple(each * factor for each in delay.measured))
    if delay.between is not None:
        return Delay(between=(delay.between[0] * factor, delay.between[1] * factor))
    if delay.median is not None:
        most = delay.most * factor if delay.most is not None else None
        return Delay(median=delay.median * factor, spread=delay.spread, most=most)
    return Delay(fixed=(delay.fixed or 0.0) * factor)


_CHANGES: dict[str, Callable[[Scenario, str, Any, str], Scenario]] = {
    "pools": _with_pool,
    "nodes": _with_nodes,
    "fabric": _with_fabric,
}


def _faster(scenario: Scenario, arrivals: tuple[Arrival, ...], factor: float) -> tuple[Scenario, tuple[Arrival, ...]]:
    """The same pods in `1/factor` of the time; the steps and the scenario's end move with them."""
    steps = tuple(
        one.model_copy(update={"at": one.at / factor}) if one.at is not None else one for one in scenario.steps
    )
    mix = tuple(one.model_copy(update={"over": one.over / factor, "start": one.start / factor}) for one in scenario.mix)
    found = scenario.model_copy(
        update={"steps": steps, "mix": mix, "duration": max(1.0, ceil(scenario.duration / factor))}
    )
    return found, tuple(one.model_copy(update={"at": one.at / factor}) for one in arrivals)


# -- runs --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """A run to play, with its key."""

    cell: Cell
    task: Task
    key: str


def wanted(
    model: Fitted, policy: Policy | None, each: Iterable[Cell], seeds: Sequence[int], where: str
) -> list[Wanted]:
    """All runs of these cells. Raises InputError for a cell that cannot be played."""
    found = []
    for cell in each:
        here, under = changed(model, policy, cell, where)
        found += [Wanted(cell, one, key_of(one)) for one in tasks_of(here, under, seeds)]
    return found


def key_of(task: Task) -> str:
    """A hash of everything that determines a run."""
    policy = "" if task.policy is None else task.policy.model_dump_json()
    parts = (task.scenario, task.pods, policy, str(task.seed), str(task.guarded), fingerprint("dds_whatif"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def swept(
    runs: Sequence[Wanted], executor: Executor, store: Store, at_once: int, heard: Callable[[], None] = lambda: None
) -> list[Run]:
    """Play all runs that the store does not have, and store them. Returns all runs in order; `heard` is called for each one that
    is done."""
    known = store.known(one.key for one in runs)
    for _ in known:
        heard()
    missing = {one.key: one for one in runs if one.key not in known}
    for key, measures in _played(missing.values(), executor, at_once):
        store.add(key, missing[key].cell, missing[key].task.seed, measures)
        known[key] = measures
        heard()
    return [Run(one.cell, one.task.seed, known[one.key]) for one in runs]


def _played(runs: Iterable[Wanted], executor: Executor, at_once: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield key and measures of each run as it ends. At most `AHEAD * at_once` runs are handed to the engine at a time."""
    left, out = iter(runs), dict[Future[tuple[str, Outcome]], str]()
    while True:
        while len(out) < AHEAD * at_once and (one := next(left, None)) is not None:
            out[executor.submit(played, one.task)] = one.key
        if not out:
            return
        done, _ = wait(out, return_when=FIRST_COMPLETED)
        for run in sorted(done, key=_failed):  # results first: a failed run ends the sweep
            yield out.pop(run), _measures(run)


def _failed(run: Future[tuple[str, Outcome]]) -> bool:
    return run.exception() is not None


def _measures(run: Future[tuple[str, Outcome]]) -> dict[str, float]:
    code, outcome = run.result()
    if code != fingerprint("dds_whatif"):
        raise InputError(
            "a worker has another version of dds than this machine",
            where="the engine",
            fix="install the same on all",
        )
    return outcome.measures()


def played(task: Task) -> tuple[str, Outcome]:
    """The outcome of a run, and the fingerprint of the code that played it."""
    return fingerprint("dds_whatif"), play(task)


# -- results -----------------------------------------------------------------------------------------------------------

WEIGHED = ("wait p95", "never bound", "attaches", "idle hours", "attaching hours")
"""Measures of a Pareto front; in each less is better."""


ASSUMED = ("fabric", "arrivals")
"""Axes that are assumptions and not choices: each combination of their values has its own front."""


class Summed(NamedTuple):
    """A cell with its mean measures over the seeds, and whether it is on the Pareto front."""

    cell: Cell
    means: dict[str, float]
    front: bool


def summed(grid: Grid, runs: Sequence[Run]) -> list[Summed]:
    means = []
    for cell in cells(grid):
        found = [one.measures for one in runs if one.cell == cell]
        means.append({name: sum(one[name] for one in found) / len(found) for name in found[0]})
    fronts = [False] * len(means)
    assumed = [tuple(cell.get(name) for name in ASSUMED) for cell in cells(grid)]
    for each in dict.fromkeys(assumed):
        places = [place for place, one in enumerate(assumed) if one == each]
        for place, on in zip(places, front([means[place] for place in places], WEIGHED), strict=True):
            fronts[place] = on
    return [Summed(cell, mean, on) for cell, mean, on in zip(cells(grid), means, fronts, strict=True)]


def front(rows: Sequence[Mapping[str, float]], measures: Sequence[str]) -> list[bool]:
    """For each row: is it on the Pareto front? No other row is as good in all measures (less is better) and better in one."""

    def beats(other: Mapping[str, float], row: Mapping[str, float]) -> bool:
        return all(other[m] <= row[m] for m in measures) and any(other[m] < row[m] for m in measures)

    return [not any(beats(other, row) for other in rows) for row in rows]


# -- results of runs in a table of SQLite or PostgreSQL; a row is written when its run ends

_RUNS = Table(
    "dds_whatif_runs",
    MetaData(),
    Column("key", String(32), primary_key=True),
    Column("seed", Integer, nullable=False),
    Column("cell", Text, nullable=False),
    Column("measures", Text, nullable=False),
)
_PIECE = 500


class Store:
    """Results by key. Several processes may share a store: if two add the same run, the first one stays."""

    def __init__(self, place: str | None = None) -> None:
        """`place` is a URL or the path of a SQLite file; None keeps the results in memory. Raises InputError."""
        url = make_url(as_url(place) if place is not None else "sqlite://")
        self._place = place if place is not None and "://" not in place else url.render_as_string(hide_password=True)
        try:
            self._engine = create_engine(url)
            _RUNS.metadata.create_all(self._engine)
        except (SQLAlchemyError, ImportError) as error:
            raise self._unusable(error) from None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.dispose()

    def known(self, keys: Iterable[str]) -> dict[str, dict[str, float]]:
        """The measures of the stored runs among these keys."""
        wanted, found = list(dict.fromkeys(keys)), dict[str, dict[str, float]]()
        try:
            with self._engine.connect() as connection:
                for start in range(0, len(wanted), _PIECE):
                    rows = connection.execute(
                        select(_RUNS.c.key, _RUNS.c.measures).where(_RUNS.c.key.in_(wanted[start : start + _PIECE]))
                    )
                    found |= {key: json.loads(text) for key, text in rows}
        except SQLAlchemyError as error:
            raise self._unusable(error) from None
        return found

    def add(self, key: str, cell: Mapping[str, Any], seed: int, measures: Mapping[str, float]) -> None:
        """Store a run. Raises InputError if the database cannot be used."""
        row = {"key": key, "seed": seed, "cell": json.dumps(cell), "measures": json.dumps(measures)}
        try:
            with self._engine.begin() as connection:
                connection.execute(insert(_RUNS).values(**row))
        except IntegrityError:
            return
        except SQLAlchemyError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> InputError:
        words = str(error).splitlines()[0]
        return InputError(f"results cannot be kept: {words}", where=self._place, fix="name another file or database")
