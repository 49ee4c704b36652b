"""From the choice of a node to the binding, and the way back: which writes, in which order, when."""

from __future__ import annotations

import pytest

from dds_lab.api.requests import Call
from dds_lab.client import ApiError, instants
from dds_lab.latency import Fixed
from dds_lab.scenario.parts import Profile
from tests.lab.scheduler.stage import Stage, device_class, waiting


def only(writes: list[tuple[float, str]]) -> list[str]:
    return [what for _, what in writes]


def test_a_pod_without_claims_is_bound_and_nothing_else_is_written() -> None:
    stage = Stage()
    stage.scheduler()
    writes = stage.writes()

    stage.job("plain")
    stage.run(1)

    assert only(writes)[0] == "pod plain new"
    assert [what.partition(" bound ")[0] for what in only(writes)[1:]] == ["pod plain conditions +"]
    assert stage.events("plain") == ["Scheduled"]


def test_a_device_that_is_there_is_taken_without_waiting() -> None:
    stage = Stage(nodes=1)
    stage.local("node0", "gpu-0")
    stage.scheduler()
    writes = stage.writes()

    stage.train("job")
    stage.run(1)

    assert only(writes)[2:] == [
        "pod job nominatedNodeName",
        "claim job finalizer",
        "claim job allocation + reservedFor",
        "pod job nominatedNodeName removed + conditions + bound node0",
    ]
    assert stage.events("job") == ["Scheduled"]


def test_a_pool_s_device_is_waited_for_with_a_look_at_once_and_every_five_seconds() -> None:
    stage = Stage(nodes=1)
    stage.pool("p-0")
    stage.scheduler()
    writes = stage.writes()

    stage.train("job")
    stage.run(7)
    assert stage.node_of("job") == ""
    assert stage.events("job") == ["BindingConditionsPending"]
    stage.say("job", "Ready")
    stage.run(2.9)
    assert stage.node_of("job") == ""
    stage.run(0.2)

    assert stage.node_of("job") == "node0"
    assert stage.held("job") == ["pool/p-0"]
    assert only(writes)[2:] == [
        "pod job nominatedNodeName",
        "claim job finalizer",
        "claim job allocation + reservedFor",
        "claim job devices",
        "pod job nominatedNodeName removed + conditions + bound node0",
    ]


def test_a_failure_is_written_in_the_order_of_the_real_one_and_the_claim_is_allocated_again() -> None:
    stage = waiting()
    writes = stage.writes()

    stage.say("job", "Again", reason="Attached", message='it is "there"')
    stage.local("node0", "gpu-0")
    stage.run(8)

    assert only(writes) == [
        "claim job devices",
        "claim job reservedFor removed",
        "pod job nominatedNodeName removed + conditions",
        "claim job allocation removed + devices removed",
        "pod job conditions",
        "pod job nominatedNodeName",
        "claim job allocation + reservedFor",
        "pod job nominatedNodeName removed + conditions + bound node0",
    ]
    released, cleared, again = (writes[place][0] for place in (1, 3, 6))
    assert 1.0 < cleared - released < 2.05
    assert 0.01 < again - cleared < 0.05
    assert stage.held("job") == ["node0/gpu-0"]


def test_the_condition_says_which_claim_failed_and_why() -> None:
    stage = waiting()

    stage.say("job", "Failed", reason="Refused", message='no "room"')
    stage.run(3.2)

    assert stage.condition("job") == (
        "SchedulerError",
        'running PreBind plugin "DynamicResources": device binding failed: claim=job, reason=Refused, message="no \\"room\\""',
    )
    stage.run(2)
    assert stage.condition("job") == (
        "Unschedulable",
        "0/1 nodes are available: 1 resourceclaim not available on the node. deallocation of ResourceClaim completed, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    )


@pytest.mark.parametrize("timeout", [30.0, 12.0])
def test_the_wait_ends_after_the_profile_s_binding_timeout(timeout: float) -> None:
    stage = Stage(nodes=1)
    stage.pool("p-0")
    stage.scheduler(timeout)
    writes = stage.writes()

    stage.train("job")
    stage.run(timeout + 0.5)

    released = [at for at, what in writes if what == "claim job reservedFor removed"]
    assert released == [pytest.approx(timeout, abs=0.1)]
    assert stage.condition("job")[1] == 'running PreBind plugin "DynamicResources": device binding timeout: claim=job'


def test_each_scheduler_name_has_its_own_timeout_and_others_are_not_ours() -> None:
    stage = Stage(nodes=1)
    stage.pool("p-0", "p-1", "p-2")
    stage.scheduler(
        profiles={"default-scheduler": Profile(binding_timeout=20.0), "patient": Profile(binding_timeout=60.0)}
    )
    for name in ("default-scheduler", "patient", "another"):
        stage.train(name, schedulerName=name)

    stage.run(20.5)

    assert stage.reserved("default-scheduler") == []
    assert stage.reserved("patient") == ["patient"]
    assert stage.held("another") == []


def test_the_allocation_timestamp_is_of_the_scheduler_s_own_clock() -> None:
    stage = Stage(nodes=1)
    stage.pool("p-0")
    stage.scheduler(clock_offset=-600.0)
    stage.train("job")
    stage.run(1)

    told = stage.state("resourceclaims", "job", "default")["allocation"]["allocationTimestamp"]
    assert instants.read(told) == pytest.approx(stage.time.now() - 600_000_000, abs=2_000_000)
    stage.run(20)
    assert stage.reserved("job") == ["job"]


def test_a_restarted_scheduler_takes_the_wait_up_and_writes_nothing_for_it() -> None:
    stage = Stage(nodes=2)
    stage.pool("p-0")
    first = stage.scheduler()
    stage.train("job")
    stage.run(3)
    first.stop()
    writes = stage.writes()
    stage.run(2)

    stage.scheduler()
    stage.run(8)
    stage.say("job", "Ready")
    stage.run(5)

    assert only(writes)[1:] == [f"pod job nominatedNodeName removed + conditions + bound {stage.node_of('job')}"]


def test_a_restarted_scheduler_counts_the_timeout_from_the_allocation() -> None:
    stage = Stage(nodes=1)
    stage.pool("p-0")
    first = stage.scheduler(30.0)
    stage.train("job")
    stage.run(25)
    first.stop()

    writes = stage.writes()
    stage.scheduler(30.0)
    stage.run(12)

    released = [at for at, what in writes if what == "claim job reservedFor removed"]
    assert released and 5.0 <= released[0] <= 10.1


def test_a_pod_that_goes_while_it_waits_leaves_its_place_on_the_node() -> None:
    stage = Stage(nodes=1, claims=True)
    stage.change_node("node0")
    stage.pool("p-0", "p-1")
    stage.scheduler()
    stage.train("job", cpu="40")
    stage.run(2)
    stage.user.delete("pods", "job", "default", grace=0)
    stage.train("next", cpu="40")
    stage.run(8)

    assert stage.held("job") == []
    assert stage.reserved("next") == ["next"]


def test_an_allocation_that_is_long_in_flight_makes_others_of_the_claim_wait() -> None:
    stage = Stage(nodes=1)
    stage.local("node0", "gpu-0", "gpu-1")
    stage.scheduler(allocation_delay=Fixed(60.0))
    stage.claim("shared")
    stage.job("first", "shared")
    stage.job("second", "shared")
    stage.train("third")

    stage.run(50)
    assert stage.held("shared") == []
    assert stage.condition("second") == (
        "Unschedulable",
        "0/1 nodes are available: resource claim default/shared is in the process of being allocated. "
        "still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    )
    stage.run(80)

    assert [stage.node_of(name) for name in ("first", "second", "third")] == ["node0"] * 3
    assert stage.reserved("shared") == ["first", "second"]
    assert stage.held("shared") != stage.held("third")


def test_somebody_else_s_change_of_the_claim_is_no_obstacle() -> None:
    stage = Stage(nodes=1)
    stage.local("node0", "gpu-0")
    stage.scheduler()
    stage.claim("job")
    stage.job("job", "job")
    stage.run(0.009)  # between the choice and the write
    stage.user.patch("resourceclaims", "job", {"metadata": {"labels": {"seen": "yes"}}}, "default")
    stage.run(1)

    assert stage.node_of("job") == "node0"
    assert stage.user.get("resourceclaims", "job", "default")["metadata"]["labels"] == {"seen": "yes"}


def test_a_claim_that_is_cleared_under_a_waiting_pod_is_waited_for_until_the_timeout() -> None:
    stage = waiting()
    stage.clear("job")
    writes = stage.writes()
    stage.run(27.5)
    assert writes == [] and stage.nominated("job") == "node0"

    stage.run(4)

    assert stage.condition("job")[0] == "SchedulerError"
    assert only(writes)[-2:] == ["pod job nominatedNodeName", "claim job allocation + reservedFor"]
    assert stage.held("job") == ["pool/p-0"] and stage.reserved("job") == ["job"]


def test_a_pod_is_bound_to_its_node_though_the_node_is_gone_since_the_exchange() -> None:
    stage = waiting()
    stage.exchange("job", "node0/gpu-0")
    stage.user.delete("nodes", "node0")

    stage.run(4)

    assert stage.node_of("job") == "node0"


def test_neither_node_nor_reservation_is_looked_at_while_a_pod_waits() -> None:
    stage = waiting(nodes=2)
    there = stage.nominated("job")
    elsewhere = "node1" if there == "node0" else "node0"
    stage.clear("job")
    stage.give("job", f"{elsewhere}/gpu-0", node=elsewhere, reserved=False)

    stage.run(4)

    assert stage.node_of("job") == there


@pytest.mark.parametrize(("cleared_at", "left"), [(4.9, ["job"]), (5.2, [])])
def test_a_reservation_is_taken_back_only_if_the_last_look_saw_an_allocation(
    cleared_at: float, left: list[str]
) -> None:
    """The looks are at 0, 5 and 10 s; the device is given at 5.5 s."""
    stage = Stage(nodes=1)
    stage.pool("p-0")
    stage.scheduler()
    stage.train("job", cpu="40")
    stage.run(cleared_at)
    stage.clear("job")
    stage.run(5.5 - cleared_at)
    stage.give("job", "node0/gpu-0")

    stage.job("vip", cpu="40", priority=1000)
    stage.run(0.5)

    assert "preempted" in stage.condition("job")[1] and stage.node_of("vip") == "node0"
    assert stage.held("job") == ["node0/gpu-0"] and stage.reserved("job") == left


def test_a_special_claim_that_was_exchanged_is_deleted_when_its_pod_is_preempted() -> None:
    stage = Stage(nodes=1)
    stage.user.create("deviceclasses", device_class("extended", extendedResourceName="example.com/gpu"))
    stage.pool("p-0")
    stage.scheduler()
    wanted = {"requests": {"cpu": "40", "example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    stage.job("er", container={"resources": wanted})
    stage.run(2)
    (special,) = stage.user.list("resourceclaims", "default")
    stage.exchange(special["metadata"]["name"], "node0/gpu-0")

    stage.job("vip", cpu="40", priority=1000)
    stage.run(0.5)

    assert stage.node_of("vip") == "node0"
    assert stage.user.find("resourceclaims", special["metadata"]["name"], "default") is None


def test_a_refused_allocation_is_an_error_that_is_tried_again_and_leaves_nothing_taken() -> None:
    stage = Stage(nodes=1)
    stage.local("node0", "gpu-0")
    scheduler = stage.scheduler()
    guarded = [True]

    def guard(call: Call) -> None:
        if guarded and call.subresource == "status" and call.resource.plural == "resourceclaims":
            raise ApiError(422, "Invalid", "guarded")

    scheduler.client.before = guard
    writes = stage.writes()
    stage.train("job")
    stage.run(0.5)
    assert stage.condition("job") == (
        "SchedulerError",
        'running PreBind plugin "DynamicResources": add allocation and reservation to claim default/job: guarded',
    )
    assert only(writes)[2:] == [
        "pod job nominatedNodeName",
        "claim job finalizer",
        "pod job nominatedNodeName removed + conditions",
    ]
    guarded.clear()
    stage.train("other")
    stage.run(0.5)
    assert stage.held("other") == ["node0/gpu-0"]

    stage.local("node0", "gpu-0", "gpu-1")
    stage.run(2)

    assert stage.held("job") == ["node0/gpu-1"]


def test_relist_gap_the_old_device_stays_taken_and_the_new_one_is_given_again() -> None:
    """A frozen scheduler, an API server that restarts between two of its looks, the exchange in between: the book does not follow
    until the scheduler itself is restarted."""
    stage = Stage(nodes=1, claims=True)
    stage.pool("p-0", "p-1")
    scheduler = stage.scheduler()
    stage.train("job")
    stage.run(1)
    scheduler.cut(2.0)
    stage.local("node0", "gpu-0")
    stage.exchange("job", "node0/gpu-0")
    stage.run(5)
    assert stage.node_of("job") == "node0" and stage.held("job") == ["node0/gpu-0"]

    stage.train("second")
    stage.train("third")
    stage.run(1)
    assert stage.held("second") == ["node0/gpu-0"], "which the first has"
    assert stage.held("third") == ["pool/p-1"], "for nobody has p-0, and it counts as taken"
    stage.user.delete("pods", "job", "default", grace=0)
    stage.train("fourth")
    stage.run(1)
    assert stage.held("job") == [] and stage.held("fourth") == ["node0/gpu-0"], "which the second has"

    scheduler.stop()
    stage.train("fifth")
    stage.scheduler()
    stage.run(1)
    assert stage.held("fifth") == ["pool/p-0"]
