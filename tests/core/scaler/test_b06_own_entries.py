"""B6: the condition went to another driver's entry, to every entry, or to none.

Here each entry is named by driver, pool, device and share; only our own are written, a failure on the first not ready.
"""

from dds_core.model import Claim, Condition, Result
from dds_core.scaler import events as e
from tests.support.world import A100, FAILED, READY, RESCHEDULE, World, one_node

NIC = Result("nic", "nic.example.com", "node0", "eth1", (READY,), ("Broken",))


def claim_with_a_nic(mode: str = "attach") -> World:
    world = one_node(mode, 4, scan_interval_seconds=0)
    world.claim("train", 2)
    world.allocate("train", "node0", NIC, (A100, 2))
    claim = world.get(Claim, "train")
    world.update(claim, conditions=(Condition(NIC.driver, NIC.pool, NIC.device, "Ready", "True"),))
    return world


def test_b06_the_hand_over_names_every_own_device_and_no_other() -> None:
    world = claim_with_a_nic()
    world.settle()
    entries = world.only(e.HandOver).signals[0].entries
    assert [(x.driver, x.pool, x.device, x.condition) for x in entries] == [
        (A100.driver, "nvidia-a100-40-fabric1", f"nvidia-a100-40-{i}", RESCHEDULE) for i in (0, 1)
    ]


def test_b06_a_failure_goes_on_the_first_own_result_that_is_not_ready() -> None:
    world = claim_with_a_nic()
    world.condition("train", READY, 1)
    world.tick(541)
    world.carry_out(e.NodeLabelled)
    entries = world.only(e.FailureSignalled).signal.entries
    assert [(x.device, x.condition) for x in entries] == [("nvidia-a100-40-1", FAILED)]


def test_b06_the_foreign_result_is_neither_ordered_nor_waited_for() -> None:
    world = claim_with_a_nic()
    assert world.only(e.AttachOrdered).size == 2
    world.settle()
    assert world.state_of("train") == "Attached"
