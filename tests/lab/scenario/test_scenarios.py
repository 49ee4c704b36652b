"""Every scenario that comes with dds runs on virtual time; those of the recordings tell the recordings' stories.

A story leaves out names of nodes and instants: it is the sequence of a claim's allocations and ends, where each allocation is (in
a pool or on a node), of how many devices, and whether on the same node as the one before. Where nodes were equal, chance chose in
the recording too: so it is enough that one of a few seeds tells the same. Two recordings are too long for that and are compared
in numbers.

The recordings' operator was an ideal one, so what is compared with them plays it too (`as_recorded`); the other tests play the
real one.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes.recording import RecordedEvent, read_recording, replay_events
from dds_core.events import Rejected
from dds_core.scaler.policy import Policy
from dds_lab import shipped
from dds_lab.actors.objects import said
from dds_lab.lab import Lab
from dds_lab.record.recording_file import RecordingFile
from dds_lab.scenario import Scenario
from dds_lab.tally import Tally, moves
from tests.adapters.kubernetes.samples import BY_NAME
from tests.support.as_recorded import as_recorded


@dataclass
class Story:
    """`steps`: such as `pool 1`, `pool 1 elsewhere`, `node 2 same`, `cleared`, `given up`, `signal FabricDeviceReady`,
    `in use`, `gone`."""

    steps: list[str] = field(default_factory=list)
    node: str = ""

    def tell(self, step: str) -> None:
        self.steps.append(step)


def stories(events: Iterable[RecordedEvent]) -> dict[str, list[str]]:
    """By claim (a claim that was made for an extended resource: by its pod), what happened to it."""
    found: dict[str, Story] = {}
    seen: dict[str, dict[str, Any]] = {}
    pods: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.type == "BOOKMARK":
            continue
        obj = json.loads(event.raw)
        uid = obj["metadata"].get("uid", "")
        if event.resource == "resourceclaims":
            story = found.setdefault(_name(obj), Story())
            _claim(story, seen.get(uid), None if event.type == "DELETED" else obj)
            seen[uid] = obj
        elif event.resource == "pods":
            _pod(found, pods.get(uid), obj)
            pods[uid] = obj
    return {name: story.steps for name, story in sorted(found.items())}


def _name(claim: dict[str, Any]) -> str:
    owners = claim["metadata"].get("ownerReferences") or ()
    return str(next((owner["name"] for owner in owners if owner["kind"] == "Pod"), claim["metadata"]["name"]))


def _claim(story: Story, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
    if new is None:
        story.tell("gone")
        return
    before, after = _allocation(old), _allocation(new)
    if after is not None and after != before:
        results = after["devices"]["results"]
        where = "pool" if any(one.get("bindingConditions") for one in results) else "node"
        node = _node(after)
        moved = "" if not story.node else " same" if node == story.node else " elsewhere"
        story.node = node
        story.tell(f"{where} {len(results)}{moved}")
    if before is not None and after is None:
        story.tell("cleared")
    if after is not None and _reserved(old) and not _reserved(new):
        story.tell("given up")
    for type in sorted(_conditions(new) - _conditions(old)):
        story.tell(f"signal {type}")


def _pod(found: dict[str, Story], old: dict[str, Any] | None, new: dict[str, Any]) -> None:
    if new["spec"].get("nodeName") and not (old or {}).get("spec", {}).get("nodeName"):
        for claim in _claims_of(new):
            if claim in found:
                found[claim].tell("in use")


def _claims_of(pod: dict[str, Any]) -> list[str]:
    named = [one.get("resourceClaimName", "") for one in pod["spec"].get("resourceClaims") or ()]
    return named or [pod["metadata"]["name"]]


def _allocation(claim: dict[str, Any] | None) -> dict[str, Any] | None:
    found: dict[str, Any] | None = ((claim or {}).get("status") or {}).get("allocation")
    return found


def _reserved(claim: dict[str, Any] | None) -> bool:
    return bool(((claim or {}).get("status") or {}).get("reservedFor"))


def _conditions(claim: dict[str, Any] | None) -> set[str]:
    devices = ((claim or {}).get("status") or {}).get("devices") or ()
    return {one["type"] for device in devices for one in device.get("conditions") or () if one["status"] == "True"}


def _node(allocation: dict[str, Any]) -> str:
    for term in (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for one in term.get("matchFields") or ():
            return str(one["values"][0])
    return ""


IN_NUMBERS = {"burst", "node_limit"}
TOLD_ALIKE = sorted(set(BY_NAME) - IN_NUMBERS)
SHORT = sorted(set(shipped.names()) - {"day"})


class Kept(list[RecordedEvent]):
    """A sink that keeps everything."""

    def write(self, at: int, resource: str, type: str, obj: bytes) -> None:
        self.append(RecordedEvent(at, resource, type, obj))


def ran(scenario: Scenario, seed: int | None = None) -> tuple[Lab, Kept, Tally]:
    """A scenario after its end."""
    kept, tally = Kept(), Tally()
    with Lab.virtual(scenario, seed=seed, sink=kept) as lab:
        tally.follow(lab.client("tally"))
        lab.run()
    return lab, kept, tally


def test_there_is_a_scenario_for_every_recording() -> None:
    assert set(BY_NAME) <= set(shipped.names())


@pytest.mark.parametrize("name", TOLD_ALIKE)
def test_a_scenario_tells_the_story_of_its_recording(name: str) -> None:
    recorded = stories(read_recording(BY_NAME[name]))
    told = None
    for seed in (shipped.find(name).seed, *range(1, 60)):
        lab, kept, _ = ran(as_recorded(name), seed)
        told = stories(kept)
        if told == recorded:
            assert lab.steps.finished
            assert lab.steps.failures == []
            return
    assert told == recorded


@pytest.mark.parametrize("name", SHORT)
def test_what_a_scenario_records_is_understood_and_gives_the_same_events_each_time(name: str) -> None:
    lab, kept, _ = ran(shipped.find(name))
    assert lab.steps.failures == []
    first, second = (
        [(step.at, step.fact, step.caused) for step in replay_events(events, Policy())] for events in (kept, kept)
    )
    assert first == second
    assert not [fact for _, fact, _ in first if isinstance(fact, Rejected)]
    assert [event.at for event in kept] == sorted(event.at for event in kept)


@pytest.mark.parametrize("name", ["first_attach", "burst", "faults"])
def test_the_same_seed_gives_the_same_bytes_and_another_one_others(name: str, tmp_path: Path) -> None:
    def recorded(seed: int, path: Path) -> bytes:
        with RecordingFile(str(path)) as file, Lab.virtual(shipped.find(name), seed=seed, sink=file) as lab:
            lab.run()
        return path.read_bytes()

    one, again, other = (recorded(seed, tmp_path / f"{n}.jsonl.gz") for n, seed in enumerate((5, 5, 6)))
    assert one == again
    assert one != other


@pytest.mark.parametrize("name", SHORT)
def test_the_book_of_the_fabric_and_the_cluster_agree_in_the_end(name: str) -> None:
    """What the operator believes to be attached is attached, unless a fault saw to it that nobody heard of it. While it detaches,
    it keeps a device's id until the node's slice lists the device no more."""
    lab, _, _ = ran(shipped.find(name))
    client = lab.client("test")
    named = [one for one in client.list("composableresources") if said(one, "device_id")]
    leaving = {said(one, "device_id") for one in named if said(one, "state") == "Detaching"}
    believed = {
        said(one, "device_id"): one["spec"]["target_node"] for one in named if said(one, "device_id") not in leaving
    }
    attached = lab.ledger.attached()
    assert believed.items() <= attached.items()
    shown = {
        device["attributes"]["uuid"]["string"]: one["spec"]["nodeName"]
        for one in client.list("resourceslices")
        for device in one["spec"].get("devices") or ()
        if one["spec"].get("nodeName") and "uuid" in (device.get("attributes") or {})
    }
    built_in = {
        one.device.serial for machine in lab.fabric.machines() for one in lab.fabric.attached(machine.node) if one.fixed
    }
    moved = {serial: node for serial, node in shown.items() if serial not in built_in | leaving}
    assert moved.items() <= attached.items()


def test_a_burst_is_like_the_recorded_one() -> None:
    """All forty run; most wait in the pool once or not at all; about half of the hand-overs land elsewhere; the fabric moves
    about as many devices."""
    recorded = Counter(
        step.split()[0] for steps in stories(read_recording(BY_NAME["burst"])).values() for step in steps
    )
    landed: Counter[str] = Counter()
    for seed in range(1, 9):
        lab, kept, tally = ran(as_recorded("burst"), seed)
        told = Counter(step.split()[0] for steps in stories(kept).values() for step in steps)
        assert (tally.claims, tally.bound, told["gone"]) == (40, 40, 40)
        assert told["node"] == recorded["node"] == 40
        assert abs(told["pool"] - recorded["pool"]) <= 8
        assert abs(moves(lab.ledger)["attached"] - 24) <= 4
        assert tally.moved and tally.stayed
        landed["elsewhere"] += tally.moved
        landed["ready"] += tally.stayed
    share = landed["elsewhere"] / landed.total()
    assert 0.35 <= share <= 0.75, landed  # recorded, over three bursts: 29 of 55


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_at_the_nodes_limit_one_pod_of_three_goes_round_for_ever(seed: int) -> None:
    recorded = stories(read_recording(BY_NAME["node_limit"]))
    lab, kept, _ = ran(as_recorded("node_limit"), seed)
    told = stories(kept)
    assert sorted("in use" in steps for steps in told.values()) == sorted(
        "in use" in steps for steps in recorded.values()
    )
    loser = next(steps for steps in told.values() if "in use" not in steps)
    assert loser.count("signal FabricDeviceFailed") >= 8
    on_nodes: Counter[str] = Counter()
    for entry in lab.ledger:
        if entry.outcome == "done":
            on_nodes[entry.node] += 1 if entry.operation == "attach" else -1
            assert on_nodes[entry.node] <= 1


def test_a_recording_file_is_what_the_sink_was_given(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    _, kept, _ = ran(shipped.find("withdrawn"))
    with RecordingFile(str(path)) as file, Lab.virtual(shipped.find("withdrawn"), sink=file) as lab:
        lab.run()
    assert list(read_recording(path)) == kept
    assert io.BytesIO(path.read_bytes()).read(2) == b"\x1f\x8b"
