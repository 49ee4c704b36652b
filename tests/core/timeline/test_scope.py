"""What concerns whom: facts and decisions that only some timelines tell."""

from __future__ import annotations

from dds_core import events as e
from dds_core.log.envelope import LeanEvent
from dds_core.model import Allocation, Claim, DeviceClass, FabricResource, Node, Pod, Result
from dds_core.replay import of_steps
from dds_core.scaler.timeline import Directory, naming, timeline
from dds_core.timeline import Entry
from tests.support.world import A100, READY, World, one_node


def waiting(mode: str = "attach") -> World:
    world = one_node(mode, 4, scan_interval_seconds=0)
    world.waits("train", "node0")
    return world


def told(world: World, text: str) -> list[str]:
    """Every note and decision of a subject's timeline."""
    moments = list(of_steps(world.steps))
    entries: list[Entry] = list(timeline(moments, Directory().read(moments).find(text)))
    return [text for entry in entries for text in (entry.cause, *(note.text for note in entry.notes))]


def test_a_rejected_field_of_the_claim_is_told() -> None:
    world = waiting()
    world.feed(e.Rejected("ResourceClaim", world.uid("train"), "train", "status", "is odd", "default"))
    world.feed(e.Rejected("ResourceClaim", "other", "other", "status", "is odd", "default"))
    found = told(world, "default/train")
    assert "ResourceClaim default/train is not as expected: status is odd" in found
    assert not [text for text in found if "default/other" in text]


def test_what_the_scaler_itself_went_through_is_told_while_the_claim_lives() -> None:
    world = waiting()
    world.feed(e.Stale("pods", 90))
    world.feed(e.Synced())
    found = told(world, "default/train")
    assert "nothing was heard of pods for 90 s; deadlines wait" in found
    assert found.count("all resources were listed") == 1, "not the one before the claim was there"


def test_a_pod_that_is_only_reserved_for_or_owns_the_claim_is_told() -> None:
    world = waiting()
    claim = world.get(Claim, "train")
    world.observe(Pod("owner", "default", "owner", scheduler="s"))
    world.observe(Pod("stranger", "default", "stranger", scheduler="s"))
    world.update(claim, owner="owner", extended=True)
    world.update(world.get(Pod, "owner"), phase="Running", node="node0")
    world.update(world.get(Pod, "stranger"), phase="Running", node="node0")
    found = told(world, "default/train")
    assert "pod default/owner is bound to node0" in found
    assert not [text for text in found if "stranger" in text]


def test_the_neighbourhood_is_told_only_while_the_claim_waits() -> None:
    world = waiting("observe")
    world.node("node1")
    world.resource("elsewhere", "node1")
    world.resource("here", "node0")
    world.update(world.get(FabricResource, "here"), state="Attaching", error="no port")
    world.update(world.get(Node, "node0"), unschedulable=True)
    world.update(world.get(Node, "node1"), unschedulable=True)
    world.observe(DeviceClass("dc", "a100"))
    world.tick(20)
    world.finish("train")
    world.update(world.get(Node, "node0"), unschedulable=False)
    found = told(world, "default/train")
    assert any(text.startswith("resource here was made") for text in found)
    assert "its attach error has stood long enough to be definite (here)" in found
    assert "node node0 is cordoned" in found
    assert "node node0 is open for pods again" not in found
    assert not [text for text in found if "elsewhere" in text or "node1" in text]


def test_a_pool_that_shrinks_under_the_claim_is_told() -> None:
    world = waiting("observe")
    world.pool(A100, 2, generation=2)
    assert any("pool nvidia-a100-40-fabric1 no longer lists" in text for text in told(world, "default/train"))


def test_a_call_for_a_person_is_told_at_whom_it_is_about() -> None:
    world = waiting("observe")
    world.clear("train")
    lost = Allocation((Result("r0", A100.driver, f"{A100.device}-fabric1", f"{A100.device}-0", (READY,)),))
    world.update(world.get(Claim, "train"), allocation=lost)
    world.update(world.get(Pod, "train"), nominated="")
    assert world.events(e.Alerted)
    assert any("dds would call a person" in text for text in told(world, "default/train"))


def test_a_refused_mark_is_told_at_the_device() -> None:
    world = waiting("observe")
    world.resource("here", "node0", uuid="GPU-1", state="Online")
    world.feed(e.WriteRefused("id", "VictimMarked", "here", 409, "Conflict"))
    world.feed(e.WriteRefused("id", "VictimMarked", "other", 409, "Conflict"))
    found = told(world, "GPU-1")
    assert found.count("VictimMarked of here was refused: 409 Conflict") == 1
    assert not [text for text in found if "other" in text]


def test_a_node_tells_what_is_refused_or_due_there() -> None:
    world = waiting()
    world.feed(e.WriteRefused("id", "HandOver", world.uid("train"), 422, "Invalid"))
    world.feed(e.WriteRefused("id", "HandOver", "other", 422, "Invalid"))
    found = told(world, "node0")
    assert "HandOver of default/train was refused: 422 Invalid" in found
    assert not [text for text in found if "other" in text]


def test_a_second_cycle_begins_without_the_neighbours_of_the_first() -> None:
    world = waiting("observe")
    world.node("node1")
    world.unreserve("train")
    world.gone(world.get(Pod, "train"))
    world.clear("train")
    world.resource("late", "node0")
    world.pod("train", ["train"])
    world.allocate("train", "node1")
    assert not [text for text in told(world, "default/train") if "late" in text]


def test_only_rows_that_can_name_something_are_read_for_names() -> None:
    def row(kind: str, data: bytes | None) -> LeanEvent:
        return LeanEvent(1, "s", kind, 1, 0, None, None, data)

    rows = [
        row("ClaimObserved", b'{"uid":"c","changes":{"namespace":"ns","name":"train"}}'),
        row("ClaimObserved", b'{"uid":"c","changes":{"deleting":true}}'),
        row("ClaimObserved", None),
        row("FabricResourceObserved", b'{"uid":"r","changes":{"uuid":"GPU-1"}}'),
        row("FabricResourceObserved", b'{"uid":"r","changes":{"state":"Online"}}'),
        row("SliceObserved", b'{"uid":"s","changes":{}}'),
    ]
    assert list(naming(rows)) == [rows[0], rows[2], rows[3], rows[5]], "after an erased one a checkpoint has the names"
