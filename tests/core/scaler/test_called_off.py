"""An order that the fabric cannot fill and that nobody needs any more is taken back: while it hangs, no device of its request
can go, and another one would come for nobody."""

from typing import Any

import pytest

from dds_core.model import AttachRequest
from dds_core.scaler import events as e
from tests.support.world import World, one_node

WORDS = "no free resource"


def hanging(mode: str = "detach", **policy: Any) -> World:
    """A request of ours for two on node0: an idle device, and one that the fabric does not have."""
    given: dict[str, Any] = {
        "no_removal_seconds": 3600,
        "scan_interval_seconds": 0,
        "error_grace_seconds": 10,
        **policy,
    }
    world = one_node(mode, 8, **given)
    world.request(
        "ours", "node0", size=2, acted_size=2, state="Updating", labels={"app.kubernetes.io/managed-by": "dds"}
    )
    world.online("idle", "node0", request="ours")
    world.resource("vain", "node0", request="ours", state="Attaching", error=WORDS)
    return world


def called_off(world: World) -> list[e.DetachOrdered]:
    return [one for one in world.events(e.DetachOrdered) if one.unattached]


def test_what_hangs_long_enough_for_nobody_is_taken_back() -> None:
    world = hanging()
    world.tick(9)
    assert called_off(world) == []
    world.tick(2)
    (one,) = called_off(world)
    assert (one.size, one.previous, one.victims) == (1, 2, ("vain",))
    world.tick(600)
    assert len(called_off(world)) == 1, "it is on its way"


def test_after_it_the_idle_device_can_go() -> None:
    world = hanging(no_removal_seconds=60, fence_settle_seconds=30)
    world.tick(20)
    request = world.get(AttachRequest, "ours")
    world.update(request, size=1, acted_size=1, state="Running")
    world.take_away("vain")
    world.tick(60)
    assert [one.resource for one in world.events(e.VictimMarked)] == ["idle"]


def test_nothing_is_taken_back_while_a_claim_waits_for_the_model_there() -> None:
    world = hanging()
    world.claim("a", 2)
    world.allocate("a", "node0")
    world.tick(5)
    world.waits("b", "node0")
    world.tick(60)
    assert called_off(world) == []


def test_nor_while_a_device_of_the_request_is_in_use() -> None:
    world = hanging()
    world.holds("a", "node0", "gpu-GPU-idle")
    world.bind("a", "node0")
    world.tick(600)
    assert called_off(world) == []
    world.finish("a")
    world.tick(20)
    assert len(called_off(world)) == 1


@pytest.mark.parametrize(
    "changes",
    [{"state": "Attaching", "error": ""}, {"uuid": "GPU-vain"}, {"fabric_id": "res-1"}, {"state": "Detaching"}],
)
def test_only_what_has_no_device_and_an_error_hangs(changes: dict[str, Any]) -> None:
    world = hanging()
    world.resource("vain", "node0", **changes)
    world.tick(600)
    assert called_off(world) == []


def test_nothing_is_taken_back_beside_one_that_may_still_come() -> None:
    world = hanging()
    request = world.get(AttachRequest, "ours")
    world.update(request, size=3, acted_size=3)
    world.resource("coming", "node0", request="ours", state="Attaching")
    world.tick(600)
    assert called_off(world) == []


def test_nothing_is_taken_back_before_the_operator_has_acted_on_the_size() -> None:
    world = hanging()
    world.update(world.get(AttachRequest, "ours"), acted_size=1)
    world.tick(600)
    assert called_off(world) == []


@pytest.mark.parametrize("mode", ["attach"])
def test_only_where_devices_may_be_given_back(mode: str) -> None:
    world = hanging(mode)
    world.tick(600)
    assert called_off(world) == []


def test_the_minimum_of_the_node_stays_ordered() -> None:
    world = hanging(limit={"min": 2})
    world.tick(600)
    assert called_off(world) == []
