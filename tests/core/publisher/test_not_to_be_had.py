"""Orders that the fabric answers with an error, and devices on their way back: what they keep from being offered."""

import pytest
from msgspec.structs import replace

from dds_core.model import Claim, FabricResource
from dds_core.publisher import events as e
from dds_core.publisher.model import PoolConfig
from tests.support.publisher_world import A100, H100, PublisherWorld, pool_slice, published, usual, withdrawn


def refused(board: PublisherWorld, name: str, node: str) -> None:
    """An order that the operator tries again and again."""
    board.resource(name, node, "Attaching")
    board.see(replace(board.state.cluster.resources.rows[f"r-{name}"], error="no such device"))


def offered(board: PublisherWorld) -> int:
    board.write()
    return len(set(board.names()) - set(board.state.held(("gpu.nvidia.com", "nvidia-a100-fabric0"))))


def test_an_order_in_error_for_which_nobody_waits_hides_no_device_for_ever() -> None:
    board = usual(0)
    refused(board, "x", "n1")
    refused(board, "y", "n1")
    board.stock(3)
    assert offered(board) == 3, "the fabric has three, and no claim waits for any of them"
    board.verified()


def test_nor_does_it_after_a_claim_let_go_of_what_it_had_taken() -> None:
    board = usual(2)
    refused(board, "x", "n1")
    board.claim("a", "n2", "nvidia-a100-0")
    board.write()
    board.gone(Claim, "c-a")
    assert offered(board) == 2


def test_an_order_in_error_is_not_attached_whatever_an_inventory_counts() -> None:
    board = usual(0)
    board.stock(3, whole=True)
    refused(board, "x", "n1")
    assert offered(board) == 3


def test_an_order_in_error_is_counted_while_a_claim_waits_for_it() -> None:
    board = usual(2)
    board.claim("a", "n1", "nvidia-a100-0")
    refused(board, "x", "n1")
    assert published(board.stock(1)) == [], "the one that is left may be another than the one that the order gets"
    refused(board, "y", "n1")
    board.stock(2)
    board.write()
    assert offered(board) == 1, "of two orders one at most is for the claim"


def test_a_claim_is_served_by_who_is_there_before_an_order_in_error_counts() -> None:
    board = usual(2)
    board.claim("a", "n1", "nvidia-a100-0")
    board.resource("x", "n1", "Online", "GPU-1")
    refused(board, "y", "n1")
    board.stock(3)
    assert offered(board) == 3


def test_an_error_that_is_over_may_have_been_counted_again() -> None:
    board = usual(2)
    refused(board, "x", "n1")
    board.resource("x", "n1", "Attaching")
    board.see(replace(board.state.cluster.resources.rows["r-x"], error=""))
    assert published(board.stock(3)) == [], "the third may be the one that is being attached"


def test_a_device_that_is_being_detached_is_not_free_yet_whatever_an_inventory_counts() -> None:
    board = usual(0)
    board.stock(3, whole=True)
    board.resource("x", "n1", "Online", "GPU-1")
    assert offered(board) == 2
    board.resource("x", "n1", "Detaching", "GPU-1")
    assert offered(board) == 2, "it may take long, or fail"
    board.resource("x", "n1", "Deleting")
    assert offered(board) == 3


def test_a_device_that_is_being_detached_serves_no_claim() -> None:
    board = usual(3)
    board.resource("x", "n1", "Online", "GPU-1")
    board.stock(2)
    board.resource("x", "n1", "Detaching", "GPU-1")
    board.claim("a", "n1", "nvidia-a100-0")
    assert offered(board) == 1


def test_a_device_of_another_model_serves_no_claim() -> None:
    board = usual(2, models=(A100, H100))
    board.resource("x", "n1", "Online", "GPU-1", model=H100)
    board.claim("a", "n1", "nvidia-a100-0")
    assert offered(board) == 1
    board.resource("y", "n1", "Attaching", model=H100)
    board.stock(1)
    assert offered(board) == 0


def test_an_arrival_in_one_fabric_leaves_no_doubt_about_another() -> None:
    board = usual(2)
    board.nodes("1", "m1")
    board.stock(2, "1")
    board.write()
    board.resource("x", "m1", "Online", "GPU-1")
    assert board.state.in_doubt("1", A100.model)
    board.stock(3)
    assert offered(board) == 3


def test_what_was_taken_before_a_pool_could_be_withdrawn_stays() -> None:
    board = usual(3, models=(A100, H100))
    config = board.state.config
    assert config is not None
    board.see(replace(config, models=(H100,)))
    assert len(board.unwritten) == 1, "it is to go, and is there still"
    board.see(config)
    board.claim("a", "n1", "nvidia-a100-1")
    assert board.state.stock("0", A100.model) is None, "the fabric was not asked again yet"
    board.write()
    assert board.names() == ["nvidia-a100-1"]
    board.stock(3)
    board.write()
    assert len(board.names()) == 3
    board.verified()


@pytest.mark.parametrize("why", ["not configured", "no answer", "no machine", "not to be read"])
def test_what_was_taken_unseen_before_it_went_is_back_though_nobody_can_tell_what_there_is(why: str) -> None:
    board = usual(3, models=(A100, H100))
    board.claim("a", "n1", "nvidia-a100-0")
    config = board.state.config
    assert config is not None
    board.see(replace(config, models=(H100,)))
    board.feed(e.Stale("resourceclaims", 200))
    if why != "not configured":
        board.see(replace(config, models=(H100,), unread=True) if why == "not to be read" else config)
    if why == "no machine":
        board.feed(e.MachineGone("m-n1"), e.MachineGone("m-n2"))
    board.claim("b", "n1", "nvidia-a100-1")
    board.write()
    assert board.names() == ["nvidia-a100-0"], "it was decided before"
    board.feed(e.Synced())
    board.write()
    assert board.names() == ["nvidia-a100-0", "nvidia-a100-1"]
    if why == "not configured":
        board.gone(Claim, "c-a")
        board.gone(Claim, "c-b")
        board.write()
        assert board.live() == []


def test_an_order_in_one_fabric_leaves_no_doubt_about_another() -> None:
    board = usual(2)
    board.nodes("1", "m1")
    board.stock(2, "1")
    board.write()
    board.resource("x", "m1", "Attaching")
    board.stock(3)
    assert offered(board) == 3
    assert published(board.stock(3, "1")) == [], "there the third may be the one that is being attached"


def test_a_device_that_leaves_a_node_of_no_known_fabric_is_missed_at_once_by_the_claim_that_waits_there() -> None:
    board = usual(2)
    board.claim("a", "n1", "nvidia-a100-0")
    board.resource("x", "n1", "Online", "GPU-1")
    board.stock(2)
    assert offered(board) == 2
    board.feed(e.MachineGone("m-n1"))
    host = board.state.host("n1")
    assert host is not None
    board.see(replace(host, labels={}))
    board.resource("x", "n1", "Detaching", "GPU-1")
    assert offered(board) == 1


@pytest.mark.parametrize("which", ["uuid", "fabric_id"])
def test_a_device_has_arrived_when_the_operator_knows_one_of_its_ids(which: str) -> None:
    board = usual(2)
    board.see(FabricResource("r-x", "x", model=A100.model, node="n1", state="Attaching"))
    board.see(replace(board.state.cluster.resources.rows["r-x"], **{which: "one"}))
    assert board.state.in_doubt("0", A100.model)
    board.stock(3)
    assert offered(board) == 3, "asked after it had arrived, the fabric counts it no more"


def test_a_device_of_no_known_uuid_is_used_by_nobody() -> None:
    board = usual(2)
    board.see(FabricResource("r-x", "x", model=A100.model, node="n1", state="Online", fabric_id="one"))
    board.stock(2)
    board.local("n1", gpu_0="")
    board.claim("user", "n1", "gpu-0", pool="n1")
    board.claim("a", "n1", "nvidia-a100-0")
    board.stock(3)
    assert offered(board) == 3


def test_a_node_whose_machine_is_not_known_just_now_is_where_its_label_says() -> None:
    board = usual(2)
    board.feed(e.MachineGone("m-n1"))
    board.resource("x", "n1", "Attaching")
    assert published(board.stock(3)) == [], "the third may be the one that is being attached"
    board.resource("x", "n1", "Online", "GPU-1")
    assert board.state.in_doubt("0", A100.model)


def test_a_device_that_two_claims_share_stays_for_the_second_when_the_first_goes() -> None:
    board = usual(2, models=(replace(A100, shared=True),))
    board.claim("a", "n1", "nvidia-a100-0")
    board.claim("b", "n1", "nvidia-a100-0")
    board.gone(Claim, "c-a")
    board.stock(0)
    board.write()
    assert board.names() == ["nvidia-a100-0"]
    board.gone(Claim, "c-b")
    board.write()
    assert board.names() == []


def test_a_claim_that_is_allocated_no_more_gives_its_device_back_at_once() -> None:
    board = usual(1)
    board.claim("a", "n1", "nvidia-a100-0")
    board.stock(0)
    board.write()
    assert board.names() == ["nvidia-a100-0"]
    board.see(replace(board.state.cluster.claims.rows["c-a"], allocation=None))
    board.write()
    assert board.names() == []


def test_an_answer_of_one_fabric_ends_no_doubt_about_another() -> None:
    board = usual(2)
    board.nodes("1", "m1")
    board.stock(2, "1")
    board.resource("x", "n1", "Online", "GPU-1")
    board.resource("y", "m1", "Online", "GPU-2")
    board.stock(2, "1")
    assert (board.state.in_doubt("0", A100.model), board.state.in_doubt("1", A100.model)) == (True, False)


@pytest.mark.parametrize("configured", [False, True])
def test_a_pool_of_which_nobody_knows_how_it_was_described_is_not_published(configured: bool) -> None:
    board = usual(1)
    pool = "nvidia-h100-fabric0"
    assert withdrawn(board.see(pool_slice("left", pool, ("nvidia-h100-0",))))
    if configured:
        board.see(PoolConfig("config", models=(A100, H100)))
    assert published(board.claim("a", "n1", "nvidia-h100-0", pool)) == []
