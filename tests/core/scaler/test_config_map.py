"""The ConfigMap of the fabric is deleted: what is in use or waited for goes on."""

from dds_core.model import Config
from dds_core.scaler import events as e
from tests.support.world import A100, H100, World, one_node


def config(world: World) -> Config:
    return next(iter(world.picture.configs.rows.values()))


def delete(world: World) -> None:
    world.feed(e.ConfigMissing(config(world).uid))


def alerts(world: World) -> list[str]:
    return [one.reason for one in world.events(e.Alerted)]


# -- deleted


def test_a_claim_that_waits_while_the_config_map_is_deleted_gets_its_device() -> None:
    world = one_node("attach")
    world.waits("train", "node0")
    world.carry_out()
    delete(world)
    world.settle()
    assert world.state("train") == "Attached" and alerts(world) == ["ConfigMissing"]
    assert not world.events(e.DetachOrdered) and not world.events(e.NodeLabelled)


def test_a_device_in_use_stays_and_an_idle_one_goes_back_without_a_config_map() -> None:
    world = one_node("detach", no_removal_seconds=60, fence_settle_seconds=5)
    for name in ("used", "idle"):
        world.request(name, "node0", labels={"app.kubernetes.io/managed-by": "dds"}, state="Running", acted_size=1)
        world.online(f"res-{name}", "node0", request=name)
    world.holds("train", "node0", "gpu-GPU-res-used")
    delete(world)
    world.tick(600)
    assert [one.resource for one in world.events(e.VictimMarked)] == ["res-idle"]


def test_one_that_is_made_again_takes_the_place_of_the_last_and_a_second_deletion_is_told_again() -> None:
    world = one_node("attach")
    delete(world)
    world.tick(3600)
    assert alerts(world) == ["ConfigMissing"], "told once"
    world.observe(Config("another", models=(H100,)))
    assert [one.model for one in world.picture.config.models] == [H100.model] and len(world.picture.configs) == 1
    delete(world)
    assert alerts(world) == ["ConfigMissing"] * 2


def test_the_kill_switch_of_one_that_is_deleted_stays_thrown() -> None:
    world = World("attach", kill_switch="observe", models=(A100,))
    delete(world)
    assert world.picture.mode == "observe"
