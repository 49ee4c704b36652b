"""`dds export`: forms and tables, where they go, and what is no source."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from dds_adapters.export import TABLES
from tests.support.commands import FIRST_ATTACH, RECORDINGS, dds, fine, log_of, refused
from tests.support.traces import decoded

BURST = str(RECORDINGS / "burst.jsonl.gz")
FORMS = ("csv", "otlp", "perfetto")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return log_of(FIRST_ATTACH, tmp_path_factory.mktemp("log"), "--checkpoint")


@pytest.mark.parametrize("form", FORMS)
def test_a_source_is_an_argument_or_an_option_and_the_output_a_file(form: str, log: str, tmp_path: Path) -> None:
    said = dds("export", log, "--format", form, "-o", "-").stdout_bytes
    assert said
    assert dds("export", "--log", log, "--format", form, "-o", "-").stdout_bytes == said
    assert dds("export", "--format", form, "-o", "-", env={"DDS_LOG": log}).stdout_bytes == said
    file, packed = tmp_path / "out", tmp_path / "out.gz"
    file.write_text("before")
    assert fine("export", log, "--format", form, "-o", str(file)) == ""
    fine("export", log, "--format", form, "-o", str(packed))
    assert file.read_bytes() == gzip.decompress(packed.read_bytes()) == said


def test_the_first_form_is_the_table_of_claims(log: str) -> None:
    (row,) = csv.DictReader(io.StringIO(fine("export", log), newline=""))
    assert (row["claim"], row["outcome"], row["attempts"]) == ("default/train-1", "bound", "2")
    assert fine("export", log) == fine("export", log, "--format", "csv", "--table", "claims")
    for name in TABLES:
        assert fine("export", log, "--table", name).splitlines()[0] == TABLES[name][0].replace(" ", ",")


def test_a_recording_and_the_log_of_it_tell_the_same(log: str) -> None:
    for name in TABLES:
        assert fine("export", log, "--table", name) == fine("export", FIRST_ATTACH, "--table", name)


def test_until_and_since(log: str) -> None:
    early = json.loads(fine("export", log, "--format", "otlp", "--until", "02:11:10"))
    spans = early["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert any(about["key"] == "dds.open" for one in spans for about in one["attributes"])
    assert "used" not in fine("export", log, "--table", "spans", "--until", "02:11:10")
    assert fine("export", log, "--since", "02:11:20") == fine("export", log), "what is not gone is told whole"
    assert "nothing has happened since" in refused("export", log, "--since", "02:12:20")
    assert "is after --until" in refused("export", log, "--since", "02:11:20", "--until", "02:11:10")


def test_cluster_is_that_of_the_log(log: str, tmp_path: Path) -> None:
    for source in (log, FIRST_ATTACH):
        line = json.loads(fine("export", source, "--format", "otlp"))
        about = {one["key"]: one["value"]["stringValue"] for one in line["resourceSpans"][0]["resource"]["attributes"]}
        assert about["k8s.cluster.name"] == "first_attach"


def test_what_does_not_go_together(log: str) -> None:
    assert "--table says nothing with --format otlp" in refused("export", log, "--format", "otlp", "--table", "use")
    assert "give -o FILE, or -o - for standard output" in refused("export", log, "--format", "perfetto")


@pytest.mark.parametrize("form", FORMS)
def test_what_cannot_be_read_leaves_no_file(form: str, tmp_path: Path) -> None:
    packed = Path(FIRST_ATTACH).read_bytes()
    cut, empty, file = tmp_path / "cut.jsonl.gz", tmp_path / "empty", tmp_path / "out"
    cut.write_bytes(packed[: len(packed) // 2])
    empty.write_bytes(b"")
    for source in (cut, empty, tmp_path / "none"):
        assert str(source) in refused("export", str(source), "--format", form, "-o", str(file))
    assert not file.exists()


def test_a_publishers_log_is_refused() -> None:
    kept = str(RECORDINGS.parent / "logs" / "fleet-6-publisher.log.jsonl.gz")
    said = refused("export", kept)
    assert "it is the log of a publisher; give the log of a scaler" in said


HOSTILE = ("=1+1", "<script>alert(1)</script>", "\u202egpu", "x" * 5000)


@pytest.mark.parametrize("name", HOSTILE, ids=["formula", "markup", "bidi", "long"])
def test_hostile_names_arrive_as_they_are_and_do_nothing(name: str, tmp_path: Path) -> None:
    recording = tmp_path / "hostile.jsonl"
    text = gzip.decompress(Path(FIRST_ATTACH).read_bytes()).decode()
    recording.write_text(text.replace('"train-1"', json.dumps(name)).replace('"default"', '"-d"'))
    rows = list(csv.DictReader(io.StringIO(fine("export", str(recording)), newline=""), strict=True))
    assert [row["claim"] for row in rows] == [f"'-d/{name}"]
    (line,) = fine("export", str(recording), "--format", "otlp").splitlines()
    assert json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"] == f"claim -d/{name}"
    trace = decoded(dds("export", str(recording), "--format", "perfetto", "-o", "-").stdout_bytes)
    assert {one.track for one in trace.slices if one.process == "claims"} == {f"-d/{name}"}


def test_a_damaged_text_is_refused(tmp_path: Path) -> None:
    """Half of a pair, which is no character and could not be written."""
    recording = tmp_path / "half.jsonl"
    text = gzip.decompress(Path(FIRST_ATTACH).read_bytes()).decode()
    recording.write_text(text.replace('"train-1"', '"\\ud800"'))
    assert "line 12: is damaged" in refused("export", str(recording))
