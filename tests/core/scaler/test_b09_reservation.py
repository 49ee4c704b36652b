"""B9: one free device satisfied every waiting claim of a scan, and the note of it was written after the signal.

Here a device is promised to one claim, in the log before any signal, and the promise survives a restart.
"""

from dds_core.model import Result
from dds_core.scaler import events as e
from dds_core.scaler.component import Engine
from dds_core.scaler.folds import apply
from dds_core.scaler.state import State
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, GPU, H100, World, one_node


def two_claims_one_device() -> World:
    world = one_node("attach", 4, synced=False, scan_interval_seconds=0)
    for name in ("first", "second"):
        world.waits(name, "node0")
    world.sync()
    world.carry_out()
    world.online("res", "node0", request=world.events(e.AttachOrdered)[0].request)
    return world


def test_b09_one_device_is_promised_to_one_claim_the_oldest() -> None:
    world = two_claims_one_device()
    assert world.only(e.Reserved).claim == world.uid("first")
    assert [s.claim for s in world.only(e.HandOver).signals] == [world.uid("first")]
    assert (world.state_of("first"), world.state_of("second")) == ("Attached", "Attaching")


def test_b09_the_promise_is_in_the_log_before_the_signal() -> None:
    world = two_claims_one_device()
    step = next(step for step in world.steps if any(isinstance(d, e.HandOver) for d in step.decisions))
    kinds = [type(event) for event, _ in step.caused]
    assert kinds.index(e.Reserved) < kinds.index(e.ClaimMoved) < kinds.index(e.HandOver)


def test_b09_a_promise_holds_while_the_claim_is_between_two_allocations() -> None:
    world = two_claims_one_device()
    world.carry_out()
    world.make()
    world.unreserve("first")
    world.clear("first")
    world.waits("third", "node0")
    assert world.reserved("first") == ["GPU-res"]
    assert world.state_of("second") == world.state_of("third") == "Attaching"


def test_b09_a_restart_honours_the_promise() -> None:
    world = two_claims_one_device()
    loaded = State()
    for step in world.steps:
        apply(loaded, step.fact, step.at)
        for event, _ in step.caused:
            apply(loaded, event, step.at)
    engine = Engine(loaded)
    assert [row.promises[0].uuid for row in loaded.hand_over.reservations.rows.values()] == ["GPU-res"]
    engine.feed(e.Started("1", "f", 1, 2, "attach"), world.now)
    step = engine.feed(e.Synced(), world.now)
    assert not [d for d in step.decisions if isinstance(d, e.Reserved)]
    assert all(d.reissued for d in step.decisions if isinstance(d, e.HandOver))


def test_b09_a_promise_that_is_not_kept_in_time_expires() -> None:
    world = two_claims_one_device()
    world.carry_out()
    world.unreserve("first")
    world.clear("first")
    world.tick(61)
    assert world.only(e.ReservationDropped).claim == world.uid("first")
    assert world.reserved("second") == ["GPU-res"]
    assert world.state_of("second") == "Attached"


def test_b09_a_promise_that_was_never_signalled_ends_with_its_schedulers_patience() -> None:
    """The pod's other claim has no device, this one is cleared and the pod waits on: the device is not kept for ever."""
    world = one_node("attach", 4, scheduler={"binding_timeout_seconds": 300}, scan_interval_seconds=0)
    world.pool(H100, 4)
    world.waits("train", "node0")
    world.claim("other", pod="train")
    world.allocate("other", "node0", (H100, 1))
    world.online("res", "node0")
    assert world.reserved("train") == ["GPU-res"] and not world.events(e.HandOver)
    world.unreserve("train")
    world.clear("train")
    world.tick(299)
    assert world.reserved("train") == ["GPU-res"]
    world.tick(2)
    assert world.reserved("train") == []


def told_for_a_second_device() -> World:
    """`first` has a device of the node and is handed over the other one that it waits for; `second` waits for one as well."""
    world = one_node("attach", 4, scan_interval_seconds=0)
    kept = world.online("kept", "node0")
    world.claim("first", 2)
    world.allocate("first", "node0", Result("r0", GPU, "node0", f"gpu-{kept}"), (A100, 1))
    world.carry_out()
    world.waits("second", "node0")
    world.carry_out()
    world.online("res", "node0", request=world.events(e.AttachOrdered)[0].request)
    world.carry_out()
    return world


def test_b09_what_a_claim_gives_up_at_the_hand_over_is_kept_for_it() -> None:
    world = told_for_a_second_device()
    assert sorted(world.reserved("first")) == ["GPU-kept", "GPU-res"]
    world.unreserve("first")
    world.clear("first")
    assert world.reserved("second") == []
    assert world.state_of("second") == "Attaching"
    world.allocate_local("first", "node0", "gpu-GPU-kept", "gpu-GPU-res")
    assert world.reserved("first") == []


def test_what_leaves_the_node_is_not_kept_for_the_claim_that_has_it() -> None:
    """Somebody else takes off a device that the scheduler has chosen meanwhile: the claim is to get others."""
    world = one_node("attach", 4, scan_interval_seconds=0, exchange=True)
    kept = world.online("kept", "node0")
    world.claim("first", 2)
    world.allocate("first", "node0", Result("r0", GPU, "node0", f"gpu-{kept}"), (A100, 1))
    world.carry_out()
    world.resource("kept", "node0", deleting=True, state="Detaching")
    world.online("res", "node0", request=world.events(e.AttachOrdered)[0].request)
    assert world.reserved("first") == ["GPU-res"]
    assert not world.events(e.ExchangeBegun), "an exchange would give it again what leaves"
    assert "leaves the node" in world.only(e.HandOver).why


def test_b09_the_time_to_take_it_begins_when_the_claim_can() -> None:
    """Until its stand-in is cleared, which takes the scheduler its while, a claim that was told can take nothing."""
    world = two_claims_one_device()
    world.carry_out()
    world.tick(58)
    world.unreserve("first")
    world.clear("first")
    world.tick(59)
    assert world.reserved("first") == ["GPU-res"]
    assert world.state_of("second") == "Attaching"
    world.tick(2)
    assert world.reserved("second") == ["GPU-res"]


def test_b09_nothing_is_taken_back_before_the_claim_can_take_it() -> None:
    world = two_claims_one_device()
    world.carry_out()
    world.tick(70)
    assert not world.events(e.ReservationDropped)
    world.clear("first")
    world.tick(59)
    assert world.reserved("first") == ["GPU-res"]


def test_a_device_that_another_claim_of_the_pod_gets_by_now_is_promised_to_one_of_them_only() -> None:
    world = World("attach", exchange=True, scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 8)
    for number in range(2):
        world.claim(f"train{number}", pod="train0")
        world.allocate(f"train{number}", "node0", *pool_results(number))
    for number in range(2):
        world.online(f"res{number}", "node0")
    first, second = (
        world.state.hand_over.reservations.rows[world.uid(f"train{number}")].promises for number in range(2)
    )
    world.unplug("node0", first[0].device)
    promised = [row.promises[0].uuid for row in world.state.hand_over.reservations.rows.values()]
    assert second[0].uuid in promised
    assert len(promised) == len(set(promised))
