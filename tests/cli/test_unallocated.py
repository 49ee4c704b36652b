"""Who waits for a pool is seen: a pool of one device and three pods, by every command that shows claims."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.jsonl import JsonlLog
from dds_adapters.jsonl.writing import export
from dds_commands.claims_and_devices import claim_rows
from dds_core.replay import moments
from dds_core.scaler.blame import OWNER
from dds_core.scaler.component import SCALER
from dds_core.scaler.folds import apply
from dds_core.scaler.state import State
from dds_lab.check.subjects import Ours, policy_of, without_hands
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario, parse
from tests.support.commands import dds, fine

EMPTY_POOL = """
about: pool of one, three pods
cluster:
  models:
    - {model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}
  fabrics:
    - {id: 1, devices: {A100 40G: 1}}
  nodes:
    - {count: 2, fabric: 1}
parts: {scaler: false, operator: {}}
steps:
  - {at: 3s, run: {name: lucky, devices: {nvidia-a100-40: 1}}}
  - {at: 8s, run: {name: hungry-1, devices: {nvidia-a100-40: 1}}}
  - {at: 8s, run: {name: hungry-2, devices: {nvidia-a100-40: 2}}}
"""
ASKS = """
  - at: {at}
    apply:
      apiVersion: v1
      kind: Pod
      metadata: {{name: {name}}}
      spec:
        containers: [{{name: c, image: pause, resources: {{limits: {{example.com/gpu: "{count}"}}}}}}]
        restartPolicy: Never
        terminationGracePeriodSeconds: 0
"""
EXTENDED = """
about: pool of one, three pods that ask for an extended resource
cluster:
  models:
    - {model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}
  fabrics:
    - {id: 1, devices: {A100 40G: 1}}
  nodes:
    - {count: 2, fabric: 1}
  classes:
    - name: nvidia-a100-40
      selectors: ['device.attributes["gpu.nvidia.com"].productName == "NVIDIA A100 40GB PCIe"']
      extended_resource: example.com/gpu
parts: {scaler: false, operator: {}}
steps:
""" + "".join(
    [
        ASKS.format(at="3s", name="lucky", count=1),
        ASKS.format(at="8s", name="hungry-1", count=1),
        ASKS.format(at="9s", name="hungry-2", count=1),
        "  - {at: 90s, delete: pods/lucky}\n",
        "  - {at: 240s, delete: pods/hungry-1}\n",
    ]
)
BY_CLASS = "example.com/gpu of class nvidia-a100-40"
TWO_ARE_TOO_MANY = "it asks for 2 on one node; devices in all: 1, in use: 1"


def scenario(text: str = EMPTY_POOL) -> Scenario:
    return parse(text, "empty_pool.yaml")


def logged(text: str, path: Path, seconds: float, **policy: Any) -> str:
    """The exported log of dds in that cluster after so much time."""
    found = scenario(text)
    with Lab.virtual(without_hands(found)) as lab:
        subject = Ours(lab, found)
        subject._policy = policy_of(found, scan_interval_seconds=60, **policy)
        subject.begin()
        lab.run(seconds=seconds)
        export(subject.log, str(path / "empty_pool.jsonl"))
    return str(path / "empty_pool.jsonl")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The exported log of dds in that cluster after a minute."""
    return logged(EMPTY_POOL, tmp_path_factory.mktemp("log"), 60)


def test_status_says_first_who_waits_for_what(log: str) -> None:
    lines = fine("status", log, "--news", "0").splitlines()
    begin = lines.index("") + 1
    assert lines[begin : begin + 5] == [
        "2 claims wait for a device: A100 40G, asked 3, free 0; held by default/lucky, idle on no node",
        "  the only device is in use (1 claim)",
        f"  {TWO_ARE_TOO_MANY} (1 claim)",
        "  waiting longest, 10.0 s: default/hungry-1, default/hungry-2",
        "claims: 2 Unallocated, 1 Bound",
    ]


def test_status_as_data(log: str) -> None:
    (queue,) = json.loads(fine("status", log, "--json"))["unallocated"]
    assert queue == {
        "models": ["A100 40G"],
        "claims": 2,
        "asked": 3,
        "free": 0,
        "since": "2026-11-21T00:00:08.000000Z",
        "held_by": [{"claim": "default/lucky", "devices": 1}],
        "held_by_count": 1,
        "idle_on": [],
        "idle_on_count": 0,
        "whys": [{"why": "the only device is in use", "claims": 1}, {"why": TWO_ARE_TOO_MANY, "claims": 1}],
        "whys_count": 2,
        "longest": ["default/hungry-1", "default/hungry-2"],
        "resources": [],
    }


def test_claims_have_their_rows(log: str) -> None:
    heading, *rows = fine("claims", log, "--sort", "state").splitlines()[1:]
    assert heading.split() == ["CLAIM", "STATE", "FOR", "NODE", "ATTEMPT", "DEVICES", "WHY"]
    assert [row.split()[:2] for row in rows] == [
        ["default/hungry-1", "Unallocated"],
        ["default/hungry-2", "Unallocated"],
        ["default/lucky", "Bound"],
    ]
    assert rows[1].endswith(TWO_ARE_TOO_MANY)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (("--state", "Unallocated"), ["default/hungry-1", "default/hungry-2"]),
        (("--state", "unallocated", "--of", "A100 40G"), ["default/hungry-1", "default/hungry-2"]),
        (("--claim", "default/hungry-2"), ["default/hungry-2"]),
        (("--of", "pod/default/hungry-1"), ["default/hungry-1"]),
        (("--state", "Bound"), ["default/lucky"]),
        (("--all", "--state", "Unallocated"), ["default/hungry-1", "default/hungry-2"]),
    ],
    ids=" ".join,
)
def test_they_are_found(log: str, asked: tuple[str, ...], names: list[str]) -> None:
    assert [row["claim"] for row in json.loads(fine("claims", log, "--json", *asked))] == names


def test_a_filter_that_finds_none_counts_them_too(log: str) -> None:
    assert "none of the 3 that are there" in fine("claims", log, "--state", "Failed")
    assert "none of the 1 that are there" in fine("devices", log, "--state", "Idle")


def test_they_are_there_at_an_instant(log: str) -> None:
    heading, *rows = fine("replay", log, "--at", "00:00:15", "--state", "Unallocated").splitlines()
    assert heading.endswith("WHY") and [row.split()[0] for row in rows[:2]] == ["default/hungry-1", "default/hungry-2"]
    assert rows[0].endswith("no device of class nvidia-a100-40 is listed; attached or on their way: 1")


@pytest.mark.parametrize("subject", ["default/hungry-2", "pod/default/hungry-2"])
def test_a_timeline_says_it_too_as_long_as_it_is_so(log: str, subject: str) -> None:
    told = f"default/hungry-2 waits for A100 40G: {TWO_ARE_TOO_MANY}"
    assert told in fine("timeline", subject, log).splitlines()
    assert told in json.loads(fine("timeline", subject, log, "--json"))["summary"]
    assert "waits for A100 40G" not in fine("timeline", "default/lucky", log)


def test_of_a_recording(tmp_path: Path) -> None:
    """Nobody attaches there: who is first waits for the device, the others wait for the pool."""
    (tmp_path / "empty_pool.yaml").write_text(EMPTY_POOL)
    recording = str(tmp_path / "empty_pool.jsonl.gz")
    done = dds("lab", "run", str(tmp_path / "empty_pool.yaml"), "-o", recording)
    assert done.exit_code == 0, done.output
    rows = json.loads(fine("claims", recording, "--json", "--state", "Unallocated"))
    assert {row["claim"]: row["why"] for row in rows} == {
        "default/hungry-1": "the only device is in use",
        "default/hungry-2": TWO_ARE_TOO_MANY,
    }
    assert "2 claims wait for a device: A100 40G, asked 3, free 0; held by default/lucky" in fine("status", recording)


# -- pods of an extended resource, which have no claim -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The exported log of a pool of one and three pods of an extended resource, each served when the one before has gone."""
    return logged(EXTENDED, tmp_path_factory.mktemp("log"), 400)


def standing(log: str, at: str, *options: str) -> dict[str, tuple[str, str]]:
    """State and reason by pod."""
    rows = json.loads(fine("claims", log, "--json", "--at", at, *options))
    return {pod: (row["state"], row["why"]) for row in rows for pod in row["pods"]}


def test_who_waits_for_an_extended_resource_is_seen_until_it_is_served(extended: str) -> None:
    waits = ("Unallocated", "the only device is in use")
    first, second, third = (f"default/{name}" for name in ("lucky", "hungry-1", "hungry-2"))
    assert standing(extended, "00:01:00") == {first: ("Bound", ""), second: waits, third: waits}
    assert standing(extended, "00:02:30") == {second: ("Bound", ""), third: waits}
    assert standing(extended, "00:06:30") == {third: ("Bound", "")}
    assert "wait" not in fine("status", extended, "--news", "0")


def test_at_no_instant_a_pod_has_two_rows_or_none(extended: str) -> None:
    """From when the scheduler has refused it until it ends: as a pod, then as its claim."""
    state, seen, refused = State(), Counter[str](), set[str]()
    for moment in moments(JsonlLog(extended).read_lean(0), SCALER):
        for event in (moment.fact, *moment.caused):
            if event is not None:
                apply(state, event, moment.at)
        pods = {pod.uid: f"{pod.namespace}/{pod.name}" for pod in state.demand.pods.rows.values()}
        refused |= {uid for uid, pod in state.demand.pods.rows.items() if pod.extended_resources}
        rows = Counter(pod for row in claim_rows(state) if row["state"] != "Released" for pod in row["pods"])
        for uid in refused & pods.keys():
            assert rows[pods[uid]] == 1, (moment.at, pods[uid], rows)
            seen[pods[uid]] += 1
    assert {"default/hungry-1", "default/hungry-2"} <= seen.keys()


def test_status_and_claims_name_resource_class_and_models(extended: str, tmp_path: Path) -> None:
    log = logged(EXTENDED, tmp_path, 60)
    lines = fine("status", log, "--news", "0").splitlines()
    begin = lines.index("") + 1
    head, *rest = lines[begin : begin + 4]
    assert head.startswith(
        f"2 claims wait for a device: A100 40G ({BY_CLASS}), asked 2, free 0; held by default/lucky-"
    )
    assert rest[0] == "  the only device is in use"
    assert rest[1].endswith(": pod/default/hungry-1, pod/default/hungry-2")
    assert rest[2] == "claims: 2 Unallocated, 1 Bound"
    (queue,) = json.loads(fine("status", log, "--json"))["unallocated"]
    assert queue["resources"] == [{"resource": "example.com/gpu", "class": "nvidia-a100-40"}]
    rows = fine("claims", log, "--state", "Unallocated").splitlines()[2:]
    assert [row.split()[:2] for row in rows] == [[f"pod/default/hungry-{n}", "Unallocated"] for n in (1, 2)]
    assert all(row.endswith(f"{BY_CLASS}: the only device is in use") for row in rows)
    (row,) = json.loads(fine("claims", log, "--json", "--of", "pod/default/hungry-1"))
    assert row["claim"] == "pod/default/hungry-1" and row["models"] == ["A100 40G"] and row["cycle"] == 0
    assert row["resources"] == [{"resource": "example.com/gpu", "class": "nvidia-a100-40", "devices": 1}]
    told = f"pod/default/hungry-1 waits for A100 40G ({BY_CLASS}): the only device is in use"
    assert told in json.loads(fine("timeline", "pod/default/hungry-1", log, "--json"))["summary"]
    assert "asks for 1 of example.com/gpu" in fine("timeline", "pod/default/hungry-1", log, "--full")


def test_of_a_recording_with_an_extended_resource(tmp_path: Path) -> None:
    (tmp_path / "extended.yaml").write_text(EXTENDED)
    recording = str(tmp_path / "extended.jsonl.gz")
    done = dds("lab", "run", str(tmp_path / "extended.yaml"), "-o", recording)
    assert done.exit_code == 0, done.output
    assert "pod/default/hungry-2" in fine("claims", recording, "--at", "00:01:00", "--state", "Unallocated")


def test_its_wait_is_that_of_its_claim_once_that_is_there(extended: str) -> None:
    """The pod is refused at 00:00:08, and the device is free at 00:01:30."""
    told = fine("timeline", "pod/default/hungry-1", extended).splitlines()
    assert told[1].startswith("pod default/hungry-1: bound to ") and told[1].endswith(
        " after 1 min 22 s, deleted at 00:04:00"
    )
    assert "where it went: pool 1 min 22 s (100 %)" in told
    rows = json.loads(fine("claims", extended, "--all", "--json"))
    waited = {row["pods"][0]: row["waited_seconds"] for row in rows if row["outcome"] == "bound"}
    assert [round(waited[f"default/{name}"]) for name in ("lucky", "hungry-1", "hungry-2")] == [15, 82, 231]


# -- who is allocated and waits ------------------------------------------------------------------------------------------

TOO_LARGE = """
about: a claim of two where a node may have one, and one whose device the fabric does not bring
duration: 5m
cluster:
  models:
    - {model: L40, device: nvidia-l40, product: NVIDIA L40}
    - {model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}
  fabrics:
    - {id: 1, devices: {L40: 2, A100 40G: 1}}
  nodes:
    - {count: 2, fabric: 1, limits: {L40: {max: 1}}}
parts: {scaler: false, operator: {}}
faults:
  fabric:
    - {since: 0s, kind: hang, models: [A100 40G], times: 1}
steps:
  - {at: 3s, run: {name: two, devices: {nvidia-l40: 2}}}
  - {at: 8s, run: {name: slow, devices: {nvidia-a100-40: 1}}}
  - at: 9s
    apply:
      apiVersion: resource.k8s.io/v1
      kind: ResourceClaim
      metadata: {name: classless}
      spec: {devices: {requests: [{name: r0, exactly: {deviceClassName: nvidia-b200}}]}}
  - at: 9s
    apply:
      apiVersion: v1
      kind: Pod
      metadata: {name: classless}
      spec:
        containers: [{name: c, image: pause, resources: {claims: [{name: g}]}}]
        resourceClaims: [{name: g, resourceClaimName: classless}]
  - {at: 55s, delete: resourceclaims/slow}
"""


@pytest.fixture(scope="module")
def too_large(tmp_path_factory: pytest.TempPathFactory) -> str:
    return logged(TOO_LARGE, tmp_path_factory.mktemp("too_large"), 60)


def test_claims_and_status_say_why_a_claim_waits_or_has_failed(too_large: str) -> None:
    rows = {row["claim"]: row for row in json.loads(fine("claims", too_large, "--json"))}
    waiting = {row["claim"]: row for row in json.loads(fine("status", too_large, "--json"))["waiting"]}
    assert {name: row["state"] for name, row in waiting.items()} == {
        "default/two": "Failed",
        "default/slow": "Attaching",
    }
    classless = rows.pop("default/classless")
    assert (classless["state"], classless["models"]) == ("Unallocated", [])
    assert classless["why"] == "the DeviceClass nvidia-b200 does not exist"
    assert {name: row["why"] for name, row in rows.items()} == {name: row["why"] for name, row in waiting.items()}
    why = rows["default/two"]["why"]
    assert why.startswith("failed: NodeLimit: ")
    assert "; the scheduler is told at 20" in why and why.endswith(", and then clears its allocation")
    assert waiting["default/two"]["stage"] == "pause" and OWNER["pause"] == "dds"
    (found,) = json.loads(fine("timeline", "default/two", too_large, "--json"))["claims"]
    assert found["stage_seconds"]["pause"] > 0.5 * found["waited_seconds"], found
    assert rows["default/slow"]["why"] == "is being deleted, so that no scheduler places its pod"
    begin = "1 claim waits for a device: of no known class, asked 1\n  the DeviceClass nvidia-b200 does not exist\n"
    assert begin in fine("status", too_large)
    (row,) = (row for row in fine("claims", too_large, "--at", "00:00:50").splitlines() if "default/slow" in row)
    assert row.endswith(" is Attaching")


THEFT = """
about: a pool of one and two pods, of which the second takes the device that was handed over to the first
cluster:
  models: [{model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}]
  fabrics: [{id: 1, devices: {A100 40G: 1}}]
  nodes: [{count: 1, fabric: 1}]
parts: {scaler: false}
steps:
  - {at: 2s, run: {name: first, devices: {nvidia-a100-40: 1}}}
  - {at: 4s, run: {name: second, devices: {nvidia-a100-40: 1}}}
"""


def test_a_hand_over_that_another_claim_has_taken_is_told_with_its_name(tmp_path: Path) -> None:
    told = logged(THEFT, tmp_path, 60, hand_over="clear")
    shown = json.loads(fine("status", told, "--json"))
    (queue,) = shown["unallocated"]
    assert not shown["waiting"] and queue["longest"] == ["default/first"]
    (why,) = (row["why"] for row in queue["whys"])
    assert why == "default/second has taken the device that came for it; the only device is in use"
    (row,) = (row for row in json.loads(fine("claims", told, "--json")) if row["claim"] == "default/first")
    assert (row["state"], row["why"]) == ("Unallocated", why)


def test_a_claim_that_asks_for_more_than_a_node_may_have_is_told_so_and_advised(too_large: str) -> None:
    rows = {row["claim"]: row["why"] for row in json.loads(fine("claims", too_large, "--json"))}
    assert "NodeLimit: it asks for 2 of L40, and node000" in rows["default/two"]
    told = " ".join(fine("incident", too_large).split())
    assert "ask for no more devices in one claim than a node may have, or raise the limit (2 × NodeLimit;" in told
    assert "a claim that asks for no more than a node may have" in fine("timeline", "default/two", too_large)
    assert "spread" not in told + fine("timeline", "default/two", too_large)


def test_a_claim_that_is_deleted_while_it_waits_is_told_so(too_large: str) -> None:
    (slow,) = (
        row for row in json.loads(fine("status", too_large, "--json"))["waiting"] if row["claim"] == "default/slow"
    )
    assert slow["why"] == "is being deleted, so that no scheduler places its pod"
    assert "default/slow is being deleted\n" in fine("timeline", "default/slow", too_large)
    assert "is being deleted" not in fine("claims", too_large, "--at", "00:00:50")


def test_a_state_means_the_same_with_all_and_without(too_large: str) -> None:
    for state in ("Failed", "Unallocated", "Attaching"):
        now, ever = (
            {
                row["claim"]: row["state"]
                for row in json.loads(fine("claims", too_large, "--json", "--state", state, *more))
            }
            for more in ((), ("--all",))
        )
        assert now and now == ever and set(now.values()) == {state}
    assert json.loads(fine("claims", too_large, "--json", "--all", "--state", "failed")) == [], (
        "an outcome: it waits yet"
    )


APART = """
about: two models that may not share a node, asked for by one pod, and by one after the other
duration: 5m
cluster:
  models:
    - {model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe}
    - {model: H100, device: nvidia-h100, product: NVIDIA H100, not_with: [A100 40G]}
  fabrics:
    - {id: 1, devices: {A100 40G: 2, H100: 2}}
  nodes:
    - {count: 1, fabric: 1}
parts: {scaler: false, operator: {}}
steps:
  - {at: 3s, run: {name: both, devices: {nvidia-a100-40: 1, nvidia-h100: 1}}}
  - {at: 8s, run: {name: first, devices: {nvidia-a100-40: 1}}}
  - {at: 8s, run: {name: second, devices: {nvidia-h100: 1}}}
"""


def test_what_failed_for_the_same_reason_is_told_by_its_words(tmp_path: Path) -> None:
    log = logged(APART, tmp_path, 60)
    failed = {one["claims"][0]: one for one in json.loads(fine("incident", log, "--json"))["failures"]}
    assert {one["reason"] for one in failed.values()} == {"Coexistence"}
    apart = "A100 40G and H100 may not share a node, and its pod wants both"
    assert {name: one["text"] for name, one in failed.items()} == {
        "default/both": apart,
        "default/first": "A100 40G may not share node0000 with H100",
    }
    assert "ask for one of the two models" in " ".join(fine("incident", log).split())
    (both,) = json.loads(fine("claims", log, "--json", "--claim", "default/both"))
    assert apart in both["why"]
