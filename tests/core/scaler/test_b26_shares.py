"""B26: entries had no shareID, so that the API refused them, and each share was counted as a device of its own.

Here the share is part of every key, the shares of one pool device need one device, and a device fills up by its capacity.
"""

from msgspec.structs import replace

from dds_core.model import Result
from dds_core.scaler import events as e
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, World, one_node

MEMORY = {"capacity": {"memory": "40Gi"}, "shared": True}


def share(name: str, memory: str, number: int = 0) -> Result:
    return replace(pool_results(number)[0], share=name, consumed={"memory": memory})


def two_sharers(mode: str = "attach") -> World:
    world = one_node(mode, 4, scan_interval_seconds=0)
    for name, memory in (("one", "10Gi"), ("two", "20Gi")):
        world.waits(name, "node0", share(f"share-{name}", memory))
    return world


def shared_device(world: World, name: str = "res", capacity: str = "40Gi") -> None:
    world.resource(name, "node0", state="Attaching", uuid=f"GPU-{name}")
    world.plug("node0", f"gpu-{name}", f"GPU-{name}", capacity={"memory": capacity}, shared=True)
    world.resource(name, "node0", state="Online")


def test_b26_two_claims_on_one_pool_device_need_one_device() -> None:
    world = two_sharers()
    assert [order.size for order in world.events(e.AttachOrdered)] == [1]
    assert (world.state_of("one"), world.state_of("two")) == ("Attaching", "Attaching")
    world.carry_out()
    world.resource("res", "node0", request=world.only(e.AttachOrdered).request, state="Attaching")
    assert len(world.events(e.AttachOrdered)) == 1
    shared_device(world)
    assert world.reserved("one") == world.reserved("two") == ["GPU-res"]
    assert (world.state_of("one"), world.state_of("two")) == ("Attached", "Attached")


def test_b26_two_shares_in_one_claim_need_one_device() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.waits("train", "node0", share("a", "10Gi"), share("b", "10Gi"), share("c", "10Gi", 1))
    assert world.only(e.AttachOrdered).size == 2


def test_b26_while_the_first_cannot_be_ordered_the_sharer_waits_with_it() -> None:
    world = one_node("attach", 0, scan_interval_seconds=0)
    for name in ("one", "two"):
        world.waits(name, "node0", share(f"share-{name}", "10Gi"))
    assert (world.state_of("one"), world.state_of("two")) == ("Pending", "Pending")


def test_b26_every_entry_names_its_share() -> None:
    world = two_sharers()
    shared_device(world)
    entries = [entry for handed in world.events(e.HandOver) for signal in handed.signals for entry in signal.entries]
    assert sorted((x.device, x.share) for x in entries) == [
        ("nvidia-a100-40-0", "share-one"),
        ("nvidia-a100-40-0", "share-two"),
    ]


def test_b26_a_shared_device_takes_claims_until_its_capacity_is_used_up() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    shared_device(world)
    local = Result("r0", A100.driver, "node0", "gpu-res", share="held", consumed={"memory": "25Gi"})
    world.waits("held", "node0", local)
    for number, (name, memory) in enumerate([("fits", "10Gi"), ("over", "10Gi")]):
        world.waits(name, "node0", share(f"s{number}", memory, number))
    assert world.reserved("fits") == ["GPU-res"]
    assert world.reserved("over") == []
    assert world.only(e.AttachOrdered).claims == (world.uid("over"),)


def test_b26_a_shared_device_is_idle_only_when_the_last_share_is_given_back() -> None:
    world = World("detach", no_removal_seconds=10, scan_interval_seconds=0)
    world.node("node0")
    world.request("composability-x", "node0", generate_name="composability-", state="Running", acted_size=1)
    world.resource("res", "node0", request="composability-x")
    shared_device(world)
    for name in ("one", "two"):
        world.claim(name)
        world.allocate(
            name, "node0", Result("r0", A100.driver, "node0", "gpu-res", share=name, consumed={"memory": "1Gi"})
        )
        world.bind(name)
    world.finish("one")
    world.tick(60)
    assert world.device("res") == "Used"
    world.finish("two")
    assert world.device("res") == "Idle"
    assert world.state.lifecycle.devices.rows["res"].idle_since == world.now - 100_000, (
        "the pod, the allocation, the claim went in turn"
    )


def test_b26_a_device_that_is_not_shared_serves_one_share() -> None:
    world = two_sharers()
    world.online("res", "node0")
    world.plug("node0", "gpu-GPU-res", "GPU-res", capacity={"memory": "40Gi"})
    assert world.reserved("one") == ["GPU-res"]
    assert world.reserved("two") == []


def test_b26_a_device_without_the_capacity_serves_nobody_who_asks_for_it() -> None:
    world = two_sharers()
    world.online("res", "node0")
    assert world.reserved("one") == world.reserved("two") == []
