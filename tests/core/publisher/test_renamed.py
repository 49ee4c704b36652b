"""A model that gets another name for its pools, or another driver, while claims hold devices under the old one."""

import pytest
from msgspec.structs import replace

from dds_core.model import Claim
from dds_core.publisher.model import PoolConfig, PoolKey, PoolModel
from tests.support.publisher_world import A100, A100_0, DRIVER, PublisherWorld, usual

OTHER_NAME = (replace(A100, device="ampere"), (DRIVER, "ampere-fabric0"))
OTHER_DRIVER = (replace(A100, driver="gpu.example.com"), ("gpu.example.com", "nvidia-a100-fabric0"))


@pytest.mark.parametrize(("model", "key"), [OTHER_NAME, OTHER_DRIVER])
def test_what_is_promised_under_the_old_name_is_not_offered_under_the_new(model: PoolModel, key: PoolKey) -> None:
    board = usual(3)
    board.claim("a", "n1", "nvidia-a100-0")
    board.claim("b", "n2", "nvidia-a100-1")
    board.see(PoolConfig("config", models=(model,)))
    board.write()
    assert board.names() == ["nvidia-a100-0", "nvidia-a100-1"], "held, so there as long as they are"
    assert len(board.names(key)) == 1, "of three devices two are promised"
    board.gone(Claim, "c-a")
    board.write()
    assert (len(board.names()), len(board.names(key))) == (1, 2), "what was never attached is free again"
    board.verified()


@pytest.mark.parametrize(("model", "key"), [OTHER_NAME, OTHER_DRIVER])
def test_the_old_pool_goes_with_the_last_claim_and_the_new_one_has_all(model: PoolModel, key: PoolKey) -> None:
    board = usual(2)
    board.claim("a", "n1", "nvidia-a100-0")
    board.see(PoolConfig("config", models=(model,)))
    board.write()
    board.gone(Claim, "c-a")
    board.write()
    board.stock(1)
    board.stock(2)
    board.write()
    assert board.live(A100_0) == [] and len(board.names(key)) == 2
    board.verified()


def test_a_vendor_that_lists_a_name_like_the_pools_later_renames_no_device() -> None:
    board = usual(2)
    board.local("n1", nvidia_a100_0="GPU-1")
    board.stock(3)
    board.write()
    assert board.names() == ["nvidia-a100-0", "nvidia-a100-1", "nvidia-a100-2"]


def test_nor_does_one_that_lists_it_no_more() -> None:
    board = PublisherWorld()
    board.nodes("0", "n1")
    board.local("n1", nvidia_a100_0="GPU-1")
    board.stock(1)
    board.synced()
    board.write()
    board.local("n1")
    board.stock(2)
    board.write()
    assert board.names() == ["nvidia-a100-pool-0", "nvidia-a100-pool-1"]
