"""B12: recently used devices of all models were counted for each, so that a node with two models never shrank.

Here counts are per node and model: an idle A100 goes although an H100 beside it is in use.
"""

from dds_core.scaler import events as e
from tests.support.world import A100, H100, World


def test_b12_an_idle_model_shrinks_beside_one_in_use() -> None:
    world = World("detach", no_removal_seconds=100, scan_interval_seconds=0)
    world.node("node0")
    for model in (A100, H100):
        world.pool(model, 4)
        world.claim(model.device)
        world.allocate(model.device, "node0", (model, 1))
        world.settle()
        device = world.state.hand_over.reservations.rows[world.uid(model.device)].promises[0].device
        world.allocate_local(model.device, "node0", device)
        world.bind(model.device)
    world.finish(A100.device)
    world.tick(101)
    world.settle()
    world.tick(31)
    world.settle()
    lowered = world.only(e.DetachOrdered)
    assert (lowered.model, lowered.size) == (A100.model, 0)
    assert [r.model for r in world.state.fleet.resources.rows.values()] == [H100.model]
