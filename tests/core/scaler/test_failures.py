"""Which claim a failure is told on, and what a claim goes through that is allocated in unusual ways."""

from msgspec.structs import replace

from dds_core.model import Claim, Pod, Result
from dds_core.scaler import events as e
from dds_core.scaler.deciding import decide
from dds_core.scaler.folds import apply
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, H100, RESCHEDULE, World, one_node

NIC = Result("nic", "nic.example.com", "node0", "eth1")


def pod_with_two_claims() -> World:
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.pool(H100, 8)
    for name, model in (("zeta", A100), ("alpha", H100)):
        world.claim(name, pod="both")
        world.allocate(name, "node0", (model, 1))
    world.carry_out()
    return world


def test_a_failure_goes_on_the_first_claim_of_the_pod_that_is_not_ready() -> None:
    """The scheduler stops at the first claim that is not ready and would not see one set on the second."""
    world = pod_with_two_claims()
    request = next(o.request for o in world.events(e.AttachOrdered) if o.model == H100.model)
    world.resource("res", "node0", H100, request=request, state="Attaching", error="no such port")
    world.tick(11)
    assert world.only(e.ClaimFailed).claim == world.uid("alpha")
    world.carry_out(e.NodeLabelled)
    told = world.only(e.FailureSignalled)
    assert told.claim == world.uid("alpha")
    assert told.signal.claim == world.uid("zeta")
    assert told.signal.entries[-1].message == "no such port"


def test_the_order_of_a_pod_that_is_being_deleted_does_not_say_on_which_claim_a_failure_is_told() -> None:
    """Its other claim is looked at by no scheduler any more."""
    world = pod_with_two_claims()
    world.update(world.get(Pod, "both"), deleting=True)
    world.pod("other", ["alpha"])
    request = next(o.request for o in world.events(e.AttachOrdered) if o.model == H100.model)
    world.resource("res", "node0", H100, request=request, state="Attaching", error="no such port")
    world.tick(11)
    world.carry_out(e.NodeLabelled)
    assert world.only(e.FailureSignalled).signal.claim == world.uid("alpha")


def told_on_the_first_claim() -> World:
    """The second claim of a pod failed, which was told on the first one; that was cleared, and the second alone is reserved
    anew."""
    world = pod_with_two_claims()
    request = next(o.request for o in world.events(e.AttachOrdered) if o.model == H100.model)
    world.resource("res", "node0", H100, request=request, state="Attaching", error="no such port")
    world.tick(11)
    world.settle()
    assert world.only(e.FailureSignalled).signal.claim == world.uid("zeta")
    for claim in ("zeta", "alpha"):
        world.unreserve(claim)
    world.clear("zeta")
    return world


def test_a_failure_told_on_another_claim_that_was_cleared_is_told_on_the_claim_itself() -> None:
    """Found by a random fleet: the scheduler waited for the claim that had failed until its time was over."""
    world = told_on_the_first_claim()
    world.plug("node0", "gpu-0", "GPU-fixed")
    world.allocate_local("zeta", "node0", "gpu-0")
    assert len(world.events(e.FailureSignalled)) == 1
    world.reserve("alpha")
    again = world.events(e.FailureSignalled)[1:]
    assert [(one.claim, one.signal.claim) for one in again] == [(world.uid("alpha"), world.uid("alpha"))]
    world.settle()
    world.tick(600)
    assert len(world.events(e.FailureSignalled)) == 2


def test_a_failure_is_not_told_again_on_a_claim_that_was_allocated_anew() -> None:
    """The scheduler would clear it again and again, and never the one that failed."""
    world = told_on_the_first_claim()
    world.allocate("zeta", "node0", (A100, 1))
    world.reserve("alpha")
    world.settle()
    assert len(world.events(e.FailureSignalled)) == 1


def test_a_failure_is_not_told_any_more_once_the_scheduler_has_cleared_the_claim() -> None:
    """The first claim of the pod would be cleared for it, which waits for a device that is coming."""
    world = pod_with_two_claims()
    request = next(o.request for o in world.events(e.AttachOrdered) if o.model == H100.model)
    world.resource("res", "node0", H100, request=request, state="Attaching", error="no such port")
    world.tick(11)
    world.only(e.ClaimFailed)
    world.clear("alpha")
    world.carry_out(e.NodeLabelled)
    assert not world.events(e.FailureSignalled)


def test_a_failure_is_told_once_and_the_cell_cools_down_once() -> None:
    world = pod_with_two_claims()
    world.tick(541)
    world.carry_out(e.NodeLabelled)
    world.tick(60)
    assert len(world.events(e.CoolDown)) == 2, "one for each model"
    assert len({f.claim for f in world.events(e.FailureSignalled)}) == len(world.events(e.FailureSignalled))


def test_a_device_that_comes_too_late_is_there_for_the_next() -> None:
    world = pod_with_two_claims()
    world.tick(541)
    world.operate()
    assert world.state_of("zeta") == "Failed"
    world.waits("next", "node0")
    assert world.state_of("next") == "Attached"


def test_a_bound_claim_that_is_allocated_anew_begins_another_cycle() -> None:
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.plug("node0", "gpu-0", "GPU-fixed")
    world.holds("train", "node0", "gpu-0")
    world.bind("train")
    world.pod("other", ["train"])
    world.allocate("train", "node0")
    steps = [(t, s, d) for t, s, d in world.moves("train")]
    assert ("released", "Bound", "Detaching") in steps
    assert ("allocated_pool", "Detaching", "Pending") in steps


def test_a_claim_that_turns_to_devices_that_are_none_of_ours_lets_go() -> None:
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.waits("train", "node0")
    world.allocate("train", "node0", NIC)
    assert world.moves("train")[-1][0] in ("released", "settled")
    assert world.state_of("train") in ("Released", "Detaching")
    orders = len(world.events(e.AttachOrdered))
    world.tick(60)
    assert len(world.events(e.AttachOrdered)) == orders


def test_an_admin_result_is_no_use_of_the_device() -> None:
    world = World("attach")
    world.node("node0")
    world.plug("node0", "gpu-0", "GPU-fixed")
    world.waits("monitor", "node0", Result("r0", A100.driver, "node0", "gpu-0", admin=True))
    assert world.state_of("monitor") == "Attached"
    assert world.state.lifecycle.lives.rows[world.uid("monitor")].devices == ()


def test_the_same_pool_device_twice_without_shares_is_one_device() -> None:
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.claim("train")
    one = pool_results(0)[0]
    world.allocate("train", "node0", one, replace(one, request="again"))
    assert world.only(e.AttachOrdered).size == 1


def test_other_results_of_a_claim_are_remembered() -> None:
    world = one_node("attach", 8)
    world.waits("train", "node0", NIC, (A100, 1))
    life = world.state.lifecycle.lives.rows[world.uid("train")]
    assert life.allocation is not None
    assert NIC in life.allocation.results


def test_a_signal_of_somebody_on_one_claim_is_no_reason_to_fail_it() -> None:
    world = pod_with_two_claims()
    world.condition("zeta", RESCHEDULE)
    world.tick(541)
    assert world.uid("zeta") not in {f.claim for f in world.events(e.ClaimFailed)}


def test_decide_tells_what_follows_and_leaves_no_trace() -> None:
    world = one_node("attach", 8, scan_interval_seconds=0)
    world.claim("train")
    claim = world.get(Claim, "train")
    twin = World("attach", scan_interval_seconds=0)
    twin.node("node0")
    twin.pool(A100, 8)
    twin.claim("train")
    twin.allocate("train", "node0")
    fact = e.difference(claim, twin.get(Claim, "train"))
    assert fact is not None
    apply(world.state, fact, world.now)
    first = decide(world.state, world.now).emitted
    again = decide(world.state, world.now).emitted
    assert [type(event) for event, _ in first] == [e.ClaimMoved, e.AttachOrdered, e.ClaimMoved]
    assert first == again
    assert not world.state.lifecycle.lives.rows
    assert not world.state.fleet.orders.rows
    assert world.state.fleet.units_coming == 0
