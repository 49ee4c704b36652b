"""B8: an entry without our device, or without conditions, or of an equal name in another pool, put the claim in limbo.

Here the key is driver, pool and device, and what says nothing is nothing: the claim waits and is served.
"""

import pytest

from dds_core.model import Claim, Condition
from dds_core.scaler import events as e
from tests.support.world import FAILED, GPU, READY, RESCHEDULE, one_node

NAME = "nvidia-a100-40-0"


@pytest.mark.parametrize(
    "told",
    [
        Condition("nic.example.com", "node0", "eth1", "Ready", "True"),
        Condition(GPU, "nvidia-a100-40-fabric2", NAME, RESCHEDULE, "True"),
        Condition(GPU, "nvidia-a100-40-fabric2", NAME, FAILED, "True"),
        Condition("other.example.com", "nvidia-a100-40-fabric1", NAME, READY, "True"),
        Condition(GPU, "nvidia-a100-40-fabric1", NAME, READY, "False"),
        Condition(GPU, "nvidia-a100-40-fabric1", NAME, "Seen", "True"),
    ],
    ids=[
        "another driver's",
        "another fabric's",
        "another fabric's failure",
        "another driver's name",
        "false",
        "unknown",
    ],
)
def test_b08_a_claim_with_an_entry_that_says_nothing_is_served(told: Condition) -> None:
    world = one_node("attach", 4)
    world.waits("train", "node0")
    world.update(world.get(Claim, "train"), conditions=(told,))
    assert world.state_of("train") == "Attaching"
    world.tick(30)
    world.carry_out(e.AttachOrdered)
    world.online("res", "node0", request=world.only(e.AttachOrdered).request)
    assert world.state_of("train") == "Attached"
    if told.type != "Seen":
        assert world.only(e.HandOver).signals[0].entries[0].device == NAME
