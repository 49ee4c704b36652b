"""`dds whatif`: what a log or a recording tells, played again on virtual time under other policies."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dds_commands.costs import Rates, cost_of, energy_of, read_rates
from dds_commands.parameters import mapping_from, output_options, policy_read, source_arguments
from dds_commands.running import FINE, UNFIT, require
from dds_commands.screen import note, position_bar, progress, show, show_json, table
from dds_commands.sources import Opened, Recording, Source
from dds_core.errors import InputError
from dds_core.scaler.component import SCALER
from dds_core.scaler.history import History
from dds_core.scaler.policy import Policy, read_policy
from dds_core.scaler.spending import USED

if TYPE_CHECKING:  # the lab is loaded when the command runs: the help of all commands needs none of it
    from dds_whatif.compare import Difference, Fit
    from dds_whatif.derive import Derived
    from dds_whatif.outcome import Outcome
    from dds_whatif.sweep import Grid, Run
    from dds_whatif.world import Fitted

STAND_IN = "reference"
"""Named in the place of a file: the stand-in for the reference scaler."""
SWEPT = (
    "wait p50", "wait p95", "wait max", "never bound", "attaches a day", "detaches a day", "used hours", "idle hours",
)  # fmt: skip
"""What a sweep shows of each cell; JSON has all measures."""


@dataclass(frozen=True)
class Candidate:
    """Who scales in a run, and how it is called; `policy` is None for the stand-in."""

    name: str
    policy: Policy | None


@click.command("whatif", short_help="Play what happened again under other policies.")
@source_arguments
@click.option(
    "--policy", "policies", metavar="FILE", multiple=True, help=f"A policy to try, or {STAND_IN!r}. Several times."
)
@click.option("--recorded", metavar="FILE", help="The policy that drove a recording; a log has its own.")
@click.option("--fit", "other", metavar="SOURCE", help="Fit fabric, driver and publisher on this source instead.")
@click.option("--seeds", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Runs of each policy.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Runs side by side; by default one a core.")
@click.option(
    "--bound",
    type=click.FloatRange(0, 10),
    default=0.15,
    show_default=True,
    help="How far a model may be from reality.",
)
@click.option("--anyway", is_flag=True, help="Answer also where the model does not fit.")
@click.option("--sweep", "grid_file", metavar="FILE", help="Go through every combination of knobs, pools, nodes, …")
@click.option("--results", metavar="PLACE", help="Keep what came of a sweep's runs in this SQLite file, or at a URL.")
@click.option(
    "--engine",
    type=click.Choice(["processes", "ray"]),
    default="processes",
    show_default=True,
    help="Who plays the runs.",
)
@click.option("--ray-address", metavar="ADDRESS", help="A Ray cluster, or auto; by default one of this machine's own.")
@click.option("--price", "price_file", metavar="FILE", help="Price of a device-hour by model, as for dds usage.")
@click.option("--watts", "watts_file", metavar="FILE", help="Watts of a device by model, as for dds usage.")
@click.option("--scenario", "folder", metavar="FOLDER", help="Write the scenario and its pods there, for dds lab run.")
@output_options("table", "json")
def whatif(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    policies: tuple[str, ...],
    recorded: str | None,
    other: str | None,
    seeds: int,
    jobs: int | None,
    bound: float,
    anyway: bool,
    grid_file: str | None,
    results: str | None,
    engine: str,
    ray_address: str | None,
    price_file: str | None,
    watts_file: str | None,
    folder: str | None,
    form: str,
) -> int:
    """Derive a model of the cluster from a log or a recording, hold it against what really happened, and play it under other
    policies: the same pods, nodes and pools, a fabric that behaves as it was seen to, dds itself, on virtual time.

    The policy that drove the cluster is run first, beside reality. What is further off than --bound of it, and further than
    chance explains, ends the command with 3, unless --anyway. Each policy is then compared with that first one, seed by
    seed, with 95 % intervals.

    SOURCE may also be a scenario of the lab (a .yaml file): then there is no reality, and the first --policy is compared with.
    """
    require("lab")
    from dds_whatif.engines import opened as opened_engine

    scenario = len(sources) == 1 and sources[0].endswith((".yaml", ".yml"))
    _refuse(
        {
            "--results goes with --sweep": results is not None and grid_file is None,
            "--ray-address goes with --engine ray": ray_address is not None and engine != "ray",
            "--jobs is of processes: Ray plays as many as the cluster has CPUs": jobs is not None and engine == "ray",
            "--sweep takes one --policy": grid_file is not None and len(policies) > 1,
            "--price and --watts are for policies, not for --sweep": grid_file is not None
            and bool(price_file or watts_file),
            "--recorded and --fit are for what really happened, and a scenario did not": scenario
            and bool(recorded or other),
        }
    )
    rates = read_rates(price_file, watts_file)
    grid = _grid(grid_file)
    model, candidates, real = _model(sources, url, name, policies, recorded, other, scenario=scenario)
    if folder is not None:
        _write(model, Path(folder))
    asked = _Asked(seeds, bound, anyway, rates, form)
    executor, at_once = opened_engine(engine, jobs, ray_address)
    with _ended(executor):
        runs = (
            _played(model, candidates if grid is None else candidates[:1], seeds, executor) if real or not grid else []
        )
        fit = _fit(real, runs, asked)
        base = candidates[-1]
        goes_on = grid is not None and not _is_off(fit, asked)
        found = _swept(model, base, grid, asked, executor, at_once, results) if grid is not None and goes_on else []
    if grid is None or not goes_on:
        return _tell(model, fit, candidates, runs, asked)
    return _tell_sweep(model, fit, candidates[0], base, grid, found, asked)


def _model(
    sources: tuple[str, ...],
    url: str | None,
    name: str | None,
    policies: tuple[str, ...],
    recorded: str | None,
    other: str | None,
    *,
    scenario: bool,
) -> tuple[Fitted, list[Candidate], Outcome | None]:
    """What is played, by whom, and what reality was. Raises InputError."""
    from dds_whatif.outcome import counted
    from dds_whatif.world import fitted

    tried = [_candidate(one) for one in policies]
    if scenario:
        return _of_scenario(sources[0]), _some(tried, sources[0]), None
    with Opened() as opened:
        source = _scalers(opened.source(sources, url, name))
        read, history = _read(source)
        behaviour = read.behaviour
        if other is not None:
            behaviour = _read(_scalers(opened.source((other,), None, None)))[0].behaviour
        label = source.label
    told = policy_read(recorded, read_policy)
    first = _first(read.policy, read.reference, told, label, recorded or label)
    settings = first.policy or told or Policy()
    return fitted(read, behaviour, settings, label=Path(label).name), [first, *tried], counted(history)


def _of_scenario(path: str) -> Fitted:
    from dds_lab.scenario import read_scenario
    from dds_lab.scenario.workload import read_workload
    from dds_whatif.world import Fitted

    scenario = read_scenario(path)
    pods = tuple(read_workload(Path(scenario.workload))) if scenario.workload is not None else ()
    return Fitted(scenario.model_copy(update={"workload": None}), pods, (), ())


def _some(tried: list[Candidate], where: str) -> list[Candidate]:
    if not tried:
        raise InputError("a scenario tells no policy", where=where, fix="give --policy FILE, or --policy reference")
    return tried


def _refuse(combinations: Mapping[str, bool]) -> None:
    """Raises InputError for options that would be ignored."""
    for words, given in combinations.items():
        if given:
            raise InputError(words, fix="leave it out, or see docs/whatif.md")


def _grid(path: str | None) -> Grid | None:
    from dds_whatif.sweep import grid_of

    if path is None:
        return None
    return grid_of(mapping_from(path, InputError, "policy: {no_removal_seconds: [60, 600]}"), path)


def _read(source: Source) -> tuple[Derived, History]:
    """What a source tells, in one pass."""
    from dds_whatif.derive import Reader

    reader = Reader(logged=not isinstance(source, Recording))
    history = History(reader.known)
    for moment in progress(source.told(), None, "reading"):
        reader.take(moment)
        history.take(moment)
    return reader.derived(), history


# -- who scales ----------------------------------------------------------------------------------------------------------


def _scalers(source: Source) -> Source:
    if source.component is not SCALER:
        raise InputError("is not the log of a scaler", where=source.label, fix="name a scaler's log, or a recording")
    return source


def _first(logged: Policy | None, reference: bool, told: Policy | None, label: str, place: str) -> Candidate:
    """Who drove the cluster; `place` is where the policy stands. Raises InputError where that cannot be known."""
    from dds_whatif.play import serving

    if reference and (logged is None or logged.mode == "observe"):
        return Candidate(f"recorded ({STAND_IN})", None)
    if told is not None and logged is not None:
        raise InputError(
            "a log tells itself which policy drove", where=label, fix="leave --recorded out; try others by --policy"
        )
    found = told or logged
    if found is None:
        raise InputError(
            "a recording does not tell under which policy it was made", where=label, fix="give --recorded FILE"
        )
    return Candidate("recorded", serving(found, place))


def _candidate(path: str) -> Candidate:
    if path == STAND_IN:
        return Candidate(STAND_IN, None)
    from dds_whatif.play import serving

    found = policy_read(path, read_policy)
    assert found is not None
    return Candidate(Path(path).name, serving(found, path))


# -- runs ----------------------------------------------------------------------------------------------------------------


def _played(model: Fitted, candidates: Sequence[Candidate], seeds: int, executor: Executor) -> list[list[Outcome]]:
    """Of each candidate what came of each seed."""
    from dds_whatif.play import play, tasks_of

    numbers = range(1, seeds + 1)
    tasks = [task for one in candidates for task in tasks_of(model.scenario, model.arrivals, one.policy, numbers)]
    found = list(progress(executor.map(play, tasks), len(tasks), "playing"))
    return [found[place * seeds : (place + 1) * seeds] for place in range(len(candidates))]


def _swept(
    model: Fitted, base: Candidate, grid: Grid, asked: _Asked, executor: Executor, at_once: int, results: str | None
) -> list[Run]:
    from dds_whatif.store import Store
    from dds_whatif.sweep import swept, wanted

    runs = wanted(model, base.policy, grid, range(1, asked.seeds + 1), "--sweep")
    with Store(results) as store, position_bar(len(runs), "sweeping") as moved:
        number = count(1)
        return swept(runs, executor, store, at_once, lambda: moved(next(number)))


@contextlib.contextmanager
def _ended(executor: Executor) -> Iterator[None]:
    """Runs that were handed out are not waited for when something breaks off. What an engine prints meanwhile, such as Ray of a
    node that it lost, is no part of the answer."""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            yield
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
        executor.shutdown()


def _write(model: Fitted, folder: Path) -> None:
    """The scenario as files. Raises InputError."""
    from dds_lab.scenario import written
    from dds_lab.scenario.workload import write_workload

    path, pods = folder / f"{model.scenario.name}.yaml", folder / f"{model.scenario.name}.csv"
    if path.exists() or pods.exists():
        raise InputError("a scenario is there already", where=str(path), fix="name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_workload(pods, model.arrivals)
        path.write_text(written(model.scenario.model_copy(update={"workload": pods.name})), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=str(folder), fix="name another folder") from None
    note(f"scenario: {path}")


# -- output --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Asked:
    seeds: int
    bound: float
    anyway: bool
    rates: Rates
    form: str


def _measures(found: Outcome, rates: Rates) -> dict[str, float]:
    totals = {model: sum(states.values()) for model, states in found.spent.items()}
    cost = cost_of(totals, rates)
    energy = energy_of({m: (found.spent[m][USED], total) for m, total in totals.items()}, rates)
    beside = {"cost": cost, "energy kWh": energy}
    return {**found.measures(), **{name: value for name, value in beside.items() if value is not None}}


def _fit(real: Outcome | None, runs: list[list[Outcome]], asked: _Asked) -> list[Fit]:
    """The first candidate beside reality; nothing where there is none."""
    from dds_whatif.compare import fits

    if real is None:
        return []
    between = {f"wait p{round(100 * share)}": real.between(share) for share in (0.5, 0.95)}
    intervals = {name: one for name, one in between.items() if one is not None}
    measured = [_measures(one, asked.rates) for one in runs[0]]
    found = fits(_measures(real, asked.rates), measured, asked.bound, intervals)
    off = [one.measure for one in found if one.verdict == "off"]
    if off:
        note(
            f"the model does not fit: {', '.join(off)} further off than {asked.bound:.0%}, and further than "
            f"chance explains with {asked.seeds} seeds" + ("" if asked.anyway else "; --anyway answers all the same")
        )
    return found


def _is_off(fit: Sequence[Fit], asked: _Asked) -> bool:
    return not asked.anyway and any(one.verdict == "off" for one in fit)


def _tell(
    model: Fitted, fit: list[Fit], candidates: Sequence[Candidate], runs: list[list[Outcome]], asked: _Asked
) -> int:
    from dds_whatif.compare import differences

    measured = [[_measures(one, asked.rates) for one in each] for each in runs]
    off = _is_off(fit, asked)
    compared = [] if off else [differences(measured[0], each) for each in measured]
    if asked.form == "json":
        show_json(_document(model, fit, candidates, compared, measured[:1] if off else measured, asked))
    else:
        _show(model, fit, candidates, compared, asked)
    return UNFIT if off else FINE


def _tell_sweep(
    model: Fitted, fit: list[Fit], first: Candidate, base: Candidate, grid: Grid, runs: Sequence[Run], asked: _Asked
) -> int:
    from dds_whatif.sweep import axes, summed

    rows = summed(grid, runs)
    if asked.form == "json":
        show_json(
            {
                **_about(model, fit, asked),
                "policy": base.name,
                "cells": [{"cell": dict(row.cell), "front": row.front, "measures": row.means} for row in rows],
                "runs": [{"cell": dict(one.cell), "seed": one.seed, "measures": one.measures} for one in runs],
            }
        )
        return FINE
    _show_fit(model, fit, first, asked)
    names = [name for name, _ in axes(grid)]
    show("")
    show(f"sweep of {base.name}, means of {asked.seeds} seeds; * is on the front of waits, attaches and device-hours")
    shown = [name for name in SWEPT if any(row.means[name] for row in rows)]
    cells = [
        (
            "*" if row.front else "",
            *(str(row.cell[name]) for name in names),
            *(_number(row.means[one]) for one in shown),
        )
        for row in rows
    ]
    table(("", *names, *shown), cells, "nothing")
    for name, values in axes(grid):
        show("")
        show(f"by {name}, all else as swept")
        told = [(value, [row.means for row in rows if row.cell[name] == value]) for value in values]
        table(
            (name, *shown),
            [
                (str(value), *(_number(sum(one[m] for one in means) / len(means)) for m in shown))
                for value, means in told
            ],
            "nothing",
        )
    return FINE


def _show(
    model: Fitted, fit: Sequence[Fit], candidates: Sequence[Candidate], compared: list[list[Difference]], asked: _Asked
) -> None:
    _show_fit(model, fit, candidates[0], asked)
    for candidate, each in list(zip(candidates, compared, strict=False))[1 if fit else 0 :]:
        told = [one for one in each if one.mean or one.first]
        show("")
        if candidate is candidates[0]:
            show(candidate.name)
            table(("measure", "mean"), [(one.measure, _number(one.mean)) for one in told], "nothing happened")
        else:
            show(f"{candidate.name}, against {candidates[0].name}")
            table(
                ("measure", "first", "mean", "difference", "verdict"), [_change_cells(one) for one in told], "nothing"
            )


def _show_fit(model: Fitted, fit: Sequence[Fit], first: Candidate, asked: _Asked) -> None:
    show(f"model of {_of(model)}, {asked.seeds} seeds")
    for one in model.notes:
        show(f"inexact: {one}")
    if fit:
        table(
            ("fitted", "samples", ""), [(what, str(number), words) for what, number, words in model.rests_on], "nothing"
        )
        show("")
        table(("measure", "reality", first.name, "off", "verdict"), [_fit_cells(one) for one in fit], "nothing")


def _of(model: Fitted) -> str:
    """How its source is called."""
    fitted = "Fitted from "
    about = model.scenario.about
    return about.removeprefix(fitted) if about.startswith(fitted) else model.scenario.name


def _fit_cells(one: Fit) -> tuple[str, ...]:
    real = _number(one.real) + (f" ({_spread(*one.interval)})" if one.interval is not None else "")
    off = "-" if one.off is None else f"{one.off:+.0%}"
    return (one.measure, real, f"{_number(one.model)} ({_spread(one.low, one.high)})", off, one.verdict)


def _spread(low: float, high: float) -> str:
    return f"{_number(low)} to {_number(high)}"


def _change_cells(one: Difference) -> tuple[str, ...]:
    half = "" if one.half is None else f" ± {one.half:,.3g}"
    return (one.measure, _number(one.first), _number(one.mean), f"{one.difference:+,.3g}{half}", one.word)


def _number(value: float) -> str:
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3f}"


def _about(model: Fitted, fit: Sequence[Fit], asked: _Asked) -> dict[str, Any]:
    return {
        "source": _of(model),
        "seeds": asked.seeds,
        "bound": asked.bound,
        "fitted": [{"what": what, "samples": number, "words": words} for what, number, words in model.rests_on],
        "inexact": list(model.notes),
        "fit": [one._asdict() for one in fit],
    }


def _document(
    model: Fitted,
    fit: Sequence[Fit],
    candidates: Sequence[Candidate],
    compared: list[list[Difference]],
    measured: list[list[dict[str, float]]],
    asked: _Asked,
) -> dict[str, Any]:
    return {
        **_about(model, fit, asked),
        "policies": [
            {
                "policy": candidate.name,
                "runs": runs,
                "against_first": [one._asdict() for one in compared[place]] if place and compared else [],
            }
            for place, (candidate, runs) in enumerate(zip(candidates, measured, strict=False))
        ],
    }
