"""What a claim is about to give back is closed: told that its device is there, or that there is none, it will be allocated anew,
and the name that it lets go stands for nothing any more. Whoever waits would take it before the publisher could withdraw it."""

from __future__ import annotations

from msgspec.structs import replace

from dds_core.events import Capabilities, Decision
from dds_core.model import FAILED_CONDITION, RESCHEDULE, Allocation, Claim, Condition, Result
from dds_core.publisher.describe import BINDING, FAILURE, READY, devices_of, let_go
from dds_core.publisher.model import SLICE_DEVICES
from tests.support.publisher_world import A100, A100_0, DRIVER, PublisherWorld, published, usual

POOL = A100_0[1]


def told(board: PublisherWorld, name: str, number: int, type: str) -> list[Decision]:
    """The claim of that name, on the pool's device of that number, has been told so."""
    result = Result("gpu", DRIVER, POOL, f"nvidia-a100-{number}", BINDING, FAILURE)
    conditions = (Condition(DRIVER, POOL, f"nvidia-a100-{number}", type, "True"),)
    return board.see(Claim(f"c-{name}", "default", name, allocation=Allocation((result,), "n1"), conditions=conditions))


def closed(board: PublisherWorld) -> list[str]:
    """The devices of the pool that carry a taint of their own."""
    row = board.state.pools.get(A100_0)
    assert row is not None
    found = []
    for one in row.slices:
        for device in devices_of(row.model, one.devices, row.taint, one.closed, row.prefix):
            found += [device["name"] for taint in device.get("taints", ()) if taint["key"] == let_go("cohdi.io")]
    return found


def test_the_device_of_a_claim_that_is_handed_over_is_closed_and_gone_once_it_is_let_go() -> None:
    board = usual(2)
    board.claim("a", "n1", "nvidia-a100-1")
    board.resource("x", "n1", "Attaching")
    board.resource("x", "n1", "Online", "GPU-1")
    board.stock(1)
    assert len(published(told(board, "a", 1, RESCHEDULE))) == 1
    assert board.write() == 1
    assert closed(board) == ["nvidia-a100-1"]
    assert board.names() == ["nvidia-a100-0", "nvidia-a100-1"], "it is there for as long as the claim holds it"
    board.local("n1", gpu_0="GPU-1")
    board.claim("a", "n1", "gpu-0", pool="n1")
    assert board.write() == 1
    assert (board.names(), closed(board)) == (["nvidia-a100-0"], [])
    board.verified()


def test_the_device_of_a_claim_that_failed_is_closed_until_it_is_known_to_be_free() -> None:
    board = usual(2)
    board.claim("a", "n1", "nvidia-a100-0")
    told(board, "a", 0, FAILED_CONDITION)
    board.write()
    assert closed(board) == ["nvidia-a100-0"]
    board.gone(Claim, "c-a")
    board.write()
    assert (board.names(), closed(board)) == (["nvidia-a100-0", "nvidia-a100-1"], [])


def test_a_device_that_its_claim_keeps_is_not_closed() -> None:
    board = usual(2)
    board.claim("a", "n1", "nvidia-a100-0")
    assert published(told(board, "a", 0, READY)) == []


def test_nothing_is_closed_where_taints_are_dropped_or_the_slice_has_no_room_for_them() -> None:
    board = usual(1)
    board.feed(Capabilities(device_taints=False))
    board.claim("a", "n1", "nvidia-a100-0")
    assert published(told(board, "a", 0, RESCHEDULE)) == []
    large = usual(SLICE_DEVICES)
    large.claim("a", "n1", "nvidia-a100-0")
    assert published(told(large, "a", 0, RESCHEDULE)) == []
    assert [len(one.devices) for one in large.live()] == [SLICE_DEVICES]


def test_a_pool_that_cools_down_has_its_taint_alone() -> None:
    board = usual(2)
    (host, *_) = board.state.cluster.hosts.rows.values()
    board.claim("a", "n1", "nvidia-a100-0")
    told(board, "a", 0, RESCHEDULE)
    board.write()
    board.see(type(host)(host.uid, host.name, host.machine, {**host.labels, "cohdi.io/nvidia-a100-cooling": "true"}))
    board.write()
    row = board.state.pools.get(A100_0)
    assert row is not None
    devices = devices_of(A100, row.names, row.taint, row.slices[0].closed, row.prefix)
    assert [[taint["key"] for taint in one["taints"]] for one in devices] == [["cohdi.io/cooling"]] * 2


def test_a_shared_device_is_not_closed_for_one_of_its_claims() -> None:
    board = usual(2, models=(replace(A100, shared=True),))
    board.claim("a", "n1", "nvidia-a100-0")
    board.claim("b", "n1", "nvidia-a100-0")
    board.write()
    assert published(told(board, "a", 0, RESCHEDULE)) == []
