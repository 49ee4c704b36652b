"""A look of the operator is caused when dds knows more than the operator's next poll would wait for, and never one that harms.

Devices are of node0. `at` says when, in seconds since the beginning; the operator polls every 30 s, a plugin is restarted by a
look when it is older than 10 s, and lists what there is 1.5 s after that.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from dds_core.events import DeadlinePassed
from dds_core.model import FabricResource, Model
from dds_core.scaler import events as e
from tests.support.world import A100, START, World, one_node
from tests.support.world import SECOND as MICROSECONDS


def empty(mode: str = "attach", **policy: Any) -> World:
    return one_node(mode, 20, scan_interval_seconds=0, **policy)


def at(world: World, seconds: float) -> World:
    """The next fact comes then."""
    world.tick(seconds - 0.1 - (world.now - START) / MICROSECONDS)
    return world


def begins(world: World, seconds: float, name: str, **fields: Any) -> None:
    """The operator orders the device."""
    at(world, seconds).resource(name, "node0", request="theirs", state="Attaching", **fields)


def named(world: World, seconds: float, name: str) -> None:
    """The operator has the device's id, and has looked whether the plugin is to be restarted."""
    at(world, seconds).resource(name, "node0", request="theirs", state="Attaching", uuid=f"GPU-{name}")


def listed(world: World, seconds: float, *names: str) -> None:
    """The plugin lists these devices beside those that it has listed."""
    at(world, seconds)
    for name in names:
        world.plug("node0", f"gpu-{name}", f"GPU-{name}")


def online(world: World, seconds: float, name: str) -> None:
    at(world, seconds).resource(name, "node0", state="Online")


def nudges(world: World, *whys: str) -> list[tuple[str, str, float]]:
    """(why, resource, when) of every nudge, of these kinds only if any is said."""
    decided = [(step.at, one) for step in world.steps for one in step.decisions if isinstance(one, e.OperatorNudged)]
    found = [(one.why, one.resource, round((when - START) / MICROSECONDS, 1)) for when, one in decided]
    return [row for row in found if not whys or row[0] in whys]


# -- listed by nobody ----------------------------------------------------------------------------------------------------


def burst(**policy: Any) -> World:
    """Three devices come: the look at the first restarts the plugin, and those at the others find it too young."""
    world = empty(**policy)
    named(world, 17.2, "one")
    listed(world, 18.7, "one")
    online(world, 18.9, "one")
    named(world, 21.0, "two")
    named(world, 22.1, "three")
    return world


def test_a_burst_is_listed_by_one_look_ten_seconds_after_the_restart() -> None:
    """Without it both waited for a poll, until 48.3, and were Online at 50.7."""
    world = burst()
    at(world, 29.5)
    assert nudges(world, "list") == [("list", "two", 28.2)], "ten seconds, and one for the plugin's pod to be there"
    listed(world, 29.7, "two", "three")
    online(world, 30.0, "two")
    online(world, 30.1, "three")
    world.tick(100)
    assert nudges(world, "list") == [("list", "two", 28.2)]
    assert world.verified().differences == []


def test_between_a_plugins_start_and_its_list_nothing_is_looked_at_that_would_restart_it() -> None:
    """The look at `four` restarts the plugin: one more, ten seconds later, would restart it again if it has not listed yet. It
    takes 1.5 s to list: looks at 48 and soon after find it too young for a restart."""
    world = burst()
    listed(world, 29.7, "two", "three")
    online(world, 30.0, "two")
    online(world, 30.1, "three")
    named(world, 45.0, "four")
    at(world, 55.9)
    after = [one for one in nudges(world) if one[2] > 30.1]
    assert after[0] == ("list", "four", 48.0)
    assert all(when < 55.0 for _, _, when in after)


def test_while_it_is_not_known_how_long_a_plugin_takes_nobody_is_looked_at() -> None:
    world = empty()
    named(world, 17.2, "one")
    at(world, 300)
    assert nudges(world) == []


def test_a_restart_without_a_list_is_tried_again_after_twice_the_measured_time() -> None:
    world = empty()
    named(world, 20.0, "one")
    listed(world, 28.0, "one")
    online(world, 28.2, "one")
    named(world, 60.0, "two")
    at(world, 100)
    assert nudges(world, "list") == [("list", "two", 76.0), ("list", "two", 92.0)], "2 x 8 s"


@pytest.mark.parametrize(
    ("slowest", "after"), [(1.5, 3.0), (4.9, 9.8), (5.0, 11.0), (5.2, 11.0), (5.4, 11.0), (5.6, 11.2), (8.0, 16.0)]
)
def test_a_look_after_a_restart_finds_the_plugin_too_young_or_old_enough_for_the_next(
    slowest: float, after: float
) -> None:
    """Never one of which it is not known whether the plugin is old enough: ten seconds, and one for its pod."""
    world = empty()
    named(world, 20.0, "one")
    listed(world, 20 + slowest, "one")
    online(world, 20.2 + slowest, "one")
    named(world, 60.0, "two")
    at(world, 85)
    assert nudges(world, "list")[0] == ("list", "two", 60 + after)


def test_a_list_tells_which_look_had_restarted_the_plugin() -> None:
    """Those at `two` (21.0) and `three` (22.1) found it too young."""
    world = burst()
    listed(world, 30.5, "two")
    assert restarted(world) == pytest.approx(28.2, abs=0.001)
    online(world, 30.7, "two")
    named(world, 37.0, "four")
    at(world, 39.5)
    assert nudges(world, "list")[1:] == [("list", "three", 39.2)], (
        "11 s after that restart; the look at `four` was in vain"
    )


def test_a_second_look_at_the_same_resource_changes_nothing_of_it() -> None:
    world = burst()
    listed(world, 32.0, "two")
    assert nudges(world, "list") == [("list", "two", 28.2), ("list", "two", 31.2)]
    assert restarted(world) == pytest.approx(28.2, abs=0.001)


def restarted(world: World) -> float:
    """When node0's plugin was restarted last, in seconds since the beginning."""
    return (world.state.health.listings.rows["node0", A100.driver].restarted - START) / MICROSECONDS


def test_what_restarted_nothing_is_looked_at_as_soon_as_the_plugin_is_old_enough() -> None:
    """The plugin takes long to list: the look at `two` was in vain, whenever the list comes."""
    world = empty()
    named(world, 20.0, "one")
    named(world, 24.0, "two")
    listed(world, 27.0, "one")
    online(world, 27.2, "one")
    at(world, 40)
    assert nudges(world, "list") == [("list", "two", 31.0)]


def test_the_oldest_that_is_not_listed_is_looked_at_for_its_node_and_no_other() -> None:
    world = burst()
    world.node("node1")
    at(world, 24).resource("other", "node1", request="theirs", state="Attaching", uuid="GPU-other")
    at(world, 30)
    assert nudges(world, "list") == [("list", "two", 28.2)], "how long node1's plugin takes is not known"


def test_there_are_at_most_four_of_them() -> None:
    world = burst()
    at(world, 600)
    counts = Counter(uid for _, uid, _ in nudges(world, "list"))
    assert counts == {"two": 4, "three": 4}
    assert [when for _, uid, when in nudges(world, "list") if uid == "two"] == [28.2, 31.2, 39.2, 42.2]
    assert world.state.health.looks.rows["two"].nudges == 4


def test_the_next_oldest_is_looked_at_when_the_oldest_was_often_enough() -> None:
    world = burst()
    at(world, 44.9)
    assert {uid for _, uid, _ in nudges(world, "list")} == {"two"}
    listed(world, 45.0, "another")
    at(world, 49)
    assert len(nudges(world, "list")) == 4, "the look at 39.2 was the last that restarted it"
    at(world, 53.5)
    assert nudges(world, "list")[4] == ("list", "three", 50.2)


def test_it_is_looked_at_as_soon_as_that_is_due() -> None:
    world = burst()
    at(world, 600)
    assert nudges(world, "list")[4] == ("list", "three", 50.2)


# -- listed, and not Online ----------------------------------------------------------------------------------------------


def test_what_is_listed_is_looked_at_at_once() -> None:
    world = empty()
    named(world, 17.2, "one")
    listed(world, 18.7, "one")
    assert nudges(world) == [("settle", "one", 18.7)]
    nudge = world.only(e.OperatorNudged)
    assert (nudge.name, nudge.node, nudge.mode) == ("one", "node0", "attach")
    assert world.state.health.looks.rows["one"].nudges == 1
    online(world, 19.0, "one")
    assert not world.state.health.looks
    world.tick(100)
    assert len(nudges(world)) == 1


def test_it_backs_off_until_it_is_left_alone() -> None:
    world = empty()
    named(world, 17.2, "one")
    listed(world, 18.7, "one")
    at(world, 600)
    whens = [when for _, _, when in nudges(world, "settle")]
    gaps = [round(later - when, 1) for when, later in pairwise(whens)]
    assert whens[0] == 18.7 and gaps == sorted(gaps) and gaps[-1] >= 10
    assert [when for when in whens if when >= 28.2] == whens[-1:], "it restarts the plugin, whose list is waited for"


def test_it_backs_off_from_the_first_one_on() -> None:
    world = empty()
    named(world, 17.2, "one")
    listed(world, 18.7, "one")
    at(world, 600)
    assert nudges(world) == [("settle", "one", when) for when in (18.7, 23.7, 33.7)]


def test_it_is_not_looked_at_while_a_restarted_plugin_may_be_starting() -> None:
    """The looks at `two` restart it at 29.5, 40.5 and 51.5. One at `one` within ten seconds of these finds it too young; later it
    would be its next restart, before it has listed anything."""
    world = empty()
    named(world, 17.2, "one")
    listed(world, 18.7, "one")
    named(world, 29.5, "two")
    at(world, 59.9)
    assert nudges(world, "settle") == [("settle", "one", when) for when in (18.7, 23.7, 33.7, 53.7)]
    assert nudges(world, "list") == [("list", "two", when) for when in (32.5, 40.5, 43.5, 51.5)]


def test_what_has_its_id_after_the_list_is_looked_at_then() -> None:
    world = empty()
    begins(world, 10.0, "one")
    listed(world, 15.0, "one")
    assert nudges(world) == []
    named(world, 20.0, "one")
    assert nudges(world) == [("settle", "one", 20.0)]


def test_there_are_two_seconds_between_two_of_one_resource() -> None:
    world = burst()
    listed(world, 28.9, "two", "three")
    at(world, 30)
    assert nudges(world)[1:] == [("list", "two", 28.2), ("settle", "three", 29.0)]
    at(world, 30.5)
    assert nudges(world)[3:] == [("settle", "two", 30.2)], "due at the list, and two seconds after the last one"


def test_the_deadline_comes_back() -> None:
    world = burst()
    at(world, 30)
    fired = [step.fact for step in world.steps if isinstance(step.fact, DeadlinePassed)]
    assert [(one.kind, one.of, (one.due - START) / MICROSECONDS) for one in fired] == [("nudge", "two", 28.2)]


# -- by the fabric's pace ------------------------------------------------------------------------------------------------


def polled(times: int, *, took: float = 30.0, what: str = "attach", **policy: Any) -> World:
    """So many devices were attached (or detached), each found at the operator's poll after `took` seconds."""
    world = empty(**policy)
    for number in range(times):
        begin, name = 100.0 * (number + 1), f"old{number}"
        if what == "attach":
            begins(world, begin, name)
            named(world, begin + took, name)
        else:
            named(world, begin - 50, name)
            online(world, begin - 49, name)
            at(world, begin).resource(name, "node0", state="Detaching", deleting=True)
            at(world, begin + took).resource(name, "node0", state="Deleting", uuid="")
        world.gone(world.state.fleet.resources.rows[name])
    return world


def test_an_operator_that_was_seen_to_poll_twice_in_a_row_is_made_to_look_when_the_fabric_should_be_done() -> None:
    world = polled(2)
    begins(world, 400, "new")
    at(world, 430)
    assert nudges(world, "attach") == [("attach", "new", 415.0), ("attach", "new", 422.5), ("attach", "new", 426.2)]
    assert world.verified().differences == []


@pytest.mark.parametrize(("times", "took"), [(0, 30.0), (1, 30.0), (3, 40.0), (3, 12.0)])
def test_one_that_may_be_waiting_for_the_fabrics_answer_is_left_alone(times: int, took: float) -> None:
    """A change of the object while it waits makes it lose the device: its write of the id conflicts."""
    world = polled(times, took=took)
    begins(world, 700, "new")
    at(world, 900)
    assert nudges(world, "attach") == []


def test_an_attach_that_was_found_by_no_look_makes_it_be_left_alone_again() -> None:
    world = polled(2)
    begins(world, 400, "blocked")
    named(world, 412, "blocked")
    world.gone(world.state.fleet.resources.rows["blocked"])
    begins(world, 500, "new")
    at(world, 600)
    assert nudges(world, "attach") == []


def test_each_attach_tells_more_of_the_pace() -> None:
    """It takes between 7.5 and 15 s: found at a look at 15, not yet at one at 7.5, then at one at 11.2."""
    world = polled(2)
    begins(world, 400, "third")
    named(world, 415.2, "third")
    world.gone(world.state.fleet.resources.rows["third"])
    begins(world, 500, "fourth")
    named(world, 515.4, "fourth")
    pace = world.state.health.paces.rows["attach", "1", "A100 40G"]
    assert pace.polled == 4
    assert nudges(world, "attach")[1][2] == pytest.approx(507.6, abs=0.1)


def test_shortly_before_its_poll_nothing_is_caused() -> None:
    world = polled(2, took=59.0)
    begins(world, 400, "new")
    at(world, 520)
    assert all((when - 400) % 30 <= 28 for _, _, when in nudges(world, "attach"))


def test_what_has_an_error_is_left_alone() -> None:
    world = polled(2)
    begins(world, 400, "new", error="no free resource")
    at(world, 500)
    assert nudges(world, "attach") == []


def test_a_pace_is_one_of_a_fabric_and_a_model() -> None:
    world = polled(2)
    world.node("node1", fabric=2)
    at(world, 400).resource("new", "node1", request="theirs", state="Attaching")
    at(world, 500)
    assert nudges(world, "attach") == []


def test_a_detach_has_a_pace_of_its_own() -> None:
    world = polled(2, what="detach")
    begins(world, 350, "coming")
    named(world, 392, "going")
    online(world, 393, "going")
    at(world, 400).resource("going", "node0", state="Detaching", deleting=True)
    at(world, 416)
    assert nudges(world, "attach", "detach") == [("detach", "going", 415.0)]


def test_a_detach_that_ends_with_the_resource_gone_is_measured() -> None:
    """The one event may be all that is seen of its last states."""
    world = empty()
    for number in range(2):
        begin, name = 100.0 * (number + 1), f"old{number}"
        named(world, begin - 50, name)
        online(world, begin - 49, name)
        at(world, begin).resource(name, "node0", state="Detaching", deleting=True)
        at(world, begin + 30).gone(world.state.fleet.resources.rows[name])
    pace = world.state.health.paces.rows["detach", "1", A100.model]
    assert pace.polled == 2 and pace.most / MICROSECONDS == pytest.approx(30, abs=0.1)


def test_a_blocking_detach_is_left_alone() -> None:
    world = polled(2, what="detach", took=4.0)
    named(world, 392, "going")
    online(world, 393, "going")
    at(world, 400).resource("going", "node0", state="Detaching", deleting=True)
    at(world, 500)
    assert nudges(world, "attach", "detach") == []


# -- not at all ----------------------------------------------------------------------------------------------------------


def attached_by_polls(world: World, since: float, count: int) -> float:
    """So many devices are listed, and Online at the poll only; when it is over."""
    for number in range(count):
        begin, name = since + 100 * number, f"poll{since}-{number}"
        named(world, begin, name)
        listed(world, begin + 1.5, name)
        online(world, begin + 30, name)
    return since + 100 * count


def test_after_three_without_an_answer_the_operator_is_left_alone() -> None:
    world = empty()
    attached_by_polls(world, 100, 5)
    assert {uid for _, uid, _ in nudges(world)} == {"poll100-0", "poll100-1", "poll100-2"}


def test_an_answer_between_them_starts_the_count_anew() -> None:
    world = empty()
    over = attached_by_polls(world, 100, 2)
    named(world, over, "fine")
    listed(world, over + 1.5, "fine")
    online(world, over + 2, "fine")
    attached_by_polls(world, over + 100, 3)
    assert len({uid for _, uid, _ in nudges(world)}) == 6


def test_a_start_of_dds_starts_the_count_anew() -> None:
    world = empty()
    over = attached_by_polls(world, 100, 4)
    assert len({uid for _, uid, _ in nudges(world)}) == 3
    world.feed(e.Started(code="new", fingerprint="", projection=1, epoch=2, mode="attach"))
    world.sync()
    attached_by_polls(world, over + 100, 1)
    assert len({uid for _, uid, _ in nudges(world)}) == 4


def test_an_operator_that_is_busy_with_an_order_has_no_time_to_answer() -> None:
    world = empty()
    begins(world, 50, "ordering")
    attached_by_polls(world, 100, 5)
    assert len({uid for _, uid, _ in nudges(world)}) == 5


def test_with_off_nobody_is_looked_at() -> None:
    world = burst(operator_nudge="off")
    listed(world, 35, "two")
    at(world, 600)
    assert nudges(world) == []
    assert world.state.health.looks.rows["two"].named, "what is measured is measured all the same"
    world.change_policy(operator_nudge="auto")
    world.tick(1)
    assert [(why, uid) for why, uid, _ in nudges(world)] == [("list", "three"), ("settle", "two")]


def test_in_observe_each_is_decided_once_and_nothing_comes_of_it() -> None:
    world = burst(mode="observe")
    at(world, 300)
    assert nudges(world) == [("settle", "one", 18.7), ("list", "two", 28.2)]
    assert {one.mode for one in world.events(e.OperatorNudged)} == {"observe"}
    assert all(row.nudges == 0 for row in world.state.health.looks.rows.values())
    assert not [name for name in world.state.lifecycle.counters if name.startswith("nudges/")]
    assert world.verified().differences == []


def test_a_refused_write_is_not_repeated_at_once() -> None:
    world = empty()
    named(world, 17.2, "one")
    listed(world, 18.7, "one")
    world.refused(world.only(e.OperatorNudged))
    at(world, 24.5)
    assert len(nudges(world)) == 1


def test_what_was_not_written_was_not_asked_of_the_operator() -> None:
    """Without the right to write, nothing is known of how the operator reacts."""
    world = empty()
    for number in range(4):
        begin, name = 100.0 * (number + 1), f"poll{number}"
        named(world, begin, name)
        listed(world, begin + 1.5, name)
        world.refused(world.events(e.OperatorNudged)[-1])
        assert world.state.health.looks.rows[name].nudges == 0
        online(world, begin + 30, name)
    assert len({uid for _, uid, _ in nudges(world)}) == 4


def test_a_restart_that_was_not_caused_is_not_waited_for() -> None:
    world = burst()
    at(world, 28.3)
    listing = world.state.health.listings.rows["node0", A100.driver]
    assert listing.starting > listing.restarted
    world.refused(world.events(e.OperatorNudged)[-1])
    assert world.state.health.listings.rows["node0", A100.driver].starting == 0


def test_another_drivers_silence_keeps_none_waiting() -> None:
    other = Model(3, "B200", "b200", "gpu.other.example", {"productName": "B200"})
    world = one_node("attach", 20, scan_interval_seconds=0, models=(A100, other))
    named(world, 17.2, "one")
    listed(world, 18.7, "one")
    online(world, 18.9, "one")
    at(world, 20).resource("silent", "node0", other, request="theirs", state="Attaching", uuid="GPU-silent")
    named(world, 21.0, "two")
    at(world, 29.5)
    assert nudges(world, "list") == [("list", "two", 28.2)]


def test_of_an_unknown_model_nothing_is_looked_at() -> None:
    world = empty()
    unknown = Model(9, "unknown", "unknown", "gpu.other.example", {})
    at(world, 20).resource("odd", "node0", unknown, request="theirs", state="Attaching", uuid="GPU-odd")
    at(world, 200)
    assert nudges(world) == []


def test_nothing_is_left_of_what_is_gone() -> None:
    world = burst()
    for resource in list(world.state.fleet.resources.rows.values()):
        assert isinstance(resource, FabricResource)
        world.gone(resource)
    assert not world.state.health.looks
    at(world, 300)
    assert nudges(world, "list") == []
