"""What a scheduler does for a pod that no node takes: which claim it clears, whom it preempts, what it says."""

from __future__ import annotations

from typing import Any

from tests.lab.scheduler.stage import Stage, waiting


def waiting_for_two(seed: int = 1) -> Stage:
    """A pod that waits on one node of two for a device of each of its two claims."""
    stage = Stage(nodes=2, seed=seed)
    stage.pool("p-0", "p-1")
    stage.scheduler()
    stage.claim("a")
    stage.claim("b")
    stage.job("job", "a", "b")
    stage.run(2)
    return stage


def test_one_random_claim_is_cleared_and_it_may_be_the_healthy_one() -> None:
    first = set()
    for seed in range(8):
        stage = waiting_for_two(seed)
        writes = stage.writes()
        stage.say("a", "Again")
        stage.run(5.5)
        first.add(next(what for _, what in writes if "allocation removed" in what))

    assert first == {"claim a allocation removed + devices removed", "claim b allocation removed"}


def test_every_reservation_of_the_pod_goes_and_the_allocations_stay() -> None:
    stage = waiting_for_two()

    stage.say("b", "Failed")
    stage.run(2.9)
    assert stage.reserved("a") == stage.reserved("b") == ["job"]  # hidden by the first, which is not ready
    stage.say("a", "Ready")
    stage.run(0.5)

    assert stage.reserved("a") == stage.reserved("b") == []
    assert stage.held("a") == ["pool/p-0"] and stage.held("b") == ["pool/p-1"]


def test_a_claim_that_another_pod_holds_is_not_cleared() -> None:
    stage = Stage(nodes=1)
    stage.pool("p-0")
    stage.scheduler()
    stage.claim("shared")
    stage.job("first", "shared")
    stage.run(1)
    stage.say("shared", "Ready")
    stage.run(5)
    stage.job("second", "shared")
    stage.run(1)
    assert stage.node_of("first") == stage.node_of("second") == "node0"

    stage.change_node("node0", unschedulable=True)
    stage.bare_node("node1")
    stage.job("third", "shared")
    stage.run(3)

    assert stage.held("shared") == ["pool/p-0"]
    assert stage.condition("third") == (
        "Unschedulable",
        "0/2 nodes are available: 1 node(s) were unschedulable, 1 resourceclaim not available on the node. "
        "still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    )


def nominated_by_another(**job: Any) -> Stage:
    """An attempt on a node that is closed now has failed, and then somebody else nominates the node again."""
    stage = waiting(**job)
    stage.change_node("node0", unschedulable=True)
    stage.say("job", "Again")
    stage.run(3.5)
    assert stage.nominated("job") == ""
    stage.user.patch("pods", "job", {"status": {"nominatedNodeName": "node0"}}, "default", subresource="status")
    stage.run(2)
    return stage


def test_each_failed_attempt_clears_the_nomination() -> None:
    stage = nominated_by_another()

    assert stage.condition("job")[0] == "Unschedulable"
    assert stage.nominated("job") == ""


def test_only_a_pod_that_never_preempts_keeps_a_nomination_of_somebody_else() -> None:
    stage = nominated_by_another(preemptionPolicy="Never")

    assert stage.condition("job")[1].endswith("preemption: not eligible due to preemptionPolicy=Never.")
    assert stage.nominated("job") == "node0"


def test_a_nomination_written_before_the_claim_is_cleared_decides_where_it_lands() -> None:
    landed = []
    for seed in range(6):
        stage = waiting(nodes=4, seed=seed)
        stage.say("job", "Again")
        stage.run(3.1)
        patch = {"status": {"nominatedNodeName": "node3"}}
        stage.user.patch("pods", "job", patch, "default", subresource="status")
        claim = stage.user.get("resourceclaims", "job", "default")
        stage.user.update("resourceclaims", {**claim, "status": {}}, "status")
        stage.run(3)
        landed.append(stage.nominated("job"))

    assert landed == ["node3"] * 6


def test_a_waiting_pod_is_sent_back_by_a_more_important_one_and_keeps_its_allocation() -> None:
    stage = Stage(nodes=0)
    stage.bare_node("node0", cpu="1")
    stage.pool("p-0", "p-1")
    stage.scheduler()
    stage.train("low", cpu="800m")
    stage.run(2)
    stage.train("high", cpu="800m", priority=1000)
    stage.run(1)

    assert stage.reserved("low") == [] and stage.held("low") == ["pool/p-0"]
    assert stage.reserved("high") == ["high"]
    assert stage.condition("low")[1] == 'running PreBind plugin "DynamicResources": preempted by DefaultPreemption'
    assert "Preempted" in stage.events("low")
    stage.run(2)
    assert stage.condition("low") == (
        "Unschedulable",
        "0/1 nodes are available: 1 Insufficient cpu. still not schedulable, "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    )
    stage.user.delete("pods", "high", "default", grace=0)
    stage.run(9)
    assert stage.reserved("low") == ["low"] and stage.held("low") == ["pool/p-0"]


def test_a_running_pod_is_deleted_for_a_more_important_one() -> None:
    stage = Stage(nodes=0)
    stage.bare_node("node0", cpu="1")
    stage.bare_node("node1", cpu="1")
    stage.scheduler()
    stage.job("cheap", cpu="800m", priority=1, nodeSelector={"kubernetes.io/hostname": "node0"})
    stage.job("dear", cpu="800m", priority=2, nodeSelector={"kubernetes.io/hostname": "node1"})
    stage.run(1)

    stage.job("high", cpu="800m", priority=1000)
    stage.run(1)

    assert stage.nominated("high") == "node0"
    gone = stage.user.get("pods", "cheap", "default")
    assert "deletionTimestamp" in gone["metadata"]
    assert [one["reason"] for one in gone["status"]["conditions"] if one["type"] == "DisruptionTarget"] == [
        "PreemptionByScheduler"
    ]
    assert "deletionTimestamp" not in stage.user.get("pods", "dear", "default")["metadata"]
    stage.user.delete("pods", "cheap", "default", grace=0)
    stage.run(2)
    assert stage.node_of("high") == "node0"


def test_nobody_takes_the_room_that_was_made_for_a_more_important_pod() -> None:
    stage = Stage(nodes=0)
    stage.bare_node("node0", cpu="1")
    stage.scheduler()
    stage.job("cheap", cpu="800m")
    stage.run(1)
    stage.job("high", cpu="800m", priority=1000)
    stage.run(1)

    stage.job("sneaky", cpu="800m", priority=10)
    stage.user.delete("pods", "cheap", "default", grace=0)
    stage.run(3)

    assert stage.node_of("high") == "node0"
    assert stage.node_of("sneaky") == ""


def test_a_pod_without_claims_says_what_it_lacks() -> None:
    stage = Stage(nodes=0)
    stage.bare_node("node0", cpu="1")
    stage.scheduler()
    stage.job("big", cpu="2")
    stage.run(1)

    assert stage.condition("big") == (
        "Unschedulable",
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    )


def test_without_any_node_it_says_so_and_tries_again() -> None:
    stage = Stage(nodes=0)
    stage.scheduler()
    stage.job("early")
    stage.run(1)
    assert stage.condition("early") == ("Unschedulable", "no nodes available to schedule pods")

    stage.bare_node("node0")
    stage.run(12)

    assert stage.node_of("early") == "node0"


def test_a_refusal_is_told_once_as_long_as_it_stays_the_same() -> None:
    stage = Stage(nodes=2)
    stage.scheduler()
    stage.train("job")
    stage.run(1)
    writes = stage.writes()

    for number in range(5):
        stage.local("node0")
        stage.run(3 + number)

    assert writes == []
    assert stage.events("job") == ["FailedScheduling"]
    assert stage.user.list("events.events.k8s.io")[0]["series"]["count"] == 2


def test_stopping_in_the_middle_writes_nothing_more() -> None:
    stage = Stage(nodes=1)
    stage.pool("p-0")
    scheduler = stage.scheduler()
    stage.train("job")
    stage.run(2)
    stage.say("job", "Again")
    writes = stage.writes()

    scheduler.stop()
    stage.run(60)

    assert writes == []
