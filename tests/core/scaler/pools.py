"""Results on pool devices by number, for what the scheduler would not hand out itself."""

from dds_core.model import Model, Result
from tests.support.world import A100, FAILED, READY, RESCHEDULE, World


def pool_results(*numbers: int, model: Model = A100, fabric: int = 1) -> tuple[Result, ...]:
    pool = f"{model.device}-fabric{fabric}"
    return tuple(
        Result(f"r{i}", model.driver, pool, f"{model.device}-{i}", (READY,), (RESCHEDULE, FAILED)) for i in numbers
    )


def four_nodes_wait(free: int) -> World:
    """Of `n0` to `n3`, on which a claim waits each, as many can be served as the pool of all shows."""
    world = World("attach", scan_interval_seconds=0)
    for number in range(4):
        world.node(f"n{number}")
    world.pool(A100, free)
    for number in range(4):
        world.waits(f"train{number}", f"n{number}", *pool_results(number))
    return world
