"""An order that the fabric cannot fill and that nobody needs any more is taken back: while it hangs, no device of its request
can go, and another one would come for nobody."""

from itertools import islice
from typing import Any

import pytest

from dds_core.events import DeadlinePassed, Stale
from dds_core.model import AttachRequest
from dds_core.scaler import events as e
from dds_core.scaler.operator import WHOLE_REQUEST, pauses
from tests.core.scaler.test_restart import restart
from tests.support.world import H100, SECOND, START, World, one_node

WORDS = "no free resource"
FIRST, SECOND_PAUSE = (71, 79), (112, 161)
"""Seconds after the first error between which no order can be under way: the first two pauses of the operator."""


def hanging(mode: str = "detach", *, slow: float = 0, **policy: Any) -> World:
    """A request of ours for two on node0: an idle device, and one that the fabric does not have. `slow`: the device of another
    request took so many seconds before."""
    given: dict[str, Any] = {
        "no_removal_seconds": 3600,
        "scan_interval_seconds": 0,
        **policy,
    }
    world = one_node(mode, 8, **given)
    if slow:
        world.resource("slow", "node0", request="theirs", state="Attaching")
        world.tick(slow)
        world.online("slow", "node0")
    world.request(
        "ours", "node0", size=2, acted_size=2, state="Updating", labels={"app.kubernetes.io/managed-by": "dds"}
    )
    world.online("idle", "node0", request="ours")
    world.resource("vain", "node0", request="ours", state="Attaching", error=WORDS)
    return world


def wait(world: World, seconds: float) -> None:
    """Time passes; what is decided is written, and the operator does nothing."""
    world.tick(seconds)
    while world.carry_out():
        pass


def called_off(world: World) -> list[e.DetachOrdered]:
    return [one for one in world.events(e.DetachOrdered) if one.unattached]


def stranded(**policy: Any) -> World:
    """Of two devices of a request one idles, the other was named by the fabric and is listed by no node."""
    world = hanging(**{"no_removal_seconds": 20, **policy})
    world.resource("vain", "node0", error="", uuid="GPU-vain")
    return world


def test_a_device_that_no_node_lists_keeps_no_other_from_going_and_stays_itself() -> None:
    """Seed 91516: thirty idle devices stayed for ever beside one that the fabric had taken back while the operator attached it.
    The operator takes marked ones before those that are attaching with a device. Seed 21144: what it takes off itself may be
    listed by the restart of the plugin that comes with it, and a pod gets it as it leaves."""
    world = stranded()
    wait(world, 299)
    assert not world.events(e.DetachOrdered)
    wait(world, 40)
    assert world.only(e.DetachOrdered).victims == ("idle",)
    assert world.get(AttachRequest, "ours").size == 1
    world.take_away("idle")
    world.update(world.get(AttachRequest, "ours"), acted_size=1)
    wait(world, 3600)
    assert len(world.events(e.DetachOrdered)) == 1


def unmade(*, size: int = 2, **policy: Any) -> World:
    """A request for more than the operator has made, which says that it is done: a size was asked back as its device left."""
    world = hanging(**{"scan_interval_seconds": 60, **policy})
    world.take_away("vain")
    world.update(world.get(AttachRequest, "ours"), size=size, acted_size=size, state="Running")
    return world


def test_a_size_that_the_operator_makes_nothing_for_is_lowered_to_what_is_there() -> None:
    world = unmade(size=3)
    wait(world, 61)
    (one,) = world.events(e.DetachOrdered)
    assert (one.size, one.previous, one.victims) == (1, 3, ())
    assert world.decisions(e.VictimMarked) == []


def test_without_level_passes_such_a_size_is_lowered_when_a_device_cannot_go_for_long() -> None:
    """A size of one too many is not one to lower by a victim."""
    world = unmade(scan_interval_seconds=0, no_removal_seconds=20)
    wait(world, 100)
    assert world.only(e.VictimMarked).resource == "idle" and not world.events(e.DetachOrdered)
    wait(world, 300)
    assert world.events(e.DetachOrdered)[0].victims == ()


def left_behind(**policy: Any) -> World:
    """A request of ours whose size was asked back as its only device left; a claim counts on it."""
    world = one_node("detach", 8, no_removal_seconds=3600, scan_interval_seconds=0, **policy)
    world.request(
        "ours", "node0", size=1, acted_size=1, state="Running", labels={"app.kubernetes.io/managed-by": "dds"}
    )
    world.resource("goes", "node0", request="ours", state="Detaching", deleting=True)
    world.claim("a", 1)
    world.allocate("a", "node0")
    wait(world, 5)
    assert not world.events(e.DetachOrdered)
    world.take_away("goes")
    return world


@pytest.mark.parametrize("top", [1, 50])
def test_what_somebody_counts_on_is_ordered_anew_when_the_operator_makes_nothing_for_it(top: int) -> None:
    """Raised before the operator has seen the lower size, it would be the size for which it made nothing."""
    world = left_behind(limit={"max": top})
    (lowered,) = world.events(e.DetachOrdered)
    assert (lowered.size, lowered.previous, lowered.victims) == (0, 1, ())
    wait(world, 1)
    assert world.get(AttachRequest, "ours").size == 0 and not world.events(e.AttachOrdered)
    world.update(world.get(AttachRequest, "ours"), acted_size=0)
    ordered = world.only(e.AttachOrdered)
    assert (ordered.size, ordered.previous, ordered.reason) == (1, 0, "demand")


def test_what_the_operator_makes_after_all_is_not_lowered() -> None:
    world = left_behind()
    world.refused(world.only(e.DetachOrdered), obsolete=True)
    world.resource("comes", "node0", request="ours", state="Attaching")
    wait(world, 60)
    assert len(world.events(e.DetachOrdered)) == 1 and not world.events(e.AttachOrdered)


def test_such_a_size_waits_for_what_leaves() -> None:
    """How many there are then is not known."""
    world = unmade(size=3)
    world.resource("goes", "node0", request="ours", state="Detaching", deleting=True)
    wait(world, 130)
    assert not world.events(e.DetachOrdered)
    world.take_away("goes")
    wait(world, 61)
    assert world.only(e.DetachOrdered).size == 1


def test_such_a_size_is_kept_while_a_claim_waits_and_while_the_operator_is_at_work() -> None:
    world = unmade()
    world.claim("a", 2)
    world.allocate("a", "node0")
    wait(world, 70)
    assert not world.events(e.DetachOrdered)
    world = unmade()
    world.update(world.get(AttachRequest, "ours"), state="Updating")
    wait(world, 130)
    assert not world.events(e.DetachOrdered)


def test_what_hangs_long_enough_for_nobody_is_taken_back() -> None:
    world = hanging()
    wait(world, SECOND_PAUSE[0] - 1)
    assert called_off(world) == []
    wait(world, 1)
    (one,) = called_off(world)
    assert (one.size, one.previous, one.victims) == (1, 2, ("vain",))
    wait(world, 600)
    assert len(called_off(world)) == 1, "it is on its way"


def test_after_it_the_idle_device_can_go() -> None:
    world = hanging(no_removal_seconds=150)
    wait(world, SECOND_PAUSE[0])
    request = world.get(AttachRequest, "ours")
    world.update(request, size=1, acted_size=1, state="Running")
    world.take_away("vain")
    wait(world, 60)
    assert world.only(e.VictimMarked).resource == "idle"
    wait(world, 31)
    assert [one.victims for one in world.events(e.DetachOrdered)] == [("vain",), ("idle",)]


def test_nothing_is_taken_back_while_a_claim_waits_for_the_model_there() -> None:
    world = hanging()
    world.claim("a", 2)
    world.allocate("a", "node0")
    wait(world, 5)
    world.waits("b", "node0")
    wait(world, 400)
    assert world.state_of("a") == "Attaching"
    assert called_off(world) == []


def test_a_claim_that_fails_as_soon_as_it_comes_asks_for_nothing_back() -> None:
    """It is covered by what hangs, and told so at once: what it no longer waits for was ordered anew, and came for nobody."""
    world = hanging()
    world.holds("a", "node0", "gpu-GPU-idle")
    world.bind("a", "node0")
    wait(world, SECOND_PAUSE[0])
    assert len(called_off(world)) == 1
    world.waits("late", "node0")
    assert world.only(e.ClaimFailed).claim == world.uid("late")
    assert not world.events(e.AttachOrdered) and not world.events(e.VictimUnmarked)


def test_what_hangs_is_not_marked_since_any_change_makes_the_operator_order_again() -> None:
    world = hanging()
    world.holds("a", "node0", "gpu-GPU-idle")
    world.bind("a", "node0")
    world.tick(SECOND_PAUSE[0])
    assert [one.victims for one in called_off(world)] == [("vain",)]
    wait(world, 600)
    assert not world.decisions(e.VictimMarked, e.VictimUnmarked)
    assert not world.decisions(e.OperatorNudged)[1:], "the idle one was looked at when it came"
    assert world.device("idle") == "Used"


@pytest.mark.parametrize(("state", "after"), [("", 300), ("Attaching", 1341)])
def test_what_hangs_without_a_word_is_taken_back_after_minutes(state: str, after: float) -> None:
    """What the operator has begun may be under way at any time."""
    world = hanging()
    world.take_away("vain")
    world.resource("silent", "node0", request="ours", state=state)
    wait(world, after - 10)
    assert called_off(world) == []
    wait(world, 20)
    assert len(called_off(world)) == 1


def test_what_hangs_keeps_no_idle_device_of_its_request_beside_one_in_use() -> None:
    world = hanging(no_removal_seconds=60)
    world.update(world.get(AttachRequest, "ours"), size=3, acted_size=3)
    world.online("busy", "node0", request="ours")
    world.holds("a", "node0", "gpu-GPU-busy")
    world.bind("a", "node0")
    wait(world, SECOND_PAUSE[0])
    assert len(called_off(world)) == 1
    world.take_away("vain")
    world.update(world.get(AttachRequest, "ours"), size=2, acted_size=2, state="Running")
    for _ in range(4):
        wait(world, 30)
    assert world.events(e.DetachOrdered)[-1].victims == ("idle",)


def test_a_device_that_was_marked_already_may_go_in_its_place_once_it_is_known_to_be_free() -> None:
    world = hanging(no_removal_seconds=110)
    wait(world, 120)
    assert world.only(e.VictimMarked).resource == "idle"
    assert called_off(world) == []
    wait(world, 30)
    assert [one.victims for one in called_off(world)] == [("vain",)]


def test_what_is_known_to_be_free_between_two_pauses_waits_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dds_core.scaler.fence.FENCE_SETTLE", 60 * SECOND)
    world = hanging(no_removal_seconds=110)
    wait(world, 165)
    assert world.state.give_back.fences.rows["idle"].confirmed == 0
    wait(world, 10)
    assert world.state.give_back.fences.rows["idle"].confirmed
    assert called_off(world) == [], "the operator may be ordering again"
    wait(world, 25)
    assert [one.victims for one in called_off(world)] == [("vain",)]


# -- the pauses ----------------------------------------------------------------------------------------------------------


def test_a_pause_is_a_whole_request_after_a_try_and_ends_before_the_next() -> None:
    """Tries are 5 ms x 2^n apart: those at 40.955, 81.915 and 163.835 s are the first with room for a pause behind them."""
    found = [(first / SECOND, last / SECOND) for first, last, _ in islice(pauses(0, WHOLE_REQUEST), 3)]
    assert found == [(70.955, 79.915), (111.915, 161.835), (193.835, 325.675)]
    longer = [(first / SECOND, last / SECOND) for first, last, _ in islice(pauses(0, 80 * SECOND), 2)]
    assert longer == [(243.835, 325.675), (407.675, 653.355)], "an order takes so long here"


def test_without_a_claim_that_failed_by_it_there_is_time_for_another_try() -> None:
    world = hanging()
    since = (world.now - START) / SECOND
    wait(world, 200)
    (one,) = called_off(world)
    assert world.decided_at(one) - since == pytest.approx(111.915, abs=0.001)


def test_a_claim_that_failed_by_it_has_it_called_off_in_the_first_pause() -> None:
    world = hanging()
    since = (world.now - START) / SECOND
    world.claim("a", 2)
    world.allocate("a", "node0")
    wait(world, 69)
    assert world.only(e.ClaimFailed).reason == "AttachFailed" and called_off(world) == []
    wait(world, 5)
    (one,) = called_off(world)
    assert world.decided_at(one) - since == pytest.approx(70.955, abs=0.001)


def test_a_claim_that_failed_for_another_model_hastens_nothing() -> None:
    world = hanging()
    world.pool(H100, 1)
    world.waits("a", "node0", (H100, 1))
    world.carry_out()
    request = world.only(e.AttachOrdered).request
    world.resource("other", "node0", H100, request=request, state="Attaching", error="no such port")
    world.tick(11)
    assert world.only(e.ClaimFailed).model == H100.model
    wait(world, 95)
    assert called_off(world) == []
    wait(world, 15)
    assert len(called_off(world)) == 1


def test_where_an_order_takes_long_the_pause_is_twice_as_long_after_the_try() -> None:
    world = hanging(slow=40)
    since, service = (world.now - START) / SECOND, world.state.fleet.rates.rows[""].service
    assert service > 28, "seven tenths of 40 s, and the idle one"
    wait(world, 400)
    (one,) = called_off(world)
    when = world.decided_at(one) - since
    assert when == pytest.approx(81.915 + 2 * service, abs=0.001), "the first pause is after the try at 81.915 s"


@pytest.mark.parametrize(("failed", "first"), [(False, 111.915), (True, 70.955)])
def test_the_pauses_are_counted_from_the_last_change_of_the_text(failed: bool, first: float) -> None:
    """Each other text is one more change of the object, at which the operator orders again, and its waits begin anew."""
    world = hanging()
    if failed:
        world.claim("a", 2)
        world.allocate("a", "node0")
    wait(world, 50)
    assert bool(world.events(e.ClaimFailed)) is failed, "the grace is counted from the first text"
    for words in ("no such port", "the fabric is busy"):
        world.resource("vain", "node0", error=words)
        since = (world.now - START) / SECOND
        wait(world, 20)
    wait(world, 200)
    (one,) = called_off(world)
    assert world.decided_at(one) - since == pytest.approx(first, abs=0.001)


def test_what_cannot_be_decided_in_a_pause_waits_for_the_next() -> None:
    world = hanging()
    wait(world, SECOND_PAUSE[0] - 1)
    world.feed(Stale(resource="composableresources", age=60))
    world.tick(SECOND_PAUSE[1] - SECOND_PAUSE[0] + 2)
    world.feed(e.Synced())
    wait(world, 20)
    assert called_off(world) == [], "the next try may be under way"
    wait(world, 15)
    assert len(called_off(world)) == 1


def test_the_deadline_comes_back_at_each_pause() -> None:
    world = hanging("attach")
    since = world.now
    world.tick(400)
    facts = [step.fact for step in world.steps if isinstance(step.fact, DeadlinePassed)]
    due = [(one.due - since) / SECOND for one in facts if one.kind == "call-off"]
    assert due == pytest.approx([111.915, 193.835, 357.675], abs=0.001)


# -- a device that comes all the same -----------------------------------------------------------------------------------


def taken_back() -> World:
    """The size was lowered for what hangs, and the operator has not acted yet."""
    world = hanging()
    wait(world, SECOND_PAUSE[0])
    assert world.get(AttachRequest, "ours").size == 1
    return world


def test_a_device_that_comes_the_moment_it_is_taken_back_is_asked_back_and_kept() -> None:
    world = taken_back()
    came = world.online("vain", "node0", request="ours")
    back = world.events(e.AttachOrdered)[-1]
    assert (back.size, back.previous) == (2, 1)
    world.carry_out(e.AttachOrdered)
    assert world.device("vain") == "Idle" and not world.state.give_back.fences
    world.claim("a", 2)
    world.allocate("a", "node0")
    assert came in world.reserved("a")


def test_what_was_never_lowered_and_is_asked_back_in_part_goes_like_any_other() -> None:
    """The request still has more than is asked back: there is nothing to write, and nothing that the request would show."""
    world = hanging(no_removal_seconds=200)
    world.resource("late", "node0", request="ours", state="Attaching", error=WORDS)
    world.update(world.get(AttachRequest, "ours"), size=3, acted_size=3)
    wait(world, SECOND_PAUSE[0] - 1)
    world.tick(2)
    (lowered,) = called_off(world)
    assert (lowered.size, lowered.previous) == (1, 3)
    world.online("vain", "node0", request="ours")
    back = world.events(e.AttachOrdered)[-1]
    assert (back.size, back.previous) == (2, 3)
    world.carry_out(e.VictimUnmarked)  # the writer had not come to the size, and has nothing to raise now
    world.feed(e.Superseded(decision="", action="DetachOrdered", target="ours"))
    world.feed(e.WriteDone(decision="", action="AttachOrdered", target="ours"))
    world.online("late", "node0", request="ours")
    world.update(world.get(AttachRequest, "ours"), state="Running")
    for _ in range(4):
        wait(world, 100)
    assert world.events(e.DetachOrdered)[-1].size == 0
    assert not world.state.fleet.orders.rows


def test_until_it_is_asked_back_nobody_is_given_it() -> None:
    world = taken_back()
    came = world.online("vain", "node0", request="ours")
    world.claim("a", 2)
    world.allocate("a", "node0")
    world.tick(30)
    assert came not in world.reserved("a"), "the operator may be taking it off"
    world.settle()
    assert came in world.reserved("a")


def test_one_that_the_operator_takes_off_all_the_same_is_gone_and_leaves_nothing() -> None:
    world = taken_back()
    world.take_away("vain")
    world.update(world.get(AttachRequest, "ours"), acted_size=1, state="Running")
    world.tick(60)
    assert not world.state.give_back.fences.rows and not world.state.fleet.orders.rows
    assert not world.events(e.AttachOrdered)
    assert world.device("idle") == "Idle"


def test_a_claim_that_comes_for_the_model_asks_it_back_when_the_fabric_complains_no_more() -> None:
    world = taken_back()
    world.resource("vain", "node0", error="")
    world.claim("a", 2)
    world.allocate("a", "node0")
    assert world.events(e.AttachOrdered)[-1].size == 2


@pytest.mark.parametrize(
    "changes",
    [{"state": "Attaching", "error": ""}, {"uuid": "GPU-vain"}, {"fabric_id": "res-1"}, {"state": "Detaching"}],
)
def test_only_what_has_no_device_and_an_error_hangs_so_soon(changes: dict[str, Any]) -> None:
    world = hanging()
    world.resource("vain", "node0", **changes)
    wait(world, 200)
    assert called_off(world) == []


def test_nothing_is_taken_back_beside_one_that_may_still_come() -> None:
    world = hanging()
    request = world.get(AttachRequest, "ours")
    world.update(request, size=3, acted_size=3)
    world.resource("coming", "node0", request="ours", state="Attaching")
    wait(world, 200)
    assert called_off(world) == []


def test_nothing_is_taken_back_before_the_operator_has_acted_on_the_size() -> None:
    world = hanging()
    world.update(world.get(AttachRequest, "ours"), acted_size=1)
    wait(world, 600)
    assert called_off(world) == []


@pytest.mark.parametrize("mode", ["attach"])
def test_only_where_devices_may_be_given_back(mode: str) -> None:
    world = hanging(mode)
    wait(world, 600)
    assert called_off(world) == []


def test_the_minimum_of_the_node_stays_ordered() -> None:
    world = hanging(limit={"min": 2})
    wait(world, 600)
    assert called_off(world) == []


def test_what_is_about_to_go_does_not_count_towards_the_minimum() -> None:
    world = hanging(limit={"min": 1}, no_removal_seconds=5)
    wait(world, 6)
    assert world.device("idle") == "Marked"
    wait(world, 600)
    assert called_off(world) == []


def test_the_pauses_are_known_less_precisely_where_a_try_takes_long() -> None:
    """The fabric says no after 10 s: the operator's tries come up to ten seconds later each."""
    found = list(islice(pauses(0, 30 * SECOND, 20 * SECOND), 2))
    tries, at = [], 0.0
    for number in range(25):
        at += min(0.005 * 2**number, 1000)
        tries.append((at, at + 10))
        at += 10
    assert found and not [
        one
        for first, last, certain in found
        for one in tries
        if certain and max(first / SECOND, one[0]) <= min(last / SECOND, one[1])
    ]


def test_where_tries_are_slow_the_first_pause_is_where_they_are_rarest() -> None:
    """With tries of 80 s nobody knows, before the waits reach their cap of 1000 s, when the last one ended. 5 ms, doubled 18
    times to 655 s, are 1311 s."""
    (first, last, certain) = next(pauses(0, 30 * SECOND, 80 * SECOND))
    assert first / SECOND == pytest.approx(1311 + 30, abs=1)
    assert last / SECOND == pytest.approx(1311 + 1000 - 2, abs=1), "and a margin of 2 s"
    assert not certain
    assert sum(certain for _, _, certain in islice(pauses(0, 30 * SECOND, 20 * SECOND), 10)) > 0


def test_where_a_request_takes_as_long_as_the_longest_wait_nothing_is_called_off() -> None:
    """The fabric needs a quarter of an hour for a device: an order may be under way at any time. The search for a pause ends."""
    assert list(pauses(0, 1200 * SECOND)) == []
    world = hanging(slow=1000)
    wait(world, 4000)
    assert called_off(world) == []


@pytest.mark.parametrize(("busy", "first"), [(True, 115), (False, 1341)])
def test_what_the_operator_did_before_a_try_does_not_count_as_the_try(busy: bool, first: float) -> None:
    """It has one worker. What waited a minute while it attached another is refused within 100 ms, so its tries are known."""
    world = one_node("detach", 8, no_removal_seconds=3600)
    labels = {"app.kubernetes.io/managed-by": "dds"}
    world.request("ours", "node0", size=2, acted_size=2, state="Updating", labels=labels)
    world.online("idle", "node0", request="ours")
    world.resource("vain", "node0", request="ours", state="Attaching")
    world.resource("other", "node0", request="theirs", state="Attaching")
    world.tick(60)
    if busy:
        world.online("other", "node0")
    world.tick(0.1)
    world.resource("vain", "node0", error=WORDS)
    since = (world.now - START) / SECOND
    wait(world, 1500)
    assert world.decided_at(called_off(world)[0]) - since == pytest.approx(first, abs=5)


@pytest.mark.parametrize(
    ("state", "error", "first"), [("Attaching", "", 1341), ("Detaching", "", 1341), ("Attaching", WORDS, 112)]
)
def test_while_the_operators_worker_may_be_busy_no_pause_is_certain(state: str, error: str, first: float) -> None:
    """A try that is due waits in its queue: nobody knows when it comes. It has 30 s after its last write for it."""
    world = hanging(no_removal_seconds=10_000)
    world.resource("other", "node0", request="theirs", state="Attaching")
    world.resource("other", "node0", state=state, error=error, uuid="GPU-x" if state == "Detaching" else "")
    since = (world.now - START) / SECOND
    wait(world, 1500)
    (one,) = called_off(world)
    assert world.decided_at(one) - since == pytest.approx(first, abs=5)


@pytest.mark.parametrize(
    "busy", [[(0, 100)], [(35, 45), (90, 130)], [(0, 3), (20, 22), (80, 83)], [(150, 170)], [(10, 30), (60, 200)]]
)
def test_a_try_that_waited_for_the_worker_is_not_under_way_when_the_order_is_called_off(
    busy: list[tuple[float, float]],
) -> None:
    """The right instants come from the operator's queue: a try that is due while the one worker attaches another device (in
    these seconds) begins afterwards, and the next one is counted from it."""
    tries, at = [], 0.0
    for number in range(19):
        at += 0.005 * 2**number
        at = next((until for since, until in busy if since <= at < until), at)
        tries.append(at)
    world = hanging()
    since = (world.now - START) / SECOND
    for number, (begin, end) in enumerate(busy):
        wait(world, begin + since - (world.now - START) / SECOND)
        world.resource(f"other{number}", "node0", request="theirs", state="Attaching")
        wait(world, end - begin)
        world.online(f"other{number}", "node0")
    wait(world, 1100)
    (one,) = called_off(world)
    when = world.decided_at(one) - since
    assert when < 700, "a little work elsewhere is no reason to wait for the rarest tries"
    before = max(one for one in tries if one <= when)
    assert when - before > 29 and not [one for one in tries if when <= one < when + 2], "a whole request, and a margin"


def test_a_detach_whose_predecessor_is_told_late_stays_under_way() -> None:
    """The outcome of the write that called an order off comes after its effect: the next lowering is on its way by then, and its
    victim leaves."""
    world = hanging(no_removal_seconds=20)
    wait(world, 110)
    world.tick(5)
    world.take_away("vain")
    world.update(world.get(AttachRequest, "ours"), size=1, acted_size=1, state="Running")
    assert [one.victims for one in world.events(e.DetachOrdered)] == [("vain",), ("idle",)]
    world.feed(e.Superseded("id", "DetachOrdered", "ours"))
    assert world.state.give_back.fences.rows["idle"].ordered
    assert not world.events(e.VictimUnmarked)


def test_what_hangs_is_not_marked_after_a_restart_either() -> None:
    """The mark was never written. It was "written again", declined, and with it was forgotten that the size is lowered for it."""
    world = hanging()
    wait(world, SECOND_PAUSE[0])
    assert len(called_off(world)) == 1
    restart(world)
    assert not world.decisions(e.VictimMarked)
    assert world.state.give_back.fences.rows["vain"].ordered
