"""What is not known withdraws nothing: no ConfigMap, no answer yet, an API server that drops what it kept before."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dds_core import events as e
from dds_core.events import NodeLabelled
from dds_core.publisher.describe import selector
from dds_core.publisher.events import PoolPublished
from dds_core.publisher.model import PoolConfig
from tests.support.publisher_world import (
    A100,
    A100_0,
    DRIVER,
    H100,
    PublisherWorld,
    alerts,
    labelled,
    pool_slice,
    published,
    usual,
    withdrawn,
)

THERE = ("nvidia-a100-0", "nvidia-a100-1")


def test_a_configmap_that_is_deleted_and_made_again_changes_nothing() -> None:
    board = usual(2)
    board.claim("a", "n1", "nvidia-a100-0")
    assert alerts(board.feed(e.ConfigMissing("config"))) == ["ConfigMissing"]
    assert board.wait(3600) == [], "who deletes it may be making it anew"
    board.stock(3)
    board.write()
    assert board.names() == [*THERE, "nvidia-a100-2"], "what it said last stays in force"
    assert board.see(PoolConfig("another", models=(A100,))) == [] and withdrawn(board.decided) == []
    assert alerts(board.feed(e.ConfigMissing("another"))) == ["ConfigMissing"], "told again"
    board.verified()


def test_on_an_empty_log_what_is_there_stays_until_the_fabric_has_said_what_it_has() -> None:
    board = PublisherWorld()
    board.nodes("0", "n1")
    board.see(pool_slice("ours", devices=THERE))
    assert board.synced() == [] and board.wait(3600) == []
    (one,) = published(board.stock(1))
    assert [some.devices for some in one.slices] == [THERE[:1]]


def test_where_conditions_are_dropped_slices_that_have_theirs_stay() -> None:
    board = usual(2)
    board.claim("a", "n1", "nvidia-a100-0")
    decided = board.feed(e.Capabilities(binding_conditions=False))
    assert alerts(decided) == ["BindingConditionsDropped"] and withdrawn(decided) == []
    assert published(board.stock(5)) == [], "a write would lose them"
    assert published(board.feed(e.Capabilities()))
    board.verified()


def test_where_conditions_are_dropped_ordinary_devices_go() -> None:
    board = usual(2)
    (one,) = board.live()
    board.feed(e.Capabilities(binding_conditions=False))
    ordinary = pool_slice(one.name, devices=one.devices, ordinary=one.devices, uid=one.uid, digest="less")
    assert len(withdrawn(board.see(ordinary))) == 1


def test_a_label_that_was_written_and_taken_off_unseen_is_written_again() -> None:
    """A list that is made anew shows the node as it is, not what it was in between."""
    board = usual(2)
    host = board.state.host("n1")
    assert host is not None
    board.see(replace(host, labels={key: value for key, value in host.labels.items() if key != "cohdi.io/fabric"}))
    ((event_id, decision),) = board.unwritten
    board.feed(e.WriteDone(event_id, "NodeLabelled", decision.subject))
    board.unwritten.clear()
    assert [one.labels for one in labelled(board.wait(301))] == [{"cohdi.io/fabric": "0"}]
    board.write()
    assert labelled(board.wait(3600)) == []
    board.verified()


# -- entries that cannot be read, in a log that does not know what they said before: no pool goes for them


def without_a_log(*, unread: bool) -> PublisherWorld:
    """A publisher that begins on an empty log beside pools that were published before it; of two models it can read one."""
    board = PublisherWorld(models=(H100,))
    board.nodes("0", "n1")
    board.see(PoolConfig("config", models=(H100,), unread=unread))
    board.see(pool_slice("ours", devices=THERE))
    board.synced()
    return board


def test_a_pool_of_a_model_that_nobody_can_read_stays_until_it_can_be_read() -> None:
    board = without_a_log(unread=True)
    board.stock(2)
    board.wait(1000)
    assert withdrawn(board.decided) == [] and not any(isinstance(one, NodeLabelled) for one in board.decided)
    assert not any(isinstance(one, PoolPublished) and one.pool == A100_0[1] for one in board.decided)
    board.see(PoolConfig("config", models=(A100, H100)))
    board.stock(3)
    board.write()
    assert board.names() == [*THERE, "nvidia-a100-2"], "and goes on as it was"
    board.verified()


def test_models_beside_it_are_published() -> None:
    board = without_a_log(unread=True)
    board.stock(1, model=H100)
    board.write()
    assert board.names((A100_0[0], "nvidia-h100-fabric0")) == ["nvidia-h100-0"]


def test_once_all_can_be_read_what_is_no_models_goes() -> None:
    board = without_a_log(unread=True)
    (one,) = withdrawn(board.see(PoolConfig("config", models=(H100,))))
    assert one.pool == A100_0[1]
    assert withdrawn(without_a_log(unread=False).decided)


# -- slices that others made: whatever the policy lets us take over, nothing else is changed or deleted


ADOPT = {"adopt": "reference"}


@pytest.mark.parametrize(
    ("driver", "pool"),
    [
        ("rdma.example.com", "rdma-net"),
        (DRIVER, "vendor-pool"),
        (DRIVER, "nvidia-h100-fabric0"),
        ("x.example", "a-fabric0"),
    ],
)
def test_who_adopts_the_references_slices_leaves_those_of_all_others(driver: str, pool: str) -> None:
    """Hardly any driver marks its slices: that one has no mark does not make it the reference's."""
    board = usual(2, policy=ADOPT)
    assert board.see(pool_slice("theirs", pool, ("nic-0",), driver=driver, owner="", ordinary=("nic-0",))) == []
    assert board.wait(3600) == []
    board.restart()
    assert withdrawn(board.decided) == []
    board.verified()


def test_what_the_reference_left_of_a_model_that_is_not_configured_any_more_goes() -> None:
    board = usual(2, policy=ADOPT)
    left = pool_slice(
        "left", "nvidia-h100-fabric0", ("nvidia-h100-0",), owner="", selector=selector("cohdi.io", "nvidia-h100", "0")
    )
    (one,) = withdrawn(board.see(left))
    assert (one.pool, one.drop) == ("nvidia-h100-fabric0", {"left": "uid-left"})


def test_nothing_unmarked_goes_without_leave_to_adopt() -> None:
    board = usual(2)
    chosen = selector("cohdi.io", "nvidia-h100", "0")
    assert board.see(pool_slice("left", "nvidia-h100-fabric0", owner="", selector=chosen)) == []


def test_leave_to_adopt_that_comes_and_goes_while_it_runs() -> None:
    board = usual(2)
    board.see(pool_slice("theirs", "vendor-pool", ("nic-0",), owner="", ordinary=("nic-0",)))
    board.see(pool_slice("net", "rdma", ("nic-0",), owner="", driver="rdma.example.com"))
    board.feed(e.PolicyChanged(policy={"mode": "publish", **ADOPT}))
    board.see(PoolConfig("config", models=()))
    board.write()
    assert {one.pool for one in withdrawn(board.decided)} == {"nvidia-a100-fabric0"}, "only our own went with its model"
