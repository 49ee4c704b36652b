"""Recordings of real runs beside the lab's plays of the same scenarios: what is drawn does not matter, the rest is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dds_adapters.kubernetes.recording import RecordedEvent, read_recording
from dds_commands.running import Commands
from dds_lab import shipped
from dds_lab.conform.recordings import TOLD, Compared, compared
from dds_lab.record import Allowed
from dds_lab.record.recording_file import RecordingFile
from dds_lab.scenario.reading import written
from dds_lab_commands.lab_conform import conform, played
from tests.adapters.kubernetes.samples import BY_NAME
from tests.support.as_recorded import as_recorded

Object = dict[str, Any]
CLAIM = "resourceclaims default/train-1"


def play(name: str = "first_attach", seed: int = 5, seconds: float = 60.0) -> list[RecordedEvent]:
    return played(shipped.find(name), seed, seconds)


def run(*args: str) -> Result:
    root = Commands("dds", context_settings={"help_option_names": ["-h", "--help"]})
    root.add_command(conform)
    return CliRunner().invoke(root, ["conform", *args])


def file_of(events: list[RecordedEvent], path: Path) -> str:
    with RecordingFile(str(path)) as file:
        for one in events:
            file.write(one.at, one.resource, one.type, one.raw)
    return str(path)


def edited(events: list[RecordedEvent], change: Callable[[str, Object], bool]) -> list[RecordedEvent]:
    """The recording with what `change` makes of each object; without those for which it returns False."""
    found = []
    for one in events:
        obj = json.loads(one.raw)
        if change(one.resource, obj):
            found.append(RecordedEvent(one.at, one.resource, one.type, json.dumps(obj).encode()))
    return found


def told(found: Compared) -> list[str]:
    return [str(one) for one in found.differences]


# -- what makes no difference


def test_a_run_is_like_itself() -> None:
    found = compared(play(), play())
    assert told(found) == [] and found.objects > 8 and found.states > 40 and found.foreign == 0


def test_instants_drawn_identities_and_equal_nodes_make_no_difference() -> None:
    """Another seed draws other uids, names, serials and latencies, and the other one of two equal nodes."""
    events = play(seed=5)
    other = next(seed for seed in range(1, 40) if seed != 5 and told(compared(play(seed=seed), events)) == [])
    drawn = play(seed=other)
    assert not {one.raw for one in drawn if one.type == "MODIFIED"} & {one.raw for one in events}
    swapped = [RecordedEvent(one.at + 7_000_000, one.resource, one.type, _swapped(one.raw)) for one in drawn]
    assert told(compared(swapped, events)) == []


def _swapped(raw: bytes) -> bytes:
    return raw.replace(b"node0000", b"node-x").replace(b"node0001", b"node0000").replace(b"node-x", b"node0001")


def test_a_recording_of_the_allowed_fields_is_like_one_of_whole_objects() -> None:
    whole, allowed = play(), {one.resource: Allowed(one.resource) for one in play()}
    short = []
    for one in whole:
        kept = allowed[one.resource].kept(one.type, one.raw)
        if kept is not None:
            short.append(RecordedEvent(one.at, one.resource, one.type, kept))
    assert len(short) < len(whole) and told(compared(short, whole)) == []


def test_what_the_cluster_had_before_is_counted_and_what_comes_later_is_told() -> None:
    events = play()
    (at, node) = next((one.at, json.loads(one.raw)) for one in events if one.resource == "nodes")
    node["metadata"] |= {"name": "control-plane", "uid": "u-control-plane"}
    there = RecordedEvent(at, "nodes", "ADDED", json.dumps(node).encode())
    found = compared([there, *events], events)
    assert (told(found), found.foreign) == ([], 1)
    assert told(compared([*events, there], events)) == ["nodes <node 3>: recorded, the lab does not have it"]


# -- what makes one


def _without_reservation(resource: str, obj: Object) -> bool:
    if resource == "resourceclaims":
        (obj.get("status") or {}).pop("reservedFor", None)
    return True


def _without_readiness(resource: str, obj: Object) -> bool:
    devices = (obj.get("status") or {}).get("devices") or () if resource == "resourceclaims" else ()
    for device in devices:
        for one in device.get("conditions") or ():
            one["status"] = "False"
    return True


def test_a_field_that_differs_is_named_with_both_values() -> None:
    found = compared(edited(play(), _without_readiness), play())
    assert {one.of for one in found.differences} == {CLAIM}
    assert any("conditions[" in one and 'recorded "False", in the lab "True"' in one for one in told(found))


def test_a_state_that_only_one_run_has_is_told_with_what_it_changed() -> None:
    whole, less = play(), edited(play(), lambda resource, obj: not _deleting(resource, obj))
    for one, other, words in ((less, whole, "not recorded, in the lab"), (whole, less, "recorded, not in the lab")):
        found = [each for each in told(compared(one, other)) if each.startswith(CLAIM)]
        assert any(words in each and "metadata.deletionTimestamp" in each for each in found), found


def _deleting(resource: str, obj: Object) -> bool:
    return resource == "resourceclaims" and "deletionTimestamp" in obj["metadata"]


@pytest.mark.parametrize("resource", ["pods", "composableresources", "resourceslices"])
def test_an_object_that_one_run_does_not_have_is_named(resource: str) -> None:
    whole, less = play(), edited(play(), lambda which, obj: which != resource)
    for one, other, words in (
        (less, whole, "not recorded, the lab has it"),
        (whole, less, "recorded, the lab does not have it"),
    ):
        found = [each for each in compared(one, other).differences if each.of.startswith(f"{resource} ")]
        assert found and {each.words for each in found} == {words}


def test_the_order_of_states_matters() -> None:
    events = play()
    places = [place for place, one in enumerate(events) if one.resource == "resourceclaims"]
    a, b = places[2], places[3]
    swapped = list(events)
    swapped[a], swapped[b] = events[b], events[a]
    assert {one.of for one in compared(swapped, events).differences} == {CLAIM}


def test_the_report_is_bounded() -> None:
    found = compared(edited(play(), _without_reservation), play("burst"))
    lines = [*found.lines()]
    assert len(found.differences) > 100
    per_object = [line.split(": ")[1] for line in lines if line.startswith("differs: ")]
    assert max(per_object.count(one) for one in per_object) <= TOLD + 1
    assert any(line.endswith(" more") for line in lines)


# -- real runs


@pytest.mark.parametrize(
    ("name", "alike", "differ"),
    [("ready_mode", 7, {"pods", "resourceclaims"}), ("binding_timeout", 8, {"resourceclaims"})],
)
def test_what_differs_from_a_real_run_is_what_is_known(name: str, alike: int, differ: set[str]) -> None:
    """The script of the real run deleted the claim after the pod, where the scenario deletes both at once; and there the pod of
    `ready_mode` ran first."""
    recorded = list(read_recording(BY_NAME[name]))
    scenario = as_recorded(name)
    found = compared(recorded, played(scenario, scenario.seed, scenario.duration))
    assert (found.objects, {one.of.split()[0] for one in found.differences}) == (alike, differ)
    assert any("metadata.deletionTimestamp: recorded (missing), in the lab" in one for one in told(found))


def test_the_command_ends_with_two_and_says_what_differs(tmp_path: Path) -> None:
    result = run("withdrawn", "--recording", str(BY_NAME["withdrawn"]))
    assert result.exit_code == 2, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("withdrawn, Kubernetes 1.36, seed 1, beside ")
    assert any(line.startswith("differs: composabilityrequests <node 1> A100 40G #1: state ") for line in lines)
    assert lines[-1].endswith(" objects differ")


def test_the_command_finds_the_seed_that_is_alike(tmp_path: Path) -> None:
    scenario = shipped.find("first_attach").model_copy(update={"seed": 1})
    (tmp_path / "mine.yaml").write_text(written(scenario))
    recording = file_of(played(scenario, 3, 60.0), tmp_path / "mine.jsonl.gz")
    result = run(str(tmp_path / "mine.yaml"), "--recording", recording, "--seeds", "3")
    assert result.exit_code == 0, result.output
    assert "differs" not in result.stdout


def test_a_run_with_dds_is_compared_with_dds(tmp_path: Path) -> None:
    scenario = shipped.find("first_attach")
    recording = file_of(played(scenario, scenario.seed, 60.0, dds=True), tmp_path / "ours.jsonl.gz")
    assert run("first_attach", "--recording", recording, "--dds").exit_code == 0
    assert run("first_attach", "--recording", recording).exit_code == 2


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "give a server or a recording"),
        (("first_attach",), "give a server or a recording"),
        (("--recording", "r.jsonl.gz"), "a recording needs its scenario"),
        (("first_attach", "--kubeconfig", "c"), "a recording needs its scenario"),
        (("first_attach", "--recording", "nowhere.jsonl.gz"), "nowhere.jsonl.gz: "),
        (("no_scenario", "--recording", "nowhere.jsonl.gz"), "no_scenario"),
    ],
)
def test_what_cannot_be_compared(args: tuple[str, ...], words: str) -> None:
    result = run(*args)
    assert result.exit_code == 1 and words in result.stderr and len(result.stderr.splitlines()) == 1
