"""An environment with some of our distributions and extras and nothing for development, out of this one, which has all."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.commands import REPOSITORY


def _project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


CORE = _project(REPOSITORY)
LAB = _project(REPOSITORY / "lab")
PROJECTS = {one["name"]: one for one in (CORE, LAB)}
OF_THE_LAB = {"dds_lab", "dds_whatif", "dds_lab_commands"}
CHECKOUT = {"tests", "benchmarks"}
"""What is in a checkout and in no installation."""


def named(extra: str) -> set[str]:
    """The distributions that an extra of dds-core names, and those of the extras in it."""
    found = set()
    for one in map(Requirement, CORE["optional-dependencies"][extra]):
        found |= set[str]().union(*map(named, one.extras)) if one.name == CORE["name"] else {one.name}
    return {canonicalize_name(name) for name in found}


def needed(*wanted: str) -> set[str]:
    """Every distribution that pip would install for these requirements."""
    found: set[str] = set()
    more = {Requirement(one) for one in wanted}
    while more:
        one = more.pop()
        if str(one) not in found:
            found |= {str(one), canonicalize_name(one.name)}
            more |= set(_required(one))
    return found


def _required(one: Requirement) -> Iterator[Requirement]:
    if one.name in PROJECTS:
        ours = PROJECTS[one.name]
        texts = [
            *ours["dependencies"],
            *(text for extra in one.extras for text in ours["optional-dependencies"][extra]),
        ]
    else:
        texts = distribution(one.name).requires or []
    for inner in map(Requirement, texts):
        if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)):
            yield inner


def hidden(*wanted: str) -> set[str]:
    """The names of modules that these requirements do not bring, and that this environment has."""
    there = needed(*wanted)
    return {name for name, of in packages_distributions().items() if not there & set(map(canonicalize_name, of))}


def only(folder: Path, *wanted: str) -> dict[str, str]:
    """Variables with which Python finds no module but those that these requirements bring. `folder` is written to."""
    missing = hidden(*wanted) | CHECKOUT | (set() if any(one.startswith(LAB["name"]) for one in wanted) else OF_THE_LAB)
    return without(folder, missing)


def without(folder: Path, missing: set[str]) -> dict[str, str]:
    """Variables with which Python finds none of these modules. `folder` is written to."""
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({missing!r}))\n")
    return {"PYTHONPATH": str(folder)}
