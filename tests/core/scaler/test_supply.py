"""What a node has is handed out in one order, whatever order the rows are kept in: a replay has to find the same."""

from dds_core.model import AttachRequest
from dds_core.scaler.rules.assignment import cover
from tests.support.world import one_node


def test_devices_that_are_not_listed_yet_go_to_claims_by_their_age() -> None:
    world = one_node("attach", 12)
    names = [f"res{number}" for number in range(12)]
    for name in names:
        world.resource(name, "node0", state="Attaching", request="ours")
        world.resource(name, "node0", state="Online", uuid=f"GPU-{name}")
        world.tick(1)
    world.claim("train", 12)
    world.allocate("train", "node0")
    (covered,) = cover(world.picture, "node0")
    assert [uid for _, uid in covered.attaching] == names


def test_what_the_operator_is_about_to_take_is_handed_out_last_whoever_has_marked_it() -> None:
    world = one_node("detach", 8)
    world.request("ours", "node0", size=2, labels={"app.kubernetes.io/managed-by": "dds"})
    world.online("res0", "node0", request="ours")
    world.online("res1", "node0", request="ours")
    world.update(world.get(AttachRequest, "ours"), size=1)
    world.resource("res0", "node0", marked=True)
    world.waits("train", "node0")
    assert world.reserved("train") == ["GPU-res1"]
