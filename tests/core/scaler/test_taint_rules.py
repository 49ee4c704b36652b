"""DeviceTaintRules that an older dds has made go, while no slice changes: a scheduler of 1.36.0 to 1.36.2 exits otherwise."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.model import OWNER, OWNER_LABEL, Taint, TaintRule
from dds_core.scaler import events as e
from tests.support.world import A100, GPU, World, one_node

OTHER = replace(A100, driver="nic.example.com")
OURS = TaintRule(
    "rule", "dds-rule", GPU, "node0", "gpu-1", Taint("dds/leaving", effect="NoSchedule"), {OWNER_LABEL: OWNER}
)


def world() -> World:
    made = one_node("attach", 4, scan_interval_seconds=0)
    made.plug("node0", "gpu-1", "GPU-1")
    made.tick(60)
    made.observe(OURS)
    return made


def test_it_goes_when_no_slice_has_changed_for_two_seconds() -> None:
    one = world()
    one.plug("node0", "gpu-2", "GPU-2")
    one.tick(1.5)
    one.plug("node0", "gpu-3", "GPU-3")
    one.tick(1.5)
    assert not one.events(e.TaintLifted)
    one.tick(1)
    assert [(lifted.rule, lifted.name) for lifted in one.events(e.TaintLifted)] == [("rule", "dds-rule")]
    one.tick(600)
    assert len(one.events(e.TaintLifted)) == 1, "once"


def test_other_drivers_slices_do_not_keep_it() -> None:
    one = world()
    for number in range(6):
        one.tick(0.5)
        one.plug("node0", f"nic-{number}", f"NIC-{number}", more={}, model=OTHER)
    assert one.events(e.TaintLifted)


def test_a_refused_deletion_is_decided_again() -> None:
    one = world()
    one.tick(3)
    one.feed(e.WriteRefused(decision="d", action="TaintLifted", target="rule", code=500, reason="InternalError"))
    one.tick(60)
    assert len(one.events(e.TaintLifted)) == 2


def test_what_an_earlier_process_was_about_to_delete_goes_after_the_start() -> None:
    one = world()
    one.tick(3)
    one.feed(e.Started("code", "fingerprint", 1, 2, "attach"))
    one.feed(e.Synced())
    one.tick(3)
    assert len(one.events(e.TaintLifted)) == 2


def test_a_rule_of_somebody_else_is_left_alone() -> None:
    one = one_node("attach", 4, scan_interval_seconds=0)
    one.observe(TaintRule("other", "other", OURS.driver, OURS.pool, OURS.device, OURS.taint))
    one.tick(10)
    assert not one.events(e.TaintLifted)
