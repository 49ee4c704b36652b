"""`dds whatif`: what a log or a recording tells, played again on virtual time under other policies."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dds_commands.costs import Rates, cost_of, energy_of, read_rates
from dds_commands.parameters import output_options, policy_read, source_arguments
from dds_commands.running import FINE, UNFIT, require
from dds_commands.screen import note, progress, show, show_json, table
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
    from dds_whatif.world import Fitted

STAND_IN = "reference"
"""Named in the place of a file: the stand-in for the reference scaler."""


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
    """
    require("lab")
    from dds_whatif.outcome import counted
    from dds_whatif.world import fitted

    rates = read_rates(price_file, watts_file)
    with Opened() as opened:
        source = _scalers(opened.source(sources, url, name))
        read, history = _read(source)
        behaviour = read.behaviour
        if other is not None:
            behaviour = _read(_scalers(opened.source((other,), None, None)))[0].behaviour
        label = source.label
    first = _first(read.policy, read.reference, recorded, label)
    settings = first.policy or policy_read(recorded, read_policy) or Policy()
    candidates = [first, *(_candidate(one) for one in policies)]
    model = fitted(read, behaviour, settings, label=Path(label).name)
    if folder is not None:
        _write(model, Path(folder))
    runs = _played(model, candidates, seeds, jobs)
    return _tell(model, counted(history), candidates, runs, _Asked(seeds, bound, anyway, rates, form))


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


def _first(logged: Policy | None, reference: bool, recorded: str | None, label: str) -> Candidate:
    """Who drove the cluster. Raises InputError where that cannot be known."""
    told = policy_read(recorded, read_policy)
    if reference and (logged is None or logged.mode == "observe"):
        return Candidate(f"recorded ({STAND_IN})", None)
    found = told or logged
    if found is None:
        raise InputError(
            "a recording does not tell under which policy it was made", where=label, fix="give --recorded FILE"
        )
    return Candidate("recorded", _serving(found, recorded or label))


def _candidate(path: str) -> Candidate:
    if path == STAND_IN:
        return Candidate(STAND_IN, None)
    found = policy_read(path, read_policy)
    assert found is not None
    return Candidate(Path(path).name, _serving(found, path))


def _serving(policy: Policy, where: str) -> Policy:
    if policy.mode == "observe":
        raise InputError(
            "mode observe writes nothing: under it no pod would be served, and nothing could be compared",
            where=where,
            fix="say mode: attach or mode: detach in the policy",
        )
    return policy


# -- runs ----------------------------------------------------------------------------------------------------------------


def _played(model: Fitted, candidates: Sequence[Candidate], seeds: int, jobs: int | None) -> list[list[Outcome]]:
    """Of each candidate what came of each seed."""
    from dds_lab.scenario import written
    from dds_whatif.play import Task, play_all, written_pods

    with written_pods(model.arrivals) as path, _executor(jobs) as executor:
        text = written(model.scenario.model_copy(update={"workload": str(path)}))
        tasks = [Task(text, one.policy, seed) for one in candidates for seed in range(1, seeds + 1)]
        found = list(progress(play_all(tasks, executor), len(tasks), "playing"))
    return [found[place * seeds : (place + 1) * seeds] for place in range(len(candidates))]


@contextlib.contextmanager
def _executor(jobs: int | None) -> Iterator[Executor]:
    with ProcessPoolExecutor(jobs or os.cpu_count() or 1, mp_context=get_context("spawn")) as executor:
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def _write(model: Fitted, folder: Path) -> None:
    """The scenario as files. Raises InputError."""
    from dds_lab.scenario import written
    from dds_lab.scenario.workload import write_workload

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_workload(folder / "pods.csv", model.arrivals)
        text = written(model.scenario.model_copy(update={"workload": "pods.csv"}))
        (folder / f"{model.scenario.name}.yaml").write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=str(folder), fix="name another folder") from None
    note(f"scenario: {folder / model.scenario.name}.yaml")


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


def _tell(
    model: Fitted, real: Outcome, candidates: Sequence[Candidate], runs: list[list[Outcome]], asked: _Asked
) -> int:
    from dds_whatif.compare import differences, fits

    measured = [[_measures(one, asked.rates) for one in each] for each in runs]
    intervals = {f"wait p{round(100 * share)}": real.between(share) for share in (0.5, 0.95)}
    fit = fits(_measures(real, asked.rates), measured[0], asked.bound, intervals)
    off = [one.measure for one in fit if one.verdict == "off"]
    answered = not off or asked.anyway
    compared = [differences(measured[0], each) for each in measured] if answered else []
    if asked.form == "json":
        show_json(_document(model, fit, candidates, compared, measured if answered else measured[:1], asked))
    else:
        _show(model, fit, candidates, compared, asked)
    if off:
        note(
            f"the model does not fit: {', '.join(off)} further off than {asked.bound:.0%}, and further than "
            f"chance explains with {asked.seeds} seeds" + ("" if asked.anyway else "; --anyway answers all the same")
        )
    return FINE if answered else UNFIT


def _show(
    model: Fitted, fit: Sequence[Fit], candidates: Sequence[Candidate], compared: list[list[Difference]], asked: _Asked
) -> None:
    show(f"model of {model.scenario.about.removeprefix('Fitted from ')}, {asked.seeds} seeds")
    table(("fitted", "samples", ""), [(what, str(number), words) for what, number, words in model.rests_on], "nothing")
    for one in model.notes:
        show(f"inexact: {one}")
    show("")
    headings = ("measure", "reality", candidates[0].name, "off", "verdict")
    table(headings, [_fit_cells(one) for one in fit], "nothing")
    for candidate, each in list(zip(candidates, compared, strict=False))[1:]:
        show("")
        show(f"{candidate.name}, against {candidates[0].name}")
        told = [one for one in each if one.mean or one.first]
        table(("measure", "first", "mean", "difference", "verdict"), [_change_cells(one) for one in told], "nothing")


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


def _document(
    model: Fitted,
    fit: Sequence[Fit],
    candidates: Sequence[Candidate],
    compared: list[list[Difference]],
    measured: list[list[dict[str, float]]],
    asked: _Asked,
) -> dict[str, Any]:
    return {
        "source": model.scenario.about.removeprefix("Fitted from "),
        "seeds": asked.seeds,
        "bound": asked.bound,
        "fitted": [{"what": what, "samples": number, "words": words} for what, number, words in model.rests_on],
        "inexact": list(model.notes),
        "fit": [one._asdict() for one in fit],
        "policies": [
            {
                "policy": candidate.name,
                "runs": runs,
                "against_first": [one._asdict() for one in compared[place]] if place and compared else [],
            }
            for place, (candidate, runs) in enumerate(zip(candidates, measured, strict=False))
        ],
    }
