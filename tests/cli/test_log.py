"""`dds db` and `dds log`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.core.scaler.history.told import DATA
from tests.support.commands import FIRST_ATTACH, TWO_CLAIMS, fine, log_of, refused


@pytest.fixture
def log(tmp_path: Path) -> str:
    return log_of(FIRST_ATTACH, tmp_path, "--checkpoint")


def test_a_database_is_made_once_and_checked(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    assert "was brought from nothing to" in fine("db", "upgrade", path)
    assert "already" in fine("db", "upgrade", f"sqlite:///{path}")
    assert "which this version of dds uses" in fine("db", "check", env={"DDS_LOG": path})
    assert fine("db", "current", path).strip() != "none"
    nowhere = {"XDG_STATE_HOME": str(tmp_path)}
    assert "no log was named, and dds serve has made none" in refused("db", "check", env=nowhere)
    assert "it holds no log yet" in refused("log", "verify", path)


def test_an_export_is_imported_unchanged(log: str, tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.jsonl.gz"):
        file = str(tmp_path / name)
        fine("log", "export", file, "--log", log)
        other = str(tmp_path / f"{name}.db")
        fine("db", "upgrade", other)
        assert "imported log first_attach/scaler, positions 1 to" in fine("log", "import", file, "--log", other)
        assert fine("log", "anchor", "--log", other) == fine("log", "anchor", "--log", log)
        assert "already" in refused("log", "import", file, "--log", other)
        assert "it is there already" in refused("log", "export", file, "--log", log)


def test_a_part_of_a_log_is_exported_and_refused_as_a_whole(log: str, tmp_path: Path) -> None:
    file = str(tmp_path / "part.jsonl")
    assert "positions 1 to 10" in fine("log", "export", file, "--until", "10", "--log", log)
    assert "8 groups" in fine("log", "verify", file) or "groups" in fine("log", "verify", file)


def test_an_archive_and_the_rest_are_one_log(log: str, tmp_path: Path) -> None:
    before = fine("timeline", "default/train-1", log)
    archive = str(tmp_path / "old.jsonl.gz")
    assert "archived log first_attach/scaler" in fine("log", "archive", archive, "--log", log)
    assert "everything before" in refused("log", "archive", archive, "--log", log)
    assert "every decision" in fine("log", "verify", log)
    assert "every decision" in fine("log", "verify", archive, log)
    assert fine("timeline", "default/train-1", archive, log) == before
    assert "give the archive as well" in refused("timeline", "default/train-1", log)


def test_a_log_without_a_checkpoint_cannot_be_archived(tmp_path: Path) -> None:
    log = log_of(FIRST_ATTACH, tmp_path)
    assert "it holds no checkpoint" in refused("log", "archive", str(tmp_path / "a.gz"), "--log", log)
    assert not (tmp_path / "a.gz").exists()


def test_the_tail_shows_the_newest_events(log: str) -> None:
    lines = fine("log", "tail", "-n", "5", "--log", log).splitlines()
    assert len(lines) == 5
    assert "Checkpoint" in lines[-1]
    rows = [
        json.loads(line)
        for line in fine(
            "log", "tail", "-n", "1000", "--type", "ClaimMoved", "--format", "jsonl", "--log", log
        ).splitlines()
    ]
    assert {row["type"] for row in rows} == {"ClaimMoved"}
    assert rows[0]["to"] == "Pending"
    only = fine("log", "tail", "-n", "1000", "--stream", rows[0]["stream"], "--log", log)
    assert "New → Pending" in only
    assert "Checkpoint" not in only
    assert fine("log", "tail", "-n", "0", "--log", log) == ""


def test_the_tail_is_sentences_with_names_whatever_is_left_out(log: str, tmp_path: Path) -> None:
    moved = fine("log", "tail", "-n", "1000", "--type", "ClaimMoved", "--log", log).splitlines()
    assert any(
        line.endswith("claim default/train-1: Attached → Bound, pod default/train-1 runs on node0001") for line in moved
    )
    every = fine("log", "tail", "-n", "1000", "--log", log).splitlines()
    assert set(moved) <= set(every), "a sentence is the same among others"
    assert any("dds would promise GPU-" in line for line in every)
    assert any("claim default/train-1 asks for 1 of nvidia-a100-40" in line for line in every)
    assert not [line for line in every if '{"' in line and "LogOpened" not in line]
    file = str(tmp_path / "export.jsonl.gz")
    fine("log", "export", file, "--log", log)
    assert fine("log", "tail", "-n", "1000", file).splitlines() == every


def test_names_are_known_from_the_checkpoint_that_a_log_begins_with() -> None:
    cut = str(DATA / "logs" / "archived.log.jsonl.gz")
    lines = fine("log", "tail", cut, "-n", "1000", "--type", "ClaimMoved", "--type", "DeviceMoved").splitlines()
    uid = re.compile(r"(claim|device) [0-9a-f]{8}-")
    assert lines and not [line for line in lines if uid.search(line)]


def test_the_newest_of_a_type_are_found_however_far_back(log: str) -> None:
    every = fine("log", "tail", "-n", "1000", "--type", "ClaimMoved", "--log", log).splitlines()
    assert len(every) > 3
    for count in (1, 3, len(every)):
        newest = fine("log", "tail", "-n", str(count), "--type", "ClaimMoved", "--log", log).splitlines()
        assert newest == every[-count:]
    assert "LogOpened" in fine("log", "tail", "-n", "1", "--type", "logopened", "--log", log)
    assert fine("log", "tail", "--stream", "nobody", "--log", log) == ""


def test_a_type_that_does_not_exist_is_refused(log: str) -> None:
    assert "did you mean Alerted" in refused("log", "tail", "--type", "Alert", "--log", log)


def test_what_is_redacted_is_gone_and_the_chain_holds(log: str, tmp_path: Path) -> None:
    rows = [
        json.loads(line)
        for line in fine(
            "log", "tail", "-n", "1000", "--type", "PodObserved", "--format", "jsonl", "--log", log
        ).splitlines()
    ]
    position = str(rows[0]["position"])
    assert "nothing was chosen" in refused("log", "redact", "--log", log)
    assert "give --yes" in refused("log", "redact", "--position", position, "--log", log)
    assert "erased the data of 1 event " in fine("log", "redact", "--position", position, "--yes", "--log", log)
    assert "(erased)" in fine("log", "tail", "-n", "1000", "--log", log)
    assert "cannot be judged: data were erased" in fine("log", "verify", log)
    assert json.loads(fine("log", "verify", log, "--format", "json"))["unjudged"]
    assert "was erased" in fine("timeline", "default/train-1", log)
    file = str(tmp_path / "a.jsonl")
    fine("log", "export", file, "--log", log)
    assert "events in" in fine("log", "redact", "--stream", rows[0]["stream"], "--file", file, "--yes")


def test_an_anchor_holds_the_log_to_its_word(log: str, tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    anchor.write_text(fine("log", "anchor", "--log", log))
    assert "every decision" in fine("log", "verify", log, "--anchor", str(anchor))
    middle = json.loads(fine("log", "anchor", "--position", "20", "--log", log))
    assert middle["position"] == 20
    cut = str(tmp_path / "cut.jsonl")
    fine("log", "export", cut, "--until", "49", "--log", log)
    assert "the anchor's event is missing" in refused("log", "verify", cut, "--anchor", str(anchor), code=2)
    middle["hash"] = "00" * 32
    anchor.write_text(json.dumps(middle))
    assert "position 20: the hash is not the anchor's" in refused("log", "verify", log, "--anchor", str(anchor), code=2)
    anchor.write_text("no anchor")
    assert "it holds no anchors" in refused("log", "verify", log, "--anchor", str(anchor))
    assert "No such file" in refused("log", "verify", log, "--anchor", str(tmp_path / "none"))
    assert "it ends at position" in refused("log", "anchor", "--position", "9999", "--log", log)


def test_a_database_with_several_logs_asks_which(log: str) -> None:
    fine("log", "import", TWO_CLAIMS, "--log", log)
    assert "it holds 2 logs (first_attach/scaler, two_claims/scaler)" in refused("log", "verify", log)
    assert "every decision" in fine("log", "verify", log, "--name", "two_claims/scaler")
    assert "every decision" in fine("log", "verify", log, env={"DDS_LOG_NAME": "two_claims/scaler"})
    assert "it holds no log a/b" in refused("log", "verify", log, "--name", "a/b")


def test_a_recording_is_written_once_and_under_its_own_name(log: str) -> None:
    assert "already" in refused("log", "import", FIRST_ATTACH, "--log", log)
    assert "belongs to the cluster" in refused(
        "log", "import", TWO_CLAIMS, "--log", log, "--name", "first_attach/scaler"
    )
    assert "is no name of a log" in refused("log", "import", TWO_CLAIMS, "--log", log, "--name", "Bad Name")


def test_a_log_that_nobody_names_is_the_one_of_dds_serve(tmp_path: Path) -> None:
    here = {"XDG_STATE_HOME": str(tmp_path / "state")}
    path = tmp_path / "state" / "dds" / "scaler.sqlite3"
    assert f"{path} was brought from nothing to" in fine("db", "upgrade", env=here)
    assert "which this version of dds uses" in fine("db", "check", env=here)
    fine("log", "import", FIRST_ATTACH, "--log", str(path))
    for command in (["log", "tail"], ["log", "verify"], ["timeline", "default/train-1"], ["devices"], ["replay"]):
        assert fine(*command, env=here) == fine(*command, env={"DDS_LOG": str(path)})


def test_a_recording_is_no_log(log: str, tmp_path: Path) -> None:
    assert "one recording alone" in refused("log", "import", FIRST_ATTACH, TWO_CLAIMS, "--log", log)
    assert "dds log import to make a log of it" in refused("log", "verify", FIRST_ATTACH)
    assert "no source was named" in refused("log", "export", "x.jsonl", env={"XDG_STATE_HOME": str(tmp_path)})


def test_erasing_what_is_not_there_is_no_success(log: str) -> None:
    assert "nothing was erased" in refused("log", "redact", "--position", "99999", "--yes", "--log", log)
    assert "nothing was erased" in refused("log", "redact", "--stream", "nobody", "--yes", "--log", log)
