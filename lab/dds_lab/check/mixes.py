"""Random mixes of pods that need a device, a server, or both, beside a simulated Cluster Autoscaler: a seed draws a mix, which is
played and judged.

At any time: no server is added if a device is enough, no server with a device is removed, no pod is evicted from a node to which
a device is on its way, a group's target equals its instances, and no action is repeated again and again. At the end: every pod
that can run has run, no unneeded server is left, every device is back in the pool, and the log verifies.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.model import GroupsView
from dds_core.autoscaler.policy import AutoscalePolicy, read_autoscale_policy
from dds_core.autoscaler.records import DELETED_BY_CA, STARTING
from dds_core.log import MemoryLog
from dds_core.log.chain import verify_log
from dds_core.replay import verify
from dds_core.scaler.policy import Policy, SchedulerPolicy
from dds_lab.actors.clusterautoscaler import (
    SAFE_TO_EVICT,
    CaSettings,
    Cluster,
    ClusterAutoscaler,
    Did,
    asks_of,
    room_of,
)
from dds_lab.actors.objects import node_of, results
from dds_lab.actors.servers import Servers, ServersSettings
from dds_lab.actors.workloads import Workloads
from dds_lab.autoscaling import OurAutoscaler
from dds_lab.check.draw import Draw
from dds_lab.check.subjects import CLUSTER
from dds_lab.client import Object
from dds_lab.driver import SCALER_USER, OurScaler
from dds_lab.judge import Finding
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario, parse
from dds_lab.scenario.scenario import Run
from dds_lab.setup import install_guard
from dds_lab.time import MICROSECONDS

GROUP = "big"
MODEL, DEVICE, FABRIC = "A100 40G", "nvidia-a100-40", "1"
CPU = 16
LABELS = {"cohdi.io/fabric": FABRIC, f"cohdi.io/{DEVICE}": "true"}
AMOUNTS = {"cpu": str(CPU), "memory": "64Gi", "pods": "110"}
AGAIN = 4
"""So many equal actions for one pod or node are a finding."""
QUIET = 1500.0
"""Seconds after the last pod has come or gone within which everything must be at rest."""


@dataclass(frozen=True)
class Blow:
    """A process ends `at` seconds; another one starts `lasts` seconds later. `who`: autoscaler, scaler, or ca."""

    at: float
    who: str
    lasts: float


@dataclass(frozen=True)
class Mix:
    """A drawn mix: `nodes` running servers, `devices` in the pool, and pods with their time of arrival in seconds. Idle devices
    go back after `idle` seconds. Pods in `movable` may be evicted to remove a server."""

    seed: int
    nodes: int = 1
    devices: int = 1
    most: int = 3
    stock: int = 3
    fails: float = 0.0
    pods: tuple[tuple[float, Run], ...] = ()
    blows: tuple[Blow, ...] = ()
    movable: frozenset[str] = frozenset()
    idle: int = 40
    ca: CaSettings = field(default=CaSettings(unneeded=120.0, after_add=60.0, provision=300.0, backoff=60.0))

    @property
    def ends(self) -> float:
        """Seconds after which nothing new happens."""
        lasting = [at + (one.delete_after or 0.0) for at, one in self.pods]
        return max([*lasting, *(one.at + one.lasts for one in self.blows)], default=0.0)

    def can_run(self, pod: Run) -> bool:
        """Whether a server with devices of the pool could run the pod."""
        return int(pod.cpu or 0) <= CPU and sum(pod.devices.values()) <= self.devices


def mix_of(seed: int) -> Mix:
    draw = Draw(seed)
    nodes, wanting = draw.whole(1, 3), draw.one((0.3, 0.6, 0.9))
    pods = []
    for number in range(draw.whole(3, 9)):
        devices = {DEVICE: 1 if draw.chance(0.8) else 2} if draw.chance(wanting) else {}
        cpu = draw.one((1, 4, 8, 12, 16)) if not draw.chance(0.05) else 2 * CPU
        run = Run(
            name=f"pod{number}",
            devices=devices,
            template=draw.chance(0.6),
            cpu=str(cpu),
            delete_after=draw.between(30.0, 400.0),
        )
        pods.append((draw.between(5.0, 600.0), run))
    blows = []
    for _ in range(draw.whole(0, 3)):
        blows.append(Blow(draw.between(20.0, 900.0), draw.one(("autoscaler", "scaler", "ca")), draw.between(1.0, 60.0)))
    return Mix(
        seed,
        nodes=nodes,
        devices=draw.whole(1, 3),
        most=draw.whole(2, 5),
        stock=draw.whole(1, 4),
        fails=draw.one((0.0, 0.0, 0.3)),
        pods=tuple(pods),
        blows=tuple(blows),
        movable=frozenset(run.name for _, run in pods if draw.chance(0.4)),
        idle=draw.one((20, 60, 300)),
        ca=CaSettings(
            scan=draw.one((2.0, 10.0)),
            unneeded=draw.one((20.0, 60.0, 200.0)),
            after_add=draw.one((10.0, 60.0)),
            provision=300.0,
            backoff=60.0,
            taint=draw.one((1.0, 5.0)),
        ),
    )


def scenario_of(mix: Mix) -> Scenario:
    """The cluster of a mix, without scaler and autoscaler."""
    written = {
        "about": f"A mix of seed {mix.seed}",
        "seed": mix.seed,
        "cluster": {
            "models": [{"model": MODEL, "device": DEVICE, "product": "NVIDIA A100 40GB PCIe"}],
            "fabrics": [{"id": int(FABRIC), "devices": {MODEL: mix.devices}}],
            "nodes": [{"count": mix.nodes, "fabric": int(FABRIC), "cpu": str(CPU), "memory": "64Gi", "pods": 110}],
        },
        "parts": {"scaler": False, "scheduler": {"profiles": {"default-scheduler": {"binding_timeout": "60s"}}}},
        "steps": [],
    }
    return parse(json.dumps(written), f"mix {mix.seed}")


def groups_of(mix: Mix) -> AutoscalePolicy:
    template = {"capacity": AMOUNTS, "labels": LABELS}
    group = {"name": GROUP, "minimum": mix.nodes, "maximum": mix.nodes + mix.most, "template": template}
    return read_autoscale_policy({"mode": "autoscale", "compose_seconds": 240, "groups": [group]})


def policy_of(mix: Mix) -> Policy:
    return Policy(
        mode="detach",
        scan_interval_seconds=60,
        no_removal_seconds=mix.idle,
        no_allocation_seconds=20,
        cool_down_seconds=20,
        scheduler=SchedulerPolicy(binding_timeout_seconds=60),
    )


class MixRun:
    """A mix in a lab, played and judged."""

    def __init__(self, mix: Mix, lab: Lab) -> None:
        self.mix = mix
        self.lab = lab
        self.findings: list[Finding] = []
        self.did: list[Did] = []
        self.ran: set[str] = set()
        start = lab.scenario.start
        self.log = MemoryLog("lab/autoscaler", cluster=CLUSTER, recorded_at=start)
        self.scaler_log = MemoryLog("lab/scaler", cluster=CLUSTER, recorded_at=start)
        self.client = lab.client("mix")
        settings = ServersSettings(GROUP, mix.stock, FABRIC, LABELS, AMOUNTS, fails=mix.fails)
        self.servers = Servers(lab.client("kubelets"), lab.time, lab.fabric, settings)
        self.servers.leaving.append(self._leaves)
        for node in self.client.list("nodes"):
            self.servers.adopt(node["metadata"]["name"], node["spec"]["providerID"])
        install_guard(lab.client("installer"), SCALER_USER)
        self.workloads = Workloads(lab.client("people"), lab.time)
        self.workloads.ran.append(self._runs)
        self.workloads.start()
        self._begin_scaler()
        self._begin_autoscaler()
        self._begin_ca()
        for at, run in mix.pods:
            lab.time.after(at, partial(self._come, run))
        for blow in mix.blows:
            lab.time.after(blow.at, partial(self._strike, blow))

    def _come(self, run: Run) -> None:
        self.workloads.run(run)
        if run.name in self.mix.movable:
            self.client.patch("pods", run.name, {"metadata": {"annotations": {SAFE_TO_EVICT: "true"}}}, "default")

    # -- processes

    def _begin_scaler(self) -> None:
        self.scaler = OurScaler(self.lab, self.scaler_log, policy_of(self.mix))
        self.scaler.start()

    def _begin_autoscaler(self) -> None:
        self.autoscaler = OurAutoscaler(self.lab, self.log, groups_of(self.mix), self.servers)
        self.autoscaler.start()

    def _begin_ca(self) -> None:
        self.ca = ClusterAutoscaler(
            self.lab.client("cluster-autoscaler"),
            self.lab.time,
            lambda: self.autoscaler.provider,
            self.mix.ca,
            self._told,
            self._saw,
        )
        self.ca.start()

    def _strike(self, blow: Blow) -> None:
        """End a process and start another one later."""
        begin = {"scaler": self._begin_scaler, "autoscaler": self._begin_autoscaler, "ca": self._begin_ca}[blow.who]
        if blow.who == "ca":
            self.ca.stop()
        else:
            (self.scaler if blow.who == "scaler" else self.autoscaler).kill()
        self.lab.time.after(blow.lasts, begin)

    # -- rules at any time

    def _find(self, rule: str, whose: str, words: str) -> None:
        self.findings.append(Finding(self.lab.time.now(), rule, whose, words))

    def _runs(self, namespace: str, name: str, phase: str) -> None:
        if phase:
            self.ran.add(name)

    def _saw(self, view: GroupsView) -> None:
        for group in view.groups:
            counted = sum(one.state in ("running", "creating") for one in group.instances)
            if counted != group.target:
                self._find("the target is true", group.id, f"it is {group.target}, and there are {counted} instances")

    def _told(self, did: Did) -> None:
        self.did.append(did)
        cluster = Cluster(self.client)
        if did.kind == "grow":
            self._check_growth(did, cluster)
        elif did.kind == "evict":
            node = did.what[1]
            if any(self._waits_at(claim, node) for claim in cluster.claims.values()):
                self._find("nobody is evicted for whom a device comes", did.what[0], f"{node} gets a device")
        if did.kind in ("grow", "refused", "remove"):
            self._check_again(did)

    def _check_again(self, did: Did) -> None:
        """Growth that failed because no server came may be repeated."""
        in_vain = sum(one.kind == "give up" for one in self.did) if did.kind == "grow" else 0
        times = Counter(what for one in self.did if one.kind == did.kind for what in one.what)
        for what in did.what:
            if times[what] - in_vain == AGAIN:
                self._find("nothing is done again and again", what, f"{did.kind} for the {times[what]}th time")

    def _check_growth(self, did: Did, cluster: Cluster) -> None:
        """A finding if devices at nodes with room would have served all pods for which the server was added."""
        pods = [one for one in cluster.pods if one["metadata"]["name"] in did.what]
        wanted = {pod["metadata"]["name"]: self._wanted(pod["metadata"]["name"]) for pod in pods}
        if not all(wanted.values()):
            return
        rooms = {name: self._room(node, cluster) for name, node in cluster.nodes.items() if _usable(node)}
        devices = self._to_be_had(cluster)
        for pod in pods:
            asks, number = asks_of(pod), wanted[pod["metadata"]["name"]]
            place = next((name for name, room in rooms.items() if _fits(room, asks)), None)
            if place is None or number > devices:
                return
            devices -= number
            rooms[place] = {what: amount - asks.get(what, 0) for what, amount in rooms[place].items()}
        words = f"{len(pods)} pods would be served by devices on nodes that have room"
        self._find("no server where a device will do", ", ".join(did.what), words)

    def _wanted(self, pod: str) -> int:
        return next((sum(run.devices.values()) for _, run in self.mix.pods if run.name == pod), 0)

    def _room(self, node: Object, cluster: Cluster) -> dict[str, int]:
        room = room_of(node["status"]["allocatable"])
        for pod in cluster.pods_on(node["metadata"]["name"]):
            for what, amount in asks_of(pod).items():
                room[what] -= amount
        return room

    def _to_be_had(self, cluster: Cluster) -> int:
        """Number of free or idle devices minus those for which claims wait."""
        held, waiting = 0, 0
        for claim in cluster.claims.values():
            for one in results(claim):
                local = not one["pool"].startswith(f"{DEVICE}-fabric")
                held, waiting = held + local, waiting + (not local)
        attached = sum(len(self.lab.fabric.attached(name)) for name in cluster.nodes)
        return self.lab.fabric.free(FABRIC, MODEL) + attached - held - waiting

    def _waits_at(self, claim: Object, node: str) -> bool:
        """Whether the claim is allocated a pool device for this node."""
        return node_of(claim) == node and any(one["pool"].startswith(f"{DEVICE}-fabric") for one in results(claim))

    def _leaves(self, server: str) -> None:
        there = [one.device.serial for one in self.lab.fabric.attached(server)]
        if there:
            self._find("no device is stranded", server, f"it goes with {', '.join(there)} in it")
        bound = [one["metadata"]["name"] for one in Cluster(self.client).pods_on(server)]
        if bound:
            self._find("no server goes under a pod", server, f"{', '.join(bound)} runs there")

    # -- rules at the end

    def play(self) -> list[Finding]:
        self.lab.run(self.mix.ends + QUIET)
        self._rests()
        return self.findings

    def _rests(self) -> None:
        for _, run in self.mix.pods:
            if self.mix.can_run(run) and run.name not in self.ran:
                self._find("who can run has run", run.name, "it never ran")
        nodes = self.client.list("nodes")
        if len(nodes) != self.mix.nodes:
            names = ", ".join(one["metadata"]["name"] for one in nodes)
            self._find("no server is left that nobody needs", GROUP, f"{names} are there, {self.mix.nodes} are wanted")
        for node in nodes:
            tainted = [
                one["key"] for one in node["spec"].get("taints") or () if one["key"] in (DELETED_BY_CA, STARTING.key)
            ]
            if tainted:
                self._find("no taint is left", node["metadata"]["name"], ", ".join(tainted))
            there = [one.device.serial for one in self.lab.fabric.attached(node["metadata"]["name"])]
            if there:
                self._find("every device is back", node["metadata"]["name"], f"{', '.join(there)} is still there")
        state = self.autoscaler.autoscaler.state
        if state.orders or state.leaving:
            self._find("nothing is left over", GROUP, f"orders {[*state.orders]}, leaving {[*state.leaving]}")
        if any(count > 1 for count in self.servers.made.values()):
            self._find("one server for an order", GROUP, str(self.servers.made))
        for one in (self.autoscaler, self.scaler):
            if one.crashed is not None or one.faults:
                self._find("no process fails", type(one).__name__, f"{one.crashed or one.faults[0]}")
        verify_log(self.log)
        if not verify(self.log.read(), AUTOSCALER).ok:
            self._find("the log decides the same again", self.log.name, "it does not")


@contextmanager
def mix_run(mix: Mix) -> Iterator[MixRun]:
    with Lab.virtual(scenario_of(mix), seed=mix.seed) as lab:
        run = MixRun(mix, lab)
        try:
            yield run
        finally:
            run.ca.stop()
            run.autoscaler.kill()
            run.scaler.kill()


def played(seed: int) -> tuple[tuple[str, str], ...]:
    """Play the mix of a seed; returns the findings as (rule, words)."""
    with mix_run(mix_of(seed)) as run:
        start = run.lab.scenario.start
        return tuple(
            (one.rule, f"at {(one.at - start) / MICROSECONDS:.3f} s {one.of}: {one.text}") for one in run.play()
        )


def _usable(node: Object) -> bool:
    """Whether the node takes pods and pool devices. The labels tell the latter: after a failed attach a node cools down."""
    if any((node["metadata"].get("labels") or {}).get(key) != value for key, value in LABELS.items()):
        return False
    keys = {one["key"] for one in node["spec"].get("taints") or ()}
    return not node["spec"].get("unschedulable") and not keys & {DELETED_BY_CA, STARTING.key}


def _fits(room: dict[str, int], asks: dict[str, int]) -> bool:
    return all(room.get(what, 0) >= amount for what, amount in asks.items())
