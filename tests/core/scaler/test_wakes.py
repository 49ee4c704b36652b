"""What a change wakes is enough: a pass over everything finds nothing after any group (`tests/support/passes.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from dds_adapters.jsonl import JsonlLog
from dds_core.model import AttachRequest, Claim, FabricResource, Pod, Taint, TaintRule
from dds_core.scaler import events as e
from dds_core.scaler.component import Engine
from tests.core.golden.replays import ALL, DATA, replayed
from tests.support.passes import nothing_left, play_stream, stepped
from tests.support.world import A100, GPU, H100, World, one_node

LOGS = sorted((DATA / "logs").glob("*-scaler.log.jsonl.gz"))
A_TURN = 20
"""Streams that one test plays."""


@pytest.mark.parametrize("name", ALL)
def test_a_pass_finds_nothing_in_a_recording(name: str) -> None:
    engine = Engine()
    for step in replayed(name, engine=engine):
        nothing_left(engine, step)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name.partition(".")[0])
def test_a_pass_finds_nothing_in_a_log(path: Path) -> None:
    for engine, step in stepped(JsonlLog(str(path)).read()):
        nothing_left(engine, step)


@pytest.mark.parametrize(
    "first",
    [
        *range(0, 100, A_TURN),
        *(pytest.param(n, marks=pytest.mark.full) for n in range(100, 500, A_TURN)),
        *(pytest.param(n, marks=pytest.mark.soak) for n in range(500, 3000, A_TURN)),
    ],
)
def test_a_pass_finds_nothing_in_random_streams(first: int) -> None:
    for seed in range(first, first + A_TURN):
        play_stream(seed)


# --- marks that were once too narrow: what waits is decided at once, without a level pass -------------------------------


def test_a_sibling_that_goes_settles_the_claims_of_a_device_that_is_kept_from_then_on() -> None:
    world = one_node("detach", scan_interval_seconds=0, limit={"min": 1})
    world.request("ours", "node0", size=2, labels={"app.kubernetes.io/managed-by": "dds"})
    for name in ("res0", "res1"):
        world.online(name, "node0", request="ours")
    world.update(world.get(AttachRequest, "ours"), state="Running", acted_size=2)
    world.holds("train", "node0", "gpu-GPU-res0")
    world.bind("train")
    world.finish("train")
    assert world.state_of("train") == "Detaching"
    world.resource("res1", "node0", deleting=True)
    settled = [m for m in world.events(e.ClaimMoved) if m.trigger == "settled"]
    assert [m.cause for m in settled] == ["its device is kept by policy"]


RIVALS = (replace(A100, conflicts=(H100.index,)), H100)


def test_a_departed_device_that_comes_to_another_node_is_fixed_where_it_is_listed_still() -> None:
    """So no rival of its model may come there."""
    world = World("attach", models=RIVALS, scan_interval_seconds=0)
    world.node("node0")
    world.node("node1")
    world.online("res1", "node1", uuid="GPU-0")
    world.gone(world.get(FabricResource, "res1"))
    labels = world.events(e.NodeLabelled)
    assert (labels[-1].node, labels[-1].labels) == ("node1", {f"cohdi.io/{H100.device}": "true"})
    world.resource("res0", "node0", state="Attaching", uuid="GPU-0")
    assert len(labels) + 2 == len(world.events(e.NodeLabelled))
    for one, node in zip(world.events(e.NodeLabelled)[-2:], ("node0", "node1"), strict=True):
        assert (one.node, one.labels) == (node, {f"cohdi.io/{H100.device}": None})


def test_a_leaving_device_has_left_as_soon_as_another_node_lists_it() -> None:
    world = World("attach", models=RIVALS, scan_interval_seconds=0)
    world.node("node0")
    world.node("node1")
    world.online("res1", "node1", uuid="GPU-0")
    world.resource("res1", "node1", state="Detaching", deleting=True)
    world.unplug("node1", "gpu-GPU-0")
    before = len(world.events(e.NodeLabelled))
    world.plug("node0", "gpu-0", "GPU-0")
    labels = world.events(e.NodeLabelled)[before:]
    assert ("node1", {f"cohdi.io/{H100.device}": "true"}) in [(one.node, one.labels) for one in labels]


def test_a_write_that_succeeds_after_its_refusal_lets_the_next_be_decided() -> None:
    """Two were on their way; the second is refused first, and its pause ends with the first."""
    world = World("attach", scan_interval_seconds=0)
    world.node("node0", labels={f"cohdi.io/{A100.device}": ""})
    (label,) = world.events(e.NodeLabelled)
    world.refused(label)
    assert world.events(e.NodeLabelled) == [label]
    world.done(label)
    assert world.events(e.NodeLabelled) == [label, label]


def test_a_rule_for_a_node_that_lists_nothing_yet_is_a_reason_for_the_claims_that_wait_there() -> None:
    world = World("observe", scan_interval_seconds=0)
    world.node("node0")
    world.pool(A100, 1)
    world.waits("train", "node0", (A100, 1))
    assert not world.events(e.ClaimFailed)
    world.observe(TaintRule("rule", "rule", driver=GPU, pool="node0", taint=Taint("x", effect="NoSchedule")))
    assert world.only(e.ClaimFailed).reason == "DeviceUnsuitable"


def test_an_order_is_withdrawn_where_a_claim_has_no_node_any_more() -> None:
    """A pool device without a node of its own is wanted where its pod is; the pod is gone, and it stands allocated."""
    world = World("attach", scan_interval_seconds=0, exchange=True)
    world.node("node0")
    world.pool(A100, 1)
    world.claim("train")
    world.update(world.get(Pod, "train"), node="node0")
    world.allocate("train", "node0", (A100, 1))
    claim = world.get(Claim, "train")
    assert claim.allocation is not None
    world.update(claim, allocation=replace(claim.allocation, node=""))
    assert world.only(e.AttachOrdered).size == 1
    world.gone(world.get(Pod, "train"))
    assert [one.size for one in world.events(e.AttachOrdered)] == [1, 0]


def test_who_takes_a_device_that_is_unexplained_on_another_node_is_told() -> None:
    world = World("attach", scan_interval_seconds=0)
    world.node("node0")
    world.node("node1")
    world.request("ours", "node0")
    world.plug("node0", "gpu-0", "GPU-0")
    world.plug("node1", "gpu-0", "GPU-0")
    world.holds("train", "node1", "gpu-0")
    told = [one.of for one in world.events(e.Alerted) if one.reason == "DeviceUnexplained"]
    assert told == ["GPU-0", world.uid("train")]
