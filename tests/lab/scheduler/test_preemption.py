"""Whom a more important pod removes, and from which node."""

from __future__ import annotations

from typing import Any

from dds_lab.actors.scheduler.feasibility import Diagnosis, fits, static
from dds_lab.actors.scheduler.node_cache import NodeCache
from dds_lab.actors.scheduler.pods import Pod, read
from dds_lab.actors.scheduler.preemption import NEVER, TERMINATING, Outcome, preempt
from tests.lab.scheduler.test_feasibility import node_object, pod


def asked(wanted: Pod, nodes: NodeCache) -> Outcome:
    def check(node: Any) -> Any:
        return static(wanted, node) or fits(wanted, node)

    refusals = {node.name: refusal for node in nodes if (refusal := check(node)) is not None}
    return preempt(wanted, Diagnosis(len(nodes), refusals), nodes, check)


def fleet(**pods: list[Pod]) -> NodeCache:
    nodes = NodeCache()
    for name, there in pods.items():
        nodes.put(node_object(name, cpu="4"))
        for one in there:
            nodes.add_pod(one, name)
    return nodes


def names(outcome: Outcome) -> tuple[str, list[str]]:
    return outcome.node, sorted(one.name for one in outcome.victims)


def test_no_more_go_than_must_and_the_more_important_stay() -> None:
    nodes = fleet(n=[pod("a", cpu="1", priority=1), pod("b", cpu="1", priority=2), pod("c", cpu="2", priority=3)])

    assert names(asked(pod("high", cpu="1", priority=9), nodes)) == ("n", ["a"])
    assert names(asked(pod("high", cpu="2", priority=9), nodes)) == ("n", ["a", "b"])
    assert names(asked(pod("high", cpu="4", priority=9), nodes)) == ("n", ["a", "b", "c"])
    assert {uid for node in nodes for uid in node.pods} == {"a", "b", "c"}


def test_the_node_whose_highest_victim_is_lowest_is_taken_then_the_one_with_fewer() -> None:
    dear, cheap, many = (
        [pod("x", cpu="4", priority=5)],
        [pod("y", cpu="4", priority=3)],
        [pod("z1", cpu="2", priority=3), pod("z2", cpu="2", priority=3)],
    )

    assert names(asked(pod("high", cpu="4", priority=9), fleet(a=dear, b=many, c=cheap))) == ("c", ["y"])
    assert names(asked(pod("high", cpu="4", priority=9), fleet(a=dear, b=many))) == ("b", ["z1", "z2"])


def test_of_equals_the_one_that_started_last_goes() -> None:
    def started(name: str, when: str) -> Pod:
        found = pod(name, cpu="4", priority=1)
        return read({**found.obj, "status": {"startTime": when}})

    nodes = fleet(a=[started("old", "2026-11-21T00:00:00Z")], b=[started("young", "2026-11-21T09:00:00Z")])

    assert names(asked(pod("high", cpu="4", priority=9), nodes)) == ("b", ["young"])


def test_what_is_said_when_nobody_can_be_removed() -> None:
    nodes = fleet(a=[pod("x", cpu="4", priority=9)], b=[pod("y", cpu="4", priority=1), pod("z", priority=20)])
    nodes.put(node_object("c", unschedulable=True))
    nodes.put(node_object("b", cpu="4", pods="2"))

    outcome = asked(pod("high", cpu="3", priority=9), nodes)
    assert names(outcome) == ("b", ["y"])
    nodes.put(node_object("b", cpu="4", pods="1"))
    outcome = asked(pod("high", cpu="3", priority=9), nodes)

    assert outcome.node == "" and outcome.clears
    assert outcome.message == (
        "0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling, 1 Too many pods."
    )


def test_a_pod_that_never_preempts_does_not() -> None:
    outcome = asked(pod("high", cpu="4", priority=9, preemptionPolicy="Never"), fleet(a=[pod("x", cpu="4")]))

    assert (outcome.node, outcome.message, outcome.clears) == ("", NEVER, False)


def test_nobody_else_is_removed_while_somebody_leaves_the_nominated_node() -> None:
    leaving = pod("x", cpu="4", priority=1)
    leaving = read(
        {**leaving.obj, "metadata": {**leaving.obj["metadata"], "deletionTimestamp": "2026-11-21T00:00:00Z"}}
    )
    wanted = pod("high", cpu="4", priority=9)
    wanted = read({**wanted.obj, "status": {"nominatedNodeName": "a"}})

    outcome = asked(wanted, fleet(a=[leaving], b=[pod("y", cpu="4", priority=1)]))

    assert (outcome.node, outcome.message, outcome.clears) == ("", TERMINATING, False)
