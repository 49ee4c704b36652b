"""B7: the whole list of status.devices was patched from a cache, so that others' entries and conditions were lost.

Here a signal carries the full set of our own entries and never anybody else's, so that a server-side apply replaces ours only.
"""

from dds_core.model import Claim, Condition
from dds_core.scaler import events as e
from tests.support.world import A100, H100, one_node


def test_b07_a_signal_carries_all_of_ours_and_nothing_of_others() -> None:
    world = one_node("attach", 4)
    world.pool(H100, 4)
    world.waits("train", "node0", (A100, 1), (H100, 2))
    claim = world.get(Claim, "train")
    theirs = Condition("nic.example.com", "node0", "eth1", "NetworkReady", "True")
    ours_by_somebody = Condition(A100.driver, "nvidia-a100-40-fabric1", "nvidia-a100-40-0", "Seen", "True")
    world.update(claim, conditions=(theirs, ours_by_somebody))
    world.settle()
    signal = world.only(e.HandOver).signals[0]
    assert [(x.pool, x.device) for x in signal.entries] == [
        ("nvidia-a100-40-fabric1", "nvidia-a100-40-0"),
        ("nvidia-h100-80-fabric1", "nvidia-h100-80-0"),
        ("nvidia-h100-80-fabric1", "nvidia-h100-80-1"),
    ]
    assert {x.condition for x in signal.entries} == {"FabricDeviceReschedule"}
    assert signal.claim == claim.uid
