"""How a claim gets into each state, with real facts and in mode observe, so that only what is observed moves it.

The claim is always `train`, its pod too, its node `node0`.
"""

from dds_core.model import Pod
from tests.support.world import FAILED, World


def new() -> World:
    """A node, a pool with room, a claim that is not allocated, and its pod."""
    world = World()
    world.node("node0")
    world.node("node1")
    world.pool(world.state.settings.config.models[0], 4)
    world.claim("train")
    return world


def pending() -> World:
    world = new()
    world.allocate("train", "node0")
    return world


def attaching() -> World:
    world = pending()
    world.request("composability-x", "node0", generate_name="composability-")
    return world


def attached() -> World:
    """Waiting for a pool device while one is Online on the node."""
    world = attaching()
    world.online("res", "node0", request="composability-x")
    return world


def attached_locally() -> World:
    """On a device that is on the node already."""
    world = new()
    a_device_on_the_node(world)
    world.allocate_local("train", "node0", "gpu-GPU-res")
    return world


def a_device_on_the_node(world: World) -> None:
    world.request("composability-x", "node0", generate_name="composability-")
    world.online("res", "node0", request="composability-x")


def bound() -> World:
    world = attached_locally()
    world.bind("train")
    return world


def detaching() -> World:
    world = bound()
    let_go(world)
    return world


def let_go(world: World) -> None:
    """The pod is gone and the allocation cleared; the claim stays."""
    world.gone(world.get(Pod, "train"))
    world.clear("train")


def released() -> World:
    world = pending()
    let_go(world)
    return world


def failed() -> World:
    world = pending()
    world.condition("train", FAILED)
    return world


PREPARED = {
    "": new,
    "Pending": pending,
    "Attaching": attaching,
    "Attached": attached,
    "Bound": bound,
    "Detaching": detaching,
    "Released": released,
    "Failed": failed,
}
"""By state, a world whose claim is in it."""
