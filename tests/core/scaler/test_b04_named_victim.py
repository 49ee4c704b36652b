"""B4: the size was lowered and the operator chose which device goes, by an annotation that it may not even read.

Here the victim is named, marked and tainted first, and the size falls by exactly the marked ones once the marks were read back.
"""

import pytest

from dds_core.scaler import events as e
from tests.support.world import World, one_node


def two_idle_one_used(prefix: str = "cohdi.io") -> World:
    world = one_node("detach", 4, prefix=prefix, no_removal_seconds=100, scan_interval_seconds=0)
    for name in ("a", "b", "c"):
        world.waits(name, "node0")
    world.settle()
    for name, key in zip(("a", "b", "c"), sorted(world.state.inventory.faces), strict=True):
        world.allocate_local(name, "node0", key[2])
        world.bind(name)
    return world


@pytest.mark.parametrize("prefix", ["cohdi.io", "dra.example.com"])
def test_b04_the_victim_is_named_and_nothing_is_lowered_before_its_mark_is_read_back(prefix: str) -> None:
    world = two_idle_one_used(prefix)
    longest, _, _ = sorted(world.state.fleet.resources)
    world.finish("a")
    world.tick(50)
    world.finish("b")
    world.tick(60)
    victim = world.only(e.VictimMarked)
    assert victim.resource == longest
    world.tick(31)
    world.carry_out(e.ClaimsListWanted)
    assert not world.events(e.DetachOrdered), "the mark was not seen on the resource yet"
    world.resource(longest, "node0", marked=True)
    lowered = world.only(e.DetachOrdered)
    assert (lowered.previous, lowered.size, lowered.victims) == (3, 2, (longest,))


def test_b04_an_allocated_device_is_never_the_victim() -> None:
    world = two_idle_one_used()
    world.tick(1000)
    assert not world.events(e.VictimMarked)


def test_b04_a_device_that_leaves_in_the_victims_place_is_told() -> None:
    world = two_idle_one_used()
    longest, _, kept = sorted(world.state.fleet.resources)
    world.finish("a")
    world.tick(101)
    world.carry_out()
    world.tick(31)
    world.carry_out(e.ClaimsListWanted)
    assert world.only(e.DetachOrdered).victims == (longest,)
    world.carry_out()
    world.resource(kept, "node0", state="Detaching", deleting=True)
    assert {a.reason for a in world.events(e.Alerted) if a.of == kept} == {"WrongVictim", "DetachedInUse"}
