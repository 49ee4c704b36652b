"""One hardware that a driver lists in two forms, such as a GPU and the same GPU for a virtual machine, with a UUID of its own.
While the one is used, drivers hide the other (gpu.nvidia.com with its VFIO devices): that a name is gone does not say that nobody
has it."""

from __future__ import annotations

import pytest

from dds_core.scaler import events as e
from tests.support.world import A100, World

BUS = {"resource.kubernetes.io/pciBusID": "0000:19:00.0"}
VM = BUS | {"type": "vfio"}


def composed() -> World:
    """A composed GPU, listed as such."""
    world = World("detach", exchange=True, scan_interval_seconds=0, no_removal_seconds=30)
    world.node("node0")
    world.pool(A100, 4)
    labels = {"app.kubernetes.io/managed-by": "dds"}
    world.request("ours", "node0", labels=labels, state="Running", acted_size=1)
    world.resource("res", "node0", request="ours", uuid="GPU-1", state="Online")
    world.plug("node0", "gpu-1", "GPU-1", more=BUS)
    return world


def alerts(world: World) -> set[str]:
    return {one.reason for one in world.events(e.Alerted)}


def test_a_device_whose_other_form_a_machine_uses_is_in_use_and_nothing_is_wrong() -> None:
    world = composed()
    world.plug("node0", "gpu-vfio-1", "VM-1", more=VM)
    world.holds("vm", "node0", "gpu-vfio-1")
    assert world.device("res") == "Used"
    world.unplug("node0", "gpu-1")
    world.tick(3600)
    assert world.device("res") == "Used"
    assert not world.events(e.VictimMarked) and not world.events(e.HoldBegun)
    assert alerts(world) == set()


def test_so_it_is_when_the_claim_is_heard_of_after_the_name_has_gone() -> None:
    """What told the hardware is remembered of each resource."""
    world = composed()
    world.plug("node0", "gpu-vfio-1", "VM-1", more=VM)
    world.unplug("node0", "gpu-1")
    assert world.device("res") == "Idle"
    world.holds("vm", "node0", "gpu-vfio-1")
    assert world.device("res") == "Used"
    world.tick(3600)
    assert not world.events(e.VictimMarked) and alerts(world) == set()
    world.gone(next(one for one in world.state.demand.claims.rows.values() if one.name == "vm"))
    assert world.device("res") == "Idle"


def test_the_form_that_is_listed_alone_is_held_before_the_device_goes_back() -> None:
    world = composed()
    world.plug("node0", "gpu-vfio-1", "VM-1", more=VM)
    world.unplug("node0", "gpu-1")
    world.tick(60)
    (begun,) = world.events(e.HoldBegun)
    assert [key[2] for key in begun.devices] == ["gpu-vfio-1", "gpu-1"], "the other may be listed again at any time"


def test_a_form_that_comes_back_while_its_device_is_held_is_held_with_it() -> None:
    """A driver lists the other form some seconds after the claim on the first has ended."""
    world = composed()
    world.plug("node0", "gpu-vfio-1", "VM-1", more=VM)
    world.holds("train", "node0", "gpu-1")
    world.unplug("node0", "gpu-vfio-1")
    world.tick(60)
    world.gone(next(one for one in world.state.demand.claims.rows.values() if one.name == "train"))
    world.tick(60)
    (begun,) = world.events(e.HoldBegun)
    assert [key[2] for key in begun.devices] == ["gpu-1", "gpu-vfio-1"]
    world.plug("node0", "gpu-vfio-1", "VM-1", more=VM)
    assert not world.events(e.HoldEnded)


def test_a_claim_on_a_form_that_is_not_listed_yet_has_the_device() -> None:
    """The scheduler may know the slice before dds does."""
    world = composed()
    world.plug("node0", "gpu-vfio-1", "VM-1", more=VM)
    world.unplug("node0", "gpu-vfio-1")
    world.holds("vm", "node0", "gpu-vfio-1")
    assert world.device("res") == "Used"
    world.tick(3600)
    assert not world.events(e.VictimMarked)


def test_a_device_that_another_node_still_lists_has_no_second_form() -> None:
    """It was detached there and attached here, and the driver there is slow."""
    world = composed()
    world.plug("node1", "gpu-7", "GPU-1", more=BUS)
    world.tick(60)
    (begun,) = world.events(e.HoldBegun)
    assert [key[1:] for key in begun.devices] == [("node0", "gpu-1")]
    world.unplug("node1", "gpu-7")
    assert not world.events(e.HoldEnded)


def test_the_name_of_a_form_that_another_device_has_by_now_is_not_held() -> None:
    world = composed()
    world.plug("node0", "gpu-vfio-1", "VM-1", more=VM)
    world.unplug("node0", "gpu-vfio-1")
    world.plug("node0", "gpu-vfio-1", "GPU-9", more={"resource.kubernetes.io/pciBusID": "0000:41:00.0"})
    world.tick(60)
    (begun,) = world.events(e.HoldBegun)
    assert [key[2] for key in begun.devices] == ["gpu-1"]


@pytest.mark.parametrize("held", [True, False])
def test_a_device_that_was_never_seen_listed_does_not_go_while_it_may_be_what_a_claim_has(held: bool) -> None:
    """dds begins on an empty log when the machine has the device already. Nobody having one, it goes."""
    world = World("detach", exchange=True, scan_interval_seconds=0, no_removal_seconds=30)
    world.node("node0")
    world.pool(A100, 4)
    labels = {"app.kubernetes.io/managed-by": "dds"}
    world.request("ours", "node0", labels=labels, state="Running", acted_size=1)
    world.resource("res", "node0", request="ours", uuid="GPU-1", state="Online")
    world.plug("node0", "gpu-vfio-1", "VM-1", more=VM)
    if held:
        world.holds("vm", "node0", "gpu-vfio-1")
    world.tick(3600)
    assert bool(world.events(e.VictimMarked)) is not held
    if held:
        world.gone(next(one for one in world.state.demand.claims.rows.values() if one.name == "vm"))
        world.tick(3600)
        assert world.events(e.VictimMarked)


def test_a_claim_on_what_was_there_before_does_not_keep_it() -> None:
    world = World("detach", exchange=True, scan_interval_seconds=0, no_removal_seconds=30)
    world.node("node0")
    world.plug("node0", "gpu-0", "GPU-0")
    world.holds("theirs", "node0", "gpu-0")
    world.pool(A100, 4)
    world.tick(10)
    labels = {"app.kubernetes.io/managed-by": "dds"}
    world.request("ours", "node0", labels=labels, state="Running", acted_size=1)
    world.resource("res", "node0", request="ours", uuid="GPU-1", state="Online")
    world.tick(3600)
    assert world.only(e.VictimMarked).uuid == "GPU-1"
