"""`dds whatif`: derive a model from a log or recording, and simulate it under other policies."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dds_commands.parameters import mapping_from, output_options
from dds_commands.running import FINE, UNFIT
from dds_commands.screen import note, show, show_json, table
from dds_core.errors import InputError
from dds_lab_commands import modelled
from dds_lab_commands.modelled import REFERENCE, Asked, Candidate, number

if TYPE_CHECKING:  # the lab is imported when the command runs, to keep the help of all commands fast
    from dds_whatif.compare import Difference, Fit
    from dds_whatif.outcome import Outcome
    from dds_whatif.sweep import Grid, Run
    from dds_whatif.world import Fitted

SWEPT = (
    "wait p50", "wait p95", "wait max", "never bound", "attaches a day", "detaches a day", "used hours", "idle hours",
)  # fmt: skip
"""Measures that a sweep's table shows for each cell; JSON has all."""


@click.command("whatif", short_help="Simulate what happened under other policies.")
@modelled.asked_options(
    10,
    10_000,
    "each policy",
    click.option(
        "--policy",
        "policies",
        metavar="FILE",
        multiple=True,
        help=f"Policy to simulate, or {REFERENCE!r}; repeatable.",
    ),
)
@click.option(
    "--sweep", "grid_file", metavar="FILE", help="Simulate every combination of policy fields, pools, nodes, …"
)
@click.option(
    "--engine",
    type=click.Choice(["processes", "ray"]),
    default="processes",
    show_default=True,
    help="What executes the runs.",
)
@click.option("--ray-address", metavar="ADDRESS", help="Ray cluster, or auto; by default a local one.")
@click.option("--price", "price_file", metavar="FILE", help="Price of a device-hour by model (YAML, TOML or JSON).")
@click.option(
    "--page", metavar="FILE", help="Write a report of the last policy's first run, with the curves of the first policy."
)
@click.option("--scenario", "folder", metavar="FOLDER", help="Write the model as a scenario with pods for dds lab run.")
@output_options("table", "json")
def whatif(
    asked: Asked,
    policies: tuple[str, ...],
    grid_file: str | None,
    engine: str,
    ray_address: str | None,
    page: str | None,
    folder: str | None,
    form: str,
) -> int:
    """Derive a model of the cluster from a log or recording, compare it with reality, and simulate it under other policies:
    the same pods, nodes and pools, a fabric that behaves as recorded, and dds itself, on virtual time (docs/whatif.md).

    The recorded policy runs first and is compared with reality. A deviation above --bound, and above chance, ends the
    command with 3, unless --anyway. Each --policy is then compared with the recorded one, seed by seed, with 95 % intervals.

    SOURCE may also be a scenario of the lab (.yaml): there is no reality then, and the first --policy is the reference.
    """
    from dds_whatif.engines import opened as opened_engine

    swept = grid_file is not None
    modelled.refuse(
        {
            "--results goes with --sweep": asked.results is not None and not swept,
            "--ray-address goes with --engine ray": ray_address is not None and engine != "ray",
            "--jobs is of processes: Ray plays as many as the cluster has CPUs": asked.jobs is not None
            and engine == "ray",
            "--page shows two policies over each other: it takes a --policy more, and no --sweep": page is not None
            and (swept or len(policies) <= asked.scenario),
            "--sweep takes one --policy": swept and len(policies) > 1,
            "--price and --watts are for policies, not for --sweep": swept
            and bool(asked.price_file or asked.watts_file),
        }
    )
    grid = _grid(grid_file)
    executor, at_once = opened_engine(engine, asked.jobs, ray_address)
    with modelled.ended(executor):
        model, candidates, real = modelled.model_of(asked, policies)
        if folder is not None:
            _write(model, Path(folder))
        played = candidates if grid is None else candidates[:1]
        runs = modelled.played(model, played, asked.seeds, executor) if real or not grid else []
        fit = modelled.fit_of(real, runs, asked)
        base = candidates[-1]
        goes_on = grid is not None and not modelled.is_off(fit, asked)
        found = _swept(model, base, grid, asked, executor, at_once) if grid is not None and goes_on else []
    if page is not None and not modelled.is_off(fit, asked):
        _write_page(page, model, candidates[0], candidates[-1])
    if grid is None or not goes_on:
        return _tell(model, fit, candidates, runs, asked, form)
    return _tell_sweep(model, fit, candidates[0], base, grid, found, asked, form)


def _grid(path: str | None) -> Grid | None:
    from dds_whatif.sweep import grid_of

    if path is None:
        return None
    return grid_of(mapping_from(path, InputError, "policy: {no_removal_seconds: [60, 600]}"), path)


# -- runs ----------------------------------------------------------------------------------------------------------------


def _swept(model: Fitted, base: Candidate, grid: Grid, asked: Asked, executor: Executor, at_once: int) -> list[Run]:
    from dds_whatif.sweep import cells, wanted

    runs = wanted(model, base.policy, cells(grid), range(1, asked.seeds + 1), "--sweep")
    with modelled.swept_by(executor, at_once, asked.results) as play:
        return play(runs)


def _write_page(path: str, model: Fitted, first: Candidate, last: Candidate) -> None:
    """Write a report of a run under the last policy, with the curves of one under the first policy. Raises InputError."""
    from dds_adapters.web.page import document
    from dds_commands.parameters import Place
    from dds_commands.reports import beside_of, report_of
    from dds_whatif.play import played as told_of
    from dds_whatif.play import tasks_of

    def page_of(one: Candidate) -> dict[str, Any]:
        (task,) = tasks_of(model, one.policy, (1,))
        moments = list(told_of(task)[0])
        return report_of(lambda _: moments, one.name, one.name, Place(), Place())

    made = {**page_of(last), "beside": beside_of(page_of(first), first.name)}
    try:
        Path(path).write_text(document(f"{last.name} and {first.name}", made), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=path, fix="name another file") from None
    note(f"page: {path}")


def _write(model: Fitted, folder: Path) -> None:
    """Write the model as a scenario with its pods. Raises InputError if the files exist."""
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


def _tell(
    model: Fitted, fit: list[Fit], candidates: Sequence[Candidate], runs: list[list[Outcome]], asked: Asked, form: str
) -> int:
    from dds_whatif.compare import differences

    measured = [[modelled.measures_of(one, asked.rates) for one in each] for each in runs]
    off = modelled.is_off(fit, asked)
    compared = [] if off else [differences(measured[0], each) for each in measured]
    if form == "json":
        show_json(_document(model, fit, candidates, compared, measured[:1] if off else measured, asked))
    else:
        _show(model, fit, candidates, compared, asked)
    return UNFIT if off else FINE


def _tell_sweep(
    model: Fitted,
    fit: list[Fit],
    first: Candidate,
    base: Candidate,
    grid: Grid,
    runs: Sequence[Run],
    asked: Asked,
    form: str,
) -> int:
    from dds_whatif.sweep import axes, summed

    rows = summed(grid, runs)
    if form == "json":
        show_json(
            {
                **modelled.about(model, fit, asked),
                "policy": base.name,
                "cells": [{"cell": dict(row.cell), "front": row.front, "measures": row.means} for row in rows],
                "runs": [{"cell": dict(one.cell), "seed": one.seed, "measures": one.measures} for one in runs],
            }
        )
        return FINE
    modelled.show_fit(model, fit, first, asked)
    names = [name for name, _ in axes(grid)]
    show("")
    show(f"sweep of {base.name}, means of {asked.seeds} seeds; * is on the front of waits, attaches and device-hours")
    shown = [name for name in SWEPT if any(row.means[name] for row in rows)]
    cells = [
        (
            "*" if row.front else "",
            *(str(row.cell[name]) for name in names),
            *(number(row.means[one]) for one in shown),
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
                (str(value), *(number(sum(one[m] for one in means) / len(means)) for m in shown))
                for value, means in told
            ],
            "nothing",
        )
    return FINE


def _show(
    model: Fitted, fit: Sequence[Fit], candidates: Sequence[Candidate], compared: list[list[Difference]], asked: Asked
) -> None:
    modelled.show_fit(model, fit, candidates[0], asked)
    for candidate, each in list(zip(candidates, compared, strict=False))[1 if fit else 0 :]:
        told = [one for one in each if one.mean or one.first]
        show("")
        if candidate is candidates[0]:
            show(candidate.name)
            table(("measure", "mean"), [(one.measure, number(one.mean)) for one in told], "nothing happened")
        else:
            show(f"{candidate.name}, against {candidates[0].name}")
            table(
                ("measure", "first", "mean", "difference", "verdict"), [_change_cells(one) for one in told], "nothing"
            )


def _change_cells(one: Difference) -> tuple[str, ...]:
    half = "" if one.half is None else f" ± {one.half:,.3g}"
    return (one.measure, number(one.first), number(one.mean), f"{one.difference:+,.3g}{half}", one.word)


def _document(
    model: Fitted,
    fit: Sequence[Fit],
    candidates: Sequence[Candidate],
    compared: list[list[Difference]],
    measured: list[list[dict[str, float]]],
    asked: Asked,
) -> dict[str, Any]:
    return {
        **modelled.about(model, fit, asked),
        "policies": [
            {
                "policy": candidate.name,
                "runs": runs,
                "against_first": [one._asdict() for one in compared[place]] if place and compared else [],
            }
            for place, (candidate, runs) in enumerate(zip(candidates, measured, strict=False))
        ],
    }
