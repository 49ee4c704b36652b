"""What a run of the tests cost: seconds by folder, and the slowest tests. tests/conftest.py loads it as a plugin.

Wall time is summed over the workers. CPU time is that of the test's process and of the programs that it started and that ended.
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import pytest

SLOWEST = 20


def _cpu() -> float:
    programs = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + programs.ru_utime + programs.ru_stime


class Times:
    """Measures in the process that runs a test, adds up in the one that reports."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.wall: defaultdict[str, float] = defaultdict(float)
        self.cpu: defaultdict[str, float] = defaultdict(float)
        self._at = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        self._at = _cpu()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        before, self._at = self._at, _cpu()
        report.cpu = self._at - before
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.wall[report.nodeid] += report.duration
        self.cpu[report.nodeid] += getattr(report, "cpu", 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.wall:
            return
        rows: dict[str, list[float]] = {}
        for test, wall in self.wall.items():
            row = rows.setdefault(test.split("::")[0].removeprefix("tests/").partition("/")[0], [0.0, 0.0, 0.0])
            row[:] = row[0] + 1, row[1] + wall, row[2] + self.cpu[test]
        rows["all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
        say = terminalreporter.write_line
        terminalreporter.section("times")
        say(f"{'folder':<12} {'tests':>6} {'wall s':>8} {'CPU s':>8}")
        for folder, (tests, wall, cpu) in sorted(rows.items(), key=lambda row: (row[0] == "all", row[0])):
            say(f"{folder:<12} {tests:>6.0f} {wall:>8.1f} {cpu:>8.1f}")
        say(f"the run took {time.monotonic() - self.began:.1f} s; its {SLOWEST} slowest tests:")
        for test, wall in sorted(self.wall.items(), key=lambda one: -one[1])[:SLOWEST]:
            say(f"{wall:>8.1f} s, CPU {self.cpu[test]:>6.1f} s  {test}")
