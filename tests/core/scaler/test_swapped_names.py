"""Two models swap their k8s-device-name while claims wait for devices under the old names: what a claim waits for is what its
pool describes, not what the name means by now."""

from msgspec.structs import replace

from dds_core.scaler import events as e
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, H100, World

SWAPPED = (replace(A100, device=H100.device), replace(H100, device=A100.device))


def fleet() -> World:
    world = World("attach", scan_interval_seconds=0)
    world.node("node0", labels={f"cohdi.io/{model.device}": "true" for model in (A100, H100)})
    for model in (A100, H100):
        world.pool(model, 4)
    return world


def test_what_was_ordered_under_the_old_name_comes_and_nothing_else_is_ordered() -> None:
    world = fleet()
    world.waits("train", "node0")
    world.carry_out()
    world.observe(replace(world.state.settings.config, models=SWAPPED))
    world.tick(60)
    world.settle()
    assert [order.model for order in world.events(e.AttachOrdered)] == [A100.model]
    assert world.only(e.HandOver).node == "node0"
    assert not world.events(e.ClaimFailed)


def test_what_is_chosen_before_the_pool_is_described_anew_is_what_it_describes() -> None:
    world = fleet()
    world.observe(replace(world.state.settings.config, models=SWAPPED))
    world.waits("train", "node0", *pool_results(0))
    assert world.only(e.AttachOrdered).model == A100.model


def test_a_pool_that_is_described_anew_is_of_the_other_model() -> None:
    world = fleet()
    world.observe(replace(world.state.settings.config, models=SWAPPED))
    for model in SWAPPED:
        world.pool(model, 4, generation=2)
    world.waits("train", "node0", (SWAPPED[1], 1))
    assert world.only(e.AttachOrdered).model == H100.model


def test_a_pool_whose_devices_tell_nothing_is_what_its_name_says() -> None:
    world = World("attach", models=(replace(A100, attributes={}), H100), scan_interval_seconds=0)
    world.node("node0")
    world.pool(world.state.settings.config.models[0], 4)
    world.waits("train", "node0", (world.state.settings.config.models[0], 1))
    assert world.only(e.AttachOrdered).model == A100.model
