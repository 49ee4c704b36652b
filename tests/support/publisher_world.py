"""A publisher's rules with a small cluster and fabric around them, step by step and without an API: what is decided is written
when the test says so, and what is written is observed.

The truth (`free`, `attached`, who holds what) is kept apart from what the rules were told, so that both can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dds_core.component import COMPONENTS
from dds_core.engine import EngineOf, Step
from dds_core.events import Event
from dds_core.log import MemoryLog
from dds_core.model import Allocation, Claim, FabricResource, Result
from dds_core.publisher import events as e
from dds_core.publisher.describe import BINDING, FAILURE, devices_of, digest_of, selector
from dds_core.publisher.model import (
    MANAGED_BY,
    Attribute,
    Host,
    Machine,
    PoolConfig,
    PoolKey,
    PoolModel,
    PoolSlice,
    SliceLayout,
    Stock,
)
from dds_core.publisher.state import PoolState
from dds_core.replay import fold_log
from dds_core.replay.verification import verify

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
PUBLISHER = COMPONENTS["publisher"]
DRIVER = "gpu.nvidia.com"


def model_named(name: str, index: int = 0, driver: str = DRIVER) -> PoolModel:
    """A model `NVIDIA A100` whose device word is `nvidia-a100`."""
    attributes = {"type": Attribute(string="gpu"), "productName": Attribute(string=name)}
    return PoolModel(index, name, name.lower().replace(" ", "-"), driver, attributes=attributes)


A100, H100 = model_named("NVIDIA A100"), model_named("NVIDIA H100", 1)
A100_0: PoolKey = (DRIVER, "nvidia-a100-fabric0")


def pool_slice(
    name: str, pool: str = "nvidia-a100-fabric0", devices: tuple[str, ...] = (), **fields: object
) -> PoolSlice:
    """A slice of a pool as the API server shows it."""
    given = {"uid": f"uid-{name}", "name": name, "driver": DRIVER, "pool": pool, "devices": devices}
    return PoolSlice(**{**given, "generation": 1, "owner": MANAGED_BY, **fields})  # type: ignore[arg-type]


@dataclass
class PublisherWorld:
    """`feed` facts, `write` what was decided; `decided` holds every decision in order."""

    mode: str = "publish"
    policy: dict[str, object] = field(default_factory=dict)
    models: tuple[PoolModel, ...] = (A100,)
    keep: bool = True

    def __post_init__(self) -> None:
        self.log = MemoryLog("test/publisher", cluster="uid-of-kube-system", recorded_at=START)
        self.now = START
        self.engine: EngineOf[PoolState] = EngineOf(PUBLISHER)
        self.decided: list[e.Decision] = []
        self.unwritten: list[tuple[str, e.Decision]] = []
        self.writes = 0
        self._ordinal = 0
        self._serial = 0
        self.begin()

    @property
    def state(self) -> PoolState:
        return self.engine.state

    # -- time and facts ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A process starts: on an empty log, or on what is in it."""
        self.epoch = self.log.take_epoch(self.now)
        self._ordinal = 0
        self.feed(e.Started("test", PUBLISHER.fingerprint, PUBLISHER.projection, self.epoch, self.mode))
        self.feed(e.PolicyChanged(policy={"mode": self.mode, **self.policy}))
        if self.state.config is None:
            self.see(PoolConfig("config", models=self.models))

    def restart(self) -> None:
        """All that is in memory is lost; what was not written stays undone."""
        self.engine = EngineOf(PUBLISHER, fold_log(self.log.read(), component=PUBLISHER))
        self.unwritten.clear()
        self.begin()
        self.feed(e.FabricAnswered("machines"), e.Synced())

    def feed(self, *facts: Event) -> list[e.Decision]:
        """Facts of this instant, after all that is due; gives what was decided."""
        found: list[e.Decision] = []
        for fact in facts:
            for step in self.engine.run([(self.now, fact)]):
                found += self._logged(step)
        return found

    def wait(self, seconds: float) -> list[e.Decision]:
        """Time passes, and deadlines with it."""
        self.now += round(seconds * SECOND)
        found: list[e.Decision] = []
        while (deadline := self.engine.due(self.now)) is not None:
            found += self._logged(self.engine.feed(deadline, deadline.due))
        return found

    def _logged(self, step: Step) -> list[e.Decision]:
        group = step.group(self._ordinal)
        self._ordinal += 1
        if self.keep:
            rows = self.log.append([group], epoch=self.epoch, recorded_at=step.at)
            ids = [row.event_id for row in rows[1:]]
        else:
            ids = [f"id-{self._ordinal}-{place}" for place in range(len(step.caused))]
        decisions = []
        for (event, _), event_id in zip(step.caused, ids, strict=True):
            assert isinstance(event, e.Decision)
            decisions.append(event)
            if getattr(event, "mode", "observe") != "observe" and not isinstance(event, e.Alerted):
                self._put(event_id, event)
        self.decided += decisions
        return decisions

    def _put(self, event_id: str, decision: e.Decision) -> None:
        """A newer decision about the same takes the place of one that was not written yet."""
        self.unwritten = [one for one in self.unwritten if one[1].subject != decision.subject]
        self.unwritten.append((event_id, decision))

    def see(self, *objects: PoolConfig | Host | PoolSlice | Claim | FabricResource) -> list[e.Decision]:
        """Objects are as given from now on."""
        found: list[e.Decision] = []
        for new in objects:
            fact = e.difference(self.state.object(type(new), new.uid), new)
            if fact is not None:
                found += self.feed(fact)
        return found

    def gone(self, kind: type, uid: str) -> list[e.Decision]:
        """An object is no more."""
        return self.feed(e.OBSERVED[kind][1](uid)) if self.state.object(kind, uid) is not None else []

    # -- a cluster and a fabric ---------------------------------------------------------------------------------------

    def nodes(self, fabric: str, *names: str) -> None:
        """Nodes whose machines are in a fabric."""
        for name in names:
            self.feed(e.MachineObserved(Machine(f"m-{name}", name, fabric)))
            labels = {f"cohdi.io/{one.device}": "true" for one in self.models} | {"cohdi.io/fabric": fabric}
            self.see(Host(f"h-{name}", name, f"m-{name}", labels))

    def synced(self) -> list[e.Decision]:
        """Everything was listed, machines too."""
        return self.feed(e.FabricAnswered("machines"), e.Synced())

    def stock(self, free: int, fabric: str = "0", model: PoolModel = A100, **more: object) -> list[e.Decision]:
        """The fabric has so many free."""
        new = Stock(fabric, model.model, free, **more)  # type: ignore[arg-type]
        if self.state.stock(fabric, model.model) == new and not self.state.in_doubt(fabric, model.model):
            return []
        return self.feed(e.StockObserved(fabric, model.model, new.free, new.devices, new.whole))

    def claim(
        self, name: str, node: str, device: str, pool: str = "nvidia-a100-fabric0", driver: str = DRIVER
    ) -> list[e.Decision]:
        """A claim holds a device: one of a pool, or (the pool is the node) one that is on its node."""
        waits = pool != node
        result = Result("gpu", driver, pool, device, BINDING if waits else (), FAILURE if waits else ())
        return self.see(Claim(f"c-{name}", "default", name, allocation=Allocation((result,), node)))

    def resource(self, name: str, node: str, state: str, uuid: str = "", model: PoolModel = A100) -> list[e.Decision]:
        """A ComposableResource."""
        return self.see(
            FabricResource(f"r-{name}", name, model=model.model, node=node, state=state, uuid=uuid, fabric_id=uuid)
        )

    def local(self, node: str, **uuids: str) -> list[e.Decision]:
        """The vendor's slice of a node: names (with _ for -) and UUIDs."""
        found = {name.replace("_", "-"): uuid for name, uuid in uuids.items()}
        return self.see(PoolSlice(f"l-{node}", node, DRIVER, node, 1, node=node, devices=tuple(found), uuids=found))

    # -- writing --------------------------------------------------------------------------------------------------------

    def write(self, *, observed: bool = True) -> int:
        """Carry out what was decided; gives how many objects were written."""
        before = self.writes
        while self.unwritten:
            event_id, decision = self.unwritten.pop(0)
            self.feed(e.WriteDone(event_id, type(decision).__name__, decision.subject))
            if isinstance(decision, e.PoolPublished | e.PoolWithdrawn):
                self._write_pool(decision, observed)
            elif isinstance(decision, e.NodeLabelled):
                self._write_labels(decision)
        return self.writes - before

    def _write_pool(self, decision: e.PoolPublished | e.PoolWithdrawn, observed: bool) -> None:
        for uid in decision.drop.values():
            self.writes += 1
            if observed:
                self.gone(PoolSlice, uid)
        for one in decision.slices if isinstance(decision, e.PoolPublished) else ():
            assert isinstance(decision, e.PoolPublished)
            new = self.slice_of(decision, one)
            if self.state.object(PoolSlice, new.uid) != new:
                self.writes += 1
                if observed:
                    self.see(new)

    def slice_of(self, decision: e.PoolPublished, one: SliceLayout) -> PoolSlice:
        """A slice as it is once the decision is carried out."""
        known = next((found for found in self.live((decision.driver, decision.pool)) if found.name == one.name), None)
        if known is None:
            self._serial += 1
        return PoolSlice(
            known.uid if known is not None else f"s-{self._serial}-{one.name}",
            one.name,
            decision.driver,
            decision.pool,
            decision.generation,
            len(decision.slices),
            owner=MANAGED_BY,
            selector=selector(decision.prefix, decision.model.device, decision.fabric),
            devices=one.devices,
            digest=digest_of(devices_of(decision.model, one.devices, decision.taint, one.closed, decision.prefix)),
        )

    def _write_labels(self, decision: e.NodeLabelled) -> None:
        host = self.state.host(decision.node)
        if host is None:
            return
        self.writes += 1
        labels = {**host.labels, **{key: value for key, value in decision.labels.items() if value is not None}}
        labels = {key: value for key, value in labels.items() if decision.labels.get(key, value) is not None}
        self.see(Host(host.uid, host.name, host.machine, labels))

    # -- looking --------------------------------------------------------------------------------------------------------

    def live(self, key: PoolKey = A100_0) -> list[PoolSlice]:
        """The slices of a pool as the cluster shows them."""
        return self.state.slices_in(key)

    def names(self, key: PoolKey = A100_0) -> list[str]:
        """The devices of a pool as the cluster shows them."""
        return [name for one in self.live(key) for name in one.devices]

    def verified(self) -> None:
        """The log is what the rules say, and gives this state."""
        report = verify(self.log.read(), component=PUBLISHER)
        assert report.ok, [str(one) for one in report.differences]
        folded = fold_log(self.log.read(), component=PUBLISHER)
        assert PUBLISHER.dump(folded) == PUBLISHER.dump(self.state)


def published(decisions: Iterable[e.Decision]) -> list[e.PoolPublished]:
    """Those about pools that are published."""
    return [one for one in decisions if isinstance(one, e.PoolPublished)]


def withdrawn(decisions: Iterable[e.Decision]) -> list[e.PoolWithdrawn]:
    """Those about pools that go."""
    return [one for one in decisions if isinstance(one, e.PoolWithdrawn)]


def labelled(decisions: Iterable[e.Decision]) -> list[e.NodeLabelled]:
    """Those about nodes."""
    return [one for one in decisions if isinstance(one, e.NodeLabelled)]


def alerts(decisions: Iterable[e.Decision]) -> list[str]:
    """The reasons of what people were told."""
    return [one.reason for one in decisions if isinstance(one, e.Alerted)]


def usual(free: int = 4, **more: object) -> PublisherWorld:
    """One fabric, two nodes, one model, everything seen and written."""
    board = PublisherWorld(**more)  # type: ignore[arg-type]
    board.nodes("0", "n1", "n2")
    board.stock(free)
    board.synced()
    board.write()
    return board
