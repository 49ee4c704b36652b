"""What is not known withdraws nothing: no ConfigMap, no answer yet, an API server that drops what it kept before."""

from msgspec.structs import replace

from dds_core import events as e
from dds_core.publisher.model import PoolConfig
from tests.support.board import A100, Board, alerts, labelled, pool_slice, published, usual, withdrawn

THERE = ("nvidia-a100-0", "nvidia-a100-1")


def test_a_configmap_that_is_deleted_and_made_again_changes_nothing() -> None:
    board = usual(2)
    board.claim("a", "n1", "nvidia-a100-0")
    board.gone(PoolConfig, "config")
    assert board.stock(3) == [] and board.wait(3600) == [], "who deletes it may be making it anew"
    assert board.see(PoolConfig("another", models=(A100,))) == board.decided[-1:], "what was counted meanwhile is shown"
    board.write()
    assert board.names() == [*THERE, "nvidia-a100-2"] and withdrawn(board.decided) == []
    board.verified()


def test_on_an_empty_log_what_is_there_stays_until_the_fabric_has_said_what_it_has() -> None:
    board = Board()
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
    host = board.picture.host("n1")
    assert host is not None
    board.see(replace(host, labels={key: value for key, value in host.labels.items() if key != "cohdi.io/fabric"}))
    ((event_id, decision),) = board.unwritten
    board.feed(e.WriteDone(event_id, "NodeLabelled", decision.subject))
    board.unwritten.clear()
    assert [one.labels for one in labelled(board.wait(301))] == [{"cohdi.io/fabric": "0"}]
    board.write()
    assert labelled(board.wait(3600)) == []
    board.verified()
