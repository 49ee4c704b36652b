"""Whatever Cluster Autoscaler asks and whatever happens to servers, in any order: no server is ordered twice or lost, the target
is what is there and what is coming, and the log decides the same again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dds_core.autoscaler import events as e
from dds_core.autoscaler.records import Server, Worker
from tests.core.autoscaler.yard import Yard

WHAT = (
    "grow",
    "shrink",
    "refresh",
    "remove",
    "come",
    "register",
    "vanish",
    "device",
    "free",
    "claim",
    "wait",
    "restart",
    "fail",
)
STEPS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, 3)), max_size=25)


def step(yard: Yard, what: str, number: int) -> None:
    """One thing happens; what cannot happen now does not."""
    node = f"node{number}"
    orders = sorted(yard.state.orders.rows)
    order = orders[number % len(orders)] if orders else ""
    server = f"server-{order}"
    match what:
        case "grow":
            yard.grow(number)
        case "shrink":
            yard.shrink(number)
        case "refresh":
            yard.refresh()
        case "remove":
            instances = [one.id.removeprefix("id-") for group in yard.view.groups for one in group.instances]
            if instances:
                yard.remove(instances[number % len(instances)])
        case "come" if order:
            yard.see(Server(server, "big", order, f"id-{order}", "creating"))
        case "fail" if order:
            yard.see(Server(server, "big", order, state="failed", code="Broken"))
        case "register" if server in yard.state.cluster.servers:
            yard.on(order, order)
        case "vanish":
            gone = sorted(yard.state.leaving.rows.keys() & yard.state.cluster.servers.rows.keys())
            if gone:
                yard.gone(Server, gone[0])
            for removed in yard.events(e.NodeRemoved):
                if removed.uid in yard.state.cluster.workers:
                    yard.gone(Worker, removed.uid)
        case "device":
            yard.device(node, f"GPU-{number}")
        case "free":
            for uid in list(yard.state.cluster.resources):
                yard.gone(type(yard.state.cluster.resources.rows[uid]), uid)
        case "claim":
            yard.pool(2)
            yard.pod(f"pod{number}", claim=True)
        case "wait":
            yard.tick(10.0**number)
        case "restart":
            yard.restart()


@given(STEPS)
def test_the_target_is_true_whatever_happens(steps: list[tuple[str, int]]) -> None:
    yard = Yard()
    yard.refresh()
    for what, number in steps:
        step(yard, what, number)
    yard.refresh()
    yard.sound()
    ordered = [one.order for one in yard.events(e.ServerOrdered) if not one.reissued]
    assert len(ordered) == len(set(ordered)), "no name twice"
    returned = [(one.subject, one.server) for one in yard.events(e.ServerReturned) if not one.reissued]
    assert len(returned) == len(set(returned)), "nothing is given back twice"
