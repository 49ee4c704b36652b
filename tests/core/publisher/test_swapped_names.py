"""Two models swap their k8s-device-name while claims hold devices under the old names: these stay described as they were taken,
and the pool is the other model's only when nobody holds any of them."""

from msgspec.structs import replace

from dds_core.model import Claim
from dds_core.publisher.model import PoolConfig
from tests.support.publisher_world import A100, A100_0, H100, PublisherWorld, published

SWAPPED = (replace(A100, device=H100.device), replace(H100, device=A100.device))


def held() -> PublisherWorld:
    board = PublisherWorld(models=(A100, H100))
    board.nodes("0", "n1")
    board.stock(2)
    board.stock(3, model=H100)
    board.synced()
    board.write()
    board.claim("train", "n1", "nvidia-a100-0")
    board.write()
    return board


def test_what_a_claim_holds_is_not_described_anew() -> None:
    board = held()
    decided = board.see(PoolConfig("config", models=SWAPPED))
    (one,) = (pool for pool in published(decided) if pool.pool == A100_0[1])
    assert (one.model, [found.devices for found in one.slices]) == (A100, [("nvidia-a100-0",)])
    (other,) = (pool for pool in published(decided) if pool.pool != A100_0[1])
    assert other.model == SWAPPED[0], "nobody holds anything of the other pool"
    board.write()
    board.verified()


def test_once_nobody_holds_any_the_pool_is_the_other_models() -> None:
    board = held()
    board.see(PoolConfig("config", models=SWAPPED))
    board.write()
    (one,) = (pool for pool in published(board.gone(Claim, "c-train")) if pool.pool == A100_0[1])
    assert one.model == SWAPPED[1]
    board.write()
    assert len(board.names()) == 3
    board.verified()
