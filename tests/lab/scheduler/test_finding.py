"""Which nodes are looked at, and which of the best is taken."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dds_lab.actors.scheduler.claim_cache import ExtendedResources
from dds_lab.actors.scheduler.dynamic_resources import Availability, Inventory, PodDevices
from dds_lab.actors.scheduler.feasibility import Diagnosis, fits, static
from dds_lab.actors.scheduler.finding import Alone, Nominations, Search
from dds_lab.actors.scheduler.node_cache import Node, NodeCache
from dds_lab.actors.scheduler.pods import Pod, read
from dds_lab.actors.scheduler.scheduler_settings import SchedulerSettings
from tests.lab.scheduler.test_feasibility import node_object, pod


class Field:
    """Nodes, and a search over them for pods without devices."""

    def __init__(self, nodes: int, **settings: Any) -> None:
        self.nodes = NodeCache()
        self.nominations = Nominations()
        for number in range(nodes):
            self.nodes.put(node_object(f"n{number:04}"))
        self.search = Search(self.nodes, self.nominations, SchedulerSettings(**settings), Random(1))

    def find(self, wanted: Pod) -> str:
        """The node's name; it is put there."""
        inventory = Inventory(SchedulerSettings().matching, Random(1))
        devices = PodDevices(wanted, [], Availability(True, 0, 1.0), inventory, ExtendedResources())
        found = self.search.find(wanted, devices)
        if isinstance(found, Diagnosis):
            return found.message()
        self.nodes.add_pod(wanted, found.name)
        return found.name


def test_of_equal_nodes_one_of_the_first_two_is_taken() -> None:
    field = Field(10)
    chosen: Counter[str] = Counter()
    for number in range(100):
        one = pod(str(number))
        chosen[field.find(one)] += 1
        field.nodes.remove_pod(one.uid)

    assert set(chosen) == {"n0000", "n0001"}
    assert 30 < chosen["n0000"] < 70


def test_the_first_of_two_equal_nodes_may_be_taken_more_often() -> None:
    field = Field(10, lead=0.8)
    chosen: Counter[str] = Counter()
    for number in range(200):
        one = pod(str(number))
        chosen[field.find(one)] += 1
        field.nodes.remove_pod(one.uid)

    assert set(chosen) == {"n0000", "n0001"}
    assert 140 < chosen["n0000"] < 180


def test_with_no_finders_any_of_them_is() -> None:
    field = Field(10, finders=0)
    chosen = set()
    for number in range(200):
        one = pod(str(number))
        chosen.add(field.find(one))
        field.nodes.remove_pod(one.uid)

    assert len(chosen) == 10


def test_whoever_is_asked_may_choose_among_all_equal_ones() -> None:
    asked = []

    def tie(name: str, options: Any) -> str | None:
        asked.append((name, len(options)))
        return "n0007" if len(asked) == 1 else "elsewhere"

    field = Field(10, tie=tie)

    assert field.find(pod("a")) == "n0007"
    assert field.find(pod("b")) in ("n0000", "n0001")
    assert asked == [("default/a", 10), ("default/b", 9)]


def test_the_nominated_node_is_tried_before_better_ones() -> None:
    field = Field(3)
    field.nodes.add_pod(pod("old", cpu="3"), "n0002")
    meta = {"name": "p", "namespace": "default", "uid": "p", "resourceVersion": "1"}
    wanted = read({"metadata": meta, "spec": {"containers": []}, "status": {"nominatedNodeName": "n0002"}})

    assert field.find(wanted) == "n0002"


def test_a_nominated_node_that_does_not_fit_is_passed_over() -> None:
    field = Field(3)
    field.nodes.put(node_object("n0002", unschedulable=True))
    meta = {"name": "p", "namespace": "default", "uid": "p", "resourceVersion": "1"}
    for nominated in ("n0002", "nowhere"):
        wanted = read({"metadata": meta, "spec": {"containers": []}, "status": {"nominatedNodeName": nominated}})
        assert field.find(wanted) in ("n0000", "n0001")


def test_pods_of_at_least_the_same_priority_keep_their_nominated_room() -> None:
    field = Field(1)
    field.nominations.put(pod("promised", cpu="3", priority=5), "n0000")

    assert field.find(pod("low", cpu="2", priority=1)) == "0/1 nodes are available: 1 Insufficient cpu."
    assert field.find(pod("high", cpu="2", priority=6)) == "n0000"


def test_of_many_nodes_a_part_is_looked_at_in_turn() -> None:
    field = Field(1000, finders=1)

    first = [field.find(pod(str(number))) for number in range(3)]

    assert first == ["n0000", "n0420", "n0840"]
    assert Field(1000, finders=1, percentage_of_nodes_to_score=10).search._enough(1000) == 100
    assert Field(1).search._enough(5000) == 500
    assert Field(1).search._enough(40_000) == 2000


def test_the_search_goes_on_where_too_few_fit() -> None:
    field = Field(300, finders=1)
    for number in range(299):
        field.nodes.put(node_object(f"n{number:04}", cpu="1"))

    assert field.find(pod(cpu="2")) == "n0299"


def test_a_message_counts_the_reasons_in_the_order_of_their_words() -> None:
    field = Field(5)
    field.nodes.put(node_object("n0000", unschedulable=True))
    field.nodes.put(node_object("n0001", unschedulable=True))
    field.nodes.put(node_object("n0002", cpu="1", memory="1Gi"))

    assert field.find(pod(cpu="8", memory="4Gi")) == (
        "0/5 nodes are available: 1 Insufficient memory, 2 node(s) were unschedulable, 3 Insufficient cpu."
    )


operations = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.integers(0, 5), st.sampled_from(["1", "2", "4"]), st.booleans()),
        st.tuples(st.just("drop"), st.integers(0, 5)),
        st.tuples(st.just("pod"), st.integers(0, 5), st.integers(0, 9), st.sampled_from(["", "1", "2"])),
        st.tuples(st.just("gone"), st.integers(0, 9)),
        st.tuples(st.just("ask"), st.sampled_from(["", "1", "3"])),
    ),
    max_size=60,
)


@given(operations)
def test_what_is_remembered_of_nodes_is_what_asking_all_of_them_gives(steps: list[Any]) -> None:
    nodes = NodeCache()
    alone = Alone(nodes)
    for what, *how in [*steps, ("ask", ""), ("ask", "2")]:
        if what == "node":
            number, cpu, closed = how
            zone = {"topology.kubernetes.io/zone": str(number % 2)}
            nodes.put(node_object(f"n{number}", cpu=cpu, labels=zone, unschedulable=closed))
        elif what == "drop" and nodes.get(f"n{how[0]}") is not None:
            nodes.drop(f"n{how[0]}")
        elif what == "pod":
            nodes.add_pod(pod(f"p{how[1]}", cpu=how[2]), f"n{how[0]}")
        elif what == "gone":
            nodes.remove_pod(f"p{how[0]}")
        elif what == "ask":
            wanted = pod("asks", cpu=how[0])
            answer = alone.of(wanted, ())
            expected = {one.name: against(wanted, one) for one in nodes}
            assert [nodes.order()[place].name for place in answer.passing] == [
                name for name, refusal in expected.items() if refusal is None
            ]
            assert answer.refusals == {name: refusal for name, refusal in expected.items() if refusal is not None}


def against(wanted: Pod, node: Node) -> Any:
    return static(wanted, node) or fits(wanted, node)
