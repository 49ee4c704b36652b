"""The outbox keeps order per object, supersedes, waits, and says of each decision once what became of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from dds_adapters.kubernetes.cluster import Answer, Asking
from dds_adapters.kubernetes.limiter import RECOVERED, REQUESTS, WINDOW
from dds_adapters.kubernetes.write import outbox as module
from dds_adapters.kubernetes.write.outbox import DROPPABLE_TRIES, MODE_LOWERED, Outbox
from dds_adapters.kubernetes.write.tasks import Declined, Done, Later, Obsolete, Result, Task, Versions
from dds_core.events import Superseded, WriteDone, WriteObsolete, WriteRefused
from dds_core.kit.policy import Mode


@dataclass(frozen=True)
class Nothing:
    """A write that is never looked at."""

    def carry_out(self, api: Asking, versions: Versions) -> Result:
        raise AssertionError("an outbox carries nothing out")


class Nobody:
    """An API that must not be asked."""

    def ask(self, *_: Any, **__: Any) -> Answer:
        raise AssertionError("nothing is to be sent")


def task(decision: str, *objects: str, replaces: str = "", needs: Mode = "attach") -> Task:
    names = objects or ("claims/1",)
    return Task(Nothing(), names, decision, "HandOver", f"of {decision}", replaces, needs)


def droppable(*objects: str) -> Task:
    return Task(Nothing(), objects or ("events/1",))


def box(mode: Mode = "detach") -> Outbox:
    return Outbox(Random(1), mode)


def begun(outbox: Outbox, now: float = 0.0) -> list[Task]:
    """All tasks that may begin now."""
    tasks = []
    while isinstance(one := outbox.next(now), Task):
        tasks.append(one)
    return tasks


def test_tasks_of_one_object_run_one_after_the_other_and_others_beside_them() -> None:
    outbox = box()
    first, second, other = task("1", "claims/a"), task("2", "claims/a"), task("3", "claims/b")
    assert outbox.put([first, second, other], 0.0) == []
    assert begun(outbox) == [first, other]
    assert outbox.next(0.0) is None
    assert outbox.finished(first, Done(), 0.0) == WriteDone("1", "HandOver", "of 1")
    assert begun(outbox) == [second]
    assert (len(outbox), outbox.waiting, outbox.running) == (2, 0, 2)


def test_a_task_of_several_objects_waits_for_all_and_holds_all() -> None:
    outbox = box()
    a, b, both, after = task("a", "c/a"), task("b", "c/b"), task("ab", "c/a", "c/b"), task("b2", "c/b")
    outbox.put([a, b, both, after], 0.0)
    assert begun(outbox) == [a, b]
    outbox.finished(a, Done(), 0.0)
    assert begun(outbox) == []
    outbox.finished(b, Done(), 0.0)
    assert begun(outbox) == [both]
    outbox.finished(both, Done(), 0.0)
    assert begun(outbox) == [after]


def test_each_result_is_a_fact() -> None:
    outbox = box()
    tasks = [task(str(n), f"c/{n}") for n in range(4)]
    outbox.put(tasks, 0.0)
    begun(outbox)
    results: list[Result] = [Done(), Done(written=False), Declined(403, "Forbidden", "no"), Obsolete("moved on")]
    assert [outbox.finished(one, result, 0.0) for one, result in zip(tasks, results, strict=True)] == [
        WriteDone("0", "HandOver", "of 0"),
        WriteDone("1", "HandOver", "of 1"),
        WriteRefused("2", "HandOver", "of 2", 403, "Forbidden", "no"),
        WriteObsolete("3", "HandOver", "of 3", "moved on"),
    ]
    assert outbox.counts == {("HandOver", name): 1 for name in ("done", "unchanged", "declined", "obsolete")}
    assert len(outbox) == 0 and outbox.next(0.0) is None


def test_what_nobody_decided_never_takes_all_threads() -> None:
    outbox = box()
    queries = [replace(task("", f"pods/{n}"), needs="observe") for n in range(8)]
    outbox.put(queries, 0.0)
    assert begun(outbox) == queries[:2]
    order = task("order", "c/1")
    outbox.put([order], 0.0)
    assert begun(outbox) == [order]
    outbox.finished(queries[0], Done(written=False), 0.0)
    assert begun(outbox) == [queries[2]]


@pytest.mark.parametrize(
    ("result", "told"),
    [(Done(), True), (Done(written=False), True), (Obsolete("gone"), False), (Declined(403, "Forbidden"), False)],
)
def test_what_a_task_has_told_is_told_once_it_is_done(result: Result, told: bool) -> None:
    """An order that was refused asked nobody for anything."""
    outbox, event = box(), droppable()
    one = replace(task("1"), then=(event,))
    outbox.put([one], 0.0)
    assert begun(outbox) == [one]
    outbox.finished(one, result, 0.0)
    assert begun(outbox) == ([event] if told else [])


@pytest.mark.parametrize(("action", "events"), [("HandOver", 2), ("DetachOrdered", 1)])
def test_a_newer_task_of_the_same_kind_has_told_what_it_does_for_the_older_one(action: str, events: int) -> None:
    """A size of two asks for both claims; one of none asks for nobody."""
    outbox = box()
    first, second = (replace(task(n, "r/1", replaces="size"), then=(droppable(f"events/{n}"),)) for n in "12")
    outbox.put([first], 0.0)
    outbox.put([replace(second, action=action)], 0.0)
    (done,) = begun(outbox)
    outbox.finished(done, Done(), 0.0)
    assert len(begun(outbox)) == events


def test_a_newer_task_takes_the_place_of_one_that_waits_and_not_of_one_that_runs() -> None:
    outbox = box()
    first, second, third = (task(str(n), "r/1", replaces="size") for n in range(3))
    outbox.put([first], 0.0)
    assert begun(outbox) == [first]
    assert outbox.put([second], 0.0) == []
    assert outbox.put([third], 0.0) == [Superseded("1", "HandOver", "of 1")]
    assert outbox.finished(first, Done(), 0.0) == WriteDone("0", "HandOver", "of 0")
    assert begun(outbox) == [third]


def test_what_is_to_be_tried_again_gives_way_to_a_newer_one_which_waits_as_long() -> None:
    outbox = box()
    first, second = (task(str(n), "r/1", replaces="size") for n in range(2))
    outbox.put([first], 0.0)
    begun(outbox)
    outbox.put([second], 0.0)
    assert outbox.finished(first, Later("no answer", wait=5.0), 0.0) == Superseded("0", "HandOver", "of 0")
    instant = outbox.next(0.0)
    assert isinstance(instant, float) and 5.0 <= instant <= 5.8
    third = task("2", "r/1", replaces="size")
    assert outbox.put([third], 1.0) == [Superseded("1", "HandOver", "of 1")]
    assert outbox.next(1.0) == instant
    assert outbox.next(instant) is third


def test_newer_decisions_do_not_make_a_server_be_asked_sooner() -> None:
    outbox = box()
    running = task("0", "r/1", replaces="size")
    outbox.put([running], 0.0)
    begun(outbox)
    now, waits = 0.0, []
    for number in range(1, 12):
        newer = task(str(number), "r/1", replaces="size")
        outbox.put([newer], now)
        outbox.finished(running, Later("no answer"), now)
        instant = outbox.next(now)
        assert isinstance(instant, float)
        waits.append(instant - now)
        now = instant
        assert begun(outbox, now) == [newer]
        running = newer
    assert max(waits) > 5.0, waits


def test_what_is_tried_again_stays_first_at_its_object_and_waits_longer_each_time() -> None:
    outbox = box()
    first, second = task("1"), task("2")
    outbox.put([first, second], 0.0)
    now, waits = 0.0, []
    for _ in range(12):
        assert outbox.next(now) is first
        assert outbox.finished(first, Later("conflict"), now) is None
        instant = outbox.next(now)
        assert isinstance(instant, float)
        waits.append(instant - now)
        now = instant
    assert waits[0] <= 0.8 and max(waits) <= 30.0 and max(waits[6:]) > 5.0
    assert outbox.counts["HandOver", "later"] == 12


def test_a_server_in_trouble_is_asked_at_its_pace_and_others_freely() -> None:
    outbox = box()
    outbox.put([task(f"{n}", f"claims/{n}") for n in range(100)], 0.0)
    asked: list[float] = []
    now = 0.0
    while now < 60.0:
        one = outbox.next(now)
        if isinstance(one, Task):
            asked.append(now)
            outbox.finished(one, Later("503", trouble=True), now)
            continue
        assert one is not None and one > now
        now = one
    assert all(sum(at <= other < at + WINDOW for other in asked) <= REQUESTS for at in asked)
    assert len(asked) > 40
    outbox.put([task(f"pod {n}", f"pods/{n}") for n in range(50)], asked[-1])
    given = [one.decision.partition(" ")[0] for one in begun(outbox, asked[-1])]
    assert given == ["pod"] * 50


def test_one_failure_among_many_successes_holds_nobody_up() -> None:
    outbox = box()
    outbox.put([task(f"{n}", f"claims/{n}") for n in range(1000)], 0.0)
    for n in range(1000):
        one = outbox.next(0.0)
        assert isinstance(one, Task), "it waits"
        outbox.finished(one, Later("503", trouble=True) if n % 10 == 0 else Done(), 0.0)


def test_requests_within_a_task_count_as_well() -> None:
    outbox = box()
    tasks = [task(f"{n}", f"claims/{n}") for n in range(5)]
    outbox.put(tasks, 0.0)
    for one in begun(outbox, 0.0):
        assert outbox.request(one, 0.0)
    outbox.finished(tasks[0], Later("503", trouble=True), 0.0)
    assert not outbox.request(tasks[1], 0.1), "two have failed, eight are on their way"
    assert outbox.finished(tasks[2], Done(), 0.2)
    assert outbox.request(tasks[1], 0.2)


def test_a_task_begins_only_when_there_is_room_to_look_and_to_write() -> None:
    """Else it would look and not write, again and again."""
    outbox = box()
    tasks = [task(f"{n}", f"claims/{n}") for n in range(20)]
    outbox.put(tasks, 0.0)
    now, written = 0.0, 0
    while now < 100.0:
        one = outbox.next(now)
        if isinstance(one, Task):
            written += outbox.request(one, now)
            outbox.finished(one, Later("503", trouble=True), now)
            continue
        assert one is not None
        now = one
    assert written == outbox.counts["HandOver", "later"] >= 30


def test_some_successes_end_the_trouble() -> None:
    outbox = box()
    tasks = [task(f"{n}", f"claims/{n}") for n in range(40)]
    outbox.put(tasks[:20], 0.0)
    first = begun(outbox)
    for one in first[:10]:
        outbox.finished(one, Later("503", trouble=True), 0.0)
    outbox.put(tasks[20:], 0.0)
    assert begun(outbox) == []
    for one in first[10:15]:
        outbox.finished(one, Done(written=False), 0.0)
    assert begun(outbox) == [], "reads are answered, and nobody knows of writes"
    for one in first[15 : 15 + RECOVERED]:
        outbox.finished(one, Done(), 0.0)
    assert begun(outbox) == tasks[20:]


def test_a_lower_mode_takes_out_what_needs_more() -> None:
    outbox = box()
    attach, detach, runs = task("a", "r/1"), task("d", "r/2", needs="detach"), task("x", "r/3", needs="detach")
    outbox.put([runs], 0.0)
    begun(outbox)
    outbox.put([attach, detach], 0.0)
    lowered = WriteRefused("d", "HandOver", "of d", 0, MODE_LOWERED, "the mode is attach by now")
    assert outbox.limit("attach") == [lowered]
    assert outbox.put([detach], 0.0) == [lowered]
    refused = outbox.finished(runs, Later("no answer"), 0.0)
    assert isinstance(refused, WriteRefused) and refused.reason == MODE_LOWERED
    assert begun(outbox) == [attach]


def test_a_lower_mode_takes_out_what_was_tried_in_vain_too() -> None:
    outbox = box()
    tried = task("d", needs="detach")
    outbox.put([tried], 0.0)
    begun(outbox)
    outbox.finished(tried, Later("no answer"), 0.0)
    (lowered,) = outbox.limit("attach")
    assert isinstance(lowered, WriteRefused) and lowered.reason == MODE_LOWERED
    assert begun(outbox, 1000.0) == []


def test_in_observe_nothing_is_written_not_even_an_event() -> None:
    outbox = box()
    outbox.put([task("a"), droppable()], 0.0)
    assert [fact.reason for fact in outbox.limit("observe") if isinstance(fact, WriteRefused)] == [MODE_LOWERED]
    assert len(outbox) == 0
    assert len(outbox.put([droppable(), task("b")], 0.0)) == 1
    assert outbox.next(0.0) is None
    outbox.put([task("reads", needs="observe")], 0.0)
    assert [one.decision for one in begun(outbox)] == ["reads"]
    outbox.limit("attach")
    outbox.put([task("c", "c/2")], 0.0)
    assert [one.decision for one in begun(outbox)] == ["c"]


def test_who_could_not_begin_is_where_it_was() -> None:
    outbox = box()
    first, second = task("1"), task("2")
    outbox.put([first, second], 0.0)
    assert outbox.next(0.0) is first
    assert outbox.returned(first) is None
    assert begun(outbox) == [first]
    outbox.put([task("3", replaces="x")], 0.0)
    assert outbox.waiting == 2


def test_droppable_tasks_come_after_decisions_and_are_given_up() -> None:
    outbox = box()
    event, decided = droppable(), task("1")
    outbox.put([event, decided], 0.0)
    assert begun(outbox) == [decided, event]
    now = 0.0
    for _ in range(DROPPABLE_TRIES - 1):
        assert outbox.finished(event, Later("no answer"), now) is None
        instant = outbox.next(now)
        assert isinstance(instant, float)
        now = instant
        assert outbox.next(now) is event
    assert outbox.finished(event, Later("no answer"), now) is None
    assert outbox.counts["Nothing", "dropped"] == 1
    assert outbox.waiting == 0


def test_a_question_that_writes_nothing_is_not_given_up() -> None:
    outbox = box("observe")
    question = Task(Nothing(), ("pods/1",), needs="observe")
    assert outbox.put([question], 0.0) == []
    now = 0.0
    for _ in range(10 * DROPPABLE_TRIES):
        assert outbox.next(now) is question
        assert outbox.finished(question, Later("no answer"), now) is None
        instant = outbox.next(now)
        assert isinstance(instant, float)
        now = instant
    assert outbox.waiting == 1


def test_questions_come_after_decisions_and_stamps() -> None:
    outbox = box()
    questions = [Task(Nothing(), (f"pods/{n}",), needs="observe") for n in range(3)]
    stamp = Task(Nothing(), ("requests/a",), lasting=True)
    decision, told = task("1", "requests/b"), droppable()
    outbox.put([*questions, told, stamp, decision], 0.0)
    assert begun(outbox) == [stamp, decision, *questions[:2]]


def test_what_lasts_is_not_given_up_and_comes_before_what_follows_for_its_object() -> None:
    """A request without its stamp would still take what the leader before us sends."""
    outbox = box()
    stamp, order = Task(Nothing(), ("requests/a",), lasting=True), task("1", "requests/a")
    outbox.put([stamp, order], 0.0)
    now = 0.0
    for _ in range(3 * DROPPABLE_TRIES):
        assert begun(outbox, now) == [stamp]
        assert outbox.finished(stamp, Later("no answer"), now) is None
        now += 60.0
    assert begun(outbox, now) == [stamp]
    assert outbox.finished(stamp, Done(), now) is None
    assert begun(outbox, now) == [order]
    assert outbox.limit("observe") == []
    assert outbox.put([stamp], now) == [] and outbox.waiting == 0, "it is a write all the same"


def test_what_could_not_begin_in_time_is_not_wanted_any_more() -> None:
    """A device that was promised for a minute is not announced an hour later."""
    outbox = box()
    one = replace(task("1", "c/1"), within=60.0)
    outbox.put([one, task("2", "c/2")], 1000.0)
    (first, second) = begun(outbox, 1060.0)
    assert first is one
    assert outbox.finished(first, Later("no answer"), 1061.0) is None
    (late,) = begun(outbox, 1100.0)
    assert late is not one and (late.decision, late.objects) == ("1", ("c/1",))
    result = late.write.carry_out(Nobody(), lambda resource: "v1")
    assert isinstance(result, Obsolete)
    assert outbox.finished(late, result, 1100.0) == WriteObsolete("1", "HandOver", "of 1", result.why)
    outbox.finished(second, Done(), 1100.0)
    assert len(outbox) == 0


def test_droppable_tasks_that_wait_are_bounded() -> None:
    outbox = box()
    outbox.put([droppable(f"events/{n}") for n in range(module.MOST_DROPPABLE + 5)], 0.0)
    outbox.put([task("1")], 0.0)
    assert outbox.counts["Nothing", "dropped"] == 5
    assert outbox.waiting == module.MOST_DROPPABLE + 1
    one = outbox.next(0.0)
    assert isinstance(one, Task) and one.decision == "1"


def test_one_that_is_superseded_lets_none_begin_that_waits_for_another_object() -> None:
    outbox = box()
    runs, both = task("1", "claims/b"), task("2", "claims/a", "claims/b")
    older, newer = (task(one, "claims/a", replaces="k") for one in "34")
    outbox.put([runs, both, older], 0.0)
    assert begun(outbox) == [runs]
    assert outbox.put([newer], 0.0) == [Superseded("3", "HandOver", "of 3")]
    assert begun(outbox) == []
    for done, following in ((runs, [both]), (both, [newer])):
        outbox.finished(done, Done(), 0.0)
        assert begun(outbox) == following
