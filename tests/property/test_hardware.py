"""Random faces of the GPUs of a node (partitions alone, partitions beside the whole on common counters, another driver's view,
virtual functions, shares), taken and released in any order, with gaps in what is listed: no GPU goes while a face of it is in
use, and when none is in use any more, it goes."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dds_core.model import AttachRequest, Device, FabricResource, Slice
from dds_core.scaler import events as e
from tests.support.drawn import examples
from tests.support.world import A100, GPU, World, one_node

VERBS = ("partition", "take", "take", "take", "release", "hide", "half", "show", "wait", "wait")
stories = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 5), st.integers(0, 7)), max_size=30)
GPUS = ("GPU-0", "GPU-1")
OWN = f"local-node0-{GPU}"
BUS, ROOT = "resource.kubernetes.io/pciBusID", "resource.kubernetes.io/pcieRoot"
MOST_PARTS, COUNTED, BESIDE, FUNCTIONS, SHARED = 3, 4, 5, 6, 7
"""How a GPU is listed: 0 whole, up to three partitions, and in other ways."""
REST = 5_000
"""Seconds after which whatever is free has gone."""


@dataclass
class Fleet:
    """The truth: how each GPU is listed now, and by claim the GPU and the name that it holds."""

    world: World
    parts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GPUS, 0))
    held: dict[str, tuple[str, str]] = field(default_factory=dict)
    serial: int = 0

    def do(self, verb: str, which: int, how: int) -> None:
        getattr(self, f"_{verb}")(which, how)
        self.carry_out()

    def carry_out(self) -> None:
        """Whatever goes goes at once: what is taken between the order and its write is not what this is about."""
        while self.world.carry_out():
            pass
        for ordered in self.world.events(e.DetachOrdered):
            for uid in ordered.victims:
                assert all(gpu != uid for gpu, _ in self.held.values()), f"{uid} goes while it is in use"
        self.world.operate()

    def faces(self, gpu: str) -> dict[str, Device]:
        """As the GPU is partitioned now."""
        name, how = gpu.lower(), self.parts[gpu]
        part = Device({**A100.attributes, "type": "mig", "parentUUID": gpu})
        if 0 < how <= MOST_PARTS:
            return {f"{name}-{number}": part for number in range(how)}
        more: dict[str, str] = {BUS: gpu} if how == BESIDE else {ROOT: f"root-{gpu}"} if how == FUNCTIONS else {}
        whole = Device({**A100.attributes, "type": "gpu", "uuid": gpu, **more}, shared=how == SHARED)
        found = {f"{name}-whole": whole}
        if how == COUNTED:
            found = {f"{name}-whole": replace(whole, consumes={gpu: {"units": "2"}})}
            small = Device({**A100.attributes}, consumes={gpu: {"units": "1"}})
            found |= {f"{name}-{number}": small for number in range(2)}
        elif how == BESIDE:
            found[f"{name}-vfio"] = Device({**A100.attributes, "type": "vfio", BUS: gpu})
        elif how == FUNCTIONS:
            found[f"{name}-vf"] = Device({**A100.attributes, "type": "vf", ROOT: f"root-{gpu}"})
        return found

    def names(self, gpu: str) -> list[str]:
        return list(self.faces(gpu))

    def list(self, *, complete: bool = True) -> None:
        """The driver lists all that is still there, in one slice; one of two when it is not complete."""
        there = [gpu for gpu in GPUS if gpu in self.world.state.fleet.resources]
        devices = {name: device for gpu in there for name, device in self.faces(gpu).items()}
        self.serial += 1
        own = Slice(OWN, OWN, GPU, "node0", node="node0")
        kept = devices if complete else dict(list(devices.items())[::2])
        self.world.update(own, devices=kept, generation=self.serial, slices=1 if complete else 2)

    def _partition(self, which: int, how: int) -> None:
        gpu = GPUS[which % 2]
        in_use = any(gpu == other for other, _ in self.held.values())  # what is in use cannot be partitioned anew
        if gpu in self.world.state.fleet.resources and not in_use:
            self.parts[gpu] = how
            self.list()

    def _take(self, which: int, how: int) -> None:
        """The scheduler gives somebody a name that is listed and free, unless it is fenced."""
        fenced = {fence.key[2] for fence in self.world.state.give_back.fences.rows.values()}
        taken = {name for _, name in self.held.values()} | fenced
        gpu = GPUS[which % 2]
        there = self.names(gpu) if gpu in self.world.state.fleet.resources else []
        free = [name for name in there if name not in taken and self.is_listed(name)]
        if free:
            self.serial += 1
            claim = f"c{self.serial}"
            self.held[claim] = (gpu, free[how % len(free)])
            self.world.holds(claim, "node0", self.held[claim][1])

    def is_listed(self, name: str) -> bool:
        pool = self.world.state.inventory.pools.get((GPU, "node0"))
        return pool is not None and pool.usable and name in pool.devices

    def _release(self, which: int, how: int) -> None:
        if self.held:
            claim = sorted(self.held)[which % len(self.held)]
            del self.held[claim]
            self.world.finish(claim)

    def _hide(self, which: int, how: int) -> None:
        if OWN in self.world.state.inventory.slices:
            self.world.gone(self.world.state.inventory.slices.rows[OWN])

    def _half(self, which: int, how: int) -> None:
        self.list(complete=False)

    def _show(self, which: int, how: int) -> None:
        self.list()

    def _wait(self, which: int, how: int) -> None:
        self.world.tick((5, 40, 120, 400)[how % 4])

    def rest(self) -> None:
        for claim in sorted(self.held):
            del self.held[claim]
            self.world.finish(claim)
        for _ in range(20):
            self.list()
            self.world.tick(REST / 20)
            self.carry_out()
        ordered = [uid for one in self.world.events(e.DetachOrdered) for uid in one.victims]
        assert set(ordered) == set(GPUS)


@examples(60, 600)
@given(story=stories)
def test_no_gpu_goes_while_a_face_of_it_is_in_use_and_then_each_goes(story: list[tuple[str, int, int]]) -> None:
    world = one_node("detach", 4, no_removal_seconds=60, scan_interval_seconds=0)
    world.request("ours", "node0", size=2, labels={"app.kubernetes.io/managed-by": "dds"})
    world.update(world.get(AttachRequest, "ours"), state="Running", acted_size=2)
    for gpu in GPUS:
        world.observe(
            FabricResource(gpu, gpu, "ours", type="gpu", model=A100.model, node="node0", state="Online", uuid=gpu)
        )
    fleet = Fleet(world)
    fleet.list()
    for verb, which, how in story:
        fleet.do(verb, which, how)
    fleet.rest()
