"""The timeline of a group, a node, a pod and an order, as people read it; and what is wrong with a policy."""

from __future__ import annotations

from typing import Any

import pytest

from dds_core.autoscaler import events as e
from dds_core.autoscaler.component import AUTOSCALER
from dds_core.autoscaler.policy import read_autoscale_policy
from dds_core.autoscaler.records import Load, Server, Worker
from dds_core.autoscaler.state import PROJECTION, dump
from dds_core.autoscaler.timeline import AutoscalerDirectory
from dds_core.errors import PolicyError
from dds_core.replay.logged import of_steps
from dds_core.timeline.telling import Moment
from tests.core.autoscaler.yard import Yard, policy


def founding() -> Yard:
    """A pod gets a device, another one a server, which goes again."""
    yard = Yard(1)
    yard.pool(1)
    yard.pod("one", claim=True)
    yard.refresh()
    yard.claim("one", "node0")
    yard.pod("one", claim=True, node="node0", waiting="")
    yard.pod("two", cpu=15_900)
    yard.refresh()
    yard.grow()
    yard.see(Server("server-big-1", "big", yard.order(), "id-big-1", "creating"))
    yard.on("big-1", yard.order())
    yard.pod("two", cpu=15_900, node="big-1", waiting="")
    yard.refresh()
    yard.gone(Load, "pod-two")
    yard.condemn("big-1")
    yard.remove("big-1")
    yard.off("big-1")
    yard.gone(Worker, "big-1")
    yard.refresh()
    yard.sound()
    return yard


def told(moments: list[Moment], name: str) -> list[str]:
    subject = AutoscalerDirectory().read(moments).find(name)
    entries = AUTOSCALER.telling.timeline(moments, subject)
    return [text for entry in entries for text in (*(note.text for note in entry.notes), entry.cause) if text]


def test_each_thing_has_its_story() -> None:
    yard = founding()
    moments, name = list(of_steps(yard.steps)), yard.order()
    assert [text for text in told(moments, "default/one") if "default/one" in text] == [
        "pod default/one waits: Unschedulable",
        "dds decided to leave pod default/one to a device: node0 has room, and a device for it can be attached there",
        "pod default/one runs on node0",
        "dds decided to look after pod default/one no more: it waits no more",
    ]
    group = told(moments, "big")
    without = "without node0 (a claim has a device there, or is to get one)"
    assert f"dds decided to show big with a target of 0 between 0 and 3; {without}" in group
    assert "Cluster Autoscaler asks for 1 server more in big" in group
    assert "Cluster Autoscaler asks to remove big-1 of big" in group
    order = told(moments, f"order/{name}")
    assert f"dds decided to order a server for big as {name}" in order
    assert f"server server-big-1 of big is creating, for {name}" in order
    assert "dds decided to give the server of big-1 back (big)" in order
    node = told(moments, "node/big-1")
    assert "node big-1 is ready" in node and "pod default/two runs on big-1" in node
    assert node[-1].startswith("dds decided to show big with a target of 0 between 0 and 3; without big-1")
    assert "dds decided to delete node big-1: its server is gone" in node


def test_everything_is_told_in_order_and_from_a_checkpoint_on() -> None:
    yard = founding()
    moments = list(of_steps(yard.steps))
    everything = [entry.cause for entry in AUTOSCALER.telling.timeline(moments)]
    assert len(everything) == sum(len(step.decisions) for step in yard.steps)
    checkpoint = Moment(1, yard.now, e.Checkpoint(PROJECTION, dump(yard.state)), [])
    assert told([checkpoint], "node0") == []
    assert AutoscalerDirectory().read([checkpoint]).find("default/one").kind == "pod"


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ({"name": "Big"}, "takes at most 40 small letters, digits and dashes"),
        ({"minimum": 9}, "minimum 9 is more than maximum 4"),
        ({"template": {"capacity": {"cpu": "1"}}}, "lacks memory, pods"),
        ({"template": {"capacity": {"cpu": "much", "memory": "1Gi", "pods": "1"}}}, "cpu is no quantity: 'much'"),
        ({"maximum": 10**6}, "less than or equal to 10000"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_with_the_place(group: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError, match="the autoscaler's policy") as refused:
        read_autoscale_policy(policy(group=group))
    assert said in str(refused.value) and "groups.0" in str(refused.value)


def test_two_groups_of_one_name_are_refused() -> None:
    twice = policy()
    with pytest.raises(PolicyError, match="big is there twice"):
        read_autoscale_policy({**twice, "groups": twice["groups"] * 2})
