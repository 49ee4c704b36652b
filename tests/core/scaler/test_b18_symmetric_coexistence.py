"""B18: only one of two lists of cannot-coexist-with was read, so that it depended on who came first.

Here two models exclude each other when either names the other, for orders, for labels and for failures.
"""

import pytest
from msgspec.structs import replace

from dds_core.model import Model
from dds_core.scaler import events as e
from tests.support.world import A100, H100, World

A_NAMES_H = (replace(A100, conflicts=(2,)), H100)
H_NAMES_A = (A100, replace(H100, conflicts=(1,)))


@pytest.mark.parametrize("models", [A_NAMES_H, H_NAMES_A], ids=["first names second", "second names first"])
@pytest.mark.parametrize("there", [0, 1], ids=["A100 there", "H100 there"])
def test_b18_whoever_names_whom_and_whoever_comes_first(models: tuple[object, ...], there: int) -> None:
    world = World("attach", models=models, scan_interval_seconds=0)  # type: ignore[arg-type]
    world.node("node0")
    first, second = (A100, H100) if there == 0 else (H100, A100)
    for model in (A100, H100):
        world.pool(model, 4)
    world.online("res", "node0", first, request="other")
    label = world.events(e.NodeLabelled)[0]
    assert label.labels == {f"cohdi.io/{second.device}": None}
    world.waits("train", "node0", (second, 1))
    failed = world.only(e.ClaimFailed)
    assert (failed.reason, failed.model) == ("Coexistence", second.model)
    assert not world.events(e.AttachOrdered)


@pytest.mark.parametrize("models", [A_NAMES_H, H_NAMES_A], ids=["first names second", "second names first"])
@pytest.mark.parametrize("first", [A100, H100], ids=["A100 first", "H100 first"])
def test_b18_two_claims_that_are_looked_at_together(models: tuple[object, ...], first: Model) -> None:
    """As at a start, when both wait already: the older one is served."""
    world = World("attach", models=models, scan_interval_seconds=0, synced=False)  # type: ignore[arg-type]
    world.node("node0")
    for model in (A100, H100):
        world.pool(model, 4)
    world.waits("older", "node0", (first, 1))
    world.waits("younger", "node0", (H100 if first is A100 else A100, 1))
    world.feed(e.Synced())
    assert world.only(e.AttachOrdered).model == first.model
    failed = world.only(e.ClaimFailed)
    assert (failed.claim, failed.reason) == (world.uid("younger"), "Coexistence")


def test_b18_the_label_comes_back_when_the_rival_is_gone() -> None:
    world = World("attach", models=H_NAMES_A, scan_interval_seconds=0)
    world.node("node0")
    world.online("res", "node0", A100)
    world.carry_out()
    world.take_away("res")
    assert world.events(e.NodeLabelled)[-1].labels == {"cohdi.io/nvidia-h100-80": "true"}


def test_b18_a_device_that_no_resource_names_counts_too() -> None:
    """One that is built in, or that the operator attached and lost sight of."""
    world = World("attach", models=A_NAMES_H, scan_interval_seconds=0)
    world.node("node0")
    world.pool(H100, 4)
    world.plug("node0", "gpu-0", "GPU-fixed", A100)
    assert world.events(e.NodeLabelled)[-1].labels == {"cohdi.io/nvidia-h100-80": None}
    world.carry_out()
    world.waits("train", "node0", (H100, 1))
    assert world.only(e.ClaimFailed).reason == "Coexistence"
    assert not world.events(e.AttachOrdered)


def test_b18_the_label_comes_back_when_a_device_that_no_resource_names_is_gone() -> None:
    world = World("attach", models=A_NAMES_H, scan_interval_seconds=0)
    world.node("node0")
    world.plug("node0", "gpu-0", "GPU-fixed", A100)
    world.carry_out()
    world.unplug("node0", "gpu-0")
    assert world.events(e.NodeLabelled)[-1].labels == {"cohdi.io/nvidia-h100-80": "true"}
