"""An error is not yet a verdict: the operator keeps its text until its next look, and one failed question is an error."""

from __future__ import annotations

from typing import Any

import pytest

from dds_core.events import DeadlinePassed
from dds_core.model import AttachRequest
from dds_core.scaler import events as e
from dds_core.scaler.operator import verdict
from tests.support.world import A100, GPU, START, World, one_node
from tests.support.world import SECOND as MICROSECONDS

FAILS = 'failed to process FM request: Get "https://fabric-manager": EOF'
GONE = "the target device 'GPU-res' cannot be found in CDI system"
CRITICAL = "the target device 'GPU-res' is showing a Critical status in FM"
WARNING = "the target device 'GPU-res' is showing a Warning status in FM"


def alerts(world: World, reason: str) -> list[e.Alerted]:
    return [one for one in world.events(e.Alerted) if one.reason == reason]


def free(mode: str = "attach", **fields: Any) -> World:
    """A device is Online on node0, and another with it, that has never an error."""
    world = one_node(mode, 20, scan_interval_seconds=0, **fields)
    world.online("well", "node0", request="theirs")
    world.holds("other", "node0", "gpu-GPU-well")
    world.online("res", "node0", request="theirs")
    return world


def ordered() -> World:
    """`train` waits on node0 for `res`, which the operator attaches beside `well`."""
    world = one_node("attach", 20, scan_interval_seconds=0)
    world.online("well", "node0", request="theirs")
    world.holds("other", "node0", "gpu-GPU-well")
    world.waits("train", "node0")
    world.carry_out()
    world.resource("res", "node0", request=world.only(e.AttachOrdered).request, state="Attaching")
    return world


@pytest.mark.parametrize(
    ("text", "found"),
    [(GONE, "gone"), (CRITICAL, "critical"), (WARNING, "warning"), (FAILS, ""), ("", ""), ("warning: slow", "")],
)
def test_what_a_text_says_of_the_device(text: str, found: str) -> None:
    assert verdict(text) == verdict(text.upper()) == found


# -- Online, and a question failed ---------------------------------------------------------------------------------------


def test_one_failed_question_costs_no_second_device() -> None:
    """It fails for 4 s: a second device was ordered 40 ms later, the exchange was ended, and the pod was bound after 65 s."""
    world = ordered()
    world.resource("res", "node0", uuid="GPU-res", state="Online")
    world.resource("res", "node0", error=FAILS)
    world.tick(1)
    world.plug("node0", "gpu-res", "GPU-res")
    world.tick(28)
    world.resource("res", "node0", error="")
    assert world.reserved("train") == ["GPU-res"]
    world.tick(100)
    assert len(world.events(e.AttachOrdered)) == 1
    assert not world.events(e.ClaimFailed) and not world.events(e.Alerted)


def test_an_exchange_goes_on_with_it() -> None:
    world = World("attach", exchange=True, scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 4)
    world.waits("train", "node0")
    world.carry_out()
    world.online("res", "node0", request=world.only(e.AttachOrdered).request)
    world.resource("res", "node0", error=FAILS)
    for _ in range(6):
        world.carry_out()
    assert world.only(e.DevicesGiven).swap.results[0].key == (GPU, "node0", "gpu-GPU-res")
    assert not world.events(e.ExchangeEnded) and len(world.events(e.AttachOrdered)) == 1


def test_nobody_new_is_given_it_meanwhile_and_nothing_else_is_ordered() -> None:
    world = free()
    world.resource("res", "node0", error=FAILS)
    world.waits("train", "node0")
    world.tick(60)
    assert not world.events(e.Reserved) and not world.events(e.AttachOrdered)
    world.resource("res", "node0", error="")
    assert world.reserved("train") == ["GPU-res"]


def test_after_two_checks_it_is_told_and_another_one_is_ordered() -> None:
    world = free()
    world.resource("res", "node0", error=FAILS)
    since = world.now
    world.waits("train", "node0")
    world.tick(64)
    assert not world.events(e.Alerted) and not world.events(e.AttachOrdered)
    world.tick(2)
    (told,) = alerts(world, "DeviceError")
    assert told.of == "res" and FAILS in told.text and "assigned to no claim" in told.text
    assert world.only(e.AttachOrdered).claims == (world.uid("train"),)
    (passed,) = [step.fact for step in world.steps if isinstance(step.fact, DeadlinePassed) if step.fact.kind == "sick"]
    assert (passed.of, passed.due) == ("res", since + 65 * MICROSECONDS)
    assert world.verified().differences == []


def test_another_text_is_the_same_error_and_no_error_begins_anew() -> None:
    world = free()
    world.resource("res", "node0", error=FAILS)
    world.tick(40)
    world.resource("res", "node0", error="unable to rotate token")
    world.tick(26)
    assert len(alerts(world, "DeviceError")) == 1
    world.resource("res", "node0", error="")
    world.resource("res", "node0", error=FAILS)
    world.tick(60)
    assert len(alerts(world, "DeviceError")) == 1
    world.tick(6)
    assert len(alerts(world, "DeviceError")) == 2


@pytest.mark.parametrize("text", [GONE, CRITICAL])
def test_a_verdict_counts_at_once(text: str) -> None:
    world = free()
    world.resource("res", "node0", error=text)
    assert [one.of for one in alerts(world, "DeviceError")] == ["res"]
    world.waits("train", "node0")
    assert world.only(e.AttachOrdered).claims == (world.uid("train"),)
    assert not world.events(e.Reserved)


@pytest.mark.parametrize("text", [GONE, CRITICAL])
def test_a_verdict_ends_the_exchange_at_once(text: str) -> None:
    world = World("attach", exchange=True, scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 4)
    world.waits("train", "node0")
    world.carry_out()
    world.online("res", "node0", request=world.only(e.AttachOrdered).request)
    world.resource("res", "node0", error=text)
    for _ in range(3):
        world.carry_out(e.ExchangeBegun, e.ClaimsListWanted)
    assert len(world.events(e.ExchangeEnded)) == 1 and not world.events(e.AllocationCleared)
    assert len(world.events(e.AttachOrdered)) == 2


# -- a warning -----------------------------------------------------------------------------------------------------------


def test_one_with_a_warning_serves_when_nothing_better_is_there_and_is_told() -> None:
    world = free()
    world.resource("res", "node0", error=WARNING)
    (told,) = alerts(world, "DeviceError")
    assert told.of == "res" and "only where nothing better is there" in told.text
    world.waits("train", "node0")
    assert world.reserved("train") == ["GPU-res"] and not world.events(e.AttachOrdered)
    world.tick(100)
    assert len(world.events(e.Alerted)) == 1


def test_a_better_one_goes_before_it() -> None:
    world = free()
    world.resource("res", "node0", error=WARNING)
    world.online("zz-better", "node0", request="theirs")
    world.waits("train", "node0")
    world.waits("second", "node0")
    assert (world.reserved("train"), world.reserved("second")) == (["GPU-zz-better"], ["GPU-res"])


def test_where_every_device_has_a_warning_one_pod_costs_one_attach() -> None:
    """The manager accepts it for an attach and complains once it is Online: it was eleven attaches, and the pod not served."""
    world = one_node("detach", 20, scan_interval_seconds=0, no_removal_seconds=600)
    world.waits("train", "node0")
    world.carry_out()
    world.online("res", "node0", request=world.only(e.AttachOrdered).request)
    world.resource("res", "node0", error=WARNING)
    world.tick(150)
    assert len(world.events(e.AttachOrdered)) == 1
    assert world.reserved("train") == ["GPU-res"] or world.state_of("train") == "Attached"
    assert not world.events(e.DetachOrdered) and len(alerts(world, "DeviceError")) == 1


# -- with an id, on the way ----------------------------------------------------------------------------------------------


def test_an_error_after_the_id_is_the_nodes() -> None:
    """nvidia-smi failed once for 3 s: the claim failed, its node cooled down, and a second device came elsewhere."""
    world = ordered()
    world.resource("res", "node0", uuid="GPU-res", error="nvidia-smi: exit status 9")
    world.tick(29)
    world.resource("res", "node0", error="")
    world.plug("node0", "gpu-res", "GPU-res")
    assert world.reserved("train") == ["GPU-res"]
    assert len(world.events(e.AttachOrdered)) == 1
    assert not world.decisions(e.ClaimFailed, e.CoolDown, e.Alerted)


def test_before_two_looks_nothing_is_made_of_it_and_then_it_is_told_and_another_ordered() -> None:
    world = ordered()
    world.resource("res", "node0", uuid="GPU-res", error="nvidia-smi: exit status 9")
    world.tick(64)
    assert len(world.events(e.AttachOrdered)) == 1 and not world.events(e.Alerted)
    world.tick(2)
    assert [one.size for one in world.events(e.AttachOrdered)] == [1, 2]
    (told,) = alerts(world, "DeviceError")
    assert told.of == "res" and "Attaching with an error" in told.text
    assert not world.decisions(e.ClaimFailed, e.CoolDown)


def test_an_error_before_the_id_is_forgiven_by_it() -> None:
    world = ordered()
    world.resource("res", "node0", error="no free resource")
    world.tick(8)
    world.resource("res", "node0", error="", uuid="GPU-res")
    world.tick(60)
    assert not world.decisions(e.ClaimFailed, e.CoolDown)


# -- the manager is away -------------------------------------------------------------------------------------------------


def many(count: int = 20) -> World:
    """So many devices are Online on five nodes, one of them in use."""
    world = World("attach", scan_interval_seconds=0)
    for number in range(5):
        world.node(f"node{number}")
    world.pool(A100, 4)
    for number in range(count):
        world.online(f"res{number:02}", f"node{number % 5}", request="theirs")
    world.holds("busy", "node0", "gpu-GPU-res00")
    return world


def fail(world: World, names: list[str], text: str = FAILS) -> None:
    for name in names:
        world.resource(name, world.state.fleet.resources.rows[name].node, error=text)


def test_an_error_of_all_devices_is_the_managers_and_told_once() -> None:
    world = many()
    names = sorted(world.state.fleet.resources.rows)
    fail(world, names)
    world.tick(600)
    told = world.only(e.Alerted)
    assert (told.of, told.reason) == ("manager", "ManagerError")
    assert "20 devices" in told.text and FAILS in told.text
    assert world.verified().differences == []


def test_devices_are_used_as_before_meanwhile() -> None:
    world = many()
    fail(world, sorted(world.state.fleet.resources.rows))
    world.waits("train", "node1")
    assert len(world.reserved("train")) == 1
    world.tick(100)
    world.waits("late", "node2")
    assert len(world.reserved("late")) == 1
    assert not world.events(e.AttachOrdered)


def test_they_are_cleared_one_by_one_without_a_word_of_the_others() -> None:
    """Each goes at the operator's next check of that device, up to 30 s after the first."""
    world = many()
    names = sorted(world.state.fleet.resources.rows)
    fail(world, names)
    world.tick(100)
    for name in names:
        fail(world, [name], "")
        world.tick(1.3)
    world.tick(200)
    assert [one.reason for one in world.events(e.Alerted)] == ["ManagerError"]
    assert not world.state.health.sick
    fail(world, names)
    world.tick(70)
    assert [one.reason for one in world.events(e.Alerted)] == ["ManagerError", "ManagerError"], "it is told again"


def test_one_whose_error_stays_when_the_manager_answers_again_is_told_after_two_checks_more() -> None:
    world = many()
    names = sorted(world.state.fleet.resources.rows)
    fail(world, names)
    world.tick(100)
    fail(world, names[1:], "")
    first = world.now
    world.tick(60)
    assert not alerts(world, "DeviceError")
    world.tick(6)
    assert [one.of for one in alerts(world, "DeviceError")] == [names[0]]
    assert world.now > first


def test_what_is_leaving_says_nothing_of_the_manager() -> None:
    """The operator does not check it any more: it has no error, whether or not the manager answers."""
    world = many(3)
    world.resource("res02", "node2", deleting=True)
    fail(world, ["res00", "res01"])
    world.tick(66)
    assert [one.reason for one in world.events(e.Alerted)] == ["ManagerError"]
    world.waits("train", "node1")
    assert world.reserved("train") == ["GPU-res01"]


def test_only_the_end_of_the_managers_failure_begins_anything_anew() -> None:
    """One of the devices that fail goes; the others are told when they were to be."""
    world = many(4)
    fail(world, sorted(world.state.fleet.resources.rows))
    since = world.now
    world.tick(40)
    world.resource("res03", "node3", deleting=True, state="Detaching")
    world.gone(world.state.fleet.resources.rows["res03"])
    world.tick(66 - (world.now - since) / MICROSECONDS)
    assert [one.reason for one in world.events(e.Alerted)] == ["ManagerError"]


def test_one_whose_error_goes_while_the_manager_answers_begins_nothing_anew() -> None:
    world = many(4)
    fail(world, ["res00", "res01"])
    since = world.now
    world.tick(40)
    fail(world, ["res01"], "")
    world.tick(66 - (world.now - since) / MICROSECONDS)
    assert [one.of for one in alerts(world, "DeviceError")] == ["res00"]


def test_a_device_that_comes_without_an_error_is_the_end_of_it_too() -> None:
    world = many(3)
    fail(world, sorted(world.state.fleet.resources.rows))
    world.tick(100)
    world.online("new", "node4", request="theirs")
    world.tick(60)
    assert not alerts(world, "DeviceError")
    world.tick(6)
    assert len(alerts(world, "DeviceError")) == 3


def test_a_single_device_is_not_all_devices() -> None:
    world = one_node("attach", 20, scan_interval_seconds=0)
    world.online("res", "node0", request="theirs")
    world.resource("res", "node0", error=FAILS)
    world.tick(66)
    assert [one.reason for one in world.events(e.Alerted)] == ["DeviceError"]


def test_one_device_without_an_error_says_that_the_manager_answers() -> None:
    world = many(4)
    fail(world, ["res00", "res01", "res02"])
    world.tick(66)
    assert [one.of for one in alerts(world, "DeviceError")] == ["res00", "res01", "res02"]
    assert not alerts(world, "ManagerError")


def test_a_verdict_on_one_of_them_says_so_too() -> None:
    world = many(3)
    fail(world, ["res00", "res01"])
    fail(world, ["res02"], GONE)
    world.tick(66)
    assert not alerts(world, "ManagerError")
    assert {one.of for one in alerts(world, "DeviceError")} == {"res00", "res01", "res02"}


# -- gone ----------------------------------------------------------------------------------------------------------------


def vanished(*, listed: bool) -> World:
    """An idle device of dds that the manager cannot find, where devices are held before they go."""
    world = World("detach", exchange=True, scan_interval_seconds=0, no_removal_seconds=3600)
    world.node("node0")
    world.pool(A100, 4)
    ours = {"app.kubernetes.io/managed-by": "dds"}
    world.request("ours", "node0", size=2, acted_size=2, state="Running", labels=ours)
    world.online("well", "node0", request="ours")
    world.holds("other", "node0", "gpu-GPU-well")
    world.online("res", "node0", request="ours")
    if not listed:
        world.unplug("node0", "gpu-GPU-res")
    world.tick(20)
    world.resource("res", "node0", error=GONE)
    return world


def test_one_that_cannot_be_found_goes_back_at_once_when_no_node_lists_it() -> None:
    """It was kept for five minutes, until a second device came."""
    world = vanished(listed=False)
    assert world.only(e.VictimMarked).resource == "res"
    world.carry_out()
    ordered = world.only(e.DetachOrdered)
    assert (ordered.victims, ordered.size) == (("res",), 1)
    assert not world.decisions(e.HoldBegun, e.ClaimsListWanted)
    assert (world.now - START) / MICROSECONDS < 25


def test_one_that_is_still_listed_is_held_first_and_idles_no_longer() -> None:
    world = vanished(listed=True)
    assert world.only(e.HoldBegun).resource == "res"
    assert not world.events(e.VictimMarked)


def test_one_in_use_is_kept() -> None:
    world = free("detach")
    world.holds("train", "node0", "gpu-GPU-res")
    world.resource("res", "node0", error=GONE)
    world.tick(600)
    assert world.device("res") == "Used"
    assert not world.decisions(e.VictimMarked, e.DetachOrdered)


def test_its_request_is_not_lowered_by_more_than_it() -> None:
    world = vanished(listed=False)
    world.carry_out()
    world.carry_out()
    assert world.get(AttachRequest, "ours").size == 1
    world.take_away("res")
    world.update(world.get(AttachRequest, "ours"), acted_size=1, state="Running")
    world.tick(600)
    assert len(world.events(e.DetachOrdered)) == 1


def test_a_verdict_stands_while_the_manager_is_away() -> None:
    """All devices get the error of the question then; one that was Critical before was given to a claim."""
    world = free()
    world.resource("res", "node0", error=CRITICAL)
    for name in ("well", "res"):
        world.resource(name, "node0", error=FAILS)
    assert world.state.manager_fails and world.state.is_sick(world.state.fleet.resources.rows["res"])
    world.waits("train", "node0")
    assert world.reserved("train") == []
    world.resource("res", "node0", error="")
    assert world.reserved("train") == ["GPU-res"]


@pytest.mark.parametrize("listed", [True, False])
def test_one_that_cannot_be_found_goes_at_once_from_a_node_with_a_minimum(listed: bool) -> None:
    """It is of no use to the node, listed or not."""
    world = one_node("detach", 20, scan_interval_seconds=0, limit={"min": 1}, no_removal_seconds=600)
    world.request("ours", "node0", state="Running", acted_size=1, labels={"app.kubernetes.io/managed-by": "dds"})
    world.online("res", "node0", request="ours")
    world.tick(5)
    if not listed:
        world.unplug("node0", "gpu-GPU-res")
    world.resource("res", "node0", error=GONE)
    for _ in range(20):
        world.tick(3)
        world.carry_out()
    assert world.events(e.DetachOrdered)[0].victims == ("res",)
    assert not [one for one in world.events(e.Alerted) if one.reason == "InvariantBroken"]
