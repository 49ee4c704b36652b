"""A listed device that no resource names is not the machine's own if it came after an order: the operator may have lost the
answer, and takes it off after ten minutes, under whoever has it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dds_core.model import AttachRequest, Node
from dds_core.scaler import events as e
from tests.support.world import A100, H100, World, one_node


def after_an_order(mode: str = "attach", **policy: Any) -> World:
    """A device was ordered for `old` on node0, came, and is in use."""
    world = one_node(mode, 20, scan_interval_seconds=0, **policy)
    world.pool(H100, 4)
    world.waits("old", "node0")
    world.settle()
    (came,) = world.state.fleet.resources
    world.bind("old")
    world.clear("old")
    world.allocate_local("old", "node0", f"gpu-GPU-{came}")
    return world


def alerts(world: World) -> list[e.Alerted]:
    return [one for one in world.events(e.Alerted) if one.reason == "DeviceUnexplained"]


# -- unexplained ---------------------------------------------------------------------------------------------------------


def test_one_that_came_after_an_order_is_given_to_no_claim_and_told_once() -> None:
    """The answer to an order was lost: the device was taken for a fixed one, given to a pod, and detached under it."""
    world = after_an_order()
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.waits("train", "node0")
    assert world.events(e.AttachOrdered)[-1].claims == (world.uid("train"),)
    world.tick(700)
    assert not world.events(e.Reserved)[1:]
    (told,) = alerts(world)
    assert told.of == "GPU-lost" and "no ComposableResource names it" in told.text
    assert "no claim gets it" in told.text
    assert world.verified().differences == []


def test_the_text_says_when_the_operator_takes_it_off() -> None:
    world = after_an_order()
    world.plug("node0", "gpu-lost", "GPU-lost")
    minute = (world.now // 60_000_000 + 10) % 60
    (told,) = alerts(world)
    assert f":{minute:02}:" in told.text


def test_it_counts_in_the_limit_of_the_node() -> None:
    world = after_an_order(limit={"max": 2})
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.waits("over", "node0")
    assert world.only(e.ClaimFailed).reason == "NodeLimit"


def test_it_does_not_count_towards_the_minimum() -> None:
    """It goes in ten minutes: what is to stand ready is ordered beside it."""
    world = after_an_order()
    world.plug("node0", "gpu-lost", "GPU-lost")
    before = len(world.events(e.AttachOrdered))
    world.change_policy(prewarm=True, limits={A100.model: {"min": 2, "max": 3}})
    world.tick(61)
    (more,) = world.events(e.AttachOrdered)[before:]
    assert (more.size, more.reason) == (2, "prewarm")


def test_nor_does_it_let_an_idle_one_go_that_the_minimum_keeps() -> None:
    world = after_an_order("detach", no_removal_seconds=5, limit={"min": 1})
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.finish("old")
    for _ in range(10):
        world.tick(30)
        world.settle()
    assert len(world.state.fleet.resources) == 1 and not world.events(e.DetachOrdered)


def test_it_leaves_no_room_for_one_ahead_of_demand_where_the_node_is_full() -> None:
    world = after_an_order()
    world.plug("node0", "gpu-lost", "GPU-lost")
    before = len(world.events(e.AttachOrdered))
    world.change_policy(prewarm=True, limits={A100.model: {"min": 2, "max": 2}})
    world.tick(121)
    assert len(world.events(e.AttachOrdered)) == before


def test_it_does_not_count_for_another_model() -> None:
    world = after_an_order(limit={"max": 1})
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.waits("other", "node0", (H100, 1))
    assert not world.events(e.ClaimFailed)
    assert world.events(e.AttachOrdered)[-1].model == H100.model


def test_a_claim_that_has_it_is_told_too() -> None:
    world = after_an_order()
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.holds("theirs", "node0", "gpu-lost")
    device, claim = alerts(world)
    assert device.of == "GPU-lost" and claim.of == world.uid("theirs")
    assert "claim default/theirs has it: delete the pod" in claim.text


def test_one_of_somebody_elses_order_is_unexplained_too() -> None:
    world = one_node("attach", 20, scan_interval_seconds=0)
    world.request("theirs", "node0")
    world.plug("node0", "gpu-lost", "GPU-lost")
    assert [one.of for one in alerts(world)] == ["GPU-lost"]


def test_while_one_of_the_model_is_being_attached_without_an_id_it_may_be_that_one() -> None:
    world = after_an_order(limit={"max": 3})
    request = next(iter(world.state.fleet.requests.rows.values()))
    world.resource("new", "node0", request=request.name, state="Attaching")
    world.plug("node0", "gpu-new", "GPU-new")
    world.waits("train", "node0")
    world.tick(60)
    assert alerts(world) == [] and not world.reserved("train") and not world.events(e.ClaimFailed)
    world.resource("new", "node0", uuid="GPU-new")
    assert alerts(world) == [] and not world.state.health.unexplained


def test_the_oldest_are_told_when_there_are_more_than_are_being_attached() -> None:
    world = after_an_order()
    world.resource("new", "node0", request="theirs", state="Attaching")
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.plug("node0", "gpu-new", "GPU-new")
    assert [one.of for one in alerts(world)] == ["GPU-lost"]


def test_one_that_is_being_attached_of_another_model_explains_nothing() -> None:
    world = after_an_order()
    world.resource("new", "node0", H100, request="theirs", state="Attaching")
    world.plug("node0", "gpu-lost", "GPU-lost")
    assert [one.of for one in alerts(world)] == ["GPU-lost"]


def test_it_is_told_when_the_attach_ended_without_it() -> None:
    world = after_an_order()
    world.resource("new", "node0", request="theirs", state="Attaching")
    world.plug("node0", "gpu-lost", "GPU-lost")
    assert alerts(world) == []
    world.gone(world.state.fleet.resources.rows["new"])
    assert [one.of for one in alerts(world)] == ["GPU-lost"]


def test_a_resource_that_names_it_explains_it() -> None:
    world = after_an_order()
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.online("late", "node0", uuid="GPU-lost", request="theirs")
    assert not world.state.health.unexplained
    world.waits("train", "node0")
    assert world.reserved("train") == ["GPU-lost"]


def test_one_that_is_listed_no_more_is_forgotten_and_told_again_when_it_is() -> None:
    world = after_an_order()
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.unplug("node0", "gpu-lost")
    assert not world.state.health.unexplained
    world.plug("node0", "gpu-lost", "GPU-lost")
    assert [one.of for one in alerts(world)] == ["GPU-lost", "GPU-lost"]


def test_nothing_is_left_of_it_when_its_node_and_its_list_are_gone() -> None:
    world = after_an_order()
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.gone(world.get(Node, "node0"))
    for slice in [one for one in world.state.inventory.slices.rows.values() if one.node == "node0"]:
        world.gone(slice)
    assert not world.state.health.unexplained


def test_it_is_still_unexplained_when_its_node_registers_again() -> None:
    """Its machine has kept it: the operator takes it off there too."""
    world = after_an_order()
    world.plug("node0", "gpu-lost", "GPU-lost")
    node = world.get(Node, "node0")
    world.gone(node)
    world.observe(replace(node, uid="node0-again"))
    world.plug("node0", "gpu-more", "GPU-more")
    assert {"GPU-lost", "GPU-more"} <= set(world.state.health.unexplained.rows)
    world.waits("train", "node0")
    assert world.reserved("train") == []


def test_a_claim_is_told_of_each_one_that_it_takes() -> None:
    world = after_an_order()
    for name in ("l1", "l2"):
        world.plug("node0", f"gpu-{name}", f"GPU-{name}")
    world.holds("theirs", "node0", "gpu-l1")
    world.clear("theirs")
    world.allocate_local("theirs", "node0", "gpu-l2")
    assert len([one for one in alerts(world) if one.of == world.uid("theirs")]) == 2


def test_in_observe_it_is_given_to_nobody_either() -> None:
    world = one_node("observe", 20, scan_interval_seconds=0)
    world.request("theirs", "node0")
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.waits("train", "node0")
    assert world.state_of("train") != "Attached"
    assert len(alerts(world)) == 1


# -- fixed ---------------------------------------------------------------------------------------------------------------


def test_one_that_was_listed_before_the_first_order_there_is_the_machines() -> None:
    world = one_node("attach", 20, scan_interval_seconds=0)
    world.plug("node0", "gpu-own", "GPU-own")
    world.holds("busy", "node0", "gpu-own")
    world.waits("train", "node0")
    world.carry_out()
    world.finish("busy")
    assert world.reserved("train") == ["GPU-own"] and alerts(world) == []


def test_an_order_on_another_node_says_nothing_of_this_one() -> None:
    world = after_an_order()
    world.node("node1")
    world.plug("node1", "gpu-own", "GPU-own")
    world.waits("train", "node1")
    assert world.reserved("train") == ["GPU-own"] and alerts(world) == []


def test_what_is_listed_when_dds_first_knows_all_is_the_machines() -> None:
    """The order of lists says nothing: a request, and a device, may be seen before the node's slice."""
    world = World("attach", synced=False, scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 4)
    world.request("theirs", "node0")
    world.resource("res", "node0", request="theirs", state="Online", uuid="GPU-res")
    world.plug("node0", "gpu-own", "GPU-own")
    world.plug("node0", "gpu-res", "GPU-res")
    world.feed(e.Synced())
    assert set(world.state.health.fixed) == {"GPU-own"} and not world.state.health.unexplained
    world.waits("train", "node0")
    assert world.reserved("train") == ["GPU-own"]


def test_what_is_listed_before_its_node_is_seen_is_the_machines() -> None:
    """Its slice was not looked at, and after the first order there it came for an operator's."""
    world = after_an_order()
    world.plug("node1", "gpu-own", "GPU-own")
    assert set(world.state.health.fixed) == {"GPU-own"}
    world.node("node1")
    world.request("there", "node1")
    world.plug("node1", "gpu-lost", "GPU-lost")
    assert set(world.state.health.unexplained) == {"GPU-lost"}
    world.waits("train", "node1")
    assert world.reserved("train") == ["GPU-own"]


def test_a_device_that_went_while_a_slice_still_shows_it_is_not_the_machines_by_a_new_config_map() -> None:
    """dds looks again which devices belong to the machines when the ConfigMap names other drivers."""
    world = one_node("attach", 20, scan_interval_seconds=0)
    world.online("res", "node0", request="theirs")
    world.gone(world.state.fleet.resources.rows["res"])
    world.update(
        world.state.settings.config,
        models=(*world.state.settings.config.models, replace(A100, index=9, device="new", model="X")),
    )
    assert "GPU-res" not in world.state.health.fixed
    world.waits("train", "node0")
    world.tick(20)
    assert not world.reserved("train")
    world.unplug("node0", "gpu-GPU-res")
    assert "GPU-res" not in world.state.health.fixed and "GPU-res" not in world.state.health.unexplained


def test_at_a_later_start_it_is_not_asked_again() -> None:
    """While dds was away the operator has lost an answer."""
    world = after_an_order()
    world.feed(e.Started(code="new", fingerprint="", projection=1, epoch=2, mode="attach"))
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.feed(e.Synced())
    assert set(world.state.health.unexplained) == {"GPU-lost"}
    assert [one.of for one in alerts(world)] == ["GPU-lost"]


@pytest.mark.parametrize("limits", [{"limit": {"fixed": 1}}, {"limits": {f"node0/{A100.model}": {"fixed": 1}}}])
def test_as_many_as_the_policy_says_are_the_machines(limits: dict[str, Any]) -> None:
    world = after_an_order(**limits)
    world.plug("node0", "gpu-own", "GPU-own")
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.waits("train", "node0")
    world.waits("second", "node0")
    assert world.reserved("train") == ["GPU-own"] and not world.reserved("second")
    assert [one.of for one in alerts(world)] == ["GPU-lost"]


def test_a_changed_policy_explains_as_many_the_first_ones_first() -> None:
    world = after_an_order()
    for name in ("zz-first", "second", "last"):
        world.plug("node0", f"gpu-{name}", f"GPU-{name}")
    world.change_policy(limit={"fixed": 1})
    assert set(world.state.health.fixed) == {"GPU-zz-first"} and set(world.state.health.unexplained) == {
        "GPU-second",
        "GPU-last",
    }
    world.change_policy(limit={"fixed": 2})
    assert set(world.state.health.unexplained) == {"GPU-last"}
    world.waits("train", "node0")
    assert len(world.reserved("train")) == 1 and world.reserved("train") != ["GPU-last"]
    assert world.verified().differences == []


def test_one_whose_model_is_known_later_is_explained_by_the_slice_that_tells_it() -> None:
    world = after_an_order(limit={"fixed": 1})
    world.plug("node0", "gpu-own", "GPU-own", replace(A100, attributes={}))
    assert set(world.state.health.unexplained) == {"GPU-own"}
    world.plug("node0", "gpu-own", "GPU-own")
    assert set(world.state.health.fixed) == {"GPU-own"} and not world.state.health.unexplained


def test_those_known_before_count_to_what_the_policy_says() -> None:
    world = one_node("attach", 20, scan_interval_seconds=0, limit={"fixed": 1})
    world.plug("node0", "gpu-own", "GPU-own")
    world.request("theirs", "node0")
    world.plug("node0", "gpu-lost", "GPU-lost")
    assert [one.of for one in alerts(world)] == ["GPU-lost"]


def test_the_machines_own_stays_its_own_when_its_plugin_starts_again() -> None:
    world = one_node("attach", 20, scan_interval_seconds=0)
    world.plug("node0", "gpu-own", "GPU-own")
    world.request("theirs", "node0")
    world.gone(world.state.inventory.slices.rows["local-node0-gpu.nvidia.com"])
    world.plug("node0", "gpu-own", "GPU-own")
    assert alerts(world) == []


def test_one_that_a_resource_named_is_the_machines_no_more() -> None:
    """Somebody moved it into the fabric; what lists it after its detach is not explained."""
    world = one_node("attach", 20, scan_interval_seconds=0)
    world.plug("node0", "gpu-own", "GPU-own")
    world.resource("res", "node0", request="theirs", state="Online", uuid="GPU-own")
    world.take_away("res")
    world.plug("node0", "gpu-own", "GPU-own")
    assert [one.of for one in alerts(world)] == ["GPU-own"]


# -- the operator's own way to take it off -------------------------------------------------------------------------------


def test_one_that_the_operator_takes_off_is_never_given() -> None:
    """Ten minutes later its syncer makes an object `gpu-<uuid>`, ready to detach, whose device it takes off."""
    world = after_an_order()
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.waits("train", "node0")
    world.carry_out()
    world.tick(600)
    world.resource("gpu-lost-x2b4q", "node0", uuid="GPU-lost", detach_only=True, state="Online")
    assert not world.state.health.unexplained and not world.reserved("train")
    assert world.device("gpu-lost-x2b4q") == "Detaching"
    moved = world.events(e.DeviceMoved)[-1]
    assert moved.cause.endswith("is there to take its device off, which no other resource named")
    world.tick(30)
    assert not world.reserved("train")


@pytest.mark.parametrize("state", ["", "Attaching", "Online"])
def test_it_is_leaving_in_every_state(state: str) -> None:
    world = one_node("attach", 20, scan_interval_seconds=0)
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.resource("res", "node0", uuid="GPU-lost", detach_only=True, state=state)
    assert world.device("res") == "Detaching"
    world.waits("train", "node0")
    world.tick(20)
    assert not world.reserved("train") and len(world.events(e.AttachOrdered)) == 1


def test_dds_marks_and_lowers_nothing_for_it() -> None:
    world = after_an_order("detach", no_removal_seconds=5)
    world.plug("node0", "gpu-lost", "GPU-lost")
    world.resource("res", "node0", uuid="GPU-lost", detach_only=True, state="Online")
    request = next(iter(world.state.fleet.requests.rows.values())).name
    size = world.get(AttachRequest, request).size
    world.tick(300)
    assert not world.decisions(e.VictimMarked, e.DetachOrdered)
    assert world.get(AttachRequest, request).size == size
