"""Giving back: exactly the marked ones, never while something is attaching, at a measured pace, and only as the policy allows."""

from collections.abc import Iterable
from typing import Any

import pytest

from dds_core.model import AttachRequest, Config
from dds_core.scaler import events as e
from tests.support.world import A100, H100, World, one_node


def idle(count: int, mode: str = "detach", **policy: Any) -> World:
    """So many idle devices `res0`, `res1`, … under one request of ours on node0, each a minute younger than the last."""
    given = {"no_removal_seconds": 3600, "scan_interval_seconds": 0, **policy}
    world = one_node(mode, 8, **given)
    world.request("ours", "node0", size=count, labels={"app.kubernetes.io/managed-by": "dds"})
    for number in range(count):
        world.online(f"res{number}", "node0", request="ours")
        world.tick(60)
    world.update(world.get(AttachRequest, "ours"), state="Running", acted_size=count)
    return world


def marks(world: World, names: Iterable[str]) -> None:
    """The writer has marked them."""
    for name in names:
        world.resource(name, "node0", marked=True)


def lists(world: World) -> None:
    for wanted in world.events(e.ClaimsListWanted):
        world.feed(e.ClaimsListed(wanted.resource, world.now))


def test_the_size_falls_by_exactly_the_marked_number() -> None:
    world = idle(4)
    world.tick(3600 - 4 * 60 + 70)
    assert [v.resource for v in world.events(e.VictimMarked)] == ["res0", "res1"]
    marks(world, ["res0", "res1"])
    world.tick(31)
    lists(world)
    lowered = world.only(e.DetachOrdered)
    assert (lowered.size, lowered.previous, lowered.victims) == (2, 4, ("res0", "res1"))


def test_nothing_is_lowered_before_every_victim_is_confirmed_and_marked() -> None:
    world = idle(2)
    world.tick(3600)
    marks(world, ["res0"])
    world.tick(40)
    world.feed(e.ClaimsListed("res0", world.now))
    assert not world.events(e.DetachOrdered)
    world.feed(e.ClaimsListed("res1", world.now))
    assert not world.events(e.DetachOrdered)
    marks(world, ["res1"])
    assert world.only(e.DetachOrdered).victims == ("res0", "res1")


@pytest.mark.parametrize("state", ["", "Attaching"])
def test_nothing_is_lowered_while_a_resource_of_the_request_is_attaching(state: str) -> None:
    """The operator would take that one first, not the marked one."""
    world = idle(2)
    world.tick(3500)
    marks(world, ["res0"])
    world.resource("res2", "node0", request="ours", state=state)
    world.update(world.get(AttachRequest, "ours"), size=3, acted_size=3)
    world.tick(31)
    lists(world)
    assert not world.events(e.DetachOrdered)
    world.online("res2", "node0", request="ours")
    assert world.only(e.DetachOrdered).size == 2


@pytest.mark.parametrize("unsettled", [{"state": "Updating"}, {"acted_size": 3}, {"acted_size": None}])
def test_nothing_is_lowered_while_the_operator_is_at_work_on_the_request(unsettled: dict[str, Any]) -> None:
    world = idle(2)
    world.tick(3600)
    marks(world, ["res0", "res1"])
    world.update(world.get(AttachRequest, "ours"), **unsettled)
    world.tick(31)
    lists(world)
    assert not world.events(e.DetachOrdered)
    world.update(world.get(AttachRequest, "ours"), state="Running", acted_size=2)
    assert world.only(e.DetachOrdered).size == 0


def test_nothing_is_lowered_while_the_request_has_more_or_fewer_devices_than_its_size() -> None:
    world = idle(2)
    world.tick(3500)
    marks(world, ["res0"])
    world.online("res2", "node0", request="ours")
    world.tick(31)
    lists(world)
    assert not world.events(e.DetachOrdered), "the operator would take two"
    world.take_away("res2")
    assert world.only(e.DetachOrdered).victims == ("res0",)


def test_nothing_is_lowered_while_somebody_elses_mark_would_make_one_more_go() -> None:
    world = idle(2)
    world.tick(3500)
    marks(world, ["res0", "res1"])
    world.tick(15)
    assert len(world.events(e.VictimMarked)) == 1
    lists(world)
    assert not world.events(e.DetachOrdered)
    world.resource("res1", "node0", marked=False)
    assert world.only(e.DetachOrdered).victims == ("res0",)


def test_a_victim_that_its_node_does_not_list_any_more_keeps_the_others_back_for_a_while_only() -> None:
    world = idle(2)
    world.tick(3600)
    marks(world, ["res0", "res1"])
    world.unplug("node0", "gpu-GPU-res0")
    world.tick(31)
    lists(world)
    world.tick(400)
    assert not world.events(e.DetachOrdered), "a gap in the slices: nobody knows what it is called by now"
    world.tick(200)
    assert world.only(e.VictimUnmarked).resource == "res0"
    world.resource("res0", "node0", marked=False)
    assert world.only(e.DetachOrdered).victims == ("res1",)
    world.tick(3600)
    assert world.events(e.VictimMarked)[-1].device == "", "it goes without a name, since nobody lists it"


def lowered() -> World:
    """The request was lowered for its one device, which is still seen Online."""
    world = idle(1)
    world.tick(3600)
    world.carry_out(e.VictimMarked)
    world.tick(31)
    lists(world)
    world.carry_out(e.DetachOrdered)
    return world


@pytest.mark.parametrize("request_says", [{"acted_size": 1}, {"acted_size": 0, "state": "Updating"}])
def test_a_victim_is_asked_back_while_the_operator_may_have_left_it(request_says: dict[str, Any]) -> None:
    world = lowered()
    world.update(world.get(AttachRequest, "ours"), **request_says)
    world.waits("train", "node0")
    assert world.only(e.AttachOrdered).reason == "victim wanted after its detach was ordered"


def test_a_victim_is_not_asked_back_once_the_operator_is_done_with_the_smaller_size() -> None:
    """The news of its resource was late: the claim was given a device that the fabric was just taking off."""
    world = lowered()
    world.update(world.get(AttachRequest, "ours"), acted_size=0, state="Running")
    world.waits("train", "node0")
    assert world.state_of("train") == "Pending"
    assert not world.events(e.AttachOrdered) and not world.events(e.VictimUnmarked)
    world.resource("res0", "node0", state="Detaching", deleting=True)
    assert not world.events(e.AttachOrdered)
    world.take_away("res0")
    assert world.only(e.AttachOrdered).reason == "demand"


def test_a_size_is_lowered_once() -> None:
    world = lowered()
    world.tick(600)
    assert world.only(e.DetachOrdered).size == 0


@pytest.mark.parametrize(
    ("labels", "policy"),
    [({}, {"limit": {"min": 2}}), ({"cohdi.io/nvidia-a100-40-size-min": "2"}, {})],
    ids=["by policy", "by label"],
)
def test_the_minimum_stays(labels: dict[str, str], policy: dict[str, Any]) -> None:
    world = idle(3, **policy)
    world.relabel("node0", labels)
    world.tick(7200)
    assert [v.resource for v in world.events(e.VictimMarked)] == ["res0"]


def test_what_others_ask_for_and_what_nobody_asks_for_count_towards_the_minimum() -> None:
    """Two of theirs that are on their way, one whose request is gone: one of ours may go."""
    world = idle(1, limits={f"node0/{A100.model}": {"min": 3, "max": 8}})
    world.request("theirs", "node0", size=2)
    world.online("orphan", "node0", request="gone")
    world.tick(3600)
    marks(world, ["res0"])
    world.tick(31)
    lists(world)
    assert world.only(e.DetachOrdered).victims == ("res0",)


def test_detaches_per_hour_are_capped_over_the_fleet() -> None:
    world = idle(4, detaches_per_hour=2, no_removal_seconds=600)
    world.tick(3000)
    assert [v.resource for v in world.events(e.VictimMarked)] == ["res0", "res1"]
    world.tick(1800)
    assert [v.resource for v in world.events(e.VictimMarked)] == ["res0", "res1", "res2", "res3"]


def test_no_detaches_per_hour_means_none() -> None:
    world = idle(2, detaches_per_hour=0, no_removal_seconds=600)
    world.tick(36_000)
    assert not world.events(e.VictimMarked)


@pytest.mark.parametrize(
    ("guards", "knob", "decided"),
    [
        (True, "never", [e.HoldBegun]),
        (True, "best_effort", [e.HoldBegun]),
        (False, "best_effort", [e.VictimMarked]),
        (False, "never", []),
    ],
)
def test_where_nothing_can_be_held_the_policy_decides(guards: bool, knob: str, decided: list[type]) -> None:
    world = idle(1, exchange=guards, detach_without_fence=knob)
    world.tick(3600)
    assert [type(one) for one in world.decisions(e.VictimMarked, e.HoldBegun)] == decided


@pytest.mark.parametrize(
    ("answer", "decided"),
    [
        (e.Capabilities(version="1.36", guards="dds"), e.HoldBegun),
        (e.Capabilities(version="1.36", unguarded="there is no policy"), e.VictimMarked),
    ],
)
def test_nothing_goes_unheld_before_the_server_has_told_whether_it_can_be_held(
    answer: e.Capabilities, decided: type
) -> None:
    """A scheduler took a device that a new process had let go without a hold before it was answered."""
    world = idle(1)
    world.feed(e.Capabilities(unguarded="the API server has not answered yet", unanswered=True))
    world.tick(3600)
    assert not world.decisions(e.VictimMarked, e.HoldBegun)
    world.feed(answer)
    assert [type(one) for one in world.decisions(e.VictimMarked, e.HoldBegun)] == [decided]


def test_mode_attach_gives_nothing_back() -> None:
    world = idle(2, "attach")
    world.tick(36_000)
    assert not world.decisions(e.VictimMarked, e.ClaimsListWanted, e.DetachOrdered)


def test_a_mode_that_is_lowered_takes_fences_down() -> None:
    world = idle(1)
    world.tick(3600)
    world.change_policy(mode="attach")
    assert world.only(e.VictimUnmarked).reason == "mode is attach"
    world.tick(600)
    assert not world.events(e.DetachOrdered)


def test_the_kill_switch_takes_fences_down_too() -> None:
    world = idle(1)
    world.tick(3600)
    world.update(world.get(Config, ""), mode="attach")
    assert world.only(e.VictimUnmarked).reason == "mode is attach"


def test_observe_shows_what_would_go_and_changes_nothing() -> None:
    world = idle(2, "observe")
    world.tick(36_000)
    assert [v.resource for v in world.events(e.VictimMarked)] == ["res0", "res1"]
    assert world.device("res0") == "Idle"
    assert not world.state.give_back.fences.rows


def test_a_device_promised_to_a_claim_is_no_victim() -> None:
    world = idle(1)
    world.waits("train", "node0")
    assert world.reserved("train") == ["GPU-res0"]
    world.unreserve("train")
    world.clear("train")
    world.change_policy(no_allocation_seconds=86_400)
    world.tick(7200)
    assert not world.events(e.VictimMarked)


def test_the_claims_of_a_device_that_is_kept_are_settled() -> None:
    world = idle(1, limit={"min": 1})
    world.holds("train", "node0", "gpu-GPU-res0")
    world.bind("train")
    world.finish("train")
    settled = [m for m in world.events(e.ClaimMoved) if m.trigger == "settled"]
    assert [m.cause for m in settled] == ["its device is kept by policy"]


def test_another_model_on_the_node_has_its_own_request_and_victims() -> None:
    world = idle(1)
    world.request("h100", "node0", H100, size=1, labels={"app.kubernetes.io/managed-by": "dds"})
    world.online("hres", "node0", H100, request="h100")
    world.update(world.get(AttachRequest, "h100"), state="Running", acted_size=1)
    world.tick(3600)
    world.carry_out()
    world.tick(31)
    lists(world)
    assert {(d.request, d.victims) for d in world.events(e.DetachOrdered)} >= {("ours", ("res0",))}
    assert all("hres" not in d.victims for d in world.events(e.DetachOrdered) if d.request == "ours")


@pytest.mark.parametrize("mode", ["attach", "detach"])
def test_a_mark_of_a_scaler_whose_log_is_gone_comes_off(mode: str) -> None:
    """Nobody watches its fence, and nothing of the request would go as long as it is there."""
    world = idle(2, mode)
    marks(world, ["res0"])
    assert world.only(e.VictimUnmarked).resource == "res0"
    world.resource("res0", "node0", marked=False)
    assert len(world.events(e.VictimUnmarked)) == 1


def test_a_request_with_marks_of_a_scaler_whose_log_is_gone_is_lowered_in_its_turn() -> None:
    world = idle(2)
    marks(world, ["res0"])
    world.resource("res0", "node0", marked=False)
    world.tick(3600)
    assert [v.resource for v in world.events(e.VictimMarked)] == ["res0", "res1"]
    marks(world, ["res0", "res1"])
    world.tick(31)
    lists(world)
    assert world.only(e.DetachOrdered).victims == ("res0", "res1")


def test_a_strange_mark_stays_while_the_operator_is_about_to_take_what_is_marked() -> None:
    """A scaler whose log is gone, or the reference, had lowered the size: without the mark another device would go."""
    world = idle(2)
    world.update(world.get(AttachRequest, "ours"), size=1)
    marks(world, ["res0"])
    world.tick(60)
    assert not world.events(e.VictimUnmarked)
    world.take_away("res0")
    world.update(world.get(AttachRequest, "ours"), acted_size=1)
    marks(world, ["res1"])
    assert world.only(e.VictimUnmarked).resource == "res1"


def test_a_strange_mark_beside_a_victim_of_ours_comes_off_although_the_size_is_lowered() -> None:
    """The size was lowered for ours; the operator might take the other in its place."""
    world = idle(2)
    world.tick(3600 - 2 * 60 + 1)
    marks(world, ["res0"])
    world.tick(31)
    lists(world)
    assert world.only(e.DetachOrdered).victims == ("res0",)
    world.update(world.get(AttachRequest, "ours"), size=1)
    marks(world, ["res1"])
    assert world.only(e.VictimUnmarked).resource == "res1"


def test_marks_on_what_is_not_ours_and_in_observe_are_left_alone() -> None:
    world = idle(1)
    world.request("theirs", "node0", H100, size=1)
    world.online("other", "node0", H100, request="theirs", marked=True)
    assert not world.events(e.VictimUnmarked)
    shadow = idle(1, "observe")
    marks(shadow, ["res0"])
    assert not shadow.events(e.VictimUnmarked)
