"""Searches, by simulating a model, for the pools, the devices per node, the idle time and the pre-warming that meet an objective.

More devices in a pool, and a higher limit per node, never make waits longer, so bisection finds the smallest sufficient number.
Waits and costs do not depend on the idle time in such a monotonic way. There, successive halving drops the worse half of the
candidates after each round and plays the others with more seeds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import NamedTuple

from dds_core.errors import InputError
from dds_core.scaler.policy import LimitPolicy, Policy
from dds_whatif.sweep import Cell, Run, Wanted, wanted
from dds_whatif.world import Fitted

Measures = Mapping[str, float]
Player = Callable[[Sequence[Wanted]], Sequence[Run]]
"""Plays runs and returns them in the same order."""

DOUBLINGS = 5
"""How often all pools are doubled before an objective counts as out of reach."""
IDLE_SECONDS = (0, 15, 60, 300, 600, 1800, 3600)
_OBJECTIVE = re.compile(r"(mean|p50|p95|max)\s+wait\s*<=\s*(\d+(?:\.\d+)?)\s*(s|m|h)|never\s+bound\s*<=\s*(\d+)", re.I)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_NEVER = "never bound"


class Objective(NamedTuple):
    """A measure of a run and its upper bound, in seconds for waits."""

    text: str
    measure: str
    most: float

    def met(self, found: Measures) -> bool:
        return found[self.measure] <= self.most


def objective_of(text: str) -> Objective:
    """Read `p95 wait <= 60s` or `never bound <= 0`. Raises InputError."""
    match = _OBJECTIVE.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"{text!r} is no objective",
            where="--objective",
            fix="write (mean|p50|p95|max) wait <= NUMBER(s|m|h), or never bound <= NUMBER",
        )
    which, number, unit, never = match.groups()
    if never is not None:
        return Objective(text, _NEVER, float(never))
    return Objective(text, f"wait {which.lower()}", float(number) * _SECONDS[unit.lower()])


class Point(NamedTuple):
    """A number of devices, or an idle time in seconds (None: adaptive), with the means of its measures."""

    value: int | None
    measures: Measures
    seeds: int
    met: bool


@dataclass(frozen=True)
class Plan:
    """`today` and `pools` are devices by model, now and in the plan. `node`: most devices of one model on a node. `idle`:
    seconds, None for `idle: adaptive`. `prewarms`: one idle device of each model on each node costs less. `now` are the measures
    with today's pools, `then` with the plan, `met` says whether `then` meets the objectives. `curves`: simulated points by the
    dimension that was varied."""

    objectives: tuple[Objective, ...]
    today: Mapping[str, int]
    pools: Mapping[str, int]
    node: int
    idle: int | None
    prewarms: bool
    warm: Measures
    now: Measures
    then: Measures
    cell: Cell
    curves: Mapping[str, tuple[Point, ...]]
    met: bool


class OutOfReach(InputError):
    """No size of the pools meets the objectives."""


class Planner:
    """Searches for a plan. Each cell is played once, all cells with the same seeds."""

    def __init__(
        self, model: Fitted, policy: Policy, objectives: Sequence[Objective], seeds: Sequence[int], play: Player
    ) -> None:
        self._model, self._policy, self._play = model, policy, play
        self._objectives, self._seeds = tuple(objectives), tuple(seeds)
        self._known: dict[tuple[str, int], dict[str, float]] = {}
        self._curves: dict[str, dict[int | None, Point]] = {}

    def plan(self) -> Plan:
        """Raises OutOfReach if even many times as many devices do not meet the objectives."""
        today, cell = pools_of(self._model), dict[str, object]()
        now = self._measures(cell)
        pools = self._enough(today)
        cell = _with_pools(pools)
        # Smaller pools may leave no more pods unserved than these: some pods are never served, whatever the pools.
        self._objectives = (*self._objectives, Objective("", _NEVER, self._measures(cell)[_NEVER]))
        for name in pools:
            others = {other: count for other, count in pools.items() if other != name}
            pools[name] = self._least(name, pools[name], partial(_with_one, others, name), least=0)
        cell = _with_pools(pools)
        most = max(max(pools.values(), default=1), 1)
        node = self._least("node", most, lambda n: {**_with_pools(pools), **self._limited(n)}, least=1)
        cell |= self._limited(node)
        idle = self._idle(cell)
        cell = {**cell, **_idling(idle)}
        then, warm = self._learn([cell, {**cell, **self._warm(node)}])
        return Plan(
            objectives=self._objectives[:-1],
            today=today,
            pools=pools,
            node=node,
            idle=idle,
            prewarms=self._is_met(warm) and self._cost(warm) < self._cost(then),
            warm=warm,
            now=now,
            then=then,
            cell=cell,
            met=self._is_met(then),
            curves={name: tuple(points.values()) for name, points in self._curves.items()},
        )

    # -- runs

    def _measures(self, cell: Cell, seeds: int | None = None) -> dict[str, float]:
        return self._learn([cell], seeds)[0]

    def _learn(self, cells: Sequence[Cell], seeds: int | None = None) -> list[dict[str, float]]:
        """Mean measures of each cell over the first `seeds` seeds, by default all. All runs that are missing are handed over at
        once, so that no worker waits for the end of a cell."""
        chosen = self._seeds[:seeds]
        keys = [(json.dumps(cell, sort_keys=True), len(chosen)) for cell in cells]
        missing = {key: cell for key, cell in zip(keys, cells, strict=True) if key not in self._known}
        if missing:
            runs = self._play(wanted(self._model, self._policy, missing.values(), chosen, "the plan"))
            for place, key in enumerate(missing):
                own = runs[place * len(chosen) : (place + 1) * len(chosen)]
                self._known[key] = {name: fmean(run.measures[name] for run in own) for name in own[0].measures}
        return [self._known[key] for key in keys]

    def _is_met(self, found: Measures) -> bool:
        return all(one.met(found) for one in self._objectives)

    def _cost(self, found: Measures) -> float:
        return self._policy.attach_cost * found["attaches"] + self._policy.idle_hour_cost * found["idle hours"]

    def _point(self, curve: str, value: int | None, cell: Cell, seeds: int | None = None) -> Point:
        found = self._measures(cell, seeds)
        point = Point(value, found, seeds or len(self._seeds), self._is_met(found))
        self._curves.setdefault(curve, {})[value] = point
        return point

    # -- the search

    def _enough(self, today: Mapping[str, int]) -> dict[str, int]:
        """Pools that meet the objectives: today's, doubled as often as necessary."""
        pools = {name: number for name, number in today.items() if number}
        for _ in range(DOUBLINGS + 1):
            if self._is_met(self._measures(_with_pools(pools))):
                return pools
            pools = {name: 2 * number for name, number in pools.items()}
        found = self._measures(_with_pools({name: number // 2 for name, number in pools.items()}))
        missed = "; ".join(
            f"{one.measure} is {found[one.measure]:.3g}, not {one.most:g}"
            for one in self._objectives
            if not one.met(found)
        )
        raise OutOfReach(
            f"{2**DOUBLINGS} times as many devices do not meet it: {missed}",
            where="--objective",
            fix="ask for what the fabric's own times allow, or raise the nodes' limits",
        )

    def _least(self, curve: str, most: int, cell: Callable[[int], Cell], *, least: int) -> int:
        """The smallest value from `least` to `most` that meets the objectives; `most` if no smaller one does."""
        low, high = least - 1, most
        self._point(curve, most, cell(most))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._point(curve, middle, cell(middle)).met else (middle, high)
        return high

    def _idle(self, cell: Cell) -> int | None:
        """The cheapest idle time that meets the objectives. The policy's own idle time is known to meet them and therefore stays
        until the last round."""
        own = None if self._policy.learns_idle else self._policy.no_removal_seconds
        left: list[int | None] = [*dict.fromkeys((own, *IDLE_SECONDS, *((None,) if self._may_adapt() else ())))]
        seeds = 1
        while True:
            tried = {one: {**cell, **_idling(one)} for one in left}
            self._learn(list(tried.values()), seeds)
            points = [self._point("idle", one, its, seeds) for one, its in tried.items()]
            points.sort(key=lambda one: (not one.met, self._cost(one.measures)))
            if seeds >= len(self._seeds):
                return points[0].value
            left = [one.value for one in points[: max(2, len(points) // 2)]]
            left += [own] if own not in left else []
            seeds = min(2 * seeds, len(self._seeds))

    def _limited(self, node: int, least: int = 0) -> dict[str, object]:
        """Limit the devices of a node to the smaller of `node` and the policy's limit; the policy's minimum stays, up to that."""

        def bounded(one: LimitPolicy) -> dict[str, int]:
            most = min(one.max, node)
            return {"max": most, "min": min(most, max(one.min, least))}

        limits = {name: bounded(one) for name, one in self._policy.limits.items()}
        return {"policy.limit": bounded(self._policy.limit), "policy.limits": limits}

    def _warm(self, node: int) -> dict[str, object]:
        return {"policy.prewarm": True, **self._limited(node, least=1)}

    def _may_adapt(self) -> bool:
        """Whether the policy's costs are in the range in which `idle: adaptive` is allowed."""
        return 1 <= 3600 * self._policy.attach_cost / self._policy.idle_hour_cost <= 86_400


def pools_of(model: Fitted) -> dict[str, int]:
    """Number of devices by model, over all pools."""
    found: dict[str, int] = {}
    for fabric in model.scenario.cluster.fabrics:
        for name, number in fabric.devices.items():
            found[name] = found.get(name, 0) + number
    return found


def _with_one(others: Mapping[str, int], name: str, number: int) -> dict[str, object]:
    return _with_pools({**others, name: number})


def _with_pools(pools: Mapping[str, int]) -> dict[str, object]:
    return {f"pools.{name}": number for name, number in pools.items()}


def _idling(seconds: int | None) -> dict[str, object]:
    return (
        {"policy.idle": "adaptive"}
        if seconds is None
        else {"policy.idle": "fixed", "policy.no_removal_seconds": seconds}
    )
