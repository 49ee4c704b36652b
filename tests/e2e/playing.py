"""A scenario on a real control plane: `dds lab run SCENARIO --cluster` joins it, `dds serve` decides with the shipped role.

with Play(plane, scenario, folder) as it:
    it.serve(it.log("sqlite"))
    it.to_the_end()
it.held(ENDS["first_attach"])
"""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import BaseModel

from dds_adapters.kubernetes.recording import read_recording
from dds_adapters.sql import upgrade
from dds_lab.check.subjects import policy_of
from dds_lab.scenario import Scenario
from dds_lab.scenario.reading import written
from tests.support.commands import fine
from tests.support.control_plane import ControlPlane
from tests.support.expected_ends import ExpectedEnd
from tests.support.joined import patient, program
from tests.support.serve_program import Program

OVERTIME = 180.0
"""Seconds that a scenario may take beyond its duration: its steps wait for what a cluster does, and the lab leaves."""


class Seen(NamedTuple):
    """What a recording tells. `waits`: by pod the seconds from its creation until it had a node. `attached`: how many devices
    came, by what the operator has written of them."""

    waits: dict[str, float]
    attached: int


def seen_in(recording: Path) -> Seen:
    came: dict[str, int] = {}
    waits: dict[str, float] = {}
    came_in: set[str] = set()
    for one in read_recording(recording):
        if one.resource not in ("pods", "composableresources") or one.type == "BOOKMARK":
            continue
        obj = json.loads(one.raw)
        name = obj["metadata"]["name"]
        if one.resource == "pods":
            came.setdefault(name, one.at)
            if obj["spec"].get("nodeName"):
                waits.setdefault(name, (one.at - came[name]) / 1e6)
        elif (obj.get("status") or {}).get("device_id"):
            came_in.add(obj["metadata"]["uid"])
    return Seen(waits, len(came_in))


class Play:
    """From the moment that the lab has joined until it has left. `seen`: what happened, after the end."""

    def __init__(self, plane: ControlPlane, scenario: Scenario, folder: Path) -> None:
        self.plane = plane
        self.scenario = scenario
        self.folder = folder
        self.seen: Seen
        self._before = set(plane.host.objects(marked=False))
        self._recording = folder / "recording.jsonl.gz"
        self._stack = ExitStack()
        self._programs: list[Program] = []
        self._logs: list[tuple[str, str]] = []
        self._forbidden: list[str] = []

    def command(self, path: Path) -> tuple[str, ...]:
        return ("lab", "run", str(path), "--cluster", str(self.plane.kubeconfig), "-o", str(self._recording))

    def __enter__(self) -> Self:
        path = self.folder / f"{self.scenario.name}.yaml"
        path.write_text(written(self.scenario))
        self.lab = self._stack.enter_context(program(*self.command(path)))
        self.lab.until("has joined", 120.0)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        (self.folder / "lab.txt").write_text(self.lab.text)

    def log(self, url: str, name: str = "lab/scaler") -> str:
        """A new log, whose chain and decisions are verified at the end; `url` is an empty database, or "" for a SQLite file."""
        url = url or f"sqlite:///{self.folder}/{name.partition('/')[2]}.sqlite3"
        upgrade(url)
        self._logs.append((url, name))
        return url

    def serve(self, log: str, *options: str, policy: BaseModel | None = None, command: str = "serve") -> Program:
        """A process of dds with the token of its ServiceAccount."""
        account = {"serve": "dds", "publish": "dds-publisher", "autoscale": "dds-autoscaler"}[command]
        path = self.plane.kubeconfig_of("composable-dra", account)
        told = policy or policy_of(self.scenario, schedulers={})
        one = Program(path, log, self.folder, told, *options, command=command)
        self._programs.append(self._stack.enter_context(one))
        return one

    def to_the_end(self, how: signal.Signals | None = None) -> None:
        """Until the lab has left; `how`: a signal that ends it. Then dds is ended as well."""
        seconds = self.scenario.duration + OVERTIME
        if how is None:
            self.lab.process.wait(seconds)
        else:
            self.lab.end(how, seconds)
        self.lab.until("removed")  # all that it said was read
        for one in self._programs:
            if one.alive:
                self._forbidden += [line for line in _metrics(one) if 'code="403"' in line]
                assert one.end() == 0, one.lines()[-5:]
            self._forbidden += [
                line["msg"] for line in one.lines() if "403 " in line["msg"] or "orbidden" in line["msg"]
            ]

    def held(self, end: ExpectedEnd, refused: bool = False) -> None:
        """`refused`: an API server that has just started forbids what it will allow in a moment. The judge found nothing but
        what it may find, nothing was forbidden to dds, its logs verify, nothing is left, and all ended as it should."""
        found = set(re.findall("^found: ([^:]+):", self.lab.text, re.MULTILINE))
        assert found <= end.found, self.lab.text
        assert self.lab.process.returncode == (2 if found else 0), self.lab.text
        assert bool(found) != ("the judge found nothing" in self.lab.text)
        assert refused or self._forbidden == []
        for url, name in self._logs:
            fine("log", "verify", "--log", url, "--name", name)
        patient(lambda: self.left() == set(), words=self.left)
        self.seen = seen = seen_in(self._recording)
        ran = frozenset(seen.waits)
        assert ran == end.ran if isinstance(end.ran, frozenset) else len(ran) >= end.ran, (ran, self.lab.text)
        assert end.attaches[0] <= seen.attached <= end.attaches[1], (seen, self.lab.text)
        for claim, words in end.failed.items():
            assert any(f"{claim}: {words}" in line["msg"] for one in self._programs for line in one.lines())

    def left(self) -> set[str]:
        """What is there now and was not before."""
        host = self.plane.host
        return {*host.objects(marked=True), *host.objects(marked=False)} - self._before


def _metrics(one: Program) -> list[str]:
    with urllib.request.urlopen(f"{one.address('metrics')}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text.splitlines()
