"""What was long ago leaves nothing behind: no rows, no deadlines, no complaint that nobody can answer any more."""

import pytest
from msgspec.structs import replace

from dds_core.model import FabricResource
from dds_core.publisher import events as e
from dds_core.publisher.deadlines import DeadlineQueue, deadlines
from dds_core.publisher.deciding import decide
from dds_core.publisher.folds import apply
from dds_core.publisher.model import Host, Machine, PoolConfig, PoolSlice
from tests.support.publisher_world import A100, A100_0, H100, PublisherWorld, labelled, published, usual


def test_machines_that_no_node_is_are_forgotten_when_they_go() -> None:
    board = usual(2)
    for number in range(50):
        board.feed(e.MachineObserved(Machine(f"spare-{number}", "", "0")), e.MachineGone(f"spare-{number}"))
    board.wait(600)
    assert not [name for name in board.state.fabric.absent if name.startswith("spare")]
    assert not [name for name in board.state.notes.fired_deadlines if name[0] == "gone" and name[1].startswith("spare")]


def test_of_a_node_that_is_gone_nobody_has_to_know_how_long_its_machine_is() -> None:
    board = usual(2)
    board.feed(e.MachineGone("m-n1"))
    board.wait(600)
    assert "m-n1" in board.state.fabric.absent
    board.gone(Host, "h-n1")
    assert "m-n1" not in board.state.fabric.absent and ("gone", "m-n1") not in board.state.notes.fired_deadlines
    board.verified()


def test_a_node_that_is_another_machine_by_now_is_judged_by_that_one() -> None:
    board = usual(2)
    board.feed(e.MachineGone("m-n1"), e.MachineObserved(Machine("m-new", "", "1")))
    (host,) = (one for one in board.state.cluster.hosts.rows.values() if one.name == "n1")
    (one,) = labelled(board.see(Host(host.uid, host.name, "m-new", host.labels)))
    assert one.labels == {"cohdi.io/fabric": "1"}
    assert "m-n1" not in board.state.fabric.absent


def test_what_is_attached_to_a_node_that_is_gone_is_not_free_before_it_is_detached() -> None:
    """An inventory in a file counts what is attached, too, and cannot know."""
    board = PublisherWorld()
    board.nodes("0", "n1", "n2")
    board.synced()
    board.stock(4, whole=True)
    board.resource("x", "n1", "Online", "GPU-1")
    board.stock(4, whole=True)
    board.gone(Host, "h-n1")
    board.write()
    assert len(board.names()) == 3
    board.gone(FabricResource, "r-x")
    board.write()
    assert len(board.names()) == 4
    board.verified()


def test_the_label_of_a_lost_machine_goes_though_many_others_are_lost_with_it() -> None:
    board = usual(2, keep=False)
    board.nodes("0", *(f"node-{number}" for number in range(200)))
    board.write()
    for uuid in list(board.state.machines()):
        if uuid != "m-n1":
            board.feed(e.MachineGone(uuid))
    assert labelled(board.wait(59)) == []
    gone = labelled(board.wait(2))
    assert len(gone) == 201 and all(one.labels == {"cohdi.io/fabric": None} for one in gone)


@pytest.mark.parametrize("of", ["limits/m-n1", "stock/0/NVIDIA A100"])
def test_a_question_that_nobody_asks_any_more_is_no_trouble(of: str) -> None:
    board = usual(2, models=(A100, H100))
    board.feed(e.FabricFailed(of, "no answer"), e.FabricFailed("limits/m-n2", "no answer"))
    board.feed(e.MachineGone("m-n1"))
    board.see(PoolConfig("config", models=(H100,)))
    assert set(board.state.fabric.failures) == {"limits/m-n2"}
    board.feed(e.MachineObserved(Machine("m-n2", "n2", "")))
    assert set(board.state.fabric.failures) == set(), "the limits of a machine without a fabric are not asked"


def test_what_a_model_had_long_ago_is_not_offered_when_it_is_configured_again() -> None:
    board = usual(4)
    board.see(PoolConfig("config", models=(H100,)))
    board.write()
    board.wait(24 * 3600)
    assert published(board.see(PoolConfig("config", models=(A100,)))) == []
    (one,) = published(board.stock(1))
    assert [len(some.devices) for some in one.slices] == [1]
    board.verified()


def test_deadlines_kept_up_are_those_of_the_picture() -> None:
    board = usual(2, models=(A100, H100))
    steps = (
        lambda: board.feed(e.MachineGone("m-n1")),
        lambda: board.feed(e.WriteRefused("d", "NodeLabelled", "n2", 403, "Forbidden")),
        lambda: board.feed(e.WriteRefused("d", "PoolPublished", "pool/gpu.nvidia.com/nvidia-a100-fabric0", 403, "x")),
        lambda: board.stock(3),
        lambda: board.write(observed=False),
        lambda: board.wait(31),
        lambda: board.feed(e.MachineGone("m-n2")),
        lambda: board.wait(61),
        lambda: board.feed(e.MachineObserved(Machine("m-n1", "n1", "0"))),
        lambda: board.stock(5),
        lambda: board.wait(3600),
    )
    for step in steps:
        step()
        kept, anew = board.engine.deadline_queue, DeadlineQueue(board.state)
        assert isinstance(kept, DeadlineQueue)
        assert {one for one in deadlines(board.state) if not kept.has(one)} == set()
        assert kept.next() == anew.next()


def test_each_slice_of_a_large_pool_that_comes_about_is_not_the_whole_pool_again() -> None:
    """A pool of 782 slices took minutes else: for each of them all 100,000 devices were laid out anew."""
    board = usual(0, keep=False, policy={"pool_devices": 100_000})
    board.stock(1000)
    ((_, decided),) = board.unwritten
    assert isinstance(decided, e.PoolPublished) and len(decided.slices) == 8
    state = board.state
    for layout in decided.slices:
        new = board.slice_of(decided, layout)
        fact = e.difference(state.object(PoolSlice, new.uid), new)
        assert fact is not None
        apply(state, fact, board.now)
        assert decide(state, board.now, keep=True).touched.pools == set()
    assert state.pools.rows[A100_0].settled
    changed = replace(state.slices_in(A100_0)[3], digest="other")
    assert published(board.see(changed)), "one that is otherwise than it was decided is looked at"
