"""One run of a scenario with one disturbance, or none, and what is to be said against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dds_lab.check.oracle import GUARD, State, differences, state_of
from dds_lab.check.perturb import HEALED, Gone, Perturbation
from dds_lab.check.subjects import Cast
from dds_lab.judge.scaler import Judge, Measure
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario
from dds_lab.time import MICROSECONDS, VirtualTime

NEWS = Measure().news
QUIET = 900.0
"""Seconds after the scenario's end within which everything has come to rest."""
STAYS = 60.0
"""Seconds for which it stays so."""


@dataclass(frozen=True)
class Run:
    """How many events the scaler heard and writes it made; what was found always (rule, and words), and the state in the end."""

    events: int
    writes: int
    reached: bool
    found: tuple[tuple[str, str], ...]
    state: State


def played(
    scenario: Scenario, cast: Cast, original: Scenario, seed: int, perturbation: Perturbation | None = None
) -> Run:
    """Play a scenario to its end and until all is at rest; `original` is the scenario as it was written."""
    time = VirtualTime(seed, scenario.start)
    lab = Lab(scenario, time)
    subject = cast(lab, original, perturbation)
    lab.start()
    try:
        judge = Judge(lab, Measure(news=NEWS + (HEALED if perturbation is not None else 0.0)))
        subject.begin()
        end = scenario.start + round((scenario.duration + QUIET) * MICROSECONDS)
        _run(lab, end)
        state = _excused(state_of(lab), perturbation)
        _run(lab, end + round(STAYS * MICROSECONDS))
        later = _excused(state_of(lab), perturbation)
        found = [(one.rule, f"{one.of}: {one.text}") for one in judge.findings]
        found += [("story", one) for one in lab.steps.failures]
        found += [("unsound", one) for one in subject.faults()]
        found += [("restless", one) for one in differences(state, later)]
        return Run(subject.tap.events, subject.tap.writes, subject.tap.reached, tuple(found), state)
    finally:
        subject.end()
        lab.stop()


def _run(lab: Lab, until: int) -> None:
    """A process that ends in the middle of a call ends there and then; time goes on."""
    while lab.time.now() < until:
        try:
            lab.run(until=until)
        except Gone:
            continue


def _excused(state: State, perturbation: Perturbation | None) -> State:
    """A guard that a dead process's write sets too late is known to nobody: it ends by itself, and its key goes with a later
    guard."""
    if perturbation is None or perturbation.kind != "too-late":
        return state
    return replace(state, left=tuple(one for one in state.left if one != GUARD))


def against(run: Run, calm: Run) -> Sequence[tuple[str, str]]:
    """What is to be said against a disturbed run beside one that nothing disturbed: rule and words."""
    known = Counter(rule for rule, _ in calm.found)
    found = []
    for rule, words in run.found:
        if known[rule]:
            known[rule] -= 1
        else:
            found.append((rule, words))
    return [*found, *(("not as calm", words) for words in differences(calm.state, run.state))]
