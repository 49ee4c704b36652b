"""Timelines of a scaler that acts: what it decided, what came of it, and what somebody else did."""

from __future__ import annotations

from itertools import pairwise

from dds_core.model import AttachRequest, FabricResource, Node, Taint
from dds_core.replay import of_steps
from dds_core.scaler import events as e
from dds_core.scaler.timeline import Directory, timeline
from dds_core.timeline import Entry, path_diagram, render_text
from tests.support.world import World, one_node


def served(mode: str = "detach") -> World:
    """A claim that got its device, used it, let go of it; and the device that went back."""
    world = one_node(mode, 4, no_removal_seconds=20, scan_interval_seconds=0)
    world.waits("train", "node0")
    world.carry_out()
    world.operate()
    world.tick(1)
    world.carry_out()
    return world


def told(world: World, text: str) -> list[Entry]:
    moments = list(of_steps(world.steps))
    return list(timeline(moments, Directory().read(moments).find(text)))


def notes(entries: list[Entry], kind: str) -> list[str]:
    return [note.text for entry in entries for note in entry.notes if note.kind == kind]


def test_what_dds_ordered_is_no_act_of_somebody_else() -> None:
    entries = told(served(), "default/train")
    assert [e.target for e in entries if e.kind == "claim"][:3] == ["Pending", "Attaching", "Attached"]
    assert any(text.startswith("dds decided to make request dds-node0") for text in notes(entries, "decision"))
    assert any("set FabricDeviceReschedule" in text for text in notes(entries, "decision"))
    assert notes(entries, "act") == []


def test_what_somebody_else_ordered_is_an_act() -> None:
    world = served("observe")
    world.request("composability-x", "node0")
    assert "request composability-x was made: 1 of A100 40G for node0" in notes(told(world, "default/train"), "act")


def test_a_signal_that_dds_did_not_give_is_an_act() -> None:
    world = one_node("observe", 1, scan_interval_seconds=0)
    world.waits("train", "node0")
    world.condition("train", "FabricDeviceReschedule")
    entries = told(world, "default/train")
    assert entries[-1].cause.startswith("another client set condition FabricDeviceReschedule")
    assert any("FabricDeviceReschedule=True" in text for text in notes(entries, "act"))


def test_the_time_in_the_former_state_is_told() -> None:
    world = served()
    entries = [entry for entry in told(world, "default/train") if entry.kind == "claim"]
    assert entries[0].after is None
    for before, after in pairwise(entries):
        assert after.after == after.at - before.at


def test_a_device_is_told_by_uuid_resource_and_the_beginning_of_its_uuid() -> None:
    world = served()
    resource = next(iter(world.state.fleet.resources.rows.values()))
    whole = told(world, resource.uuid)
    assert whole == told(world, resource.name) == told(world, resource.uuid[:8])
    assert whole[0].source == "New"
    assert any("promise" in text for text in notes(whole, "decision"))


def test_a_victim_is_told_from_the_mark_to_the_pool() -> None:
    world = served()
    resource = next(iter(world.state.fleet.resources.rows.values()))
    world.finish("train")
    for _ in range(8):
        world.tick(30)
        world.carry_out()
        world.feed(e.ClaimsListed(resource=resource.uid, started=world.now))
        world.operate()
    entries = told(world, resource.uuid)
    assert [entry.target for entry in entries if entry.kind == "device"][-2:] == ["Detaching", "Gone"]
    decided = notes(entries, "decision") + [entry.cause for entry in entries if entry.kind == "decision"]
    assert any("mark " in text and "to go back to the pool" in text for text in decided)
    assert any(text.startswith("dds decided to list all claims") for text in decided)
    assert any("lower request" in text for text in decided)
    assert any("it has idled long enough" in text for text in notes(entries, "fact"))
    assert not [text for text in notes(entries, "act") if "marked" in text]


def test_a_mark_of_somebody_else_is_an_act() -> None:
    world = served("attach")
    resource = next(iter(world.state.fleet.resources.rows.values()))
    world.update(resource, marked=True)
    assert f"resource {resource.name} is marked to be detached" in notes(told(world, resource.uuid), "act")


def test_a_node_is_told_with_all_its_claims_and_devices() -> None:
    world = served()
    world.update(world.get(Node, "node0"), unschedulable=True, taints=(Taint("a", "b", "NoSchedule"),))
    entries = told(world, "node0")
    assert {"claim", "device"} <= {entry.kind for entry in entries}
    seen = notes(entries, "fact")
    assert "node node0 is cordoned" in seen
    assert "node node0 is tainted a=b:NoSchedule" in seen


def test_a_claim_of_another_node_is_not_told_at_this_one() -> None:
    world = served()
    world.node("node1")
    world.waits("other", "node1")
    assert {entry.name for entry in told(world, "node1") if entry.kind == "claim"} == {"default/other"}
    assert "default/other" not in {entry.name for entry in told(world, "node0")}


def test_a_claim_that_lands_elsewhere_is_told_at_both_nodes() -> None:
    world = served("observe")
    world.node("node1")
    world.clear("train")
    world.plug("node1", "gpu-7", "GPU-7")
    world.allocate_local("train", "node1", "gpu-7")
    for name in ("node0", "node1"):
        last = [entry for entry in told(world, name) if entry.kind == "claim"][-1]
        assert (last.trigger, last.cause) == ("allocated_local", "the scheduler chose gpu-7 on node1")
    world.bind("train")
    assert [entry.target for entry in told(world, "node1") if entry.kind == "claim"][-1] == "Bound"
    assert [entry.target for entry in told(world, "node0") if entry.kind == "claim"][-1] != "Bound"


def test_a_failed_attach_is_told_with_the_fabrics_words() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.waits("train", "node0")
    world.carry_out()
    request = world.only(e.AttachOrdered).request
    world.resource("res", "node0", request=request, state="Attaching", error="fabric manager: E02 no such port")
    world.tick(11)
    world.carry_out()
    entries = told(world, "default/train")
    assert any("reports: fabric manager: E02 no such port" in text for text in notes(entries, "fact"))
    failed = next(entry for entry in entries if entry.target == "Failed")
    assert "E02" in failed.cause
    decided = notes(entries, "decision")
    assert any(text.startswith("dds decided to give up this attempt of default/train") for text in decided)
    assert any("keep the scheduler from A100 40G on node0 until" in text for text in decided)


def test_a_refused_write_is_told() -> None:
    world = one_node("attach", 4, scan_interval_seconds=0)
    world.waits("train", "node0")
    request = world.only(e.AttachOrdered).request
    world.feed(
        e.WriteRefused(decision="x", action="AttachOrdered", target=request, code=403, reason="Forbidden", text="no")
    )
    assert f"AttachOrdered of {request} was refused: 403 Forbidden no" in notes(told(world, "default/train"), "fact")


def test_nothing_happens_to_what_is_only_there() -> None:
    world = World("observe")
    world.node("node0")
    world.claim("train")
    entries = told(world, "default/train")
    assert [entry.kind for entry in entries] == ["rest"]
    assert "claim default/train asks for" in entries[0].notes[0].text
    assert "no change since" in render_text(entries)


def test_the_path_is_drawn_with_every_change_in_order() -> None:
    entries = told(served(), "default/train")
    lines = path_diagram(entries).splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert lines[1].startswith("    [*] --> Pending: 1. ")
    assert len(lines) == 1 + len([entry for entry in entries if entry.trigger])
    assert all(line.count(":") == 1 for line in lines[1:])


def test_everything_at_once_names_who_it_is() -> None:
    world = served()
    entries = list(timeline(of_steps(world.steps)))
    text = render_text(entries, names=True)
    assert "claim default/train\n" in text
    assert "device GPU-" in text
    assert not [entry for entry in entries if entry.kind == "rest"]


def test_a_request_and_a_resource_keep_their_names_when_they_are_gone() -> None:
    world = served()
    resource = next(iter(world.state.fleet.resources.rows.values()))
    world.update(world.get(FabricResource, resource.name), uuid="")
    world.gone(world.get(FabricResource, resource.name))
    world.gone(world.get(AttachRequest, resource.request))
    last = [entry for entry in told(world, resource.uuid) if entry.kind == "device"][-1]
    assert (last.target, last.name) == ("Gone", resource.uuid)
