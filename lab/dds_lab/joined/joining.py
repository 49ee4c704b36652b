"""Joins a cluster with a scenario's hardware, plays and judges it in real time, and leaves.

Nothing is made before everything was looked at and said. What follows the first object is undone, whatever happens; after a
kill -9 the next call finds the rest by its label.
"""

from __future__ import annotations

import asyncio
import threading
import time as wall
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from dds_adapters.kubernetes.cluster import Cluster
from dds_core.errors import DdsError
from dds_lab import setup
from dds_lab.client import ApiError, Client
from dds_lab.http_frontend.serving import LOOPBACK
from dds_lab.joined import checks
from dds_lab.joined.checks import Options, Plan
from dds_lab.joined.heartbeats import RENEW_SECONDS, AlreadyJoined, Heartbeats, taken
from dds_lab.joined.leaving import PATIENCE, Left, leave
from dds_lab.joined.marks import KINDS, LABEL, LEASE, LEASES, LENT
from dds_lab.joined.server import JoinedServer
from dds_lab.judge.scaler import Judge, Measure
from dds_lab.lab import Lab
from dds_lab.lab_settings import V1ALPHA3
from dds_lab.manager import Login
from dds_lab.manager.frontend import ManagerFrontend
from dds_lab.record import record
from dds_lab.record.recorder import Sink
from dds_lab.record.recording_file import RecordingFile
from dds_lab.scenario import Scenario
from dds_lab.scenario import parts as written
from dds_lab.serving import managed_by, new_login
from dds_lab.time import RealTime, VirtualTime

OVER_A_NETWORK = Measure(news=2.0)
"""The judge's tolerances where news takes time."""
DEFINED_SECONDS = 20.0
GLANCE_SECONDS = 0.25
SAME_NOTE_SECONDS = 60.0
DEFINITION = "CustomResourceDefinition"

Say = Callable[[str], None]


@dataclass
class Played:
    """`found`: what the judge found; `failures`: steps that failed; `left`: what was removed at the end, and what stays."""

    found: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    left: Left = field(default_factory=Left)
    why: str = ""
    """Why it ended before its time; "" if it did not."""


@dataclass(frozen=True)
class How:
    """`dry`: only say what would be made. `keep`: leave the objects. `recording`: a file to write. `judged`: judge the scaler.
    `lasts`: seconds until it ends by itself, though not before its steps are done unless it is `cut`; None: never. `host`: where
    the hardware's manager listens; `managed` is called with it, and gives lines to say."""

    dry: bool = False
    keep: bool = False
    recording: str | None = None
    judged: bool = False
    lasts: float | None = None
    cut: bool = False
    host: str = LOOPBACK
    managed: Callable[[ManagerFrontend], Iterable[str]] = lambda face: ()


class JoinedLab(Lab):
    """A lab that uses the API server of an existing cluster."""

    def __init__(self, scenario: Scenario, time: RealTime, server: JoinedServer, plan: Plan, login: Login) -> None:
        super().__init__(scenario, time, login=login, api=server)
        self._joined = server
        self._plan = plan
        self.heartbeats: Heartbeats | None = None

    def silence(self, node: str, lasts: float | None = None) -> None:
        if self.heartbeats is not None:
            self.heartbeats.lose(node)
        super().silence(node, lasts)

    def _hear(self, node: str) -> None:
        if self.heartbeats is not None:
            self.heartbeats.find(node)
        super()._hear(node)

    def define(self) -> None:
        """Make the definitions that are planned, and wait until they are served. Raises ApiError."""
        admin = self.client("dds-lab")
        for place, obj in self._plan.make:
            if obj["kind"] == DEFINITION:
                setup.create(admin, obj, place, patched=True)
                _await_kind(self._joined, obj["spec"]["group"], obj["spec"]["names"]["plural"])

    def _fill(self, sink: Sink | None) -> None:
        """Make all else that was planned."""
        admin = self.client("dds-lab")
        for place, obj in self._plan.make:
            if obj["kind"] != DEFINITION:
                setup.create(admin, obj, place, patched=True)
        for node, labels in self._plan.lend.items():
            marked = {"labels": {**labels, LABEL: self._joined.name}, "annotations": {LENT: ",".join(labels)}}
            admin.patch("nodes", node, {"metadata": marked})

    def _taint_version(self, knobs: written.OperatorPart) -> str:
        version = super()._taint_version(knobs)
        group, _, name = V1ALPHA3.partition("/")
        return version if self._joined.registry.find(group, name, "devicetaintrules") is not None else ""


def _await_kind(server: JoinedServer, group: str, plural: str) -> None:
    """Wait until a new definition is served, so that watches of it begin. Raises ApiError."""
    until = wall.monotonic() + DEFINED_SECONDS
    while True:
        server.registry.read()
        served = [one for one in server.registry.resources() if (one.group, one.plural) == (group, plural)]
        with suppress(ApiError):
            if served:
                server.json(f"/apis/{group}/{served[0].version}/{plural}?limit=1")
                return
        if wall.monotonic() > until:
            raise ApiError(503, "ServiceUnavailable", f"{plural}.{group} was defined and is not served")
        wall.sleep(0.2)


async def join(
    cluster: Cluster, scenario: Scenario, options: Options, how: How, stop: asyncio.Event, say: Say
) -> Played:
    """Join, play until `stop` is set or `how.lasts` is over, and leave. Raises DdsError for whatever is in the way."""
    loop, notes = asyncio.get_running_loop(), _Notes(say)
    loop.set_exception_handler(lambda _, context: notes.add(_told(context)))
    time = RealTime(loop, lambda: wall.time_ns() // 1000, scenario.seed)
    server = JoinedServer(cluster, partial(_post, loop), notes.add, scenario.name[:63])
    client = Client(server, time, "checks", manager="dds-lab")
    scenario = checks.adapted(scenario, options)
    version = checks.release(server)
    checks.rights(server)
    _clear(client, cluster.where, say, how)
    plan = checks.plan(client, server, scenario, options)
    plan.held(cluster.where)
    _announce(scenario, plan, f"{cluster.where} (Kubernetes {version})", say)
    played = Played()
    if how.dry or stop.is_set():
        return played
    nodes = scenario.cluster.node_names()
    server.nodes = nodes
    server.kept = [one for one in nodes if one not in plan.lend]
    run = _Run(cluster, server, time, scenario, plan, how, stop, notes)
    with ExitStack() as recording:  # a file that cannot be written lets nothing begin
        file = None if how.recording is None else recording.enter_context(RecordingFile(how.recording))
        try:
            await run.play(played, say, lambda: recording.enter_context(_recorded(cluster, file, notes)))
        finally:
            await run.end()
            try:
                if not how.keep and run.began:
                    played.left = await asyncio.to_thread(leave, client)
            except ApiError as error:
                what = f"the cluster does not answer: {error}"
                raise DdsError(what, where=cluster.where, fix="'dds lab leave' removes the rest once it does") from None
            finally:
                server.close()
    return played


class _Run:
    """One lab in one cluster."""

    def __init__(
        self, cluster: Cluster, server: JoinedServer, time: RealTime, scenario: Scenario, plan: Plan, how: How,
        stop: asyncio.Event, notes: _Notes,
    ) -> None:  # fmt: skip
        self.began = self._started = False
        self._cluster = cluster
        self._server = server
        self._how = how
        self._stop = stop
        self._lost = False
        self._face: ManagerFrontend | None = None
        loop = asyncio.get_running_loop()
        user = Client(server, time, "heartbeats", manager="dds-lab")
        self._beats = Heartbeats(user, server.kept, partial(_post, loop, self._gone), notes.add)
        self._lab = JoinedLab(scenario, time, server, plan, new_login())
        self._lab.tell = notes.add

    async def play(self, played: Played, say: Say, record: Callable[[], object]) -> None:
        """`record` is called once all kinds are served that there will be."""
        lab = self._lab
        try:
            self._beats.take(lab.scenario.name)
            self.began = True
            lab.define()
            record()
            self._face = await managed_by(lab, self._how.host)
            lab.start()
            self._started = True
        except ApiError as error:
            what = f"the cluster refuses what the lab is made of: {error.code} {error}"
            raise DdsError(what, where=self._cluster.where, fix="what was made is removed again") from None
        lab.heartbeats = self._beats
        self._beats.start()
        judge = Judge(lab, OVER_A_NETWORK) if self._how.judged else None
        if self._face is not None:
            for line in self._how.managed(self._face):
                say(line)
        say(f"{lab.scenario.name} has joined; Ctrl-C ends it")
        until = None if self._how.lasts is None else wall.monotonic() + self._how.lasts
        told = 0
        while not self._stop.is_set():
            if until is not None and wall.monotonic() >= until and (self._how.cut or lab.steps.finished):
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), GLANCE_SECONDS)
            if judge is not None:
                for one in judge.findings[told:]:
                    say(f"found: {one.rule}: {one.of}: {one.text}")
                told = len(judge.findings)
        if self._lost:
            played.why = "its lease is gone: somebody had it leave"
        played.found = [f"{one.rule}: {one.of}: {one.text}" for one in judge.findings] if judge is not None else []
        played.failures = list(lab.steps.failures)

    async def end(self) -> None:
        await asyncio.to_thread(self._beats.stop)
        self._server.over = True
        if self._started:  # a part that could not begin cannot end
            self._lab.stop()
        if self._face is not None:
            await self._face.stop()

    def _gone(self) -> None:
        self._lost = True
        self._stop.set()


def _clear(client: Client, where: str, say: Say, how: How) -> None:
    """Remove what an earlier lab has left. Raises AlreadyJoined while it is alive."""
    if who := taken(client):
        raise AlreadyJoined(f"a lab has joined already ({who})", where=where, fix="end it there, or: dds lab leave")
    found = [kind.partition(".")[0] for kind in KINDS if _any(client, kind)]
    if how.dry and found:
        say(f"an earlier lab has left: {', '.join(found)}; joining would remove them")
    if how.dry or not found:
        return
    say("an earlier lab has left objects; removing them")
    left = leave(client)
    stays = [one for one in left.stays if not one.startswith("namespaces")]
    if stays:
        raise checks.CannotJoin(f"an earlier lab's objects stay: {stays[0]}", where=where, fix="remove them first")


def _any(client: Client, kind: str) -> bool:
    try:
        return bool(client.list(kind, labels=LABEL))
    except ApiError as error:
        if error.code != 404:
            raise
        return False


def leave_now(cluster: Cluster, say: Say) -> Left:
    """Remove whatever lab there is; one that is alive elsewhere ends first. Raises DdsError."""
    server = JoinedServer(cluster, lambda call: None, say, "")
    now = VirtualTime(0, wall.time_ns() // 1000)
    client = Client(server, now, "checks", manager="dds-lab")
    if who := taken(client):
        say(f"ending the lab of {who}")
        client.delete("leases.coordination.k8s.io", LEASE, LEASES)
        wall.sleep(RENEW_SECONDS + 1.0)
    return leave(client, PATIENCE)


def _announce(scenario: Scenario, plan: Plan, where: str, say: Say) -> None:
    """Say what will be made, before anything is."""
    say(f"{scenario.name} joins {where} and makes, all with the label {LABEL}:")
    for line in checks.counted(plan):
        say(f"  {line}")
    parts = [name for name in ("vendor", "publisher", "operator", "scaler", "manager") if getattr(scenario.parts, name)]
    pools = sum(count for one in scenario.cluster.fabrics for count in one.devices.values())
    say(f"  and plays: {', '.join(parts) or 'nothing'}, over {pools} devices that do not exist")
    if scenario.steps or scenario.mix or scenario.workload:
        say(f"  and its work: {len(scenario.steps)} steps{', with a mix of pods' if scenario.mix else ''}")
    for one in plan.uses:
        say(f"uses {one}, which is there")
    for one in plan.lacks:
        say(f"note: {one}")


class _Notes:
    """Says each trouble, the same one at most once a minute."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._said: dict[str, float] = {}
        self._lock = threading.Lock()

    def add(self, text: str) -> None:
        with self._lock:
            now = wall.monotonic()
            if now - self._said.get(text, -SAME_NOTE_SECONDS) >= SAME_NOTE_SECONDS:
                self._said[text] = now
                self._say(text)


def _post(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended, and with it whoever would listen
        loop.call_soon_threadsafe(call)


def _told(context: dict[str, object]) -> str:
    error = context.get("exception")
    kind = (
        f"{error.code} "
        if isinstance(error, ApiError)
        else ""
        if isinstance(error, DdsError)
        else f"{type(error).__name__}: "
    )
    return f"{kind}{error or context.get('message')}"


@contextmanager
def _recorded(cluster: Cluster, file: RecordingFile | None, notes: _Notes) -> Iterator[None]:
    """Record the cluster within the block. Raises DdsError if that cannot begin."""
    if file is None:
        yield
        return
    begun, stop, errors = threading.Event(), threading.Event(), list[DdsError]()

    def run() -> None:
        try:
            record(cluster, file, stop=stop, note=notes.add, begun=begun.set)
        except DdsError as error:
            errors.append(error)
            notes.add(f"the recording ended: {error}")
        finally:
            begun.set()

    thread = threading.Thread(target=run, name="recording", daemon=True)
    thread.start()
    begun.wait()
    try:
        if errors:
            raise errors[0]
        yield
    finally:
        stop.set()
        thread.join()
