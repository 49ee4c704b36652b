"""What `make e2e` has seen, from the file that it writes."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.project.docs.markdown import table
from tests.support.commands import REPOSITORY

RESULTS = REPOSITORY / "tests" / "data" / "tested-against.json"


def _results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def server() -> str:
    found = _results()
    about = f", {found['about']}" if found["about"] else ""
    return (
        f"kube-apiserver, kube-scheduler and kube-controller-manager **{found['server']}**{about}; {found['machine']}."
    )


def ran() -> str:
    titles = ("what", "runs", "passed", "pods", "wait p50", "wait p95", "devices attached")
    tests = _results()["tests"]
    return table(titles, [_row(name, row) for name, row in tests.items() if row["runs"]])


def not_run() -> str:
    skipped = {name: row["reason"] for name, row in _results()["tests"].items() if not row["runs"]}
    return table(("what", "why"), [(_what(name), reason) for name, reason in skipped.items()]) if skipped else "None."


def _row(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    waits = row.get("waits", {})
    times = tuple(f"{waits[one]:g} s" if one in waits else "" for one in ("p50", "p95"))
    return (
        _what(name),
        str(row["runs"]),
        str(row["passed"]),
        str(waits.get("pods", "")),
        *times,
        str(row.get("attached", "")),
    )


def _what(name: str) -> str:
    """The words of a test's name, with its parameter."""
    found = re.fullmatch(r"test_(\w+)\.py::test_(\w+)(?:\[(.+)\])?", name)
    assert found, name
    words = found[2].replace("_", " ")
    return f"{words}: {found[3].replace('_', ' ')}" if found[3] else words
