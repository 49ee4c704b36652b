"""Many runs of scenarios, each disturbed at another point, side by side."""

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
from dds_lab.check.subjects import Cast, Ours, StandIn, with_stand_in, without_hands
from dds_lab.scenario import Scenario

Drawn = Callable[[int, Path], tuple[tuple[str, str], ...]]
"""Plays what a seed draws, with files in a folder; gives what is found, rule and words each."""
DRAWN: Mapping[str, Drawn] = {"fleets": playing.played, "mixes": lambda seed, within: mixes.played(seed)}
"""In the place of a scenario: what a seed draws, troubles included."""
BROKE_OFF = "broke off"
"""The rule of a run that came to no end. Its cause may be none of the code's."""
NOT_REACHED = "not reached"
"""The rule of a run in which the point did not come, so that nothing disturbed it."""


@dataclass(frozen=True, slots=True)
class Case:
    """A run: the scenario by its name or file (or one of DRAWN), its seed, who is the scaler (one of ours and stand-in, or else a
    command for the shell, and how fast the lab's time passes for it), and what disturbs it (None: nothing)."""

    scenario: str
    seed: int
    who: str = "ours"
    speed: float = 1.0
    perturbation: Perturbation | None = None

    @property
    def command(self) -> str:
        """What repeats it."""
        at = f" --at {self.perturbation}" if self.perturbation is not None else ""
        speed = f" --speed {self.speed:g}" if self.is_program else ""
        return f"dds lab check {shlex.quote(self.scenario)} --seeds {self.seed} --against {shlex.quote(self.who)}{speed}{at}"

    @property
    def is_program(self) -> bool:
        return self.who not in _WHO


@dataclass(frozen=True, slots=True)
class Found:
    """What is to be said of a run: (rule, words) each; nothing when it is clean."""

    case: Case
    said: tuple[tuple[str, str], ...]

    @property
    def rules(self) -> frozenset[str]:
        """Those of what is to be said against it."""
        return frozenset(rule for rule, _ in self.said) - {NOT_REACHED}

    @property
    def reached(self) -> bool:
        """Whether it was disturbed, if it was to be."""
        return all(rule != NOT_REACHED for rule, _ in self.said)


def perturbation_of(text: str) -> Perturbation:
    """As `Perturbation` writes itself, such as dies:12 or stale:3:5. Raises InputError."""
    written = re.fullmatch(r"([a-z-]+):([0-9]{1,9})(?::([1-9][0-9]{0,8}))?", text)
    kind, at, size = written.groups() if written is not None else ("", "", None)
    known = next((one for one in KINDS if one == kind), None)
    if known is None or (known in COUNTED) != (size is not None):
        fix = f"write KIND:NUMBER, or KIND:NUMBER:SIZE for {', '.join(COUNTED)}; kinds: {', '.join(KINDS)}"
        raise InputError("is no point of a run", where=text, fix=fix)
    return Perturbation(known, int(at), int(size or 0))


def cases(calm: Case, kinds: Sequence[Kind], every: int) -> Iterator[Case]:
    """Every so-manieth point of a run, counted over all kinds; the run is played for it."""
    quiet = _calm(calm)
    for number, one in enumerate(perturbations(quiet.events, quiet.writes, tuple(kinds))):
        if number % every == 0:
            yield replace(calm, perturbation=one)


def play(wanted: Iterable[Case], jobs: int, done: Callable[[Found], None]) -> None:
    """Play them all, so many side by side; `done` hears of each as it ends."""
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
    """What is to be said against a run that nothing disturbs."""
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
    "stand-in": (StandIn, with_stand_in),
}
"""Who is put into the scenario, and what is made of it for that."""
