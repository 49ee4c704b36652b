"""Plays one run of a scenario on virtual time, with one disturbance or none, and judges it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dds_adapters.kubernetes import guard
from dds_lab.check.oracle import GUARD, EndState, Waits, differences, state_of
from dds_lab.check.perturb import HEALED, Choose, Gone, Perturbation, Perturber, nothing
from dds_lab.check.subjects import Cast
from dds_lab.judge.scaler import Judge, Measure
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario
from dds_lab.time import MICROSECONDS, VirtualTime

NEWS = Measure().news
QUIET = 900.0
"""Seconds after the scenario's end within which everything must be at rest."""
STAYS = 60.0
"""Seconds for which the state must then stay unchanged."""
LATER = 90.0
"""Seconds that a pod may wait longer than in the calm run: pods that compete for a device may get it in another order."""


@dataclass(frozen=True)
class Run:
    """A played run: number of events that the scaler received and of its writes, the perturbation, the findings as (rule, words),
    the seconds that each pod waited, and the final state."""

    events: int
    writes: int
    disturbed: Perturbation | None
    found: tuple[tuple[str, str], ...]
    waited: dict[str, float] = field(default_factory=dict)
    state: EndState = field(default_factory=EndState)


def played(scenario: Scenario, cast: Cast, original: Scenario, seed: int, choose: Choose = nothing) -> Run:
    """Play a scenario to its end and until it is at rest; `original` is the scenario before it was adapted to the scaler."""
    time = VirtualTime(seed, scenario.start)
    lab = Lab(scenario, time)
    subject = cast(lab, original, choose)
    lab.start()
    try:
        waits = Waits(lab)
        judge = Judge(lab, Measure(news=NEWS + (0.0 if choose is nothing else HEALED)))
        subject.begin()
        end = scenario.start + round((scenario.duration + QUIET) * MICROSECONDS)
        _run(lab, end)
        tap = subject.tap
        state = excused(state_of(judge.view), tap)
        _run(lab, end + round(STAYS * MICROSECONDS))
        later = excused(state_of(judge.view), tap)
        found = [(one.rule, f"{one.of}: {one.text}") for one in judge.findings]
        if tap.chosen is None:  # a disturbed run may take another course
            found += [("story", one) for one in lab.steps.failures]
        found += [("unsound", one) for one in subject.faults()]
        found += [("restless", one) for one in differences(state, later)]
        return Run(tap.events, tap.writes, tap.chosen, tuple(found), waits.seconds, state)
    finally:
        subject.end()
        lab.stop()


def _run(lab: Lab, until: int) -> None:
    """Run the lab; if a process ends in the middle of a call (`Gone`), time goes on without it."""
    while lab.time.now() < until:
        try:
            lab.run(until=until)
        except Gone:
            continue


def excused(state: EndState, tap: Perturber) -> EndState:
    """The state without a guard that a dead process's late write has set. No process knows this guard: it expires by itself, and
    the next guard removes its entry."""
    if tap.chosen is None or tap.chosen.kind != "too-late" or not tap.path.endswith(f"/{guard.CONFIG_MAP}"):
        return state
    return replace(state, left=tuple(one for one in state.left if one != GUARD))


def against(run: Run, calm: Run) -> Sequence[tuple[str, str]]:
    """Findings of a disturbed run that the calm run does not have, as (rule, words). Findings about a pod with a fixed name are
    compared by rule and pod. Devices, nodes and generated names differ between runs: there only the number by rule counts."""
    named = run.waited.keys() & calm.waited.keys()

    def known_by(rule: str, words: str) -> tuple[str, str]:
        of = words.partition(": ")[0]
        return rule, of if of in named else ""

    known = Counter(known_by(*one) for one in calm.found)
    found = []
    for one in run.found:
        if known[known_by(*one)]:
            known[known_by(*one)] -= 1
        else:
            found.append(one)
    found += [("late", words) for words in _late(run, calm)]
    return [*found, *(("not as calm", words) for words in differences(calm.state, run.state))]


def _late(run: Run, calm: Run) -> Iterator[str]:
    for pod, took in run.waited.items():
        before = calm.waited.get(pod, 0.0)
        if took > before + LATER:
            yield f"pod {pod} waited {took:.0f} s, not {before:.0f}"
