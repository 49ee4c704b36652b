"""The queue keeps the newest state of each object, in an order that can be relied on, however long nobody takes."""

from __future__ import annotations

import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from dds_adapters.kubernetes.watch.delta_queue import LOST, STALE, SYNCED, Arrival, DeltaQueue


class Clock:
    """Both clocks, set by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> int:
        return int(self.seconds * 1_000_000)

    def steady(self) -> float:
        return self.seconds


def queue() -> tuple[DeltaQueue, Clock]:
    clock = Clock()
    return DeltaQueue(clock.now, clock.steady), clock


def brief(taken: list[Arrival]) -> list[tuple[str, str]]:
    return [(one.type, one.raw.decode()) for one in taken]


def test_what_came_is_taken_in_order_with_its_instant() -> None:
    arrivals, clock = queue()
    arrivals.put("nodes", "1", "ADDED", b"a")
    clock.seconds += 1
    arrivals.put("pods", "1", "ADDED", b"b")
    assert len(arrivals) == 2
    assert arrivals.take(0) == [
        Arrival("nodes", "ADDED", b"a", 100_000_000),
        Arrival("pods", "ADDED", b"b", 101_000_000),
    ]
    assert arrivals.take(0) == []


def test_the_newest_state_wins_at_the_place_of_its_own_instant() -> None:
    arrivals, clock = queue()
    arrivals.put("nodes", "1", "ADDED", b"old")
    arrivals.put("nodes", "2", "ADDED", b"other")
    clock.seconds += 5
    arrivals.put("nodes", "1", "MODIFIED", b"new")
    taken = arrivals.take(0)
    assert brief(taken) == [("ADDED", "other"), ("ADDED", "new")]
    assert [one.at for one in taken] == [100_000_000, 105_000_000]


def test_the_instant_of_the_first_of_several_changes_is_kept() -> None:
    """What the newest state shows may be as old. A part that is taken tells of the rest, as its deadlines come before it."""
    arrivals, clock = queue()
    for number, uid in enumerate(("1", "2", "3", "1", "3", "1")):
        clock.seconds = 100.0 + number
        arrivals.put("nodes", uid, "ADDED", b"x")
    assert [(one.at, one.first) for one in arrivals.take(0, 1)] == [(101_000_000, 100_000_000)]
    arrivals.put("nodes", "2", "MODIFIED", b"x")
    taken = [(one.at, one.first) for one in arrivals.take(0)]
    assert taken == [(104_000_000, 102_000_000), (105_000_000, 100_000_000), (105_000_000, 0)]


def test_what_came_and_went_unseen_was_never_there() -> None:
    arrivals, _ = queue()
    arrivals.put("pods", "1", "ADDED", b"a")
    arrivals.put("pods", "1", "MODIFIED", b"b")
    arrivals.put("pods", "1", "DELETED", b"c")
    assert len(arrivals) == 0


def test_an_end_is_told_of_what_was_taken_before() -> None:
    arrivals, _ = queue()
    arrivals.put("pods", "1", "ADDED", b"a")
    arrivals.take(0)
    arrivals.put("pods", "1", "MODIFIED", b"b")
    arrivals.put("pods", "1", "DELETED", b"c")
    assert brief(arrivals.take(0)) == [("DELETED", "c")]


def test_a_namesake_comes_after_the_end_of_the_one_before() -> None:
    arrivals, _ = queue()
    arrivals.put("pods", "1", "ADDED", b"a")
    arrivals.take(0)
    arrivals.put("pods", "1", "MODIFIED", b"b")
    arrivals.put("pods", "1", "DELETED", b"c")
    arrivals.put("pods", "2", "ADDED", b"d")
    arrivals.put("pods", "2", "MODIFIED", b"e")
    assert brief(arrivals.take(0)) == [("DELETED", "c"), ("ADDED", "e")]


def test_synced_stays_behind_all_that_was_listed() -> None:
    arrivals, _ = queue()
    arrivals.put("pods", "1", "ADDED", b"a")
    arrivals.put("pods", "2", "ADDED", b"b")
    arrivals.mark("pods", SYNCED)
    arrivals.put("pods", "1", "MODIFIED", b"c")
    arrivals.mark("nodes", SYNCED)
    assert [(one.resource, one.type) for one in arrivals.take(0)] == [
        ("pods", "ADDED"),
        ("pods", "ADDED"),
        ("pods", SYNCED),
        ("nodes", SYNCED),
    ]


def test_lost_takes_back_what_was_synced_and_synced_makes_it_good() -> None:
    arrivals, _ = queue()
    arrivals.mark("pods", SYNCED)
    arrivals.mark("pods", LOST)
    arrivals.put("pods", "1", "ADDED", b"a")
    arrivals.mark("pods", SYNCED)
    assert [one.type for one in arrivals.take(0)] == [LOST, "ADDED", SYNCED]


def test_a_silence_is_told_of_the_instant_at_which_it_had_lasted_too_long() -> None:
    """Though nobody took anything then: no deadline after it may pass."""
    arrivals, clock = queue()
    arrivals.heard("pods", 150)
    clock.seconds += 100
    arrivals.put("nodes", "1", "ADDED", b"a")
    clock.seconds += 100
    arrivals.put("nodes", "2", "ADDED", b"b")
    clock.seconds += 400
    told = arrivals.take(0)
    assert [(one.type, one.at // 1_000_000) for one in told] == [("ADDED", 200), (STALE, 250), ("ADDED", 300)]
    arrivals.heard("pods", 150)
    arrivals.mark("pods", SYNCED)
    clock.seconds += 149
    arrivals.put("nodes", "1", "MODIFIED", b"c")
    assert len(arrivals.take(0)) == 2
    clock.seconds += 1
    assert [(one.type, one.at // 1_000_000) for one in arrivals.take(0)] == [(STALE, 850)]


def test_what_is_lost_right_after_a_list_was_never_whole() -> None:
    arrivals, _ = queue()
    arrivals.mark("pods", SYNCED)
    arrivals.mark("nodes", SYNCED)
    arrivals.mark("pods", LOST)
    assert [(one.resource, one.type) for one in arrivals.take(0)] == [("nodes", SYNCED), ("pods", LOST)]


def test_a_part_can_be_taken_and_the_rest_still_changes() -> None:
    arrivals, _ = queue()
    for number in range(5):
        arrivals.put("pods", str(number), "ADDED", b"a")
    assert len(arrivals.take(0, limit=2)) == 2
    arrivals.put("pods", "3", "MODIFIED", b"b")
    assert brief(arrivals.take(0)) == [("ADDED", "a"), ("ADDED", "a"), ("ADDED", "b")]


def test_instants_never_go_back_though_the_clock_does() -> None:
    arrivals, clock = queue()
    arrivals.put("pods", "1", "ADDED", b"a")
    clock.seconds -= 50
    arrivals.put("pods", "2", "ADDED", b"b")
    assert [one.at for one in arrivals.take(0)] == [100_000_000, 100_000_000]


def test_a_silence_is_told_once_and_a_list_makes_it_good() -> None:
    arrivals, clock = queue()
    assert not arrivals.heard("pods", 150)
    clock.seconds += 149
    assert arrivals.take(0) == []
    clock.seconds += 2
    assert arrivals.take(0) == [Arrival("pods", STALE, b"", 250_000_000, age=150)]
    assert arrivals.take(0) == []
    assert arrivals.heard("pods", 150), "who listens has to list again"
    clock.seconds += 200
    assert arrivals.take(0) == []
    arrivals.mark("pods", SYNCED)
    assert not arrivals.heard("pods", 150)
    assert [one.type for one in arrivals.take(0)] == [SYNCED]
    clock.seconds += 200
    assert [one.type for one in arrivals.take(0)] == [STALE]


def test_a_silence_that_nobody_was_told_of_needs_no_list() -> None:
    arrivals, clock = queue()
    arrivals.heard("pods", 10)
    clock.seconds += 100
    assert not arrivals.heard("pods", 10)
    assert arrivals.ages() == {"pods": 0.0}


def test_what_is_lost_is_not_stale_too() -> None:
    arrivals, clock = queue()
    arrivals.heard("pods", 10)
    arrivals.mark("pods", LOST)
    clock.seconds += 100
    assert [one.type for one in arrivals.take(0)] == [LOST]
    assert arrivals.ages() == {}


def test_who_takes_waits_for_what_comes_for_silence_and_for_a_call() -> None:
    arrivals = DeltaQueue()
    threading.Timer(0.1, arrivals.put, ("pods", "1", "ADDED", b"a")).start()
    assert brief(arrivals.take(10)) == [("ADDED", "a")]
    arrivals.heard("pods", 0.1)
    assert [one.type for one in arrivals.take(10)] == [STALE]
    threading.Timer(0.1, arrivals.wake).start()
    begun = time.monotonic()
    assert arrivals.take(10) == []
    arrivals.wake()
    assert arrivals.take() == []
    assert time.monotonic() - begun < 5
    assert arrivals.take(0.05) == []


def test_it_grows_with_objects_and_not_with_what_happens_to_them() -> None:
    """Nobody takes for a long time, while objects change, come and go."""
    arrivals = DeltaQueue()
    for number in range(1000):
        arrivals.put("pods", f"old{number}", "ADDED", b"a")
    arrivals.take(0)
    for turn in range(50):
        for number in range(1000):
            arrivals.put("pods", f"old{number}", "MODIFIED", b"b")
            arrivals.put("pods", f"new{turn}.{number}", "ADDED", b"c")
            arrivals.put("pods", f"new{turn}.{number}", "DELETED", b"d")
        arrivals.heard("pods", 100)
        arrivals.mark("pods", SYNCED)
    assert len(arrivals) == 1001


Step = tuple[str, str, int]
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "synced", "lost", "take", "some"]), st.sampled_from("ab"), st.integers(0, 4)
    ),
    max_size=80,
)


@given(_STEPS)
def test_who_takes_sees_no_state_that_was_not_and_ends_where_the_world_is(steps: list[Step]) -> None:
    arrivals, _ = queue()
    world: dict[tuple[str, str], bytes] = {}
    history: dict[tuple[str, str], list[tuple[str, bytes]]] = {}
    listed: dict[str, dict[str, bytes]] = {}
    seen: dict[tuple[str, str], bytes] = {}
    last = 0

    def take(limit: int | None) -> None:
        nonlocal last
        for one in arrivals.take(0, limit):
            assert one.at >= last
            last = one.at
            if one.type == SYNCED:
                assert listed[one.resource].keys() <= {uid for of, uid in seen if of == one.resource} | {
                    uid for (of, uid) in history if of == one.resource and (of, uid) not in world
                }
            elif one.type not in (LOST, STALE):
                uid, _, _ = one.raw.decode().partition(".")
                assert ("DELETED" if one.type == "DELETED" else "there", one.raw) in history[(one.resource, uid)]
                assert (one.type == "ADDED") == ((one.resource, uid) not in seen)
                if one.type == "DELETED":
                    del seen[(one.resource, uid)]
                else:
                    seen[(one.resource, uid)] = one.raw

    for number, (what, resource, uid) in enumerate(steps):
        key = (resource, str(uid))
        raw = f"{uid}.{number}".encode()
        if what == "put":
            arrivals.put(*key, "MODIFIED" if key in world else "ADDED", raw)
            world[key] = raw
            history.setdefault(key, []).append(("there", raw))
        elif what == "delete" and key in world:
            arrivals.put(*key, "DELETED", raw)
            del world[key]
            history[key].append(("DELETED", raw))
        elif what == "synced":
            listed[resource] = {uid: raw for (of, uid), raw in world.items() if of == resource}
            arrivals.mark(resource, SYNCED)
        elif what == "lost":
            arrivals.mark(resource, LOST)
        elif what in ("take", "some"):
            take(None if what == "take" else 2)
    take(None)
    assert seen == world
