"""Campaigns: plays many cases (a scenario, a seed, a scaler and a perturbation) in parallel, and collects what they find."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from dds_core.errors import InputError
from dds_lab import shipped
from dds_lab.check import command, mixes, playing
from dds_lab.check.branches import Branches, Copies, Outcome
from dds_lab.check.perturb import COUNTED, KINDS, Choose, Kind, Perturbation, nothing, only, perturbations
from dds_lab.check.running import Run, against, played
from dds_lab.check.subjects import Cast, Ours, Reference, with_reference, without_hands
from dds_lab.scenario import Scenario

Drawn = Callable[[int, Path], tuple[tuple[str, str], ...]]
"""Plays what a seed draws, with files in a folder; returns the findings as (rule, words)."""
DRAWN: Mapping[str, Drawn] = {"fleets": playing.played, "mixes": lambda seed, within: mixes.played(seed)}
"""Names that can be given in place of a scenario: the seed draws the scenario and its faults."""
BROKE_OFF = "broke off"
"""Rule of a run that did not end. The cause may be outside the code."""
NOT_REACHED = "not reached"
"""Rule of a run that did not reach its point and was therefore not disturbed."""


@dataclass(frozen=True, slots=True)
class Case:
    """A run: the scenario's name or file (or a key of DRAWN), the seed, the scaler (`ours`, `reference`, or a shell command with
    the speed of the lab's time for it), and the perturbation (None: a calm run)."""

    scenario: str
    seed: int
    who: str = "ours"
    speed: float = 1.0
    perturbation: Perturbation | None = None

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        at = f" --point {self.perturbation}" if self.perturbation is not None else ""
        speed = f" --speed {self.speed:g}" if self.is_program else ""
        return f"dds lab check {shlex.quote(self.scenario)} --seeds {self.seed} --against {shlex.quote(self.who)}{speed}{at}"

    @property
    def is_program(self) -> bool:
        return self.who not in _WHO


@dataclass(frozen=True, slots=True)
class Found:
    """The findings of a run as (rule, words); none if it is clean."""

    case: Case
    said: tuple[tuple[str, str], ...]

    @property
    def rules(self) -> frozenset[str]:
        """The rules that the run broke."""
        return frozenset(rule for rule, _ in self.said) - {NOT_REACHED}

    @property
    def reached(self) -> bool:
        """Whether the run came to the point of its perturbation."""
        return all(rule != NOT_REACHED for rule, _ in self.said)


def perturbation_of(text: str) -> Perturbation:
    """Parse the text form of a `Perturbation`, such as dies:12 or stale:3:5. Raises InputError."""
    written = re.fullmatch(r"([a-z-]+):([0-9]{1,9})(?::([1-9][0-9]{0,8}))?", text)
    kind, at, size = written.groups() if written is not None else ("", "", None)
    known = next((one for one in KINDS if one == kind), None)
    if known is None or (known in COUNTED) != (size is not None):
        fix = f"write KIND:NUMBER, or KIND:NUMBER:SIZE for {', '.join(COUNTED)}; kinds: {', '.join(KINDS)}"
        raise InputError("is no point of a run", where=text, fix=fix)
    return Perturbation(known, int(at), int(size or 0))


def cases(calm: Case, kinds: Sequence[Kind], every: int) -> Iterator[Case]:
    """A case for every `every`-th perturbation of a run, counted over all kinds. Plays the calm run to find its points."""
    quiet = _calm(calm)
    for number, one in enumerate(perturbations(quiet.events, quiet.writes, tuple(kinds))):
        if number % every == 0:
            yield replace(calm, perturbation=one)


def play(wanted: Iterable[Case], jobs: int, done: Callable[[Found], None]) -> None:
    """Play all cases, `jobs` at a time; `done` is called for each when it ends."""
    points: defaultdict[Case, list[Perturbation]] = defaultdict(list)
    drawn: list[Case] = []
    for case in wanted:
        if case.perturbation is not None:
            points[replace(case, perturbation=None)].append(case.perturbation)
        elif case.scenario in DRAWN:
            drawn.append(case)
    for calm, perturbations_of_it in points.items():
        _play(calm, perturbations_of_it, jobs, done)
    if drawn:
        _play_drawn(drawn, jobs, done)


def _play(calm: Case, wanted: Sequence[Perturbation], jobs: int, done: Callable[[Found], None]) -> None:
    quiet = _calm(calm)

    def told(one: Perturbation, outcome: Outcome) -> None:
        done(Found(replace(calm, perturbation=one), tuple(_said(one, outcome, quiet))))

    if calm.is_program:
        asyncio.run(_play_programs(calm, wanted, jobs, told, quiet))
    else:
        branches = Branches(wanted, jobs, told)
        branches.play(partial(_played, calm, branches.choose))


def _play_drawn(drawn: Sequence[Case], jobs: int, done: Callable[[Found], None]) -> None:
    def told(case: Case, outcome: tuple[tuple[str, str], ...] | str) -> None:
        done(Found(case, ((BROKE_OFF, outcome),) if isinstance(outcome, str) else outcome))

    with TemporaryDirectory(prefix="dds-lab-check-") as folder, Copies(jobs, told) as copies:
        for case in drawn:
            copies.play(case, partial(DRAWN[case.scenario], case.seed, Path(folder)))


async def _play_programs(
    calm: Case, wanted: Sequence[Perturbation], jobs: int, told: Callable[[Perturbation, Outcome], None], quiet: Run
) -> None:
    room = asyncio.Semaphore(jobs)

    async def play_one(one: Perturbation) -> None:
        async with room:
            try:
                outcome: Outcome = await _with_program(calm, only(one), quiet)
            except Exception as error:
                outcome = f"{type(error).__name__}: {error}"
        told(one, outcome)

    await asyncio.gather(*map(play_one, wanted))


def _said(wanted: Perturbation, outcome: Outcome, quiet: Run) -> Iterator[tuple[str, str]]:
    if isinstance(outcome, str):
        yield BROKE_OFF, outcome
        return
    if outcome.disturbed != wanted:
        yield NOT_REACHED, f"the run has {outcome.events} events and {outcome.writes} writes"
    yield from against(outcome, quiet)


def faults_of_calm(calm: Case) -> Found:
    """The findings of a calm run itself."""
    run = _calm(calm)
    return Found(calm, (*run.found, *(("left over", one) for one in run.state.left)))


@lru_cache(maxsize=1)
def _calm(case: Case) -> Run:
    return _played(case, nothing)


def _played(case: Case, choose: Choose) -> Run:
    if case.is_program:
        return asyncio.run(_with_program(case, choose))
    found = shipped.find(case.scenario)
    cast, prepared = _WHO[case.who]
    return played(prepared(found), cast, found, case.seed, choose)


def _with_program(case: Case, choose: Choose, calm: Run | None = None) -> Coroutine[None, None, Run]:
    scenario = without_hands(shipped.find(case.scenario))
    return command.played(scenario, case.who, case.seed, choose, case.speed, calm)


_WHO: dict[str, tuple[Cast, Callable[[Scenario], Scenario]]] = {
    "ours": (Ours, without_hands),
    "reference": (Reference, with_reference),
}
"""Scalers by name, each with the function that adapts a scenario to it."""
