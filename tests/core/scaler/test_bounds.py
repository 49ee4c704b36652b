"""The search for devices is bounded in steps, and takes none for what is known already."""

from __future__ import annotations

import pytest

from dds_core.matching.search import MOST_STEPS, Search
from dds_core.model import Constraint, Device, Result, Slice
from dds_core.scaler import events as e
from dds_core.scaler.model import UNDECIDED
from tests.support.world import A100, FAILED, GPU, READY, RESCHEDULE, World, asks

TOGETHER = (Constraint(match=f"{GPU}/root"),)
LIMIT = {"max": 200, "fixed": 200}


class Tried:
    """Counts the devices that searches try."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = 0
        counted = Search._count_step

        def count(search: Search) -> None:
            self.steps += 1
            counted(search)

        monkeypatch.setattr(Search, "_count_step", count)


def machine(roots: int, each: int, **more: int) -> World:
    """A node with so many devices under each of its PCIe roots, that are the machine's own; `more`: numbers of attributes in
    which no device is like another."""
    world = World("attach", limit=LIMIT)
    world.node("node0")
    world.pool(A100, 128)
    attributes = {**A100.attributes, "productName": "NVIDIA A100 40GB"}
    devices = {
        f"gpu-{i}": Device(
            {**attributes, "uuid": f"GPU-{i}", "root": f"root{i % roots}"} | {name: i // n for name, n in more.items()}
        )
        for i in range(roots * each)
    }
    world.observe(Slice("local", "node0-gpu", GPU, "node0", 0, 1, node="node0", devices=devices))
    return world


def waits(world: World, name: str, first: int, count: int, constraints: tuple[Constraint, ...] = TOGETHER) -> None:
    """A claim for so many devices, allocated from the pool from device `first` on."""
    world.claim(name, requests=(asks("r0", A100.device, count=count),), constraints=constraints)
    names = (f"{A100.device}-{number}" for number in range(first, first + count))
    results = (Result("r0", GPU, f"{A100.device}-fabric1", one, (READY,), (RESCHEDULE, FAILED)) for one in names)
    world.allocate(name, "node0", *results)


def test_claims_that_no_root_can_serve_cost_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 equal devices, 20 under a root: 21 under one root there are not, whichever are tried. Each claim took a million steps
    (16 s) at each look, and again with each fewer than 21. As many as there are under one root are given in part."""
    world, tried = machine(roots=6, each=20), Tried(monkeypatch)
    for number in range(3):
        waits(world, f"train{number}", 30 * number, 21)
    assert tried.steps < 3 * 1_000
    assert not [one for one in world.events(e.Alerted) if one.reason == UNDECIDED]
    assert world.only(e.AttachOrdered).size == 1, "what comes may be under the root of its twenty"


def test_what_was_not_decided_is_told_and_asked_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of twelve pairs thirteen devices have to be each of another pair, and none is like another: there are 531,441 ways to see
    that it cannot be. The pod alone waits: nothing is ordered for it, and a younger one gets its device at once."""
    world, tried = machine(1, 24, serial=1, pair=2), Tried(monkeypatch)
    unlike = tuple(Constraint(distinct=f"{GPU}/{name}") for name in ("serial", "pair"))
    waits(world, "train", 0, 13, unlike)
    assert MOST_STEPS < tried.steps < MOST_STEPS + 200
    (told,) = (one for one in world.events(e.Alerted) if one.reason == UNDECIDED)
    assert told.text.startswith("which free devices on node0 satisfy claim default/train")
    waits(world, "eval", 20, 1, ())
    before = tried.steps
    world.relabel("node0", {"rack": "a"})
    world.tick(200)
    assert tried.steps < before + 10
    assert world.reserved("eval") == ["GPU-0"]
    assert not world.events(e.AttachOrdered)
    world.finish("eval")
    assert tried.steps > before + MOST_STEPS, "a device is free that was not"
    assert len([one for one in world.events(e.Alerted) if one.reason == UNDECIDED]) == 1
    assert not world.verified().differences
