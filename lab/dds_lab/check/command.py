"""Checks a scaler that is a separate program: it gets a kubeconfig for a lab on real time; its connection is disturbed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
import time as wall
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from msgspec.structs import replace as changed

from dds_core.errors import InputError
from dds_lab.api import status
from dds_lab.api.paths import place
from dds_lab.api.requests import MASTERS, Request, Response, User
from dds_lab.api.status import ApiError
from dds_lab.api.watches import BOOKMARK, ERROR, Notice, Watch
from dds_lab.check.oracle import WAITING, EndState, Waits, differences, state_of
from dds_lab.check.perturb import AWAY, HEALED, Choose, Gone, Perturber
from dds_lab.check.running import NEWS, Run
from dds_lab.http_frontend import Credentials, HttpFrontend
from dds_lab.http_frontend.connection import Connection
from dds_lab.http_frontend.credentials import ADMIN
from dds_lab.judge.scaler import Judge, Measure
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario
from dds_lab.serving import HISTORY
from dds_lab.time import MICROSECONDS, RealTime

USER = "scaler"
LEAD = 5.0
"""Seconds of real time that a program has to start before the scenario's first step."""
REST = 30.0
"""Seconds of lab time without a change after which a run counts as at rest."""
LATEST = 300.0
"""Most seconds of lab time to wait for rest after the scenario's end."""
NETWORK = 0.8
"""Seconds of real time that an event may take over the network."""
ENDS = 5
"""How often a program may end by itself in a run."""


class Broken(Exception):
    """The connection breaks before the answer is sent."""


class Program:
    """A command whose process is killed and restarted, with the tap between it and the API server. `ended` has a message for each
    process that ended by itself."""

    asks_the_newest = False

    def __init__(self, command: str, folder: Path, time: RealTime, choose: Choose) -> None:
        self.tap = Perturber(time, self, choose)
        self.ended: list[str] = []
        self.watches: dict[Watched, None] = {}
        self._command = command
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        if self._process is None:
            environment = {**os.environ, "KUBECONFIG": str(self._folder / "kubeconfig"), "RUN": str(self._folder)}
            with (self._folder / "output").open("ab") as output:
                self._process = subprocess.Popen(
                    self._command, shell=True, env=environment, stdin=subprocess.DEVNULL,
                    stdout=output, stderr=output, start_new_session=True,
                )  # fmt: skip

    def end(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def look(self) -> bool:
        """Whether the process ended by itself since the last call; `begin` can then start it again."""
        if self._process is None or self._process.poll() is None:
            return False
        lines = (self._folder / "output").read_text(errors="replace").splitlines()
        self.ended.append(f"it ended with {self._process.returncode}: {lines[-1] if lines else 'not a word'}")
        self._process = None
        return True

    def relist(self, resource: str) -> None:
        """End the program's watches of a resource with the error that their version is too old."""
        for one in list(self.watches):
            if one.resource == resource:
                one.expire()

    def lose_answer(self) -> Exception:
        return Broken()


class Watched:
    """Takes the place of a stream's watch: each event goes to the tap, and the tap calls `hear` (as of `perturb.Hears`) to pass
    it on."""

    def __init__(self, watch: Watch, resource: str, program: Program) -> None:
        self.resource = resource
        self._watch = watch
        self._program = program
        self._passed: list[Notice] = []
        self._ready: Callable[[], None] | None = None
        program.watches[self] = None

    def hear(self, notice: Notice) -> None:
        self._passed.append(notice)
        if self._ready is not None:
            self._ready()

    def expire(self) -> None:
        self._watch.fail(status.expired("too old resource version: its events are gone").status)

    def take(self) -> list[Notice]:
        for notice in self._watch.take():
            if notice[0] == ERROR or (notice[0] == BOOKMARK and not self._program.tap.keeps(self)):
                self._passed.append(notice)
            elif notice[0] != BOOKMARK:
                self._program.tap.hear(self, notice)
        passed, self._passed = self._passed, []
        return passed

    def on_ready(self, call: Callable[[], None] | None) -> None:
        self._ready = call
        self._watch.on_ready(call)

    @property
    def closed(self) -> bool:
        return self._watch.closed

    @property
    def due(self) -> int | None:
        return self._watch.due

    def tick(self) -> None:
        self._watch.tick()

    def close(self) -> None:
        self._program.watches.pop(self, None)
        self._watch.close()


class DisturbedFrontend(HttpFrontend):
    """An HTTP frontend that sends one user's requests through the tap of a program."""

    program: Program

    def answer(self, connection: Connection, request: Request) -> None:
        try:
            user = self.server.access.authenticate(request.headers).name
        except ApiError:
            user = ""
        where = place(request.path)
        if user != USER or where is None:
            super().answer(connection, request)
        elif request.method in ("GET", "HEAD"):
            outcome = self._respond(self._behind(request) if not where.name else request)
            if isinstance(outcome, Response):
                connection.reply(outcome)
            else:
                assert isinstance(outcome.watch, Watch)
                outcome.watch = Watched(outcome.watch, where.plural, self.program)
                connection.stream(outcome.code, outcome.headers, outcome)
        else:
            self._write(connection, request)

    def _write(self, connection: Connection, request: Request) -> None:
        try:
            outcome = self.program.tap.write(partial(self._respond, request))
        except (Gone, Broken):
            connection.cut()
            return
        assert isinstance(outcome, Response), "only what is read is a stream"
        connection.reply(outcome)

    def _behind(self, request: Request) -> Request:
        """Rewrite a list from any version (resourceVersion=0) to an older version, as a replica that is behind would answer."""
        query, where = dict(parse_qsl(request.query)), place(request.path)
        behind = self.program.tap.behind
        if not behind or where is None or "watch" in query or query.get("resourceVersion") != "0":
            return request
        resource = self.server.registry.find(where.group, where.version, where.plural)
        changes = self.server.store.table(resource.key).changes if resource is not None else ()
        if len(changes) <= behind:
            return request
        query |= {"resourceVersion": str(changes[-behind - 1].revision), "resourceVersionMatch": "Exact"}
        return changed(request, query=urlencode(query))


async def played(
    scenario: Scenario, command: str, seed: int, choose: Choose, speed: float, calm: Run | None = None
) -> Run:
    """Play a scenario on real time with a program in it, until the state is that of the calm run; a calm run itself ends when it
    is at rest. Raises InputError for a program that cannot be run."""
    with tempfile.TemporaryDirectory(prefix="dds-lab-check-") as name:
        time = RealTime(asyncio.get_running_loop(), lambda: wall.time_ns() // 1000, seed, speed)
        lab = Lab(later(scenario, LEAD * speed), time, track_updates=True, history=HISTORY)
        program = Program(command, Path(name), time, choose)
        face = DisturbedFrontend(lab.server, time, Credentials({USER: User(USER, (MASTERS,)), "admin": ADMIN}))
        face.program = program
        await face.listen()
        face.kubeconfig(Path(name) / "kubeconfig")
        lab.start()
        try:
            waits = Waits(lab)
            judge = Judge(lab, Measure(news=NEWS + HEALED + NETWORK * speed))
            program.begin()
            await _pass(lab, program, lab.scenario.duration)
            state = await _rest(lab, program, judge, calm)
            tap = program.tap
            found = [(one.rule, f"{one.of}: {one.text}") for one in judge.findings]
            found += [("unsound", one) for one in program.ended]
            return Run(tap.events, tap.writes, tap.chosen, tuple(found), waits.seconds, state)
        finally:
            program.end()
            lab.stop()
            await face.stop()


async def _pass(lab: Lab, program: Program, seconds: float) -> None:
    """Let the lab's time pass; a program that ends by itself is started again."""
    until = lab.time.now() + round(seconds * MICROSECONDS)
    while lab.time.now() < until:
        await asyncio.sleep(0.1)
        if program.look():
            if len(program.ended) > ENDS or not program.tap.events + program.tap.writes:
                raise InputError(
                    program.ended[-1], where="--against", fix="give a command that runs until it is killed"
                )
            lab.time.after(AWAY, program.begin)


async def _rest(lab: Lab, program: Program, judge: Judge, calm: Run | None) -> EndState:
    """The state at rest, or the state after `LATEST` seconds."""
    state, since, began = state_of(judge.view), lab.time.now(), lab.time.now()
    while lab.time.now() < min(since + REST * MICROSECONDS, began + LATEST * MICROSECONDS):
        await _pass(lab, program, 1.0)
        now = state_of(judge.view)
        going = WAITING in now.pods.values() if calm is None else any(differences(calm.state, now))
        if going or now != state:
            state, since = now, lab.time.now()
    return state


def later(scenario: Scenario, seconds: float) -> Scenario:
    """The scenario with all steps and pods so many seconds later."""
    steps = tuple(one if one.at is None else one.model_copy(update={"at": one.at + seconds}) for one in scenario.steps)
    if steps and steps[0].at is None:
        steps = (steps[0].model_copy(update={"at": seconds, "after": None}), *steps[1:])
    mix = tuple(one.model_copy(update={"start": one.start + seconds}) for one in scenario.mix)
    return scenario.model_copy(update={"steps": steps, "mix": mix, "duration": scenario.duration + seconds})
