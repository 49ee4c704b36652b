"""A whole lab, made from a scenario: API server, hardware and all actors. Only this module knows all of them.

It runs on virtual time (`Lab.virtual`) or on any other `Time`. It does no I/O except to read the scenario's file of pods;
`serving` serves a lab over HTTP.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from dds_lab import lab_settings, setup
from dds_lab.actors.apps.deployments import Deployments
from dds_lab.actors.apps.jobs import Jobs
from dds_lab.actors.apps.replicasets import ReplicaSets
from dds_lab.actors.apps.statefulsets import StatefulSets
from dds_lab.actors.claim_controller import ClaimController
from dds_lab.actors.fabric import Fabric
from dds_lab.actors.garbage import Garbage
from dds_lab.actors.kubelet import Driver, Kubelet
from dds_lab.actors.ledger import Ledger
from dds_lab.actors.node_lifecycle import NodeLifecycle
from dds_lab.actors.operator import Operator
from dds_lab.actors.publisher import ReferencePublisher
from dds_lab.actors.scaler import ReferenceScaler
from dds_lab.actors.scheduler import Scheduler
from dds_lab.actors.taints import TaintEviction
from dds_lab.actors.vendor import NodeDevices, VendorDriver
from dds_lab.actors.workloads import Arrivals, Mix, Workloads
from dds_lab.api.kinds import Object
from dds_lab.api.requests import MASTERS, Call
from dds_lab.api.server import ApiServer
from dds_lab.api.status import ApiError, Cause
from dds_lab.client import Client, Server, instants
from dds_lab.faults.world import Chaos, Stalled
from dds_lab.manager import Login, Manager
from dds_lab.record.recorder import Recorder, Sink
from dds_lab.scenario import Scenario
from dds_lab.scenario import parts as written
from dds_lab.scenario.parts import PART_NAMES, PartName
from dds_lab.steps import Steps
from dds_lab.time import MICROSECONDS, Time, VirtualTime

HISTORY = 20_000
FIRST_WAIT, LAST_WAIT, QUIET = 10.0, 300.0, 600.0
"""Seconds. The kubelet's back-off for a container that exits: first wait, longest wait, time without an exit that resets it."""
SCHEDULER_USER = "system:kube-scheduler"
_STORY = "story"
_WEBHOOK = "vcomposabilityrequest-v1alpha1.kb.io"


class Actor(Protocol):
    """A simulated component of the cluster."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """A run makes next to no cycles. Looking for them goes through all objects there are, so it is done seldom. The threshold
    belongs to the process: runs of one process come one after the other."""
    usual = gc.get_threshold()
    gc.set_threshold(100_000, 50, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class Lab:
    """`server`: the API server. `fabric`: the hardware. `manager`: its REST API, None without one. `ledger`: all attaches and
    detaches. `steps`: the scenario's steps. `exits`: a message for each part that ended by itself; `tell` also gets these."""

    def __init__(
        self,
        scenario: Scenario,
        time: Time,
        *,
        track_updates: bool = False,
        history: int = HISTORY,
        login: Login | None = None,
        api: Server | None = None,
    ) -> None:
        """The lab does nothing before `start`. `track_updates`: track managedFields of plain updates, too, as a real server does.
        `login`: credentials for the manager, by default well-known ones. `api`: the server of an existing cluster, in place
        of one of its own."""
        self.scenario = scenario
        self.time = time
        self.api: Server = api or ApiServer(
            gates=lab_settings.api_gates(scenario),
            now=time.now,
            random=time.random("api"),
            history=history,
            track_updates=track_updates,
        )
        self.fabric = Fabric(time, lab_settings.pools(scenario), scenario.parts.fabric, scenario.faults.fabric)
        self.manager = self._managed(login or Login())
        self.exits: list[str] = []
        self.tell: Callable[[str], None] = lambda text: None
        self._exit_at = 0
        self._exit_wait = FIRST_WAIT
        self._recorders: list[Recorder] = []
        self._running: dict[str, list[Actor]] = {}
        self._clients: dict[str, list[Client]] = {}  # by part
        self.on_client: Callable[[PartName, Client], None] = lambda part, client: None
        self._cast: dict[PartName, Actor] = {}
        self._drivers: dict[str, Driver] = {}
        self._silent: dict[str, None] = {}
        self._stalled = Stalled(time, scenario.faults.allocations)
        self.workloads = Workloads(self.client("workloads"), time)
        self.steps = Steps(self, scenario.steps)
        self._others: list[Actor] = [
            self.workloads,
            *(Mix(self.workloads, time, one) for one in scenario.mix),
            *self._arrivals(scenario.workload),
            self.steps,
            Chaos(self, scenario.faults.chaos),
        ]

    @classmethod
    @contextmanager
    def virtual(cls, scenario: Scenario, *, seed: int | None = None, sink: Sink | None = None) -> Iterator[Lab]:
        """A started lab on virtual time; `sink` gets a recording of it from the first object on."""
        time = VirtualTime(scenario.seed if seed is None else seed, scenario.start)
        lab = cls(scenario, time)
        lab.start(sink)
        try:
            yield lab
        finally:
            lab.stop()

    @property
    def server(self) -> ApiServer:
        """The lab's own API server."""
        assert isinstance(self.api, ApiServer), "the lab has joined a cluster that has a server"
        return self.api

    @property
    def ledger(self) -> Ledger:
        """Every ordered attach and detach with its outcome."""
        return self.fabric.ledger

    def client(self, user: str, groups: tuple[str, ...] = (MASTERS,)) -> Client:
        """A client of the API server for this user, by default with all permissions."""
        return Client(self.api, self.time, user, groups)

    # -- life

    @_seldom_collected()
    def start(self, sink: Sink | None = None) -> None:
        """Create the cluster's objects and start all parts. Raises BadObject for an object that the API server refuses."""
        self._fill(sink)
        for group in self.scenario.cluster.nodes:
            fixed = [model for model, count in group.fixed.items() for _ in range(count)]
            for name in group.names():
                self.fabric.connect(name, "" if group.fabric is None else str(group.fabric), fixed)
        for driver in self.scenario.cluster.drivers:
            devices = NodeDevices(self.client(driver.name), self.time, driver)
            self._drivers[driver.name] = devices
            self._begin("drivers", devices)
        for part in _MAKERS:
            self.begin_part(part)
        for other in self._others:
            self._begin(_STORY, other)

    def _fill(self, sink: Sink | None) -> None:
        admin = self.client("admin")
        setup.define(admin)
        if sink is not None:
            self._recorders.append(Recorder(self.server, self.time, sink))
        setup.fill(admin, self.scenario)

    def stop(self) -> None:
        """Stop all parts; the server and its objects stay."""
        for part in reversed(list(self._running)):
            self.end_part(part)
        for recorder in self._recorders:
            recorder.stop()

    @_seldom_collected()
    def run(self, seconds: float | None = None, *, until: int | None = None) -> None:
        """Advance virtual time by some seconds, or to an instant (microseconds), by default to the scenario's end."""
        assert isinstance(self.time, VirtualTime), "a lab on real time runs by itself"
        if seconds is not None:
            until = self.time.now() + round(seconds * MICROSECONDS)
        elif until is None:
            until = self.scenario.start + round(self.scenario.duration * MICROSECONDS)
        self.time.run(until)

    # -- what steps do to the parts

    def restart(self, part: PartName, down: float = 0.0, node: str = "") -> None:
        """Stop a part, which loses its memory, and start a new one after `down` seconds. With a node, restart only the vendor's
        plugin there."""
        if node:
            self.restart_plugin(node)
            return
        self.end_part(part)
        self.time.after(down, lambda: self.begin_part(part))

    def relist(self, part: PartName, blind: float = 0.0) -> None:
        """Break a part's watches: it receives no events for `blind` seconds and then lists everything again."""
        for client in self._clients.get(part, ()):
            client.cut(blind)

    def cast(self, part: PartName, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Register a running foreign program as a part that the scenario does not start; a restart calls `end` and `begin`."""
        self._cast[part] = _Guest(begin, end)
        self._running[part] = [self._cast[part]]

    def partition(self, node: str, serial: str, profiles: tuple[str, ...]) -> None:
        """Cut a device on a node into partitions."""
        for actor in self._vendors():
            actor.partition(node, serial, profiles)

    def restart_plugin(self, node: str) -> None:
        """Restart the plugins of the vendors' drivers on a node; on a silent node this has no effect."""
        if node in self._silent:
            return
        for actor in self._vendors():
            actor.restart_plugin(node)

    def plugin_age(self, node: str) -> float:
        """Seconds since the newest pod of a plugin on a node was created; infinite without plugins."""
        return min((actor.plugin_age(node) for actor in self._vendors()), default=float("inf"))

    def plugin_starts(self, node: str) -> bool:
        """Whether a plugin on a node is starting, and has still to read which devices are there."""
        return any(actor.is_starting(node) for actor in self._vendors())

    def plugin_restarts(self) -> Counter[str]:
        """How often plugins were restarted, by node, since their drivers were started."""
        return sum((actor.restarts for actor in self._vendors()), Counter())

    def drivers(self) -> frozenset[str]:
        """Names of the vendors' drivers."""
        return frozenset().union(*(actor.drivers() for actor in self._vendors()))

    def _vendors(self) -> list[VendorDriver]:
        return [actor for actor in self._running.get("vendor", ()) if isinstance(actor, VendorDriver)]

    def lose_node(self, node: str) -> None:
        """Delete the node's object and its pods."""
        self.workloads.lose(node)

    def silence(self, node: str, lasts: float | None = None) -> None:
        """Silence a node's kubelet and plugins, for `lasts` seconds or for ever. Its object stays."""
        self._silent[node] = None
        self._tell_silence((node,), ("kubelet", "controllers"))
        if lasts is not None:
            self.time.after(lasts, lambda: self._hear(node))

    def _hear(self, node: str) -> None:
        self._silent.pop(node, None)
        for actor in (*self._running.get("kubelet", ()), *self._running.get("controllers", ())):
            if isinstance(actor, Kubelet):
                actor.find(node)
            elif isinstance(actor, NodeLifecycle):
                actor.heard(node)
        self.restart_plugin(node)

    def _tell_silence(self, nodes: Iterable[str], parts: Iterable[str]) -> None:
        for actor in [actor for part in parts for actor in self._running.get(part, ())]:
            for node in nodes:
                if isinstance(actor, Kubelet):
                    actor.lose(node)
                elif isinstance(actor, NodeLifecycle):
                    actor.silent(node)

    # -- parts

    def _begin(self, part: str, actor: Actor) -> None:
        self._running.setdefault(part, []).append(actor)
        actor.start()

    def begin_part(self, part: PartName) -> None:
        """Start a part unless it runs."""
        if part not in self._running:
            for actor in self._made(part):
                self._begin(part, actor)
            self._tell_silence(self._silent, (part,))

    def _made(self, part: PartName) -> Iterator[Actor]:
        """The actors of a part: the scenario's, else the one of `cast`, else none."""
        knobs = getattr(self.scenario.parts, part)
        if knobs is not None:
            yield from _MAKERS[part](self, knobs)
        elif part in self._cast:
            yield self._cast[part]

    def _client_of(self, part: PartName, user: str) -> Client:
        client = self.client(user)
        self._clients.setdefault(part, []).append(client)
        self.on_client(part, client)
        return client

    def end_part(self, part: str) -> None:
        """Stop a part, which loses its memory."""
        self._clients.pop(part, None)
        for actor in reversed(self._running.pop(part, [])):
            actor.stop()

    def _scheduler(self, knobs: written.SchedulerPart) -> Iterator[Actor]:
        client = self._client_of("scheduler", SCHEDULER_USER)
        yield Scheduler(
            client, self.time, lab_settings.scheduler(self.scenario, knobs, self._stalled), self._scheduler_exited
        )

    def _scheduler_exited(self, why: str) -> None:
        """The scheduler is a static pod: its kubelet restarts it, with a growing back-off."""
        now = self.time.now()
        if now - self._exit_at > QUIET * MICROSECONDS:
            self._exit_wait = FIRST_WAIT
        self._exit_at, wait = now, self._exit_wait
        self._exit_wait = min(2 * wait, LAST_WAIT)
        self.exits.append(f"{instants.written(now)} kube-scheduler exited, restarted after {wait:g} s: {why}")
        self.tell(self.exits[-1])
        self.restart("scheduler", wait)

    def _claims(self, knobs: written.ClaimsPart) -> Iterator[Actor]:
        client = self._client_of("claims", "system:serviceaccount:kube-system:resource-claim-controller")
        yield ClaimController(client, self.time, knobs.look.latency())

    def _controllers(self, knobs: written.ControllersPart) -> Iterator[Actor]:
        client = self._client_of("controllers", "system:kube-controller-manager")
        yield NodeLifecycle(client, self.time, knobs)
        yield Garbage(client, self.time)
        yield from (make(client, self.time) for make in (ReplicaSets, Deployments, StatefulSets, Jobs))
        gates = lab_settings.api_gates(self.scenario)
        own = gates.since("1.35")  # before, rules are obeyed with DRADeviceTaints
        rules = gates.on("DRADeviceTaintRules") if own else bool(lab_settings.taint_rules(self.scenario))
        yield TaintEviction(client, self.time, rules=rules)

    def _kubelet(self, knobs: written.KubeletPart) -> Iterator[Actor]:
        client = self._client_of("kubelet", "system:nodes")
        yield Kubelet(client, self.time, knobs, self.fabric, self._drivers)

    def _vendor(self, knobs: written.VendorPart) -> Iterator[Actor]:
        models = self.scenario.cluster.models
        for name in dict.fromkeys(one.driver for one in models):
            client, its = self._client_of("vendor", f"{name}-plugin"), [one for one in models if one.driver == name]
            driver = self._drivers[name] = VendorDriver(client, self.time, knobs, its, self.fabric)
            yield driver

    def _publisher(self, knobs: written.PublisherPart) -> Iterator[Actor]:
        client = self._client_of("publisher", "composable-dra-driver")
        yield ReferencePublisher(client, self.time, knobs, self.fabric, lab_settings.limit_labels(self.scenario))

    def _managed(self, login: Login) -> Manager | None:
        knobs = self.scenario.parts.manager
        if knobs is None:
            return None
        settings = lab_settings.manager(self.scenario, knobs, login)
        return Manager(self.time, self.fabric, settings, self.scenario.faults.manager)

    def _manager(self, knobs: written.ManagerPart) -> Iterator[Actor]:
        assert self.manager is not None
        yield self.manager

    def _arrivals(self, path: str | None) -> Iterator[Actor]:
        if path is not None:
            yield Arrivals(self.workloads, self.time, lambda: lab_settings.arrivals(path))

    def _operator(self, knobs: written.OperatorPart) -> Iterator[Actor]:
        client = self._client_of("operator", "composable-resource-operator")
        operator = Operator(client, self.time, knobs, self.fabric, self, self._taint_version(knobs))
        if knobs.webhook:
            yield _Webhook(self.server, operator)
        yield operator

    def _taint_version(self, knobs: written.OperatorPart) -> str:
        return lab_settings.operators_taint_version(self.scenario, knobs)

    def _scaler(self, knobs: written.ScalerPart) -> Iterator[Actor]:
        yield ReferenceScaler(self._client_of("scaler", "reference-scaler"), self.time, knobs)


@dataclass(frozen=True)
class _Guest:
    """A foreign program as an actor."""

    start: Callable[[], None]
    stop: Callable[[], None]


class _Webhook:
    """The operator's validating webhook. While the operator is down, the API server refuses the writes that it validates
    (failurePolicy Fail)."""

    def __init__(self, server: ApiServer, operator: Operator) -> None:
        self._server = server
        self._operator = operator

    def start(self) -> None:
        hooks = self._server.admission
        hooks[:] = [*(hook for hook in hooks if hook is not _unanswered), self._judge]

    def stop(self) -> None:
        self._server.admission.remove(self._judge)
        self._server.admission.append(_unanswered)

    def _judge(self, call: Call, old: Object | None, new: Object | None) -> list[Cause] | None:
        if new is None or not _is_judged(call):
            return None
        refusal = self._operator.refusal(new)
        return [Cause("Forbidden", refusal, "")] if refusal else None


def _is_judged(call: Call) -> bool:
    return call.resource.plural == "composabilityrequests" and not call.subresource


def _unanswered(call: Call, old: Object | None, new: Object | None) -> list[Cause] | None:
    if new is not None and _is_judged(call):
        words = f'Internal error occurred: failed calling webhook "{_WEBHOOK}": connection refused'
        raise ApiError(500, "InternalError", words)
    return None


_MAKERS: dict[PartName, Callable[[Lab, Any], Iterator[Actor]]] = {
    "manager": Lab._manager,
    "vendor": Lab._vendor,
    "publisher": Lab._publisher,
    "claims": Lab._claims,
    "controllers": Lab._controllers,
    "kubelet": Lab._kubelet,
    "scheduler": Lab._scheduler,
    "operator": Lab._operator,
    "scaler": Lab._scaler,
}
"""Functions that make the parts, in starting order."""
assert set(_MAKERS) == set(PART_NAMES)
