"""What each decision of a claim's life means in writes, what a person is told of it, and how many writes that makes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from dds_adapters.kubernetes.write.conditions import SteerPod, TellClaims
from dds_adapters.kubernetes.write.devices import (
    LabelNode,
    MarkVictim,
    NudgeOperator,
    StampUse,
    UnmarkVictim,
    rfc3339,
)
from dds_adapters.kubernetes.write.events import TellPeople, announce
from dds_adapters.kubernetes.write.exchange import GuardDevices
from dds_adapters.kubernetes.write.holds import EndHold, HoldDevice
from dds_adapters.kubernetes.write.live_object import Ref
from dds_adapters.kubernetes.write.outbox import Outbox
from dds_adapters.kubernetes.write.requests import LowerRequest, RaiseRequest, StampEpoch
from dds_adapters.kubernetes.write.scaler_tasks import Overtaken, stamps, tasks_of
from dds_adapters.kubernetes.write.tasks import Declined, Done, Obsolete, Task
from dds_core.events import Superseded, WriteRefused
from dds_core.model import AttachRequest, Pod
from dds_core.scaler import events as e
from tests.core.scaler.test_called_off import SECOND_PAUSE, called_off, hanging, wait
from tests.support.world import A100, RESCHEDULE, START, World, one_node
from tests.support.written_objects import WrittenObjects, uid_of

OURS = {"app.kubernetes.io/managed-by": "dds"}


def world_of(mode: str = "detach", **given: Any) -> World:
    told = {"no_removal_seconds": 600, "scan_interval_seconds": 0, **given}
    world = World(mode, **told)
    world.feed(e.Started(code="1", fingerprint="f", projection=1, epoch=7, mode=mode))
    world.feed(e.Synced())
    world.node("node0")
    world.pool(A100, 4)
    return world


class Desk:
    """The tasks and announcements of what was decided since it was last asked."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._seen = 0

    def decided(self) -> list[Task]:
        return [task for task in self.all() if task.decision]

    def told(self) -> list[TellPeople]:
        return [task.write for task in self.all() if isinstance(task.write, TellPeople)]

    def all(self) -> list[Task]:
        steps, self._seen = self.world.steps[self._seen :], len(self.world.steps)
        state = self.world.state
        found: list[Task] = []
        for step in steps:
            for number, event in enumerate((step.fact, *(event for event, _ in step.caused))):
                tasks = tasks_of(event, f"id-{number}", step.at, state) if isinstance(event, e.Decision) else ()
                found += [*tasks, *announce(event, step.at, state)]
        return found

    def of(self, kind: type[Any]) -> Task:
        (task,) = [one for one in self.decided() if isinstance(one.write, kind)]
        return task


# --- attach ------------------------------------------------------------------------------------------------------------


def waiting(**given: Any) -> tuple[World, Desk]:
    world = world_of(**given)
    desk = Desk(world)
    world.claim("train")
    desk.decided()
    world.allocate("train", "node0")
    return world, desk


def test_an_order_makes_a_request_with_our_epoch() -> None:
    world, desk = waiting()
    task = desk.of(RaiseRequest)
    write = task.write
    assert isinstance(write, RaiseRequest)
    assert (write.type, write.model, write.node, write.size, write.previous) == ("gpu", A100.model, "node0", 1, None)
    assert (write.epoch_key, write.epoch) == ("cohdi.io/epoch", 7)
    assert (task.action, task.target, task.needs) == ("AttachOrdered", write.name, "attach")
    assert task.objects == (f"composabilityrequests/{write.name}",) and task.decision.startswith("id-")
    assert task.at == world.steps[-1].at
    (told,) = task.then
    assert isinstance(told.write, TellPeople) and told.write.note.startswith("ordered "), "once it has"


def test_observe_writes_and_tells_nothing() -> None:
    world, desk = waiting(mode="observe")
    assert world.events(e.AttachOrdered)
    assert desk.all() == []


def test_a_newer_order_takes_the_place_of_an_older_one() -> None:
    """The older one may still be tried: its answer was lost, and the cluster shows that it was written."""
    world, desk = waiting()
    first = desk.of(RaiseRequest)
    world.waits("second", "node0")
    assert desk.decided() == [], "the operator has still to make what was ordered before"
    world.carry_out()
    world.make()
    second = desk.of(RaiseRequest)
    assert first.replaces == second.replaces != "" and isinstance(second.write, RaiseRequest) and second.write.size == 2


def test_an_order_that_is_taken_back_takes_the_place_of_what_was_not_written() -> None:
    world, desk = waiting()
    first = desk.of(RaiseRequest)
    world.clear("train")
    back = desk.of(RaiseRequest)
    assert first.replaces == back.replaces != "" and isinstance(back.write, RaiseRequest) and back.write.size == 0


# --- hand-over ---------------------------------------------------------------------------------------------------------


def attached(**given: Any) -> tuple[World, Desk]:
    world, desk = waiting(**given)
    desk.decided()
    world.carry_out()
    world.operate()
    return world, desk


def test_a_hand_over_tells_every_claim_of_the_group_with_its_allocation() -> None:
    world = world_of()
    desk = Desk(world)
    world.claim("a", pod="")
    world.claim("b", 2, pod="")
    world.pod("p", ["a", "b"])
    world.allocate("a", "node0")
    world.allocate("b", "node0")
    for _ in ("a", "b"):  # one order after the other
        assert not world.decisions(e.HandOver)
        world.carry_out(e.AttachOrdered)
        world.operate()
    task = desk.of(TellClaims)
    write = task.write
    assert isinstance(write, TellClaims)
    claims = [world.state.demand.claims.rows[world.uid(name)] for name in ("a", "b")]
    assert [(one.ref.name, one.ref.uid, one.allocation) for one in write.claims] == [
        (claim.name, claim.uid, claim.allocation) for claim in claims
    ]
    assert [len(one.entries) for one in write.claims] == [1, 2]
    assert task.objects == tuple(f"resourceclaims/{claim.uid}" for claim in claims)
    assert (task.action, task.target) == ("HandOver", claims[0].uid) and write.when.endswith("Z")
    assert task.within == world.state.policy.no_allocation_seconds, "then the devices are promised to nobody"


def test_a_hand_over_that_was_overtaken_before_it_was_planned_writes_nothing() -> None:
    world, desk = attached()
    world.clear("train")
    world.node("node1")
    world.allocate("train", "node1")
    (task,) = [one for one in desk.decided() if one.action == "HandOver"]
    assert isinstance(task.write, Overtaken)
    stage = WrittenObjects()
    assert isinstance(stage.carry_out(task.write), Obsolete) and stage.writer.requests == {}


def test_steering_clears_what_was_signalled() -> None:
    world, desk = attached(hand_over="clear")
    world.carry_out()
    desk.decided()
    world.unreserve("train")
    world.pod("train", waiting="SchedulerError", nominated="")
    task = desk.of(SteerPod)
    write = task.write
    assert isinstance(write, SteerPod)
    pod = world.get(Pod, "train")
    assert (write.pod.name, write.pod.namespace, write.pod.uid, write.node) == ("train", "default", pod.uid, "node0")
    (one,) = write.claims
    claim = world.state.demand.claims.rows[world.uid("train")]
    assert one.allocation == claim.allocation and {(*key, RESCHEDULE) for key in one.devices} == claim.true_conditions
    assert (task.target, task.objects) == (pod.uid, (f"pods/{pod.uid}", f"resourceclaims/{claim.uid}"))


def test_steering_that_was_overtaken_writes_nothing() -> None:
    world, desk = attached(hand_over="clear")
    world.carry_out()
    desk.decided()
    world.unreserve("train")
    world.pod("train", waiting="SchedulerError", nominated="")
    world.clear("train")
    (task,) = [one for one in desk.decided() if one.action == "Steered"]
    assert isinstance(task.write, Overtaken)


# --- failure -----------------------------------------------------------------------------------------------------------


def failed() -> tuple[World, Desk]:
    world, desk = waiting(mode="attach")
    world.carry_out()
    request = world.only(e.AttachOrdered).request
    world.resource("res", "node0", request=request, state="Attaching", error="E02 no such port")
    world.tick(12)
    return world, desk


def test_a_failure_labels_the_node_first_then_tells_the_claim() -> None:
    world, desk = failed()
    task = desk.of(LabelNode)
    assert task.write == LabelNode("node0", "node-node0", (("cohdi.io/nvidia-a100-40", None),))
    assert (task.target, task.objects) == ("node0", ("nodes/node0",))
    world.carry_out(e.NodeLabelled)
    task = desk.of(TellClaims)
    write = task.write
    assert isinstance(write, TellClaims) and [one.condition for one in write.claims[0].entries] == [
        "FabricDeviceFailed"
    ]
    assert (task.action, task.target) == ("FailureSignalled", world.uid("train"))


def test_a_failure_of_an_attempt_that_is_over_tells_nobody() -> None:
    world, _ = failed()
    world.carry_out(e.NodeLabelled)
    told = world.only(e.FailureSignalled)
    (task,) = tasks_of(replace(told, attempt=told.attempt + 1), "id", 1, world.state)
    assert isinstance(task.write, Overtaken)
    world.node("node1")
    life = world.state.lifecycle.lives.rows[world.uid("train")]
    world.state.lifecycle.lives.put(world.uid("train"), replace(life, node="node1"))
    (task,) = tasks_of(told, "id", 1, world.state)
    assert isinstance(task.write, Overtaken)


def test_what_is_said_of_a_device_that_is_not_allocated_any_more_is_overtaken() -> None:
    world, _ = attached()
    told = world.only(e.HandOver)
    (signal,) = told.signals
    other = replace(signal, entries=(replace(signal.entries[0], device="another"),))
    (task,) = tasks_of(replace(told, signals=(other,)), "id", 1, world.state)
    assert isinstance(task.write, Overtaken)
    (task,) = tasks_of(told, "id", 1, world.state)
    assert isinstance(task.write, TellClaims)


def test_label_decisions_replace_only_those_about_the_same_labels() -> None:
    world = world_of()
    one = e.NodeLabelled(node="node0", labels={"a": "1"}, mode="detach", reason="")
    two = e.NodeLabelled(node="node0", labels={"a": None}, mode="detach", reason="")
    other = e.NodeLabelled(node="node0", labels={"a": "1", "b": "1"}, mode="detach", reason="")
    ((first,), (second,), (third,)) = (tasks_of(decision, "id", 1, world.state) for decision in (one, two, other))
    assert first.replaces == second.replaces != third.replaces
    assert first.objects == third.objects


# --- the operator's looks ----------------------------------------------------------------------------------------------


def nudge(why: str, mode: str = "attach") -> e.OperatorNudged:
    return e.OperatorNudged(resource="res0-uid", mode=mode, name="res0", node="node0", why=why)


@pytest.mark.parametrize("mode", ["attach", "detach"])
@pytest.mark.parametrize(
    ("why", "state", "named"),
    [
        ("list", "Attaching", True),
        ("settle", "Attaching", True),
        ("attach", "Attaching", False),
        ("detach", "Detaching", True),
    ],
)
def test_a_nudge_looks_for_what_it_was_decided_about(why: str, state: str, named: bool, mode: str) -> None:
    (task,) = tasks_of(nudge(why, mode), "id", 1_500_000, world_of(mode).state)
    assert task.write == NudgeOperator("res0", "res0-uid", "1970-01-01T00:00:01Z", state, named)
    assert (task.action, task.target, task.needs) == ("OperatorNudged", "res0-uid", "attach")
    assert (task.decision, task.objects) == ("id", ("composableresources/res0-uid",))
    assert task.within == 2, "a late look could meet the operator's own write, or a plugin that is starting"


def test_an_order_is_called_off_in_the_pause_or_not() -> None:
    """Later the operator may order again, and the device would come for a resource that is gone."""
    world = hanging()
    wait(world, SECOND_PAUSE[0])
    (off,) = called_off(world)
    at = world.steps[-1].at
    (task,) = tasks_of(off, "id", at, world.state)
    assert isinstance(task.write, LowerRequest) and task.write.unattached
    assert task.within == pytest.approx(SECOND_PAUSE[1] - SECOND_PAUSE[0], abs=2)


def named(mode: str) -> tuple[World, Desk]:
    """A device has its id and is listed, and the operator has not looked since."""
    world = world_of(mode)
    world.resource("res0", "node0", request="theirs", state="Attaching", uuid="GPU-res0")
    world.plug("node0", "gpu-GPU-res0", "GPU-res0")
    return world, Desk(world)


@pytest.mark.parametrize("mode", ["attach", "detach"])
def test_a_device_that_is_listed_has_the_operator_look(mode: str) -> None:
    world, desk = named(mode)
    task = desk.of(NudgeOperator)
    write = task.write
    assert isinstance(write, NudgeOperator)
    assert (write.name, write.uid, write.state, write.named) == ("res0", "res0", "Attaching", True)
    assert task.at == world.steps[-1].at and write.when == rfc3339(task.at)


def test_in_observe_a_look_is_decided_and_not_written() -> None:
    world, desk = named("observe")
    assert world.only(e.OperatorNudged).mode == "observe"
    assert desk.all() == []


def test_a_newer_look_takes_the_place_of_one_that_was_not_written_and_of_nothing_else() -> None:
    world = world_of("detach")
    (older,) = tasks_of(nudge("list"), "a", 0, world.state)
    (newer,) = tasks_of(nudge("settle"), "b", 2_000_000, world.state)
    (other,) = tasks_of(e.UsedStamped(resource="res0-uid", mode="detach", name="res0", at=1), "c", 1, world.state)
    assert older.replaces == newer.replaces != other.replaces
    outbox = Outbox(Random(1))
    assert outbox.put([older, other], 0.0) == []
    assert outbox.put([newer], 0.0) == [Superseded("a", "OperatorNudged", "res0-uid")]
    begun = []
    while isinstance(task := outbox.next(0.0), Task):
        begun.append(task)
        outbox.finished(task, Done(), 0.0)
    assert begun == [other, newer], "in the order in which they were put"


def test_a_look_that_is_refused_is_told_as_any_refused_write() -> None:
    stage = WrittenObjects()
    uid = uid_of(stage.resource("res0", state="Attaching"))
    decision = replace(nudge("attach"), resource=uid)
    outbox = Outbox(Random(1))
    outbox.put(tasks_of(decision, "id", 1, world_of("attach").state), 0.0)
    task = outbox.next(0.0)
    assert isinstance(task, Task)
    fact = outbox.finished(task, stage.carry_out(task.write, stage.as_user("nobody")), 0.0)
    assert isinstance(fact, WriteRefused)
    assert (fact.decision, fact.action, fact.target) == ("id", "OperatorNudged", uid)
    assert (fact.code, fact.reason) == (403, "Forbidden") and "composableresources" in fact.text
    assert outbox.counts["OperatorNudged", "declined"] == 1 and not len(outbox)


# --- detach ------------------------------------------------------------------------------------------------------------


def idle(**given: Any) -> tuple[World, Desk]:
    world = world_of(**given)
    desk = Desk(world)
    world.request("ours", "node0", size=1, labels=OURS)
    world.online("res0", "node0", request="ours")
    world.update(world.get(AttachRequest, "ours"), state="Running", acted_size=1)
    world.tick(601)
    return world, desk


def test_a_detach_marks_then_lowers_and_needs_its_mode() -> None:
    world, desk = idle()
    mark = desk.of(MarkVictim)
    assert mark.write == MarkVictim("res0", "res0", "GPU-res0")
    assert (mark.needs, mark.target, mark.objects) == ("detach", "res0", ("composableresources/res0",))
    world.carry_out()
    world.tick(40)
    world.carry_out(e.ClaimsListWanted)
    lower = desk.of(LowerRequest)
    assert lower.write == LowerRequest("ours", "request-ours", 0, 1, frozenset({"res0"}))
    assert lower.needs == "detach"
    assert lower.objects == ("composabilityrequests/ours", "composableresources/res0")


def test_a_victim_that_is_wanted_is_unmarked_in_place_of_its_mark() -> None:
    world, desk = idle()
    mark = desk.of(MarkVictim)
    world.carry_out()
    world.holds("train", "node0", "gpu-GPU-res0")
    unmark = desk.of(UnmarkVictim)
    assert unmark.write == UnmarkVictim("res0", "res0")
    assert (unmark.needs, unmark.replaces) == ("attach", mark.replaces)


FACE = ("gpu.nvidia.com", "node0", "gpu-GPU-res0")
OF_DEVICE = ("configmaps/dds-guards/gpu.nvidia.com_node0_gpu-GPU-res0", "composableresources/res0")
"""What is ordered by the device: guards of exchanges, and its mark."""


def to_be_held() -> tuple[World, Task, Task]:
    """A device that is to be held, the task that guards it, and the one that holds it."""
    world, desk = idle(exchange=True)
    begin = desk.of(GuardDevices)
    world.carry_out(e.HoldBegun)
    world.carry_out(e.ClaimsListWanted)
    return world, begin, desk.of(HoldDevice)


def test_a_device_is_guarded_then_held_in_order_with_exchanges_and_marks() -> None:
    world, begin, hold = to_be_held()
    begun = world.only(e.HoldBegun)
    assert begin.write == GuardDevices("dds", (FACE,), begun.until, "node0")
    assert (begin.action, begin.target, begin.needs, begin.within) == ("HoldBegun", "res0", "detach", 2.0)
    assert isinstance(begin.too_late, Declined) and begin.too_late.reason == "NotGuarded"
    claim, owner = Ref("resourceclaims", "dds-hold-res0", "dds"), Ref("composableresources", "res0", uid="res0")
    assert hold.write == HoldDevice(claim, owner, (FACE,), "node0")
    assert (hold.action, hold.target, hold.needs) == ("DeviceHeld", "res0", "detach")
    assert begin.objects == hold.objects == OF_DEVICE
    assert 0 < hold.within == (begun.until - hold.at) / 1_000_000 - 10, "later it would be held without a guard"


@pytest.mark.parametrize("mode", ["detach", "attach", "observe"])
def test_a_hold_ends_in_order_with_its_making_whatever_the_mode_is(mode: str) -> None:
    world, desk = idle(exchange=True)
    begin = desk.of(GuardDevices)
    for step in (e.HoldBegun, e.ClaimsListWanted, e.DeviceHeld):
        world.carry_out(step)
    mark = [one for one in desk.decided() if isinstance(one.write, MarkVictim)]
    assert [one.objects for one in mark] == [OF_DEVICE[1:]]
    if mode == "detach":
        world.waits("train", "node0")
    else:
        world.change_policy(mode=mode)
    end = desk.of(EndHold)
    assert end.write == EndHold(Ref("resourceclaims", "dds-hold-res0", "dds"), "res0", (FACE,), young=True)
    assert (end.action, end.target, end.needs) == ("HoldEnded", "res0", "observe")
    assert end.objects == begin.objects


def test_a_hold_is_young_until_its_guard_is_over() -> None:
    world, desk = idle(exchange=True)
    for step in (e.HoldBegun, e.ClaimsListWanted, e.DeviceHeld):
        world.carry_out(step)
    world.tick(61)
    world.change_policy(mode="attach")
    write = desk.of(EndHold).write
    assert isinstance(write, EndHold) and not write.young


def test_nothing_of_a_hold_is_sent_where_devices_cannot_be_guarded_any_more() -> None:
    world, _, _ = to_be_held()
    begun, held = world.only(e.HoldBegun), world.only(e.DeviceHeld)
    world.change_policy(mode="attach")
    ended = world.only(e.HoldEnded)
    world.feed(e.Capabilities(version="1.36", unguarded="the policy is gone"))
    stage = WrittenObjects()
    for decision in (begun, held, ended):
        (task,) = tasks_of(decision, "id", 1, world.state)
        assert isinstance(stage.carry_out(task.write), Done if decision is ended else Obsolete), decision
        assert task.objects == OF_DEVICE and task.target == "res0"
    assert stage.writer.requests == {}


def test_the_end_of_a_hold_is_decided_again_once_it_is_known_where_devices_are_guarded() -> None:
    world, _, _ = to_be_held()
    world.change_policy(mode="attach")
    ended = world.only(e.HoldEnded)
    world.feed(e.Capabilities(version="1.36", unguarded="not answered yet", unanswered=True))
    (task,) = tasks_of(ended, "id", 1, world.state)
    assert isinstance(WrittenObjects().carry_out(task.write), Obsolete)  # done, it would leave its guard behind
    world.refused(ended, obsolete=True)
    world.feed(e.Capabilities(version="1.36", guards="dds"))
    decided = len(world.decisions(e.HoldEnded))
    world.tick(60)
    again = world.decisions(e.HoldEnded)[decided:]
    (task,) = tasks_of(again[0], "id", 1, world.state)
    assert isinstance(task.write, EndHold) and task.write.claim.namespace == "dds"


@pytest.mark.parametrize("over", ["ending", "gone"])
def test_a_hold_that_is_being_given_up_is_not_made(over: str) -> None:
    world, _, _ = to_be_held()
    held = world.only(e.DeviceHeld)
    world.change_policy(mode="attach")
    if over == "gone":
        world.carry_out(e.HoldEnded)
        assert "res0" not in world.state.give_back.holds
    (task,) = tasks_of(held, "id", 1, world.state)
    assert isinstance(task.write, Overtaken) and task.objects == OF_DEVICE


def test_a_use_is_stamped_when_the_device_is_free_again() -> None:
    world, desk = idle()
    world.holds("train", "node0", "gpu-GPU-res0")
    world.bind("train")
    desk.decided()
    world.finish("train")
    task = desk.of(StampUse)
    assert isinstance(task.write, StampUse) and (task.write.name, task.target) == ("res0", "res0")
    assert task.write.when.startswith("2023-11-14T22:")


def test_what_writes_nothing_plans_nothing() -> None:
    world = world_of()
    quiet = (
        e.Reserved(claim="c", mode="detach", node="n", cycle=1, attempt=1, promises=()),
        e.ReservationDropped(claim="c", mode="detach", reason="r"),
        e.CoolDown(node="n", model="m", mode="detach", until=1, reason="r"),
        e.CoolDownOver(node="n", model="m", mode="detach"),
        e.ClaimsListWanted(resource="r", mode="detach", fenced=1),
        e.Alerted(of="o", reason="r", text="t", mode="detach"),
    )
    assert [tasks_of(decision, "id", 1, world.state) for decision in quiet] == [()] * len(quiet)


# --- a new leader ------------------------------------------------------------------------------------------------------


def test_a_new_leader_stamps_its_own_requests_only() -> None:
    world = world_of()
    world.request("ours", "node0", labels=OURS)
    world.request("composability-x7k2q", "node1", generate_name="composability-")
    world.request("leaving", "node2", labels=OURS, deleting=True)
    (task,) = stamps(world.state)
    assert task.lasting
    assert task.write == StampEpoch("ours", "request-ours", "cohdi.io/epoch", 7)
    assert task.decision == "" and task.objects == ("composabilityrequests/ours",)


# --- what people are told ----------------------------------------------------------------------------------------------


def reasons(told: list[TellPeople]) -> list[tuple[str, str, str]]:
    return [(one.regarding.kind, one.regarding.name, one.reason) for one in told]


def test_a_life_is_told_once_at_each_step_where_its_user_looks() -> None:
    world, desk = waiting()
    request = world.only(e.AttachOrdered).request
    told = desk.told()
    assert reasons(told) == [("Pod", "train", "AttachOrdered")]
    assert told[0].related is not None and told[0].related.kind == "ResourceClaim"
    assert "A100 40G for node node0" in told[0].note and told[0].type == "Normal"
    world.carry_out()
    world.operate()
    assert reasons(desk.told()) == [
        ("ResourceClaim", "train", "DeviceAttached"),
        ("Pod", "train", "HandOver"),
    ]
    world.carry_out()
    world.clear("train")
    (resource,) = world.state.fleet.resources.rows.values()
    (device,) = (key[2] for key in world.state.inventory.keys_of[resource.uuid])
    world.allocate_local("train", "node0", device)
    world.bind("train")
    assert desk.told() == []
    world.finish("train")
    assert reasons(desk.told()) == [("ComposableResource", resource.name, "DeviceIdle")]
    world.tick(610)
    world.carry_out()
    world.tick(40)
    world.carry_out()
    assert reasons(desk.told()) == [("ComposabilityRequest", request, "DetachOrdered")]


def test_an_order_for_a_claim_whose_pod_is_going_is_told_on_the_claim() -> None:
    world, _ = waiting()
    order = world.only(e.AttachOrdered)
    world.update(world.get(Pod, "train"), deleting=True)
    told = [task.write for task in announce(order, START, world.state)]
    assert reasons([one for one in told if isinstance(one, TellPeople)]) == [
        ("ResourceClaim", "train", "AttachOrdered")
    ]


def test_a_failure_is_told_on_claim_and_pod_with_the_fabrics_words() -> None:
    _, desk = failed()
    told = [one for one in desk.told() if one.type == "Warning"]
    assert reasons(told) == [("ResourceClaim", "train", "AttachFailed"), ("Pod", "train", "AttachFailed")]
    assert all("E02 no such port" in one.note for one in told)


def test_an_alert_about_a_device_is_told_on_the_pods_that_run_on_it_too() -> None:
    world = one_node("attach", 4)
    world.online("res0", "node0")
    world.holds("train", "node0", "gpu-GPU-res0")
    world.bind("train")
    alert = e.Alerted(of="res0", reason="DeviceError", text="it is sick", mode="attach")
    tasks = announce(alert, 5, world.state)
    told = [task.write for task in tasks if isinstance(task.write, TellPeople)]
    assert reasons(told) == [("ComposableResource", "res0", "DeviceError"), ("Pod", "train", "DeviceError")]
    assert told[1].namespace == "default" and told[1].note == "it is sick"


def test_an_alert_about_a_claim_is_told_on_the_pod_that_waits_for_it_too() -> None:
    world = one_node("attach", 4)
    world.waits("train", "node0")
    tasks = announce(e.Alerted(of=world.uid("train"), reason="NoProgress", text="", mode="attach"), 5, world.state)
    told = [task.write for task in tasks if isinstance(task.write, TellPeople)]
    assert reasons(told) == [("ResourceClaim", "train", "NoProgress"), ("Pod", "train", "NoProgress")]


def test_alerts_and_rejected_objects_are_warnings_on_them() -> None:
    world = world_of()
    alert = e.Alerted(of="node-node0", reason="Odd", text="look at it", mode="detach")
    (task,) = announce(alert, 5, world.state)
    assert isinstance(task.write, TellPeople) and reasons([task.write]) == [("Node", "node0", "Odd")]
    assert announce(e.Alerted(of="unknown", reason="Odd", text="", mode="detach"), 5, world.state) == ()
    rejected = e.Rejected("ResourceClaim", "u", "c", "spec.devices", "is missing", "default")
    (task,) = announce(rejected, 5, world.state)
    assert isinstance(task.write, TellPeople) and task.write.type == "Warning" and task.decision == ""
    observing = world_of("observe")
    assert announce(rejected, 5, observing.state) == ()
    assert (task.write.regarding.namespace, task.write.note.startswith("spec.devices is missing")) == ("default", True)


LIFE = (
    *("AttachOrdered", "AttachOrdered", "DeviceAttached", "HandOver", "HandOver", "Steered"),
    *("UsedStamped", "DeviceIdle", "VictimMarked", "DetachOrdered", "DetachOrdered"),
)
"""Decisions that are written in a life, and what people are told."""


def made_in_a_life(**policy: Any) -> list[str]:
    """What is made from a claim's order to the detach of its device. The operator says Online after the list."""
    world, desk = waiting(hand_over="clear", **policy)
    tasks = desk.all()
    for step in (
        world.operate,
        lambda: world.unreserve("train"),
        lambda: world.pod("train", waiting="SchedulerError", nominated=""),
        lambda: world.allocate_local(
            "train", "node0", "gpu-" + next(iter(world.state.fleet.resources.rows.values())).uuid
        ),
        lambda: world.bind("train"),
        lambda: world.finish("train"),
        lambda: world.tick(610),
        lambda: world.tick(40),
    ):
        world.carry_out()
        tasks += desk.all()
        step()
        tasks += desk.all()
        world.carry_out()
        tasks += desk.all()
    return [one.write.reason if isinstance(one.write, TellPeople) else one.action for one in tasks]


def test_a_whole_life_stays_within_twelve_writes() -> None:
    """Two for what steers (the nomination and the clearing), one for each other task."""
    made = made_in_a_life(operator_nudge="off")
    assert sorted(made) == sorted(LIFE)
    assert len(made) + 1 <= 12


def test_a_nudge_is_one_write_more_where_a_device_is_listed_before_it_is_online() -> None:
    """Thirteen: for it the operator does not restart the plugin once more at its poll."""
    assert sorted(made_in_a_life()) == sorted([*LIFE, "OperatorNudged"])
