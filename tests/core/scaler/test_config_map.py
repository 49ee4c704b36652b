"""The ConfigMap of the fabric: its prefix of labels changes, or it is deleted."""

from dds_core.model import Config, Node
from dds_core.scaler import events as e
from tests.support.world import A100, H100, World, one_node


def config(world: World) -> Config:
    return next(iter(world.state.settings.configs.rows.values()))


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
    assert world.state_of("train") == "Attached" and alerts(world) == ["ConfigMissing"]
    assert not world.events(e.DetachOrdered) and not world.events(e.NodeLabelled)


def test_a_device_in_use_stays_and_an_idle_one_goes_back_without_a_config_map() -> None:
    world = one_node("detach", no_removal_seconds=60)
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
    assert [one.model for one in world.state.settings.config.models] == [H100.model] and len(
        world.state.settings.configs
    ) == 1
    delete(world)
    assert alerts(world) == ["ConfigMissing"] * 2


def test_the_kill_switch_of_one_that_is_deleted_stays_thrown() -> None:
    world = World("attach", kill_switch="observe", models=(A100,))
    delete(world)
    assert world.state.mode == "observe"


# -- another prefix

OLD, NEW = f"cohdi.io/{A100.device}", f"example.com/{A100.device}"


def renamed() -> World:
    """A node that was labelled under one prefix, and the other one in force."""
    world = World("attach", models=(A100,), scan_interval_seconds=10)
    world.node("node0", labels={f"{OLD}-cooling": "true", f"{OLD}-size-max": "4"})
    world.carry_out()
    world.relabel("node0", {f"{OLD}-cooling": "true"})
    world.update(config(world), prefix="example.com")
    return world


def labels(world: World) -> set[str]:
    return set(world.get(Node, "node0").labels)


def test_what_we_wrote_under_the_old_prefix_goes_and_what_is_others_stays() -> None:
    world = renamed()
    world.settle()
    assert labels(world) == {"cohdi.io/fabric", f"{OLD}-size-max"}, "the publisher's, and an administrator's"
    world.relabel("node0", {"example.com/fabric": "1"})
    world.settle()
    assert NEW in labels(world) and not world.state.notes.left_labels.rows


def test_who_writes_them_again_keeps_them() -> None:
    """As the reference scaler would, beside us: no two take turns."""
    world = renamed()
    world.settle()
    world.relabel("node0", {OLD: "true"})
    written = len(world.events(e.NodeLabelled))
    world.tick(600)
    assert len(world.events(e.NodeLabelled)) == written and OLD in labels(world)


def test_a_prefix_that_is_taken_back_keeps_its_labels() -> None:
    world = renamed()
    world.update(config(world), prefix="cohdi.io")
    world.relabel("node0", {f"{OLD}-cooling": None})
    world.settle()
    assert OLD in labels(world) and not world.state.notes.left_labels.rows


def test_where_they_may_not_be_taken_off_the_labels_of_today_are_written_all_the_same() -> None:
    world = renamed()
    world.refused(world.events(e.NodeLabelled)[-1])
    assert not world.state.notes.left_labels.rows
    world.relabel("node0", {"example.com/fabric": "1"})
    world.tick(31)
    world.settle()
    assert NEW in labels(world)


def test_one_that_was_about_to_be_written_under_the_old_prefix_goes_too() -> None:
    world = World("attach", models=(A100,), scan_interval_seconds=10)
    world.observe(Node("n", "node0", labels={"cohdi.io/fabric": "1"}))
    world.update(config(world), prefix="example.com")
    world.settle()
    assert labels(world) == {"cohdi.io/fabric"}
