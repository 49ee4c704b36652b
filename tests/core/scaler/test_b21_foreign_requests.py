"""B21: the first request with that model and node was resized, whoever made it, even one being deleted or of another type.

Here we change our own and those that the policy lets us adopt; a foreign one in the way fails the claim, named.
"""

from typing import Any

import pytest

from dds_core.model import AttachRequest, request_name
from dds_core.scaler import events as e
from tests.support.world import A100, World, one_node

OURS = {"labels": {"app.kubernetes.io/managed-by": "dds"}}
REFERENCE = {"generate_name": "composability-"}
BY_HAND: dict[str, Any] = {}


def claim_beside(adoption: str, mode: str = "attach", **request: Any) -> World:
    world = one_node(mode, 4, adoption=adoption, scan_interval_seconds=0)
    world.request("theirs", "node0", size=0, state="Running", acted_size=0, **request)
    world.waits("train", "node0")
    return world


@pytest.mark.parametrize(
    ("adoption", "made", "adopted"),
    [
        ("none", OURS, True),
        ("none", REFERENCE, False),
        ("none", BY_HAND, False),
        ("reference", REFERENCE, True),
        ("reference", BY_HAND, False),
        ("all", REFERENCE, True),
        ("all", BY_HAND, True),
    ],
)
def test_b21_adoption_says_whose_requests_are_resized(adoption: str, made: dict[str, Any], adopted: bool) -> None:
    world = claim_beside(adoption, **made)
    if adopted:
        order = world.only(e.AttachOrdered)
        assert (order.request, order.uid, order.previous, order.size) == ("theirs", "request-theirs", 0, 1)
    else:
        failed = world.only(e.ClaimFailed)
        assert failed.reason == "RequestOwnedByOther"
        assert "theirs" in failed.message
        assert not world.events(e.AttachOrdered)


@pytest.mark.parametrize("adoption", ["reference", "all"])
def test_b21_a_request_without_a_target_node_is_not_adopted(adoption: str) -> None:
    world = one_node("attach", 4, adoption=adoption, scan_interval_seconds=0)
    world.observe(
        AttachRequest("r", "floating", "composability-", type="gpu", model=A100.model, policy="differentnode")
    )
    world.waits("train", "node0")
    assert world.only(e.AttachOrdered).request == request_name("node0", "gpu", A100.model)


def test_b21_a_request_of_another_type_is_left_alone() -> None:
    world = one_node("attach", 4, adoption="all", scan_interval_seconds=0)
    world.observe(AttachRequest("r", "memory", type="cxlmemory", model=A100.model, node="node0", size=3))
    world.waits("train", "node0")
    assert world.only(e.AttachOrdered).request == request_name("node0", "gpu", A100.model)


def test_b21_a_terminating_request_is_waited_for_and_never_resized() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    name = request_name("node0", "gpu", A100.model)
    world.request(name, "node0", size=1, deleting=True)
    world.waits("train", "node0")
    assert not world.events(e.AttachOrdered)
    assert world.state_of("train") == "Pending"
    world.gone(world.get(AttachRequest, name))
    order = world.only(e.AttachOrdered)
    assert (order.request, order.previous, order.uid) == (name, None, "")


def test_b21_a_foreign_requests_free_device_may_be_handed_over() -> None:
    world = one_node("attach", 4, adoption="none", scan_interval_seconds=0)
    world.request("theirs", "node0", size=1)
    world.online("res", "node0", request="theirs")
    world.waits("train", "node0")
    assert world.reserved("train") == ["GPU-res"]
    assert not world.events(e.ClaimFailed)


def test_b21_a_foreign_requests_devices_are_never_victims_but_count_against_the_limit() -> None:
    world = World("detach", adoption="none", no_removal_seconds=10, limit={"max": 1}, scan_interval_seconds=0)
    world.node("node0")
    world.request("theirs", "node0", size=1, state="Running", acted_size=1)
    world.online("res", "node0", request="theirs")
    world.tick(3600)
    assert not world.events(e.VictimMarked)
    assert world.events(e.NodeLabelled)[-1].labels == {"cohdi.io/nvidia-a100-40": "true"}, "it idles for whoever comes"
    world.pool(A100, 4)
    for name in ("one", "two"):
        world.waits(name, "node0")
    assert world.reserved("one") == ["GPU-res"]
    assert world.only(e.ClaimFailed).claim == world.uid("two")
