"""Stores results of runs in a file of JSON lines, so that a run is not played again with the same code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from dds_core.errors import InputError
from dds_lab import shipped
from dds_lab.check.campaign import BROKE_OFF, DRAWN, Case, Found
from dds_lab.scenario import written

CODE = ("dds_core", "dds_adapters", "dds_lab")
"""Packages whose code determines the result of a run."""


@cache
def fingerprint(*more: str) -> str:
    """A hash of all code and data files in these packages and in `more`."""
    found = hashlib.sha256()
    for name in (*CODE, *more):
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        folder = Path(spec.origin).parent
        for path in sorted(each for end in ("py", "yaml", "json") for each in folder.rglob(f"*.{end}")):
            found.update(f"{name}/{path.relative_to(folder)}\n".encode())
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


class Results:
    """A file to which each run is added when it ends. A truncated line is ignored."""

    def __init__(self, path: Path) -> None:
        """Raises InputError for a file of another kind, or one that cannot be read or written."""
        self._path = path
        try:
            with path.open("a+", encoding="utf-8") as file:
                file.seek(0)
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot be used: {error}", where=str(path), fix="name another file") from None
        self._whole = text.endswith("\n") or not text
        self._known = dict(filter(None, map(_read, text.splitlines())))
        if text and not self._known:
            raise InputError("holds no results", where=str(path), fix="name another file, or remove this one")

    def known(self, cases: Iterable[Case]) -> dict[Case, Found]:
        """The stored results among these cases."""
        keys = {case: _key(case) for case in cases}
        return {case: Found(case, tuple(self._known[key])) for case, key in keys.items() if key in self._known}

    def add(self, found: Found) -> None:
        """Store a result. A run that broke off is not stored, so it is played again."""
        if BROKE_OFF in found.rules:
            return
        line = json.dumps({"run": _key(found.case), "said": found.said}, ensure_ascii=False)
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n" if self._whole else f"\n{line}\n")
        except OSError as error:
            raise InputError(f"cannot be written: {error}", where=str(self._path), fix="name another file") from None
        self._whole = True


def _read(line: str) -> tuple[str, list[tuple[str, str]]] | None:
    try:
        row = json.loads(line)
        return row["run"], [(rule, words) for rule, words in row["said"]]
    except (ValueError, KeyError, TypeError):
        return None


def _key(case: Case) -> str:
    at = str(case.perturbation) if case.perturbation is not None else "calm"
    return f"{fingerprint()} {case.who} {case.scenario} {_digest(case.scenario)} {case.seed} {at}"


@cache
def _digest(scenario: str) -> str:
    return "" if scenario in DRAWN else hashlib.sha256(written(shipped.find(scenario)).encode()).hexdigest()[:12]
