"""A fabric and a cluster, told to the publisher's engine fact by fact, and the log that comes of it.

    story = PoolStory("publish")
    story.machine("server-0", "1")
    story.stock("1", A100, 3)
    story.carry_out()
    assert story.pool("nvidia-a100-40-fabric1") == ["nvidia-a100-40-0", "nvidia-a100-40-1", "nvidia-a100-40-2"]

`carry_out` plays the writer: what was decided is there, and is observed. Nothing here decides anything.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dds_core.component import Component
from dds_core.engine import EngineOf, Step
from dds_core.log import MemoryLog
from dds_core.log.envelope import Group
from dds_core.model import Allocation, Claim, Result, Taint
from dds_core.publisher import events as e
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.describe import devices_of, digest_of, selector
from dds_core.publisher.events import pool_stream
from dds_core.publisher.model import MANAGED_BY, Host, Limit, Machine, PoolConfig, PoolModel, PoolSlice
from dds_core.publisher.state import PoolState

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
GPU = "gpu.nvidia.com"
A100 = PoolModel(1, "A100 40G", "nvidia-a100-40", GPU)
H100 = PoolModel(2, "H100 80G", "nvidia-h100-80", GPU)
POOL = "nvidia-a100-40-fabric1"


class PoolStory:
    """Each sentence is one change, a tenth of a second after the last, with the deadlines that are due before it."""

    def __init__(self, mode: str = "publish", *, models: tuple[PoolModel, ...] = (A100, H100), **policy: Any) -> None:
        component: Component[PoolState] = PUBLISHER
        self.engine = EngineOf(component)
        self.now = START
        self.steps: list[Step] = []
        self._carried_out = 0
        self.feed(e.Started("test", component.fingerprint, component.projection, 1, mode))
        self.feed(e.PolicyChanged(policy={"mode": mode, **policy}))
        self.observe(PoolConfig("config", models=models))
        self.feed(e.FabricAnswered("machines"))
        self.feed(e.Synced())

    @property
    def state(self) -> PoolState:
        return self.engine.state

    def feed(self, fact: e.Event) -> Step:
        """One fact, a tenth of a second from now."""
        self.tick(0.1)
        self.steps.append(self.engine.feed(fact, self.now))
        return self.steps[-1]

    def tick(self, seconds: float) -> None:
        """Let time pass: every deadline that becomes due comes back at its instant."""
        until = self.now + round(seconds * SECOND)
        while (deadline := self.engine.due(until)) is not None:
            self.steps.append(self.engine.feed(deadline, deadline.due))
        self.now = until

    def observe(self, thing: e.Seen) -> None:
        """The object is now so; nothing is told when nothing changed."""
        fact = e.difference(self.state.object(type(thing), thing.uid), thing)
        if fact is not None:
            self.feed(fact)

    # -- the fabric and the cluster --------------------------------------------------------------------------------

    def machine(self, name: str, fabric: str, limits: dict[str, Limit] | None = None) -> None:
        """A machine of the fabric, and its node of the same name."""
        self.observe(Host(f"node-{name}", name, f"uuid-{name}", {"kubernetes.io/hostname": name}))
        self.feed(e.MachineObserved(Machine(f"uuid-{name}", name, fabric, limits)))

    def stock(self, fabric: str, model: PoolModel, free: int) -> None:
        self.feed(e.StockObserved(fabric, model.model, free))

    def hold(self, claim: str, device: str, pool: str = POOL, node: str = "server-0") -> None:
        """A claim is allocated a device of a pool."""
        result = Result("r0", GPU, pool, device)
        self.observe(Claim(f"claim-{claim}", "default", claim, allocation=Allocation((result,), node)))

    def label(self, node: str, **labels: str) -> None:
        """Labels below the prefix, with dashes for underscores, are put on a node."""
        host = self.state.host(node)
        assert host is not None
        added = {f"cohdi.io/{key.replace('_', '-')}": value for key, value in labels.items()}
        self.observe(replace(host, labels={**host.labels, **added}))

    # -- the writer ------------------------------------------------------------------------------------------------

    def carry_out(self) -> None:
        """Everything that was decided since the last time is done, and seen."""
        while self._carried_out < len(self.steps):
            step = self.steps[self._carried_out]
            self._carried_out += 1
            for number, decision in enumerate(step.decisions, start=1):
                if getattr(decision, "mode", "") != "observe":
                    self._do(decision, f"{self._carried_out}-{number}")

    def _do(self, decision: e.Decision, name: str) -> None:
        match decision:
            case e.PoolPublished():
                self._publish(decision)
            case e.PoolWithdrawn():
                for uid in decision.drop.values():
                    self.feed(e.PoolSliceGone(uid))
            case e.NodeLabelled():
                host = self.state.host(decision.node)
                assert host is not None
                labels = {**host.labels, **decision.labels}
                self.observe(replace(host, labels={key: value for key, value in labels.items() if value is not None}))
            case _:
                return
        self.feed(e.WriteDone(name, type(decision).__name__, decision.subject))

    def _publish(self, decision: e.PoolPublished) -> None:
        for uid in decision.drop.values():
            self.feed(e.PoolSliceGone(uid))
        for one in decision.slices:
            self.observe(
                PoolSlice(
                    f"uid-{one.name}",
                    one.name,
                    decision.driver,
                    decision.pool,
                    decision.generation,
                    len(decision.slices),
                    owner=MANAGED_BY,
                    selector=selector(decision.prefix, decision.model.device, decision.fabric),
                    devices=one.devices,
                    taints=(Taint(decision.taint, "", "NoSchedule"),) if decision.taint else (),
                    digest=digest_of(
                        devices_of(decision.model, one.devices, decision.taint, one.closed, decision.prefix)
                    ),
                )
            )

    # -- asking ----------------------------------------------------------------------------------------------------

    def pool(self, name: str = POOL) -> list[str]:
        """The devices that the pool's slices list."""
        return [device for one in self.state.slices_in((GPU, name)) for device in one.devices]

    def decisions(self, pool: str = POOL) -> list[e.Decision]:
        """What was decided of a pool, oldest first."""
        of = pool_stream(GPU, pool)
        return [one for step in self.steps for one in step.decisions if one.subject == of]

    def groups(self) -> list[Group]:
        """All of it as it goes into a log."""
        return [step.group(number) for number, step in enumerate(self.steps)]

    def log(self, name: str = "lab/publisher") -> MemoryLog:
        """A log of it all."""
        log = MemoryLog(name, cluster="uid", recorded_at=START)
        log.append(self.groups(), epoch=log.take_epoch(START), recorded_at=self.now)
        return log


def told_story(mode: str = "publish") -> PoolStory:
    """Two fabrics: a device is taken, a fabric fails and answers again, a model cools down, and a refused write."""
    story = PoolStory(mode)
    story.machine("server-0", "1", {"A100 40G": Limit(4, 0)})
    story.machine("server-1", "2")
    story.stock("1", A100, 3)
    story.stock("2", H100, 1)
    story.carry_out()
    story.hold("train", "nvidia-a100-40-1")
    story.feed(e.FabricFailed("stock/1/A100 40G", "503 Service Unavailable"))
    story.tick(5)
    story.feed(e.FabricAnswered("stock/1/A100 40G"))
    story.stock("1", A100, 2)
    story.carry_out()
    story.label("server-0", nvidia_a100_40_cooling="true")
    story.carry_out()
    story.stock("2", H100, 2)
    refused = pool_stream(GPU, "nvidia-h100-80-fabric2")
    story.feed(e.WriteRefused("id", "PoolPublished", refused, 422, "Invalid", "spec.devices: too many"))
    return story
