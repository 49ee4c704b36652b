"""What makes a pool or a label be written, and at which generation: cases in which nothing else would notice a slip."""

from msgspec.structs import replace

from dds_core.model import Allocation, Claim, FabricResource, Result
from dds_core.publisher import events as e
from dds_core.publisher.describe import devices_of, digest_of, name_of_id, selector
from dds_core.publisher.model import FreeDevice, Host, Limit, Machine, PoolConfig, PoolSlice
from tests.support.publisher_world import (
    A100,
    A100_0,
    DRIVER,
    H100,
    SECOND,
    PublisherWorld,
    alerts,
    labelled,
    published,
    usual,
    withdrawn,
)


def test_another_label_prefix_selects_nodes_by_it() -> None:
    board = usual(2)
    (one,) = published(board.see(PoolConfig("config", prefix="example.com", models=(A100,))))
    assert one.prefix == "example.com"
    board.write()
    assert [one.selector for one in board.live()] == [selector("example.com", "nvidia-a100", "0")]
    board.verified()


def test_a_pool_that_shrinks_by_a_slice_leaves_none_behind() -> None:
    board = usual(130)
    board.stock(2)
    assert board.write() == 2
    assert [(one.generation, one.slices, len(one.devices)) for one in board.live()] == [(2, 1, 2)]


def test_a_generation_is_never_given_twice() -> None:
    """Who saw slices of it would take those of the next for the same pool."""
    board = usual(128)
    (first,) = published(board.stock(129))
    (second,) = published(board.stock(128))
    assert (first.generation, second.generation) == (2, 3), "the first may be half written"
    board.write()
    for one in board.live():
        board.gone(PoolSlice, one.uid)
    assert [one.generation for one in published(board.decided[-1:])] == [4]


def test_a_watch_that_is_behind_raises_no_generation() -> None:
    """What was written is written again in case it was lost: at the same generation, so that nothing is there to be written."""
    for free, generation in ((2, 1), (200, 1)):
        board = PublisherWorld()
        board.nodes("0", "n1")
        board.stock(free)
        (first,) = published(board.synced())
        for seconds in (0, 35, 35, 65):
            board.wait(seconds)
            board.write(observed=False)
        assert [one.generation for one in published(board.decided)] == [first.generation] * 4 == [generation] * 4
        board.verified()


def test_a_watch_that_shows_what_was_before_raises_no_generation() -> None:
    board = usual(2)
    (first,) = published(board.stock(200))
    board.write(observed=False)
    (second,) = published(board.wait(35))
    assert (first.generation, second.generation) == (2, 2)
    board.write()
    assert [(one.generation, one.slices) for one in board.live()] == [(2, 2), (2, 2)]
    board.verified()


def test_a_pool_whose_write_is_under_way_is_taken_back() -> None:
    board = PublisherWorld(models=(A100, H100))
    board.nodes("0", "n1")
    board.stock(2)
    assert published(board.synced())
    assert [one.pool for one in withdrawn(board.see(PoolConfig("config", models=(H100,))))] == [A100_0[1]]
    board.write()
    assert board.live() == []


def test_what_is_to_go_is_told_once_while_it_is_under_way() -> None:
    board = usual(2, models=(A100, H100))
    assert len(withdrawn(board.see(PoolConfig("config", models=(H100,))))) == 1
    (one,) = board.live()
    assert board.see(replace(one, generation=9)) == []
    assert board.feed(e.MachineGone("m-n2")) == []
    board.write()
    assert board.live() == [] and A100_0 not in board.state.pools


def test_a_device_that_is_not_healthy_takes_nobodys_place() -> None:
    board = usual(0)
    board.stock(1, devices=(FreeDevice("a", healthy=False), FreeDevice("b")))
    board.write()
    assert board.names() == ["nvidia-a100-b"]


def test_what_is_there_as_it_would_be_is_not_shown_in_mode_observe() -> None:
    there = usual(2).live()
    board = PublisherWorld(mode="observe")
    board.nodes("0", "n1")
    board.see(*there)
    board.stock(2)
    assert published(board.synced()) == []
    assert published(board.stock(3))


def test_no_label_is_decided_on_an_old_view() -> None:
    board = usual(2)
    board.feed(e.Stale("nodes", 60))
    assert labelled(board.feed(e.MachineObserved(Machine("m-n1", "n1", "1")))) == []
    assert [one.node for one in labelled(board.feed(e.Synced()))] == ["n1"]


def test_limits_are_labels_only_where_the_policy_wants_them() -> None:
    limits = Machine("m-n1", "n1", "0", {"NVIDIA A100": Limit(4, 1)})
    assert labelled(usual(2).feed(e.MachineObserved(limits)))
    assert labelled(usual(2, policy={"label_limits": False}).feed(e.MachineObserved(limits))) == []


def test_a_node_without_a_machine_gets_no_label() -> None:
    board = usual(2)
    assert labelled(board.see(Host("h-x", "x", "", {}))) == []


def test_what_is_shown_in_mode_observe_is_shown_again_when_it_is_another() -> None:
    board = usual(2, mode="observe")
    assert len(published(board.stock(3))) == 1
    assert board.feed(e.MachineGone("m-n2")) == []


def test_a_pool_that_never_was_leaves_no_row() -> None:
    board = PublisherWorld(models=(A100, H100))
    board.nodes("0", "n1")
    board.stock(2)
    board.synced()
    board.see(PoolConfig("config", models=(H100,)))
    assert A100_0 not in board.state.pools


def test_refused_writes_are_tried_ever_more_seldom_and_a_success_begins_anew() -> None:
    board = usual(2)

    def pause() -> float:
        board.unwritten.clear()
        board.feed(e.WriteRefused("d", "PoolPublished", "pool/gpu.nvidia.com/nvidia-a100-fabric0", 403, "Forbidden"))
        began = board.now
        while not board.unwritten:
            board.wait(1)
        return (board.now - began) / SECOND

    board.stock(3)
    assert [pause() for _ in range(9)] == [30, 60, 120, 240, 480, 600, 600, 600, 600]
    assert alerts(board.decided) == [], "what was never written is nobody's to undo"
    board.write()
    board.stock(4)
    assert pause() == 30


def test_a_label_that_was_refused_is_tried_again() -> None:
    board = usual(2, policy={"scan_interval_seconds": 0})
    assert labelled(board.feed(e.MachineObserved(Machine("m-n1", "n1", "1"))))
    board.feed(e.WriteRefused("d", "NodeLabelled", "n1", 403, "Forbidden"))
    assert labelled(board.wait(29)) == []
    assert [one.node for one in labelled(board.wait(2))] == ["n1"]


def test_a_slice_that_does_not_go_is_tried_ever_more_seldom() -> None:
    board = usual(2, models=(A100, H100), policy={"scan_interval_seconds": 0})
    board.see(PoolConfig("config", models=(H100,)))
    instants = []
    for _ in range(5):
        board.write(observed=False)
        began = board.now
        while not board.unwritten:
            board.wait(1)
        instants.append((board.now - began) // SECOND)
    assert instants == [30, 30, 60, 120, 240]


def test_a_slice_that_somebody_deletes_once_a_day_comes_back_at_once() -> None:
    board = usual(2, policy={"scan_interval_seconds": 0})
    for _ in range(5):
        board.wait(24 * 3600)
        board.gone(PoolSlice, board.live()[0].uid)
        assert board.write() == 1


def test_a_device_is_in_doubt_from_its_arrival_until_it_is_counted_or_gone() -> None:
    board = usual(2)
    board.resource("x", "n1", "Online", "GPU-1")
    assert board.state.in_doubt("0", "NVIDIA A100")
    board.stock(2)
    board.resource("x", "n1", "Detaching", "GPU-1")
    assert not board.state.in_doubt("0", "NVIDIA A100"), "it did not arrive again"
    board.resource("y", "n1", "Online", "GPU-2")
    board.gone(FabricResource, "r-y")
    assert not board.state.in_doubt("0", "NVIDIA A100")


def test_what_was_left_to_somebody_else_goes_on_when_the_slice_is_ours_again() -> None:
    board = usual(2)
    (one,) = board.live()
    board.see(replace(one, owner="other"))
    assert published(board.stock(3)) == []
    assert [len(some.slices[0].devices) for some in published(board.see(one))] == [3]


def test_a_pool_that_shows_waits_for_nothing() -> None:
    board = usual(2)
    board.stock(3)
    board.write()
    due = board.engine.deadline_queue.next()
    assert due is not None and due.kind != "readback"


def test_a_fabric_that_is_back_is_not_absent() -> None:
    board = usual(2)
    board.feed(e.MachineGone("m-n1"), e.MachineGone("m-n2"))
    board.wait(30)
    board.feed(e.MachineObserved(Machine("m-n1", "n1", "0")))
    assert set(board.state.fabric.absent) == {"m-n2"}
    board.feed(e.MachineGone("m-n1"))
    assert withdrawn(board.wait(59)) == [] and withdrawn(board.wait(2))


def test_a_restart_that_nobody_has_answered_since_takes_nothing_for_gone() -> None:
    board = usual(2)
    board.feed(e.MachineGone("m-n1"), e.MachineGone("m-n2"))
    board.engine.state.dirty.clear()
    board.begin()
    board.feed(e.Synced())
    assert withdrawn(board.wait(3600)) == []


def test_ids_that_differ_in_case_alone_are_two_devices_and_long_ones_fit() -> None:
    names = {name_of_id("a100", one) for one in ("GPU-a", "gpu-a", "gpu-A", "GPU-A", "a" * 60, "a" * 61, "0", "00")}
    assert len(names) == 8 and all(len(one) <= 63 and one == one.lower() for one in names)


def test_a_device_that_is_not_healthy_stands_for_none_that_is_promised() -> None:
    board = usual(0)
    board.stock(1, devices=(FreeDevice("a"),))
    board.write()
    board.claim("a", "n1", "nvidia-a100-a")
    board.stock(2, devices=(FreeDevice("a"), FreeDevice("b"), FreeDevice("c", healthy=False)))
    board.write()
    assert board.names() == ["nvidia-a100-a", "nvidia-a100-b"]
    board.stock(1, devices=(FreeDevice("b"), FreeDevice("c", healthy=False)))
    board.write()
    assert board.names() == ["nvidia-a100-a"], "the one that is left is promised"


def test_who_only_looks_at_a_device_does_not_hold_it() -> None:
    board = usual(2)
    result = Result("gpu", DRIVER, A100_0[1], "nvidia-a100-1", admin=True)
    board.see(Claim("c-admin", "default", "admin", allocation=Allocation((result,), "n1")))
    board.stock(1)
    board.write()
    assert board.names() == ["nvidia-a100-0"]


def test_no_deadline_comes_back_while_a_view_is_old() -> None:
    board = usual(2)
    board.feed(e.Stale("resourceclaims", 60))
    assert board.engine.deadline_queue.next() is None
    assert board.wait(3600) == [] and board.feed(e.Synced()) == []
    assert board.engine.deadline_queue.next() is not None


def test_what_a_server_says_outright_is_the_same_as_what_it_leaves_out() -> None:
    (device,) = devices_of(A100, ["a"])
    said = {**device, "allowMultipleAllocations": False, "taints": [], "consumesCounters": None}
    assert digest_of([said]) == digest_of([device])
    assert digest_of([{**device, "allowMultipleAllocations": True}]) != digest_of([device])


def test_an_id_that_looks_like_the_other_stem_renames_nothing() -> None:
    board = usual(0)
    board.stock(3, devices=(FreeDevice("pool-3"), FreeDevice("POOL-3"), FreeDevice("y")))
    board.write()
    names = board.names()
    assert len(names) == 3 and "nvidia-a100-y" in names
    board.stock(4, devices=(FreeDevice("pool-3"), FreeDevice("POOL-3"), FreeDevice("y"), FreeDevice("z")))
    board.write()
    assert set(board.names()) == {*names, "nvidia-a100-z"}
