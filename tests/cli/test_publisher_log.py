"""The commands on a publisher's log: alone, and beside the scaler's in one database."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dds_adapters.sql import Database
from dds_core.engine import Step
from dds_core.events import Checkpoint
from dds_core.log.envelope import Group
from dds_core.publisher import events as e
from dds_core.publisher.component import PUBLISHER
from tests.support.commands import FIRST_ATTACH, dds, fine, log_of, refused
from tests.support.pool_story import POOL, START, PoolStory, told_story

NAME = ("--name", "lab/publisher")
H100 = "nvidia-h100-80-fabric2"


def write(path: str, groups: list[Group], now: int, name: str = "lab/publisher") -> None:
    with Database(f"sqlite:///{path}") as database:
        log = database.open_log(name, cluster="uid", recorded_at=START)
        log.append(groups, epoch=log.take_epoch(START), recorded_at=now)


def write_on(path: str, story: PoolStory) -> None:
    """Append what is not in the log yet."""
    with Database(f"sqlite:///{path}") as database:
        log = database.log("lab/publisher")
        log.append(story.groups()[-1:], epoch=log.take_epoch(story.now), recorded_at=story.now)


@pytest.fixture(scope="module")
def story() -> PoolStory:
    return told_story()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, story: PoolStory) -> str:
    """A database that holds the publisher's log only."""
    path = str(tmp_path_factory.mktemp("publisher") / "log.sqlite3")
    fine("db", "upgrade", path)
    write(path, story.groups(), story.now)
    return path


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, story: PoolStory) -> str:
    """A database that holds both logs."""
    path = log_of(FIRST_ATTACH, tmp_path_factory.mktemp("both"), "--name", "lab/scaler")
    write(path, story.groups(), story.now)
    return path


# -- which log is read ----------------------------------------------------------------------------------------------------


def test_of_two_logs_the_scalers_is_read_unless_another_is_named(both: str, log: str) -> None:
    assert "claim default/train-1" in fine("replay", both)
    assert fine("claims", both, "--at", "02:11:20").splitlines()[2].startswith("default/train-1")
    assert "default/train-1" in fine("timeline", "default/train-1", both)
    assert "lab/scaler" in fine("log", "anchor", "--log", both)
    assert fine("replay", both, *NAME) == fine("replay", log)
    assert fine("replay", both, env={"DDS_LOG_NAME": "lab/publisher"}) == fine("replay", log)


def test_who_looks_for_a_pool_in_the_scalers_log_is_told_where_it_is(both: str) -> None:
    assert "pools are in the publisher's log, --name CLUSTER/publisher" in refused("timeline", POOL, both)
    assert "publisher's log" not in refused("timeline", "default/nobody", both)


def test_pools_are_those_of_the_publishers_log(both: str, log: str) -> None:
    assert fine("pools", both) == fine("pools", log) == fine("pools", both, *NAME)
    assert "it is the log of a scaler; use dds claims" in refused("pools", both, "--name", "lab/scaler")


def test_claims_and_devices_are_not_in_a_publishers_log(log: str, both: str) -> None:
    for command in ("claims", "devices"):
        said = refused(command, log)
        assert "it is the log of a publisher; use dds status, or dds replay --at" in said
        assert said == refused(command, both, *NAME).replace(both, log)


def test_two_publishers_logs_have_to_be_named(tmp_path: Path, story: PoolStory) -> None:
    path = str(tmp_path / "log.sqlite3")
    fine("db", "upgrade", path)
    for name in ("east/publisher", "west/publisher"):
        write(path, story.groups(), story.now, name)
    assert "it holds 2 logs (east/publisher, west/publisher); choose one with --name" in refused("pools", path)


def test_nothing_is_erased_from_a_log_that_was_not_named(both: str) -> None:
    assert "choose one with --name" in refused("log", "redact", "--log", both, "--yes", "--position", "3")


def test_a_recording_is_no_publishers_log(log: str) -> None:
    said = refused("log", "import", FIRST_ATTACH, "--log", log, *NAME)
    assert "lab/publisher would be a publisher's log; give --name CLUSTER/scaler" in said


# -- changes ---------------------------------------------------------------------------------------------------------------


def test_a_replay_tells_what_the_fabric_has_and_what_was_published(log: str) -> None:
    text = fine("replay", log)
    assert "stock A100 40G in fabric 1\n              3 free → 2 free        +6.3 s" in text
    assert "machine server-1" in text
    assert "New → fails                         503 Service Unavailable" in text
    assert "dds decided to label server-1 with cohdi.io/fabric=2" in text
    assert text.splitlines()[-2:] == [
        "30 facts, 7 decisions",
        f"pools: {POOL} with 2 devices, {H100} with 2 devices",
    ]


def test_json_and_jsonl_hold_the_same_entries(log: str) -> None:
    whole = json.loads(fine("replay", log, "--format", "json"))
    assert whole["entries"] == [json.loads(line) for line in fine("replay", log, "--format", "jsonl").splitlines()]
    assert whole["summary"] == {"facts": 30, "decisions": 7, "pools": {POOL: 2, H100: 2}}
    assert {entry["kind"] for entry in whole["entries"]} == {"stock", "machine", "fabric", "decision", "write"}


def test_until_a_position_goes_no_further(log: str) -> None:
    entries = json.loads(fine("replay", log, "--until", "15", "--format", "json"))["entries"]
    assert entries
    assert max(entry["position"] for entry in entries) <= 15


def test_a_node_pool_or_machine_has_its_timeline(log: str) -> None:
    assert fine("replay", log, "--node", "server-0") == fine("timeline", "server-0", log)
    assert fine("timeline", POOL, log).startswith(f"pool {POOL}\n")
    assert fine("timeline", "uuid-server-1", log).startswith("machine uuid-server-1\n")
    told = json.loads(fine("timeline", "nvidia-h100", log, "--format", "json"))
    assert (told["kind"], told["name"], told["uids"]) == ("pool", H100, [f"pool/gpu.nvidia.com/{H100}"])
    assert "uuid-server-1 is a machine, no node" in refused("replay", log, "--node", "uuid-server-1")
    assert "no pool, node or machine is called 'default/train-1'" in refused("timeline", "default/train-1", log)


def test_what_says_nothing_here_is_refused(log: str) -> None:
    assert "--claim says nothing about the log of a publisher" in refused("replay", log, "--claim", "default/train")
    assert "--state says nothing about the log of a publisher" in refused("replay", log, "--state", "Bound")
    for command in (("replay", log), ("timeline", POOL, log)):
        assert "no path that could be drawn" in refused(*command, "--format", "mermaid")
    assert "no path that could be drawn" in refused("replay", log, "--at", "22:13:25", "--format", "mermaid")


def test_a_policy_is_one_of_the_publishers(log: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("mode: publish\nlabel_nodes: false\n")
    done = dds("replay", log, "--policy", str(policy))
    assert done.exit_code == 0, done.stderr
    assert "would" not in done.stdout
    assert "to label server-0" not in done.stdout
    assert "open loop: the world did not follow from here on" in done.stderr
    policy.write_text("mode: attach\n")
    assert f"{policy}:1:7: mode: Input should be 'observe' or 'publish'" in refused(
        "replay", log, "--policy", str(policy)
    )
    state = dds("replay", log, "--at", "22:13:27", "--policy", str(policy.with_suffix(".json")))
    assert state.exit_code == 1


# -- states ----------------------------------------------------------------------------------------------------------------


def test_the_state_at_an_instant_is_pools_and_machines(log: str) -> None:
    told = json.loads(fine("replay", log, "--at", "22:13:25", "--format", "json"))
    first = told["pools"][0]
    assert (first["pool"], first["generation"], first["slices"], first["devices"]) == (POOL, 1, 1, 3)
    assert (first["held_names"], first["held"], first["free"]) == (["nvidia-a100-40-1"], 1, 2)
    assert (first["stock"], first["tainted"]) == (3, [])
    assert first["as_decided"] is True
    assert [(row["name"], row["nodes"], row["fabric"]) for row in told["machines"]] == [
        ("server-0", ["server-0"], "1"),
        ("server-1", ["server-1"], "2"),
    ]
    assert told["failing"] == {"stock/1/A100 40G": "503 Service Unavailable"}
    lines = [json.loads(line) for line in fine("replay", log, "--at", "22:13:25", "--format", "jsonl").splitlines()]
    assert [line["kind"] for line in lines] == ["pool", "pool", "machine", "machine"]


def test_the_state_is_a_table_for_people(log: str) -> None:
    text = fine("replay", log, "--at", "22:13:25").splitlines()
    headings = "POOL DRIVER OWNER GENERATION SLICES DEVICES HELD FREE IN STOCK TAINTED DECIDED"
    assert " ".join(text[0].split()) == headings
    assert text[1].split()[:9] == [POOL, "gpu.nvidia.com", "dds", "1", "1", "3", "1", "2", "3"]
    assert "uuid-server-0  server-0  server-0  1       at most 4 and at least 0 of A100 40G" in text
    assert text[-1] == "no good answer about A100 40G in fabric 1: 503 Service Unavailable"
    assert fine("pools", log, "--at", "3") == "no pools\n"


def test_pools_are_chosen_sorted_and_limited(log: str) -> None:
    both = [row["pool"] for row in json.loads(fine("pools", log, "--json", "--sort", "name"))]
    assert len(both) == 2 and both == sorted(both)
    assert [row["pool"] for row in json.loads(fine("pools", log, "--json", "--sort", "name", "--reverse"))] == both[
        ::-1
    ]
    assert [row["pool"] for row in json.loads(fine("pools", log, "--json", "--model", "H100 80G"))] == [H100]
    assert json.loads(fine("pools", log, "--json", "--fabric", "none")) == []
    assert fine("pools", log, "--limit", "1").splitlines()[-1] == "… and 1 more: --limit 0"


def test_a_node_chooses_the_pools_that_it_reaches(log: str) -> None:
    rows = json.loads(fine("pools", log, "--node", "server-1", "--format", "json"))
    assert [row["pool"] for row in rows] == [H100]
    assert rows[0]["as_decided"] is False, "its write was refused"
    told = json.loads(fine("replay", log, "--at", "22:13:27", "--node", "server-0", "--format", "json"))
    assert [row["pool"] for row in told["pools"]] == [POOL]
    assert [row["name"] for row in told["machines"]] == ["server-0"]
    assert "there is no node 'server-9'; nodes are server-0, server-1" in refused("pools", log, "--node", "server-9")


def test_what_differs_between_two_instants(log: str) -> None:
    found = json.loads(fine("replay", log, "--diff", "22:13:22", "22:13:27.9", "--format", "json"))["differences"]
    assert [(one["kind"], one["name"]) for one in found] == [("pool", POOL), ("pool", H100)]
    assert found[0]["changed"] == {
        "devices": [3, 2],
        "names": [[f"nvidia-a100-40-{n}" for n in range(3)], [f"nvidia-a100-40-{n}" for n in range(2)]],
        "tainted": [[], ["cohdi.io/cooling"]],
        "stock": [3, 2],
    }
    text = fine("replay", log, "--diff", "22:13:22", "22:13:27.9")
    assert "  names    nvidia-a100-40-2 → (none)\n" in text
    assert fine("replay", log, "--diff", "22:13:22", "22:13:22") == "nothing differs\n"


def test_in_observe_a_pool_is_what_dds_would_make_of_it(tmp_path: Path) -> None:
    story = told_story("observe")
    path = str(tmp_path / "log.sqlite3")
    fine("db", "upgrade", path)
    write(path, story.groups(), story.now)
    rows = json.loads(fine("pools", path, "--format", "json"))
    assert [(row["pool"], row["devices"], row["wanted"], row["as_decided"]) for row in rows] == [
        (POOL, 0, 2, None),
        (H100, 0, 2, None),
    ]
    assert fine("pools", path).splitlines()[1].endswith("would be 2")
    assert "dds would publish pool" in fine("replay", path)


# -- status ----------------------------------------------------------------------------------------------------------------


def test_the_status_of_a_scaler_is_followed_by_that_of_its_publisher(both: str, log: str) -> None:
    text = fine("status", both)
    assert text.index("log lab/scaler") < text.index("log lab/publisher") < text.index("last changes and decisions")
    assert "fabric: 2 machines in 2 fabrics" in text
    assert "claim default/train-1" in text, "the news are the scaler's"
    told = json.loads(fine("status", both, "--json"))
    assert (told["log"], told["component"]) == ("lab/scaler", "scaler")
    assert told["publisher"]["pools"][0]["pool"] == H100, "what is not as it was decided comes first"
    alone = json.loads(fine("status", log, "--json"))
    assert told["publisher"]["silent"] <= alone["silent"]
    assert {**told["publisher"], "news": None, "silent": None} == {**alone, "news": None, "silent": None}


def test_the_status_of_a_publisher(log: str) -> None:
    text = fine("status", log)
    assert re.match(
        r"last event [^\n]+ ago, but a live publisher writes at least every 310 s: [^\n]+\nlog lab/publisher  position 38\n",
        text,
    )
    assert "mode publish (policy publish)\n" in text
    lines = text.splitlines()
    assert lines[lines.index("pools") + 2].split()[:7] == [H100, "dds", "1", "1", "0", "1", "2"]
    assert lines[lines.index("pools") + 2].endswith("not seen yet")
    assert lines[lines.index("pools") + 3].split() == [POOL, "dds", "1", "2", "1", "1", "2", "cohdi.io/cooling", "2"]
    assert "PoolPublished  pool nvidia-h100-80-fabric2  1" in text
    assert text.rstrip().endswith("422 Invalid spec.devices: too many")
    told = json.loads(fine("status", log, "--json"))
    assert told["stocks"] == [
        {"fabric": "1", "model": "A100 40G", "free": 2},
        {"fabric": "2", "model": "H100 80G", "free": 2},
    ]
    assert told["refused"][0]["again_at"] == "2023-11-14T22:13:58.000000Z"
    assert [entry["kind"] for entry in told["news"]] == ["fabric", "stock", "decision", "stock", "write"]


def test_the_status_of_a_publisher_says_what_is_wrong(tmp_path: Path) -> None:
    story = told_story()
    story.feed(e.FabricFailed("machines", "no route to host"))
    story.feed(e.Rejected("ResourceSlice", "uid-x", "odd", "spec.devices", "has no name"))
    story.feed(e.Capabilities(binding_conditions=False, device_taints=False))
    path = str(tmp_path / "log.sqlite3")
    fine("db", "upgrade", path)
    write(path, story.groups(), story.now)
    text = fine("status", path)
    assert "no good answer about the list of machines: no route to host" in text
    assert "the API server drops binding conditions, taints of devices of slices" in text
    assert "uid-x  spec.devices  has no name" in text
    assert "fabric  BindingConditionsDropped" in text
    story.feed(e.Started("test", "", 1, 2, "publish"))
    write_on(path, story)
    assert "the list of machines was not answered since the start" in fine("status", path)
    assert "not synced: nothing is decided yet" in fine("status", path)


# -- checked and moved -------------------------------------------------------------------------------------------------------


def test_it_is_verified_by_the_rules_of_the_publisher(log: str, both: str, tmp_path: Path) -> None:
    for command in (("log", "verify", log), ("log", "verify", both, *NAME)):
        assert "every decision is the one that the rules make" in fine(*command)
    told = json.loads(fine("log", "verify", log, "--format", "json"))
    assert (told["ok"], [span["same"] for span in told["spans"]]) == (True, [True])


def test_a_decision_that_the_rules_do_not_make_is_found(tmp_path: Path) -> None:
    story = told_story()
    path = str(tmp_path / "log.sqlite3")
    fine("db", "upgrade", path)
    groups = [Group(group.ordinal, group.events[:1]) for group in story.groups()]
    write(path, groups, story.now)
    done = dds("log", "verify", path)
    assert done.exit_code == 2
    assert "expected NodeLabelled" in done.stdout


def test_an_export_and_an_archive_are_read_as_the_log_is(tmp_path: Path) -> None:
    story = told_story()
    path, archive, rest = (str(tmp_path / name) for name in ("log.sqlite3", "old.jsonl.gz", "rest.jsonl"))
    fine("db", "upgrade", path)
    checkpoint = Step(story.now, Checkpoint(PUBLISHER.projection, PUBLISHER.dump(story.state)), [])
    write(path, [*story.groups(), checkpoint.group(len(story.steps))], story.now)
    whole = fine("replay", path)
    state = fine("pools", path)
    fine("log", "export", str(tmp_path / "whole.jsonl"), "--log", path)
    assert fine("replay", str(tmp_path / "whole.jsonl")) == whole
    fine("log", "archive", archive, "--log", path)
    fine("log", "export", rest, "--log", path)
    assert fine("replay", archive, rest) == whole
    assert fine("pools", rest) == fine("pools", path) == state
    assert "every decision is the one that the rules make" in fine("log", "verify", archive, rest)
    assert fine("timeline", POOL, rest).endswith("nothing happened to it\n")
    again = str(tmp_path / "again.sqlite3")
    fine("db", "upgrade", again)
    fine("log", "import", archive, rest, "--log", again)
    assert fine("pools", again) == state
