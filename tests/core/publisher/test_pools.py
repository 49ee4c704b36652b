"""What a pool is to be: how many devices, under which names, in which slices, at which generation, and when that is written."""

import pytest
from msgspec.structs import replace

from dds_core import events as e
from dds_core.model import Claim
from dds_core.publisher.model import FreeDevice
from tests.support.publisher_world import A100, DRIVER, PublisherWorld, alerts, model_named, published, usual


def test_what_is_free_is_published_under_numbers_in_one_slice() -> None:
    board = usual(3)
    (one,) = board.live()
    assert one.name == "nvidia-a100-fabric0-gpu-nvidia-com-000"
    assert one.devices == ("nvidia-a100-0", "nvidia-a100-1", "nvidia-a100-2")
    assert (one.generation, one.slices) == (1, 1)
    assert [(r.key, r.values) for r in one.selector] == [
        ("cohdi.io/nvidia-a100", ("true",)),
        ("cohdi.io/fabric", ("0",)),
    ]
    assert board.wait(3600) == []
    board.verified()


def test_a_change_of_one_count_is_one_write_and_no_new_generation() -> None:
    board = usual(130)
    assert [len(one.devices) for one in board.live()] == [128, 2]
    board.stock(131)
    assert board.write() == 1
    board.stock(130)
    assert board.write() == 1
    assert {one.generation for one in board.live()} == {1}
    board.verified()


def test_another_slice_more_raises_the_generation_of_all() -> None:
    board = usual(128)
    board.stock(129)
    assert board.write() == 2
    assert {(one.generation, one.slices) for one in board.live()} == {(2, 2)}


def test_an_empty_pool_keeps_one_slice_and_its_generation() -> None:
    board = usual(1)
    board.stock(0)
    assert board.write() == 1
    assert [(one.devices, one.generation) for one in board.live()] == [((), 1)]
    board.stock(2)
    assert board.write() == 1
    assert board.names() == ["nvidia-a100-0", "nvidia-a100-1"]


def test_a_claim_from_allocation_to_release_costs_one_write_and_never_loses_its_device() -> None:
    board = usual(4)
    assert published(board.claim("a", "n1", "nvidia-a100-3")) == []
    board.resource("x", "n1", "Attaching")
    assert published(board.stock(3)) == [], "the fabric counts the device out before the operator knows which it is"
    board.resource("x", "n1", "Online", "GPU-1")
    board.local("n1", gpu_0="GPU-1")
    assert board.names() == [f"nvidia-a100-{n}" for n in range(4)]
    moved = published(board.claim("a", "n1", "gpu-0", pool="n1"))
    assert [one.slices[0].devices for one in moved] == [("nvidia-a100-0", "nvidia-a100-1", "nvidia-a100-2")]
    assert board.write() == 1
    board.gone(Claim, "c-a")
    board.resource("x", "n1", "Detaching", "GPU-1")
    board.stock(4)
    assert board.write() == 1
    assert len(board.names()) == 4
    board.verified()


@pytest.mark.parametrize("first", ["count", "resource"])
def test_whichever_is_seen_first_nothing_is_offered_twice(first: str) -> None:
    board = usual(1)
    board.claim("a", "n1", "nvidia-a100-0")
    board.resource("x", "n1", "Attaching")
    if first == "count":
        board.stock(0)
        board.write()
    board.resource("x", "n1", "Online", "GPU-1")
    board.write()
    board.stock(0)
    board.write()
    assert board.names() == ["nvidia-a100-0"]


def test_a_device_that_idles_on_the_node_of_the_claim_leaves_the_pool_to_others() -> None:
    board = usual(2)
    board.resource("x", "n1", "Online", "GPU-1")
    board.local("n1", gpu_0="GPU-1")
    board.claim("a", "n1", "nvidia-a100-0")
    board.write()
    assert len(board.names()) == 2, "nobody knows whether the fabric has counted the idle device"
    board.stock(2)
    board.write()
    assert len(board.names()) == 3, "one is held and will be served by the idle device; two are free"


def test_a_device_under_a_claim_that_its_driver_lists_no_more_is_not_counted_for_another_claim() -> None:
    board = usual(0)
    board.resource("x", "n1", "Online", "GPU-1")
    board.local("n1", gpu_0="GPU-1")
    board.claim("a", "n1", "gpu-0", pool="n1")
    board.local("n1")
    board.claim("b", "n1", "nvidia-a100-0")
    board.stock(1)
    board.write()
    assert len(board.names()) == 1, "b waits for the one that is free"


def test_what_claims_give_back_is_not_offered_before_the_fabric_was_asked_whether_it_is_there() -> None:
    """Two claims wait, both devices arrive and are handed over: the last count is from before, and its devices are gone."""
    board = usual(2)
    for name, number in (("a", 0), ("b", 1)):
        board.claim(name, "n1", f"nvidia-a100-{number}")
        board.resource(name, "n1", "Attaching")
        board.resource(name, "n1", "Online", f"GPU-{name}")
    board.local("n1", gpu_a="GPU-a", gpu_b="GPU-b")
    for name in ("a", "b"):
        board.claim(name, "n1", f"gpu-{name}", pool="n1")
        board.write()
        assert len(board.names()) == (1 if name == "a" else 0)
    board.stock(0)
    board.write()
    assert board.names() == []
    board.stock(1)
    board.write()
    assert board.names() == ["nvidia-a100-0"]
    board.verified()


def test_the_same_count_after_an_arrival_is_news() -> None:
    board = usual(1)
    board.claim("a", "n1", "nvidia-a100-0")
    board.resource("x", "n1", "Online", "GPU-1")
    board.local("n1", gpu_0="GPU-1")
    board.claim("a", "n1", "gpu-0", pool="n1")
    board.write()
    assert board.names() == []
    board.stock(1)
    board.write()
    assert board.names() == ["nvidia-a100-0"], "another device came back meanwhile"
    assert board.stock(1) == [] and not board.state.in_doubt("0", A100.model)


def test_shares_of_one_device_hold_one_device() -> None:
    board = usual(2)
    board.claim("a", "n1", "nvidia-a100-0")
    board.claim("b", "n1", "nvidia-a100-0")
    board.write()
    assert len(board.names()) == 2


def test_the_lowest_free_number_comes_back_first() -> None:
    board = usual(4)
    board.claim("a", "n1", "nvidia-a100-3")
    board.resource("x", "n1", "Online", "GPU-1")
    board.stock(1)
    board.write()
    assert board.names() == ["nvidia-a100-0", "nvidia-a100-3"]
    board.stock(2)
    board.write()
    assert board.names() == ["nvidia-a100-0", "nvidia-a100-1", "nvidia-a100-3"]


def test_devices_that_the_fabric_names_have_names_of_their_own() -> None:
    board = usual(0, models=(A100,))
    devices = tuple(FreeDevice(one) for one in ("slot-b", "slot-a", "GPU UUID/17"))
    board.stock(3, devices=devices)
    board.write()
    before = set(board.names())
    assert {"nvidia-a100-slot-a", "nvidia-a100-slot-b"} < before
    board.claim("a", "n1", "nvidia-a100-slot-b")
    board.stock(2, devices=devices[1:])
    board.write()
    assert "nvidia-a100-slot-b" in board.names(), "a claim holds it"
    board.gone(Claim, "c-a")
    board.write()
    assert set(board.names()) == before - {"nvidia-a100-slot-b"}


def test_a_named_device_that_is_not_healthy_goes_unless_it_is_held() -> None:
    board = usual(0)
    board.stock(2, devices=(FreeDevice("a"), FreeDevice("b")))
    board.write()
    board.claim("x", "n1", "nvidia-a100-a")
    board.stock(2, devices=(FreeDevice("a", healthy=False), FreeDevice("b", healthy=False)))
    board.write()
    assert board.names() == ["nvidia-a100-a"]


def test_an_inventory_that_counts_everything_is_lessened_by_what_is_attached() -> None:
    board = usual(0)
    board.stock(4, whole=True)
    board.write()
    assert len(board.names()) == 4
    board.claim("a", "n1", "nvidia-a100-0")
    board.resource("x", "n1", "Attaching")
    board.resource("x", "n1", "Online", "GPU-1")
    board.write()
    assert len(board.names()) == 4
    board.local("n1", gpu_0="GPU-1")
    board.claim("a", "n1", "gpu-0", pool="n1")
    board.write()
    assert len(board.names()) == 3


def test_pool_devices_are_never_called_as_a_vendor_calls_its_own() -> None:
    gpu = replace(A100, device="gpu")
    board = usual(2, models=(gpu,))
    assert board.names((DRIVER, "gpu-fabric0")) == ["gpu-pool-0", "gpu-pool-1"]
    other = PublisherWorld(models=(A100,))
    other.nodes("0", "n1")
    other.local("n1", nvidia_a100_0="GPU-1")
    other.stock(1)
    other.synced()
    other.write()
    assert other.names() == ["nvidia-a100-pool-0"]


def test_a_count_beyond_belief_changes_nothing_and_is_told_each_time_it_comes() -> None:
    board = usual(4)
    for _ in range(2):
        decided = board.stock(10_000)
        assert published(decided) == [] and alerts(decided) == ["StockBeyondBelief"]
        assert board.stock(10_001) == []
        assert len(board.names()) == 4
        board.stock(4)
    assert board.write() == 0
    board.stock(1_000)
    board.write()
    assert len(board.names()) == 1_000
    board.verified()


def test_a_first_count_beyond_belief_publishes_nothing() -> None:
    board = usual(50, policy={"pool_devices": 10})
    assert board.live() == []
    (told,) = [one for one in board.decided if isinstance(one, e.Alerted)]
    assert "says that 50 of NVIDIA A100 are free, more than pool_devices (10)" in told.text


# -- cooling ----------------------------------------------------------------------------------------------------------------


def test_two_drivers_have_pools_of_their_own() -> None:
    nic = model_named("ConnectX 7", 2, driver="nic.example.com")
    board = usual(1, models=(A100, nic))
    board.stock(2, model=nic)
    board.write()
    assert board.names(("nic.example.com", "connectx-7-fabric0")) == ["connectx-7-0", "connectx-7-1"]


def test_a_device_in_use_is_not_what_a_waiting_claim_will_get() -> None:
    board = usual(2)
    board.resource("x", "n1", "Online", "GPU-1")
    board.local("n1", gpu_0="GPU-1")
    board.claim("user", "n1", "gpu-0", pool="n1")
    board.claim("waiting", "n1", "nvidia-a100-0")
    board.write()
    assert len(board.names()) == 2, "the device on the node is taken: the claim still needs one of the two"


def test_a_device_on_its_way_back_serves_nobody() -> None:
    board = usual(2)
    board.resource("x", "n1", "Detaching", "GPU-1")
    board.claim("waiting", "n1", "nvidia-a100-0")
    board.write()
    assert len(board.names()) == 2


def test_an_order_that_is_taken_back_brings_nobody_a_device() -> None:
    board = usual(4)
    board.resource("x", "n1", "Attaching")
    board.claim("a", "n1", "nvidia-a100-0")
    board.write()
    assert len(board.names()) == 4
    board.see(replace(board.state.cluster.resources.rows["r-x"], deleting=True))
    board.stock(3)
    board.write()
    assert board.names() == ["nvidia-a100-0", "nvidia-a100-1", "nvidia-a100-2"], (
        "one is held, and two are promised to nobody"
    )


def test_a_device_that_may_be_counted_still_is_offered_to_nobody_else_before_the_fabric_was_asked_again() -> None:
    board = usual(3)
    board.resource("x", "n1", "Attaching")
    assert published(board.stock(4)) == [], "the fourth may be the one that is being attached"
    assert published(board.resource("x", "n1", "Online", "GPU-1")) == [], "or the one that has arrived"
    board.stock(4)
    board.write()
    assert len(board.names()) == 4


def test_a_slice_that_is_right_but_carries_nobodys_mark_gets_ours() -> None:
    board = usual(2, policy={"adopt": "reference"})
    (one,) = board.live()
    board.see(replace(one, owner=""))
    assert board.write() == 1
    assert [one.owner for one in board.live()] == ["dds-publisher"]


def test_named_devices_that_are_listed_stay_before_others_come() -> None:
    board = usual(0)
    board.stock(2, devices=(FreeDevice("x"), FreeDevice("y")))
    board.write()
    board.resource("r", "n1", "Attaching")
    board.claim("a", "n1", "nvidia-a100-y")
    board.stock(2, devices=(FreeDevice("a"), FreeDevice("x")))
    board.write()
    assert set(board.names()) >= {"nvidia-a100-x", "nvidia-a100-y"}
