"""A yard of servers, told to a real engine fact by fact: the nodes and pods of a cluster, the provider that servers come from,
and what Cluster Autoscaler asks. Nothing here decides anything, and nothing looks into the rules."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from dds_core.autoscaler import events as e
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.model import Group, GroupsView, Instance, NodeRef
from dds_core.autoscaler.records import DELETED_BY_CA, Load, Server, Worker
from dds_core.autoscaler.state import dump, load, same
from dds_core.autoscaler.view import is_news, view_of
from dds_core.engine import EngineOf, Step
from dds_core.kit.work import FAULTS
from dds_core.model import Allocation, Claim, Config, Device, FabricResource, Requirement, Result, Slice, Taint
from tests.support.world import A100, GPU, asks, class_of

SECOND = 1_000_000
LABELS = {"cohdi.io/fabric": "1", "cohdi.io/nvidia-a100-40": "true"}
CAPACITY = {"cpu": "16", "memory": "64Gi", "pods": "110"}
ROOM = {"cpu": 16_000, "memory": 64 << 30, "pods": 110}
E = TypeVar("E", bound=e.Event)


def policy(**more: Any) -> dict[str, Any]:
    group = {"name": "big", "maximum": 4, "template": {"capacity": CAPACITY, "labels": LABELS}}
    return {"mode": "autoscale", "groups": [{**group, **more.pop("group", {})}], **more}


class Yard:
    """`node0`, … are nodes of servers that are on; the group is `big`."""

    def __init__(self, nodes: int = 2, **knobs: Any) -> None:
        self.engine = EngineOf(AUTOSCALER)
        self.now = 1_700_000_000 * SECOND
        self.steps: list[Step] = []
        self.feed(e.Started("test", AUTOSCALER.fingerprint, 1, 1, "autoscale"))
        self.feed(e.PolicyChanged(policy(**knobs)))
        self.see(Config("config", models=(A100,)))
        self.see(class_of(A100))
        for number in range(nodes):
            self.on(f"node{number}")
        self.feed(e.Synced())

    # -- telling

    def feed(self, fact: e.Event) -> Step:
        self.tick(0.1)
        return self._taken(self.engine.feed(fact, self.now))

    def tick(self, seconds: float) -> None:
        until = self.now + round(seconds * SECOND)
        while (deadline := self.engine.due(until)) is not None:
            self._taken(self.engine.feed(deadline, deadline.due))
        self.now = until

    def _taken(self, step: Step) -> Step:
        self.steps.append(step)
        faults = [one.text for one in step.decisions if isinstance(one, e.Alerted) and one.reason in FAULTS]
        assert not faults, faults
        return step

    def see(self, thing: Any) -> None:
        """The object is now so."""
        fact = e.difference(self.state.object(type(thing), thing.uid), thing)
        if fact is not None:
            self.feed(fact)

    def gone(self, kind: Any, uid: str) -> None:
        self.feed(e.OBSERVED[kind][1](uid=uid))

    def on(self, node: str, order: str = "", *, labels: dict[str, str] = LABELS, **more: Any) -> None:
        """A server is on, and has registered as a node."""
        self.see(Server(f"server-{node}", "big", order, f"id-{node}", "running"))
        self.see(Worker(node, node, f"id-{node}", labels, ready=True, room=ROOM, **more))

    def off(self, node: str) -> None:
        self.gone(Server, f"server-{node}")

    def change(self, node: str, **fields: Any) -> None:
        self.see(replace(self.state.cluster.workers.rows[node], **fields))

    def condemn(self, *nodes: str) -> None:
        """Cluster Autoscaler is about to remove them."""
        for node in nodes:
            self.change(node, taints=(Taint(DELETED_BY_CA, "", "NoSchedule"),))

    def pool(self, free: int) -> None:
        """The pool of fabric 1 shows so many A100."""
        devices = {
            f"a{number}": Device(attributes=dict(A100.attributes), binding=("FabricDeviceReady",))
            for number in range(free)
        }
        terms = tuple(Requirement(key, "In", (value,)) for key, value in LABELS.items())
        self.see(Slice("pool", "pool", GPU, "nvidia-a100-40-fabric1", 1, 1, selector=terms, devices=devices))

    def claim(self, name: str, node: str = "", device: str = "a0", pool: str = "nvidia-a100-40-fabric1") -> None:
        """A claim for an A100, with `node` allocated there."""
        results = (Result("gpu", GPU, pool, device),)
        allocation = Allocation(results, node) if node else None
        request = asks("gpu", A100.device)
        self.see(Claim(f"claim-{name}", "default", name, requests=(request,), allocation=allocation))

    def pod(self, name: str, *, cpu: int = 1_000, claim: bool = False, **more: Any) -> None:
        """A pod that the scheduler has found no node for, unless `more` says otherwise."""
        more = {"waiting": "Unschedulable", **more}
        names = more.pop("claims", (name,) if claim else ())
        if claim and self.state.uid_of(Claim, "default", name) is None:
            self.claim(name)
        self.see(Load(f"pod-{name}", "default", name, claims=names, asks={"cpu": cpu}, **more))

    def order(self, number: int = 1) -> str:
        """The name of the order that was made as so manieth."""
        return list(dict.fromkeys(one.order for one in self.events(e.ServerOrdered)))[number - 1]

    def device(self, node: str, uuid: str = "GPU-1", state: str = "Online") -> None:
        self.see(FabricResource(f"res-{uuid}", f"res-{uuid}", model=A100.model, node=node, state=state, uuid=uuid))

    def slice(self, node: str, uuid: str) -> Slice:
        """What the driver of a node lists there."""
        device = Device(attributes={**A100.attributes, "uuid": uuid})
        return Slice(f"own-{node}", f"own-{node}", GPU, node, 1, 1, node=node, devices={"gpu-0": device})

    # -- what Cluster Autoscaler does

    def refresh(self) -> GroupsView:
        """A loop begins."""
        if is_news(self.state):
            self.feed(e.Refreshed())
            assert not is_news(self.state), "what is shown is what there is"
        return self.view

    def grow(self, delta: int = 1, group: str = "big") -> str:
        return self._said(self.feed(e.GrowthAsked(group, delta)))

    def shrink(self, delta: int = 1) -> str:
        return self._said(self.feed(e.ShrinkAsked("big", delta)))

    def remove(self, *nodes: str, group: str = "big") -> str:
        refs = tuple(NodeRef(one, one if "/" in one else f"id-{one}") for one in nodes)
        return self._said(self.feed(e.RemovalAsked(group, refs)))

    def _said(self, step: Step) -> str:
        """Why it was refused, "" when it was not."""
        return next((f"{one.kind}: {one.text}" for one in step.decisions if isinstance(one, e.AskRefused)), "")

    # -- asking

    @property
    def state(self) -> Any:
        return self.engine.state

    @property
    def view(self) -> GroupsView:
        return view_of(self.state)

    @property
    def group(self) -> Group:
        (found,) = self.view.groups
        return found

    @property
    def members(self) -> list[str]:
        return sorted(self.view.members)

    @property
    def coming(self) -> list[Instance]:
        return [one for one in self.group.instances if one.state == "creating"]

    def events(self, kind: type[E]) -> list[E]:
        return [event for step in self.steps for event, _ in step.caused if isinstance(event, kind)]

    def sound(self) -> None:
        """Target = members + creating; the log decides the same again; a dump loads as it was."""
        for group in self.view.groups:
            counted = [one for one in group.instances if one.state != "deleting"]
            assert group.target == len(counted), (group.target, group.instances)
            assert 0 <= group.minimum <= group.maximum and group.target <= group.maximum
        again = EngineOf(AUTOSCALER)
        for step in self.steps:
            assert [one for one, _ in again.feed(step.fact, step.at).caused] == [one for one, _ in step.caused]
        assert same(again.state, self.state) and same(load(dump(self.state)), self.state)

    def restart(self) -> list[e.Decision]:
        """A new process, which has heard nothing of what became of writes; gives what it decides."""
        self.feed(e.Started("test", AUTOSCALER.fingerprint, 1, 2, "autoscale"))
        return self.feed(e.Synced()).decisions
