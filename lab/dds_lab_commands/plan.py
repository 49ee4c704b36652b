"""`dds plan`: simulate a model of a source to find how many devices the pools need to meet an objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from dds_commands.costs import HOUR, Rates, energy_of
from dds_commands.parameters import output_options
from dds_commands.running import FINE, UNFIT
from dds_commands.screen import show, show_json, table
from dds_core.errors import InputError
from dds_core.scaler.policy import Policy
from dds_core.scaler.spending import USED
from dds_lab_commands import modelled
from dds_lab_commands.modelled import Asked, Candidate, number

if TYPE_CHECKING:  # the lab is imported when the command runs, to keep the help of all commands fast
    from dds_whatif.outcome import Outcome
    from dds_whatif.plan import Plan, Point
    from dds_whatif.world import Fitted

TOLD = ("wait p50", "wait p95", "wait max", "never bound", "attaches", "idle hours")


@click.command("plan", short_help="Calculate how big the pools have to be.")
@modelled.asked_options(
    5,
    1000,
    "each point",
    click.option(
        "--objective",
        "objectives",
        metavar="TEXT",
        multiple=True,
        help="Objective to meet, such as 'p95 wait <= 60s' or 'never bound <= 0'; required, repeatable.",
    ),
    click.option("--policy", metavar="FILE", help="Policy to plan for; by default the recorded one."),
)
@output_options("table", "json")
def plan(asked: Asked, objectives: tuple[str, ...], policy: str | None, form: str) -> int:
    """Calculate the fewest devices per model that meet every objective, the most that a node needs, the best idle time, and
    whether pre-warming pays. Also shown: all simulated points, and what nodes with fixed devices would need.

    The model is that of dds whatif and is compared with reality first. SOURCE may also be a scenario of the lab (.yaml). The
    policy gives the costs of an attach and of an idle hour (attach_cost, idle_hour_cost).
    """
    from dds_whatif.engines import opened as opened_engine
    from dds_whatif.plan import Planner, objective_of
    from dds_whatif.sweep import changed

    if not objectives:
        raise InputError("a plan needs something to meet", where="--objective", fix="add --objective 'p95 wait <= 60s'")
    wanted = [objective_of(one) for one in objectives]
    executor, at_once = opened_engine("processes", asked.jobs)
    with modelled.ended(executor):
        model, candidates, real = modelled.model_of(asked, () if policy is None else (policy,))
        base, under = _planned_for(candidates[-1], model)
        runs = modelled.played(model, candidates[:1], asked.seeds, executor) if real else []
        fit = modelled.fit_of(real, runs, asked)
        if modelled.is_off(fit, asked):
            if form == "json":
                show_json(modelled.about(model, fit, asked))
            else:
                modelled.show_fit(model, fit, candidates[0], asked)
            return UNFIT
        with modelled.swept_by(executor, at_once, asked.results) as play:
            found = Planner(model, under, wanted, range(1, asked.seeds + 1), play).plan()
        # The outcomes of the plan itself, one for each seed.
        there, planned = changed(model, under, found.cell, "the plan")
        (outcomes,) = modelled.played(there, [Candidate("plan", planned)], asked.seeds, executor)
    saved = _saved(found, outcomes, asked.rates)
    if form == "json":
        show_json({**modelled.about(model, fit, asked), "policy": base.name, **_document(found, saved)})
        return FINE
    modelled.show_fit(model, fit, candidates[0], asked)
    _show(found, base, saved)
    return FINE


def _saved(found: Plan, outcomes: Sequence[Outcome], rates: Rates) -> dict[str, dict[str, float]]:
    """By model, as means over the seeds: devices in the pool and on nodes with fixed devices, and device-hours and energy (kWh)
    of both. A fixed device counts for the whole time."""
    saved = {}
    for model in found.pools:
        fixed = [one.fixed.get(model, 0) for one in outcomes]
        spent = [one.spent.get(model, {}) for one in outcomes]
        used = [each.get(USED, 0) for each in spent]
        attached = [sum(each.values()) for each in spent]
        owned = [count * int(one.span * 1_000_000) for count, one in zip(fixed, outcomes, strict=True)]
        row = {
            "pool": float(found.pools[model]),
            "owned": fmean(fixed),
            "hours": fmean(attached) / HOUR,
            "owned hours": fmean(owned) / HOUR,
        }
        for name, times in (("energy kWh", attached), ("owned energy kWh", owned)):
            drawn = [energy_of({model: (u, t)}, rates) for u, t in zip(used, times, strict=True)]
            known = [one for one in drawn if one is not None]
            row |= {name: fmean(known)} if known else {}
        saved[model] = row
    return saved


def _planned_for(base: Candidate, model: Fitted) -> tuple[Candidate, Policy]:
    """The candidate and the policy to plan for. For the reference scaler that is dds with its times: a plan varies limits, idle
    times and pre-warming, which only dds has."""
    from dds_lab.scenario.parts import ScalerPart

    if base.policy is not None:
        return base, base.policy
    times = model.scenario.parts.scaler or ScalerPart()
    policy = Policy(
        mode="detach",
        scan_interval_seconds=round(times.interval),
        no_removal_seconds=round(times.removal),
        no_allocation_seconds=round(times.allocation),
    )
    return Candidate(f"dds, with the times of the {modelled.REFERENCE} scaler", policy), policy


# -- output --------------------------------------------------------------------------------------------------------------


def _show(found: Plan, base: Candidate, saved: Mapping[str, Mapping[str, float]]) -> None:
    show("")
    show(f"plan for {base.name}: {'; '.join(one.text for one in found.objectives)}")
    energy = any("energy kWh" in row for row in saved.values())
    names = ("owned", "hours", "owned hours", *(("energy kWh", "owned energy kWh") if energy else ()))
    table(
        ("model", "pool today", "pool needed", *names),
        [
            (model, str(found.today[model]), str(found.pools[model]), *(number(row.get(one, 0.0)) for one in names))
            for model, row in saved.items()
        ],
        "nothing",
    )
    if not found.met:
        show("the plan as a whole does not meet the objectives: give more --seeds")
    show(f"devices of a model on a node at most: {found.node}")
    show(f"idle time: {_idle(found.idle)}")
    show(f"pre-warming one device of each model on each node: {'pays' if found.prewarms else 'does not pay'}")
    show("")
    rows = (("pools of today", found.now), ("the plan", found.then), ("pre-warmed", found.warm))
    table(("", *TOLD), [(name, *(number(row[one]) for one in TOLD)) for name, row in rows], "nothing")
    for curve, points in found.curves.items():
        show("")
        what = {"node": "devices of a model on a node at most", "idle": "idle time"}.get(curve, f"pool of {curve}")
        table((what, *TOLD, "seeds", "met"), [_point(curve, one) for one in sorted(points, key=_place)], "nothing")


def _place(point: Point) -> float:
    return -1 if point.value is None else point.value


def _point(curve: str, point: Point) -> tuple[str, ...]:
    value = _idle(point.value) if curve == "idle" else str(point.value)
    cells = (number(point.measures[one]) for one in TOLD)
    return (value, *cells, str(point.seeds), "yes" if point.met else "no")


def _idle(seconds: int | None) -> str:
    return "adaptive" if seconds is None else f"{seconds} s"


def _document(found: Plan, saved: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    return {
        "objectives": [one._asdict() for one in found.objectives],
        "pools": {
            model: {"today": found.today[model], "needed": found.pools[model], **row} for model, row in saved.items()
        },
        "node_max": found.node,
        "idle_seconds": found.idle,
        "prewarm_pays": found.prewarms,
        "pools_of_today": dict(found.now),
        "met": found.met,
        "planned": dict(found.then),
        "prewarmed": dict(found.warm),
        "curves": {
            name: [{**one._asdict(), "measures": dict(one.measures)} for one in sorted(points, key=_place)]
            for name, points in found.curves.items()
        },
    }
