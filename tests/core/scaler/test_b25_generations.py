"""B25: slices of old generations and of incomplete pools were taken at their word.

Here only the newest generation counts, nothing new is taken from a pool that is not whole, and what is held stays held.
"""

from dds_core.model import Device, Slice
from dds_core.scaler import events as e
from tests.core.scaler.pools import four_nodes_wait
from tests.support.world import A100, GPU, World, one_node


def local(part: int, generation: int, devices: dict[str, str], slices: int = 1) -> Slice:
    listed = {name: Device({**A100.attributes, "uuid": uuid}) for name, uuid in devices.items()}
    return Slice(f"s{part}", f"part-{part}", GPU, "node0", generation, slices, node="node0", devices=listed)


def waiting() -> World:
    world = one_node("attach", 4, scan_interval_seconds=0, limit={"fixed": 2})
    world.waits("train", "node0")
    return world


def test_b25_a_device_of_an_old_generation_is_not_there() -> None:
    world = waiting()
    world.observe(local(1, 2, {}))
    world.observe(local(0, 1, {"gpu-0": "GPU-a"}))
    assert world.state_of("train") == "Attaching"
    world.observe(local(1, 3, {"gpu-0": "GPU-a"}))
    assert world.state_of("train") == "Attached"


def test_b25_nothing_is_taken_from_a_pool_that_is_not_whole() -> None:
    world = waiting()
    world.observe(local(0, 1, {"gpu-0": "GPU-a"}, slices=2))
    assert world.state_of("train") == "Attaching"
    world.observe(local(1, 1, {"gpu-1": "GPU-b"}, slices=2))
    assert world.reserved("train") == ["GPU-a"]


def test_b25_a_name_that_two_slices_list_makes_the_pool_unusable() -> None:
    world = waiting()
    world.observe(local(0, 1, {}, slices=3))
    world.observe(local(1, 1, {"gpu-0": "GPU-a"}, slices=3))
    world.observe(local(2, 1, {"gpu-0": "GPU-b"}, slices=3))
    assert world.state_of("train") == "Attaching"


def test_b25_an_incomplete_pool_has_nothing_to_order_from() -> None:
    world = World("attach", scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 4, slices=2)
    world.waits("train", "node0")
    assert not world.events(e.AttachOrdered)
    world.pool(A100, 4, generation=2)
    assert world.only(e.AttachOrdered).size == 1


def test_b25_a_pool_that_is_incomplete_for_a_moment_lets_nothing_go_that_was_held_back() -> None:
    """Between two writes of a publisher."""
    world = four_nodes_wait(2)
    assert len(world.events(e.AttachOrdered)) == 2
    world.pool(A100, 2, generation=2, slices=2)
    world.carry_out()
    assert len(world.events(e.AttachOrdered)) == 2


def test_b25_a_held_device_stays_held_through_a_new_generation_in_pieces() -> None:
    world = World("detach", no_removal_seconds=5, scan_interval_seconds=0)
    world.node("node0")
    world.request("composability-x", "node0", generate_name="composability-", state="Running", acted_size=1)
    world.resource("res", "node0", request="composability-x", state="Online", uuid="GPU-a")
    world.observe(local(0, 1, {"gpu-0": "GPU-a"}))
    world.holds("train", "node0", "gpu-0")
    world.bind("train")
    world.observe(local(1, 2, {"gpu-1": "GPU-b"}, slices=2))
    world.tick(600)
    assert world.device("res") == "Used"
    world.observe(local(0, 2, {"gpu-0": "GPU-a"}, slices=2))
    assert [t for t, _, _ in world.device_moves("res")] == ["requested", "online", "taken"]
