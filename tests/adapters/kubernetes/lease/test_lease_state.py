"""Each thing that can happen in an election, on invented clocks against the lab's API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dds_adapters.kubernetes.cluster import Answer
from dds_adapters.kubernetes.lease.state import NOTE, Ask, LeaseSettings, LeaseState, Phase
from dds_core.errors import InputError
from tests.support.elections import SAFE, START, Contender, Election, Trip, decoded

D, R, RETRY = 15.0, 10.0, 2.0
LONGEST_RETRY = RETRY * 1.2
RELEASED = {
    "holderIdentity": "",
    "leaseDurationSeconds": 1,
    "acquireTime": "2026-11-21T00:00:00.000000Z",
    "renewTime": "2026-11-21T00:00:00.000000Z",
    "leaseTransitions": 4,
}


@pytest.fixture
def election() -> Election:
    return Election()


def leads(contender: Contender) -> Callable[[], bool]:
    return lambda: contender.phase is Phase.LEADING


def leader_of(election: Election, name: str = "a", **more: Any) -> Contender:
    """Who leads because the lease had been released."""
    election.put(RELEASED)
    leader = election.contender(name, **more)
    election.until(leads(leader), 1)
    return leader


# -- how it is won -------------------------------------------------------------------------------------------------------


def test_a_released_lease_is_taken_at_once(election: Election) -> None:
    election.put({**RELEASED, "leaseDurationSeconds": 3600}, labels={"team": "x"})
    contender = election.contender("a")
    assert election.until(leads(contender), 1) < 0.01
    lease = election.lease()
    assert lease is not None
    assert lease["metadata"]["labels"] == {"team": "x"}
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == ("a", 15)
    assert lease["spec"]["leaseTransitions"] == 5
    assert [ask.verb for ask in contender.asked] == ["get", "update"]


def test_a_lease_that_was_not_there_is_made_and_led_when_nobody_can_lead_any_more(election: Election) -> None:
    contender = election.contender("a")
    election.run(1)
    assert election.spec()["holderIdentity"] == "a"
    assert contender.phase is Phase.CLAIMING
    assert contender.remaining() == 0
    assert D - 1 < election.until(leads(contender), 60) < D + LONGEST_RETRY
    assert election.spec()["leaseTransitions"] == 0


def test_who_waits_for_a_lease_that_was_not_there_is_told_when_it_leads(election: Election) -> None:
    """Not another process, and not an instant that comes too early."""
    contender = election.contender("a")
    assert contender.state.unread, "at the first instant nothing is known"
    told = []

    def led() -> bool:
        left = contender.state.vacant_for(election.now)
        if not contender.state.unread and contender.phase is not Phase.LEADING:
            assert left is not None
            told.append(election.now + left)
        return contender.phase is Phase.LEADING

    took = election.until(led, 60)
    assert len(told) > 3 and D - 1 < min(told) <= max(told) < took + LONGEST_RETRY, (told, took)


@pytest.mark.parametrize("spec", [{}, {"holderIdentity": ""}, {"strategy": None, "leaseDurationSeconds": 1}])
def test_a_lease_that_nobody_ever_held_is_no_better_than_none(election: Election, spec: dict[str, Any]) -> None:
    election.put(spec)
    contender = election.contender("a")
    assert D < election.until(leads(contender), 60) < D + 2 * LONGEST_RETRY


def test_a_holder_that_has_vanished_is_followed_after_its_duration_as_we_saw_it(election: Election) -> None:
    election.put({"holderIdentity": "other", "leaseDurationSeconds": 20, "renewTime": "2020-01-01T00:00:00.000000Z"})
    contender = election.contender("a")
    assert 20 <= election.until(leads(contender), 60) < 21
    assert election.spec()["leaseTransitions"] == 1


@pytest.mark.parametrize("spec", [{}, {"leaseDurationSeconds": 2}])
def test_a_holder_is_left_alone_for_our_duration_at_least(election: Election, spec: dict[str, Any]) -> None:
    election.put({"holderIdentity": "other", **spec})
    contender = election.contender("a")
    assert D <= election.until(leads(contender), 60) < D + 1


def test_a_holder_that_renews_is_left_alone_for_ever(election: Election) -> None:
    leader = leader_of(election)
    other = election.contender("b")
    election.run(600)
    assert leader.phase is Phase.LEADING
    assert other.phase is Phase.STANDBY
    assert other.state.holder == "a"
    assert {ask.verb for ask in other.asked} == {"get"}
    assert len(other.asked) < 600 / (RETRY * 0.8) + 2


def test_what_others_write_beside_the_election_does_not_keep_a_dead_holder_alive(election: Election) -> None:
    leader = leader_of(election)
    other = election.contender("b")
    election.run(5)
    leader.kill()
    for n in range(20):
        election.after(n, lambda n=n: election.put(election.spec(), annotations={"n": str(n)}))  # type: ignore[misc]
    assert election.until(leads(other), 60) < D + LONGEST_RETRY


@pytest.mark.parametrize("skew", [-600, 600])
def test_wall_clocks_do_not_matter(election: Election, skew: float) -> None:
    leader = leader_of(election)
    other = election.contender("b", skew=skew)
    election.run(100)
    assert leads(leader)()
    leader.kill()
    assert D - LONGEST_RETRY < election.until(leads(other), 60) < D + LONGEST_RETRY
    assert election.overlaps() == []


def test_of_two_that_take_it_at_once_one_leads(election: Election) -> None:
    election.put(RELEASED)
    slow = Trip(0.5, 0.5)
    contenders = [election.contender(name, trip=lambda ask: slow) for name in "abc"]
    election.run(30)
    assert sorted(c.phase.value for c in contenders) == ["leading", "standby", "standby"]
    assert election.overlaps() == []


def test_an_identity_that_we_did_not_write_is_another_process_with_our_name(election: Election) -> None:
    leader = leader_of(election, "same")
    twin = election.contender("same")
    election.run(60)
    assert leader.phase is Phase.LEADING
    assert twin.phase is Phase.STANDBY


# -- how it is kept ------------------------------------------------------------------------------------------------------


def test_renewals_keep_what_was_acquired(election: Election) -> None:
    leader = leader_of(election)
    first = election.spec()
    election.run(30)
    spec = election.spec()
    assert spec["acquireTime"] == first["acquireTime"]
    assert spec["renewTime"] > first["renewTime"]
    assert spec["leaseTransitions"] == first["leaseTransitions"]
    assert {ask.verb for ask in leader.asked[2:]} == {"update"}


def test_a_holder_leaves_a_note_for_the_next_one(election: Election) -> None:
    leader = leader_of(election)
    election.run(5)
    lease = election.lease()
    assert lease is not None and "annotations" not in lease["metadata"]
    leader.note = "up to 7"
    election.run(5)
    leader.kill()
    second = election.contender("b")
    election.until(leads(second), 60)
    assert second.state.note == "up to 7", "it stays until the new holder has one of its own"
    second.note = "up to 9"
    election.run(5)
    lease = election.lease()
    assert lease is not None and lease["metadata"]["annotations"] == {NOTE: "up to 9"}


def test_certainty_counts_from_before_the_request_was_sent(election: Election) -> None:
    leader = leader_of(election, trip=lambda ask: Trip(1.0, 2.0) if election.now > 1 else SAFE)
    election.run(20)
    sent = [ask.sent for ask in leader.asked if ask.sent <= election.now - 3][-1]
    assert leader.state.certain_until == pytest.approx(sent + R)


def test_requests_are_given_no_longer_than_half_the_deadline_nor_than_is_left(election: Election) -> None:
    leader = leader_of(election, trip=lambda ask: Trip(None) if election.now > 1 else SAFE)
    election.run(30)
    assert max(ask.timeout for ask in leader.asked) <= R / 2
    until = leader.state.certain_until
    assert all(ask.sent + ask.timeout <= until + 1e-9 for ask in leader.asked[2:])


def test_an_answer_that_is_lost_after_success_is_found_again(election: Election) -> None:
    def trip(ask: Ask) -> Trip:
        return Trip(0.01, None) if ask.verb == "update" and election.now > 3 else SAFE

    leader = leader_of(election, trip=trip)
    election.run(300)
    assert leader.phase is Phase.LEADING
    assert election.overlaps() == []


def test_a_take_over_whose_answer_is_lost_is_found_again(election: Election) -> None:
    election.put(RELEASED)
    contender = election.contender("a", trip=lambda ask: Trip(0.01, None) if ask.verb == "update" else SAFE)
    assert election.until(leads(contender), 60) < R / 2 + 2 * LONGEST_RETRY
    assert election.spec()["leaseTransitions"] == 5


def test_a_making_whose_answer_is_lost_is_found_again(election: Election) -> None:
    contender = election.contender("a", trip=lambda ask: Trip(0.01, None) if ask.verb == "create" else SAFE)
    assert D < election.until(leads(contender), 60) < D + R


@pytest.mark.parametrize("code", [409, 429, 500, 503])
def test_refusals_that_pass_cost_nothing(election: Election, code: int) -> None:
    leader = leader_of(election, trip=lambda ask: Trip(0, 0, code) if 10 < election.now < 16 else SAFE)
    election.run(60)
    assert leader.phase is Phase.LEADING
    assert leader.state.trouble is None


def test_who_asks_for_time_gets_it_but_not_the_lease(election: Election) -> None:
    state = LeaseState("default", "dds", "a", LeaseSettings(D, R, RETRY), lambda: 0.5)
    election.put(RELEASED)
    now = 0.0
    while state.phase is not Phase.LEADING:
        ask = state.next(now, START)
        assert isinstance(ask, Ask)
        state.answered(ask, election.ask(ask), now)
    now = 2.0
    ask = state.next(now, START)
    assert isinstance(ask, Ask)
    state.answered(ask, Answer(429, b"", wait=300), now)
    assert state.next(now, START) == now + R / 2


def test_an_edited_duration_or_label_takes_it_from_nobody(election: Election) -> None:
    leader = leader_of(election)
    other = election.contender("b")
    election.run(5)
    election.put({**election.spec(), "leaseDurationSeconds": 60}, annotations={"edited": "yes"})
    election.run(30)
    assert leader.phase is Phase.LEADING
    assert other.phase is Phase.STANDBY
    assert election.spec()["leaseDurationSeconds"] == 15


def test_a_clock_that_stands_still_renews_all_the_same(election: Election) -> None:
    leader = leader_of(election)
    leader._wall = lambda: START  # type: ignore[method-assign]
    other = election.contender("b")
    election.run(120)
    assert leader.phase is Phase.LEADING
    assert other.phase is Phase.STANDBY
    assert election.overlaps() == []


def test_a_clock_that_was_set_back_is_believed(election: Election) -> None:
    leader = leader_of(election)
    election.run(10)
    before = election.spec()["renewTime"]
    leader.skew = -600
    election.run(10)
    assert election.spec()["renewTime"] < before
    assert leader.phase is Phase.LEADING


# -- when it is deleted --------------------------------------------------------------------------------------------------


def test_a_leader_whose_lease_is_deleted_makes_it_anew_and_goes_on(election: Election) -> None:
    leader = leader_of(election)
    others = [election.contender(name) for name in ("b", "c", "d")]
    before = election.spec()
    for _ in range(20):
        election.run(7)
        election.delete()
    election.run(7)
    assert leader.phase is Phase.LEADING
    assert len(election.reigns) == 1
    assert {other.phase for other in others} == {Phase.STANDBY}
    spec = election.spec()
    assert (spec["acquireTime"], spec["leaseTransitions"]) == (before["acquireTime"], before["leaseTransitions"])


def test_a_leader_that_is_late_loses_a_deleted_lease_to_the_next_who_waits_for_its_end(election: Election) -> None:
    leader = leader_of(election, trip=lambda ask: Trip(None) if election.now > 3 else SAFE)
    other = election.contender("b")
    election.run(4)
    election.delete()
    election.until(leads(other), 60)
    assert leader.phase is Phase.LOST
    assert election.overlaps() == []


def test_an_update_that_makes_the_object_anew_is_a_making(election: Election) -> None:
    """An API server that does not look at the uid would do so."""
    leader = leader_of(election)
    other = election.contender("b")
    election.run(3)
    leader.kill()
    election.run(D - LONGEST_RETRY - 1)

    def careless(ask: Ask, honest: Callable[[Ask], Answer] = election.ask) -> Answer:
        if ask.verb != "update" or election.lease() is not None:
            return honest(ask)
        body = decoded(ask)
        election.put(body["spec"])
        return honest(Ask("get", b"", ask.sent, ask.timeout))

    election.ask = careless  # type: ignore[method-assign]
    other.trip = lambda ask: SAFE
    other.state._stale = False
    other.state._pace = election.now + 60  # it sleeps, and wakes with a record that has run out
    election.delete()
    start = election.now
    election.run(60.1)
    assert other.phase is Phase.CLAIMING
    election.until(leads(other), 60)
    assert election.now - start > 60 + D


# -- how it is lost ------------------------------------------------------------------------------------------------------


def test_who_cannot_renew_has_lost_before_anybody_else_leads(election: Election) -> None:
    leader = leader_of(election, trip=lambda ask: Trip(None) if election.now > 3 else SAFE)
    other = election.contender("b")
    election.until(lambda: leader.phase is Phase.LOST, 60)
    assert "could not be renewed for 10 s" in leader.state.loss
    assert "timeout" in leader.state.loss
    assert election.reigns[0].end == pytest.approx(leader.state.certain_until)
    assert not leads(other)()
    election.until(leads(other), 60)
    assert election.overlaps() == []


def test_losing_is_final(election: Election) -> None:
    leader = leader_of(election, trip=lambda ask: Trip(None) if 3 < election.now < 20 else SAFE)
    election.run(100)
    assert leader.phase is Phase.LOST
    assert max(ask.sent for ask in leader.asked) < 20
    leader.state.release(200.0)
    assert leader.phase is Phase.LOST
    assert leader.state.next(200.0, START) is None


def test_a_good_answer_after_the_end_changes_nothing() -> None:
    election = Election(LeaseSettings(15, 10, 8))
    leader = leader_of(election)
    state = leader.state
    now = 9.0
    leader.kill()
    ask = state.next(now, START)
    assert isinstance(ask, Ask)
    answer = election.ask(ask)
    assert answer.code == 200
    state.answered(ask, answer, state.certain_until + 0.1)
    assert state.phase is Phase.LOST
    assert state.remaining(now) == 0


def test_who_stood_still_has_lost_when_it_goes_on(election: Election) -> None:
    leader = leader_of(election)
    other = election.contender("b")
    election.run(5)
    leader.pause(60)
    election.until(leads(other), 60)
    election.run(120)
    assert leader.phase is Phase.LOST
    assert election.overlaps() == []
    assert other.phase is Phase.LEADING


@pytest.mark.parametrize(("holder", "said"), [("thief", "is held by thief"), ("", "was taken from its holder")])
def test_who_sees_another_holder_has_lost_at_once(election: Election, holder: str, said: str) -> None:
    leader = leader_of(election)
    election.run(5)
    election.put({**election.spec(), "holderIdentity": holder})
    assert election.until(lambda: leader.phase is Phase.LOST, 60) <= LONGEST_RETRY
    assert leader.state.loss == said


def test_an_object_of_the_same_name_that_names_us_is_not_ours(election: Election) -> None:
    """As a backup brings it back."""
    leader = leader_of(election)
    election.run(5)
    spec = election.spec()
    election.delete()
    election.put(spec)
    assert election.until(lambda: leader.phase is Phase.LOST, 60) <= LONGEST_RETRY


# -- what is not as it should be -----------------------------------------------------------------------------------------


def test_a_lease_that_somebody_else_rules_is_not_taken(election: Election) -> None:
    contender = election.contender("a")
    contender.trip = lambda ask: SAFE
    honest = election.ask

    def ruled(ask: Ask) -> Answer:
        answer = honest(ask)
        return Answer(
            answer.code, answer.body.replace(b'"leaseTransitions"', b'"strategy":"Oldest","leaseTransitions"')
        )

    election.put(RELEASED)
    election.ask = ruled  # type: ignore[method-assign]
    election.run(60)
    assert contender.phase is Phase.STANDBY
    assert {ask.verb for ask in contender.asked} == {"get"}
    assert "strategy Oldest" in contender.troubles[0]
    election.ask = honest  # type: ignore[method-assign]
    election.until(leads(contender), 5)
    assert contender.state.trouble is None


def test_a_leader_that_reads_something_else_neither_writes_nor_goes_on_for_long(election: Election) -> None:
    leader = leader_of(election)
    election.run(5)
    honest = election.ask
    election.ask = lambda ask: Answer(200, b"<html>sign in</html>") if election.now > 5 else honest(ask)  # type: ignore[method-assign]
    written = len([ask for ask in leader.asked if ask.verb == "update"])
    election.until(lambda: leader.phase is Phase.LOST, 60)
    assert len([ask for ask in leader.asked if ask.verb == "update"]) == written + 1
    assert "something else than a Lease" in leader.state.loss


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (401, "renew the credentials"),
        (403, "let this user get leases of coordination.k8s.io"),
        (500, "cannot get it: the API server answers 500"),
        (302, "answers 302"),
    ],
)
def test_trouble_is_said_in_a_line_that_helps(election: Election, code: int, said: str) -> None:
    contender = election.contender("a", trip=lambda ask: Trip(0, 0, code))
    election.run(5)
    assert contender.phase is Phase.STANDBY
    assert said in contender.troubles[0]
    assert contender.troubles[0].startswith("lease default/dds: ")


def test_a_namespace_that_is_not_there_is_named(election: Election) -> None:
    contender = election.contender("a", trip=lambda ask: Trip(0, 0, 404))
    election.run(5)
    assert "create the namespace" in contender.troubles[0]
    assert len(contender.asked) < 10


# -- how it is given up --------------------------------------------------------------------------------------------------


def test_a_release_lets_the_next_lead_within_a_retry(election: Election) -> None:
    leader = leader_of(election)
    other = election.contender("b")
    election.run(10)
    transitions = election.spec()["leaseTransitions"]
    leader.release()
    assert leader.remaining() == 0
    election.until(lambda: leader.phase is Phase.OVER, 1)
    spec = election.spec()
    assert spec.get("holderIdentity", "") == ""
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (1, transitions)
    assert election.until(leads(other), 60) <= LONGEST_RETRY
    assert election.spec()["leaseTransitions"] == transitions + 1
    assert election.overlaps() == []


def test_a_release_under_way_with_a_renewal_comes_after_it(election: Election) -> None:
    leader = leader_of(election, trip=lambda ask: Trip(1.0, 1.0) if election.now > 1 else SAFE)
    election.until(lambda: len(leader.asked) > 3, 60)
    leader.release()
    election.until(lambda: leader.phase is Phase.OVER, 10)
    assert election.spec().get("holderIdentity", "") == ""


def test_a_release_whose_answer_is_lost_is_over_when_it_is_seen(election: Election) -> None:
    leader = leader_of(election)
    leader.trip = lambda ask: Trip(0.01, None) if ask.verb == "update" else SAFE
    leader.release()
    election.until(lambda: leader.phase is Phase.OVER, R)
    assert election.spec().get("holderIdentity", "") == ""


def test_a_release_touches_nothing_of_anybody_else(election: Election) -> None:
    leader = leader_of(election)
    election.run(1)
    election.put({**election.spec(), "holderIdentity": "thief", "renewTime": "2026-11-21T00:00:00.000000Z"})
    leader.release()
    election.until(lambda: leader.phase is Phase.OVER, 10)
    assert election.spec()["holderIdentity"] == "thief"


def test_a_standby_that_stops_writes_nothing(election: Election) -> None:
    leader_of(election)
    other = election.contender("b")
    election.run(10)
    other.release()
    assert other.phase is Phase.OVER
    assert {ask.verb for ask in other.asked} == {"get"}


def test_a_standby_that_stops_gives_back_what_it_may_have_taken(election: Election) -> None:
    election.put(RELEASED)
    contender = election.contender("a", trip=lambda ask: Trip(0.01, None) if ask.verb == "update" else SAFE)
    election.run(1)
    assert election.spec()["holderIdentity"] == "a"
    contender.trip = lambda ask: SAFE
    contender.release()
    election.until(lambda: contender.phase is Phase.OVER, R)
    assert election.spec().get("holderIdentity", "") == ""
    other = election.contender("b")
    assert election.until(leads(other), 60) < 1


def test_a_standby_that_stops_leaves_alone_what_it_could_not_take(election: Election) -> None:
    election.put({**RELEASED, "holderIdentity": "other"})
    contender = election.contender("a", trip=lambda ask: Trip(0, 0, 500) if ask.verb == "update" else SAFE)
    election.run(D + 5)
    assert "update" in {ask.verb for ask in contender.asked}
    contender.release()
    election.until(lambda: contender.phase is Phase.OVER, 10)
    assert election.spec()["holderIdentity"] == "other"


def test_a_standby_that_fails_for_hours_does_not_grow(election: Election) -> None:
    election.put(RELEASED)
    contender = election.contender("a", trip=lambda ask: Trip(0, 0, 500) if ask.verb == "update" else SAFE)
    election.run(600)
    early = len(contender.state._attempts)
    contender.troubles.clear()
    election.run(7_200)
    assert len(contender.state._attempts) <= early + 3


def test_what_was_never_certain_is_not_passed_on_as_certain(election: Election) -> None:
    """The leader of a lease that was deleted may still be there when its maker stops."""
    leader = leader_of(election)
    election.run(3)
    leader.trip = lambda ask: Trip(None)
    election.run(2)
    election.delete()
    maker = election.contender("b")
    election.run(1)
    assert maker.phase is Phase.CLAIMING
    maker.release()
    election.until(lambda: maker.phase is Phase.OVER, 10)
    other = election.contender("c")
    assert election.until(leads(other), 60) > D
    assert election.overlaps() == []


def test_nothing_is_released_of_a_lease_that_is_gone(election: Election) -> None:
    leader = leader_of(election)
    election.run(1)
    election.delete()
    leader.release()
    election.until(lambda: leader.phase is Phase.OVER, 10)
    assert election.lease() is None


# -- durations -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("durations", "said"),
    [
        ((15, 15, 2), "renew deadline of 15 s is not under the lease duration of 15 s"),
        ((15, 20, 2), "renew deadline of 20 s is not under"),
        ((15, 10, 9), "not above the longest retry period of 10.8 s"),
        ((15, 2.4, 2), "not above the longest retry period of 2.4 s"),
        ((15, 10, 0), "retry period of 0 s is not above 0"),
        ((15, 10, -1), "retry period of -1 s is not above 0"),
        ((1.5, 1, 0.2), "lease duration of 1.5 s cannot be written"),
        ((0, -1, -2), "lease duration of 0 s cannot be written"),
        ((float("nan"), 1, 0.2), "lease duration of nan s cannot be written"),
        ((float("inf"), 1, 0.2), "lease duration of inf s cannot be written"),
        ((15, float("nan"), 2), "renew deadline of nan s is not under"),
        ((15, 10, float("nan")), "retry period of nan s is not above 0"),
    ],
)
def test_durations_that_do_not_fit_are_refused(durations: tuple[float, float, float], said: str) -> None:
    with pytest.raises(InputError) as refused:
        LeaseSettings(*durations)
    assert said in str(refused.value)


def test_the_usual_durations_fit() -> None:
    assert LeaseSettings() == LeaseSettings(4, 3, 0.75)
    LeaseSettings(137, 107, 26)
    LeaseSettings(1, 0.7, 0.2)


@pytest.mark.parametrize("names", [("", "dds", "a"), ("default", "", "a"), ("default", "dds", "")])
def test_empty_names_are_refused(names: tuple[str, str, str]) -> None:
    with pytest.raises(InputError):
        LeaseState(*names, LeaseSettings(), lambda: 0.5)
