"""The prefix of labels changes: what the publisher wrote under the old one goes."""

from dds_core.events import NodeLabelled
from dds_core.publisher.events import PoolPublished
from dds_core.publisher.model import PoolConfig
from tests.support.publisher_world import A100, PublisherWorld, usual


def labels(board: PublisherWorld) -> dict[str, str]:
    host = board.state.host("n1")
    assert host is not None
    return {key: value for key, value in host.labels.items() if not key.endswith(A100.device)}


def test_the_fabric_is_told_under_the_new_prefix_alone() -> None:
    board = usual(2)
    board.write()
    assert labels(board) == {"cohdi.io/fabric": "0"}
    board.see(PoolConfig("config", "example.com", (A100,)))
    board.write()
    board.wait(301)
    board.write()
    assert labels(board) == {"example.com/fabric": "0"} and not board.state.notes.left_labels.rows
    assert [one.prefix for one in board.decided if isinstance(one, PoolPublished)][-1] == "example.com"
    board.verified()


def test_labels_are_left_where_we_keep_none() -> None:
    board = usual(2, policy={"label_nodes": False})
    board.see(PoolConfig("config", "example.com", (A100,)))
    board.write()
    assert labels(board) == {"cohdi.io/fabric": "0"}
    assert not [one for one in board.decided if isinstance(one, NodeLabelled)]
