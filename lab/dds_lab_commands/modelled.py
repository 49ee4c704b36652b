"""What `dds whatif` and `dds plan` share: derive a model from a source, find the policy under which the source was made, run the
model on virtual time, and compare it with reality."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from functools import cached_property, wraps
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dds_adapters.kubernetes.recording import read_recording
from dds_commands.costs import Rates, cost_of, energy_of, read_rates
from dds_commands.parameters import policy_read, source_arguments
from dds_commands.screen import note, position_bar, progress, show, table
from dds_commands.sources import Opened, Recording, Source
from dds_core.errors import InputError
from dds_core.scaler.component import SCALER
from dds_core.scaler.history import History
from dds_core.scaler.policy import Policy, read_policy
from dds_core.scaler.spending import USED

if TYPE_CHECKING:  # the lab is imported when the command runs, to keep the help of all commands fast
    from dds_whatif.compare import Fit
    from dds_whatif.derive import Derived
    from dds_whatif.driven import Phase
    from dds_whatif.outcome import Outcome
    from dds_whatif.sweep import Run, Wanted
    from dds_whatif.world import Fitted

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
REFERENCE = "reference"
"""In place of a policy file: the simulated reference scaler."""


@dataclass(frozen=True)
class Asked:
    """The options that both commands have, and the prices of one."""

    sources: tuple[str, ...]
    url: str | None
    name: str | None
    recorded: str | None
    other: str | None
    seeds: int
    jobs: int | None
    bound: float
    anyway: bool
    results: str | None
    watts_file: str | None
    price_file: str | None = None

    @cached_property
    def rates(self) -> Rates:
        return read_rates(self.price_file, self.watts_file)

    @property
    def scenario(self) -> bool:
        """Whether the source is a scenario of the lab (a .yaml file)."""
        return len(self.sources) == 1 and self.sources[0].endswith((".yaml", ".yml"))


def asked_options(seeds: int, most: int, runs: str, *own: Decorator) -> Callable[[F], Callable[..., Any]]:
    """The options of `Asked`, which the command gets as `asked`, and between the source and them its `own`. `runs`: of what
    --seeds counts the runs."""
    options: tuple[Decorator, ...] = (
        source_arguments,
        *own,
        click.option("--recorded", metavar="FILE", help="Policy fields that override what was fitted on a recording."),
        click.option("--fit", "other", metavar="SOURCE", help="Fit fabric, driver and publisher on this source instead."),
        click.option("--seeds", type=click.IntRange(1, most), default=seeds, show_default=True, help=f"Runs of {runs}."),
        click.option("--jobs", type=click.IntRange(1, 256), help="Parallel runs; by default one per core."),
        click.option(
            "--bound", type=click.FloatRange(0, 10), default=0.15, show_default=True,
            help="Allowed deviation of the model from reality.",
        ),
        click.option("--anyway", is_flag=True, help="Answer even when the model does not fit."),
        click.option("--results", metavar="PLACE", help="Keep the runs in this SQLite file or database URL."),
        click.option(
            "--watts", "watts_file", metavar="FILE",
            help="Watts of a device by model, used and idle (YAML, TOML or JSON).",
        ),
    )  # fmt: skip

    def decorated(command: F) -> Callable[..., Any]:
        @wraps(command)
        def called(**given: Any) -> Any:
            shared = {one.name: given.pop(one.name) for one in fields(Asked) if one.name in given}
            return command(Asked(**shared), **given)

        found: Callable[..., Any] = called
        for option in reversed(options):
            found = option(found)
        return found

    return decorated


@dataclass(frozen=True)
class Candidate:
    """The scaler of a run and its name; `policy` is None for the simulated reference scaler. `phases`: who drives when, if
    several did; `policy` is then that of the last one that served."""

    name: str
    policy: Policy | None
    phases: tuple[Phase, ...] = ()


def refuse(combinations: Mapping[str, bool]) -> None:
    """Raises InputError for options that would be ignored."""
    for words, given in combinations.items():
        if given:
            raise InputError(words, fix="leave it out, or see docs/whatif.md")


def model_of(asked: Asked, policies: Sequence[str]) -> tuple[Fitted, list[Candidate], Outcome | None]:
    """The model, the candidates (the recorded scaler first) and the recorded outcome, None for a scenario. Raises InputError."""
    from dds_whatif.outcome import counted
    from dds_whatif.world import fitted

    refuse(
        {
            "--recorded and --fit are for what really happened, and a scenario did not": asked.scenario
            and bool(asked.recorded or asked.other)
        }
    )
    tried = [_candidate(one) for one in policies]
    if asked.scenario:
        where = asked.sources[0]
        if not tried:
            raise InputError("a scenario tells no policy", where=where, fix="give --policy FILE, or --policy reference")
        return _of_scenario(where), tried, None
    with Opened() as opened:
        source = _scalers(opened.source(asked.sources, asked.url, asked.name))
        read, history = _read(source)
        behaviour = read.behaviour
        if asked.other is not None:
            behaviour = _read(_scalers(opened.source((asked.other,), None, None)))[0].behaviour
        label = source.label
    told = policy_read(asked.recorded, read_policy)
    first, settings = _first(read, told, label)
    return fitted(read, behaviour, settings, label=Path(label).name), [first, *tried], counted(history)


def _of_scenario(path: str) -> Fitted:
    from dds_lab.scenario import read_scenario
    from dds_lab.scenario.workload import read_workload
    from dds_whatif.world import Fitted

    scenario = read_scenario(path)
    pods = tuple(read_workload(Path(scenario.workload))) if scenario.workload is not None else ()
    return Fitted(scenario.model_copy(update={"workload": None}), pods, (), ())


def _read(source: Source) -> tuple[Derived, History]:
    """Behaviour and history of a source, in one pass."""
    from dds_whatif.derive import Reader
    from dds_whatif.driven import stamps_of

    if isinstance(source, Recording):
        reader = Reader(logged=False, stamps=stamps_of(read_recording(source.path)))
    else:
        reader = Reader(logged=True)
    history = History(reader.known)
    for moment in progress(source.told(), None, "reading"):
        reader.take(moment)
        history.take(moment)
    return reader.derived(), history


def _scalers(source: Source) -> Source:
    if source.component is not SCALER:
        raise InputError("is not the log of a scaler", where=source.label, fix="name a scaler's log, or a recording")
    return source


def _first(read: Derived, told: Policy | None, label: str) -> tuple[Candidate, Policy]:
    """What drove the cluster, and the scalers' times, in which `told` overrides what was fitted. Raises InputError if nothing
    tells it."""
    from dds_whatif import driven
    from dds_whatif.play import serving

    conduct = read.conduct
    phases = conduct.phases(read.begin, told) or (((0.0, told),) if told is not None else ())
    if told is not None and conduct.policies and any(policy is not None for _, policy in phases):
        raise InputError(
            "a log tells itself which policy drove", where=label, fix="leave --recorded out; try others by --policy"
        )
    if not phases:
        raise InputError(
            "no scaler is seen in it: nothing tells what drove",
            where=label,
            fix="give --recorded FILE, or another source",
        )
    last = next((policy for _, policy in reversed(phases) if policy is None or not policy.observes), phases[-1][1])
    if last is not None:
        serving(last, label)
    settings = conduct.settings(told, driven.REFERENCE) if any(who is None for _, who in phases) else last or Policy()
    name = "recorded" if any(policy is not None for _, policy in phases) else f"recorded ({REFERENCE})"
    return Candidate(name, last, phases if len(phases) > 1 else ()), settings


def _candidate(path: str) -> Candidate:
    if path == REFERENCE:
        return Candidate(REFERENCE, None)
    from dds_whatif.play import serving

    found = policy_read(path, read_policy)
    assert found is not None
    return Candidate(Path(path).name, serving(found, path))


def played(model: Fitted, candidates: Sequence[Candidate], seeds: int, executor: Executor) -> list[list[Outcome]]:
    """For each candidate its outcomes, one for each seed."""
    from dds_whatif.play import play, tasks_of

    numbers = range(1, seeds + 1)
    tasks = [task for one in candidates for task in tasks_of(model, one.policy, numbers, one.phases)]
    found = list(progress(executor.map(play, tasks), len(tasks), "playing"))
    return [found[place * seeds : (place + 1) * seeds] for place in range(len(candidates))]


@contextlib.contextmanager
def swept_by(
    executor: Executor, at_once: int, results: str | None
) -> Iterator[Callable[[Sequence[Wanted]], list[Run]]]:
    """A function that plays runs and stores them in the file `results`; a stored run is not played again."""
    from dds_whatif.sweep import Store, swept

    def play(runs: Sequence[Wanted]) -> list[Run]:
        with position_bar(len(runs), "playing") as moved:
            number = count(1)
            return swept(runs, executor, store, at_once, lambda: moved(next(number)))

    with Store(results) as store:
        yield play


@contextlib.contextmanager
def ended(executor: Executor) -> Iterator[None]:
    """Shut the executor down at the end; on an error or Ctrl-C without waiting for its runs. Output of an engine, such as Ray's
    messages about a lost node, goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            yield
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
        executor.shutdown()


def measures_of(found: Outcome, rates: Rates) -> dict[str, float]:
    totals = {model: sum(states.values()) for model, states in found.spent.items()}
    cost = cost_of(totals, rates)
    energy = energy_of({m: (found.spent[m][USED], total) for m, total in totals.items()}, rates)
    beside = {"cost": cost, "energy kWh": energy}
    return {**found.measures(), **{name: value for name, value in beside.items() if value is not None}}


def fit_of(real: Outcome | None, runs: list[list[Outcome]], asked: Asked) -> list[Fit]:
    """Compare the first candidate with reality, and note measures that are off; empty without reality."""
    from dds_whatif.compare import failing, fits

    if real is None:
        return []
    between = {f"wait p{round(100 * share)}": real.between(share) for share in (0.5, 0.95)}
    intervals = {name: one for name, one in between.items() if one is not None}
    measured = [measures_of(one, asked.rates) for one in runs[0]]
    found = fits(measures_of(real, asked.rates), measured, asked.bound, intervals)
    aspects, theirs = real.aspects(), [one.aspects() for one in runs[0]]
    found = [one if one.verdict == "fits" else one._replace(why=failing(one.measure, aspects, theirs)) for one in found]
    off = [one.measure for one in found if one.verdict == "off"]
    if off:
        note(
            f"the model does not fit: {', '.join(off)} further off than {asked.bound:.0%}, and further than "
            f"chance explains with {asked.seeds} seeds" + ("" if asked.anyway else "; --anyway answers all the same")
        )
    return found


def is_off(fit: Sequence[Fit], asked: Asked) -> bool:
    return not asked.anyway and any(one.verdict == "off" for one in fit)


def show_fit(model: Fitted, fit: Sequence[Fit], first: Candidate, asked: Asked) -> None:
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
    fitted = "Fitted from "
    about = model.scenario.about
    return about.removeprefix(fitted) if about.startswith(fitted) else model.scenario.name


def _fit_cells(one: Fit) -> tuple[str, ...]:
    real = number(one.real) + (f" ({_spread(*one.interval)})" if one.interval is not None else "")
    off = "-" if one.off is None else f"{one.off:+.0%}"
    verdict = f"{one.verdict}; {one.why}" if one.why else one.verdict
    return (one.measure, real, f"{number(one.model)} ({_spread(one.low, one.high)})", off, verdict)


def _spread(low: float, high: float) -> str:
    return f"{number(low)} to {number(high)}"


def number(value: float) -> str:
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3f}"


def about(model: Fitted, fit: Sequence[Fit], asked: Asked) -> dict[str, Any]:
    return {
        "source": _of(model),
        "seeds": asked.seeds,
        "bound": asked.bound,
        "fitted": [{"what": what, "samples": number, "words": words} for what, number, words in model.rests_on],
        "inexact": list(model.notes),
        "fit": [one._asdict() for one in fit],
    }
