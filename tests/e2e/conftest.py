"""One control plane for all, and the file of results that docs/tested-against.md is made from."""

from __future__ import annotations

import json
import os
import platform
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.project.docs.tested import RESULTS
from tests.support.control_plane import ControlPlane, assets, running

ABOUT = "E2E_SERVER"
"""Variable with words on where the binaries come from, such as "kind's node image"."""

if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # also then the control plane is ended
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    binaries = assets()
    if isinstance(binaries, str):
        pytest.skip(binaries)
    with running(binaries, tmp_path_factory.mktemp("plane")) as plane:
        plane.install("base")
        plane.install("publisher")
        yield plane


@pytest.fixture(autouse=True)
def told(plane: ControlPlane, record_property: Any) -> None:
    record_property("server", plane.version())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.timeout(1200))


_rows: dict[str, dict[str, Any]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what a test told of itself; a worker's reports come here too."""
    properties = dict(report.user_properties)
    server = properties.pop("server", "")
    if not server or (report.when != "call" and not report.failed):
        return
    name = report.nodeid.removeprefix("tests/e2e/")
    row = {"server": server, "outcome": report.outcome, "seconds": round(report.duration), **properties}
    _rows[name] = row | ({"reason": report.longrepr[2]} if isinstance(report.longrepr, tuple) else {})


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        write(_rows, RESULTS)


def write(rows: dict[str, dict[str, Any]], path: Path) -> None:
    """Add results to the file, those of one server. A test that ran before gets another run, and its newest numbers."""
    if not rows:
        return
    server = next(iter(rows.values()))["server"]
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known = before.get("tests", {}) if before.get("server") == server else {}
    for name, row in rows.items():
        old = known.get(name, {})
        passed = old.get("passed", 0) + (row["outcome"] == "passed")
        told = {key: value for key, value in row.items() if key != "server"}
        known[name] = told | {"runs": old.get("runs", 0) + (row["outcome"] != "skipped"), "passed": passed}
    about = os.environ.get(ABOUT) or (before.get("about", "") if before.get("server") == server else "")
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    found = {"server": server, "about": about, "machine": machine, "tests": dict(sorted(known.items()))}
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
