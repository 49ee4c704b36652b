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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what a test told of itself; a worker's reports come here too."""
    properties = dict(report.user_properties)
    server = str(properties.pop("server", ""))
    if "PYTEST_XDIST_WORKER" in os.environ or not server or (report.when != "call" and not report.failed):
        return
    row = {"outcome": report.outcome, "seconds": round(report.duration), **properties}
    row |= {"reason": report.longrepr[2]} if isinstance(report.longrepr, tuple) else {}
    write(server, report.nodeid.removeprefix("tests/e2e/"), row, RESULTS)


def write(server: str, name: str, row: dict[str, Any], path: Path) -> None:
    """Add a result to the file, which is of one server. A test that ran before gets another run, and its newest numbers."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known, about = (before["tests"], before["about"]) if before.get("server") == server else ({}, "")
    old = known.get(name, {})
    runs = {"runs": old.get("runs", 0) + (row["outcome"] != "skipped")}
    known[name] = row | runs | {"passed": old.get("passed", 0) + (row["outcome"] == "passed")}
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    found = {"server": server, "about": os.environ.get(ABOUT) or about, "machine": machine}
    text = json.dumps(found | {"tests": dict(sorted(known.items()))}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
