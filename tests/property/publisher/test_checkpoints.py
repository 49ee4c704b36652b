"""A publisher that goes on from a checkpoint, wherever that was made: it knows, waits for and decides what it would have."""

from __future__ import annotations

from random import Random

import pytest

from dds_core.engine import EngineOf
from dds_core.model import Claim
from dds_core.publisher import events as e
from dds_core.publisher.deadlines import deadlines
from dds_core.publisher.model import Machine, PoolConfig, PoolSlice
from dds_core.publisher.state import dump, load
from tests.support.publisher_world import A100, H100, PUBLISHER, PublisherWorld

NODES = {"n1": "0", "n2": "0", "n3": "00"}
MODELS = ((A100,), (A100, H100), (H100,))


def something(board: PublisherWorld, random: Random) -> None:
    """One of the things that may happen to a publisher."""
    node = random.choice(list(NODES))
    match random.randrange(13):
        case 0:
            board.stock(random.randrange(8), random.choice(["0", "00"]), random.choice([A100, H100]))
        case 1:
            board.write(observed=random.random() < 0.8)
        case 2 if names := board.names():
            board.claim(random.choice("abcdef"), node, random.choice(names))
        case 3:
            board.gone(Claim, f"c-{random.choice('abcdef')}")
        case 4:
            state = random.choice(["Attaching", "Online", "Detaching"])
            board.resource(random.choice("xyz"), node, state, random.choice(["", "GPU-1", "GPU-2"]))
        case 5:
            board.wait(random.choice([1, 31, 70, 400]))
        case 6:
            board.feed(e.MachineGone(f"m-{node}"))
        case 7:
            board.feed(e.MachineObserved(Machine(f"m-{node}", node, random.choice(["0", "00", ""]))))
        case 8:
            prefix, mode = random.choice(["cohdi.io", "example.com"]), random.choice(["", "", "observe"])
            board.see(PoolConfig("config", prefix, random.choice(MODELS), mode))
        case 9 if slices := list(board.state.cluster.slices):
            board.gone(PoolSlice, random.choice(slices))
        case 10:
            of = "pool/gpu.nvidia.com/nvidia-a100-fabric0"
            board.feed(e.WriteRefused("d", "PoolPublished", of, 403, "Forbidden"))
        case 11:
            board.restart()
        case 12:
            board.feed(e.FabricFailed(random.choice(["machines", "limits/m-n1", "stock/0/NVIDIA A100"]), "no"))


@pytest.mark.parametrize("seed", range(12))
def test_a_checkpoint_anywhere_changes_nothing(seed: int) -> None:
    random = Random(seed)
    board = PublisherWorld(models=(A100, H100), policy={"pool_devices": 20})
    for node, fabric in NODES.items():
        board.nodes(fabric, node)
    board.stock(3)
    board.stock(2, "00")
    board.stock(2, model=H100)
    board.synced()
    for _ in range(60):
        something(board, random)
        again = load(dump(board.state))
        assert dump(again) == dump(board.state)
        due = deadlines(board.state)
        assert deadlines(again) == due and all(board.engine.deadline_queue.has(one) for one in due)
        if random.random() < 0.1:
            board.engine = EngineOf(PUBLISHER, again)
    board.verified()
