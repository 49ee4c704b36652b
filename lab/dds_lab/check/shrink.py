"""Shrinks a scenario that has a finding: removes all parts that the finding does not need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from pydantic import BaseModel

from dds_core.errors import DdsError
from dds_lab import shipped
from dds_lab.check.campaign import DRAWN, Case, Found, cases, faults_of_calm, play
from dds_lab.scenario import Scenario, written

_ModelT = TypeVar("_ModelT", bound=BaseModel)

LISTS = (
    ("steps",),
    ("mix",),
    ("faults", "fabric"),
    ("faults", "manager"),
    ("faults", "wire"),
    ("faults", "allocations"),
)
"""Lists of a scenario from which elements can be removed."""


def shrink(found: Iterable[Found], folder: Path, jobs: int, tell: Callable[[str], None]) -> Iterator[Found]:
    """Group findings by scenario, seed, kind of disturbance and rules. Yield the first of each group in the smallest scenario
    that shows it, which is written to the folder. `tell` gets a message for each removal."""
    seen: set[object] = set()
    for one in found:
        kind = one.case.perturbation.kind if one.case.perturbation is not None else "calm"
        alike = (one.case.scenario, one.case.seed, kind, one.rules)
        if one.case.scenario in DRAWN:
            yield one  # drawn by a seed: there is no scenario file to shrink
        elif alike not in seen:
            seen.add(alike)
            path = folder / f"{Path(one.case.scenario).stem}-{kind}-{len(seen)}.yaml"
            yield _shrunk(one, path, jobs, tell)


def _shrunk(found: Found, path: Path, jobs: int, tell: Callable[[str], None]) -> Found:
    scenario, place = shipped.find(found.case.scenario), 0
    with TemporaryDirectory(prefix="dds-lab-check-") as attempts:
        names = (Path(attempts) / f"{number}.yaml" for number in count(1))
        while place < len(LISTS):
            for smaller, words in _smaller(scenario, LISTS[place]):
                attempt = next(names)
                attempt.write_text(written(smaller), encoding="utf-8")
                again = _shown(found, replace(found.case, scenario=str(attempt), perturbation=None), jobs)
                if again is not None:
                    tell(words)
                    found, scenario = again, smaller
                    break
            else:
                place += 1
    path.write_text(written(scenario), encoding="utf-8")
    return replace(found, case=replace(found.case, scenario=str(path)))


def _smaller(scenario: Scenario, place: tuple[str, ...]) -> Iterator[tuple[Scenario, str]]:
    """Scenarios without the whole list, without each half of it, each quarter, and so on down to single elements."""
    whole = _at(scenario, place)
    size = len(whole)
    while size:
        for start in range(0, len(whole), size):
            left = whole[:start] + whole[start + size :]
            yield _with(scenario, place, left), f"{'.'.join(place)}: {len(left)} of {len(whole)} are left"
        size //= 2


def _at(model: BaseModel, place: tuple[str, ...]) -> tuple[object, ...]:
    for name in place:
        model = getattr(model, name)
    return tuple(model)


def _with(model: _ModelT, place: tuple[str, ...], value: object) -> _ModelT:
    name, *rest = place
    return model.model_copy(update={name: _with(getattr(model, name), tuple(rest), value) if rest else value})


def _shown(found: Found, calm: Case, jobs: int) -> Found | None:
    """A finding in another scenario with one of the same rules and the same kind of disturbance, at any point. None if there is
    none, or the scenario cannot be played."""
    shown: list[Found] = []

    def told(one: Found) -> None:
        if one.rules & found.rules:
            shown.append(one)

    try:
        if found.case.perturbation is None:
            told(faults_of_calm(calm))
        else:
            play(cases(calm, (found.case.perturbation.kind,), 1), jobs, told)
    except DdsError:
        return None
    return min(shown, key=lambda one: str(one.case), default=None)
