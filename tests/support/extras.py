"""An environment with some extras of ours and nothing for development, out of this one, which has all."""

from __future__ import annotations

import tomllib
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.commands import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OURS = {"tests", "benchmarks"}
"""What is in a checkout and in no installation."""


def named(extra: str) -> set[str]:
    """The distributions that an extra names, and those of the extras in it."""
    found = set()
    for one in map(Requirement, PROJECT["optional-dependencies"][extra]):
        found |= set[str]().union(*map(named, one.extras)) if one.name == PROJECT["name"] else {one.name}
    return {canonicalize_name(name) for name in found}


def installed(*extras: str) -> set[str]:
    """Every distribution that pip would install with these extras."""
    found: set[str] = {PROJECT["name"]}
    more = {Requirement(name) for name in PROJECT["dependencies"]}
    more |= {Requirement(name) for extra in extras for name in named(extra)}
    while more:
        one = more.pop()
        if canonicalize_name(one.name) not in found:
            found.add(canonicalize_name(one.name))
            for text in distribution(one.name).requires or ():
                inner = Requirement(text)
                if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)):
                    more.add(inner)
    return found


def only(folder: Path, *extras: str) -> dict[str, str]:
    """Variables with which Python finds no module but those of these extras. `folder` is written to."""
    there = installed(*extras)
    missing = {name for name, of in packages_distributions().items() if not there & set(map(canonicalize_name, of))}
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({missing | OURS!r}))\n")
    return {"PYTHONPATH": str(folder)}
