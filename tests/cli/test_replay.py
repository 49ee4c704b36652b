"""`dds replay`, `claims`, `devices`, `timeline` and `diagram` on recordings and logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dds_core.lifecycle import CLAIM_TABLE, DEVICE_TABLE, mermaid
from tests.support.commands import FIRST_ATTACH, RECORDINGS, TWO_CLAIMS, dds, fine, log_of, refused

UUIDS = ("GPU-1027c4d1-c386-bbc4-cd61-3e30d8f16adf", "GPU-78e51061-7311-d8a3-c2ce-6f447ed4d57b")
CLAIM = "4c97d4da-43d3-49f5-831d-d1298cf37f8b"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return log_of(FIRST_ATTACH, tmp_path_factory.mktemp("log"), "--checkpoint")


def test_a_replay_tells_every_change_and_what_it_ended_in() -> None:
    text = fine("replay", FIRST_ATTACH)
    assert "claim default/train-1" in text
    assert f"device {UUIDS[0]}" in text
    assert text.splitlines()[-2:] == ["claims: 1 Released", "devices: 2 Gone"]


def test_a_log_tells_what_its_recording_told(log: str) -> None:
    for form in ("table", "jsonl"):
        assert (
            fine("replay", log, "--format", form).splitlines()[:40]
            == fine("replay", FIRST_ATTACH, "--format", form).splitlines()[:40]
        )
    assert fine("timeline", "default/train-1", log) == fine("timeline", "default/train-1", FIRST_ATTACH)


def test_an_import_makes_the_database_that_it_writes(tmp_path: Path) -> None:
    path = str(tmp_path / "new.sqlite3")
    assert "imported log first_attach/scaler" in fine("log", "import", FIRST_ATTACH, "--log", path)
    assert "every decision" in fine("log", "verify", path)


def test_json_and_jsonl_hold_the_same_entries() -> None:
    whole = json.loads(fine("replay", FIRST_ATTACH, "--format", "json"))
    lines = [json.loads(line) for line in fine("replay", FIRST_ATTACH, "--format", "jsonl").splitlines()]
    assert whole["entries"] == lines
    assert whole["summary"]["claims"] == {"Released": 1}
    assert set(lines[0]) == {
        *("at", "position", "kind", "name", "uid", "trigger", "from", "to"),
        *("after_seconds", "cause", "meaning", "notes"),
    }


def test_until_a_position_goes_no_further() -> None:
    entries = json.loads(fine("replay", FIRST_ATTACH, "--until", "40", "--format", "json"))["entries"]
    assert entries
    assert max(entry["position"] for entry in entries) <= 40


def test_a_state_chooses_the_changes_into_it() -> None:
    entries = json.loads(fine("replay", FIRST_ATTACH, "--state", "bound", "--format", "json"))["entries"]
    assert [(entry["from"], entry["to"]) for entry in entries] == [("Attached", "Bound")]
    assert "'Lost' is no state; give one of Pending" in refused("replay", FIRST_ATTACH, "--state", "Lost")


def test_a_claim_or_node_chooses_its_timeline() -> None:
    told = json.loads(fine("timeline", "default/train-1", FIRST_ATTACH, "--json"))
    assert (
        json.loads(fine("replay", FIRST_ATTACH, "--claim", "default/train-1", "--json"))["entries"] == told["entries"]
    )
    told = json.loads(fine("timeline", "node0001", FIRST_ATTACH, "--json"))
    assert json.loads(fine("replay", FIRST_ATTACH, "--node", "node0001", "--json"))["entries"] == told["entries"]
    assert "node0001 is a node, no claim" in refused("replay", FIRST_ATTACH, "--claim", "node0001")
    assert "do not go together" in refused("replay", FIRST_ATTACH, "--claim", "a", "--node", "b")


def test_the_state_at_an_instant() -> None:
    told = json.loads(fine("replay", FIRST_ATTACH, "--at", "02:11:20", "--format", "json"))
    assert told["at"] == "2026-11-21T02:11:20.000000Z"
    assert [(claim["claim"], claim["state"], claim["node"]) for claim in told["claims"]] == [
        ("default/train-1", "Attached", "node0001")
    ]
    assert [(device["device"], device["state"]) for device in told["devices"]] == [(uuid, "Idle") for uuid in UUIDS]
    assert [
        device["device"] for device in json.loads(fine("devices", FIRST_ATTACH, "--at", "02:11:25", "--format", "json"))
    ] == [UUIDS[0], UUIDS[1]]


def test_the_state_in_jsonl_says_what_each_line_is() -> None:
    lines = [
        json.loads(line) for line in fine("replay", FIRST_ATTACH, "--at", "02:11:20", "--format", "jsonl").splitlines()
    ]
    assert [line["kind"] for line in lines] == ["claim", "device", "device"]


def test_the_state_is_filtered(log: str) -> None:
    at = ("--at", "02:11:20", "--format", "json")
    assert json.loads(fine("claims", log, *at, "--node", "node0000")) == []
    assert json.loads(fine("claims", log, *at, "--claim", CLAIM))[0]["claim"] == "default/train-1"
    assert json.loads(fine("claims", log, *at, "--state", "Pending")) == []
    assert [row["node"] for row in json.loads(fine("devices", log, *at, "--node", "node0000"))] == ["node0000"]
    assert json.loads(fine("devices", log, *at, "--state", "used")) == []
    bound = ("--at", "02:11:25", "--format", "json")
    assert [row["device"] for row in json.loads(fine("devices", log, *bound, "--claim", "default/train-1"))] == [
        UUIDS[1]
    ]
    told = json.loads(fine("replay", log, *at, "--state", "idle", "--node", "node0001"))
    assert ([], [UUIDS[1]]) == (told["claims"], [row["device"] for row in told["devices"]])


def test_tables_are_for_people(log: str) -> None:
    text = fine("claims", log, "--at", "02:11:20")
    first, heading = text.splitlines()[:2]
    assert first.startswith("as of 20")
    assert heading.split() == ["CLAIM", "STATE", "FOR", "NODE", "ATTEMPT", "DEVICES", "WHY"]
    assert text.splitlines()[2].split()[:2] == ["default/train-1", "Attached"]
    empty = fine("claims", log, "--at", "02:11:20", "--state", "Bound")
    assert empty.endswith("Z\nnone of the 1 that are there; --all has those that have ended\n")
    assert "DEVICE" in fine("devices", log, "--at", "02:11:20")
    assert [
        json.loads(line)["state"] for line in fine("devices", log, "--at", "02:11:20", "--format", "jsonl").splitlines()
    ]
    assert fine("replay", log, "--at", "02:11:20").count("\n\n") == 1


def test_now_is_the_end(log: str) -> None:
    assert fine("claims", log, "--format", "json") == fine("claims", FIRST_ATTACH, "--format", "json")
    assert fine("devices", log).endswith("Z\nnone now; 2 ended: --all\n")


def test_a_position_is_an_instant_too(log: str) -> None:
    entries = json.loads(fine("replay", log, "--format", "json"))["entries"]
    for entry in (entry for entry in entries if entry["kind"] == "claim"):
        for source in (log, FIRST_ATTACH):
            rows = json.loads(fine("claims", source, "--at", str(entry["position"]), "--format", "json"))
            assert [row["state"] for row in rows][:1] in ([entry["to"]], [])


def test_what_differs_between_two_instants() -> None:
    found = json.loads(fine("replay", FIRST_ATTACH, "--diff", "02:11:10", "02:11:20", "--format", "json"))
    changed = {(one["kind"], one["name"]): one["changed"] for one in found["differences"]}
    assert changed["claim", "default/train-1"]["node"] == ["node0000", "node0001"]
    assert changed["device", "gpu-27ef3647-6929-4442-ba6a-bd0b674a6a5a"]["state"] == [None, "Idle"]
    assert "node     node0000 → node0001" in fine("replay", FIRST_ATTACH, "--diff", "02:11:10", "02:11:20")
    assert fine("replay", FIRST_ATTACH, "--diff", "02:11:10", "02:11:10") == "nothing differs\n"
    only = fine(
        "replay", FIRST_ATTACH, "--diff", "02:11:10", "02:11:20", "--claim", "default/train-1", "--format", "jsonl"
    )
    assert [json.loads(line)["kind"] for line in only.splitlines()] == ["claim"]
    assert "no path" in refused("replay", FIRST_ATTACH, "--diff", "02:11:10", "02:11:20", "--format", "mermaid")


def test_mermaid_draws_one_claim() -> None:
    text = fine("replay", FIRST_ATTACH, "--format", "mermaid")
    assert text.startswith("stateDiagram-v2\n    [*] --> Pending: 1. ")
    assert text == fine("timeline", "default/train-1", FIRST_ATTACH, "--format", "mermaid")
    assert "choose one with --claim" in refused("replay", TWO_CLAIMS, "--format", "mermaid")
    assert fine("replay", TWO_CLAIMS, "--format", "mermaid", "--claim", "default/tc-a").startswith("stateDiagram-v2")
    assert "no path" in refused("replay", FIRST_ATTACH, "--at", "02:11:20", "--format", "mermaid")


def test_another_policy_is_an_open_loop_and_says_so(tmp_path: Path, log: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("mode: detach\nno_removal_seconds: 5\n")
    for source in (FIRST_ATTACH, log):
        result = dds("replay", source, "--policy", str(policy))
        assert result.exit_code == 0
        assert "open loop: the world did not follow from here on" in result.stderr
        assert "dds decided to" in result.stdout
    same = tmp_path / "same.json"
    same.write_text("{}")
    assert "open loop" not in dds("replay", log, "--policy", str(same)).stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--at", "02:11:20", "--diff", "02:11:10", "02:11:20"), "--at and --diff do not go together"),
        (("--diff", "02:11:10", "02:11:20", "--until", "9"), "--diff and --until do not go together"),
        (("--verify",), "a log is verified with dds log verify"),
        (("--log", "x.db"), "a recording is written to a log with dds log import"),
    ],
)
def test_an_option_that_says_nothing_here_is_refused(options: tuple[str, ...], said: str) -> None:
    assert said in refused("replay", FIRST_ATTACH, *options)


def test_sources_that_cannot_be_are_refused(log: str, tmp_path: Path) -> None:
    assert "no source was named" in refused("replay", env={"XDG_STATE_HOME": str(tmp_path)})
    assert "cannot be joined" in refused("replay", FIRST_ATTACH, log)


def test_a_state_under_another_policy(tmp_path: Path, log: str) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('mode = "attach"\n')
    for source in (FIRST_ATTACH, log):
        told = json.loads(fine("replay", source, "--policy", str(policy), "--at", "02:11:20", "--format", "json"))
        assert [claim["state"] for claim in told["claims"]] == ["Attached"]


def test_a_timeline_in_json_names_its_subject() -> None:
    told = json.loads(fine("timeline", UUIDS[0][:10], FIRST_ATTACH, "--format", "json"))
    assert (told["kind"], told["name"]) == ("device", UUIDS[0])
    assert told["entries"][0]["from"] == "New"
    lines = fine("timeline", UUIDS[0], FIRST_ATTACH, "--format", "jsonl").splitlines()
    assert [json.loads(line) for line in lines] == told["entries"]


def test_who_is_not_there_is_refused_with_what_comes_near() -> None:
    assert "did you mean default/train-1?" in refused("timeline", "default/trian-1", FIRST_ATTACH)
    assert FIRST_ATTACH in refused("timeline", "nobody", FIRST_ATTACH)


def test_the_log_comes_from_the_option_or_the_environment(log: str) -> None:
    expected = fine("timeline", "default/train-1", log)
    assert fine("timeline", "default/train-1", "--log", log) == expected
    assert fine("timeline", "default/train-1", "--log", f"sqlite:///{log}") == expected
    assert fine("timeline", "default/train-1", env={"DDS_LOG": log}) == expected
    assert fine("replay", env={"DDS_LOG": log}) == fine("replay", log)


def test_diagrams_are_the_tables_of_the_engine() -> None:
    assert fine("diagram") == fine("diagram", "claim") == mermaid(CLAIM_TABLE)
    assert fine("diagram", "device") == mermaid(DEVICE_TABLE)


def test_those_that_have_ended_are_shown_too(log: str) -> None:
    for source in (log, FIRST_ATTACH):
        (claim,) = json.loads(fine("claims", source, "--all", "--json"))
        assert (claim["outcome"], claim["node"], claim["pods"]) == ("bound", "node0001", ["default/train-1"])
        assert [one["outcome"] for one in claim["attempts"]] == ["diverted", "bound"]
        assert claim["waited_seconds"] == pytest.approx(sum(claim["stage_seconds"].values()))
        assert [one["state"] for one in json.loads(fine("devices", source, "--all", "--json"))] == ["", ""]


def test_they_are_sorted_limited_and_chosen_by_any_subject(tmp_path: Path) -> None:
    source = log_of(str(RECORDINGS / "burst.jsonl.gz"), tmp_path)
    rows = json.loads(fine("claims", source, "--all", "--sort", "waited", "--json"))
    waits = [row["waited_seconds"] for row in rows]
    assert waits == sorted(waits, reverse=True) and len(rows) == 40
    assert json.loads(fine("claims", source, "--all", "--sort", "waited", "--limit", "3", "--json")) == rows[:3]
    used = json.loads(fine("devices", source, "--all", "--sort", "used", "--json"))
    assert [row["seconds"]["used"] for row in used] == sorted((r["seconds"]["used"] for r in used), reverse=True)
    for of, mine in (
        ("H100 80G", lambda row: any("H100 80G" in one["models"] for one in row["attempts"])),
        ("node0003", lambda row: any(one["node"] == "node0003" for one in row["attempts"])),
        ("pod/default/burst-026", lambda row: row["pods"] == ["default/burst-026"]),
        ("fabric/1", lambda row: True),
    ):
        found = {row["claim"] for row in json.loads(fine("claims", source, "--all", "--of", of, "--json"))}
        assert found >= {row["claim"] for row in rows if mine(row)}, of
        assert found and (of == "fabric/1" or len(found) < 40)


def test_those_that_have_ended_are_chosen_by_how_they_ended() -> None:
    source = str(RECORDINGS / "node_limit.jsonl.gz")
    rows = json.loads(fine("claims", source, "--all", "--json", "--state", "bound"))
    assert [row["claim"] for row in rows] == ["default/job-0", "default/job-1"]
    assert len(json.loads(fine("claims", source, "--all", "--json", "--state", "Released"))) == 3
    assert fine("claims", source, "--at", "3").endswith("\nno claims\n")
    assert "default/train-1  Unallocated" in fine("claims", FIRST_ATTACH, "--at", "02:11:04.185")


def test_a_filter_that_names_nothing_is_refused(log: str) -> None:
    assert "did you mean node0001" in refused("claims", log, "--node", "nod0001")
    assert "did you mean default/train-1" in refused("devices", log, "--claim", "default/trian-1")
    assert "node0001 is a node, no claim" in refused("claims", log, "--claim", "node0001", "--all")
    assert "--sort waited says nothing of claims that are there" in refused("claims", log, "--sort", "waited")
