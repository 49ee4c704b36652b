"""Random inventories, attaches, outages and restarts, put to the publisher's rules: what a claim holds is never taken from it,
nothing is listed twice, no more is offered than there is, and in the end the pool is what the fabric has."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dds_core.model import Claim, FabricResource
from dds_core.publisher import events as e
from dds_core.publisher.deciding import decide
from dds_core.publisher.model import FreeDevice, Host, Machine, PoolConfig, PoolSlice
from tests.property.streams import QUICK, SOAK
from tests.support.publisher_world import A100, A100_0, H100, PublisherWorld, labelled, withdrawn

NODES = ("n1", "n2", "n3")
MOVES = (
    "allocate", "allocate", "allocate", "order", "order", "arrive", "arrive", "list", "list", "move on", "move on", "release",
    "release", "return", "survey", "survey", "survey", "resize", "break", "write", "write", "write", "refuse", "obsolete", "wait",
    "restart", "outage", "recover", "cool", "warm", "reconfigure", "leave", "come", "delete slice", "stale", "fresh", "gates",
)  # fmt: skip
moves = st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 7), st.integers(0, 3)), min_size=20, max_size=70)


@dataclass
class Device:
    """A physical device. `node` is where it is attached or under way to, "" in the pool."""

    id: str
    node: str = ""
    arrived: bool = False
    healthy: bool = True


@dataclass
class World:
    """The truth, the board that is told of it, and what must hold at each step."""

    named: bool = False
    board: PublisherWorld = field(default_factory=lambda: PublisherWorld(models=(A100, H100)))
    devices: list[Device] = field(default_factory=lambda: [Device(f"d{n}") for n in range(5)])
    claims: dict[str, tuple[str, str]] = field(default_factory=dict)
    away: bool = False
    cooling: set[str] = field(default_factory=set)
    serial: int = 0
    generation: int = 0

    def __post_init__(self) -> None:
        self.board.nodes("0", *NODES)
        self.survey()
        self.board.synced()
        self.board.write()

    # -- what happens -------------------------------------------------------------------------------------------------

    def do(self, verb: str, which: int, how: int) -> None:
        getattr(self, f"_{verb.replace(' ', '_')}")(which, how)
        self.board.wait(1 + how)
        self.check()

    def survey(self) -> None:
        if self.away:
            return
        free = [one for one in self.devices if not one.arrived]
        devices = tuple(FreeDevice(one.id, one.healthy) for one in free) if self.named else None
        self.board.stock(len(free) if self.named else sum(one.healthy for one in free), devices=devices)

    def _survey(self, which: int, how: int) -> None:
        self.survey()

    def _allocate(self, which: int, how: int) -> None:
        """The scheduler takes a listed device that nobody holds and that has no taint."""
        held = self.board.state.held(A100_0)
        row = self.board.state.pools.get(A100_0)
        free = [name for name in self.board.names() if name not in held]
        if not free or (row is not None and row.taint) or len(self.claims) > 12:
            return
        self.serial += 1
        name = f"c{self.serial}"
        node = NODES[how % 3]
        self.claims[name] = (node, free[which % len(free)])
        self.board.claim(name, node, free[which % len(free)])

    def _order(self, which: int, how: int) -> None:
        """The operator begins to attach a device for a waiting claim."""
        for name, (node, pool) in self.claims.items():
            under_way = sum(one.node == node and self._idle(one) for one in self.devices)
            waiting = sum(where == node and what.startswith("nvidia") for where, what in self.claims.values())
            free = [one for one in self.devices if not one.node and one.healthy]
            if pool.startswith("nvidia") and under_way < waiting and free:
                device = free[which % len(free)]
                device.node = node
                self.board.resource(device.id, node, "Attaching")
                return
            del name

    def _idle(self, device: Device) -> bool:
        return all(held != f"gpu-{device.id}" for _, held in self.claims.values())

    def _arrive(self, which: int, how: int) -> None:
        """The fabric has done it, and counts it out; the operator learns of it now, or with the next move."""
        for device in self.devices:
            if device.node and not device.arrived:
                device.arrived = True
                if how % 2:
                    self.survey()
                self.board.resource(device.id, device.node, "Online", f"GPU-{device.id}")
                return

    def _list(self, which: int, how: int) -> None:
        """The vendor's driver shows what is on a node."""
        node = NODES[which % 3]
        there = {f"gpu-{one.id}": f"GPU-{one.id}" for one in self.devices if one.node == node and one.arrived}
        self.board.local(node, **there)

    def _move_on(self, which: int, how: int) -> None:
        """A waiting claim is allocated anew, on a device of its node."""
        for name, (node, held) in self.claims.items():
            shown = self.board.state.object(PoolSlice, f"l-{node}")
            there = [one for one in self.devices if one.node == node and one.arrived and self._idle(one)]
            seen = [one for one in there if shown is not None and f"gpu-{one.id}" in shown.devices]
            if held.startswith("nvidia") and seen:
                self.claims[name] = (node, f"gpu-{seen[0].id}")
                self.board.claim(name, node, f"gpu-{seen[0].id}", pool=node)
                return

    def _release(self, which: int, how: int) -> None:
        if self.claims:
            name = sorted(self.claims)[which % len(self.claims)]
            del self.claims[name]
            self.board.gone(Claim, f"c-{name}")

    def _return(self, which: int, how: int) -> None:
        """An idle device goes back."""
        for device in self.devices:
            waiting = any(node == device.node and held.startswith("nvidia") for node, held in self.claims.values())
            if device.arrived and self._idle(device) and not waiting:
                self.board.resource(device.id, device.node, "Detaching", f"GPU-{device.id}")
                device.node, device.arrived = "", False
                if how % 2:
                    self.survey()
                self.board.gone(FabricResource, f"r-{device.id}")
                return

    def _resize(self, which: int, how: int) -> None:
        if how % 2:
            self.devices.append(Device(f"e{self.serial}-{len(self.devices)}"))
        else:
            promised = sum(held.startswith("nvidia") for _, held in self.claims.values())
            free = [one for one in self.devices if not one.node]
            if len(free) > promised:
                self.devices.remove(free[which % len(free)])

    def _break(self, which: int, how: int) -> None:
        promised = sum(held.startswith("nvidia") for _, held in self.claims.values())
        free = [one for one in self.devices if not one.node and one.healthy]
        if len(free) > promised:
            free[which % len(free)].healthy = False

    def _write(self, which: int, how: int) -> None:
        self.board.write()

    def _refuse(self, which: int, how: int) -> None:
        if self.board.unwritten:
            event_id, decision = self.board.unwritten.pop()
            self.board.feed(e.WriteRefused(event_id, type(decision).__name__, decision.subject, 500, "InternalError"))

    def _obsolete(self, which: int, how: int) -> None:
        if self.board.unwritten:
            event_id, decision = self.board.unwritten.pop()
            self.board.feed(e.WriteObsolete(event_id, type(decision).__name__, decision.subject, "it moved on"))

    def _wait(self, which: int, how: int) -> None:
        self.board.wait(10 * (which + 1))

    def _restart(self, which: int, how: int) -> None:
        self.board.restart()

    def _outage(self, which: int, how: int) -> None:
        self.away = True
        self.board.feed(e.FabricFailed("machines", "no answer"))

    def _recover(self, which: int, how: int) -> None:
        if self.away:
            self.away = False
            self.board.feed(e.FabricAnswered("machines"))
            self.survey()

    def _label(self, node: str, on: bool) -> None:
        host = self.board.state.host(node)
        if host is not None:
            key = "cohdi.io/nvidia-a100-cooling"
            labels = {name: value for name, value in host.labels.items() if name != key} | ({key: "true"} if on else {})
            self.board.see(Host(host.uid, host.name, host.machine, labels))

    def _cool(self, which: int, how: int) -> None:
        self._label(NODES[which % 3], True)

    def _warm(self, which: int, how: int) -> None:
        self._label(NODES[which % 3], False)

    def _reconfigure(self, which: int, how: int) -> None:
        models = ((A100, H100), (H100,), (A100,))[which % 3]
        self.board.see(PoolConfig("config", models=models))

    def _leave(self, which: int, how: int) -> None:
        if not self.away:
            self.board.feed(e.MachineGone(f"m-{NODES[which % 3]}"))

    def _come(self, which: int, how: int) -> None:
        if not self.away:
            node = NODES[which % 3]
            self.board.feed(e.MachineObserved(Machine(f"m-{node}", node, "0")))

    def _delete_slice(self, which: int, how: int) -> None:
        live = self.board.live()
        if live:
            self.board.gone(PoolSlice, live[which % len(live)].uid)

    def _stale(self, which: int, how: int) -> None:
        if self.board.state.process.synced:
            self.board.feed(e.Stale("resourceclaims", 200))

    def _fresh(self, which: int, how: int) -> None:
        self.board.feed(e.Synced())

    def _gates(self, which: int, how: int) -> None:
        self.board.feed(e.Capabilities(device_taints=bool(which % 2)))

    # -- what must hold ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        state = self.board.state
        row = state.pools.get(A100_0)
        held = set(state.held(A100_0))
        names = self.board.names()
        assert len(names) == len(set(names)), "a device is listed twice"
        if row is not None and not state.process.stale:
            # What was refused is not written any more; until it may be decided again, the pool stays as it is in the cluster.
            assert row.void or held <= set(row.names), "a device that a claim holds is not to be listed any more"
            assert all(len(one.devices) <= (64 if row.taint else 128) for one in row.slices)
        generations = [one.generation for one in self.board.live()]
        if generations:
            assert max(generations) >= self.generation or not names, "the generation went back"
        assert not withdrawn(self.board.decided) or not held & set(names) or row is not None
        if state.live and state.process.synced and not state.process.stale:
            state.dirty.everything = True
            assert decide(state, self.board.now).emitted == [], "a look at everything finds what was not looked at"
            state.dirty.clear()

    def settle(self) -> None:
        """Everything calms down: what was withheld is told, what was decided is written."""
        self._recover(0, 0)
        for node in NODES:
            self._come(NODES.index(node), 0)
            self._label(node, False)
        self.board.see(PoolConfig("config", models=(A100, H100)))
        while any(one.node and not one.arrived for one in self.devices):
            self._arrive(0, 0)
        for place in range(3):
            self._list(place, 0)
        self.board.feed(e.Capabilities(), e.Synced())
        self.survey()
        for _ in range(12):
            self.board.write()
            self.board.wait(1200)
            self.check()

    def expected(self) -> int:
        """How many the pool is to list: what is held there, and what is free and promised to nobody."""
        held = self.board.state.held(A100_0)
        free = sum(one.healthy for one in self.devices if not one.arrived)
        waiting = 0
        for node in NODES:
            here = sum(where == node for where in held.values())
            idle = sum(one.node == node and one.arrived and self._idle(one) for one in self.devices)
            waiting += max(0, here - idle)
        return len(held) + max(0, free - waiting)


def play(story: list[tuple[str, int, int]], *, named: bool) -> None:
    world = World(named=named)
    for verb, which, how in story:
        world.do(verb, which, how)
    world.settle()
    names = world.board.names()
    if named:
        assert len(names) <= world.expected()
        held = world.board.state.held(A100_0)
        free = {f"nvidia-a100-{one.id}" for one in world.devices if one.healthy and not one.arrived}
        assert set(names) <= free | set(held)
        if not held:
            assert set(names) == free
    else:
        assert len(names) == world.expected()
    assert labelled(world.board.wait(3600)) == []
    assert world.board.write() == 0, "at rest nothing is written"
    world.board.verified()


TAKEN_AFTER_A_REFUSAL = [
    *[("allocate", 0, 0)] * 4, ("order", 0, 0), ("order", 0, 0), ("reconfigure", 1, 0), ("refuse", 0, 0), ("allocate", 0, 0),
]  # fmt: skip


@QUICK
@given(story=moves)
@example(story=TAKEN_AFTER_A_REFUSAL)
def test_no_story_takes_a_device_from_its_claim_and_the_pool_comes_to_what_is_free(
    story: list[tuple[str, int, int]],
) -> None:
    play(story, named=False)


@QUICK
@given(story=moves)
def test_nor_where_the_fabric_names_its_devices(story: list[tuple[str, int, int]]) -> None:
    play(story, named=True)


@pytest.mark.soak
@SOAK
@given(
    story=st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 7), st.integers(0, 3)), max_size=200),
    named=st.booleans(),
)
def test_no_long_story_does(story: list[tuple[str, int, int]], named: bool) -> None:
    play(story, named=named)
