"""The tables of docs/study.md: real traces under the reference's defaults, ours, and the best idle time that was found.

`make study TRACES=FOLDER`, where FOLDER has the files that docs/study.md names. Results of runs are kept in a SQLite file in the
folder for temporary files, so that an interrupted study goes on.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from dds_core.scaler.policy import Policy
from dds_lab.scenario.parts import ScalerPart
from dds_whatif.plan import pools_of
from dds_whatif.sweep import Cell, Store, swept, wanted
from dds_whatif.traces.formats import read_trace
from dds_whatif.traces.scenario import Shape, cut, imported
from dds_whatif.world import Fitted

DOCUMENT = Path(__file__).parents[1] / "docs" / "study.md"
BEGIN, END = "<!-- tables: make study -->", "<!-- end of tables -->"
SEEDS = (1,)
HOURS = 3600.0
OURS = Policy(mode="detach")
REFERENCE = ScalerPart(interval=60.0, removal=600.0, allocation=60.0, refresh=False)
"""Its defaults; that it writes the time of last use at every scan is left out, which would be most of a run."""
IDLE: dict[str, Cell] = {
    **{f"{seconds} s": {"policy.no_removal_seconds": seconds} for seconds in (60, 300, 1800, 3600)},
    "adaptive": {"policy.idle": "adaptive"},
}


class Part(NamedTuple):
    """A window of a trace: hours from its beginning, and every how many rows."""

    title: str
    kind: str
    files: tuple[str, ...]
    begin: float
    hours: float
    every: int


PARTS = (
    Part("openb, day 20", "openb-v2023", ("openb_pod_list_default", "openb_node_list_all_node"), 20 * 24, 24, 1),
    Part("philly, 2017-10-09 07:00, six hours, every 8th job", "philly", ("philly",), 836.5, 6, 8),
    Part(
        "DLRM, day 10, half a day, every 40th instance", "alibaba-gpu-v2025", ("disaggregated_DLRM_trace",), 240, 12, 40
    ),
)
Measures = dict[str, float]
Play = Callable[[Policy | None, Cell], Measures]
Row = tuple[str, Measures, int]
"""Whose, what came of it, and the least pool with a p95 like the first row's."""


def model_of(part: Part, folder: Path) -> Fitted:
    trace = read_trace(part.kind, [folder / f"{name}.csv.gz" for name in part.files])
    begins = trace.window[0] + part.begin * HOURS
    made = imported(cut(trace, (begins, begins + part.hours * HOURS), part.every), "study", Shape(warm_up=1800.0))
    parts = made.scenario.parts.model_copy(update={"scaler": REFERENCE})
    return Fitted(made.scenario.model_copy(update={"parts": parts}), tuple(made.arrivals()), (), ())


def player(model: Fitted, executor: ProcessPoolExecutor, store: Store) -> Play:
    def play(policy: Policy | None, cell: Cell) -> Measures:
        runs = swept(wanted(model, policy, [cell], SEEDS, "the study"), executor, store, len(SEEDS))
        return {name: fmean(one.measures[name] for one in runs) for name in runs[0].measures}

    return play


def cost(found: Measures) -> float:
    return OURS.attach_cost * found["attaches"] + OURS.idle_hour_cost * found["idle hours"]


def least(play: Play, policy: Policy | None, cell: Cell, pools: dict[str, int], most: float) -> int:
    """The smallest part of the pools, in devices, with a p95 that is not above `most`, and as few pods unbound."""
    never = play(policy, {**cell, **sized(pools, 1.0)})["never bound"]
    low, high = 0, 8  # eighths of the pools
    while high - low > 1:
        middle = (low + high) // 2
        found = play(policy, {**cell, **sized(pools, middle / 8)})
        met = found["wait p95"] <= most and found["never bound"] <= never
        low, high = (low, middle) if met else (middle, high)
    return sum(sized(pools, high / 8).values())


def sized(pools: dict[str, int], share: float) -> dict[str, int]:
    return {f"pools.{name}": max(1, round(number * share)) for name, number in pools.items()}


def studied(part: Part, play: Play, pools: dict[str, int]) -> Iterator[str]:
    """The lines of a part."""
    reference, ours = play(None, {}), play(OURS, {})
    idle = {name: play(OURS, cell) for name, cell in IDLE.items()}
    good = {name: found for name, found in idle.items() if found["wait p95"] <= 1.05 * ours["wait p95"]}
    best = min(good or idle, key=lambda name: cost(idle[name]))
    most = reference["wait p95"]
    rows: list[tuple[str, Measures, str]] = [
        ("the reference's defaults", reference, str(least(play, None, {}, pools, most))),
        ("dds's defaults", ours, str(least(play, OURS, {}, pools, most))),
        (f"best found: {best}", idle[best], str(least(play, OURS, IDLE[best], pools, most))),
    ]
    rows += [(f"idle {name}", found, "") for name, found in idle.items() if name != best]
    yield f"### {part.title}"
    yield ""
    yield f"{sum(pools.values())} devices in the pools, the most that the trace had in use at once."
    yield ""
    yield "| | wait p50 | wait p95 | wait max | never bound | attaches a day | idle device-hours | cost | pool at that p95 |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, found, pool in rows:
        numbers = (
            found[one] for one in ("wait p50", "wait p95", "wait max", "never bound", "attaches a day", "idle hours")
        )
        yield f"| {name} | {' | '.join(f'{one:,.1f}' for one in numbers)} | {cost(found):,.0f} | {pool} |"
    yield ""


def main(arguments: Sequence[str]) -> None:
    folder = Path(arguments[0])
    lines: list[str] = []
    place = Path(tempfile.gettempdir()) / "dds-study.sqlite3"
    with (
        ProcessPoolExecutor(os.cpu_count() or 1, mp_context=get_context("spawn")) as executor,
        Store(str(place)) as store,
    ):
        for part in PARTS:
            model = model_of(part, folder)
            lines += studied(part, player(model, executor, store), pools_of(model))
            put(lines)


def put(lines: Sequence[str]) -> None:
    """The tables that there are, into the document."""
    head, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    DOCUMENT.write_text("\n".join([f"{head}{BEGIN}", "", *lines, f"{END}{tail}"]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
