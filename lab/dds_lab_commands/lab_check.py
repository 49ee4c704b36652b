"""`dds lab check`: disturb a scaler at each point of a scenario, in one run each, and check rules and final state."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import click

from dds_commands.parameters import output_options
from dds_commands.running import FINE, TERMINATED, VERIFICATION
from dds_commands.screen import counted, note, position_bar, show, show_data, table
from dds_core.errors import InputError
from dds_lab import shipped
from dds_lab.check.campaign import DRAWN, Case, Found, cases, faults_of_calm, perturbation_of, play
from dds_lab.check.perturb import KINDS, Kind
from dds_lab.check.results import Results
from dds_lab.check.shrink import shrink

_SHOWN = 40


class Seeds(click.ParamType[range]):
    """One seed, or a range A..B that includes B."""

    name = "seeds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        written = re.fullmatch(r"([0-9]{1,18})(?:\.\.([0-9]{1,18}))?", str(value))
        first, last = (int(one or written[1]) for one in written.groups()) if written is not None else (1, 0)
        if last < first:
            self.fail(f"{value!r} is neither a seed nor A..B", param, ctx)
        return range(first, last + 1)


class Kinds(click.ParamType[tuple[Kind, ...]]):
    """Names of disturbances with commas between them, or `all`."""

    name = "kinds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Kind, ...]:
        named = str(value).split(",")
        strange = [one for one in named if one not in KINDS and one != "all"]
        if strange:
            self.fail(f"{strange[0]!r} is not one of all, {', '.join(KINDS)}", param, ctx)
        return tuple(kind for kind in KINDS if "all" in named or kind in named)


@click.command("check")
@click.argument("scenarios", metavar="SCENARIO...", nargs=-1, required=True)
@click.option("--seeds", type=Seeds(), metavar="A..B", help="Seeds to run; by default the scenario's own.")
@click.option(
    "--faults",
    "kinds",
    type=Kinds(),
    default="all",
    show_default=True,
    metavar="KIND,...",
    help="Kinds of disturbance.",
)
@click.option("--every", type=click.IntRange(1), default=1, metavar="N", help="Only every N-th point.")
@click.option("--point", metavar="POINT", help="Only this point, such as dies:12 or stale:3:5.")
@click.option(
    "--against",
    "who",
    metavar="WHO",
    default="ours",
    show_default=True,
    help="Scaler to check: ours (dds), reference (the simulated reference scaler), or a shell command.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0.001, 100),
    default=1.0,
    show_default=True,
    help="Lab seconds per real second, for a command.",
)
@click.option("--jobs", type=click.IntRange(1, 256), metavar="N", help="Parallel runs; by default one per core.")
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep results here; runs of the same code are not repeated. Not for a command.",
)
@click.option(
    "--shrink",
    "folder",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    metavar="FOLDER",
    help="Of similar findings show only the first, and write the smallest scenario that has it to this folder.",
)
@output_options("table", "json", "jsonl")
def check(
    scenarios: tuple[str, ...],
    seeds: range | None,
    kinds: tuple[Kind, ...],
    every: int,
    point: str | None,
    who: str,
    speed: float,
    jobs: int | None,
    results: Path | None,
    folder: Path | None,
    form: str,
) -> int:
    """Disturb a scaler at every event and write of a scenario.

    Each run has one disturbance. No run may break a rule, and each must end in the state of the undisturbed run.

    \b
    dies          the process ends when it receives the event; a new one starts
    unseen        it does not receive the event until its watch breaks
    stale         from then on it reads a replica that is 1 or 5 changes behind
    stale-start   it ends; the new one starts with such a replica
    late          the event arrives after 1 or 5 later ones of other resources
    dies-before   the process ends before the write
    dies-after    it ends after the write, before the answer
    answer-lost   the write is carried out; the connection breaks
    too-late      the write is carried out after another process took over

    SCENARIO is a name, a file, `fleets` (random fleets with all faults, one hour each; needs --seeds) or `mixes` (pods that
    need devices and servers, with a simulated Cluster Autoscaler; needs --seeds).

    A command of --against is started with KUBECONFIG for a lab on real time, and RUN, a separate folder for each run. It is
    killed and restarted, its watches and answers are disturbed.

    Ends with 2 on findings; each names the command that repeats it. Ends with 1 when no run reaches the point of --point.
    """
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    click.get_current_context().call_on_close(lambda: signal.signal(signal.SIGTERM, before))
    jobs = jobs or os.cpu_count() or 1
    at = perturbation_of(point) if point is not None else None
    every_one = [Case(name, seed, who, speed) for name in scenarios for seed in seeds or _seeds_of(name)]
    drawn = [one for one in every_one if one.scenario in DRAWN]
    if drawn and (who != "ours" or at is not None):
        where = drawn[0].scenario
        raise InputError("are played with ours, as they are drawn", where=where, fix="leave out --against and --point")
    if results is not None and every_one[0].is_program:
        raise InputError("holds nothing of a command, which may have changed", where="--results", fix="leave it out")
    kept = Results(results) if results is not None else None
    calm = [one for one in every_one if one.scenario not in DRAWN]
    found, ended = list[Found](), list[Found]()
    for case in calm:
        found += [one for one in (faults_of_calm(case),) if one.said]
        points = list(cases(case, kinds, every)) if at is None else [replace(case, perturbation=at)]
        ended += _played(points, jobs, kept)
    ended += _played(drawn, jobs, kept)
    if not ended:
        raise InputError("no point is left to disturb", fix="choose other --faults, or a smaller --every")
    missed = [one for one in ended if not one.reached]
    found += [one for one in ended if one.rules]
    if folder is not None:
        found = list(shrink(found, folder, jobs, note))
    if form != "table":
        show_data((_as_data(one) for one in (*found, *(one for one in missed if not one.rules))), form)
    else:
        _tell(len(calm), ended, missed, found)
    if at is not None and len(missed) == len(ended):
        raise InputError(f"is not reached: {missed[0].said[0][1]}", where=str(at), fix="name another point")
    return VERIFICATION if found else FINE


def _seeds_of(name: str) -> tuple[int]:
    if name in DRAWN:
        raise InputError("needs to know which", where=name, fix="add --seeds A..B")
    return (shipped.find(name).seed,)


def _played(wanted: list[Case], jobs: int, kept: Results | None) -> list[Found]:
    if not wanted:
        return []
    found = kept.known(wanted) if kept is not None else {}
    with position_bar(len(wanted), "checking") as progress:

        def done(one: Found) -> None:
            found[one.case] = one
            if kept is not None:
                kept.add(one)
            progress(len(found))

        play([case for case in wanted if case not in found], jobs, done)
    return [found[case] for case in wanted]


def _tell(calm: int, ended: list[Found], missed: list[Found], found: list[Found]) -> None:
    points, bad, apart = (Counter(_kind(one.case) for one in each) for each in (ended, found, missed))
    rows = [(kind, str(points[kind]), str(bad[kind]), str(apart[kind])) for kind in (*KINDS, *DRAWN) if points[kind]]
    table(("disturbance", "points", "findings", "not reached"), rows, "nothing was played")
    outcome = counted(len(found), "finding") if found else "nothing was found"
    show(f"{counted(len(ended), 'run')}, compared with {calm} that nothing disturbed: {outcome}")
    for one in found[:_SHOWN]:
        show("")
        for rule, words in one.said:
            show(f"{rule}: {words}")
        show(f"    {one.case.command}")
    if len(found) > _SHOWN:
        show(f"\n… and {len(found) - _SHOWN} more: --format jsonl has all of them")


def _kind(case: Case) -> str:
    return case.perturbation.kind if case.perturbation is not None else case.scenario


def _as_data(one: Found) -> dict[str, object]:
    return {
        "scenario": one.case.scenario,
        "seed": one.case.seed,
        "against": one.case.who,
        "at": str(one.case.perturbation or ""),
        "reached": one.reached,
        "said": [{"rule": rule, "words": words} for rule, words in one.said],
        "command": one.case.command,
    }
