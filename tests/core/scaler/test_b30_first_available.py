"""B30: a claim allocated from the pool for its second choice is not reconsidered when a first choice is attached elsewhere.

That is recorded and not acted on: the alternatives and the choice are in the log, and the claim is served as allocated.
"""

from msgspec.structs import replace

from dds_core.model import Claim, ClaimRequest
from dds_core.scaler import events as e
from tests.core.scaler.pools import pool_results
from tests.support.world import A100, H100, World


def test_b30_the_choice_is_recorded_and_served_as_it_is() -> None:
    world = World("detach", no_removal_seconds=3600, scan_interval_seconds=0)
    world.node("node0")
    world.node("node1")
    world.pool(A100, 4)
    world.online("first-choice", "node1", H100)
    world.claim("train", requests=(ClaimRequest("gpu", ("h100-class", "a100-class")),))
    world.allocate("train", "node0", replace(pool_results(0)[0], request="gpu/a100"))
    claim = world.get(Claim, "train")
    facts = [step.fact for step in world.steps if isinstance(step.fact, e.ClaimObserved)]
    again = e.decode("ClaimObserved", e.encode(facts[0]))
    assert isinstance(again, e.ClaimObserved)
    assert again.changes.requests[0].classes == ("h100-class", "a100-class")
    assert claim.allocation is not None
    assert claim.allocation.results[0].request == "gpu/a100"
    world.settle()
    assert world.only(e.AttachOrdered).model == A100.model
    assert world.state("train") == "Attached"
    assert not world.decisions(e.ClaimFailed, e.VictimMarked)
    assert world.device("first-choice") == "Idle"
