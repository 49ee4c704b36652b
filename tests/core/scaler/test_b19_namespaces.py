"""B19: claims were compared by name without namespace, so that equal names in two namespaces skipped the check.

Here a claim is its uid, and the namespace is part of every name.
"""

from msgspec.structs import replace

from dds_core.scaler import events as e
from tests.support.world import A100, H100, World, one_node


def test_b19_equal_names_in_two_namespaces_do_not_hide_a_conflict() -> None:
    world = World("attach", models=(replace(A100, conflicts=(2,)), H100), scan_interval_seconds=0)
    world.node("node0")
    for model, namespace in ((A100, "red"), (H100, "blue")):
        world.pool(model, 4)
        world.waits(f"{namespace}/train", "node0", (model, 1))
    assert world.only(e.AttachOrdered).claims == ("uid-red-train",)
    assert (world.only(e.ClaimFailed).claim, world.only(e.ClaimFailed).reason) == ("uid-blue-train", "Coexistence")


def test_b19_a_pod_in_another_namespace_is_not_the_claims_pod() -> None:
    world = one_node("attach", 4)
    world.waits("red/train", "node0")
    world.pod("blue/train", ["train"])
    world.bind("blue/train", "node0")
    assert world.state_of("red/train") == "Attaching"
    world.settle()
    assert [s.claim for s in world.only(e.HandOver).signals] == ["uid-red-train"]
    assert world.only(e.HandOver).pod == "pod-red-train"
