"""What every command that reads takes alike: its source, the form of its output, the file of its output."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import click
import pytest

from dds_core.lifecycle import CLAIM_STATES, DEVICE_STATES
from tests.cli.test_reference import ALL
from tests.support.commands import FIRST_ATTACH, RECORDINGS, dds, fine, log_of, refused

NO_SOURCE = {
    *(
        "serve",
        "publish",
        "autoscale",
        "db upgrade",
        "db current",
        "db check",
        "log import",
        "log archive",
        "log redact",
        "log repair",
    ),
    *("lab up", "lab run", "lab import", "lab record", "lab conform", "lab join", "lab leave", "completion"),
}
"""Commands that write, or whose subject is no source."""
SERVES = {"ui"}
"""It takes a source, and its output is a page that is served."""
SHOWS_OTHER_THINGS = {"doctor", "diagram", "lab check", "lab scenarios"}
"""They read no source; but what they show has a form, and a file."""
NOT_OURS = {"log export", "export"}
"""They write files for other programs, in these programs' forms."""

LEAVES = {path.removeprefix("dds "): command for path, command in ALL if not isinstance(command, click.Group)}


@pytest.mark.parametrize("path", sorted(LEAVES.keys() - NO_SOURCE))
def test_every_reader_takes_the_same(path: str) -> None:
    """A new command is a reader unless it is named above."""
    command = LEAVES[path]
    options = {name for one in command.params if isinstance(one, click.Option) for name in one.opts}
    forms = [one.type.choices for one in command.params if isinstance(one.type, click.Choice) and one.name == "form"]
    if path not in SERVES:
        assert {"-o", "--output"} <= options
    if path not in NOT_OURS | SERVES:
        assert {"--format", "--json"} <= options
        assert ["json" in one for one in forms] == [True]
    if path not in SHOWS_OTHER_THINGS:
        assert {"--log", "--name"} <= options
        arguments = [one for one in command.params if isinstance(one, click.Argument)]
        assert arguments[-1].nargs == -1 and "[SOURCE]..." in arguments[-1].make_metavar(click.Context(command))


READERS = (
    ("claims",),
    ("devices",),
    ("timeline", "default/train-1"),
    ("report",),
    ("incident",),
    ("status",),
    ("replay",),
    ("log", "verify"),
    ("log", "tail"),
    ("log", "anchor"),
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return log_of(FIRST_ATTACH, tmp_path_factory.mktemp("log"), "--checkpoint")


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
def test_a_source_is_an_argument_or_an_option(reader: tuple[str, ...], log: str) -> None:
    said = fine(*reader, log)
    assert said
    assert fine(*reader, "--log", log) == fine(*reader, env={"DDS_LOG": log}) == said
    assert fine(*reader, log, env={"DDS_LOG": "/nowhere.sqlite3"}) == said, "the argument counts first"
    assert json.loads(fine(*reader, log, "--json")) == json.loads(fine(*reader, log, "--format", "json", "--json"))


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
def test_the_output_goes_to_a_file(reader: tuple[str, ...], log: str, tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("what was there before")
    said = fine(*reader, log)
    assert fine(*reader, log, "-o", str(file)) == ""
    assert file.read_text() == fine(*reader, log, "-o", "-") == said
    packed = tmp_path / "out.gz"
    fine(*reader, log, "--json", "--output", str(packed))
    assert json.loads(gzip.decompress(packed.read_bytes())) == json.loads(fine(*reader, log, "--json"))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out", "out.gz"]


def test_two_forms_at_once_are_refused() -> None:
    assert "--json and --format table say different things" in refused(
        "claims", FIRST_ATTACH, "--json", "--format", "table"
    )
    assert "--json and --format jsonl" in refused("replay", FIRST_ATTACH, "--json", "--format", "jsonl")
    assert "'jsonl' is not one of 'table', 'json'" in refused("log", "verify", FIRST_ATTACH, "--format", "jsonl")


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    lines = gzip.decompress(Path(FIRST_ATTACH).read_bytes()).splitlines(keepends=True)
    broken.write_bytes(b"".join([*lines[:-3], b'{"ts": nonsense\n']))
    file = tmp_path / "out"
    assert "is damaged" in refused("replay", str(broken), "-o", str(file))
    assert not file.exists()
    file.write_text("before")
    assert "is damaged" in refused("replay", str(broken), "-o", str(file))
    assert file.read_text() == "before"
    assert {one.name for one in tmp_path.iterdir()} == {"broken.jsonl", "out"}


def test_a_place_that_cannot_be_is_refused(tmp_path: Path, log: str) -> None:
    assert f"{tmp_path}: it is a folder; name a file" in refused("claims", log, "-o", str(tmp_path))
    assert f"its folder is not there; make {tmp_path / 'none'} first" in refused(
        "claims", log, "-o", str(tmp_path / "none" / "out")
    )
    assert fine("claims", log, "-o", "/dev/null") == ""
    before = Path(log).read_bytes()
    link = tmp_path / "link"
    link.symlink_to(log)
    for place, args in (
        (log, (log,)),
        (str(link), ("--log", f"sqlite:///{log}")),
        (log, ()),
    ):
        said = refused("claims", *args, "-o", place, env={"DDS_LOG": log})
        assert "it is what is read, and would be lost; choose another name" in said
    assert Path(log).read_bytes() == before


def test_a_file_through_a_link_is_changed_there(tmp_path: Path, log: str) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    fine("claims", log, "-o", str(link))
    assert link.is_symlink() and target.read_text() == fine("claims", log)


def test_what_never_ends_is_no_file(log: str) -> None:
    assert "--follow never ends" in refused("log", "tail", log, "--follow", "-o", "out")
    assert "--watch never ends" in refused("status", log, "--watch", "-o", "out")


def test_a_verdict_is_written_before_it_is_given(tmp_path: Path) -> None:
    """What was found goes into the file; the exit code is the verdict."""
    file = tmp_path / "doctor.json"
    done = dds("doctor", "--kubeconfig", str(tmp_path / "none"), "--json", "-o", str(file))
    assert (done.exit_code, done.stdout) == (1, "")
    assert any(one["level"] == "error" for one in json.loads(file.read_text()))
    assert len(fine("diagram", "device", "--format", "jsonl").splitlines()) == len(
        json.loads(fine("diagram", "device", "--json"))
    )


def test_status_tells_of_every_source(log: str, tmp_path: Path) -> None:
    export = str(tmp_path / "export.jsonl.gz")
    fine("log", "export", export, "--log", log)
    found = {one: json.loads(fine("status", one, "--json")) for one in (log, export, FIRST_ATTACH)}
    same = ("log", "component", "cluster", "mode", "claims", "devices", "waiting", "alerts", "at", "live")
    for one in (export, FIRST_ATTACH):
        assert {key: found[one][key] for key in same} == {key: found[log][key] for key in same}
    assert found[export]["position"] == found[log]["position"] == found[FIRST_ATTACH]["position"] + 1  # the checkpoint
    assert "written from a recording" in fine("status", FIRST_ATTACH).splitlines()[0]


def test_status_tells_of_an_archive_and_the_rest(log: str, tmp_path: Path) -> None:
    own = log_of(FIRST_ATTACH, tmp_path, "--checkpoint")
    archive = str(tmp_path / "old.jsonl.gz")
    whole = json.loads(fine("status", own, "--json", "--news", "0"))
    fine("log", "archive", archive, "--log", own)
    for sources in ((archive, own), (archive,), (own,)):
        found = json.loads(fine("status", *sources, "--json", "--news", "0"))
        assert {**found, "epoch_at": None} == {**whole, "epoch_at": None}


def test_a_log_is_exported_from_where_it_is_named(log: str, tmp_path: Path) -> None:
    old, new, archive, joined = (str(tmp_path / name) for name in ("a.jsonl", "b.jsonl", "old.gz", "c.jsonl"))
    said = fine("log", "export", old, "--log", log)
    assert fine("log", "export", "-o", new, log) == said.replace(old, new)
    assert Path(new).read_bytes() == Path(old).read_bytes()
    piped = dds("log", "export", "-o", "-", log)
    assert (piped.stdout_bytes, piped.exit_code) == (Path(old).read_bytes(), 0)
    assert "exported log first_attach/scaler" in piped.stderr
    own = log_of(FIRST_ATTACH, tmp_path, "--checkpoint")
    fine("log", "archive", archive, "--log", own)
    fine("log", "export", "-o", joined, archive, own)
    assert "every decision" in fine("log", "verify", joined)
    assert json.loads(fine("log", "anchor", joined))["position"] == json.loads(fine("log", "anchor", log))["position"]
    assert "it is there already" in refused("log", "export", "-o", old, log)
    assert "name the new file" in refused("log", "export", old, new, "--log", log)


def test_a_file_is_read_as_a_log_by_the_commands_of_a_log(log: str, tmp_path: Path) -> None:
    export = str(tmp_path / "export.jsonl")
    fine("log", "export", export, "--log", log)
    for reader in (("log", "tail", "-n", "7"), ("log", "anchor"), ("log", "anchor", "--position", "12")):
        assert fine(*reader, export) == fine(*reader, log)
    assert "nothing is appended to a file" in refused("log", "tail", "--follow", export)
    assert "a recording is no log; use dds replay" in refused("log", "tail", FIRST_ATTACH)


def test_a_replay_reads_a_log_where_no_source_is_named(log: str) -> None:
    assert fine("replay", "--log", log) == fine("replay", log)
    assert fine("replay", FIRST_ATTACH, env={"DDS_LOG": log}) == fine("replay", FIRST_ATTACH)


@pytest.mark.parametrize(("command", "first"), [("claims", "claim"), ("devices", "device")])
def test_rows_are_sorted_and_limited(command: str, first: str, tmp_path: Path) -> None:
    args = (command, log_of(str(RECORDINGS / "burst.jsonl.gz"), tmp_path), "--at", "400")
    whole = json.loads(fine(*args, "--json"))
    assert len(whole) > 8
    orders = {"name": first, "since": "since", "node": "node", "state": "state"}
    for order, field in orders.items():
        rows = json.loads(fine(*args, "--json", "--sort", order))
        states = CLAIM_STATES if command == "claims" else DEVICE_STATES
        rank = states.index if field == "state" else str
        assert [row[field] for row in rows] == sorted((row[field] for row in whole), key=rank)
        turned = json.loads(fine(*args, "--json", "--sort", order, "--reverse"))
        assert turned == rows[::-1] != rows
    rest = f"… and {len(whole) - 5} more: --limit 0"
    assert fine(*args, "--limit", "5").splitlines()[-1] == rest
    limited = dds(*args, "--limit", "5", "--sort", "since", "--format", "jsonl")
    assert [json.loads(line)["since"] for line in limited.stdout.splitlines()] == sorted(r["since"] for r in whole)[:5]
    assert limited.stderr == f"dds: {rest}\n"
    assert fine(*args, "--limit", "0") == fine(*args) == fine(*args, "--limit", str(len(whole)))
