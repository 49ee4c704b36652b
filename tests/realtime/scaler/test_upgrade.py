"""An upgrade of dds while it works: from one version to the next, as wheels in environments of their own, and back again.

Claims are bound, an exchange, an attach and a detach are under way whenever one version ends and the other goes on. There is no
released version to come from, so the older one is this tree, and the next one a copy with what a release brings: other rules, or
events or a schema that the older one cannot read. Then the way back has ended, and both versions say so before they write.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.sql import Database
from dds_core import __version__
from dds_core.fingerprint import FINGERPRINT
from dds_core.replay import fold_log
from dds_core.scaler.component import SCALER
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_core.scaler.state import State
from dds_lab.judge.scaler import Measure
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario
from dds_lab.scenario.reading import parse
from dds_lab.scenario.scenario import Run
from tests.support.commands import REPOSITORY
from tests.support.expected_ends import ExpectedEnd
from tests.support.installed import Installed
from tests.support.later import OTHER_EVENTS, OTHER_RULES, OTHER_SCHEMA, Change, Later
from tests.support.live_lab import eventually
from tests.support.over_http import LOG, Scene
from tests.support.postgres import Postgres
from tests.support.serve_program import LEASE, Program

NEXT, LATER = "0.2.0", "0.3.0"
MODEL = "nvidia-a100-40"
NODES = tuple(f"node{number:04}" for number in range(3))
SOON = Policy(
    mode="detach",
    scan_interval_seconds=5,
    no_removal_seconds=2,
    no_allocation_seconds=5,
    scheduler=SchedulerPolicy(binding_timeout_seconds=90),
)
MEASURE = Measure(news=20.0, lately=120.0, changes=12, beside=240.0)
"""Between two versions nobody decides: a version takes some seconds to start on a busy machine."""


def slow() -> Scenario:
    """Three nodes and a pool, and a fabric that takes so long that whoever ends leaves something under way."""
    text = """
about: A fabric that is slow to detach
start: 2026-11-21T08:00:00Z
duration: 60s
cluster:
  models: [{model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}]
  fabrics: [{id: 1, devices: {A100 40G: 12}}]
  nodes: [{count: 3, fabric: 1}]
parts:
  scheduler: {profiles: {default-scheduler: {binding_timeout: 90s}}}
  fabric: {attach: {between: [1500ms, 2000ms]}, detach: {between: [5s, 6s]}}
  vendor: {start: 10ms, hot_plug: true}
  publisher: {interval: 0s}
"""
    scenario = parse(text, "slow")
    return scenario.model_copy(update={"parts": scenario.parts.model_copy(update={"scaler": None})})


class Bound:
    """The devices and the node of each claim whose pod has a node, as the lab saw them: more than one of either is a loss."""

    def __init__(self, lab: Lab) -> None:
        self.devices: defaultdict[str, set[str]] = defaultdict(set)
        self.nodes: defaultdict[str, set[str]] = defaultdict(set)
        self._now: dict[str, str] = {}
        client = lab.client("upgrade")
        client.mirror("resourceclaims").on_change(self._claim)
        client.mirror("pods").on_change(self._pod)

    def _claim(self, old: Any, new: Any) -> None:
        if new is not None:
            found = ((new.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results") or []
            self._now[new["metadata"]["name"]] = " ".join(f"{one['pool']}/{one['device']}" for one in found)
            self._look(new["metadata"]["name"])

    def _pod(self, old: Any, new: Any) -> None:
        if new is not None and new["spec"].get("nodeName"):
            self.nodes[new["metadata"]["name"]].add(new["spec"]["nodeName"])
            self._look(new["metadata"]["name"])

    def _look(self, name: str) -> None:
        if name in self.nodes:
            self.devices[name].add(self._now[name])

    def kept(self, *names: str) -> None:
        """Each of these has had one allocation and one node since it was bound."""
        for seen in (self.devices, self.nodes):
            assert {name: len(seen[name]) for name in names} == dict.fromkeys(names, 1), seen


class Play:
    """The lab, with a log, in which versions of dds follow one another."""

    def __init__(self, it: Scene, url: str, folder: Path) -> None:
        self.it, self.url, self.folder = it, url, folder
        self.bound: Bound = it.lab.call(Bound)

    def serve(self, version: Installed, url: str = "") -> Program:
        options = ("--migrate", "--checkpoint-events", "20", *LEASE)
        return Program(self.it.lab, url or self.url, self.folder, SOON, *options, program=version.program)

    def run(self, name: str, node: int) -> None:
        """A user starts a pod with a claim of one device."""
        wanted = Run(name=name, devices={MODEL: 1}, node_selector={"kubernetes.io/hostname": NODES[node]})
        self.it.lab.call(lambda lab: lab.workloads.run(wanted))

    def withdraw(self, name: str) -> None:
        self.it.lab.call(lambda lab: lab.workloads.withdraw(name))

    def runs(self, *names: str) -> None:
        eventually(lambda: {*names} <= self.it.outcomes.ran.keys(), 90.0)

    def detached(self) -> int:
        return self.it.lab.call(lambda lab: lab.ledger.count("detach", "done"))

    def state(self) -> State:
        """As the log says."""
        with Database(self.url) as database:
            log = database.log(LOG)
            return fold_log(log.read_lean(log.head().checkpoint - 1), SCALER)

    def under_way(self) -> set[str]:
        """What a version that ends now leaves to the next one."""
        state = self.state()
        lives, devices = state.lifecycle.lives.rows.values(), state.lifecycle.devices.rows.values()
        return {
            *(one.state for one in lives if one.state in ("Attaching", "Bound")),
            *(one.state for one in devices if one.state == "Detaching"),
            *("exchange" for one in state.hand_over.exchanges.rows.values() if one.stage in ("guarding", "listing")),
        }


ENDS = "leads back"
"""What a version says before it writes what the one before cannot read: only a copy leads back."""
ALL = {"Bound", "Attaching", "Detaching", "exchange"}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The version of this tree."""
    return Installed(tmp_path_factory.mktemp("old"), REPOSITORY)


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Later:
    """The next version, with other rules."""
    return Later(tmp_path_factory.mktemp("next"), NEXT, OTHER_RULES)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/log.sqlite3"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def playing(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    """A scene in which these pods run at the end, on a device each, of which so many were attached."""

    def scene(*pods: str, attaches: int, stays: int) -> Scene:
        end = ExpectedEnd(frozenset(pods), (attaches, attaches), stays=stays)
        return Scene(slow(), tmp_path, end=end, policy=SOON, measure=MEASURE, rest=3.0)

    yield scene


def judged(version: Installed, play: Play) -> list[list[Any]]:
    """How a version verifies the log: code and sameness of each span."""
    done = version.dds("log", "verify", play.url, "--format", "json", cwd=play.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["ok"] and not found["differences"]
    return [[span["code"], span["same"]] for span in found["spans"]]


def test_forth_and_back_with_all_of_it_under_way(
    old: Installed, newer: Later, url: str, tmp_path: Path, playing: Callable[..., Scene]
) -> None:
    with playing(*"abcdefghij", attaches=10, stays=8) as it:
        play = Play(it, url, tmp_path)
        with play.serve(old) as first:
            for name, node in zip("abc", range(3), strict=True):
                play.run(name, node)
            play.runs(*"abc")
            leaves_under_way(play, first, gives_back="c", runs="def")
        with play.serve(newer) as second:
            eventually(second.leads)
            play.runs(*"def")
            eventually(lambda: play.detached() == 1)
            play.run("g", 2)
            play.runs("g")
            leaves_under_way(play, second, gives_back="g", runs="hij")
        with play.serve(old) as third:
            eventually(third.leads)
            it.to_the_end()
            assert third.end() == 0
        assert play.detached() == 2
        assert not [line for one in (first, second, third) for line in one.lines() if ENDS in line["msg"]]
        with Database(url) as database:
            it.held(database.log(LOG))
    play.bound.kept(*"abdefhij")
    assert newer.run("-c", "import dds_core; print(dds_core.FINGERPRINT)", cwd=tmp_path).stdout.strip() != FINGERPRINT
    assert judged(old, play) == [[__version__, True], [NEXT, False], [__version__, True]]
    assert judged(newer, play) == [[__version__, False], [NEXT, True], [__version__, False]]


def leaves_under_way(play: Play, version: Program, *, gives_back: str, runs: str) -> None:
    """It ends, as in a rollout, in the middle of an attach, an exchange and a detach."""
    play.withdraw(gives_back)
    for number, name in enumerate(runs):  # the operator takes one after the other
        play.run(name, number % 2)
    eventually(lambda: play.under_way() >= ALL, 60.0, 0.01)
    assert version.end() == 0
    assert play.under_way() >= ALL - {"exchange"} and play.state().hand_over.exchanges.rows


@pytest.mark.parametrize(
    ("changes", "told", "asked", "refusal"),
    [
        pytest.param(
            OTHER_EVENTS,
            f"log {LOG}: events are written in version 2 of their form from now on, dds {__version__} reads up to 1",
            (0, f"dds {LATER} can go on with it, and there is no way back but a copy: events are written in version 2"),
            f"is written in version 2 of its form, this version of dds knows up to 1; dds {LATER} wrote it; "
            f"go on with dds {LATER} or a newer one",
            id="events",
        ),
        pytest.param(
            OTHER_SCHEMA,
            "from schema 0002 on, a dds that knows 0001 refuses it",
            (1, "make a copy, then run `dds db upgrade` on it; an older dds refuses it from then on"),
            "its schema is 0002, made by a newer dds than this one, which knows 0001",
            id="schema",
        ),
    ],
)
def test_where_the_way_back_ends_it_is_said_before_it_begins(
    old: Installed,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    playing: Callable[..., Scene],
    changes: tuple[Change, ...],
    told: str,
    asked: tuple[int, str],
    refusal: str,
) -> None:
    later = Later(tmp_path_factory.mktemp("later"), LATER, changes)
    log, copy = tmp_path / "log.sqlite3", tmp_path / "copy.sqlite3"
    with playing("a", "b", "c", attaches=3, stays=3) as it:
        play = Play(it, f"sqlite:///{log}", tmp_path)

        def check(version: Installed, url: str = play.url) -> tuple[int, str]:
            done = version.dds("db", "check", url, cwd=tmp_path)
            return done.returncode, done.stdout + done.stderr

        with play.serve(old) as first:
            play.run("a", 0)
            play.runs("a")
            assert first.end() == 0
        shutil.copy(log, copy)
        # whoever asks the later version first is told that the way back ends
        code, said = check(later)
        assert code == asked[0] and asked[1] in said, said
        assert check(old)[0] == 0, "nothing was changed"
        # so is whoever reads its lines, before it writes
        with play.serve(later) as second:
            play.run("b", 1)
            play.runs("b")
            assert second.end() == 0
            lines = [line["msg"] for line in second.lines()]
            assert [place for place, line in enumerate(lines) if told in line and ENDS in line] < [
                lines.index("this process decides")
            ]
        # the older one refuses, if it is asked or started, and has written nothing
        code, said = check(old)
        assert code == 1 and refusal in said, said
        before = log.read_bytes()
        with play.serve(old) as third:
            assert third.process.wait(30) == 1
            assert [refusal in line["msg"] for line in third.lines()] == [True], third.lines()
        assert log.read_bytes() == before
        # what can read it goes on, and the older one with the copy, as with any log that went back
        with play.serve(later) as fourth:
            eventually(fourth.seen_all)
            assert fourth.end() == 0
            assert not [line for line in fourth.lines() if ENDS in line["msg"]], "it was said once"
        with play.serve(old, f"sqlite:///{copy}") as fifth:
            eventually(fifth.leads)
            play.run("c", 2)
            it.to_the_end()
            assert fifth.end() == 0
        with Database(f"sqlite:///{copy}") as database:
            it.held(database.log(LOG))
    play.bound.kept("a", "b", "c")
    assert later.dds("log", "verify", play.url, cwd=tmp_path).returncode == 0
